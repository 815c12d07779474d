"""The runs of a bake-off's system, as its document names them. Pure, of the run folders."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.compare import runs
from kairoscope.compare.runs import Run
from kairoscope.errors import UserError
from kairoscope.report import units
from kairoscope.series import record
from kairoscope.series.bakeoff import SEARCH


@dataclass(frozen=True)
class Book:
    """A run's ledger as far as the table goes, in points.

    Attributes:
        scheduled: of the whole load, warm-up included.
        acknowledges: whether the protocol tells that a point has arrived.
        claimed: that must be in the store: acknowledged, or sent where nothing is.
        stored: those of them that came back right; None: nobody looked.
        queued: those of the others that still waited on the servers then: they may come yet.
        seconds: to the last acknowledgement, at least the load's length: what a server does not
            take is sent again for a while.
    """

    scheduled: int
    acknowledges: bool
    claimed: int
    stored: int | None
    queued: int
    seconds: float

    @property
    def share(self) -> float | None:
        """Of the claimed points that came back; None if nobody looked, or there are none."""
        return None if self.stored is None or not self.claimed else self.stored / self.claimed

    @property
    def shown(self) -> str:
        """The share as text, which is the least that it can be while points wait."""
        least = "at least " if self.queued and self.share is not None else ""
        return least + units.percent(self.share)


@dataclass(frozen=True)
class Killed:
    """A kill: what came of its run's points (None: it is not known); seconds from the last
    acknowledgement to the kill (None: not told), and from there until servers served again (None:
    they did not if they `stayed_down`, or it is not known)."""

    book: Book | None
    after_s: float | None
    serving_s: float | None
    stayed_down: bool

    @property
    def share(self) -> float | None:
        """Of the claimed points that came back; None if that is not known, or there are none."""
        return self.book.share if self.book else None

    @property
    def shown(self) -> str:
        """The share as text."""
        return self.book.shown if self.book else units.NONE


@dataclass(frozen=True)
class System:
    """A system's document with its runs, by step, and the document of its search; what they say of
    when queries found all points; `odd`: which of their files cannot be read, and why."""

    document: Mapping[str, Any]
    runs: dict[str, Run] = field(default_factory=dict)
    books: dict[str, Book] = field(default_factory=dict)
    killed: dict[str, Killed] = field(default_factory=dict)
    visible: dict[str, dict[str, Any]] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of its experiment."""
        return str(self.document["name"])

    @property
    def searched(self) -> Mapping[str, Any] | None:
        """What its search came to."""
        result: Mapping[str, Any] | None = self.search.get("result")
        return result


def stayed_down(killed: Mapping[str, Any]) -> bool:
    """Whether a killed.json says that nothing served again. One of a run that ended before that was
    known says nothing of it."""
    return "serving_s" in killed and killed["serving_s"] is None


def read(folder: Path, document: Mapping[str, Any]) -> System:
    """A system's runs of a bake-off's folder.

    A file that cannot be read takes no more with it than its own figures.
    """
    found = System(document)
    for step, name in document["steps"].items():
        if step == SEARCH:
            found.search.update(_file(found, step, folder / name / record.FILE))
            continue
        try:
            run = found.runs[step] = runs.read(folder / name)
        except UserError as error:
            found.odd[step] = error.message
            continue
        ledger, killed, visible = (
            _file(found, step, run.folder / file)
            for file in (run_folder.LEDGER, run_folder.KILLED, run_folder.VISIBLE)
        )
        book = _book(run, ledger)
        if book:
            found.books[step] = book
        if killed:
            after_s, serving_s = killed.get("after_arrived_s"), killed.get("serving_s")
            found.killed[step] = Killed(book, after_s, serving_s, stayed_down(killed))
        if visible:
            found.visible[step] = visible
    return found


def _file(found: System, step: str, path: Path) -> dict[str, Any]:
    """A document of a step that may not be there; nothing, and why it is odd, if it is cut off."""
    try:
        return run_folder.read_object(path) if path.exists() else {}
    except UserError as error:
        found.odd[step] = error.message
        return {}


def _book(run: Run, ledger: Mapping[str, Any]) -> Book | None:
    """None if it has no ledger, or the load never started."""
    load = run.manifest.get("load")
    if not load or not ledger:
        return None
    start_s, end_s = load["start_ms"] / 1000, load["end_ms"] / 1000
    names = ("acknowledged", "stored") if ledger["acknowledges"] else ("unknown", "unknown_stored")
    claimed, stored = (ledger[name] for name in names)
    arrived_s = run.measurements.get("arrived_t") or 0.0
    return Book(
        ledger["scheduled"],
        ledger["acknowledges"],
        claimed,
        stored,
        ledger["queued"] or 0,
        max(end_s, arrived_s) - start_s,
    )
