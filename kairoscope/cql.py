"""CQL against the storage nodes: the schema, and rows counted without KairosDB in between."""

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
    Session,
)
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    TokenAwarePolicy,
    WhiteListRoundRobinPolicy,
)

from kairoscope.errors import UserError


@contextmanager
def session(
    hosts: list[str], port: int, consistency: int = ConsistencyLevel.LOCAL_QUORUM
) -> Iterator[Session]:
    """A session to the cluster. UserError if none of the hosts answers."""
    profile = ExecutionProfile(
        # The datacenter is that of the first node that answers: loads never cross datacenters.
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()),
        consistency_level=consistency,
        request_timeout=30,
    )
    cluster = Cluster(
        hosts, port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=10
    )
    try:
        yield cluster.connect()
    except NoHostAvailable as error:
        raise UserError(f"No storage node answers CQL: {', '.join(hosts)} port {port}") from error
    finally:
        cluster.shutdown()


def touch(host: str, port: int, keyspace: str) -> None:
    """Have one node coordinate one read.

    Cassandra registers its client request histograms with the first request that a node
    coordinates; before it, nodetool proxyhistograms says "Server is not initialized yet".
    """
    only = ExecutionProfile(WhiteListRoundRobinPolicy([host]))
    with Cluster([host], port=port, execution_profiles={EXEC_PROFILE_DEFAULT: only}) as cluster:
        cluster.connect().execute(f"SELECT * FROM {keyspace}.spec WHERE spec_type = 'none'")  # noqa: S608


def statements(text: str) -> list[str]:
    """Split a CQL script (no semicolon or `--` inside its strings) into statements."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [s.strip() for s in "\n".join(lines).split(";") if s.strip()]


def _schema(db: Session, keyspace: str) -> dict[str, Any]:
    tables = db.execute(
        "SELECT table_name, compression, compaction, id FROM system_schema.tables "
        "WHERE keyspace_name = %s",
        [keyspace],
    )
    return {row.table_name: (dict(row.compression), dict(row.compaction), row.id) for row in tables}


def apply_schema(db: Session, keyspace: str, script: str) -> bool:
    """Run a schema script; True if it changed anything."""
    before = _schema(db, keyspace)
    for statement in statements(script):
        db.execute(statement)
    return _schema(db, keyspace) != before


def row_key(metric: str, row_time_ms: int, tags: dict[str, str], data_type: str) -> bytes:
    """Partition key of `data_points`, as KairosDB serialises it.

    Source: DataPointsRowKeySerializer at tag v1.3.0: name, 0, row time (8 bytes), 0, length and
    name of the data type, then `tag=value:` sorted by tag, with `:` and `=` escaped.
    """

    def escaped(text: str, mark: str) -> str:
        return "".join(mark + c if c in ":=" else c for c in text)

    tag_string = "".join(f"{escaped(k, ':')}={escaped(tags[k], '=')}:" for k in sorted(tags))
    return (
        metric.encode()
        + b"\0"
        + struct.pack(">q", row_time_ms)
        + b"\0"
        + bytes([len(data_type)])
        + data_type.encode()
        + tag_string.encode()
    )


def row_width_ms(db: Session, keyspace: str) -> int:
    """Width of a KairosDB row in ms (three weeks by default), as KairosDB recorded it.

    UserError for a keyspace in the legacy or the seconds format: rows are laid out otherwise there.
    """
    rows = db.execute(
        f"SELECT name, value FROM {keyspace}.spec WHERE spec_type = 'cluster_config'"  # noqa: S608
    )
    spec = {row.name: row.value for row in rows}
    if spec.get("row_time_unit") != "MILLISECONDS":
        raise UserError(f"Keyspace {keyspace}: rows in unit {spec.get('row_time_unit')}, not ms")
    return int(spec["row_width"])


def rows_of_series(
    db: Session,
    keyspace: str,
    series: Iterable[tuple[str, dict[str, str]]],
    spans: list[tuple[int, int]],
    data_type: str = "kairos_long",
    concurrency: int = 32,
) -> int:
    """Rows in `data_points` of all series (metric, tags) together, with timestamps in `spans`.

    Counts what the storage nodes hold at the session's consistency, past KairosDB and its index.
    `spans` are (first, last) epoch ms, both included; each is counted by itself, as a node may not
    get through a long row within its time limit.
    """
    count = db.prepare(
        f"SELECT count(*) FROM {keyspace}.data_points "  # noqa: S608 (keyspace is from the plan)
        "WHERE key = ? AND column1 >= ? AND column1 <= ?"
    )
    slices = list(_slices(spans, row_width_ms(db, keyspace)))
    arguments = (
        (row_key(metric, row, tags, data_type), *columns)
        for metric, tags in series
        for row, *columns in slices
    )
    results = execute_concurrent_with_args(
        db, count, arguments, concurrency=concurrency, results_generator=True
    )
    return sum(result.one()[0] for _, result in results)


def _slices(spans: list[tuple[int, int]], row_width: int) -> Iterator[tuple[int, bytes, bytes]]:
    """What to look at for each series: row time (ms), first and last column."""
    for first, last in spans:
        for row in range(first - first % row_width, last + 1, row_width):
            # The offset in its row (source: RowSpec.getColumnName at tag v1.3.0).
            begin, end = max(first - row, 0), min(last - row, row_width - 1)
            yield row, struct.pack(">i", begin), struct.pack(">i", end)
