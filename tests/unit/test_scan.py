"""Points as the storage nodes hold them, against rows made as KairosDB writes them."""

import dataclasses
import itertools
import struct
import threading
import weakref
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import load_samples
import numpy as np
import pytest
from cassandra import ReadTimeout
from hypothesis import given, settings
from hypothesis import strategies as st

from kairoscope.errors import UserError
from kairoscope.stacks.kairosdb.readback import index, row_names, scan, stored
from kairoscope.stacks.kairosdb.servers import cql
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec
from loaders.schedule.values import LIMIT, LOWEST, ValueType
from loaders.send.kairos_rows import row_key

WIDTH_MS = 1_814_400_000
VALUES = st.integers(LOWEST, LIMIT - 1)


def packed(value: int) -> bytes:
    """KairosDB's Util.packLong."""
    left = (value << 1) ^ (value >> 63)
    found = bytearray()
    while left & ~0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def blob(kind: ValueType, value: int) -> bytes:
    if kind is ValueType.LONG:
        return packed(value)
    if kind is ValueType.DOUBLE:
        return struct.pack(">d", float(kind.text(value)))
    text = kind.text(value).encode()
    return struct.pack(">H", len(text)) + text


def objects(items: list[bytes]) -> Any:
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found


@given(st.sampled_from(ValueType), st.lists(VALUES, min_size=1, max_size=50))
def test_values_are_read_as_kairosdb_writes_them(kind, numbers):
    found = stored.numbers(kind, objects([blob(kind, n) for n in numbers]))
    assert found.tolist() == numbers


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (ValueType.LONG, b""),
        (ValueType.LONG, packed(-5)),
        (ValueType.LONG, packed(2**40)),
        (ValueType.LONG, b"\x80\x80"),  # cut off
        (ValueType.LONG, b"\x01\x01"),  # two values
        (ValueType.DOUBLE, struct.pack(">d", float("nan"))),
        (ValueType.DOUBLE, struct.pack(">d", 123.4567)),
        (ValueType.DOUBLE, struct.pack(">d", -1.0)),
        (ValueType.DOUBLE, b"\0"),
        (ValueType.STRING, b"\0\x07v12345"),
        (ValueType.STRING, b"\0"),
        (ValueType.STRING, b"\0\x07w123456"),
    ],
)
def test_what_is_none_of_our_values_is_known(kind, raw):
    good = blob(kind, 123_456)
    assert stored.numbers(kind, objects([good, raw, good])).tolist() == [123_456, -1, 123_456]


def rows_of(spec: LoadSpec) -> set[int]:
    spans = [(spec.start_ms, spec.end_ms - 1)]
    return {row for row, *_ in cql.row_slices(spans, WIDTH_MS)}


Rows = dict[bytes, list[tuple[int, bytes]]]


def rows_as_stored(schedule: Schedule, names: row_names.Names) -> Rows:
    """What KairosDB would have written for every point."""
    kind = ValueType(schedule.spec.value_type)
    rows: Rows = {}
    for series in schedule.series():
        for t, value in load_samples.points_of(schedule, series):
            row = t - t % WIDTH_MS
            rows.setdefault(names.key(series.number, row), []).append((t - row, blob(kind, value)))
    return rows


def partitions(spec: LoadSpec, rows: Rows) -> list[stored.Partition]:
    flat = [(key, struct.pack(">i", o), b) for key, some in rows.items() for o, b in some]
    if not flat:
        return []
    keys, columns, blobs = (objects(list(column)) for column in zip(*flat, strict=True))
    return list(stored.partitions(ValueType(spec.value_type), keys, columns, blobs))


def collected(schedule: Schedule, rows: Rows) -> tuple[scan.Scanned, int]:
    names = row_names.Names(schedule)
    left = [partitions(schedule.spec, rows)]
    lock = threading.Lock()

    def read_range(_: tuple[int, int]) -> list[stored.Partition]:
        with lock:
            return left.pop() if left else []

    seen = [0]
    found = scan.collect(schedule, names, rows_of(schedule.spec), read_range, seen.append)
    return found, seen[-1]


