"""The search on simulated machines: how often its bounds and its interval hold, and its bias."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.series import capacity
from kairoscope.series.bounds import RUNG, Bounds, Goal, Search


def goal_at(start: float, **more: float) -> Goal:
    wanted = {"least": start / 10, "most": start * 50, "precision": 0.05}
    return Goal(start=start, first_s=60, final_s=60, **(wanted | more))


def searched(rng: np.random.Generator, noise: float):
    """A machine whose capacity varies by `noise` (deviation of its logarithm) between trials."""
    true = math.exp(rng.uniform(math.log(8_000), math.log(150_000)))
    trials: list[tuple[float, bool]] = []

    def trial(load: float, seconds: float) -> bool:
        good = load <= true * math.exp(noise * math.sqrt(60 / seconds) * rng.normal())
        trials.append((load, good))
        return good

    found = Search(goal_at(true * math.exp(rng.uniform(math.log(0.1), 0.2))), trial)()
    return true, found, trials


@pytest.mark.parametrize(("noise", "bounds_hold"), [(0.003, 0.9), (0.03, 0.6), (0.1, 0.25)])
def test_on_noisy_machines_the_interval_holds_as_often_as_it_says(noise, bounds_hold):
    rng = np.random.default_rng(20261125)
    held, within, errors, count = 0, 0, [], 150
    for _ in range(count):
        true, found, trials = searched(rng, noise)
        assert found.lower and found.upper
        assert 1 < found.upper / found.lower <= 1 / (1 - 0.05) + 1e-6
        assert len(trials) < 30
        said = capacity.estimate(trials)
        held += said.low <= true <= said.high
        within += found.lower <= true <= found.upper
        errors.append(math.log(said.median / true))
    # 90 %, less two standard errors of so many searches.
    assert held / count >= capacity.CONFIDENCE - 2 * math.sqrt(0.09 / count)
    assert abs(np.mean(errors)) <= 0.02
    # What the bounds alone are worth, which is why there is an interval beside them.
    assert within / count >= bounds_hold


@given(st.floats(1_000, 1e6), st.floats(0.12, 1.4), st.sampled_from([0.02, 0.05, 0.1]))
def test_without_noise_the_bounds_hold_the_capacity(true, share, precision):
    found = Search(goal_at(true * share, precision=precision), lambda load, _: load <= true)()
    assert found.lower <= true < found.upper
    assert found.upper - found.lower <= found.upper * precision * (1 + 1e-6)


def test_nothing_is_tried_far_above_the_capacity():
    tried: list[float] = []

    def trial(load: float, _: float) -> bool:
        tried.append(load)
        return load <= 10_000

    Search(goal_at(2_000), trial)()
    assert max(tried) <= 10_000 * RUNG


def test_a_machine_that_sustains_nothing_has_no_lower_bound():
    found = Search(goal_at(1_000), lambda *_: False)()
    assert found.lower is None
    assert found.upper == pytest.approx(100, rel=0.01)


def test_a_machine_that_sustains_all_has_no_upper_bound():
    found = Search(goal_at(1_000), lambda *_: True)()
    assert found == Bounds(pytest.approx(50_000, rel=0.01), None)


def test_one_bad_trial_at_a_load_that_is_sustained_moves_no_bound():
    bad_ones = [9_000.0]

    def trial(load: float, _: float) -> bool:
        if bad_ones and load > bad_ones[0]:
            bad_ones.clear()
            return False
        return load <= 20_000

    found = Search(goal_at(4_000), trial)()
    assert found.lower <= 20_000 < found.upper


def test_of_trials_of_one_kind_no_capacity_is_told():
    assert capacity.estimate([]) is None
    assert capacity.estimate([(1_000, True), (2_000, True)]) is None


@given(st.lists(st.tuples(st.floats(10, 1e6), st.booleans()), min_size=2, max_size=20))
def test_the_interval_is_ordered_whatever_was_seen(trials):
    said = capacity.estimate(trials)
    if said is not None:
        assert 0 < said.low <= said.median <= said.high
