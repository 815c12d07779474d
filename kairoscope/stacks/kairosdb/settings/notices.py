"""What to know of KairosDB on its store before starting."""

from typing import Any

from kairoscope.experiment import replicas_needed
from kairoscope.plan.amounts import count
from kairoscope.plan.draft import Draft
from loaders.schedule.protocols import CQL


def record(draft: Draft, target: str, kairosdb: dict[str, Any]) -> None:
    """Record the notices of a plan with these final settings of KairosDB."""
    copies = draft.experiment.cluster.replication_factor
    if draft.experiment.load.protocol == CQL:
        _past_kairosdb(draft)
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


def _past_kairosdb(draft: Draft) -> None:
    """What a load by CQL needs, and what its run says nothing of."""
    if draft.experiment.security.enabled or not draft.shared:
        draft.refuse(
            "load.protocol",
            "cql has no way to a store with TLS and passwords, or on hosts of its own: it is for "
            "target local without security.enabled",
        )
    if draft.nodes > 1:
        draft.refuse(
            "cluster.kairosdb_nodes",
            f"cql goes past KairosDB, and {draft.nodes} nodes that do nothing would only cost: "
            "take 1, which read-back and queries ask",
        )
    draft.notices.append(
        "cql writes KairosDB's own rows into its store, past KairosDB: its queue stays empty, and "
        "the run's part queue says nothing. What KairosDB itself costs is the difference to the "
        "same load by rest; the driver's share of it is in the loader here."
    )
