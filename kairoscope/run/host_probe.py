"""Runs on a managed host during a load: what its service, its loader workers and the host take.

Sent there as text and run by the host's own Python, as root, so standard library only. Prints one
JSON object a line every `every_s` seconds until its output is closed.

Argument: {"unit": name of a systemd unit or null, "home": folder whose size is looked at or null,
"every_s": seconds, "disk_every": every how many rounds that size is looked at}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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
    """CPU seconds and resident bytes of a process; None if it is gone."""
    stat = text(f"/proc/{pid}/stat")
    if not stat:
        return None
    # After the command's name, which may have blanks: fields 14 and 15 are user and system time.
    fields = stat.rpartition(")")[2].split()
    rss = text(f"/proc/{pid}/statm").split()
    return {
        "pid": int(pid),
        "cpu_s": (int(fields[11]) + int(fields[12])) / TICK,
        "rss_bytes": int(rss[1]) * PAGE if rss else 0,
    }


def workers() -> dict[str, Any]:
    """Usage of every loader worker by its number."""
    found = {}
    for pid in (path.name for path in Path("/proc").glob("[0-9]*")):
        line = text(f"/proc/{pid}/cmdline").split("\0")
        if "loaders.send.worker" in line:
            # … -m loaders.send.worker SPEC INDEX OUTDIR
            found[line[line.index("loaders.send.worker") + 2]] = usage(pid)
    return found


def host() -> dict[str, Any]:
    """Busy and stolen CPU seconds of the whole host, and its available memory."""
    # user nice system idle iowait irq softirq steal guest guest_nice; guest is in user already.
    cpu = [int(x) / TICK for x in text("/proc/stat").split("\n", 1)[0].split()[1:9]]
    memory = dict(line.split(":", 1) for line in text("/proc/meminfo").splitlines())
    return {
        "cpus": os.cpu_count(),
        "cpu_busy_s": sum(cpu) - cpu[3] - cpu[4],
        "cpu_steal_s": cpu[7],
        "mem_available_bytes": int(memory["MemAvailable"].split()[0]) * 1024,
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


def main(options: dict[str, Any]) -> None:
    """Print a record every `every_s` seconds until nobody reads."""
    rounds = 0
    while True:
        began = time.monotonic()
        record: dict[str, Any] = {"t": time.time(), "host": host(), "workers": workers()}
        if options["unit"]:
            record["state"], pid = unit_state(options["unit"])
            record["service"] = usage(pid) if pid else None
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
