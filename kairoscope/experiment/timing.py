"""When a sensor's points are due: from a rate to whole milliseconds, and from those to ticks."""

MIN_PERIOD_MS = 100
"""Shortest time between two points of a sensor. Below it the loader's own timing (milliseconds
of loop lateness) would be a visible share of what it measures."""


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


def ticks(duration_s: int | None, points: int | None, period_ms: int) -> int:
    """Points of each sensor: `points`, or the whole periods in `duration_s`; one is given."""
    if points is not None:
        return points
    assert duration_s is not None, "checked before"  # noqa: S101
    return duration_s * 1000 // period_ms
