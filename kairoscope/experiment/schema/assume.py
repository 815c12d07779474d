"""The section `assume`: what the plan's arithmetic cannot know before measuring."""

from kairoscope.experiment.schema.section import Section, described


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
