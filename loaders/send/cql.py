"""Points written to KairosDB's store by CQL, past KairosDB: what KairosDB itself costs is the rest.

The rows are KairosDB's own, their index too, so that its queries find them and read-back is as
ever. A write is acknowledged as the store does it, at the consistency that KairosDB writes with.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cassandra import (
    ConsistencyLevel,
    DriverException,
    InvalidRequest,
    OperationTimedOut,
    Unauthorized,
)
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
    Session,
)
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from loaders.schedule import values
from loaders.schedule.due import Group, Schedule
from loaders.schedule.spec import Store
from loaders.schedule.values import ValueType
from loaders.send import kairos_rows
from loaders.send.protocol import Answer, Batch, Reply

_TABLE = "data_points"
_NAMES = b"metric_names"
_ACK = Reply(Answer.ACKNOWLEDGED)
# The driver gives what a node says now as the one, now as the other.
_SAID = (DriverException, ErrorMessage, NoHostAvailable)
_REFUSALS = (InvalidRequest, Unauthorized)
_SILENCES = (NoHostAvailable, OperationTimedOut)

# As KairosDB's own (Schema.java at v1.3.0).
_POINT = (
    "INSERT INTO data_points (key, column1, value) VALUES (?, ?, ?) USING TTL ? AND TIMESTAMP ?"
)
_ROW_KEY = (
    "INSERT INTO row_keys (metric, table_name, row_time, data_type, tags, mtime) "
    "VALUES (?, ?, ?, ?, ?, now()) USING TTL ?"
)
_ROW_TIME = (
    "INSERT INTO row_key_time_index (metric, table_name, row_time) VALUES (?, ?, ?) USING TTL ?"
)
_NAME = "INSERT INTO string_index (key, column1, value) VALUES (?, ?, 0x00)"

Row = tuple[PreparedStatement, tuple[Any, ...]]


@dataclass(frozen=True)
class _Connected:
    """The store, once it answers; `row_ms` is the width of KairosDB's rows."""

    session: Session
    row_ms: int
    point: PreparedStatement
    row_key: PreparedStatement
    row_time: PreparedStatement
    name: PreparedStatement


class Cql:
    """Sends batches as CQL's unlogged batches; must be created inside a running event loop."""

    def __init__(self, schedule: Schedule, groups: list[Group]) -> None:
        """Begin to connect; whatever goes wrong there is told by the attempts to send."""
        spec = schedule.spec
        assert spec.store is not None  # the spec says so
        self._schedule = schedule
        self._store: Store = spec.store
        self._kind = ValueType(spec.value_type)
        self._rows = [_Rows(schedule, group) for group in groups]
        self._loop = asyncio.get_running_loop()
        profile = ExecutionProfile(
            TokenAwarePolicy(DCAwareRoundRobinPolicy()),
            consistency_level=ConsistencyLevel.name_to_value[self._store.consistency],
            request_timeout=spec.request_timeout_s,
        )
        contacts = [contact.rsplit(":", 1) for contact in self._store.contacts]
        self._cluster = Cluster(
            [host for host, _ in contacts],
            port=int(contacts[0][1]),
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        )
        self._connecting = self._begin()

    def _begin(self) -> asyncio.Task[_Connected]:
        connecting = asyncio.create_task(asyncio.to_thread(self._connect))
        # Whether anybody asks or not.
        connecting.add_done_callback(lambda done: done.cancelled() or done.exception())
        return connecting

    def _connect(self) -> _Connected:
        session = self._cluster.connect(self._store.keyspace)
        said = session.execute(
            "SELECT value FROM spec WHERE spec_type = 'cluster_config' AND name = 'row_width'"
        )
        statements = map(session.prepare, (_POINT, _ROW_KEY, _ROW_TIME, _NAME))
        return _Connected(session, int(said.one().value), *statements)

    async def _connected(self) -> _Connected:
        if self._connecting.done() and self._connecting.exception():
            self._connecting = self._begin()
        # Others wait for the same.
        return await asyncio.shield(self._connecting)

    async def send(self, node: int, batch: Batch, on_reach: Callable[[], None]) -> Reply:
        """Make one attempt to send a batch; see `Protocol`. The driver chooses the store's node."""
        try:
            store = await self._connected()
            rows = self._rows[batch.group.index]
            on_reach()
            if new := rows.unindexed(batch, store.row_ms):
                await self._write(store, self._index(store, batch, [start for _, start in new]))
            await self._write(store, self._points(store, batch, rows))
            rows.indexed(new)
        except _SAID as error:
            return _failed(error)
        return _ACK

    async def _write(self, store: _Connected, rows: Iterator[Row]) -> None:
        """Write rows in batches, all at the same time; raises what the first says that fails."""
        most = self._store.batch_points
        some = list(rows)
        await asyncio.gather(
            *(
                self._execute(store.session, some[begin : begin + most])
                for begin in range(0, len(some), most)
            )
        )

    async def _execute(self, session: Session, rows: list[Row]) -> None:
        batch = BatchStatement(BatchType.UNLOGGED)
        for statement, bound in rows:
            batch.add(statement, bound)
        waiter: asyncio.Future[None] = self._loop.create_future()

        def settle(error: BaseException | None) -> None:
            if waiter.done():
                return
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

        # They are called by the driver's own thread.
        session.execute_async(batch).add_callbacks(
            lambda _: self._loop.call_soon_threadsafe(settle, None),
            lambda error: self._loop.call_soon_threadsafe(settle, error),
        )
        await waiter

    def _points(self, store: _Connected, batch: Batch, rows: _Rows) -> Iterator[Row]:
        """The points of a batch, series by series."""
        schedule, group = self._schedule, batch.group
        ticks = range(batch.first, batch.first + batch.count)
        times = [schedule.timestamp_ms(group.rank, tick) for tick in ticks]
        starts = [at - at % store.row_ms for at in times]
        columns = [kairos_rows.column(at - start) for at, start in zip(times, starts, strict=True)]
        keys = {start: rows.keys(batch, start) for start in set(starts)}
        whole = values.seeded_values(rows.seeds(batch), times)
        stored = kairos_rows.blobs(self._kind, whole.ravel())
        ttl_s, now_ms = self._store.ttl_s, int(time.time() * 1000)
        places = iter(stored)
        for series in range(len(group.slots)):
            for start, column in zip(starts, columns, strict=True):
                yield store.point, (keys[start][series], column, next(places), ttl_s, now_ms)

    def _index(self, store: _Connected, batch: Batch, starts: Iterable[int]) -> Iterator[Row]:
        """What KairosDB finds the series of a batch by, in the rows that begin then (epoch ms)."""
        spec = self._schedule.spec
        numbers = self._schedule.numbers(batch.group, batch.first).tolist()
        kind = kairos_rows.type_name(self._kind)
        # Row keys outlive the last point of their row, as KairosDB has it.
        ttl_s = self._store.ttl_s and self._store.ttl_s + store.row_ms // 1000
        for start in starts:
            for number in numbers:
                metric, tags = spec.metric_name(number), spec.tags_of(number)
                yield store.row_key, (metric, _TABLE, start, kind, tags, ttl_s)
            for metric in sorted({spec.metric_name(number) for number in numbers}):
                yield store.row_time, (metric, _TABLE, start, ttl_s)
                yield store.name, (_NAMES, metric)

    async def probe(self, node: int) -> bool:
        """Whether the store answers."""
        try:
            return bool(await self._connected())
        except _SAID:
            return False

    async def healthy(self, node: int) -> bool | None:
        """Nothing: KairosDB's health is not that of its store, and the driver knows the nodes'."""
        return None

    async def close(self) -> str:
        """End all connections; writes that were begun are settled or given up by now."""
        self._connecting.cancel()
        await asyncio.to_thread(self._cluster.shutdown)
        return ""


