"""Points by CQL, past KairosDB: which rows are written, when their index, and what answers mean."""

import dataclasses
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cassandra import InvalidRequest, OperationTimedOut, WriteTimeout
from cassandra.cluster import NoHostAvailable
from hypothesis import given
from hypothesis import strategies as st
from load_samples import specs
from loads import STORE, load_spec

from kairoscope.stacks.kairosdb.readback import row_names, stored
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Step
from loaders.schedule.values import LIMIT, LOWEST, ValueType, values
from loaders.send import cql, kairos_rows
from loaders.send.protocol import Answer, Batch, Reply

WIDTH_MS = 1_814_400_000
Written = list[tuple[str, tuple[Any, ...]]]


@given(st.sampled_from(ValueType), st.lists(st.integers(LOWEST, LIMIT - 1), min_size=1))
def test_values_are_written_as_they_are_read(kind: ValueType, numbers: list[int]) -> None:
    blobs = kairos_rows.blobs(kind, np.array(numbers))
    objects = np.empty(len(blobs), dtype=object)
    objects[:] = blobs
    assert stored.numbers(kind, objects).tolist() == numbers


class Store:
    """A session of the driver's whose store keeps what it is given, or says what went wrong."""

    def __init__(self) -> None:
        self.written: Written = []
        self.batches: list[int] = []
        self.fails: list[BaseException] = []

    def prepare(self, statement: str) -> str:
        return statement.split()[2]

    def execute(self, statement: str) -> Any:
        assert "row_width" in statement
        return SimpleNamespace(one=lambda: SimpleNamespace(value=str(WIDTH_MS)))

    def execute_async(self, batch: Any) -> Any:
        def add_callbacks(good: Callable[[Any], None], bad: Callable[[Any], None]) -> None:
            if self.fails:
                bad(self.fails.pop(0))
                return
            self.batches.append(len(batch.rows))
            self.written += batch.rows
            good([])

        return SimpleNamespace(add_callbacks=add_callbacks)


class Batched:
    """The driver's batch: what was added."""

    def __init__(self, kind: Any) -> None:
        assert kind == cql.BatchType.UNLOGGED
        self.rows: Written = []

    def add(self, statement: str, bound: tuple[Any, ...]) -> None:
        self.rows.append((statement, bound))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    made = Store()
    downs: list[BaseException] = []

    class Cluster:
        def __init__(self, contacts: list[str], port: int, **_: Any) -> None:
            assert (contacts, port) == (["127.0.0.1", "127.0.0.2"], 9042)

        def connect(self, keyspace: str) -> Store:
            assert keyspace == "kairosdb"
            if downs:
                raise downs.pop()
            return made

        def shutdown(self) -> None:
            downs.append(AssertionError("it was ended"))

    made.downs = downs  # type: ignore[attr-defined]
    monkeypatch.setattr(cql, "Cluster", Cluster)
    monkeypatch.setattr(cql, "BatchStatement", Batched)
    yield made
    assert downs, "nobody ended the cluster"


async def sent(spec: LoadSpec, batches: int | None = None) -> list[Reply]:
    """Send every request of the first worker, or some, in order."""
    schedule = Schedule(spec)
    groups = schedule.groups(0)
    protocol = cql.Cql(schedule, groups)
    replies = []
    for request in list(schedule.requests(0))[:batches]:
        batch = Batch(groups[request.group], request.first, request.ticks)
        replies.append(await protocol.send(0, batch, lambda: None))
    assert await protocol.close() == ""
    return replies


def by_cql(spec: LoadSpec, **changes: Any) -> LoadSpec:
    alone = {"hosts": 1, "workers_per_host": 1, "protocol": "cql"}
    return dataclasses.replace(spec, **alone | {"store": STORE} | changes)


