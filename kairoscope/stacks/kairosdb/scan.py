"""Every point of a run as the storage nodes hold it: one scan of KairosDB's tables, past KairosDB.

A query of KairosDB costs an answer as JSON for each series; the scan reads them all in the order in
which they lie there, some thousand at a time. What KairosDB looks into to find a series,
`row_keys` and `row_key_time_index`, is read in the same way: a point without its index is stored,
and no query finds it.
"""

import itertools
import re
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from cassandra.cluster import ResultSet, Session
from cassandra.protocol import NumpyProtocolHandler
from cassandra.query import dict_factory, tuple_factory

from kairoscope.errors import UserError
from kairoscope.stacks.kairosdb import cql
from kairoscope.stacks.kairosdb.readback import SeriesResult, compare
from loaders.schedule.due import Group, Int64s, Schedule, Series
from loaders.schedule.values import LIMIT, ValueType

# A range of the ring is read as a whole before any of it counts: this many points are in memory, at
# about 200 bytes each, for each of those that are read at a time.
POINTS_PER_RANGE = 50_000
LEAST_RANGES = 32
# Rows in an answer: about 90 bytes each, as every row repeats its key.
PAGE_ROWS = 10_000
CONCURRENCY = 4
# A node may have to pass many rows of other times before it has a page full, and give up. A half of
# the range is half the work; after so many halvings (or as many tries, with pauses in s) it is in
# trouble of another kind.
TRIES = 6
PAUSE_S = 1.0

_FIRST_TOKEN, _LAST_TOKEN = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1)
_PLACE = re.compile(r"\{n(?:%[1-9][0-9]*)?\}")

Objects = npt.NDArray[np.object_]


@dataclass
class Scanned:
    """What the store has of a run.

    Attributes:
        whole: bool by series number; every scheduled point is there as it was sent, and no other.
        others: what there is of the series that are not, and have at least a row.
        rows: rows of each series by its number, int64.
        unindexed: numbers of the series that KairosDB's index lacks.
        foreign: numbers of the series that have rows under other tags or of another type.
    """

    whole: npt.NDArray[np.bool_]
    rows: Int64s
    others: dict[int, SeriesResult] = field(default_factory=dict)
    unindexed: set[int] = field(default_factory=set)
    foreign: set[int] = field(default_factory=set)

    def result(self, schedule: Schedule, series: Series) -> SeriesResult:
        """What the store has of a series."""
        if self.whole[series.number]:
            every = np.ones(len(series.ticks), dtype=bool)
            return SeriesResult(series, every, every, 0)
        nothing = np.empty((0, 2), dtype=np.int64)
        found = self.others.get(series.number)
        return found or compare(schedule, series, nothing)


@dataclass(frozen=True)
class Partition:
    """Rows of one partition of `data_points` as they come: offsets in ms, values as KairosDB's."""

    key: bytes
    offsets: Int64s
    numbers: Int64s


def numbers(kind: ValueType, blobs: Objects) -> Int64s:
    """The whole numbers behind values as KairosDB stores them; -1 for any that is none of ours.

    Source: KairosDB at tag v1.3.0, Util.packLong (zigzag, seven bits a byte, the lowest first),
    DoubleDataPointFactoryImpl (IEEE 754, big-endian) and StringDataPoint (DataOutput.writeUTF).
    """
    found = np.full(len(blobs), -1, dtype=np.int64)
    lengths = np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs))
    for length in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == length)
        raw = np.frombuffer(b"".join(blobs[which]), dtype=np.uint8).reshape(len(which), length)
        found[which] = _DECODERS[kind](raw)
    return found


def _longs(raw: npt.NDArray[np.uint8]) -> Int64s:
    _, length = raw.shape
    # Beyond five bytes no value is below LIMIT.
    if not 1 <= length <= 5:  # noqa: PLR2004
        return np.full(len(raw), -1, dtype=np.int64)
    shifted = (raw & 0x7F).astype(np.int64) << (7 * np.arange(length, dtype=np.int64))
    packed = shifted.sum(axis=1)
    value = (packed >> 1) ^ -(packed & 1)
    ends = (raw[:, -1] < 0x80) & (raw[:, :-1] >= 0x80).all(axis=1)  # noqa: PLR2004
    return np.where(ends & (value >= 0) & (value < LIMIT), value, -1)


