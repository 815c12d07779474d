"""The lab's hosts: systemd as first process on a disk of their own, and what can happen to them."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import NoReturn

from kairoscope.errors import UserError
from kairoscope.targets.lab import disks, image, system
from kairoscope.targets.lab.network import Faults, Network

DATA_FOLDER = "/var/lib/kairoscope"

_BOOT_S = 90.0  # a few seconds, unless many hosts boot on few cores
_SHUTDOWN_S = 120.0  # systemd gives each service 90 s
_MIB = 1024 * 1024
# The longest hostname of Linux; what a DNS name may have in it.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_FILL = "lab-fills-this-disk"

# Starts a host again whenever it reboots (nspawn then ends with 133). In the host's own group, so
# that whatever ends the host at once ends this with it; but beside the group of nspawn, which hands
# its controllers on and may have no process then. That is made anew each time, and the former port
# of the switch has to be gone.
_KEEPER = """
group=$1 port=$2
shift 2
echo $$ > "$group/keeper/cgroup.procs" || exit
while :; do
  while [ -d "$group/machine" ]; do
    find "$group/machine" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
  done
  while ip link show dev "$port" >/dev/null 2>&1; do sleep 0.1; done
  mkdir "$group/machine" || exit
  sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group/machine" "$@"
  [ $? -eq 133 ] || exit 0
done
"""

_NETWORK = """[Match]
Name=host0

