"""KairosDB's queue: how points leave it for the store, as they came or by series."""

import math
from dataclasses import dataclass
from typing import Any

from kairoscope.plan.amounts import bounded, in_bytes, n, up
from kairoscope.plan.draft import MIB, Draft
from kairoscope.stacks.kairosdb.settings import commitlog
from kairoscope.stacks.kairosdb.settings.commitlog import CommitLog
from loaders.schedule.protocols import CQL

# A stock batch holds what arrives in this time, and KairosDB waits this long for one to fill.
BATCH_WINDOW_MS = 100
# Below 50 (the 2018 value) the cost of a request weighs on its points. Above 1000 little is left to
# share out, since the store pays for each partition in a batch, and a batch that is retried or lost
# weighs more.
BATCH_MIN, BATCH_MAX = 50, 1_000
# The 2018 setting: 15 of 50.
MIN_BATCH_SHARE = 0.3

# Little's law gives the mean; twice that also carries a neighbour's sensors after a fail-over.
IN_FLIGHT_HEADROOM = 2
# Four keep a quiet node's batches from queueing behind a slow one; beyond 64 the one thread that
# hands out batches is the limit.
IN_FLIGHT_MIN, IN_FLIGHT_MAX = 4, 64

# What a node can fall behind before points have to be read back from the queue file, which costs
# more just when it has no time.
ARREARS_S = 20
MEMORY_QUEUE_MIN, MEMORY_QUEUE_MAX = 10_000, 1_000_000
BYTES_PER_QUEUED_POINT = 500  # stock: the event object with its tags, and its place in the ring

# Points of a series that go to the store together. The store pays for a partition in a batch,
# and next to nothing for each further point of it: about a quarter of what it spends on points as
# they come with fifteen, more than that with ten (docs/coalescing.md).
POINTS_TOGETHER = 15
# A point that nobody finds for longer is of no use to a dashboard; below a second there is hardly
# anything to wait for.
WINDOW_MIN_MS, WINDOW_MAX_MS = 1_000, 30_000
# Beyond the window, until the last points are stored and seen to be.
DRAIN_SLACK_S = 5
# What the plugin (kairosdb-conf/plugin, io.kairoscope.kairosdb.queue) has in memory of points. They
# wait as a hash of their series and a place in the file: a series costs nothing while it waits.
BYTES_PER_WAITING_POINT = 20
# Those on their way to the store are objects, and may take a quarter of the memory: what waits has
# the rest, and is released early when that is full.
BYTES_PER_POINT_IN_FLIGHT = 140
IN_FLIGHT_SHARE = 1 / 4
WAITING_SHARE = 1 - IN_FLIGHT_SHARE
MEMORY_STEP_MIB = 32
# Of those that came since one that the store does not take, while it takes others.
POINTS_PER_MARKED_BYTE = 4
MARKED_MAX = 2**30 - 1  # whatever memory there is: CoalescingQueue.maxBits of the plugin

# A record's place in the index beside KairosDB's queue file, whatever its own size.
INDEX_BYTES = 32
# Of a store that is away: long enough to be noticed and mended by somebody who was asleep.
OUTAGE_H = 4
# 30,000 sensors that somebody plugs in within a minute. Should a new series cost the store what ten
# points of others do, these are a tenth of what two cores sustain.
NEW_SERIES_MIN = 500
NEW_SERIES_HEADROOM = 2
# Two pages of 50 MiB and the next one, already made; the pages of the index; and some.
DISK_MIN_MIB = 512
DISK_STEP_MIB = 64
# The room that the plan leaves over what the queue takes while all is well.
DISK_HEADROOM = 2
# A run is stopped there too (capture.samplers): below it the store's own flushes fail.
DISK_FREE_MIB = 300
# So long it takes KairosDB's driver, asleep between two looks, to notice that a storage node is
# gone or is back.
DETECTION_S = 20
# Of Cassandra 5 with storage_compatibility_mode CASSANDRA_4: 2038-01-19T03:14:06Z in epoch s. What
# would expire later it refuses, and the batch with it. ScyllaDB has no such end.
LATEST_EXPIRY_S = {"cassandra": 2_147_483_646}

