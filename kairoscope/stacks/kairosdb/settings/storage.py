"""The store: what it refuses, and the disk and CPU that the run takes."""

import math
from datetime import UTC, datetime
from typing import Any

from kairoscope.experiment import timing
from kairoscope.experiment.schema.storage import ROW_WIDTH_S
from kairoscope.plan.amounts import bounded, count, in_bytes, n, up
from kairoscope.plan.draft import MIB, Draft
from kairoscope.releases import number
from kairoscope.stacks.kairosdb.settings.commitlog import CommitLog
from kairoscope.stacks.kairosdb.settings.queue import INDEX_BYTES, LATEST_EXPIRY_S, Queue

# ScyllaDB's own default for refusing a batch; Cassandra's 50 KiB would refuse KairosDB's batches.
BATCH_FAIL_MIN_KIB = 1_024
BATCH_FAIL_STEP_KIB = 64
# The estimate of a point's size may be off by this much before a batch is refused.
BATCH_FAIL_HEADROOM = 4
BATCH_WARN_SHARE = 0.5

# Merging data files needs the old and the new side by side.
COMPACTION_HEADROOM = 2
# KairosDB's queue files are pages of 50 MiB; one is written while the one before is still read.
QUEUE_PAGES, QUEUE_PAGE_BYTES = 2, 52_428_800

# ScyllaDB warns of less than 1 GiB a shard (main.cc, verify_adequate_memory_per_shard), of what is
# left of it: 974 of 1,024 MiB (met, 5.2.19).
SHARED_SHARD_MIB = 1_088

# Compressors that not every engine has, and the first release that does. Read in compress.cc and
# zstd.cc of ScyllaDB 5.2.19, 6.2.3 and 2025.1.14, which know LZ4, Snappy, Deflate and Zstd only;
# compress.cc of 2025.2.0, sstables/compressor.cc of 2025.4.10 and 2026.2.5 know these too.
SCYLLAS_COMPRESSORS = {"LZ4WithDictsCompressor": "2025.2.0", "ZstdWithDictsCompressor": "2025.2.0"}


def settings(draft: Draft, queue: Queue, log: CommitLog) -> dict[str, Any]:
    """How the store keeps what comes in a queue's batches: its templates' final values."""
    cluster = draft.experiment.cluster
    stated = draft.experiment.storage.model_fields_set
    # What the user's own server is, only the deploy will see.
    own = draft.engine == "scylla" and draft.shared
    unknown = ("scylla_version",) if own and "scylla_version" not in stated else ()
    values = draft.given(
        "storage",
        skip=("batch_size_fail_kib", "commitlog_sync_period_ms", "memory_mb", *unknown),
        absent={"engine": draft.engine},
    )
    if problem := compression_problem(
        draft.engine, values["compression"], values.get("scylla_version")
    ):
        draft.refuse("storage.compression", problem)
    if own:
        values["memory_mb"] = _memory(draft)
    wanted = math.ceil(queue.batch_bytes * BATCH_FAIL_HEADROOM / 1024)
    derived, bound = bounded(wanted, BATCH_FAIL_MIN_KIB)
    fail = draft.derive(
        "storage.batch_size_fail_kib",
        up(derived, BATCH_FAIL_STEP_KIB),
        "KiB",
        f"{queue.batch_arithmetic} × {BATCH_FAIL_HEADROOM} = {n(wanted)} KiB, "
        f"rounded up to {BATCH_FAIL_STEP_KIB}s{bound}",
        "The store refuses a larger batch, and all of one may go to one storage node. "
        f"{n(BATCH_FAIL_MIN_KIB)} is ScyllaDB's default; Cassandra's 50 would refuse "
        "KairosDB's batches.",
    )
    if queue.batch_bytes > fail * 1024:
        draft.refuse(
            "storage.batch_size_fail_kib",
            f"a batch of {queue.batch_arithmetic} = {n(queue.batch_bytes / 1024)} KiB would be "
            f"refused at {n(fail)} KiB; raise it to ≥ {n(wanted)} or lower {queue.batch_setting}",
        )
    warn = max(1, math.floor(fail * BATCH_WARN_SHARE))
    draft.add(
        "storage.batch_size_warn_kib",
        warn,
        "KiB",
        f"{n(fail)} × {BATCH_WARN_SHARE} = {n(warn)}",
        "A log line well before batches are refused, and none for planned ones.",
    )
    return {
        "nodes": cluster.storage_nodes,
        "datacenter": cluster.datacenter,
        "replication_factor": cluster.replication_factor,
        "shards": draft.shards,
        **values,
        **log.values,
        "batch_size_fail_kib": fail,
        "batch_size_warn_kib": warn,
    }


