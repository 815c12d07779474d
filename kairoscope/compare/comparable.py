"""Whether two sides can be compared at all, and what differs between them. Pure.

A difference that decides a figure by itself (another load, another consistency, a warm server
beside a cold one) makes them not comparable, unless it is named as what differs on purpose.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kairoscope.compare import speed
from kairoscope.compare.runs import Run, at
from kairoscope.verdict.conditions import OTHER_SPEED, WARM_AFTER_S

Facets = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """Of a setting or a condition: what it is on either side."""

    what: str
    first: str
    second: str


@dataclass(frozen=True)
class Factor:
    """Something that must be equal on both sides unless it is what is looked into.

    Attributes:
        facets: of a run, what must be equal, by name.
    """

    name: str
    what: str
    facets: Callable[[Run], Facets]


_NOT_OF_THE_LOAD = {"queries", "latency_limit_ms", "hosts", "workers", "workers_per_host"}


def _load(run: Run) -> Facets:
    load = at(run.plan, "load") or {}
    asked = queries(run)
    faults = at(run.plan, "experiment", "faults") or []
    same = {k: v for k, v in load.items() if k not in _NOT_OF_THE_LOAD}
    return same | {"queries": asked, "faults": faults}


def queries(run: Run) -> Any:
    """The experiment's queries; without what is followed beside them if there are none, as in plans
    from before there was that."""
    asked = at(run.plan, "experiment", "queries")
    if not isinstance(asked, dict) or asked.get("rate"):
        return asked
    return {k: v for k, v in asked.items() if k != "followed"}


def _cluster(run: Run) -> Facets:
    shape = at(run.plan, "experiment", "cluster") or {}
    names = ("storage_nodes", "kairosdb_nodes", "loader_hosts")
    return {name: shape.get(name) for name in names} | {"workers": at(run.plan, "load", "workers")}


def _consistency(run: Run) -> Facets:
    return {
        "replication_factor": at(run.plan, "experiment", "cluster", "replication_factor"),
        **{
            name: at(run.plan, "kairosdb", name)
            for name in ("write_consistency", "read_consistency")
        },
    }


def _durability(run: Run) -> Facets:
    storage = at(run.plan, "storage") or {}
    return {"queue_sync_ms": at(run.plan, "kairosdb", "queue_sync_ms") or 0} | {
        name: value for name, value in storage.items() if name.startswith("commitlog_sync")
    }


def _freshness(run: Run) -> Facets:
    return {
        "queue": at(run.plan, "kairosdb", "queue"),
        "queue_window_ms": at(run.plan, "kairosdb", "queue_window_ms") or 0,
    }


def _engine(run: Run) -> Facets:
    return {"engine": at(run.manifest, "versions", "engine")}


def machine(manifest: Mapping[str, Any]) -> Facets:
    """What a run's figures are of: its target, this machine and the target's hosts."""
    hosts = manifest.get("hosts") or []
    kinds = sorted(
        json.dumps({k: v for k, v in host.items() if k in _OF_A_HOST}, sort_keys=True)
        for host in hosts
        if isinstance(host, dict)
    )
    return {"target": manifest.get("target"), **(manifest.get("machine") or {}), "hosts": kinds}


_OF_A_HOST = {"role", "cpus", "cpu_model", "memory_bytes", "kernel"}


def _warmth(run: Run) -> Facets:
    return {"servers": warmth(run)}


def warmth(run: Run) -> str | None:
    """Cold or warm, by the youngest server, as the verdict has it; None: it is not known."""
    servers = at(run.manifest, "conditions", "servers") or []
    starts = [at(server, "started") for server in servers]
    began_ms = at(run.manifest, "load", "start_ms")
    if not starts or None in starts or began_ms is None:
        return None
    return "cold" if began_ms / 1000 - max(starts) < WARM_AFTER_S else "warm"


MACHINE = Factor("machine", "the machine", lambda run: machine(run.manifest))

FACTORS: Sequence[Factor] = (
    Factor("load", "the load", _load),
    Factor("cluster", "the cluster's shape", _cluster),
    Factor("consistency", "copies and consistency", _consistency),
    Factor("durability", "what an acknowledged point survives", _durability),
    Factor("freshness", "how long a point may wait in the queue", _freshness),
    Factor("engine", "the storage engine", _engine),
    MACHINE,
    Factor("warmth", "how warm the servers were", _warmth),
)


@dataclass(frozen=True)
class Comparability:
    """Why two sides are not comparable, what differs on purpose, and what else is to be known
    beside the words; sentences."""

    why_not: list[str]
    on_purpose: list[str]
    beside: list[str]


def comparable(
    first: Sequence[Run], second: Sequence[Run], on_purpose: Sequence[str] = ()
) -> Comparability:
    """Look at every factor, of runs that have been judged; `on_purpose` are names of factors."""
    found = Comparability([], [], [])
    why_not, meant = found.why_not, found.on_purpose
    for label, runs in (("first", first), ("second", second)):
        if not runs:
            why_not.append(f"no run of the {label} side was judged: all are invalid or incomplete")
            continue
        for factor in FACTORS:
            if mixed := _within(factor, runs):
                why_not.append(f"the {label} side's runs are not of one kind: {mixed}")
    if first and second:
        for factor in FACTORS:
            if differ := differences(factor.facets(first[0]), factor.facets(second[0])):
                text = f"{factor.what}: {described(differ)}"
                if factor.name in on_purpose:
                    meant.append(text)
                else:
                    why_not.append(f"{text} (if it is meant to differ: --factor {factor.name})")
        _add_speed(found, speed.apart(first, second), on_purpose)
    return found


def _add_speed(
    found: Comparability, apart: tuple[float, str] | None, on_purpose: Sequence[str]
) -> None:
    """Say where it belongs by how much the machines' speeds differ, if that is worth a sentence."""
    if apart is None:
        return
    ratio, text = apart
    if ratio <= OTHER_SPEED:
        found.beside.append(f"{text[0].upper()}{text[1:]}.")
    elif MACHINE.name in on_purpose:
        found.on_purpose.append(text)
    else:
        found.why_not.append(f"{text} (if it is meant to differ: --factor {MACHINE.name})")


