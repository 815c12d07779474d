"""A storage node that is dead: another machine takes its place in the ring, and its name."""

import dataclasses

from kairoscope.deploy import bootstrap, members
from kairoscope.deploy.operate import cluster, nodes, safety
from kairoscope.deploy.operate.cluster import Seen
from kairoscope.deploy.operate.deployed import Deployed, changing
from kairoscope.errors import UserError
from kairoscope.hosts import operation as changes
from kairoscope.hosts import ssh
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan

# Step of a replacement whose old machine is gone.
_MADE = "made"
# Nothing is stored on them that a new storage node would be sent.
_DONE_WITHOUT = ("kairosdb", "loader", "monitoring")


def replace(target: Deployed, limit: str | None) -> None:
    """Have a new node take a dead storage node's place: its tokens, and its data from replicas.

    In the middle of another verb, which the dead node keeps from its end, that node alone is
    brought: the rest is in between, and the other verb's to bring on.
    """
    verb = "replace"
    wanted = Operation(verb, limit or "")
    with changing(
        target, wanted, provisions=True, whatever_deploy=True, over=changes.REPLACE_OVER
    ) as unfinished:
        older = unfinished.over if unfinished else changes.unfinished(target.name)
        target.say(f"{verb}: looking at every server …")
        seen = cluster.look(target.inventory)
        operation = _still_dead(target, seen, wanted, older, unfinished)
        unwell = safety.kairosdb_unhealthy(target.inventory, seen)
        for problem in unwell:
            target.say(f"{verb}: {problem}. The data comes from other storage nodes, so it goes on")
        if not unfinished:
            # Of an earlier replacement: it would look as if this one had got on already.
            bootstrap.set_replaces(target.name, wanted.host, None)
        changes.begin(target.name, operation)
        host = target.inventory.host(wanted.host)
        plan, unmade = _as_made(target, operation)
        if unmade:
            target.say(f"{verb}: goes on without {', '.join(unmade)}, which could not be had")
        away = _have_machine(target, plan, seen, operation, older, unmade)
        changes.begin(target.name, dataclasses.replace(operation, step=_MADE))
        if away:
            target.say(f"{verb}: goes on without {', '.join(away)}, not reached by ssh")
        if older:
            _bring_alone(target, plan, host.name, older)
        elif unwell:
            # A deploy waits for each KairosDB node to be well, and this one might never end: the
            # storage nodes by themselves, and the rest is no longer the replacement's.
            _bring_storage(target, plan, "storage", verb)
        else:
            _bring_all_but(target, plan, away, verb)
        members.joined(target.name, host.name)
        changes.end(target.name)
        if older:
            target.say(
                f"`{older}` is unfinished still. Run it again: kairoscope operate {older} --target "
                f"{target.name}, with the experiment it had"
            )
            return
        if unwell:
            _bring_rest(target, plan, away, host.name)
        if away:
            target.say(
                f"{', '.join(away)}: not deployed to, so the deploy is not finished. Once it "
                f"answers, or there is another in its place: make deploy TARGET={target.name}"
            )


def _still_dead(
    target: Deployed,
    seen: Seen,
    wanted: Operation,
    older: Operation | None,
    begun: Operation | None,
) -> Operation:
    """The replacement that is `wanted`, with what it must remember; UserError unless it is right.

    Of one that was `begun` too, until the old machine is known to have gone: by then the node may
    have come back, or another one be down.
    """
    if begun and begun.step == _MADE:
        return begun
    try:
        memory = " ".join(_dead(target, seen, wanted.host, wanted.verb, older))
    except UserError as refused:
        if begun:
            _take_back(target, seen, begun, refused)
        raise
    return dataclasses.replace(wanted, memory=memory)