# Of what the store refuses, for what else is in a batch and for sizes that are not as assumed.
BATCH_SHARE = 1 / 4
BATCH_KIB = 32


@dataclass(frozen=True)
class Queue:
    """What the rest of the plan must know of a queue.

    `values` are final settings for the templates; `batch_bytes` is the size of its largest batch,
    `batch_arithmetic` how that came about and `batch_setting` what bounds it; `in_flight` are the
    batches of points to one storage node at most, which are called `in_flight_of`; `heap_bytes` is
    what it takes of KairosDB's heap when full; `held_s` is how long points are kept on purpose,
    `kept_s` how long they stay in its file once they are stored.
    """

    values: dict[str, Any]
    batch_bytes: int
    batch_arithmetic: str
    batch_setting: str
    in_flight: int
    in_flight_of: str
    heap_bytes: int
    heap_arithmetic: str
    held_s: float
    kept_s: float = 0


def stock(draft: Draft, log: CommitLog) -> Queue:
    """Points leave in the order they came, in batches of `batch_size`."""
    values = _stock_batches(draft)
    if lost := commitlog.loss(draft, log):
        draft.notices.append(f"The stock queue writes nothing again. {lost}")
    values["ingest_threads"] = _stock_threads(draft, values["batch_size"])
    values["memory_queue_size"] = _stock_memory(draft)
    batch, size = values["batch_size"], draft.experiment.assume.bytes_per_point_on_wire
    queued = values["memory_queue_size"]
    return Queue(
        values,
        batch * size,
        f"{n(batch)} points × {n(size)} B",
        "kairosdb.batch_size",
        values["ingest_threads"],
        "threads",
        queued * BYTES_PER_QUEUED_POINT,
        f"{n(queued)} queued points × {BYTES_PER_QUEUED_POINT} B",
        values["min_batch_wait_ms"] / 1000,
    )


def _stock_batches(draft: Draft) -> dict[str, int]:
    rate = draft.node_points_per_s
    arriving = math.ceil(rate * BATCH_WINDOW_MS / 1000)
    derived, bound = bounded(arriving, BATCH_MIN, BATCH_MAX)
    batch = draft.derive(
        "kairosdb.batch_size",
        derived,
        "points",
        f"{n(rate)} points/s × {BATCH_WINDOW_MS} ms = {n(arriving)}{bound}",
        f"What arrives in {BATCH_WINDOW_MS} ms: large enough to spread a request's cost, small "
        "enough to be written soon. Never ≤ 10: after a write timeout KairosDB does not "
        "retry such a batch but logs and drops it (one taken from a nearly empty queue can "
        "still be that small).",
    )
    share = max(1, math.floor(batch * MIN_BATCH_SHARE))
    least = draft.derive(
        "kairosdb.min_batch_size",
        share,
        "points",
        f"{n(batch)} × {MIN_BATCH_SHARE} = {n(share)}",
        "The share of 2018 (15 of 50): while fewer wait, KairosDB pauses before it takes a batch.",
    )
    if least > batch:
        draft.refuse(
            "kairosdb.min_batch_size",
            f"must be ≤ kairosdb.batch_size, which is derived as {n(batch)}; got {n(least)}",
        )
    wait = draft.derive(
        "kairosdb.min_batch_wait_ms",
        BATCH_WINDOW_MS,
        "ms",
        f"the {BATCH_WINDOW_MS} ms that kairosdb.batch_size is computed over",
        "One pause fills a batch. KairosDB's default of 500 ms makes points wait half a second "
        "for nothing whenever fewer queue; users report three times the throughput from "
        "less.",
    )
    return {"batch_size": batch, "min_batch_size": least, "min_batch_wait_ms": wait}


