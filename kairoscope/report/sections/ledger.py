"""The ledger: balance, counts, and what is unaccounted for by name."""

from dataclasses import dataclass

from kairoscope.report import units
from kairoscope.report.data import Json, RunData, items, known
from kairoscope.report.load import counted
from kairoscope.report.table import Table, Text
from kairoscope.report.units import NONE, number


@dataclass(frozen=True)
class Equation:
    """A line of the ledger's balance; `holds` is None if it could not be checked."""

    text: str
    left: str
    right: str
    holds: bool | None


@dataclass(frozen=True)
class Ledger:
    """The ledger: balance, counts, and what is unaccounted for by name."""

    known: bool
    balanced: bool | None
    equations: tuple[Equation, ...]
    counts: Table
    gaps: Table
    gap_count: int
    gap_series: int
    at_all: Table
    notes: Text


_COUNTS = (
    ("scheduled", "points that the schedule asked for"),
    ("not_sent", "never left the loader"),
    ("sent", "left the loader"),
    ("acknowledged", "the server answered that it took them"),
    ("rejected", "the server refused them"),
    ("unknown", "no answer: may or may not be stored"),
    ("stored", "acknowledged and read back with the right value"),
    ("queued", "still waiting on the servers"),
    ("failed_logged", "the servers logged that they could not store them"),
    ("missing", "acknowledged, not found"),
    ("wrong_value", "found with another value"),
    ("unknown_stored", "of those without an answer: found"),
    ("unknown_missing", "of those without an answer: not found"),
    ("rejected_stored", "refused and yet found"),
    ("not_sent_stored", "never sent and yet found"),
    ("unexpected", "found at times that were never scheduled"),
    ("rows_by_cql", "rows counted in the store"),
    ("rows_expected", "rows that there should be"),
)


def of(run: RunData) -> Ledger:
    """The ledger, or what the loaders alone counted where nothing was read back."""
    book = run.ledger
    rows = []
    for key, meaning in _COUNTS:
        value = number(book.get(key)) if book else counted(run, key)
        if value is not None:
            rows.append((key.replace("_", " "), units.count(value), meaning))
    equations = tuple(
        Equation(
            str(e.get("text", "?")),
            units.count(e.get("left")),
            units.count(e.get("right")),
            _holds(e),
        )
        for e in items(book, "equations")
        if isinstance(e, dict)
    )
    gaps = [gap for gap in items(book, "gaps") if isinstance(gap, dict)]
    gap_series = round(number(book.get("gap_series")) or len(gaps))
    balanced = book.get("balanced")
    if balanced is False and all(e.holds is not False for e in equations):
        # Nothing contradicts: what was not read back cannot be balanced.
        balanced = None if any(e.holds is None for e in equations) else False
    return Ledger(
        known=bool(book),
        balanced=balanced if isinstance(balanced, bool) else None,
        equations=equations,
        counts=Table(("points", "count", "meaning"), tuple(rows), numeric=(1,)),
        gaps=Table(
            ("series", "what", "points", "timestamps (UTC)"),
            tuple(
                (
                    str(gap.get("series", "?")),
                    str(gap.get("kind", "?")),
                    units.count(gap.get("count")),
                    _timestamps(gap),
                )
                for gap in gaps
            ),
            numeric=(2,),
        ),
        gap_count=round(known(number(book.get("gap_count")), gap_series)),
        gap_series=gap_series,
        at_all=_at_all(book),
        notes=tuple(str(note) for note in items(book, "notes")),
    )


_AT_ALL = (
    ("repaired", "on some replica, and read back after a read at ALL, which repairs"),
    ("not_found", "on some replica, and still not found by a query: their index may be missing"),
    ("lost", "on no replica"),
)


def _at_all(book: Json) -> Table:
    """What every replica has of the missing points; empty if none are, or in an older run."""
    head = ("missing points, by a read at ALL", "count")
    found = book.get("at_all")
    if not isinstance(found, dict):
        return Table(head, (), numeric=(1,))
    if found.get("problem"):
        rows = [(f"not looked for: {found['problem']}", units.count(found.get("looked_for")))]
    else:
        rows = [(meaning, units.count(found.get(key))) for key, meaning in _AT_ALL]
    return Table(head, tuple(rows), numeric=(1,))


def _holds(equation: Json) -> bool | None:
    """Whether an equation holds; None if a side is not known, which is not the same as unequal."""
    holds = equation.get("holds")
    known = number(equation.get("left")) is not None and number(equation.get("right")) is not None
    return holds if known and isinstance(holds, bool) else None


def _timestamps(gap: Json, shown: int = 4) -> str:
    times = items(gap, "timestamps_ms")
    total = int(number(gap.get("count")) or len(times))
    text = ", ".join(units.clock(t, millis=True).removesuffix(" UTC") for t in times[:shown])
    more = total - min(len(times), shown)
    return f"{text} and {more:,} more" if more > 0 and text else text or NONE
