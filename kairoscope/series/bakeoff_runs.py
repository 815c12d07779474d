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
    they did not)."""

    book: Book | None
    after_s: float | None
    serving_s: float | None

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
    """A system's document with its runs, by step, and the document of its search; `odd` are runs
    that cannot be read."""

    document: Mapping[str, Any]
    runs: dict[str, Run]
    books: dict[str, Book]
    killed: dict[str, Killed]
    search: Mapping[str, Any]
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


def read(folder: Path, document: Mapping[str, Any]) -> System:
    """A system's runs of a bake-off's folder."""
    found = System(document, {}, {}, {}, _search(folder, document))
    for step, name in document["steps"].items():
        if step == SEARCH:
            continue
        try:
            run = runs.read(folder / name)
        except UserError as error:
            found.odd[step] = error.message
            continue
        found.runs[step] = run
        if book := _book(run):
            found.books[step] = book
        if killed := _killed(run, book):
            found.killed[step] = killed
    return found


def _search(folder: Path, document: Mapping[str, Any]) -> Mapping[str, Any]:
    made = document["steps"].get(SEARCH)
    if not made or not (folder / made / record.FILE).exists():
        return {}
    return run_folder.read_object(folder / made / record.FILE)


def _book(run: Run) -> Book | None:
    """None if it has no ledger, or the load never started."""
    path, load = run.folder / run_folder.LEDGER, run.manifest.get("load")
    if not load or not path.exists():
        return None
    ledger = run_folder.read_object(path)
    start_s, end_s = load["start_ms"] / 1000, load["end_ms"] / 1000
    names = ("acknowledged", "stored") if ledger["acknowledges"] else ("unknown", "unknown_stored")
    claimed, stored = (ledger[name] for name in names)
    arrived_s = run.measurements.get("arrived_t") or 0.0
    seconds = max(end_s, arrived_s) - start_s
    return Book(
        ledger["scheduled"],
        ledger["acknowledges"],
        claimed,
        stored,
        ledger["queued"] or 0,
        seconds,
    )


def _killed(run: Run, book: Book | None) -> Killed | None:
    path = run.folder / run_folder.KILLED
    if not path.exists():
        return None
    told = run_folder.read_object(path)
    return Killed(book, told.get("after_arrived_s"), told.get("serving_s"))
