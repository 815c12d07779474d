"""Figures of a series of equally spaced looks that are not independent of each other.

Neighbouring looks at a queue, a latency or a load resemble each other; who takes them for
independent believes far too narrow an interval.

- `trend`: a slope by least squares, its standard error by Newey and West (1987, Econometrica 55:
  703-708; Bartlett's weights), and bounds by critical values for that error of a trend: with few
  looks it is too small, and more so the longer its lag is ("fixed-b": Kiefer and Vogelsang 2005,
  Econometric Theory 21: 1130-1164; Bunzel and Vogelsang 2005, JBES 23: 381-394, for trends). The
  values here are a fit to 50,000 simulated trends each of b = 0.0025 … 0.5. Of looks that forget
  within a third of the lag, a bound that says 5 % is passed by 7 %, with two or three periods 11 %.
- A known period is taken out exactly: the slope is that of the looks of each phase, and the error
  is of what is left when each phase has its mean taken off. A saw-tooth of that period, of whatever
  height, changes neither.
- `effective_size`: n / (1 + 2 Σ ρ), summed while pairs of autocorrelations are positive (Geyer
  1992, Statistical Science 7: 473-483).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from kairoscope.stats.percentiles import CONFIDENCE, Interval

Floats = npt.NDArray[np.float64]

LEAST_LOOKS = 5
"""Fewer give no slope worth the name."""

# Of |t| at b = (lag + 1) / n, what 90 % stay below, so 95 % on either side: a + b·x + ….
_CRITICAL = (1.6449, 4.285, -0.365, -2.099)


@dataclass(frozen=True)
class Trend:
    """A slope per unit of time, its standard error, and a bound on either side.

    The slope is below `low` with 5 %, and above `high` with 5 %.
    """

    slope: float
    error: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """From the slope to either bound."""
        return self.high - self.slope


def trend(values: Sequence[float] | Floats, step: float, lag: int, period: int = 1) -> Trend | None:
    """The slope of a series; None if it is too short.

    Args:
        values: equally spaced looks. Of the oldest so many are left out as make no whole period.
        step: time between two of them, in the unit that the slope is to be per.
        lag: up to how many steps looks are taken for correlated; at most a third of them is used.
        period: steps after which what is no trend repeats itself; 1: nothing is known to. Two whole
            periods are needed.
    """
    looks = np.asarray(values, dtype=float)
    periods = len(looks) // period
    n = periods * period
    if n < LEAST_LOOKS or periods < 2:
        return None
    looks = looks[len(looks) - n :]
    if period == 1:
        t = (np.arange(n) - (n - 1) / 2) * step
        taken_off = looks.mean()
        used = 2
    else:
        t = np.repeat((np.arange(periods) - (periods - 1) / 2) * period * step, period)
        taken_off = np.tile(looks.reshape(periods, period).mean(axis=0), periods)
        used = period + 1
    weights = t / (t * t).sum()
    slope = float((weights * looks).sum())
    lag = min(lag, n // 3)
    score = weights * (looks - taken_off - slope * t)
    error = math.sqrt(max(_long_run(score, lag), 0.0) * n / (n - used))
    b = (lag + 1) / n
    reach = error * sum(c * b**power for power, c in enumerate(_CRITICAL))
    return Trend(slope, error, slope - reach, slope + reach)


def _long_run(score: Floats, lag: int) -> float:
    """Σ over all pairs up to `lag` apart, those further apart weighing less (Bartlett)."""
    total = float((score * score).sum())
    for apart in range(1, lag + 1):
        total += 2 * (1 - apart / (lag + 1)) * float((score[apart:] * score[:-apart]).sum())
    return total


def effective_size(values: Sequence[float] | Floats) -> float:
    """How many independent looks say as much of the mean as these do; 1 … len(values)."""
    looks = np.asarray(values, dtype=float)
    n = len(looks)
    off = looks - looks.mean() if n else looks
    power = float((off * off).sum())
    if n < 2 or not power:
        return float(n)
    total = 0.0
    for lag in range(1, n - 1, 2):
        pair = sum(float((off[k:] * off[:-k]).sum()) for k in (lag, lag + 1)) / power
        if pair <= 0:
            break
        total += pair
    return min(float(n), max(1.0, n / (1 + 2 * total)))


def mean(values: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Interval | None:
    """The mean, and between what the mean of what they are drawn from lies; None for one look.

    Student's t with the effective size in place of the number of looks.
    """
    looks = np.asarray(values, dtype=float)
    size = effective_size(looks)
    if len(looks) < 2 or size <= 1:
        return None
    error = float(looks.std(ddof=1)) / math.sqrt(size)
    reach = float(special.stdtrit(size - 1, (1 + confidence) / 2)) * error
    middle = float(looks.mean())
    return Interval(middle, middle - reach, middle + reach, confidence)
