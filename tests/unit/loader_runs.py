"""One worker against servers of the test, and what must hold afterwards, whatever happened."""

import asyncio
import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sink import Sink, TelnetSink

from loaders.record import files, histograms
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Step
from loaders.schedule.values import ValueType, values
from loaders.send.worker import Worker

PERIOD_MS = 100
TICKS = 10

Point = tuple[str, int, object]


def make(*sinks: Sink | str, start_in_ms: int = 100, **changes: Any) -> LoadSpec:
    """A load of a second over REST; `ticks` changes the only step."""
    fields: dict[str, Any] = {
        "sensors": 20,
        "steps": [Step(period_ms=PERIOD_MS, ticks=changes.pop("ticks", TICKS))],
        "warmup_ticks": 2,
        "start_ms": int(time.time() * 1000) + start_in_ms,
        "nodes": [sink if isinstance(sink, str) else sink.url for sink in sinks],
        "metric": "SENSOR_{n}",
        "tags": {"status": "good"},
        "sensors_per_request": 5,
        "request_timeout_s": 10,
        "retry_for_s": 10,
        "latency_limit_ms": 500,
        "connections_per_node": 4,
    }
    return LoadSpec(**fields | changes)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def events(outdir: Path, worker: int = 0) -> list[dict[str, Any]]:
    return lines(files.events_path(outdir, worker))


def outcomes(outdir: Path, worker: int = 0) -> list[dict[str, Any]]:
    return lines(files.outcomes_path(outdir, worker))


def check(spec: LoadSpec, outdir: Path, result: dict[str, Any]) -> None:
    """What must hold at the end of any worker, whatever happened."""
    worker = result["worker"]
    schedule = Schedule(spec)
    groups = schedule.groups(worker)
    assert json.loads(files.result_path(outdir, worker).read_text()) == result
    assert result["host"] == worker // spec.workers_per_host
    assert result["scheduled"] == sum(map(schedule.points_of, groups))
    assert result["scheduled"] == result["sent"] + result["not_sent"]
    assert result["sent"] == result["acknowledged"] + result["rejected"] + result["unknown"]
    assert result["in_time"] <= result["sent"]
    assert sum(result["in_time_by_step"]) == result["in_time"]
    assert len(result["in_time_by_step"]) == len(spec.steps)
    # The fifth equation: all that was sent and settled has a latency, and nothing else has.
    logged = histograms.count(files.histogram_path(outdir, worker))
    assert logged == result["scheduled"] - result["untimed"]
    assert result["rejected"] <= result["untimed"] <= result["scheduled"]
    if not spec.acknowledges:
        assert result["acknowledged"] == result["rejected"] == 0
    assert len(result["sent_by_node"]) == len(result["acknowledged_by_node"]) == len(spec.nodes)
    assert sum(result["sent_by_node"]) == result["sent"]
    assert sum(result["acknowledged_by_node"]) == result["acknowledged"]
    for sent, acknowledged in zip(
        result["sent_by_node"], result["acknowledged_by_node"], strict=True
    ):
        assert acknowledged <= sent
    check_outcomes(spec, outdir, result)
    check_events(spec, outdir, result)
    # The records of progress lead to the same figures.
    records = lines(files.progress_path(outdir, worker))
    for before, after in itertools.pairwise(records):
        for name in ("due", "sent", "acknowledged", "rejected", "unknown"):
            assert before[name] <= after[name]
    for name in ("sent", "in_time", "acknowledged", "rejected", "unknown", "not_sent"):
        assert records[-1][name] == result[name]
    assert records[-1]["in_flight"] == 0
    # Over telnet done is what was handed over: all that is unknown for no reason.
    given_up = sum(r["points"] for r in outcomes(outdir, worker) if r["outcome"] == "unknown")
    done = result["acknowledged"] if spec.acknowledges else result["unknown"] - given_up
    assert sum(record["count"] for record in records) == done


