"""Intervals of percentiles: how often they hold what they are of."""

import numpy as np
import pytest

from kairoscope.stats import percentiles
from kairoscope.stats.percentiles import Counts

# Ends of buckets in µs, about 2 % apart.
VALUES = np.unique(np.geomspace(1000, 400_000, 300).astype(np.int64))
REQUESTS_PER_S = 240
BLOCK_S = 5


def measured(random: np.random.Generator, blocks: int, base_us: float = 2000) -> Counts:
    """A system that answers in 2 ms, but for a pause of 20 to 300 ms every ten seconds or so."""
    window_s = blocks * BLOCK_S
    t = np.arange(window_s * REQUESTS_PER_S) / REQUESTS_PER_S
    latency_us = base_us * np.exp(random.normal(0, 0.15, len(t)))
    for start in np.cumsum(random.exponential(10, window_s)):
        end = start + random.uniform(0.02, 0.3)
        pause = slice(*np.searchsorted(t, (start, end)))
        latency_us[pause] += (end - t[pause]) * 1e6
    counts = np.zeros((blocks, len(VALUES)), dtype=np.int64)
    bucket = np.minimum(np.searchsorted(VALUES, latency_us), len(VALUES) - 1)
    np.add.at(counts, ((t // BLOCK_S).astype(int), bucket), 1)
    return Counts(VALUES, counts)


def test_an_interval_holds_the_systems_own_percentile_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    own = percentiles.percentile(measured(random, 2000), 99)
    assert own is not None
    held = independent = 0
    for _ in range(200):
        found = measured(random, 21)
        interval = percentiles.interval(found, 99, confidence=0.9, resamples=300)
        assert interval is not None
        held += interval.low <= own <= interval.high
        # What somebody would say who took a hundred points a request for independent.
        n = 100 * found.counts.sum()
        margin = 100 * 1.645 * np.sqrt(0.01 * 0.99 / n)
        low, high = (percentiles.percentile(found, 99 + d) for d in (-margin, margin))
        independent += low <= own <= high  # type: ignore[operator]
    assert 0.83 <= held / 200 <= 0.95
    assert independent / 200 < 0.1


def test_two_stretches_of_the_same_system_seldom_differ() -> None:
    random = np.random.default_rng(2)
    apart = 0
    for _ in range(100):
        a, b = measured(random, 21), measured(random, 21)
        found = percentiles.ratio(a, b, 99, confidence=0.9, resamples=200)
        assert found is not None
        apart += not found.low <= 1 <= found.high
    assert apart <= 12


def test_a_slower_system_is_told_apart() -> None:
    random = np.random.default_rng(3)
    fast, slow = measured(random, 21), measured(random, 21, base_us=3000)
    by = percentiles.ratio(slow, fast, 50)
    more = percentiles.difference(slow, fast, 50)
    assert by is not None
    assert more is not None
    assert 1.4 < by.low <= by.figure <= by.high < 1.6
    assert 900 < more.low <= more.figure <= more.high < 1100


def test_no_noise_no_width() -> None:
    alike = Counts(np.array([10, 20]), np.array([[98, 2]] * 8))
    assert percentiles.interval(alike, 99) == percentiles.Interval(20, 20, 20)
    assert percentiles.ratio(alike, alike, 50) == percentiles.Interval(1, 1, 1)


@pytest.mark.parametrize(
    "counts", [np.zeros((9, 2)), np.array([[5, 5]] * 4), np.array([[5, 5]] * 4 + [[0, 0]] * 9)]
)
def test_too_few_blocks_give_none(counts: np.ndarray) -> None:
    few = Counts(np.array([10, 20]), counts.astype(np.int64))
    assert percentiles.interval(few, 99) is None
    assert percentiles.intervals(few, (50, 99)) == {}
    assert percentiles.difference(few, few, 99) is None


def test_a_percentile_is_that_of_hdr_histogram() -> None:
    counts = Counts(np.array([1, 2, 3]), np.array([[98, 0, 0], [0, 1, 1]]))
    assert [percentiles.percentile(counts, p) for p in (0, 50, 98, 99, 99.9, 100)] == [
        1,
        1,
        1,
        2,
        3,
        3,
    ]


def test_the_same_counts_give_the_same_interval() -> None:
    found = measured(np.random.default_rng(4), 12)
    assert percentiles.interval(found, 99) == percentiles.interval(found, 99)
    assert percentiles.intervals(found, (50, 99))[99] == percentiles.interval(found, 99)
