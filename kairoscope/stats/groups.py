"""Two groups of runs, and which word the difference of a figure deserves. Pure, no I/O.

A run is one observation: what varies between runs (the machine's neighbours, what the compiler
made hot, where a compaction fell) is the larger part, and seconds of one run cannot show it. All
is done on logarithms, as costs and latencies vary by factors: a difference of means of logarithms
is a ratio of geometric means. Runs that took turns (A B B A …) are not taken as pairs: on a machine
that drifts, neighbouring pairs share a part of their noise, and a test that takes them for
independent finds a difference between identical sides too often (7 to 9 % of the time with ten
pairs, where 5 % was asked for). Taking turns makes Welch's test the safer, not the surer.

The word rests on Welch's t with Holm's correction over the list of metrics, and on the arrangements
of the runs, which must agree: with few runs a t-test believes two lucky groups too soon.
"Same" is two one-sided tests (Schuirmann 1987): the 90 % interval of the ratio lies within the
tolerance. What is neither is undecided, and says how many runs would settle it.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Word = Literal["better", "worse", "same", "undecided"]
Floats = NDArray[np.float64]

LEAST_RUNS = 3
"""A side: with fewer there is no spread between runs to speak of."""
MOST_RUNS = 50
"""A side: what would take more is not worth a number."""
ALPHA = 0.05
POWER = 0.8
TOLERANCE = 0.05

_EXACT = 10_000
"""Arrangements up to which a permutation test looks at every one; 5 a side have 252, 8 12,870."""


@dataclass(frozen=True)
class Interval:
    """A ratio with its interval.

    Attributes:
        confidence: what the interval really has: with few runs a distribution-free one may not
            reach what was asked for.
    """

    ratio: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Test:
    """A test of "there is no difference", with the intervals that belong to it.

    Attributes:
        interval: at 1 - alpha.
        narrow: at 1 - 2 alpha: within a tolerance it makes two one-sided tests at alpha each.
    """

    interval: Interval
    narrow: Interval
    p: float


@dataclass(frozen=True)
class Metric:
    """A figure of all runs of both sides, in the order in which they were made.

    Attributes:
        first, second: positive values, one a run.
        less_is_better: whether a ratio (second by first) below 1 is better.
    """

    name: str
    first: Sequence[float]
    second: Sequence[float]
    less_is_better: bool = True


@dataclass(frozen=True)
class Compared:
    """What can be said of one metric.

    Attributes:
        ratio: geometric mean of the second side by that of the first; None without values.
        interval: at 95 %, of Welch's t; None with too few runs.
        ranks: Hodges and Lehmann's, without any assumption on the distribution.
        p, p_holm: of "no difference"; alone, and corrected for the number of metrics.
        p_permutation: the same from the arrangements of the runs alone.
        more: about so many more runs a side settle it; None if it is settled, or would take more
            than MOST_RUNS a side.
    """

    name: str
    word: Word
    ratio: float | None
    interval: Interval | None
    ranks: Interval | None
    p: float | None
    p_holm: float | None
    p_permutation: float | None
    more: int | None
    tolerance: float

    @property
    def text(self) -> str:
        """The word as it is told."""
        if self.word == "same":
            return f"same within ±{self.tolerance * 100:g} %"
        if self.word != "undecided":
            return self.word
        if self.ratio is None:
            return "undecided (not measured on both sides)"
        if self.more is None:
            return f"undecided (more than {MOST_RUNS} runs a side)"
        return f"undecided (about {self.more} more run{'s' * (self.more > 1)} a side)"


def compare(
    metrics: Sequence[Metric], *, tolerance: float = TOLERANCE, alpha: float = ALPHA
) -> list[Compared]:
    """The difference of each metric, in order.

    `metrics` is the whole list that is looked at, those without values too: how many there are
    decides how sure one must be of each.
    """
    usable = {m.name: m for m in metrics if _runs(m) >= LEAST_RUNS}
    tests = {name: difference(m.first, m.second, alpha=alpha) for name, m in usable.items()}
    corrected = holm({name: test.p for name, test in tests.items()}, len(metrics))
    found = []
    for metric in metrics:
        if metric.name in usable:
            test, p_holm = tests[metric.name], corrected[metric.name]
            found.append(_tested(metric, test, p_holm, len(metrics), tolerance, alpha))
        else:
            found.append(_too_few(metric, tolerance))
    return found


def _runs(metric: Metric) -> int:
    return min(len(metric.first), len(metric.second))


def _too_few(metric: Metric, tolerance: float) -> Compared:
    ratio = None
    if metric.first and metric.second:
        ratio = math.exp(float(np.mean(_logs(metric.second)) - np.mean(_logs(metric.first))))
    more = LEAST_RUNS - _runs(metric)
    return Compared(metric.name, "undecided", ratio, None, None, None, None, None, more, tolerance)


def _tested(
    metric: Metric, test: Test, p_holm: float, count: int, tolerance: float, alpha: float
) -> Compared:
    p_ranks = permutation(metric.first, metric.second)
    # With three runs a side no arrangement is rarer than one in ten: then it must be that one.
    least = least_p(len(metric.first), len(metric.second))
    word: Word = "undecided"
    if equivalent(test.narrow, tolerance):
        word = "same"
    elif p_holm <= alpha and p_ranks <= max(alpha, least) * (1 + 1e-9):
        word = "better" if (test.interval.ratio < 1) == metric.less_is_better else "worse"
    more = None
    if word == "undecided":
        more = runs_more(
            math.log(test.interval.ratio),
            _spread(metric),
            _runs(metric),
            tolerance=tolerance,
            alpha=alpha,
            count=count,
        )
    return Compared(
        name=metric.name,
        word=word,
        ratio=test.interval.ratio,
        interval=test.interval,
        ranks=hodges_lehmann(metric.first, metric.second, confidence=1 - alpha),
        p=test.p,
        p_holm=p_holm,
        p_permutation=p_ranks,
        more=more,
        tolerance=tolerance,
    )


def difference(first: Sequence[float], second: Sequence[float], *, alpha: float = ALPHA) -> Test:
    """Welch's t-test of the logarithms, as scipy has it.

    Values that do not vary at all leave no spread to measure with: then the interval is the ratio
    alone, and p that of the arrangements.
    """
    a, b = _logs(first), _logs(second)
    middle = float(np.mean(b) - np.mean(a))
    found: Any = None
    if max(np.ptp(a), np.ptp(b)) <= _NOTHING:
        p = 1.0 if abs(middle) <= _NOTHING else permutation(first, second)
    else:
        with warnings.catch_warnings():
            # Of one side that hardly varies, beside one that does.
            warnings.simplefilter("ignore", RuntimeWarning)
            found = stats.ttest_ind(b, a, equal_var=False)
        p = float(found.pvalue)

    def interval(confidence: float) -> Interval:
        low, high = found.confidence_interval(confidence) if found else (middle, middle)
        return Interval(_exp(middle), _exp(float(low)), _exp(float(high)), confidence)

    return Test(interval(1 - alpha), interval(1 - 2 * alpha), p)


_NOTHING = 1e-9
"""Of logarithms: less is rounding, not spread."""


def mean_interval(values: Sequence[float], *, alpha: float = ALPHA) -> tuple[float, float]:
    """Between what the geometric mean of such runs lies, by Student's t on logarithms."""
    logarithms = _logs(values)
    middle = float(np.mean(logarithms))
    error = float(np.std(logarithms, ddof=1)) / math.sqrt(len(logarithms))
    half = float(special.stdtrit(len(logarithms) - 1, 1 - alpha / 2)) * error
    return _exp(middle - half), _exp(middle + half)


