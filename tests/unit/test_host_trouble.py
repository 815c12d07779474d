"""What happens to hosts by ssh: which of their processes, whose packets, and what is refused."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from harness import wait_for

from kairoscope.errors import UserError
from kairoscope.hosts import host_trouble, ssh
from kairoscope.hosts.inventory import Host


def host(name: str, **more: Any) -> Host:
    role, _, number = name.rpartition("-")
    last = {"storage": 10, "kairosdb": 20, "loader": 30}[role] + int(number)
    given = {"address": f"192.0.2.{last}", "unit": role, "managed": True} | more
    return Host(name, role, given)


STORAGE = [host(f"storage-{i}") for i in (1, 2, 3)]
EVERYONE = [*STORAGE, host("kairosdb-1"), host("loader-1")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, list[str]]]]:
    """What was run on which host; nothing is."""
    told: list[tuple[str, list[str]]] = []

    def run(host: Host, program: list[str], **_: Any) -> str:
        told.append((host.name, program))
        return f"boot {len(told)}"

    monkeypatch.setattr(ssh, "run", run)
    yield told


@pytest.mark.parametrize("action", host_trouble.LEVERS)
def test_whatever_is_run_is_a_script_that_a_shell_reads(
    action: str, asked: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_trouble, "_POLL_S", 0.0)
    host_trouble.begin(action, [STORAGE[1]], EVERYONE, 5)
    host_trouble.undo(action, [STORAGE[1]])
    assert {name for name, _ in asked} == {"storage-2"}
    for _, program in asked:
        assert program[0] == "sh"
        subprocess.run(["sh", "-n", "-c", program[2]], check=True)
    if action != "restart":
        # Undone by itself, should this machine end: not before its time.
        (after,) = {a for _, p in asked for a in re.findall(r"--on-active=(\d+)", p[2])}
        assert int(after) >= 60 + 5


def test_a_host_of_several_servers_loses_all_of_them(asked: list[tuple[str, list[str]]]) -> None:
    several = host("storage-1", processes={"cache": "storage", "relay": "kairosdb"})
    host_trouble.begin("kill", [several], EVERYONE, 0)
    assert [program[4] for _, program in asked] == ["storage-cache", "storage-relay"]


def test_what_went_wrong_is_said_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(host: Host, program: list[str], **_: Any) -> str:
        if host.name == "storage-2":
            return ""
        raise ssh.RemoteError(f"{host.name}: sh …", "storage does not run")

    monkeypatch.setattr(ssh, "run", run)
    with pytest.raises(UserError) as told:
        host_trouble.begin("freeze", STORAGE, EVERYONE, 1)
    assert told.value.message == (
        "storage-1: storage does not run; storage-3: storage does not run"
    )


def rules(hosts: Sequence[Host], asked: list[tuple[str, list[str]]]) -> dict[str, str]:
    host_trouble.begin("partition", hosts, EVERYONE, 1)
    return {name: program[2] for name, program in asked}


def test_a_group_is_parted_from_others_and_not_from_itself(
    asked: list[tuple[str, list[str]]],
) -> None:
    found = rules(STORAGE[:2], asked)
    assert set(found) == {"storage-1", "storage-2"}
    for text in found.values():
        assert "192.0.2.11" not in text
        assert "192.0.2.12" not in text
        assert "ip saddr { 192.0.2.13, 192.0.2.21, 192.0.2.31 } drop" in text
        assert "ip daddr { 192.0.2.13, 192.0.2.21, 192.0.2.31 } drop" in text
        assert text.index("tcp dport 22 accept") < text.index("drop")
        assert "ip6" not in text


def test_a_partition_leaves_ssh_and_its_own_address_open(
    asked: list[tuple[str, list[str]]],
) -> None:
    two_on_one = [
        host("storage-1", address="2001:db8::1", ansible_port=2222),
        host("loader-1", address="2001:db8::1"),
        host("kairosdb-1", address="2001:db8::2"),
    ]
    host_trouble.begin("partition", two_on_one[:1], two_on_one, 1)
    ((_, program),) = asked
    assert "tcp dport 2222 accept" in program[2]
    assert "ip6 saddr { 2001:db8::2 } drop" in program[2]
    assert "2001:db8::1" not in program[2]


def test_this_machine_is_not_rebooted(asked: list[tuple[str, list[str]]]) -> None:
    here = host("storage-1", ansible_connection="local")
    with pytest.raises(UserError, match="storage-1 is this machine"):
        host_trouble.begin("restart", [here, STORAGE[1]], EVERYONE, 0)
    assert asked == []


def test_a_host_that_does_not_come_back(
    asked: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_trouble, "_BOOT_S", 0.0)
    with pytest.raises(UserError, match="it is not back 0 s after it was told to reboot"):
        host_trouble.begin("restart", STORAGE[:1], EVERYONE, 0)


def test_of_a_loader_host_its_load_is_found_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: Host, program: list[str], **__: Any) -> str:
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ssh.RemoteError("failed", done.stderr.strip())
        return done.stdout

    monkeypatch.setattr(ssh, "run", run)
    # This machine may have no systemd; see test_lab_own_hosts.
    monkeypatch.setattr(host_trouble, "_UNDONE_BY_ITSELF", "")
    sleep = "import time; time.sleep(60)"
    mine, other = (tmp_path / name for name in ("loader+1", "loader+10"))
    started = [
        subprocess.Popen([sys.executable, "-c", sleep, "-m", "loaders.host", f"{home}/load"])
        for home in (mine, other)
    ]
    loader = host("loader-1", home=str(mine))
    try:
        host_trouble.begin("freeze", [loader], EVERYONE, 1)
        wait_for("the load to stand still", lambda: _state(started[0]) == "T", 10)
        assert _state(started[1]) != "T"
        host_trouble.undo("freeze", [loader])
        wait_for("the load to go on", lambda: _state(started[0]) != "T", 10)
        host_trouble.begin("kill", [loader], EVERYONE, 0)
        assert started[0].wait(10) == -9
        assert started[1].poll() is None
        with pytest.raises(UserError, match="loader-1: its load is not under way"):
            host_trouble.begin("kill", [loader], EVERYONE, 0)
        host_trouble.undo("kill", [loader])
        host_trouble.undo("freeze", [loader])
    finally:
        for process in started:
            process.kill()
            process.wait()


def _state(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]
