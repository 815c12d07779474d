"""An experiment's runs over time: where a figure changed for good. Pure, of history.jsonl."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from kairoscope.compare.runs import JUDGED, METRICS, Metric
from kairoscope.compare.sides import short
from kairoscope.errors import UserError
from kairoscope.report import units
from kairoscope.run_folder import Record
from kairoscope.stats.changes import LEAST_RUNS, MANY_RUNS, Change, changes


@dataclass(frozen=True)
class Trend:
    """A metric over the runs that have it, in the order in which they were made."""

    metric: Metric
    runs: list[Record]
    values: list[float]
    found: list[Change]

    @property
    def text(self) -> str:
        """What can be said."""
        if len(self.values) < LEAST_RUNS:
            return f"too few runs ({len(self.values)} of {LEAST_RUNS})"
        if not self.found:
            return "no change"
        return "; ".join(self._told(change) for change in self.found)

    def _told(self, change: Change) -> str:
        run = self.runs[change.at]
        better = (change.ratio < 1) == self.metric.less_is_better
        commit = str(run.get("commit") or "")[:12] or "commit not known"
        return (
            f"{'better' if better else 'worse'} from {run['run']} ({commit}) on: "
            f"{units.significant(change.before)} to {units.significant(change.after)} "
            f"{self.metric.unit}, × {short(change.ratio)}"
        )


@dataclass(frozen=True)
class History:
    """The runs of an experiment that are like the latest, and how many were left out.

    Attributes:
        others: of the same experiment, asked for otherwise or on another machine.
        unjudged: invalid or incomplete.
    """

    experiment: str
    runs: list[Record]
    others: int
    unjudged: int


def of(experiment: str, lines: Iterable[Record]) -> History:
    """The history of an experiment. UserError if it has none."""
    mine = [line for line in lines if line.get("experiment") == experiment]
    mine.sort(key=lambda line: str(line.get("started")))
    if not mine:
        raise UserError(f"{experiment}: no run of it in the history. First: make load")
    like = mine[-1].get("like")
    same = [line for line in mine if line.get("like") == like]
    judged = [
        line
        for line in same
        if line.get("verdict") in JUDGED and isinstance(line.get("figures"), dict)
    ]
    return History(experiment, judged, len(mine) - len(same), len(same) - len(judged))


def trends(history: History, metrics: Sequence[Metric] = METRICS) -> list[Trend]:
    """Each metric over the runs."""
    found = []
    for metric in metrics:
        runs = [run for run in history.runs if _figure(run, metric) is not None]
        values = [v for run in runs if (v := _figure(run, metric)) is not None]
        found.append(Trend(metric, runs, values, changes(values)))
    return found


def _figure(run: Record, metric: Metric) -> float | None:
    value = units.number(run["figures"].get(metric.name))
    return value if value is not None and value > 0 else None


def show(history: History, found: Sequence[Trend], console: Console) -> None:
    """Print the history and what changed in it."""
    passed = sum(run["verdict"] == "pass" for run in history.runs)
    method = "Otava's method" if len(history.runs) >= MANY_RUNS else "jumpavg"
    console.print(
        f"{history.experiment}: {len(history.runs)} runs like the latest, {passed} passed "
        f"(changes of 5 % and more, by {method})"
    )
    if history.others:
        console.print(f"  {history.others} were of another load or machine, and are left out")
    if history.unjudged:
        console.print(f"  {history.unjudged} were invalid or incomplete, and are left out")
    grid = Table("", "latest", "least to most", "")
    for each in found:
        if not each.values:
            continue
        span = f"{units.significant(min(each.values))} to {units.significant(max(each.values))}"
        latest = f"{units.significant(each.values[-1])} {each.metric.unit}"
        grid.add_row(each.metric.label, latest, span, each.text)
    console.print(grid)
