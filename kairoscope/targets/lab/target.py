"""Target `lab`: hosts made on this machine, one for each part of the plan."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kairoscope import paths
from kairoscope.experiment.faults import Fault
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.machines import Machine, Machines
from kairoscope.plan import Plan
from kairoscope.targets.lab import Lab, LabHost, servers, system
from kairoscope.targets.target import Options, Say, Target

# One /24; its first address is the control machine's.
_NET = "10.77.0"
# A file that takes of this machine's disk what is written to it. KairosDB's queue may have 4 GiB
# (`SHARED_QUEUE_DISK_MIB`), and a store as much as a load of a lab writes in a day.
_DATA_DISK_MIB = 16 * 1024
_FIRST = {"storage": 11, "kairosdb": 101, "loader": 201, "monitoring": 251}
_WITH_DATA = ("storage", "kairosdb")
# A second, reads and writes each: a tenth of a second for one that waits for the one before.
_SLOW_OPERATIONS = 10
_ELSEWHERE = (
    "ScyllaDB keeps its data in /var/lib/scylla, which on the lab is on this machine's own disk"
)
_NOT_OF_SCYLLA = {
    "fill-disk": _ELSEWHERE,
    "slow-disk": _ELSEWHERE,
    "clock": "ScyllaDB brings a C library of its own along, for which there is no libfaketime",
}


def lab() -> Lab:
    """The target's lab."""
    return Lab(paths.target_dir("lab"))


def hosts(plan: Plan, *, watched: bool = False) -> dict[str, list[LabHost]]:
    """The hosts that a plan needs, by role; with one that watches them if `watched`.

    None of a role that the stack does not have.
    """
    cluster = plan.experiment.cluster
    counts = {
        "storage": cluster.storage_nodes,
        "kairosdb": cluster.kairosdb_nodes,
        "loader": cluster.loader_hosts,
        "monitoring": int(watched),
    }
    called = {**plan.roles, "loader": "loader", "monitoring": "monitoring"}
    return {
        role: [
            LabHost(
                f"{called[role]}-{i + 1}",
                f"{_NET}.{_FIRST[role] + i}",
                _DATA_DISK_MIB if role in _WITH_DATA else None,
            )
            for i in range(count)
        ]
        for role, count in counts.items()
        if role in called
    }


class LabTarget(Target):
    """Hosts with systemd, disks and a network of their own, and one kernel for all."""

    name = "lab"
    shared = True
    thrown_away = True
    makes_anew = True
    levers = (
        *("kill", "freeze", "restart", "partition", "loss", "delay"),
        *("fill-disk", "slow-disk", "clock", "expire-certificate"),
    )

    def __init__(self) -> None:
        self._entered: Lab | None = None

    def provision(
        self, plan: Plan, options: Options, say: Say, begin: Callable[[], None]
    ) -> Machines:
        """Have the plan's hosts running; goes on in their network. UserError if it cannot."""
        wanted = hosts(plan, watched=self.watched(options))
        everyone = [host for group in wanted.values() for host in group]
        here = lab()
        there = {found.host.name: found.host for found in here.hosts()}
        # One of an earlier version of this keeps the disk that it was made with.
        here.up([_as_made(host, there.get(host.name)) for host in everyone], say)
        # Loader hosts hold nothing; a deploy refuses to take others away.
        for found in here.hosts():
            if found.host.name.startswith("loader-") and found.host not in everyone:
                here.remove(found.host.name)
        machines = [
            Machine(host.name, role, host.address, here.inventory_vars(host.name))
            for role, group in wanted.items()
            for host in group
        ]
        self.enter()
        return Machines(
            machines,
            cluster_name="kairoscope lab",
            variables={
                # The hosts share this machine's clock.
                "common_time_sync": False,
                # Ansible's own, but for -C, and Mitogen's -C: packing jar files, from this machine
                # to itself, took as much CPU as Ansible's own work.
                "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=60s",
                "mitogen_ssh_compression": False,
            },
        )

    def check_given(self, options: Options, plan: Plan | None = None) -> None:
        """Root, and what this machine must have for a lab."""
        system.check()

    def enter(self) -> None:
        """Go on in the lab's network, where its hosts can be reached."""
        here = lab()
        if not here.network.is_ours():
            here.enter()
            self._entered = here

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """The lab's network has no way to a package registry."""
        with self._entered.network.left() if self._entered else contextlib.nullcontext():
            yield

    def destroy(self, say: Say) -> None:
        """End the hosts."""
        lab().down()
        say(f"target {self.name}: its hosts are gone")

    def give_back(self, host: str, say: Say) -> None:
        """End one host."""
        here = lab()
        if any(found.host.name == host for found in here.hosts()):
            say(here.remove(host))

    def make_anew(self, host: Host, say: Say) -> None:
        """End it: what is not there is made."""
        self.give_back(host.name, say)

    def lacks(self, action: str, on: str, engine: str, *, secured: bool) -> str:
        """Of ScyllaDB the data is not on the data disk, and its C library is its own; what another
        system has for a clock was not looked at. Without security there are no certificates."""
        if action == "clock" and engine not in ("cassandra", "scylla"):
            return (
                "a wrong clock is put between a server and its C library, and one that asks the "
                "kernel itself, as Go's programs do, would never see it"
            )
        if action == "expire-certificate" and not secured:
            return "without TLS (security.enabled: false) its servers have no certificates"
        scylla = engine == "scylla" and on.startswith("storage")
        return _NOT_OF_SCYLLA.get(action, "") if scylla else ""

    def begin(self, fault: Fault, hosts: Sequence[Host]) -> None:
        """Of kill and restart the whole host: its power fails, or it reboots in good order."""
        here, names = lab(), [host.name for host in hosts]
        acts: dict[str, Callable[[str], object]] = {
            "kill": here.kill,
            "freeze": here.freeze,
            "restart": here.reboot,
            "loss": lambda name: here.loss(name, fault.percent or 0),
            "delay": lambda name: here.delay(name, fault.by_s),
            "fill-disk": lambda name: here.fill_disk(name, 0),
            "slow-disk": lambda name: here.slow_disk(name, _SLOW_OPERATIONS),
        }
        if fault.action == "partition":
            here.isolate(names)
        elif fault.action == "clock":
            servers.wrong_clock(hosts, fault.by_s)
        elif fault.action == "expire-certificate":
            servers.certificate(hosts, expired=True)
        else:
            for name in names:
                acts[fault.action](name)

    def undo(self, action: str, hosts: Sequence[Host]) -> None:
        """Started again all side by side."""
        here, names = lab(), [host.name for host in hosts]
        if action in ("partition", "loss", "delay"):
            here.mend(names)
        elif action in ("fill-disk", "slow-disk"):
            for name in names:
                here.free_disk(name)
            if action == "fill-disk":
                # Cassandra's commit log is mapped into memory. Where that met no room it takes no
                # write and ends no flush any more, and does not end in good order either (5.0.9).
                servers.after_full_disk([host for host in hosts if host.role == "storage"])
        elif action == "clock":
            servers.right_clock(hosts)
        elif action == "expire-certificate":
            servers.certificate(hosts, expired=False)
        elif action == "kill":
            here.up([found.host for found in here.hosts() if found.host.name in names], _unsaid)
        elif action == "freeze":
            for name in names:
                if here.state(name) == "frozen":
                    here.thaw(name)


def _as_made(host: LabHost, there: LabHost | None) -> LabHost:
    return replace(host, data_disk_mib=there.data_disk_mib) if there else host


def _unsaid(_: str) -> None:
    """A load has a line of its own on the screen."""
