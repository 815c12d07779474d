"""What is done as a load ends: servers killed, with all that is below them, until they serve again;
points counted until queries find them all."""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from clocks import moved_by_sleep
from rich.console import Console

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.run import killing, visible

_PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_servers_children_are_killed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        monkeypatch.setattr(killing, "GONE_S", 0.2)
        with (
            monkeypatch.context() as spared,
            pytest.raises(UserError, match=r"x-1 \(process \d+\)"),
        ):
            spared.setattr(psutil.Process, "kill", lambda _: None)
            killing._kill({"x-1": parent.pid})
        monkeypatch.setattr(killing, "GONE_S", 30)
        assert killing._kill({"x-1": parent.pid}) == 2
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    with pytest.raises(UserError, match="x-1 ended by itself before it could be killed"):
        killing._kill({"x-1": parent.pid})


class Server:
    """A session of servers that are well when they were asked so often."""

    def __init__(self, well_after: int) -> None:
        self.left = well_after

    def check_ready(self) -> None:
        self.left -= 1
        if self.left >= 0:
            raise UserError("x-1 is not healthy")


def test_it_waits_until_the_servers_are_well_or_says_what_is_amiss() -> None:
    pauses: list[float] = []
    slow: Any = Server(well_after=3)
    # From the kill, however long that took.
    assert killing._back(slow, 60, time.monotonic() - 5, pauses.append) >= 5
    assert len(pauses) == 3
    gone: Any = Server(well_after=10_000)
    with pytest.raises(UserError, match=r"not back 0 s after a kill: x-1 is not healthy"):
        killing._back(gone, 0, time.monotonic(), pauses.append)


