"""Target `lab`: hosts made on this machine, one for each part of the plan."""

import sys
from collections.abc import Callable
from typing import Any

from kairoscope import paths
from kairoscope.deploy import inventory_vars, preflight
from kairoscope.errors import UserError
from kairoscope.hosts import inventory
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.scylla_server import Server
from kairoscope.targets.lab import Lab, LabHost

# One /24; its first address is the control machine's.
_NET = "10.77.0"
_FIRST = {"storage": 11, "kairosdb": 101, "loader": 201}


def lab() -> Lab:
    """The target's lab."""
    return Lab(paths.target_dir("lab"))


def enter() -> None:
    """Go on in the lab's network, where its hosts can be reached; returns if this is there."""
    lab().enter([sys.executable, *sys.argv])


def hosts(plan: Plan) -> dict[str, list[LabHost]]:
    """The hosts that a plan needs, by role."""
    cluster = plan.experiment.cluster
    counts = {
        "storage": cluster.storage_nodes,
        "kairosdb": cluster.kairosdb_nodes,
        "loader": cluster.loader_hosts,
    }
    return {
        role: [
            LabHost(f"{role}-{i + 1}", f"{_NET}.{_FIRST[role] + i}") for i in range(counts[role])
        ]
        for role in counts
    }


def provision(plan: Plan, server: Server | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Have the plan's hosts running; the inventory. UserError if this machine cannot.

    `server`: where the plan stores in ScyllaDB.
    """
    wanted = hosts(plan)
    everyone = [host for group in wanted.values() for host in group]
    here = lab()
    # One kernel for all hosts; once they are there, what runs on them has its share.
    if not here.hosts() and (problem := preflight.check_aio(plan)):
        raise UserError(f"This machine cannot take the hosts: {problem}")
    here.up(everyone, say)
    # Loader hosts hold nothing; `deploy.check_shape` has refused to take others away.
    for found in here.hosts():
        if found.host.name.startswith("loader-") and found.host not in everyone:
            here.remove(found.host.name)
    machines = [
        inventory_vars.Machine(host.name, role, host.address, here.inventory_vars(host.name))
        for role, group in wanted.items()
        for host in group
    ]
    return inventory_vars.make(
        plan,
        machines,
        cluster_name="kairoscope lab",
        server=server,
        # The hosts share this machine's few cores and its clock.
        **inventory.of_shared_cores(plan),
        common_time_sync=False,
        # Ansible's own, but for -C, and Mitogen's -C: packing jar files, from this machine to
        # itself, took as much CPU as Ansible's own work.
        ansible_ssh_args="-o ControlMaster=auto -o ControlPersist=60s",
        mitogen_ssh_compression=False,
    )
