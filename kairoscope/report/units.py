"""Numbers as people read them, always with their unit.

Every function takes `None` (not measured) and says "–", so that a hole in a run folder shows as a
hole and never as a zero.
"""

import math
from datetime import UTC, datetime
from typing import Any

NONE = "–"
_LONG_MS = 1000  # latencies from here on read better in seconds
_EPOCH_MS = 1e11  # later than this is milliseconds: 1e11 s is in the year 5138


def number(value: Any) -> float | None:
    """The value as a finite float, or None for anything else (text, null, NaN, a bool)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def count(value: Any, unit: str = "") -> str:
    """A whole count with thousands separators: 120,000,000 points."""
    n = number(value)
    return NONE if n is None else f"{round(n):,}{' ' + unit if unit else ''}"


def plain(value: Any) -> str:
    """A value as it is: a number with thousands separators, anything else as text."""
    n = number(value)
    if n is not None:
        return f"{value:,}"
    return NONE if value is None else str(value)


def significant(value: float, digits: int = 3) -> str:
    """Plain decimal notation with about `digits` significant digits and thousands separators."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def milliseconds(value: Any) -> str:
    """A latency given in ms; in seconds from 1,000 ms on."""
    n = number(value)
    if n is None:
        return NONE
    return f"{significant(n / 1000)} s" if abs(n) >= _LONG_MS else f"{significant(n)} ms"


def byte_size(value: Any) -> str:
    """Bytes in decimal units (1 GB = 10^9 bytes, as the published figures use)."""
    n = number(value)
    if n is None:
        return NONE
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(n) >= size:
            return f"{significant(n / size)} {unit}"
    return f"{significant(n)} bytes"


def percent(fraction: Any) -> str:
    """A fraction as per cent, cut and not rounded: 0.99999 must never read "100 %"."""
    n = number(fraction)
    if n is None:
        return NONE
    # The small offset undoes binary fractions such as 0.999 * 1e5 = 99899.99999999999.
    text = f"{math.floor(n * 1e5 + 1e-6) / 1e3:.3f}".rstrip("0").rstrip(".")
    return f"{text} %"


def duration(seconds: Any) -> str:
    """Seconds as `8 ms`, `45 s`, `2 min`, `2 min 5 s` or `1 h 5 min`."""
    n = number(seconds)
    if n is None:
        return NONE
    if abs(n) < 1:
        return milliseconds(n * 1000)
    if n < 60:
        return f"{significant(n)} s"
    minutes, rest = divmod(round(n), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else rest, "s")]
    return " ".join(f"{amount} {unit}" for amount, unit in parts if amount)


def quantity(value: Any, unit: str | None) -> str:  # noqa: PLR0911 - one return per unit
    """A figure with the unit that a file names; text passes through."""
    n = number(value)
    if n is None:
        return NONE if value is None else str(value)
    match unit:
        case str() if unit.split()[:1] in (["fraction"], ["share"], ["ratio"]):
            return percent(n)  # whatever it is a fraction of is said beside it
        case "ms":
            return milliseconds(n)
        case "us" | "µs":
            return f"{significant(n)} µs"
        case "s":
            return duration(n)
        case "bytes":
            return byte_size(n)
        case _:
            text = count(n) if n == round(n) else significant(n, 4)
            return f"{text} {unit}" if unit else text


def epoch_s(value: Any) -> float | None:
    """Epoch seconds of a time given as seconds, milliseconds or ISO 8601; None if it is none."""
    n = number(value)
    if n is not None:
        return n / 1000 if n > _EPOCH_MS else n
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


def clock(value: Any, *, millis: bool = False) -> str:
    """A moment as `2026-11-21 11:08:05 UTC` (with `millis`, to the millisecond)."""
    seconds = epoch_s(value)
    if seconds is None:
        return NONE if value is None else str(value)
    try:
        moment = datetime.fromtimestamp(seconds, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return str(value)
    text = moment.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{moment.microsecond // 1000:03d} UTC" if millis else f"{text} UTC"


def offset(seconds: float) -> str:
    """Seconds since the start of the load as minutes and seconds: `2:05`."""
    sign = "-" if seconds < 0 else ""
    minutes, rest = divmod(round(abs(seconds)), 60)
    return f"{sign}{minutes}:{rest:02d}"
