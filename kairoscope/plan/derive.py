"""From an experiment to its plan, section by section."""

from typing import Any

from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, replicas_needed
from kairoscope.plan import kairosdb, load, storage
from kairoscope.plan.draft import Draft
from kairoscope.plan.model import Plan
from kairoscope.plan.numbers import n

ENGINES = {"local": "cassandra"}
"""Targets that can be planned for, and the storage engine of each: the target decides it."""


def make(experiment: Experiment, target: str = "local") -> Plan:
    """Resolve an experiment for a target.

    Raises UserError for an unknown target and for settings that contradict each other once the
    open ones are derived; all contradictions at once, one per line.
    """
    if target not in ENGINES:
        raise UserError(f"target {target} is not available yet; available: {', '.join(ENGINES)}")
    draft = Draft(experiment)
    draft.given("cluster")
    for_load = load.settings(draft)
    load.totals(draft)
    for_kairosdb = kairosdb.settings(draft)
    for_storage = storage.settings(draft, for_kairosdb["batch_size"])
    storage.totals(draft, for_kairosdb["checkpoint_s"])
    for section in ("limits", "capture", "assume"):
        draft.given(section)
    _notices(draft, target, for_kairosdb)
    if draft.problems:
        raise UserError("\n".join(draft.problems))
    return Plan(
        experiment_file=experiment.source.shown,
        target=target,
        engine=ENGINES[target],
        # A fresh copy: line numbers belong to the file, not to the plan.
        experiment=Experiment.model_validate(experiment.model_dump()),
        settings=tuple(draft.settings),
        kairosdb=for_kairosdb,
        storage=for_storage,
        load=for_load,
        totals=draft.totals,
        notices=tuple(draft.notices),
    )


def _notices(draft: Draft, target: str, kairosdb: dict[str, Any]) -> None:
    """What to know before starting."""
    wanted, copies = draft.experiment.load, draft.experiment.cluster.replication_factor
    if ENGINES[target] == "cassandra":
        draft.notices.append(
            f"Target {target} stores in Apache Cassandra, not ScyllaDB: it has no shards "
            "(connections per host only bound parallelism), one Java heap per node, and its "
            "proxyhistograms forget within minutes (half-life 60 s), so they are captured "
            "throughout the run. Its figures do not predict ScyllaDB's."
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
    if draft.nodes == 1:
        draft.notices.append(
            "One KairosDB node: while it is down no point is taken, and loaders retry for "
            f"{n(wanted.retry_for_s)} s (load.retry_for_s)."
        )
    if wanted.duration_s is not None and wanted.duration_s * 1000 % wanted.period_ms:
        draft.notices.append(
            f"{n(wanted.duration_s)} s is not a whole number of periods: the load ends after "
            f"{n(wanted.ticks)} points of each sensor, {n(wanted.ticks * wanted.period_ms / 1000)}"
            " s."
        )
