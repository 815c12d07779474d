"""What the loaders say became of each point: counts, and the exceptions from the usual outcome."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kairoscope import run_folder
from loaders.query import query_files
from loaders.record import files
from loaders.schedule.due import Schedule, Series

# Codes of Outcomes.of_series.
ACKNOWLEDGED, REJECTED, UNKNOWN, NOT_SENT = 0, 1, 2, 3
_CODES = {
    "acknowledged": ACKNOWLEDGED,
    "rejected": REJECTED,
    "unknown": UNKNOWN,
    "not_sent": NOT_SENT,
}

# Workers notice the same node within seconds of each other: one event of the run, seen by many.
_TOGETHER_S = 10

Codes = npt.NDArray[np.uint8]


@dataclass
class Counts:
    """Points by outcome; scheduled = sent + not_sent, sent = acknowledged + rejected + unknown.

    `in_time` are those after the warm-up that were acknowledged, or over telnet handed to the
    socket, within the latency limit of their planned time.
    """

    scheduled: int = 0
    sent: int = 0
    not_sent: int = 0
    acknowledged: int = 0
    in_time: int = 0
    rejected: int = 0
    unknown: int = 0

    def add(self, other: "Counts") -> None:
        """Add another worker's counts."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class Outcomes:
    """Counts of all workers together and, for each series, the outcome of each tick.

    Attributes:
        counts: points of all workers.
        acknowledges: whether the protocol tells that a point has arrived.
        sent_by_node, acknowledged_by_node: points by index of the server that took them or,
            if none did, was tried last; without those of workers that died.
        died: per worker that did not end by itself, its counts when it was last heard of.
    """

    counts: Counts
    acknowledges: bool = True
    sent_by_node: list[int] = field(default_factory=list)
    acknowledged_by_node: list[int] = field(default_factory=list)
    died: dict[int, Counts] = field(default_factory=dict)
    # (first tick, tick after the last, code), in the order of the file, by (worker, group).
    _exceptions: dict[tuple[int, int], list[tuple[int, int, int]]] = field(default_factory=dict)

    def of_series(self, series: Series) -> Codes:
        """Outcome codes of a series' points, uint8[len(series.ticks)].

        What a worker did not list had the usual outcome: acknowledged, or unknown over telnet. For
        a worker that died it is unknown.
        """
        usual = ACKNOWLEDGED if self.acknowledges and series.worker not in self.died else UNKNOWN
        codes = np.full(len(series.ticks), usual, dtype=np.uint8)
        start = series.ticks.start
        for first, end, code in self._exceptions.get((series.worker, series.group), ()):
            codes[max(0, first - start) : max(0, end - start)] = code
        return codes

    def _except(self, worker: int, record: dict[str, Any]) -> None:
        ranges = self._exceptions.setdefault((worker, int(record["group"])), [])
        first = int(record["tick"])
        end, code = first + int(record["ticks"]), _CODES[record["outcome"]]
        # A stall makes neighbours by the thousand: they are one range.
        if ranges and ranges[-1][1:] == (first, code):
            ranges[-1] = (ranges[-1][0], end, code)
        else:
            ranges.append((first, end, code))


@dataclass
class NodeEvent:
    """A server (by its index) that workers found down or up again, at `t` (epoch s)."""

    t: float
    event: str
    node: int
    detail: str
    workers: list[int]


def read(schedule: Schedule, folder: Path) -> Outcomes:
    """Read the workers' files of a load (worker-<i>.json, .jsonl, .outcomes.jsonl)."""
    spec = schedule.spec
    nodes = len(spec.nodes)
    outcomes = Outcomes(Counts(), spec.acknowledges, [0] * nodes, [0] * nodes)
    for worker in range(spec.workers):
        final = files.result_path(folder, worker)
        if final.exists():
            said = run_folder.read_object(final)
            counts = Counts(**{k: said[k] for k in Counts.__dataclass_fields__})
            for node in range(nodes):
                outcomes.sent_by_node[node] += said["sent_by_node"][node]
                outcomes.acknowledged_by_node[node] += said["acknowledged_by_node"][node]
        else:
            scheduled = sum(map(schedule.points_of, schedule.groups(worker)))
            last: dict[str, Any] = {}
            for record in run_folder.records(files.progress_path(folder, worker)):
                last = record
            counts = _of_last_words(scheduled, last)
            outcomes.died[worker] = counts
        outcomes.counts.add(counts)
        for record in run_folder.records(files.outcomes_path(folder, worker)):
            outcomes._except(worker, record)
    return outcomes


