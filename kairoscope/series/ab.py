"""Two experiments that take turns on one target, and the comparison of their runs.

A B B A A B B A …: whatever changes steadily meanwhile (files that grow, a machine that warms up)
falls on both sides alike. The first pair is thrown away: it meets caches, a compiler and a store
that no later one meets. Its run folders are kept, as all are, in results/series/<id>/, where
index.json says which run was what; an interrupted series goes on from there.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from kairoscope import paths, run_folder
from kairoscope.compare import page, sides
from kairoscope.compare.sides import Comparison
from kairoscope.errors import UserError
from kairoscope.series.driver import Driver, Wanted
from kairoscope.stats.groups import TOLERANCE

INDEX = "index.json"
FORMAT = 1
"""Of index.json; raised when a reader of the old one would misread the new one."""

SideName = Literal["first", "second"]
_ABBA: tuple[SideName, ...] = ("first", "second", "second", "first")
THROWN_AWAY = 1
"""Pairs at the beginning."""


@dataclass(frozen=True)
class Turn:
    """A run of a series: which side's, and in which pair; pair 0 is thrown away."""

    pair: int
    side: SideName


@dataclass(frozen=True)
class Done:
    """A turn that came to its end: the name of its run folder, when, and the verdict."""

    pair: int
    side: SideName
    kept: bool
    run: str
    began: str
    ended: str
    verdict: str


@dataclass
class Series:
    """What index.json holds.

    Attributes:
        rounds: pairs that count.
        first, second: the experiments.
        done: turns that are done, in their order.
        empty: whether the store is emptied before each run.
        stopped: run folders of turns that were interrupted, and are made again.
    """

    rounds: int
    target: str
    first: Wanted
    second: Wanted
    factors: list[str] = field(default_factory=list)
    tolerance: float = TOLERANCE
    empty: bool = False
    done: list[Done] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    word: str | None = None

    def wanted(self, side: SideName) -> Wanted:
        """The experiment of a side."""
        return self.first if side == "first" else self.second

    def kept(self, side: SideName) -> list[Done]:
        """The turns of a side that count."""
        return [done for done in self.done if done.side == side and done.kept]

    def write(self, folder: Path) -> None:
        """Write index.json. OSError if it cannot be."""
        run_folder.write_json(folder / INDEX, {"format": FORMAT, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> "Series":
        """The series of a folder. UserError if it holds none that this version understands."""
        document = run_folder.read_object(folder / INDEX)
        if document.pop("format", None) != FORMAT:
            raise UserError(f"{folder / INDEX}: made by another version of Kairoscope")
        try:
            for side in ("first", "second"):
                told = document[side]
                document[side] = Wanted(told["experiment"], tuple(told["options"]))
            document["done"] = [Done(**done) for done in document["done"]]
            return cls(**document)
        except (LookupError, TypeError) as error:
            raise UserError(f"{folder / INDEX}: not what a series writes: {error!r}") from error


def turns(rounds: int) -> list[Turn]:
    """All turns in order: the pair that is thrown away, and `rounds` more."""
    return [Turn(i // 2, _ABBA[i % 4]) for i in range(2 * (rounds + THROWN_AWAY))]


def run(series: Series, folder: Path, driver: Driver, console: Console) -> Comparison:
    """Make the turns that are left, and compare; compare.html and .json are in the folder then.

    Raises:
        KeyboardInterrupt: by the user; the turn that was going on is made again next time.
        UserError: a target could not be brought to an experiment, or nothing was left of a load.
    """
    wanted = turns(series.rounds)
    for turn in wanted[len(series.done) :]:
        number = len(series.done) + 1
        text = "thrown away" if turn.pair < THROWN_AWAY else f"round {turn.pair}"
        experiment = series.wanted(turn.side)
        console.print(
            f"\n[bold]run {number} of {len(wanted)}[/] ({text}): {experiment.experiment}",
            highlight=False,
        )
        _turn(series, turn, folder, driver)
    found = compare(series, folder)
    series.word = found.word
    series.write(folder)
    page.write(found, folder)
    return found


def _turn(series: Series, turn: Turn, folder: Path, driver: Driver) -> None:
    wanted = series.wanted(turn.side)
    driver.prepare(wanted)
    began = _now()
    before = {path.name for path in folder.iterdir()}
    try:
        made = driver.load(wanted, folder)
    except KeyboardInterrupt:
        left = [path for path in folder.iterdir() if (path / run_folder.MANIFEST).exists()]
        series.stopped += sorted(p.name for p in left if p.name not in before | {"latest"})
        series.write(folder)
        raise
    verdict = run_folder.read_object(made / run_folder.VERDICT)
    kept = turn.pair >= THROWN_AWAY
    series.done.append(
        Done(turn.pair, turn.side, kept, made.name, began, _now(), str(verdict.get("verdict")))
    )
    series.write(folder)


def compare(series: Series, folder: Path) -> Comparison:
    """Compare the sides of a series that is at its end, the first pair left out."""
    first, second = ([folder / done.run for done in series.kept(side)] for side in _SIDES)
    names = series.first.experiment, series.second.experiment
    labels = (Path(names[0]).stem, Path(names[1]).stem)
    if labels[0] == labels[1]:
        labels = (f"A ({labels[0]})", f"B ({labels[1]})")
    found = sides.of_folders(
        first,
        second,
        labels=labels,
        tolerance=series.tolerance,
        on_purpose=series.factors,
    )
    thrown = ", ".join(done.run for done in series.done if not done.kept)
    found.notes.append(f"Order: {_order(series.done)}. The first pair is thrown away: {thrown}.")
    return found


_SIDES: tuple[SideName, SideName] = ("first", "second")


def _order(done: Sequence[Done]) -> str:
    return " ".join("A" if each.side == "first" else "B" for each in done)


def start(series: Series, folder: Path, check: Callable[[Wanted], Any]) -> None:
    """Make the folder of a new series; `check` refuses an experiment that cannot be planned."""
    for side in _SIDES:
        check(series.wanted(side))
    try:
        folder.mkdir(parents=True)
        series.write(folder)
    except OSError as error:
        raise UserError(f"The series' folder {folder} could not be made: {error}") from error


def resumed(wanted: Series, name: str) -> tuple[Series, Path]:
    """An interrupted series that goes on, to as many rounds as are wanted now, and is compared as
    is wanted now; and its folder.

    UserError if there is none of that name, or it is of something else.
    """
    folder = paths.series_dir() / name
    if not (folder / INDEX).exists():
        raise UserError(f"--resume {name}: there is no such series in {folder.parent}")
    series = Series.read(folder)
    asked = (wanted.first, wanted.second, wanted.target, wanted.empty)
    if (series.first, series.second, series.target, series.empty) != asked:
        raise UserError(
            f"--resume {name}: that series is of {series.first.experiment} and "
            f"{series.second.experiment} on {series.target}, with other options"
        )
    series.rounds = wanted.rounds
    series.factors, series.tolerance = wanted.factors, wanted.tolerance
    return series, folder


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
