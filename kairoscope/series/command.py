"""`kairoscope search`: deploy for the upper end, warm up, search, write down, show."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kairoscope import interrupts, paths, ready
from kairoscope.deploy import deploy
from kairoscope.deploy.deploy import Deployment
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment
from kairoscope.hosts import operation, provenance
from kairoscope.plan import Plan as ServersPlan
from kairoscope.series import page
from kairoscope.series.bounds import RUNG, Bounds, Goal
from kairoscope.series.record import Record, load_text
from kairoscope.series.search import (
    Interrupted,
    Outcome,
    Plan,
    Result,
    Searching,
    Trial,
    Wanted,
    trials_left,
)
from kairoscope.series.trials import HIGHEST, Trials, Vary, scaled

TRIAL_S = 60.0
WINDOWS = 3
"""Queue windows in a trial at least: with fewer, whether a queue grows cannot be told."""
DOWN = 10
"""How far below its start a search goes where that is not sustained."""
WARM_UPS = 2
"""Lengths of a trial for which servers warm up, on the load that the search begins with."""

Planned = Callable[[Experiment], ServersPlan]


@dataclass(frozen=True)
class Asked:
    """What the command line asks for; None where it leaves that open.

    Attributes:
        start, most: where the search begins, and the upper end that the servers are deployed for.
        trial_s: seconds that a trial is measured.
        confirm_s: seconds of the long run at the end; None for none.
        empty: whether the store is emptied before each trial.
        or_anew: whether trials of another commit or machine are left out, and not refused.
    """

    vary: Vary = "sensors"
    start: float | None = None
    most: float | None = None
    precision: float = 0.05
    trial_s: float | None = None
    confirm_s: int | None = None
    empty: bool = False
    anew: bool = False
    or_anew: bool = False


@dataclass(frozen=True)
class Settled:
    """What is asked for, as it can be had: the goal, the plan of the upper end, and settling."""

    plan: Plan
    deployed: ServersPlan
    settle_s: int


def snapped(vary: Vary, load: float) -> float:
    """The nearest load that can be had: whole sensors, or whole milliseconds between points."""
    return float(max(1, round(load))) if vary == "sensors" else 1000 / round(1000 / load)


def settle(experiment: Experiment, asked: Asked, planned: Planned) -> Settled:
    """From what is asked to a goal. UserError for what does not fit together."""
    load = experiment.load
    if load.steps or load.replay:
        what = "load.steps" if load.steps else "load.replay"
        raise UserError(
            f"{experiment.source.shown}: {what}: a search changes the load itself: give an "
            "experiment with one rate"
        )
    if experiment.faults:
        raise UserError(
            f"{experiment.source.where('faults')}: faults: a search asks what is sustained, and "
            "with a fault nothing is: give an experiment without any"
        )
    now = float(load.sensors) if asked.vary == "sensors" else 1000 / load.period_ms
    start, most = _ends(asked, now)
    if not 0.005 <= asked.precision <= 0.5:
        raise UserError("--precision: between 0.5% and 50%; 5% is what a noisy machine can tell")
    warmup_s = load.warmup_resolved_s
    deployed = planned(scaled(experiment, asked.vary, _typed(asked.vary, most), 120, warmup_s))
    window_s = deployed.held_s
    slowest_s = load.period_ms / 1000 if asked.vary == "sensors" else DOWN / start
    least_s = max(WINDOWS * window_s, 3 * slowest_s, 10)
    trial_s = asked.trial_s or max(TRIAL_S, math.ceil(least_s))
    if trial_s < least_s:
        raise UserError(
            f"--trial {trial_s:g}: a trial has {WINDOWS} windows of the queue ({window_s:g} s "
            f"each) and three points of a sensor at least: {least_s:g} s"
        )
    if asked.confirm_s is not None and asked.confirm_s < trial_s:
        raise UserError(f"--confirm-s {asked.confirm_s}: longer than a trial, {trial_s:g} s")
    least = max(start / DOWN, 1.0 if asked.vary == "sensors" else 0.001)
    goal = Goal(start, min(least, start / RUNG), most, asked.precision, trial_s, trial_s)
    confirm = float(asked.confirm_s) if asked.confirm_s else None
    plan = Plan(goal, lambda load: snapped(asked.vary, load), confirm)
    return Settled(plan, deployed, max(warmup_s, math.ceil(window_s)))


def _typed(vary: Vary, load: float) -> float:
    return round(load) if vary == "sensors" else load


def _ends(asked: Asked, now: float) -> tuple[float, float]:
    """Where the search begins and its upper end; by default from half of the experiment's load to
    four times of it."""
    highest = HIGHEST[asked.vary]
    start = asked.start if asked.start is not None else now / 2
    most = asked.most if asked.most is not None else min(max(4 * now, 4 * start), highest)
    lowest = 2.0 if asked.vary == "sensors" else 0.002
    if not lowest <= start < most <= highest:
        raise UserError(
            f"--from {start:,g} --to {most:,g}: from at least {lowest:g}, to more than that and at "
            f"most {highest:,g} {'sensors' if asked.vary == 'sensors' else 'points/s of a sensor'}"
        )
    start, most = snapped(asked.vary, start), snapped(asked.vary, most)
    if most < start * RUNG:
        raise UserError(
            f"--from {start:,g} --to {most:,g}: the upper end is at least {RUNG:g} times the start"
        )
    return start, most


def search(experiment: Experiment, asked: Asked, planned: Planned, of: Deployment) -> int:
    """The whole command; returns its exit status, see `record.EXIT_STATUS`."""
    wanted, console = settle(experiment, asked, planned), of.console
    # From before the record on: a second search would go on with it, and deploy for itself.
    with operation.searching(of.target.name):
        record = _open(experiment, asked, wanted)
        _tell(record, wanted.plan.goal.most, of)
        deploy.deploy(wanted.deployed, of)
        trials = Trials(
            experiment,
            asked.vary,
            wanted.deployed,
            planned,
            of.stack,
            wanted.settle_s,
            asked.empty,
            record.folder,
            console,
        )
        with interrupts.as_ctrl_c():
            try:
                _search(record, wanted.plan, trials, of, asked.or_anew)
            except Interrupted:
                page.write(record)
                raise KeyboardInterrupt from None
    page.show(record, console)
    console.print(f"page: {page.write(record)}", soft_wrap=True)
    status: int = record.document["result"]["exit_status"]
    return status


def _tell(record: Record, most: float, of: Deployment) -> None:
    """What begins now."""
    of.console.print(f"search: {record.folder}", soft_wrap=True)
    if record.trials:
        of.console.print(
            f"goes on after {len(record.trials)} trials (--anew begins another search)",
            soft_wrap=True,
        )
    of.console.print(
        f"deploy for the upper end, {load_text(most, record.document['vary'])}", soft_wrap=True
    )


def _open(experiment: Experiment, asked: Asked, wanted: Settled) -> Record:
    into, name = paths.series_dir(), f"{experiment.name}-{wanted.deployed.target}"
    if problem := ready.folder_problem(into, "the series' folder", "Make it writable."):
        raise UserError(problem)
    goal = wanted.plan.goal
    document: dict[str, Any] = {
        "experiment": experiment.name,
        "file": experiment.source.shown,
        "target": wanted.deployed.target,
        "engine": wanted.deployed.engine,
        "vary": asked.vary,
        "wanted": {
            "start": goal.start,
            "least": goal.least,
            "most": goal.most,
            "precision": goal.precision,
            "trial_s": goal.final_s,
            "settle_s": wanted.settle_s,
            "confirm_s": wanted.plan.confirm_s,
            "empty": asked.empty,
        },
        "limits": experiment.limits.model_dump(),
        # Of the upper end; a trial has less of what is searched for, and lasts as `wanted` says.
        "load": wanted.deployed.load,
        "cluster": experiment.cluster.model_dump(),
        "security": wanted.deployed.security,
        "settings": {
            **{f"kairosdb.{k}": v for k, v in wanted.deployed.kairosdb.items()},
            **{f"storage.{k}": v for k, v in wanted.deployed.storage.items()},
        },
    }
    try:
        record = Record.open(into, name, document, time.time(), anew=asked.anew)
    except OSError as error:
        raise UserError(f"The search could not be written to {into}: {error}") from error
    here = {"git": provenance.git(), "machine": provenance.this_machine()}
    record.check(here, or_anew=asked.or_anew)
    return record


def _search(record: Record, plan: Plan, trials: Trials, of: Deployment, or_anew: bool) -> None:
    goal, confirm = plan.goal, plan.confirm_s is not None
    of.console.print("warm-up: Java compiles, and series are indexed for the first time")
    warm = trials(Wanted("warm-up", goal.start, WARM_UPS * goal.final_s, patient=True))
    record.warmed_up(warm, or_anew=or_anew)
    if warm.lost:
        nothing = Result("lost", Bounds(None, None), None, None, why=warm.ended_by)
        record.end(nothing, record.trials, confirm)
        return

    def measure(wanted: Wanted) -> Outcome:
        made = searching.trials
        record.keep(made)
        took = [t.outcome.took_s for t in made] or [warm.took_s]
        each_s = sum(took) / len(took)
        more = trials_left(plan, made)
        of.console.print(
            page.progress(trials.vary, made, wanted.load, more, each_s), soft_wrap=True
        )
        return trials(wanted)

    def made(trial: Trial) -> None:
        record.add(trial)
        page.write(record)

    searching = Searching(plan, measure, record.trials, made)
    record.end(searching(), searching.trials, confirm)
