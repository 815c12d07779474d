"""The faults of an experiment, held against the hosts and the levers that there are."""

from collections.abc import Mapping, Sequence

from kairoscope.experiment import Experiment
from kairoscope.experiment.faults import ACTIONS, GROUPS, hosts_of
from kairoscope.plan.amounts import n
from kairoscope.plan.draft import Draft
from kairoscope.plan.interfaces import Stack, Target

Levers = Mapping[str, Sequence[str]]
"""Actions that each target has a lever for, by the target's name."""


def record(draft: Draft, target: Target, stack: Stack, levers: Levers, *, secured: bool) -> None:
    """Record each fault; refuse one on a host that there is not, or that nothing here can do."""
    names = hosts_there(draft.experiment, stack.roles)
    for number, fault in enumerate(draft.experiment.faults, 1):
        where = f"faults[{number}].{fault.action}"
        hosts = hosts_of(fault.on, names)
        if not hosts:
            groups = [each for each in GROUPS if hosts_of(each, names)]
            known = ", ".join([*names, *groups])
            draft.refuse(where, f"there is no host {fault.on}. There are: {known}")
        if fault.action not in target.levers:
            having = [name for name, has in levers.items() if fault.action in has]
            draft.refuse(
                where,
                f"target {target.name} has no lever for {fault.action}; it has "
                f"{', '.join(target.levers) or 'none'}. {_having(fault.action, having)}",
            )
        elif why := target.lacks(fault.action, fault.on, draft.engine, secured=secured):
            draft.refuse(where, why)
        lasting = f", undone {n(fault.for_s)} s later" if fault.for_ is not None else ""
        of = f" ({', '.join(hosts)})" if len(hosts) > 1 else ""
        draft.add(
            f"faults.{number}",
            fault.text,
            "",
            f"{n(fault.at_s)} s after the load's start{lasting}{of}",
            f"{fault.action}: {ACTIONS[fault.action]}.",
            origin="experiment",
        )


def hosts_there(experiment: Experiment, roles: Mapping[str, str]) -> list[str]:
    """Names of the hosts, as every target numbers them; `roles` as the stack or the plan has it."""
    cluster = experiment.cluster
    counts = {
        roles.get("storage"): cluster.storage_nodes,
        roles.get("kairosdb"): cluster.kairosdb_nodes,
        "loader": cluster.loader_hosts,
    }
    return [f"{name}-{i + 1}" for name, count in counts.items() if name for i in range(count)]


def _having(action: str, targets: Sequence[str]) -> str:
    if not targets:
        return "No target has it"
    return f"Targets that have {action}: {', '.join(targets)}"
