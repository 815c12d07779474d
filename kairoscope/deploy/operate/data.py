"""Verbs for the data: repair, backup, restore."""

import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kairoscope import __version__, paths
from kairoscope.deploy.operate import cluster, s3, safety, snapshots
from kairoscope.deploy.operate.deployed import Deployed, changing
from kairoscope.errors import UserError
from kairoscope.hosts import operation
from kairoscope.hosts.inventory import Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan
from kairoscope.run_folder import stamp
from kairoscope.stacks.kairosdb.servers import client

# Verbs in the middle of which no storage node gains or loses data, and all are of one version.
_STORE_STAYS = ("add-kairosdb", "remove-kairosdb", "rolling-config")
# Nor in the middle of these, but a repair between two versions is what their makers warn of. Of
# add-storage a backup would have what its node has no more, which a restore does not take.
_UPGRADES = ("upgrade", "upgrade-scylla")
# A backup under way: only whole it has its own name. Nothing of it is taken up again.
_PARTIAL = ".partial"
# For the parts of the tables that a snapshot flushes.
_BACKUP_DISK = 1.2


def repair(target: Deployed, limit: str | None) -> None:
    """Have every storage node compare its ranges with the other replicas, one after another."""
    verb = "repair"
    with changing(target, whatever_deploy=True, over=_STORE_STAYS):
        if limit:
            safety.the_host(target.inventory, limit, "storage", verb)
        target.refuse_unless_whole(verb)
        target.playbook(verb, operate_limit=limit or "all")
        target.confirm(verb)


def clear_snapshots(target: Deployed) -> None:
    """Give up the snapshots that upgrades, and interrupted backups, have left on the nodes."""
    with changing(target, whatever_deploy=True, over=_STORE_STAYS):
        target.playbook("clear-snapshots")
        target.say(
            "clear-snapshots: the storage nodes have none of before an upgrade any more, nor of a "
            "backup that was interrupted"
        )


