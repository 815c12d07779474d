"""The fields of an experiment, section by section: every knob with its unit, bounds and reason."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from kairoscope.experiment import timing

Consistency = Literal["ONE", "LOCAL_ONE", "TWO", "THREE", "QUORUM", "LOCAL_QUORUM", "ALL"]
"""The levels at which an acknowledged write is readable data. ANY is left out on purpose: a hint
counts as written there, and nothing could be read back. One datacenter only, so no EACH_QUORUM."""

LEGAL_NAME_WORDS = "letters, digits and - _ . /"
"""What KairosDB takes in metric names and tags."""
INSTANCE_TYPE = r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$"
INSTANCE_TYPE_WORDS = "an instance type of terraform/instance-types.yml, e.g. i3.8xlarge"
STORE_MAX_TTL_S = 630_720_000
"""Both engines refuse a longer TTL, and the whole batch that has it: 20 years of 365 days."""
ROW_WIDTH_S = 1_814_400
"""Three weeks: a row of KairosDB's, and what the TTL of its index is longer than that of points."""
MAX_NAME = 200
"""Most characters of a metric's or tag's pattern; a row key repeats them for every series."""


def described(
    unit: str,
    text: str,
    *,
    allowed: str | None = None,
    absent: str | None = None,
    **constraints: Any,
) -> Any:
    """Declare a field with its unit ("" for none), its reason, and, for text, what is allowed.

    `absent` says what holds without the field where that is neither a plain default nor derived by
    the plan.
    """
    extra: dict[str, JsonValue] = {"unit": unit}
    if allowed is not None:
        extra["allowed"] = allowed
    if absent is not None:
        extra["absent"] = absent
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
    loader_hosts: int = described(
        "hosts",
        "How many hosts run the sensors; each has the same number of loader processes.",
        default=1,
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
    shards: int | None = described(
        "shards",
        "CPU shards of one ScyllaDB node (its threads less those kept for interrupts: 30 of 32 "
        "on an i3.8xlarge). Cassandra has no shards; there it is the threads a node may count on.",
        absent="2; 1 of ScyllaDB on targets `local` and `lab`; on `aws` of the instance type",
        default=None,
        ge=1,
        le=256,
    )
    jvm: Literal["quick", "full"] | None = described(
        "",
        "Compilers of the Java servers. `full` has Java's optimising one too: it takes much of the "
        "CPU in a server's first minutes, and points cost less from then on. `quick` does without, "
        "for servers that live for minutes.",
        absent="quick on targets `local` and `lab`, full on others",
        default=None,
    )


class Storage(Section):
    """How the store keeps the data."""

    engine: Literal["cassandra", "scylla"] | None = described(
        "",
        "The store. ScyllaDB you get from its maker (docs/scylla.md), Cassandra comes with "
        "the bundles.",
        absent="what the target is deployed with, else cassandra on `local` and `lab`, scylla on "
        "`aws` and `hosts`",
        default=None,
    )
    heap_mb: int = described(
        "MiB",
        "Java heap of one Cassandra node; 1 GiB lets three of them share a laptop. ScyllaDB has "
        "no heap and ignores it.",
        default=1024,
        ge=256,
        le=65536,
    )
    memory_mb: int | None = described(
        "MiB",
        "Memory of one ScyllaDB node on targets `local` and `lab`, where several share a machine; "
        "elsewhere it takes what its host has. Derived from its shards if absent.",
        default=None,
        ge=256,
        le=65536,
    )
    compression: Literal[
        "LZ4Compressor",
        "SnappyCompressor",
        "DeflateCompressor",
        "ZstdCompressor",
        "LZ4WithDictsCompressor",
        "ZstdWithDictsCompressor",
        "none",
    ] = described(
        "",
        "How data files are compressed; LZ4 is what both engines have and nearly free. Those with "
        "dictionaries are ScyllaDB's, from 2025.2 on.",
        default="LZ4Compressor",
    )
    ttl_s: int = described(
        "s",
        "Age at which a point disappears; 0 keeps it for ever. Must outlast the run and its "
        "read-back, or expired points would look lost. At most what the store takes "
        f"({STORE_MAX_TTL_S:,}) less the width of a row ({ROW_WIDTH_S:,}), which KairosDB adds "
        "for the index; with Cassandra all must expire before 2038-01-19.",
        default=0,
        ge=0,
        le=STORE_MAX_TTL_S - ROW_WIDTH_S,
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
    commitlog_sync: Literal["periodic", "batch"] = described(
        "",
        "When a storage node acknowledges a write. periodic: at once; its commit log is on the "
        "disk within a period. batch: when it is on the disk, so that no acknowledged write goes "
        "with a process or with power; each write then takes as long as the disk does.",
        default="periodic",
    )
    commitlog_sync_period_ms: int | None = described(
        "ms",
        "From one bringing of the commit log to the disk to the next, with periodic. Both engines "
        "are shipped with 10,000. kairosdb.queue_keep_s must be longer than that takes at most.",
        default=None,
        ge=100,
        le=60_000,
    )
    scylla_version: str = described(
        "",
        "Of ScyllaDB, where it is the store; on targets `local` and `lab` that of SCYLLA=, which "
        "must be this one if it is given. Up to 6.2 it is open source; "
        "from 2025.1 on free up to 50 vCPUs and 10 TB an organisation "
        "(https://www.scylladb.com/source-available-faq).",
        allowed="a version such as 2026.1.11",
        default="2026.1.11",
        pattern=r"^[0-9]{1,4}\.[0-9]{1,2}\.[0-9]{1,3}$",
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


class Step(Section):
    """One of several rates: how fast, and for how long."""

    rate: float = described(
        "points/s",
        "Points a second of each sensor, as load.rate.",
        ge=0.001,
        le=1000 / timing.MIN_PERIOD_MS,
    )
    duration_s: int = described("s", "Length of the step.", ge=1, le=2_592_000)


class Load(Section):
    """What the emulated sensors send, and how."""

    sensors: int = described(
        "sensors",
        "Emulated devices that send at a time; each is one series of its own.",
        ge=1,
        le=10_000_000,
    )
    rate: float | None = described(
        "points/s",
        "Points a second of each sensor; 1 as in 2018. 1000 / rate must be a whole number of "
        f"milliseconds, at least {timing.MIN_PERIOD_MS}.",
        absent=f"{timing.DEFAULT_RATE:g}, or `steps`",
        default=None,
        ge=0.001,
        le=1000 / timing.MIN_PERIOD_MS,
    )
    duration_s: int | None = described(
        "s",
        "Length of the load with its warm-up. This, points or steps.",
        absent="one of the three",
        default=None,
        ge=1,
        le=2_592_000,
    )
    points: int | None = described(
        "points",
        "Points of each sensor. This, duration_s or steps.",
        absent="one of the three",
        default=None,
        ge=1,
        le=10_000_000,
    )
    steps: list[Step] | None = described(
        "",
        "Rates one after the other, each {rate: …, duration_s: …}, in place of rate and "
        "duration_s: where it stops to be sustained is seen in one run. What is planned for is the "
        "highest rate.",
        allowed="a list of 1 to 100 steps such as {rate: 2, duration_s: 60}",
        absent="one of the three",
        default=None,
        min_length=1,
        max_length=100,
    )
    warmup_s: int | None = described(
        "s",
        "Start of the load that is sent and accounted for but left out of latency figures: Java "
        "compiles its hot paths and every series is indexed for the first time.",
        absent=f"{timing.DEFAULT_WARMUP_S}; 0 with `replay`",
        default=None,
        ge=0,
        le=86_400,
    )
    ramp_s: int = described(
        "s",
        "Start of the load in which the sensors join one group after the other, evenly; 0 for all "
        "at once. At most warmup_s, so that what is measured is at the full rate.",
        default=0,
        ge=0,
        le=86_400,
    )
    lifetime_s: int | None = described(
        "s",
        "Churn: a sensor sends for so long, then a new one, which is a new series, takes its "
        "place. A whole number of the periods between two points.",
        absent="for ever",
        default=None,
        ge=1,
        le=2_592_000,
    )
    pacing: Literal["spread", "aligned"] = described(
        "",
        "spread: each group of sensors has its own moment in the period, as devices that know "
        "nothing of each other. aligned: all send at the same moment with the same timestamp, as "
        "in 2018.",
        default="spread",
    )
    jitter_ms: int = described(
        "ms",
        "Each request is due up to so much after its moment, at random; timestamps stay. At most "
        "the (shortest) period.",
        default=0,
        ge=0,
        le=1_000_000,
    )
    seed: int = described(
        "",
        "Of everything random: the jitter, and what queries ask for. The same seed makes the same "
        "choices.",
        default=0,
        ge=0,
        le=2**31 - 1,
    )
    replay: bool = described(
        "",
        "The schedule is history that ends now, loaded as fast as KairosDB acknowledges it: to "
        "fill a store, not to judge latency.",
        default=False,
    )
    replay_queue_points: int = described(
        "points",
        "Replay pauses while a KairosDB node's queue holds more; about a page of its queue file. 0 "
        "for not looking.",
        default=500_000,
        ge=0,
        le=1_000_000_000,
    )
    protocol: Literal[
        "rest",
        "rest-gzip",
        "telnet-put",
        "telnet-putm",
        "line",
        "remote-write",
        "plaintext",
        "pickle",
        "measures",
        "cql",
    ] = described(
        "",
        "How points travel. KairosDB's REST acknowledges them (204); its telnet, as in 2018, does "
        "not; cql goes past KairosDB into its store, which acknowledges. Of other stacks "
        "(docs/systems.md): line and remote-write by HTTP, which acknowledge (204), plaintext and "
        "pickle, which do not, measures by REST, which does (202).",
        default="rest",
    )
    connection_per_request: bool = described(
        "",
        "A connection for each request, which is ended behind it, as agents have it that send what "
        "they gathered every few seconds. By plaintext and pickle alone; others keep theirs.",
        default=False,
    )
    workers: int | None = described(
        "processes",
        "Loader processes of all loader hosts together, a multiple of cluster.loader_hosts. "
        "Derived from points/s if absent.",
        default=None,
        ge=1,
        le=512,
    )
    sensors_per_request: int = described(
        "sensors",
        "Sensors whose points travel in one request. The 2018 loaders sent one by one, which "
        "measures HTTP rather than the store; 100 points are about 10 kB of JSON.",
        default=100,
        ge=1,
        le=10_000,
    )
    points_per_request: int = described(
        "points",
        "Consecutive points of each of them that travel together, as from devices that buffer; a "
        "request is due when its last point is.",
        default=1,
        ge=1,
        le=10_000,
    )
    metric: str = described(
        "",
        "Metric name of series n. {n} is its number, {n%K} the number modulo K, which gives K "
        "different names.",
        allowed=f"text of at most {MAX_NAME} {LEGAL_NAME_WORDS}, with {{n}} or {{n%K}} in it",
        default="SENSOR_{n}",
        min_length=1,
        max_length=MAX_NAME,
    )
    tags: dict[str, str] = described(
        "",
        "Tags of every point; KairosDB refuses a point without any. Values may hold {n} and {n%K} "
        "as metric does; the metric or a tag must have {n}, so that every sensor is a series of "
        "its own.",
        allowed="a mapping of at least one tag name to its value, both text",
        default_factory=lambda: {"status": "good"},
    )
    value_type: Literal["long", "double", "string"] = described(
        "", "Type of the values as KairosDB stores them.", default="long"
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
    failover_after_s: float = described(
        "s",
        "A KairosDB node that has not answered a worker at all for so long is down for it: its "
        "sensors go to the others until it answers a probe again.",
        default=5.0,
        gt=0,
        le=3600,
    )
    connections_per_node: int | None = described(
        "connections",
        "Connections of one worker to one KairosDB node at most, opened as they are needed; "
        "requests beyond them wait, which counts as latency and is measured for itself. Telnet has "
        "one connection to a node: there, requests whose lines are not all with the kernel.",
        default=None,
        ge=1,
        le=2000,
    )

    @property
    def steps_resolved(self) -> timing.Steps:
        """(period in ms, ticks) of each step; one where the rate is constant."""
        steps = [(step.rate, step.duration_s) for step in self.steps] if self.steps else None
        return timing.resolve(self.rate, self.duration_s, self.points, steps)

    @property
    def period_ms(self) -> int:
        """Whole milliseconds between two points of a sensor, in the first step."""
        return self.steps_resolved[0][0]

    @property
    def shortest_period_ms(self) -> int:
        """The same in the step with the highest rate."""
        return min(period for period, _ in self.steps_resolved)

    @property
    def ticks(self) -> int:
        """Points of each sensor, those of the warm-up included; whole periods only."""
        return sum(ticks for _, ticks in self.steps_resolved)

    @property
    def warmup_resolved_s(self) -> int:
        """Seconds of warm-up, given or not."""
        return timing.warmup_s(self.warmup_s, self.replay)

    @property
    def warmup_ticks(self) -> int:
        """The first points of each sensor that do not count for latency."""
        return timing.ticks_within(self.steps_resolved, self.warmup_resolved_s)

    @property
    def ramp_ticks(self) -> int:
        """The first points within which the sensors join; never more than the warm-up's."""
        return timing.ticks_within(self.steps_resolved, self.ramp_s)

    @property
    def lifetime_ticks(self) -> int:
        """Points of a sensor after which a new one takes its place; 0 for never."""
        return (self.lifetime_s or 0) * 1000 // self.period_ms


class Queries(Section):
    """Reads beside the writes; what they answer is compared with what was sent."""

    rate: float = described(
        "queries/s", "Queries a second of the whole run; 0 for none.", default=0.0, ge=0, le=1000
    )
    last_s: int = described(
        "s",
        "Span of time that a query asks for, a multiple of bucket_s: a dashboard's last minute.",
        default=60,
        ge=1,
        le=86_400,
    )
    lag_s: int | None = described(
        "s",
        "Age from which a point is expected in an answer: it waits in KairosDB's queue before it "
        "is written, and the acknowledgement does not wait for that.",
        default=None,
        ge=0,
        le=3600,
    )
    sensors: int = described(
        "sensors",
        "Random sensors that one query for raw points asks for.",
        default=10,
        ge=1,
        le=10_000,
    )
    bucket_s: int = described(
        "s",
        "Length of the buckets in queries that aggregate.",
        default=10,
        ge=1,
        le=86_400,
    )
    followed: int = described(
        "sensors",
        "Sensors of each loader host that are asked for once a second beside the queries: so it is "
        "known when each of their points was first found, and whether one was found and then no "
        "more. 0 for none. Eight are some of each of a few KairosDB nodes, and an answer has some "
        "hundred points.",
        default=8,
        ge=0,
        le=1000,
    )


class Limits(Section):
    """What makes a run a pass."""

    achieved: float = described(
        "share",
        "Least share of the scheduled points that is acknowledged at all, however late. None of "
        "these may be lost, whatever this says.",
        default=0.999,
        gt=0,
        le=1,
    )
    in_time: float = described(
        "share",
        "Least share of the points due after the warm-up that is acknowledged within p99_ms of "
        "their own planned time. 0.99 is what p99_ms says, but of all that was due and not only of "
        "what was answered; 0.999 would make p99_ms a limit to the 99.9th percentile. In two "
        "minutes 0.99 forgives an outage of a second and p99_ms.",
        default=0.99,
        gt=0,
        le=1,
    )
    longest_silence_s: float = described(
        "s",
        "Longest time after the warm-up in which points of a loader process were due, at one "
        "KairosDB node or at all, and none was acknowledged: a share forgives a longer outage in a "
        "longer run. 6 s is failover_after_s (5 s) and one to notice: what a node's death costs.",
        default=6.0,
        gt=0,
        le=3600,
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
        "sampling a moving queue can see. 1 is no limit, as it cannot grow by more than comes in.",
        default=0.01,
        ge=0,
        le=1,
    )
    queries_failed: float = described(
        "share",
        "Most of the queries beside the load that may get no answer, or none in "
        "request_timeout_s: as many as points may be late (in_time).",
        default=0.01,
        ge=0,
        le=1,
    )
    points_late: float = described(
        "share",
        "Most of the points which queries beside the load asked for that they may not find though "
        "they were older than queries.lag_s. Points that were refused are among them. As in_time: "
        "a second of two minutes.",
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
    foreign_cpu: float = described(
        "share",
        "Most of a machine's cores that processes of others may use while the load is measured; "
        "above it the run measures them too and is invalid. A fifth: of a machine that a load "
        "fills to a half or two thirds that much changes what it costs and how long it takes.",
        default=0.2,
        ge=0,
        le=1,
    )
    steal: float = described(
        "share",
        "Most of a machine's cores that its hypervisor may give to others while the load is "
        "measured; above it the run is invalid. A tenth: nothing that runs can do anything then.",
        default=0.1,
        ge=0,
        le=1,
    )
    clock_offset_ms: float = described(
        "ms",
        "Most that a loader host's clock may differ from this machine's, before a load, which does "
        "not start then, and after it, which makes it invalid: timestamps and latencies of several "
        "hosts are put together.",
        default=20.0,
        gt=0,
        le=60_000,
    )


class Security(Section):
    """Who may talk to the servers. On everywhere but on this machine's loopback addresses."""

    enabled: bool | None = described(
        "",
        "TLS and passwords between all servers, and HTTPS for KairosDB's REST interface, by a CA "
        "of the target's own.",
        absent="true; on target `local` false, where only this machine's users get at the ports",
        default=None,
    )
    rest_auth: bool | None = described(
        "",
        "A password for KairosDB's REST interface (not for its health check).",
        absent="what `enabled` is",
        default=None,
    )


class Aws(Section):
    """What target `aws` is made of; the defaults are the published run of 2018."""

    storage_instance_type: str = described(
        "",
        "Of the storage nodes; needs local NVMe disks. An i3.8xlarge has 32 threads and four of "
        "1.9 TB; i4i is its successor.",
        allowed=INSTANCE_TYPE_WORDS,
        default="i3.8xlarge",
        pattern=INSTANCE_TYPE,
    )
    kairosdb_instance_type: str = described(
        "",
        "Of the KairosDB nodes: 8 threads, 32 GiB.",
        allowed=INSTANCE_TYPE_WORDS,
        default="m5.2xlarge",
        pattern=INSTANCE_TYPE,
    )
    loader_instance_type: str = described(
        "",
        "Of the loader hosts; each loader process takes one thread.",
        allowed=INSTANCE_TYPE_WORDS,
        default="m5.2xlarge",
        pattern=INSTANCE_TYPE,
    )
    monitoring_instance_type: str = described(
        "",
        "Of the one host for Prometheus and Grafana; its memory holds some hours of all series.",
        allowed=INSTANCE_TYPE_WORDS,
        default="t3.large",
        pattern=INSTANCE_TYPE,
    )
    storage_zones: Literal[1, 3] = described(
        "zones",
        "1: all hosts in one availability zone, storage nodes in a cluster placement group: least "
        "latency, as in 2018, and lost with the zone. 3: a rack in each of three zones, of which "
        "one may fail; every write crosses zones, which costs latency and traffic.",
        default=1,
    )
    queue_volume_gib: int = described(
        "GiB",
        "Encrypted gp3 volume of each KairosDB node for its file queue: at 60,000 points/s of "
        "132 bytes, index included, 200 GiB hold seven hours of an unreachable store.",
        default=200,
        ge=1,
        le=16_384,
    )
    loader_spot: bool = described(
        "",
        "Loader hosts from spare capacity: a fraction of the price, and may be taken away in "
        "mid-run, which the verdict then says.",
        default=False,
    )


class Capture(Section):
    """How often the run is looked at."""

    proxyhistograms_every_s: int = described(
        "s",
        "Between two proxyhistograms of each storage node under load. Cassandra's forget within "
        "minutes (half-life 60 s).",
        default=20,
        ge=1,
        le=3600,
    )
    processes_every_s: int = described(
        "s", "Between two samples of CPU, memory and disk.", default=2, ge=1, le=3600
    )
    shards_every_s: int = described(
        "s",
        "Between two looks at what each shard of ScyllaDB does. In a look the "
        "node writes out all its metrics.",
        default=5,
        ge=1,
        le=3600,
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
        "One point in KairosDB's queue file: metric name, tags, timestamp, value. Its index of 32 "
        "bytes is added.",
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
    shard_writes_per_s: int = described(
        "writes/s",
        "Copies of points that one ScyllaDB shard writes a second, at most: ScyllaDB gives 12,500 "
        "simple operations a second for a physical core, which is two shards "
        "(docs.scylladb.com, Maximizing ScyllaDB Performance). The run of 2018 did 5,000 at 85 % "
        "load.",
        default=6_250,
        ge=1,
        le=1_000_000,
    )
    cpu_us_per_replica: float = described(
        "µs",
        "CPU of the embedded engine to write one copy of a point. Three copies took 25 µs with the "
        "coalescing queue and 67 with KairosDB's own, and 81 in servers that had just started, "
        "with the quick compiler alone (two vCPUs, 2026-11-22, commits 9487ece and c102389; later "
        "ones in results/published/).",
        default=25.0,
        gt=0,
        le=1_000_000,
    )
    cpu_us_kairosdb: float = described(
        "µs",
        "CPU of KairosDB for one point: 13 µs with the coalescing queue, 19 with its own, 23 just "
        "after its start (as above).",
        default=20.0,
        gt=0,
        le=1_000_000,
    )


def replicas_needed(level: str, replication_factor: int) -> int:
    """Replicas that must answer at a consistency level, in one datacenter."""
    fixed = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3, "ALL": replication_factor}
    return fixed.get(level, replication_factor // 2 + 1)
