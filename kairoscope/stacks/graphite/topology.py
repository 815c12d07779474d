"""Which processes Graphite is, and on which ports: caches alone or behind relays and a balancer,
and graphite-web, which answers queries of the files and of what waits in the caches.

All are on one host and share the folder of files, as in the published set-ups: a relay gives every
series to the same cache, so that no two write one file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

CACHE, RELAY, BALANCER, WEB = "cache", "relay", "balancer", "web"
CARBON_RELAY, C_RELAY = "carbon-relay", "carbon-c-relay"
PLAINTEXT, PICKLE, QUERIES, HTTP = "plaintext", "pickle", "cache queries", "HTTP"
MOST = 16

# Carbon's own, where the points of all sensors go.
_ENTRY = {PLAINTEXT: 2003, PICKLE: 2004}
_FIRST_QUERIES = 7002
_HTTP = 8080
# Behind a relay, and behind a balancer, ten ports each.
_CACHES, _RELAYS, _APART = 2100, 2300, 10


@dataclass(frozen=True)
class Part:
    """A process: what the service manager calls it, its role, carbon's name of the instance, which
    program it is, and its ports by what they are for."""

    name: str
    role: str
    instance: str
    program: str
    ports: dict[str, int]


def parts(settings: Mapping[str, Any]) -> list[Part]:
    """All processes of a plan's settings, in the order in which they are started."""
    caches, relays = int(settings["caches"]), int(settings["relays"])
    program = str(settings["relay_program"])
    # It asks the others when it is asked, so that where points go can be last.
    found = [Part(WEB, WEB, "", "graphite-web", {HTTP: _HTTP})]
    found += [
        Part(
            *(f"{CACHE}-{letter}", CACHE, letter, "carbon-cache"),
            {
                **(_behind(_CACHES, number) if relays else _ENTRY),
                QUERIES: _FIRST_QUERIES + number,
            },
        )
        for number, letter in enumerate(ascii_lowercase[:caches])
    ]
    for number, letter in enumerate(ascii_lowercase[:relays]):
        ports = dict(_ENTRY if relays == 1 else _behind(_RELAYS, number))
        if program == C_RELAY:
            del ports[PICKLE]
        found.append(Part(f"{RELAY}-{letter}", RELAY, letter, program, ports))
    if relays > 1:
        spoken = {what: port for what, port in _ENTRY.items() if what in found[-1].ports}
        found.append(Part(BALANCER, BALANCER, "", "haproxy", spoken))
    return found


def listens(settings: Mapping[str, Any]) -> dict[str, int]:
    """Every port by what it is for; first those where points go, by protocol."""
    each = parts(settings)
    own = {
        f"{part.name} {what}": port
        for part in each
        for what, port in part.ports.items()
        if (what, port) not in _ENTRY.items()
    }
    return {what: port for what, port in _ENTRY.items() if what in each[-1].ports} | own


def _behind(first: int, number: int) -> dict[str, int]:
    return {what: first + _APART * number + port % _APART for what, port in _ENTRY.items()}
