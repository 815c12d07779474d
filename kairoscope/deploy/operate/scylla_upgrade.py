"""Another release of ScyllaDB, node by node, while KairosDB goes on."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kairoscope import paths
from kairoscope.deploy.operate import safety
from kairoscope.deploy.operate.deployed import Deployed, changing, towards
from kairoscope.errors import UserError
from kairoscope.hosts import operation
from kairoscope.plan import Plan
from kairoscope.releases import number, same_release
from kairoscope.run_folder import stamp
from kairoscope.stacks.kairosdb.scylla import brought, options
from kairoscope.stacks.kairosdb.scylla.brought import Server
from kairoscope.stacks.kairosdb.servers import client

VERB = "upgrade-scylla"

# From which release lines one may come to a line: those that ScyllaDB has written a guide for, and
# tested (github.com/scylladb/scylladb, docs/upgrade on branch-5.4 to branch-2026.2; its policy:
# docs/upgrade/about-upgrade.rst on branch-2025.4). There is a guide from 5.4 to 6.0 as well, after
# which a person switches consistent topology updates on: no verb does that.
_STEPS = {
    "5.4": ("5.2",),
    "6.1": ("6.0",),
    "6.2": ("6.1",),
    "2025.1": ("6.2",),
    "2025.2": ("2025.1",),
    "2025.3": ("2025.2",),
    "2025.4": ("2025.1", "2025.2", "2025.3"),
    "2026.1": ("2025.1", "2025.2", "2025.3", "2025.4"),
    "2026.2": ("2026.1",),
}


def upgrade(target: Deployed, plan: Plan, server: Path | None, key: Path | None) -> None:
    """Bring all storage nodes to the release of the plan, or of the user's server.

    One that was interrupted goes on, or back to the release before while a node still has that.

    Args:
        target: deployed with ScyllaDB.
        plan: what is deployed, but for storage.scylla_version.
        server: on targets of this machine, where no packages are used: the server to come to.
        key: of ScyllaDB's package repository, where the inventory has none.
    """
    # Which release it goes on to, or back, is looked at below.
    wanted = towards(plan, VERB, release=False)
    with changing(target, wanted) as unfinished:
        own = _own(target, server)
        new = _wanted(target, plan, own)
        if unfinished:
            old, going_to, tag = unfinished.memory.split()
            _check_way(target, new, old, going_to)
        else:
            old, tag = _deployed_release(target), f"before-upgrade-{stamp(time.time())}"
            safety.refuse(
                f"{VERB} from {old} to {new}",
                [*step_problems(old, new), *other_changes(target.plan, plan)],
            )
            target.refuse_unless_whole(VERB, *safety.one_down(plan))
            # What the release would not use is refused while nothing is changed here either.
            target.playbook("check-scylla", scylla_version=new)
            target.build()
            operation.begin(target.name, replace(wanted, memory=f"{old} {new} {tag}"))
        if own:
            brought.remember(target.name, own)
        target.prepare(plan)
        given = {"scylla_repository_key": str(key.absolute())} if key else {}
        target.deploy(plan, VERB, operate_tag=tag, **given)
        target.end(VERB)
        target.say(
            f"All storage nodes run ScyllaDB {new}. The snapshots {tag} hold on to their disk "
            f"until: kairoscope operate clear-snapshots --target {target.name}"
        )


def step_problems(old: str, new: str) -> list[str]:
    """Why ScyllaDB does not go from one release to another by itself; empty if it does.

    UserError if the new one's line is not known.
    """
    options.release(new)
    if number(new) == number(old):
        return [f"all storage nodes have ScyllaDB {old} already"]
    if number(new) < number(old):
        return [
            f"{new} is older: it does not read what {old} has written. The way back is a backup, "
            "restored into a cluster of that release"
        ]
    here, there = options.line(old), options.line(new)
    if here == there or here in _STEPS.get(there, ()):
        return []
    by_way = [line for line, before in _STEPS.items() if here in before]
    next_ones = (
        f"From {here} it goes to {' or '.join(by_way)}" if by_way else "There is no verb for it"
    )
    return [
        f"ScyllaDB has no tested way from {here} to {there} that needs no hand. {next_ones} "
        "(docs/scylla.md, Another release)"
    ]


def other_changes(old: Plan, new: Plan) -> list[str]:
    """What an experiment changes beside the release; empty if nothing."""
    parts = {
        "cluster": (old.experiment.cluster.model_dump(), new.experiment.cluster.model_dump()),
        "storage": (old.storage, new.storage),
        "kairosdb": (old.kairosdb, new.kairosdb),
        "security": (old.security, new.security),
    }
    return [
        f"the experiment also changes {part}.{name}: first the release alone"
        for part, (was, wanted) in parts.items()
        for name in sorted({*was, *wanted} - {"scylla_version"})
        if was.get(name) != wanted.get(name)
    ]


def back_problems(found: Mapping[str, str], old: str) -> list[str]:
    """Why nodes do not go back to the release before; empty if they do.

    `found`: what each node says it is; "" of one that does not tell.
    """
    if any(same_release(version, old) for version in found.values()):
        return []
    told = ", ".join(f"{name}: {version or 'does not tell'}" for name, version in found.items())
    return [
        f"no storage node says that it still has {old} ({told}). Once the last one was started "
        "with the newer release there is no way back but a backup: go on with the upgrade"
    ]


def _check_way(target: Deployed, new: str, old: str, going_to: str) -> None:
    """UserError unless an interrupted upgrade goes on to where it went, or back."""
    if new == going_to:
        return
    if new != old:
        raise UserError(
            f"The upgrade from {old} to {going_to} was interrupted: run it again with {going_to}, "
            f"or with {old} to go back; not with {new}."
        )
    here = target.inventory
    with client.connect(here, here.storage) as talk:
        said = {host.name: talk.server(host) for host in here.storage}
    found = {name: "" if server.trouble else server.version for name, server in said.items()}
    safety.refuse(f"{VERB} back to {old}", back_problems(found, old))


def _deployed_release(target: Deployed) -> str:
    given: Mapping[str, Any] = target.inventory.storage[0].vars
    if given["storage_engine"] != "scylla":
        raise UserError(
            f"Target {target.name} stores in {given['storage_engine']}: {VERB} is for ScyllaDB"
        )
    return str(given["scylla_version"])


def _own(target: Deployed, where: Path | None) -> Server | None:
    """The user's own server to come to; None where packages are used, or the one that is there is
    gone on with."""
    brings_own = target.inventory.storage[0].vars.get("scylla_from") == "folder"
    if where is None:
        return None
    if not brings_own:
        raise UserError(
            f"--scylla {where}: target {target.name} has ScyllaDB's packages; the release is "
            "storage.scylla_version of the experiment"
        )
    return brought.given(where, target.name, paths.target_dir(target.name) / "opt")


def _wanted(target: Deployed, plan: Plan, own: Server | None) -> str:
    """The release to come to."""
    there = _deployed_release(target)
    if target.inventory.storage[0].vars.get("scylla_from") != "folder":
        return plan.experiment.storage.scylla_version
    release = own.release if own else there
    stated = plan.storage.get("scylla_version")
    if stated is not None and stated != release:
        raise UserError(
            f"The experiment wants ScyllaDB {stated}, the server is {release}: leave "
            "storage.scylla_version out, or give a server of that release (--scylla)"
        )
    return release
