"""CQL against the storage nodes: the schema, and rows counted without KairosDB in between."""

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    RequestValidationException,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
    Session,
)
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.connection import DefaultEndPoint, DefaultEndPointFactory
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    TokenAwarePolicy,
    WhiteListRoundRobinPolicy,
)
from cassandra.protocol import ErrorMessage

from kairoscope.errors import UserError
from kairoscope.hosts.secret_files import Access, Login
from loaders.send.kairos_rows import column, row_key

Endpoint = tuple[str, int]
"""Address and port."""

Endpoints = Mapping[Endpoint, Endpoint]
"""What storage nodes listen on → where this machine reaches it; what is not in it, directly."""


SERIES_AT_A_TIME = 256
"""Of which the timestamps are in memory."""


class LoginError(UserError):
    """A storage node refused a role or its password."""


class UndecidedLoginError(UserError):
    """The storage nodes cannot read their roles now, as too few are up: no word on a password."""


# What the nodes say then, as of a login that failed (PasswordAuthenticator.java of Cassandra,
# auth/password_authenticator.cc of ScyllaDB): the read's own error, or one of theirs.
_ROLES_UNREAD = (
    "Unable to perform authentication",
    "Could not verify password",
    "Cannot achieve consistency level",
    "timed out",
)


class StatementError(UserError):
    """A storage node refused a statement, or did not carry it out. Exit status 1: it was asked."""

    exit_code = 1


# The driver gives what a node says now as the one, now as the other; neither is a kind of both.
SAID = (DriverException, ErrorMessage, NoHostAvailable)


class _EndPoint(DefaultEndPoint):  # type: ignore[misc]
    """A node under its own address, reached at another: the ring's addresses stay those of nodes.

    So token-aware routing works through forwards.
    """

    def __init__(self, own: Endpoint, here: Endpoint) -> None:
        super().__init__(*own)
        self._here = here

    def resolve(self) -> Endpoint:
        return self._here


class _EndPoints(DefaultEndPointFactory):  # type: ignore[misc]
    """Makes the end points of the nodes that the ring names."""

    def __init__(self, port: int, endpoints: Endpoints) -> None:
        super().__init__(port)
        self._endpoints = endpoints

    def of(self, own: Endpoint) -> DefaultEndPoint:
        return _EndPoint(own, self._endpoints.get(own, own))

    def create(self, row: dict[str, Any]) -> DefaultEndPoint:
        named = super().create(row)
        return self.of((named.address, named.port))


def _cluster(
    hosts: list[str],
    port: int,
    profile: ExecutionProfile,
    access: Access | None,
    endpoints: Endpoints | None,
    login: Login | None = None,
) -> Cluster:
    options: dict[str, Any] = {}
    if access:
        login = login or access.admin
        options["ssl_context"] = access.tls
        options["auth_provider"] = PlainTextAuthProvider(login.user, login.password)
    contacts: list[Any] = list(hosts)
    if endpoints:
        factory = _EndPoints(port, endpoints)
        contacts = [factory.of((host, port)) for host in hosts]
        options["endpoint_factory"] = factory
        # ScyllaDB has another port by which a client picks the shard; no forward leads there.
        options["shard_aware_options"] = {"disable_shardaware_port": True}
    return Cluster(
        contacts,
        port=port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=10,
        **options,
    )


@contextmanager
def session(
    hosts: list[str],
    port: int,
    consistency: int = ConsistencyLevel.LOCAL_QUORUM,
    access: Access | None = None,
    endpoints: Endpoints | None = None,
    login: Login | None = None,
) -> Iterator[Session]:
    """A session to the cluster.

    Args:
        hosts: addresses of nodes to begin with; the ring names the others.
        port: CQL port, the same on all nodes.
        consistency: of statements that say nothing else.
        access: TLS and login of a secured cluster.
        endpoints: where nodes are reached, if not at their own addresses.
        login: another role than the access's `admin`.

    Raises:
        LoginError: the nodes refuse the login.
        UndecidedLoginError: they cannot tell.
        UserError: none of the hosts answers.
    """
    profile = ExecutionProfile(
        # The datacenter is that of the first node that answers: loads never cross datacenters.
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()),
        consistency_level=consistency,
        request_timeout=30,
    )
    cluster = _cluster(hosts, port, profile, access, endpoints, login)
    where = f"{', '.join(hosts)} port {port}"
    try:
        try:
            connected = cluster.connect()
        except NoHostAvailable as error:
            causes = list(error.errors.values()) if isinstance(error.errors, dict) else []
            said = [str(cause) for cause in causes if isinstance(cause, AuthenticationFailed)]
            unread = [one for one in said if any(word in one for word in _ROLES_UNREAD)]
            if len(said) > len(unread):
                user = (login or access.admin).user if access else "nobody"
                raise LoginError(f"The storage nodes refuse {user}'s password: {where}") from error
            if unread:
                raise UndecidedLoginError(
                    f"The storage nodes cannot read their roles now: {where}: {unread[0]}. Are "
                    "they all up? See: make status"
                ) from error
            raise UserError(f"No storage node answers CQL: {where}") from error
        try:
            yield connected
        except NoHostAvailable as error:
            raise UserError(f"No storage node can do what it was asked: {error}") from error
    finally:
        cluster.shutdown()


@contextmanager
def one_node(
    host: str,
    port: int,
    access: Access | None = None,
    endpoints: Endpoints | None = None,
) -> Iterator[Session]:
    """A session to one node alone, for what each node has of its own; errors are the driver's."""
    only = ExecutionProfile(WhiteListRoundRobinPolicy([host]))
    with _cluster([host], port, only, access, endpoints) as cluster:
        yield cluster.connect()


