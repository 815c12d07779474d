"""Renders the two pages from templates. Everything that comes from files is escaped."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kairoscope import __version__
from kairoscope.report import draw, first, shards, topology, units, view
from kairoscope.report.charts import Chart, latency_from, latency_to
from kairoscope.report.data import RunData, items, part
from kairoscope.report.reference import Comparison
from kairoscope.report.units import NONE

_SYMBOLS = {
    "pass": "✓",
    "fail": "✗",
    "invalid": "!",
    "incomplete": "…",
    "unknown": "?",
    "undecided": "≈",
    "not judged": NONE,
}
_GAPS_OPEN = 20  # series with a gap that are listed without opening anything
_SHARDS_OPEN = 12


def html(run: RunData, charts: dict[str, Chart], comparisons: tuple[Comparison, ...]) -> str:
    """The whole report as one page that fetches nothing."""
    return page(
        "report.html.j2",
        charts,
        **_common(run, comparisons),
        opened=first.opened(run, first.verdict(run)),
        topology=topology.of(run),
        gaps_open=_GAPS_OPEN,
        shards_open=_SHARDS_OPEN,
    )


def page(template: str, charts: dict[str, Chart], **context: Any) -> str:
    """A page from one of the templates, with its charts, that fetches nothing."""
    drawn = {
        name: {"chart": chart, "svg": draw.svg(chart), "json": draw.uplot(chart)}
        for name, chart in charts.items()
    }
    return (
        _environment(escape=True)
        .get_template(template)
        .render(
            **context,
            charts=drawn,
            style=_asset("uPlot.min.css") + _asset("report.css"),
            # The licence asks to go with every copy, and each page is one.
            script=Markup("\n").join(
                (
                    Markup("/*!"),
                    _asset("uPlot.LICENSE.txt"),
                    Markup("*/"),
                    _asset("uPlot.iife.min.js"),
                    _asset("charts.js"),
                )
            ),
        )
    )


def markdown(run: RunData, comparisons: tuple[Comparison, ...]) -> str:
    """The summary as Markdown; cells are escaped so that no text of a run breaks a table."""
    template = _environment(escape=False).get_template("report.md.j2")
    return template.render(**_common(run, comparisons), gaps_open=_GAPS_OPEN)


def _common(run: RunData, comparisons: tuple[Comparison, ...]) -> dict[str, Any]:
    errors, error_texts = view.loader_errors(run)
    verdict = first.verdict(run)
    return {
        "run": run,
        "title": _title(run),
        "engine": run.engine,
        "verdict": verdict,
        "quoted": first.quoted(run, verdict),
        "not_ours": first.not_ours(run),
        "targets": view.targets(run),
        "sending": view.sending(run),
        "loader_hosts": view.loader_hosts(run),
        "balance": view.balance(run),
        "ledger": view.ledger(run),
        "latency": view.latency(run),
        "latency_parts": view.latency_parts(run),
        "latency_from": latency_from(run),
        "latency_to": latency_to(run),
        "query_latency": view.query_latency(run),
        "query_answers": view.query_answers(run),
        "query_notes": view.query_notes(run),
        "queue_note": view.queue_note(run),
        "warmup_points": view.warmup_points(run),
        "captures": view.captures(run),
        "store_window": view.store_window(run),
        "not_counted": view.not_counted(run),
        "few_captured": view.few_captured(run),
        "shards": shards.by_node(run),
        "shards_every": units.duration(
            part(run.plan, "experiment", "capture").get("shards_every_s")
        ),
        "shard_balance": shards.balance(run),
        "shard_each": shards.each(run),
        "shard_pressure": shards.pressure(run),
        "processes": view.processes(run),
        "costs": view.costs(run),
        "beside": view.beside(run),
        "beside_note": view.beside_note(run),
        "notes": [str(note) for note in items(run.measurements, "notes")],
        "comparisons": comparisons,
        "settings": view.settings(run),
        "notices": [str(notice) for notice in items(run.plan, "notices")],
        "identity": view.identity(run),
        "events": view.events(run),
        "errors": errors,
        "error_texts": error_texts,
        "missing": run.missing,
        "symbols": _SYMBOLS,
        "version": __version__,
    }


def _title(run: RunData) -> str:
    experiment = run.manifest.get("experiment") or part(run.plan, "experiment").get("name")
    target = run.manifest.get("target") or run.plan.get("target")
    return f"Experiment {experiment}, target {target}" if experiment and target else run.folder


@cache
def _environment(*, escape: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("kairoscope.report"),
        autoescape=escape,  # noqa: S701 - Markdown has its own escape, the filter `cell`
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = _cell
    return environment


def _asset(name: str) -> Markup:
    """A file of ours to be inlined as it is: not data, so not escaped."""
    text = (files("kairoscope.report") / "assets" / name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704


def _cell(text: str) -> str:
    """Text for a Markdown table or line: no table bars, no line breaks, no HTML, no links."""
    flat = " ".join(str(text).split())
    for character in ("\\", "|", "<", "[", "`", "*"):
        flat = flat.replace(character, f"\\{character}")
    return flat
