"""Refuse, before anything is started, what this machine cannot take: ports, memory, disk."""

import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from kairoscope import paths, ready
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.deployed import plan_file
from kairoscope.hosts.inventory import (
    GROUPS,
    SCYLLA_CONNECTIONS,
    SHARD_AWARE_PORT,
    STORAGE_TLS_PORT,
    Host,
    Inventory,
)
from kairoscope.hosts.java import JVM_OVERHEAD_MIB
from kairoscope.plan import Plan

MIB = 1024 * 1024

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

_UNREACHED = "not reached by ssh"
_LOGIN_EVERY_S = 10

# CPU of this machine for a point, in µs: measured with three copies on two shared cores, on a good
# day, KairosDB and the loaders included (experiments/laptop.yml). The least that it takes, for a
# refusal; what a run is planned to take (`assume`, totals.cpu_cores) is more.
CPU_US_PER_POINT = 33

# A storage node or KairosDB that has nothing to do takes a tenth of a core for its timers, and one
# that starts all of it for half a minute.
SERVERS_PER_CORE = 4

# Deploying is refused only for so many times what the cores carry: a load beyond them may be what
# somebody wants to see, and other machines need less for a point.
HOPELESS = 4


@dataclass(frozen=True)
class Listener:
    """An address and TCP port that the deployment will listen on, and for what."""

    address: str
    port: int
    purpose: str


def listeners(target: Inventory) -> list[Listener]:
    """Every TCP address and port of a target's servers."""
    found = []
    for host in target.storage:
        found += [
            Listener(host.address, host.vars["native_transport_port"], f"CQL of {host.name}"),
            Listener(host.address, host.vars["storage_port"], f"node-to-node of {host.name}"),
            *_of_engine(host),
        ]
    for host in target.kairosdb:
        if "listens" in host.vars:
            found += [
                Listener(host.address, port, f"{what} of {host.name}")
                for what, port in host.vars["listens"].items()
            ]
            continue
        found += [
            Listener(host.address, host.vars["http_port"], f"REST of {host.name}"),
            Listener(host.address, host.vars["telnet_port"], f"telnet of {host.name}"),
        ]
    return found + _of_monitoring(target)


def _of_monitoring(target: Inventory) -> list[Listener]:
    """What listens where a target is watched, and does not where it is not."""
    found = []
    for host in target.storage if target.monitoring else []:
        given = host.vars
        if "jmx_port" in given:  # ScyllaDB's metrics are there in any case.
            address, port = given["prometheus_address"], given["prometheus_port"]
            found.append(Listener(address, port, f"metrics of {host.name}"))
    for host in target.monitoring:
        given = host.vars
        found += [
            Listener(given["monitoring_address"], given["prometheus_web_port"], "Prometheus"),
            Listener(given["node_exporter_address"], given["node_exporter_port"], "node exporter"),
        ]
    return found


