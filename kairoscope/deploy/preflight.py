"""Refuse, before anything is started, what this machine cannot take: ports, memory, disk.

What servers need the stack says (`kairoscope.stacks.needs`); here it is compared with the machine.
"""

import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path

import psutil

from kairoscope import paths, ready
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.deployed import plan_file
from kairoscope.hosts.inventory import GROUPS, Host, Inventory
from kairoscope.plan import Plan
from kairoscope.stacks.needs import Cpu, Listener, Memory, Needs, Slots
from kairoscope.stacks.stack import Stack

MIB = 1024 * 1024

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

# Deploying is refused only for so many times what the cores carry: a load beyond them may be what
# somebody wants to see, and other machines need less for a point.
HOPELESS = 4


def listeners(stack: Stack, target: Inventory) -> list[Listener]:
    """Every TCP address and port of a target's servers, and of what watches them."""
    watched = bool(target.monitoring)
    found = [each for host in target.hosts for each in stack.listeners(host, watched=watched)]
    for host in target.monitoring:
        given = host.vars
        found += [
            Listener(given["monitoring_address"], given["prometheus_web_port"], "Prometheus"),
            Listener(given["node_exporter_address"], given["node_exporter_port"], "node exporter"),
        ]
    return found


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


def memory_problem(plan: Plan, servers: Memory, available_mib: int) -> str | None:
    """Why the plan's servers and loaders do not fit in the available memory (MiB), or None."""
    processes = int(plan.load["workers"]) + plan.experiment.cluster.loader_hosts
    needed = servers.mib + processes * LOADER_MIB + SPARE_MIB
    if needed <= available_mib:
        return None
    return (
        f"too little memory: {needed:,} MiB needed ({servers.how} + {processes} loader processes × "
        f"{LOADER_MIB} + {SPARE_MIB} spare), {available_mib:,} MiB available. "
        f"{f'Lower {servers.lower}, or end' if servers.lower else 'End'} other programs."
    )


def aio_problem(slots: Slots, most: int, used: int, running: int = 0) -> str | None:
    """Why the kernel has too little asynchronous I/O for servers that need it, or None.

    `most` and `used` slots, of the whole machine; `running` servers have theirs.
    """
    needed = max(0, slots.servers - running) * slots.each
    if needed <= most - used:
        return None
    return (
        f"too little asynchronous I/O: {slots.of} needs {needed:,} slots "
        f"({slots.servers - running} nodes × {slots.how}), of {most:,} in fs.aio-max-nr {used:,} "
        "are taken. End what takes them (databases, virtual machines), or as root: "
        f"sysctl fs.aio-max-nr={used + needed}"
    )


def check_aio(needs: Needs, running: Collection[psutil.Process] = ()) -> str | None:
    """`aio_problem` of this machine as it is, on which processes of the target are `running`."""
    if needs.slots is None:
        return None
    there = sum(needs.slots.is_one(process.cmdline()) for process in running)
    most, used = (int(Path("/proc/sys/fs", name).read_text()) for name in ("aio-max-nr", "aio-nr"))
    return aio_problem(needs.slots, most, used, there)


def disk_problem(plan: Plan, needs: Needs, free_bytes: int, where: Path) -> str | None:
    """Why the plan does not fit on the disk, or None. `free_bytes` at `where`."""
    needed = int(plan.totals["disk_bytes"]) + needs.kept_free_bytes
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
    if not reason and ssh.NO_ANSWER in said:
        reason = said.rpartition(": ")[2]
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


def cpu_problem(plan: Plan, cpu: Cpu | None, cores: int, slack: float = 1) -> str | None:
    """Why this machine's cores do not carry the plan, or None.

    `slack`: how many times as much as they carry is still taken.
    """
    if cpu is None:
        return None
    if cpu.servers > slack * cores * cpu.per_core:
        return (
            f"{cpu.servers} servers ({cpu.named}) on {cores} cores: more than {cpu.per_core} a "
            f"core mostly wait for each other. Lower {cpu.fewer}, or take target hosts or aws"
        )
    # A replay is sent as fast as it is taken.
    if plan.load["replay"]:
        return None
    rate = plan.totals["points_per_s"]
    needed = rate * cpu.us_per_point / 1e6
    if needed <= slack * cores:
        return None
    return (
        f"{rate:,.0f} points/s take about {needed:,.1f} cores ({cpu.us_per_point:g} µs of CPU a "
        f"point {cpu.measured}), this machine has {cores}: the run would measure the want of them. "
        "Lower SENSORS= or RATE=, or take target hosts or aws"
    )


def notices(plan: Plan, needs: Needs, *, of_hosts: bool) -> list[str]:
    """What to know before a plan is deployed to this machine: that it does not carry it.

    `of_hosts`: see `_memory_mib`.
    """
    found = [
        memory_problem(plan, needs.memory, _memory_mib(plan, of_hosts=of_hosts)),
        cpu_problem(plan, needs.cpu, psutil.cpu_count() or 1),
        *_resources_here(plan, needs, of_hosts=of_hosts),
    ]
    return [f"This machine cannot carry it: {problem}" for problem in found if problem]


def _resources_here(plan: Plan, needs: Needs, *, of_hosts: bool) -> list[str | None]:
    """What this machine lacks of asynchronous I/O and of disk.

    `of_hosts`: hosts that are made here have disks of their own, and those that are there already
    have their share of the rest: nothing is told of them then.
    """
    state = paths.target_dir(plan.target)
    if of_hosts:
        return [] if plan_file(plan.target).exists() else [check_aio(needs)]
    there = next(path for path in (state, *state.parents) if path.is_dir())
    return [
        check_aio(needs, supervisor.owned(state)),
        disk_problem(plan, needs, shutil.disk_usage(there).free, state),
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


def check_shared(plan: Plan, stack: Stack, hosts: list[Host]) -> None:
    """Of a target whose servers are all on this machine, what can be told from the plan alone.

    `hosts`: with the ports of their servers, where those are processes of this machine itself.

    UserError with every problem, one line each; nothing was built or started then.
    """
    needs = stack.needs(plan)
    problems = [
        memory_problem(plan, needs.memory, _memory_mib(plan, of_hosts=not hosts)),
        cpu_problem(plan, needs.cpu, psutil.cpu_count() or 1, HOPELESS),
    ]
    if hosts:
        problems += _problems_here(plan, stack, hosts)
    found = [problem for problem in problems if problem]
    if any("is taken by" in problem for problem in found):
        found.append("End that program, or deploy on other addresses: KAIROSCOPE_LOCAL_NET=127.0.7")
    if found:
        raise UserError("This machine cannot take the deployment:\n  " + "\n  ".join(found))


def _problems_here(plan: Plan, stack: Stack, hosts: list[Host]) -> list[str | None]:
    state = paths.target_dir(plan.target)
    of_role = {role: [host for host in hosts if host.role == role] for role in GROUPS}
    return [
        ready.path_problem(state),
        *_resources_here(plan, stack.needs(plan), of_hosts=False),
        *taken(listeners(stack, Inventory(state, *of_role.values())), state),
    ]
