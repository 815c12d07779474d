"""The lab: its hosts and their network, and what can happen to them."""

import contextlib
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kairoscope.errors import UserError
from kairoscope.targets.lab import disks, image, system
from kairoscope.targets.lab.host import LabHost, check_hosts, gateway
from kairoscope.targets.lab.kept import Kept
from kairoscope.targets.lab.making import Making
from kairoscope.targets.lab.network import Faults, Network
from kairoscope.targets.lab.running import Running

_SHUTDOWN_S = 120.0  # systemd gives each service 90 s


@dataclass(frozen=True)
class HostState:
    """A host as it is: `state` is running, frozen or stopped."""

    host: LabHost
    state: str
    faults: list[str]


class Lab:
    """The hosts whose state is in one folder. Labs of different folders know nothing of each other.

    All methods that change something need root, and may be called by several processes at once.
    """

    def __init__(self, folder: Path) -> None:
        """Name the lab by its folder; nothing is made."""
        self._kept = Kept(folder)
        self.folder = self._kept.folder
        self.id = self._kept.id
        self.network = Network(self.id)
        self._making = Making(self._kept)
        self._running = Running(self._kept, self._making, self.network)

    # Making and removing

    def up(self, hosts: Sequence[LabHost], say: Callable[[str], None]) -> None:
        """Have these hosts running and answering SSH; hosts that run are left alone.

        A host that was stopped is started with its disk as it was. Hosts of the lab that are not
        named are left as they are.

        Args:
            hosts: the hosts, which have their addresses in one /24, .1 being the control machine's.
            say: told what is done, a line at a time.

        Raises:
            UserError: this machine cannot, a host is there with another address or disk, or does
                not come up.
        """
        check_hosts(hosts)
        system.check()
        if set(str(self.folder)) & set(':,\\"'):
            raise UserError(
                f"The lab's folder, {self.folder}, has one of : , \\ \" in it, which mounts cannot "
                "take. Set KAIROSCOPE_HOME to another."
            )
        base = image.base(say)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._kept.locked():
            there = self._kept.known()
            for host in hosts:
                if (was := there.get(host.name, host)) != host:
                    raise UserError(
                        f"Lab host {host.name} is there as {was.address} with a data disk of "
                        f"{was.data_disk_mib} MiB, {host.address} and {host.data_disk_mib} is "
                        "wanted. First: make lab-down"
                    )
            self._kept.hosts_folder.mkdir(
                mode=0o700, exist_ok=True
            )  # their users are not this machine's
            self._kept.note()
            all_hosts = {**there, **{host.name: host for host in hosts}}
            check_hosts(list(all_hosts.values()))
            self.network.make(gateway(next(iter(all_hosts.values()))))
            self._making.login()
            for host in hosts:
                if host.name not in there:
                    self._making.create(host, base)
            self._making.introduce()
            to_start = [host for host in hosts if not self._kept.cgroup(host.name).populated()]
            if to_start:
                say(f"lab: starting {', '.join(host.name for host in to_start)}")
            self._side_by_side(self._running.start, to_start)
            self._apply_faults(Faults.read(self._kept.faults_file))
            self._side_by_side(self._running.await_ssh, hosts)

    def down(self) -> None:
        """End every host at once and remove all that is theirs; works on whatever is left of a lab.

        The folder goes with all in it. The base image stays.
        """
        system.check_root()
        with self._kept.locked() if self.folder.exists() else contextlib.nullcontext():
            system.Cgroup(self._kept.group).kill()
            self.network.remove()
            self._running.tidy(f"{self.id}-*")
            shutil.rmtree(self._kept.connections, ignore_errors=True)
            system.remove(self.folder)

    def remove(self, name: str) -> str:
        """End one host at once and remove it with its disk, as a machine that is given back."""
        with self._changing(name) as host:
            self._running.end(host)
            system.remove(self._kept.hosts_folder / name)
            faults = Faults.read(self._kept.faults_file)
            faults.forget(name)
            self._apply_faults(faults)
            self._making.introduce()
        return f"{name} removed with its disk"

    # Reaching

    def enter(self) -> None:
        """Go on in the lab's network: this thread, and what it starts from now on.

        Raises:
            UserError: not root, or the lab is not up.
        """
        if self.network.is_ours():
            return
        self._check_up()
        self.network.join()

    def inventory_vars(self, name: str) -> dict[str, str]:
        """What Ansible, and whatever else reads the inventory, needs to log in to a host."""
        host = self._kept.host(name)
        return {
            "ansible_host": host.address,
            "ansible_user": image.LOGIN,
            "ansible_ssh_private_key_file": str(self._kept.ssh_folder / "id_ed25519"),
            "ansible_ssh_common_args": shlex.join(self._kept.ssh_options()),
            "ansible_control_path": f"{self._kept.connections}/%%h-%%p-%%r",
        }

    def ssh(self, name: str, command: Sequence[str], *options: str) -> list[str]:
        """The command line that runs a command on a host, from wherever this process is."""
        return self._running.ssh(name, command, *options)

    def hosts(self) -> list[HostState]:
        """Every host as it is."""
        faults = Faults.read(self._kept.faults_file)
        return [
            HostState(host, self.state(name), faults.of(name))
            for name, host in self._kept.known().items()
        ]

    def state(self, name: str) -> str:
        """`running`, `frozen` or `stopped`."""
        return self._running.state(name)

    # What happens to hosts

    def start(self, name: str) -> str:
        """Start a host that was stopped or killed, with its disk as it was."""
        with self._changing(name) as host:
            if self.state(name) != "stopped":
                return f"{name} runs already"
            self._running.start(host)
            faults = Faults.read(self._kept.faults_file)
            self._apply_faults(faults)
            return self._back(host, "started", faults)

    def stop(self, name: str) -> str:
        """Shut a host down in good order; it stays down until it is started."""
        with self._changing(name, "running") as host:
            # What systemd as first process takes for "halt" (man systemd, SIGRTMIN+3).
            os.kill(self._running.first_process(name), signal.SIGRTMIN + 3)
            if not system.until(lambda: not self._kept.cgroup(name).populated(), _SHUTDOWN_S):
                raise UserError(
                    f"Lab host {name} did not shut down in {_SHUTDOWN_S:g} s. End it the hard way: "
                    f"kairoscope lab kill {name}"
                )
            self._running.end(host)
        return f"{name} shut down; it stays down until: kairoscope lab start {name}"

    def kill(self, name: str) -> str:
        """End every process of a host at once, as when its power fails; it stays down.

        What its processes had written stays, as the page cache is the machine's.
        """
        with self._changing(name) as host:
            if self.state(name) == "stopped":
                return f"{name} was not running"
            self._running.end(host)
        return f"{name} killed; it stays down until: kairoscope lab start {name}"

    def reboot(self, name: str) -> str:
        """Reboot a host in good order, and wait until it answers again."""
        with self._changing(name, "running") as host:
            first = self._running.first_process(name)
            os.kill(first, signal.SIGINT)  # systemd's Ctrl-Alt-Del

            def again() -> bool:
                if not self._kept.cgroup(name).populated():
                    raise UserError(
                        f"Lab host {name} went down and did not come back; its console: "
                        f"{self._kept.hosts_folder / name / 'console.log'}"
                    )
                with contextlib.suppress(UserError):
                    return self._running.first_process(name, 0) != first
                return False

            if not system.until(again, _SHUTDOWN_S):
                raise UserError(f"Lab host {name} did not go down in {_SHUTDOWN_S:g} s to reboot.")
            faults = Faults.read(self._kept.faults_file)
            self._apply_faults(faults)
            return self._back(host, "rebooted", faults)

    def freeze(self, name: str) -> str:
        """Stop all of a host's processes where they are; its connections stay open, unanswered."""
        with self._changing(name, "running"):
            self._running.set_frozen(name, True)
        return f"{name} frozen; it goes on after: kairoscope lab thaw {name}"

    def thaw(self, name: str) -> str:
        """Let a frozen host go on."""
        with self._changing(name, "frozen"):
            self._running.set_frozen(name, False)
        return f"{name} goes on"

    # What happens to the network

    def partition(self, one: str, other: str) -> str:
        """Let no packet pass between two hosts; both reach all others."""
        if one == other:
            raise UserError(f"A partition is between two hosts; {one} was named twice.")
        with self._changing(one), self._fault(other) as faults:
            pair = sorted((one, other))
            if pair not in faults.partitions:
                faults.partitions.append(pair)
        return f"no packet passes between {one} and {other}"

    def isolate(self, names: Sequence[str]) -> str:
        """Let no packet pass between these hosts and all others of the lab.

        They reach each other, and the control machine.
        """
        with self._changing(names[0]):
            faults = Faults.read(self._kept.faults_file)
            faults.isolate(names, list(self._kept.known()))
            self._apply_faults(faults)
        return f"no packet passes between {', '.join(names)} and the other hosts"

    def mend(self, names: Sequence[str]) -> str:
        """Undo all network faults of these hosts."""
        with self._changing(names[0]):
            faults = Faults.read(self._kept.faults_file)
            for name in names:
                faults.forget(name)
            self._apply_faults(faults)
        return f"network of {', '.join(names)} mended"

    def cut(self, name: str) -> str:
        """Pull a host's cable: nothing reaches it, from anywhere."""
        with self._fault_of(name) as faults:
            if name not in faults.cut:
                faults.cut.append(name)
        return f"{name} cut off from the network"

    def loss(self, name: str, percent: float) -> str:
        """Lose so many of a host's packets, each way, by chance."""
        if not 0 < percent <= 100:
            raise UserError(f"A loss is above 0 and at most 100 percent, not {percent:g}.")
        with self._fault_of(name) as faults:
            faults.loss_percent[name] = percent
        return f"{name} loses {percent:g} % of its packets, each way"

    def bandwidth(self, name: str, kbit: int) -> str:
        """Let a host send, and receive, at most so many kbit/s; what is above that is dropped."""
        if kbit < 8:
            raise UserError(f"A bandwidth is at least 8 kbit/s, not {kbit}.")
        with self._fault_of(name) as faults:
            faults.bandwidth_kbit[name] = kbit
        return f"{name} sends and receives at most {kbit} kbit/s"

    def delay(self, name: str, by_s: float) -> str:
        """Let a host's packets arrive later by so many seconds, each way."""
        if by_s <= 0:
            raise UserError(f"A delay is above 0, not {by_s:g} s.")
        with self._fault_of(name) as faults:
            if faults.delay_s.pop(name, None):
                self._apply_faults(faults)
            faults.delay_s[name] = by_s
        return f"packets of {name} are late by {by_s * 1000:g} ms, each way"

    def heal(self) -> str:
        """Undo all network faults."""
        self._check_up()
        with self._kept.locked():
            undone = [
                f"{name}: {fault}"
                for name in self._kept.known()
                for fault in Faults.read(self._kept.faults_file).of(name)
            ]
            self._apply_faults(Faults())
        return "network healed" + (f" ({'; '.join(undone)})" if undone else "; nothing was wrong")

    # What happens to disks

    def fill_disk(self, name: str, leave_mib: int) -> str:
        """Fill a host's data disk until so many MiB are left."""
        with self._changing(name) as host:
            disks.fill(self._making.data_disk(host), leave_mib, f"Lab host {name}")
        return f"{name}: data disk filled, {leave_mib} MiB left"

    def slow_disk(self, name: str, operations: int) -> str:
        """Let a host's processes read, and write, its data disk so many times a second."""
        if operations < 1:
            raise UserError(f"Operations a second are at least 1, not {operations}.")
        with self._changing(name, "running") as host:
            self._limit_disk(host, operations)
        return f"{name}: data disk has {operations} reads and {operations} writes a second"

    def free_disk(self, name: str) -> str:
        """Undo what is wrong with a host's data disk: it is filled, or slow."""
        with self._changing(name) as host:
            disks.free(self._making.data_disk(host))
            if self.state(name) != "stopped":
                self._limit_disk(host, None)
        return f"{name}: data disk freed"

    def _limit_disk(self, host: LabHost, operations: int | None) -> None:
        device = self._making.data_disk(host).stat().st_dev
        named = f"{os.major(device)}:{os.minor(device)}"
        # Twice: one may have begun another before it was reached.
        for _ in range(2):
            pids = [
                int(pid)
                for folder, _, _ in os.walk(self._kept.payload(host.name))
                for pid in system.read(Path(folder) / "cgroup.procs").split()
            ]
            disks.limit(self._kept.cgroup(host.name), pids, named, operations)

    # How

    def _check_up(self) -> None:
        system.check_root()
        if not self.network.exists():
            raise UserError("The lab is not up. First: make deploy TARGET=lab")

    @contextlib.contextmanager
    def _changing(self, name: str, needed: str | None = None) -> Iterator[LabHost]:
        """One known host, in the state that is needed, with the lab locked."""
        system.check_root()
        self._kept.host(name)
        self._check_up()
        with self._kept.locked():
            host = self._kept.host(name)
            if needed and (state := self.state(name)) != needed:
                raise UserError(f"Lab host {name} is {state}, not {needed}.")
            yield host

    @contextlib.contextmanager
    def _fault_of(self, name: str) -> Iterator[Faults]:
        with self._changing(name), self._fault(name) as faults:
            yield faults

    @contextlib.contextmanager
    def _fault(self, name: str) -> Iterator[Faults]:
        self._kept.host(name)
        faults = Faults.read(self._kept.faults_file)
        yield faults
        self._apply_faults(faults)

    def _apply_faults(self, faults: Faults) -> None:
        faults.write(self._kept.faults_file)
        running = [name for name in self._kept.known() if self.state(name) != "stopped"]
        linked = [name for name in running if self.network.has_link(self._kept.port(name))]
        self.network.apply(faults, self._kept.port, linked)

    def _side_by_side(self, work: Callable[[LabHost], None], hosts: Sequence[LabHost]) -> None:
        with ThreadPoolExecutor(max(1, len(hosts))) as pool:
            done = [pool.submit(work, host) for host in hosts]
        problems = [error.message for d in done if isinstance(error := d.exception(), UserError)]
        if problems:
            raise UserError("\n".join(problems))
        for future in done:
            future.result()

    def _back(self, host: LabHost, done: str, faults: Faults) -> str:
        if host.name in faults.cut:
            return f"{host.name} {done}; it is cut off, so whether it is back is not known"
        self._running.await_ssh(host)
        return f"{host.name} {done}; it answers"
