"""A comparison as people read it: a page with the report's own charts, and text on a screen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from kairoscope import __version__, run_folder
from kairoscope.compare import within
from kairoscope.compare.comparable import Difference
from kairoscope.compare.sides import Comparison, Row, Side, quoted, short
from kairoscope.report import pages, units
from kairoscope.report.charts.chart import COLOURS, Band, Chart, Series
from kairoscope.report.charts.latency import PERCENTILES, nines
from kairoscope.stats import groups

HTML = "compare.html"
JSON = "compare.json"

_TONES = {"better": "pass", "same": "pass", "worse": "fail", "not comparable": "invalid"}
_SYMBOLS = {"better": "✓", "same": "=", "worse": "✗", "undecided": "?", "not comparable": "!"}
_COLOURS = {"better": "green", "same": "green", "worse": "red"}
_PERCENTILES = tuple((float(p), key) for p, key in PERCENTILES)

Bands = Mapping[float, tuple[float, float]]


def write(found: Comparison, folder: Path) -> tuple[Path, Path]:
    """Write compare.html and compare.json into the folder; OSError if they cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    page, document = folder / HTML, folder / JSON
    run_folder.replace({page: [html(found)], document: run_folder.json_text(found.to_json())})
    return page, document


def html(found: Comparison) -> str:
    """The page."""
    chart = percentiles(found)
    return pages.page(
        "compare.html.j2",
        {chart.id: chart} if chart else {},
        title=f"{found.second.label} beside {found.first.label}",
        what=_what(found),
        word=found.word,
        tone=_TONES.get(found.word, "incomplete"),
        symbol=_SYMBOLS[found.word],
        sentence=found.sentence,
        why_not=found.comparability.why_not if len(found.comparability.why_not) > 1 else [],
        on_purpose=found.comparability.on_purpose,
        metrics=_metrics(found) if found.rows else None,
        how=how(found),
        notes=found.notes,
        settings=_differences(found, found.settings, "Setting"),
        conditions=_differences(found, found.conditions, "Condition"),
        runs=_runs(found),
        left_out=found.left_out,
        version=__version__,
    )


def show(found: Comparison, console: Console) -> None:
    """Print the word, why, and the table."""
    colour = _COLOURS.get(found.word, "yellow")
    console.print(f"\n[bold {colour}]{found.word}[/]", end="  ")
    console.print(found.sentence, markup=False)
    for reason in found.comparability.why_not[1:]:
        console.print(f"  also: {reason}", markup=False)
    for meant in found.comparability.on_purpose:
        console.print(f"  differs on purpose: {meant}", markup=False)
    for text in (*found.left_out, *found.notes):
        console.print(f"  {text}", markup=False)
    if found.rows:
        grid = Table("", "", "ratio", "95 % interval", found.first.label, found.second.label)
        for row in found.rows:
            cells = _cells(row)
            grid.add_row(*(cells[key] for key in _COLUMNS))
        console.print(grid)
        console.print(how(found), markup=False)


_COLUMNS = ("label", "text", "ratio", "interval", "first", "second")


def how(found: Comparison) -> str:
    """What the figures of the table are, in a sentence or two."""
    if found.singles:
        return (
            "Ratio: second by first. Intervals are at 95 %, by a bootstrap of blocks of time "
            "within each run: they do not hold what differs from run to run."
        )
    return (
        f"Figures: geometric mean, and the least and most of {len(found.first.runs)} and "
        f"{len(found.second.runs)} runs. Ratio: second by first, with its 95 % interval between "
        "runs, by Welch's t on logarithms. Better and worse: at 5 % over all "
        f"{len(found.rows)} figures together (Holm). Same: within ±{found.tolerance * 100:g} %, "
        "by two one-sided tests."
    )


def _what(found: Comparison) -> str:
    count = [len(side.runs) for side in (found.first, found.second)]
    return f"{count[0]} and {count[1]} runs" if sum(count) > 2 else "One run a side"


