"""Measures ours and others in turn, several rounds, and says whether limits hold.

A machine that others use too gets faster and slower by the minute. So a figure of ours alone means
little, and its ratio to what was measured in turns with it more. The order is turned round with
every round (A B, B A, A B …): what changes steadily falls on all sides alike. Every value is kept,
with its place in the order and its time.
"""

import contextlib
import json
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from kairoscope import __version__, paths
from kairoscope.hosts import provenance
from kairoscope.stats import groups

RATIO = "ratio"
"""The baseline's cost divided by ours; `<figure>_ratio` is the same of a figure of both, and
`<side>.ratio` of the cost of another side."""
ROUNDS = 5

Json = dict[str, Any]


class BenchError(Exception):
    """A measurement that did not come about, or that would not mean what it says."""


@dataclass(frozen=True)
class Round:
    """One side's part of a round.

    Attributes:
        cost: in the bench's unit; less is better.
        figures: what else was measured, by name; names end in their unit.
        run: the run folder it is of, where there is one.
        interval: of the cost, at 90 %, where one measurement has its own (a search).
    """

    cost: float
    figures: Mapping[str, float]
    run: str | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Limit:
    """What a figure of ours (its median), or a ratio, must reach or must not pass.

    Of a ratio it is the end of its interval that must, where it has one: the figure itself may be
    past a limit by luck.
    """

    what: str
    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def held(self, figure: float, low: float | None = None, high: float | None = None) -> Json:
        """The limit's entry in the results."""
        least = figure if low is None else low
        most = figure if high is None else high
        holds = self.at_least is None or least >= self.at_least
        holds = holds and (self.at_most is None or most <= self.at_most)
        bound = self.at_least if self.at_most is None else self.at_most
        return {"what": self.what, "figure": figure, "limit": bound, "holds": holds}


Side = Callable[[], Round]


Sides = Mapping[str, Side]
"""By name: OURS and BASELINE, and whatever else is measured in turn with them."""

OURS, BASELINE = "ours", "baseline"


def alone(ours: Side, baseline: Side) -> contextlib.nullcontext[Sides]:
    """Two sides that need nothing around them."""
    return contextlib.nullcontext({OURS: ours, BASELINE: baseline})


@dataclass(frozen=True)
class Bench:
    """One comparison.

    Attributes:
        name: of the results file, and of `make bench ONLY=`.
        what: what is measured, for a person.
        unit: of the cost.
        sides: all of them, with what they need around all rounds; each measures one round, and
            raises BenchError if it cannot be measured.
        baseline_what: what the baseline is, for a person.
        others: what the other sides are, by their names.
        thrown_away: rounds before those that count: they meet what no later one meets.
    """

    name: str
    what: str
    unit: str
    sides: Callable[[], contextlib.AbstractContextManager[Sides]]
    baseline_what: str
    limits: Sequence[Limit] = ()
    rounds: int = ROUNDS
    others: Mapping[str, str] = field(default_factory=dict)
    thrown_away: int = 0


@dataclass(frozen=True)
class Value:
    """One side's part of a round, and when it was measured; rounds count from 1, 0 and below are
    thrown away."""

    number: int
    side: str
    began: str
    found: Round


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, min and max of at least one value."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(bench: Bench, console: Console) -> Json:
    """Run all rounds of a bench, with progress; what results/README.md says of bench/.

    Raises:
        BenchError: a round could not be measured.
    """
    console.print(f"\n[bold]{bench.name}[/bold]: {bench.what}")
    with bench.sides() as sides:
        return results(bench, _all_rounds(bench, sides, console))


def _all_rounds(bench: Bench, sides: Sides, console: Console) -> list[Value]:
    made: list[Value] = []
    names = list(sides)
    for number in range(1 - bench.thrown_away, bench.rounds + 1):
        text = f"  round {number} of {bench.rounds}" if number > 0 else "  a round to throw away"
        for name in names:
            began = datetime.now(UTC).isoformat(timespec="seconds")
            with _working(console, f"{text}: {name} …"):
                made.append(Value(number, name, began, sides[name]()))
        costs = {value.side: value.found.cost for value in made[-len(names) :]}
        told = ", ".join(f"{name} {number_text(costs[name])}" for name in sides)
        ratio = number_text(costs[BASELINE] / costs[OURS])
        console.print(f"{text}: {told} {bench.unit}, ratio {ratio}")
        names.reverse()
    return made