def _of_last_words(scheduled: int, last: dict[str, Any]) -> Counts:
    """Counts of a worker that died, from its last record; the rest is unknown or not sent."""
    sent = int(last.get("sent", 0))
    acknowledged, rejected = int(last.get("acknowledged", 0)), int(last.get("rejected", 0))
    return Counts(
        scheduled=scheduled,
        sent=sent,
        not_sent=scheduled - sent,
        acknowledged=acknowledged,
        in_time=int(last.get("in_time", 0)),
        rejected=rejected,
        unknown=sent - acknowledged - rejected,
    )


def node_events(workers: int, folder: Path) -> list[NodeEvent]:
    """Nodes that went down or came up, in order of time, from worker-<i>.events.jsonl.

    What several workers saw of one node within ten seconds is one event, with the words of the
    first of them.
    """
    seen = [
        (float(record["t"]), worker, record)
        for worker in range(workers)
        for record in run_folder.records(files.events_path(folder, worker))
    ]
    events: list[NodeEvent] = []
    latest: dict[tuple[int, str], NodeEvent] = {}
    for t, worker, record in sorted(seen, key=lambda item: item[:2]):
        key = (int(record["node"]), str(record["event"]))
        event = latest.get(key)
        # A worker that says it again means another time.
        if event and t - event.t <= _TOGETHER_S and worker not in event.workers:
            event.workers.append(worker)
            continue
        event = latest[key] = NodeEvent(t, key[1], key[0], str(record.get("detail", "")), [worker])
        events.append(event)
    return events


def finals(folder: Path, workers: int) -> list[dict[str, Any]]:
    """Final figures of the workers that came to their end, by number."""
    paths = (files.result_path(folder, worker) for worker in range(workers))
    return [run_folder.read_object(path) for path in paths if path.exists()]


def last_arrived(folder: Path, workers: int) -> float | None:
    """When the last points of a load were acknowledged (where nothing is: were sent), epoch s by
    the loaders' clocks, by the workers that came to their end; None if none were."""
    said = (final.get("arrived_t") for final in finals(folder, workers))
    return max((t for t in said if t is not None), default=None)


def in_time_by_step(schedule: Schedule, folder: Path) -> list[int] | None:
    """Of each step, how many of the points that were due in it were in time, whenever that was.

    None if a worker did not say so.
    """
    said = finals(folder, schedule.spec.workers)
    if len(said) < schedule.spec.workers or not all("in_time_by_step" in each for each in said):
        return None
    return [
        sum(each["in_time_by_step"][step] for each in said)
        for step in range(len(schedule.spec.steps))
    ]


_ANSWERS = ("sent", "not_sent", "right", "late", "wrong", "failed")
_POINTS = ("points_checked", "points_late")


def answers(folder: Path, hosts: int) -> dict[str, Any]:
    """What became of the queries of all loader hosts, from queries-<host>.json.

    `hosts_without_final_counts` are those (by index) that left none; of them it is what their last
    record says. `hosts_stopped_early`: those whose reader somebody ended before its schedule did.
    """
    total: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    errors: Counter[str] = Counter()
    first_errors: list[str] = []
    without: list[int] = []
    stopped: list[int] = []
    for host in range(hosts):
        final = query_files.result_path(folder, host)
        if not final.exists():
            without.append(host)
            last: dict[str, Any] = {}
            for record in run_folder.records(query_files.progress_path(folder, host)):
                last = record
            total.update({k: last[k] for k in _ANSWERS if k in last})
            continue
        said = run_folder.read_object(final)
        if said["stopped_early"]:
            stopped.append(host)
        total.update({k: said[k] for k in (*_ANSWERS, *_POINTS)})
        for kind, counts in said["kinds"].items():
            kinds.setdefault(kind, Counter()).update(counts)
        errors.update(said["errors"])
        first_errors += said["first_errors"]
    return {
        **{k: total[k] for k in (*_ANSWERS, *_POINTS)},
        "kinds": {kind: dict(counts) for kind, counts in kinds.items()},
        "errors": dict(errors),
        "first_errors": first_errors[:10],
        "hosts_without_final_counts": without,
        "hosts_stopped_early": stopped,
    }
