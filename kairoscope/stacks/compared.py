"""What came back of a series, beside what was sent of it; for every stack."""

import re

import numpy as np
import numpy.typing as npt

from kairoscope.verdict.settlement import SeriesResult
from loaders.schedule import naming
from loaders.schedule.due import Int64s, Schedule, Series
from loaders.schedule.values import LIMIT, ValueType, values


def compare(
    schedule: Schedule, series: Series, points: Int64s, unexpected: int = 0
) -> SeriesResult:
    """Compare returned points, int64[n, 2] of (timestamp in ms, value), with what was sent.

    `unexpected`: points already known not to be the series' own.
    """
    expected = schedule.timestamps_ms(series.rank, series.ticks)
    got = points[np.argsort(points[:, 0], kind="stable")]
    index = np.searchsorted(expected, got[:, 0])
    hit = (index < len(expected)) & (expected[np.minimum(index, len(expected) - 1)] == got[:, 0])
    present = np.zeros(len(expected), dtype=bool)
    right = np.zeros(len(expected), dtype=bool)
    present[index[hit]] = True
    good = values(series.number, got[hit, 0]) == got[hit, 1]
    right[index[hit]] = True
    # A point that comes twice is right if all its values are, and once more than it should be.
    right[index[hit][~good]] = False
    twice = int(hit.sum()) - int(present.sum())
    return SeriesResult(series, present, right, unexpected + int((~hit).sum()) + twice)


def numbers(kind: ValueType, stored: npt.NDArray[np.float64]) -> Int64s:
    """`ValueType.number` of values that came back as floats: the whole numbers behind them, -1 for
    what is none of ours."""
    scale = 1000 if kind is ValueType.DOUBLE else 1
    with np.errstate(invalid="ignore", over="ignore"):
        whole = np.rint(stored * scale)
        ours = (stored >= 0) & (stored < LIMIT) & (whole / scale == stored)
    return np.where(ours, whole, -1).astype(np.int64)


def pattern(text: str) -> str:
    """A regular expression for all that a pattern of metric or tag expands to."""
    cut = naming.PLACE.split(text)
    # Of each place its modulus is a piece of its own.
    return "[0-9]+".join(map(re.escape, cut[::2]))
