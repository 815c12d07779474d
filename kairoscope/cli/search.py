"""Command of a search: what is sustained at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kairoscope.cli.compare import share
from kairoscope.cli.options import (
    check_thrown_away,
    console,
    deployment,
    empty_option,
    host_options,
    leave,
    server_option,
    target_option,
)
from kairoscope.errors import UserError

_UNFOUND = {
    1: "points were lost, nothing was sustained, or what was found did not hold",
    2: "how much at most is not known: everything tried was sustained, or could not be judged",
}
"""Exit statuses of `kairoscope.series.record`."""


def _vary(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value not in ("sensors", "rate"):
        raise UserError(f"--vary {value}: sensors or rate")
    return value


def _precision(context: click.Context, parameter: click.Parameter, value: str) -> float:
    return share("--precision", value)


def _number(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return float(value.replace(",", ""))
    except ValueError:
        raise UserError(f"{parameter.opts[0]} {value}: a number, such as 2000") from None


@click.command()
@click.option("--vary", default="sensors", callback=_vary, help="sensors (default) or rate")
@click.option("--from", "start", callback=_number, help="Begin here  [default: half of EXPERIMENT]")
@click.option(
    "--to",
    "most",
    callback=_number,
    help="Upper end, which is deployed for  [default: four times EXPERIMENT]",
)
@click.option(
    "--precision",
    default="5%",
    show_default=True,
    callback=_precision,
    help="Width between the bounds, of the upper one",
)
@click.option(
    "--trial",
    "trial_s",
    callback=_number,
    help="Seconds that a trial is measured  [default: 60, three queue windows at least]",
)
@click.option("--confirm", is_flag=True, help="End with a long run at the lower bound")
@click.option(
    "--confirm-s", type=click.IntRange(min=10), default=600, show_default=True, help="Its seconds"
)
@empty_option
@click.option("--anew", is_flag=True, help="Begin again, where an interrupted search would go on")
@click.option(
    "--or-anew",
    is_flag=True,
    help="Begin again, where an interrupted search is of another commit or machine",
)
@click.option("--engine", help="ENGINE= what stores, cassandra or scylla")
@server_option
@host_options
@target_option
@click.argument("experiment", default="laptop")
def search(
    *,
    experiment: str,
    target: str,
    engine: str | None,
    account: Path,
    backend: Path | None,
    inventory: Path | None,
    server: Path | None,
    confirm: bool,
    confirm_s: int,
    **asked: Any,
) -> None:
    """Find what EXPERIMENT sustains at most: exit 0 found, 1 lost or nothing, 2 only "at least".

    Deploys for the upper end once, warms up once, then tries loads; all runs and search.html are
    in a folder of results/series/. Interrupted, the same command goes on.
    """
    from kairoscope import experiment as experiments
    from kairoscope.cli import known
    from kairoscope.hosts import deployed
    from kairoscope.series import command

    if asked["empty"]:
        check_thrown_away(target)
    wanted = experiments.load(experiment, experiments.Overrides(engine=engine))
    stored_in = deployed.deployed_engine(target, wanted.stack)
    status = command.search(
        wanted,
        command.Asked(confirm_s=confirm_s if confirm else None, **asked),
        lambda at: known.plan(at, target, deployed_engine=stored_in),
        deployment(target, wanted.stack, console, account, backend, inventory, server),
    )
    leave(status, _UNFOUND.get(status, ""))
