"""This machine: whether it can have a lab, and what Linux shows of one."""

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kairoscope.errors import UserError

TOOLS = (
    "ip",
    "losetup",
    "mkfs.ext4",
    "mmdebstrap",
    "mount",
    "nft",
    "nsenter",
    "ssh",
    "ssh-keygen",
    "systemd-nspawn",
    "unshare",
)
# Where ip-netns keeps named namespaces.
NAMESPACES = Path("/run/netns")
_POLL_S = 0.05


def check() -> None:
    """Refuse a machine that cannot have a lab.

    Raises:
        UserError: not root, not Debian or Ubuntu, a tool or a feature of the kernel is missing.
    """
    check_root()
    release = platform.freedesktop_os_release()
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    if not family & {"debian", "ubuntu"}:
        raise UserError(
            f"The lab needs Debian or Ubuntu; this is {release.get('PRETTY_NAME', 'neither')}. "
            "Its hosts are made of this machine's own packages."
        )
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        raise UserError(
            f"The lab needs {', '.join(missing)}, which this machine lacks. First: scripts/need lab"
        )
    if not any(kind == "cgroup2" for _, kind in mounts()):
        raise UserError("The lab needs control groups of version 2, which are not mounted here.")
    done = subprocess.run(
        ["unshare", "--mount", "--net", "true"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise UserError(
            "This root may not make namespaces, which the lab is made of (a container without "
            f"privileges?): {done.stderr.strip()}. Run it on a machine or a virtual machine."
        )


def check_root() -> None:
    """UserError unless we are root."""
    if os.geteuid() != 0:
        raise UserError(
            "The lab makes hosts, with mounts and networks: it needs root. Run the same command "
            "with sudo, or use TARGET=local, which does not."
        )
    # Where most tools of the lab are, and where a user who became root may not look.
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def call(*command: str | Path, text: str | None = None) -> str:
    """Run a program to its end; what it printed.

    Raises:
        UserError: it failed; with its command line and what it said.
    """
    line = [str(word) for word in command]
    done = subprocess.run(
        line,
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
        raise UserError(f"The lab's `{' '.join(line)}` failed: {said}")
    return done.stdout


def until(true: Callable[[], bool], limit_s: float) -> bool:
    """Wait until something is true, at most so many seconds; whether it became true."""
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True


def read(path: Path) -> str:
    """What a file has in it; nothing if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all, unless it is like that already."""
    if read(path) != text:
        aside = path.with_name(f"{path.name}.new")
        aside.write_text(text)
        aside.rename(path)


def mounts() -> list[tuple[Path, str]]:
    """Every mount point of this machine with its type, in the order they were mounted."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])
        found.append((Path(path), after.split()[0]))
    return found


def mounted(path: Path) -> bool:
    """Whether something is mounted there."""
    return any(point == path for point, _ in mounts())


def unmount_below(folder: Path) -> None:
    """Unmount all that is mounted at a folder or below it, the latest first."""
    for point, _ in reversed(mounts()):
        if point.is_relative_to(folder):
            call("umount", point)


def remove(folder: Path) -> None:
    """Remove a folder with all in it, but nothing that is mounted there."""
    unmount_below(folder)
    if folder.exists():
        call("rm", "-rf", "--one-file-system", folder)


class Cgroup:
    """A control group by its name below the root, with what is below it.

    Machines differ: there is version 2 alone, or beside version 1, where systemd-nspawn makes a
    group of the same name in systemd's own hierarchy.
    """

    def __init__(self, name: str) -> None:
        """Name it; nothing is made."""
        self.name = name
        roots = [(point, kind) for point, kind in mounts() if kind in ("cgroup", "cgroup2")]
        unified = (point for point, kind in roots if kind == "cgroup2")
        self.path = next(unified, Path("/sys/fs/cgroup")) / name
        self._everywhere = [point / name for point, _ in roots]

    def make(self, child: str = "") -> None:
        """Make it, handing on its controllers, and a group below it."""
        self.path.mkdir(exist_ok=True)
        for controller in (self.path / "cgroup.controllers").read_text().split():
            # Not all can be handed on; no host depends on one.
            with contextlib.suppress(OSError):
                (self.path / "cgroup.subtree_control").write_text(f"+{controller}")
        (self.path / child).mkdir(exist_ok=True)

    def populated(self) -> bool:
        """Whether a process is in it."""
        return "populated 1" in read(self.path / "cgroup.events")

    def kill(self) -> None:
        """End every process in it at once, and remove it."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / "cgroup.kill").write_text("1")
        if not until(lambda: not self.populated(), 30):
            raise UserError(f"The processes in {self.path} do not end; are their disks in order?")
        for root in self._everywhere:
            for folder in sorted(_folders(root), key=lambda path: len(path.parts), reverse=True):
                # A process that has just ended may still be counted.
                until(lambda folder=folder: _rmdir(folder), 5)  # type: ignore[misc]


def _folders(root: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(root):
        yield Path(folder)


def _rmdir(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def namespace_processes(inode: int) -> list[int]:
    """The processes in the network namespace with this inode, but not ours and its ancestors."""
    ours = set()
    pid = os.getpid()
    while pid > 1:
        ours.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) not in ours:
            with contextlib.suppress(OSError):
                if (folder / "ns" / "net").stat().st_ino == inode:
                    found.append(int(folder.name))
    return found


def end_namespace(inode: int) -> None:
    """End what runs in a network namespace: tunnels and connections that outlived their command."""
    for number, patience_s in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 10.0)):
        for pid in namespace_processes(inode):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if until(lambda: not namespace_processes(inode), patience_s):
            return
