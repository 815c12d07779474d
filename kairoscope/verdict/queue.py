"""Whether what waits on the servers grew: the verdict's part *queue*. Pure.

Every node's depth is put on one grid, and must be known throughout: a node that did not tell for a
while may have been growing then. The growth has its uncertainty (`stats.series`), and what that
leaves open is *undecided*, not guessed. A straight line over a long load cannot see how it ended:
so the end is judged for itself.

Points wait on purpose for a queue window, each series from a moment of its own: the depth is half a
window of points, and what of it goes up and down with the window is no growth. So growth is judged
over whole windows, and from the end of the first one on.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kairoscope.run_folder import Life, life
from kairoscope.stats import series
from kairoscope.verdict.sustained import Outcome, Part

UNIT = "fraction of the rate"

LONGEST_HOLE_S = 5
"""So long a node need not tell; a queue can grow by no more than that unseen."""

LAST_LOOK_S = 2
"""So long before the end of the window each node's last look may be."""

# Pauses of collectors and of the store's compaction are over by then.
_CORRELATED_S = 10
_STEP_S = 1.0
# What more than half a window the queue may hold at the end: a quarter of that, as a store that has
# paused catches up, and a second, which is how far apart the moments are at which series are due.
_END_SHARE, _END_S = 1.25, 1.0
# Over which the depth at the end is averaged.
_END_OVER_S = 5

Floats = npt.NDArray[np.float64]
Span = tuple[float, float]
Looks = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Asked:
    """Of what growth is asked.

    Attributes:
        window: epoch s, in which the queue is judged.
        rate: points/s that were due then.
        queue_window_s: how long the queue keeps points on purpose.
        limit: highest growth, as a fraction of the rate.
    """

    window: Span
    rate: float
    queue_window_s: float
    limit: float

    @property
    def length_s(self) -> float:
        """Of the window."""
        return self.window[1] - self.window[0]

    @property
    def holds(self) -> float:
        """Points that such a queue holds at the end if it grew no faster than the limit."""
        kept = self.queue_window_s / 2 * _END_SHARE + _END_S
        return self.rate * (kept + self.limit * self.length_s)


def looks(records: Iterable[Mapping[str, Any]], nodes: Sequence[str]) -> dict[str, Looks]:
    """(t in epoch s, points waiting) of each node, in order of time, of queue.jsonl's records."""
    found: dict[str, list[tuple[float, float]]] = {node: [] for node in nodes}
    for record in records:
        if "waiting" in record and record["node"] in found:
            found[record["node"]].append((float(record["t"]), float(record["waiting"])))
    return {node: sorted(told) for node, told in found.items()}


def replaced(records: Iterable[Mapping[str, Any]], node: str) -> list[Span]:
    """When a node's process was another one before than after, of processes.jsonl's records.

    Between its death and its answering again a queue takes nothing and stores nothing.
    """
    spans = []
    before: tuple[float, Life] | None = None
    for record in records:
        if record.get("name") == node and "pid" in record:
            t, now = float(record["t"]), life(record)
            if before and now != before[1]:
                spans.append((before[0], t))
            before = (t, now)
    return spans


def untold(told: Looks, window: Span, excused: Sequence[Span] = ()) -> str:
    """Why a node's depth is not known throughout the window; "" if it is.

    `excused`: when its process was replaced or stood still; a hole with one in it is none.
    """
    start, end = window
    within = [t for t, _ in told if start <= t <= end]
    if not within:
        return f"did not tell its depth once in {end - start:.0f} s"
    before = [t for t, _ in told if t < start]
    after = [t for t, _ in told if t > end]
    # A hole may have begun before the window, and with it what excuses it.
    edges = [before[-1] if before else start, *within, after[0] if after else end]
    holes = [
        (until - max(since, start), max(since, start))
        for since, until in itertools.pairwise(edges)
        if not any(since <= last and first <= until for first, last in excused)
    ]
    longest, since = max(holes, default=(0.0, start))
    if longest > LONGEST_HOLE_S:
        return f"did not tell its depth for {longest:.0f} s, from {since - start:.0f} s on"
    if end - within[-1] > LAST_LOOK_S:
        return f"did not tell its depth in the last {end - within[-1]:.0f} s"
    return ""