def _stock_threads(draft: Draft, batch: int) -> int:
    cluster, latency = draft.experiment.cluster, draft.experiment.assume.write_latency_ms
    rate = draft.node_points_per_s
    batches = rate / batch
    hosts = min(cluster.storage_nodes, batch)
    busy = batches * hosts * latency / 1000
    wanted = math.ceil(busy * IN_FLIGHT_HEADROOM)
    derived, bound = bounded(wanted, IN_FLIGHT_MIN, IN_FLIGHT_MAX)
    threads = draft.experiment.kairosdb.ingest_threads or derived
    ceiling = threads * batch / (hosts * latency / 1000)
    draft.derive(
        "kairosdb.ingest_threads",
        derived,
        "threads",
        f"{n(batches)} batches/s × {n(hosts)} hosts one after another × {n(latency)} ms = "
        f"{n(busy)} in flight × {IN_FLIGHT_HEADROOM} = {n(wanted)}{bound}; ceiling {n(threads)} × "
        f"{n(batch)} / ({n(hosts)} × {n(latency)} ms) = {n(ceiling)} points/s",
        "Little's law. KairosDB cuts a batch by storage node and sends the parts one after "
        "another, so a thread is busy for the sum of their latencies.",
    )
    _warn_if_short(draft, ceiling, "kairosdb.ingest_threads or kairosdb.batch_size")
    return threads


def _warn_if_short(draft: Draft, ceiling: float, settings: str) -> None:
    failed_over = draft.points_per_s / draft.survivors
    if ceiling < failed_over:
        draft.notices.append(
            f"By this arithmetic a KairosDB node writes at most {n(ceiling)} points/s, less "
            f"than the {n(failed_over)} it gets{draft.after_failure}: its queue would grow. Raise "
            f"{settings}, add a KairosDB node, or lower assume.write_latency_ms if you have "
            "measured less."
        )


def _stock_memory(draft: Draft) -> int:
    rate = draft.node_points_per_s
    wanted = math.ceil(rate * ARREARS_S)
    derived, bound = bounded(wanted, MEMORY_QUEUE_MIN, MEMORY_QUEUE_MAX)
    return draft.derive(
        "kairosdb.memory_queue_size",
        derived,
        "points",
        f"{n(rate)} points/s × {ARREARS_S} s = {n(wanted)}{bound}",
        f"Points beyond it are read back from the queue file; {ARREARS_S} s ride out a "
        "garbage collection or a storage node's restart in memory.",
    )


def coalescing(draft: Draft, checkpoint_s: int, log: CommitLog) -> Queue:
    """Points leave by series, those of a window together."""
    window_ms = _window(draft)
    batch_kib, batch_size = _batches(draft)
    in_flight = _in_flight(draft, batch_kib)
    memory_mb = _memory(draft, window_ms, in_flight * batch_size)
    keep_s = _keep(draft, log)
    values = {
        "queue_window_ms": window_ms,
        "queue_memory_mb": memory_mb,
        "queue_batch_kib": batch_kib,
        "batch_size": batch_size,
        "queue_in_flight": in_flight,
        "queue_keep_s": keep_s,
        **_disk(draft, window_ms / 1000 + keep_s + checkpoint_s, keep_s),
        "queue_sync_ms": _sync(draft),
        "queue_new_series_per_s": _new_series(draft),
        **_latest_expiry(draft),
    }
    return Queue(
        values,
        batch_kib * 1024,
        f"{n(batch_kib)} KiB",
        "kairosdb.queue_batch_kib",
        in_flight,
        "batches",
        memory_mb * MIB,
        f"{n(memory_mb)} MiB of waiting points",
        window_ms / 1000,
        keep_s,
    )


def _window(draft: Draft) -> int:
    # Of steps the lowest rate: with a higher one more points come together.
    period = max(period for period, _ in draft.experiment.load.steps_resolved)
    wanted = POINTS_TOGETHER * period
    derived, bound = bounded(wanted, WINDOW_MIN_MS, WINDOW_MAX_MS)
    window = draft.derive(
        "kairosdb.queue_window_ms",
        derived,
        "ms",
        f"{POINTS_TOGETHER} points × {n(period)} ms = {n(wanted)}{bound}",
        f"So that {POINTS_TOGETHER} points of a series go to the store together: it pays for each "
        "series in a batch, and next to nothing for its further points. A query finds a point "
        "after this time at the latest, while the load is sustained.",
    )
    if window > draft.experiment.load.warmup_resolved_s * 1000 and not draft.experiment.load.replay:
        draft.notices.append(
            f"The queue fills for its window of {n(window / 1000)} s, longer than load.warmup_s: "
            "its growth is judged from the end of the window on."
        )
    drain_s, least_s = draft.experiment.limits.drain_s, math.ceil(window / 1000) + DRAIN_SLACK_S
    # Of a load past KairosDB no drain is judged.
    if drain_s < least_s and draft.experiment.load.protocol != CQL:
        draft.refuse(
            "limits.drain_s",
            f"{drain_s:g} s are too short for a window of {n(window)} ms "
            "(kairosdb.queue_window_ms): the last points wait for as long while all is well, and "
            f"the drain would fail; raise it to ≥ {n(least_s)} or lower the window",
        )
    return window


