"""What may be done to a target in the state it is in. Pure: decides on what was seen."""

from collections import Counter
from collections.abc import Collection, Iterable

from kairoscope.deploy.operate.cluster import Seen
from kairoscope.errors import UserError
from kairoscope.experiment import replicas_needed
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.plan import Plan


def refuse(what: str, problems: Iterable[str]) -> None:
    """UserError with all problems, if there are any: nothing was changed."""
    if found := list(dict.fromkeys(problems)):
        listed = "".join(f"\n  {problem}" for problem in found)
        raise UserError(f"{what} is refused, nothing was changed:{listed}")


def address_in_ring(inventory: Inventory, seen: Seen, host: Host) -> str:
    """By which address the others know a storage node that may be dead.

    Its own; but where that is in no ring, and the rings have just one address that is no host of
    ours, it is that one: the host was made anew since, with another address.
    """
    others = [ring for name, ring in seen.rings.items() if ring and name != host.name]
    there = {address for ring in others for address in ring}
    strangers = there - {other.address for other in inventory.storage}
    if host.address not in there and len(strangers) == 1:
        return strangers.pop()
    return host.address


def not_normal(
    inventory: Inventory, seen: Seen, but: Collection[str] = (), gone: Collection[str] = ()
) -> list[str]:
    """Storage nodes that some node does not see up and normal, or that do not answer themselves.

    Args:
        inventory: the nodes there should be.
        seen: the target as it is.
        but: names of hosts of which any state will do.
        gone: addresses of which any state will do, whosever they were.
    """
    wanted = {host.address: host.name for host in inventory.storage if host.name not in but}
    exempt = {host.address for host in inventory.storage if host.name in but} | set(gone)
    problems = []
    for viewer in inventory.storage:
        if viewer.name in but:
            continue
        ring = seen.rings.get(viewer.name)
        if ring is None:
            problems.append(f"{viewer.name} does not answer nodetool")
            continue
        for address, name in wanted.items():
            if (state := ring.get(address, "not in the ring")) != "UN":
                problems.append(f"{viewer.name} sees {name} {state}")
        for address, state in ring.items():
            if address not in wanted and address not in exempt:
                problems.append(f"{viewer.name} sees {address} {state}, which is no host of ours")
    return problems


def one_down(plan: Plan) -> list[str]:
    """Why no storage node may be taken down even if all others are up; empty if one may."""
    factor = plan.experiment.cluster.replication_factor
    levels = {plan.kairosdb["read_consistency"], plan.kairosdb["write_consistency"]}
    quorum = factor // 2 + 1
    needed = max(quorum, *(replicas_needed(level, factor) for level in levels))
    if factor - 1 >= needed:
        return []
    return [
        f"with replication factor {factor} and consistency {' and '.join(sorted(levels))}, "
        f"{needed} of a row's replicas must be up, and {factor - 1} would be while a node is down"
    ]


def kairosdb_unhealthy(inventory: Inventory, seen: Seen, but: Collection[str] = ()) -> list[str]:
    """KairosDB nodes that are not healthy or read only."""
    problems = []
    for host in inventory.kairosdb:
        if host.name in but:
            continue
        status = seen.kairosdb[host.name]
        if not status.healthy:
            why = f": {' '.join(status.troubles)}" if status.troubles else ""
            problems.append(f"{host.name} is not healthy{why}")
        elif status.read_only:
            problems.append(f"{host.name} is in read-only mode")
    return problems


def schema_split(seen: Seen) -> list[str]:
    """Why the schema does not agree; empty if it does."""
    if seen.schemas == 1:
        return []
    return [f"the storage nodes have {seen.schemas} versions of the schema, which must be one"]


def whole(
    inventory: Inventory, seen: Seen, but: Collection[str] = (), gone: Collection[str] = ()
) -> list[str]:
    """What is wrong with a target, but for some hosts and addresses; empty if nothing is."""
    here = sorted(seen.drained - set(but))
    return (
        not_normal(inventory, seen, but, gone)
        + [f"{name} was drained, and not started again: make deploy" for name in here]
        + schema_split(seen)
        + kairosdb_unhealthy(inventory, seen, but)
    )


def take_away_storage(plan: Plan, nodes: int) -> list[str]:
    """Why a storage node may not leave for good from `nodes` of them."""
    factor = plan.experiment.cluster.replication_factor
    if nodes - 1 >= factor:
        return []
    return [
        f"{nodes - 1} nodes would be left for {factor} replicas of each row. Add a node first, or "
        "lower the replication factor"
    ]


def racks_uneven(inventory: Inventory) -> list[str]:
    """What is to be said of one more storage node where there are racks; empty if nothing is.

    The store puts each row's replicas into as many racks as it can. Where there are as many racks
    as replicas each has a whole copy, and a rack with a node less has it on fewer nodes.
    """
    racks = Counter(str(host.vars.get("rack", "")) for host in inventory.storage)
    more = -(len(inventory.storage) + 1) % len(racks)
    if len(racks) == 1 or more == 0:
        return []
    return [
        f"{len(racks)} racks will have unlike numbers of nodes, and those with fewer carry as much "
        f"as the others: {more} more after this one make them even"
    ]


def the_host(inventory: Inventory, limit: str | None, role: str, verb: str) -> Host:
    """The one host that a verb is for.

    Raises:
        UserError: none was named, or it is not one of that role.
    """
    hosts = [host for host in inventory.all if host.role == role]
    known = ", ".join(host.name for host in hosts)
    if not limit:
        raise UserError(f"{verb} needs --limit (make: LIMIT=), the host it is for: {known}")
    for host in hosts:
        if host.name == limit:
            return host
    raise UserError(f"--limit {limit}: {verb} is for one {role} host: {known}")


def one_more(role: str, was: int, wanted: int, verb: str, fields: str) -> None:
    """UserError unless the experiment has one node more than the target."""
    if wanted != was + 1:
        raise UserError(
            f"The target has {was} {role} nodes, the experiment {wanted} ({fields}). {verb} adds "
            f"one at a time: let the experiment say {was + 1}."
        )


def one_less(role: str, was: int, wanted: int, verb: str, fields: str) -> None:
    """UserError unless the experiment has one node less than the target."""
    if wanted != was - 1:
        raise UserError(
            f"The target has {was} {role} nodes, the experiment {wanted} ({fields}). {verb} takes "
            f"away one at a time: let the experiment say {was - 1}."
        )
