"""A load that finds an earlier one's points in the queues waits for them, within bounds."""

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import run_samples
from clocks import moved_by_sleep
from rich.console import Console

from kairoscope import run_folder
from kairoscope.plan import Plan
from kairoscope.run import backlog
from kairoscope.stacks.stack import Backlog
from kairoscope.verdict import conditions


class Queues:
    """Queues that tell these figures one after the other, then the last for ever."""

    def __init__(self, *told: int | None) -> None:
        self.told = itertools.chain(told, itertools.repeat(told[-1]))
        self.asked = 0

    def total(self, since: float = 0) -> int | None:
        assert since > 0
        self.asked += 1
        return next(self.told)

    def nudge(self) -> None:
        """Nothing to do."""


@pytest.fixture
def run(tmp_path: Path) -> run_samples.Run:
    return run_samples.run_of(tmp_path / "run")


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only sleeping moves."""
    monkeypatch.setattr(backlog, "time", moved_by_sleep(1000.0))


def waited(run: run_samples.Run, found: int | None, queues: Queues) -> dict[str, Any] | None:
    """What the manifest says of it."""
    queue = [{"node": "kairosdb-1", "waiting": found, "disk_bytes": None}]
    run.change(run_folder.MANIFEST, conditions={"queue": queue})
    backlog.wait(run.state, Console(quiet=True), cast("Backlog", queues))
    return cast("dict[str, Any] | None", run.json(run_folder.MANIFEST)["conditions"].get("backlog"))


def test_a_window_of_points_is_usual(run: run_samples.Run) -> None:
    plan = run.state.plan
    rate = float(plan.totals["points_per_s"])
    assert backlog.usual(plan) == int(rate * plan.kairosdb["queue_window_ms"] / 1000) > rate
    stock = cast("Plan", SimpleNamespace(held_s=0, totals=plan.totals))
    assert backlog.usual(stock) == int(rate)


@pytest.mark.parametrize("found", [None, 0, 1])
def test_nothing_that_is_usual_is_waited_for(run: run_samples.Run, found: int | None) -> None:
    queues = Queues(0)
    assert waited(run, found, queues) is None
    assert not queues.asked


def test_the_load_waits_until_a_window_is_left(run: run_samples.Run) -> None:
    limit = backlog.usual(run.state.plan)
    said = waited(run, 970_000, Queues(None, 900_000, limit + 1, limit))
    assert said == {"limit": limit, "left": limit, "waited_s": 1.5}


def test_it_does_not_wait_for_ever(run: run_samples.Run) -> None:
    most_s = run.state.plan.experiment.limits.drain_s
    said = waited(run, 970_000, Queues(970_000))
    assert said and (said["left"], said["waited_s"]) == (970_000, most_s)
    untold = waited(run, 970_000, Queues(None))
    assert untold and (untold["left"], untold["waited_s"]) == (None, 5.0)


@pytest.mark.parametrize(
    ("left", "then"),
    [
        (300, "; the load was held back for 12 s, until at most 360 did"),
        (700, "; 700 still did when the load began after 12 s, more than a window's (360)"),
        (None, "; how many did when the load began is not known"),
    ],
)
def test_the_verdict_says_so(left: int | None, then: str) -> None:
    found = {
        "queue": [{"node": "kairosdb-1", "waiting": 5_000, "disk_bytes": None}],
        "backlog": {"limit": 360, "left": left, "waited_s": 12.0},
    }
    (said,) = conditions.at_start(found, 1000)
    assert said == f"5,000 points waited in the queues already when the run began{then}"
