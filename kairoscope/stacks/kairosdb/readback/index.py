"""What KairosDB looks into to find a series: `row_key_time_index`, then `row_keys`."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from cassandra.cluster import Session

from kairoscope.stacks.kairosdb.readback.row_names import Names
from loaders.schedule.due import Schedule
from loaders.send.kairos_rows import row_key

_EPOCH = datetime(1970, 1, 1)


def unindexed(
    db: Session, keyspace: str, names: Names, schedule: Schedule, rows_ms: set[int]
) -> set[int]:
    """Numbers of the series that KairosDB would not find. Raises the driver's errors."""
    said = [
        db.execute(f"SELECT {columns} FROM {keyspace}.{table}", timeout=None)  # noqa: S608
        for columns, table in (
            ("metric, table_name, row_time", "row_key_time_index"),
            ("metric, table_name, row_time, data_type, tags", "row_keys"),
        )
    ]
    return missing_in_index(schedule, names, rows_ms, *said)


def missing_in_index(
    schedule: Schedule,
    names: Names,
    rows_ms: set[int],
    times: Iterable[Any],
    keys: Iterable[Any],
) -> set[int]:
    """Numbers of the series that lack an entry for a row in which they have points.

    `times` and `keys` are the rows of row_key_time_index and row_keys.
    """
    known = {(one.metric, _row_ms(one)) for one in times if _ours(one, rows_ms)}
    found: dict[int, set[int]] = {row: set() for row in rows_ms}
    for one in keys:
        row_ms = _row_ms(one)
        # Where one series of a metric was deleted, its partition may have its static column alone:
        # a row without a key, which KairosDB passes over as well (CQLFilteredRowKeyIterator).
        if one.data_type is None or not _ours(one, rows_ms) or (one.metric, row_ms) not in known:
            continue
        key = row_key(one.metric, row_ms, dict(one.tags), one.data_type)
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


def _ours(row: Any, rows_ms: set[int]) -> bool:
    return row.table_name == "data_points" and _row_ms(row) in rows_ms


def _row_ms(row: Any) -> int:
    at: datetime = row.row_time  # without its zone, which is UTC
    return round((at - _EPOCH).total_seconds() * 1000)
