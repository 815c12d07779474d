"""Target `hosts`: machines of one's own, from an inventory that says where they are."""

from collections.abc import Callable
from pathlib import Path

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import inventory
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.machines import SYSTEMD, Machine, Machines
from kairoscope.plan import Plan
from kairoscope.targets.target import Options, Reached, Say


class Own(Reached):
    """Machines that were there before, and stay."""

    name = "hosts"

    def provision(
        self, plan: Plan, options: Options, say: Say, begin: Callable[[], None]
    ) -> Machines:
        """What INVENTORY= says."""
        return given(plan, _file(options))

    def check_given(self, options: Options, plan: Plan | None = None) -> None:
        """INVENTORY=: that it is there, has who is to watch, and as many hosts as the plan."""
        file = _file(options)
        self.watched(options)
        if plan is not None:
            given(plan, file)

    def watched(self, options: Options) -> bool:
        """What INVENTORY= says. UserError if it says no, and MONITORING= yes."""
        file = options.inventory
        if file is None or not file.exists():
            return False  # `provision` says so.
        found = bool(inventory.read_own(file.absolute()).monitoring)
        if options.monitoring and not found:
            raise UserError(
                f"MONITORING=: {file} has no host in the group monitoring, which it takes "
                "(docs/hosts.md)."
            )
        return found

    def destroy(self, say: Say) -> None:
        """Refused."""
        raise UserError(
            "Target hosts is machines of your own: Kairoscope does not wipe them. Remove "
            f"{SYSTEMD.state_dir}, {SYSTEMD.install_dir} and the units there, then "
            f"{paths.target_dir(self.name)} here."
        )

    def check_leaves(self, here: Inventory, host: Host, options: Options, verb: str) -> None:
        """The user's inventory says who goes."""
        if options.inventory is None:
            raise UserError(f"{verb} on target hosts needs INVENTORY=, the one without the host.")
        names = [h.name for h in inventory.read_own(options.inventory.absolute()).all]
        if host.name in names:
            raise UserError(f"INVENTORY={options.inventory} still has {host.name}.")


def _file(options: Options) -> Path:
    """The inventory that was given. UserError if none was, or there is no such file."""
    if options.inventory is None:
        raise UserError("Target hosts needs INVENTORY=, a file that says where they are.")
    if not options.inventory.exists():
        raise UserError(
            f"INVENTORY={options.inventory}: there is no such file. docs/hosts.md shows one."
        )
    return options.inventory


def given(plan: Plan, file: Path) -> Machines:
    """The machines that an inventory has, with all that it says of them for us.

    It has the groups storage, kairosdb and loader (and monitoring), as many hosts in each as the
    experiment says, and Ansible's variables to reach them. Its other variables that roles know win
    over ours.

    Raises:
        UserError: it is no inventory, or does not fit the experiment.
    """
    found = inventory.read_own(file.absolute())
    cluster = plan.experiment.cluster
    for group, hosts, wanted in (
        ("storage", found.storage, cluster.storage_nodes),
        ("kairosdb", found.kairosdb, cluster.kairosdb_nodes),
        ("loader", found.loader, cluster.loader_hosts),
    ):
        if len(hosts) != wanted:
            raise UserError(
                f"{file}: group {group} has {len(hosts)} hosts, the experiment wants {wanted} "
                f"(cluster). Change one of the two."
            )
    return Machines(
        [_machine(host) for host in found.all],
        cluster_name=str(found.storage[0].vars.get("cluster_name", "kairoscope")),
        origin=f"from {file}",
    )


def _machine(host: Host) -> Machine:
    """A host as its inventory has it."""
    way = {"ansible_user": "root"}
    told = inventory.of_use(host.vars)
    way |= {k: v for k, v in told.items() if k.startswith("ansible_")}
    address = str(told.get("address") or way.get("ansible_host") or host.name)
    way.setdefault("ansible_host", address)
    more = {k: v for k, v in told.items() if not k.startswith("ansible_")}
    return Machine(host.name, host.role, address, way, more)
