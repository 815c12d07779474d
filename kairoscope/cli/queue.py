"""`kairoscope queue …`: for an operator with a full queue, or with points that no store takes."""

from __future__ import annotations

from pathlib import Path

import click

from kairoscope.cli.options import Verbs, console, enter_kairosdb, leave, target_option


@click.group("queue", cls=Verbs)
def queue_commands() -> None:
    """What waits in KairosDB's queues: look at it, bring it here, drop it (docs/operations.md)."""


def _which(command: click.decorators.FC) -> click.decorators.FC:
    for option in (
        click.option(
            "--node",
            help="One KairosDB node, such as kairosdb-1  [default: all; of drop the only one]",
        ),
        target_option,
    ):
        command = option(command)
    return command


@queue_commands.command()
@_which
def inspect(target: str, node: str | None) -> None:
    """Show what waits, by metric, and what was refused, by reason; exit 1 if it is not whole."""
    from kairoscope.deploy.operate import queue

    enter_kairosdb(target)
    whole = queue.inspect(target, node, console)
    leave(0 if whole else 1, "what waits is not whole")


@queue_commands.command()
@click.option("--dead", is_flag=True, help="What the store refused for good, not what waits")
@click.argument("file", type=click.Path(path_type=Path))
@_which
def export(target: str, node: str | None, file: Path, *, dead: bool) -> None:
    """Write the points that wait to FILE, a line each, as KairosDB's REST interface takes them."""
    from kairoscope.deploy.operate import queue

    enter_kairosdb(target)
    queue.export(target, node, file, dead=dead, console=console)


@queue_commands.command()
@click.option("--metric", help="What waits of one metric")
@click.option("--dead", is_flag=True, help="What the store refused for good")
@click.option("--all", "everything", is_flag=True, help="Everything that waits")
@click.option("--yes", is_flag=True, help="With --all: it is meant")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="Where what is dropped is kept  [default: dropped-NODE-TIME.jsonl in this folder]",
)
@_which
def drop(
    target: str,
    node: str | None,
    metric: str | None,
    to: Path | None,
    *,
    dead: bool,
    everything: bool,
    yes: bool,
) -> None:
    """Drop points of one KairosDB node, which is stopped meanwhile; they are kept in a file here.

    They were acknowledged: what is dropped is lost unless you post the file again.
    """
    from kairoscope.deploy.operate import queue

    choice = queue.Choice.of(metric=metric, dead=dead, everything=everything, yes=yes)
    enter_kairosdb(target)
    queue.drop(target, node, choice, to, console)