def check_outcomes(spec: LoadSpec, outdir: Path, result: dict[str, Any]) -> None:
    """The file of outcomes names every point that came to an unusual end, once."""
    worker = result["worker"]
    groups = Schedule(spec).groups(worker)
    ticks: Counter[tuple[int, int]] = Counter()
    counts: Counter[str] = Counter()
    for row in outcomes(outdir, worker):
        assert list(row) == ["group", "tick", "ticks", "outcome", "reason", "points"]
        assert row["reason"]
        assert row["ticks"] >= 1
        group = groups[row["group"]]
        assert row["points"] == len(group.slots) * row["ticks"]
        covered = range(row["tick"], row["tick"] + row["ticks"])
        assert group.first_tick <= covered.start < covered.stop <= spec.ticks
        ticks.update((group.index, tick) for tick in covered)
        counts[row["outcome"]] += row["points"]
    assert set(ticks.values()) <= {1}
    assert counts["rejected"] == result["rejected"]
    assert counts["not_sent"] == result["not_sent"]
    if spec.acknowledges:
        assert counts["unknown"] == result["unknown"]
    else:
        assert counts["unknown"] <= result["unknown"]


def check_events(spec: LoadSpec, outdir: Path, result: dict[str, Any]) -> None:
    """Each node goes down and up by turns, and never are all of them down."""
    down: set[int] = set()
    rows = events(outdir, result["worker"])
    for row in rows:
        assert list(row) == ["t", "event", "node", "detail"]
        assert row["detail"]
        if row["event"] == "node down":
            assert row["node"] not in down
            down.add(row["node"])
        else:
            assert row["event"] == "node up"
            down.remove(row["node"])
        assert len(down) < len(spec.nodes)
    assert [row["t"] for row in rows] == sorted(row["t"] for row in rows)
    assert result["failovers"] == sum(row["event"] == "node down" for row in rows)


def expected_points(spec: LoadSpec) -> set[Point]:
    """Names, timestamps and values of the whole run."""
    schedule = Schedule(spec)
    kind = ValueType(spec.value_type)
    points: set[Point] = set()
    for series in schedule.series():
        times = schedule.timestamps_ms(series.rank, series.ticks)
        for timestamp, value in zip(
            times.tolist(), values(series.number, times).tolist(), strict=True
        ):
            text = kind.text(value)
            points.add(
                (
                    spec.metric_name(series.number),
                    timestamp,
                    {"long": int, "double": float, "string": str}[kind.value](text),
                )
            )
    assert len(points) == schedule.points
    return points


def received(*sinks: Sink | TelnetSink) -> Counter[Point]:
    return Counter(
        (point["name"], point["timestamp"], point["value"])
        for sink in sinks
        for point in sink.points
    )


def nodes_by_sensor(sinks: Iterable[Sink], from_s: float, until_s: float) -> dict[str, set[int]]:
    """The nodes that each sensor's points came to in a span of time (epoch s)."""
    found: dict[str, set[int]] = defaultdict(set)
    for node, sink in enumerate(sinks):
        for at_s, batch in zip(sink.arrivals, sink.batches, strict=True):
            if from_s <= at_s < until_s:
                for point in batch:
                    found[point["name"]].add(node)
    return found


async def work(
    spec: LoadSpec,
    outdir: Path,
    trouble: Callable[[], Awaitable[None]] | None = None,
    worker: int = 0,
) -> dict[str, Any]:
    """Run one worker in this process, with `trouble` beside it."""
    running = Worker(spec, worker, outdir)
    beside = asyncio.ensure_future(trouble()) if trouble else None
    result = await running.run()
    if beside:
        await beside
    check(spec, outdir, result)
    return result


async def at(spec: LoadSpec, seconds: float) -> None:
    """Wait until so many seconds after the start of the schedule."""
    await asyncio.sleep(spec.start_ms / 1000 + seconds - time.time())


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so; the test's time limit is the only one."""
    while not condition():
        await asyncio.sleep(0.01)


def measured(outdir: Path, *, warmup: bool = False) -> Any:
    return histograms.merged([files.histogram_path(outdir, 0)], warmup=warmup)


def at_least(histogram: Any, latency_us: float) -> int:
    """Number of points whose latency was certainly not below `latency_us`."""
    indexes = np.flatnonzero(np.array(histogram.counts))
    return sum(
        histogram.counts[int(i)]
        for i in indexes
        if histogram.get_highest_equivalent_value(histogram.get_value_from_index(int(i)))
        >= latency_us
    )
