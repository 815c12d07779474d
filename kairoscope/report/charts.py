"""The charts of the report: what each one shows. How they are drawn is in `draw`.

A chart is described once, as plain numbers, and drawn twice: as SVG for print and for readers
without scripts, with uPlot on screen.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import numpy as np

from kairoscope.report import units
from kairoscope.report.data import Json, RunData, items, part, samples
from kairoscope.report.units import number

# Okabe-Ito without its black and its yellow, which vanish on a dark and on a light page. In their
# place two that eyes without one kind of cones tell from these as well (a test computes it).
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#994422", "#774466"),
)
LIMIT_COLOUR = "#888888"
FAULT_COLOUR = COLOURS[4]
MAX_NAMED = 4  # faults that are named in a chart; of more there is only room for their numbers
MAX_LINES = 6  # more cannot be told apart where they cross; then processes are summed by role

_LONGEST_S = 1e6  # no run lasts as long as this, eleven days

Value = float | None
Row = list[Value]
Pairs = list[tuple[float, Value]]


@dataclass(frozen=True)
class Series:
    """One line: a value or None (a gap) for each x of its chart."""

    label: str
    values: tuple[Value, ...]
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Band:
    """Between what a line may lie, for each x of its chart; None where that is not known."""

    low: tuple[Value, ...]
    high: tuple[Value, ...]
    colour: str


@dataclass(frozen=True)
class Span:
    """A time in which something was wrong on purpose, in x of its chart, and its name there."""

    begin: float
    end: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A picture: lines over a common x.

    `x` is in seconds since the start of the load when `time` is set. `shade` is a span of x drawn
    darker (the warm-up), `marks` are x of vertical lines (events), `ticks` are fixed (x, label)
    pairs. `sparse` charts have few measurements: they show each one and connect them over gaps.
    `faults` are spans of x with something wrong on purpose. `bands` are drawn behind the lines, in
    charts of so few x that none is left out.
    `summary` says in words what a reader who cannot see the picture should know.
    """

    id: str
    title: str
    summary: str
    x: tuple[float, ...]
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    time: bool = True
    log: bool = False
    sparse: bool = False
    shade: tuple[float, float] | None = None
    marks: tuple[float, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    bands: tuple[Band, ...] = ()
    faults: tuple[Span, ...] = ()

    @property
    def extremes(self) -> list[float]:
        """All values that there must be room for."""
        lines = [s.values for s in self.series]
        lines += [line for band in self.bands for line in (band.low, band.high)]
        return [v for line in lines for v in line if v is not None]


def thinned(chart: Chart, limit: int) -> Chart:
    """The chart with at most `limit` points a line.

    Neighbours are merged into their maximum, so that a short spike stays visible; a bucket that is
    mostly a gap stays a gap.
    """
    size = math.ceil(len(chart.x) / limit)
    if size <= 1:
        return chart
    starts = range(0, len(chart.x), size)

    def merged(values: tuple[Value, ...]) -> tuple[Value, ...]:
        buckets = [values[i : i + size] for i in starts]
        known = [[v for v in bucket if v is not None] for bucket in buckets]
        return tuple(
            max(some) if some and 2 * len(some) >= len(bucket) else None
            for bucket, some in zip(buckets, known, strict=True)
        )

    return replace(
        chart,
        x=tuple(chart.x[i] for i in starts),
        series=tuple(replace(s, values=merged(s.values)) for s in chart.series),
    )


def build(run: RunData, more: Iterable[Chart] = ()) -> dict[str, Chart]:
    """The charts that the run's files suffice for, by id, and `more` of them."""
    makers: tuple[Callable[[RunData], Chart | None], ...] = (
        throughput,
        client_latency,
        percentiles,
        query_latency,
        store_latency,
        queue,
        flows,
        cpu,
    )
    charts = [chart for maker in makers if (chart := maker(run)) is not None]
    charts += more
    return {chart.id: _in_context(chart, run) for chart in charts if _drawable(chart)}


def _drawable(chart: Chart) -> bool:
    """Whether any line has two values to draw a line between (or one, where each is shown)."""
    least = 1 if chart.sparse else 2
    return any(sum(v is not None for v in s.values) >= least for s in chart.series)


def throughput(run: RunData) -> Chart | None:
    """Points per second over time: due by the schedule, and acknowledged (over telnet: sent).

    A replay is due as fast as it goes, so that it has no line of its own to be measured by.
    """
    start = run.start_s
    workers = [[r for r in lines if units.epoch_s(r.get("t"))] for lines in run.progress]
    workers = [lines for lines in workers if lines]
    if start is None or not workers:
        return None
    last = max(units.epoch_s(lines[-1]["t"]) or 0.0 for lines in workers) - start
    if not 1 <= last < _LONGEST_S:
        return None
    # Workers write once a second, but not at the same moment: their cumulative counts are read off
    # at whole seconds, where they can be added.
    seconds = np.arange(0, round(last) + 1, dtype=float)
    done, what = "acknowledged", "acknowledged"
    if not run.acknowledges:
        done, what = "sent", "handed to the socket"
    rows = {key: np.zeros(len(seconds)) for key in ("due", done)}
    for lines in workers:
        # At the start nothing has been counted yet.
        later = [r for r in lines if (units.epoch_s(r["t"]) or 0.0) > start]
        at = [0.0, *((units.epoch_s(r["t"]) or 0.0) - start for r in later)]
        for key in rows:
            counts = [0.0, *(number(r.get(key)) or 0.0 for r in later)]
            rows[key] += np.interp(seconds, at, counts)
    due, arrived = (tuple(np.diff(rows[key]).tolist()) for key in ("due", done))
    planned = int(number(run.load.get("workers")) or 0)
    scheduled = Series("scheduled", due, COLOURS[0], dashed=True)
    return Chart(
        id="throughput",
        title="Points per second",
        summary=f"Points per second {'' if run.replay else 'scheduled and '}{what}, by "
        f"{max(len(run.progress), planned)} loader process(es); the slowest second {what} "
        f"{units.count(min(arrived))}.",
        x=tuple(seconds[1:].tolist()),
        x_label="since the start of the load (min:s)",
        y_label="points/s",
        series=(*(() if run.replay else (scheduled,)), Series(what, arrived, COLOURS[1])),
    )


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


def latency_from(run: RunData) -> str:
    """What client latency counts from."""
    return "the start of the request" if run.replay else "the planned send time"


def latency_to(run: RunData) -> str:
    """What client latency counts to."""
    return "the acknowledgement" if run.acknowledges else "the hand-over to the socket"


def _by_second(run: RunData, latency: Json) -> dict[int, Json]:
    """The intervals of a latency record by second since the start of the load."""
    start = run.start_s or 0.0
    rows: dict[int, Json] = {}
    for record in items(latency, "intervals"):
        t = number(part(record).get("t"))
        # Seconds since the start; anything beyond the longest run is an epoch time.
        since = None if t is None else t if abs(t) < _LONGEST_S else t - start
        if since is not None and abs(since) < _LONGEST_S:
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
        series=tuple(
            Series(node, tuple(values), COLOURS[i % len(COLOURS)], dashed=i >= len(COLOURS))
            for i, (node, values) in enumerate(rows.items())
        ),
        log=True,
        sparse=True,
    )


