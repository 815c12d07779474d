"""The inventory of a target: of the machines that it hands over, and what is deployed to them."""

import sys
from pathlib import Path
from typing import Any

from kairoscope import paths
from kairoscope.deploy import bootstrap, bundles, monitoring
from kairoscope.hosts import inventory, secret_files
from kairoscope.hosts.deployed import plan_file
from kairoscope.hosts.machines import Layout, Machine, Machines
from kairoscope.plan import Plan
from kairoscope.stacks.stack import Brought, Stack


def make(
    plan: Plan,
    machines: Machines,
    stack: Stack,
    brought: Brought | None = None,
    *,
    shared: bool,
) -> dict[str, Any]:
    """The inventory in Ansible's YAML form.

    Args:
        plan: what is deployed.
        machines: what it is deployed to.
        stack: what it is.
        brought: a server of the user's own, in place of a package.
        shared: whether all servers share the cores of one machine.
    """
    hosts: dict[str, dict[str, Any]] = {group: {} for group in inventory.GROUPS}
    begun = bootstrap.read(plan.target)
    for machine in machines.machines:
        begin = {}
        if machine.group == "storage":
            fresh = stack.fresh_tokens(plan, len(hosts["storage"]))
            begin = bootstrap.of(begun, machine.name, fresh)
        hosts[machine.group][machine.name] = {
            "address": machine.address,
            **machine.way,
            **stack.of_machine(plan, machine, machines.layout, brought),
            **_loader(machine, machines.layout),
            **(monitoring.of_machine(machine, machines.layout) if machines.watched else {}),
            **begin,
            **machine.more,
        }
    children = {group: {"hosts": hosts[group]} for group in inventory.GROUPS}
    if not machines.layout.managed:
        children["supervisor_host"] = {"hosts": {"control": {}}}
    return {
        "all": {
            "vars": _of_all(plan, machines, stack, brought, shared) | machines.variables,
            "children": children,
        }
    }


def backups_file(target: str) -> Path:
    """When and where to the storage hosts send backups by themselves; there while they do."""
    return paths.target_dir(target) / "backups.json"


def _of_all(
    plan: Plan, machines: Machines, stack: Stack, brought: Brought | None, shared: bool
) -> dict[str, Any]:
    layout = machines.layout
    names = [*stack.bundles, *([bundles.JAVA] if layout.java is None else [])]
    parts = {name: bundles.bundle(name) for name in names}
    folders = {name: str(layout.install_dir / part.folder) for name, part in parts.items()}
    values = {
        "target": plan.target,
        "managed": layout.managed,
        "service_manager": layout.service_manager,
        "cluster_name": machines.cluster_name,
        # TLS and logins between all servers; a password for what takes points by HTTP too.
        "secured": plan.security["enabled"],
        "rest_auth": plan.security["rest_auth"],
        "secrets_dir": str(secret_files.folder(plan.target)),
        "bundles_dir": str(paths.BUNDLES),
        **{f"{name}_version": part.version for name, part in parts.items()},
        "loader_version": bundles.bundle(bundles.LOADER).version,
        "java": layout.java or f"{folders[bundles.JAVA]}/bin/java",
        "python": layout.python,
        # Named, so that Ansible need not look for one on every host in every run.
        "ansible_python_interpreter": layout.python,
        "kairoscope": str(Path(sys.executable).parent / "kairoscope"),
        "plan_file": str(plan_file(plan.target)),
    }
    if layout.managed:
        values |= {
            "install_dir": str(layout.install_dir),
            "state_dir": str(layout.state_dir),
            "backups_file": str(backups_file(plan.target)),
        }
    if layout.java is None:
        values["java_bundle_dir"] = folders[bundles.JAVA]
    if machines.watched:
        values |= monitoring.of_all(layout, stack)
    if brought:
        folders[brought.name], more = _brought(plan, layout, brought)
        values |= more
    return values | stack.of_all(plan, layout, shared, folders, brought)


def _brought(plan: Plan, layout: Layout, server: Brought) -> tuple[str, dict[str, str]]:
    """The folder of a server of the user's: read in place on this machine, or sent along."""
    if not layout.managed:
        return str(server.folder), {}
    packed = bundles.pack(
        server.name, server.release, server.folder, server.parts, paths.target_dir(plan.target)
    )
    folder = str(layout.install_dir / packed.folder)
    return folder, {
        f"{server.name}_bundle": str(packed.archive),
        f"{server.name}_bundle_dir": folder,
    }


def _loader(machine: Machine, layout: Layout) -> dict[str, str]:
    """Variables of a loader host: where its files and its Python environment are."""
    if machine.group != "loader":
        return {}
    own, folder = layout.home(machine.name), str(layout.install_dir)
    if layout.managed:
        # All of it belongs to the login, as a load is led over it.
        user = machine.way["ansible_user"]
        folder = "/root/kairoscope" if user == "root" else f"/home/{user}/kairoscope"
        own = f"{folder}/{machine.name}"
    bundle = f"{folder}/{bundles.bundle(bundles.LOADER).folder}"
    return {"home": own, "loader_bundle_dir": bundle, "loader_venv": f"{bundle}/venv"}
