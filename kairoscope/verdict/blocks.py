"""The measured time in blocks: what each was like, and how sure the run's percentiles are by that.

Blocks are what runs are compared by: those of `blocks.json` are at least as long as KairosDB's
queue keeps points, so that what one block got is stored in it or the next one. The intervals of a
percentile come from blocks of five seconds (see `kairoscope.stats.percentiles`).
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope import run_folder
from kairoscope.stats import percentiles
from kairoscope.stats.percentiles import Counts
from kairoscope.verdict import measurements
from kairoscope.verdict.conditions import Machines
from kairoscope.verdict.sustained import Part
from kairoscope.verdict.usage import Curve, Usage
from loaders.record import files, histograms
from loaders.schedule.due import Schedule

LEAST_S = 5.0
"""Shortest block: points of seconds next to each other share their pauses."""

MOST = 2000
"""Blocks that an interval is computed of: more say no more, and a month has half a million."""

PERCENTILES = {"p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0, "p99_9_ms": 99.9}


Spans = list[tuple[float, float]]


@dataclass(frozen=True)
class Grid:
    """Blocks of equal length, one after another.

    Attributes:
        start: of the first, epoch s.
        length_s: of each.
        count: how many, 1 at least.
    """

    start: float
    length_s: float
    count: int

    @classmethod
    def over(cls, window: tuple[float, float], least_s: float) -> "Grid":
        """As many as fit into the window (epoch s), none shorter than `least_s`."""
        length = max(window[1] - window[0], 1e-3)
        count = max(1, int(length / least_s + 1e-6))
        return cls(window[0], length / count, count)

    def edges(self) -> Spans:
        """Start and end of each, epoch s."""
        at = [self.start + i * self.length_s for i in range(self.count + 1)]
        return list(pairwise(at))


@dataclass(frozen=True)
class Latencies:
    """Those of all workers after the warm-up, by block of about five seconds."""

    grid: Grid
    counts: histograms.Blocks


def latencies(schedule: Schedule, window: tuple[float, float], folder: Path) -> Latencies:
    """Read them from the interval logs of a run folder; `window` in epoch s."""
    grid = Grid.over(window, max(LEAST_S, (window[1] - window[0]) / MOST))
    logs = run_folder.histogram_logs(folder, "worker")
    return Latencies(grid, _counts(schedule, grid, logs))


@dataclass(frozen=True)
class Captured:
    """What a run has beside its latencies, to be asked for any block.

    Attributes:
        usage: CPU time of its processes.
        machines: what all that used the machines did.
        queue: records of queue.jsonl.
        load: folder of the workers' files.
        nodes: how many servers take points.
    """

    usage: Usage
    machines: Machines
    queue: list[dict[str, Any]]
    load: Path
    nodes: int


def document(
    schedule: Schedule, found: Latencies, least_s: float, folder: Path, captured: Captured
) -> dict[str, Any]:
    """The content of blocks.json: of as many of the blocks of `found` as last `least_s`."""
    together = max(1, math.ceil(least_s / found.grid.length_s - 1e-6))
    edges = found.grid.edges()
    firsts = list(range(0, len(edges), together))
    if len(firsts) > 1 and len(edges) - firsts[-1] < together:
        # What is left over goes with the last one.
        firsts.pop()
    spans = [
        (edges[first][0], edges[following - 1][1])
        for first, following in pairwise([*firsts, len(edges)])
    ]
    whole = np.add.reduceat(found.counts.counts, firsts, axis=0)
    columns = [
        _due(schedule, spans),
        _acknowledged(schedule, spans, captured.load),
        _latencies(histograms.Blocks(found.counts.values_us, whole)),
        _parts(schedule, found.grid, firsts, folder),
        _queue(spans, captured.queue, captured.nodes),
    ]
    rows = []
    for number, (start, end) in enumerate(spans):
        row: dict[str, Any] = {"t": start - found.grid.start, "length_s": end - start}
        for column in columns:
            row |= column[number]
        conditions = captured.machines.within(start, end)
        used = captured.usage.seconds(start, end)
        row |= {
            "cpu_us_per_point": measurements.cost_per_point(captured.usage, used, row["count"]),
            "steal_share": conditions.steal_share,
            "foreign_cores": conditions.foreign_cores,
        }
        rows.append(row)
    block_s = together * found.grid.length_s
    return {"block_s": block_s, "from_t": found.grid.start, "blocks": rows}


def _due(schedule: Schedule, spans: Spans) -> list[dict[str, Any]]:
    """Points and requests that were due in each block; null of a replay, which has no times."""
    if schedule.spec.replay:
        return [{"due": None, "requests": None}] * len(spans)
    workers = range(schedule.spec.workers)
    points, requests = (
        [
            sum(count(worker, round(edge * 1000) - 1) for worker in workers)
            for edge in (spans[0][0], *(end for _, end in spans))
        ]
        for count in (schedule.due, schedule.requests_due)
    )
    return [
        {"due": points[i + 1] - points[i], "requests": requests[i + 1] - requests[i]}
        for i in range(len(spans))
    ]


def _acknowledged(schedule: Schedule, spans: Spans, load: Path) -> list[dict[str, Any]]:
    """Points acknowledged (over telnet: handed over) in each block, by the workers' own clocks."""
    what = "acknowledged" if schedule.spec.acknowledges else "sent"
    curves = []
    for worker in range(schedule.spec.workers):
        path = files.progress_path(load, worker)
        said = [(each["t"], each[what]) for each in run_folder.records(path) if what in each]
        if said:
            t, value = np.array(said, dtype=float).T
            curves.append(Curve(t, value))
    return [
        {"acknowledged": round(sum(curve.between(*edges) for curve in curves)) if curves else None}
        for edges in spans
    ]


