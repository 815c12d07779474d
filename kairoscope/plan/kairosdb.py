"""KairosDB: how points are batched, written, cached and queued."""

import math
from typing import Any

from kairoscope.plan.draft import MIB, Draft
from kairoscope.plan.numbers import bounded, count, n, up
from loaders import naming

# KairosDB's own default for both caches: never less than what it ships with.
CACHE_MIN_ENTRIES = 50_000
# Both row keys of a series while a 3-week row ends.
CACHE_HEADROOM = 1.25
# With churn, a series that has ended keeps its place until newer ones push it out. The longest
# unused goes first, so room for as many again is on the safe side.
CACHE_CHURN = 2

# A batch holds what arrives in this time, and KairosDB waits this long for one to fill.
BATCH_WINDOW_MS = 100
# Below 50 (the 2018 value) the cost of a request weighs on its points. Above 1000 little is left to
# share out, since the store pays for each partition in a batch, and a batch that is retried or lost
# weighs more.
BATCH_MIN, BATCH_MAX = 50, 1_000
# The 2018 setting: 15 of 50.
MIN_BATCH_SHARE = 0.3

# Little's law gives the mean; twice that also carries a neighbour's sensors after a fail-over.
THREADS_HEADROOM = 2
# Four keep a quiet node's batches from queueing behind a slow one; beyond 64 the one thread that
# hands out batches is the limit.
THREADS_MIN, THREADS_MAX = 4, 64

# A batch with new series sends two more that nobody waits for: metric names, and row keys with
# their time index.
INDEX_BATCHES = 2
REQUESTS_HEADROOM = 2
# 8 is the 2018 value; 1024 is the driver's own default for CQL v3 and later.
REQUESTS_MIN, REQUESTS_MAX = 8, 1_024

# What a node can fall behind before KairosDB reads points back from its file, which costs more
# just when it has no time.
MEMORY_QUEUE_S = 20
MEMORY_QUEUE_MIN, MEMORY_QUEUE_MAX = 10_000, 1_000_000
# KairosDB's default is 90. After a kill all points since the last checkpoint are sent again.
CHECKPOINT_S = 10

# KairosDB without load: classes, Jetty, the driver, metrics.
HEAP_BASE_MIB = 512
HEAP_STEP_MIB = 256
BYTES_PER_CACHED_SERIES = 1_024  # a row key with its tags in a linked hash map, generous
BYTES_PER_QUEUED_POINT = 500  # the event object with its tags, and its place in the ring


def settings(draft: Draft) -> dict[str, Any]:
    """How KairosDB writes and reads: the final values for its templates."""
    given = draft.experiment.kairosdb
    plain = ("driver", "write_consistency", "read_consistency")
    derived = tuple(key for key in type(given).model_fields if key not in plain)
    values = {"nodes": draft.nodes, **draft.given("kairosdb", skip=derived)}
    values |= _batches(draft)
    values |= _connections(draft, values["batch_size"])
    values |= _caches(draft)
    values |= _queue(draft)
    values["heap_mb"] = _heap(draft, values)
    return values


def _batches(draft: Draft) -> dict[str, int]:
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


def _connections(draft: Draft, batch: int) -> dict[str, int]:
    cluster, latency = draft.experiment.cluster, draft.experiment.assume.write_latency_ms
    rate = draft.node_points_per_s
    batches = rate / batch
    hosts = min(cluster.storage_nodes, batch)
    busy = batches * hosts * latency / 1000
    wanted = math.ceil(busy * THREADS_HEADROOM)
    derived, bound = bounded(wanted, THREADS_MIN, THREADS_MAX)
    threads = draft.experiment.kairosdb.ingest_threads or derived
    ceiling = threads * batch / (hosts * latency / 1000)
    draft.derive(
        "kairosdb.ingest_threads",
        derived,
        "threads",
        f"{n(batches)} batches/s × {n(hosts)} hosts one after another × {n(latency)} ms = "
        f"{n(busy)} in flight × {THREADS_HEADROOM} = {n(wanted)}{bound}; ceiling {n(threads)} × "
        f"{n(batch)} / ({n(hosts)} × {n(latency)} ms) = {n(ceiling)} points/s",
        "Little's law. KairosDB cuts a batch by storage node and sends the parts one after "
        "another, so a thread is busy for the sum of their latencies.",
    )
    failed_over = draft.points_per_s / draft.survivors
    if ceiling < failed_over:
        draft.notices.append(
            f"By this arithmetic a KairosDB node writes at most {n(ceiling)} points/s, less "
            f"than the {n(failed_over)} it gets{draft.after_failure}: its queue would grow. Raise "
            "kairosdb.ingest_threads or kairosdb.batch_size, add a KairosDB node, or lower "
            "assume.write_latency_ms if you have measured less."
        )

    connections = draft.derive(
        "kairosdb.connections_per_host",
        draft.shards,
        "connections",
        f"{n(draft.shards)} shards × 1",
        "One connection for each shard of a ScyllaDB node (core = max, so none is opened under "
        "load); the driver then reaches the shard that owns the row. Cassandra has no shards: "
        "there the number only bounds parallelism.",
    )
    in_flight = threads * (1 + INDEX_BATCHES)
    each = math.ceil(in_flight * REQUESTS_HEADROOM / connections)
    derived, bound = bounded(each, REQUESTS_MIN, REQUESTS_MAX)
    requests = draft.derive(
        "kairosdb.max_requests_per_connection",
        derived,
        "requests",
        f"{n(threads)} threads × (1 + {INDEX_BATCHES} index batches) × {REQUESTS_HEADROOM} / "
        f"{n(connections)} connections = {n(each)}{bound}",
        "Everything in flight may go to one storage node, with the index batches that nobody "
        "waits for; more would queue in the driver. KairosDB's default is 128.",
    )
    if connections * requests < threads:
        draft.notices.append(
            f"{n(connections)} connections × {n(requests)} requests carry fewer than the "
            f"{n(threads)} ingest threads can send to one storage node; the rest queue in "
            "the driver. Raise kairosdb.max_requests_per_connection."
        )
    return {
        "connections_per_host": connections,
        "max_requests_per_connection": requests,
        "ingest_threads": threads,
    }


