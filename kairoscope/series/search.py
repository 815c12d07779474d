"""The search as a whole: which trials, which of them are repeated, how it ends. Pure.

A trial is asked of a function and comes back as an `Outcome`; trials of an earlier call that was
interrupted are given as `past`, and answer first. So a search that was interrupted comes to what it
would have come to.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kairoscope.series import bounds, capacity
from kairoscope.series.bounds import Bounds, Goal
from kairoscope.series.capacity import Capacity

ATTEMPTS = 3
"""Of a trial that tells nothing of the store; after so many the search ends."""
STEPS_DOWN = 6
"""Of the long runs that confirm, each lower by the precision, before none is confirmed."""
_READ_BACK_AGAIN = 3  # tries to see all points of a load that is not sustained

Purpose = Literal["warm-up", "search", "bound", "confirm"]
How = Literal["found", "all sustained", "none sustained", "lost", "not judged"]


class Interrupted(Exception):
    """A trial was interrupted: it tells nothing, and the next call has it again."""


@dataclass(frozen=True)
class Outcome:
    """What one run came to.

    Attributes:
        run: name of its folder.
        word: its verdict; "undecided" where nothing failed and what was seen of a part decides
            neither way.
        sustained: what that says of the load; None: nothing, as the loader was the limit or the
            run is incomplete. Of an undecided part its figure: it is as near as can be to the
            limit, and several trials of a load classify it.
        ended_by: the part, or the reason, that ended it; "" where all held.
        lost: acknowledged points that are gone, or have a wrong value.
        read_back: whether every point was looked for.
        cut: whether it was ended early, as a part was hopeless.
        took_s: wall time, with waiting until the servers were idle.
    """

    run: str
    word: str
    sustained: bool | None
    ended_by: str = ""
    lost: int = 0
    read_back: bool = False
    cut: bool = False
    took_s: float = 0.0


@dataclass(frozen=True)
class Wanted:
    """A trial to make.

    Attributes:
        seconds: that are measured, after the servers' queues have filled.
        full: whether all points are read back even where the load cannot pass.
        patient: whether it is not to be cut short.
    """

    purpose: Purpose
    load: float
    seconds: float
    full: bool = False
    patient: bool = False


@dataclass(frozen=True)
class Trial:
    """A trial that was made."""

    wanted: Wanted
    outcome: Outcome


@dataclass(frozen=True)
class Plan:
    """A goal, and what else a search is asked for.

    Attributes:
        snap: the nearest load that can be made: whole sensors, whole milliseconds.
        confirm_s: seconds of the long run at the lower bound; None for none.
    """

    goal: Goal
    snap: Callable[[float], float] = round
    confirm_s: float | None = None


@dataclass
class Result:
    """What a search came to.

    Attributes:
        at_least: the highest load that was sustained, below any that was not; None: none was.
        confirmed: the load that a long run sustained; None: none, or it was not asked for.
        why: what ended it, where it did not end by itself.
    """

    how: How
    bounds: Bounds
    capacity: Capacity | None
    at_least: float | None
    confirmed: float | None = None
    why: str = ""


class _End(Exception):
    def __init__(self, how: How, why: str) -> None:
        super().__init__(why)
        self.how, self.why = how, why


@dataclass
class Searching:
    """A search under way; call it once."""

    plan: Plan
    measure: Callable[[Wanted], Outcome]
    past: Sequence[Trial] = ()
    on_trial: Callable[[Trial], None] = lambda _: None
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(self.past)
        self._search = bounds.Search(self.plan.goal, self._sustained)

    def __call__(self) -> Result:
        """To the end. `Interrupted` is handed on."""
        confirmed = None
        try:
            found = self._snapped(self._search())
            how: How = "found"
            if found.lower is None:
                how = "none sustained"
            elif found.upper is None:
                how = "all sustained"
            if found.upper is not None:
                self._read_back_at(found.upper)
            if found.lower is not None and self.plan.confirm_s is not None:
                confirmed = self._confirm(found.lower, self.plan.confirm_s)
            why = ""
        except _End as end:
            how, why = end.how, end.why
        return Result(
            how,
            self._snapped(self._search.bounds),
            capacity.estimate(telling(self.trials)),
            at_least(self.trials),
            confirmed,
            why,
        )

    def _snapped(self, found: Bounds) -> Bounds:
        snap = self.plan.snap
        return Bounds(*(None if b is None else snap(b) for b in (found.lower, found.upper)))

    def _sustained(self, load: float, seconds: float) -> bool:
        return self._settled(Wanted("search", self.plan.snap(load), seconds))

    def _settled(self, wanted: Wanted) -> bool:
        """What a trial says; one that says nothing is made again, and never counts as a fail."""
        for _ in range(ATTEMPTS):
            outcome = self._one(wanted)
            if outcome.sustained is not None:
                return outcome.sustained
            # Whatever seemed hopeless was not: this time it is seen to its end.
            wanted = replace(wanted, patient=wanted.patient or outcome.cut)
        raise _End("not judged", outcome.ended_by)

    def _one(self, wanted: Wanted) -> Outcome:
        if self._left and self._left[0].wanted == wanted:
            trial = self._left.pop(0)
        else:
            # What was made of another order of trials, by another version, does not fit any more.
            self._left.clear()
            trial = Trial(wanted, self.measure(wanted))
            self.on_trial(trial)
        self.trials.append(trial)
        if trial.outcome.lost:
            raise _End("lost", trial.outcome.ended_by)
        return trial.outcome

    def _read_back_at(self, load: float) -> None:
        """All points of a load that is not sustained: what it loses is lost as well."""
        if any(t.wanted.load == load and t.outcome.read_back for t in self.trials):
            return
        for _ in range(_READ_BACK_AGAIN):
            wanted = Wanted("bound", load, self.plan.goal.final_s, full=True, patient=True)
            if self._one(wanted).read_back:
                return
        raise _End("not judged", f"the points of {load:,g} could not be read back")

    def _confirm(self, load: float, seconds: float) -> float | None:
        for _ in range(STEPS_DOWN):
            if self._settled(Wanted("confirm", load, seconds, full=True, patient=True)):
                return load
            load = self.plan.snap(load * (1 - self.plan.goal.precision))
            if load < self.plan.goal.least:
                break
        return None


def telling(trials: Sequence[Trial]) -> list[tuple[float, bool]]:
    """Load and whether it was sustained, of each trial that tells."""
    return [
        (trial.wanted.load, trial.outcome.sustained)
        for trial in trials
        if trial.outcome.sustained is not None and trial.wanted.purpose != "warm-up"
    ]


def at_least(trials: Sequence[Trial]) -> float | None:
    """The highest load that was sustained below the lowest that was not; None: there is none."""
    seen = telling(trials)
    first_bad = min((load for load, good in seen if not good), default=math.inf)
    return max((load for load, good in seen if good and load < first_bad), default=None)


def trials_left(plan: Plan, trials: Sequence[Trial]) -> int:
    """About how many more trials there will be: an estimate for whoever waits.

    Bisections of what lies between the bounds so far, each of about one trial and a half, second
    trials of both bounds, and the read-back at the upper one.
    """
    goal, seen = plan.goal, telling(trials)
    low, high = at_least(trials), min((load for load, good in seen if not good), default=None)
    more = 3 + (plan.confirm_s is not None)
    if low is None or high is None:
        # The ladder goes on for a few rungs, and leaves an interval of one.
        return more + 2 + _bisections(bounds.RUNG, goal.precision)
    return more + _bisections(high / low, goal.precision)


def _bisections(ratio: float, precision: float) -> int:
    halves = math.log(ratio) / -math.log(1 - precision)
    return max(0, math.ceil(1.5 * math.log2(max(1.0, halves))))
