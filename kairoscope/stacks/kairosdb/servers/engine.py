"""What a storage node says it is. The inventory says what it should be, which proves nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cassandra import InvalidRequest
from cassandra.cluster import Session

from kairoscope.releases import same_release

UNKNOWN = "unknown"

# A table of ScyllaDB alone, with one row (db/system_keyspace.cc at 5.2.19, db/virtual_tables.cc at
# 2026.2.5). What both engines have, system.local, has 3.0.8 in every ScyllaDB (version.hh).
_SCYLLA = "SELECT version, build_mode, build_id FROM system.versions WHERE key = 'local'"
_CASSANDRA = "SELECT release_version FROM system.local WHERE key = 'local'"


@dataclass(frozen=True)
class Server:
    """Engine and version of one storage node, by its own account; `build` is empty for Cassandra.

    `trouble`: why it did not tell; engine and version are UNKNOWN then.
    """

    engine: str
    version: str
    build: str = ""
    trouble: str = ""

    @classmethod
    def silent(cls, why: str) -> "Server":
        """One that did not tell."""
        return cls(UNKNOWN, UNKNOWN, trouble=why)


def ask(db: Session) -> Server:
    """What the node at the other end of a session says it is; the session must be to one only."""
    try:
        row = db.execute(_SCYLLA).one()
    except InvalidRequest:
        row = None
    if row is not None:
        build = [row.build_mode, f"build {row.build_id}" if row.build_id else ""]
        return Server("scylla", row.version, ", ".join(part for part in build if part))
    row = db.execute(_CASSANDRA).one()
    return (
        Server("cassandra", row.release_version) if row else Server.silent("system.local is empty")
    )


def problems(found: Mapping[str, Server], engine: str, version: str) -> list[str]:
    """Where nodes are not what the inventory says they are, by name; a sentence each.

    A node that did not tell is none of them: it is unknown, not another.
    """
    return [
        f"{name} is {server.engine} {server.version}, the inventory says {engine} {version}"
        for name, server in found.items()
        if not server.trouble
        and (server.engine != engine or not same_release(server.version, version))
    ]


def untold(found: Mapping[str, Server]) -> list[str]:
    """Which nodes did not tell what they are, and why; a sentence each."""
    return [
        f"{name} did not tell its engine and version: {server.trouble}"
        for name, server in found.items()
        if server.trouble
    ]


def summary(found: Mapping[str, Server]) -> dict[str, Any]:
    """What a manifest says of them: one engine and version, UNKNOWN as soon as one did not tell."""

    def one(values: Sequence[str]) -> str:
        different = sorted(set(values))
        return UNKNOWN if UNKNOWN in different or not different else ", ".join(different)

    servers = list(found.values())
    told = {
        "engine": one([server.engine for server in servers]),
        "engine_version": one([server.version for server in servers]),
    }
    builds = sorted({server.build for server in servers if server.build})
    return told | ({"engine_build": ", ".join(builds)} if builds else {})
