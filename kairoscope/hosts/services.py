"""The servers of a target as their service manager sees them: supervisord's, or systemd's."""

import time

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.supervisor import Process


def of(inventory: Inventory, target: str) -> dict[str, Process]:
    """Every server's process by its host's name; state RUNNING where it runs.

    Raises:
        UserError: supervisord does not run.
    """
    if inventory.managed:
        found = ssh.on_all(inventory.hosts, _of_systemd)
        return {process.name: process for process in found}
    running = supervisor.processes(paths.target_dir(target) / "supervisor")
    if running is None:
        raise UserError(f"Target {target}: supervisord does not run. To bring it up: make deploy")
    return {process.name: process for process in running}


def _of_systemd(host: Host) -> Process:
    properties = "ActiveState,SubState,MainPID,ActiveEnterTimestampMonotonic"
    try:
        said = ssh.run(
            host,
            ["sh", "-c", f"systemctl show -p {properties} {host.vars['unit']}; cat /proc/uptime"],
            timeout_s=30,
        )
    except ssh.RemoteError as error:
        return Process(host.name, _short(error), 0, 0.0)
    return from_show(host.name, said, time.time())


def from_show(name: str, said: str, now: float) -> Process:
    """A process from what `systemctl show` and /proc/uptime print (`now` in epoch seconds)."""
    *lines, uptime = said.strip().splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    pid = int(found.get("MainPID") or 0)
    active = found.get("ActiveState") == "active"
    state = "RUNNING" if active and pid else f"{found.get('ActiveState')}/{found.get('SubState')}"
    since_boot_s = int(found.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
    return Process(name, state, pid, now - float(uptime.split()[0]) + since_boot_s)


def _short(error: Exception) -> str:
    return str(error).rpartition(": ")[2][:60]
