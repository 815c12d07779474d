"""Where a series of runs changed: seen where it did, and hardly ever where it did not."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.stats.changes import LEAST_RUNS, Change, changes


def noisy(rng: np.random.Generator, runs: int, spread: float = 0.04) -> np.ndarray:
    return np.exp(rng.normal(0, spread, runs))


@pytest.mark.parametrize("runs", [8, 20, 29, 30, 60])
def test_noise_is_no_change(runs: int) -> None:
    rng = np.random.default_rng(runs)
    false = sum(bool(changes(noisy(rng, runs).tolist())) for _ in range(60))
    assert false <= 3


@pytest.mark.parametrize("runs", [16, 29, 30, 60])
def test_a_fifth_more_from_the_middle_on_is_seen(runs: int) -> None:
    rng = np.random.default_rng(runs)
    seen = 0
    for _ in range(40):
        values = noisy(rng, runs)
        values[runs // 2 :] *= 1.2
        found = changes(values.tolist())
        seen += len(found) == 1 and abs(found[0].at - runs // 2) <= 1
    assert seen >= 35


@pytest.mark.parametrize("runs", [24, 60])
def test_there_and_back_are_two(runs: int) -> None:
    values = noisy(np.random.default_rng(1), runs, 0.02)
    values[runs // 3 : 2 * runs // 3] *= 1.5
    there, back = changes(values.tolist())
    assert (there.at, back.at) == (runs // 3, 2 * runs // 3)
    assert there.ratio == pytest.approx(1.5, rel=0.05)
    assert back.ratio == pytest.approx(1 / 1.5, rel=0.05)


@pytest.mark.parametrize("runs", [20, 50])
def test_a_single_odd_run_is_no_change(runs: int) -> None:
    values = noisy(np.random.default_rng(2), runs, 0.02)
    values[runs // 2] *= 3
    assert changes(values.tolist()) == []


@pytest.mark.parametrize("runs", [20, 50])
def test_a_small_change_is_not_told_however_sure(runs: int) -> None:
    values = noisy(np.random.default_rng(3), runs, 0.001)
    values[runs // 2 :] *= 1.03
    assert changes(values.tolist()) == []


def test_constant_runs_change_too() -> None:
    assert changes([5.0] * 40) == []
    assert changes([5.0] * 20 + [6.0] * 20) == [Change(20, pytest.approx(5.0), pytest.approx(6.0))]


@given(st.lists(st.floats(1e-3, 1e6), max_size=60))
def test_whatever_the_figures_spans_are_in_order(values: list[float]) -> None:
    found = changes(values)
    cuts = [0, *(change.at for change in found), len(values)]
    if found:
        assert len(values) >= LEAST_RUNS
        assert all(b - a >= 2 for a, b in pairwise(cuts))
    for change in found:
        assert change.ratio >= 1.05 - 1e-9 or change.ratio <= 1 / 1.05 + 1e-9
