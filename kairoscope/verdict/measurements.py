"""Figures of a run from what was sampled and counted: cost per point, bytes per point, cores,
balance of the KairosDB nodes. Pure, no I/O."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from kairoscope import run_folder
from kairoscope.verdict.conditions import Conditions
from kairoscope.verdict.outcomes import Outcomes
from kairoscope.verdict.usage import LEAST_COVERED, Usage
from loaders.schedule.due import Schedule


def shards_seen(looks: Iterable[dict[str, Any]], start: float, end: float) -> set[str]:
    """Names of the storage nodes that were looked at twice in one life between `start` and `end`.

    `looks` are records of scylla.jsonl. Only two looks one after another say what was done between.
    """
    by_node: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for found in looks:
        if start <= found["t"] <= end:
            by_node[found["node"]].append(found)
    return {
        node
        for node, found in by_node.items()
        if any(run_folder.same_life(before, after) for before, after in pairwise(found))
    }


def looked_twice(looks: Iterable[dict[str, Any]], start: float, end: float) -> set[str]:
    """Names of the servers whose counters were seen twice between `start` and `end` (epoch s).

    `looks` are records of counters.jsonl.
    """
    seen = Counter(
        look["node"] for look in looks if start <= look["t"] <= end and "error" not in look
    )
    return {node for node, times in seen.items() if times > 1}


def cost_per_point(
    usage: Usage, seconds: dict[str, float], points: float
) -> dict[str, float | None]:
    """CPU µs a point by role of those that were seen, and of the loaders, None if they were not;
    `seconds` by process of `usage`."""
    by_role: dict[str, float] = defaultdict(float)
    for name, used in seconds.items():
        by_role[usage.role[name]] += used
    return {
        role: by_role[role] / points * 1e6 if points and role in by_role else None
        for role in sorted({*by_role, "loader"})
    }


def measurements(
    samples: list[dict[str, Any]],
    window: tuple[float, float],
    points: int,
    condition: Conditions,
    rate: dict[str, float | None],
    disk: dict[str, int | None],
    replication_factor: int,
    loaders: tuple[float, int] | None = None,
) -> dict[str, Any]:
    """The content of measurements.json.

    `window` (epoch s) is the measured part of the load, in which `points` were due; `condition` is
    that of the machines then; `rate` the target and achieved points/s; `disk` the store's data in
    bytes before and after, flushed, and the points stored between; `loaders` CPU seconds and points
    sent by the workers' own count, for loader hosts whose processes cannot be sampled from here.
    Costs are means over the window and include everything that a process did in it (compaction,
    garbage collection, capture by nodetool excepted: those are processes of their own).
    """
    notes: list[str] = []
    start, end = window
    usage = Usage(samples)
    used = usage.seconds(start, end)
    per_point = cost_per_point(usage, used, points)
    length = max(end - start, 1e-9)
    if used and (covered := usage.covered(start, end)) < LEAST_COVERED:
        notes.append(
            f"CPU: only {covered:.0%} of the measured time is known, the rest is taken for alike"
        )
    if per_point["loader"] is None and loaders is not None and loaders[1]:
        per_point["loader"] = loaders[0] / loaders[1] * 1e6
        notes.append(
            "loader CPU per point is what the workers counted themselves, over the whole load"
        )
    rss: dict[str, int] = {}
    for sample in samples:
        if "rss_bytes" in sample:
            rss[sample["name"]] = max(rss.get(sample["name"], 0), sample["rss_bytes"])

    per_point_bytes: float | None = None
    before, after, stored = disk["before"], disk["after"], disk["points"]
    if before is None or after is None:
        notes.append("bytes per point: the store could not be flushed before and after the load")
    elif not stored:
        notes.append("bytes per point: it is not known how many points were stored")
    elif after <= before:
        notes.append(
            "bytes per point: the store merged what it held before and shrank, so it is not known "
            "what the load added; on an empty store it is"
        )
    else:
        per_point_bytes = (after - before) / stored
        if before > after - before:
            notes.append(
                f"bytes per point: the store held {before / (after - before):.1f} times as much "
                "before, and what merging that took or freed meanwhile is in the figure"
            )
    return {
        "cpu_us_per_point": per_point,
        "cpu_cores": {name: seconds / length for name, seconds in used.items()},
        "machine_cpu_busy_fraction": condition.busy_share,
        "conditions": condition.to_json(),
        "bytes_per_point": {
            "on_disk_all_replicas": per_point_bytes,
            "per_replica": per_point_bytes / replication_factor if per_point_bytes else None,
        },
        "points_per_s": rate,
        "rss_max_bytes": rss,
        "notes": notes,
    }


def node_balance(names: list[str], schedule: Schedule, outcomes: Outcomes) -> list[dict[str, Any]]:
    """How the load was spread over the KairosDB nodes: one record for each.

    `sensors`: whose points it gets while all nodes are up. Points are of the node that took them,
    or was tried last; without those of workers that died.
    """
    sensors: Counter[int] = Counter()
    for worker in range(schedule.spec.workers):
        for group in schedule.groups(worker):
            sensors[group.node] += len(group.slots)
    return [
        {
            "node": name,
            "sensors": sensors[node],
            "points_sent": outcomes.sent_by_node[node],
            "points_acknowledged": outcomes.acknowledged_by_node[node],
        }
        for node, name in enumerate(names)
    ]
