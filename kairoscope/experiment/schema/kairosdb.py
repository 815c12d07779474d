"""The section `kairosdb`: how KairosDB writes and reads."""

from typing import Literal

from kairoscope.experiment.schema.section import Section, described

Consistency = Literal["ONE", "LOCAL_ONE", "TWO", "THREE", "QUORUM", "LOCAL_QUORUM", "ALL"]
"""The levels at which an acknowledged write is readable data. ANY is left out on purpose: a hint
counts as written there, and nothing could be read back. One datacenter only, so no EACH_QUORUM."""


class KairosDB(Section):
    """How KairosDB writes and reads. What is absent is derived by the plan."""

    driver: Literal["scylla", "datastax"] = described(
        "",
        "CQL driver in KairosDB's class path; ScyllaDB's is a drop-in that sends each request to "
        "the shard that owns the row, and works with Cassandra too.",
        default="scylla",
    )
    write_consistency: Consistency = described(
        "",
        "Replicas that must have a point before KairosDB's write counts; the others follow in the "
        "background. With ONE, as in 2018, a storage node that is killed may have had the only "
        "copy of what it just took.",
        default="QUORUM",
    )
    read_consistency: Consistency = described(
        "",
        "Replicas that a query must hear from; with QUORUM, and the writes' too, it sees every "
        "point that is stored. ONE, as in 2018, is KairosDB's default.",
        default="QUORUM",
    )
    heap_mb: int | None = described("MiB", "Java heap of one KairosDB node.", default=None, ge=256)
    connections_per_host: int | None = described(
        "connections", "Connections to each storage node.", default=None, ge=1, le=1024
    )
    max_requests_per_connection: int | None = described(
        "requests", "Requests in flight on one connection.", default=None, ge=1, le=32768
    )
    ingest_threads: int | None = described(
        "threads", "Batches written at the same time.", default=None, ge=1, le=1024
    )
    batch_size: int | None = described(
        "points",
        "Points of one batch at most; of the stock queue, those taken from it at a time. A CQL "
        "batch holds 65,535 statements at most, and a new series needs two in the index batch.",
        default=None,
        ge=1,
        le=30_000,
    )
    min_batch_size: int | None = described(
        "points", "Fewer waiting points than this are waited for.", default=None, ge=1, le=30_000
    )
    min_batch_wait_ms: int | None = described(
        "ms", "How long they are waited for.", default=None, ge=1, le=60_000
    )
    row_key_cache_size: int | None = described(
        "entries", "Row keys known to be indexed already.", default=None, ge=1, le=100_000_000
    )
    string_cache_size: int | None = described(
        "entries", "Metric names known to be indexed already.", default=None, ge=1, le=100_000_000
    )
    memory_queue_size: int | None = described(
        "points",
        "Points kept in memory beside the queue file.",
        default=None,
        ge=100,
        le=100_000_000,
    )
    checkpoint_s: int | None = described(
        "s", "Seconds between two checkpoints of the queue file.", default=None, ge=1, le=3600
    )
    queue: Literal["coalescing", "stock"] = described(
        "",
        "Order in which points leave KairosDB's queue. coalescing: those of a series together, "
        "which costs the store a fraction (docs/coalescing.md). stock: as they came, as KairosDB "
        "does without Kairoscope.",
        default="coalescing",
    )
    queue_window_ms: int | None = described(
        "ms",
        "How long a point waits for others of its series at most, and so its age before a query "
        "finds it; 0 for not waiting.",
        default=None,
        ge=0,
        le=600_000,
    )
    queue_memory_mb: int | None = described(
        "MiB",
        "Heap for points that are not stored; those beyond are in the queue file only.",
        default=None,
        ge=1,
        le=65_536,
    )
    queue_disk_mb: int | None = described(
        "MiB",
        "Size of the queue's files at most; a node whose queue is full answers 503 and takes no "
        "more points.",
        default=None,
        ge=256,
        le=16_777_216,
    )
    queue_disk_free_mb: int | None = described(
        "MiB",
        "Free space on its disk below which the queue takes no more points, answering 503: others "
        "need some too.",
        default=None,
        ge=16,
        le=1_048_576,
    )
    queue_keep_s: int | None = described(
        "s",
        "How long what the store acknowledged is kept, to be written again after an unclean start "
        "or when a storage node goes down or comes back; 0 for not keeping.",
        default=None,
        ge=0,
        le=3600,
    )
    queue_sync_ms: int | None = described(
        "ms",
        "How often the queue's file is forced to the disk, and acknowledgements wait for it: they "
        "survive a loss of power then. 0 for never: they survive a killed process.",
        default=None,
        ge=0,
        le=1000,
    )
    queue_new_series_per_s: int | None = described(
        "series/s",
        "New series that a node takes for good, beside as many as row_key_cache_size at once; "
        "points of others are answered with 429.",
        default=None,
        ge=1,
        le=1_000_000,
    )
    queue_batch_kib: int | None = described(
        "KiB", "Size of one batch at most, as the store counts it.", default=None, ge=1, le=16_384
    )
    queue_in_flight: int | None = described(
        "batches", "At a time to each storage node.", default=None, ge=1, le=1024
    )


def replicas_needed(level: str, replication_factor: int) -> int:
    """Replicas that must answer at a consistency level, in one datacenter."""
    fixed = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3, "ALL": replication_factor}
    return fixed.get(level, replication_factor // 2 + 1)