@settings(max_examples=60)
@given(load_samples.specs(), st.booleans())
def test_all_is_there_whatever_the_load(spec, over_a_border):
    if over_a_border:  # of KairosDB's rows, in the middle of the run
        begin = spec.start_ms - spec.start_ms % WIDTH_MS + WIDTH_MS - spec.duration_ms // 2
        spec = dataclasses.replace(spec, start_ms=begin)
    schedule = Schedule(spec)
    names = row_names.Names(schedule)
    found, done = collected(schedule, rows_as_stored(schedule, names))
    series = list(schedule.series())
    assert done == schedule.points
    assert not found.others and not found.foreign
    assert all(found.whole[s.number] and names.series(s.number) == s for s in series)
    assert [int(found.rows[s.number]) for s in series] == [len(s.ticks) for s in series]
    assert all(found.result(schedule, s).right.all() for s in series)


@pytest.mark.parametrize("model", load_samples.MODELS)
def test_points_that_are_lost_wrong_or_too_many_are_seen(model):
    metric, tags = model
    schedule = Schedule(load_samples.spec_of(sensors=6, metric=metric, tags=tags))
    names = row_names.Names(schedule)
    rows = rows_as_stored(schedule, names)
    (row,) = rows_of(schedule.spec)
    keys = [names.key(number, row) for number in range(6)]
    lost, wrong, more = rows[keys[0]], rows[keys[1]], rows[keys[2]]
    del lost[1]
    wrong[2] = (wrong[2][0], packed(LOWEST - 1))
    more.append((more[0][0] + 1, packed(LOWEST)))
    more.append((more[0][0] - 60_000, packed(LOWEST)))  # before the run: another's
    del rows[keys[3]]
    rows[keys[4].replace(b"kairos_long", b"kairos_list")] = rows[keys[4]]
    found, _ = collected(schedule, rows)
    by_number = {s.number: found.result(schedule, s) for s in schedule.series()}
    assert by_number[0].present.tolist() == [True, False, True]
    assert by_number[1].present.all()
    assert by_number[1].right.tolist() == [True, True, False]
    assert (by_number[2].right.all(), by_number[2].unexpected) == (True, 1)
    assert not by_number[3].present.any()
    assert found.foreign == {4}
    assert found.whole.tolist() == [False, False, False, False, True, True]
    assert found.rows.tolist() == [2, 3, 4, 0, 3, 3]


@pytest.mark.parametrize("first", [True, False])
def test_a_point_in_a_row_too_many_is_seen_in_whichever_order_rows_come(first):
    # The first series end before a border of rows, which others go over.
    start_ms = WIDTH_MS * 1000 - 2500
    spec = load_samples.spec_of(sensors=6, ticks=3, start_ms=start_ms)
    schedule = Schedule(spec)
    names = row_names.Names(schedule)
    series = next(
        s for s in schedule.series() if schedule.timestamp_ms(s.rank, 2) < WIDTH_MS * 1000
    )
    rows = rows_as_stored(schedule, names)
    stray = {names.key(series.number, WIDTH_MS * 1000): [(300, packed(LOWEST))]}
    found, _ = collected(schedule, {**stray, **rows} if first else {**rows, **stray})
    result = found.result(schedule, series)
    assert (result.right.all(), result.unexpected) == (True, 1)
    assert not found.whole[series.number]
    assert found.rows[series.number] == 4


def test_rows_under_a_wrong_tag_are_foreign_and_those_of_others_are_not():
    metric, tags = load_samples.MODELS[2]
    spec = load_samples.spec_of(sensors=4, metric=metric, tags=tags)
    names = row_names.Names(Schedule(spec))
    good = spec.tags_of(2)
    wrong = row_key(spec.metric_name(2), 0, {**good, "site": "site-9"}, "kairos_long")
    assert (seen := names.look(wrong)) and (seen[0].number, seen[2]) == (2, False)
    other = row_key("kairosdb.queue.size", 0, {"host": "a"}, "kairos_long")
    assert names.look(other) is None
    beyond = row_key(spec.metric_name(7), 0, spec.tags_of(4), "kairos_long")
    assert names.look(beyond) is None or names.look(beyond)[0].number < 4  # type: ignore[index]


