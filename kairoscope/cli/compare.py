"""Commands on several runs: compare."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from kairoscope import paths, run_folder
from kairoscope.errors import UserError


class _WithMany(click.Command):
    """Of `--with A B C`, all of A, B and C are values: not only the first, as click has it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it."""
        spread: list[str] = []
        of_with = False
        for argument in args:
            if argument.startswith("-"):
                of_with = argument == "--with"
                if not of_with:
                    spread.append(argument)
            elif of_with:
                spread += ["--with", argument]
            else:
                spread.append(argument)
        return super().parse_args(ctx, spread)


def run_path(name: str) -> Path:
    """A run folder, by its path or by its name among the runs."""
    given = Path(name)
    among = paths.runs_dir() / name
    return among.resolve() if not given.exists() and among.exists() else given.resolve()


def share(option: str, value: str) -> float:
    """A share from `5%` or `0.05`."""
    try:
        found = float(value[:-1]) / 100 if value.endswith("%") else float(value)
    except ValueError:
        found = -1.0
    if not 0 < found < 1:
        raise UserError(f"{option} {value}: not a share such as 5% or 0.05, above 0, below 100 %")
    return found


def _tolerance(context: click.Context, parameter: click.Parameter, value: str) -> float:
    return share("--tolerance", value)


def _factors(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    from kairoscope.compare.comparable import FACTORS

    known = [factor.name for factor in FACTORS]
    for name in given:
        if name not in known:
            raise UserError(f"--factor {name}: there is none. There are: {', '.join(known)}")
    return given


tolerance_option = click.option(
    "--tolerance",
    default="5%",
    show_default=True,
    callback=_tolerance,
    help="Within which two figures are the same",
)
factor_option = click.option(
    "--factor",
    "factors",
    multiple=True,
    callback=_factors,
    help="What differs on purpose: load, cluster, consistency, durability, freshness, engine, "
    "machine or warmth; as often as needed",
)


@click.command(cls=_WithMany)
@click.argument("runs", nargs=-1, metavar="RUN…")
@click.option("--with", "others", multiple=True, metavar="RUN…", help="The runs of the other side")
@tolerance_option
@factor_option
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    help="Folder of compare.html and compare.json  [default: one in results/compare/]",
)
def compare(
    runs: tuple[str, ...],
    others: tuple[str, ...],
    tolerance: float,
    factors: tuple[str, ...],
    into: Path | None,
) -> None:
    """Compare runs with others: exit 0 same or better, 1 worse, 2 undecided or not comparable."""
    from kairoscope.cli.main import console
    from kairoscope.compare import page, sides

    found = sides.of_folders(
        [run_path(name) for name in runs],
        [run_path(name) for name in others],
        tolerance=tolerance,
        on_purpose=factors,
    )
    folder = into or paths.results_dir() / "compare" / run_folder.stamp(time.time())
    try:
        html, _ = page.write(found, folder)
    except OSError as error:
        raise UserError(f"The comparison could not be written to {folder}: {error}") from error
    page.show(found, console)
    console.print(f"page: {html}")
    sys.exit(found.exit_status)


compare_commands = (compare,)
