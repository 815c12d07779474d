"""The value of a point as a pure function of what it is: read-back can check content.

splitmix64's finalizer is used because it is short, exact in any language and leaves no relation
between neighbours: a point that lands on the wrong series or time is noticed (but for one chance
in 900,000).
"""

from __future__ import annotations

import enum
import re

import numpy as np
import numpy.typing as npt

LOWEST = 100_000
LIMIT = 1_000_000
"""Values are whole numbers in LOWEST … LIMIT - 1. All have six digits, so that a value can be
written into its place in a request made once, whatever it was before."""

DIGITS = 6

_TEXT = re.compile(f"v[0-9]{{{DIGITS}}}")

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_SPREAD = np.uint64(LIMIT - LOWEST)

UInt64s = npt.NDArray[np.uint64]


class ValueType(enum.Enum):
    """How KairosDB stores the whole number: as it is, as a thousandth of it, or as text."""

    LONG = "long"
    DOUBLE = "double"
    STRING = "string"

    def text(self, value: int) -> str:
        """A value as it stands in a request: 123456, 123.456 or v123456."""
        if self is ValueType.DOUBLE:
            return f"{value // 1000}.{value % 1000:03d}"
        # The letter keeps KairosDB from taking the text for a number.
        return f"v{value}" if self is ValueType.STRING else str(value)

    def number(self, stored: object) -> int:
        """The whole number behind what a query gave back; -1 for anything else."""
        if self is ValueType.STRING:
            return int(stored[1:]) if isinstance(stored, str) and _TEXT.fullmatch(stored) else -1
        # Whatever is out of bounds is not ours, and NaN is in none.
        if (
            isinstance(stored, bool)
            or not isinstance(stored, int | float)
            or not 0 <= stored < LIMIT
        ):
            return -1
        if self is ValueType.LONG:
            return int(stored) if stored == int(stored) else -1
        whole = round(stored * 1000)
        # The nearest double of "123.456" is also that of 123456 / 1000.
        return whole if whole / 1000 == stored else -1


def splitmix64(state: UInt64s) -> UInt64s:
    """One step of splitmix64 for each element (Steele, Lea, Flood 2014); any shape but ()."""
    z = state + _GAMMA
    z ^= z >> _SHIFT_1
    z *= _FACTOR_1
    z ^= z >> _SHIFT_2
    z *= _FACTOR_2
    z ^= z >> _SHIFT_3
    return z


def seeds(series: npt.ArrayLike) -> UInt64s:
    """The part of the value function that depends on the series alone, same shape (≥ 1-d)."""
    # As arrays of one dimension, because numpy warns of overflow in scalars only, and here
    # overflow is the point.
    return splitmix64(np.atleast_1d(np.asarray(series, dtype=np.int64)).astype(np.uint64))


def seeded_values(seed: UInt64s, timestamps_ms: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Values of points whose series' `seeds` are known; shapes broadcast."""
    times = np.atleast_1d(np.asarray(timestamps_ms, dtype=np.int64)).astype(np.uint64)
    mixed: UInt64s = splitmix64(seed ^ times)
    mixed %= _SPREAD
    return mixed.view(np.int64) + LOWEST


def values(series: npt.ArrayLike, timestamps_ms: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Values: 100,000 + splitmix64(splitmix64(series number) XOR timestamp_ms) mod 900,000.

    Args:
        series: series numbers (≥ 0), any shape.
        timestamps_ms: epoch milliseconds (≥ 0), broadcast against `series`: one series and many
            timestamps works, and so does the reverse.

    Returns:
        int64 of the broadcast shape (at least one dimension), in 100,000 … 999,999.
    """
    return seeded_values(seeds(series), timestamps_ms)