def queue(run: RunData) -> Chart | None:
    """Points that wait to be stored, of each server that takes them.

    Not what a restart would write again (`since_checkpoint`): that is a saw-tooth of the
    checkpoints, large enough to hide a queue that grows.
    """
    waiting = samples(run.queue, "waiting") or samples(run.queue, "file_queue")
    x, rows = _on_grid(waiting, run)
    depths = [v for row in rows.values() for v in row if v is not None]
    if not depths:
        return None
    failed = sum("error" in record for record in run.queue)
    holes = f" {failed} sample(s) failed and show as holes." if failed else ""
    return Chart(
        id="queue",
        title=f"{run.title} queue depth",
        summary=f"Points waiting in {run.title} to be stored; "
        f"at most {units.count(max(depths))} on one node.{holes}",
        x=x,
        x_label="since the start of the load (min:s)",
        y_label="points",
        series=tuple(
            Series(label, tuple(values), COLOURS[i % len(COLOURS)], dashed=i >= len(COLOURS))
            for i, (label, values) in enumerate(rows.items())
        ),
    )


def flows(run: RunData) -> Chart | None:
    """Points/s by a stack's own counters: of all processes that have one together, such as what
    was received and what was written."""
    wanted = part(run.manifest, "captures", "flows")
    lines: dict[str, Pairs] = {}
    for label, counter in wanted.items():
        lines[str(label)] = [
            (float(look["t"]), sum(found) if found else None)
            for look in run.counters
            for found in [of_counter(look, str(counter))]
            if number(look.get("t")) is not None
        ]
    x, rows = _on_grid(lines, run)
    most = {
        label: max((v for v in row if v is not None), default=0.0) for label, row in rows.items()
    }
    if not any(most.values()):
        return None
    peaks = ", ".join(f"{label} at most {units.count(value)}/s" for label, value in most.items())
    return Chart(
        id="flows",
        title="Points by the servers' own counters",
        summary=f"What the servers count themselves, their own figures included: {peaks}.",
        x=x,
        x_label="since the start of the load (min:s)",
        y_label="points/s",
        series=tuple(
            Series(label, tuple(values), COLOURS[i % len(COLOURS)])
            for i, (label, values) in enumerate(rows.items())
        ),
    )


