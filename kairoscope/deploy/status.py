"""`make status`: every process, the ring, KairosDB's health and queue depth, loader hosts."""

import time
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from kairoscope.errors import UserError
from kairoscope.hosts import inventory, loader, prometheus, services, ssh
from kairoscope.hosts.deployed import deployed_plan
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.supervisor import Process
from kairoscope.plan.numbers import in_bytes
from kairoscope.stacks.kairosdb import client, nodetool
from kairoscope.stacks.kairosdb.client import KairosDBStatus
from kairoscope.stacks.stack import Stack


def show(target: str, stack: Stack, console: Console) -> bool:
    """Print the status of a target, which `stack` stands on; True if all of it is well."""
    hosts = inventory.load(target)
    states = services.of(hosts, target)

    table = Table("process", "state", "pid", "up", "address", title=f"target {target}")
    well = True
    for host in hosts.hosts:
        process = states.get(host.name)
        state = process.state if process else "not defined"
        well &= state == "RUNNING"
        up = f"{time.time() - process.started:,.0f} s" if process and process.pid else "-"
        ports = host.vars.get("http_port") or host.vars["native_transport_port"]
        table.add_row(
            host.name, state, str(process.pid if process else "-"), up, f"{host.address}:{ports}"
        )
    console.print(table)

    if hosts.storage:
        well &= _of_kairosdb(hosts, states, console)
    else:
        well &= _of_stack(target, hosts, stack, console)

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


def _of_kairosdb(hosts: Inventory, states: Mapping[str, Process], console: Console) -> bool:
    """Print the ring and KairosDB's queues; True if all is well."""
    console.print("\n[bold]ring[/bold] (nodetool status)")
    ring = _ring(hosts.storage)
    console.print(ring.strip(), markup=False, highlight=False, soft_wrap=True)
    well = ring.count("\nUN ") == len(hosts.storage)

    reached = [host for host in hosts.kairosdb if (p := states.get(host.name)) and p.pid]
    with client.connect(hosts, reached) as talk:
        answers = {host.name: talk.kairosdb(host) for host in reached}
    return queues(hosts, answers, console) and well


def _of_stack(target: str, hosts: Inventory, stack: Stack, console: Console) -> bool:
    """Print what a stack without storage nodes says of itself; True if it takes points."""
    with stack.connect(deployed_plan(target), hosts) as session:
        try:
            session.check_ready()
        except UserError as error:
            console.print(error.message, markup=False, highlight=False, soft_wrap=True)
            return False
        versions = ", ".join(f"{name} {said}" for name, said in session.versions().items())
        console.print(f"{versions}: takes points", markup=False, highlight=False)
        for node in session.waiting_now():
            console.print(f"{node['node']}: waiting {_count(node['waiting'])}", highlight=False)
    return True


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


def queues(hosts: Inventory, answers: dict[str, KairosDBStatus], console: Console) -> bool:
    """Print what the KairosDB nodes said, and their queues' troubles; True if all is well."""
    table = Table(
        *("KairosDB", "healthy", "read-only", "queue waiting", "since checkpoint"),
        *("oldest", "disk", "dead letters", "unreadable"),
    )
    well = True
    troubles = []
    for host in hosts.kairosdb:
        found = answers.get(host.name, client.NO_ANSWER)
        well &= found.healthy and not found.read_only
        troubles += [f"{host.name}: {trouble}" for trouble in found.troubles]
        if (found.dead_letters or found.unreadable) and not found.troubles:
            troubles.append(
                f"{host.name}: points that it took are not in the store: kairoscope queue inspect"
            )
        table.add_row(
            host.name,
            "yes" if found.healthy else "no",
            "-" if found.read_only is None else "yes" if found.read_only else "no",
            _count(found.waiting),
            _count(found.since_checkpoint),
            "-" if found.oldest_ms is None else f"{found.oldest_ms / 1000:,.1f} s",
            "-" if found.disk_bytes is None else in_bytes(found.disk_bytes),
            _count(found.dead_letters),
            _count(found.unreadable),
        )
    console.print(table)
    for trouble in troubles:
        console.print(trouble, markup=False, highlight=False, soft_wrap=True)
    return well


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _ring(hosts: list[Host]) -> str:
    for host in hosts:
        try:
            return nodetool.run(host, "status")
        except nodetool.NodetoolError:
            continue
    return "no storage node answers nodetool"
