"""Nodes that leave in good order: what they have is stored, or handed to the others, before."""

import dataclasses

from kairoscope.deploy.operate import cluster, nodes, safety
from kairoscope.deploy.operate.deployed import SETTLE_S, Deployed, changing, towards
from kairoscope.errors import UserError
from kairoscope.hosts import operation as changes
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.given_up import removed_nodes


def remove_kairosdb(target: Deployed, plan: Plan, limit: str | None) -> None:
    """Let a KairosDB node store all it has, end it, and give its host back."""
    verb = "remove-kairosdb"
    wanted = towards(plan, verb, limit or "")
    with changing(target, wanted, provisions=True) as unfinished:
        if not unfinished:
            host = safety.the_host(target.inventory, limit, "kairosdb", verb)
            nodes.check_only_count_changes(target.plan, plan, "kairosdb", -1, verb)
            target.of.target.check_leaves(target.inventory, host, target.of.options, verb)
            target.refuse_unless_whole(verb, *safety.one_down(plan))
            changes.begin(target.name, wanted)
        if not unfinished or unfinished.memory != nodes.EMPTY:
            if unfinished:
                _have_back(target, target.inventory.host(wanted.host), wanted)
            leaving = target.inventory.host(wanted.host)
            target.playbook(verb, operate_host=leaving.name)
            for copy in removed_nodes.keep(target.name, leaving):
                target.say(f"points that the store had refused: {copy}")
            changes.begin(target.name, dataclasses.replace(wanted, memory=nodes.EMPTY))
        _give_back(target, plan, wanted)


def _give_back(target: Deployed, plan: Plan, wanted: Operation) -> None:
    """Nothing is on the host any more: it goes, and the others are told."""
    target.of.target.give_back(wanted.host, target.say)
    target.prepare(plan, let_go=wanted.host)
    target.deploy(plan)
    target.end(wanted.verb)


def _have_back(target: Deployed, host: Host, wanted: Operation) -> None:
    """Have a KairosDB host again that went while it was leaving, as what waits there is its own.

    UserError if it is gone and nothing here makes it.
    """
    try:
        ssh.run(host, ["true"])
        return
    except ssh.RemoteError as error:
        if not target.of.target.makes_anew:
            raise UserError(
                f"{error}. What waits in its queue is on it: bring it up again, then the same "
                "command. If it is gone for good, so is that. Then any other machine does for the "
                f"way out: remove {changes.note(target.name)}, make deploy TARGET={target.name} "
                f"with the experiment of before and that machine as {host.name} in the inventory, "
                f"and {wanted.verb} once more"
            ) from None
        target.say(f"{wanted.verb}: {error}. It is brought back, with its queue, to store that")
    plan = target.plan
    target.prepare(plan)
    # Its address may be another one now.
    target.playbook("firewall", limit="storage")
    target.deploy(plan, limit=host.name)


def decommission(target: Deployed, plan: Plan, limit: str | None) -> None:
    """Let a storage node hand its data to the others and leave; its host is given back."""
    verb = "decommission"
    wanted = towards(plan, verb, limit or "")
    with changing(target, wanted, provisions=True) as unfinished:
        if not unfinished:
            host = safety.the_host(target.inventory, limit, "storage", verb)
            nodes.check_only_count_changes(target.plan, plan, "storage", -1, verb)
            target.of.target.check_leaves(target.inventory, host, target.of.options, verb)
            here = target.inventory
            target.refuse_unless_whole(
                verb,
                *safety.one_down(plan),
                *safety.take_away_storage(plan, len(here.storage)),
                *_no_room_for(here, host),
            )
            changes.begin(target.name, wanted)
        if not unfinished or unfinished.memory != nodes.EMPTY:
            leaving = target.inventory.host(wanted.host)
            others = [h for h in target.inventory.storage if h.name != leaving.name]
            # It was a member when this was noted. Once nobody knows it any more it has left,
            # whatever its server does: started again it refuses to, and says so to nobody.
            left = unfinished is not None and cluster.is_gone(others, leaving.address)
            target.playbook(verb, operate_host=leaving.name, operate_left=left)
            cluster.wait_until_gone(others, leaving.address, SETTLE_S)
            removed_nodes.gone(target.name, leaving)
            changes.begin(target.name, dataclasses.replace(wanted, memory=nodes.EMPTY))
        _give_back(target, plan, wanted)


def _no_room_for(here: Inventory, leaving: Host) -> list[str]:
    """Why the other nodes cannot take a node's data over; empty if they can."""
    others = [host for host in here.storage if host.name != leaving.name]
    load = cluster.load_bytes(cluster.status_of(others), leaving.address)
    free = sum(ssh.on_all(others, cluster.free_bytes))
    # Twice: compaction writes anew what has come, before it lets go of it.
    if free >= 2 * load:
        return []
    return [
        f"{leaving.name} has {load / 2**20:,.0f} MiB of data, the others {free / 2**20:,.0f} MiB "
        "of free disk together; twice the data is needed"
    ]
