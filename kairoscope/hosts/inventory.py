"""The inventory: where things run.

A deploy makes it of the machines that a target hands over. It is written by `write` and is as plain
as `read` needs it: variables of all hosts and of each, no others.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kairoscope import paths, whole
from kairoscope.errors import UserError
from kairoscope.hosts import ansible

# Of the monitoring host, and of what tells the figures of a host itself.
PROMETHEUS_WEB_PORT = 9090
ALERTMANAGER_PORT = 9093
GRAFANA_PORT = 3000
LOADER_METRICS_PORT = 9105
NODE_EXPORTER_PORT = 9100
GROUPS = ("storage", "kairosdb", "loader", "monitoring")
# The login's own: a way to a host may have its password.
MODE = 0o600
# How Ansible, and Mitogen in it, reach a host.
_OF_ANSIBLE = ("ansible_", "mitogen_")
# Variables of hosts that no role is told of: the playbooks' and ours.
_BESIDE_ROLES = ("certificate_names", "metrics_port", "results_bucket", "storage_serial")


@dataclass(frozen=True)
class Host:
    """One host (or local instance) with its inventory variables."""

    name: str
    role: str
    vars: dict[str, Any]

    @property
    def address(self) -> str:
        """IP address, of a loader host only to tell it by; servers listen on theirs."""
        return str(self.vars["address"])

    @property
    def known_as(self) -> list[str]:
        """What clients may ask for: its address, and names such as a load balancer's."""
        return [self.address, *map(str, self.vars.get("certificate_names", []))]

    @property
    def home(self) -> Path:
        return Path(self.vars["home"])

    @property
    def processes(self) -> dict[str, str]:
        """Its servers as the service manager names them, each with its role; of most hosts one."""
        return dict(self.vars.get("processes") or {self.name: self.role})

    @property
    def units(self) -> dict[str, str]:
        """Of a managed host: the systemd unit of each of its servers, by its name. Of several each
        has one of its own, as the role `service` is told by who has several."""
        if "unit" not in self.vars:
            return {}
        unit, names = self.vars["unit"], list(self.processes)
        return {name: f"{unit}-{name}" if len(names) > 1 else unit for name in names}

    @property
    def scheme(self) -> str:
        """Of what takes points by HTTP: https where the target is secured."""
        return "https" if self.vars.get("secured") else "http"

    @property
    def url(self) -> str:
        """Base URL of a server that takes points by HTTP, as the other hosts reach it."""
        return f"{self.scheme}://{self.address}:{self.vars['http_port']}"


@dataclass(frozen=True)
class Inventory:
    """The hosts of a target, by role, in the order of their numbers."""

    path: Path
    storage: list[Host]
    kairosdb: list[Host]
    loader: list[Host]
    monitoring: list[Host] = field(default_factory=list)

    @property
    def hosts(self) -> list[Host]:
        """All hosts with servers, which run all the time: not the loader hosts."""
        return [*self.storage, *self.kairosdb]

    @property
    def all(self) -> list[Host]:
        return [*self.storage, *self.kairosdb, *self.loader, *self.monitoring]

    @property
    def managed(self) -> bool:
        """Whether they are hosts of their own, with systemd, and not processes of this machine."""
        return bool(self.all[0].vars.get("managed"))

    def host(self, name: str) -> Host:
        """The host of that name. UserError if there is none."""
        for host in self.all:
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.all)
        raise UserError(f"{self.path} has no host {name}. It has: {known}")


def write(path: Path, data: dict[str, Any], origin: str) -> None:
    """Write an inventory, which says where it comes from: how its nodes began is nowhere else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"# Made by `kairoscope deploy` {origin}; changes are overwritten.\n"
    whole.record(path, text + yaml.safe_dump(data, sort_keys=False), MODE)


def file(target: str) -> Path:
    """Where a target's inventory is, once it is deployed."""
    return paths.target_dir(target) / "inventory.yml"


def load(target: str) -> Inventory:
    """Read the deployed target's inventory. UserError if there is none."""
    path = file(target)
    if not path.exists():
        raise UserError(f"Target {target} is not deployed (no {path}). First: make deploy")
    return read(path)


def read(path: Path) -> Inventory:
    """Read an inventory that `write` wrote, as Ansible understands it. UserError if it is none."""
    try:
        everything = yaml.load(path.read_text(), yaml.CSafeLoader)["all"]
        groups = everything["children"]
        return Inventory(
            path,
            *(
                [
                    Host(name, group, {**everything["vars"], **(of_host or {})})
                    for name, of_host in groups.get(group, {}).get("hosts", {}).items()
                ]
                for group in GROUPS
            ),
        )
    except (OSError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: not an inventory that a deploy wrote: {error!r}") from error


@functools.cache
def known_variables() -> frozenset[str]:
    """Names of what a host may be told: by the roles' specifications and defaults, mostly."""
    names = set(_BESIDE_ROLES)
    for file in paths.ANSIBLE.glob("roles/*/meta/argument_specs.yml"):
        for specs in yaml.load(file.read_text(), yaml.CSafeLoader)["argument_specs"].values():
            names |= specs.get("options", {}).keys()
    for file in paths.ANSIBLE.glob("roles/*/defaults/main.yml"):
        names |= yaml.load(file.read_text(), yaml.CSafeLoader).keys()
    return frozenset(names)


def named_in_templates(value: Any) -> set[str]:
    """Every word that Ansible has yet to resolve in a value: names of variables among them."""
    templates = re.findall(r"\{\{.*?\}\}|\{%.*?%\}", str(value), re.DOTALL)
    return {word for template in templates for word in re.findall(r"\w+", template)}


def of_use(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Of a host's variables in an inventory of the user's those that are for us.

    These are how it is reached, what roles know, and what is named in such a one. An inventory is
    for other things too, and secrets of those have no place in ours.
    """
    known = known_variables()
    used = {k: v for k, v in variables.items() if k.startswith(_OF_ANSIBLE) or k in known}
    while more := (variables.keys() - used.keys()) & named_in_templates(used):
        used |= {name: variables[name] for name in more}
    return used


def read_own(path: Path) -> Inventory:
    """Read an inventory of any kind, by Ansible. UserError if it is none."""
    done = subprocess.run(
        [ansible.program("ansible-inventory"), "-i", str(path), "--list"],
        env=ansible.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise UserError(f"{path}: not a readable inventory:\n{done.stderr}")
    listing = json.loads(done.stdout)
    hostvars = listing["_meta"]["hostvars"]

    def hosts(group: str) -> list[Host]:
        names = listing.get(group, {}).get("hosts", [])
        # Ansible leaves those out that have no variable.
        return [Host(name, group, hostvars.get(name, {})) for name in names]

    return Inventory(path, *(hosts(group) for group in GROUPS))
