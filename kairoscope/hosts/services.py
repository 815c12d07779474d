"""The servers of a target as their service manager sees them: supervisord's, or systemd's."""

import time
from collections.abc import Sequence

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.supervisor import Process


def of(inventory: Inventory, target: str) -> dict[str, Process]:
    """Every server's process by its name; state RUNNING where it runs.

    Raises:
        UserError: supervisord does not run.
    """
    if inventory.managed:
        found = ssh.on_all(inventory.hosts, _of_systemd)
        return {process.name: process for each in found for process in each}
    running = supervisor.processes(paths.target_dir(target) / "supervisor")
    if running is None:
        raise UserError(f"Target {target}: supervisord does not run. To bring it up: make deploy")
    return {process.name: process for process in running}


def _of_systemd(host: Host) -> list[Process]:
    properties = "ActiveState,SubState,MainPID,ActiveEnterTimestampMonotonic"
    shown = f"systemctl show -p {properties} {' '.join(host.units.values())}; cat /proc/uptime"
    try:
        said = ssh.run(host, ["sh", "-c", shown], timeout_s=30)
    except ssh.RemoteError as error:
        return [Process(name, _short(error), 0, 0.0) for name in host.units]
    return from_show(list(host.units), said, time.time())


def from_show(names: Sequence[str], said: str, now: float) -> list[Process]:
    """Processes from what `systemctl show` of as many units and /proc/uptime print (`now` in epoch
    seconds)."""
    *lines, uptime = said.strip().splitlines()
    # Units are apart by an empty line.
    shown = "\n".join(lines).strip().split("\n\n")
    return [
        _process(name, each.splitlines(), float(uptime.split()[0]), now)
        for name, each in zip(names, shown, strict=True)
    ]


def _process(name: str, lines: Sequence[str], uptime_s: float, now: float) -> Process:
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    pid = int(found.get("MainPID") or 0)
    active = found.get("ActiveState") == "active"
    state = "RUNNING" if active and pid else f"{found.get('ActiveState')}/{found.get('SubState')}"
    since_boot_s = int(found.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
    return Process(name, state, pid, now - uptime_s + since_boot_s)


def _short(error: Exception) -> str:
    return str(error).rpartition(": ")[2][:60]
