"""Command of a bake-off: all systems in turn, one table."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kairoscope import paths, ready
from kairoscope.cli.options import console, leave, target_option
from kairoscope.errors import UserError

if TYPE_CHECKING:
    from kairoscope.series.bakeoff import Asked, BakeOff, Entrant

SENSORS, DURATION_S, MINUTES = 5_000, 90, 60
"""By default: what all systems sustain on two cores; the least that tells of each whether its queue
grows (`kairoscope.series.bakeoff.refuse_short`); how long somebody waits for a table."""


@click.command()
@click.option("--only", help="ONLY= experiments to compare, separated by commas  [default: all]")
@click.option("--sensors", type=click.IntRange(min=2), default=SENSORS, show_default=True)
@click.option(
    "--duration",
    "duration_s",
    type=click.IntRange(min=30, max=3600),
    default=DURATION_S,
    show_default=True,
    help="Seconds of each system's load, a third of them warm-up",
)
@click.option(
    "--minutes",
    type=click.IntRange(min=1),
    default=MINUTES,
    show_default=True,
    help="MINUTES= that this call may take: no step is begun for which they are not enough; the "
    "same command goes on",
)
@click.option("--quick", is_flag=True, help="QUICK=1 no search for what each sustains at most")
@click.option("--anew", is_flag=True, help="Begin again, where an interrupted one would go on")
@target_option
def bakeoff(
    *,
    only: str | None,
    sensors: int,
    duration_s: int,
    minutes: int,
    quick: bool,
    anew: bool,
    target: str,
) -> None:
    """Deploy, load, kill and destroy each system in turn, on the same sensors; write one table.

    Runs, a document of each system, report.html and report.md are in a folder of results/bakeoff/.
    Interrupted, or when its MINUTES are up, the same command goes on: exit 0 whole, 1 a system
    failed, 2 not whole yet. For target local.
    """
    from kairoscope.hosts import operation
    from kairoscope.series import bakeoff as bakeoffs
    from kairoscope.series import bakeoff_page
    from kairoscope.series.bakeoff_making import Making
    from kairoscope.series.driver import Verbs

    if target != "local":
        raise UserError(f"TARGET={target}: a bake-off kills servers, and is for target local")
    asked = bakeoffs.Asked(sensors, duration_s, quick)
    entrants, limits, ours = _entered(only, asked)
    into = paths.results_dir() / "bakeoff"
    if problem := ready.home_problem(paths.home()) or ready.folder_problem(
        into, "the bake-offs' folder", "Make it writable."
    ):
        raise UserError(problem)
    into.mkdir(parents=True, exist_ok=True)
    refusal = "Another bake-off runs here: each would destroy what the other measures."
    with operation.hold(into / "lock", refusal):
        check = functools.partial(_check_free, target)
        found = bakeoffs.BakeOff.open(into, target, entrants, asked, limits, anew=anew, check=check)
        console.print(f"bake-off: {found.folder}")

        def write() -> Path:
            return bakeoff_page.write(found, entrants, ours)

        try:
            verbs = Verbs(target, console)
            left = Making(found, asked, verbs, console, write, 60 * minutes)(entrants)
        finally:
            console.print(f"page: {write()}")
    if left:
        console.print(f"MINUTES={minutes} are up, {left} steps are left: the same command goes on")
    failed = any(found.system(entrant)["error"] for entrant in entrants)
    leave(1 if failed else 2 if left else 0, "a system failed" if failed else "it is not whole yet")


def _check_free(target: str, found: BakeOff | None) -> None:
    """UserError if the target is deployed with anything but what a bake-off that goes on left
    there: it would be destroyed. What is not there any more was destroyed by hand, which is
    written down."""
    from kairoscope.hosts import deployed

    if not deployed.plan_file(target).exists():
        if found:
            found.gone()
        return
    there = deployed.deployed_plan(target).experiment_file
    if not (found and found.owns(there)):
        raise UserError(
            f"Target {target} is deployed with {there}, which a bake-off would destroy. First: "
            "make destroy"
        )


def _entered(only: str | None, asked: Asked) -> tuple[list[Entrant], dict[str, Any], str]:
    """The systems in their order, the limits that all are judged by, and which system is ours.

    UserError if there is none of a name, one cannot be planned under the load, or that is too
    short for one.
    """
    from kairoscope import experiment as experiments
    from kairoscope.cli import known
    from kairoscope.series import bakeoff as bakeoffs

    ours = known.BAKE_OFF[0]
    names = [name.strip() for name in only.split(",")] if only else list(known.BAKE_OFF)
    if odd := [name for name in names if name not in known.BAKE_OFF]:
        there = ", ".join(known.BAKE_OFF)
        raise UserError(f"ONLY={only}: {', '.join(odd)} is not compared. There are: {there}")
    limits = experiments.load(ours).limits.model_dump(mode="json", exclude_none=True)
    entrants, windows_s, others = [], dict[str, float](), []
    for name in dict.fromkeys(names):
        stack = known.stack(experiments.load(name).stack)
        told = (stack.title, stack.acknowledgement, stack.durable)
        follows = "queries" not in stack.unused
        entrants.append(bakeoffs.Entrant(name, *told, follows, stack.fair))
    with tempfile.TemporaryDirectory() as made:
        for entrant in entrants:
            for name, text in bakeoffs.experiments(entrant, asked, limits).items():
                file = Path(made) / name
                file.write_text(text)
                made_of = known.plan(experiments.load(str(file)))
            if "queue" in known.stack(made_of.stack).not_judged(made_of):
                others.append(entrant.name)
            else:
                windows_s[entrant.name] = made_of.held_s
    bakeoffs.refuse_short(asked, windows_s, others)
    return entrants, limits, ours
