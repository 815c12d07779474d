"""The search as a whole: what it repeats, how it ends, and that it can be gone on with."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kairoscope.series import page
from kairoscope.series.bounds import Bounds, Goal
from kairoscope.series.search import (
    Interrupted,
    Outcome,
    Plan,
    Searching,
    Trial,
    Wanted,
    at_least,
    trials_left,
)

GOAL = Goal(start=4_000, least=400, most=100_000, precision=0.05, first_s=60, final_s=60)


class Machine:
    """Sustains `capacity`, give or take `noise`; what happens to the n-th trial can be told."""

    def __init__(self, capacity: float, noise: float = 0, seed: int = 0, **at: Outcome) -> None:
        self.capacity, self.noise = capacity, noise
        self.rng = np.random.default_rng(seed)
        self.at = {int(name[1:]): outcome for name, outcome in at.items()}
        self.asked: list[Wanted] = []

    def __call__(self, wanted: Wanted) -> Outcome:
        number = len(self.asked)
        self.asked.append(wanted)
        good = wanted.load <= self.capacity * np.exp(self.noise * self.rng.normal())
        if number in self.at:
            return self.at[number]
        read = bool(good or wanted.full)
        word, why = ("pass", "") if good else ("fail", "queue: it grew")
        return Outcome(f"run-{number}", word, bool(good), why, read_back=read, took_s=100)


INVALID = Outcome("run-x", "invalid", None, "loader: worker 0 sent late")


def search(machine: Machine, past: list[Trial] | None = None, **more) -> tuple[Searching, object]:
    searching = Searching(Plan(GOAL, **more), machine, past or [])
    return searching, searching()


def test_bounds_and_interval_hold_the_capacity():
    _, result = search(Machine(21_000))
    assert result.how == "found"
    assert result.bounds.lower <= 21_000 < result.bounds.upper
    assert result.bounds.lower >= result.bounds.upper * 0.95 - 1
    assert result.capacity.low < 21_000 < result.capacity.high
    assert result.at_least == result.bounds.lower
    assert result.confirmed is None


def test_both_bounds_were_read_back_in_full():
    searching, result = search(Machine(21_000))
    for bound in (result.bounds.lower, result.bounds.upper):
        assert any(t.wanted.load == bound and t.outcome.read_back for t in searching.trials)


def test_an_invalid_trial_is_repeated_and_counts_for_nothing():
    _, plain = search(Machine(21_000))
    searching, result = search(Machine(21_000, t2=INVALID, t6=INVALID, t7=INVALID))
    assert result == plain
    assert [t.outcome.sustained for t in searching.trials].count(None) == 3


def test_a_loader_that_is_the_limit_ends_the_search_with_what_was_sustained():
    late = {f"t{n}": INVALID for n in range(3, 6)}
    searching, result = search(Machine(50_000, **late))
    assert (result.how, result.why) == ("not judged", INVALID.ended_by)
    assert result.at_least == searching.trials[2].wanted.load
    assert result.bounds.upper is None
    assert len(searching.trials) == 6


def test_what_was_cut_and_did_not_fail_is_seen_to_its_end():
    cut = Outcome("run-x", "pass", None, "cut short, and passed", cut=True)
    machine = Machine(21_000, t1=cut)
    _, result = search(machine)
    assert machine.asked[1].patient is False
    assert machine.asked[2] == Wanted("search", machine.asked[1].load, 60, patient=True)
    assert result.how == "found"


@pytest.mark.parametrize("at", [0, 3, 8])
def test_a_lost_point_anywhere_ends_the_search(at):
    lost = Outcome("run-x", "fail", False, "readback: 3 missing", lost=3, read_back=True)
    searching, result = search(Machine(21_000, **{f"t{at}": lost}))
    assert (result.how, result.why) == ("lost", "readback: 3 missing")
    assert len(searching.trials) == at + 1


def test_the_picture_has_an_interval_where_the_search_found_one():
    lost = Outcome("run-x", "fail", False, "readback: 3 missing", lost=3, read_back=True)
    for machine, shown in ((Machine(21_000), True), (Machine(21_000, t8=lost), False)):
        searching, result = search(machine)
        document = {"how": result.how, "capacity": asdict(result.capacity), "confidence": 0.9}
        chart = page.picture("sensors", searching.trials, document)
        assert bool(chart.bands) == shown
        assert ("the band is the 90 % interval" in chart.summary) == shown


def test_a_machine_that_sustains_nothing():
    searching, result = search(Machine(1))
    assert result.how == "none sustained"
    assert result.at_least is None
    assert result.bounds.lower is None
    assert result.bounds.upper == pytest.approx(400, rel=0.01)
    assert any(t.outcome.read_back for t in searching.trials)


def test_a_machine_that_sustains_all():
    _, result = search(Machine(1e9))
    assert result.how == "all sustained"
    assert result.bounds == Bounds(pytest.approx(100_000, rel=0.01), None)
    assert result.capacity is None


def test_a_long_run_confirms_and_steps_down_where_it_does_not_hold():
    class Tiring(Machine):
        """Sustains less for longer: compaction catches up with it."""

        def __call__(self, wanted: Wanted) -> Outcome:
            self.capacity = 18_500 if wanted.seconds > 60 else 21_000
            return super().__call__(wanted)

    _, plain = search(Tiring(0))
    _, result = search(Tiring(0), confirm_s=600)
    assert result.bounds == plain.bounds
    assert 18_500 * 0.95 <= result.confirmed <= 18_500
    _, never = search(
        Machine(21_000, **{f"t{n}": Outcome("r", "fail", False) for n in range(9, 60)}),
        confirm_s=600,
    )
    assert never.confirmed is None


@given(
    st.floats(600, 90_000),
    st.sampled_from([0.0, 0.03, 0.1]),
    st.integers(0, 5),
    st.integers(0, 20),
    st.sets(st.integers(0, 12), max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_a_search_that_was_interrupted_comes_to_the_same(capacity, noise, seed, after, invalid):
    happens = {f"t{n}": INVALID for n in invalid}
    whole = Machine(capacity, noise, seed, **happens)
    searching, result = search(whole, confirm_s=600)

    class Stops(Machine):
        def __call__(self, wanted: Wanted) -> Outcome:
            if len(self.asked) == after and not self.stopped:
                self.stopped = True
                raise Interrupted
            return super().__call__(wanted)

    machine, kept = Stops(capacity, noise, seed, **happens), []
    machine.stopped = False
    try:
        Searching(Plan(GOAL, confirm_s=600), machine, [], kept.append)()
    except Interrupted:
        assert len(kept) == after
    again = Searching(Plan(GOAL, confirm_s=600), machine, kept)
    assert again() == result
    assert again.trials == searching.trials
    assert machine.asked == whole.asked  # nothing twice


def test_past_trials_of_another_order_are_not_taken():
    odd = Trial(Wanted("search", 12_345, 60), Outcome("r", "fail", False))
    machine = Machine(21_000)
    searching, result = search(machine, [odd])
    assert result.how == "found"
    assert odd not in searching.trials


def test_what_is_left_shrinks_to_the_last_trials():
    searching, _ = search(Machine(21_000))
    left = [trials_left(searching.plan, searching.trials[:n]) for n in range(len(searching.trials))]
    assert left[0] >= left[-1] >= 1
    assert at_least(searching.trials[:1]) == searching.trials[0].wanted.load
