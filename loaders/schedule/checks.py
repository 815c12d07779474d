"""Checks of single values of a load's specification: each says what is wrong with one, or ""."""

import math
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from loaders.schedule import naming

# Requests are made once and filled in for each tick: every timestamp must have as many digits as
# any other. 13 it is from September 2001 to the year 2286.
_FIRST_MS = 10**12
BEYOND_MS = 10**13

_MAX_JSON_INTEGER = 2**53
_PORT = re.compile("[0-9]{1,5}")
_PATH = re.compile(r"/[!-~]*")

Check = Callable[[Any], str]
"""What is wrong with a value, or ""."""


def integer(at_least: int) -> Check:
    """A whole number."""

    def check(value: Any) -> str:
        # bool is an int in Python, but "sensors: true" is a mistake.
        good = isinstance(value, int) and not isinstance(value, bool)
        if good and at_least <= value < _MAX_JSON_INTEGER:
            return ""
        return f"must be a whole number of at least {at_least}"

    return check


def number(at_least: float, *, excluded: bool = False) -> Check:
    """Any number; with `excluded`, above `at_least`."""

    def check(value: Any) -> str:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if good and math.isfinite(value) and (value > at_least if excluded else value >= at_least):
            return ""
        return f"must be a number {'above' if excluded else 'of at least'} {at_least:g}"

    return check


def one_of(*choices: str) -> Check:
    """One of some words."""

    def check(value: Any) -> str:
        return "" if value in choices else f"must be one of {', '.join(choices)}"

    return check


def flag(value: Any) -> str:
    """True or false."""
    return "" if isinstance(value, bool) else "must be true or false"


def nodes(value: Any) -> str:
    """Base URLs of nodes, each once."""
    if not isinstance(value, list) or not value:
        return "must be a list of at least one base URL"
    problem = next(filter(None, map(_node, value)), "")
    if not problem and len(set(value)) != len(value):
        return "must name each KairosDB node once"
    return problem


def _node(url: Any) -> str:
    example = 'must be base URLs such as "http://127.0.0.1:8080"'
    if not isinstance(url, str):
        return example
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port  # reading the port checks it
    except ValueError as error:
        return f"{example} ({error})"
    bare = parts.path in ("", "/") and not parts.query and not parts.fragment
    bare = bare and port != 0 and "@" not in parts.netloc
    return "" if parts.scheme in ("http", "https") and host and bare else example


def addresses(value: Any) -> str:
    """Addresses with ports, each once."""
    if not isinstance(value, list):
        return "must be a list"
    for address in value:
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not _PORT.fullmatch(port) or int(port) not in range(1, 65536):
            return 'must be addresses such as "127.0.0.1:4242"'
    return "" if len(set(value)) == len(value) else "must name each KairosDB node once"


def metric(value: Any) -> str:
    """The pattern of a metric's name."""
    if not isinstance(value, str) or not value:
        return 'must be a name, such as "SENSOR_{n}"'
    return _pattern(value)


def tags(value: Any) -> str:
    """Tags, whose values are patterns."""
    texts = isinstance(value, dict) and all(
        isinstance(text, str) and text for item in value.items() for text in item
    )
    if not texts or not value:
        return "must be at least one tag, names and values not empty"
    if any("{" in name or "}" in name for name in value):
        return "must have no braces in a tag's name: only its value may be a pattern"
    return next(filter(None, map(_pattern, value.values())), "")


def _pattern(text: str) -> str:
    if naming.touching(text):
        return "must have something other than digits between two places"
    return naming.problem(text)


def text(value: Any) -> str:
    """Any text."""
    return "" if isinstance(value, str) else "must be a text"


def path(value: Any) -> str:
    """The path of a URL, or nothing."""
    good = isinstance(value, str) and (not value or _PATH.fullmatch(value))
    return "" if good else "must be empty or a path, such as /api/v1/write"


def start(value: Any) -> str:
    """A time whose milliseconds have 13 digits."""
    good = isinstance(value, int) and not isinstance(value, bool)
    if good and _FIRST_MS <= value < BEYOND_MS:
        return ""
    return "must be epoch milliseconds between September 2001 and the year 2286"
