"""`make status`: every process, the ring, KairosDB's health and queue depth, loader hosts."""

import time

from rich.console import Console
from rich.table import Table

from kairoscope import client, inventory, loader_hosts, remote, services
from kairoscope.capture import nodetool
from kairoscope.inventory import Host


def show(target: str, console: Console) -> bool:
    """Print the status of a target; True if all of it is well."""
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

    console.print("\n[bold]ring[/bold] (nodetool status)")
    ring = _ring(hosts.storage)
    console.print(ring.strip(), markup=False, highlight=False, soft_wrap=True)
    well &= ring.count("\nUN ") == len(hosts.storage)

    queue = Table("KairosDB", "healthy", "read-only", "queue waiting", "since checkpoint")
    reached = [host for host in hosts.kairosdb if (p := states.get(host.name)) and p.pid]
    with client.connect(hosts, reached) as talk:
        answers = {host.name: talk.kairosdb(host) for host in reached}
    for host in hosts.kairosdb:
        found = answers.get(host.name, client.NO_ANSWER)
        well &= found.healthy and not found.read_only
        cells = [found.healthy, found.read_only, found.waiting, found.since_checkpoint]
        queue.add_row(
            host.name,
            *(
                "-" if c is None else f"{c:,}" if type(c) is int else "yes" if c else "no"
                for c in cells
            ),
        )
    console.print(queue)

    # Nothing runs there between loads: whether one could be started is what there is to see.
    loaders = Table("loader host", "address", "loader")
    versions = remote.on_all(hosts.loader, loader_hosts.version)
    for host, version in zip(hosts.loader, versions, strict=True):
        same = version == loader_hosts.current_version()
        well &= same
        said = version or "does not answer"
        loaders.add_row(
            host.name,
            host.address,
            said if same or not version else f"{said}, not this checkout's: make deploy",
        )
    console.print(loaders)
    return well


def _ring(hosts: list[Host]) -> str:
    for host in hosts:
        try:
            return nodetool.run(host, "status")
        except nodetool.NodetoolError:
            continue
    return "no storage node answers nodetool"
