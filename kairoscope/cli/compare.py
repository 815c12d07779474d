"""Commands on several runs: compare, ab, trend."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from kairoscope import paths, run_folder
from kairoscope.cli.options import (
    check_thrown_away,
    console,
    empty_option,
    enter,
    host_arguments,
    host_options,
    leave,
    make_plan,
    scale_options,
    server_option,
)
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
    leave(found.exit_status, f"the comparison's word is {found.word}")


@click.command()
@click.argument("first", metavar="EXP1")
@click.argument("second", metavar="EXP2")
@click.option(
    "--rounds",
    type=click.IntRange(min=1, max=50),
    default=6,
    show_default=True,
    help="Pairs that count; one more is made before, and thrown away",
)
@tolerance_option
@factor_option
@empty_option
@click.option(
    "--resume", metavar="ID", help="Go on with an interrupted series of these experiments"
)
@server_option
@host_options
@scale_options
def ab(
    first: str,
    second: str,
    rounds: int,
    tolerance: float,
    factors: tuple[str, ...],
    empty: bool,
    resume: str | None,
    target: str,
    account: Path,
    backend: Path | None,
    inventory: Path | None,
    server: Path | None,
    **scale: str | None,
) -> None:
    """Run EXP1 and EXP2 in turn, A B B A …, and compare: exit as compare does."""
    from kairoscope.cli import known
    from kairoscope.compare import page
    from kairoscope.hosts.inventory import load
    from kairoscope.series import ab as series_of
    from kairoscope.series.driver import Verbs, Wanted

    if empty:
        check_thrown_away(target)
    options = tuple(
        text
        for name, value in sorted(scale.items())
        if value is not None
        for text in (f"--{name.removesuffix('_s')}", value)
    )
    wanted = series_of.Series(
        rounds=rounds,
        target=target,
        first=Wanted(_experiment(first), options),
        second=Wanted(_experiment(second), options),
        factors=list(factors),
        tolerance=tolerance,
        empty=empty,
    )
    if resume:
        series, folder = series_of.resumed(wanted, resume)
    else:
        names = f"{Path(first).stem}-{Path(second).stem}"
        folder = paths.series_dir() / f"{run_folder.stamp(time.time())}-{names}"
        series = wanted
        series_of.start(series, folder, lambda side: make_plan(side.experiment, target, **scale))
    console.print(f"series: {folder}")

    def empty_store(side: Wanted) -> None:
        enter(target)
        made = make_plan(side.experiment, target, **scale)
        with known.stack(made.stack).connect(made, load(target)) as session:
            session.empty()

    def emptied(side: Wanted) -> None:
        # In a thread of its own: the next deploy may have to fetch what no way leads to from where
        # the target's hosts can be reached.
        with ThreadPoolExecutor(1) as there:
            there.submit(empty_store, side).result()

    try:
        hosts = host_arguments(account, backend, inventory, server)
        verbs = Verbs(target, console, emptied if empty else None, hosts)
        found = series_of.run(series, folder, verbs, console)
    except KeyboardInterrupt:
        raise UserError(
            f"interrupted after {len(series.done)} runs; the same command goes on from there with "
            f"--resume {folder.name}"
        ) from None
    page.show(found, console)
    console.print(f"page: {folder / page.HTML}")
    leave(found.exit_status, f"the comparison's word is {found.word}")


def _experiment(name: str) -> str:
    """An experiment's file as seen from anywhere, or the name of one of ours."""
    return str(Path(name).absolute()) if Path(name).is_file() else name


@click.command()
@click.argument("experiment", default="laptop")
@click.option("--metric", help="One figure only, such as p99_ms or storage_us  [default: all]")
def trend(experiment: str, metric: str | None) -> None:
    """Show where a figure of EXPERIMENT changed for good, over all its runs (history.jsonl)."""
    from kairoscope.compare import history, runs
    from kairoscope.compare import trend as trends

    metrics = (runs.metric(metric),) if metric else runs.METRICS
    known = trends.of(Path(experiment).stem, run_folder.records(paths.results_dir() / history.NAME))
    trends.show(known, trends.trends(known, metrics), console)


compare_commands = (compare, ab, trend)
