"""What KairosDB nodes say of their queues, and what becomes of it."""

import contextlib
import io
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from kairoscope import paths
from kairoscope.deploy.operate import drain
from kairoscope.deploy.verify import kairosdb
from kairoscope.deploy.verify.context import Context
from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.supervisor import Process
from kairoscope.stacks.kairosdb import status
from kairoscope.stacks.kairosdb.servers import client
from kairoscope.stacks.kairosdb.servers.client import NO_ANSWER, Client, KairosDBStatus

HOST = Host("kairosdb-1", "kairosdb", {"address": "127.0.0.1", "http_port": 8080})
HERE = Inventory(Path("/nowhere"), [], [HOST], [])
STOCK = {"waiting": 3, "since_checkpoint": 5}
OURS = STOCK | {
    "oldest_ms": 12_345,
    "disk_bytes": 52_428_800,
    "dead_letters": 2,
    "unreadable": 0,
    "healthy": True,
    "troubles": [],
}
FULL = "The disk has 12 MB left, and the queue takes nothing below 300 MB."


class Node(Client):
    """A KairosDB node that says these things; its health check answers or not."""

    def __init__(self, queue: dict[str, Any] | None, *, healthy: bool = True) -> None:
        super().__init__()
        object.__setattr__(self, "queue", queue)
        object.__setattr__(self, "healthy", healthy)

    def get(self, host: Host, path: str, timeout_s: float = 5) -> bytes:
        assert path.endswith("/health/check")
        if not self.healthy:  # type: ignore[attr-defined]
            raise OSError("HTTP Error 500")
        return b""

    def get_json(self, host: Host, path: str, timeout_s: float = 5) -> Any:
        queue = self.queue  # type: ignore[attr-defined]
        if queue is None:
            raise OSError("refused")
        if path.endswith("/queue"):
            return queue
        ours = "oldest_ms" in queue
        name = "io.kairoscope.Q" if ours else "org.kairosdb.core.queue.FileQueueProcessor"
        return {"read_only": False, "settings": {"kairosdb.queue_processor.class": name}}


def said(found: KairosDBStatus) -> tuple[bool, str]:
    text = io.StringIO()
    console = Console(file=text, width=300, highlight=False)
    return status.queues(HERE, {HOST.name: found}, console), text.getvalue()


def test_a_node_that_is_well() -> None:
    found = Node(OURS).kairosdb(HOST)
    assert found == KairosDBStatus(True, 3, 5, False, False, 12_345, 52_428_800, 2, 0, ())
    well, text = said(found)
    assert well
    assert "12.3 s" in text
    assert "52.4 MB" in text
    assert "kairosdb-1: points that it took are not in the store: kairoscope queue inspect" in text


def test_the_stock_queue_does_not_tell_everything() -> None:
    found = Node(STOCK).kairosdb(HOST)
    assert found == KairosDBStatus(True, 3, 5, False, True)
    assert said(found)[0]


@pytest.mark.parametrize("by_check", [True, False])
def test_a_queue_in_trouble_says_why_whatever_the_health_check_says(by_check: bool) -> None:
    queue = OURS | {"healthy": False, "troubles": [FULL]}
    found = Node(queue, healthy=by_check).kairosdb(HOST)
    assert (found.healthy, found.waiting, found.troubles) == (False, 3, (FULL,))
    well, text = said(found)
    assert not well
    assert f"kairosdb-1: {FULL}" in text


def test_a_failing_health_check_alone_is_enough() -> None:
    assert not Node(OURS, healthy=False).kairosdb(HOST).healthy


def test_no_answer() -> None:
    assert Node(None).kairosdb(HOST) == NO_ANSWER
    assert not NO_ANSWER.answers
    well, text = said(NO_ANSWER)
    assert not well
    assert " no " in text


def drained(monkeypatch: pytest.MonkeyPatch, queue: dict[str, Any] | None, **how: bool) -> str:
    node = Node(queue, healthy=how.pop("healthy", True))
    monkeypatch.setattr(client, "connect", lambda *_: contextlib.nullcontext(node))
    return drain.wait(HOST, HERE, 0, **how)


def test_a_node_that_is_not_healthy_is_drained_all_the_same(monkeypatch) -> None:
    empty = OURS | {"waiting": 0}
    assert drained(monkeypatch, empty, healthy=False, for_good=True) == "drained"
    assert drained(monkeypatch, None, for_good=False) == "it does not answer"
    left = drained(monkeypatch, OURS, healthy=False, for_good=False)
    assert left == "3 points wait, 5 since its checkpoint"
    with pytest.raises(UserError, match="3 points wait"):
        drained(monkeypatch, OURS, healthy=False, for_good=True)


