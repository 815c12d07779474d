"""Runs on a managed host during a load: what its servers, its loader workers and the host take.

Sent there as text and run by the host's own Python, as root, so standard library only. Prints one
JSON object a line every `every_s` seconds until its output is closed.

Argument: {"units": systemd unit of each server by its name, "home": folder whose size is looked at
or null, "every_s": seconds, "disk_every": every how many rounds that size is looked at}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def text(path: str) -> str:
    """Content of a small file; "" if it is gone."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def unit_state(unit: str) -> tuple[str, int]:
    """(state, main pid) as systemd says."""
    said = subprocess.run(
        ["systemctl", "show", "-p", "ActiveState,MainPID", unit + ".service"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    return found.get("ActiveState", "unknown"), int(found.get("MainPID") or 0)


def usage(pid: int | str) -> dict[str, Any] | None:
    """CPU seconds and resident bytes of a process, and when it started; None if it is gone."""
    stat = text(f"/proc/{pid}/stat")
    if not stat:
        return None
    # After the command's name, which may have blanks: fields 14 and 15 are user and system time,
    # 22 when it started, in ticks since the machine did. A container that boots again gives its
    # processes the same pids as before.
    fields = stat.rpartition(")")[2].split()
    rss = text(f"/proc/{pid}/statm").split()
    return {
        "pid": int(pid),
        "started_s": int(fields[19]) / TICK,
        "cpu_s": (int(fields[11]) + int(fields[12])) / TICK,
        "rss_bytes": int(rss[1]) * PAGE if rss else 0,
    }


class Process(NamedTuple):
    """One of the host's: `cpu_s` of itself and of the children that it has waited for."""

    parent: int
    kernel: bool
    cpu_s: float


def processes() -> dict[int, Process]:
    """All processes of the host by pid."""
    found = {}
    for pid in (path.name for path in Path("/proc").glob("[0-9]*")):
        if stat := text(f"/proc/{pid}/stat"):
            fields = stat.rpartition(")")[2].split()
            # Fields 4, 9 and 14 to 17 of proc(5): parent, flags, user and system time, and those of
            # children. 0x200000 is the kernel's PF_KTHREAD.
            used = sum(map(int, fields[11:15])) / TICK
            found[int(pid)] = Process(int(fields[1]), bool(int(fields[6]) & 0x200000), used)
    return found


def tree(roots: set[int], everything: dict[int, Process]) -> set[int]:
    """The processes `roots`, as far as they live, and all that descend from them."""
    found, new = set(), roots & set(everything)
    while new:
        found |= new
        new = {pid for pid, process in everything.items() if process.parent in new} - found
    return found


class Ours:
    """CPU seconds of what is ours of a host, with what has ended since the first look."""

    def __init__(self) -> None:
        self._last: dict[int, Process] = {}
        self._used = 0.0

    def seconds(self, pids: set[int], everything: dict[int, Process]) -> float:
        """What they have used so far; `pids` are those of now."""
        now = {pid: everything[pid] for pid in pids}
        before = {pid: process.cpu_s for pid, process in self._last.items()}
        self._used += sum(process.cpu_s - before.get(pid, 0.0) for pid, process in now.items())
        # The time of one that ended is in that of its parent now, if that is ours.
        self._used -= sum(used for pid, used in before.items() if self._inherited(pid, now))
        self._last = now
        return self._used

    def _inherited(self, pid: int, now: dict[int, Process]) -> bool:
        """Whether a process has ended, and one of ours that lives has waited for it."""
        if pid in now:
            return False
        while pid in self._last and pid not in now:
            pid = self._last[pid].parent
        return pid in now


def commands() -> dict[int, list[str]]:
    """The command line of every process by pid."""
    found = {}
    for pid in (path.name for path in Path("/proc").glob("[0-9]*")):
        found[int(pid)] = text(f"/proc/{pid}/cmdline").split("\0")
    return found


def with_children(pid: int, everything: dict[int, Process]) -> dict[str, Any] | None:
    """Usage of a server and of its children, which are its own: a database's, a pool of workers;
    memory that they share is counted in each. None if it is gone."""
    own = usage(pid)
    if own is None:
        return None
    pids = tree({pid}, everything)
    of_children = [usage(each) for each in pids - {pid}]
    return {
        **own,
        # With that of children that have ended.
        "cpu_s": sum(everything[each].cpu_s for each in pids) or own["cpu_s"],
        "rss_bytes": own["rss_bytes"] + sum(u["rss_bytes"] for u in of_children if u),
    }


def workers(lines: dict[int, list[str]]) -> dict[str, Any]:
    """Usage of every loader worker by its number."""
    return {
        # … -m loaders.send.worker SPEC INDEX OUTDIR
        line[line.index("loaders.send.worker") + 2]: usage(pid)
        for pid, line in lines.items()
        if "loaders.send.worker" in line
    }


def of_ours(line: list[str]) -> bool:
    """Whether a command line is of a loader, or of a capture by nodetool."""
    return any(
        part.startswith("loaders.") or part.endswith(("/nodetool", ".NodeTool")) for part in line
    )


def machine_cpu(everything: dict[int, Process]) -> dict[str, float]:
    """CPU seconds of all cores: busy, of that the kernel's own (interrupts and threads), stolen."""
    # user nice system idle iowait irq softirq steal guest guest_nice; guest is in user already.
    ticks = [int(x) for x in text("/proc/stat").split("\n", 1)[0].split()[1:9]]
    cpu = [each / TICK for each in ticks]
    threads = sum(process.cpu_s for process in everything.values() if process.kernel)
    return {
        # Of whole ticks: a sum of fractions that differ can be less than the one before it.
        "cpu_busy_s": (sum(ticks) - ticks[3] - ticks[4] - ticks[7]) / TICK,
        "cpu_kernel_s": cpu[5] + cpu[6] + threads,
        "cpu_steal_s": cpu[7],
    }


def folder_bytes(folder: str) -> int:
    """Bytes allocated below a folder; files that vanish meanwhile count nothing."""
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += Path(root, name).lstat().st_blocks * 512
            except OSError:
                continue
    return total


def available_bytes() -> int:
    """Memory that is there for who asks."""
    memory = dict(line.split(":", 1) for line in text("/proc/meminfo").splitlines())
    return int(memory["MemAvailable"].split()[0]) * 1024


def booted() -> int:
    """When the kernel started, epoch s: the machine's, also in a container. The kernel's boot_id
    would be no mark of it, as systemd-nspawn gives each container another."""
    lines = text("/proc/stat").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("btime ")))


