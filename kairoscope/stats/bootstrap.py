"""The draws of a moving-block bootstrap. Pure, no I/O.

Runs of consecutive blocks of time are drawn with replacement, on a circle (Künsch 1989; Politis and
Romano 1992), so that what lasts longer than a block is kept together.
"""

import math

import numpy as np
from numpy.typing import NDArray

LEAST_BLOCKS = 5
"""With fewer blocks there is nothing to draw from."""


def drawn(blocks: int, resamples: int, random: np.random.Generator) -> NDArray[np.int64]:
    """int64[resamples, blocks]: which blocks each resample has."""
    length = _run_length(blocks)
    starts = random.integers(0, blocks, (resamples, -(-blocks // length)))
    runs = (starts[:, :, np.newaxis] + np.arange(length)) % blocks
    return runs.reshape(resamples, -1)[:, :blocks]


def sample_size(blocks: int) -> float:
    """How many runs there are to draw from: what the bootstrap takes for independent."""
    return blocks / _run_length(blocks)


def _run_length(blocks: int) -> int:
    """Consecutive blocks that are drawn together: the cube root, as is usual."""
    return max(1, round(math.cbrt(blocks)))
