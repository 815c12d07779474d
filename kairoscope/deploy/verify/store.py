"""Checks of the storage nodes as one database."""

from collections.abc import Iterable

from kairoscope.deploy.verify import answers, wire
from kairoscope.deploy.verify.check import of_each
from kairoscope.deploy.verify.context import Context
from kairoscope.deploy.verify.finding import Finding
from kairoscope.hosts.inventory import Host
from kairoscope.stacks.kairosdb.servers import cql, database_roles, nodetool


def ring(context: Context, check: str) -> Iterable[Finding]:
    """All storage nodes are up and normal, as each of them sees it."""
    wanted = [host.address for host in context.hosts.storage]

    def look(host: Host) -> tuple[str, bool]:
        found = nodetool.ring(nodetool.run(host, "status"))
        problems = nodetool.ring_problems(found, wanted)
        return ", ".join(problems) or f"{len(found)} UN", not problems

    return of_each(check, context.storage, f"{len(wanted)} UN", look)


def schema(context: Context, check: str) -> Iterable[Finding]:
    """All nodes have the same schema."""

    def look(host: Host) -> tuple[str, bool]:
        versions = answers.schema_versions(nodetool.run(host, "describecluster"))
        found = ", ".join(f"{name[:8]}: {len(nodes)} nodes" for name, nodes in versions.items())
        return found or "none", answers.schema_well(versions, len(context.hosts.storage))

    wanted = f"one, of {len(context.hosts.storage)} nodes"
    return of_each(check, context.storage[:1], wanted, look)


def replication(context: Context, check: str) -> Iterable[Finding]:
    """The keyspace has the planned copies, and where there are roles they have several too."""
    if not context.storage:
        return
    keyspace = str(context.hosts.storage[0].vars["kairosdb_keyspace"])
    with context.client.cql(context.storage) as session:
        there = answers.replicas(cql.replication(session, keyspace) or {})
        roles = database_roles.replication_of_roles(session) if context.client.access else None
    wanted = answers.replication(context.plan)
    yield Finding.of(check, keyspace, _copies(there), _copies(wanted), there == wanted)
    # Without it nobody can log in once the node with the only copy is down.
    if roles is not None:
        least = min(len(context.hosts.storage), 2)
        copies = answers.replicas(roles)
        well = sum(copies.values()) >= least
        name = database_roles.AUTH_KEYSPACE
        yield Finding.of(check, name, _copies(copies), f"{least} or more", well)


def _copies(replicas: dict[str, int]) -> str:
    return ", ".join(f"{name}: {copies}" for name, copies in replicas.items()) or "not there"


# Of what CQL's SUPPORTED has in every release (github.com/scylladb/scylladb, docs/dev/
# protocol-extensions.md, and make_supported in transport/server.cc at 5.2.19).
_SHARDS = "SCYLLA_NR_SHARDS"


def shards(context: Context, check: str) -> Iterable[Finding]:
    """ScyllaDB's nodes have the shards that KairosDB's connections and the store's memory are of.

    How many there are is the host's setup to say, which keeps threads for interrupts.
    """
    wanted = int(context.plan.storage["shards"])

    def look(host: Host) -> tuple[str, bool]:
        endpoint = context.client.ways.endpoint(host)
        (found, *_) = wire.cql_supported(endpoint, context.client.tls).get(_SHARDS, ["not told"])
        well = found == str(wanted)
        return found if well else f"{found}: say so, by cluster.shards of the experiment", well

    return of_each(check, context.storage, f"{wanted}, as planned", look)
