"""From an experiment to its plan, section by section."""

import math
import time
from typing import Any

from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, replicas_needed, timing
from kairoscope.plan import load
from kairoscope.plan.draft import Draft
from kairoscope.plan.model import Plan
from kairoscope.plan.numbers import count, n
from kairoscope.stacks.kairosdb import commitlog, storage
from kairoscope.stacks.kairosdb import settings as kairosdb
from kairoscope.targets.aws import shape
from kairoscope.targets.aws.instance_types import InstanceType

ENGINES = {"local": "cassandra", "lab": "cassandra", "aws": "scylla", "hosts": "scylla"}
"""Targets that can be planned for, and what stores there unless the experiment or ENGINE= says."""

SHARED = ("local", "lab")
"""Targets of which all servers share the cores of this machine, for as long as it takes."""

EMBEDDED_SHARDS = 2
"""Where the engine has no shards: the threads that a node of a shared machine may count on."""

SHARED_SHARDS = 1
"""Of a ScyllaDB node on a shared machine: a shard is a thread that does all the work of its part,
and three nodes, KairosDB and the loader share a laptop's few cores."""

SHARED_QUEUE_DISK_MIB = 4_096
"""Of the 10 GB that a laptop needs: what KairosDB's queue may take while the store is away."""
HOST_QUEUE_DISK_MIB = 65_536
"""On hosts of one's own, whose disks the plan does not know; kairosdb.queue_disk_free_mb holds."""
VOLUME_SHARE = 0.9
"""Of a disk of its own: the rest is the file system's and kairosdb.queue_disk_free_mb."""


def make(
    experiment: Experiment,
    target: str = "local",
    now: float | None = None,
    deployed_engine: str | None = None,
) -> Plan:
    """Resolve an experiment for a target, for a run now (epoch s, by default this machine's).

    `deployed_engine`: what the target stores in already, which it keeps unless told otherwise.

    Raises UserError for an unknown target and for settings that contradict each other once the
    open ones are derived; all contradictions at once, one per line.
    """
    if target not in ENGINES:
        raise UserError(f"target {target} is not available yet; available: {', '.join(ENGINES)}")
    draft = Draft(experiment)
    draft.engine = experiment.storage.engine or deployed_engine or ENGINES[target]
    draft.shared = target in SHARED
    if target == "aws" and draft.engine != "scylla":
        draft.refuse(
            "storage.engine",
            f"target aws makes its storage hosts of ScyllaDB's image; {draft.engine} can be had on "
            "the others, on machines of AWS too by target hosts",
        )
    types = shape.shape(draft) if target == "aws" else None
    if target == "aws" and types is None:
        raise UserError("\n".join(draft.problems))
    draft.queue_disk = _queue_disk(draft, target)
    _cluster(draft, target, types)
    log = commitlog.settings(draft)
    for_kairosdb, queue = kairosdb.settings(draft, log)
    for_load = load.settings(draft, queue.held_s)
    load.totals(draft)
    for_storage = storage.settings(draft, queue, log)
    storage.refuse_late_expiry(draft, time.time() if now is None else now)
    storage.totals(draft, for_kairosdb["checkpoint_s"], queue)
    for_security = _security(draft, target)
    for_terraform = (
        shape.settings(draft, types, for_load, secured=for_security["enabled"]) if types else {}
    )
    for section in ("limits", "capture", "assume"):
        draft.given(section)
    _notices(draft, target, for_kairosdb)
    if draft.problems:
        raise UserError("\n".join(draft.problems))
    return Plan(
        experiment_file=experiment.source.shown,
        target=target,
        engine=draft.engine,
        # A fresh copy: line numbers belong to the file, not to the plan.
        experiment=Experiment.model_validate(experiment.model_dump()),
        settings=tuple(draft.settings),
        kairosdb=for_kairosdb,
        storage=for_storage,
        load=for_load,
        security=for_security,
        terraform=for_terraform,
        totals=draft.totals,
        notices=tuple(draft.notices),
    )


