"""What became of each point of the followed sensors, as queries saw it while the load went on.

After Jepsen's set-full (jepsen/src/jepsen/checker.clj): a history of additions and reads, and for
each element when it was known, first found and missed. Two differences. There an element is lost if
the last read of it misses it; here one that was found and then missed has *vanished* even if a
later read finds it again, since nobody who saw it can account for that. And one that was never
found is not lost yet: an acknowledgement does not promise that a query finds the point at once, and
the read-back asks for all of them at the end.

Only what one read must have seen of another counts: a point is missed by a read that *began* after
an earlier one that found it had *ended*. A read without an answer says nothing.

In memory is a row of numbers for each tick of the followed places (`_Place`, 42 bytes), whatever
the number of sensors, and one line of the files at a time.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kairoscope import run_folder
from kairoscope.verdict import latencies, settlement
from loaders.query import query_files
from loaders.record import files
from loaders.record.histograms import new_histogram, record
from loaders.schedule import follow, shard
from loaders.schedule.due import Group, Schedule

NAMED_POINTS = 20
_IN_WORDS = 3

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass
class _Place:
    """Of each tick of a place epoch s, NaN for never, or whether.

    Attributes:
        acknowledged: when the loader had the acknowledgement.
        found: when the first read that found it had ended.
        found_last, missed, missed_last: when the last read that found it, the first and the last
            that missed it after it was found, began.
        asked: whether a read that began after the acknowledgement asked for it.
        stale: whether such a read did not find it.
    """

    group: Group
    acknowledged: Floats
    found: Floats
    found_last: Floats
    missed: Floats
    missed_last: Floats
    asked: Bools
    stale: Bools

    @property
    def known(self) -> Bools:
        """Acknowledged, or found."""
        known: Bools = ~np.isnan(self.acknowledged) | ~np.isnan(self.found)
        return known

    @property
    def vanished(self) -> Bools:
        """Found, and missed later."""
        vanished: Bools = ~np.isnan(self.missed)
        return vanished

    @classmethod
    def of(cls, group: Group, ticks: int) -> "_Place":
        times = [np.full(ticks, np.nan) for _ in range(5)]
        return cls(group, *times, *(np.zeros(ticks, dtype=np.bool_) for _ in range(2)))

    def look(self, begun: float, ended: float, span: slice, there: Bools) -> None:
        """A read that asked for a span of ticks; `there`: whether it found each of them."""
        # Comparisons with NaN are false: what is not known is not earlier.
        known = self.acknowledged[span] < begun
        self.asked[span] |= known
        self.stale[span] |= known & ~there
        missed = ~there & (self.found[span] < begun)
        self.missed[span] = np.where(missed, np.fmin(self.missed[span], begun), self.missed[span])
        self.missed_last[span] = np.where(
            missed, np.fmax(self.missed_last[span], begun), self.missed_last[span]
        )
        self.found[span] = np.where(there, np.fmin(self.found[span], ended), self.found[span])
        self.found_last[span] = np.where(
            there, np.fmax(self.found_last[span], begun), self.found_last[span]
        )


def of_run(schedule: Schedule, folder: Path) -> dict[str, Any] | None:
    """What is to be said of the followed points, for queries.json.

    `folder` has the loaders' files. None if no sensor was followed.

    Raises:
        LookupError, TypeError, ValueError: a file is not what a loader writes.
    """
    spec = schedule.spec
    reads, places = _Reads(), dict[int, _Place]()
    for host in range(spec.hosts):
        if query_files.followed_path(folder, host).exists():
            mine = _places(schedule, host)
            _acknowledgements(schedule, folder, host, mine)
            reads.go_through(schedule, folder, host, mine)
            places |= mine
    if not places:
        return None
    return {
        "sensors": len(places),
        **reads.to_json(),
        **_counts(places),
        "visible": _visible(places, spec.warmup_ticks),
        "vanished_points": list(itertools.islice(_vanished(schedule, places), NAMED_POINTS)),
    }


def _places(schedule: Schedule, host: int) -> dict[int, _Place]:
    spec = schedule.spec
    wanted = set(follow.places(spec, host))
    return {
        slot: _Place.of(group, spec.ticks)
        for worker in shard.host_workers(spec.hosts, spec.workers_per_host, host)
        for group in schedule.groups(worker)
        for slot in sorted(wanted.intersection(group.slots.tolist()))
    }


def _acknowledgements(
    schedule: Schedule, folder: Path, host: int, places: dict[int, _Place]
) -> None:
    spec = schedule.spec
    for worker in shard.host_workers(spec.hosts, spec.workers_per_host, host):
        of_group: dict[int, list[_Place]] = {}
        for place in places.values():
            if place.group.worker == worker:
                of_group.setdefault(place.group.index, []).append(place)
        for said in run_folder.records(files.followed_path(folder, worker)):
            span = slice(said["tick"], said["tick"] + said["ticks"])
            for place in of_group[said["group"]]:
                place.acknowledged[span] = said["t"]


@dataclass
class _Reads:
    """The reads of all hosts: how many, and how far apart those that were answered began."""

    count: int = 0
    unanswered: int = 0
    wrong: int = 0
    gaps: int = 0
    apart_s: float = 0.0
    longest_s: float = 0.0

    def go_through(
        self, schedule: Schedule, folder: Path, host: int, places: dict[int, _Place]
    ) -> None:
        """The reads of a host, which are in the order in which they ended."""
        latest: float | None = None
        for read in run_folder.records(query_files.followed_path(folder, host)):
            self.count += 1
            if "unanswered" in read:
                self.unanswered += 1
                continue
            self.wrong += "wrong" in read
            begun = float(read["begun"])
            if latest is not None and begun > latest:
                self.gaps += 1
                self.apart_s += begun - latest
                self.longest_s = max(self.longest_s, begun - latest)
            latest = max(begun, latest or begun)
            for series in read["series"]:
                place = places[series["series"] % schedule.spec.sensors]
                span, there = _there(series, schedule.spec.ticks)
                place.look(begun, float(read["ended"]), span, there)

    def to_json(self) -> dict[str, Any]:
        """As queries.json has it."""
        return {
            "reads": self.count,
            "unanswered": self.unanswered,
            "wrong": self.wrong,
            "every_s": round(self.apart_s / self.gaps, 3) if self.gaps else None,
            "longest_apart_s": round(self.longest_s, 3) if self.gaps else None,
        }


def _there(series: dict[str, Any], ticks: int) -> tuple[slice, Bools]:
    """Which ticks a read asked for, and whether it found each; what lies beyond the end of a load
    that was cut was never due."""
    first, end = (min(tick, ticks) for tick in series["ticks"])
    there = np.ones(end - first, dtype=np.bool_)
    for begin, stop in series["absent"]:
        there[begin - first : stop - first] = False
    return slice(first, end), there


def _counts(places: dict[int, _Place]) -> dict[str, int]:
    """Points by what became of them; points = found + never_found + unread."""

    def count(which: Callable[[_Place], Bools]) -> int:
        return sum(int(which(place).sum()) for place in places.values())

    return {
        "points": count(lambda p: p.known),
        "found": count(lambda p: ~np.isnan(p.found)),
        "stale": count(lambda p: p.stale),
        "never_found": count(lambda p: p.known & np.isnan(p.found) & p.asked),
        "unread": count(lambda p: p.known & np.isnan(p.found) & ~p.asked),
        "vanished": count(lambda p: p.vanished),
        "found_again": count(lambda p: p.vanished & (p.found_last > p.missed_last)),
    }


def _visible(places: dict[int, _Place], warmup_ticks: int) -> dict[str, Any]:
    """From acknowledgement to the end of the first read that found it, as other latencies are: in
    ms, of what is after the warm-up."""
    histogram = new_histogram()
    for place in places.values():
        after_s = (place.found - place.acknowledged)[warmup_ticks:]
        for seconds in after_s[~np.isnan(after_s)].tolist():
            record(histogram, round(seconds * 1e6), 1)
    return latencies.percentiles(histogram)


def _vanished(schedule: Schedule, places: dict[int, _Place]) -> Iterator[dict[str, Any]]:
    spec = schedule.spec
    for slot, place in places.items():
        for tick in np.flatnonzero(place.vanished).tolist():
            number = slot + schedule.generation(place.group, tick) * spec.sensors
            name = settlement.label(spec, spec.metric_name(number), spec.tags_of(number))
            acknowledged = float(place.acknowledged[tick])
            yield {
                "series": name,
                "timestamp_ms": schedule.timestamp_ms(place.group.rank, tick),
                "acknowledged_t": None if np.isnan(acknowledged) else acknowledged,
                "found_t": float(place.found[tick]),
                "missed_t": float(place.missed[tick]),
                "found_again": bool(place.found_last[tick] > place.missed_last[tick]),
            }


def in_words(found: dict[str, Any] | None) -> str:
    """What vanished, for the part *readback*; "" if nothing did."""
    if found is None or not found["vanished"]:
        return ""
    count, again = found["vanished"], found["found_again"]
    points = (
        "point that a query had found was" if count == 1 else "points that queries had found were"
    )
    text = f"{count:,} {points} not in a later answer ({again:,} of them found again): "
    named = found["vanished_points"][:_IN_WORDS]
    text += ", ".join(
        f"{point['series']} at {point['timestamp_ms']}, found {_clock(point['found_t'])} "
        f"and missed {_clock(point['missed_t'])}"
        for point in named
    )
    return text + (f", and {count - len(named):,} more" if count > len(named) else "")


def _clock(t: float) -> str:
    return f"{datetime.fromtimestamp(t, UTC):%H:%M:%S.%f}"[:-3]


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """What verdict.json has of it."""
    times = {key: found["visible"][key] for key in ("count", "p50_ms", "p99_ms", "max_ms")}
    return {
        **times,
        **{key: found[key] for key in ("every_s", "points", "vanished", "found_again")},
    }