@given(st.text(alphabet="ab:=.{n}", max_size=6).filter(lambda t: "{" not in t and "}" not in t))
def test_tags_with_the_key_s_own_marks(text):
    tags = {"sensor": f"{text}-{{n}}", "a:b=": f"={text}"}
    schedule = Schedule(load_samples.spec_of(sensors=3, metric="m", tags=tags))
    names = row_names.Names(schedule)
    for number in range(3):
        seen = names.look(names.key(number, 0))
        assert seen and (seen[0].number, seen[2]) == (number, True)


@given(st.integers(1, 10**9))
def test_the_whole_ring_is_read_once(points):
    pieces = scan.ranges(points)
    assert pieces[0][0] == -(2**63)
    assert pieces[-1][1] == 2**63 - 1
    assert all(a[1] == b[0] for a, b in itertools.pairwise(pieces))


def test_a_range_that_is_too_much_is_read_by_halves(monkeypatch):
    monkeypatch.setattr(scan, "PAUSE_S", 0)
    asked = []

    def read_range(piece: tuple[int, int]) -> list[stored.Partition]:
        asked.append(piece)
        if piece[1] - piece[0] > 4:
            raise ReadTimeout("too much", consistency=1)
        return [stored.Partition(bytes(piece), np.empty(0), np.empty(0))]

    found = scan._patiently(read_range, (0, 16), threading.Event())
    assert [tuple(one.key) for one in found] == [(0, 4), (4, 8), (8, 12), (12, 16)]


def test_a_store_that_never_answers_ends_the_scan(monkeypatch):
    monkeypatch.setattr(scan, "PAUSE_S", 0)

    def read_range(_: tuple[int, int]) -> list[stored.Partition]:
        raise ReadTimeout("no", consistency=1)

    schedule = Schedule(load_samples.spec_of())
    with pytest.raises(UserError, match="storage nodes could not be read"):
        scan.collect(schedule, row_names.Names(schedule), set(), read_range, lambda _: None)


def test_what_is_asked_before_the_scan_is_asked_again(monkeypatch):
    monkeypatch.setattr(scan, "PAUSE_S", 0)
    schedule = Schedule(load_samples.spec_of())
    (row,) = rows_of(schedule.spec)
    times, keys = index_of(schedule.spec, [0, 1], row)
    answers = {
        "spec": [
            SimpleNamespace(name="row_time_unit", value="MILLISECONDS"),
            SimpleNamespace(name="row_width", value=str(WIDTH_MS)),
        ],
        "row_key_time_index": times,
        "row_keys": keys,
    }

    class Session:
        """Of a store that answers nothing the first time."""

        def __init__(self) -> None:
            self.failed: set[str] = set()

        def execute(self, statement: str, timeout: float | None = 0) -> list[Any]:
            table = statement.partition("ks.")[2].split()[0]
            if table not in self.failed:
                self.failed.add(table)
                raise ReadTimeout("busy", consistency=1)
            return answers[table]

    rows = rows_as_stored(schedule, row_names.Names(schedule))
    left = [partitions(schedule.spec, rows)]
    monkeypatch.setattr(scan, "_reader", lambda *_: lambda _: left.pop() if left else [])
    session: Any = Session()
    found = scan.read(schedule, "ks", session)
    assert session.failed == set(answers)
    assert found.unindexed == {2, 3}


