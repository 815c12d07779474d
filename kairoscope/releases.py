"""Versions of servers: in which order they come, and whether one is the other. Pure."""

import re


def number(version: str) -> tuple[int, ...]:
    """A version's leading numbers, to be compared: (2026, 1, 11) of "2026.1.11-0.20260801.abc"."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def same_release(found: str, wanted: str) -> bool:
    """Whether a version is the wanted one, which may lack what was built into it.

    KairosDB 1.3.0-1 calls itself "1.3.0-1.2021…", ScyllaDB 6.2.3 "6.2.3-0.2025…".
    """
    return bool(wanted) and re.match(rf"{re.escape(wanted)}(?![0-9])", found) is not None
