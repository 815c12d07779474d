"""Inventories of watched targets, and what is written of them for the monitoring host."""

from pathlib import Path

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from test_firewall import trusted

from kairoscope import experiment, paths
from kairoscope.cli import known
from kairoscope.deploy import inventory_vars
from kairoscope.hosts import inventory
from kairoscope.hosts.machines import Machine, Machines
from kairoscope.targets.target import Options

NOT_WATCHED = Options(Path("x"))
WATCHED = Options(Path("x"), monitoring=True)


def written(target: str, machines: Machines, what: str = "laptop") -> inventory.Inventory:
    """As a deploy of an experiment writes an inventory, read again."""
    plan = known.plan(experiment.load(what), target)
    shared, stack = target == "local", known.stack(plan.stack)
    brought = stack.brought(plan, shared, None) if shared else None
    made = inventory_vars.make(plan, machines, stack, brought, shared=shared)
    path = paths.target_dir(target) / "inventory.yml"
    inventory.write(path, made, machines.origin)
    return inventory.read(path)


def here(options: Options, what: str = "laptop") -> inventory.Inventory:
    """Target local, with an experiment."""
    plan = known.plan(experiment.load(what), "local")
    machines = known.target("local").provision(plan, options, print, lambda: None)
    return written("local", machines, what)


def hosts(**more: str) -> inventory.Inventory:
    """Hosts of their own, one of each kind, of which the user's inventory says `more`."""
    way = {"ansible_user": "root"}
    roles = ("storage", "kairosdb", "loader", "monitoring")
    machines = [
        Machine(f"{role}-1", role, f"10.77.0.{i}", way, more) for i, role in enumerate(roles, 11)
    ]
    return written("hosts", Machines(machines, "a cluster"))


def rendered(name: str, found: inventory.Inventory, what: str = "laptop", **more) -> str:
    """A template of dashboards/ as the monitoring host gets it, with an experiment."""
    groups = {
        role: [host.name for host in found.all if host.role == role] for role in inventory.GROUPS
    }
    plan = known.plan(experiment.load(what), "local")
    variables = {
        **found.monitoring[0].vars,
        "ansible_managed": "made by Ansible",
        "groups": {**groups, "all": [host.name for host in found.all]},
        "hostvars": {host.name: host.vars for host in found.all},
        "plan": yaml.safe_load(plan.to_json()),
        "secrets": {"rest": {"user": "kairoscope", "password": "nobody's"}},
        **more,
    }
    source = (paths.DASHBOARDS / f"{name}.j2").read_text()
    return str(
        Templar(DataLoader(), variables=trusted(variables)).template(trust_as_template(source))
    )