def of_counter(look: Json, counter: str) -> list[float]:
    """A counter's values, of each process that has it (`process/counter`, or alone)."""
    return [
        value
        for name, given in part(look, "counters").items()
        if name.rpartition("/")[2] == counter and (value := number(given)) is not None
    ]


def cpu(run: RunData) -> Chart | None:
    """Cores in use over time per process, summed by role where there are many processes."""
    roles = {str(r.get("name")): str(r.get("role")) for r in run.processes}
    processes = {**samples(run.processes, "cpu_s"), **samples(run.processes, "cpu_busy_s")}
    members: dict[str, list[str]] = {}
    for name in processes:
        if roles.get(name) == "host":  # Its server's curve says the same.
            continue
        members.setdefault(roles.get(name, "?"), []).append(name)
    # Loader processes are alike, so their sum says enough; storage nodes are shown one by one as
    # long as the lines can be told apart.
    by_role = sum(len(names) for role, names in members.items() if role != "loader") > MAX_LINES - 1
    lines: dict[str, Pairs] = {}
    labels: dict[str, str] = {}
    for role, names in members.items():
        for name in names:
            label = name
            if role == "machine":
                label = "whole machine"
            elif len(names) > 1 and (by_role or role == "loader"):
                label = f"{role} (all {len(names)})"
            labels[name], lines[name] = label, _rates(processes[name])
    x, by_name = _on_grid(lines, run)
    if not x:
        return None
    rows: dict[str, Row] = {}
    for name, values in by_name.items():
        label = labels[name]
        so_far = rows.get(label, [None] * len(x))
        rows[label] = [_plus(a, b) for a, b in zip(so_far, values, strict=True)]
    peak = max((v for row in rows.values() for v in row if v is not None), default=None)
    cores = number(part(run.manifest, "machine").get("cpus"))
    return Chart(
        id="cpu",
        title="CPU in use",
        summary=f"Cores in use by {', '.join(rows)}; the peak is "
        f"{units.NONE if peak is None else units.significant(peak)}"
        + (f" of {units.count(cores)} cores." if cores else "."),
        x=x,
        x_label="since the start of the load (min:s)",
        y_label="cores",
        series=tuple(
            Series(label, tuple(values), COLOURS[i % len(COLOURS)], dashed=label == "whole machine")
            for i, (label, values) in enumerate(rows.items())
        ),
    )


def latency_limit_ms(run: RunData) -> float | None:
    """The limit that p99 is judged by, in ms; None if it is not."""
    if part(run.verdict, "parts", "latency").get("outcome") == "not judged":
        return None
    judged = number(part(run.verdict, "parts", "latency").get("limit"))
    planned = number(part(run.plan, "experiment", "limits").get("p99_ms"))
    return judged if judged is not None else planned


def warmup_s(run: RunData) -> float | None:
    """Length of the warm-up in seconds; its points do not count in the percentiles.

    None for a replay, whose warm-up is a part of the history and not of the time it takes.
    """
    if run.replay:
        return None
    planned = number(run.load.get("warmup_s"))
    if planned is not None:
        return planned
    ticks, period = (number(run.load.get(key)) for key in ("warmup_ticks", "period_ms"))
    return None if ticks is None or period is None else ticks * period / 1000