def queue_part(told: Mapping[str, Looks], asked: Asked, excused: Mapping[str, list[Span]]) -> Part:
    """Growth of the servers' queues over the window, and whether they hold too much at its end.

    A queue that grows by more than the limit of what comes in would fill the disk, however small
    it still is.
    """
    missing = [
        f"{node} {why}"
        for node, looked in told.items()
        if (why := untold(looked, asked.window, excused.get(node, ())))
    ]
    if missing:
        text = f"the queue was not seen throughout: {'; '.join(missing)}"
        return Part(None, asked.limit, UNIT, "unknown", text)
    period = round(asked.queue_window_s / _STEP_S)
    period, step = (period, asked.queue_window_s / period) if period >= 2 else (1, _STEP_S)
    # From the end backwards, so that what is left over is at the start.
    count = math.floor(asked.length_s / step + 1e-6)
    grid = asked.window[1] - step * (np.arange(count)[::-1] + 0.5)
    depth = np.zeros(count)
    for looked in told.values():
        t, waiting = np.array(looked, dtype=float).T
        depth += np.interp(grid, t, waiting)
    growth = series.trend(depth, step, round(_CORRELATED_S / step), period)
    if growth is None and asked.limit >= 1:
        text = (
            f"{asked.length_s:.0f} s are too short a window to see growth in, and it has no limit"
        )
        return Part(None, asked.limit, UNIT, "pass", text)
    if growth is None:
        text = f"undecided: {asked.length_s:.0f} s are too short a window to see growth in"
        enough = max(3 * asked.queue_window_s, 5 * series.LEAST_LOOKS * _STEP_S)
        return Part(
            None, asked.limit, UNIT, "undecided", f"{text}; about {enough:.0f} s are enough"
        )
    seen = sum(
        asked.window[0] <= t <= asked.window[1] for looked in told.values() for t, _ in looked
    )
    return _part(growth, depth, step, asked, seen)


def _part(growth: series.Trend, depth: Floats, step: float, asked: Asked, seen: int) -> Part:
    per_s = asked.rate * asked.limit
    at_end = float(depth[-max(1, round(_END_OVER_S / step)) :].mean())
    text = (
        f"queue grew by {growth.slope:,.1f} ± {growth.reach:,.1f} points/s (95 % each side) at "
        f"{asked.rate:,.0f} points/s; deepest {depth.max():,.0f} points, {at_end:,.0f} at the end; "
        f"{seen} samples in {asked.length_s:.0f} s"
    )

    def part(outcome: Outcome, more: str = "", slope: float = growth.slope) -> Part:
        return Part(slope / asked.rate, asked.limit, UNIT, outcome, text + more)

    # Rounding must not tell a queue that stands still from one at the limit.
    least = 1e-9 * max(1.0, float(depth.max()))
    if growth.low > per_s + least:
        return part("fail")
    if at_end > asked.holds and (ends := _end(depth, step, asked, at_end)):
        return part(*ends)
    # By more than all that comes in no queue can grow.
    if growth.high <= per_s + least or asked.limit >= 1:
        return part("pass")
    clear = max(abs(per_s - growth.slope), per_s / 2)
    # The error of a slope goes with the window to the power of -3/2.
    wanted = asked.length_s * (growth.reach / clear) ** (2 / 3) if clear else math.inf
    enough = f"about {math.ceil(wanted / 10) * 10} s would be enough" if clear else "see limits"
    return part("undecided", f"; undecided: the window is too short ({enough})")


def _end(
    depth: Floats, step: float, asked: Asked, at_end: float
) -> tuple[Outcome, str, float] | None:
    """Of a queue that holds too much at its end: whether it grew there. None: it did not."""
    third = depth[-(len(depth) // 3) :]
    ends = series.trend(third, step, round(_CORRELATED_S / step))
    per_s = asked.rate * asked.limit
    over = (
        f"; at the end it held {at_end / asked.rate:,.1f} s of the load, and a queue with a window "
        f"of {asked.queue_window_s:g} s holds {asked.holds / asked.rate:,.1f} s at most"
    )
    if ends is not None and ends.low > per_s:
        grew = f", and in the last third it grew by {ends.slope:,.1f} points/s"
        return "fail", over + grew, ends.slope
    if ends is not None and ends.high <= per_s:
        return None
    more = f"{over}; undecided: the last third is too short to tell whether it grows"
    return "undecided", more, ends.slope if ends else 0.0
