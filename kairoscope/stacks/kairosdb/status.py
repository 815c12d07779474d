"""What `make status` shows of KairosDB and its store: the ring, health, queues."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.supervisor import Process
from kairoscope.plan.amounts import in_bytes
from kairoscope.stacks.kairosdb.servers import client, nodetool
from kairoscope.stacks.kairosdb.servers.client import KairosDBStatus


def show(hosts: Inventory, states: Mapping[str, Process], console: Console) -> bool:
    """Print the ring and KairosDB's queues; True if all is well. `states` by name of the host."""
    console.print("\n[bold]ring[/bold] (nodetool status)")
    ring = _ring(hosts.storage)
    problems = nodetool.ring_problems(nodetool.ring(ring), [h.address for h in hosts.storage])
    said = [ring.strip(), *([f"ring: {', '.join(problems)}"] if problems else [])]
    for line in said:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    well = not problems

    reached = [host for host in hosts.kairosdb if (p := states.get(host.name)) and p.pid]
    with client.connect(hosts, reached) as talk:
        answers = {host.name: talk.kairosdb(host) for host in reached}
    well &= queues(hosts, answers, console)
    for trouble in filter(None, ssh.on_all(hosts.kairosdb, _kept_shut)):
        console.print(trouble, markup=False, highlight=False, soft_wrap=True)
        well = False
    return well


def _kept_shut(host: Host) -> str:
    """That senders are kept out of a KairosDB node, or that it is not known; "" if they are not.

    What is asked of it here comes in all the same (role drain): it looks healthy.
    """
    if not host.vars.get("managed"):
        return ""
    try:
        tables = ssh.run(host, ["nft", "list", "tables"], sudo=True)
    except ssh.RemoteError as error:
        return f"{host.name}: whether it takes points is not known: {error}"
    if "kairoscope_drain" not in tables:
        return ""
    return (
        f"{host.name}: takes no points, by a drain: of a verb or deploy that goes on, or that was "
        "interrupted. Then the same command again, or make deploy, lets senders in"
    )


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
