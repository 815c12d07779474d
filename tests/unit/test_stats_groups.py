"""Two groups of runs: the methods beside scipy's, and how often the words are wrong."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kairoscope.stats import groups
from kairoscope.stats.groups import Interval, Metric, compare

Rng = np.random.Generator
positive = st.floats(1e-3, 1e6)
some = st.lists(positive, min_size=3, max_size=6)


def one(first: list[float], second: list[float], *, less: bool = True):  # type: ignore[no-untyped-def]
    return compare([Metric("x", first, second, less)])[0]


# --- the methods, beside others' -----------------------------------------------------------------


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (3, 3), (4, 5), (5, 2)])
def test_rank_sums_are_those_of_all_arrangements(n: int, m: int) -> None:
    counted = np.zeros(n * m + 1)
    for places in combinations(range(n + m), n):
        counted[sum(places) - n * (n - 1) // 2] += 1
    assert groups._rank_sums(n, m) == pytest.approx(counted / counted.sum())


@given(some, some)
@settings(max_examples=60)
def test_an_exact_interval_is_where_the_rank_test_does_not_reject(
    first: list[float], second: list[float]
) -> None:
    found = groups.hodges_lehmann(first, second, confidence=0.9)
    a, b = np.log(first), np.log(second)
    inner = (found.low * found.high) ** 0.5
    for ratio, outside in ((found.low * 0.999, True), (found.high * 1.001, True), (inner, False)):
        tested = stats.mannwhitneyu(a, b - math.log(ratio), method="exact")
        # Ties have no exact distribution there.
        if len(set(np.concatenate([a, b - math.log(ratio)]).round(9))) < len(a) + len(b):
            continue
        assert (tested.pvalue <= 1 - found.confidence + 1e-9) == outside


def test_permutations_are_scipys() -> None:
    rng = np.random.default_rng(4)
    for runs in (3, 4, 5):
        a, b = rng.normal(size=(2, runs))
        found = stats.permutation_test(
            (b, a),
            lambda b, a: np.mean(b) - np.mean(a),
            permutation_type="independent",
            vectorized=False,
        )
        mine = groups.permutation(list(np.exp(a)), list(np.exp(b)))
        assert mine == pytest.approx(found.pvalue)
    # Too many to look at each: near what Welch says, as the noise is normal.
    many = np.exp(rng.normal(size=(2, 20)))
    assert groups.permutation(*many) == pytest.approx(groups.difference(*many).p, abs=0.03)


@given(some, some)
@settings(max_examples=60)
def test_sides_can_be_told_apart_by_nothing_but_their_names(
    first: list[float], second: list[float]
) -> None:
    there, back = one(first, second), one(second, first)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.p == pytest.approx(back.p, abs=1e-9)
    opposite = {"better": "worse", "worse": "better"}
    assert back.word == opposite.get(there.word, there.word)
    assert one(first, second, less=False).word == opposite.get(there.word, there.word)


@given(some, some, st.floats(1e-2, 1e2))
@settings(max_examples=60)
def test_units_do_not_matter(first: list[float], second: list[float], unit: float) -> None:
    here, there = one(first, second), one([v * unit for v in first], [v * unit for v in second])
    assert here.ratio == pytest.approx(there.ratio)
    assert here.interval and there.interval
    assert here.interval.low == pytest.approx(there.interval.low, rel=1e-6)


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1), min_size=1, max_size=9))
def test_holm(p: dict[str, float]) -> None:
    adjusted = groups.holm(p)
    ordered = sorted(p, key=lambda name: p[name])
    for i, name in enumerate(ordered):
        assert p[name] <= adjusted[name] <= 1
        assert adjusted[name] >= min(1.0, (len(p) - i) * p[name])
    values = [adjusted[name] for name in ordered]
    assert values == sorted(values)
    # Metrics without a figure are looked at too.
    assert groups.holm(p, 20)[ordered[0]] == min(1.0, 20 * p[ordered[0]])


@pytest.mark.parametrize(("runs", "confidence"), [(3, 0.9), (4, 1 - 2 / 70), (6, 0.95887)])
def test_a_distribution_free_interval_says_what_confidence_it_has(
    runs: int, confidence: float
) -> None:
    values = [1.0 + i / 10 for i in range(runs)]
    found = groups.hodges_lehmann(values, [v * 1.17 for v in values])
    assert found.confidence == pytest.approx(confidence, abs=1e-4)
    assert found.ratio == pytest.approx(1.17, rel=0.02)


def test_values_that_never_vary() -> None:
    assert one([5.0] * 4, [5.0] * 4).word == "same"
    assert one([5.0] * 4, [6.0] * 4).word == "worse"
    # Within what is taken for the same.
    assert one([5.0] * 4, [5.01] * 4).text == "same within ±5 %"


def test_what_cannot_be_a_ratio_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        one([1.0, 2.0, 0.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ([1.0], [2.0], "undecided (about 2 more runs a side)"),
        ([1.0, 1.1, 1.2], [1.0, 1.1], "undecided (about 1 more run a side)"),
        ([], [1.0], "undecided (not measured on both sides)"),
        ([1.0, 3.0, 9.0], [1.1, 3.3, 9.9], "undecided (more than 50 runs a side)"),
    ],
)
def test_undecided_says_what_is_missing(first: list[float], second: list[float], text: str) -> None:
    assert one(first, second).text == text


def test_about_so_many_more_runs_would_settle_it() -> None:
    """The power that `runs_more` goes by is the one that is there."""
    more = groups.runs_more(math.log(1.1), 0.06, 3)
    assert more is not None
    assert groups.power(0.1, 0.06, 3 + more) == pytest.approx(0.8, abs=0.08)
    assert groups.power(0.1, 0.06, 2 + more) < 0.82


def test_a_small_difference_for_certain_is_the_same_still() -> None:
    assert one([1.0, 1.001, 0.999], [1.02, 1.021, 1.019]).word == "same"


def test_equivalence_is_of_the_whole_interval() -> None:
    assert groups.equivalent(Interval(1, 0.96, 1.04, 0.9), 0.05)
    assert not groups.equivalent(Interval(1, 0.94, 1.04, 0.9), 0.05)
    assert not groups.equivalent(Interval(1, 0.96, 1.06, 0.9), 0.05)


# --- how often the words are wrong ---------------------------------------------------------------


def run_to_run(rng: Rng, runs: int) -> np.ndarray:
    """Runs of 6 % spread, every one for itself."""
    return np.exp(rng.normal(0, 0.06, runs))


def drifting(rng: Rng, runs: int) -> np.ndarray:
    """Runs on a machine whose neighbours come and go: AR(1), half of it left after a run."""
    noise = rng.normal(0, 0.06, runs)
    for i in range(1, runs):
        noise[i] += 0.5 * noise[i - 1]
    return np.exp(noise)


def seconds(rng: Rng, runs: int) -> np.ndarray:
    """The p99 of runs of 100 s: AR(1) from second to second, and pauses now and then."""
    noise = rng.normal(0, 0.3, (runs, 100))
    for t in range(1, 100):
        noise[:, t] += 0.8 * noise[:, t - 1]
    pause = rng.random((runs, 100)) < 0.02
    level = np.exp(noise) + pause * rng.uniform(5, 80, (runs, 100))
    return np.percentile(level, 99, axis=1)


ABBA = (0, 1, 1, 0)


def sides(values: np.ndarray) -> tuple[list[float], list[float]]:
    """Runs shared out in the order of `ab`: A B B A A B B A …"""
    of = [ABBA[i % 4] for i in range(len(values))]
    first, second = ([float(v) for v, s in zip(values, of, strict=True) if s == i] for i in (0, 1))
    return first, second


@pytest.mark.parametrize("noise", [run_to_run, drifting, seconds])
@pytest.mark.parametrize("pairs", [3, 6])
def test_identical_sides_are_told_apart_in_one_of_twenty_at_most(noise: object, pairs: int) -> None:
    rng = np.random.default_rng(pairs)
    trials, wrong = 150, 0
    for _ in range(trials):
        metrics = [Metric(str(i), *sides(noise(rng, 2 * pairs))) for i in range(3)]  # type: ignore[operator]
        wrong += any(j.word in ("better", "worse") for j in compare(metrics))
    # 5 %, and two standard errors of counting so many trials.
    assert wrong / trials <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / trials)


def test_a_tenth_more_is_seen_as_often_as_is_stated() -> None:
    """docs/comparing.md: 6 runs a side, 4 % from run to run."""
    rng = np.random.default_rng(7)
    trials, seen = 300, 0
    for _ in range(trials):
        first, second = np.exp(rng.normal(0, 0.04, (2, 6)))
        seen += one(list(first), list(second * 1.1)).word == "worse"
    stated = groups.power(0.1, 0.04, 6)
    assert stated == pytest.approx(0.96, abs=0.01)
    assert seen / trials >= stated - 0.04


def test_the_same_is_told_of_a_tenth_more_in_one_of_twenty_at_most() -> None:
    rng = np.random.default_rng(8)
    trials, wrong = 300, 0
    for _ in range(trials):
        first, second = np.exp(rng.normal(0, 0.04, (2, 6)))
        wrong += one(list(first), list(second * 1.05)).word == "same"
    assert wrong / trials <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / trials)
