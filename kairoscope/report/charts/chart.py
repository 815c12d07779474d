"""What a chart is: plain numbers, described once and drawn twice, as SVG for print and for readers
without scripts, with uPlot on screen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

# Okabe-Ito without its black and its yellow, which vanish on a dark and on a light page. In their
# place two that eyes without one kind of cones tell from these as well (a test computes it).
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#994422", "#774466"),
)
LIMIT_COLOUR = "#888888"
FAULT_COLOUR = COLOURS[4]
MAX_LINES = 6  # more cannot be told apart where they cross; then processes are summed by role

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


def one_each(rows: Mapping[str, Sequence[Value]]) -> tuple[Series, ...]:
    """A line for each name, in colours of their own; dashed where these have been had already."""
    return tuple(
        Series(name, tuple(values), COLOURS[i % len(COLOURS)], dashed=i >= len(COLOURS))
        for i, (name, values) in enumerate(rows.items())
    )


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
