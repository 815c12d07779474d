"""Verbs that restart servers: with the same settings, other settings, other versions."""

import shutil
import time
from pathlib import Path

import yaml

from kairoscope import paths, whole
from kairoscope.deploy import bootstrap, deploy
from kairoscope.deploy.operate import safety
from kairoscope.deploy.operate.deployed import Deployed, changing
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, ssh
from kairoscope.hosts.inventory import Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan
from kairoscope.run_folder import stamp

_NODES = ("storage_nodes", "kairosdb_nodes", "loader_hosts")


def _one_after_another(target: Deployed, verb: str, limit: str | None) -> None:
    """Run the playbook of that name on every host, or one, where the others can do without it."""
    with changing(target):
        if limit:
            target.inventory.host(limit)
        target.refuse_unless_whole(verb, *safety.one_down(target.plan))
        target.playbook(verb, operate_limit=limit or "all")
        target.confirm(verb)


def rolling_restart(target: Deployed, limit: str | None) -> None:
    """Restart every server, or those of one host, one after another."""
    _one_after_another(target, "rolling-restart", limit)


def upgrade_system(target: Deployed, limit: str | None) -> None:
    """Bring the packages of the hosts' own repositories up to date, host by host.

    What must start anew does: a host for a newer kernel, a server for libraries that were replaced.
    """
    _one_after_another(target, "upgrade-system", limit)


def rolling_config(target: Deployed, plan: Plan) -> None:
    """Bring the servers to other settings, each restarted by itself if they concern it."""
    verb = "rolling-config"
    with changing(target):
        deploy.check_shape(plan, target.of.target, target.of.stack)
        _check_nodes_stay(target.plan, plan)
        target.refuse_unless_whole(verb, *safety.one_down(plan))
        target.build()
        target.prepare(plan)
        target.deploy(plan)
        target.confirm(verb)


def _check_nodes_stay(old: Plan, new: Plan) -> None:
    for field in _NODES:
        was, wanted = getattr(old.experiment.cluster, field), getattr(new.experiment.cluster, field)
        if was != wanted:
            raise UserError(
                f"The experiment says {field} = {wanted}, the target has {was}: rolling-config "
                "changes settings only. There are verbs for nodes."
            )


def upgrade(target: Deployed, rollback: bool) -> None:
    """Bring the servers to this checkout's bundles, one after another; or back to those before."""
    verb = "upgrade"
    wanted = Operation(verb, "")
    with changing(target, wanted) as unfinished:
        plan = target.plan
        kept = paths.target_dir(target.name) / "before-upgrade.yml"
        if rollback:
            _roll_back(target, plan, kept)
            return
        tag = unfinished.memory if unfinished else f"before-upgrade-{stamp(time.time())}"
        if not unfinished:
            target.refuse_unless_whole(verb, *safety.one_down(plan))
            target.build()
            whole.record(kept, target.inventory.path.read_text())
            operation.begin(target.name, Operation(verb, "", tag))
        target.prepare(plan)
        target.deploy(plan, verb, operate_tag=tag)
        target.confirm(verb)
        operation.end(target.name)
        target.say(
            f"The snapshots {tag} hold on to their disk until: kairoscope operate clear-snapshots "
            f"--target {target.name}. Back to what was before: upgrade --rollback"
        )


def _roll_back(target: Deployed, plan: Plan, kept: Path) -> None:
    if not kept.exists():
        raise UserError(f"There is nothing to go back to: no {kept}, which an upgrade leaves.")
    verb = "upgrade --rollback"
    before = yaml.safe_load(kept.read_text())["all"]["vars"]
    folders = {key: text for key, text in before.items() if key.endswith("_bundle_dir")}
    here = target.inventory
    if changed := _not_as_then(here, inventory.read(kept)):
        raise UserError(
            f"{verb} is refused, nothing was changed: {', '.join(changed)} came, left or was "
            "replaced since the upgrade began, and what is noted of before it is of other hosts. "
            "Go on with the upgrade (without --rollback); then deploy from the checkout of before"
        )
    for host in here.hosts:
        for key, folder in folders.items():
            # What the host's role has unpacked; ScyllaDB needs no Java.
            needed = ["java", "kairosdb"] if host.role == "kairosdb" else ["java", "cassandra"]
            if host.role == "storage" and before["storage_engine"] == "scylla":
                needed = ["scylla"]
            if key.split("_")[0] not in needed:
                continue
            try:
                ssh.run(host, ["test", "-e", f"{folder}/checked"], sudo=True)
            except ssh.RemoteError as error:
                raise UserError(f"{host.name} no longer has {folder}: {error}") from error
    shutil.copyfile(kept, here.path)
    target.deploy(plan)
    target.confirm(verb)
    operation.end(target.name)
    kept.unlink()
    target.say(
        "The servers run what they ran before. The next deploy from this checkout upgrades them "
        "again: go back in it too (git checkout)."
    )


def _not_as_then(here: Inventory, then: Inventory) -> list[str]:
    """Names of hosts with servers that are in one inventory only, or are other machines in each."""

    def machines(of: Inventory) -> set[tuple[str, ...]]:
        return {(h.name, h.address, str(h.vars.get(bootstrap.REPLACES))) for h in of.hosts}

    return sorted({name for name, *_ in machines(here) ^ machines(then)})
