"""What of a run was not captured though it should have been. Pure: sentences out of what there is.

A run without its captures says nothing of the store, however well it went: unknown is not zero.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kairoscope import run_folder

# Of captures under load the first is due after one period; a load that ends within so many seconds
# of it may end before it on a machine that is busy.
GRACE_S = 10

_WHEN = {"before": "before", "during": "under", "after": "after"}


@dataclass(frozen=True)
class Wanted:
    """What should have been captured.

    Fields:
        histograms: names of the nodes that were due to be asked for `nodetool proxyhistograms`,
            without those that were taken away meanwhile, as in all of these.
        processes: names of the servers whose processes should have been seen.
        phases: in which `nodetool proxyhistograms` was due.
        shards: names of the storage nodes whose shards tell what they do, which Cassandra has not.
    """

    histograms: Sequence[str]
    processes: Sequence[str]
    phases: Sequence[str]
    shards: Sequence[str] = ()
    counters: Sequence[str] = ()
    """Names of the servers whose own counters should have been looked at under the load."""
    window: Sequence[str] = ()
    """Names of the storage nodes whose own counts of the measured time should have been taken."""


def phases(load_s: float, every_s: float) -> list[str]:
    """In which phases of a load of that many seconds a capture was due."""
    during = ["during"] if load_s > every_s + GRACE_S else []
    return ["before", *during, "after"]


def missing(
    wanted: Wanted,
    captures: Iterable[Mapping[str, Any]],
    events: Iterable[Mapping[str, Any]],
    sampled: Collection[str],
    shards: Collection[str],
    disk: Mapping[str, int | None],
    counters: Collection[str] = (),
    window: Collection[str] = (),
) -> list[str]:
    """What was not captured and why, a sentence each; empty if nothing is missing.

    Args:
        wanted: what should have been.
        captures: records of captures.json.
        events: records of events.jsonl, which tell why something failed.
        sampled: names of processes whose CPU time is known in the measured time.
        shards: names of storage nodes of which it is known what their shards did in that time.
        counters: names of servers whose own counters were looked at twice in that time.
        disk: bytes of the store "before" and "after", None where they were not measured.
        window: names of storage nodes of which it is known what they counted in that time. Not of
            one that was started again in it, as it has forgotten: that it was is told elsewhere.
    """
    events = list(events)
    found = {(capture["node"], capture["phase"]) for capture in captures}
    failed = {
        (event.get("node"), event.get("phase")): str(event["detail"])
        for event in events
        if event["what"] == "capture failed"
    }
    gaps: dict[tuple[str, ...], list[str]] = {}
    for node in wanted.histograms:
        lacking = tuple(phase for phase in wanted.phases if (node, phase) not in found)
        if lacking:
            gaps.setdefault(lacking, []).append(node)
    said = []
    for lacking, nodes in gaps.items():
        whys = (failed.get((node, phase)) for node in nodes for phase in lacking)
        why = next(filter(None, whys), "no attempt is recorded")
        when = " and ".join(_WHEN[phase] for phase in lacking)
        said.append(
            f"nodetool proxyhistograms of {', '.join(nodes)} not captured {when} the load: {why}"
        )
    unseen = [name for name in wanted.processes if name not in sampled]
    if unseen:
        said.append(
            f"no process of {', '.join(unseen)} was seen while the load was measured: CPU and "
            "memory are not known"
        )
    if silent := [name for name in wanted.shards if name not in shards]:
        whys = (
            str(e["detail"])
            for e in events
            if e["what"] == "shards not captured" and e.get("node") in silent
        )
        said.append(
            f"load and requests of the shards of {', '.join(silent)} not captured while the load "
            f"was measured: {next(whys, 'no two looks are recorded')}"
        )
    if silent := [name for name in wanted.counters if name not in counters]:
        said.append(
            f"the counters of {', '.join(silent)} not captured while the load was measured: no two "
            "looks are recorded"
        )
    uncounted = [e for e in events if e["what"] == run_folder.NOT_COUNTED]
    again = {e.get("node") for e in uncounted if e.get("started_again")}
    if silent := [name for name in wanted.window if name not in window and name not in again]:
        whys = (str(e["detail"]) for e in uncounted if e.get("node") in silent)
        said.append(
            f"what {', '.join(silent)} counted while the load was measured not captured: "
            f"{next(whys, 'no two looks are recorded')}"
        )
    unmeasured = [when for when in ("before", "after") if disk[when] is None]
    if unmeasured:
        whys = (str(e["detail"]) for e in reversed(events) if e["what"] == "disk not measured")
        said.append(
            "bytes per point are not known, as the store was not measured "
            f"{' and '.join(unmeasured)} the load: {next(whys, 'no attempt is recorded')}"
        )
    return said
