"""The targets and stacks that there are: a line registers one."""

from typing import Any

from kairoscope import plan as plans
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment
from kairoscope.plan import Plan
from kairoscope.stacks.gnocchi.stack import Gnocchi
from kairoscope.stacks.graphite.stack import Graphite
from kairoscope.stacks.influxdb.stack import InfluxDB
from kairoscope.stacks.kairosdb.stack import KairosDB
from kairoscope.stacks.questdb.stack import QuestDB
from kairoscope.stacks.stack import Stack
from kairoscope.stacks.victoriametrics.stack import VictoriaMetrics
from kairoscope.targets.aws.target import Aws
from kairoscope.targets.lab.target import LabTarget
from kairoscope.targets.local import Local
from kairoscope.targets.own import Own
from kairoscope.targets.target import Target

TARGETS: tuple[Target, ...] = (Local(), LabTarget(), Aws(), Own())
STACKS: tuple[Stack, ...] = (
    *(KairosDB(), Graphite(), Gnocchi(), InfluxDB(), QuestDB(), VictoriaMetrics()),
)

BAKE_OFF = (
    "laptop",
    "laptop-stock",
    "laptop-cql",
    "graphite-1",
    "gnocchi",
    "influxdb",
    "questdb",
    "victoriametrics",
)
"""Experiments that a bake-off has in turn, ours first."""


def target(name: str) -> Target:
    """The target of that name. UserError if there is none."""
    for known in TARGETS:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in TARGETS)
    raise UserError(f"TARGET={name}: there is no such target. There are: {names}")


def stack(name: str) -> Stack:
    """The stack of that name. UserError if there is none."""
    for known in STACKS:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in STACKS)
    raise UserError(f"stack {name}: there is no such stack. There are: {names}")


def plan(experiment: Experiment, target_name: str = "local", **more: Any) -> Plan:
    """The plan of an experiment on a target; see `kairoscope.plan.make`."""
    levers = {each.name: each.levers for each in TARGETS}
    where, what = target(target_name), stack(experiment.stack)
    return plans.make(experiment, where, what, levers=levers, **more)
