"""Refuse, before anything is started, what this machine cannot take: ports, memory, disk."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.inventory import (
    SCYLLA_CONNECTIONS,
    SHARD_AWARE_PORT,
    STORAGE_TLS_PORT,
    Host,
    Inventory,
)
from kairoscope.plan import Plan

MIB = 1024 * 1024

# What a JVM takes beside its heap: code, threads, direct buffers. A storage node with a heap of
# 1,024 MiB was seen to take 1,417 MiB in all (the README's measured run).
JVM_OVERHEAD_MIB = 550

# What a ScyllaDB node takes beside the memory that it is given: its program, stacks, the kernel's
# side of its files.
SCYLLA_OVERHEAD_MIB = 200

# Slots of the kernel's asynchronous I/O that each shard takes beside those for its connections
# (seastar/src/core/reactor.cc: max_aio, and two for its timer).
SCYLLA_STORAGE_SLOTS = 1_026

# A loader process, and the agent of a loader host: rounded up from `max_rss_bytes`, which a run
# writes for each worker (load/worker-<i>.json).
LOADER_MIB = 64

# Left to the machine and the page cache.
SPARE_MIB = 576

# What our own probes need (ansible-core less), and the loader; Ubuntu 22.04 has 3.10.
HOST_PYTHON = (3, 10)
LOADER_PYTHON = (3, 11)

# The longest path of a Unix socket on Linux is 107 bytes; supervisord appends its process id.
SOCKET_PATH_MAX = 107 - len(".4194304")


@dataclass(frozen=True)
class Listener:
    """An address and TCP port that the deployment will listen on, and for what."""

    address: str
    port: int
    purpose: str


def listeners(inventory: Inventory) -> list[Listener]:
    """Every TCP address and port of the target's instances."""
    found = []
    for host in inventory.storage:
        found += [
            Listener(host.address, host.vars["native_transport_port"], f"CQL of {host.name}"),
            Listener(host.address, host.vars["storage_port"], f"node-to-node of {host.name}"),
            *_of_engine(host),
        ]
    for host in inventory.kairosdb:
        found += [
            Listener(host.address, host.vars["http_port"], f"REST of {host.name}"),
            Listener(host.address, host.vars["telnet_port"], f"telnet of {host.name}"),
        ]
    return found


def _of_engine(host: Host) -> list[Listener]:
    """What a storage node listens on beside CQL and the other nodes, as its inventory has it."""
    given = host.vars
    if "jmx_port" in given:
        return [Listener("127.0.0.1", given["jmx_port"], f"JMX of {host.name}")]
    tls = Listener(host.address, STORAGE_TLS_PORT, f"node-to-node by TLS of {host.name}")
    return [
        *([tls] if given["secured"] else []),
        Listener(host.address, SHARD_AWARE_PORT, f"CQL by shard of {host.name}"),
        Listener(given["prometheus_address"], given["prometheus_port"], f"metrics of {host.name}"),
        Listener(given["api_address"], given["api_port"], f"REST API of {host.name}"),
    ]


def taken(wanted: list[Listener], state: Path) -> list[str]:
    """Ports that somebody else listens on, one line each, with the process where it can be seen."""
    ours = {p.pid for p in supervisor.owned(state)}
    by_port: dict[int, list[tuple[str, int | None]]] = {}
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr:
            ip, port = connection.laddr
            by_port.setdefault(port, []).append((ip, connection.pid))
    lines = []
    for listener in wanted:
        for ip, pid in by_port.get(listener.port, []):
            clash = ip.removeprefix("::ffff:") in (listener.address, "0.0.0.0", "::")  # noqa: S104
            if clash and pid not in ours:
                who = f"process {pid} ({_name(pid)})" if pid else "another user's process"
                where = f"{listener.address}:{listener.port}"
                lines.append(f"{where} ({listener.purpose}) is taken by {who}")
    return lines


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "gone meanwhile"


def memory_problem(plan: Plan, available_mib: int) -> str | None:
    """Why the plan does not fit in the available memory (MiB), or None."""
    cluster = plan.experiment.cluster
    what, each, beside = "heap", int(plan.storage["heap_mb"]), JVM_OVERHEAD_MIB
    if plan.engine == "scylla":
        what, each, beside = "memory", int(plan.storage["memory_mb"]), SCYLLA_OVERHEAD_MIB
    storage = cluster.storage_nodes * (each + beside)
    kairosdb = cluster.kairosdb_nodes * (int(plan.kairosdb["heap_mb"]) + JVM_OVERHEAD_MIB)
    processes = int(plan.load["workers"]) + cluster.loader_hosts
    needed = storage + kairosdb + processes * LOADER_MIB + SPARE_MIB
    if needed <= available_mib:
        return None
    return (
        f"too little memory: {needed:,} MiB needed ({cluster.storage_nodes} storage nodes × "
        f"({each} {what} + {beside}) + "
        f"{cluster.kairosdb_nodes} KairosDB × ({plan.kairosdb['heap_mb']} heap + "
        f"{JVM_OVERHEAD_MIB}) + {processes} loader processes × {LOADER_MIB} + {SPARE_MIB} spare), "
        f"{available_mib:,} MiB available. Lower storage.{what}_mb or the number of nodes in the "
        "experiment, or end other programs."
    )


