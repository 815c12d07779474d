"""What all trials of a search together say of the capacity, with an interval. Pure.

A trial at load L is sustained if the capacity of that moment is above L. Capacity varies from trial
to trial by a factor whose logarithm is normal with deviation s, around the median capacity C: a
probit in log L. Neither C nor s is known. Both are put on a grid, weighed by what was seen, and C's
distribution is what the interval is read off (Bayesian inference with priors flat in log C and
log s). Unlike a maximum-likelihood fit it has an answer where trials are few, or all of one side.
Trials are taken for independent: a machine that drifts while the search goes on is not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

NOISE = (0.01, 0.3)
"""Bounds of s. The lower one keeps the interval from being shorter than it can be trusted: three
trials a load cannot rule out a noise of a percent."""
CONFIDENCE = 0.9

_STEPS, _NOISES = 800, 24


@dataclass(frozen=True)
class Capacity:
    """Load that half of all trials would sustain: its median, and bounds that hold it with
    probability CONFIDENCE; in the unit of the loads."""

    median: float
    low: float
    high: float


def estimate(trials: Sequence[tuple[float, bool]]) -> Capacity | None:
    """The capacity by (load, sustained) of each trial; None unless there are both kinds."""
    if len({good for _, good in trials}) < 2:
        return None
    loads = np.log([load for load, _ in trials])
    signs = np.array([1.0 if good else -1.0 for _, good in trials])
    grid = np.linspace(loads.min() - NOISE[1], loads.max() + NOISE[1], _STEPS)
    noises = np.geomspace(*NOISE, _NOISES)
    # Weight of each (s, C): the product over trials of the probability of what was seen.
    z = signs * (grid[None, :, None] - loads) / noises[:, None, None]
    logs = log_ndtr(z).sum(axis=2)
    weights = np.exp(logs - logs.max()).sum(axis=0)
    share = np.cumsum(weights) / weights.sum()
    tail = (1 - CONFIDENCE) / 2
    low, median, high = np.exp(np.interp([tail, 0.5, 1 - tail], share, grid))
    return Capacity(float(median), float(low), float(high))
