"""How each storage node began, which holds for as long as it lives, whatever nodes come and go.

The nodes of a fresh cluster have their tokens given, so that all can start at once. A node that
comes later joins: it takes its tokens itself. One that takes a dead node's place takes that one's.
The inventory of a deployed target is where this is kept.
"""

from typing import Any

import yaml

from kairoscope.hosts import inventory
from kairoscope.hosts.deployed import plan_file

REPLACES = "replaces"
"""Variable of a node that began in a dead one's place: the address of that one (Cassandra), or its
host id (ScyllaDB)."""
_TOKENS = "initial_tokens"


def read(target: str) -> dict[str, dict[str, Any]] | None:
    """The beginnings of a deployed target's storage nodes, by name; None if it is not deployed."""
    # Without a plan nothing was started with the inventory that may be there.
    if not plan_file(target).exists() or not inventory.file(target).exists():
        return None
    return {
        name: {key: found[key] for key in (_TOKENS, REPLACES) if key in found}
        for name, found in _storage(_load(target)).items()
    }


def of(
    begun: dict[str, dict[str, Any]] | None, name: str, fresh_tokens: list[str]
) -> dict[str, Any]:
    """Inventory variables of a storage node that say how it begins or began.

    Args:
        begun: as `read` gives it.
        name: of the host.
        fresh_tokens: that it is given as a node of a fresh cluster; none if it takes its own.
    """
    if begun is not None:
        return begun.get(name, {_TOKENS: []})
    return {_TOKENS: fresh_tokens}


def set_replaces(target: str, name: str, replaced: str | None) -> None:
    """Let a deployed target's host begin anew: in a dead node's place, or (None) of itself."""
    data = _load(target)
    host = _storage(data)[name]
    host.pop(REPLACES, None)
    if replaced:
        host |= {_TOKENS: [], REPLACES: replaced}
    inventory.write(inventory.file(target), data, "and `operate`")


def _load(target: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(inventory.file(target).read_text())
    return data


def _storage(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = data["all"]["children"]["storage"]["hosts"]
    return found
