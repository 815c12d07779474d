"""All charts of a run, with what belongs to every one of them: warm-up, events, faults."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from kairoscope.report import units
from kairoscope.report.charts.chart import Chart, Span
from kairoscope.report.charts.cpu import cpu
from kairoscope.report.charts.latency import (
    client_latency,
    percentiles,
    query_latency,
    store_latency,
)
from kairoscope.report.charts.points import flows, queue, throughput
from kairoscope.report.data import RunData
from kairoscope.report.load import warmup_s
from kairoscope.report.units import number

MAX_NAMED = 4  # faults that are named in a chart; of more there is only room for their numbers


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
