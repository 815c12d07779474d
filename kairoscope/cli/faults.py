"""Command of the matrix of faults."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kairoscope import paths, run_folder
from kairoscope.cli.options import (
    console,
    host_arguments,
    host_options,
    leave,
    scale_options,
    server_option,
)
from kairoscope.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from kairoscope.experiment import Experiment
    from kairoscope.series.fault_runs import Record


@click.command()
@click.option(
    "--only",
    multiple=True,
    metavar="WHAT",
    help="Of the matrix an action (kill), a host (storage-2) or both ('kill storage-2') alone; "
    "may be given several times",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=1, max=1440),
    help="In place of the matrix one run of so long, with faults at random one after the other",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Of --minutes: the same seed, the same faults"
)
@click.option("--resume", metavar="ID", help="Go on with an interrupted one: its folder's name")
@server_option
@host_options
@scale_options
@click.argument("experiment", default="faults")
def faults(
    *,
    experiment: str,
    target: str,
    only: tuple[str, ...],
    minutes: float | None,
    seed: int | None,
    resume: str | None,
    account: Path,
    backend: Path | None,
    inventory: Path | None,
    server: Path | None,
    **scale: str | None,
) -> None:
    """One fault after the other under EXPERIMENT's load on TARGET, each in a run of its own.

    Deploys, then goes through the matrix of what may happen to which hosts; runs, faults.html and
    faults.md are in a folder of results/faults/. Exit 0 all held, 1 a point was lost, 2 else.
    """
    from kairoscope import experiment as experiments
    from kairoscope.series import fault_page, fault_runs
    from kairoscope.series.driver import Verbs

    if seed is not None and minutes is None:
        raise UserError("--seed is of --minutes, a sequence at random")
    if minutes is not None and only:
        raise UserError("--only is of the matrix, not of --minutes, a sequence at random")
    wanted = experiments.load(experiment, experiments.Overrides(**scale))
    scaled = {name: value for name, value in scale.items() if value}
    asked: dict[str, Any] = {"only": list(only), "minutes": minutes, **scaled}
    if resume:
        folder = paths.results_dir() / "faults" / resume
        if not (folder / fault_runs.FILE).exists():
            raise UserError(f"--resume {resume}: there is no such folder in {folder.parent}")
        record = fault_runs.Record.read(folder)
        if (record.experiment, record.target) != (wanted.name, target):
            raise UserError(
                f"--resume {resume}: that one is of {record.experiment} on {record.target}"
            )
        # What is not said again is as it was; of another --only the cells are not there.
        said = {n: value for n, value in {**asked, "seed": seed}.items() if value not in (None, [])}
        if other := {name for name in said if record.asked.get(name) != said[name]}:
            raise UserError(
                f"--resume {resume}: that one has other {', '.join(sorted(other))}: "
                f"{record.asked}. Leave them out to go on, or --resume to begin another"
            )
    else:
        if minutes is not None:
            asked["seed"] = int(time.time()) if seed is None else seed
        stamp = run_folder.stamp(time.time())
        folder = paths.results_dir() / "faults" / f"{stamp}-{wanted.name}-{target}"
        record = _started(folder, wanted, target, asked)
    console.print(f"faults: {folder}", soft_wrap=True)
    try:
        verbs = Verbs(target, console, hosts=host_arguments(account, backend, inventory, server))
        fault_runs.run(record, folder, verbs, console, fault_page.write)
    except KeyboardInterrupt:
        raise UserError(
            f"interrupted after {len(record.done)} runs; the same command goes on from there with "
            f"--resume {folder.name}"
        ) from None
    fault_page.show(record, console)
    console.print(f"page: {folder / fault_page.HTML}", soft_wrap=True)
    lost = record.exit_status == 1
    leave(
        record.exit_status,
        "a point was lost, or a run passed that should not" if lost else "not all faults were held",
    )


def _started(folder: Path, wanted: Experiment, target: str, asked: dict[str, Any]) -> Record:
    """The record of a new one, with its folder. UserError for what cannot be had."""
    from kairoscope.cli import known
    from kairoscope.plan.faults import hosts_there
    from kairoscope.series import fault_runs
    from kairoscope.series import faults as series_of

    if wanted.faults:
        raise UserError(
            f"{wanted.source.where('faults')}: faults: the matrix gives each run its own; give an "
            "experiment without any, or run this one by itself: make load"
        )
    made = known.plan(wanted, target)
    where = known.target(target)
    levers, names = where.levers, hosts_there(wanted, made.roles)
    if not levers:
        having = ", ".join(each.name for each in known.TARGETS if each.levers)
        raise UserError(f"Target {target} has no levers; these targets have some: {having}")

    def lacks(action: str, on: str) -> str:
        return where.lacks(action, on, made.engine, secured=made.security["enabled"])

    sequence = None
    if asked["minutes"] is not None:
        cells = [series_of.Cell(series_of.RANDOM, f"seed {asked['seed']}")]
        sequence = series_of.sequence(wanted, levers, names, lacks, asked["minutes"], asked["seed"])
        if not sequence["faults"]:
            raise UserError(
                f"--minutes {asked['minutes']:g}: too short for a fault, with what comes before it "
                "and after it; take 3 at least"
            )
    else:
        every = series_of.matrix(wanted, levers, names, lacks)
        cells = series_of.chosen(every, asked["only"])
        if not cells:
            there = ", ".join(dict.fromkeys(cell.name for cell in every))
            raise UserError(f"--only: the matrix has none of these. It has: {there}")
        length = wanted.load.ticks * wanted.load.period_ms / 1000
        if length < (least := series_of.least_s(wanted)):
            raise UserError(
                f"{wanted.source.where('load.duration_s')}: load.duration_s: {length:g} s are too "
                f"short for a fault and for what comes after it: at least {least} s"
            )
    record = fault_runs.Record(wanted.name, target, asked, cells)
    fault_runs.start(record, folder, wanted, sequence)
    return record
