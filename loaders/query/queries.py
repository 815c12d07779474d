"""Queries beside the load: which ones, when, and for which points. How an answer is judged is in
`loaders.query.answers`.

All of it is a pure function of the spec and the query's number, so a run's queries can be repeated.
Three kinds take turns:

- *raw*: every point of some sensors;
- *aggregated*: count and sum of each bucket, over all series with one value of a tag of set
  cardinality, or over some sensors if there is no such tag;
- *tags*: the tag values of the series of a metric.

A span that is asked for ends `lag_s` before the query is due, and by as much earlier as a point may
wait for the request that carries it. So every scheduled point within a span should be there, and
there is nothing to tolerate.

About KairosDB 1.3.0: `end_absolute` is included. Buckets begin at `start_absolute` if
`align_sampling` is off; if it is on, they are counted from midnight UTC, and a length that does not
divide a day would not begin where the span does. Strings have no sum: the aggregator is left out
without a word, and the points come back as they are.
"""

from __future__ import annotations

import bisect
import functools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from loaders.schedule import naming, values
from loaders.schedule.due import Int64s, Schedule
from loaders.schedule.values import ValueType

Bools = npt.NDArray[np.bool_]

RAW, AGGREGATED, TAGS = "raw", "aggregated", "tags"
KINDS = (RAW, AGGREGATED, TAGS)

PLACE = re.compile(r"\{n(%[0-9]+)?\}")
"""Where a pattern (`loaders.schedule.naming`) has the series number, or its remainder."""


@dataclass(frozen=True)
class Entry:
    """One metric of a query.

    Attributes:
        metric: its name.
        tags: the filter, tag name to the values wanted.
        numbers: the series that are meant; None for all series of the metric that pass the filter.
    """

    metric: str
    tags: dict[str, list[str]]
    numbers: tuple[int, ...] | None


@dataclass(frozen=True)
class Query:
    """One query of the run.

    Attributes:
        number: k, counted over the whole run; -1 for one beside those of the run (`for_places`).
        kind: RAW, AGGREGATED or TAGS.
        node: index into the spec's nodes.
        planned_us: when it is due, epoch µs.
        from_ms, until_ms: the span [from, until) asked for, epoch ms.
        entries: what it asks for.
    """

    number: int
    kind: str
    node: int
    planned_us: int
    from_ms: int
    until_ms: int
    entries: tuple[Entry, ...]


