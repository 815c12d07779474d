"""A trial is a run on a target: its plan, waiting until the servers are idle, what it came to."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment
from kairoscope.hosts import inventory
from kairoscope.plan import Plan
from kairoscope.plan.model import Setting
from kairoscope.run import run
from kairoscope.series.hopeless import Hopeless
from kairoscope.series.search import Interrupted, Outcome, Wanted
from kairoscope.stacks.stack import Stack
from kairoscope.verdict import ledger

Vary = Literal["sensors", "rate"]

HIGHEST: dict[Vary, float] = {"sensors": 10_000_000.0, "rate": 10.0}
"""What a search may be told to go up to: sensors, or points/s of each."""

QUEUE_WAIT_S = 1_800
"""For queues to be empty; a backlog of several trials' worth is stored in less."""
COMPACTION_WAIT_S = 300
_LOOK_EVERY_S = 5

_SERVERS = ("kairosdb.", "storage.", "cluster.", "security.", "queries.lag_s")


def scaled(
    experiment: Experiment, vary: Vary, load: float, duration_s: int, warmup_s: int
) -> Experiment:
    """The experiment at another load; all else as it is. UserError if it cannot be had."""
    data = experiment.model_dump(exclude_unset=True)
    data["load"] |= {vary: load, "duration_s": duration_s, "warmup_s": warmup_s}
    data["load"].pop("points", None)
    try:
        made = Experiment.model_validate(data)
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise UserError(
            f"{experiment.source.shown}: at {vary} {load:g} the experiment does not fit together: "
            f"{why}"
        ) from None
    made._source = experiment.source
    return made


def on_servers_of(plan: Plan, deployed: Plan) -> Plan:
    """A load's plan on servers that are deployed for another: their settings are what they are."""
    queries = plan.load["queries"]
    if queries:
        queries = queries | {"lag_s": deployed.load["queries"]["lag_s"]}

    def held(setting: Setting) -> Setting:
        there = setting.name.startswith(_SERVERS)
        return deployed.setting(setting.name) if there else setting

    return plan.model_copy(
        update={
            "kairosdb": deployed.kairosdb,
            "storage": deployed.storage,
            "security": deployed.security,
            "load": plan.load | {"queries": queries},
            "settings": tuple(held(setting) for setting in plan.settings),
        }
    )


@dataclass
class Trials:
    """Makes the trials of one search on a deployed target.

    Attributes:
        deployed: the plan of the upper end, which the servers have.
        planned: the plan of an experiment, on this target and stack.
        settle_s: from a load's start until what is measured begins.
        empty: whether the store is emptied before each trial.
        into: folder of the run folders.
    """

    experiment: Experiment
    vary: Vary
    deployed: Plan
    planned: Callable[[Experiment], Plan]
    stack: Stack
    settle_s: int
    empty: bool
    into: Path
    console: Console

    def plan(self, wanted: Wanted) -> Plan:
        """The plan of a trial."""
        load = round(wanted.load) if self.vary == "sensors" else wanted.load
        duration_s = self.settle_s + round(wanted.seconds)
        at = scaled(self.experiment, self.vary, load, duration_s, self.settle_s)
        return on_servers_of(self.planned(at), self.deployed)

    def __call__(self, wanted: Wanted) -> Outcome:
        """Make one. `Interrupted` if it was; UserError if the servers are not well, or not idle."""
        began = time.monotonic()
        plan = self.plan(wanted)
        self._until_idle(plan)
        judged = "queue" not in self.stack.not_judged(plan)
        hopeless = None if wanted.patient else Hopeless(plan, self.settle_s, queue=judged)
        cut = ""

        def until(folder: Path, now: Any) -> str | None:
            nonlocal cut
            cut = (hopeless(folder, now) if hopeless else None) or ""
            return cut or None

        ran = run.load(
            plan,
            self.stack,
            self.console,
            always_read_back=wanted.full,
            until=until,
            into=self.into,
        )
        if ran.interrupted:
            raise Interrupted
        return replace(outcome(ran.folder, cut), took_s=time.monotonic() - began)

    def _until_idle(self, plan: Plan) -> None:
        """Wait for what earlier trials left: it would be counted for the next one."""
        hosts = inventory.load(plan.target)
        told = "drain" not in self.stack.not_judged(plan)
        with (
            self.stack.connect(plan, hosts) as session,
            live.stage(self.console, "until the servers are idle") as shown,
        ):
            began = time.monotonic()
            while True:
                # Of servers where nothing waits, by what their stack says, nobody is asked.
                waiting = total(session.waiting_now()) if told else 0
                compacting = False
                if waiting == 0 and self.empty:
                    session.empty()
                    return
                if waiting == 0:
                    compacting = session.compacts()
                shown(waiting or 0)
                waited = time.monotonic() - began
                if waiting == 0 and (not compacting or waited > COMPACTION_WAIT_S):
                    return
                if waited > QUEUE_WAIT_S:
                    left = "a node does not tell" if waiting is None else f"{waiting:,} points wait"
                    raise UserError(
                        f"The servers are not idle after {QUEUE_WAIT_S / 60:.0f} min: {left}. "
                        "Look at them (make status); the same command goes on."
                    )
                time.sleep(_LOOK_EVERY_S)


