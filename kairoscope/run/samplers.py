"""Samplers that run beside the load, each in a thread, each writing one file as it goes.

What they write is on disk at every moment, so an interrupted run keeps what was captured.
"""

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.inventory import Host
from kairoscope.run import host_probe
from kairoscope.run_folder import CAPTURES, JsonLines, stamp, write_json
from kairoscope.stacks.kairosdb import nodetool, scylla_rest
from kairoscope.stacks.kairosdb.client import Client

# A run that fills the disk takes the store down with it (KairosDB's queue is memory-mapped: a full
# disk kills the process). It is stopped while there is still room to write down what happened.
MIN_FREE_BYTES = 300_000_000

# Walking the data folders is the dear part of a look at processes: every fifth time is enough for a
# curve.
DISK_EVERY = 5

# Between two attempts at a node that has just been started again, in s.
_AGAIN_S = 2.0

_PROBE = Path(host_probe.__file__)


class Periodic(threading.Thread):
    """Calls a function every `every_s` seconds on a fixed grid until stopped.

    An error of the function ends the sampler and is kept in `error`: the run is then incomplete,
    since a capture with a hole in it must not look whole.
    """

    def __init__(
        self, name: str, every_s: float, sample: Callable[[], object], after_s: float = 0
    ) -> None:
        """Not started yet; `sample` is called from this thread only, first after `after_s`."""
        super().__init__(name=name, daemon=True)
        self._every_s = every_s
        self._after_s = after_s
        self._sample = sample
        self._stop_event = threading.Event()
        self.error: str | None = None

    def run(self) -> None:
        """Sample on the grid; a sample that takes longer than a step skips the steps it missed."""
        self._stop_event.wait(self._after_s)
        start = time.monotonic()
        while not self._stop_event.is_set():
            try:
                self._sample()
            except Exception as error:
                self.error = f"{self.name}: {type(error).__name__}: {error}"
                return
            elapsed = time.monotonic() - start
            self._stop_event.wait(self._every_s - elapsed % self._every_s)

    def stop(self) -> None:
        """Ask it to end and wait until it has."""
        self._stop_event.set()
        if self.is_alive():
            self.join()


class ProxyHistograms:
    """`nodetool proxyhistograms` of every storage node: raw text kept, parsed beside it."""

    def __init__(
        self, hosts: list[Host], folder: Path, events: JsonLines, touch: Callable[[Host], None]
    ) -> None:
        """Raw files go to folder/<node>/, all parsed captures to folder/captures.json.

        `touch` has a node coordinate a read, without which Cassandra has no figures; never raises.
        """
        self._hosts = hosts
        self._folder = folder
        self._events = events
        self._touch = touch
        self._captures: list[dict[str, Any]] = []
        for host in hosts:
            (folder / host.name).mkdir(parents=True)

    def capture(self, phase: str, patience_s: float = 0) -> list[str]:
        """Capture every node once, one after another; `phase` is before, during or after.

        A node that does not answer for `patience_s` is an event, not an error: it may be what the
        run is about. Returns the names of those.
        """
        failed = []
        deadline = time.monotonic() + patience_s
        for host in self._hosts:
            while (trouble := self._one(host, phase)) and time.monotonic() < deadline:
                time.sleep(_AGAIN_S)
                self._touch(host)
            if trouble:
                failed.append(host.name)
                self._events.write(
                    t=time.time(),
                    what="capture failed",
                    detail=f"{host.name}: {trouble}",
                    node=host.name,
                    phase=phase,
                )
        write_json(self._folder / Path(CAPTURES).name, self._captures)
        return failed

    def without(self, names: set[str]) -> None:
        """Ask nodes that were taken away no more."""
        self._hosts = [host for host in self._hosts if host.name not in names]

    def _one(self, host: Host, phase: str) -> str:
        """Capture a node; why it could not be, else ""."""
        t = time.time()
        try:
            text = nodetool.run(host, "proxyhistograms")
            rows = nodetool.parse_proxyhistograms(text)
        except (nodetool.NodetoolError, nodetool.FormatError) as error:
            return str(error) or type(error).__name__
        file = Path(host.name) / f"{phase}-{stamp(t)}.txt"
        (self._folder / file).write_text(text)
        self._captures.append(
            {"t": t, "node": host.name, "phase": phase, "file": str(file), "rows": rows}
        )
        return ""


