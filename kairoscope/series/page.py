"""A search as people read it: a page with a picture of its trials, and text on a screen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Lines

from kairoscope import __version__, live, run_folder
from kairoscope.report import pages
from kairoscope.report.charts.chart import COLOURS, LIMIT_COLOUR, Band, Chart, Series
from kairoscope.report.table import Table
from kairoscope.series.record import FILE, Record, figure, load_text
from kairoscope.series.search import Trial, at_least, telling

HTML = "search.html"

_WORDS = {
    "found": ("pass", "✓", "found"),
    "all sustained": ("incomplete", "?", "at least"),
    "not judged": ("incomplete", "?", "at least"),
    "none sustained": ("fail", "✗", "nothing sustained"),
    "lost": ("fail", "✗", "points lost"),
    "": ("incomplete", "…", "under way"),
}


def write(record: Record) -> Path:
    """Write search.html beside search.json; OSError if it cannot be."""
    path = record.folder / HTML
    run_folder.replace({path: [html(record)]})
    return path


def html(record: Record) -> str:
    """The page, of a search that has ended or not."""
    document, trials = record.document, record.trials
    result = document["result"] or {}
    tone, symbol, word = _WORDS[result.get("how", "")]
    chart = picture(document["vary"], trials, result)
    left = "Under way, or interrupted: the same command goes on."
    return pages.page(
        "search.html.j2",
        {chart.id: chart} if chart else {},
        title=f"What {document['experiment']} sustains on {document['target']}",
        what=_what(document),
        word=word,
        tone=tone,
        symbol=symbol,
        sentence=result.get("sentence", left),
        trials=_trials(document["vary"], trials),
        conditions=_conditions(document),
        settings=Table(
            ("Setting", "Value"),
            tuple((name, str(value)) for name, value in sorted(document["settings"].items())),
        ),
        json=FILE,
        version=__version__,
    )


def picture(vary: str, trials: Sequence[Trial], result: dict[str, Any]) -> Chart | None:
    """Each trial at its load, with what is known after it; None before there is a trial."""
    if not trials:
        return None
    x = tuple(float(number) for number in range(1, len(trials) + 1))

    def at(sustained: bool | None) -> tuple[float | None, ...]:
        return tuple(t.wanted.load if t.outcome.sustained is sustained else None for t in trials)

    known = [at_least(trials[: n + 1]) for n in range(len(trials))]
    shown = [
        Series("sustained", at(True), COLOURS[2]),
        Series("not sustained", at(False), COLOURS[1]),
        Series("does not say", at(None), LIMIT_COLOUR),
        Series("at least", tuple(known), COLOURS[0], dashed=True),
    ]
    bands: tuple[Band, ...] = ()
    # Of a search that ended otherwise the trials say nothing of what they did not get to.
    if result.get("how") == "found":
        interval = result["capacity"]
        low, high = ((interval[name],) * len(x) for name in ("low", "high"))
        bands = (Band(low, high, COLOURS[0]),)
    return Chart(
        id="trials",
        title="Trials",
        summary=f"{len(trials)} trials in their order, each at its load; dashed is the highest "
        "load that was sustained below any that was not"
        + (f", the band is the {100 * result['confidence']:.0f} % interval." if bands else "."),
        x=x,
        x_label="trial",
        y_label="sensors" if vary == "sensors" else "points/s of each sensor",
        series=tuple(s for s in shown if any(v is not None for v in s.values)),
        time=False,
        log=True,
        sparse=True,
        ticks=_ticks(len(x)),
        bands=bands,
    )


def _ticks(count: int) -> tuple[tuple[float, str], ...]:
    """At most ten numbers: more would touch each other on a telephone."""
    step = -(-count // 10)
    return tuple((float(n), str(n)) for n in range(1, count + 1, step))


def _what(document: dict[str, Any]) -> str:
    wanted = document["wanted"]
    return (
        f"Searched: the most {'sensors' if document['vary'] == 'sensors' else 'points a second'} "
        f"that all five parts of the verdict hold at, to {100 * wanted['precision']:.3g} %; trials "
        f"of {wanted['trial_s']:.0f} s after {wanted['settle_s']:.0f} s in which queues fill, on "
        f"servers deployed for {load_text(wanted['most'], document['vary'])}."
    )


def _trials(vary: str, trials: Sequence[Trial]) -> Table:
    rows = []
    for number, trial in enumerate(trials, 1):
        wanted, outcome = trial.wanted, trial.outcome
        word = outcome.word + (", ended early" if outcome.cut else "")
        rows.append(
            (
                str(number),
                load_text(wanted.load, vary),
                word,
                outcome.ended_by,
                "yes" if outcome.read_back else "no",
                f"{wanted.seconds:.0f} s",
                wanted.purpose,
                outcome.run,
            )
        )
    head = ("Trial", "Load", "Verdict", "Ended by", "Read back", "Measured", "For", "Run")
    return Table(head, tuple(rows), (0, 1, 5))


def _conditions(document: dict[str, Any]) -> Table:
    rows = []
    for name, found in (document["conditions"] or {}).items():
        for key, value in found.items() if isinstance(found, dict) else ():
            rows.append((f"{name}: {key}", str(value)))
    if len(commits := document.get("commits", [])) > 1:
        shown = ", ".join(commit or "not known" for commit in commits)
        rows.append(("commits in the course of its trials", shown))
    rows.append(("warm-ups", str(len(document["warm_ups"]))))
    return Table(("Condition", "Value"), tuple(rows))


def show(record: Record, console: Console) -> None:
    """The trials and the outcome, on a screen."""
    vary = record.document["vary"]
    lines = Lines(box=None)
    for name in ("trial", "load", "verdict", "ended by"):
        lines.add_column(name, justify="right" if name in ("trial", "load") else "left")
    for number, trial in enumerate(record.trials, 1):
        load = load_text(trial.wanted.load, vary)
        by = trial.outcome.ended_by
        lines.add_row(str(number), load, trial.outcome.word, by if len(by) < 70 else f"{by[:67]}…")
    console.print(lines)
    console.print(record.document["result"]["sentence"], soft_wrap=True)


def progress(vary: str, trials: Sequence[Trial], load: float, more: int, each_s: float) -> str:
    """A line before a trial: which one, what is known, what is left."""
    seen = telling(trials)
    low, high = at_least(trials), min((at for at, good in seen if not good), default=None)
    known = ""
    if low is not None and high is not None:
        known = f"; so far between {figure(low, vary)} and {figure(high, vary)}"
    elif low is not None:
        known = f"; so far at least {figure(low, vary)}"
    left = f"about {more} trials left, {live.duration(more * each_s)}"
    return f"trial {len(trials) + 1}: {load_text(load, vary)}{known}; {left}"
