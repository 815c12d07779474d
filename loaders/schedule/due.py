"""When each point is due: pure arithmetic, so that loader and read-back agree without talking.

The sensors of a worker are cut, per KairosDB node, into groups; the sensors of a group share
requests. Each group of the run has a *rank*, its place in the order of sending, interleaved by node
and worker: otherwise each node in turn would be idle. From its rank follow its phase in the period
(with pacing "spread"), when it joins (ramp), and when its sensors are replaced (churn).

A *round* is `points_per_request` ticks, the last one perhaps fewer; a group sends one request a
round. Times are computed by multiplication from the start, never by adding up, so they cannot
drift.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loaders.schedule import shard, values
from loaders.schedule.spec import SPREAD, LoadSpec

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Sensors of one worker that share requests.

    Attributes:
        worker: whose it is.
        index: number of the group within its worker, in order of sending.
        node: index into the spec's nodes, as long as that node is up.
        slots: places of its sensors, int64[n], ascending, of 0 … spec.sensors - 1.
        rank: place of the group among all of the run.
        first_tick: when it joins.
        age: ticks that its sensors have behind them at tick 0, for churn.
    """

    worker: int
    index: int
    node: int
    slots: Int64s
    rank: int
    first_tick: int
    age: int


@dataclass(frozen=True, slots=True)
class Series:
    """One series of the run: a sensor from its first point to its last."""

    number: int
    worker: int
    group: int
    rank: int
    ticks: range


class Request(NamedTuple):
    """Points of one group that travel together: `ticks` of them from `first`; when it is due."""

    planned_us: int
    group: int
    first: int
    ticks: int


