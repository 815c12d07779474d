"""KairosDB on its store as a stack: what plan, deployment and run ask of what stands there."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from kairoscope import paths
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.machines import Layout, Machine
from kairoscope.hosts.supervisor import Process
from kairoscope.plan import Plan
from kairoscope.plan.draft import Draft
from kairoscope.plan.interfaces import Target
from kairoscope.stacks.kairosdb import needs, status, variables
from kairoscope.stacks.kairosdb.scylla import brought
from kairoscope.stacks.kairosdb.scylla.brought import Server
from kairoscope.stacks.kairosdb.session import Session, connect, not_judged
from kairoscope.stacks.kairosdb.settings import commitlog, kairosdb, notices, storage
from kairoscope.stacks.kairosdb.settings.commitlog import CommitLog
from kairoscope.stacks.kairosdb.settings.queue import Queue
from kairoscope.stacks.needs import Listener, Needs
from kairoscope.stacks.stack import Scraped
from loaders.schedule.protocols import CQL, REST, REST_GZIP, TELNET_PUT, TELNET_PUTM

# Where the engine has no shards: the threads that a node of a shared machine may count on.
EMBEDDED_SHARDS = 2
# Of a ScyllaDB node on a shared machine: a shard is a thread that does all the work of its part,
# and three nodes, KairosDB and the loader share a laptop's few cores.
SHARED_SHARDS = 1


@dataclass(frozen=True)
class Servers:
    """KairosDB as planned before the load is."""

    settings: dict[str, Any]
    queue: Queue
    log: CommitLog

    @property
    def held_s(self) -> float:
        """How long its queue keeps a point before it writes it, in s."""
        return self.queue.held_s


class KairosDB:
    """The stack; the engine under KairosDB, Cassandra or ScyllaDB, is a field of its plans."""

    name = "kairosdb"
    title = "KairosDB"
    acknowledgement = (
        "KairosDB acknowledges (204) what is in its queue's file: it survives a killed process, "
        "and with kairosdb.queue_sync_ms above 0 a loss of power as well. With kairosdb.queue "
        "stock it is what docs/limits.md says of KairosDB's own queue. By load.protocol cql it is "
        "the store that acknowledges, as many replicas as kairosdb.write_consistency says."
    )
    durable: ClassVar[Mapping[str, Any]] = {}
    fair = (
        "KairosDB has more memory than most: each of its storage nodes has the heap that the "
        "experiment says, and KairosDB its own, on the same cores. It stores what waits of a "
        "series when that is asked for: questions that come twice a second for all series undo "
        "what its queue gathers, and a few series are asked for beside them, for the time until "
        "their points are visible."
    )
    fixed = ()
    roles: ClassVar = {"storage": "storage", "kairosdb": "kairosdb"}
    taker = "KairosDB node"
    unused = ()
    protocols = (REST, REST_GZIP, TELNET_PUT, TELNET_PUTM, CQL)
    write_paths: ClassVar[Mapping[str, str]] = {}
    partly = ""
    playbooks = paths.ANSIBLE / "playbooks"
    bundles = ("kairosdb", "cassandra")
    scraped = (
        Scraped("storage", "storage", "prometheus_address", "prometheus_port"),
        Scraped(
            *("kairosdb", "kairosdb", "address", "http_port"),
            path="/api/v1/kairoscope/metrics",
            secured=True,
        ),
    )

    def engine(self, target: Target) -> str:
        """On hosts of its own ScyllaDB; on a machine that all share what needs no package."""
        return "cassandra" if target.shared else "scylla"

    def shards(self, draft: Draft) -> int:
        """Shards of a storage node where neither experiment nor target says."""
        return SHARED_SHARDS if draft.shared and draft.engine == "scylla" else EMBEDDED_SHARDS

    def servers(self, draft: Draft) -> Servers:
        """Record the settings of KairosDB and of the store's commit log."""
        if draft.experiment.system:
            draft.refuse(
                "system", "is for other stacks: KairosDB's settings are in its own section"
            )
        log = commitlog.settings(draft)
        values, queue = kairosdb.settings(draft, log)
        return Servers(values, queue, log)

    def store(self, draft: Draft, servers: Servers, now_s: float) -> dict[str, Any]:
        """Record the store's settings, disk and CPU; the final values for its templates."""
        values = storage.settings(draft, servers.queue, servers.log)
        storage.refuse_late_expiry(draft, now_s)
        storage.totals(draft, servers.settings["checkpoint_s"], servers.queue)
        return values

    def notices(self, draft: Draft, target: Target, servers: Servers) -> None:
        """Record what to know of engine and consistency."""
        notices.record(draft, target.name, servers.settings)

    def not_judged(self, plan: Plan) -> dict[str, str]:
        """What KairosDB tells, where the load goes past it."""
        return not_judged(plan)

    def connect(self, plan: Plan, hosts: Inventory) -> AbstractContextManager[Session]:
        """A run's ways to its servers."""
        return connect(plan, hosts)

    def show(self, hosts: Inventory, states: Mapping[str, Process], console: Console) -> bool:
        """Print the ring and KairosDB's queues; True if all is well."""
        return status.show(hosts, states, console)

    def fetch(self, console: Console) -> None:
        """Nothing beside the bundles."""

    def brought(self, plan: Plan, shared: bool, given: Path | None) -> Server | None:
        """The user's own ScyllaDB server that a plan is deployed with; None where it takes none.

        UserError if `given` (SCYLLA=) is not what the plan wants, or wanted and not given.
        """
        return brought.for_plan(plan, shared, given)

    def remember(self, target: str, server: Server) -> None:
        """Keep which server a target is deployed with."""
        brought.remember(target, server)

    def fresh_tokens(self, plan: Plan, node: int) -> list[str]:
        """Tokens that a node of a fresh cluster is given; none where it takes them itself."""
        return variables.fresh_tokens(plan, node)

    def of_all(
        self,
        plan: Plan,
        layout: Layout,
        shared: bool,
        folders: Mapping[str, str],
        brought: Server | None,
    ) -> dict[str, Any]:
        """Inventory variables of all hosts; see `variables.of_all`."""
        return variables.of_all(plan, layout, shared, folders, brought)

    def of_machine(
        self, plan: Plan, machine: Machine, layout: Layout, brought: Server | None
    ) -> dict[str, Any]:
        """Inventory variables of one host with servers; {} for the others."""
        return variables.of_machine(plan, machine, layout, brought)

    def needs(self, plan: Plan) -> Needs:
        """Of all servers together; see `kairosdb.needs`."""
        return needs.needs(plan)

    def listeners(self, host: Host, *, watched: bool) -> list[Listener]:
        """Of a storage node's engine, or of KairosDB."""
        return needs.listeners(host, watched=watched)
