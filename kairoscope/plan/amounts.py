"""Numbers of the plan: bounded, rounded and written."""


def n(value: float) -> str:
    """1234567 as 1,234,567; 0.31415 as 0.314; 66666.67 as 66,667."""
    if float(value).is_integer():
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.5g}"


def count(number: int, noun: str) -> str:
    """1 node, 1,000 nodes."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def in_bytes(value: float) -> str:
    """Bytes with three digits and a decimal unit: 12.6 GB."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"


def short(value: float) -> int | float:
    """A whole number as int, another with six decimals: plan.json is read by people."""
    return int(value) if float(value).is_integer() else round(value, 6)


def bounded(value: int, low: int, high: int | None = None) -> tuple[int, str]:
    """A value within bounds, and what they did to it, for the end of an arithmetic string."""
    if high is not None and value > high:
        return high, f", at most {n(high)}"
    if value < low:
        return low if high is None else min(low, high), f", at least {n(low)}"
    return value, ""


def up(value: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-value // step) * step
