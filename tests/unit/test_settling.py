"""What is kept of a read-back whatever the servers do after it."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import load_samples
import numpy as np
import pytest
import run_samples
from rich.console import Console

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.run import settling
from kairoscope.stacks.compared import compare
from kairoscope.stacks.kairosdb import session as kairosdb_session
from kairoscope.stacks.kairosdb.given_up import failed_logs
from kairoscope.stacks.kairosdb.session import Session
from kairoscope.stacks.stack import ReadBack
from kairoscope.verdict import ledger
from kairoscope.verdict.settlement import AtAll, FailedPoint

CONSOLE = Console(quiet=True)


class Servers:
    """Of which a point is lost, and which do then with `given_up` what is wanted of them."""

    def __init__(self, given_up: Any, waiting: int | None = None) -> None:
        self.given_up, self.waiting = given_up, waiting

    def read_back(self, schedule: Any, incomplete: Any, on_result: Any, console: Any) -> ReadBack:
        lost = next(schedule.series()).number
        for series in schedule.series():
            points = load_samples.points_of(schedule, series)[series.number == lost :]
            on_result(compare(schedule, series, np.array(points, dtype=np.int64).reshape(-1, 2)))
        return ReadBack(1, "read", lambda: schedule.points - 1, self.waiting)

    def look_on_all_replicas(self, gaps: list[Any]) -> AtAll:
        return AtAll("QUORUM", 1, 0, 0, 1)


def settled(folder: Path, given_up: Any) -> run_samples.Run:
    run = run_samples.run_of(folder)
    settling.settle(run.state, Servers(given_up), CONSOLE)  # type: ignore[arg-type]
    return run


def test_what_was_read_back_is_kept_before_anything_else_is_asked(tmp_path):
    def gone(*_: Any) -> list[FailedPoint]:
        raise UserError("no route to the host")

    with pytest.raises(UserError):
        settled(tmp_path, gone)
    (gap,) = run_folder.lines(tmp_path / run_folder.READBACK_GAPS)
    assert gap and gap["count"] == 1
    assert run_folder.read_object(tmp_path / run_folder.READBACK)["gap_series"] == 1


def test_a_server_that_does_not_say_what_it_gave_up_makes_the_run_incomplete(tmp_path):
    def silent(_: Any, on_silent: Any) -> list[FailedPoint]:
        on_silent("kairosdb-2 is gone")
        return []

    run = settled(tmp_path, silent)
    assert run.facts.incomplete == ["kairosdb-2 is gone"]
    assert run.judge().verdict == "incomplete"
    assert [gap["count"] for gap in run.json("ledger.json")["gaps"]] == [1]


@pytest.mark.parametrize(("waiting", "lost"), [(0, 1), (7, 0), (None, 0)])
def test_what_waited_when_all_was_read_back_may_come_yet_and_no_more(tmp_path, waiting, lost):
    def book() -> tuple[int, int, int]:
        run.judge()
        found = run.json("ledger.json")
        return found["queued"], found["missing"], ledger.lost(found)

    run = run_samples.run_of(tmp_path)
    run.drained(after_s=600, left=50)
    settling.settle(run.state, Servers(lambda *_: [], waiting), CONSOLE)  # type: ignore[arg-type]
    assert book() == (1 - lost, lost, lost)
    # Of a run that was read back before this was looked at.
    path = tmp_path / run_folder.READBACK
    document = run_folder.read_object(path)
    assert document.pop("waiting") == waiting
    run_folder.write_json(path, document)
    assert book() == (1, 0, 0)


COALESCING = {"waiting": 3, "disk_bytes": 4096}


@pytest.mark.parametrize(
    ("told", "waiting"),
    [
        ([COALESCING, {**COALESCING, "waiting": 4}], 7),
        ([COALESCING, {}], None),
        # KairosDB's own: what is on its way to the store may come yet, and is not counted.
        ([{"waiting": 0, "disk_bytes": None}], None),
    ],
)
def test_kairosdb_tells_what_waits_before_what_is_missing_is_asked_for_again(
    tmp_path, monkeypatch, told, waiting
):
    hosts = [Host(f"kairosdb-{n}", "kairosdb", {}) for n in range(len(told))]
    store = Host("storage-1", "storage", {"kairosdb_keyspace": "k"})
    plan: Any = SimpleNamespace(target="lab", kairosdb={"read_consistency": "QUORUM"})
    talk: Any = SimpleNamespace(
        access=None,
        cql=lambda *_: nullcontext(),
        url=lambda host: host.name,
        get_json=lambda host, *_, **__: told[hosts.index(host)],
    )
    session = Session(plan, Inventory(tmp_path / "inventory.yml", [store], hosts, []), talk)

    def read_run(*_: Any, on_last: Any) -> Any:
        on_last()
        return SimpleNamespace(passes=4, text=""), []

    monkeypatch.setattr(kairosdb_session.scan, "read", lambda *_: None)
    monkeypatch.setattr(kairosdb_session.read_run, "read_run", read_run)
    schedule: Any = SimpleNamespace(points=1)
    way = session.read_back(schedule, lambda _: True, lambda _: None, CONSOLE)
    assert way.waiting == waiting


def kairosdb(folder: Path, *names: str) -> Session:
    hosts = [Host(name, "kairosdb", {"home": "/home"}) for name in names]
    plan: Any = SimpleNamespace(target="lab")
    session = Session(plan, Inventory(folder / "inventory.yml", [], hosts, []), None)  # type: ignore[arg-type]
    session.begin(folder, 0, run_folder.JsonLines(folder / "events.jsonl"))
    return session


def test_a_kairosdb_host_that_is_gone_does_not_take_what_others_say(tmp_path, monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    spec = load_samples.spec_of()
    (tmp_path / "run").mkdir()
    line = (
        f'{{"name": "{spec.metric_name(0)}", "timestamp": {spec.start_ms}, '
        f'"tags": {json.dumps(spec.tags_of(0))}}}\n'
    )

    def run(host: Host, program: list[str], **_: Any) -> str:
        if host.name == "kairosdb-1":
            raise ssh.RemoteError("no route")
        return line if program[0] == "cat" else "/home/log/failed.log\n"

    monkeypatch.setattr(failed_logs.ssh, "run", run)
    silent: list[str] = []
    session = kairosdb(tmp_path / "run", "kairosdb-1", "kairosdb-2")
    (point,) = session.given_up(spec, silent.append)
    assert point.timestamp_ms == spec.start_ms
    (said,) = silent
    assert said.startswith("points given up by kairosdb-1 cannot be told from missing ones: ")
    assert said.endswith("no route")


def test_a_torn_name_in_a_log_costs_nothing_else(tmp_path):
    (tmp_path / "failed.log").write_bytes(b'{"name": "caf\xc3\n{"name": "m"}\n')
    here = Host("kairosdb-1", "kairosdb", {"ansible_connection": "local"})
    said = ssh.run(here, ["cat", str(tmp_path / "failed.log")])
    assert said == '{"name": "caf\N{REPLACEMENT CHARACTER}\n{"name": "m"}\n'
