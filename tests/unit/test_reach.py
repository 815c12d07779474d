"""Ways to servers through SSH forwards, and programs on hosts, with the real ssh client."""

import http.server
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from ssh_server import SshServer

from kairoscope.deploy import preflight
from kairoscope.errors import UserError
from kairoscope.hosts import forwards
from kairoscope.hosts import ssh as remote
from kairoscope.hosts.inventory import Host, Inventory

REMOTE = "127.77.3.1"  # where only the other end of a forward connects to


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshServer]:
    with SshServer(tmp_path / "server") as server:
        yield server


@pytest.fixture
def kairosdb(ssh: SshServer) -> Iterator[Host]:
    with http.server.ThreadingHTTPServer((REMOTE, 0), _Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        variables = ssh.variables() | {"address": REMOTE, "http_port": server.server_port}
        yield Host("kairosdb-1", "kairosdb", variables)
        server.shutdown()


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
        found: int = answer.status
        return found


def test_a_way_leads_to_the_server_and_is_mended(ssh: SshServer, kairosdb: Host) -> None:
    with forwards.open_ways([kairosdb]) as ways:
        url = ways.url(kairosdb)
        assert url.startswith("http://127.0.0.1:")
        assert status(url) == 204
        ssh.drop()
        deadline = time.monotonic() + 60
        while True:
            try:
                assert status(url) == 204
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
    with pytest.raises(OSError):
        status(url)


def test_a_way_stands_whatever_ssh_says(ssh: SshServer, kairosdb: Host) -> None:
    """It says a line for each connection that the host refuses; here enough for each."""
    told = ssh.variables(LogLevel="DEBUG3")["ansible_ssh_common_args"]
    host = Host(kairosdb.name, "kairosdb", {**kairosdb.vars, "ansible_ssh_common_args": told})
    with forwards.open_ways([host]) as ways:
        for _ in range(100):
            assert status(ways.url(host)) == 204


def test_ways_to_all_that_a_host_listens_on(ssh: SshServer, kairosdb: Host) -> None:
    with socket.create_server((REMOTE, 0)) as more:
        own = more.getsockname()[1]
        listens = {"REST": kairosdb.vars["http_port"], "figures": own}
        host = Host(kairosdb.name, "kairosdb", {**kairosdb.vars, "listens": listens})
        with forwards.open_ways([host]) as ways:
            assert status(ways.url(host)) == 204
            assert ways.endpoint(host, own) != (REMOTE, own)
            with socket.create_connection(ways.endpoint(host, own), timeout=10):
                more.settimeout(10)
                more.accept()[0].close()


def test_a_local_host_needs_no_way() -> None:
    host = Host(
        "kairosdb-1",
        "kairosdb",
        {"ansible_connection": "local", "address": "127.0.0.9", "http_port": 8080, "secured": True},
    )
    with forwards.open_ways([host]) as ways:
        assert ways.url(host) == "https://127.0.0.9:8080"
        assert ways.endpoint(host) == ("127.0.0.9", 8080)


def test_a_host_that_ssh_does_not_reach(ssh: SshServer, kairosdb: Host) -> None:
    ssh.stop()
    with (
        pytest.raises(UserError, match="kairosdb-1") as caught,
        forwards.open_ways([kairosdb]),
    ):
        pass
    assert "not reached by ssh: ssh: connect to host 127.0.0.1" in caught.value.message


def test_a_program_on_a_host(ssh: SshServer, kairosdb: Host) -> None:
    assert remote.run(kairosdb, ["echo", "a b", "$HOME"]) == "a b $HOME\n"
    assert remote.run(kairosdb, ["cat"], stdin="said") == "said"
    with pytest.raises(remote.RemoteError, match=r"kairosdb-1: sh -c .*: no such thing"):
        remote.run(kairosdb, ["sh", "-c", "echo no such thing >&2; exit 3"])
    with pytest.raises(remote.RemoteError, match="exit status 4"):
        remote.run(kairosdb, ["sh", "-c", "exit 4"])


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sudo as it is where the login may not."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sudo").write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    (tools / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")


def test_what_is_on_a_host_is_known_only_by_its_answer(
    ssh: SshServer, kairosdb: Host, locked: None
) -> None:
    (ssh.home / "a b").mkdir()
    assert remote.look_for(kairosdb, f"{ssh.home}/a b") == remote.Looked(True)
    assert remote.look_for(kairosdb, f"{ssh.home}/a") == remote.Looked(False)
    # Its exit status is that of a `test` which found nothing.
    managed = Host(kairosdb.name, "kairosdb", kairosdb.vars | {"managed": True})
    found = remote.look_for(managed, f"{ssh.home}/a b")
    assert found.there is None
    assert "kairosdb-1: " in found.why and "a password is required" in found.why
    ssh.stop()
    found = remote.look_for(kairosdb, f"{ssh.home}/a b")
    assert found.there is None
    assert "ssh failed" in found.why


@pytest.mark.parametrize(
    ("said", "there"),
    [("Welcome, no visitors\nyes\n", True), ("yes, welcome\nno\n", False), ("", None), ("?", None)],
)
def test_what_a_host_says_beside_is_no_answer(
    said: str, there: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "run", lambda *_, **__: said)
    found = remote.look_for(Host("storage-1", "storage", {}), "/x")
    assert found.there is there
    assert bool(found.why) is (there is None)


def test_login_is_checked_before_a_deploy(
    ssh: SshServer, kairosdb: Host, tmp_path: Path, locked: None
) -> None:
    def problem(**more: object) -> str:
        host = Host(kairosdb.name, "loader", kairosdb.vars | more)
        with pytest.raises(UserError) as caught:
            preflight.check_login(Inventory(tmp_path, [], [], [host]))
        return caught.value.message

    preflight.check_login(Inventory(tmp_path, [], [kairosdb], []))
    tools = tmp_path / "tools"
    said = problem(managed=True)
    assert "kairosdb-1" in said
    assert "NOPASSWD" in said
    (tools / "python3").write_text("#!/bin/sh\necho 3 9\n")
    (tools / "python3").chmod(0o755)
    assert "its python3 is 3.9, 3.11 or newer is needed" in problem(managed=False)
    ssh.stop()
    assert "not reached by ssh" in problem()


def test_a_host_that_stands_still_says_nothing_of_how_it_is_reached(
    ssh: SshServer, kairosdb: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of it is kept in run folders, and its line may have a password."""
    args = f"{kairosdb.vars.get('ansible_ssh_common_args', '')} -o SetEnv=JUMP=hunter2"
    host = Host(kairosdb.name, "kairosdb", kairosdb.vars | {"ansible_ssh_common_args": args})
    with pytest.raises(remote.RemoteError) as error:
        remote.run(host, ["sleep", "20"], timeout_s=0.5)
    assert str(error.value) == "kairosdb-1: sleep 20: no answer within 0.5 s"

    run = remote.run

    def stuck(asked: Host, *_: object, **__: object) -> str:
        return run(asked, ["sleep", "20"], timeout_s=0.5)

    # As one that is just being made, and not as one whose sudo refuses.
    monkeypatch.setattr(remote, "run", stuck)
    there = Inventory(Path("/nowhere"), [], [host], [])
    with pytest.raises(UserError, match="not reached by ssh: no answer within"):
        preflight.check_login(there, 0)
