"""In what state a load finds the servers: warm or cold, and what waits on them already.

The same load costs half as much again on servers that were just started: Java compiles while it
runs. So a comparison has to know since when they run and what they have had to do since.
"""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import services
from kairoscope.hosts.inventory import Inventory


def conditions(
    inventory: Inventory, target: str, runs: Path, queue: list[dict[str, Any]]
) -> dict[str, Any]:
    """For manifest.json; nothing here is reason enough not to load: null is not known.

    Args:
        inventory: the servers.
        target: that they are of.
        runs: the folder of runs.
        queue: of each node that takes points, what waits on it now.
    """
    try:
        seen = services.of(inventory, target)
    except UserError:
        seen = {}
    servers: list[dict[str, Any]] = []
    for host in [*inventory.storage, *inventory.kairosdb]:
        for name, role in host.processes.items():
            process = seen.get(name)
            up = process is not None and process.pid > 0
            servers.append(
                {
                    "name": name,
                    "role": role,
                    "started": process.started if process and up else None,
                    "compile_s": compile_seconds(process.pid)
                    if process and up and not inventory.managed
                    else None,
                }
            )
    starts = [float(server["started"]) for server in servers if server["started"] is not None]
    known = len(starts) == len(servers)
    return {
        "servers": servers,
        "points_since": points_since(runs, target, max(starts)) if known else None,
        "queue": queue,
    }


def compile_seconds(pid: int) -> float | None:
    """CPU seconds of a Java process's compiler threads, of those that live; None if it has none."""
    found = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().startswith(("C1 Compiler", "C2 Compiler")):
                # After the name: fields 14 and 15 of proc(5), user and system time in ticks.
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                found.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    except OSError:  # It ended meanwhile.
        return None
    return round(sum(found), 2) if found else None


def points_since(runs: Path, target: str, since: float) -> int:
    """Points that runs of this folder sent to the target since its youngest server was started."""
    total = 0
    for path in runs.glob(f"*-{target}/{run_folder.MANIFEST}"):
        try:
            manifest = run_folder.read_object(path)
            began = datetime.fromisoformat(manifest["started"]).timestamp()
            if manifest["target"] == target and began >= since:
                total += int(run_folder.read_object(path.parent / run_folder.LEDGER)["sent"])
        except (UserError, OSError, LookupError, TypeError, ValueError):
            # Of a run that was killed, or is another version's, nothing is known.
            continue
    return total
