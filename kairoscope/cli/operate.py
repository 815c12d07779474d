"""`kairoscope operate …`: a command per verb, and what the playbooks of some call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kairoscope import paths
from kairoscope.cli.options import (
    Verbs,
    absolute,
    console,
    deployment,
    enter_kairosdb,
    host_options,
    make_plan,
    node_options,
    plan_options,
    server_option,
    target_option,
)

if TYPE_CHECKING:
    from kairoscope.deploy.operate.deployed import Deployed


@click.group("operate", cls=Verbs)
def operate_commands() -> None:
    """Change, mend, save and bring back a deployed target (docs/operations.md).

    Each verb refuses what is not safe before it changes anything, and can be run again after an
    interruption.
    """


def _limit_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option("--limit", help="LIMIT= the host it is for")(command)


def _give_up_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--give-up",
        is_flag=True,
        help="Back out of one whose host could not be had, or has not joined: EXPERIMENT is that "
        "from before",
    )(command)


def _to_be(name: str, account: Path, backend: Path | None, inventory: Path | None) -> Deployed:
    """The target, where its hosts can be reached; for verbs that make or give back hosts."""
    from kairoscope.deploy.operate.deployed import Deployed
    from kairoscope.hosts.deployed import deployed_stack

    enter_kairosdb(name)
    return Deployed(deployment(name, deployed_stack(name), console, account, backend, inventory))


def _as_is(name: str) -> Deployed:
    """The same for verbs that leave the hosts what they are."""
    return _to_be(name, paths.TERRAFORM / "account.tfvars", None, None)


@operate_commands.command("rolling-restart")
@_limit_option
@target_option
def rolling_restart(target: str, limit: str | None) -> None:
    """Restart every server of TARGET, or those of one host, one after another."""
    from kairoscope.deploy.operate import servers

    servers.rolling_restart(_as_is(target), limit)


@operate_commands.command("rolling-config")
@host_options
@plan_options
def rolling_config(
    account: Path, backend: Path | None, inventory: Path | None, **wanted: Any
) -> None:
    """Bring TARGET to EXPERIMENT's settings, each server restarted by itself if it must."""
    from kairoscope.deploy.operate import servers

    plan = make_plan(**wanted)
    servers.rolling_config(_to_be(plan.target, account, backend, inventory), plan)


@operate_commands.command("add-kairosdb")
@_give_up_option
@host_options
@plan_options
def add_kairosdb(
    give_up: bool, account: Path, backend: Path | None, inventory: Path | None, **wanted: Any
) -> None:
    """Add a KairosDB node: EXPERIMENT says one more than TARGET has."""
    from kairoscope.deploy.operate import adding

    plan = make_plan(**wanted)
    target = _to_be(plan.target, account, backend, inventory)
    if give_up:
        adding.give_up(target, plan, "kairosdb")
    else:
        adding.add_kairosdb(target, plan)


@operate_commands.command("remove-kairosdb")
@_limit_option
@host_options
@plan_options
def remove_kairosdb(
    limit: str | None, account: Path, backend: Path | None, inventory: Path | None, **wanted: Any
) -> None:
    """Drain a KairosDB node, end it, give its host back: EXPERIMENT says one less."""
    from kairoscope.deploy.operate import removing

    plan = make_plan(**wanted)
    removing.remove_kairosdb(_to_be(plan.target, account, backend, inventory), plan, limit)


@operate_commands.command("add-storage")
@_give_up_option
@host_options
@plan_options
def add_storage(
    give_up: bool, account: Path, backend: Path | None, inventory: Path | None, **wanted: Any
) -> None:
    """Add a storage node, then clean up the others: EXPERIMENT says one more."""
    from kairoscope.deploy.operate import adding

    plan = make_plan(**wanted)
    target = _to_be(plan.target, account, backend, inventory)
    if give_up:
        adding.give_up(target, plan, "storage")
    else:
        adding.add_storage(target, plan)


@operate_commands.command()
@_limit_option
@host_options
@plan_options
def decommission(
    limit: str | None, account: Path, backend: Path | None, inventory: Path | None, **wanted: Any
) -> None:
    """Have a storage node hand over its data and leave: EXPERIMENT says one less."""
    from kairoscope.deploy.operate import removing

    plan = make_plan(**wanted)
    removing.decommission(_to_be(plan.target, account, backend, inventory), plan, limit)


@operate_commands.command()
@_limit_option
@target_option
@host_options
def replace(
    target: str, limit: str | None, account: Path, backend: Path | None, inventory: Path | None
) -> None:
    """Have a new node take the place of a dead storage node."""
    from kairoscope.deploy.operate import replacing

    replacing.replace(_to_be(target, account, backend, inventory), limit)


@operate_commands.command()
@_limit_option
@target_option
def repair(target: str, limit: str | None) -> None:
    """Have every storage node, or one, compare its ranges with the other replicas."""
    from kairoscope.deploy.operate import data

    data.repair(_as_is(target), limit)


@operate_commands.command()
@click.option("--to", help="TO= a folder that is not there yet, or s3://bucket/prefix")
@target_option
def backup(target: str, to: str | None) -> None:
    """Snapshot all storage nodes and bring the files, the schema and a manifest to one place."""
    from kairoscope.deploy.operate import data

    click.echo(data.backup(_as_is(target), to))


@operate_commands.command("schedule-backups")
@click.option("--off", is_flag=True, help="The storage hosts send none by themselves any more")
@click.option("--keep-days", type=click.IntRange(1, 3650), default=14, show_default=True)
@click.option("--at", default="03:00", show_default=True, help="Hour and minute, UTC")
@click.option(
    "--to", help="TO= s3://bucket/prefix, or a folder that all storage hosts have mounted"
)
@target_option
def schedule_backups(target: str, to: str | None, at: str, keep_days: int, off: bool) -> None:
    """Have the storage hosts send a backup each day by themselves."""
    from kairoscope.deploy.operate import schedule

    if off:
        schedule.off(_as_is(target))
    else:
        schedule.schedule(_as_is(target), to, at, keep_days)