class StoreWindow:
    """What ScyllaDB's nodes counted of their requests in exactly the measured time of a run.

    `proxyhistograms` cannot say that: its figures are a sample of the last requests, or forget.
    """

    def __init__(self, hosts: list[Host], path: Path, events: JsonLines) -> None:
        """The document goes to `path` when it ends."""
        self._hosts = hosts
        self._path = path
        self._events = events
        self._looks: list[dict[str, Any]] = [{}, {}]
        self._timers: list[threading.Timer] = []

    def start(self, begin_s: float, end_s: float) -> None:
        """Look in so many seconds from now, twice."""
        for place, delay_s in enumerate((begin_s, end_s)):
            timer = threading.Timer(max(delay_s, 0), self._look, (place,))
            timer.daemon = True
            timer.start()
            self._timers.append(timer)

    def stop(self) -> None:
        """Write what there is; looks that were not due yet are not taken any more."""
        for timer in self._timers:
            timer.cancel()
            timer.join()
        nodes = {}
        for host in self._hosts:
            (t0, before), (t1, after) = (look.get(host.name, (0.0, {})) for look in self._looks)
            try:
                counted = {
                    name: scylla_rest.window(before[name], after[name])
                    for name in scylla_rest.COUNTED
                }
            except (LookupError, TypeError, ValueError) as error:
                why = str(error) if isinstance(error, ValueError) else "a look is missing"
                self._note(host, why)
                continue
            nodes[host.name] = {"begin": t0, "end": t1, **counted}
        write_json(self._path, {"nodes": nodes})

    def _look(self, place: int) -> None:
        def one(host: Host) -> tuple[float, Any] | None:
            t = time.time()
            try:
                return t, json.loads(nodetool.rest(host, "counters"))
            except (nodetool.NodetoolError, ValueError) as error:
                self._note(host, str(error))
                return None

        found = zip(self._hosts, ssh.on_all(self._hosts, one), strict=True)
        self._looks[place] = {host.name: look for host, look in found if look is not None}

    def _note(self, host: Host, why: str) -> None:
        detail = f"{host.name}: {why}"
        self._events.write(t=time.time(), what="store's own counts not captured", detail=detail)


class QueueDepth:
    """KairosDB's queue depth in data points, asked of every node."""

    def __init__(
        self,
        hosts: list[Host],
        client: Client,
        file: JsonLines,
        removed: Callable[[Host], bool],
    ) -> None:
        """Samples go to `file`. A host that was `removed` was drained before."""
        self._hosts = hosts
        self._client = client
        self._file = file
        self._removed = removed
        # The newest sample of each node; None while it does not answer.
        self.waiting: dict[str, int | None] = {host.name: None for host in hosts}

    def sample(self) -> None:
        """Ask every node once; a node that does not answer is a sample too."""
        for host in self._hosts:
            t = time.time()
            if self._removed(host):
                self.waiting[host.name] = 0
                self._file.write(t=t, node=host.name, waiting=0, removed=True)
                continue
            try:
                depth = self._client.get_json(host, "/api/v1/kairoscope/queue", timeout_s=5)
            except OSError as error:
                self.waiting[host.name] = None
                self._file.write(t=t, node=host.name, error=str(error))
                continue
            self.waiting[host.name] = depth["waiting"]
            self._file.write(t=t, node=host.name, **depth)

    @property
    def total(self) -> int | None:
        """Points waiting on all nodes together; None if any of them does not tell."""
        depths = list(self.waiting.values())
        return None if None in depths else sum(d for d in depths if d is not None)


class Restarts:
    """Notes in the events when a server's process ends or is another one."""

    def __init__(self, events: JsonLines) -> None:
        """Nothing is known yet."""
        self._events = events
        self._pids: dict[str, int] = {}

    def note(self, name: str, pid: int, state: str) -> None:
        """A server's process as it is now; pid 0 if it has none."""
        before = self._pids.get(name)
        if before is not None and pid != before:
            what = "process ended" if pid == 0 else "process started again"
            detail = f"{name}: pid {before} → {pid or 'none'} ({state})"
            self._events.write(t=time.time(), what=what, detail=detail)
        self._pids[name] = pid