class QueryLoad:
    """All queries of a run.

    Attributes:
        schedule: what it follows from.
        total: queries of all hosts; 0 if the schedule ends before there is anything to ask for.
        bucket_ms: length of a bucket.
        functions: aggregators of an aggregated query, in the order in which they are asked for.
    """

    def __init__(self, schedule: Schedule) -> None:
        """Lay out when queries are due.

        Raises:
            ValueError: the spec has no queries.
        """
        spec = schedule.spec
        if spec.queries is None:
            raise ValueError("queries: the spec has none")
        self.schedule = schedule
        self._spec = spec
        self._wanted = spec.queries
        text = ValueType(spec.value_type) is ValueType.STRING
        self.functions = ("count",) if text else ("count", "sum")
        self.bucket_ms = spec.queries.bucket_s * 1000

        groups = [group for worker in range(spec.workers) for group in schedule.groups(worker)]
        groups.sort(key=lambda group: group.rank)
        self._first_tick = [group.first_tick for group in groups]
        self._age = [group.age for group in groups]
        # By the rank of their group: the sensors that have joined are always the first ones.
        self._slots = np.concatenate([group.slots for group in groups])
        self._slots_before = np.cumsum([0, *(len(group.slots) for group in groups)])

        longest_ms = max(step.period_ms for step in spec.steps)
        held_ms = (spec.points_per_request - 1) * longest_ms + spec.jitter_ms
        self._behind_ms = spec.queries.lag_s * 1000 + held_ms
        # As soon as there is a whole bucket; buckets begin at multiples of their length.
        self._whole_from_ms = -(-spec.start_ms // self.bucket_ms) * self.bucket_ms
        self._first_us = (self._whole_from_ms + self.bucket_ms + self._behind_ms) * 1000
        # A fraction is exact whatever the rate, so the pace cannot drift.
        self._interval_us = Fraction(10**6) / Fraction(spec.queries.rate)
        self.total = self.due(spec.end_ms * 1000 - 1)

    def of_host(self, host: int) -> range:
        """Numbers of the queries that a loader host sends, in order."""
        return range(host, self.total, self._spec.hosts)

    def planned_us(self, number: int) -> int:
        """When a query is due, epoch µs."""
        return self._first_us + math.floor(number * self._interval_us)

    def due(self, now_us: int) -> int:
        """How many queries of all hosts are due by then (epoch µs): those with lower numbers."""
        now_us = min(now_us, self._spec.end_ms * 1000 - 1)
        return max(0, math.ceil((now_us - self._first_us + 1) / self._interval_us))

    def is_warmup(self, query: Query) -> bool:
        """Whether a query is due before the first point that does not belong to the warm-up."""
        measured_ms = self.schedule.timestamp_ms(0, self._spec.warmup_ticks)
        return query.planned_us < measured_ms * 1000

    def query(self, number: int) -> Query:
        """A query of the run by its number."""
        spec, wanted = self._spec, self._wanted
        turn, host = divmod(number, spec.hosts)
        # So that every host asks for every kind, and asks every node for each of them.
        kind = KINDS[(turn + host) % len(KINDS)]
        node = (turn // len(KINDS) + host) % len(spec.nodes)
        planned_us = self.planned_us(number)
        until_ms = planned_us // 1000 - self._behind_ms
        if kind == AGGREGATED:
            until_ms -= until_ms % self.bucket_ms
            from_ms = max(until_ms - wanted.last_s * 1000, self._whole_from_ms)
        else:
            from_ms = max(until_ms - wanted.last_s * 1000, spec.start_ms)
        entries = tuple(self._entries(kind, number, from_ms, until_ms))
        return Query(number, kind, node, planned_us, from_ms, until_ms, entries)

    def for_places(
        self, slots: Sequence[int], node: int, planned_us: int, from_ms: int
    ) -> Query | None:
        """A query for all raw points of some sensors' places from `from_ms` until it is due.

        With churn a place has several series in the span. None if there are no points in it.
        """
        until_ms, numbers = planned_us // 1000, list[int]()
        for slot in slots:
            rank = int(self.schedule.rank_of[slot])
            within = self.schedule.ticks_within(rank, from_ms, until_ms)
            ticks = range(max(within.start, self._first_tick[rank]), within.stop)
            if ticks:
                first, last = (self._generation(rank, tick) for tick in (ticks[0], ticks[-1]))
                numbers += [slot + g * self._spec.sensors for g in range(first, last + 1)]
        entries = tuple(self._together(numbers))
        return Query(-1, RAW, node, planned_us, from_ms, until_ms, entries) if entries else None

    def path(self, query: Query) -> str:
        """Where a query is posted to, below the node's base URL."""
        return "/api/v1/datapoints/query" + ("/tags" if query.kind == TAGS else "")

    def body(self, query: Query) -> dict[str, Any]:
        """The JSON document of a query."""
        varying = [name for name, value in self._spec.tags.items() if PLACE.search(value)]
        metrics: list[dict[str, Any]] = []
        for entry in query.entries:
            metric: dict[str, Any] = {"name": entry.metric, "tags": entry.tags}
            if query.kind == AGGREGATED:
                metrics += [
                    {**metric, "aggregators": [self._aggregator(name)]} for name in self.functions
                ]
                continue
            if query.kind == RAW and varying:
                metric["group_by"] = [{"name": "tag", "tags": varying}]
            metrics.append(metric)
        return {
            "start_absolute": query.from_ms,
            "end_absolute": query.until_ms - 1,
            "metrics": metrics,
        }

    def _aggregator(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "sampling": {"value": self._wanted.bucket_s, "unit": "seconds"},
            "align_start_time": True,
            "align_sampling": False,
        }

    # Which series a query asks for.

    def _entries(self, kind: str, number: int, from_ms: int, until_ms: int) -> Iterator[Entry]:
        spec = self._spec
        constant = {name: [text] for name, text in spec.tags.items() if not PLACE.search(text)}
        chosen = self._choose(number, from_ms, until_ms)
        # Tags of set cardinality.
        sets = [
            name
            for name, pattern in spec.tags.items()
            if name not in constant and "{n}" not in pattern
        ]
        if "{n}" in spec.metric and kind == TAGS:
            for series in chosen:
                yield Entry(spec.metric_name(series), constant, (series,))
        elif "{n}" in spec.metric or kind == RAW or (kind == AGGREGATED and not sets):
            yield from self._together(chosen)
        else:
            tags = dict(constant)
            if sets:
                name = sets[number // len(KINDS) % len(sets)]
                tags[name] = [naming.expand(spec.tags[name], chosen[0])]
            yield Entry(spec.metric_name(chosen[0]), tags, None)

    def _together(self, numbers: list[int]) -> Iterator[Entry]:
        """Series by metric; the filter lets no other pass."""
        by_metric: dict[str, list[int]] = {}
        for number in numbers:
            by_metric.setdefault(self._spec.metric_name(number), []).append(number)
        for metric, mine in by_metric.items():
            tags = {
                name: sorted({naming.expand(pattern, number) for number in mine})
                for name, pattern in self._spec.tags.items()
            }
            yield Entry(metric, tags, tuple(mine))

    def _choose(self, number: int, from_ms: int, until_ms: int) -> list[int]:
        """Different series at random, of sensors that had joined before the end of the span."""
        ranks = bisect.bisect_left(
            range(len(self._first_tick)),
            until_ms,
            key=lambda rank: self.schedule.timestamp_ms(rank, self._first_tick[rank]),
        )
        joined = int(self._slots_before[ranks])
        wanted = min(self._wanted.sensors, joined)
        places: dict[int, None] = {}  # in the order drawn
        drawn = 0
        while len(places) < wanted:
            more = self._draws(number, drawn, 2 * wanted) % np.uint64(joined)
            places.update(dict.fromkeys(more.tolist()))
            drawn += 2 * wanted
        picks = self._draws(number, drawn, wanted).tolist()
        return [
            self._series(int(self._slots[place]), pick, from_ms, until_ms)
            for place, pick in zip(list(places)[:wanted], picks, strict=True)
        ]

    def _draws(self, number: int, first: int, count: int) -> values.UInt64s:
        """Part of a query's own sequence of random numbers, uint64[count]."""
        state = values.splitmix64(values.seeds(self._spec.seed) ^ np.uint64(number))
        turns: values.UInt64s = np.arange(first, first + count, dtype=np.uint64)
        return values.splitmix64(state + turns)

    def _series(self, slot: int, pick: int, from_ms: int, until_ms: int) -> int:
        """The series of a sensor's place within a span; with churn one of several, by `pick`."""
        rank = int(self.schedule.rank_of[slot])
        within = self.schedule.ticks_within(rank, from_ms, until_ms)
        ticks = range(max(within.start, self._first_tick[rank]), within.stop)
        # In a span shorter than the period there may be no point; then there is none to find.
        tick = ticks[pick % len(ticks)] if ticks else min(ticks.start, self._spec.ticks - 1)
        return slot + self._generation(rank, tick) * self._spec.sensors

    def _generation(self, rank: int, tick: int) -> int:
        """How often the sensors of a rank have been replaced before a tick."""
        lifetime = self._spec.lifetime_ticks
        return (tick + self._age[rank]) // lifetime if lifetime else 0

    # Which points those series have.

    def living(self, query: Query, entry: Entry) -> Iterator[tuple[int, Int64s, range]]:
        """The points that an entry asks for: rank, series numbers, and the ticks that each has.

        Series of one rank have the same timestamps (`Schedule.timestamps_ms`). Those without a
        point in the span are left out.
        """
        span = (query.from_ms, query.until_ms)
        for numbers in self._candidates(entry, *span):
            generation, slot = divmod(int(numbers[0]), self._spec.sensors)
            rank = int(self.schedule.rank_of[slot])
            within = self.schedule.ticks_within(rank, *span)
            life = self._life(rank, generation)
            ticks = range(max(within.start, life.start), min(within.stop, life.stop))
            if ticks:
                yield rank, numbers, ticks

    def _candidates(self, entry: Entry, from_ms: int, until_ms: int) -> Iterator[Int64s]:
        """Series that may have points in a span, in pieces of one rank and generation."""
        if entry.numbers is not None:
            yield from np.array(entry.numbers)[:, None]
            return
        for generation in self._generations(from_ms, until_ms):
            numbers = self._slots + generation * self._spec.sensors
            numbers = numbers[self.passing(entry, numbers)]
            ranks = self.schedule.rank_of[numbers % self._spec.sensors]
            if len(numbers):
                yield from np.split(numbers, np.flatnonzero(np.diff(ranks)) + 1)

    def _generations(self, from_ms: int, until_ms: int) -> range:
        """Generations that may have points in a span."""
        lifetime = self._spec.lifetime_ticks
        if not lifetime:
            return range(1)
        last_rank = len(self._first_tick) - 1
        first = self.schedule.ticks_within(last_rank, from_ms, until_ms).start
        beyond = self.schedule.ticks_within(0, from_ms, until_ms).stop
        # A sensor has between 0 and lifetime - 1 ticks behind it at tick 0.
        return range(first // lifetime, (beyond + lifetime - 2) // lifetime + 1)

    def _life(self, rank: int, generation: int) -> range:
        """Ticks in which a generation of a group's sensors sends; may be empty."""
        first, ticks, lifetime = self._first_tick[rank], self._spec.ticks, self._spec.lifetime_ticks
        if not lifetime:
            return range(first, ticks if generation == 0 else first)
        born = generation * lifetime - self._age[rank]
        return range(max(first, born), min(ticks, born + lifetime))

    def passing(self, entry: Entry, numbers: Int64s) -> Bools:
        """Which series pass the filter of an entry that means all that do, bool[n]."""
        wanted = [(self._spec.metric, entry.metric)]
        wanted += [(self._spec.tags[name], texts[0]) for name, texts in entry.tags.items()]
        passed = np.ones(numbers.shape, dtype=bool)
        for pattern, text in wanted:
            mask = residues(pattern, text)
            passed &= mask[numbers % len(mask)]
        return passed

    def begun(self, number: int, now_ms: int) -> bool:
        """Whether a series is one of the run, and its first point was due by `now_ms`."""
        generation, slot = divmod(number, self._spec.sensors)
        rank = int(self.schedule.rank_of[slot])
        life = self._life(rank, generation)
        return bool(life) and self.schedule.timestamp_ms(rank, life.start) <= now_ms


def period(pattern: str) -> int:
    """After how many series the texts of a pattern without "{n}" repeat."""
    return math.lcm(*(int(modulus[1:]) for modulus in PLACE.findall(pattern)))


@functools.lru_cache(maxsize=1024)
def residues(pattern: str, text: str) -> Bools:
    """Which series, modulo the `period` of a pattern without "{n}", have a text: bool[period]."""
    return np.array([naming.expand(pattern, number) == text for number in range(period(pattern))])
