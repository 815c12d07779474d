"""What KairosDB and its storage nodes need of a machine: memory, asynchronous I/O, CPU, ports."""

from kairoscope.hosts import supervisor
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.java import JVM_OVERHEAD_MIB
from kairoscope.plan import Plan
from kairoscope.plan.draft import MIB
from kairoscope.stacks.kairosdb.settings.ports import SHARD_AWARE_PORT, STORAGE_TLS_PORT
from kairoscope.stacks.needs import Cpu, Listener, Memory, Needs, Slots

# What a ScyllaDB node takes beside the memory that it is given: its program, stacks, the kernel's
# side of its files.
SCYLLA_OVERHEAD_MIB = 200

# Cassandra keeps memtables beside its heap too, up to a fourth of it (cassandra_memtable_mib of its
# role). What a JVM takes beside its heap was measured of a node with this much of them.
MEMTABLES_MEASURED_MIB = 256

# Slots of the kernel's asynchronous I/O that each shard takes beside those for its connections
# (seastar/src/core/reactor.cc: max_aio, and two for its timer).
SCYLLA_STORAGE_SLOTS = 1_026

# Connections of one ScyllaDB shard that can be waited for at once, each in a slot of the kernel's
# asynchronous I/O (fs.aio-max-nr), of which a machine has 65,536 unless told otherwise. With
# ScyllaDB's own 50,000 (main.cc) one node would take nearly all of them.
SCYLLA_CONNECTIONS = 1_000

# CPU of this machine for a point, in µs: measured with three copies on two shared cores, on a good
# day, KairosDB and the loaders included (experiments/laptop.yml). The least that it takes, for a
# refusal; what a run is planned to take (`assume`, totals.cpu_cores) is more.
CPU_US_PER_POINT = 33

# A storage node or KairosDB that has nothing to do takes a tenth of a core for its timers, and one
# that starts all of it for half a minute.
SERVERS_PER_CORE = 4


def needs(plan: Plan) -> Needs:
    """What all of a plan's servers need together, where they share a machine."""
    cluster = plan.experiment.cluster
    storage, kairosdb = cluster.storage_nodes, cluster.kairosdb_nodes
    return Needs(
        _memory(plan),
        # What the queue leaves free is of no use to anybody, but must be there.
        kept_free_bytes=plan.kairosdb.get("queue_disk_free_mb", 0) * MIB,
        slots=_slots(plan) if plan.engine == "scylla" else None,
        cpu=Cpu(
            CPU_US_PER_POINT,
            "with three copies, KairosDB and the loaders together, on a good day; "
            "totals.cpu_cores has room for a bad one",
            servers=storage + kairosdb,
            named=f"{storage} storage nodes, {kairosdb} KairosDB",
            per_core=SERVERS_PER_CORE,
            fewer="cluster.storage_nodes or cluster.kairosdb_nodes",
        ),
    )


def memory_mib(plan: Plan, group: str) -> int | None:
    """What one server of a group of the inventory takes, in MiB; None where it takes what its host
    has, or the group has none."""
    if group == "kairosdb":
        return int(plan.kairosdb["heap_mb"]) + JVM_OVERHEAD_MIB
    if group != "storage":
        return None
    if plan.engine != "scylla":
        heap_mib = int(plan.storage["heap_mb"])
        return heap_mib + _beside_cassandra_mib(heap_mib)
    given = plan.storage.get("memory_mb")
    return None if given is None else int(given) + SCYLLA_OVERHEAD_MIB


def _beside_cassandra_mib(heap_mib: int) -> int:
    return JVM_OVERHEAD_MIB + max(0, heap_mib // 4 - MEMTABLES_MEASURED_MIB)


def memory_setting(plan: Plan, group: str) -> str:
    """What of an experiment says how much memory a server of a group is given."""
    if group == "kairosdb":
        return "kairosdb.heap_mb"
    return "storage.memory_mb" if plan.engine == "scylla" else "storage.heap_mb"


def _memory(plan: Plan) -> Memory:
    cluster, storage = plan.experiment.cluster, plan.storage
    lower = memory_setting(plan, "storage")
    if plan.engine != "scylla":
        heap_mib = int(storage["heap_mb"])
        each = f"{heap_mib} heap + {_beside_cassandra_mib(heap_mib)}"
    else:
        each = f"{storage['memory_mb']} memory + {SCYLLA_OVERHEAD_MIB}"
        if plan.experiment.storage.memory_mb is None and storage["shards"] > 1:
            lower = f"cluster.shards ({storage['shards']}, from which the memory is derived)"
    counts = {"storage": cluster.storage_nodes, "kairosdb": cluster.kairosdb_nodes}
    return Memory(
        sum(count * (memory_mib(plan, group) or 0) for group, count in counts.items()),
        f"{cluster.storage_nodes} storage nodes × ({each}) + {cluster.kairosdb_nodes} KairosDB × "
        f"({plan.kairosdb['heap_mb']} heap + {JVM_OVERHEAD_MIB})",
        f"{lower} or the number of nodes in the experiment",
    )


def _slots(plan: Plan) -> Slots:
    """Of ScyllaDB: Cassandra does without."""
    shards = int(plan.storage["shards"])
    return Slots(
        "ScyllaDB",
        plan.experiment.cluster.storage_nodes,
        shards * (SCYLLA_STORAGE_SLOTS + SCYLLA_CONNECTIONS),
        f"{shards} shards × ({SCYLLA_STORAGE_SLOTS:,} + {SCYLLA_CONNECTIONS:,} connections)",
        supervisor.is_scylla,
    )


def listeners(host: Host, *, watched: bool) -> list[Listener]:
    """What the server of a host listens on, as the inventory has it."""
    given, name = host.vars, host.name
    if host.role == "kairosdb":
        return [
            Listener(host.address, given["http_port"], f"REST of {name}"),
            Listener(host.address, given["telnet_port"], f"telnet of {name}"),
        ]
    metrics = Listener(given["prometheus_address"], given["prometheus_port"], f"metrics of {name}")
    common = [
        Listener(host.address, given["native_transport_port"], f"CQL of {name}"),
        Listener(host.address, given["storage_port"], f"node-to-node of {name}"),
    ]
    if "jmx_port" in given:
        return [
            *common,
            Listener("127.0.0.1", given["jmx_port"], f"JMX of {name}"),
            Listener(given["jolokia_address"], given["jolokia_port"], f"counts of {name}"),
            # By an agent, where somebody asks; ScyllaDB's are there in any case.
            *([metrics] if watched else []),
        ]
    tls = Listener(host.address, STORAGE_TLS_PORT, f"node-to-node by TLS of {name}")
    return [
        *common,
        *([tls] if given["secured"] else []),
        Listener(host.address, SHARD_AWARE_PORT, f"CQL by shard of {name}"),
        metrics,
        Listener(given["api_address"], given["api_port"], f"REST API of {name}"),
    ]