def _caches(draft: Draft) -> dict[str, int]:
    load, series = draft.experiment.load, draft.series_failed_over
    sending = f"{n(load.sensors)} series / {count(draft.survivors, 'node')}"
    names = naming.cardinality(load.metric, series)
    named = sending if names == series else count(names, "metric name")
    churn = CACHE_CHURN if load.lifetime_ticks else 1
    values = {}
    for key, what, live, factor, arithmetic in (
        ("row_key_cache_size", "row keys, one a series", series, churn, sending),
        ("string_cache_size", "metric names", names, churn if names == series else 1, named),
    ):
        name = f"kairosdb.{key}"
        wanted = math.ceil(live * factor * CACHE_HEADROOM)
        derived, bound = bounded(wanted, CACHE_MIN_ENTRIES)
        twice = f" × {factor} with churn" if factor > 1 else ""
        entries = draft.derive(
            name,
            derived,
            "entries",
            f"{arithmetic}{twice} × {CACHE_HEADROOM} = {n(wanted)}{bound}",
            f"Strict LRU of {what}: a sweep over more than it holds hits about 0 %, and each "
            "point then costs about four inserts. Sized for the sensors of a failed KairosDB "
            "node too; with churn those that have ended keep their place for a while.",
        )
        values[key] = entries
        if entries < live:
            draft.refuse(
                name,
                f"more sensors than the caches can hold on the surviving nodes: {n(live)} "
                f"series on a KairosDB node{draft.after_failure}, but {n(entries)} entries; "
                f"raise {name} to ≥ {n(derived)} or add a KairosDB node",
            )
        elif entries < wanted:
            draft.notices.append(
                f"{name} {n(entries)} holds the {n(live)} series of a node, but leaves "
                f"less room than the {n(wanted)} derived: new "
                "sensors may push it over."
            )
    return values


def _queue(draft: Draft) -> dict[str, int]:
    rate = draft.node_points_per_s
    wanted = math.ceil(rate * MEMORY_QUEUE_S)
    derived, bound = bounded(wanted, MEMORY_QUEUE_MIN, MEMORY_QUEUE_MAX)
    size = draft.derive(
        "kairosdb.memory_queue_size",
        derived,
        "points",
        f"{n(rate)} points/s × {MEMORY_QUEUE_S} s = {n(wanted)}{bound}",
        f"Points beyond it are read back from the queue file; {MEMORY_QUEUE_S} s ride out a "
        "garbage collection or a storage node's restart in memory.",
    )
    checkpoint = draft.derive(
        "kairosdb.checkpoint_s",
        CHECKPOINT_S,
        "s",
        f"{n(rate)} points/s × {CHECKPOINT_S} s = {n(rate * CHECKPOINT_S)} points at most",
        "After a kill the points since the last checkpoint are sent again (harmless, but "
        "work); KairosDB's default is 90 s.",
    )
    return {"memory_queue_size": size, "checkpoint_s": checkpoint}


def _heap(draft: Draft, values: dict[str, Any]) -> int:
    entries = values["row_key_cache_size"] + values["string_cache_size"]
    queued = values["memory_queue_size"]
    exact = HEAP_BASE_MIB + math.ceil(
        (entries * BYTES_PER_CACHED_SERIES + queued * BYTES_PER_QUEUED_POINT) / MIB
    )
    rounded = up(exact, HEAP_STEP_MIB)
    heap = draft.derive(
        "kairosdb.heap_mb",
        rounded,
        "MiB",
        f"{HEAP_BASE_MIB} MiB + {n(entries)} cache entries × {BYTES_PER_CACHED_SERIES} B + "
        f"{n(queued)} queued points × {BYTES_PER_QUEUED_POINT} B = {n(exact)}, rounded up "
        f"to {HEAP_STEP_MIB}s = {n(rounded)}",
        "Both caches and the memory queue full, and KairosDB itself.",
    )
    if heap < exact:
        draft.notices.append(
            f"kairosdb.heap_mb {n(heap)} is less than the {n(exact)} MiB that full caches "
            "and a full memory queue take: KairosDB may run out of memory when it falls behind."
        )
    return heap
