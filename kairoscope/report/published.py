"""What a report says of published figures: the lines of a table, and a figure in words."""

from dataclasses import dataclass
from typing import Literal

from kairoscope.report import units
from kairoscope.report.data import Json, part
from kairoscope.report.units import NONE

Comparable = Literal["yes", "partly", "no"]


@dataclass(frozen=True)
class Line:
    """One figure, as published and as this run has it; whether they may be compared, and why."""

    figure: str
    published: str
    ours: str
    comparable: Comparable
    why: str


@dataclass(frozen=True)
class Comparison:
    """A published experiment beside this run; `loader` says how it was loaded."""

    title: str
    source: str
    loader: str
    lines: tuple[Line, ...]


def figure(figures: Json, name: str) -> str:
    """A published figure in its authors' words, or ours with ≈; a derived one with arithmetic."""
    told = part(figures, name)
    unit = str(told.get("unit", ""))
    value = units.quantity(told.get("value"), unit)
    if "below" in told:
        value = f"< {units.quantity(told['below'], unit)}"
    text = str(told.get("as_published", f"≈ {value}"))
    if told.get("status") == "derived":
        return f"{text} (derived: {told.get('arithmetic', '?')})"
    return text if told else NONE
