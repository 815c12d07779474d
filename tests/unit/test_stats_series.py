"""Slopes and means of series whose looks are not independent."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.stats import series

SEED = 7
# Any series; its slope and errors below are those of statsmodels 0.14 (OLS, cov_type="HAC",
# use_correction=True).
COUNTED = [1718, 1771, 1716, 1815, 1752, 1835, 1790, 1877]
COUNTED += [1921, 1883, 1892, 1974, 1954, 2026, 2010, 2065]


def noise(rng: np.random.Generator, n: int, tau: float) -> np.ndarray:
    """Noise of variance 1 that forgets itself in `tau` steps."""
    kept = math.exp(-1 / tau)
    drawn = rng.normal(size=n + 50) * math.sqrt(1 - kept * kept)
    for i in range(1, n + 50):
        drawn[i] += kept * drawn[i - 1]
    return drawn[50:]


@pytest.mark.parametrize(("lag", "error"), [(0, 1.6204914383210771), (3, 1.1153274140055847)])
def test_error_is_that_of_newey_and_west(lag, error):
    found = series.trend(COUNTED, 1, lag)
    assert (found.slope, found.error) == pytest.approx((22.257352941176464, error))


def test_a_known_period_of_whatever_height_changes_nothing():
    rng = np.random.default_rng(SEED)
    plain = noise(rng, 105, 3) + 0.5 * np.arange(105)
    tooth = 1000 * (np.arange(105) % 15)
    without, with_it = (series.trend(s, 1, 10, 15) for s in (plain, plain + tooth))
    assert (with_it.slope, with_it.error) == pytest.approx((without.slope, without.error))


@pytest.mark.parametrize(("n", "period"), [(105, 1), (105, 15), (60, 30), (45, 15)])
def test_bounds_hold_as_often_as_they_say(n, period):
    """Looks that forget in 3 s, lag of 10: of 5 % meant 7 %, with two or three periods 11 %."""
    rng = np.random.default_rng(SEED)
    found = [series.trend(noise(rng, n, 3), 1, 10, period) for _ in range(600)]
    most = 0.09 if n > 100 else 0.13
    assert 0.02 < np.mean([t.low > 0 for t in found]) < most
    assert 0.02 < np.mean([t.high < 0 for t in found]) < most


@given(
    st.lists(st.floats(-1e9, 1e9), max_size=60),
    st.integers(0, 70),
    st.integers(1, 20),
    st.floats(-1e6, 1e6),
)
def test_slope_follows_what_is_added(values, lag, period, slope):
    before = series.trend(values, 2.0, lag, period)
    after = series.trend([v + slope * 2 * i for i, v in enumerate(values)], 2.0, lag, period)
    assert (before is None) == (after is None)
    if before and after:
        assert after.slope == pytest.approx(before.slope + slope, rel=1e-6, abs=1)
        assert before.low <= before.slope <= before.high


def test_effective_size_of_a_known_correlation():
    """AR(1) with correlation r: n (1 - r) / (1 + r)."""
    rng = np.random.default_rng(SEED)
    kept = math.exp(-1 / 3)
    sizes = [series.effective_size(noise(rng, 2000, 3)) for _ in range(50)]
    assert np.median(sizes) == pytest.approx(2000 * (1 - kept) / (1 + kept), rel=0.15)
    assert series.effective_size(rng.normal(size=1000)) > 800
    assert series.effective_size([3.0, 3.0, 3.0]) == 3


def test_interval_of_a_mean_knows_the_correlation():
    rng = np.random.default_rng(SEED)
    held = []
    for _ in range(400):
        found = series.mean(noise(rng, 200, 3))
        assert found is not None
        held.append(found.low <= 0 <= found.high)
    assert 0.90 <= np.mean(held) <= 0.99
    assert series.mean([1.0]) is None
