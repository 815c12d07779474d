"""When a sensor's points are due: from rates to whole milliseconds, and from those to ticks."""

from collections.abc import Sequence

MIN_PERIOD_MS = 100
"""Shortest time between two points of a sensor. Below it the loader's own timing (milliseconds
of loop lateness) would be a visible share of what it measures."""
DEFAULT_RATE = 1.0
"""Points a second of each sensor where an experiment says nothing: as in 2018."""
DEFAULT_WARMUP_S = 15
"""Seconds of warm-up where an experiment says nothing; replay has no latencies to keep clean."""

Steps = list[tuple[int, int]]
"""The rates of a load one after the other: (ms between two points of a sensor, points of each)."""


def whole_period_ms(rate: float) -> int | None:
    """1000 / rate if that is a whole number of ms ≥ MIN_PERIOD_MS, else None.

    A rate written with five digits (0.33333) stands for its period (3000 ms).
    """
    exact = 1000 / rate
    period = round(exact)
    return period if period >= MIN_PERIOD_MS and abs(exact - period) <= 1e-5 * exact else None


def nearby_rates(rate: float) -> tuple[float, float]:
    """The next rates below and above that are short decimals with a whole period."""
    step = 4 if rate < 1 else 3  # decimals of a rate that a person would type
    scale = 10**step
    whole = [r for r in range(1, 10 * scale + 1) if 1000 * scale % r == 0]
    rates = [r / scale for r in whole if 1000 * scale // r >= MIN_PERIOD_MS]
    lower = max((r for r in rates if r < rate), default=rates[0])
    higher = min((r for r in rates if r > rate), default=rates[-1])
    return lower, higher


def resolve(
    rate: float | None,
    duration_s: int | None,
    points: int | None,
    steps: Sequence[tuple[float, int]] | None,
) -> Steps:
    """Periods and ticks of what is given: `steps` as (rate, seconds), or a rate and one of the two
    lengths. Whole periods only: what is left of a duration is cut off."""
    if steps is None and points is not None:
        return [(round(1000 / (rate or DEFAULT_RATE)), points)]
    if steps is None:
        assert duration_s is not None, "checked before"
        steps = [(rate or DEFAULT_RATE, duration_s)]
    periods = [(round(1000 / step_rate), seconds) for step_rate, seconds in steps]
    return [(period, seconds * 1000 // period) for period, seconds in periods]


def length_ms(steps: Steps) -> int:
    """Milliseconds from the first tick to the end of the last one's period."""
    return sum(period * ticks for period, ticks in steps)


def ticks_within(steps: Steps, seconds: int) -> int:
    """How many ticks begin in the first so many seconds."""
    left_ms, count = seconds * 1000, 0
    for period, ticks in steps:
        count += min(ticks, max(0, -(-left_ms // period)))
        left_ms -= period * ticks
    return count


def warmup_s(given: int | None, replay: bool) -> int:
    """Seconds of warm-up: as given, or the default."""
    if given is not None:
        return given
    return 0 if replay else DEFAULT_WARMUP_S