def _cluster(draft: Draft, target: str, types: dict[str, InstanceType] | None) -> None:
    """The shape, and the shards of a storage node: of its instance type, where it has one."""
    sharing_scylla = draft.shared and draft.engine == "scylla"
    absent = {
        "shards": SHARED_SHARDS if sharing_scylla else EMBEDDED_SHARDS,
        "jvm": "quick" if draft.shared else "full",
    }
    if types:
        draft.given("cluster", skip=("shards",), absent=absent)
        draft.shards = shape.shards(draft, types["storage"])
    else:
        draft.shards = draft.given("cluster", absent=absent)["shards"]


def _queue_disk(draft: Draft, target: str) -> tuple[int, str]:
    """What a KairosDB node's disk has for its queue at most, in MiB, and what says so."""
    if draft.shared:
        return SHARED_QUEUE_DISK_MIB, "on a machine that all servers share"
    if target == "aws":
        volume = draft.experiment.aws.queue_volume_gib
        most = math.floor(volume * 1024 * VOLUME_SHARE)
        return most, f"{VOLUME_SHARE} of aws.queue_volume_gib {n(volume)}"
    return HOST_QUEUE_DISK_MIB, "on a disk that the plan does not know"


def _security(draft: Draft, target: str) -> dict[str, bool]:
    """Whether TLS and passwords are on. Refuses what would not do what it says."""
    wanted = draft.experiment.security
    enabled = target != "local" if wanted.enabled is None else wanted.enabled
    found = draft.given("security", absent={"enabled": enabled, "rest_auth": enabled})
    if found["rest_auth"] and not enabled:
        draft.refuse(
            "security.rest_auth",
            "a password would travel in clear text without security.enabled: set it true as well",
        )
    protocol = draft.experiment.load.protocol
    if enabled and protocol.startswith("telnet"):
        draft.notices.append(
            f"{protocol} has neither TLS nor a password: KairosDB's telnet port is open to the "
            "loader hosts for this experiment. REST has both."
        )
    return found


def _notices(draft: Draft, target: str, kairosdb: dict[str, Any]) -> None:
    """What to know before starting."""
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
    _load_notices(draft)


def _load_notices(draft: Draft) -> None:
    wanted = draft.experiment.load
    if draft.nodes == 1:
        draft.notices.append(
            "One KairosDB node: while it is down no point is taken, and loaders retry for "
            f"{n(wanted.retry_for_s)} s (load.retry_for_s)."
        )
    elif wanted.retry_for_s <= wanted.failover_after_s:
        draft.notices.append(
            f"Points are given up after {n(wanted.retry_for_s)} s (load.retry_for_s), before the "
            f"sensors of a KairosDB node that is down go to the others after "
            f"{n(wanted.failover_after_s)} s (load.failover_after_s): those of its first seconds "
            "would not arrive."
        )
    if wanted.protocol.startswith("telnet"):
        draft.notices.append(
            f"{wanted.protocol} acknowledges nothing: the ledger rests on what is read back alone, "
            "and a latency ends when the bytes are handed to the socket, whatever becomes of them."
        )
    if wanted.replay:
        draft.notices.append(
            "Replay goes as fast as KairosDB acknowledges, whatever the rate of the history: "
            f"settings are derived from its {n(draft.points_per_s)} points/s. For more at a time "
            "raise load.workers."
        )
    lengths = [step.duration_s for step in wanted.steps] if wanted.steps else [wanted.duration_s]
    asked, steps = sum(length or 0 for length in lengths), wanted.steps_resolved
    if wanted.points is None and asked * 1000 != timing.length_ms(steps):
        draft.notices.append(
            f"{n(asked)} s is not a whole number of periods: the load ends after "
            f"{n(wanted.ticks)} points of each sensor, {n(timing.length_ms(steps) / 1000)} s."
        )