def _as_made(target: Deployed, operation: Operation) -> tuple[Plan, list[str]]:
    """The target's plan without the hosts that were wanted and not had, and their names.

    The plan is the target's before its hosts are asked for. What kept them from being made, as a
    quota, would keep a dead node's machine from it too: they are made in one step.
    """
    plan, here = target.plan, target.inventory
    if not target.of.target.makes_anew:  # Nor are they numbered there.
        return plan, []
    _, *left_out = operation.memory.split()
    fewer: dict[str, int] = {}
    unmade: list[str] = []
    for role, field in nodes.GROUPS.items():
        # One that is left out is there, or was a moment ago.
        out = {name for name in left_out if name.startswith(f"{role}-")}
        had = len({host.name for host in here.all if host.role == role} | out)
        wanted: int = getattr(plan.experiment.cluster, field)
        if had < wanted:
            fewer[field] = had
            unmade += [f"{role}-{number}" for number in range(had + 1, wanted + 1)]
    return target.of.target.resized(plan, fewer), unmade


def _have_machine(
    target: Deployed,
    plan: Plan,
    seen: Seen,
    operation: Operation,
    older: Operation | None,
    unmade: list[str],
) -> list[str]:
    """Have a new machine in a dead node's place, and its inventory; what is `away`, as `prepare`
    has it."""
    replaced, *left_out = operation.memory.split()
    host = target.inventory.host(operation.host)
    if older and older.verb == "add-storage":
        storage = target.inventory.storage
        members = [each for each in storage if each.name not in (host.name, *left_out)]
        nodes.stand_aside(target, members, [each for each in storage if each.name in left_out])
    if host.vars.get(bootstrap.REPLACES) != replaced:
        if target.of.target.makes_anew and not _is_new(target.inventory, seen, host):
            target.of.target.make_anew(host, target.say)
        bootstrap.set_replaces(target.name, host.name, replaced)
    without = [*left_out, *unmade]
    return target.prepare(plan, let_go=host.name, without=without, spared=_DONE_WITHOUT)


def _take_back(target: Deployed, seen: Seen, unfinished: Operation, refused: UserError) -> None:
    """Have nothing end a node's machine of which a replacement is refused that was begun before.

    Where the node is up again its replacement is given up altogether.
    """
    here = target.inventory
    host = here.host(unfinished.host)
    try:
        target.of.target.keep(host, target.say)
    except UserError as error:
        raise UserError(f"{refused.message}\n{error.message}") from None
    bootstrap.set_replaces(target.name, host.name, None)
    address = safety.address_in_ring(here, seen, host)
    rings = [ring for name, ring in seen.rings.items() if ring and name != host.name]
    if rings and all(ring.get(address) == "UN" for ring in rings):
        changes.end(target.name)
        target.say(f"{host.name} is up again, so `{unfinished}` is given up")


def _bring_alone(target: Deployed, plan: Plan, name: str, older: Operation) -> None:
    """Deploy to a dead node's new host alone, in the middle of another verb."""
    if older.verb == "upgrade-scylla":
        # "You should never add a new node with a different version"
        # (https://docs.scylladb.com/manual/branch-2025.3/upgrade/about-upgrade.html); but the
        # upgrade waits for all nodes, and so does its way back.
        target.say(
            f"replace: {name} gets the release of the plan, and others may have another: "
            "ScyllaDB's manual advises against it. Go on with the upgrade right after this"
        )
    # Its address may be another one now.
    target.playbook("firewall", limit=f"storage:!{name}")
    _bring_storage(target, plan, name, "replace")


def _bring_storage(target: Deployed, plan: Plan, limit: str, verb: str) -> None:
    """Deploy to storage hosts of a pattern of Ansible; the storage nodes must be well after it."""
    target.deploy(plan, limit=limit)
    target.confirm(verb, [each.name for each in target.inventory.kairosdb])


def _bring_all_but(target: Deployed, plan: Plan, away: list[str], verb: str) -> None:
    """Deploy to all hosts but those that are away, which must be well after it."""
    target.deploy(plan, limit=":!".join(["all", *away]) if away else "")
    target.confirm(verb, away)


def _bring_rest(target: Deployed, plan: Plan, away: list[str], name: str) -> None:
    """The same, where KairosDB nodes were not well and the replacement is done."""
    try:
        _bring_all_but(target, plan, away, "deploy")
    except UserError as error:
        raise UserError(
            f"{name} is replaced, and all storage nodes are well. The rest of the deploy did not "
            f"end:\n{error.message}\nMend that, then: make deploy TARGET={target.name}"
        ) from error


