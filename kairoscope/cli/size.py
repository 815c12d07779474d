"""Command of a sizing: what a number of sensors takes, and costs."""

from __future__ import annotations

import math
import re
from pathlib import Path

import click

from kairoscope.cli.options import console
from kairoscope.errors import UserError

_UNITS_S = {"h": 3600, "d": 86_400, "y": 365 * 86_400}


def _retention(context: click.Context, parameter: click.Parameter, value: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([hdy])", value.strip())
    if not found:
        raise UserError(f"--retention {value}: hours, days or years, such as 12h, 90d or 2y")
    return float(found[1]) * _UNITS_S[found[2]]


def _number(context: click.Context, parameter: click.Parameter, value: str) -> float:
    try:
        found = float(value.replace(",", ""))
    except ValueError:
        raise UserError(f"{parameter.opts[0]} {value}: a number") from None
    if not math.isfinite(found):
        raise UserError(f"{parameter.opts[0]} {value}: a number")
    return found


@click.command()
@click.option("--sensors", required=True, callback=_number, help="How many, up to 100 million")
@click.option("--rate", default="1", show_default=True, callback=_number, help="Points/s of each")
@click.option(
    "--retention",
    "retention_s",
    default="30d",
    show_default=True,
    callback=_retention,
    help="How long points are kept: 12h, 90d, 2y",
)
@click.option("--replication", type=int, default=3, show_default=True, help="Copies of a point")
@click.option("--engine", default="scylla", show_default=True, help="scylla or cassandra")
@click.option("--for", "where", default="aws", show_default=True, help="Whose machines")
@click.option(
    "--zones", type=click.IntRange(1, 3), default=3, show_default=True, help="Of the storage nodes"
)
@click.option(
    "--run", "folder", type=click.Path(path_type=Path), help="Compute from this run's measurements"
)
def size(
    sensors: float,
    rate: float,
    retention_s: float,
    replication: int,
    engine: str,
    where: str,
    zones: int,
    folder: Path | None,
) -> None:
    """Say which nodes a number of sensors takes, and what they cost, with the arithmetic."""
    from kairoscope.cli.compare import run_path
    from kairoscope.sizing import figures, show
    from kairoscope.sizing.size import Need
    from kairoscope.sizing.size import size as sized
    from kairoscope.targets.aws.instance_types import table

    if where != "aws":
        raise UserError(f"--for {where}: only aws has machines with a price here")
    prices, types = table()
    known = figures.of_run(run_path(str(folder))) if folder else figures.published(engine)
    need = Need(round(sensors), rate, retention_s, replication)
    show.show(sized(need, known, types, prices, zones), console)
