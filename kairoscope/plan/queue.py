"""KairosDB's queue: how points leave it for the store, as they came or by series."""

import math
from dataclasses import dataclass
from typing import Any

from kairoscope.plan.draft import MIB, Draft
from kairoscope.plan.numbers import bounded, n, up

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
# and next to nothing for each further point of it: less than a quarter of what it spends on points
# as they come with fifteen, a little more than that with ten (docs/coalescing.md).
POINTS_TOGETHER = 15
# A point that nobody finds for longer is of no use to a dashboard; below a second there is hardly
# anything to wait for.
WINDOW_MIN_MS, WINDOW_MAX_MS = 1_000, 30_000
# As the plugin counts them (CoalescingQueue.POINT_BYTES with a number, Series.bytes with names of
# some 20 characters), and from this share of its memory on it no longer waits for windows.
BYTES_PER_WAITING_POINT = 121
BYTES_PER_WAITING_SERIES = 1_024
PRESSED_SHARE = 0.75
MEMORY_STEP_MIB = 32
# Of what the store refuses, for what else is in a batch and for sizes that are not as assumed.
BATCH_SHARE = 1 / 4
BATCH_KIB = 32


@dataclass(frozen=True)
class Queue:
    """What the rest of the plan must know of a queue.

    `values` are final settings for the templates; `batch_bytes` is the size of its largest batch,
    `batch_arithmetic` how that came about and `batch_setting` what bounds it; `in_flight` are the
    batches of points to one storage node at most, which are called `in_flight_of`; `heap_bytes` is
    what it takes of KairosDB's heap when full; `held_s` is how long points are kept on purpose.
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


def stock(draft: Draft) -> Queue:
    """Points leave in the order they came, in batches of `batch_size`."""
    values = _stock_batches(draft)
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


def coalescing(draft: Draft) -> Queue:
    """Points leave by series, those of a window together."""
    window_ms = _window(draft)
    memory_mb = _memory(draft, window_ms)
    batch_kib, batch_size = _batches(draft)
    in_flight = _in_flight(draft, batch_kib)
    return Queue(
        {
            "queue_window_ms": window_ms,
            "queue_memory_mb": memory_mb,
            "queue_batch_kib": batch_kib,
            "batch_size": batch_size,
            "queue_in_flight": in_flight,
        },
        batch_kib * 1024,
        f"{n(batch_kib)} KiB",
        "kairosdb.queue_batch_kib",
        in_flight,
        "batches",
        memory_mb * MIB,
        f"{n(memory_mb)} MiB of waiting points",
        window_ms / 1000,
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
    return window


def _memory(draft: Draft, window_ms: int) -> int:
    rate = draft.points_per_s / draft.survivors
    series = draft.series_failed_over
    # All that is in a window, which is twice what waits on average.
    points = math.ceil(rate * (window_ms / 1000 + ARREARS_S))
    exact = points * BYTES_PER_WAITING_POINT + series * BYTES_PER_WAITING_SERIES
    wanted = math.ceil(exact / PRESSED_SHARE / MIB)
    memory = draft.derive(
        "kairosdb.queue_memory_mb",
        up(wanted, MEMORY_STEP_MIB),
        "MiB",
        f"{n(rate)} points/s × ({n(window_ms / 1000)} + {ARREARS_S}) s × "
        f"{BYTES_PER_WAITING_POINT} B + {n(series)} series × {BYTES_PER_WAITING_SERIES} B, / "
        f"{PRESSED_SHARE} = {n(wanted)}, rounded up to {MEMORY_STEP_MIB}s",
        f"A whole window and {ARREARS_S} s of arrears"
        f"{', with the sensors of a failed KairosDB node' if draft.nodes > 1 else ''}, before "
        "series are released early. Beyond the bound points are in the queue file only, and are "
        "read back, still by series.",
    )
    held = (rate * window_ms / 1000 * BYTES_PER_WAITING_POINT / 2) + (
        series * BYTES_PER_WAITING_SERIES
    )
    if memory * MIB * PRESSED_SHARE < held:
        draft.notices.append(
            f"kairosdb.queue_memory_mb {n(memory)} is less than a window takes on average "
            f"({n(math.ceil(held / PRESSED_SHARE / MIB))} MiB): series are released early, with "
            "fewer points of each, and the store pays more for them."
        )
    return memory


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