def backup(target: Deployed, to: str | None) -> str:
    """Snapshot all storage nodes and bring the files to a folder here, or on to s3://…; where."""
    verb = "backup"
    bucket = s3.Place(to) if to and s3.is_address(to) else None
    with changing(target, whatever_deploy=True, over=(*_STORE_STAYS, *_UPGRADES)):
        target.refuse_unless_whole(verb)
        began = time.time()
        tag = f"kairoscope-{stamp(began)}"
        folder = _backup_folder(target.name, None if bucket else to, tag)
        if bucket and bucket.files():
            raise UserError(f"{to} has something already: a backup goes to a place of its own.")
        here = target.inventory
        _remove_left(target)
        _check_disk_here(here, folder.parent)
        partial = folder.with_name(folder.name + _PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        facts = about(target, tag)
        (partial / snapshots.SCHEMA).write_text(facts.pop("schema"))
        target.playbook(verb, operate_tag=tag, operate_folder=str(partial))
        nodes = {
            host.name: {
                "address": host.address,
                "rack": str(host.vars["rack"]),
                "tokens": snapshots.tokens(host),
            }
            for host in here.storage
        }
        snapshots.write(partial, facts, nodes)
        partial.rename(folder)
        count = sum(len(node["files"]) for node in snapshots.read(folder)["nodes"].values())
        bytes_ = snapshots.size(snapshots.read(folder), list(nodes))
        target.say(f"backup: {count:,} files, {bytes_ / 2**20:,.1f} MiB: {folder}")
        target.confirm(verb)
    if bucket:
        target.say(f"backup: to {bucket.address} …")
        try:
            bucket.upload(folder, last=snapshots.MANIFEST)
        except UserError as error:
            raise UserError(f"{error.message}. The backup stays here: {folder}") from error
        shutil.rmtree(folder)
    _tell_prometheus(target, began)
    return bucket.address if bucket else str(folder)


def _tell_prometheus(target: Deployed, began: float) -> None:
    """A backup that began then (epoch s) is whole: what it has does not hang on who hears of it."""
    if not target.inventory.monitoring:
        return
    try:
        target.playbook("backed-up", operate_began=int(began))
    except UserError as error:
        target.say(f"backup: whole, but Prometheus does not know, and calls it old: {error}")


def _backup_folder(target: str, to: str | None, tag: str) -> Path:
    if to:
        folder = Path(to).absolute()
        if folder.exists():
            raise UserError(f"{folder} is there already: a backup goes to a folder of its own.")
        return folder
    return _folder_of_backups() / f"{target}-{tag.removeprefix('kairoscope-')}"


def _folder_of_backups() -> Path:
    """Where those are, and are on their way to S3, for which no other place was given."""
    return paths.home() / "backups"


def _remove_left(target: Deployed) -> None:
    """Remove what interrupted backups of the target have left here, with the disk that it takes.

    None is under way: that would hold the target. In a folder that was given (`--to`) nothing is
    looked for, but by the backup which goes there again.
    """
    ours = re.compile(rf"{re.escape(target.name)}-\d{{8}}T\d{{6}}Z{re.escape(_PARTIAL)}")
    for left in sorted(_folder_of_backups().glob(f"*{_PARTIAL}")):
        if ours.fullmatch(left.name):
            target.say(f"backup: what an interrupted one has left is removed: {left}")
            shutil.rmtree(left, ignore_errors=True)


def _check_disk_here(here: Inventory, folder: Path) -> None:
    """UserError if the nodes' data would not fit on this machine's disk."""
    status = cluster.status_of(here.storage)
    needed = _BACKUP_DISK * sum(cluster.load_bytes(status, h.address) for h in here.storage)
    while not folder.exists():
        folder = folder.parent
    if (free := shutil.disk_usage(folder).free) < needed:
        raise UserError(
            f"The backup takes up to {needed / 2**20:,.0f} MiB, {folder} has "
            f"{free / 2**20:,.0f} MiB free. Give another folder (--to), or free some."
        )


def about(target: Deployed, tag: str) -> dict[str, Any]:
    """What a backup's manifest says beside its files, and the schema as text."""
    here = target.inventory
    with client.connect(here, here.kairosdb) as talk:
        queues = {host.name: talk.kairosdb(host).waiting for host in here.kairosdb}
    return {
        "tag": tag,
        "made": datetime.now(UTC).isoformat(),
        **of_tables(here, target.plan),
        "points_in_queues": queues,
    }


def of_tables(here: Inventory, plan: Plan) -> dict[str, Any]:
    """The part of it that is the same of every backup until a deploy brings other servers or other
    tables."""
    given = here.storage[0].vars
    with client.connect(here, here.storage) as talk, talk.cql(here.storage) as db:
        schema = db.cluster.metadata.keyspaces[given["kairosdb_keyspace"]].export_as_string()
        columns = _columns(db, given["kairosdb_keyspace"])
    return {
        "target": plan.target,
        "keyspace": given["kairosdb_keyspace"],
        "replication_factor": plan.experiment.cluster.replication_factor,
        "versions": {
            "kairoscope": __version__,
            "kairosdb": given["kairosdb_version"],
            given["storage_engine"]: given[f"{given['storage_engine']}_version"],
        },
        "columns": columns,
        "schema": schema,
    }


def _columns(db: Any, keyspace: str) -> list[list[str]]:
    rows = db.execute(
        "SELECT table_name, column_name, type, kind FROM system_schema.columns "
        "WHERE keyspace_name = %s",
        [keyspace],
    )
    return sorted([r.table_name, r.column_name, r.type, r.kind] for r in rows)


def restore(target: Deployed, source: str) -> None:
    """Bring a backup into an empty cluster."""
    verb = "restore"
    name = source if s3.is_address(source) else str(Path(source).absolute())
    wanted = Operation(verb)
    with (
        changing(target, wanted) as unfinished,
        operation.without_load(target.name, "KairosDB stands still during a restore"),
        _local_backup(name) as folder,
    ):
        if unfinished and unfinished.memory != name:
            raise UserError(f"The restore of {unfinished.memory} has to come to its end first.")
        snapshots.gather(folder)
        manifest = snapshots.read(folder)
        here = target.inventory
        placement = snapshots.place(snapshots.ring_of(manifest), _ring(here, target.plan))
        if not unfinished:
            target.refuse_unless_whole(verb, *_does_not_fit(target, manifest, placement))
            operation.begin(target.name, Operation(verb, memory=name))
        how = "each to the node with its rows" if placement.same_rows else "all to every node"
        target.say(f"restore: the backup of {manifest['made']}, {how}")
        target.playbook(
            verb,
            operate_folder=str(folder),
            operate_placement=placement.sets,
            operate_same_rows=placement.same_rows,
            operate_serial="100%" if placement.same_rows else 1,
        )
        target.end(verb)


def _ring(here: Inventory, plan: Plan) -> snapshots.Ring:
    return snapshots.Ring(
        {host.name: snapshots.tokens(host) for host in here.storage},
        {host.name: str(host.vars["rack"]) for host in here.storage},
        plan.experiment.cluster.replication_factor,
    )


def check(source: str) -> str:
    """Read all of a backup, as a restore would; what it has. UserError with all that is wrong."""
    name = source if s3.is_address(source) else str(Path(source).absolute())
    with _local_backup(name) as folder:
        snapshots.gather(folder)
        if problems := snapshots.damage(folder):
            listed = "".join(f"\n  {problem}" for problem in problems[:20])
            more = f"\n  … and {len(problems) - 20} more" if len(problems) > 20 else ""
            raise UserError(f"{source} cannot be restored whole:{listed}{more}")
        manifest = snapshots.read(folder)
        nodes = list(manifest["nodes"])
        count = sum(len(node["files"]) for node in manifest["nodes"].values())
        return (
            f"{source}: of {manifest['made']}, {len(nodes)} nodes, {count:,} files, "
            f"{snapshots.size(manifest, nodes) / 2**20:,.1f} MiB, all as they were sent"
        )


@contextmanager
def _local_backup(name: str) -> Iterator[Path]:
    if not s3.is_address(name):
        yield Path(name)
        return
    place = s3.Place(name)
    paths.home().mkdir(parents=True, exist_ok=True)
    # Not in /tmp, which may be memory.
    with tempfile.TemporaryDirectory(prefix="restore-", dir=paths.home()) as text:
        folder = Path(text)
        needed = sum(place.files().values())
        if (free := shutil.disk_usage(folder).free) < needed:
            raise UserError(
                f"The backup has {needed / 2**20:,.0f} MiB, {folder} has {free / 2**20:,.0f} MiB "
                "free. Free some."
            )
        place.download(folder)
        yield folder


def _does_not_fit(
    target: Deployed, manifest: dict[str, Any], placement: snapshots.Placement
) -> list[str]:
    """Why a backup may not be restored into the target."""
    here = target.inventory
    keyspace = str(here.storage[0].vars["kairosdb_keyspace"])
    problems = []
    if manifest["keyspace"] != keyspace:
        problems.append(f"the backup is of keyspace {manifest['keyspace']}, not of {keyspace}")
    with client.connect(here) as talk, talk.cql(here.storage) as db:
        if _columns(db, keyspace) != manifest["columns"]:
            problems.append("the backup's tables have other columns than the target's")
        # `spec` has what KairosDB notes at its first start; the backup has the same.
        tables = sorted({column[0] for column in manifest["columns"]} - {"spec", "service_index"})
        problems += [
            f"the cluster is not empty: {table} has rows. A backup goes into one that was just "
            "deployed"
            for table in tables
            if db.execute(f"SELECT * FROM {keyspace}.{table} LIMIT 1").one()  # noqa: S608
        ]
    for host in here.storage:
        # As sent, and as taken in; what is not its own goes only after that.
        needed = snapshots.size(manifest, placement.sets[host.name]) * 2
        if (free := cluster.free_bytes(host)) < needed:
            problems.append(
                f"{host.name} has {free / 2**20:,.0f} MiB of free disk, {needed / 2**20:,.0f} MiB "
                "are needed"
            )
    return problems