class _Rows:
    """The rows of a group: of the life that its sensors have now, and which of them are indexed."""

    def __init__(self, schedule: Schedule, group: Group) -> None:
        self._schedule = schedule
        self._group = group
        self._life = -1
        self._keys: dict[int, list[bytes]] = {}
        self._seeds: values.UInt64s = values.seeds(group.slots)
        self._indexed: set[tuple[int, int]] = set()

    def unindexed(self, batch: Batch, row_ms: int) -> list[tuple[int, int]]:
        """Life and begin (epoch ms) of the rows of a batch whose index is not known to be there."""
        life = self._schedule.generation(self._group, batch.first)
        ends = (
            self._schedule.timestamp_ms(self._group.rank, tick)
            for tick in (batch.first, batch.last)
        )
        first, last = (at - at % row_ms for at in ends)
        rows = ((life, start) for start in range(first, last + 1, row_ms))
        return [row for row in rows if row not in self._indexed]

    def indexed(self, rows: Iterable[tuple[int, int]]) -> None:
        """Remember that they are."""
        self._indexed.update(rows)

    def keys(self, batch: Batch, start: int) -> list[bytes]:
        """Keys of the rows of all sensors that begin then (epoch ms)."""
        self._turn(batch)
        if start not in self._keys:
            spec = self._schedule.spec
            kind = kairos_rows.type_name(ValueType(spec.value_type))
            self._keys[start] = [
                kairos_rows.row_key(spec.metric_name(number), start, spec.tags_of(number), kind)
                for number in self._schedule.numbers(self._group, batch.first).tolist()
            ]
        return self._keys[start]

    def seeds(self, batch: Batch) -> values.UInt64s:
        """Of the values of all sensors, uint64[n, 1]."""
        self._turn(batch)
        return self._seeds[:, None]

    def _turn(self, batch: Batch) -> None:
        life = self._schedule.generation(self._group, batch.first)
        if life != self._life:
            self._life, self._keys = life, {}
            self._seeds = values.seeds(self._schedule.numbers(self._group, batch.first))


def _failed(error: BaseException) -> Reply:
    said = " ".join(str(getattr(error, "message", "") or error).split())[:300]
    refused = isinstance(error, _REFUSALS)
    return Reply(
        Answer.REJECTED if refused else Answer.FAILED,
        f"cql_{type(error).__name__}",
        f"{type(error).__name__}: {said}",
        silent=isinstance(error, _SILENCES),
    )