class Pages:
    """The driver's answer, in pages of three rows; notes how many of them somebody keeps."""

    def __init__(self, rows: Rows) -> None:
        flat = [(key, struct.pack(">i", o), b) for key, some in rows.items() for o, b in some]
        self.left = [flat[i : i + 3] for i in range(0, len(flat), 3)]
        self.given: list[weakref.ref[Any]] = []
        self.most_kept = 0
        self.fetch_next_page()

    def fetch_next_page(self) -> None:
        self.current_rows: list[Any] = []
        self.most_kept = max(self.most_kept, sum(page() is not None for page in self.given))
        columns = [objects(list(column)) for column in zip(*self.left.pop(0), strict=True)]
        self.given.append(weakref.ref(columns[0]))
        self.current_rows = [dict(zip(("key", "column1", "value"), columns, strict=True))]

    @property
    def has_more_pages(self) -> bool:
        return bool(self.left)


def test_of_a_long_series_no_more_than_a_page_is_kept_as_it_came():
    schedule = Schedule(load_samples.spec_of(sensors=3, ticks=50))
    names = row_names.Names(schedule)
    rows = rows_as_stored(schedule, names)
    answer = Pages(rows)
    db: Any = SimpleNamespace(
        prepare=lambda _: SimpleNamespace(),
        execution_profile_clone_update=lambda *_, **__: None,
        execute=lambda *_, **__: answer,
    )
    read = scan._reader(db, "ks", ValueType.LONG, (b"", b""))
    found = list(read((0, 1)))
    wanted = partitions(schedule.spec, rows)
    assert [one.key for one in found] == [one.key for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.offsets.tolist() == other.offsets.tolist()
        assert one.numbers.tolist() == other.numbers.tolist()
    assert len(answer.given) == 50
    assert answer.most_kept <= 1


def index_of(spec: LoadSpec, numbers: list[int], row_ms: int) -> tuple[list[Any], list[Any]]:
    at = datetime(1970, 1, 1) + timedelta(milliseconds=row_ms)
    common = {"table_name": "data_points", "row_time": at}
    times = [SimpleNamespace(**common, metric=spec.metric_name(n)) for n in numbers]
    keys = [
        SimpleNamespace(
            **common, metric=spec.metric_name(n), data_type="kairos_long", tags=spec.tags_of(n)
        )
        for n in numbers
    ]
    return times, keys


@pytest.mark.parametrize("model", load_samples.MODELS)
def test_series_without_an_index_entry_are_named(model):
    metric, tags = model
    spec = load_samples.spec_of(sensors=5, metric=metric, tags=tags)
    schedule = Schedule(spec)
    names = row_names.Names(schedule)
    (row,) = rows_of(spec)
    times, keys = index_of(spec, [0, 1, 2, 4], row)
    assert index.missing_in_index(schedule, names, {row}, times, keys) == {3}
    _, all_keys = index_of(spec, [0, 1, 2, 3, 4], row)
    without_time = [t for t in times if t.metric != spec.metric_name(0)]
    lacking = {s for s in range(5) if spec.metric_name(s) not in {t.metric for t in without_time}}
    found = index.missing_in_index(schedule, names, {row}, without_time, all_keys)
    assert found == lacking
    assert 0 in found


def test_what_a_deleted_series_leaves_of_its_index_is_no_entry():
    spec = load_samples.spec_of(sensors=2)
    schedule = Schedule(spec)
    (row,) = rows_of(spec)
    times, keys = index_of(spec, [0, 1], row)
    keys[1].data_type = keys[1].tags = None
    names = row_names.Names(schedule)
    assert index.missing_in_index(schedule, names, {row}, times, keys) == {1}


def test_series_are_wanted_in_each_row_that_they_have_points_in():
    spec = load_samples.spec_of(sensors=2, ticks=4, start_ms=WIDTH_MS * 1000 - 2000)
    schedule = Schedule(spec)
    names = row_names.Names(schedule)
    before, after = sorted(rows_of(spec))
    times, keys = index_of(spec, [0, 1], before)
    assert index.missing_in_index(schedule, names, {before, after}, times, keys) == {0, 1}
    more_times, more_keys = index_of(spec, [0, 1], after)
    both = index.missing_in_index(
        schedule, names, {before, after}, [*times, *more_times], [*keys, *more_keys]
    )
    assert both == set()
