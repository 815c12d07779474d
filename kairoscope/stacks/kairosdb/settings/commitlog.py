"""The store's commit log: when what was acknowledged is on the disk, and what goes until then.

Read in ScyllaDB 5.2.19 and at its head of 2026-08-21 (f4a4091), the same in both:

- periodic: a write is acknowledged from a buffer in the process. It goes to the disk when 128 KiB
  are full (`segment::default_size`) or the period is over (`segment_manager::on_timer`; the shards
  take turns). A write that finds the last sync two periods ago waits for one
  (`segment::must_sync`). So a killed process loses up to two periods of a quiet shard.
- batch: a write waits until its buffer is written and synced, with whatever came meanwhile
  (`segment::batch_cycle`). `commitlog_sync_batch_window_in_ms` is an option that nothing reads.
  All in db/commitlog/commitlog.cc; `db::commitlog::config::from_db_config` takes the options.

Cassandra 5.0.9 (org.apache.cassandra.db.commitlog):

- periodic: a write is in a mapped file at once, so it outlives the process; the replay reads up to
  the last marker, and there is one each 100 ms (AbstractCommitLogService,
  DEFAULT_MARKER_INTERVAL_MILLIS), or each period where segments are compressed or encrypted. A
  machine without power loses the period. Writes wait when the last sync is 1.5 periods ago
  (DatabaseDescriptor.getPeriodicCommitLogSyncBlock).
- batch: a write waits for its sync (BatchCommitLogService); a period beside it is refused.
"""

from dataclasses import dataclass
from typing import Any

from kairoscope.experiment import replicas_needed
from kairoscope.plan.amounts import n
from kairoscope.plan.draft import Draft

# Both engines are shipped with 10,000. What two storage nodes lose that are killed together is a
# tenth with this; it costs up to a write to the disk each second and shard, and no more bytes
# (results/published/2026-11-28-scylladb-5.2.19.md).
PERIOD_MS = 1_000
# Either engine lets a sync be late by so much before writes wait for it: 2 periods, 1.5 periods.
LATE = 2
# Of Cassandra, whose process leaves what it wrote in the operating system's memory.
CASSANDRA_MARKER_S = 0.1


@dataclass(frozen=True)
class CommitLog:
    """What the rest of the plan must know of it.

    `values` are final settings for the templates; `unsynced_s` is how long an acknowledged write
    may be in memory only.
    """

    values: dict[str, Any]
    unsynced_s: float


def settings(draft: Draft) -> CommitLog:
    """Whether a write waits for the disk and, if not, how soon it is there."""
    wanted = draft.experiment.storage
    if wanted.commitlog_sync == "batch":
        if wanted.commitlog_sync_period_ms is not None:
            draft.refuse(
                "storage.commitlog_sync_period_ms",
                "storage.commitlog_sync is batch, which knows no period: leave it out",
            )
        return CommitLog({}, 0)
    each_s = draft.points_per_s * PERIOD_MS / 1000
    period = draft.derive(
        "storage.commitlog_sync_period_ms",
        PERIOD_MS,
        "ms",
        f"{n(draft.points_per_s)} points/s × {n(PERIOD_MS / 1000)} s = {n(each_s)} points",
        "What a storage node may have acknowledged and not yet on the disk; twice that when its "
        "disk is late. Both engines are shipped with 10 s, at a tenth of the writes to the disk."
        + _who_loses_it(draft.engine),
    )
    return CommitLog({"commitlog_sync_period_ms": period}, LATE * period / 1000)


def _who_loses_it(engine: str) -> str:
    if engine == "cassandra":
        return (
            f" A killed Cassandra loses {CASSANDRA_MARKER_S} s, whatever the period; a machine "
            "without power all of it."
        )
    return " A killed ScyllaDB loses it, as a machine without power does."


def loss(draft: Draft, log: CommitLog) -> str:
    """A sentence on what storage nodes lose that end together, and nothing writes again; "" if
    nothing."""
    if not log.unsynced_s:
        return ""
    given, copies = draft.experiment.kairosdb, draft.experiment.cluster.replication_factor
    nodes = replicas_needed(given.write_consistency, copies)
    who = "storage node killed loses" if nodes == 1 else "storage nodes killed together lose"
    period_s = seconds = log.unsynced_s / LATE
    without_power = ""
    if draft.engine == "cassandra":
        seconds = min(period_s, CASSANDRA_MARKER_S)
        points = round(draft.points_per_s * period_s)
        without_power = f", without power {n(points)} ({n(period_s)} s)"
    return (
        f"{nodes} {who} up to {n(round(draft.points_per_s * seconds))} points "
        f"({n(seconds)} s) acknowledged at {given.write_consistency}{without_power}: a query may "
        "not find them until a repair, and if the other copies go before it, or were never made, "
        "they are lost. With storage.commitlog_sync batch, which waits for the disk, none are."
    )
