"""A KairosDB node that was taken away while a load ran on it."""

import json
from pathlib import Path

import pytest

from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.kairosdb.captures.queue_depth import QueueDepth
from kairoscope.stacks.kairosdb.given_up import failed_logs, removed_nodes

HOST = Host("kairosdb-2", "kairosdb", {"home": "/var/lib/kairoscope/kairosdb-2"})
OTHER = Host("kairosdb-1", "kairosdb", {})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))


def answers(monkeypatch: pytest.MonkeyPatch, logs: dict[str, str]) -> None:
    """The host lists and hands out these logs."""

    def run(host: Host, program: list[str], **_: object) -> str:
        return logs[program[1]] if program[0] == "cat" else "\n".join(logs)

    monkeypatch.setattr(failed_logs.ssh, "run", run)


def test_what_it_had_given_up_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = {"/logs/failed.log": "one\n", "/logs/failed.2.log": "two\n"}
    answers(monkeypatch, {**logs, "/queue/dead_letters.jsonl": "{}\n"})
    kept = removed_nodes.keep("lab", HOST)
    assert removed_nodes.given_up("lab", HOST) == sorted(kept)
    assert sorted(path.read_text() for path in kept) == ["one\n", "two\n", "{}\n"]
    assert removed_nodes.given_up("lab", OTHER) == []


def test_it_is_gone_for_what_began_before(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, {})
    assert not removed_nodes.since("lab", HOST, 0)
    removed_nodes.keep("lab", HOST)
    noted = removed_nodes._note("lab", HOST).stat().st_mtime
    assert removed_nodes.since("lab", HOST, noted - 1)
    # A later load has begun with a new node of the same name.
    assert not removed_nodes.since("lab", HOST, noted + 1)
    assert not removed_nodes.since("aws", HOST, noted - 1)


def test_a_host_that_hands_out_nothing_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> str:
        raise ssh.RemoteError("no route")

    monkeypatch.setattr(failed_logs.ssh, "run", run)
    with pytest.raises(UserError, match="cannot be had: no route"):
        removed_nodes.keep("lab", HOST)
    assert not removed_nodes.since("lab", HOST, 0)


def test_nothing_waits_on_it_any_more(tmp_path: Path) -> None:
    class Nodes:
        def get_json(self, host: Host, path: str, timeout_s: float) -> dict[str, int]:
            if host == HOST:
                raise OSError("gone")
            return {"waiting": 5}

    gone = []
    file = tmp_path / "queue.jsonl"
    depth = QueueDepth([OTHER, HOST], Nodes(), JsonLines(file), lambda host: host in gone)  # type: ignore[arg-type]
    for host in (OTHER, HOST):
        depth.look(host)
    assert depth.total() is None  # It may only be away for a while.
    gone.append(HOST)
    for host in (OTHER, HOST):
        depth.look(host)
    assert depth.total() == 5
    last = json.loads(file.read_text().splitlines()[-1])
    assert (last["node"], last["waiting"], last["removed"]) == ("kairosdb-2", 0, True)


def test_a_storage_node_that_left_is_noted() -> None:
    """It has nothing to hand out: its data is with the others."""
    left = Host("storage-4", "storage", {})
    assert not removed_nodes.since("lab", left, 0)
    removed_nodes.gone("lab", left)
    assert removed_nodes.since("lab", left, 0)
    assert removed_nodes.given_up("lab", left) == []
