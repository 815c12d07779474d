"""When a load cannot pass any more, seen while it goes on: so that a trial need not go to its end.

What is said here only ends the load; the verdict on what there is then decides, and where it does
not fail the trial is made again without. So the rules look for what is far past a limit, and leave
what is near it to the verdict.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.plan import Plan
from loaders.emulator import Progress
from loaders.schedule.protocols import SILENT

FAR = 10
"""A queue grows hopelessly past so many times its limit: where that is 1 %, a tenth of the rate.
Means of two windows of 15 s of a queue as noisy as a published one (deviation 6,800 points at
24,000/s, correlated over 3 s) differ by 1.7 % of the rate at random."""
LATE = 2
"""Late points are hopelessly many past so many times what the limit of the schedule allows."""
_MIN_WINDOW_S = 10.0


class Hopeless:
    """Of one trial; called about once a second with what is seen of it."""

    def __init__(self, plan: Plan, settle_s: float, *, queue: bool = True) -> None:
        """`settle_s`: from the start, while queues fill; nothing of it is looked at.

        `queue`: whether a verdict judges it; what a stack keeps on purpose may grow as it likes.
        """
        limits = plan.experiment.limits
        self._limits = limits
        self._settle_s = settle_s
        self._judges_queue = queue
        self._window_s = max(_MIN_WINDOW_S, plan.held_s)
        self._points = float(plan.totals["points"])
        self._rate = float(plan.totals["points_per_s"])
        self._acknowledges = plan.load["protocol"] not in SILENT
        self._due: list[tuple[float, int]] = []

    def __call__(self, folder: Path, now: Progress) -> str | None:
        """Why the load cannot pass, if that is certain enough to end it."""
        self._due.append((now.elapsed_s, now.due))
        if now.elapsed_s < self._settle_s:
            return None
        return self._late(now) or self._loader_late(now) or self._queue(folder, now.elapsed_s)

    def _due_at(self, t: float) -> int:
        """Points that were due at t, or a little before."""
        before = bisect_right(self._due, (t, 2**62))
        return self._due[before - 1][1] if before else 0

    def _late(self, now: Progress) -> str | None:
        """Points that are past the limit and still not acknowledged; there are more late ones."""
        done = now.acknowledged if self._acknowledges else now.sent
        late = self._due_at(now.elapsed_s - self._limits.p99_ms / 1000) - done
        if late <= self._points * (1 - self._limits.achieved) * LATE:
            return None
        return f"{late:,} points are late, too many for the schedule"

    def _loader_late(self, now: Progress) -> str | None:
        late = self._due_at(now.elapsed_s - self._limits.send_error_p99_ms / 1000) - now.sent
        if late <= self._points * 0.01 * LATE:
            return None
        return f"the loader is behind by {late:,} points"

    def _queue(self, folder: Path, elapsed_s: float) -> str | None:
        if not self._judges_queue or elapsed_s < self._settle_s + 2 * self._window_s:
            return None
        growth = grown(run_folder.records(folder / run_folder.QUEUE), self._window_s)
        if growth is None or growth <= FAR * self._limits.queue_growth * self._rate:
            return None
        return f"the queue grows by {growth:,.0f} points/s at {self._rate:,.0f} points/s"


def grown(records: Iterable[Mapping[str, Any]], window_s: float) -> float | None:
    """Growth in points/s of all nodes' queues together, from the window before the last to it.

    By means over whole windows, since a queue that keeps points for a window rises and falls with
    it. None if a node did not tell in one of them.
    """
    told = [r for r in records if "waiting" in r]
    if not told:
        return None
    end = max(r["t"] for r in told)
    sums: dict[str, list[list[float]]] = {}
    for record in told:
        back = int((end - record["t"]) // window_s)
        of_node = sums.setdefault(record["node"], [[], []])
        if back < len(of_node):
            of_node[back].append(record["waiting"])
    growth = 0.0
    for last, before in sums.values():
        if not last or not before:
            return None
        growth += (sum(last) / len(last) - sum(before) / len(before)) / window_s
    return growth
