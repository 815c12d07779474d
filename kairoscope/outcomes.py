"""What the loaders say became of each point: counts, and the exceptions from "acknowledged"."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loaders import schedule, shard
from loaders.spec import LoadSpec

# Codes of Outcomes.of_sensor. Acknowledged is the default: workers write down only the others.
ACKNOWLEDGED, REJECTED, UNKNOWN, NOT_SENT = 0, 1, 2, 3
_CODES = {"rejected": REJECTED, "unknown": UNKNOWN, "not_sent": NOT_SENT}

Codes = npt.NDArray[np.uint8]


@dataclass
class Counts:
    """Points by outcome; scheduled = sent + not_sent, sent = acknowledged + rejected + unknown."""

    scheduled: int = 0
    sent: int = 0
    not_sent: int = 0
    acknowledged: int = 0
    acknowledged_in_time: int = 0
    rejected: int = 0
    unknown: int = 0

    def add(self, other: "Counts") -> None:
        """Add another worker's counts."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class Outcomes:
    """Counts of all workers together and, for each sensor, the outcome of each tick."""

    counts: Counts
    # Per worker that did not end by itself: what it had acknowledged when last heard of.
    died: dict[int, Counts] = field(default_factory=dict)
    # uint8[ticks] per (worker, group) that has any exception.
    _exceptions: dict[tuple[int, int], Codes] = field(default_factory=dict)
    _group_of: dict[int, tuple[int, int]] = field(default_factory=dict)
    _ticks: int = 0

    def of_sensor(self, sensor: int) -> Codes:
        """Outcome codes of a sensor's points, uint8[ticks].

        For a worker that died, everything that it did not write down counts as unknown.
        """
        worker, group = self._group_of[sensor]
        default = UNKNOWN if worker in self.died else ACKNOWLEDGED
        codes = self._exceptions.get((worker, group))
        if codes is None:
            return np.full(self._ticks, default, dtype=np.uint8)
        return codes

    def worker_of(self, sensor: int) -> int:
        """The worker that sent for this sensor."""
        return self._group_of[sensor][0]


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:  # The last line of a worker that was killed while writing.
            continue
    return records


def read(spec: LoadSpec, folder: Path) -> Outcomes:
    """Read the workers' files of a load (worker-<i>.json, .jsonl, .outcomes.jsonl)."""
    outcomes = Outcomes(Counts(), _ticks=spec.ticks)
    for worker in range(spec.workers):
        groups = schedule.groups(spec, worker)
        for group in groups:
            for sensor in group.sensors.tolist():
                outcomes._group_of[sensor] = (worker, group.index)
        scheduled = len(shard.worker_range(spec.sensors, spec.workers, worker)) * spec.ticks
        final = folder / f"worker-{worker}.json"
        if final.exists():
            said = json.loads(final.read_text())
            counts = Counts(**{k: said[k] for k in Counts.__dataclass_fields__})
        else:
            last = (_lines(folder / f"worker-{worker}.jsonl") or [{}])[-1]
            counts = _of_last_words(scheduled, last)
            outcomes.died[worker] = counts
        outcomes.counts.add(counts)
        default = UNKNOWN if worker in outcomes.died else ACKNOWLEDGED
        for record in _lines(folder / f"worker-{worker}.outcomes.jsonl"):
            key = (worker, int(record["group"]))
            codes = outcomes._exceptions.setdefault(
                key, np.full(spec.ticks, default, dtype=np.uint8)
            )
            codes[int(record["tick"])] = _CODES[record["outcome"]]
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
        # When it died nobody was counting any more: nothing of it is claimed to be in time.
        acknowledged_in_time=0,
        rejected=rejected,
        unknown=sent - acknowledged - rejected,
    )
