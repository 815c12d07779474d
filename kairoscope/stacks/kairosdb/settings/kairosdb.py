"""KairosDB: its connections to the store, its caches, its heap, and which queue."""

import math
from typing import Any

from kairoscope.plan.amounts import bounded, count, n, up
from kairoscope.plan.draft import MIB, Draft
from kairoscope.stacks.kairosdb.settings.commitlog import CommitLog
from kairoscope.stacks.kairosdb.settings.queue import Queue, coalescing, stock
from loaders.schedule import naming

# KairosDB's own default for both caches: never less than what it ships with.
CACHE_MIN_ENTRIES = 50_000
# Both row keys of a series while a 3-week row ends.
CACHE_HEADROOM = 1.25
# With churn, a series that has ended keeps its place until newer ones push it out. The longest
# unused goes first, so room for as many again is on the safe side.
CACHE_CHURN = 2

# A batch with new series sends two more that nobody waits for: metric names, and row keys with
# their time index.
INDEX_BATCHES = 2
REQUESTS_HEADROOM = 2
# 8 is the 2018 value; 1024 is the driver's own default for CQL v3 and later.
REQUESTS_MIN, REQUESTS_MAX = 8, 1_024

# KairosDB's default is 90. After a kill all points since the last checkpoint are sent again.
CHECKPOINT_S = 10

# KairosDB without load: classes, Jetty, the driver, metrics.
HEAP_BASE_MIB = 512
HEAP_STEP_MIB = 256
BYTES_PER_CACHED_SERIES = 1_024  # a row key with its tags in a linked hash map, generous


def settings(draft: Draft, log: CommitLog) -> tuple[dict[str, Any], Queue]:
    """How KairosDB writes and reads: the final values for its templates, and its queue."""
    given = draft.experiment.kairosdb
    plain = ("driver", "write_consistency", "read_consistency", "queue")
    derived = tuple(key for key in type(given).model_fields if key not in plain)
    values = {"nodes": draft.nodes, **draft.given("kairosdb", skip=derived)}
    checkpoint_s = _checkpoint(draft)
    coalesces = given.queue == "coalescing"
    queue = coalescing(draft, checkpoint_s, log) if coalesces else stock(draft, log)
    values |= queue.values
    values |= _connections(draft, queue)
    values |= _caches(draft)
    values["checkpoint_s"] = checkpoint_s
    values["heap_mb"] = _heap(draft, values, queue)
    return values, queue


def _connections(draft: Draft, queue: Queue) -> dict[str, int]:
    connections = draft.derive(
        "kairosdb.connections_per_host",
        draft.shards,
        "connections",
        f"{n(draft.shards)} shards × 1",
        "One connection for each shard of a ScyllaDB node (core = max, so none is opened under "
        "load); the driver then reaches the shard that owns the row. Cassandra has no shards: "
        "there the number only bounds parallelism.",
    )
    in_flight = queue.in_flight * (1 + INDEX_BATCHES)
    each = math.ceil(in_flight * REQUESTS_HEADROOM / connections)
    derived, bound = bounded(each, REQUESTS_MIN, REQUESTS_MAX)
    requests = draft.derive(
        "kairosdb.max_requests_per_connection",
        derived,
        "requests",
        f"{n(queue.in_flight)} {queue.in_flight_of} × (1 + {INDEX_BATCHES} index batches) × "
        f"{REQUESTS_HEADROOM} / "
        f"{n(connections)} connections = {n(each)}{bound}",
        "Everything in flight may go to one storage node, with the index batches of new series; "
        "more would queue in the driver. KairosDB's default is 128.",
    )
    if connections * requests < queue.in_flight:
        draft.notices.append(
            f"{n(connections)} connections × {n(requests)} requests carry fewer than the "
            f"{n(queue.in_flight)} {queue.in_flight_of} that can go to one storage node; the rest "
            "queue in the driver. Raise kairosdb.max_requests_per_connection."
        )
    return {"connections_per_host": connections, "max_requests_per_connection": requests}


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


def _checkpoint(draft: Draft) -> int:
    rate = draft.node_points_per_s
    return draft.derive(
        "kairosdb.checkpoint_s",
        CHECKPOINT_S,
        "s",
        f"{n(rate)} points/s × {CHECKPOINT_S} s = {n(rate * CHECKPOINT_S)} points at most",
        "After a kill the points since the last checkpoint are sent again (harmless, but "
        "work); KairosDB's default is 90 s.",
    )


def _heap(draft: Draft, values: dict[str, Any], queue: Queue) -> int:
    entries = values["row_key_cache_size"] + values["string_cache_size"]
    exact = HEAP_BASE_MIB + math.ceil((entries * BYTES_PER_CACHED_SERIES + queue.heap_bytes) / MIB)
    rounded = up(exact, HEAP_STEP_MIB)
    heap = draft.derive(
        "kairosdb.heap_mb",
        rounded,
        "MiB",
        f"{HEAP_BASE_MIB} MiB + {n(entries)} cache entries × {BYTES_PER_CACHED_SERIES} B + "
        f"{queue.heap_arithmetic} = {n(exact)}, rounded up to {HEAP_STEP_MIB}s = {n(rounded)}",
        "Both caches and the queue's memory full, and KairosDB itself.",
    )
    if heap < exact:
        draft.notices.append(
            f"kairosdb.heap_mb {n(heap)} is less than the {n(exact)} MiB that full caches "
            "and the queue's full memory take: KairosDB may run out of memory when it falls behind."
        )
    return heap