def _doubles(raw: npt.NDArray[np.uint8]) -> Int64s:
    _, length = raw.shape
    if length != 8:  # noqa: PLR2004
        return np.full(len(raw), -1, dtype=np.int64)
    stored = raw.copy().view(">f8").ravel().astype(np.float64)
    inside = (stored >= 0) & (stored < LIMIT)  # which no NaN is
    whole = np.rint(np.where(inside, stored, 0) * 1000).astype(np.int64)
    return np.where(inside & (whole / 1000 == stored), whole, -1)


def _texts(raw: npt.NDArray[np.uint8]) -> Int64s:
    kind = ValueType.STRING
    return np.array([kind.number(_utf(bytes(one))) for one in raw], dtype=np.int64)


def _utf(raw: bytes) -> str:
    """A text as DataOutput.writeUTF writes it; "" if it is none of ours, which are ASCII."""
    length = raw[:2]
    if len(length) < 2 or struct.unpack(">H", length)[0] != len(raw) - 2:  # noqa: PLR2004
        return ""
    return raw[2:].decode("ascii", errors="replace")


_DECODERS: dict[ValueType, Callable[[npt.NDArray[np.uint8]], Int64s]] = {
    ValueType.LONG: _longs,
    ValueType.DOUBLE: _doubles,
    ValueType.STRING: _texts,
}


class Names:
    """From KairosDB's row keys back to the series of a run."""

    def __init__(self, schedule: Schedule) -> None:
        """Of the series of this schedule."""
        self._schedule = schedule
        spec = schedule.spec
        self._spec = spec
        self._type = f"kairos_{spec.value_type}"
        groups = [g for worker in range(spec.workers) for g in schedule.groups(worker)]
        self._groups: list[Group] = sorted(groups, key=lambda group: group.rank)
        self._metric = _pattern(spec.metric)
        tag = next((k for k, text in spec.tags.items() if "{n}" in text), None)
        self._tag = None
        if "{n}" not in spec.metric and tag is not None:
            # As `row_key` writes it: among the others, each with its end.
            name, value = cql.escaped(tag, ":"), _escaped_pattern(spec.tags[tag])
            self._tag = re.compile(f"(?:^|.*?:){re.escape(name)}={value}:.*")

    @property
    def count(self) -> int:
        """All series numbers are below it."""
        spec = self._spec
        lives = max(self._schedule.generation(g, spec.ticks - 1) for g in self._groups)
        return (lives + 1) * spec.sensors

    def series(self, number: int) -> Series | None:
        """The series of a number; None if the run has none."""
        slot, wanted = number % self._spec.sensors, number // self._spec.sensors
        group = self._groups[int(self._schedule.rank_of[slot])]
        for life in self._schedule.lives(group):
            if self._schedule.generation(group, life.start) == wanted:
                return Series(number, group.worker, group.index, group.rank, life)
        return None

    def key(self, number: int, row_ms: int) -> bytes:
        """The row key of a series."""
        spec = self._spec
        return cql.row_key(spec.metric_name(number), row_ms, spec.tags_of(number), self._type)

    def look(self, key: bytes) -> tuple[Series, int, bool] | None:
        """The series of a row key, its row's time in ms, and whether key and type are its own.

        None for a key that has nothing to do with this run.
        """
        name, _, rest = key.partition(b"\0")
        metric = self._metric.fullmatch(name.decode(errors="replace"))
        if not metric or len(rest) < 10:  # noqa: PLR2004 (time, 0, length)
            return None
        row_ms: int = struct.unpack(">q", rest[:8])[0]
        found: re.Match[str] | None = metric
        if self._tag:
            found = self._tag.fullmatch(rest[10 + rest[9] :].decode(errors="replace"))
        if not found:
            return None
        number = int(found[1]) if found.re.groups else 0
        series = self.series(number)
        if series is None:
            return None
        return series, row_ms, key == self.key(number, row_ms)


def _pattern(text: str) -> re.Pattern[str]:
    """What matches the names that a pattern of `naming` gives, with {n} as the first group."""
    return re.compile(_with_places(text, re.escape))


def _escaped_pattern(text: str) -> str:
    return _with_places(text, lambda part: re.escape(cql.escaped(part, "=")))


def _with_places(text: str, literal: Callable[[str], str]) -> str:
    parts, last = [], 0
    for place in _PLACE.finditer(text):
        parts.append(literal(text[last : place.start()]))
        parts.append("([0-9]{1,18})" if place[0] == "{n}" else "[0-9]+")
        last = place.end()
    return "".join([*parts, literal(text[last:])])