def _counts(schedule: Schedule, grid: Grid, logs: list[Path]) -> histograms.Blocks:
    # Logs count from the start of the schedule, for a replay too.
    start_s = grid.start - schedule.spec.start_ms / 1000
    return histograms.blocks(logs, start_s, grid.length_s, grid.count)


def _latencies(found: histograms.Blocks) -> list[dict[str, Any]]:
    """Count, percentiles and maximum (ms, from the planned time) of each block."""
    rows = []
    for counts in found.counts:
        one = Counts(found.values_us, counts[np.newaxis])
        at: dict[str, float | None] = {
            name: _ms(percentiles.percentile(one, p)) for name, p in PERCENTILES.items()
        }
        rows.append(
            {"count": int(counts.sum()), **at, "max_ms": _ms(percentiles.percentile(one, 100))}
        )
    return rows


def _parts(schedule: Schedule, grid: Grid, firsts: list[int], folder: Path) -> list[dict[str, Any]]:
    """99th percentiles of the wait for a connection and of being served; null if not told apart."""
    rows: list[dict[str, Any]] = [{} for _ in firsts]
    for what in ("service", "wait"):
        numbers = range(schedule.spec.workers)
        logs = [run_folder.histogram_log(folder, f"worker-{number}.{what}") for number in numbers]
        part = _counts(schedule, grid, [log for log in logs if log])
        counts = np.add.reduceat(part.counts, firsts, axis=0)
        for row, each in zip(rows, counts, strict=True):
            one = Counts(part.values_us, each[np.newaxis])
            row[f"{what}_p99_ms"] = _ms(percentiles.percentile(one, 99))
    return rows


def _ms(us: float | None) -> float | None:
    return us / 1000 if us is not None else None


def _queue(spans: Spans, records: Iterable[dict[str, Any]], nodes: int) -> list[dict[str, Any]]:
    """Points that waited on all nodes, on average over each block; null if a node did not tell."""
    told: list[dict[str, list[int]]] = [defaultdict(list) for _ in spans]
    starts = [start for start, _ in spans]
    for record in records:
        if "waiting" in record and spans[0][0] <= record["t"] < spans[-1][1]:
            block = bisect_right(starts, record["t"]) - 1
            told[block][record["node"]].append(record["waiting"])
    return [
        {
            "queue_points": sum(sum(each) / len(each) for each in block.values())
            if len(block) == nodes
            else None
        }
        for block in told
    ]


def precision(schedule: Schedule, found: Latencies) -> dict[str, Any]:
    """What latency/merged.json says of how sure its percentiles are.

    `requests` that were due after the warm-up; `sure`: between what each percentile lies at 95 %
    (ms), null if the time is too short for that; `blocks` and `block_s` that this rests on.
    """
    counts = Counts(found.counts.values_us, found.counts.counts)
    said = percentiles.intervals(counts, tuple(PERCENTILES.values()))
    return {
        "requests": schedule.requests_from(schedule.spec.warmup_ticks),
        "sure": {
            name: [said[p].low / 1000, said[p].high / 1000] if p in said else None
            for name, p in PERCENTILES.items()
        },
        "blocks": found.grid.count,
        "block_s": found.grid.length_s,
    }


def with_precision(part: Part, found: dict[str, Any]) -> Part:
    """The latency part with how sure its figure is; `found` as of latency/merged.json.

    The interval is that of the whole. Where the figure is the worst node's or loader host's, it
    says nothing of that one, nor of how near to the limit it is.
    """
    if part.figure is None:
        return part
    of_one = part.figure != found["p99_ms"]
    text = f"{part.text}; {found['requests']:,} requests{' in all' if of_one else ''}"
    if not (interval := found["sure"]["p99_ms"]):
        return replace(part, text=f"{text}; too short a time to say how sure that is")
    low, high = interval
    whose = " of the whole" if of_one else ""
    text += f"; the 99th percentile{whose} is between {low:,.1f} and {high:,.1f} ms at 95 %"
    if of_one:
        text += "; how sure the worst one's is, is not known"
    elif low <= part.limit < high:
        text += f", so it is within the noise of the limit, {part.limit:,.0f} ms"
    return replace(part, text=text)