def _memory(draft: Draft, window_ms: int, in_flight_to_a_node: int) -> int:
    rate = draft.points_per_s / draft.survivors
    nodes = draft.experiment.cluster.storage_nodes
    # All that is in a window, which is twice what waits on average.
    points = math.ceil(rate * (window_ms / 1000 + ARREARS_S))
    waiting = math.ceil(points * BYTES_PER_WAITING_POINT / WAITING_SHARE / MIB)
    leaving = math.ceil(
        in_flight_to_a_node * nodes * BYTES_PER_POINT_IN_FLIGHT / IN_FLIGHT_SHARE / MIB
    )
    wanted = max(waiting, leaving)
    marked, why = 0, ""
    if nodes > draft.experiment.cluster.replication_factor:
        # Only then can some ranges lose their quorum while others keep theirs.
        since = math.ceil(rate * OUTAGE_H * 3600)
        bound = ""
        if since > MARKED_MAX:
            since = MARKED_MAX
            bound = f", at most {n(MARKED_MAX)} points (of {_long(MARKED_MAX / rate)}),"
        marked = math.ceil(since / POINTS_PER_MARKED_BYTE / WAITING_SHARE / MIB)
        wanted = max(wanted, marked)
        why = (
            f", or {n(rate)} points/s × {OUTAGE_H} h{bound} / {POINTS_PER_MARKED_BYTE} per byte / "
            f"{WAITING_SHARE} = {n(marked)}"
        )
    memory = draft.derive(
        "kairosdb.queue_memory_mb",
        up(wanted, MEMORY_STEP_MIB),
        "MiB",
        f"{n(rate)} points/s × ({n(window_ms / 1000)} + {ARREARS_S}) s × "
        f"{BYTES_PER_WAITING_POINT} B / {WAITING_SHARE} = {n(waiting)}, or "
        f"{n(in_flight_to_a_node)} points in flight × {n(nodes)} nodes × "
        f"{BYTES_PER_POINT_IN_FLIGHT} B / {IN_FLIGHT_SHARE} = {n(leaving)}{why}; {n(wanted)} "
        f"rounded up to {MEMORY_STEP_MIB}s",
        f"A whole window and {ARREARS_S} s of arrears"
        f"{', with the sensors of a failed KairosDB node' if draft.nodes > 1 else ''}, before "
        "series are released early. Beyond the bound points are in the queue file only, and are "
        "read back, still by series."
        + (
            " While some ranges have no quorum there is a bit for each point since."
            if marked
            else ""
        ),
    )
    held = rate * window_ms / 1000 * BYTES_PER_WAITING_POINT / 2
    if memory * MIB * WAITING_SHARE < held:
        draft.notices.append(
            f"kairosdb.queue_memory_mb {n(memory)} is less than a window takes on average "
            f"({n(math.ceil(held / WAITING_SHARE / MIB))} MiB): series are released early, with "
            "fewer points of each, and the store pays more for them."
        )
    return memory


