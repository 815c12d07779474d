"""What to know of KairosDB on its store before starting."""

from typing import Any

from kairoscope.experiment import replicas_needed
from kairoscope.plan.amounts import count
from kairoscope.plan.draft import Draft


def record(draft: Draft, target: str, kairosdb: dict[str, Any]) -> None:
    """Record the notices of a plan with these final settings of KairosDB."""
    copies = draft.experiment.cluster.replication_factor
    if draft.engine == "cassandra":
        draft.notices.append(
            f"Target {target} stores in Apache Cassandra, not ScyllaDB: it has no shards "
            "(connections per host only bound parallelism), one Java heap per node, and its "
            "proxyhistograms forget within minutes (half-life 60 s), so they are captured "
            "throughout the run. Its figures do not predict ScyllaDB's."
        )
    elif draft.shared:
        draft.notices.append(
            f"Target {target} runs ScyllaDB in developer mode, with {count(draft.shards, 'shard')} "
            "and a fixed memory a node and cores that all servers share: it starts without the "
            "checks of a tuned host, and without a measurement of the disk (iotune), so its I/O "
            "scheduler knows no limits to keep to. What it stores and answers is ScyllaDB's; its "
            "latencies and rates do not predict those of a tuned host."
        )
    write = replicas_needed(kairosdb["write_consistency"], copies)
    read = replicas_needed(kairosdb["read_consistency"], copies)
    if read + write <= copies:
        draft.notices.append(
            f"Read {kairosdb['read_consistency']} ({read}) + write "
            f"{kairosdb['write_consistency']} ({write}) ≤ {copies} copies: a query may miss "
            "points just written, until all replicas have them. For reads that see every "
            "acknowledged write take QUORUM for both."
        )
    for what, level, needed in (
        ("Writes", kairosdb["write_consistency"], write),
        ("Reads", kairosdb["read_consistency"], read),
    ):
        if needed == copies:
            cause = f"{level} needs {needed} of {copies} replicas"
            draft.notices.append(f"{what} stop when one storage node is down: {cause}.")
