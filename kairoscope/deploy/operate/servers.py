"""Verbs that restart servers: with the same settings, other settings, other versions."""

import contextlib
import re
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import yaml

from kairoscope import paths, whole
from kairoscope.deploy import bootstrap, deploy
from kairoscope.deploy.operate import safety
from kairoscope.deploy.operate.deployed import SHAPE, Deployed, changing
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan
from kairoscope.run_folder import stamp

_BACK = "--rollback"
# Variables of all hosts that say which run-time bundles the servers run (`inventory_vars` and
# `variables` of KairosDB's stack). The loaders' stay: they are led by this checkout.
_OF_BUNDLE = re.compile(r"(kairosdb|cassandra|java)_(version|bundle_dir)|java|kairosdb_driver")


def _one_after_another(
    target: Deployed, verb: str, limit: str | None, no_load_on: Collection[str] = ()
) -> None:
    """Run the playbook of that name on every host, or one, where the others can do without it.

    No load may run if there is a host of one of the roles `no_load_on` among them.
    """
    with changing(target), contextlib.ExitStack() as idle:
        here = target.inventory
        hosts = [here.host(limit)] if limit else here.all
        if needed := [host.name for host in hosts if host.role in no_load_on]:
            why = f"{verb} may reboot {', '.join(needed)}; --limit takes another host alone"
            idle.enter_context(operation.without_load(target.name, why))
        target.refuse_unless_whole(verb, *safety.one_down(target.plan), starts_drained=True)
        target.playbook(verb, operate_limit=limit or "all")
        target.confirm(verb)


def rolling_restart(target: Deployed, limit: str | None) -> None:
    """Restart every server, or those of one host, one after another."""
    _one_after_another(target, "rolling-restart", limit)


def upgrade_system(target: Deployed, limit: str | None) -> None:
    """Bring the packages of the hosts' own repositories up to date, host by host.

    What must start anew does: a host for a newer kernel, a server for libraries that were replaced.
    A load would end with its loader host.
    """
    _one_after_another(target, "upgrade-system", limit, no_load_on=("loader",))


def rolling_config(target: Deployed, plan: Plan) -> None:
    """Bring the servers to other settings, each restarted by itself if they concern it.

    One that was interrupted goes on, or back by the settings of before.
    """
    verb = "rolling-config"
    wanted = Operation(verb)
    with changing(target, wanted) as unfinished:
        deploy.check_shape(plan, target.of.target, target.of.stack)
        _check_nodes_stay(target.plan, plan)
        if not unfinished:
            target.refuse_unless_whole(verb, *safety.one_down(plan))
        target.build()
        operation.begin(target.name, wanted)
        target.prepare(plan)
        target.deploy(plan)
        target.end(verb)


def _check_nodes_stay(old: Plan, new: Plan) -> None:
    for field in SHAPE:
        was, wanted = getattr(old.experiment.cluster, field), getattr(new.experiment.cluster, field)
        if was != wanted:
            raise UserError(
                f"The experiment says {field} = {wanted}, the target has {was}: rolling-config "
                "changes settings only. There are verbs for nodes."
            )


def upgrade(target: Deployed, rollback: bool) -> None:
    """Bring the servers to this checkout's bundles, one after another; or back to those before.

    Either goes on with the other where that was interrupted, and the way back with a deploy too:
    what keeps it from its end may be the very bundles.
    """
    verb = "upgrade"
    wanted = Operation(verb, way=_BACK if rollback else "")
    with changing(target, wanted, whatever_deploy=rollback) as unfinished:
        plan = target.plan
        kept = paths.target_dir(target.name) / "before-upgrade.yml"
        tag = unfinished.memory if unfinished else ""
        if rollback:
            _roll_back(target, plan, kept, replace(wanted, memory=tag))
            return
        if not unfinished:
            target.refuse_unless_whole(verb, *safety.one_down(plan))
            tag = f"before-upgrade-{stamp(time.time())}"
        if not unfinished or unfinished.way:
            target.build()
        if not unfinished:
            whole.record(kept, target.inventory.path.read_text(), inventory.MODE)
        operation.begin(target.name, replace(wanted, memory=tag))
        target.prepare(plan)
        # On from the way back of an upgrade that had ended: its snapshots are there, and nodes that
        # are down make no others.
        target.deploy(plan, verb, **({"operate_tag": tag} if tag else {}))
        target.end(verb)
        target.say(
            f"The snapshots {tag or 'of before'} hold on to their disk until: kairoscope operate "
            f"clear-snapshots --target {target.name}. Back to what was before: upgrade --rollback"
        )


def _roll_back(target: Deployed, plan: Plan, kept: Path, wanted: Operation) -> None:
    if not kept.exists():
        raise UserError(f"There is nothing to go back to: no {kept}, which an upgrade leaves.")
    verb = str(wanted)
    before = yaml.safe_load(kept.read_text())["all"]["vars"]
    here = target.inventory
    if changed := _not_as_then(here, inventory.read(kept)):
        raise UserError(
            f"{verb} is refused, nothing was changed: {', '.join(changed)} came, left or was "
            "replaced since the upgrade began, and what is noted of before it is of other hosts. "
            "Go on with the upgrade (without --rollback); then deploy from the checkout of before"
        )
    for host in here.hosts:
        for name in _bundles_of(host):
            folder = before.get(f"{name}_bundle_dir")
            if folder is None:
                continue
            found = ssh.look_for(host, f"{folder}/checked")
            if found.there is None:
                raise UserError(f"Whether {host.name} still has {folder} is not known: {found.why}")
            if not found.there:
                raise UserError(f"{host.name} no longer has {folder}, whole.")
    operation.begin(target.name, wanted)
    # What else changed since, as the release of ScyllaDB or a setting, is not the upgrade's.
    data = yaml.safe_load(here.path.read_text())
    data["all"]["vars"] |= {key: text for key, text in before.items() if _OF_BUNDLE.fullmatch(key)}
    inventory.write(here.path, data, "and `operate`")
    target.deploy(plan)
    target.end(verb)
    kept.unlink()
    target.say(
        "The servers run what they ran before. The next deploy from this checkout upgrades them "
        "again: go back in it too (git checkout)."
    )


def _bundles_of(host: Host) -> list[str]:
    """Names of the bundles that the host's role unpacks; ScyllaDB is none of an upgrade's."""
    if host.role == "storage":
        return [] if host.vars["storage_engine"] == "scylla" else ["java", "cassandra"]
    return ["java", "kairosdb"]


def _not_as_then(here: Inventory, then: Inventory) -> list[str]:
    """Names of hosts with servers that are in one inventory only, or are other machines in each."""

    def machines(of: Inventory) -> set[tuple[str, ...]]:
        return {(h.name, h.address, str(h.vars.get(bootstrap.REPLACES))) for h in of.hosts}

    return sorted({name for name, *_ in machines(here) ^ machines(then)})