def compression_problem(engine: str, compressor: str, scylla_version: str | None) -> str | None:
    """Why the store would refuse a compressor, at the schema and so after all hosts; None if it
    would not, or if ScyllaDB's release is not known yet."""
    since = SCYLLAS_COMPRESSORS.get(compressor)
    if since is None:
        return None
    if engine != "scylla":
        return (
            f"{compressor} is ScyllaDB's alone; this target stores in {engine}: take "
            f"{compressor.replace('WithDicts', '')}"
        )
    if scylla_version is not None and number(scylla_version) < number(since):
        return (
            f"{compressor} is not known to ScyllaDB {scylla_version}, only from {since} on: take "
            f"{compressor.replace('WithDicts', '')} or a later release"
        )
    return None


def _memory(draft: Draft) -> int:
    """Memory of a ScyllaDB node that shares its machine, in MiB."""
    wanted = draft.shards * SHARED_SHARD_MIB
    return draft.derive(
        "storage.memory_mb",
        wanted,
        "MiB",
        f"{count(draft.shards, 'shard')} × {n(SHARED_SHARD_MIB)} = {n(wanted)}",
        "What a ScyllaDB node has for memtables, cache and commit log, instead of nearly all of "
        "the machine's. It keeps some of it aside, and the rest is the 1 GiB a shard that it "
        "recommends at least.",
    )


def refuse_late_expiry(draft: Draft, now: float) -> None:
    """Refuse a TTL whose points, or their index, would expire later than the engine can say.

    It would refuse every batch: nothing of the run would be stored.
    """
    ttl = draft.experiment.storage.ttl_s
    latest = LATEST_EXPIRY_S.get(draft.engine)
    if not ttl or latest is None:
        return
    load = draft.experiment.load
    run = 0 if load.replay else math.ceil(timing.length_ms(load.steps_resolved) / 1000)
    expiry = math.ceil(now) + run + ttl + ROW_WIDTH_S
    if expiry > latest:
        today, end = (_date(when) for when in (now, latest))
        draft.refuse(
            "storage.ttl_s",
            f"{n(ttl)} s from {today} on, {n(run)} s of load and {n(ROW_WIDTH_S)} s of a row's "
            f"width end after {end} UTC, the last moment at which Cassandra can let "
            f"something expire: it would refuse every point. At most "
            f"{n(max(0, ttl - (expiry - latest)))} today, or 0 to keep points for ever",
        )


def _date(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def totals(draft: Draft, checkpoint_s: int, queue: Queue) -> None:
    """Disk and CPU that the run needs, over all nodes."""
    cluster, assume = draft.experiment.cluster, draft.experiment.assume
    copies, per_point = cluster.replication_factor, assume.bytes_per_point_on_disk
    data = math.ceil(draft.points * per_point * copies)
    draft.total(
        "data_bytes",
        data,
        "bytes",
        f"{n(draft.points)} points × {n(per_point)} B × {copies} copies = {in_bytes(data)}",
        "Data files over all storage nodes once merged.",
    )
    commitlog = cluster.storage_nodes * assume.commitlog_mib_per_node * MIB
    load = draft.experiment.load
    seconds = checkpoint_s + queue.held_s + queue.kept_s
    backlog = draft.node_points_per_s * seconds
    waiting = f"{n(seconds)} s of points"
    if load.replay and load.replay_queue_points > backlog:
        backlog = load.replay_queue_points
        waiting = f"load.replay_queue_points {n(backlog)}"
    each = assume.bytes_per_point_in_queue + INDEX_BYTES
    files = draft.nodes * (QUEUE_PAGES * QUEUE_PAGE_BYTES + math.ceil(backlog * each))
    disk = data * COMPACTION_HEADROOM + commitlog + files
    draft.total(
        "disk_bytes",
        disk,
        "bytes",
        f"data {in_bytes(data)} × {COMPACTION_HEADROOM} while merging + commit log "
        f"{count(cluster.storage_nodes, 'node')} × {n(assume.commitlog_mib_per_node)} MiB + "
        f"KairosDB queue {count(draft.nodes, 'node')} × ({QUEUE_PAGES} pages of 50 MiB + "
        f"{waiting} × {n(each)} B) = {in_bytes(disk)}",
        "Free disk that the run needs, over all nodes.",
    )
    cpu = assume.cpu_us_per_replica * copies + assume.cpu_us_kairosdb
    cores = draft.points_per_s * cpu / 1e6
    draft.total(
        "cpu_cores",
        round(cores, 2),
        "cores",
        f"{n(draft.points_per_s)} points/s × ({copies} × {n(assume.cpu_us_per_replica)} + "
        f"{n(assume.cpu_us_kairosdb)}) µs = {n(cores)}",
        "CPU of storage and KairosDB together, loaders excluded, as measured with the "
        "embedded engine.",
    )