def _in_context(chart: Chart, run: RunData) -> Chart:
    """The chart with the warm-up and the events, if its x is time."""
    if not chart.time:
        return chart
    warmup, start = warmup_s(run), run.start_s
    times = [] if start is None else [units.epoch_s(event.get("t")) for event in run.events]
    # Two marks within a second are one line; more than a dozen would hide the curves.
    marks = sorted({float(round(t - (start or 0.0))) for t in times if t is not None})
    low = min(chart.x[0], 0.0)
    return replace(
        chart,
        shade=(0.0, warmup) if warmup else None,
        marks=tuple(m for m in marks if low <= m <= chart.x[-1])[:12],
        faults=faults(run, low, chart.x[-1]),
    )


def faults(run: RunData, low: float, high: float) -> tuple[Span, ...]:
    """When each fault lasted, cut to a chart's x; one that is not undone yet, to its end."""
    start = run.start_s or 0.0
    times: dict[int, dict[str, float]] = {}
    texts: dict[int, str] = {}
    for record in run.faults:
        number_, t = number(record.get("fault")), units.epoch_s(record.get("t"))
        if number_ is not None and t is not None:
            times.setdefault(int(number_), {})[str(record.get("event"))] = t - start
            texts[int(number_)] = str(record.get("text"))
    found = []
    for at, events in sorted(times.items()):
        begin, end = events.get("begun"), min(events.get("undone", high), high)
        if begin is not None and low <= begin <= high:
            label = texts[at] if len(times) <= MAX_NAMED else str(at)
            # What took no time is seen all the same.
            found.append(Span(begin, min(high, max(end, begin + (high - low) / 200)), label))
    return tuple(found)


def _limit_line(limit: float | None, length: int, label: str) -> Iterable[Series]:
    if limit is not None and limit > 0:
        yield Series(
            f"{label} {units.milliseconds(limit)}", (limit,) * length, LIMIT_COLOUR, dashed=True
        )


def _positive(value: Value) -> Value:
    """A value that a logarithmic axis can show, else None."""
    return value if value is not None and value > 0 else None


def _plus(a: Value, b: Value) -> Value:
    """The sum of what is known; None only if neither is."""
    return b if a is None else a if b is None else a + b


def _rates(pairs: Pairs) -> Pairs:
    """Growth per second of a cumulative count between neighbours, at the later one's time.

    A fall means that the process was replaced: its rate is unknown there.
    """
    rates: Pairs = []
    for (t0, v0), (t1, v1) in pairwise(pairs):
        if t1 > t0:
            known = v0 is not None and v1 is not None and v1 >= v0
            rates.append((t1, (v1 - v0) / (t1 - t0) if known else None))  # type: ignore[operator]
    return rates


def _on_grid(lines: dict[str, Pairs], run: RunData) -> tuple[tuple[float, ...], dict[str, Row]]:
    """A common x (seconds since the start of the load) and each line's values on it.

    Samples of several nodes or processes are taken one after another and never on the dot; both
    ways of drawing need them at the same x. Those within half a sampling period of each other
    share one. Where all lines pause for longer, an empty x is put in, so that a hole is not drawn
    over.
    """
    lines = {name: pairs for name, pairs in lines.items() if pairs}
    if not lines:
        return (), {}
    gaps = [b[0] - a[0] for pairs in lines.values() for a, b in pairwise(pairs)]
    period = median(gaps) if gaps else 1.0
    # Looks that come in pairs are no looks with holes between the pairs.
    hole = max(_HOLE * period, 1.5 * float(np.quantile(gaps, 0.75))) if gaps else math.inf
    at: list[float] = []
    rows: dict[str, dict[float, Value]] = {name: {} for name in lines}
    for t, name, value in sorted(
        ((t, name, v) for name, pairs in lines.items() for t, v in pairs), key=lambda s: s[0]
    ):
        if not at or t - at[-1] > period / 2:
            if at and t - at[-1] > hole:
                at.append((at[-1] + t) / 2)
            at.append(t)
        rows[name][at[-1]] = value
    start = at[0] if run.start_s is None else run.start_s
    x = tuple(round(t - start, 3) for t in at)
    return x, {name: [values.get(t) for t in at] for name, values in rows.items()}


_HOLE = 2.5  # sampling periods, at least; a shorter pause is a late sample
