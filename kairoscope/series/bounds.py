"""Where a load stops to be sustained: a ladder upwards, then bounds by MLRsearch. Pure.

A trial is a function from a load and its seconds to whether it was sustained; whoever calls this
decides what a load is, and ends the search by an exception of its own.

MLRsearch (FD.io CSIT, draft-ietf-bmwg-mlrsearch) classifies a load by time: it is a lower bound
once so much of `Goal.total_s` was good, and an upper bound once so much was bad, that the rest
could not change it. With an exceed ratio of a half that is two trials of three. So one bad trial
on a noisy machine decides nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)
from MLRsearch.discrete_load import DiscreteLoad
from MLRsearch.discrete_result import DiscreteResult

RUNG = 1.5
"""Of the ladder: the next load to try is this times the last."""
EXCEED = 0.5
"""Share of a load's time that may be bad while the load is still a lower bound."""
TRIALS = 3
"""Trials whose time classifies a load, unless fewer settle it."""

Trial = Callable[[float, float], bool]
"""Load and seconds to whether it was sustained."""

_NO_LIMIT_S = 1e9
# MLRsearch wants points; of a trial that failed it takes the share that arrived as a hint where to
# try next. The ladder's own place is the better hint, so this says nothing more than good or bad.
_POINTS = 1_000_000


@dataclass(frozen=True)
class Goal:
    """What is searched for.

    Attributes:
        start: load that the ladder begins at.
        least, most: no load outside is tried.
        precision: width of the interval between the bounds, as a share of the upper one.
        first_s: seconds of a trial on the ladder and while the interval is wide.
        final_s: seconds of a trial that classifies a bound.
    """

    start: float
    least: float
    most: float
    precision: float
    first_s: float
    final_s: float

    @property
    def total_s(self) -> float:
        """Seconds of trials that classify a load."""
        return TRIALS * self.final_s


@dataclass(frozen=True)
class Bounds:
    """Highest load that is sustained below the lowest one that is not; None: there is none."""

    lower: float | None
    upper: float | None


class Search:
    """One search; `bounds` may be asked for at any time."""

    def __init__(self, goal: Goal, trial: Trial) -> None:
        self._goal = goal
        # Coarser targets before the final one: their trials find the place, its own classify it.
        self._final = SearchGoal(
            loss_ratio=0.0,
            exceed_ratio=EXCEED,
            relative_width=goal.precision,
            initial_trial_duration=goal.first_s,
            final_trial_duration=goal.final_s,
            duration_sum=goal.total_s,
            preceding_targets=2,
            fail_fast=False,
        )
        config = Config(
            goals=(self._final,),
            min_load=goal.least,
            max_load=goal.most,
            search_duration_max=_NO_LIMIT_S,
            warmup_duration=0.0,
        )
        self._search = _Ladder(config)
        self._search.start = goal.start
        self._measurer = _Measurer(trial)

    def __call__(self) -> Bounds:
        """Search to the end."""
        self._search.search(self._measurer, debug=lambda _: None)
        return self.bounds

    @property
    def bounds(self) -> Bounds:
        """As far as they are known."""
        return self._search.bounds(self._final)


class _Measurer(AbstractMeasurer):  # type: ignore[misc]
    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        good = self._trial(intended_load, intended_duration)
        lost = 0 if good else _POINTS // 10
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=_POINTS,
            loss_count=lost,
        )


class _Ladder(MultipleLossRatioSearch):  # type: ignore[misc]
    """The library begins at the highest load, which would take the servers hours to digest."""

    start: float = 0.0

    def run_initial_trials(self) -> tuple[DiscreteResult, DiscreteResult]:
        load = self._round(self.start)
        last = self.measure(self._first_s, load)
        up = _good(last)
        while True:
            load = self._round(float(load) * (RUNG if up else 1 / RUNG))
            if load == last.discrete_load:  # an end of what may be tried
                return last, last
            result = self.measure(self._first_s, load)
            if _good(result) is not up:
                return last, result
            last = result

    @property
    def _first_s(self) -> float:
        return min(float(target.trial_duration) for target in self.scaling.targets)

    def _round(self, load: float) -> DiscreteLoad:
        within = min(max(load, self.config.min_load), self.config.max_load)
        return self.from_float(within).rounded_down()

    def bounds(self, goal: SearchGoal) -> Bounds:
        found = self.database.get_relevant_bounds(self.scaling.goal_to_final_target[goal])
        return Bounds(*(None if b is None else float(b) for b in (found.clo, found.chi)))


def _good(result: DiscreteResult) -> bool:
    return bool(result.loss_count == 0)
