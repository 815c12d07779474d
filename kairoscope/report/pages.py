"""Renders the two pages from templates. Everything that comes from files is escaped."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kairoscope import __version__
from kairoscope.report import first, screen, shards, topology, units
from kairoscope.report.charts.chart import Chart
from kairoscope.report.data import GOING_ON, RunData, items, part
from kairoscope.report.load import latency_from, latency_to
from kairoscope.report.published import Comparison
from kairoscope.report.sections import (
    beside,
    client,
    cost,
    followed,
    happened,
    identity,
    kairosdb,
    ledger,
    queries,
    settings,
    store,
    target,
)
from kairoscope.report.units import NONE

_SYMBOLS = {
    "pass": "✓",
    "fail": "✗",
    "invalid": "!",
    "incomplete": "…",
    "unknown": "?",
    "undecided": "≈",
    "not judged": NONE,
    GOING_ON: "▶",
    "within so far": "○",
    "over so far": "!",
    "not yet": "…",
}
_GAPS_OPEN = 20  # series with a gap that are listed without opening anything
_SHARDS_OPEN = 12


def html(
    run: RunData,
    charts: dict[str, Chart],
    comparisons: tuple[Comparison, ...],
    every_ms: int | None = None,
) -> str:
    """The whole report as one page that fetches nothing; with `every_ms`, in which time a browser
    asks for it again, nothing but itself."""
    return page(
        "report.html.j2",
        charts,
        every_ms=every_ms,
        **_common(run, comparisons),
        opened=first.opened(run, first.verdict(run)),
        topology=topology.of(run),
        gaps_open=_GAPS_OPEN,
        shards_open=_SHARDS_OPEN,
    )


def page(
    template: str, charts: dict[str, Chart], every_ms: int | None = None, **context: Any
) -> str:
    """A page from one of the templates, with its charts; see `html`.

    One that is asked for again and again is drawn by scripts alone.
    """
    drawn = {
        name: {"chart": chart, "svg": "" if every_ms else _svg(chart), "json": screen.uplot(chart)}
        for name, chart in charts.items()
    }
    return (
        _environment(escape=True)
        .get_template(template)
        .render(
            **context,
            charts=drawn,
            every_ms=every_ms,
            style=_asset("uPlot.min.css") + _asset("report.css"),
            # The licence asks to go with every copy, and each page is one.
            script=Markup("\n").join(
                (
                    Markup("/*!"),
                    _asset("uPlot.LICENSE.txt"),
                    Markup("*/"),
                    _asset("uPlot.iife.min.js"),
                    *((_asset("live.js"),) if every_ms else ()),
                    _asset("charts.js"),
                )
            ),
        )
    )


def text(template: str, **context: Any) -> str:
    """Markdown from one of the templates, whose cells it escapes itself (filter `cell`)."""
    return _environment(escape=False).get_template(template).render(**context)


def runs(listed: Sequence[object]) -> str:
    """A list of runs, each with `address`, `run`, `started`, `experiment`, `target`, the verdict's
    `word` and its `summary`."""
    return page("runs.html.j2", {}, runs=listed, symbols=_SYMBOLS, version=__version__)


def deploying(deploy: object, every_ms: int | None) -> str:
    """A deploy that a load is to follow: `target`, `word`, `summary`, and `rows` of its stages,
    each with `name`, `word`, `took`, `usual` and `task`. With `every_ms` as in `html`."""
    outcomes = {"done": "pass", "failed": "fail", GOING_ON: "going-on", "not yet": "not-yet"}
    return page(
        "deploying.html.j2",
        {},
        every_ms,
        deploy=deploy,
        classes=outcomes,
        symbols={word: _SYMBOLS.get(word) or _SYMBOLS[outcomes[word]] for word in outcomes},
        version=__version__,
    )


def markdown(run: RunData, comparisons: tuple[Comparison, ...]) -> str:
    """The summary as Markdown; cells are escaped so that no text of a run breaks a table."""
    return text("report.md.j2", **_common(run, comparisons), gaps_open=_GAPS_OPEN)


def _common(run: RunData, comparisons: tuple[Comparison, ...]) -> dict[str, Any]:
    errors, error_texts = happened.loader_errors(run)
    verdict = first.verdict(run)
    return {
        "run": run,
        "title": _title(run),
        "engine": run.engine,
        "verdict": verdict,
        "quoted": first.quoted(run, verdict),
        "not_ours": first.not_ours(run),
        "targets": target.targets(run),
        "sending": target.sending(run),
        "loader_hosts": target.loader_hosts(run),
        "balance": target.balance(run),
        "ledger": ledger.of(run),
        "latency": client.latency(run),
        "latency_parts": client.parts(run),
        "latency_from": latency_from(run),
        "latency_to": latency_to(run),
        "query_latency": queries.latency(run),
        "query_answers": queries.answers(run),
        "query_notes": queries.notes(run),
        "followed_counts": followed.counts(run),
        "followed_times": followed.times(run),
        "followed_notes": followed.notes(run),
        "followed_vanished": followed.vanished(run),
        "queue_note": kairosdb.queue_note(run),
        "warmup_points": client.warmup_points(run),
        "captures": store.captures(run),
        "store_window": store.window(run),
        "not_counted": store.not_counted(run),
        "few_captured": store.few_captured(run),
        "shards": shards.by_node(run),
        "shards_every": units.duration(
            part(run.plan, "experiment", "capture").get("shards_every_s")
        ),
        "shard_balance": shards.balance(run),
        "shard_each": shards.each(run),
        "shard_pressure": shards.pressure(run),
        "processes": cost.processes(run),
        "costs": cost.costs(run),
        "beside": beside.table(run),
        "beside_note": beside.note(run),
        "notes": [str(note) for note in items(run.measurements, "notes")],
        "comparisons": comparisons,
        "settings": settings.table(run),
        "notices": [str(notice) for notice in items(run.plan, "notices")],
        "identity": identity.table(run),
        "events": happened.events(run),
        "faults": happened.faults(run),
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


def _svg(chart: Chart) -> Markup:
    # matplotlib takes seconds to import, and a page that is watched has no use for it.
    from kairoscope.report import draw  # noqa: PLC0415

    return draw.svg(chart)


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
