"""Whether the loader hosts' clocks stayed where they were while a load went on. Pure.

Before a load a host whose clock is off by more than a limit is refused. A clock that is set later
puts timestamps of hosts, and what was sampled beside them, at times that do not fit together.
"""

from collections.abc import Sequence
from typing import Any

from kairoscope.run_folder import ClockOffset
from kairoscope.verdict.conditions import NAMED


def off(hosts: Sequence[dict[str, Any]], limit_ms: float) -> list[str]:
    """Why the run is invalid: hosts (of load/hosts.json) whose clock was off after the load."""
    return [
        f"loader: {_moved(name, before, after)} (limits.clock_offset_ms: {limit_ms:g} ms)"
        for name, before, after in _known(hosts)
        if after.exceeds(limit_ms)
    ]


def moved(hosts: Sequence[dict[str, Any]], limit_ms: float) -> list[str]:
    """Sentences on clocks that were set by a good part of the limit, and are within it."""
    found = []
    for name, before, after in _known(hosts):
        change = ClockOffset(after.offset_us - before.offset_us, before.rtt_us + after.rtt_us)
        if change.exceeds(limit_ms * NAMED) and not after.exceeds(limit_ms):
            sentence = _moved(name, before, after)
            found.append(f"{sentence[0].upper()}{sentence[1:]}")
    return found


def _known(hosts: Sequence[dict[str, Any]]) -> list[tuple[str, ClockOffset, ClockOffset]]:
    """Hosts that were looked at before and after: name, and both offsets."""
    return [
        (
            host["host"],
            ClockOffset(host["offset_us"], host["rtt_us"]),
            ClockOffset(host["after"]["offset_us"], host["after"]["rtt_us"]),
        )
        for host in hosts
        if host.get("after")
    ]


def _moved(name: str, before: ClockOffset, after: ClockOffset) -> str:
    return f"the clock of {name} was {before} before the load and {after} after it"