def total(nodes: list[dict[str, Any]]) -> int | None:
    """Points that wait on all nodes; None if one does not tell."""
    depths = [node["waiting"] for node in nodes]
    return None if None in depths else sum(depths)


def outcome(folder: Path, cut: str) -> Outcome:
    """What a run folder says of its load. `cut`: why it was ended early, or ""."""
    verdict = run_folder.read_object(folder / run_folder.VERDICT)
    path = folder / run_folder.LEDGER
    book = run_folder.read_object(path) if path.exists() else {}
    lost = ledger.lost(book)
    word, good, why = _said(verdict)
    if lost:
        good, why = False, _part(verdict, "readback")
    if cut and good is False:
        why = f"{cut}; {why}"
    elif cut:
        # Hopeless it was not: only a load that is seen to its end says so.
        good, why = None, f"ended early, as {cut}, but did not fail"
        word = "incomplete" if word == "pass" else word
    read = book.get("missing") is not None
    return Outcome(folder.name, word, good, why, lost, read, cut=bool(cut))


def _said(verdict: dict[str, Any]) -> tuple[str, bool | None, str]:
    """The verdict's word for the search, whether the load was sustained (None: it does not say),
    and why."""
    word, reasons = str(verdict["verdict"]), [str(reason) for reason in verdict["reasons"]]
    if despite := verdict.get("despite"):
        return "fail, loader late", False, _part(verdict, despite[0])
    if invalid := verdict["invalid"]:
        return "invalid", None, str(invalid[0])
    if word in ("pass", "fail"):
        return word, word == "pass", reasons[0] if reasons else ""
    by = {outcome: _with(verdict, outcome) for outcome in ("fail", "unknown", "undecided")}
    of_parts = {_part(verdict, name) for names in by.values() for name in names}
    others = [reason for reason in reasons if reason not in of_parts]
    if by["fail"] and by["unknown"] == ["readback"] and _not_read_back(others):
        return "fail", False, _part(verdict, by["fail"][0])
    if by["undecided"] and not by["unknown"] and not others:
        parts = [verdict["parts"][name] for name in by["undecided"]]
        below = all(p["figure"] is not None and p["figure"] <= p["limit"] for p in parts)
        return "undecided", below, _part(verdict, by["undecided"][0])
    return "incomplete", None, reasons[0]


def _with(verdict: dict[str, Any], outcome: str) -> list[str]:
    return [name for name, part in verdict["parts"].items() if part["outcome"] == outcome]


def _part(verdict: dict[str, Any], name: str) -> str:
    return f"{name}: {verdict['parts'][name]['text']}"


def _not_read_back(reasons: list[str]) -> bool:
    """Whether all that is missing is what was not to be looked for."""
    return len(reasons) == 1 and reasons[0].startswith(run.NOT_READ_BACK)
