"""Names of series from patterns: "SENSOR_{n}", or a tag such as "rack-{n%40}"."""

from __future__ import annotations

import re
from collections.abc import Iterable

PLACE = re.compile(r"\{n(?:%([1-9][0-9]*))?\}")
"""A place in a pattern, with its modulus as the group if it has one."""


_TOUCHING = re.compile(r"\}[0-9]*\{")


def touching(pattern: str) -> bool:
    """Whether two places have nothing but digits between them, so that two series may get one text.

    "{n}{n%17}" is 1212 for 12 and for 121.
    """
    return bool(_TOUCHING.search(pattern))


def expand(pattern: str, number: int) -> str:
    """Put a series number into a pattern.

    `{n}` becomes the number, `{n%K}` the number modulo K: a tag with K different values.
    """

    def place(match: re.Match[str]) -> str:
        modulus = match.group(1)
        return str(number % int(modulus) if modulus else number)

    return PLACE.sub(place, pattern)


def cardinality(pattern: str, series: int) -> int:
    """How many different texts a pattern gives for the series 0 … series - 1.

    An upper bound if the pattern has several places: their combinations may be fewer.
    """
    texts = 1
    for modulus in PLACE.findall(pattern):
        texts *= min(series, int(modulus)) if modulus else series
    return min(texts, series)


def problem(pattern: str) -> str:
    """What is wrong with the places of a pattern, or ""."""
    rest = PLACE.sub("", pattern)
    if "{" in rest or "}" in rest:
        return "braces may only hold n, or n%K with a whole K of at least 1"
    return ""


def tells_apart(patterns: Iterable[str]) -> bool:
    """Whether the patterns together give every series a name of its own."""
    return any("{n}" in pattern for pattern in patterns)