@operate_commands.command("check-backup")
@click.argument("source")
@target_option
def check_backup(target: str, source: str) -> None:
    """Read all of the backup SOURCE (FROM=, a folder or s3://…), as a restore would."""
    from kairoscope.deploy.operate import data

    del target  # Of any target; make names one to every verb.
    click.echo(data.check(source))


@operate_commands.command()
@click.argument("source")
@target_option
def restore(target: str, source: str) -> None:
    """Bring the backup SOURCE (FROM=, a folder or s3://…) into an empty cluster."""
    from kairoscope.deploy.operate import data

    data.restore(_as_is(target), source)


@operate_commands.command()
@click.option("--rollback", is_flag=True, help="Back to the bundles before the last upgrade")
@target_option
@host_options
def upgrade(
    target: str, rollback: bool, account: Path, backend: Path | None, inventory: Path | None
) -> None:
    """Bring the servers to this checkout's bundles, one after another; snapshots first."""
    from kairoscope.deploy.operate import servers

    servers.upgrade(_to_be(target, account, backend, inventory), rollback)


@operate_commands.command("upgrade-scylla")
@click.option(
    "--repository-key",
    "key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="KEY= what signs ScyllaDB's packages, where the inventory has no scylla_repository_key",
)
@server_option
@host_options
@plan_options
def upgrade_scylla(
    account: Path,
    backend: Path | None,
    inventory: Path | None,
    server: Path | None,
    key: Path | None,
    **wanted: Any,
) -> None:
    """Bring the storage nodes to the release of ScyllaDB that EXPERIMENT says, one by one."""
    from kairoscope.deploy.operate import scylla_upgrade

    plan = make_plan(**wanted)
    scylla_upgrade.upgrade(
        _to_be(plan.target, account, backend, inventory), plan, absolute(server), absolute(key)
    )


@operate_commands.command("upgrade-system")
@_limit_option
@target_option
def upgrade_system(target: str, limit: str | None) -> None:
    """Bring the hosts' own packages up to date, host by host; reboots and restarts where needed."""
    from kairoscope.deploy.operate import servers

    servers.upgrade_system(_as_is(target), limit)


@operate_commands.command("clear-snapshots")
@target_option
def clear_snapshots(target: str) -> None:
    """Give up snapshots of before upgrades, and the way back by them, and of broken backups."""
    from kairoscope.deploy.operate import data

    data.clear_snapshots(_as_is(target))


@operate_commands.command()
@click.option("--to", type=click.Path(path_type=Path), help="TO= the archive, a .tar.gz")
@target_option
def evidence(target: str, to: Path | None) -> None:
    """Collect logs, settings and states of all hosts in one archive, without secrets."""
    from kairoscope.deploy.operate.evidence import collect

    click.echo(collect(_as_is(target), to))


# What the playbooks call on the control machine


@operate_commands.command("await-drained", hidden=True)
@click.option("--limit-s", type=float, required=True)
@click.option("--for-good/--for-now", default=False)
@node_options
def await_drained(inventory: Path, node: str, limit_s: float, for_good: bool) -> None:
    """Wait until a KairosDB node's queue is stored (called by the role drain)."""
    from kairoscope.deploy.operate import drain
    from kairoscope.hosts import inventory as inventories

    found = inventories.read(inventory)
    click.echo(drain.wait(found.host(node), found, limit_s, for_good))


@operate_commands.command("check-empty", hidden=True)
@node_options
def check_empty(inventory: Path, node: str) -> None:
    """Fail unless nothing is in a stopped KairosDB node's queue (for the playbook of its end)."""
    from kairoscope.deploy.operate import drain
    from kairoscope.hosts import inventory as inventories

    drain.check_empty(inventories.read(inventory).host(node))


@operate_commands.command("backups-about", hidden=True)
@click.option("--inventory", type=click.Path(exists=True, path_type=Path), required=True)
def backups_about(inventory: Path) -> None:
    """Print as JSON what each backup says of its tables and servers (called by its role)."""
    from kairoscope.deploy.operate import data
    from kairoscope.hosts import inventory as inventories
    from kairoscope.plan import Plan

    here = inventories.read(inventory)
    plan = Plan.from_json(Path(here.storage[0].vars["plan_file"]).read_text())
    click.echo(json.dumps(data.of_tables(here, plan)))


@operate_commands.command("fetch-snapshot", hidden=True)
@click.option("--tag", required=True)
@click.argument("into", type=click.Path(path_type=Path))
@node_options
def fetch_snapshot(inventory: Path, node: str, tag: str, into: Path) -> None:
    """Copy a storage node's snapshot to a folder here (called by the playbook backup)."""
    from kairoscope.deploy.operate import snapshots
    from kairoscope.hosts import inventory as inventories

    files = snapshots.fetch(inventories.read(inventory).host(node), tag, into)
    click.echo(json.dumps({"files": len(files), "bytes": sum(f["bytes"] for f in files.values())}))


@operate_commands.command("send-snapshot", hidden=True)
@click.option("--to", required=True)
@click.argument("source", type=click.Path(path_type=Path))
@node_options
def send_snapshot(inventory: Path, node: str, to: str, source: Path) -> None:
    """Copy a node's files of a backup to a host and print their tables (for the role restore)."""
    from kairoscope.deploy.operate import snapshots
    from kairoscope.hosts import inventory as inventories

    tables = snapshots.send(inventories.read(inventory).host(node), source, to)
    click.echo("\n".join(tables))