def _dead(
    target: Deployed, seen: Seen, limit: str | None, verb: str, older: Operation | None
) -> list[str]:
    """What the new node replaces: the dead one's address, or for ScyllaDB its host id; then the
    hosts that are left out meanwhile, as the ring does not have them (`_outside`).

    UserError if it is not dead, or not all other storage nodes are well. KairosDB need not be: it
    has none of the data, and where its host is gone too, a deploy would be refused for this one.
    """
    here = target.inventory
    host = safety.the_host(here, limit, "storage", verb)
    out = _outside(older, here, seen)
    if host.name in out:
        raise UserError(
            f"{verb} {host.name} is refused, nothing was changed: it is in no ring, so there is "
            f"nothing in its place to be taken. Go on with `{older}`: the same command again"
        )
    others = [h for h in here.storage if h.name not in (host.name, *out)]
    dead = safety.address_in_ring(here, seen, host)
    but = [host.name, *out, *(h.name for h in here.kairosdb)]
    problems = safety.whole(here, seen, but, gone=[dead])
    problems += safety.one_down(target.plan)
    if host.name in seen.drained:
        problems.append(
            f"{host.name} runs, and is down for having been drained: a deploy, or the verb that "
            "was interrupted, starts it with all its data"
        )
    for other in others:
        found = (seen.rings[other.name] or {}).get(dead, "not in the ring")
        if found != "DN":
            problems.append(
                f"{other.name} sees {host.name} {found}; only one that is down (DN) is replaced"
            )
    rings = [ring for ring in seen.rings.values() if ring]
    if down := [o.name for o in others if any(ring.get(o.address) == "DN" for ring in rings)]:
        problems.append(
            f"{', '.join(down)}: down as well, with what may be the only other copy of rows. Bring "
            "it up again first. If it is gone for good, too, a quorum of these rows is: make "
            f"destroy TARGET={target.name}, make deploy, and restore a backup"
        )
    between = older is None and not finished_file(target.name).exists()
    if between and not all(seen.rings[other.name] for other in others):
        problems.append(
            "the last deploy did not finish. If none of this target ever has, there is no data: "
            f"make destroy TARGET={target.name}, then make deploy"
        )
    if not target.of.target.makes_anew:
        problems += _holds_data(target.given(host))
    safety.refuse(f"{verb} {host.name}", problems)
    if here.storage[0].vars["storage_engine"] == "scylla":
        return [cluster.host_id(cluster.status_of(others), dead), *out]
    return [dead, *out]


def _outside(older: Operation | None, here: Inventory, seen: Seen) -> list[str]:
    """Storage hosts and others that an unfinished verb has not yet brought in, or has out already.

    Nothing joins or is waited for beside the node that takes a dead one's place.
    """
    if older and older.memory == nodes.EMPTY:
        return [older.host]
    if older and older.verb == "replace":
        return older.memory.split()[1:]
    if older is None or older.verb != "add-storage":
        return []
    there = older.memory.split()
    rings = [ring for name, ring in seen.rings.items() if ring and name in there]
    return [
        host.name
        for host in here.storage
        # Of one that joins (UJ, DJ) it is not known when, and it may stream from the dead one.
        if host.name not in there
        and all(
            ring.get(safety.address_in_ring(here, seen, host), "J")[-1] == "J" for ring in rings
        )
    ]


def _is_new(here: Inventory, seen: Seen, host: Host) -> bool:
    """Whether a dead node's host is another machine already, that nothing has run on.

    Where that is not known it is made once more: of a host that no ring has nothing is lost.
    """
    moved = safety.address_in_ring(here, seen, host) != host.address
    return moved and _system_tables(host).there is False


def _holds_data(host: Host) -> list[str]:
    """Why a host is not the empty one that a dead node's place needs; empty if it is."""
    found = _system_tables(host)
    if found.there is False:
        return []
    has = "has a node's data" if found.there else f"may have a node's data ({found.why})"
    return [
        f"{host.name} at {host.address} {has} in {host.vars['keyspaces_dir']}. "
        "Put a new machine with an empty disk in its place in the inventory"
    ]


def _system_tables(host: Host) -> ssh.Looked:
    """Whether a host has what each node has that was ever started."""
    return ssh.look_for(host, f"{host.vars['keyspaces_dir']}/system")
