"""Hosts that run: systemd as first process on the disk that was made for it, in a control group."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from kairoscope.errors import UserError
from kairoscope.targets.lab import image, system
from kairoscope.targets.lab.host import LabHost
from kairoscope.targets.lab.kept import Kept
from kairoscope.targets.lab.making import Making
from kairoscope.targets.lab.network import Faults, Network

_DATA_FOLDER = "/var/lib/kairoscope"
_BOOT_S = 90.0  # a few seconds, unless many hosts boot on few cores
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


class Running:
    """The processes of the hosts, whichever run."""

    def __init__(self, kept: Kept, making: Making, network: Network) -> None:
        self._kept = kept
        self._making = making
        self._network = network

    def state(self, name: str) -> str:
        """`running`, `frozen` or `stopped`."""
        if not self._kept.cgroup(self._kept.host(name).name).populated():
            return "stopped"
        frozen = "1" in system.read(self._kept.payload(name) / "cgroup.freeze")
        return "frozen" if frozen else "running"

    def start(self, host: LabHost) -> None:
        """Start a host that does not run, without waiting for it."""
        folder = self._kept.hosts_folder / host.name
        self.end(host)
        self._making.mount(host, self._kept.base(host.name))
        system.Cgroup(self._kept.group).make()
        group = self._kept.cgroup(host.name)
        group.make("keeper")
        nspawn = [
            *("systemd-nspawn", "--quiet", "--boot", f"--directory={folder / 'root'}"),
            *(f"--machine={self._kept.machine(host)}", f"--hostname={host.name}"),
            *("--register=no", "--keep-unit", f"--network-bridge={self._network.switch}"),
            *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"),
            # What the kernel allows, not what whoever started this machine's first process chose.
            f"--rlimit=RLIMIT_NOFILE=1024:{system.read(Path('/proc/sys/fs/nr_open')).strip()}",
            # To ask how far the clock is off, as a machine may; to set it takes a capability.
            "--system-call-filter=adjtimex clock_adjtime",
            *([f"--bind={folder / 'data'}:{_DATA_FOLDER}"] if host.data_disk_mib else []),
        ]
        keeper = [
            "sh",
            "-c",
            _KEEPER,
            "lab-keeper",
            str(group.path),
            self._kept.port(host.name),
            *nspawn,
        ]
        with (folder / "console.log").open("ab") as console:
            subprocess.run(
                ["setsid", "--fork", *self._network.inside(*keeper)],
                cwd="/",
                env={"PATH": os.environ["PATH"], "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                check=True,
            )
        if not system.until(lambda: self._network.has_link(self._kept.port(host.name)), _BOOT_S):
            self._did_not_start(host)

    def _did_not_start(self, host: LabHost) -> NoReturn:
        console = self._kept.hosts_folder / host.name / "console.log"
        last = "".join(f"\n  {line}" for line in system.read(console).splitlines()[-5:])
        raise UserError(f"Lab host {host.name} did not start; {console} ends with:{last}")

    def await_ssh(self, host: LabHost) -> None:
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
            if not self._kept.cgroup(host.name).populated():
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
            faults = Faults.read(self._kept.faults_file).of(host.name)
            raise UserError(
                f"Lab host {host.name} ({host.address}) does not answer SSH: {said}."
                + (f" Its network: {'; '.join(faults)} (kairoscope lab heal)." if faults else "")
                + f" Its console: {self._kept.hosts_folder / host.name / 'console.log'}"
            )

    def ssh(self, name: str, command: Sequence[str], *options: str) -> list[str]:
        """The command line that runs a command on a host, from wherever this process is."""
        line = ["ssh", *options, *self._kept.ssh_options(), "-o", "BatchMode=yes"]
        line += ["-i", str(self._kept.ssh_folder / "id_ed25519"), "-l", image.LOGIN]
        line += [self._kept.host(name).address, *([shlex.join(command)] if command else [])]
        return line if self._network.is_ours() else self._network.inside(*line)

    def end(self, host: LabHost) -> None:
        """End what may be left of a host and wait until it is gone; its disk stays."""
        self._kept.cgroup(host.name).kill()
        # The kernel takes the port away after the last process, in its own time: mostly a moment,
        # but 30 s were not enough once, on a busy machine.
        self._network.remove_port(self._kept.port(host.name))
        self.tidy(self._kept.machine(host))

    def tidy(self, machine: str) -> None:
        """Remove what nspawn keeps of a machine while it runs, and leaves if it is killed."""
        for left in Path("/run/systemd/nspawn").glob(f"*/{machine}"):
            system.remove(left)

    def first_process(self, name: str, limit_s: float = 10) -> int:
        """The process id that a host's first process has on this machine."""
        payload = self._kept.payload(name)
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

    def set_frozen(self, name: str, frozen: bool) -> None:
        """Stop all of a host's processes where they are, or let them go on."""
        payload = self._kept.payload(name)
        (payload / "cgroup.freeze").write_text("1" if frozen else "0")
        state = f"frozen {int(frozen)}"
        if not system.until(lambda: state in system.read(payload / "cgroup.events"), 30):
            raise UserError(f"Lab host {name} could not be {'frozen' if frozen else 'thawed'}.")
