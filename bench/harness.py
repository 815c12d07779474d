"""Measures ours and a baseline in turn, several rounds, and says whether limits hold.

A machine that others use too gets faster and slower by the minute. So a figure of ours alone means
little, and the ratio to a baseline measured seconds later more: each round has its own ratio.
"""

import contextlib
import json
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from kairoscope import __version__, paths
from kairoscope.hosts import machine

RATIO = "ratio"
"""The baseline's cost divided by ours; `<figure>_ratio` is the same of a figure of both."""
ROUNDS = 5


class BenchError(Exception):
    """A measurement that did not come about, or that would not mean what it says."""


@dataclass(frozen=True)
class Round:
    """One side's part of a round.

    Attributes:
        cost: in the bench's unit; less is better.
        figures: what else was measured, by name; names end in their unit.
    """

    cost: float
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Limit:
    """What the median of a figure of ours, or of a ratio, must reach or must not pass."""

    what: str
    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def judge(self, figure: float) -> dict[str, Any]:
        """The limit's entry in the results."""
        holds = self.at_least is None or figure >= self.at_least
        holds = holds and (self.at_most is None or figure <= self.at_most)
        bound = self.at_least if self.at_most is None else self.at_most
        return {"what": self.what, "figure": figure, "limit": bound, "holds": holds}


Side = Callable[[], Round]


def alone(ours: Side, baseline: Side) -> contextlib.nullcontext[tuple[Side, Side]]:
    """Two sides that need nothing around them."""
    return contextlib.nullcontext((ours, baseline))


@dataclass(frozen=True)
class Bench:
    """One comparison.

    Attributes:
        name: of the results file, and of `make bench ONLY=`.
        what: what is measured, for a person.
        unit: of the cost.
        sides: ours and the baseline, with what both need around all rounds; each measures one
            round, and raises BenchError if it cannot be measured.
        baseline_what: what the baseline is, for a person.
    """

    name: str
    what: str
    unit: str
    sides: Callable[[], contextlib.AbstractContextManager[tuple[Side, Side]]]
    baseline_what: str
    limits: Sequence[Limit] = ()
    rounds: int = ROUNDS


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, min and max of at least one value."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(bench: Bench, console: Console) -> dict[str, Any]:
    """Run all rounds of a bench, with progress; what results/README.md says of bench/.

    Raises:
        BenchError: a round could not be measured.
    """
    console.print(f"\n[bold]{bench.name}[/bold]: {bench.what}")
    with bench.sides() as sides:
        return results(bench, *_all_rounds(bench, *sides, console))


def _all_rounds(
    bench: Bench, our_side: Side, baseline: Side, console: Console
) -> tuple[list[Round], list[Round]]:
    ours: list[Round] = []
    theirs: list[Round] = []
    for number in range(1, bench.rounds + 1):
        text = f"  round {number} of {bench.rounds}"
        with _working(console, f"{text}: ours …"):
            ours.append(our_side())
        with _working(console, f"{text}: baseline …"):
            theirs.append(baseline())
        console.print(
            f"{text}: ours {number_text(ours[-1].cost)}, baseline {number_text(theirs[-1].cost)} "
            f"{bench.unit}, ratio {number_text(theirs[-1].cost / ours[-1].cost)}"
        )
    return ours, theirs


def results(bench: Bench, ours: Sequence[Round], theirs: Sequence[Round]) -> dict[str, Any]:
    """The content of a results file, from the rounds of both sides in the same order."""
    ratios = [b.cost / a.cost for a, b in zip(ours, theirs, strict=True)]
    ratio = summary(ratios)
    figures = _figures(ours)
    compared = [each.figure for each in bench.limits if each.figure.endswith(f"_{RATIO}")]
    for limited in compared:
        name = limited.removesuffix(f"_{RATIO}")
        pairs = zip(ours, theirs, strict=True)
        figures[limited] = summary([b.figures[name] / a.figures[name] for a, b in pairs])
    medians = {name: figure["median"] for name, figure in figures.items()} | {
        RATIO: ratio["median"]
    }
    return {
        "name": bench.name,
        "what": bench.what,
        "unit": bench.unit,
        "rounds": len(ours),
        "ours": summary([each.cost for each in ours]),
        "baseline": summary([each.cost for each in theirs])
        | {"what": bench.baseline_what, "figures": _figures(theirs)},
        "ratio": ratio,
        "figures": figures,
        "limits": [limit.judge(medians[limit.figure]) for limit in bench.limits],
        "machine": machine.machine(),
        "versions": _versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _figures(rounds: Sequence[Round]) -> dict[str, dict[str, float]]:
    return {name: summary([each.figures[name] for each in rounds]) for name in rounds[0].figures}


def folder() -> Path:
    """Where results are written: results/bench, or below the home where one is given."""
    return paths.results_dir() / "bench"


def write(result: dict[str, Any]) -> Path:
    """Write a bench's results file, in place of an older one; returns its path."""
    path = folder() / f"{result['name']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def table(result: dict[str, Any]) -> Table:
    """A results file as a person reads it."""
    grid = Table("", "median", "min", "max", title=f"{result['name']}, {result['rounds']} rounds")

    def add(name: str, figure: dict[str, float]) -> None:
        grid.add_row(name, *(number_text(figure[key]) for key in ("median", "min", "max")))

    add(f"ours ({result['unit']})", result["ours"])
    add(f"baseline ({result['unit']})", result["baseline"])
    add("ratio", result["ratio"])
    grid.add_section()
    for name, figure in result["figures"].items():
        add(name, figure)
    for name, figure in result["baseline"]["figures"].items():
        add(f"baseline: {name}", figure)
    if result["limits"]:
        grid.add_section()
    for limit in result["limits"]:
        word = "[green]holds[/]" if limit["holds"] else "[red]does not hold[/]"
        grid.add_row(f"limit: {limit['what']}", number_text(limit["figure"]), word)
    return grid


def number_text(number: float) -> str:
    """Three digits that count, and no exponent."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return np.format_float_positional(number, precision=3, fractional=False, trim="-")


@contextlib.contextmanager
def _working(console: Console, text: str) -> Iterator[None]:
    """A line that is there while something is done; nothing where there is no terminal."""
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def _versions() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kairoscope": __version__,
        **machine.git(),
    }