@pytest.mark.parametrize(
    ("arrived", "acknowledges", "came_s", "words"),
    [
        ([99.0, 98.5], True, 5.0, "5.0 s after the last acknowledgement"),
        # They had ended too late for what was asked.
        ([92.0, None], True, 8.25, "8.2 s after the last acknowledgement"),
        ([99.0], False, 5.0, "5.0 s after the last point was sent"),
        ([None], True, None, "5.0 s after the last loader had ended, and no point arrived"),
    ],
)
def test_a_kill_is_counted_from_the_last_acknowledgement(
    arrived: list[float | None],
    acknowledges: bool,
    came_s: float | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loaders have ended at 100.25."""
    (tmp_path / run_folder.LOAD).mkdir()
    for worker, t in enumerate(arrived):
        final = {"arrived_t": t}
        (tmp_path / run_folder.LOAD / f"worker-{worker}.json").write_text(json.dumps(final))
    clock = moved_by_sleep(100.25)
    monkeypatch.setattr(killing, "time", clock)
    ours = [SimpleNamespace(name="x-1", pid=7), SimpleNamespace(name="other-1", pid=8)]
    monkeypatch.setattr(killing.supervisor, "processes", lambda _: ours)
    did: list[dict[str, int]] = []

    def kill(servers: dict[str, int]) -> int:
        did.append(servers)
        clock.sleep(0.5)  # until all of them are gone
        return 3

    monkeypatch.setattr(killing, "_kill", kill)
    notes: list[str] = []
    spec = SimpleNamespace(workers=len(arrived), end_ms=98_000, acknowledges=acknowledges)
    host = SimpleNamespace(vars={"supervisor_dir": "x"}, processes=["x-1"])
    state: Any = SimpleNamespace(
        schedule=SimpleNamespace(spec=spec),
        folder=tmp_path,
        inventory=SimpleNamespace(hosts=[host]),
        at=lambda _: None,
        note=lambda _, said: notes.append(said),
    )
    session: Any = Server(well_after=0)
    killing.kill(state, session, Console(quiet=True), 5)
    assert did == [{"x-1": 7}]
    told = json.loads((tmp_path / run_folder.KILLED).read_text())
    assert told["after_arrived_s"] == came_s
    assert told["after_load_s"] == pytest.approx(told["t"] - 100.25)
    assert told["serving_s"] == 0.5
    assert notes == [f"x-1 (3 processes) {words}"]


@pytest.mark.parametrize(
    ("answers", "raises", "told"),
    [
        (UserError("x-1 is not healthy"), UserError, {"serving_s": None}),
        (KeyboardInterrupt(), KeyboardInterrupt, {}),
        (ZeroDivisionError(), ZeroDivisionError, {}),
    ],
)
def test_servers_that_stay_down_are_told_from_those_that_nobody_waited_for(
    answers: BaseException,
    raises: type[BaseException],
    told: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / run_folder.LOAD).mkdir()
    monkeypatch.setattr(killing, "time", moved_by_sleep(100))
    ours = [SimpleNamespace(name="x-1", pid=7)]
    monkeypatch.setattr(killing.supervisor, "processes", lambda _: ours)
    monkeypatch.setattr(killing, "_kill", lambda _: 1)
    monkeypatch.setattr(killing, "BACK_S", -1)
    state: Any = SimpleNamespace(
        schedule=SimpleNamespace(spec=SimpleNamespace(workers=1, end_ms=98_000, acknowledges=True)),
        folder=tmp_path,
        inventory=SimpleNamespace(
            hosts=[SimpleNamespace(vars={"supervisor_dir": "x"}, processes=["x-1"])]
        ),
        at=lambda _: None,
        note=lambda *_: None,
    )

    def check_ready() -> None:
        raise answers

    session: Any = SimpleNamespace(check_ready=check_ready)
    with pytest.raises(raises):
        killing.kill(state, session, Console(quiet=True), 0)
    killed = json.loads((tmp_path / run_folder.KILLED).read_text())
    assert {k: v for k, v in killed.items() if k == "serving_s"} == told


@pytest.mark.parametrize(
    "known",
    [
        None,  # supervisord did not answer
        [SimpleNamespace(name="x-1", pid=7), SimpleNamespace(name="x-2", pid=0)],
        [SimpleNamespace(name="x-1", pid=7)],
    ],
)
def test_a_kill_that_not_all_servers_had_is_none(
    known: list[Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / run_folder.LOAD).mkdir()
    monkeypatch.setattr(killing, "time", moved_by_sleep(100))
    monkeypatch.setattr(killing.supervisor, "processes", lambda _: known)
    did: list[Any] = []
    monkeypatch.setattr(killing, "_kill", did.append)
    state: Any = SimpleNamespace(
        schedule=SimpleNamespace(spec=SimpleNamespace(workers=1, end_ms=98_000, acknowledges=True)),
        folder=tmp_path,
        inventory=SimpleNamespace(
            hosts=[SimpleNamespace(vars={"supervisor_dir": "x"}, processes=["x-1", "x-2"])]
        ),
        at=lambda _: None,
        note=lambda *_: None,
    )
    session: Any = Server(well_after=0)
    with pytest.raises(UserError, match=r"x-2 could not be killed: supervisord says of no process"):
        killing.kill(state, session, Console(quiet=True), 0)
    assert did == []
    assert not (tmp_path / run_folder.KILLED).exists()


def test_hosts_of_their_own_are_refused() -> None:
    class Managed:
        managed = True

    hosts: Any = Managed()
    with pytest.raises(UserError, match="is for target local"):
        killing.after(5, hosts)


@pytest.mark.parametrize(
    ("answers", "record"),
    [
        # A look takes 2 s, the first one begins 0.5 s after the last point was due.
        (
            [3, 7, 10],
            {"found": 10, "looks": 3, "lacked_s": 2.75, "asked_s": 5.0, "after_due_s": 7.0},
        ),
        ([10], {"found": 10, "looks": 1, "lacked_s": None, "asked_s": 0.5, "after_due_s": 2.5}),
        ([3], {"found": 3, "looks": 1, "lacked_s": 0.5, "asked_s": 0.5, "after_due_s": None}),
        ([None], None),
        ([OSError("refused")], None),
    ],
)
def test_points_are_counted_until_all_are_found_each_look_with_its_begin_and_end(
    answers: list[Any],
    record: dict[str, Any] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = SimpleNamespace(acknowledged=10, sent=11)
    found = SimpleNamespace(counts=counts, acknowledges=True)
    monkeypatch.setattr(visible.outcomes, "read", lambda *_: found)
    clock = moved_by_sleep(1.5)
    monkeypatch.setattr(visible, "time", clock)
    notes: list[str] = []
    state: Any = SimpleNamespace(
        schedule=SimpleNamespace(spec=SimpleNamespace(end_ms=1_000)),
        folder=tmp_path,
        note=lambda *said: notes.append(" ".join(said)),
    )
    left = list(answers)

    def ask(_: Any) -> Any:
        said = left.pop(0)
        clock.sleep(2)
        if isinstance(said, Exception):
            raise said
        return said

    session: Any = SimpleNamespace(visible=ask)
    patience_s = 60.0 if answers[-1] == 10 else 0.0
    visible.watch(state, session, Console(quiet=True), lambda _: clock.sleep(0.25), patience_s)
    path = tmp_path / run_folder.VISIBLE
    assert path.exists() == (record is not None)
    if record is not None:
        assert json.loads(path.read_text()) == {"wanted": 10, **record}
    assert notes == (["points not counted refused"] if answers != [None] and not record else [])