@given(specs())
async def test_every_point_is_in_its_row_and_every_row_in_the_index(spec: LoadSpec) -> None:
    with pytest.MonkeyPatch.context() as patch:
        made = Store()
        cluster = SimpleNamespace(connect=lambda _: made, shutdown=lambda: None)
        patch.setattr(cql, "Cluster", lambda *_, **__: cluster)
        patch.setattr(cql, "BatchStatement", Batched)
        spec = by_cql(spec)
        replies = await sent(spec)
    assert {reply.answer for reply in replies} == {Answer.ACKNOWLEDGED}
    schedule = Schedule(spec)
    names = row_names.Names(schedule)
    found: dict[tuple[int, int], int] = {}
    for table, (key, column, value, ttl_s, _) in points(made):
        assert (table, ttl_s) == ("data_points", 0)
        looked = names.look(key)
        assert looked
        series, row_ms, own = looked
        assert own
        at = row_ms + struct.unpack(">i", column)[0]
        blob = np.array([value], dtype=object)
        found[series.number, at] = int(stored.numbers(ValueType(spec.value_type), blob)[0])
    expected = {}
    for series in schedule.series():
        times = schedule.timestamps_ms(series.rank, series.ticks)
        whole = values(series.number, times).tolist()
        expected |= {(series.number, at): v for at, v in zip(times.tolist(), whole, strict=True)}
    assert found == expected
    keys = {
        kairos_rows.row_key(metric, row, tags, kind)
        for table, (metric, _, row, kind, tags, _) in rows(made, "row_keys")
    }
    assert keys == {bound[0] for _, bound in points(made)}
    timed = {(metric, row) for _, (metric, _, row, _) in rows(made, "row_key_time_index")}
    assert timed == {(m, row) for _, (m, _, row, *_) in rows(made, "row_keys")}
    named = {bound for _, bound in rows(made, "string_index")}
    assert named == {(b"metric_names", metric) for metric, _ in timed}


def rows(store: Store, table: str) -> Written:
    return [one for one in store.written if one[0] == table]


def points(store: Store) -> Written:
    return rows(store, "data_points")


async def test_the_index_is_written_once_a_row_before_its_points(store: Store) -> None:
    # The next row of three weeks begins with the third tick.
    start_ms = 1_000 * WIDTH_MS - 2_000
    spec = load_spec(
        sensors=3, steps=[Step(1000, 4)], warmup_ticks=0, start_ms=start_ms, pacing="aligned"
    )
    await sent(by_cql(spec))
    tables = [table for table, _ in store.written]
    one = ["row_keys"] * 3 + ["row_key_time_index", "string_index"] * 3
    assert tables == [*one, *["data_points"] * 6] * 2
    assert store.batches == [9, 3, 3, 9, 3, 3]


async def test_no_batch_is_longer_than_the_store_takes(store: Store) -> None:
    spec = load_spec(sensors=3, steps=[Step(1000, 8)], warmup_ticks=0, points_per_request=8)
    await sent(by_cql(spec, store=dataclasses.replace(STORE, batch_points=7)))
    assert store.batches == [7, 2, 7, 7, 7, 3]


async def test_what_lives_for_a_while_is_found_until_then(store: Store) -> None:
    spec = by_cql(load_spec(warmup_ticks=0), store=dataclasses.replace(STORE, ttl_s=3600))
    await sent(spec, 1)
    assert {bound[3] for _, bound in points(store)} == {3600}
    until = {
        bound[-1] for name in ("row_keys", "row_key_time_index") for _, bound in rows(store, name)
    }
    assert until == {3600 + WIDTH_MS // 1000}


@pytest.mark.parametrize(
    ("error", "answer", "kind", "silent"),
    [
        (InvalidRequest("Batch too large"), Answer.REJECTED, "cql_InvalidRequest", False),
        (WriteTimeout("2 of 3", write_type=1), Answer.FAILED, "cql_WriteTimeout", False),
        (OperationTimedOut(), Answer.FAILED, "cql_OperationTimedOut", True),
        (NoHostAvailable("none", {}), Answer.FAILED, "cql_NoHostAvailable", True),
    ],
)
async def test_what_the_store_says_is_told(
    store: Store, error: BaseException, answer: Answer, kind: str, silent: bool
) -> None:
    store.fails = [error]
    first, second = await sent(by_cql(load_spec(warmup_ticks=0)), 2)
    assert (first.answer, first.kind, first.silent) == (answer, kind, silent)
    assert kind.removeprefix("cql_") in first.detail
    assert second.answer is Answer.ACKNOWLEDGED
    # The index of the first was not written, so its points were not, either.
    assert len(points(store)) == 3


async def test_a_store_that_is_away_at_first_is_tried_again(store: Store) -> None:
    store.downs.append(NoHostAvailable("none answers", {}))  # type: ignore[attr-defined]
    first, second = await sent(by_cql(load_spec(warmup_ticks=0)), 2)
    assert (first.answer, first.silent) == (Answer.FAILED, True)
    assert second.answer is Answer.ACKNOWLEDGED