def ranges(points: int) -> list[tuple[int, int]]:
    """The ring of tokens in pieces: after the first, up to and with the last."""
    pieces = max(LEAST_RANGES, points // POINTS_PER_RANGE)
    size = 2**64 // pieces
    cuts = [_FIRST_TOKEN + piece * size for piece in range(pieces)]
    return list(zip(cuts, [*cuts[1:], _LAST_TOKEN], strict=True))


Read = Callable[[tuple[int, int]], Iterable[Partition]]
"""Reads what `data_points` has in a range of the ring; raises the driver's errors."""


def read(
    schedule: Schedule,
    keyspace: str,
    db: Session,
    on_points: Callable[[int], None] = lambda _: None,
) -> Scanned:
    """All that the store has of a run.

    Args:
        schedule: of the run.
        keyspace: KairosDB's.
        db: a session of one's own, at the consistency to read with: it is given another decoder.
        on_points: called now and then, in the calling thread, with how many points of the run were
            read.

    Raises:
        UserError: storage nodes do not answer, or the keyspace has another format.
    """
    spec = schedule.spec
    width_ms = cql.row_width_ms(db, keyspace)
    rows = cql.row_slices([(spec.start_ms, spec.end_ms - 1)], width_ms)
    wanted = {row: (begin, end) for row, begin, end in rows}
    # One slice for all: what is of no use in it is left out below.
    columns = (min(b for b, _ in wanted.values()), max(e for _, e in wanted.values()))
    names = Names(schedule)
    # Before the session decodes as no other statement wants it.
    unindexed = _unindexed(db, keyspace, names, schedule, set(wanted))
    read_range = _reader(db, keyspace, ValueType(spec.value_type), columns)
    found = collect(schedule, names, set(wanted), read_range, on_points)
    found.unindexed = unindexed
    return found


def collect(
    schedule: Schedule,
    names: Names,
    rows_ms: set[int],
    read_range: Read,
    on_points: Callable[[int], None],
) -> Scanned:
    """`read`, of partitions that `read_range` gives in any order; `rows_ms` are the run's rows."""
    spec = schedule.spec
    found = Scanned(np.zeros(names.count, dtype=bool), np.zeros(names.count, dtype=np.int64))
    done = 0

    def add(partition: Partition) -> None:
        nonlocal done
        known = names.look(partition.key)
        if known is None or known[1] not in rows_ms:
            return
        series, row_ms, own = known
        times = row_ms + partition.offsets
        inside = (times >= spec.start_ms) & (times < spec.end_ms)
        if not inside.any():
            return
        if not own:
            found.foreign.add(series.number)
            return
        points = np.stack([times[inside], partition.numbers[inside]], axis=1)
        result = compare(schedule, series, points)
        found.rows[series.number] += len(points)
        done += len(points)
        if before := found.others.pop(series.number, None):  # it goes over to the next row
            result = _together(before, result)
        if result.right.all() and not result.unexpected:
            found.whole[series.number] = True
        else:
            found.others[series.number] = result

    for partitions in _side_by_side(read_range, ranges(schedule.points)):
        for partition in partitions:
            add(partition)
        on_points(done)
    return found


def _together(a: SeriesResult, b: SeriesResult) -> SeriesResult:
    return SeriesResult(
        a.series, a.present | b.present, a.right | b.right, a.unexpected + b.unexpected
    )


def _side_by_side(read_range: Read, todo: list[tuple[int, int]]) -> Iterator[Iterable[Partition]]:
    """What each range has, some of them read at a time. UserError if one cannot be read."""
    pending = iter(todo)
    stop = threading.Event()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        under_way: set[Future[list[Partition]]] = set()
        try:
            while True:
                # One more than are read: nobody waits while we compare.
                for piece in pending:
                    under_way.add(pool.submit(_patiently, read_range, piece, stop))
                    if len(under_way) > CONCURRENCY:
                        break
                if not under_way:
                    return
                ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield future.result()
        finally:
            stop.set()


def _patiently(
    read_range: Read, piece: tuple[int, int], stop: threading.Event, tries: int = TRIES
) -> list[Partition]:
    """What a range has; by halves if the store does not get through it."""
    try:
        return list(read_range(piece))
    except cql.SAID as error:
        first, last = piece
        if tries == 1 or stop.wait(PAUSE_S):
            raise UserError(
                f"The storage nodes could not be read: {error}. Are they all up? See: make status"
            ) from error
        middle = (first + last) // 2
        halves = [half for half in ((first, middle), (middle, last)) if half[0] < half[1]]
        return [p for half in halves for p in _patiently(read_range, half, stop, tries - 1)]


def _reader(db: Session, keyspace: str, kind: ValueType, columns: tuple[bytes, bytes]) -> Read:
    # On the ring of all partitions a slice of columns is a filter, of which the nodes warn unless
    # it is allowed; each partition is still read from the first column on, not as a whole.
    select = db.prepare(
        f"SELECT key, column1, value FROM {keyspace}.data_points "  # noqa: S608 (keyspace is ours)
        "WHERE token(key) > ? AND token(key) <= ? AND column1 >= ? AND column1 <= ? ALLOW FILTERING"
    )
    select.fetch_size = PAGE_ROWS
    db.row_factory = tuple_factory
    # A row for a row costs seconds a million; this one gives arrays.
    db.client_protocol_handler = NumpyProtocolHandler

    def pages(piece: tuple[int, int]) -> Iterator[dict[str, Objects]]:
        answer: ResultSet = db.execute(select, (*piece, *columns))
        while True:
            yield from answer.current_rows
            if not answer.has_more_pages:
                return
            answer.fetch_next_page()

    def read_range(piece: tuple[int, int]) -> Iterator[Partition]:
        found = [page for page in pages(piece) if len(page["key"])]
        if not found:
            return
        keys, names, blobs = (
            np.concatenate([page[name] for page in found]) for name in ("key", "column1", "value")
        )
        yield from partitions(kind, keys, names, blobs)

    return read_range


def partitions(
    kind: ValueType, keys: Objects, names: Objects, blobs: Objects
) -> Iterator[Partition]:
    """Rows, as long as those of a key follow each other, by partition."""
    joined = b"".join(names)
    if len(joined) != 4 * len(names):
        raise UserError("data_points has columns that are not KairosDB's: no offset of four bytes")
    offsets = np.frombuffer(joined, dtype=">i4").astype(np.int64)
    values = numbers(kind, blobs)
    cuts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
    for begin, end in itertools.pairwise(cuts):
        yield Partition(keys[begin], offsets[begin:end], values[begin:end])


def _unindexed(
    db: Session, keyspace: str, names: Names, schedule: Schedule, rows_ms: set[int]
) -> set[int]:
    """Numbers of the series that KairosDB would not find."""
    row_factory, db.row_factory = db.row_factory, dict_factory
    try:
        said = [
            db.execute(f"SELECT {columns} FROM {keyspace}.{table}", timeout=None)  # noqa: S608
            for columns, table in (
                ("metric, table_name, row_time", "row_key_time_index"),
                ("metric, table_name, row_time, data_type, tags", "row_keys"),
            )
        ]
        return missing_in_index(schedule, names, rows_ms, *said)
    except cql.SAID as error:
        raise UserError(f"KairosDB's index could not be read from the store: {error}") from error
    finally:
        db.row_factory = row_factory


def missing_in_index(
    schedule: Schedule,
    names: Names,
    rows_ms: set[int],
    times: Iterable[dict[str, Any]],
    keys: Iterable[dict[str, Any]],
) -> set[int]:
    """Numbers of the series that lack an entry for a row in which they have points.

    `times` and `keys` are the rows of row_key_time_index and row_keys.
    """
    known = {(one["metric"], _row_ms(one)) for one in times if _ours(one, rows_ms)}
    found: dict[int, set[int]] = {row: set() for row in rows_ms}
    for one in keys:
        row_ms = _row_ms(one)
        if not _ours(one, rows_ms) or (one["metric"], row_ms) not in known:
            continue
        key = cql.row_key(one["metric"], row_ms, dict(one["tags"]), one["data_type"])
        if (seen := names.look(key)) and seen[2]:
            found[row_ms].add(seen[0].number)
    ordered = sorted(rows_ms)
    missing = set()
    for series in schedule.series():
        first, last = (
            schedule.timestamp_ms(series.rank, tick) for tick in (series.ticks[0], series.ticks[-1])
        )
        for row, beyond in zip(ordered, [*ordered[1:], last + 1], strict=True):
            if first < beyond and row <= last and series.number not in found[row]:
                missing.add(series.number)
    return missing


def _ours(row: dict[str, Any], rows_ms: set[int]) -> bool:
    return row["table_name"] == "data_points" and _row_ms(row) in rows_ms


def _row_ms(row: dict[str, Any]) -> int:
    at: datetime = row["row_time"]  # without its zone, which is UTC
    return round((at - _EPOCH).total_seconds() * 1000)
