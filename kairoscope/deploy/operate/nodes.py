"""Verbs by which nodes come and go."""

import dataclasses

from kairoscope.deploy import bootstrap, members
from kairoscope.deploy.operate import cluster, safety
from kairoscope.deploy.operate.cluster import Seen
from kairoscope.deploy.operate.deployed import SETTLE_S, SHAPE, Deployed, changing, towards
from kairoscope.errors import UserError
from kairoscope.hosts import operation as changes
from kairoscope.hosts import ssh
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.given_up import removed_nodes

# What the note of a host that leaves remembers: nothing is on it any more that is needed.
_EMPTY = "empty"
# Step of a replacement whose old machine is gone.
_MADE = "made"
# Of a host that has units, or will have them. Nor after a reboot, which a deploy undoes.
_STAND_ASIDE = """
for unit; do
  if systemctl cat "$unit" > /dev/null 2>&1; then systemctl disable --now "$unit"; fi
done
"""
# As `_seen_as` has a host that holds no share of the data.
_NOT_JOINED = {"", "J"}
_GROUPS = {
    "storage": "storage_nodes",
    "kairosdb": "kairosdb_nodes",
    "loader": "loader_hosts",
}
# Way of a verb that adds a host: back to what was there before it.
_GIVE_UP = "--give-up"
# Nothing is stored on them that a new storage node would be sent.
_DONE_WITHOUT = ("kairosdb", "loader", "monitoring")


def add_kairosdb(target: Deployed, plan: Plan) -> None:
    """Add a KairosDB node; loads that start from now on use it."""
    verb = "add-kairosdb"
    wanted = towards(plan, verb)
    with changing(target, wanted, provisions=True) as unfinished:
        if not unfinished:
            _check_only_count_changes(target.plan, plan, "kairosdb", 1, verb)
            target.refuse_unless_whole(verb, *safety.one_down(plan))
            target.build()
        changes.begin(target.name, wanted)
        target.prepare(plan)
        target.deploy(plan)
        target.confirm(verb)
        changes.end(target.name)


def remove_kairosdb(target: Deployed, plan: Plan, limit: str | None) -> None:
    """Let a KairosDB node store all it has, end it, and give its host back."""
    verb = "remove-kairosdb"
    wanted = towards(plan, verb, limit or "")
    with changing(target, wanted, provisions=True) as unfinished:
        if not unfinished:
            host = safety.the_host(target.inventory, limit, "kairosdb", verb)
            _check_only_count_changes(target.plan, plan, "kairosdb", -1, verb)
            target.of.target.check_leaves(target.inventory, host, target.of.options, verb)
            target.refuse_unless_whole(verb, *safety.one_down(plan))
            changes.begin(target.name, wanted)
        if not unfinished or unfinished.memory != _EMPTY:
            if unfinished:
                _have_back(target, target.inventory.host(wanted.host), wanted)
            leaving = target.inventory.host(wanted.host)
            target.playbook(verb, operate_host=leaving.name)
            for copy in removed_nodes.keep(target.name, leaving):
                target.say(f"points that the store had refused: {copy}")
            changes.begin(target.name, dataclasses.replace(wanted, memory=_EMPTY))
        target.of.target.give_back(wanted.host, target.say)
        target.prepare(plan, let_go=wanted.host)
        target.deploy(plan)
        target.confirm(verb)
        changes.end(target.name)


def add_storage(target: Deployed, plan: Plan) -> None:
    """Add a storage node: it joins and takes its data over; then the others give it up."""
    verb = "add-storage"
    wanted = towards(plan, verb)
    with changing(target, wanted, provisions=True) as unfinished:
        if unfinished:
            there = set(unfinished.memory.split())
        else:
            _check_only_count_changes(target.plan, plan, "storage", 1, verb)
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
        target.confirm(verb)
        changes.end(target.name)


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
        number = getattr(plan.experiment.cluster, _GROUPS[role]) + 1
        # What no inventory has is known by its number alone, where hosts are made.
        name = begun[0].name if begun else f"{role}-{number}"
        if role == "storage":
            safety.refuse(f"{verb} {_GIVE_UP}", _not_to_be_given_up(here, begun))
        changes.begin(target.name, dataclasses.replace(unfinished, way=_GIVE_UP))
        _stand_aside(target, [host for host in hosts if host not in begun], begun)
        gone = name if begun or name not in {host.name for host in here.hosts} else None
        if gone:
            target.of.target.give_back(gone, target.say)
        for host in begun:
            removed_nodes.gone(target.name, host)
        target.prepare(plan, let_go=gone)
        target.deploy(plan)
        target.confirm(f"{verb} {_GIVE_UP}")
        changes.end(target.name)