def _keep(draft: Draft, log: CommitLog) -> int:
    rate, each = draft.node_points_per_s, _bytes_on_disk(draft)
    unsynced = math.ceil(log.unsynced_s)
    derived = unsynced + DETECTION_S if unsynced else 0
    kept = draft.experiment.kairosdb.queue_keep_s
    taken = math.ceil(rate * each * (derived if kept is None else kept))
    until = (
        f"{n(unsynced)} s until a late commit log is on the disk + {DETECTION_S} s until a node's "
        "end or return is noticed"
        if unsynced
        else "storage.commitlog_sync batch: what is acknowledged is on the disk"
    )
    keep = draft.derive(
        "kairosdb.queue_keep_s",
        derived,
        "s",
        f"{until}; takes {in_bytes(taken)} of disk",
        "What the store acknowledged can go with the storage nodes that had it in memory only. It "
        "stays in the queue's file for so long, and is written again after an unclean start and "
        "when a storage node goes down or comes back: the same points, so nothing is there twice.",
    )
    if 0 < keep < unsynced:
        draft.refuse(
            "kairosdb.queue_keep_s",
            f"{n(keep)} s are over before a late commit log is on the disk ({n(unsynced)} s): what "
            f"storage nodes lose would not be written again; raise it to ≥ {n(derived)}, lower "
            "storage.commitlog_sync_period_ms, or set 0 to keep nothing",
        )
    elif not keep and (lost := commitlog.loss(draft, log)):
        draft.notices.append(f"kairosdb.queue_keep_s 0: nothing is written again. {lost}")
    elif keep < derived:
        draft.notices.append(
            f"kairosdb.queue_keep_s {n(keep)} leaves {n(keep - unsynced)} s to notice that a "
            f"storage node is gone, which may take {DETECTION_S}: of what several of them lose at "
            "a time some may not be written again."
        )
    return keep


def _bytes_on_disk(draft: Draft) -> int:
    return draft.experiment.assume.bytes_per_point_in_queue + INDEX_BYTES


def _disk(draft: Draft, usual_s: float, keep_s: int) -> dict[str, int]:
    """Bounds of the queue's files; `usual_s` is what they hold of points while all is well."""
    rate, each = draft.points_per_s / draft.survivors, _bytes_on_disk(draft)
    load = draft.experiment.load
    points = max(rate * usual_s, load.replay_queue_points if load.replay else 0)
    usual = math.ceil(points * each / MIB) + DISK_MIN_MIB // DISK_HEADROOM
    most, why = draft.queue_disk
    wanted = math.ceil(rate * (OUTAGE_H * 3600 + keep_s) * each / MIB)
    least = max(DISK_MIN_MIB, usual * DISK_HEADROOM)
    derived, bound = up(wanted, DISK_STEP_MIB), ""
    if derived > most:
        derived, bound = most, f", at most {n(most)} {why}"
    if derived < least:
        derived = up(least, DISK_STEP_MIB)
        bound = f", at least {n(derived)}: {DISK_HEADROOM} × what it takes while all is well"
    disk = draft.experiment.kairosdb.queue_disk_mb or derived
    lasts_s = max(0, disk * MIB / each / rate - usual_s)
    draft.derive(
        "kairosdb.queue_disk_mb",
        derived,
        "MiB",
        f"{n(rate)} points/s × ({OUTAGE_H} h + {n(keep_s)} s) × {n(each)} B = {n(wanted)}{bound}; "
        f"{n(disk)} MiB last for {_long(lasts_s)} without the store",
        "The queue takes all points while the store takes none. When its files are so large the "
        "node answers 503, and acknowledges nothing that it cannot keep.",
    )
    if disk < usual:
        draft.refuse(
            "kairosdb.queue_disk_mb",
            f"{n(disk)} MiB are less than the queue takes while all is well: {n(points)} points "
            f"(of {n(usual_s)} s: window, queue_keep_s, checkpoint_s; or load.replay_queue_points) "
            f"× {n(each)} B and its pages = {n(usual)} MiB",
        )
    elif disk > most and draft.experiment.kairosdb.queue_disk_mb:
        draft.notices.append(
            f"kairosdb.queue_disk_mb {n(disk)} is more than the {n(most)} MiB that there may be "
            f"({why}): kairosdb.queue_disk_free_mb ends the queue's growth before."
        )
    free = draft.derive(
        "kairosdb.queue_disk_free_mb",
        DISK_FREE_MIB,
        "MiB",
        f"{DISK_FREE_MIB}: where a run is stopped too",
        "Whoever fills the disk: below this the node answers 503, while what it acknowledged still "
        "has room, and logs too.",
    )
    return {"queue_disk_mb": disk, "queue_disk_free_mb": free}


def _long(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.1f} min"


def _sync(draft: Draft) -> int:
    return draft.derive(
        "kairosdb.queue_sync_ms",
        0,
        "ms",
        "0: not waited for",
        "An acknowledged point is in the operating system's memory and survives a killed process; "
        "a power cut only from the moment the disk has it. Some ms here make every acknowledgement "
        "wait for that, all of those ms at once.",
    )