@pytest.mark.parametrize(
    ("queue", "healthy", "found"),
    [
        (OURS | {"dead_letters": 0}, True, ["healthy", "none"]),
        (OURS, True, ["healthy", "2 refused by the store; see: kairoscope queue inspect"]),
        (
            OURS | {"healthy": False, "troubles": [FULL], "dead_letters": 0, "unreadable": 7},
            False,
            [FULL, "7 unreadable; see: kairoscope queue inspect"],
        ),
        (STOCK, True, ["healthy", "none"]),
        (None, True, ["not healthy", "does not tell"]),
    ],
)
def test_verify(queue: dict[str, Any] | None, healthy: bool, found: list[str]) -> None:
    here: Any = None
    context = Context("local", HERE, here, {HOST.name}, Node(queue, healthy=healthy))
    findings = [*kairosdb.healthy(context, "health"), *kairosdb.given_up(context, "given up")]
    assert [one.found for one in findings] == found
    for one in findings:
        assert (one.outcome.value == "ok") == (one.found in ("healthy", "none"))


def told_nft(file: str) -> dict[str, Any]:
    """What the first task of a file of the role `drain` has nft do."""
    tasks = yaml.safe_load((paths.ANSIBLE / "roles" / "drain" / "tasks" / file).read_text())
    found: dict[str, Any] = tasks[0]["ansible.builtin.command"]
    assert found["argv"][0] == "nft"
    return found


def shut_by() -> str:
    """The table by which the role keeps senders out, as `nft list tables` has it."""
    # It is declared, ended if it was there before, and made.
    found = re.findall(r"table \w+ \w+", told_nft("main.yml")["stdin"])
    assert found == [found[0]] * 3
    return str(found[0])


def test_the_table_that_keeps_senders_out_is_the_one_that_goes() -> None:
    """To end one that is not there is no failure: the other would stay."""
    assert told_nft("open.yml")["argv"] == ["nft", "delete", *shut_by().split()]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("table inet kairoscope\n", ""),
        ("table inet kairoscope\n{shut_by}\n", "takes no points, by a drain"),
        (None, "whether it takes points is not known: kairosdb-1: nft"),
    ],
)
def test_one_that_a_drain_keeps_shut_is_not_well(monkeypatch, tables, said) -> None:
    """It looks healthy to whoever asks over its loopback."""

    def run(host: Host, program: list[str], **_: Any) -> str:
        if tables is None:
            raise ssh.RemoteError(f"{host.name}: {program[0]}: no answer")
        return str(tables.format(shut_by=shut_by()))

    host = Host("kairosdb-1", "kairosdb", HOST.vars | {"managed": True})
    here = Inventory(Path("/nowhere"), [], [host], [])
    monkeypatch.setattr(ssh, "run", run)
    monkeypatch.setattr(client, "connect", lambda *_: contextlib.nullcontext(Node(OURS)))
    text = io.StringIO()
    states = {"kairosdb-1": Process("kairosdb-1", "RUNNING", 7, 0.0)}
    well = status.show(here, states, Console(file=text, width=200))
    assert well == (not said)
    assert said in text.getvalue()


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ("", ""),
        ("DN  10.0.0.9  1 GiB  16  ?  x  rack1\n", "ring: 10.0.0.9 DN, 10.0.0.9 not in the"),
        ("UN  10.0.0.9  1 GiB  16  ?  x  rack1\n", "ring: 10.0.0.9 not in the inventory"),
    ],
)
def test_a_ring_with_a_node_too_many_is_not_well(monkeypatch, others, said) -> None:
    """One that was not decommissioned owns a part of the points."""
    addresses = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    storage = [Host(f"storage-{n}", "storage", {"address": a}) for n, a in enumerate(addresses)]
    ring = "Datacenter: dc1\n" + "".join(f"UN  {a}  1 GiB  16  ?  x  r\n" for a in addresses)
    monkeypatch.setattr(status.nodetool, "run", lambda *_: ring + others)
    monkeypatch.setattr(client, "connect", lambda *_: contextlib.nullcontext(None))
    text = io.StringIO()
    here = Inventory(Path("/nowhere"), storage, [], [])
    assert status.show(here, {}, Console(file=text, width=200)) == (not said)
    assert said in text.getvalue()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"SSH\r\n\r\n"]
)
def test_a_node_that_dies_while_it_answers_does_not_answer(answer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def one() -> None:
            connected, _ = server.accept()
            with connected:
                connected.recv(4096)
                connected.sendall(answer)

        answering = threading.Thread(target=one)
        answering.start()
        host = Host("kairosdb-1", "kairosdb", HOST.vars | {"http_port": server.getsockname()[1]})
        with pytest.raises(OSError, match="kairosdb-1: /x: "):
            Client().get(host, "/x")
        answering.join()