def _check_was_before(unfinished: Operation, plan: Plan, role: str, hosts: list[Host]) -> None:
    """UserError unless a plan is that from before an addition, as far as nodes go."""
    field = _GROUPS[role]
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
            _check_only_count_changes(target.plan, plan, "storage", -1, verb)
            target.of.target.check_leaves(target.inventory, host, target.of.options, verb)
            here = target.inventory
            target.refuse_unless_whole(
                verb,
                *safety.one_down(plan),
                *safety.take_away_storage(plan, len(here.storage)),
                *_no_room_for(here, host),
            )
            changes.begin(target.name, wanted)
        if not unfinished or unfinished.memory != _EMPTY:
            leaving = target.inventory.host(wanted.host)
            others = [h for h in target.inventory.storage if h.name != leaving.name]
            # It was a member when this was noted. Once nobody knows it any more it has left,
            # whatever its server does: started again it refuses to, and says so to nobody.
            left = unfinished is not None and cluster.is_gone(others, leaving.address)
            target.playbook(verb, operate_host=leaving.name, operate_left=left)
            cluster.wait_until_gone(others, leaving.address, SETTLE_S)
            removed_nodes.gone(target.name, leaving)
            changes.begin(target.name, dataclasses.replace(wanted, memory=_EMPTY))
        target.of.target.give_back(wanted.host, target.say)
        target.prepare(plan, let_go=wanted.host)
        target.deploy(plan)
        target.confirm(verb)
        changes.end(target.name)


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
    cluster, fewer = plan.experiment.cluster, {}
    unmade: list[str] = []
    for role, field in _GROUPS.items():
        # One that is left out is there, or was a moment ago.
        out = {name for name in left_out if name.startswith(f"{role}-")}
        had = len({host.name for host in here.all if host.role == role} | out)
        wanted: int = getattr(cluster, field)
        if had < wanted:
            fewer[field] = had
            unmade += [f"{role}-{number}" for number in range(had + 1, wanted + 1)]
    experiment = plan.experiment.model_copy(update={"cluster": cluster.model_copy(update=fewer)})
    terraform = plan.terraform and plan.terraform | fewer
    return plan.model_copy(update={"experiment": experiment, "terraform": terraform}), unmade


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
        _stand_aside(target, members, [each for each in storage if each.name in left_out])
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
    if older and older.memory == _EMPTY:
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


def _stand_aside(target: Deployed, members: list[Host], hosts: list[Host]) -> None:
    """End the servers of storage hosts that have not joined, until their verb goes on."""
    for host in hosts:
        target.say(f"{host.name}: its server is stopped, it has not joined")
        try:
            ssh.run(host, ["sh", "-euc", _STAND_ASIDE, "sh", *host.units.values()], sudo=True)
        except ssh.RemoteError as error:
            target.say(f"{error}; should it come back, stop its server by hand")
        cluster.forget_joining(members, host.address, SETTLE_S)


def _is_new(here: Inventory, seen: Seen, host: Host) -> bool:
    """Whether a dead node's host is another machine already, that nothing has run on."""
    return safety.address_in_ring(here, seen, host) != host.address and not _holds_data(host)


def _holds_data(host: Host) -> list[str]:
    """Why a host is not the empty one that a dead node's place needs; empty if it is."""
    folder = str(host.vars["keyspaces_dir"])
    try:
        ssh.run(host, ["test", "!", "-e", f"{folder}/system"], sudo=True)
    except ssh.RemoteError:
        return [
            f"{host.name} at {host.address} cannot be reached, or has a node's data in {folder}. "
            "Put a new machine with an empty disk in its place in the inventory"
        ]
    return []


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


def _check_only_count_changes(old: Plan, new: Plan, role: str, by: int, verb: str) -> None:
    """UserError unless the new plan has one node more, or less, of a role, and no other change."""
    field = _GROUPS[role]
    was, wanted = getattr(old.experiment.cluster, field), getattr(new.experiment.cluster, field)
    (safety.one_more if by > 0 else safety.one_less)(role, was, wanted, verb, f"cluster.{field}")
    for other in SHAPE:
        before, after = (getattr(p.experiment.cluster, other) for p in (old, new))
        if other != field and before != after:
            raise UserError(
                f"The experiment also changes {other} from {before} to {after}: one change at a "
                "time."
            )