class Schedule:
    """The schedule of a whole run; needs nothing but the spec."""

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self._step_first: list[int] = []
        self._step_start_ms: list[int] = []
        tick = 0
        start_ms = spec.start_ms
        for step in spec.steps:
            self._step_first.append(tick)
            self._step_start_ms.append(start_ms)
            tick += step.ticks
            start_ms += step.ticks * step.period_ms
        self._groups, self._rank_of, self._count = self._layout()

    def _layout(self) -> tuple[list[list[Group]], Int64s, int]:
        spec = self.spec
        cut: list[list[tuple[int, Int64s]]] = []
        for worker in range(spec.workers):
            mine: list[tuple[int, int, Int64s]] = []
            for node in range(len(spec.nodes)):
                members = shard.cell(spec.sensors, spec.workers, worker, len(spec.nodes), node)
                pieces = -(-len(members) // spec.sensors_per_request)
                # Even pieces: 101 sensors become 51 + 50 rather than 100 + 1.
                for turn, piece in enumerate(np.array_split(members, pieces) if pieces else ()):
                    piece.flags.writeable = False
                    mine.append((turn, node, piece))
            mine.sort(key=lambda item: item[:2])
            cut.append([(node, piece) for _, node, piece in mine])
        total = sum(map(len, cut))
        groups: list[list[Group]] = [[] for _ in range(spec.workers)]
        rank_of = np.empty(spec.sensors, dtype=np.int64)
        rank = 0
        for index in range(max(map(len, cut))):
            for worker, mine_cut in enumerate(cut):
                if index < len(mine_cut):
                    node, slots = mine_cut[index]
                    first = self._whole_rounds(rank * spec.ramp_ticks // total)
                    age = self._whole_rounds(rank * spec.lifetime_ticks // total)
                    groups[worker].append(Group(worker, index, node, slots, rank, first, age))
                    rank_of[slots] = rank
                    rank += 1
        rank_of.flags.writeable = False
        return groups, rank_of, total

    def _whole_rounds(self, ticks: int) -> int:
        return ticks // self.spec.points_per_request * self.spec.points_per_request

    def groups(self, worker: int) -> list[Group]:
        """Groups of a worker in order of sending; empty if it has no sensor.

        Raises:
            ValueError: there is no such worker.
        """
        shard.worker_range(self.spec.sensors, self.spec.workers, worker)
        return self._groups[worker]

    @property
    def rank_of(self) -> Int64s:
        """Rank of the group of each slot, int64[sensors]."""
        return self._rank_of

    @property
    def points(self) -> int:
        return sum(self.points_of(group) for mine in self._groups for group in mine)

    def points_of(self, group: Group) -> int:
        """Data points of a group over the whole run."""
        return len(group.slots) * (self.spec.ticks - group.first_tick)

    def step_of(self, tick: int) -> int:
        """Index of the step that a tick is in."""
        return bisect.bisect_right(self._step_first, tick) - 1

    def timestamp_ms(self, rank: int, tick: int) -> int:
        """Timestamp of the points of a group (by its rank) at a tick, epoch ms."""
        step = self.step_of(tick)
        period_ms = self.spec.steps[step].period_ms
        phase = rank * period_ms // self._count if self.spec.pacing == SPREAD else 0
        return self._step_start_ms[step] + (tick - self._step_first[step]) * period_ms + phase

    def timestamps_ms(self, rank: int, ticks: range) -> Int64s:
        """Timestamps of the points of a group at consecutive ticks, int64[ticks], ascending."""
        pieces = [np.empty(0, dtype=np.int64)]
        for first, step in zip(self._step_first, self.spec.steps, strict=True):
            begin, end = max(ticks.start, first), min(ticks.stop, first + step.ticks)
            if begin < end:
                start_ms = self.timestamp_ms(rank, begin)
                steps = np.arange(end - begin, dtype=np.int64) * step.period_ms
                pieces.append(start_ms + steps)
        return np.concatenate(pieces)

    def ticks_within(self, rank: int, from_ms: int, until_ms: int) -> range:
        """Ticks of a group whose timestamps are in [from_ms, until_ms), those before it joined
        included."""
        ranks = np.array([rank])
        begin, end = self._ticks_before(ranks, from_ms), self._ticks_before(ranks, until_ms)
        return range(int(begin[0]), int(end[0]))

    def _ticks_before(self, ranks: Int64s, ms: int) -> Int64s:
        """How many ticks of groups (by rank) have timestamps before `ms`, int64[n]."""
        index = max(0, bisect.bisect_right(self._step_start_ms, ms) - 1)
        step = self.spec.steps[index]
        since_ms = ms - self._step_start_ms[index] - self._phases_ms(ranks, step.period_ms)
        whole: Int64s = self._step_first[index] + np.clip(
            -(-since_ms // step.period_ms), 0, step.ticks
        )
        return whole

    def _phases_ms(self, ranks: Int64s, period_ms: int) -> Int64s:
        """Phases of groups within a period. Many groups share a ms, as timestamps are whole."""
        if self.spec.pacing == SPREAD:
            return ranks * period_ms // self._count
        return np.zeros_like(ranks)

    def generation(self, group: Group, tick: int) -> int:
        """How often the sensors of a group have been replaced before a tick."""
        lifetime = self.spec.lifetime_ticks
        return (tick + group.age) // lifetime if lifetime else 0

    def numbers(self, group: Group, tick: int) -> Int64s:
        """Series numbers of a group's sensors at a tick, int64[n]."""
        numbers: Int64s = group.slots + self.generation(group, tick) * self.spec.sensors
        return numbers

    def lives(self, group: Group) -> Iterator[range]:
        """The ticks of each generation of a group's sensors, in order."""
        ticks, lifetime = self.spec.ticks, self.spec.lifetime_ticks
        begin = group.first_tick
        while begin < ticks:
            end = ticks
            if lifetime:
                end = min(ticks, (self.generation(group, begin) + 1) * lifetime - group.age)
            yield range(begin, end)
            begin = end

    def series(self) -> Iterator[Series]:
        """All series of the run: by worker, group, generation and slot."""
        for mine in self._groups:
            for group in mine:
                for life in self.lives(group):
                    for number in self.numbers(group, life.start).tolist():
                        yield Series(number, group.worker, group.index, group.rank, life)

    def requests(self, worker: int) -> Iterator[Request]:
        """All requests of a worker in the order in which they are due."""
        spec = self.spec
        ranks, joins, _ = self._arrays(worker)
        early: list[Request] = []  # due later than some request of the round to come
        for first in range(0, spec.ticks, spec.points_per_request):
            count = min(spec.points_per_request, spec.ticks - first)
            last = first + count - 1
            active = np.flatnonzero(joins <= first)
            planned = self._planned_us(ranks[active], last).tolist()
            due = [
                Request(at, group, first, count)
                for at, group in zip(planned, active.tolist(), strict=True)
            ]
            if not spec.jitter_ms:
                yield from due
                continue
            pending = sorted(early + due)
            # Nothing of the next round can be due before this.
            following = min(last + spec.points_per_request, spec.ticks - 1)
            horizon_us = self.timestamp_ms(0, following) * 1000
            whole = bisect.bisect_right(pending, horizon_us, key=lambda request: request.planned_us)
            yield from pending[:whole]
            early = pending[whole:]
        yield from early

    def _planned_us(self, ranks: Int64s, tick: int) -> Int64s:
        """When groups (by rank) send what ends with a tick, epoch µs: its timestamp and jitter."""
        spec = self.spec
        step = self.step_of(tick)
        period_ms = spec.steps[step].period_ms
        base_ms = self._step_start_ms[step] + (tick - self._step_first[step]) * period_ms
        planned: Int64s = (base_ms + self._phases_ms(ranks, period_ms)) * 1000
        if spec.jitter_ms and len(ranks):
            own = values.splitmix64(values.seeds(ranks) ^ np.uint64(spec.seed))
            mixed = values.splitmix64(own ^ np.uint64(tick))
            planned += (mixed % np.uint64(spec.jitter_ms * 1000)).astype(np.int64)
        return planned

    def planned_us(self, group: Group, request_last: int) -> int:
        """When the request of a group that ends with a tick is due, epoch µs."""
        return int(self._planned_us(np.array([group.rank]), request_last)[0])

    def due(self, worker: int, now_ms: int) -> int:
        """Points of a worker whose time had come by `now_ms` (jitter not counted)."""
        ranks, joins, sizes = self._arrays(worker)
        if not len(ranks):
            return 0
        ticks = self._ticks_before(ranks, now_ms + 1)
        together = self.spec.points_per_request
        whole = np.where(ticks < self.spec.ticks, ticks // together * together, ticks)
        return int((sizes * np.maximum(0, whole - joins)).sum())

    def requests_due(self, worker: int, now_ms: int) -> int:
        """Requests of a worker whose time had come by `now_ms` (jitter not counted)."""
        ranks, joins, _ = self._arrays(worker)
        if not len(ranks):
            return 0
        ticks = self._ticks_before(ranks, now_ms + 1)
        together = self.spec.points_per_request
        # Groups join at the beginning of a round.
        rounds = np.where(ticks < self.spec.ticks, ticks // together, -(-ticks // together))
        return int(np.maximum(0, rounds - joins // together).sum())

    def requests_from(self, tick: int) -> int:
        """Requests of the run whose last points are of that tick or later ones."""
        together = self.spec.points_per_request
        rounds = -(-self.spec.ticks // together)
        return sum(
            max(0, rounds - max(tick, group.first_tick) // together)
            for mine in self._groups
            for group in mine
        )

    @functools.cache  # noqa: B019 - a schedule lives as long as its process
    def _arrays(self, worker: int) -> tuple[Int64s, Int64s, Int64s]:
        """Ranks, first ticks and numbers of sensors of a worker's groups, int64[groups] each."""
        rows = [(g.rank, g.first_tick, len(g.slots)) for g in self.groups(worker)]
        ranks, joins, sizes = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return ranks, joins, sizes
