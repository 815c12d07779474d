"""`make status`: every process, what the stack says of itself, loader hosts, Prometheus."""

import time

from rich.console import Console
from rich.table import Table

from kairoscope.hosts import inventory, loader, prometheus, services, ssh
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.supervisor import Process
from kairoscope.stacks.stack import Stack

_STARTING_S = 5.0
"""Longer than supervisord takes to count a process that is up as started: 3 s (`startsecs` in the
role `service`). A server may answer before, and a deploy end."""
_LOOK_S = 0.5


def show(target: str, stack: Stack, console: Console) -> bool:
    """Print the status of a target, which `stack` stands on; True if all of it is well."""
    hosts = inventory.load(target)
    states = _settled(hosts, target)

    table = Table("process", "state", "pid", "up", "address", title=f"target {target}")
    well = True
    for host in hosts.hosts:
        ports = host.vars.get("http_port") or host.vars["native_transport_port"]
        for name in host.processes:
            process = states.get(name)
            state = process.state if process else "not defined"
            well &= state == "RUNNING"
            up = f"{time.time() - process.started:,.0f} s" if process and process.pid else "-"
            pid = str(process.pid if process else "-")
            table.add_row(name, state, pid, up, f"{host.address}:{ports}")
    console.print(table)

    well &= stack.show(hosts, states, console)

    # Nothing runs there between loads: whether one could be started is what there is to see.
    loaders = Table("loader host", "address", "loader")
    versions = ssh.on_all(hosts.loader, loader.version)
    for host, version in zip(hosts.loader, versions, strict=True):
        same = version == loader.current_version()
        well &= same
        said = version or "does not answer"
        loaders.add_row(
            host.name,
            host.address,
            said if same or not version else f"{said}, not this checkout's: make deploy",
        )
    console.print(loaders)
    return all([well, *(_monitoring(host, console) for host in hosts.monitoring)])


def _settled(hosts: inventory.Inventory, target: str) -> dict[str, Process]:
    """The processes' states, once none of them has just been started."""
    until = time.monotonic() + _STARTING_S
    while True:
        states = services.of(hosts, target)
        starting = any(process.state == "STARTING" for process in states.values())
        if not starting or time.monotonic() > until:
            return states
        time.sleep(_LOOK_S)


def _monitoring(host: Host, console: Console) -> bool:
    """Print where Prometheus is, and which alerts fire; True if it answers.

    What they are about is looked at here as well, and what is mended goes on firing for a while.
    """
    address = host.vars["monitoring_address"]
    ports = {
        "Prometheus": "prometheus_web_port",
        "Alertmanager": "alertmanager_port",
        "Grafana": "grafana_port",
    }
    said = ", ".join(
        f"{name} http://{address}:{host.vars[port]}"
        for name, port in ports.items()
        if port in host.vars
    )
    console.print(f"monitoring on {host.name}: {said}", highlight=False, soft_wrap=True)
    try:
        alerts = prometheus.known(host).alerts
    except ssh.RemoteError as error:
        console.print(f"Prometheus does not answer: {error}", markup=False, soft_wrap=True)
        return False
    for alert in alerts or ["none"]:
        console.print(f"alert: {alert}", markup=False, highlight=False, soft_wrap=True)
    return True