def aio_problem(plan: Plan, most: int, used: int, running: int = 0) -> str | None:
    """Why the kernel has too little asynchronous I/O for the plan's ScyllaDB nodes, or None.

    `most` and `used` slots, of the whole machine; `running` nodes have theirs.
    """
    if plan.engine != "scylla":
        return None
    nodes, shards = plan.experiment.cluster.storage_nodes, int(plan.storage["shards"])
    each = shards * (SCYLLA_STORAGE_SLOTS + SCYLLA_CONNECTIONS)
    needed = max(0, nodes - running) * each
    if needed <= most - used:
        return None
    return (
        f"too little asynchronous I/O: ScyllaDB needs {needed:,} slots ({nodes - running} nodes × "
        f"{shards} shards × ({SCYLLA_STORAGE_SLOTS:,} + {SCYLLA_CONNECTIONS:,} connections)), of "
        f"{most:,} in fs.aio-max-nr {used:,} are taken. End what takes them (databases, virtual "
        f"machines), or as root: sysctl fs.aio-max-nr={used + needed}"
    )


def check_aio(plan: Plan, running: int = 0) -> str | None:
    """`aio_problem` of this machine as it is, of which `running` ScyllaDB nodes are a part."""
    most, used = (int(Path("/proc/sys/fs", name).read_text()) for name in ("aio-max-nr", "aio-nr"))
    return aio_problem(plan, most, used, running)


def disk_problem(plan: Plan, free_bytes: int, where: Path) -> str | None:
    """Why the plan does not fit on the disk, or None. `free_bytes` at `where`."""
    # What the queue leaves free is of no use to anybody, but must be there.
    floor = plan.kairosdb.get("queue_disk_free_mb", 0) * MIB
    needed = int(plan.totals["disk_bytes"]) + floor
    if needed <= free_bytes:
        return None
    return (
        f"too little disk: about {needed / 1e9:.1f} GB needed (see `kairoscope plan`), "
        f"{free_bytes / 1e9:.1f} GB free at {where}. Free some, lower SENSORS= or DURATION=, "
        "or set KAIROSCOPE_HOME= to a larger disk."
    )


def check_login(inventory: Inventory) -> None:
    """Every host lets us in, as root by sudo, and has a Python. UserError: which not, and why."""

    def problem(host: Host) -> str:
        try:
            version = ssh.run(
                host, ["python3", "-c", "import sys; print(*sys.version_info[:2])"], sudo=True
            )
        except ssh.RemoteError as error:
            return f"{host.name} ({host.address}): {_advice(str(error))}"
        needed = LOADER_PYTHON if host.role == "loader" else HOST_PYTHON
        if tuple(map(int, version.split())) < needed:
            found = version.strip().replace(" ", ".")
            return (
                f"{host.name} ({host.address}): its python3 is {found}, "
                f"{'.'.join(map(str, needed))} or newer is needed"
            )
        return ""

    if found := [text for text in ssh.on_all(inventory.all, problem) if text]:
        raise UserError("Hosts that cannot be deployed to:\n  " + "\n  ".join(found))


def _advice(said: str) -> str:
    """What ssh or sudo said, and what to do about it."""
    reason = said.partition("ssh failed: ")[2]
    if reason:
        return (
            f"not reached by ssh: {reason}. Is it up, may this machine in, and are ansible_host, "
            "ansible_user and the key right?"
        )
    if "sudo" in said.partition(": ")[2].partition(": ")[2]:
        last = said.rpartition(": ")[2]
        return (
            f"sudo is refused: {last}. The login needs root without a password "
            "(NOPASSWD in sudoers), or must be root."
        )
    if "not found" in said:
        return "it has no python3, which Ansible needs: apt-get install python3"
    return said


def path_problem(state: Path) -> str | None:
    """Why the folder's name cannot be used, or None."""
    if re.search(r"[^\w./+@,=-]", str(state)):
        return (
            f"the path {state} has blanks or special characters, which command lines of the "
            "servers cannot carry. Move the checkout, or set KAIROSCOPE_HOME= to another folder."
        )
    sock = state / "supervisor" / "sock"
    if len(str(sock)) > SOCKET_PATH_MAX:
        return (
            f"the path {sock} is longer than a Unix socket's may be ({SOCKET_PATH_MAX}). "
            "Set KAIROSCOPE_HOME= to a shorter folder."
        )
    return None


def check_local(plan: Plan, inventory: Inventory) -> None:
    """All checks of the `local` target. UserError with every problem, one line each."""
    state = paths.target_dir("local")
    owned = supervisor.owned(state)
    own = sum(p.memory_info().rss for p in owned)
    available_mib = (psutil.virtual_memory().available + own) // MIB
    running = sum(supervisor.is_scylla(p.cmdline()) for p in owned)
    problems = [
        path_problem(state),
        memory_problem(plan, available_mib),
        check_aio(plan, running),
        disk_problem(plan, shutil.disk_usage(state).free, state),
        *taken(listeners(inventory), state),
    ]
    found = [p for p in problems if p]
    if any("is taken by" in p for p in found):
        found.append("End that program, or deploy on other addresses: KAIROSCOPE_LOCAL_NET=127.0.7")
    if found:
        raise UserError("This machine cannot take the deployment:\n  " + "\n  ".join(found))
