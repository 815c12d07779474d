"""What is asked of servers that are being killed, or are others than thought: an error that a look
survives, whatever comes back. And what takes their points away."""

import contextlib
import functools
import http.client
import json
import pickle
import socket
import struct
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from loads import load_spec

from kairoscope import paths
from kairoscope.cli import known
from kairoscope.deploy.verify import access
from kairoscope.errors import UserError
from kairoscope.hosts import prometheus
from kairoscope.hosts.forwards import Ways
from kairoscope.hosts.inventory import Host
from kairoscope.run_folder import JsonLines
from kairoscope.stacks import asked, single_session
from kairoscope.stacks.gnocchi import probes
from kairoscope.stacks.graphite import cache, files
from kairoscope.stacks.kairosdb.servers.client import Client
from kairoscope.stacks.told import Told
from loaders.schedule.due import Schedule
from loaders.sink.process import SinkProcess

BY_HTTP = ["gnocchi", "influxdb", "questdb", "victoriametrics"]


@contextlib.contextmanager
def saying(answer: bytes) -> Iterator[Host]:
    """A server that says the same to everybody, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    port = listener.getsockname()[1]
    listens = {"HTTP": port, "metrics": port}
    try:
        given = {"address": "127.0.0.1", "http_port": port, "listens": listens, "home": "/nowhere"}
        yield Host("x-1", "kairosdb", given)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def answer(document: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(document)}\r\n\r\n{document}".encode()


HALF = b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"a": 1'


@pytest.mark.parametrize("said", [HALF, b"SSH-2.0-OpenSSH\r\n\r\n", b""])
def test_half_an_answer_and_one_of_another_protocol_did_not_come(said: bytes) -> None:
    with saying(said) as host:
        with pytest.raises(OSError):
            asked.get(host.url)
        with pytest.raises(OSError):
            probes.measure(host, {})
    assert not issubclass(http.client.IncompleteRead, OSError)


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment, as in companies' networks, that knows no way to this machine."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for excepted in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(excepted, raising=False)
    # What urlopen keeps of the environment that it found first.
    monkeypatch.setattr(urllib.request, "_opener", None)


def test_our_own_servers_are_not_asked_by_the_environments_proxy(proxied: None) -> None:
    with saying(answer("{}")) as host:
        assert asked.get(host.url) == b"{}"
        assert asked.send("POST", host.url, {}) == b"{}"
        client = Client()
        assert client.get_json(host, "/") == {}
        context: Any = SimpleNamespace(client=client)
        assert access._status(context, host, {}) == 200
        get = [sys.executable, "-c", prometheus._GET, host.url]
        assert subprocess.run(get, capture_output=True, check=True, timeout=30).stdout == b"{}"
    with SinkProcess() as sink:
        sink.stall(0)
        assert sink.stats()["requests"] == 0
    for path in paths.ANSIBLE.glob("roles/*/tasks/**/*.yml"):
        for task in yaml.safe_load(path.read_text()):
            assert task.get("ansible.builtin.uri", {"use_proxy": False})["use_proxy"] is False


def asking(server: Any, host: Host) -> dict[str, Any]:
    """All that a run asks of a server and takes apart."""
    schedule = Schedule(load_spec(metric="temp", tags={"sensor": "{n}"}))
    return {
        "version": functools.partial(server.version, host),
        "trouble": functools.partial(server.trouble, host),
        "counters": functools.partial(server.counters, host),
        "waiting": functools.partial(server.waiting, host),
        "count": functools.partial(server.count, host, schedule),
        "read": lambda: list(server.read(host, schedule)),
    }


@pytest.mark.parametrize("name", BY_HTTP)
@pytest.mark.parametrize(
    "document",
    ["[]", "{}", "null", "7", '{"dataset":[]}', '{"results":[{"series":[{}]}]}', '{"data":null}'],
)
def test_json_of_another_form_is_no_bug_of_ours(name: str, document: str) -> None:
    stack: Any = known.stack(name)
    with saying(answer(document)) as host:
        for ask in asking(stack.server, host).values():
            with contextlib.suppress(OSError, ValueError):
                ask()


def test_a_server_that_is_killed_in_its_answer_ends_no_sampler(tmp_path: Path) -> None:
    stack: Any = known.stack("gnocchi")
    events = JsonLines(tmp_path / "queue.jsonl")
    for said in (HALF, answer("{}")):
        with saying(said) as host:
            single_session.Waiting(stack.server, host, events).look()
            told = Told(acknowledgement="", bytes_per_point=1, memory_mib=1)
            session = single_session.Session("x", stack.server, host, told, Ways(), "measures")
            with pytest.raises(UserError, match=r"x-1 at .*no whole answer|an unknown form"):
                session.check_ready()
    lines = [json.loads(line) for line in (tmp_path / "queue.jsonl").read_text().splitlines()]
    assert [line["error"].partition(":")[0] for line in lines] == [
        "no whole answer",
        "an answer of an unknown form",
    ]


def test_half_an_answer_of_carbons_is_none() -> None:
    another = pickle.dumps({"datapointsByMetric": [1]}, protocol=2)
    told = struct.pack("!L", len(another)) + another
    for said in (b"\0\0\0\x63xx", b"\0\0\0\1.", b"\0\0\0\2N.", b"\0\0\0\4K\1K\2", told):
        with saying(said) as host, pytest.raises((OSError, ValueError)):
            cache.points((host.address, host.vars["http_port"]), ["a"])


# Empty


def test_questdb_answers_what_drops_its_tables_without_rows() -> None:
    stack: Any = known.stack("questdb")
    with saying(answer('{"ddl":"OK"}')) as host:
        stack.server.empty(host)
        with pytest.raises(ValueError, match="unknown form: KeyError: 'dataset'"):
            stack.server.waiting(host)


def test_gnocchi_is_emptied_where_its_resource_is_gone_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack: Any = known.stack("gnocchi")
    did: list[str] = []
    status = 404

    def send(method: str, url: str, document: Any = None) -> bytes:
        did.append(method)
        if method == "DELETE":
            raise asked.RefusedError(status, "x")
        return b""

    monkeypatch.setattr(asked, "send", send)
    host = Host("x-1", "kairosdb", {"address": "127.0.0.1", "http_port": 1})
    stack.server.empty(host)
    assert did == ["DELETE", "POST"]
    status = 503
    with pytest.raises(OSError, match="x"):
        stack.server.empty(host)
    assert did == ["DELETE", "POST", "DELETE"]


def test_files_of_metrics_without_tags_are_removed_too(tmp_path: Path) -> None:
    given = {"address": "127.0.0.1", "home": str(tmp_path), "ansible_connection": "local"}
    host = Host("x-1", "kairosdb", given)
    there = tmp_path / "data" / "whisper"
    for name in ("carbon/agents/a.wsp", "temp/sensor/1.wsp", "t-1.wsp"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).touch()
    files.remove(host)
    assert [path.name for path in there.iterdir()] == ["carbon"]


@pytest.mark.parametrize("name", BY_HTTP)
def test_what_cannot_be_emptied_is_said_in_a_sentence(name: str) -> None:
    stack: Any = known.stack(name)
    told = Told(acknowledgement="", bytes_per_point=1, memory_mib=1)
    with saying(b"HTTP/1.1 500 Broken\r\nContent-Length: 3\r\n\r\nwhy") as host:
        session = single_session.Session(name, stack.server, host, told, Ways(), "line")
        with pytest.raises(UserError, match=r"x-1 could not be emptied: .*HTTP 500: why"):
            session.empty()
