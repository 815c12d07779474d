"""Commands that deploy a target, that load it, and that do one after the other."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kairoscope.cli.options import (
    absolute,
    console,
    deployment,
    enter,
    host_options,
    leave,
    make_plan,
    plan_options,
    port_option,
    server_option,
)
from kairoscope.errors import UserError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kairoscope.plan import Plan
    from kairoscope.run.run import Ran
    from kairoscope.serve.beside import Beside


_DEPLOY_OPTIONS = (
    server_option,
    click.option(
        "--monitoring",
        is_flag=True,
        help="MONITORING=true with Prometheus and alerts, on targets local and lab; once deployed "
        "they stay until destroy",
    ),
    host_options,
)

_LOAD_OPTIONS = (
    click.option(
        "--always-read-back/--read-back-if-sustained",
        default=True,
        help="Whether to read back the points of a load that cannot pass any more  [default: "
        "always]",
    ),
    click.option(
        "--until",
        type=click.Path(path_type=Path),
        help="End the load at its next tick once this file is there; it is judged as any other",
    ),
    click.option(
        "--into",
        type=click.Path(path_type=Path),
        help="Folder in which the run folder is made  [default: results/runs]",
    ),
    click.option(
        "--kill-after",
        "kill_after_s",
        type=click.FloatRange(min=0, max=600),
        help="Kill all servers (SIGKILL) so many seconds after the last acknowledgement, and look "
        "for the load's points when they are back; target local alone",
    ),
    click.option(
        "--count-visible",
        is_flag=True,
        help="After the load's end, count until queries find all its points, and write down how "
        "long that took",
    ),
    click.option(
        "--ask",
        is_flag=True,
        help="Beside the load ask for the last point of 100 sensors, an hour of one and the mean "
        "of all, each twice a second, and write down how long each answer took (docs/systems.md)",
    ),
    click.option(
        "--probe",
        is_flag=True,
        help="At the end measure what else was published of the system, for its report "
        "(docs/systems.md)",
    ),
    port_option,
    click.option(
        "--serve/--no-serve",
        default=True,
        help="Whether to show the run in a browser while it goes on  [default: serve]",
    ),
)


def _deploy_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(_DEPLOY_OPTIONS):
        command = option(command)
    return command


def _load_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(_LOAD_OPTIONS):
        command = option(command)
    return command


_DEPLOY_KEYS = ("account", "backend", "inventory", "server", "monitoring")
_LOAD_KEYS = ("always_read_back", "until", "into", "kill_after_s", "count_visible", "ask", "probe")


@click.command()
@_deploy_options
@plan_options
def deploy(**given: Any) -> None:
    """Deploy TARGET for EXPERIMENT; changes only what differs from the plan."""
    how = {name: given.pop(name) for name in _DEPLOY_KEYS}
    _deploy(make_plan(**given), **how)


@click.command()
@plan_options
@_load_options
def load(*, port: int | None, serve: bool, **given: Any) -> None:
    """Run EXPERIMENT's load on a deployed TARGET: exit 0 pass, 1 fail, 2 invalid or incomplete.

    Its report, growing, is at the address that it prints, on this machine alone.
    """
    how = {name: given.pop(name) for name in _LOAD_KEYS}
    _check(**how)
    made = make_plan(**given)
    with _page(port, serve=serve) as page:
        ran = _load(made, page, **how)
    leave(ran.status, f"the verdict is {ran.verdict}")


@click.command()
@_deploy_options
@plan_options
@_load_options
def demo(*, port: int | None, serve: bool, **given: Any) -> None:
    """Deploy TARGET for EXPERIMENT and load it, as `deploy` and `load` do: exits as `load` does.

    The address that it prints first has the deploy, and then the report, growing.
    """
    from kairoscope import paths

    how = {name: given.pop(name) for name in _DEPLOY_KEYS}
    then = {name: given.pop(name) for name in _LOAD_KEYS}
    _check(**then)
    made = make_plan(**given)
    with _page(port, serve=serve) as page:
        if page:
            page.show_target(made.target, absolute(then["into"]) or paths.runs_dir())
        _deploy(made, **how)
        ran = _load(make_plan(**given), page, **then)
    leave(ran.status, f"the verdict is {ran.verdict}")


def _page(port: int | None, *, serve: bool) -> AbstractContextManager[Beside | None]:
    # Listened on here, before it may go on in a network from which no browser is reached.
    from kairoscope.serve import beside

    return beside.page(port, console) if serve else nullcontext()


def _check(*, kill_after_s: float | None, count_visible: bool, **_: Any) -> None:
    if kill_after_s is not None and count_visible:
        raise UserError("--kill-after and --count-visible: of two loads, one each")


def _deploy(
    made: Plan,
    *,
    account: Path,
    backend: Path | None,
    inventory: Path | None,
    server: Path | None,
    monitoring: bool,
) -> None:
    from kairoscope.deploy import deploy

    deploy.deploy(
        made,
        deployment(
            *(made.target, made.stack, console, account, backend, inventory, server),
            monitoring=monitoring,
        ),
    )


def _load(
    made: Plan,
    page: Beside | None,
    *,
    always_read_back: bool,
    until: Path | None,
    into: Path | None,
    kill_after_s: float | None,
    count_visible: bool,
    ask: bool,
    probe: bool,
) -> Ran:
    from kairoscope.cli import known
    from kairoscope.hosts import inventory
    from kairoscope.run import asking, killing, loading, run, visible

    there = run.until_there(made, until) if until else None
    enter(made.target)
    stack = known.stack(made.stack)
    then: loading.Then | None = visible.watch if count_visible else None
    if kill_after_s is not None:
        then = killing.after(kill_after_s, inventory.load(made.target))
    return run.load(
        made,
        stack,
        console,
        levers=known.target(made.target),
        always_read_back=always_read_back,
        until=there,
        into=absolute(into),
        on_folder=page.show if page else None,
        beside=asking.of_plan(made) if ask else None,
        then=then,
        probe=probe,
    )