def _within(factor: Factor, runs: Sequence[Run]) -> str | None:
    """What differs between the runs of a side, if anything does."""
    for run in runs[1:]:
        if found := differences(factor.facets(runs[0]), factor.facets(run)):
            return f"{factor.what} ({runs[0].name} and {run.name}): {described(found)}"
    return None


def described(found: Sequence[Difference], most: int = 4) -> str:
    """In a sentence's part: the first few."""
    parts = [f"{each.what} {each.first} and {each.second}" for each in found[:most]]
    more = f", and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(parts) + more


def differences(first: Facets, second: Facets) -> list[Difference]:
    """What differs, in the order of the names."""
    return [
        Difference(name, text(first.get(name)), text(second.get(name)))
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]


def text(value: Any) -> str:
    """A value as it is told."""
    if value is None:
        return "not said"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def settings(first: Run, second: Run) -> list[Difference]:
    """All resolved settings and limits that differ between two runs' plans."""
    return differences(_settings(first), _settings(second))


def _settings(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in ("kairosdb", "storage", "load"):
        flat = at(run.plan, part) or {}
        found |= {f"{part}.{name}": value for name, value in flat.items()}
    for part in ("limits", "capture", "queries", "cluster"):
        given = at(run.plan, "experiment", part) or {}
        found |= {f"{part}.{name}": value for name, value in given.items()}
    return found


def conditions(first: Run, second: Run) -> list[Difference]:
    """Versions, commit and what else was recorded of the circumstances, where it differs."""
    return differences(_conditions(first), _conditions(second))


def commit(manifest: Mapping[str, Any]) -> str | None:
    """The checkout's, and whether files differed from it; None if that is not known."""
    git = manifest.get("git") or {}
    digits = str(git.get("commit") or "")[:12] or None
    return f"{digits}, changed" if git.get("dirty") and digits else digits


def versions(manifest: Mapping[str, Any]) -> Facets:
    """Of Kairoscope, and of all that it ran with."""
    return {f"version of {k}": v for k, v in (manifest.get("versions") or {}).items()}


def _conditions(run: Run) -> dict[str, Any]:
    plain = {
        name: value
        for name, value in (at(run.manifest, "conditions") or {}).items()
        if isinstance(value, str | int | float | bool)
    }
    return {
        **versions(run.manifest),
        **plain,
        "points that waited at the start": sum(
            at(each, "waiting") or 0 for each in at(run.manifest, "conditions", "queue") or []
        ),
        **{
            f"speed of {name}, ms of CPU for the same work": round(seconds * 1000, 1)
            for name, seconds in speed.of(run).items()
        },
        "commit": commit(run.manifest),
        "cores that others used": _rounded(at(run.measurements, "conditions", "foreign_cores")),
        "share of cores that was stolen": _rounded(
            at(run.measurements, "conditions", "steal_share")
        ),
        "machine busy, share of its cores": _rounded(
            run.measurements.get("machine_cpu_busy_fraction")
        ),
    }


def _rounded(value: Any) -> Any:
    return round(value, 2) if isinstance(value, float) else value