def _new_series(draft: Draft) -> int:
    load = draft.experiment.load
    born = load.sensors / draft.survivors / load.lifetime_s if load.lifetime_s else 0
    wanted = math.ceil(born * NEW_SERIES_HEADROOM)
    derived, bound = bounded(wanted, NEW_SERIES_MIN)
    churn = (
        f"{n(load.sensors)} sensors / {n(draft.survivors)} nodes / {n(load.lifetime_s)} s × "
        f"{NEW_SERIES_HEADROOM} = {n(wanted)}"
        if load.lifetime_s
        else "0: sensors do not come and go"
    )
    return draft.derive(
        "kairosdb.queue_new_series_per_s",
        derived,
        "series/s",
        churn + bound,
        "A new series costs a partition and three rows of the index, and drives others out of the "
        "caches: a sender with a series for each point would take the store from all others. As "
        "many as row_key_cache_size may come at once, so no start and no failed node is refused.",
    )


def _latest_expiry(draft: Draft) -> dict[str, int]:
    latest = LATEST_EXPIRY_S.get(draft.engine)
    if latest is None:
        return {}
    draft.add(
        "kairosdb.queue_latest_expiry_s",
        latest,
        "epoch s",
        "2038-01-19T03:14:06Z",
        "The engine refuses what expires later, and all that is in a batch with it: such points "
        "are refused at the door instead.",
    )
    return {"queue_latest_expiry_s": latest}


def _batches(draft: Draft) -> tuple[int, int]:
    """Bounds of a batch in KiB and in points."""
    fail = draft.experiment.storage.batch_size_fail_kib
    derived, bound = BATCH_KIB, ""
    if fail is not None:
        derived, bound = bounded(BATCH_KIB, 1, max(1, math.floor(fail * BATCH_SHARE)))
    kib = draft.derive(
        "kairosdb.queue_batch_kib",
        derived,
        "KiB",
        f"{BATCH_KIB}{bound}"
        + (f" ({BATCH_SHARE} of storage.batch_size_fail_kib)" if fail else ""),
        "Counted from above, by partition, as the store does: enough to spread a request's cost, "
        f"and at most {BATCH_SHARE} of what the store refuses.",
    )
    size = draft.derive(
        "kairosdb.batch_size",
        BATCH_MAX,
        "points",
        f"{BATCH_MAX}: as for the stock queue at most",
        "Whichever of this and kairosdb.queue_batch_kib is reached first ends a batch.",
    )
    return kib, size


def _in_flight(draft: Draft, batch_kib: int) -> int:
    cluster, assume = draft.experiment.cluster, draft.experiment.assume
    rate, latency = draft.node_points_per_s, assume.write_latency_ms
    per_batch = max(1, batch_kib * 1024 // assume.bytes_per_point_on_wire)
    batches = rate / per_batch / cluster.storage_nodes
    busy = batches * latency / 1000
    wanted = math.ceil(max(busy * IN_FLIGHT_HEADROOM, draft.shards))
    derived, bound = bounded(wanted, IN_FLIGHT_MIN, IN_FLIGHT_MAX)
    in_flight = draft.experiment.kairosdb.queue_in_flight or derived
    ceiling = in_flight * cluster.storage_nodes * per_batch / (latency / 1000)
    draft.derive(
        "kairosdb.queue_in_flight",
        derived,
        "batches",
        f"{n(rate)} points/s / ({n(per_batch)} points × {n(cluster.storage_nodes)} nodes) = "
        f"{n(batches)} batches/s × {n(latency)} ms = {n(busy)} × {IN_FLIGHT_HEADROOM}, or "
        f"{n(draft.shards)} shards = {n(wanted)}{bound}; ceiling {n(in_flight)} × "
        f"{n(cluster.storage_nodes)} × {n(per_batch)} / {n(latency)} ms = {n(ceiling)} points/s",
        "Little's law, and at least one for each shard: what a node takes when it catches up.",
    )
    _warn_if_short(draft, ceiling, "kairosdb.queue_in_flight or kairosdb.queue_batch_kib")
    return in_flight
