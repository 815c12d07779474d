"""Nodes that come: a KairosDB or a storage node is added, and an addition is given up."""

import dataclasses

from kairoscope.deploy import members
from kairoscope.deploy.operate import cluster, nodes, safety
from kairoscope.deploy.operate.deployed import SETTLE_S, Deployed, changing, towards
from kairoscope.errors import UserError
from kairoscope.hosts import operation as changes
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.given_up import removed_nodes

# As `_seen_as` has a host that holds no share of the data.
_NOT_JOINED = {"", "J"}
# Way of a verb that adds a host: back to what was there before it.
_GIVE_UP = "--give-up"


def add_kairosdb(target: Deployed, plan: Plan) -> None:
    """Add a KairosDB node; loads that start from now on use it."""
    verb = "add-kairosdb"
    wanted = towards(plan, verb)
    with changing(target, wanted, provisions=True) as unfinished:
        if not unfinished:
            nodes.check_only_count_changes(target.plan, plan, "kairosdb", 1, verb)
            target.refuse_unless_whole(verb, *safety.one_down(plan))
            target.build()
        changes.begin(target.name, wanted)
        target.prepare(plan)
        target.deploy(plan)
        target.end(verb)


def add_storage(target: Deployed, plan: Plan) -> None:
    """Add a storage node: it joins and takes its data over; then the others give it up."""
    verb = "add-storage"
    wanted = towards(plan, verb)
    with changing(target, wanted, provisions=True) as unfinished:
        if unfinished:
            there = set(unfinished.memory.split())
        else:
            nodes.check_only_count_changes(target.plan, plan, "storage", 1, verb)
            target.refuse_unless_whole(verb, *safety.one_down(plan))
            for warning in safety.racks_uneven(target.inventory):
                target.say(warning)
            target.build()
            there = {host.name for host in target.inventory.storage}
        # Also where it was given up, and goes on after all.
        noted = dataclasses.replace(wanted, memory=" ".join(sorted(there)))
        changes.begin(target.name, noted)
        before = target.inventory
        begun = [host for host in before.storage if host.name not in there]
        states = _seen_as(before, begun[0]) if begun else set()
        if states - _NOT_JOINED:
            # Nobody else takes its place, should it be gone; but `replace`.
            members.joined(target.name, begun[0].name)
        # One that was made before an interruption, and is gone: it is made once more. Where no
        # other node answers nobody knows but that it has its share of the data already.
        empty = bool(states) and not states - _NOT_JOINED
        target.prepare(plan, let_go=begun[0].name if empty else None)
        (new,) = {host.name for host in target.inventory.storage} - there
        if empty and target.inventory.host(new).address != begun[0].address:
            others = [host for host in before.storage if host.name in there]
            cluster.forget_joining(others, begun[0].address, SETTLE_S)
        target.deploy(plan, verb, operate_host=new)
        target.end(verb)


def give_up(target: Deployed, plan: Plan, role: str) -> None:
    """Take an unfinished addition back: of a storage node that has not joined, or of a KairosDB
    host that never was, as it could not be had. `plan`: what was there before."""
    verb = f"add-{role}"
    with changing(target, Operation(verb, way=_GIVE_UP), provisions=True) as unfinished:
        if unfinished is None:
            raise UserError(f"Target {target.name}: there is no unfinished {verb} to be given up.")
        target.of.target.check_given(target.of.options, plan)
        here = target.inventory
        hosts = [host for host in here.all if host.role == role]
        _check_was_before(unfinished, plan, role, hosts)
        there = unfinished.memory.split()
        begun = [host for host in hosts if role == "storage" and host.name not in there]
        number = getattr(plan.experiment.cluster, nodes.GROUPS[role]) + 1
        # What no inventory has is known by its number alone, where hosts are made.
        name = begun[0].name if begun else f"{role}-{number}"
        if role == "storage":
            safety.refuse(f"{verb} {_GIVE_UP}", _not_to_be_given_up(here, begun))
        changes.begin(target.name, dataclasses.replace(unfinished, way=_GIVE_UP))
        nodes.stand_aside(target, [host for host in hosts if host not in begun], begun)
        gone = name if begun or name not in {host.name for host in here.hosts} else None
        if gone:
            target.of.target.give_back(gone, target.say)
        for host in begun:
            removed_nodes.gone(target.name, host)
        target.prepare(plan, let_go=gone)
        target.deploy(plan)
        target.end(f"{verb} {_GIVE_UP}")


def _check_was_before(unfinished: Operation, plan: Plan, role: str, hosts: list[Host]) -> None:
    """UserError unless a plan is that from before an addition, as far as nodes go."""
    field = nodes.GROUPS[role]
    shape = towards(plan, unfinished.verb).shape
    if role == "kairosdb" and len(hosts) > shape[field]:
        raise UserError(
            f"The target has {len(hosts)} KairosDB hosts, the experiment {shape[field]} "
            f"(cluster.{field}). Points may wait on one that is there: bring {unfinished.verb} to "
            "its end, then remove-kairosdb"
        )
    # Of a note of before this was noted.
    before = len(unfinished.memory.split()) or shape[field]
    was = unfinished.shape or shape | {field: before + 1}
    was = was | {field: was[field] - 1}
    for name in sorted({*was, *shape}):
        if was.get(name) != shape.get(name):
            raise UserError(
                f"{unfinished.verb} {_GIVE_UP} needs the experiment from before it, with {name} "
                f"{was.get(name)}; this one has {shape.get(name)}."
            )


def _not_to_be_given_up(here: Inventory, begun: list[Host]) -> list[str]:
    """Why a storage node that was begun may not go; empty if it holds no share of the data."""
    seen = cluster.look(here)
    # A node that is down, or is nobody's, may be what has joined.
    problems = safety.not_normal(here, seen, [host.name for host in begun])
    for host in begun:
        if _seen_as(here, host) - _NOT_JOINED:
            problems.append(
                f"{host.name} has joined, and has its share of the data: bring the verb to its "
                "end, then decommission"
            )
    return problems


def _seen_as(here: Inventory, host: Host) -> set[str]:
    """As what other nodes have a storage host in their rings, up or down: N, J, L, M as nodetool
    has it, "" of one that has it not in its own. Empty where none answers."""
    rings = [ring for name, ring in cluster.look(here).rings.items() if ring and name != host.name]
    return {ring.get(host.address, "")[-1:] for ring in rings}
