"""From an experiment to its plan, section by section."""

import time
from typing import Any

from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, timing
from kairoscope.plan import faults, load
from kairoscope.plan.amounts import n
from kairoscope.plan.draft import Draft
from kairoscope.plan.interfaces import Stack, Target
from kairoscope.plan.model import Plan
from loaders.schedule.protocols import SILENT, TRAITS


def make(
    experiment: Experiment,
    target: Target,
    stack: Stack,
    now: float | None = None,
    deployed_engine: str | None = None,
    levers: faults.Levers | None = None,
) -> Plan:
    """Resolve an experiment for a target, for a run now (epoch s, by default this machine's).

    `deployed_engine`: what the target stores in already, which it keeps unless told otherwise;
    `levers`: of all targets, to say which has one that this target lacks.

    Raises UserError for settings that contradict each other once the open ones are derived; all
    contradictions at once, one per line.
    """
    draft = Draft(experiment)
    draft.engine = experiment.storage.engine or deployed_engine or stack.engine(target)
    draft.shared = target.shared
    draft.taker = stack.taker
    draft.unused = frozenset(stack.unused)
    _protocol(draft, stack)
    target.shape(draft)
    draft.queue_disk = target.queue_disk(draft)
    _cluster(draft, target, stack)
    servers = stack.servers(draft)
    for_load = load.settings(draft, servers.held_s)
    protocol = experiment.load.protocol
    for_load["path"] = stack.write_paths.get(protocol, "")
    for_load["partly"] = stack.partly
    for_load["protocol_title"] = TRAITS[protocol].title
    for_load["acknowledges"] = TRAITS[protocol].acknowledges
    load.totals(draft)
    for_storage = stack.store(draft, servers, time.time() if now is None else now)
    for_security = _security(draft, target)
    for_target = target.settings(draft, for_load, secured=for_security["enabled"])
    faults.record(draft, target, stack, levers or {}, secured=for_security["enabled"])
    for section in ("limits", "capture", "assume"):
        draft.given(section)
    stack.notices(draft, target, servers)
    _load_notices(draft)
    if draft.problems:
        raise UserError("\n".join(draft.problems))
    return Plan(
        experiment_file=experiment.source.shown,
        target=target.name,
        stack=stack.name,
        title=stack.title,
        taker=stack.taker,
        shared=target.shared,
        roles=dict(stack.roles),
        engine=draft.engine,
        # A fresh copy: line numbers belong to the file, not to the plan.
        experiment=Experiment.model_validate(experiment.model_dump()),
        settings=tuple(draft.settings),
        kairosdb=servers.settings,
        storage=for_storage,
        load=for_load,
        security=for_security,
        terraform=for_target,
        totals=draft.totals,
        notices=tuple(draft.notices),
    )


def _cluster(draft: Draft, target: Target, stack: Stack) -> None:
    """The shape, and the shards of a storage node: of its instance type, where it has one."""
    absent: dict[str, Any] = {"jvm": "quick" if draft.shared else "full"}
    of_type = target.shards(draft)
    if of_type is None:
        absent["shards"] = stack.shards(draft) or None
        draft.shards = draft.given("cluster", absent=absent).get("shards", 0)
    else:
        draft.given("cluster", skip=("shards",), absent=absent)
        draft.shards = of_type


def _protocol(draft: Draft, stack: Stack) -> None:
    """Refuse a protocol that the stack does not speak."""
    wanted = draft.experiment.load.protocol
    if wanted not in stack.protocols:
        known = ", ".join(stack.protocols)
        draft.refuse("load.protocol", f"{stack.name} does not speak {wanted}; it speaks {known}")


def _security(draft: Draft, target: Target) -> dict[str, bool]:
    """Whether TLS and passwords are on. Refuses what would not do what it says."""
    wanted = draft.experiment.security
    possible = target.secured and "security" not in draft.unused
    enabled = possible if wanted.enabled is None else wanted.enabled
    found = draft.given("security", absent={"enabled": enabled, "rest_auth": enabled})
    if found["rest_auth"] and not enabled:
        draft.refuse(
            "security.rest_auth",
            "a password would travel in clear text without security.enabled: set it true as well",
        )
    protocol = draft.experiment.load.protocol
    # Who has TLS speaks no other of those.
    if enabled and protocol in SILENT:
        draft.notices.append(
            f"{protocol} has neither TLS nor a password: KairosDB's telnet port is open to the "
            "loader hosts for this experiment. REST has both."
        )
    return found


def _load_notices(draft: Draft) -> None:
    wanted = draft.experiment.load
    if draft.nodes == 1:
        draft.notices.append(
            f"One {draft.taker}: while it is down no point is taken, and loaders retry for "
            f"{n(wanted.retry_for_s)} s (load.retry_for_s)."
        )
    elif wanted.retry_for_s <= wanted.failover_after_s:
        draft.notices.append(
            f"Points are given up after {n(wanted.retry_for_s)} s (load.retry_for_s), before the "
            f"sensors of a {draft.taker} that is down go to the others after "
            f"{n(wanted.failover_after_s)} s (load.failover_after_s): those of its first seconds "
            "would not arrive."
        )
    if wanted.protocol in SILENT:
        draft.notices.append(
            f"{wanted.protocol} acknowledges nothing: the ledger rests on what is read back alone, "
            "and a latency ends when the bytes are handed to the socket, whatever becomes of them."
        )
    if wanted.replay:
        draft.notices.append(
            "Replay goes as fast as points are acknowledged, whatever the rate of the history: "
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
