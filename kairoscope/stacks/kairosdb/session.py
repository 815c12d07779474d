"""A run's ways to KairosDB and its store: is it ready, what is captured, how it is read back."""

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cassandra import ConsistencyLevel
from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.plan import Plan
from kairoscope.run_folder import Expected, JsonLines
from kairoscope.stacks.kairosdb import asking
from kairoscope.stacks.kairosdb.captures.queue_depth import QueueDepth
from kairoscope.stacks.kairosdb.captures.store import Captures
from kairoscope.stacks.kairosdb.given_up import failed_logs, of_run, removed_nodes
from kairoscope.stacks.kairosdb.readback import queries, read_run, replicas, scan
from kairoscope.stacks.kairosdb.servers import client, cql, engine, nodetool
from kairoscope.stacks.kairosdb.servers.client import Client
from kairoscope.stacks.questions import Asks
from kairoscope.stacks.stack import Probe, ReadBack
from kairoscope.verdict.settlement import AtAll, FailedPoint, Gap, SeriesResult
from loaders.credentials import Credentials
from loaders.schedule.due import Schedule, Series
from loaders.schedule.protocols import CQL
from loaders.schedule.spec import LoadSpec, Store
from loaders.schedule.values import ValueType
from loaders.send.kairos_rows import type_name

_NOTHING_WAITS = (
    "points go into the store past KairosDB, and what is acknowledged is stored: nothing waits"
)


def not_judged(plan: Plan) -> dict[str, str]:
    """Parts of the verdict of a run of the plan that have no figure, and why."""
    parts = ("queue", "drain") if plan.load["protocol"] == CQL else ()
    return dict.fromkeys(parts, _NOTHING_WAITS)


@contextmanager
def connect(plan: Plan, hosts: Inventory) -> Iterator["Session"]:
    """The session of a run of the plan. UserError if there is no way to the servers."""
    with client.connect(hosts) as talk:
        yield Session(plan, hosts, talk)