[Network]
Address={address}/24
Gateway={gateway}
LinkLocalAddressing=no
IPv6AcceptRA=no
"""


@dataclass(frozen=True)
class LabHost:
    """A host to have: its name, its address (all of one lab in one /24), and a small data disk.

    With `data_disk_mib` it has an ext4 file system of that size at /var/lib/kairoscope, which can
    be filled. Without, that is a folder on the machine's own disk.
    """

    name: str
    address: str
    data_disk_mib: int | None = None


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
        self.folder = folder.resolve()
        self.id = "ks" + hashlib.sha256(str(self.folder).encode()).hexdigest()[:5]
        self._hosts = self.folder / "hosts"
        self._ssh = self.folder / "ssh"
        self._faults = self.folder / "faults.json"
        # Ansible's connections that stay open. Not where all its runs keep them, by address: other
        # labs have the same addresses.
        self._connections = Path("/run") / self.id
        self.network = Network(self.id)

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
        with self._locked():
            there = self._known()
            for host in hosts:
                if (was := there.get(host.name, host)) != host:
                    raise UserError(
                        f"Lab host {host.name} is there as {was.address} with a data disk of "
                        f"{was.data_disk_mib} MiB, {host.address} and {host.data_disk_mib} is "
                        "wanted. First: make lab-down"
                    )
            self._hosts.mkdir(mode=0o700, exist_ok=True)  # their users are not this machine's
            all_hosts = {**there, **{host.name: host for host in hosts}}
            check_hosts(list(all_hosts.values()))
            self.network.make(_gateway(next(iter(all_hosts.values()))))
            self._make_login()
            for host in hosts:
                if host.name not in there:
                    self._create(host, base)
            self._introduce()
            to_start = [host for host in hosts if not self._cgroup(host.name).populated()]
            if to_start:
                say(f"lab: starting {', '.join(host.name for host in to_start)}")
            self._side_by_side(self._start, to_start)
            self._apply_faults(Faults.read(self._faults))
            self._side_by_side(self._await_ssh, hosts)

    def down(self) -> None:
        """End every host at once and remove all that is theirs; works on whatever is left of a lab.

        The folder goes with all in it. The base image stays.
        """
        system.check_root()
        with self._locked() if self.folder.exists() else contextlib.nullcontext():
            system.Cgroup(self._group).kill()
            self.network.remove()
            self._tidy(f"{self.id}-*")
            shutil.rmtree(self._connections, ignore_errors=True)
            system.remove(self.folder)

    def remove(self, name: str) -> str:
        """End one host at once and remove it with its disk, as a machine that is given back."""
        with self._changing(name) as host:
            self._end(host)
            system.remove(self._hosts / name)
            faults = Faults.read(self._faults)
            faults.forget(name)
            self._apply_faults(faults)
            self._introduce()
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
        host = self._host(name)
        return {
            "ansible_host": host.address,
            "ansible_user": image.LOGIN,
            "ansible_ssh_private_key_file": str(self._ssh / "id_ed25519"),
            "ansible_ssh_common_args": shlex.join(self._ssh_options()),
            "ansible_control_path": f"{self._connections}/%%h-%%p-%%r",
        }

    def ssh(self, name: str, command: Sequence[str], *options: str) -> list[str]:
        """The command line that runs a command on a host, from wherever this process is."""
        line = ["ssh", *options, *self._ssh_options(), "-o", "BatchMode=yes"]
        line += ["-i", str(self._ssh / "id_ed25519"), "-l", image.LOGIN]
        line += [self._host(name).address, *([shlex.join(command)] if command else [])]
        return line if self.network.is_ours() else self.network.inside(*line)

    def hosts(self) -> list[HostState]:
        """Every host as it is."""
        faults = Faults.read(self._faults)
        return [
            HostState(host, self.state(name), faults.of(name))
            for name, host in self._known().items()
        ]

    def state(self, name: str) -> str:
        """`running`, `frozen` or `stopped`."""
        if not self._cgroup(self._host(name).name).populated():
            return "stopped"
        return "frozen" if "1" in system.read(self._payload(name) / "cgroup.freeze") else "running"

    # What happens to hosts

    def start(self, name: str) -> str:
        """Start a host that was stopped or killed, with its disk as it was."""
        with self._changing(name) as host:
            if self.state(name) != "stopped":
                return f"{name} runs already"
            self._start(host)
            faults = Faults.read(self._faults)
            self._apply_faults(faults)
            return self._back(host, "started", faults)

    def stop(self, name: str) -> str:
        """Shut a host down in good order; it stays down until it is started."""
        with self._changing(name, "running") as host:
            # What systemd as first process takes for "halt" (man systemd, SIGRTMIN+3).
            os.kill(self._first_process(name), signal.SIGRTMIN + 3)
            if not system.until(lambda: not self._cgroup(name).populated(), _SHUTDOWN_S):
                raise UserError(
                    f"Lab host {name} did not shut down in {_SHUTDOWN_S:g} s. End it the hard way: "
                    f"kairoscope lab kill {name}"
                )
            self._end(host)
        return f"{name} shut down; it stays down until: kairoscope lab start {name}"

    def kill(self, name: str) -> str:
        """End every process of a host at once, as when its power fails; it stays down.

        What its processes had written stays, as the page cache is the machine's.
        """
        with self._changing(name) as host:
            if self.state(name) == "stopped":
                return f"{name} was not running"
            self._end(host)
        return f"{name} killed; it stays down until: kairoscope lab start {name}"

    def reboot(self, name: str) -> str:
        """Reboot a host in good order, and wait until it answers again."""
        with self._changing(name, "running") as host:
            first = self._first_process(name)
            os.kill(first, signal.SIGINT)  # systemd's Ctrl-Alt-Del

            def again() -> bool:
                if not self._cgroup(name).populated():
                    raise UserError(
                        f"Lab host {name} went down and did not come back; its console: "
                        f"{self._hosts / name / 'console.log'}"
                    )
                with contextlib.suppress(UserError):
                    return self._first_process(name, 0) != first
                return False

            if not system.until(again, _SHUTDOWN_S):
                raise UserError(f"Lab host {name} did not go down in {_SHUTDOWN_S:g} s to reboot.")
            faults = Faults.read(self._faults)
            self._apply_faults(faults)
            return self._back(host, "rebooted", faults)

    def freeze(self, name: str) -> str:
        """Stop all of a host's processes where they are; its connections stay open, unanswered."""
        with self._changing(name, "running"):
            self._set_frozen(name, True)
        return f"{name} frozen; it goes on after: kairoscope lab thaw {name}"

    def thaw(self, name: str) -> str:
        """Let a frozen host go on."""
        with self._changing(name, "frozen"):
            self._set_frozen(name, False)
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
            faults = Faults.read(self._faults)
            faults.isolate(names, list(self._known()))
            self._apply_faults(faults)
        return f"no packet passes between {', '.join(names)} and the other hosts"

    def mend(self, names: Sequence[str]) -> str:
        """Undo all network faults of these hosts."""
        with self._changing(names[0]):
            faults = Faults.read(self._faults)
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
        with self._locked():
            undone = [
                f"{name}: {fault}"
                for name in self._known()
                for fault in Faults.read(self._faults).of(name)
            ]
            self._apply_faults(Faults())
        return "network healed" + (f" ({'; '.join(undone)})" if undone else "; nothing was wrong")

    # What happens to disks

    def fill_disk(self, name: str, leave_mib: int) -> str:
        """Fill a host's data disk until so many MiB are left."""
        with self._changing(name) as host:
            file = self._data_disk(host) / _FILL
            file.unlink(missing_ok=True)
            disk = os.statvfs(file.parent)
            left = disk.f_bavail * disk.f_frsize
            if (wanted := left - leave_mib * _MIB) <= 0:
                raise UserError(
                    f"Lab host {name} has {left // _MIB} MiB left, which is not more than "
                    f"{leave_mib} MiB."
                )
            # The file system's own list of a large file's blocks takes of the last of them.
            with file.open("wb") as handle, _no_space_left():
                os.posix_fallocate(handle.fileno(), 0, wanted)
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
            (self._data_disk(host) / _FILL).unlink(missing_ok=True)
            if self.state(name) != "stopped":
                self._limit_disk(host, None)
        return f"{name}: data disk freed"

    def _limit_disk(self, host: LabHost, operations: int | None) -> None:
        device = self._data_disk(host).stat().st_dev
        named = f"{os.major(device)}:{os.minor(device)}"
        # Twice: one may have begun another before it was reached.
        for _ in range(2):
            pids = [
                int(pid)
                for folder, _, _ in os.walk(self._payload(host.name))
                for pid in system.read(Path(folder) / "cgroup.procs").split()
            ]
            disks.limit(self._cgroup(host.name), pids, named, operations)

    # How

    @property
    def _group(self) -> str:
        return f"kairoscope-{self.id}"

    def _cgroup(self, name: str) -> system.Cgroup:
        return system.Cgroup(f"{self._group}/{name}")

    def _payload(self, name: str) -> Path:
        """The control group of all of a host's processes."""
        return self._cgroup(name).path / "machine" / "payload"

    def _machine(self, host: LabHost) -> str:
        # Short, as it names the host's port of the switch: at most 15 letters in all.
        return f"{self.id}-{int(IPv4Address(host.address)) & 255}"

    def _port(self, name: str) -> str:
        return f"vb-{self._machine(self._host(name))}"

    def _known(self) -> dict[str, LabHost]:
        """The hosts that were made, by name, in the order of their addresses."""
        found = []
        for path in self._hosts.glob("*/host.json"):
            kept = json.loads(path.read_text())
            found.append(LabHost(kept["name"], kept["address"], kept["data_disk_mib"]))
        return {host.name: host for host in sorted(found, key=lambda h: IPv4Address(h.address))}

    def _host(self, name: str) -> LabHost:
        known = self._known()
        if name not in known:
            names = ", ".join(known) or "none; first: make deploy TARGET=lab"
            raise UserError(f"The lab has no host {name}. Its hosts: {names}")
        return known[name]

    def _check_up(self) -> None:
        system.check_root()
        if not self.network.exists():
            raise UserError("The lab is not up. First: make deploy TARGET=lab")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time. The lock is the folder itself, so nothing is left of it."""
        try:
            handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise UserError("The lab is not up. First: make deploy TARGET=lab") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink == 0:
                raise UserError("The lab was taken down meanwhile; run the command again.")
            yield
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _changing(self, name: str, needed: str | None = None) -> Iterator[LabHost]:
        """One known host, in the state that is needed, with the lab locked."""
        system.check_root()
        self._host(name)
        self._check_up()
        with self._locked():
            host = self._host(name)
            if needed and (state := self.state(name)) != needed:
                raise UserError(f"Lab host {name} is {state}, not {needed}.")
            yield host

    @contextlib.contextmanager
    def _fault_of(self, name: str) -> Iterator[Faults]:
        with self._changing(name), self._fault(name) as faults:
            yield faults

    @contextlib.contextmanager
    def _fault(self, name: str) -> Iterator[Faults]:
        self._host(name)
        faults = Faults.read(self._faults)
        yield faults
        self._apply_faults(faults)

    def _apply_faults(self, faults: Faults) -> None:
        faults.write(self._faults)
        running = [name for name in self._known() if self.state(name) != "stopped"]
        linked = [name for name in running if self.network.has_link(self._port(name))]
        self.network.apply(faults, self._port, linked)

    def _side_by_side(self, work: Callable[[LabHost], None], hosts: Sequence[LabHost]) -> None:
        with ThreadPoolExecutor(max(1, len(hosts))) as pool:
            done = [pool.submit(work, host) for host in hosts]
        problems = [error.message for d in done if isinstance(error := d.exception(), UserError)]
        if problems:
            raise UserError("\n".join(problems))
        for future in done:
            future.result()

    def _make_login(self) -> None:
        self._ssh.mkdir(mode=0o700, exist_ok=True)
        self._connections.mkdir(mode=0o700, exist_ok=True)
        _make_key(self._ssh / "id_ed25519", "kairoscope lab")

    def _create(self, host: LabHost, base: Path) -> None:
        """Make a host's disks and keys; what an interrupted creation left is made anew."""
        folder = self._hosts / host.name
        system.remove(folder)
        for part in ("upper", "work", "root", "data"):
            (folder / part).mkdir(parents=True)
        _make_key(folder / "ssh_host_ed25519_key", host.name)
        if host.data_disk_mib:
            with (folder / "data.img").open("wb") as disk:
                disk.truncate(host.data_disk_mib * _MIB)
            # What is all zeros need not be written as such.
            lazy = ("-E", "lazy_itable_init=1,lazy_journal_init=1")
            system.call("mkfs.ext4", "-q", "-m", "0", *lazy, folder / "data.img")
        self._mount(host, base)
        etc = folder / "root" / "etc"
        (etc / "hostname").write_text(f"{host.name}\n")
        (etc / "systemd/network/10-lab.network").write_text(
            _NETWORK.format(address=host.address, gateway=_gateway(host))
        )
        for suffix, mode in (("", 0o600), (".pub", 0o644)):
            key = etc / "ssh" / f"ssh_host_ed25519_key{suffix}"
            shutil.copyfile(folder / f"ssh_host_ed25519_key{suffix}", key)
            key.chmod(mode)
        home = folder / "root" / "home" / image.LOGIN
        owner = home.stat()
        keys = home / ".ssh" / "authorized_keys"
        keys.parent.mkdir(mode=0o700)
        shutil.copyfile(self._ssh / "id_ed25519.pub", keys)
        for path, mode in ((keys.parent, 0o700), (keys, 0o600)):
            path.chmod(mode)
            os.chown(path, owner.st_uid, owner.st_gid)
        # Last, as it says that the host is whole.
        kept = {**asdict(host), "base": str(base)}
        system.write(folder / "host.json", json.dumps(kept, indent=2) + "\n")

    def _mount(self, host: LabHost, base: Path) -> None:
        folder = self._hosts / host.name
        if not base.is_dir():
            raise UserError(
                f"Lab host {host.name} is made of {base}, which is gone. First: make lab-down"
            )
        if not system.mounted(folder / "root"):
            layers = f"lowerdir={base},upperdir={folder / 'upper'},workdir={folder / 'work'}"
            system.call("mount", "-t", "overlay", "overlay", "-o", layers, folder / "root")
        if host.data_disk_mib and not system.mounted(folder / "data"):
            system.call("mount", "-o", "loop,noatime", folder / "data.img", folder / "data")

    def _introduce(self) -> None:
        """Tell every host the names of all, and ssh their keys."""
        known = self._known()
        keys = ""
        names = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
        for name, host in known.items():
            names += f"{host.address} {name}\n"
            kind, key, *_ = (
                (self._hosts / name / "ssh_host_ed25519_key.pub").read_text().split(maxsplit=2)
            )
            keys += f"{host.address},{name} {kind} {key}\n"
        system.write(self._ssh / "known_hosts", keys)
        for name, host in known.items():
            folder = self._hosts / name
            # Only if the lab has changed: what a deployment made of the file is left alone.
            if system.read(folder / "etc-hosts") != names:
                self._mount(host, self._base(name))
                (folder / "root" / "etc" / "hosts").write_text(names)
                system.write(folder / "etc-hosts", names)

    def _base(self, name: str) -> Path:
        return Path(json.loads((self._hosts / name / "host.json").read_text())["base"])

    def _start(self, host: LabHost) -> None:
        """Start a host that does not run, without waiting for it."""
        folder = self._hosts / host.name
        self._end(host)
        self._mount(host, self._base(host.name))
        system.Cgroup(self._group).make()
        group = self._cgroup(host.name)
        group.make("keeper")
        nspawn = [
            *("systemd-nspawn", "--quiet", "--boot", f"--directory={folder / 'root'}"),
            *(f"--machine={self._machine(host)}", f"--hostname={host.name}"),
            *("--register=no", "--keep-unit", f"--network-bridge={self.network.switch}"),
            *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"),
            # What the kernel allows, not what whoever started this machine's first process chose.
            f"--rlimit=RLIMIT_NOFILE=1024:{system.read(Path('/proc/sys/fs/nr_open')).strip()}",
            # To ask how far the clock is off, as a machine may; to set it takes a capability.
            "--system-call-filter=adjtimex clock_adjtime",
            *([f"--bind={folder / 'data'}:{DATA_FOLDER}"] if host.data_disk_mib else []),
        ]
        keeper = [
            "sh",
            "-c",
            _KEEPER,
            "lab-keeper",
            str(group.path),
            self._port(host.name),
            *nspawn,
        ]
        with (folder / "console.log").open("ab") as console:
            subprocess.run(
                ["setsid", "--fork", *self.network.inside(*keeper)],
                cwd="/",
                env={"PATH": os.environ["PATH"], "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                check=True,
            )
        if not system.until(lambda: self.network.has_link(self._port(host.name)), _BOOT_S):
            self._did_not_start(host)

    def _did_not_start(self, host: LabHost) -> NoReturn:
        console = self._hosts / host.name / "console.log"
        last = "".join(f"\n  {line}" for line in system.read(console).splitlines()[-5:])
        raise UserError(f"Lab host {host.name} did not start; {console} ends with:{last}")

    def _await_ssh(self, host: LabHost) -> None:
        """Wait until a host lets us log in."""
        if self.state(host.name) == "frozen":
            raise UserError(
                f"Lab host {host.name} is frozen. First: kairoscope lab thaw {host.name}"
            )
        said = ""
        # What is sent before a host listens is answered late or never, so that it is asked anew
        # soon; but ever less so, as a busy machine may need its time.
        patience_s = 1.0

        def answers() -> bool:
            nonlocal said, patience_s
            if not self._cgroup(host.name).populated():
                self._did_not_start(host)
            done = subprocess.run(
                self.ssh(host.name, ["true"], "-o", f"ConnectTimeout={patience_s:.0f}"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            said = done.stderr.strip()
            patience_s = min(patience_s * 1.25, 15)
            return done.returncode == 0

        if not system.until(answers, _BOOT_S):
            faults = Faults.read(self._faults).of(host.name)
            raise UserError(
                f"Lab host {host.name} ({host.address}) does not answer SSH: {said}."
                + (f" Its network: {'; '.join(faults)} (kairoscope lab heal)." if faults else "")
                + f" Its console: {self._hosts / host.name / 'console.log'}"
            )

    def _back(self, host: LabHost, done: str, faults: Faults) -> str:
        if host.name in faults.cut:
            return f"{host.name} {done}; it is cut off, so whether it is back is not known"
        self._await_ssh(host)
        return f"{host.name} {done}; it answers"

    def _end(self, host: LabHost) -> None:
        """End what may be left of a host and wait until it is gone; its disk stays."""
        self._cgroup(host.name).kill()
        # The kernel takes the port away after the last process, in its own time: mostly a moment,
        # but 30 s were not enough once, on a busy machine.
        self.network.remove_port(self._port(host.name))
        self._tidy(self._machine(host))

    def _tidy(self, machine: str) -> None:
        """Remove what nspawn keeps of a machine while it runs, and leaves if it is killed."""
        for left in Path("/run/systemd/nspawn").glob(f"*/{machine}"):
            system.remove(left)

    def _first_process(self, name: str, limit_s: float = 10) -> int:
        """The process id that a host's first process has on this machine."""
        payload = self._payload(name)
        found: list[int] = []

        def there() -> bool:
            found[:] = [
                int(pid)
                for group in (payload / "init.scope", payload)
                for pid in system.read(group / "cgroup.procs").split()
            ]
            return bool(found)

        if not system.until(there, limit_s):
            raise UserError(f"Lab host {name} has no first process; it is about to start or end.")
        return found[0]

    def _set_frozen(self, name: str, frozen: bool) -> None:
        payload = self._payload(name)
        (payload / "cgroup.freeze").write_text("1" if frozen else "0")
        state = f"frozen {int(frozen)}"
        if not system.until(lambda: state in system.read(payload / "cgroup.events"), 30):
            raise UserError(f"Lab host {name} could not be {'frozen' if frozen else 'thawed'}.")

    def _data_disk(self, host: LabHost) -> Path:
        if not host.data_disk_mib:
            raise UserError(
                f"Lab host {host.name} has no data disk of its own that could be filled or slow: "
                "it was made without a size for one."
            )
        self._mount(host, self._base(host.name))
        return self._hosts / host.name / "data"

    def _ssh_options(self) -> list[str]:
        known = str(self._ssh / "known_hosts").replace("%", "%%")
        return [
            *("-o", f'UserKnownHostsFile="{known}"', "-o", "GlobalKnownHostsFile=/dev/null"),
            *("-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"),
        ]


def check_hosts(hosts: Sequence[LabHost]) -> None:
    """UserError for names and addresses that no lab can have together."""
    for host in hosts:
        if not _NAME.fullmatch(host.name):
            raise UserError(
                f"{host.name!r} cannot be a host's name: small letters, digits and hyphens only."
            )
        try:
            last = int(IPv4Address(host.address)) & 255
        except AddressValueError:
            last = 0
        if last in (0, 1, 255):
            raise UserError(
                f"Lab host {host.name} cannot have {host.address}: an IPv4 address is needed, of "
                "which .0 and .255 are the network's, and .1 is the control machine's."
            )
    if len({_gateway(host) for host in hosts}) > 1:
        raise UserError("The lab's hosts have to be in one /24 network.")
    for what in ("name", "address"):
        values = [getattr(host, what) for host in hosts]
        if twice := [value for value in values if values.count(value) > 1]:
            raise UserError(f"Two lab hosts have the {what} {twice[0]}.")


@contextlib.contextmanager
def _no_space_left() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _gateway(host: LabHost) -> str:
    return host.address.rpartition(".")[0] + ".1"


def _make_key(path: Path, comment: str) -> None:
    if not path.exists():
        aside = path.with_name(f"{path.name}.new")
        for old in (aside, aside.with_name(f"{aside.name}.pub")):
            old.unlink(missing_ok=True)
        system.call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", aside)
        aside.with_name(f"{aside.name}.pub").rename(f"{path}.pub")
        aside.rename(path)