class Processes:
    """CPU, memory and disk of every local process, and of the machine; notices restarts."""

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

    def sample(self) -> None:
        """One record for every process and one for the machine."""
        found = {p.name: p for p in supervisor.processes(self._supervisor_dir) or []}
        with_disk = self._samples % DISK_EVERY == 0
        self._samples += 1
        for host in self._hosts:
            process = found.get(host.name)
            pid = process.pid if process else 0
            self._restarts.note(host.name, pid, process.state if process else "gone")
            disk = folder_bytes(host.home) if with_disk else None
            self._one(host.name, host.role, pid, disk)
        # Workers on this machine are the children of their host's agent.
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                command = child.cmdline()
                if "loaders.send.worker" in command:
                    # … -m loaders.send.worker SPEC INDEX OUTDIR
                    index = command[command.index("loaders.send.worker") + 2]
                    self._one(f"loader-worker-{index}", "loader", child.pid, None)
        self._machine()

    def _one(self, name: str, role: str, pid: int, disk: int | None) -> None:
        try:
            process = psutil.Process(pid) if pid else None
            if process is None:
                return
            cpu = process.cpu_times()
            self._file.write(
                t=time.time(),
                name=name,
                role=role,
                pid=pid,
                cpu_s=cpu.user + cpu.system,
                rss_bytes=process.memory_info().rss,
                disk_bytes=disk,
            )
        except psutil.Error:  # It ended between two looks; the next one notes it.
            return

    def _machine(self) -> None:
        cpu = psutil.cpu_times()
        busy = sum(cpu) - cpu.idle - cpu.iowait
        # Guest time is inside user time already.
        busy -= getattr(cpu, "guest", 0) + getattr(cpu, "guest_nice", 0)
        self._file.write(
            t=time.time(),
            name="machine",
            role="machine",
            cpu_busy_s=busy,
            cpu_steal_s=getattr(cpu, "steal", 0),
            mem_available_bytes=psutil.virtual_memory().available,
        )
        free = shutil.disk_usage(self._supervisor_dir).free
        if free < MIN_FREE_BYTES:
            self._low_disk(
                f"the disk is nearly full: {free / 1e6:,.0f} MB left at {self._supervisor_dir}"
            )


class Followed:
    """Programs that run on hosts, one on each, whose lines are read here as they come.

    Stands where a `Periodic` does: `start`, `stop`, `error`.
    """

    def __init__(
        self,
        hosts: list[Host],
        what: str,
        program: Callable[[Host], list[str]],
        record: Callable[[Host, str], None],
        events: JsonLines,
        removed: Callable[[Host], bool],
    ) -> None:
        """Not started yet.

        `record` gets each line, in the thread of its host; `what` names the programs in the events.
        A host that was `removed` is followed no more.
        """
        self._hosts = hosts
        self._what = what
        self._program = program
        self._record = record
        self._events = events
        self._removed = removed
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.error: str | None = None

    def start(self) -> None:
        """Start a program on every host."""
        for host in self._hosts:
            thread = threading.Thread(target=self._follow, args=(host,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End them all."""
        self._ended.set()
        for popen in list(self._running.values()):
            popen.terminate()
        for thread in self._threads:
            thread.join()

    def _follow(self, host: Host) -> None:
        """Read a host's program; one that ends (the host restarts) is started again."""
        while not self._ended.is_set():
            with subprocess.Popen(
                ssh.command(host, self._program(host), sudo=True),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            ) as popen:
                self._running[host.name] = popen
                if self._ended.is_set():  # `stop` may have looked before it was there.
                    popen.terminate()
                assert popen.stdout is not None  # noqa: S101 - for the type checker
                for line in popen.stdout:
                    self._record(host, line)
            if not self._ended.wait(1):
                if self._removed(host):
                    self._events.write(t=time.time(), what="host removed", detail=host.name)
                    return
                said = f"{host.name}: not seen for a while (exit status {popen.returncode})"
                self._events.write(t=time.time(), what=f"{self._what} ended", detail=said)


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
    ) -> None:
        """`low_disk` gets a message when a host's disk is nearly full; otherwise see `Followed`."""
        super().__init__(hosts, "probe", self._probe, self._note, events, removed)
        self._every_s = every_s
        self._file = file
        self._low_disk = low_disk
        self._restarts = Restarts(events)

    def _probe(self, host: Host) -> list[str]:
        options = {
            "unit": host.vars.get("unit"),
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
        t = found["t"]
        service = found.get("service")
        if "state" in found:
            self._restarts.note(host.name, service["pid"] if service else 0, found["state"])
        if service:
            disk = found.get("disk_bytes")
            self._file.write(t=t, name=host.name, role=host.role, **service, disk_bytes=disk)
        for index, usage in found["workers"].items():
            if usage:
                name = f"loader-worker-{index}"
                self._file.write(t=t, name=name, role="loader", **usage, disk_bytes=None)
        self._file.write(t=t, name=f"host {host.name}", role="host", **found["host"])
        if found.get("free_bytes", MIN_FREE_BYTES) < MIN_FREE_BYTES:
            self._low_disk(
                f"the disk of {host.name} is nearly full: {found['free_bytes'] / 1e6:,.0f} MB left "
                f"at {host.home}"
            )


def folder_bytes(folder: Path) -> int:
    """Bytes allocated below a folder; files that vanish meanwhile count nothing."""
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += Path(root, name).stat().st_blocks * 512
            except OSError:
                continue
    return total
