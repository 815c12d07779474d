"""`make status`: every process, the ring, KairosDB's health and queue depth, loader hosts."""

import json
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kairoscope import inventory, loader_hosts, paths, supervisor
from kairoscope.capture import nodetool
from kairoscope.errors import UserError


def get_json(url: str, timeout_s: float = 5) -> Any:
    """GET a JSON document. OSError if the server does not answer."""
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 (our own servers)
        return json.load(answer)


@dataclass(frozen=True)
class KairosDBStatus:
    """Health of a KairosDB node; depths in data points, None where it did not tell."""

    healthy: bool
    waiting: int | None
    since_checkpoint: int | None
    read_only: bool | None


def kairosdb(url: str) -> KairosDBStatus:
    """Ask one KairosDB node. Never raises: a node that does not answer is not healthy."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/health/check", timeout=10) as answer:  # noqa: S310
            healthy = 200 <= answer.status < 300  # noqa: PLR2004
        queue = get_json(f"{url}/api/v1/kairoscope/queue")
        settings = get_json(f"{url}/api/v1/kairoscope/settings")
    except OSError:
        return KairosDBStatus(False, None, None, None)
    return KairosDBStatus(
        healthy, queue["waiting"], queue["since_checkpoint"], settings["read_only"]
    )


def show(target: str, console: Console) -> bool:
    """Print the status of a target; True if all of it is well."""
    hosts = inventory.load(target)
    running = supervisor.processes(paths.target_dir(target) / "supervisor")
    if running is None:
        raise UserError(f"Target {target}: supervisord does not run. To bring it up: make deploy")
    states = {p.name: p for p in running}

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
    ring = _ring([Path(h.vars["nodetool"]) for h in hosts.storage])
    console.print(ring.strip(), markup=False, highlight=False, soft_wrap=True)
    well &= ring.count("\nUN ") == len(hosts.storage)

    queue = Table("KairosDB", "healthy", "read-only", "queue waiting", "since checkpoint")
    for host in hosts.kairosdb:
        found = kairosdb(host.url)
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
    with ThreadPoolExecutor() as pool:
        versions = list(pool.map(loader_hosts.version, hosts.loader))
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


def _ring(tools: list[Path]) -> str:
    for tool in tools:
        try:
            return nodetool.run(tool, "status")
        except nodetool.NodetoolError:
            continue
    return "no storage node answers nodetool"
