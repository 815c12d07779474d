"""The matrix of `kairoscope faults` as people read it: a page, Markdown, and text on a screen."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Lines

from kairoscope import __version__, run_folder
from kairoscope.compare import comparable
from kairoscope.experiment.faults import GROUPS
from kairoscope.report import pages, units
from kairoscope.series import faults
from kairoscope.series.fault_runs import FILE, Record
from kairoscope.series.faults import Came, Cell

HTML, MARKDOWN = "faults.html", "faults.md"
_HEAD = ("fault", "came to", "acknowledged", "lost", "longest silence", "as before after", "load")
_TONES = {
    "held": ("pass", "✓"),
    "lost": ("fail", "✗"),
    "passed wrongly": ("fail", "✗"),
    "not as before": ("invalid", "!"),
    "invalid": ("invalid", "?"),
    "incomplete": ("incomplete", "…"),
}


def write(record: Record, folder: Path) -> None:
    """Write faults.html and faults.md beside faults.json; OSError if they cannot be."""
    run_folder.replace({folder / HTML: [html(record)], folder / MARKDOWN: [markdown(record)]})


def sentence(record: Record) -> str:
    """What all of it came to."""
    had = [cell for cell in record.cells if not cell.why]
    done = list(record.done.values())
    known = [each.lost for each in done if each.lost is not None]
    words = ", ".join(
        f"{count} {word}" for word in _TONES if (count := sum(d.word == word for d in done))
    )
    sent = sum(each.acknowledged or 0 for each in done)
    left = f"; {len(had) - len(done)} not run yet" if len(done) < len(had) else ""
    lacks = len(record.cells) - len(had)
    gone = f"; {lacks} cannot be had" if lacks else ""
    return (
        f"{len(done)} of {len(had)} runs: {words or 'none'}. {sum(known):,} of {sent:,} "
        f"acknowledged points lost{left}{gone}."
    )


def html(record: Record) -> str:
    """The page, of a matrix that is at its end or not."""
    status = record.exit_status
    tone = {0: "pass", 1: "fail", 2: "incomplete"}[status]
    word = {0: "held", 1: "lost or wrong", 2: "not all held"}[status]
    ons = list(faults.columns(record.cells))
    return pages.page(
        "faults.html.j2",
        {},
        title=f"Faults: {record.experiment} on {record.target}",
        tone=tone,
        word=word if not record.left() else "under way",
        sentence=sentence(record),
        ons=[f"{on}, all at once" if on in GROUPS else on for on in ons],
        rows=[
            (action, [_shown(record, action, on) for on in ons])
            for action in dict.fromkeys(cell.action for cell in record.cells if cell.on)
        ],
        alone=[_shown(record, cell.action, "") for cell in record.cells if not cell.on],
        each=[(cell, record.done[cell.name]) for cell in record.cells if cell.name in record.done],
        lacking=_lacking(record),
        about=_about(record),
        json=FILE,
        version=__version__,
    )


def _ran(record: Record, cell: Cell) -> bool:
    return cell.name in record.done


def _shown(record: Record, action: str, on: str) -> dict[str, Any]:
    """A cell of the matrix: its name, tone, lines of text and where its report is."""
    cell = next((c for c in record.cells if (c.action, c.on) == (action, on)), None)
    name = cell.name if cell else ""
    if cell is None or cell.why:
        return {"name": name, "tone": "", "lines": ["–"], "run": ""}
    if name not in record.done:
        return {"name": name, "tone": "", "lines": ["not run yet"], "run": ""}
    came = record.done[name]
    tone, symbol = _TONES[came.word]
    _, _, sent, lost, silence, recovery, _ = _line(cell, came)
    lines = [f"{symbol} {came.word}", f"{lost} of {sent} lost"]
    if came.silence_s is not None:
        lines.append(f"silent {silence}")
    if came.recovery_s is not None:
        lines.append(f"as before after {recovery}")
    return {"name": name, "tone": tone, "lines": lines, "run": came.run}


def _line(cell: Cell, came: Came) -> tuple[str, ...]:
    return (
        cell.name,
        came.word,
        units.count(came.acknowledged),
        units.count(came.lost),
        units.duration(came.silence_s),
        units.duration(came.recovery_s),
        came.verdict,
    )


def _lacking(record: Record) -> list[tuple[str, str]]:
    """What cannot be had, by the reason: actions and hosts together."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in record.cells:
        if cell.why:
            found.setdefault((cell.action, cell.why), []).append(cell.on)
    return [(f"{action} of {', '.join(ons)}", why) for (action, why), ons in found.items()]


def _about(record: Record) -> list[tuple[str, str]]:
    """Where and when; all that its runs had, where it went on with something else."""
    each = list(record.abouts.values()) or [record.about]

    def all_of(tell: Callable[[Mapping[str, Any]], str | None]) -> str:
        return "; ".join(dict.fromkeys(text for about in each if (text := tell(about))))

    told = {
        "began": record.about.get("began"),
        "machine": all_of(_machine),
        "commit": all_of(comparable.commit),
        "versions": all_of(_versions),
        "asked for": ", ".join(f"{key} {value}" for key, value in record.asked.items() if value),
    }
    return [(name, str(value)) for name, value in told.items() if value]


def _machine(about: Mapping[str, Any]) -> str | None:
    machine = about.get("machine")
    return f"{machine.get('cpu_model')}, {machine.get('cpus')} cores" if machine else None


def _versions(about: Mapping[str, Any]) -> str:
    versions = about.get("versions") or {}
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def markdown(record: Record) -> str:
    """The same as Markdown."""
    rows = [_line(cell, record.done[cell.name]) for cell in record.cells if _ran(record, cell)]
    lines = [
        f"# Faults: {record.experiment} on {record.target}",
        "",
        sentence(record),
        "",
        f"| {' | '.join(_HEAD)} |",
        "|---|---|---:|---:|---:|---:|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        *(f"- {what}: {why}." for what, why in _lacking(record)),
        "",
        *(f"- {name}: {value}" for name, value in _about(record)),
    ]
    return "\n".join(lines) + "\n"


def show(record: Record, console: Console) -> None:
    """The runs and what cannot be had, on a screen."""
    table = Lines(box=None)
    for number, name in enumerate(_HEAD):
        table.add_column(name, justify="right" if 2 <= number <= 5 else "left")
    for cell in record.cells:
        if _ran(record, cell):
            table.add_row(*_line(cell, record.done[cell.name]))
    console.print(table)
    for what, why in _lacking(record):
        console.print(f"not had: {what}: {why}", soft_wrap=True)
    console.print(sentence(record), soft_wrap=True)