def permutation(first: Sequence[float], second: Sequence[float]) -> float:
    """How rare a difference of means of logarithms as large as this is among all arrangements.

    All are looked at where there are few, otherwise as many at random, with a fixed seed.
    (scipy.stats.permutation_test, to which a test holds it, takes a tenth of a second for what is
    asked thousands of times in a simulation.)
    """
    a, b = _logs(first), _logs(second)
    # The difference of means is a growing function of the sum over one group.
    both = np.concatenate([a, b])
    centre = len(b) * float(np.mean(both))
    differences = _members(len(a), len(b)) @ both - centre
    seen = abs(float(np.sum(b)) - centre)
    rare = int(np.sum(np.abs(differences) >= seen - _NOTHING - 1e-9 * seen))
    if math.comb(len(both), len(b)) <= _EXACT:
        return rare / len(differences)
    # What was seen is one of the arrangements that could have been drawn (Phipson, Smyth 2010).
    return (rare + 1) / (len(differences) + 1)


@lru_cache(maxsize=32)
def _members(first: int, second: int) -> Floats:
    """A row an arrangement: 1 where a run is of the second side."""
    total = first + second
    if math.comb(total, second) > _EXACT:
        order = np.random.default_rng(_SEED).random((_EXACT, total)).argsort(axis=1)
        return (order < second).astype(float)
    places = np.array(list(combinations(range(total), second)))
    rows = np.zeros((len(places), total))
    np.put_along_axis(rows, places, 1.0, axis=1)
    return rows


_SEED = 20_261_125


def least_p(first: int, second: int) -> float:
    """The least p that a permutation test of so many runs can find."""
    return 2.0 / math.comb(first + second, first)


