"""Every point of a run as the storage nodes hold it: one scan of KairosDB's tables, past KairosDB.

A query of KairosDB costs an answer as JSON for each series; the scan reads them all in the order in
which they lie there, some thousand at a time. What KairosDB looks into to find a series,
`row_keys` and `row_key_time_index`, is read in the same way: a point without its index is stored,
and no query finds it.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from cassandra.cluster import EXEC_PROFILE_DEFAULT, ResultSet, Session
from cassandra.protocol import NumpyProtocolHandler
from cassandra.query import tuple_factory

from kairoscope.errors import UserError
from kairoscope.stacks.compared import compare
from kairoscope.stacks.kairosdb.readback import index
from kairoscope.stacks.kairosdb.readback.row_names import Names
from kairoscope.stacks.kairosdb.readback.stored import Objects, Partition, partitions
from kairoscope.stacks.kairosdb.servers import cql
from kairoscope.verdict.settlement import SeriesResult
from loaders.schedule.due import Int64s, Schedule, Series
from loaders.schedule.values import ValueType

# A range of the ring is read as a whole before any of it counts: this many points are in memory, at
# 16 bytes each, for each of those that are read at a time; more where a series has more of them in
# a row, as no range cuts one. Of a page as it comes a point takes about 200 bytes.
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

T = TypeVar("T")

_FIRST_TOKEN, _LAST_TOKEN = -(2**63), 2**63 - 1


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
    width_ms = _again(lambda: cql.row_width_ms(db, keyspace))
    rows = cql.row_slices([(spec.start_ms, spec.end_ms - 1)], width_ms)
    wanted = {row: (begin, end) for row, begin, end in rows}
    # One slice for all: what is of no use in it is left out below.
    columns = (min(b for b, _ in wanted.values()), max(e for _, e in wanted.values()))
    names = Names(schedule)
    # Before the session decodes as no other statement wants it.
    lacking = _again(lambda: index.unindexed(db, keyspace, names, schedule, set(wanted)))
    read_range = _reader(db, keyspace, ValueType(spec.value_type), columns)
    found = collect(schedule, names, set(wanted), read_range, on_points)
    # One that has no points need not be found.
    found.unindexed = {number for number in lacking if found.rows[number]}
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
        if found.rows[series.number]:  # it goes over to another row, or has points in one too many
            result = _together(found.result(schedule, series), result)
        found.rows[series.number] += len(points)
        done += len(points)
        whole = bool(result.right.all()) and not result.unexpected
        found.whole[series.number] = whole
        found.others.pop(series.number, None)
        if not whole:
            found.others[series.number] = result

    for some in _side_by_side(read_range, ranges(schedule.points)):
        for partition in some:
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


def _again(ask: Callable[[], T]) -> T:
    """What the storage nodes answer, asked TRIES times if need be. UserError if they do not."""
    for left in reversed(range(TRIES)):
        try:
            return ask()
        except cql.SAID as error:
            if not left:
                raise _unread(error) from error
            time.sleep(PAUSE_S)
    raise AssertionError("the last try returns or raises")


def _unread(error: Exception) -> UserError:
    return UserError(
        f"The storage nodes could not be read: {error}. Are they all up? See: make status"
    )


def _patiently(
    read_range: Read, piece: tuple[int, int], stop: threading.Event, tries: int = TRIES
) -> list[Partition]:
    """What a range has; by halves if the store does not get through it."""
    try:
        return list(read_range(piece))
    except cql.SAID as error:
        first, last = piece
        if tries == 1 or stop.wait(PAUSE_S):
            raise _unread(error) from error
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
    # A tuple for each row costs seconds a million. This gives arrays, which are left as they are.
    db.client_protocol_handler = NumpyProtocolHandler
    arrays = db.execution_profile_clone_update(EXEC_PROFILE_DEFAULT, row_factory=tuple_factory)

    def pages(piece: tuple[int, int]) -> Iterator[dict[str, Objects]]:
        answer: ResultSet = db.execute(select, (*piece, *columns), execution_profile=arrays)
        while True:
            yield from answer.current_rows
            if not answer.has_more_pages:
                return
            answer.fetch_next_page()

    def read_range(piece: tuple[int, int]) -> Iterator[Partition]:
        # A page as it comes is ten times what it says, and of a long series there may be thousands.
        parts = [
            part
            for page in pages(piece)
            if len(page["key"])
            for part in partitions(kind, page["key"], page["column1"], page["value"])
        ]
        for key, those in itertools.groupby(parts, lambda part: part.key):
            offsets, numbers = zip(*((one.offsets, one.numbers) for one in those), strict=True)
            yield Partition(key, np.concatenate(offsets), np.concatenate(numbers))

    return read_range
