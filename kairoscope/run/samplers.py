"""Samplers that run beside the load, each in a thread, each writing one file as it goes.

What they write is on disk at every moment, so an interrupted run keeps what was captured.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import psutil

from kairoscope.errors import UserError
from kairoscope.hosts import supervisor
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.sampling import Followed
from kairoscope.run import host_probe
from kairoscope.run_folder import JsonLines, Life, life

# A run that fills the disk takes the store down with it (KairosDB's queue is memory-mapped: a full
# disk kills the process). It is stopped while there is still room to write down what happened.
MIN_FREE_BYTES = 300_000_000

# Of the disk of the run folder alone, which may be a small one. What a stopped run still writes is
# the loaders' last files, what was read back, results and report: of a short load 1.4 MB in all.
FOLDER_FREE_BYTES = 50_000_000

# Walking the data folders is the dear part of a look at processes: every fifth time is enough for a
# curve.
DISK_EVERY = 5

_PROBE = Path(host_probe.__file__)


class Restarts:
    """Notes in the events when a server's process ends or is another one."""

    def __init__(self, events: JsonLines) -> None:
        """What is seen first of a server is no event."""
        self._events = events
        self._lives: dict[str, Life] = {}

    def note(self, name: str, found: Mapping[str, Any] | None, state: str) -> None:
        """A server's process as it is now, by `host_probe.usage`; None if it has none."""
        now = life(found) if found else (0, 0.0)
        before = self._lives.get(name)
        if before is not None and now != before:
            what = "process ended" if not found else "process started again"
            detail = f"{name}: pid {before[0]} → {now[0] or 'none'} ({state})"
            self._events.write(t=time.time(), what=what, detail=detail)
        self._lives[name] = now


class Processes:
    """CPU, memory and disk of every local server with its children, and of the machine; notices
    restarts."""

    def __init__(
        self,
        hosts: list[Host],
        supervisor_dir: Path,
        file: JsonLines,
        events: JsonLines,
        low_disk: Callable[[str], None],
    ) -> None:
        """`low_disk` is called once, with a message, when the disk is nearly full."""
        self._hosts = hosts
        self._supervisor_dir = supervisor_dir
        self._file = file
        self._low_disk = low_disk
        self._restarts = Restarts(events)
        self._samples = 0
        self._ours = host_probe.Ours()
        self._keepers: set[int] = set()
        self._told: dict[str, supervisor.Process] = {}

    def sample(self) -> None:
        """One record for every process and one for the machine."""
        found = self._ask()
        everything = host_probe.processes()
        with_disk = self._samples % DISK_EVERY == 0
        self._samples += 1
        # Before it has told anything for once, what is first seen would be a restart.
        for host in self._hosts if found else ():
            disk = host_probe.folder_bytes(str(host.home)) if with_disk else None
            for name, role in host.processes.items():
                process = found.get(name)
                pid = process.pid if process else 0
                usage = host_probe.with_children(pid, everything) if pid else None
                self._restarts.note(name, usage, process.state if process else "gone")
                self._one(name, role, usage, disk)
                disk = None  # The folder of all of them, which is told once.
        # Workers on this machine are the children of their host's agent.
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                command = child.cmdline()
                if "loaders.send.worker" in command:
                    # … -m loaders.send.worker SPEC INDEX OUTDIR
                    index = command[command.index("loaders.send.worker") + 2]
                    usage = host_probe.with_children(child.pid, everything)
                    self._one(f"loader-worker-{index}", "loader", usage, None)
        self._machine({process.pid for process in found.values()} - {0}, everything)

    def _ask(self) -> dict[str, supervisor.Process]:
        """The servers' processes by name; as they were last told while supervisord tells nothing,
        as they live on without it, and whether one does is seen by its process."""
        with contextlib.suppress(UserError):
            told = supervisor.processes(self._supervisor_dir)
            if told is not None:
                self._told = {process.name: process for process in told}
        return self._told

    def _one(self, name: str, role: str, usage: dict[str, Any] | None, disk: int | None) -> None:
        if usage is None:  # It ended between two looks; the next one notes it.
            return
        self._file.write(t=time.time(), name=name, role=role, **usage, disk_bytes=disk)

    def _machine(self, servers: set[int], everything: dict[int, host_probe.Process]) -> None:
        # What is ours: this run with its loaders and captures, and the servers with what keeps
        # them, which has the time of those that have ended.
        self._keepers |= {everything[pid].parent for pid in servers & set(everything)}
        pids = host_probe.tree({os.getpid()} | self._keepers, everything)
        self._file.write(
            t=time.time(),
            name="machine",
            role="machine",
            **host_probe.machine_cpu(everything),
            cpu_ours_s=self._ours.seconds(pids, everything),
            mem_available_bytes=host_probe.available_bytes(),
        )
        if problem := room_problem(self._supervisor_dir, MIN_FREE_BYTES):
            self._low_disk(problem)


def room_problem(folder: Path, least_bytes: int) -> str | None:
    """That the disk of a folder on this machine, which may still be made, is nearly full; or
    None."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free >= least_bytes:
        return None
    return f"the disk is nearly full: {free / 1e6:,.0f} MB left at {folder}"


class HostProbes(Followed):
    """The same from managed hosts, by a probe on each (`host_probe`)."""

    def __init__(
        self,
        hosts: list[Host],
        every_s: float,
        file: JsonLines,
        events: JsonLines,
        low_disk: Callable[[str], None],
        removed: Callable[[Host], bool],
        filled: Collection[str],
    ) -> None:
        """See `Followed`.

        Args:
            low_disk: gets a message when a host's disk is nearly full.
            filled: hosts of which that is meant to happen.
        """
        super().__init__(hosts, "probe", self._probe, self._note, events, removed)
        self._filled = filled
        self._every_s = every_s
        self._file = file
        self._low_disk = low_disk
        self._restarts = Restarts(events)

    def _probe(self, host: Host) -> list[str]:
        options = {
            "units": host.units,
            "home": host.vars.get("home"),
            "every_s": self._every_s,
            "disk_every": DISK_EVERY,
        }
        return ["python3", "-u", "-c", _PROBE.read_text(), json.dumps(options)]

    def _note(self, host: Host, line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:  # Cut off by the host's end.
            return
        # By our clock, as the load's times are: the host's may be another.
        t = time.time()
        disk = found.get("disk_bytes")
        for name, told in found["servers"].items():
            self._restarts.note(name, told["used"], told["state"])
            if told["used"]:
                role = host.processes[name]
                self._file.write(t=t, name=name, role=role, **told["used"], disk_bytes=disk)
                disk = None  # The folder of all of them, which is told once.
        for index, usage in found["workers"].items():
            if usage:
                name = f"loader-worker-{index}"
                self._file.write(t=t, name=name, role="loader", **usage, disk_bytes=None)
        self._file.write(t=t, name=f"host {host.name}", role="host", **found["host"])
        few = found.get("free_bytes", MIN_FREE_BYTES) < MIN_FREE_BYTES
        if few and host.name not in self._filled:
            self._low_disk(
                f"the disk of {host.name} is nearly full: {found['free_bytes'] / 1e6:,.0f} MB left "
                f"at {host.home}"
            )