def _metrics(found: Comparison) -> dict[str, Any]:
    return {
        "head": ["Figure", "Word", "Ratio", "95 % interval", found.first.label, found.second.label],
        "numeric": (2, 3, 4, 5),
        "rows": [_cells(row) for row in found.rows],
    }


def _cells(row: Row) -> dict[str, str]:
    interval = row.interval
    return {
        "label": row.metric.label,
        "first": _figures(row.first, row.metric.unit),
        "second": _figures(row.second, row.metric.unit),
        "ratio": quoted(row.ratio, None),
        "interval": f"{short(interval.low)} to {short(interval.high)}" if interval else units.NONE,
        "text": row.text,
        "tone": _TONES.get(row.word, "incomplete"),
    }


def _figures(values: Sequence[float], unit: str) -> str:
    """The geometric mean, and of several the least and the most."""
    if not values:
        return units.NONE
    mean = f"{units.significant(float(np.exp(np.mean(np.log(values)))))} {unit}"
    least, most = units.significant(min(values)), units.significant(max(values))
    return mean if least == most else f"{mean} ({least} to {most})"


def _differences(found: Comparison, these: Sequence[Difference], what: str) -> dict[str, Any]:
    return {
        "head": [what, found.first.label, found.second.label],
        "numeric": (),
        "rows": [[each.what, each.first, each.second] for each in these],
    }


def _runs(found: Comparison) -> dict[str, Any]:
    rows = [
        [run.name, side.label, units.clock(run.started), run.word]
        for side in (found.first, found.second)
        for run in side.runs
    ]
    return {"head": ["Run", "Side", "Started", "Verdict"], "numeric": (), "rows": rows}


def percentiles(found: Comparison) -> Chart | None:
    """Latency by percentile of both sides, with what each may be; None if a side has none."""
    x = tuple(nines(p) for p, _ in _PERCENTILES)
    series, bands, told = [], [], []
    for side, colour in zip((found.first, found.second), COLOURS, strict=False):
        middle, band = _curve(side)
        if not any(v is not None for v in middle):
            return None
        series.append(Series(side.label, middle, colour))
        if band:
            low, high = (
                tuple(band[p][i] if p in band else None for p, _ in _PERCENTILES) for i in (0, 1)
            )
            bands.append(Band(low, high, colour))
        p99 = dict(zip((p for p, _ in _PERCENTILES), middle, strict=True))[99.0]
        told.append(f"{side.label} p99 {units.milliseconds(p99)}")
    banded = "bands: 95 % intervals"
    if bands:
        told.append(f"{banded} within each run" if found.singles else f"{banded} between runs")
    return Chart(
        id="compared-percentiles",
        title="Client latency by percentile",
        summary="; ".join(told) + ".",
        x=x,
        x_label="percentile of points (each further nine is one step)",
        y_label="ms",
        series=tuple(series),
        time=False,
        log=True,
        sparse=True,
        ticks=tuple((at, f"{p:g} %") for at, (p, _) in zip(x, _PERCENTILES, strict=True)),
        bands=tuple(bands),
    )


def _curve(side: Side) -> tuple[tuple[float | None, ...], Bands]:
    """The geometric mean of each percentile over the runs, and its interval."""
    known: dict[float, list[float]] = {}
    for p, key in _PERCENTILES:
        values = [units.number(run.latency.get(key)) for run in side.runs]
        if values and all(v is not None and v > 0 for v in values):
            known[p] = [v for v in values if v is not None]
    middle = tuple(
        float(np.exp(np.mean(np.log(known[p])))) if p in known else None for p, _ in _PERCENTILES
    )
    if len(side.runs) == 1:
        return middle, within.bands(within.read(side.runs[0]), tuple(known))
    if len(side.runs) < groups.LEAST_RUNS:
        return middle, {}
    return middle, {p: groups.mean_interval(values) for p, values in known.items()}
