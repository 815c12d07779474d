"""The ratio of two means of figures by block of time, each of one run. Pure, no I/O.

By the same draws (`bootstrap`) as `percentiles` has for counts.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kairoscope.stats import bootstrap
from kairoscope.stats.groups import ALPHA, Interval

Floats = NDArray[np.float64]

_RESAMPLES = 2000
_SEED = 20_261_125


def ratio_of_means(
    first: Sequence[float], second: Sequence[float], *, alpha: float = ALPHA
) -> Interval | None:
    """The mean of the second by that of the first, with its interval of these two runs alone.

    None with fewer than bootstrap.LEAST_BLOCKS blocks on either side, or where a mean is not above
    zero.
    """
    if min(len(first), len(second)) < bootstrap.LEAST_BLOCKS:
        return None
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if a.mean() <= 0 or b.mean() <= 0 or a.min() < 0 or b.min() < 0:
        return None
    random = np.random.default_rng(_SEED)
    drawn = np.log(_means(b, random)) - np.log(_means(a, random))
    middle = float(np.log(b.mean()) - np.log(a.mean()))
    low, high = np.quantile(drawn, [alpha / 2, 1 - alpha / 2])
    # A bootstrap of few blocks is too narrow by about this (Hesterberg 2015).
    wider = _wider(len(a), len(b))
    low, high = middle + (low - middle) * wider, middle + (high - middle) * wider
    ratio, bottom, top = (math.exp(value) for value in (middle, low, high))
    return Interval(ratio, bottom, top, 1 - alpha)


def _wider(*blocks: int) -> float:
    size = min(map(bootstrap.sample_size, blocks))
    return float(np.sqrt(size / (size - 1)))


def _means(values: Floats, random: np.random.Generator) -> Floats:
    means: Floats = values[bootstrap.drawn(len(values), _RESAMPLES, random)].mean(axis=1)
    return means
