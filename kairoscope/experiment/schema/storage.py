"""The section `storage`: how the store keeps the data."""

from typing import Literal

from kairoscope.experiment.schema.section import Section, described

STORE_MAX_TTL_S = 630_720_000
"""Both engines refuse a longer TTL, and the whole batch that has it: 20 years of 365 days."""
ROW_WIDTH_S = 1_814_400
"""Three weeks: a row of KairosDB's, and what the TTL of its index is longer than that of points."""


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
