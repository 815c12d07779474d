"""Draws a chart as a small SVG: for print, and for readers without scripts."""

import io
import math
import re
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from kairoscope.report import units
from kairoscope.report.charts.chart import FAULT_COLOUR, Chart, thinned

SVG_POINTS = 400  # per line; more cannot be told apart on a page
_WIDTH, _HEIGHT = 9.0, 3.1  # inches; the page scales it
# Text and axes take the colour of the page around them, light or dark. matplotlib cannot write
# `currentColor`, so it draws them in a colour that nothing else has, which is then replaced.
_INK = "#010203"
_LEFT, _BOTTOM, _TOP = 0.085, 0.17, 0.96  # of the figure; _LEFT at least
_TITLE, _DIGIT = 0.045, 0.0085  # room for the title of the y axis, and for each letter of a label
_LABEL_GAP = 0.062  # least distance of two line labels, of the axes' height
_TIME_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
_STYLE: Any = {  # Any: matplotlib types its setting names as literals
    "svg.fonttype": "none",
    "text.parse_math": False,  # a `$` in the name of a node is no formula
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def svg(chart: Chart) -> Markup:
    """The chart as an inline `<svg>`: text stays text, ids are unique to the chart."""
    chart = thinned(chart, SVG_POINTS)
    with mpl.rc_context(_STYLE | {"svg.hashsalt": f"kairoscope-{chart.id}"}):
        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        _draw(figure, chart)
        out = io.StringIO()
        empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=empty)
    return _inline(out.getvalue(), chart)


def _draw(figure: Figure, chart: Chart) -> None:
    longest = max(len(s.label) for s in chart.series)
    right = max(0.72, 0.985 - 0.0095 * longest)
    highest = f"{max(chart.extremes, default=0):,.0f}"
    left = max(_LEFT, _TITLE + _DIGIT * len(highest))
    axes = figure.add_axes((left, _BOTTOM, right - left, _TOP - _BOTTOM))
    axes.grid(True, color=_INK, alpha=0.14, linewidth=0.6)
    axes.set_axisbelow(True)
    if chart.shade:
        axes.axvspan(*chart.shade, color=_INK, alpha=0.07, linewidth=0)
        over = axes.get_xaxis_transform()  # x in seconds, y from 0 to 1
        axes.text(chart.shade[0], 0.985, " warm-up", va="top", size=8, transform=over, clip_on=True)
    for fault in chart.faults:
        axes.axvspan(fault.begin, fault.end, color=FAULT_COLOUR, alpha=0.22, linewidth=0)
        over = axes.get_xaxis_transform()
        label = f" {fault.label}"
        axes.text(fault.begin, 0.985, label, va="top", size=8, transform=over, clip_on=True)
    for mark in chart.marks:
        axes.axvline(mark, color=_INK, alpha=0.55, linewidth=0.9, linestyle=":")
    for band in chart.bands:
        low, high = ([math.nan if v is None else v for v in line] for line in (band.low, band.high))
        axes.fill_between(chart.x, low, high, color=band.colour, alpha=0.2, linewidth=0)
    for s in chart.series:
        style: dict[str, Any] = {"color": s.colour, "linewidth": 1.5}
        if s.dashed:
            style |= {"linestyle": (0, (4, 2.5)), "linewidth": 1.2}
        if chart.sparse:
            pairs = [(x, v) for x, v in zip(chart.x, s.values, strict=True) if v is not None]
            axes.plot(*zip(*pairs, strict=True), **style, **({} if s.dashed else _DOTS))
        else:
            axes.plot(chart.x, [math.nan if v is None else v for v in s.values], **style)
    _scale(axes, chart)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    _label_lines(axes, chart)


_DOTS: dict[str, Any] = {"marker": "o", "markersize": 4, "clip_on": False}


def _scale(axes: Axes, chart: Chart) -> None:
    low, high = chart.x[0], chart.x[-1]
    if chart.time:
        low = min(low, 0.0)  # the load's start is on every chart
    if high > low:
        axes.set_xlim(low, high)
    if chart.ticks:
        axes.xaxis.set_major_locator(FixedLocator([x for x, _ in chart.ticks]))
        axes.set_xticklabels([label for _, label in chart.ticks])
    elif chart.time:
        span = max(high - low, 1.0)
        step = next((s for s in _TIME_STEPS if span / s <= 10), _TIME_STEPS[-1])
        first = math.ceil(low / step) * step
        at = [first + i * step for i in range(int((high - first) // step) + 1)]
        axes.xaxis.set_major_locator(FixedLocator(at))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: units.offset(x)))
    if chart.log:
        axes.set_yscale("log")
        bottom, top = _log_range(min(chart.extremes), max(chart.extremes))
        axes.set_ylim(bottom, top)
        few = top / bottom < 500
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=12))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
        axes.margins(y=0.08)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: units.significant(y)))


def _log_range(low: float, high: float) -> tuple[float, float]:
    """A little more than the values span, and at least a decade, as `charts.js` has it too."""
    widen = max(1.4, math.sqrt(10 * low / high))
    return low / widen, high * widen


def _label_lines(axes: Axes, chart: Chart) -> None:
    """Each line's label at its right end, pushed apart where lines end close together."""
    to_axes = axes.transData + axes.transAxes.inverted()
    labels = []
    for s in chart.series:
        ends = [(x, v) for x, v in zip(chart.x, s.values, strict=True) if v is not None]
        if ends:
            y = float(to_axes.transform(ends[-1])[1])
            labels.append((min(max(y, 0.0), 1.0), s))
    labels.sort(key=lambda label: label[0])
    placed: list[float] = []
    for y, _ in labels:
        placed.append(max(y, placed[-1] + _LABEL_GAP) if placed else y)
    # What was pushed over the top edge goes back down as a block.
    ceiling = 1.0
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - _LABEL_GAP
    for y, (_, s) in zip(placed, labels, strict=True):
        axes.text(
            1.012, y, s.label, color=s.colour, va="center", weight="bold", transform=axes.transAxes
        )


def _inline(text: str, chart: Chart) -> Markup:
    """matplotlib's SVG document as an element of an HTML page."""
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", body, count=1)
    # All charts share the page, so `figure_1` and the like would not be unique.
    body = re.sub(r'\bid="', f'id="{chart.id}-', body)
    body = re.sub(r'href="#', f'href="#{chart.id}-', body)
    body = body.replace("url(#", f"url(#{chart.id}-").replace(_INK, "currentColor")
    return Markup(body.replace("<svg ", '<svg aria-hidden="true" ', 1))  # noqa: S704