def touch(db: Session, keyspace: str) -> None:
    """Have the node of a session coordinate one read.

    Cassandra registers its client request histograms with the first request that a node
    coordinates; before it, nodetool proxyhistograms says "Server is not initialized yet".
    """
    db.execute(f"SELECT * FROM {keyspace}.spec WHERE spec_type = 'none'")  # noqa: S608


def replication(db: Session, keyspace: str) -> dict[str, str] | None:
    """A keyspace's replication, as system_schema.keyspaces has it; None if it is not there."""
    row = db.execute(
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", [keyspace]
    ).one()
    return dict(row.replication) if row else None


def statements(text: str) -> list[str]:
    """Split a CQL script (no semicolon or `--` inside its strings) into statements."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [s.strip() for s in "\n".join(lines).split(";") if s.strip()]


def _map(column: Any) -> dict[str, str]:
    """A map of the schema; the driver gives None for an empty one."""
    return dict(column or {})


def _schema(db: Session, keyspace: str) -> dict[str, Any]:
    tables = db.execute(
        "SELECT table_name, compression, compaction, id FROM system_schema.tables "
        "WHERE keyspace_name = %s",
        [keyspace],
    )
    return {row.table_name: (_map(row.compression), _map(row.compaction), row.id) for row in tables}


def apply_schema(db: Session, keyspace: str, script: str) -> bool:
    """Run a schema script; True if it changed anything."""
    before = _schema(db, keyspace)
    for statement in statements(script):
        execute(db, statement)
    return _schema(db, keyspace) != before


def execute(db: Session, statement: str) -> None:
    """Run one statement of a script.

    Raises:
        StatementError: which statement, on which node, what that said, and what to do.
    """
    future = None
    try:
        future = db.execute_async(statement)
        future.result()
    except SAID as error:
        host = getattr(future, "coordinator_host", None) if future else None
        where = f"storage node {host}" if host else "the storage nodes"
        raise StatementError(refusal(statement, where, error)) from error


def empty(db: Session, keyspace: str) -> None:
    """Take all points away; their series stay in the index. UserError if it is not done."""
    try:
        # All nodes have to answer, each after it wrote and unlinked its files.
        db.execute(f"TRUNCATE {keyspace}.data_points", timeout=120)
    except SAID as error:
        raise UserError(
            f"the points in {keyspace}.data_points could not be taken away: {error}. All storage "
            "nodes have to be up for it. See: make status"
        ) from error


def refusal(statement: str, where: str, error: Exception) -> str:
    """The sentence on a statement that the store did not carry out."""
    shown = " ".join(statement.split())
    # An exception of the driver has what the node said in `message`, without the code around it.
    said = str(getattr(error, "message", "") or error).strip()
    refused = isinstance(error, RequestValidationException | ErrorMessage)
    todo = (
        "Change what it names, in the experiment's storage settings or in "
        "kairosdb-conf/schema/schema.cql.j2; then deploy again: statements before this one stay"
        if refused
        else "Are all storage nodes up? See: make status; then deploy again, which goes on"
    )
    verb = "refuses" if refused else "did not carry out"
    return f"{where} {verb} the statement\n  {shown}\nand says: {said}\n{todo}."


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
    slices = list(row_slices(spans, row_width_ms(db, keyspace)))
    arguments = (
        (row_key(metric, row, tags, data_type), *columns)
        for metric, tags in series
        for row, *columns in slices
    )
    results = execute_concurrent_with_args(
        db, count, arguments, concurrency=concurrency, results_generator=True
    )
    return sum(result.one()[0] for _, result in results)


def timestamps_of_series(
    db: Session,
    keyspace: str,
    series: Iterable[tuple[str, dict[str, str], tuple[int, int]]],
    data_type: str = "kairos_long",
    concurrency: int = 16,
) -> Iterator[set[int]]:
    """Timestamps (epoch ms) that `data_points` has of each series, in the series' order.

    A series is its metric, its tags, and (first, last) epoch ms to look between, both included. At
    the session's consistency: with ALL every replica is asked, and one that lacks a row gets it
    from the others (read repair).

    The driver's errors, such as Unavailable, if a replica does not answer.
    """
    select = db.prepare(
        f"SELECT column1, value FROM {keyspace}.data_points "  # noqa: S608 (keyspace is ours)
        "WHERE key = ? AND column1 >= ? AND column1 <= ?"
    )
    row_width = row_width_ms(db, keyspace)
    left = iter(series)
    while some := list(itertools.islice(left, SERIES_AT_A_TIME)):
        slices = [
            (place, row, (row_key(metric, row, tags, data_type), *columns))
            for place, (metric, tags, span) in enumerate(some)
            for row, *columns in row_slices([span], row_width)
        ]
        found: list[set[int]] = [set() for _ in some]
        results = execute_concurrent_with_args(
            db, select, [arguments for *_, arguments in slices], concurrency, results_generator=True
        )
        for (place, row, _), (_, rows) in zip(slices, results, strict=True):
            found[place].update(row + struct.unpack(">i", one.column1)[0] for one in rows)
        yield from found


def row_slices(spans: list[tuple[int, int]], row_width: int) -> Iterator[tuple[int, bytes, bytes]]:
    """What to look at for each series: row time (ms), first and last column.

    `spans` are (first, last) epoch ms, both included; `row_width` as of `row_width_ms`.
    """
    for first, last in spans:
        for row in range(first - first % row_width, last + 1, row_width):
            # The offset in its row (source: RowSpec.getColumnName at tag v1.3.0).
            begin, end = max(first - row, 0), min(last - row, row_width - 1)
            yield row, column(begin), column(end)