def look(options: dict[str, Any], ours: Ours) -> dict[str, Any]:
    """What the host, its servers and its loader workers have used so far."""
    lines, everything = commands(), processes()
    record: dict[str, Any] = {"workers": workers(lines), "servers": {}}
    roots = {os.getpid(), *(pid for pid, line in lines.items() if of_ours(line))}
    for name, unit in options["units"].items():
        state, pid = unit_state(unit)
        used = with_children(pid, everything) if pid else None
        record["servers"][name] = {"state": state, "used": used}
        roots.add(pid)
    record["host"] = {
        "cpus": os.cpu_count(),
        "booted": booted(),
        **machine_cpu(everything),
        "cpu_ours_s": ours.seconds(tree(roots, everything), everything),
        "mem_available_bytes": available_bytes(),
    }
    return record


def main(options: dict[str, Any]) -> None:
    """Print a record every `every_s` seconds until nobody reads."""
    rounds, ours = 0, Ours()
    while True:
        began = time.monotonic()
        record = look(options, ours)
        if options["home"]:
            if rounds % options["disk_every"] == 0:
                record["disk_bytes"] = folder_bytes(options["home"])
            disk = os.statvfs(options["home"])
            record["free_bytes"] = disk.f_bavail * disk.f_frsize
        rounds += 1
        print(json.dumps(record), flush=True)
        time.sleep(max(0.0, options["every_s"] - (time.monotonic() - began)))


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):
        # Nobody reads any more; the interpreter's own flush at its end would complain again.
        os._exit(0)
