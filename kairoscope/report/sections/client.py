"""Latency at the clients by percentile, and in its parts."""

from kairoscope.report import units
from kairoscope.report.charts.latency import PERCENTILES
from kairoscope.report.data import Json, RunData, items, part
from kairoscope.report.table import Table
from kairoscope.report.units import NONE, number


def latency(run: RunData) -> Table:
    """Client latency by percentile, with the number of points behind each."""
    return percentiles(run.latency, "points")


def percentiles(latency: Json, what: str) -> Table:
    """A latency by percentile, of so many of `what`."""
    total = number(latency.get("count"))
    if not total:
        return Table((), ())
    rows = []
    for name, key in PERCENTILES:
        value = number(latency.get(key))
        if value is not None:
            slower = round(total * (1 - float(name) / 100))
            rows.append((f"p{name}", units.milliseconds(value), units.count(total), f"{slower:,}"))
    for name, key in (("max", "max_ms"), ("mean", "mean_ms")):
        value = number(latency.get(key))
        if value is not None:
            slower_text = "0" if name == "max" else NONE
            rows.append((name, units.milliseconds(value), units.count(total), slower_text))
    head = ("percentile", "latency", f"{what} measured", "of these slower, about")
    return Table(head, tuple(rows), numeric=(1, 2, 3))


def parts(run: RunData) -> Table:
    """Where the latency is: of each server and loader host, in the loader and behind it.

    What there is one of is the whole, and has no line.
    """
    whole = run.latency
    named = [
        (str(part(each).get(key)), part(each))
        for several, key in (("nodes", "node"), ("hosts", "host"))
        if len(found := items(whole, several)) > 1
        for each in found
    ]
    parts = [
        ("waiting for a connection", part(whole, "wait")),
        ("from then until answered", part(whole, "service")),
    ]
    columns = ("p50_ms", "p99_ms", "p99_9_ms", "max_ms")
    rows = []
    for name, each in (*named, *parts):
        if count := number(each.get("count")):
            values = (number(each.get(key)) for key in columns)
            told = (NONE if value is None else units.milliseconds(value) for value in values)
            rows.append((name, *told, units.count(count)))
    head = ("of, or in", "p50", "p99", "p99.9", "max", "points measured")
    return Table(head, tuple(rows), numeric=(1, 2, 3, 4, 5))


def warmup_points(run: RunData) -> str:
    """How many points of the warm-up are not among the percentiles; empty if that is not known."""
    points = number(run.latency.get("warmup_count"))
    return "" if points is None else units.count(points)