def results(bench: Bench, made: Sequence[Value]) -> Json:
    """The content of a results file, from all that was measured, in its order."""
    rounds: dict[str, list[Round]] = {}
    for value in made:
        if value.number > 0:
            rounds.setdefault(value.side, []).append(value.found)
    ours, theirs = rounds[OURS], rounds[BASELINE]
    figures = _figures(ours)
    ratios = {RATIO: ratio_of_costs(ours, theirs)}
    for name in ours[0].figures.keys() & theirs[0].figures.keys():
        values = [[each.figures[name] for each in side] for side in (ours, theirs)]
        if min(min(side) for side in values) > 0:
            ratios[f"{name}_{RATIO}"] = ratio(*values)
    others = {
        name: summary([r.cost for r in rounds[name]])
        | {
            "what": what,
            "figures": _figures(rounds[name]),
            # Ours beside this one too, after the ratio to the baseline.
            RATIO: ratio_of_costs(ours, rounds[name]),
        }
        for name, what in bench.others.items()
    }
    return {
        "name": bench.name,
        "what": bench.what,
        "unit": bench.unit,
        "rounds": len(ours),
        OURS: summary([each.cost for each in ours]),
        BASELINE: summary([each.cost for each in theirs])
        | {"what": bench.baseline_what, "figures": _figures(theirs)},
        RATIO: ratios[RATIO],
        "figures": figures,
        "ratios": {name: found for name, found in ratios.items() if name != RATIO},
        "others": others,
        "limits": [_held(limit, figures, ratios, others) for limit in bench.limits],
        "values": [
            {
                "round": value.number,
                "side": value.side,
                "began": value.began,
                "cost": value.found.cost,
                "figures": dict(value.found.figures),
                "run": value.found.run,
            }
            for value in made
        ],
        "machine": provenance.this_machine(),
        "versions": _versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _held(limit: Limit, figures: Json, ratios: Json, others: Json) -> Json:
    """A limit of a figure, of a ratio to the baseline, or (`<side>.ratio`) to another side."""
    side, _, what = limit.figure.rpartition(".")
    found = others[side][what] if side in others else ratios.get(limit.figure)
    if found is not None:
        return limit.held(found["ratio"], found["low"], found["high"])
    return limit.held(figures[limit.figure]["median"])


def ratio_of_costs(ours: Sequence[Round], theirs: Sequence[Round]) -> Json:
    """Theirs by ours, with the interval between rounds; of one round, of the two sides' own.

    Two intervals that each miss in 10 % hold together in 80 % at least (Bonferroni).
    """
    found = ratio([each.cost for each in ours], [each.cost for each in theirs])
    if len(ours) == len(theirs) == 1 and ours[0].interval and theirs[0].interval:
        (low, high), (their_low, their_high) = ours[0].interval, theirs[0].interval
        found |= {"low": their_low / high, "high": their_high / low, "confidence": 0.8}
    return found


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Json:
    """Theirs by ours, geometric means, with the 95 % interval between rounds (Welch on logs).

    `low` and `high` are None with too few rounds.
    """
    if min(len(ours), len(theirs)) < groups.LEAST_RUNS:
        middle = statistics.geometric_mean(theirs) / statistics.geometric_mean(ours)
        return {"ratio": middle, "low": None, "high": None, "confidence": None, "p": None}
    found = groups.difference(ours, theirs)
    return {**asdict(found.interval), "p": found.p}


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


def table(result: Json) -> Table:
    """A results file as a person reads it: ours beside the baseline first."""
    grid = Table(
        "", "median", "least", "most", title=f"{result['name']}, {result['rounds']} rounds"
    )

    def add(name: str, figure: Json) -> None:
        grid.add_row(name, *(number_text(figure[key]) for key in ("median", "min", "max")))

    def add_ratio(name: str, found: Json) -> None:
        ends = ("–" if found[key] is None else number_text(found[key]) for key in ("low", "high"))
        sure = f" ({found['confidence']:.0%} interval)" if found["confidence"] else ""
        grid.add_row(f"{name}{sure}", number_text(found["ratio"]), *ends)

    add_ratio(f"ratio: {result['baseline']['what']}, by ours", result["ratio"])
    for name, other in result["others"].items():
        add_ratio(f"ratio: {name}, by ours", other["ratio"])
    for name, found in result["ratios"].items():
        add_ratio(name, found)
    grid.add_section()
    add(f"ours ({result['unit']})", result["ours"])
    add(f"baseline ({result['unit']})", result["baseline"])
    for name, other in result["others"].items():
        add(f"{name} ({result['unit']})", other)
    grid.add_section()
    for name, figure in result["figures"].items():
        add(name, figure)
    for side in ("baseline", *result["others"]):
        figures = (result["others"].get(side) or result["baseline"])["figures"]
        for name, figure in figures.items():
            add(f"{side}: {name}", figure)
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
        **provenance.git(),
    }