def _of_engine(host: Host) -> list[Listener]:
    """What a storage node listens on beside CQL and the other nodes, as its inventory has it."""
    given = host.vars
    if "jmx_port" in given:
        return [
            Listener("127.0.0.1", given["jmx_port"], f"JMX of {host.name}"),
            Listener(given["jolokia_address"], given["jolokia_port"], f"counts of {host.name}"),
        ]
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
    processes = int(plan.load["workers"]) + cluster.loader_hosts
    loaders = processes * LOADER_MIB + SPARE_MIB
    if (servers := plan.totals.get("servers_mib")) is not None:
        if (needed := int(servers) + loaders) <= available_mib:
            return None
        return (
            f"too little memory: {needed:,} MiB needed ({servers:,} of the servers, {processes} "
            f"loader processes × {LOADER_MIB}, {SPARE_MIB} spare), {available_mib:,} MiB "
            "available. End other programs"
        )
    what, each, beside = "heap", int(plan.storage["heap_mb"]), JVM_OVERHEAD_MIB
    lower = "storage.heap_mb"
    if plan.engine == "scylla":
        what, each, beside = "memory", int(plan.storage["memory_mb"]), SCYLLA_OVERHEAD_MIB
        lower = "storage.memory_mb"
        if plan.experiment.storage.memory_mb is None and plan.storage["shards"] > 1:
            lower = f"cluster.shards ({plan.storage['shards']}, from which the memory is derived)"
    storage = cluster.storage_nodes * (each + beside)
    kairosdb = cluster.kairosdb_nodes * (int(plan.kairosdb["heap_mb"]) + JVM_OVERHEAD_MIB)
    needed = storage + kairosdb + loaders
    if needed <= available_mib:
        return None
    return (
        f"too little memory: {needed:,} MiB needed ({cluster.storage_nodes} storage nodes × "
        f"({each} {what} + {beside}) + "
        f"{cluster.kairosdb_nodes} KairosDB × ({plan.kairosdb['heap_mb']} heap + "
        f"{JVM_OVERHEAD_MIB}) + {processes} loader processes × {LOADER_MIB} + {SPARE_MIB} spare), "
        f"{available_mib:,} MiB available. Lower {lower} or the number of nodes in the "
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


def check_login(
    target: Inventory,
    boot_s: float = 0,
    say: Callable[[str], None] = print,
    spared: Collection[str] = (),
) -> list[str]:
    """Every host lets us in, as root by sudo, and has a Python. UserError: which not, and why.

    For `boot_s` seconds it is waited for those that ssh does not reach: they may start up still.
    Names of those that it does not reach then, where it can be done without their role: `spared`.
    """
    deadline = time.monotonic() + boot_s
    problems = dict.fromkeys((host.name for host in target.all), _UNREACHED)
    while asked := [host for host in target.all if _UNREACHED in problems[host.name]]:
        found = ssh.on_all(asked, _login_problem)
        problems |= {host.name: text for host, text in zip(asked, found, strict=True)}
        away = [name for name, text in problems.items() if _UNREACHED in text]
        if not away or time.monotonic() >= deadline:
            break
        say(f"waiting for {', '.join(away)} to answer …")
        time.sleep(_LOGIN_EVERY_S)
    away = [h.name for h in target.all if h.role in spared and _UNREACHED in problems[h.name]]
    if said := [text for name, text in problems.items() if text and name not in away]:
        raise UserError("Hosts that cannot be deployed to:\n  " + "\n  ".join(said))
    return away


def _login_problem(host: Host) -> str:
    """Why a host cannot be deployed to; "" if it can."""
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


def _advice(said: str) -> str:
    """What ssh or sudo said, and what to do about it."""
    reason = said.partition("ssh failed: ")[2]
    if reason:
        return (
            f"{_UNREACHED}: {reason}. Is it up, may this machine in, and are ansible_host, "
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


def cpu_problem(plan: Plan, cores: int, slack: float = 1) -> str | None:
    """Why this machine's cores do not carry the plan, or None.

    `slack`: how many times as much as they carry is still taken.
    """
    cluster = plan.experiment.cluster
    servers = cluster.storage_nodes + cluster.kairosdb_nodes
    if servers > slack * cores * SERVERS_PER_CORE:
        return (
            f"{servers} servers ({cluster.storage_nodes} storage nodes, {cluster.kairosdb_nodes} "
            f"KairosDB) on {cores} cores: more than {SERVERS_PER_CORE} a core mostly wait for each "
            "other. Lower cluster.storage_nodes or cluster.kairosdb_nodes, or take target hosts "
            "or aws"
        )
    # A replay is sent as fast as it is taken; what a point costs other systems is not known here.
    if plan.load["replay"] or "servers_mib" in plan.totals:
        return None
    rate = plan.totals["points_per_s"]
    needed = rate * CPU_US_PER_POINT / 1e6
    if needed <= slack * cores:
        return None
    return (
        f"{rate:,.0f} points/s take about {needed:,.1f} cores ({CPU_US_PER_POINT} µs of CPU a "
        "point with three copies, KairosDB and the loaders together, on a good day; "
        f"totals.cpu_cores has room for a bad one), this machine has {cores}: the run would "
        "measure the want of them. Lower SENSORS= or RATE=, or take target hosts or aws"
    )


def notices(plan: Plan, *, of_hosts: bool) -> list[str]:
    """What to know before a plan is deployed to this machine: that it does not carry it.

    `of_hosts`: see `_memory_mib`.
    """
    found = [
        memory_problem(plan, _memory_mib(plan, of_hosts=of_hosts)),
        cpu_problem(plan, psutil.cpu_count() or 1),
        *_resources_here(plan, of_hosts=of_hosts),
    ]
    return [f"This machine cannot carry it: {problem}" for problem in found if problem]


def _resources_here(plan: Plan, *, of_hosts: bool) -> list[str | None]:
    """What this machine lacks of asynchronous I/O and of disk.

    `of_hosts`: hosts that are made here have disks of their own, and those that are there already
    have their share of the rest: nothing is told of them then.
    """
    state = paths.target_dir(plan.target)
    if of_hosts:
        return [] if plan_file(plan.target).exists() else [check_aio(plan)]
    running = sum(supervisor.is_scylla(p.cmdline()) for p in supervisor.owned(state))
    there = next(path for path in (state, *state.parents) if path.is_dir())
    return [
        check_aio(plan, running),
        disk_problem(plan, shutil.disk_usage(there).free, state),
    ]


def _memory_mib(plan: Plan, *, of_hosts: bool) -> int:
    """What the plan's servers may have of this machine's memory.

    `of_hosts`: of hosts that are made here it is not told what they take: all of it, then.
    """
    memory = psutil.virtual_memory()
    if of_hosts:
        return int(memory.total) // MIB
    own = sum(_rss(process) for process in supervisor.owned(paths.target_dir(plan.target)))
    return int(memory.available + own) // MIB


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it has ended meanwhile
        return 0


def check_home() -> None:
    """UserError if deployments cannot be kept in their folder, or the checkout cannot be used."""
    if problem := ready.checkout_problem(paths.CHECKOUT) or ready.home_problem(paths.home()):
        raise UserError(problem)


def check_shared(plan: Plan, hosts: list[Host]) -> None:
    """Of a target whose servers are all on this machine, what can be told from the plan alone.

    `hosts`: with the ports of their servers, where those are processes of this machine itself.

    UserError with every problem, one line each; nothing was built or started then.
    """
    cores = psutil.cpu_count() or 1
    problems = [
        memory_problem(plan, _memory_mib(plan, of_hosts=not hosts)),
        cpu_problem(plan, cores, HOPELESS),
    ]
    if hosts:
        problems += _problems_here(plan, hosts)
    found = [problem for problem in problems if problem]
    if any("is taken by" in problem for problem in found):
        found.append("End that program, or deploy on other addresses: KAIROSCOPE_LOCAL_NET=127.0.7")
    if found:
        raise UserError("This machine cannot take the deployment:\n  " + "\n  ".join(found))


def _problems_here(plan: Plan, hosts: list[Host]) -> list[str | None]:
    state = paths.target_dir(plan.target)
    of_role = {role: [host for host in hosts if host.role == role] for role in GROUPS}
    return [
        ready.path_problem(state),
        *_resources_here(plan, of_hosts=False),
        *taken(listeners(Inventory(state, *of_role.values())), state),
    ]
