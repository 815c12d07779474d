"""Target `hosts`: machines of one's own, from an inventory that says where they are."""

from pathlib import Path
from typing import Any

from kairoscope.deploy import inventory_vars
from kairoscope.errors import UserError
from kairoscope.hosts import inventory
from kairoscope.hosts.inventory import Host
from kairoscope.plan import Plan


def complete(plan: Plan, given: Path) -> dict[str, Any]:
    """The inventory to deploy with: what `given` says of the hosts, and all else from the plan.

    `given` has the groups storage, kairosdb and loader (and monitoring), as many hosts in each as
    the experiment says, and Ansible's variables to reach them. Its other variables win over ours.

    Raises:
        UserError: it is no inventory, or does not fit the experiment.
    """
    if not given.exists():
        raise UserError(f"INVENTORY={given}: there is no such file. docs/hosts.md shows one.")
    found = inventory.read_own(given.absolute())
    cluster = plan.experiment.cluster
    for group, hosts, wanted in (
        ("storage", found.storage, cluster.storage_nodes),
        ("kairosdb", found.kairosdb, cluster.kairosdb_nodes),
        ("loader", found.loader, cluster.loader_hosts),
    ):
        if len(hosts) != wanted:
            raise UserError(
                f"{given}: group {group} has {len(hosts)} hosts, the experiment wants {wanted} "
                f"(cluster). Change one of the two."
            )
    return inventory_vars.make(
        plan,
        [_machine(host) for host in found.all],
        cluster_name=str(found.storage[0].vars.get("cluster_name", "kairoscope")),
    )


def _machine(host: Host) -> inventory_vars.Machine:
    """A host as its inventory has it."""
    way = {"ansible_user": "root"}
    way |= {k: v for k, v in host.vars.items() if k.startswith("ansible_")}
    address = str(host.vars.get("address") or way.get("ansible_host") or host.name)
    way.setdefault("ansible_host", address)
    more = {k: v for k, v in host.vars.items() if not k.startswith("ansible_")}
    return inventory_vars.Machine(host.name, host.role, address, way, more)
