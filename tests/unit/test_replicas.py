"""Missing points looked for on three replicas that answer as a store's do."""

import struct
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace

import load_samples
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger import read_as

from kairoscope.stacks.compared import compare
from kairoscope.stacks.kairosdb.readback import replicas
from kairoscope.stacks.kairosdb.servers import cql
from kairoscope.verdict import ledger, sustained
from kairoscope.verdict.settlement import SeriesResult, Settlement
from loaders.schedule.due import Schedule, Series
from loaders.send.kairos_rows import row_key

WEEKS_3_MS = 1_814_400_000
COPIES = 3
Row = namedtuple("Row", ["column1", "value"])


class Store:
    """Rows on three replicas. A read at ALL has all of them, and brings them to all."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.replicas: list[dict[tuple[bytes, bytes], int]] = [{} for _ in range(COPIES)]
        self.unindexed: set[int] = set()
        self.read_at_all: list[bytes] = []
        self.read_again: list[Series] = []

    def place(self, series: Series, t: int) -> tuple[bytes, bytes]:
        spec = self.schedule.spec
        row = t - t % WEEKS_3_MS
        kind = f"kairos_{spec.value_type}"
        tags = spec.tags_of(series.number)
        key = row_key(spec.metric_name(series.number), row, tags, kind)
        return key, struct.pack(">i", t - row)

    def at_quorum(self, series: Series) -> SeriesResult:
        """What KairosDB finds where the two replicas that were killed answer."""
        points = [
            (
                t,
                self.replicas[0].get(
                    self.place(series, t), self.replicas[1].get(self.place(series, t))
                ),
            )
            for t in self.schedule.timestamps_ms(series.rank, series.ticks).tolist()
            if series.number not in self.unindexed
        ]
        got = np.array([p for p in points if p[1] is not None], dtype=np.int64).reshape(-1, 2)
        return compare(self.schedule, series, got)

    def slices(
        self,
        _db: object,
        _statement: str,
        arguments: list[tuple[bytes, bytes, bytes]],
        *_: object,
        **__: object,
    ) -> Iterator[tuple[bool, list[Row]]]:
        """As `execute_concurrent_with_args` answers at ALL."""
        for key, first, last in arguments:
            self.read_at_all.append(key)
            found = {
                place: value
                for replica in self.replicas
                for place, value in replica.items()
                if place[0] == key and first <= place[1] <= last
            }
            for replica in self.replicas:
                replica.update(found)
            yield True, [Row(column, b"") for (_, column), _value in sorted(found.items())]

    def again(self, series: list[Series], add: Callable[[SeriesResult], None]) -> None:
        self.read_again += series
        for one in series:
            add(self.at_quorum(one))


@pytest.fixture(scope="module", autouse=True)
def spec_table() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cql, "row_width_ms", lambda *_: WEEKS_3_MS)
        yield


def settled(store: Store) -> ledger.Ledger:
    """The ledger of a run that the store says this of, its missing points looked for."""
    schedule = store.schedule
    found = read_as(schedule, "acknowledged")
    settling = Settlement(schedule, found)
    for series in schedule.series():
        settling.add(store.at_quorum(series))
    book = ledger.balance(found, settling.found(), 0, [])

    def on_replicas(wanted: Iterable[replicas.Wanted]) -> Iterator[set[int]]:
        db = SimpleNamespace(prepare=lambda text: text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cql, "execute_concurrent_with_args", store.slices)
            kind = f"kairos_{schedule.spec.value_type}"
            yield from cql.timestamps_of_series(db, "kairosdb", wanted, kind)

    if book.lacking:
        book.at_all = replicas.look(book.lacking, "QUORUM", on_replicas, store.again)
    return book


@given(load_samples.specs(), st.data())
def test_each_missing_point_is_told_from_the_others(spec, data):
    store = Store(Schedule(spec))
    if not spec.acknowledges:
        return
    expected = {"repaired": 0, "not_found": 0, "lost": 0}
    touched = set()
    for series in store.schedule.series():
        if data.draw(st.sampled_from([False] * 4 + [True])):
            store.unindexed.add(series.number)
        for t, value in load_samples.points_of(store.schedule, series):
            on = data.draw(st.sampled_from([(0, 1, 2), (0, 1, 2), (0, 1), (2,), ()]))
            for replica in on:
                store.replicas[replica][store.place(series, t)] = value
            hidden = series.number in store.unindexed
            if not on:
                expected["lost"] += 1
            elif hidden:
                expected["not_found"] += 1
            elif on == (2,):
                expected["repaired"] += 1
            if hidden or on in ((2,), ()):
                touched.add(store.place(series, t)[0])
    book = settled(store)
    assert book.missing == sum(expected.values())
    if not book.missing:
        assert book.at_all is None
        return
    found = book.at_all
    assert {key: getattr(found, key) for key in expected} == expected
    assert (found.looked_for, found.problem) == (book.missing, "")
    # Only series with missing points are asked for.
    assert set(store.read_at_all) == touched
    assert book.to_json()["at_all"]["lost"] == expected["lost"]
    part = sustained.readback_part(book)
    assert part.outcome == "fail"
    assert f"{book.missing:,} missing at QUORUM (" in part.text
    for key, words in (
        ("repaired", "repaired by that read"),
        ("not_found", "index may be missing"),
        ("lost", "on no replica: lost"),
    ):
        assert (words in part.text) == bool(expected[key])


def test_nothing_is_read_again_where_no_replica_has_anything():
    store = Store(Schedule(load_samples.spec_of(sensors=3)))
    found = settled(store).at_all
    assert (found.lost, found.repaired, found.not_found) == (9, 0, 0)
    assert store.read_again == []


def test_a_replica_that_does_not_answer_leaves_it_unknown():
    store = Store(Schedule(load_samples.spec_of(sensors=3)))
    book = settled(store)

    def away(_: Iterable[replicas.Wanted]) -> Iterator[set[int]]:
        raise RuntimeError("Cannot achieve consistency level ALL")
        yield set()

    book.at_all = replicas.look(book.lacking, "ONE", away, store.again)
    assert (book.at_all.looked_for, book.at_all.lost) == (9, None)
    text = sustained.readback_part(book).text
    assert "9 missing at ONE (not looked for at ALL: Cannot achieve consistency level ALL)" in text