class Session:
    """One run's; see `kairoscope.stacks.stack.Session`."""

    def __init__(self, plan: Plan, hosts: Inventory, talk: Client) -> None:
        self._plan = plan
        self._hosts = hosts
        self._talk = talk
        self._servers: dict[str, engine.Server] = {}
        self._folder = Path()
        self._started_s = 0.0
        self._events: JsonLines | None = None

    @property
    def _by_cql(self) -> bool:
        return bool(self._plan.load["protocol"] == CQL)

    @property
    def _keyspace(self) -> str:
        return str(self._hosts.storage[0].vars["kairosdb_keyspace"])

    def _urls(self) -> list[str]:
        """The KairosDB nodes that are there, as this machine reaches them."""
        return [self._talk.url(host) for host in self._hosts.kairosdb if not self.removed(host)]

    # What there is

    def check_ready(self) -> None:
        """Every KairosDB node is healthy and takes points, every storage node is what it should."""
        for host in self._hosts.kairosdb:
            found = self._talk.kairosdb(host)
            if not found.healthy:
                why = "".join(f" {trouble}" for trouble in found.troubles)
                raise UserError(f"{host.name} at {host.url} is not healthy.{why} See: make status")
            if found.read_only:
                raise UserError(f"{host.name} at {host.url} is in read-only mode. See its log.")
        storage = self._hosts.storage
        answers = ssh.on_all(storage, self._talk.server)
        self._servers = {host.name: said for host, said in zip(storage, answers, strict=True)}
        name = str(storage[0].vars["storage_engine"])
        wanted = str(storage[0].vars[f"{name}_version"])
        if wrong := engine.problems(self._servers, name, wanted):
            raise UserError(
                "The storage nodes are not what was deployed, so no figure of a run would be what "
                f"it says: {'; '.join(wrong)}. First: make deploy with the same EXPERIMENT="
            )

    def versions(self) -> dict[str, str]:
        """KairosDB, its driver and Java, the engine as its nodes say it."""
        first = self._hosts.kairosdb[0]
        return {
            "kairosdb": str(first.vars["kairosdb_version"]),
            **engine.summary(self._servers),
            "driver": str(first.vars.get("kairosdb_driver", "unknown")),
            "java": _java(first),
        }

    def untold(self) -> list[str]:
        """Storage nodes that did not say what they are."""
        return engine.untold(self._servers)

    def expected(self) -> Expected:
        """Histograms and disk of the store, shards where it has any, processes of all servers."""
        storage = [host.name for host in self._hosts.storage]
        scylla = self._hosts.storage[0].vars["storage_engine"] == "scylla"
        everyone = [host.name for host in self._hosts.hosts]
        return Expected(
            storage,
            storage if scylla else [],
            everyone,
            disk=True,
            not_judged=not_judged(self._plan),
            window=storage,
        )

    def begin(self, folder: Path, started_s: float, events: JsonLines) -> None:
        """There is a run folder."""
        self._folder, self._started_s, self._events = folder, started_s, events

    def _note(self, what: str, detail: str) -> None:
        assert self._events is not None  # `begin` comes before all that has something to tell
        self._events.write(t=datetime.now(UTC).timestamp(), what=what, detail=detail)

    def removed(self, host: Host) -> bool:
        """Whether one of our verbs took the host away since the run began."""
        return removed_nodes.since(self._plan.target, host, self._started_s)

    def endpoints(self) -> tuple[list[str], list[str]]:
        """REST and telnet of all KairosDB nodes."""
        nodes = self._hosts.kairosdb
        return [h.url for h in nodes], [f"{h.address}:{h.vars['telnet_port']}" for h in nodes]

    def store(self) -> Store | None:
        """The storage nodes, for a load by CQL."""
        if not self._by_cql:
            return None
        plan = self._plan
        return Store(
            [f"{h.address}:{h.vars['native_transport_port']}" for h in self._hosts.storage],
            self._keyspace,
            plan.kairosdb["write_consistency"],
            plan.storage["ttl_s"],
            plan.kairosdb["batch_size"],
        )

    @property
    def credentials(self) -> Credentials | None:
        """Of KairosDB's REST interface."""
        access = self._talk.access
        return access.loader_credentials if access else None

    # What is captured

    def waiting_now(self) -> list[dict[str, Any]]:
        """What waits in KairosDB's queues; their own queue does not tell its bytes."""

        def ask(host: Host) -> dict[str, Any]:
            try:
                said = self._talk.get_json(host, "/api/v1/kairoscope/queue", timeout_s=5)
            except OSError:
                said = {}
            return {"node": host.name, **{key: said.get(key) for key in ("waiting", "disk_bytes")}}

        return ssh.on_all(self._hosts.kairosdb, ask)

    def empty(self) -> None:
        """Truncate the table of points. UserError if a storage node is away."""
        with self._talk.cql(self._hosts.storage) as db:
            cql.empty(db, self._keyspace)

    def compacts(self) -> bool:
        """Whether a storage node has compactions to do; one that cannot be asked has none."""
        return any(ssh.on_all(self._hosts.storage, nodetool.compacts))

    def backlog(self) -> QueueDepth | None:
        """KairosDB's queues; None for a load that goes past them."""
        if self._by_cql:
            return None
        file = JsonLines(self._folder / run_folder.QUEUE)
        return QueueDepth(self._hosts.kairosdb, self._talk, file, self.removed)

    def captures(self) -> Captures:
        """Latencies, counters and shards of the store."""
        assert self._events is not None
        return Captures(
            self._hosts.storage,
            self._talk,
            self._folder,
            self._events,
            self._plan.experiment.capture,
            self.removed,
        )

    # What is read back

    def refuse_old_history(self, schedule: Schedule) -> None:
        """UserError if the store has points of these series in the time to be replayed already."""
        there = asyncio.run(
            queries.already_there(schedule, nodes=self._urls(), access=self._talk.access)
        )
        if there:
            spec = schedule.spec
            since, until = (
                datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                for ms in (spec.start_ms, spec.end_ms)
            )
            raise UserError(
                f"The store has {there:,} points of the first of these series between {since} and "
                f"{until}, from an earlier run: what a replay finds again there would prove "
                "nothing. Set another load.metric, or: make destroy deploy"
            )

    def read_back(
        self,
        schedule: Schedule,
        incomplete: Callable[[SeriesResult], bool],
        on_result: Callable[[SeriesResult], None],
        console: Console,
    ) -> ReadBack:
        """Every point from the store by a scan, a sample of the series through KairosDB too."""
        level = self._plan.kairosdb["read_consistency"]
        waiting: int | None = None

        def look() -> None:
            nonlocal waiting
            nodes = self.waiting_now()
            # KairosDB's own queue, which tells no bytes, leaves out what is on its way.
            known = all(node["disk_bytes"] is not None for node in nodes)
            waiting = sum(node["waiting"] for node in nodes) if known else None

        with (
            live.stage(console, "read back from the store", schedule.points, "points") as shown,
            self._talk.cql(self._hosts.storage, ConsistencyLevel.name_to_value[level]) as db,
        ):
            scanned = scan.read(schedule, self._keyspace, db, shown)
        with live.stage(console, "read back through KairosDB", None, "series") as shown:
            extent, recount = read_run.read_run(
                schedule,
                scanned,
                incomplete,
                on_result,
                read_run.ThroughKairosDB(self._urls(), self._talk.access),
                level,
                shown,
                on_last=look,
            )

        def rows() -> int:
            return read_run.rows(scanned, recount, lambda some: self._rows(schedule, some, console))

        return ReadBack(extent.passes, extent.text, rows, waiting)

    def _rows(self, schedule: Schedule, some: list[Series], console: Console) -> int:
        """Rows of series that the scan did not show whole, counted at LOCAL_QUORUM."""
        spec = schedule.spec
        with (
            self._talk.cql(self._hosts.storage) as db,
            live.stage(console, "row counts by CQL", len(some), "series") as shown,
        ):
            series = (
                (spec.metric_name(one.number), spec.tags_of(one.number))
                for one in live.counted(some, shown)
            )
            spans = queries.spans(schedule)
            kind = type_name(ValueType(spec.value_type))
            return cql.rows_of_series(db, self._keyspace, series, spans, kind)

    def visible(self, schedule: Schedule) -> None:
        """A query has what waits of its series stored first, so that asking changes the answer."""

    def probe(self) -> dict[str, Probe]:
        """A load shows all that was published of it."""
        return {}

    def asks(self) -> Asks:
        """Of the KairosDB nodes in turn."""
        return functools.partial(asking.requests, self._urls())

    def given_up(self, spec: LoadSpec, on_silent: Callable[[str], None]) -> Iterator[FailedPoint]:
        """The run's points in failed.log files and dead letters, of nodes that left too."""
        copies: list[Path] = []
        for host in self._hosts.kairosdb:
            if self.removed(host):
                copies += removed_nodes.given_up(self._plan.target, host)
                continue
            try:
                copies += failed_logs.fetch(host, self._folder / run_folder.FAILED_LOGS)
            except UserError as error:
                on_silent(
                    f"points given up by {host.name} cannot be told from missing ones: {error}"
                )
        return of_run.points(spec, copies, int(self._started_s * 1000))

    def look_on_all_replicas(self, gaps: list[Gap]) -> AtAll:
        """A read at ALL, which repairs what it finds."""
        schedule = gaps[0].schedule
        data_type = type_name(ValueType(schedule.spec.value_type))

        def on_replicas(wanted: Iterator[replicas.Wanted]) -> Iterator[set[int]]:
            with self._talk.cql(self._hosts.storage, ConsistencyLevel.ALL) as db:
                yield from cql.timestamps_of_series(db, self._keyspace, wanted, data_type)

        def again(series: list[Series], add: Callable[[SeriesResult], None]) -> None:
            asyncio.run(
                queries.read_once(
                    schedule, series, add, nodes=self._urls(), access=self._talk.access
                )
            )

        level = self._plan.kairosdb["read_consistency"]
        found = replicas.look(gaps, level, on_replicas, again)
        if found.problem:
            self._note("read at ALL failed", found.problem)
        return found


def _java(host: Host) -> str:
    try:
        # It says so on stderr.
        said = ssh.run(host, ["sh", "-c", f"exec {host.vars['java']} -version 2>&1"])
    except ssh.RemoteError:
        return "unknown"
    return said.splitlines()[0]