def hodges_lehmann(
    first: Sequence[float], second: Sequence[float], *, confidence: float = 0.95
) -> Interval:
    """The median of all n·m ratios of runs, with its exact distribution-free interval.

    Order statistics of the ratios, by the distribution of Mann and Whitney's U (Hollander, Wolfe,
    Chicken: Nonparametric Statistical Methods, 4.2). The confidence is the least that is not below
    what was asked for; with so few runs that none is, that of the widest.
    """
    found = np.sort(np.subtract.outer(_logs(second), _logs(first)).ravel())
    below = np.cumsum(_rank_sums(len(first), len(second)))
    tail = (1 - confidence) / 2
    # The k-th from either end: k - 1 is the largest value of U that is rare enough.
    k = max(int(np.searchsorted(below, tail * (1 + 1e-9), side="right")), 1)
    middle = _exp(float(np.median(found)))
    return Interval(middle, _exp(found[k - 1]), _exp(found[-k]), float(1 - 2 * below[k - 1]))


@lru_cache(maxsize=64)
def _rank_sums(first: int, second: int) -> Floats:
    """Probability of each value of Mann and Whitney's U, 0 to first · second."""
    ways = np.zeros((first + 1, first * second + 1))
    ways[0, 0] = 1.0
    # Members of the first group taken from the lowest up: the j-th taken at place i has i - j of
    # the other group below it.
    for place in range(first + second):
        for taken in range(min(place, first - 1), -1, -1):
            others = place - taken
            if others <= second:
                ways[taken + 1, others:] += ways[taken, : first * second + 1 - others]
    chance: Floats = ways[first] / math.comb(first + second, first)
    return chance


def holm(p: Mapping[str, float], count: int | None = None) -> dict[str, float]:
    """Holm's (1979) adjusted p: the chance of any false alarm among `count` metrics is kept.

    `count` is the number of metrics of the list; those without a p are as if they had 1.
    """
    count = max(count or 0, len(p))
    adjusted: dict[str, float] = {}
    highest = 0.0
    for i, (name, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (count - i) * value))
        adjusted[name] = highest
    return adjusted


def equivalent(interval: Interval, tolerance: float) -> bool:
    """Whether the ratio's interval lies within the tolerance: 1/(1 + t) to 1 + t."""
    return 1 / (1 + tolerance) < interval.low and interval.high < 1 + tolerance


def runs_more(
    log_ratio: float,
    spread: float,
    runs: int,
    *,
    tolerance: float = TOLERANCE,
    alpha: float = ALPHA,
    count: int = 1,
) -> int | None:
    """About how many more runs a side settle it with a chance of 80 %, if all goes on as it is.

    `log_ratio` is what was found, `spread` the standard deviation between runs of logarithms,
    `count` the metrics of the list. None: more than MOST_RUNS a side.
    """
    sizes = np.arange(max(runs + 1, LEAST_RUNS), MOST_RUNS + 1)
    if not len(sizes):
        return None
    degrees = 2 * sizes - 2
    error = spread * np.sqrt(2 / sizes)
    chance = special.stdtrit(degrees, POWER)
    to_differ = (special.stdtrit(degrees, 1 - alpha / 2 / count) + chance) * error
    to_be_same = (special.stdtrit(degrees, 1 - alpha) + chance) * error
    room = math.log1p(tolerance) - abs(log_ratio)
    enough = (to_differ <= abs(log_ratio)) | (to_be_same <= room)
    return int(sizes[np.argmax(enough)]) - runs if enough.any() else None


def power(
    difference_share: float, spread: float, runs: int, *, alpha: float = ALPHA, count: int = 1
) -> float:
    """The chance that a true difference is told as one, with so many runs a side.

    `difference_share` such as 0.1; `spread` the standard deviation between runs, as a share. By
    the noncentral t distribution, for the first step of Holm's over `count` metrics.
    """
    degrees = 2 * runs - 2
    away = math.log1p(difference_share) / (spread * math.sqrt(2 / runs))
    bound = stats.t.ppf(1 - alpha / 2 / count, degrees)
    chance = float(stats.nct.sf(bound, degrees, away) + stats.nct.cdf(-bound, degrees, away))
    return 1.0 if math.isnan(chance) else chance  # scipy gives up where it is next to certain


def _spread(metric: Metric) -> float:
    """Standard deviation of logarithms between runs, of both sides together."""
    a, b = _logs(metric.first), _logs(metric.second)
    return math.sqrt((float(np.var(a, ddof=1)) + float(np.var(b, ddof=1))) / 2)


def _logs(values: Sequence[float]) -> Floats:
    found = np.asarray(values, dtype=float)
    if not np.all(np.isfinite(found)) or not np.all(found > 0):
        raise ValueError(f"a ratio is of positive figures: {list(values)}")
    logarithms: Floats = np.log(found)
    return logarithms


def _exp(logarithm: float) -> float:
    """As `math.exp`, infinite where it is too large for a float."""
    return math.exp(logarithm) if logarithm < _LARGEST_LOG else math.inf


_LARGEST_LOG = 709.0
