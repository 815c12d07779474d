"""The charts of latency: at the clients, of queries, and at the store."""

import math
from collections.abc import Iterable, Sequence

from kairoscope.report import units
from kairoscope.report.charts.chart import (
    COLOURS,
    LIMIT_COLOUR,
    Chart,
    Pairs,
    Series,
    Value,
    one_each,
)
from kairoscope.report.data import Json, RunData, items, part
from kairoscope.report.load import LONGEST_S, latency_from, latency_limit_ms, latency_to
from kairoscope.report.units import number


def client_latency(run: RunData) -> Chart | None:
    """Client latency over time: p50, p95, p99 and maximum of every second."""
    rows = _by_second(run, run.latency)
    if not rows:
        return None
    # Every second gets its place: one without any acknowledgement must show as a hole. Under load a
    # second may not have been looked at; one without any has a look, of no latency.
    told_live = "last" in run.latency
    seconds: Sequence[int] = sorted(rows) if told_live else range(min(rows), max(rows) + 1)
    key = "p99" if told_live else "max"
    worst = max((v for v in _line(rows, seconds, key) if v is not None), default=None)
    silent = sum(s not in rows for s in seconds)
    what = "acknowledgement" if run.acknowledges else "point handed over"
    gap = f" {silent} second(s) had no {what} at all." if silent else ""
    highest = f"the slowest took {units.milliseconds(worst)}"
    if told_live:
        highest = f"of the slowest loader process, p99 {units.milliseconds(worst)} at most so far"
    lines = (
        Series("p50", _line(rows, seconds, "p50"), COLOURS[0]),
        Series("p95", _line(rows, seconds, "p95"), COLOURS[2]),
        Series("p99", _line(rows, seconds, "p99"), COLOURS[1]),
        Series("max", _line(rows, seconds, "max"), COLOURS[3]),
    )
    return Chart(
        id="client-latency",
        title="Client latency over time",
        summary=f"Latency from {latency_from(run)} to {latency_to(run)}, per second; "
        f"{highest}.{gap}",
        x=tuple(float(s) for s in seconds),
        x_label="since the start of the load (min:s)",
        y_label="ms",
        series=(
            *(line for line in lines if any(v is not None for v in line.values)),
            *_limit_line(latency_limit_ms(run), len(seconds), "p99 limit"),
        ),
        log=True,
    )


def query_latency(run: RunData) -> Chart | None:
    """Latency of the queries beside the load: median and maximum of each second that has any.

    A second has a handful of queries, too few for any other percentile.
    """
    rows = _by_second(run, part(run.queries, "latency"))
    if not rows:
        return None
    seconds = sorted(rows)
    worst = max((v for v in _line(rows, seconds, "max") if v is not None), default=None)
    return Chart(
        id="query-latency",
        title="Query latency over time",
        summary="Latency of queries from the planned time to the whole answer, by second; "
        f"the slowest took {units.milliseconds(worst)}.",
        x=tuple(float(s) for s in seconds),
        x_label="since the start of the load (min:s)",
        y_label="ms",
        series=(
            Series("median", _line(rows, seconds, "p50"), COLOURS[0]),
            Series("max", _line(rows, seconds, "max"), COLOURS[3]),
        ),
        log=True,
        sparse=True,
    )


def _by_second(run: RunData, latency: Json) -> dict[int, Json]:
    """The intervals of a latency record by second since the start of the load."""
    start = run.start_s or 0.0
    rows: dict[int, Json] = {}
    for record in items(latency, "intervals"):
        t = number(part(record).get("t"))
        # Seconds since the start; anything beyond the longest run is an epoch time.
        since = None if t is None else t if abs(t) < LONGEST_S else t - start
        if since is not None and abs(since) < LONGEST_S:
            rows[math.floor(since)] = record
    return rows


def _line(rows: dict[int, Json], seconds: Iterable[int], key: str) -> tuple[Value, ...]:
    return tuple(_positive(number(rows.get(s, {}).get(key))) for s in seconds)


PERCENTILES = (
    ("50", "p50_ms"),
    ("75", "p75_ms"),
    ("90", "p90_ms"),
    ("95", "p95_ms"),
    ("98", "p98_ms"),
    ("99", "p99_ms"),
    ("99.9", "p99_9_ms"),
)


def nines(percentile: float) -> float:
    """Where a percentile (0 to 100) stands: 90 at 1, 99 at 2, 99.9 at 3."""
    return -math.log10(1 - percentile / 100)


def percentiles(run: RunData) -> Chart | None:
    """Client latency by percentile; every nine more of the percentile is one step to the right."""
    points = [(p, _positive(number(run.latency.get(key)))) for p, key in PERCENTILES]
    points = [(p, v) for p, v in points if v is not None]
    total, worst = number(run.latency.get("count")), _positive(number(run.latency.get("max_ms")))
    # Points of a request share its latency: the largest is that of one request, not of one point.
    observed = number(run.latency.get("requests")) or total
    if not points or not total:
        return None
    x = [nines(float(p)) for p, _ in points]
    ticks = [(at, f"{p} %") for at, (p, _) in zip(x, points, strict=True)]
    if worst is not None and observed and math.log10(observed) > x[-1]:
        # The largest of n values stands at the percentile 1 - 1/n.
        x.append(math.log10(observed))
        points.append(("max", worst))
        ticks.append((x[-1], "max"))
    return Chart(
        id="percentiles",
        title="Client latency by percentile",
        summary="Client latency at "
        + ", ".join(f"{'' if p == 'max' else 'p'}{p} {units.milliseconds(v)}" for p, v in points)
        + f", of {units.count(total)} points in {units.count(observed)} requests.",
        x=tuple(x),
        x_label="percentile of points (each further nine is one step)",
        y_label="ms",
        series=(
            Series("latency", tuple(v for _, v in points), COLOURS[1]),
            *_limit_line(latency_limit_ms(run), len(points), "p99 limit"),
        ),
        time=False,
        log=True,
        sparse=True,
        ticks=tuple(ticks),
    )


def store_latency(run: RunData) -> Chart | None:
    """Write p99 of `proxyhistograms` per storage node over the captures, in ms."""
    start = run.start_s or min((c.t for c in run.captures), default=0.0)
    lines: dict[str, Pairs] = {}
    for capture in run.captures:
        micros = _positive(number(capture.rows.get("Write", {}).get("99%")))
        # 0.00 means an empty reservoir, not a write in no time.
        if micros is not None:
            lines.setdefault(capture.node, []).append((capture.t - start, micros / 1000))
    if not lines:
        return None
    x = tuple(sorted({t for pairs in lines.values() for t, _ in pairs}))
    rows = {node: [dict(pairs).get(t) for t in x] for node, pairs in lines.items()}
    worst = max(v for pairs in lines.values() for _, v in pairs if v is not None)
    return Chart(
        id="store-latency",
        title="Write p99 at the store (proxyhistograms)",
        summary=f"99th percentile of writes at the coordinator of {len(lines)} storage node(s), "
        f"one dot per capture; the highest is {units.milliseconds(worst)}.",
        x=x,
        x_label="since the start of the load (min:s)",
        y_label="ms",
        series=one_each(rows),
        log=True,
        sparse=True,
    )


def _limit_line(limit: float | None, length: int, label: str) -> Iterable[Series]:
    if limit is not None and limit > 0:
        yield Series(
            f"{label} {units.milliseconds(limit)}", (limit,) * length, LIMIT_COLOUR, dashed=True
        )


def _positive(value: Value) -> Value:
    """A value that a logarithmic axis can show, else None."""
    return value if value is not None and value > 0 else None
