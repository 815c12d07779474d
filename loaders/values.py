"""The value of a point as a pure function of what it is: read-back can check content.

splitmix64's finalizer is used because it is short, exact in any language and leaves no relation
between neighbours: a point that lands on the wrong sensor or time is noticed (but for one chance
in a million).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LIMIT = 1_000_000
"""Values are in 0 … LIMIT - 1: they look like a sensor's, and stay short in JSON."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)


def _splitmix64(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = state + _GAMMA
    z = (z ^ (z >> _SHIFT_1)) * _FACTOR_1
    z = (z ^ (z >> _SHIFT_2)) * _FACTOR_2
    return z ^ (z >> _SHIFT_3)


def values(sensors: npt.ArrayLike, timestamps_ms: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Values of points: splitmix64(splitmix64(sensor) XOR timestamp_ms) modulo 1,000,000.

    Args:
        sensors: sensor numbers (≥ 0), any shape.
        timestamps_ms: epoch milliseconds (≥ 0), broadcast against `sensors`: one sensor and many
            timestamps works, and so does the reverse.

    Returns:
        int64 of the broadcast shape (at least one dimension), in 0 … 999,999.
    """
    # As arrays of one dimension, because numpy warns of overflow in scalars only, and here
    # overflow is the point.
    sensor_array = np.atleast_1d(np.asarray(sensors, dtype=np.int64)).astype(np.uint64)
    time_array = np.atleast_1d(np.asarray(timestamps_ms, dtype=np.int64)).astype(np.uint64)
    mixed = _splitmix64(_splitmix64(sensor_array) ^ time_array)
    return (mixed % np.uint64(LIMIT)).astype(np.int64)
