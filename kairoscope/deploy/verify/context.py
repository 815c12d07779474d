"""A target that is looked at, and how to get at it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kairoscope.deploy.verify import probe
from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.secret_files import Access
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.servers import client, nodetool
from kairoscope.stacks.kairosdb.servers.client import Client

FIREWALL_FILE = "/etc/kairoscope/firewall.nft"
FIREWALL_UNIT = "kairoscope-firewall.service"
# By the variable that a host has which runs it.
MONITORING_UNITS = {
    "node_exporter_port": "kairoscope-node-exporter.service",
    "alertmanager_port": "kairoscope-alertmanager.service",
    "grafana_port": "kairoscope-grafana.service",
}
REQUEST_S = 20.0  # for an answer of a KairosDB node

_PROBE = Path(probe.__file__)
TROUBLE = (ssh.RemoteError, nodetool.NodetoolError, UserError, OSError)


@dataclass
class Context:
    """A target, and how to get at it.

    Fields:
        hosts: its hosts, all of them.
        reached: names of those that answer; checks leave the others alone.
        client: requests to the servers of those.
    """

    target: str
    hosts: Inventory
    plan: Plan
    reached: set[str]
    client: Client = field(default_factory=Client)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Have `client` reach the servers of those that are reached."""
        with client.connect(self.hosts, self.up(self.hosts.hosts)) as self.client:
            yield

    def up(self, hosts: Sequence[Host]) -> list[Host]:
        """Those of some hosts that are reached."""
        return [host for host in hosts if host.name in self.reached]

    @property
    def storage(self) -> list[Host]:
        """Storage nodes that are reached."""
        return self.up(self.hosts.storage)

    @property
    def kairosdb(self) -> list[Host]:
        """KairosDB nodes that are reached."""
        return self.up(self.hosts.kairosdb)

    @property
    def all(self) -> list[Host]:
        """All hosts that are reached."""
        return self.up(self.hosts.all)

    @property
    def access(self) -> Access:
        """What proves us to the servers of a secured target."""
        assert self.client.access is not None
        return self.client.access

    @cached_property
    def facts(self) -> dict[str, dict[str, Any]]:
        """What each managed host says of itself, by name; {"trouble": …} of one that does not."""

        def look(host: Host) -> dict[str, Any]:
            units = [unit for unit in (host.vars.get("unit"), FIREWALL_UNIT) if unit]
            units += [unit for port, unit in MONITORING_UNITS.items() if port in host.vars]
            folders = [str(host.vars.get("home", "/")), "/"]
            folders += [host.vars["keyspaces_dir"]] if "keyspaces_dir" in host.vars else []
            try:
                found: dict[str, Any] = on_host(host, "facts", folders, units, FIREWALL_FILE)
            except TROUBLE as error:
                return {"trouble": str(error)}
            return found

        found = ssh.on_all(self.all, look)
        return {host.name: facts for host, facts in zip(self.all, found, strict=True)}

    def fact(self, host: Host, name: str) -> Any:
        """One fact of a host. OSError if it did not tell any."""
        if "trouble" in self.facts[host.name]:
            raise OSError(self.facts[host.name]["trouble"])
        return self.facts[host.name][name]


def on_host(host: Host, verb: str, *arguments: Any, timeout_s: float = 60) -> Any:
    """Have a host run a verb of `probe`; what it found.

    Raises:
        RemoteError: it cannot.
        UserError: see `ssh.run`.
    """
    line = ["python3", "-", verb, json.dumps(arguments)]
    return json.loads(ssh.run(host, line, sudo=True, stdin=_PROBE.read_text(), timeout_s=timeout_s))
