"""The fields of an experiment, section by section: every knob with its unit, bounds and reason."""

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from kairoscope.experiment import timing

Consistency = Literal["ONE", "LOCAL_ONE", "TWO", "THREE", "QUORUM", "LOCAL_QUORUM", "ALL"]
"""The levels at which an acknowledged write is readable data. ANY is left out on purpose: a hint
counts as written there, and nothing could be read back. One datacenter only, so no EACH_QUORUM."""

LEGAL_NAME_WORDS = "letters, digits and - _ . /"
"""What KairosDB takes in metric names and tags."""


def described(unit: str, text: str, *, allowed: str | None = None, **constraints: Any) -> Any:
    """Declare a field with its unit ("" for none), its reason, and, for text, what is allowed."""
    extra: dict[str, JsonValue] = {"unit": unit}
    if allowed is not None:
        extra["allowed"] = allowed
    return Field(description=text, json_schema_extra=extra, **constraints)


class Section(BaseModel):
    """Strict ("5" is not 5), closed (an unknown field is an error) and unchangeable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Cluster(Section):
    """The shape: how many of what."""

    storage_nodes: int = described(
        "nodes", "How many nodes store the data; three is the least that RF 3 needs.", ge=1, le=200
    )
    replication_factor: int = described(
        "replicas",
        "Copies of every point, each on another storage node; 3 survives the loss of one node "
        "with a quorum left.",
        ge=1,
        le=20,
    )
    kairosdb_nodes: int = described(
        "nodes",
        "How many KairosDB processes take the sensors' points; sensors are split evenly over them.",
        ge=1,
        le=200,
    )
    datacenter: str = described(
        "",
        "Name of the one datacenter: NetworkTopologyStrategy and KairosDB's local_dc_name use it.",
        allowed="letters, digits, - and _, at most 48",
        default="dc1",
        pattern=r"^[A-Za-z0-9_-]{1,48}$",
    )
    shards: int = described(
        "shards",
        "CPU shards of one ScyllaDB node (its threads less those kept for interrupts: 30 of 32 "
        "on an i3.8xlarge). Cassandra has no shards; there it is the threads a node may count on.",
        default=2,
        ge=1,
        le=256,
    )


class Storage(Section):
    """How the store keeps the data."""

    heap_mb: int = described(
        "MiB",
        "Java heap of one Cassandra node; 1 GiB lets three of them share a laptop. ScyllaDB has "
        "no heap and ignores it.",
        default=1024,
        ge=256,
        le=65536,
    )
    compression: Literal[
        "LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "none"
    ] = described(
        "",
        "How data files are compressed; LZ4 is the default of both engines and nearly free.",
        default="LZ4Compressor",
    )
    ttl_s: int = described(
        "s",
        "Age at which a point disappears; 0 keeps it for ever. Must outlast the run and its "
        "read-back, or expired points would look lost.",
        default=0,
        ge=0,
        le=630_720_000,
    )
    compaction_window_hours: int = described(
        "h",
        "Span of one TWCS window: data of one window ends in one file. A day keeps the files few "
        "for retentions of weeks.",
        default=24,
        ge=1,
        le=8760,
    )
    batch_size_fail_kib: int | None = described(
        "KiB",
        "Size from which the store refuses a batch. Derived from KairosDB's batch if absent.",
        default=None,
        ge=1,
        le=1_048_576,
    )


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
        "Replicas that must have a point before KairosDB's write counts; ONE as in 2018, the "
        "others follow in the background.",
        default="ONE",
    )
    read_consistency: Consistency = described(
        "", "Replicas that a query must hear from; ONE is KairosDB's default.", default="ONE"
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
        "Points taken from the queue at a time. A CQL batch holds 65,535 statements at most, and "
        "a new series needs two in the index batch.",
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


class Load(Section):
    """What the emulated sensors send, and how."""

    sensors: int = described(
        "sensors", "Emulated devices; each is one series of its own.", ge=1, le=10_000_000
    )
    rate: float = described(
        "points/s",
        "Points a second of each sensor; 1 as in 2018. 1000 / rate must be a whole number of "
        f"milliseconds, at least {timing.MIN_PERIOD_MS}.",
        default=1.0,
        ge=0.001,
        le=1000 / timing.MIN_PERIOD_MS,
    )
    duration_s: int | None = described(
        "s", "Length of the load with its warm-up. This or points.", default=None, ge=1, le=2592000
    )
    points: int | None = described(
        "points", "Points of each sensor. This or duration_s.", default=None, ge=1, le=10_000_000
    )
    warmup_s: int = described(
        "s",
        "Start of the load that is sent and accounted for but left out of latency figures: Java "
        "compiles its hot paths and every series is indexed for the first time.",
        default=15,
        ge=0,
        le=86_400,
    )
    workers: int | None = described(
        "processes",
        "Loader processes. Derived from points/s if absent.",
        default=None,
        ge=1,
        le=512,
    )
    sensors_per_request: int = described(
        "sensors",
        "Sensors whose points travel in one REST request. The 2018 loaders sent one by one, which "
        "measures HTTP rather than the store; 100 points are about 10 kB of JSON.",
        default=100,
        ge=1,
        le=10_000,
    )
    metric: str = described(
        "",
        "Metric name of sensor n; {n} is its number.",
        allowed=f"text with {{n}} in it once, otherwise {LEGAL_NAME_WORDS}",
        default="SENSOR_{n}",
        min_length=3,
        max_length=200,
    )
    tags: dict[str, str] = described(
        "",
        "Tags of every point; KairosDB refuses a point without any.",
        allowed="a mapping of at least one tag name to its value, both text",
        default_factory=lambda: {"status": "good"},
    )
    request_timeout_s: float = described(
        "s",
        "How long one attempt waits for its answer; well above the latency limit, so that a slow "
        "answer is measured and not cut off.",
        default=10.0,
        gt=0,
        le=600,
    )
    retry_for_s: float = described(
        "s",
        "How long after its planned time a request is still retried; a restarted KairosDB node is "
        "back well within a minute.",
        default=60.0,
        ge=0,
        le=3600,
    )
    connections_per_node: int = described(
        "connections",
        "HTTP connections of one worker to one KairosDB node; requests beyond them wait, and the "
        "wait counts as latency.",
        default=8,
        ge=1,
        le=1024,
    )

    @property
    def period_ms(self) -> int:
        """Whole milliseconds between two points of a sensor."""
        return round(1000 / self.rate)

    @property
    def ticks(self) -> int:
        """Points of each sensor, those of the warm-up included; whole periods only."""
        return timing.ticks(self.duration_s, self.points, self.period_ms)

    @property
    def warmup_ticks(self) -> int:
        """The first points of each sensor that do not count for latency."""
        return math.ceil(self.warmup_s * 1000 / self.period_ms)


class Limits(Section):
    """What makes a run a pass."""

    achieved: float = described(
        "share",
        "Least share of the scheduled points that is acknowledged in time; 0.999 forgives a blip "
        "of a tenth of a second in two minutes.",
        default=0.999,
        gt=0,
        le=1,
    )
    p99_ms: float = described(
        "ms",
        "Highest 99th percentile from a point's planned send time to its acknowledgement.",
        default=500.0,
        gt=0,
        le=600_000,
    )
    drain_s: float = described(
        "s",
        "Longest time in which KairosDB's queue may empty once the load has ended.",
        default=60.0,
        ge=0,
        le=86_400,
    )
    queue_growth: float = described(
        "share",
        "Highest growth of KairosDB's queue, as a share of points/s: a hundredth is within what "
        "sampling a moving queue can see.",
        default=0.01,
        ge=0,
        le=1,
    )
    send_error_p99_ms: float = described(
        "ms",
        "Highest 99th percentile of the loader's own lateness; above it the run measures the "
        "loader and is invalid.",
        default=100.0,
        gt=0,
        le=60_000,
    )


class Capture(Section):
    """How often the run is looked at."""

    proxyhistograms_every_s: int = described(
        "s",
        "Between two nodetool proxyhistograms of each storage node. Cassandra's forget within "
        "minutes (half-life 60 s), and each call starts a Java process.",
        default=20,
        ge=1,
        le=3600,
    )
    processes_every_s: int = described(
        "s", "Between two samples of CPU, memory and disk.", default=2, ge=1, le=3600
    )


class Assume(Section):
    """Inputs of the plan's arithmetic that nobody can know before measuring."""

    write_latency_ms: float = described(
        "ms",
        "One batch to one storage node, seen from KairosDB; the published 95th and 99th "
        "percentiles are single-digit milliseconds.",
        default=5.0,
        gt=0,
        le=60_000,
    )
    bytes_per_point_on_wire: int = described(
        "bytes",
        "One point in a CQL batch: row key of some 50 bytes, column, value, TTL, timestamp and "
        "statement id.",
        default=120,
        ge=1,
        le=100_000,
    )
    bytes_per_point_on_disk: float = described(
        "bytes",
        "One point in the files of one replica; 12 GB for 120M points at RF 3 (2018) are 33.",
        default=35.0,
        gt=0,
        le=100_000,
    )
    bytes_per_point_in_queue: int = described(
        "bytes",
        "One point in KairosDB's queue file: metric name, tags, timestamp, value.",
        default=100,
        ge=1,
        le=100_000,
    )
    commitlog_mib_per_node: int = described(
        "MiB",
        "Commit log of one storage node when full; the storage role bounds it at this.",
        default=1024,
        ge=0,
        le=1_048_576,
    )
    cpu_us_per_replica: float = described(
        "µs",
        "CPU of the embedded engine to write one copy of a point; about 280 µs for three copies "
        "in the README's measured run.",
        default=95.0,
        gt=0,
        le=1_000_000,
    )
    cpu_us_kairosdb: float = described(
        "µs",
        "CPU of KairosDB for one point; about 33 µs in the README's measured run.",
        default=35.0,
        gt=0,
        le=1_000_000,
    )


def replicas_needed(level: str, replication_factor: int) -> int:
    """Replicas that must answer at a consistency level, in one datacenter."""
    fixed = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3, "ALL": replication_factor}
    return fixed.get(level, replication_factor // 2 + 1)
