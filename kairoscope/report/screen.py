"""A chart as data for uPlot, which draws it on screen."""

import json

from markupsafe import Markup

from kairoscope.report.charts.chart import FAULT_COLOUR, Chart, Value, thinned

SCREEN_POINTS = 4000  # per line


def uplot(chart: Chart) -> Markup:
    """The chart as JSON for `charts.js`, safe inside a `<script>` element."""
    chart = thinned(chart, SCREEN_POINTS)
    description = {
        "x": [_short(x) for x in chart.x],
        "series": [
            {
                "label": s.label,
                "colour": s.colour,
                "dashed": s.dashed,
                "values": [_short(v) for v in s.values],
            }
            for s in chart.series
        ],
        "time": chart.time,
        "log": chart.log,
        "sparse": chart.sparse,
        "unit": chart.y_label,
        "xLabel": chart.x_label,
        "shade": chart.shade,
        "marks": chart.marks,
        "faults": [[_short(f.begin), _short(f.end), f.label] for f in chart.faults],
        "faultColour": FAULT_COLOUR,
        "ticks": chart.ticks,
        "bands": [
            {
                "colour": band.colour,
                "low": [_short(v) for v in band.low],
                "high": [_short(v) for v in band.high],
            }
            for band in chart.bands
        ],
    }
    text = json.dumps(description, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # A label such as "</script>" must not end the element that carries it.
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))  # noqa: S704


def _short(value: Value) -> Value:
    """Five significant digits are more than a screen shows, and half the bytes."""
    return None if value is None else float(f"{value:.5g}")
