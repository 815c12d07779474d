"""Options that several commands have: which experiment, which target, where its hosts come from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console

from kairoscope import paths
from kairoscope.errors import UserError

if TYPE_CHECKING:
    from kairoscope.deploy.deploy import Deployment
    from kairoscope.plan import Plan

# Lines are not folded: a path or a figure cut in two cannot be copied or searched for.
console = Console(highlight=False, soft_wrap=True)


class Verbs(click.Group):
    """Of a verb that is none, names the ones there are; not those that only roles call."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; UserError for a verb that is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if not args or args[0].startswith("-"):
                raise
            commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
            known = [name for name, command in commands.items() if command and not command.hidden]
            raise UserError(
                f"{ctx.command_path}: there is no verb {args[0]!r}. There are: {', '.join(known)}"
            ) from None


def _known(context: click.Context, parameter: click.Parameter, target: str) -> str:
    """The name of a target that there is."""
    from kairoscope.cli import known

    return known.target(target).name


def target_option(command: click.decorators.FC) -> click.decorators.FC:
    """Which target; another name is refused, and the known ones are named."""
    return click.option(
        "--target", callback=_known, default="local", show_default=True, metavar="TARGET"
    )(command)


def server_option(command: click.decorators.FC) -> click.decorators.FC:
    """A ScyllaDB server of the user's own."""
    return click.option(
        "--scylla",
        "server",
        type=click.Path(path_type=Path),
        help="SCYLLA= a ScyllaDB server of yours, for ENGINE=scylla on this machine: its maker's "
        "archive, or a folder with one",
    )(command)


def port_option(command: click.decorators.FC) -> click.decorators.FC:
    """Where pages are served."""
    return click.option(
        "--port",
        type=click.IntRange(1, 65535),
        help="Of the page, on 127.0.0.1  [default: 8989, or a free one]",
    )(command)


def plan_options(command: click.decorators.FC) -> click.decorators.FC:
    """Which experiment, on which target, and scaled how."""
    return click.argument("experiment", default="laptop")(scale_options(command))


def scale_options(command: click.decorators.FC) -> click.decorators.FC:
    """On which target an experiment runs, and scaled how."""
    for option in (
        click.option("--engine", help="ENGINE= what stores, cassandra or scylla"),
        click.option(
            "--protocol", help="PROTOCOL= such as rest or telnet-put; see experiment fields load"
        ),
        click.option(
            "--duration",
            "duration_s",
            help="DURATION= of the load in seconds, in place of the file's",
        ),
        click.option("--rate", help="RATE= points per second of each sensor"),
        click.option("--sensors", help="SENSORS= number of sensors"),
        target_option,
    ):
        command = option(command)
    return command


empty_option = click.option(
    "--empty",
    is_flag=True,
    help="Before each run, take every point in the store away, of other runs too (targets local "
    "and lab): what they left is compacted while a later one is measured",
)


def check_thrown_away(target: str) -> None:
    """Refuse `--empty` where others' points may be."""
    from kairoscope.cli import known

    if not known.target(target).thrown_away:
        those = " and ".join(each.name for each in known.TARGETS if each.thrown_away)
        raise UserError(
            f"--empty: it takes every point of the cluster away, and target {target} may hold "
            f"others' than ours; it is for {those}"
        )


def node_options(command: click.decorators.FC) -> click.decorators.FC:
    """Which node, for commands that roles call."""
    file = click.Path(exists=True, path_type=Path)
    for option in (
        click.option("--node", required=True, help="Name of the host"),
        click.option("--inventory", type=file, required=True, help="The inventory it stands in"),
    ):
        command = option(command)
    return command


def make_plan(experiment: str, target: str, **given: str | None) -> Plan:
    """The plan of an experiment as scaled by the options. UserError if it is none."""
    from kairoscope import experiment as experiments
    from kairoscope.cli import known
    from kairoscope.hosts import deployed

    known.target(target)  # Named wrongly, it is said before the experiment is read.
    wanted = experiments.load(experiment, experiments.Overrides(**given))
    engine = deployed.deployed_engine(target, wanted.stack)
    return known.plan(wanted, target, deployed_engine=engine)


def account_options(command: click.decorators.FC) -> click.decorators.FC:
    """Whose account target `aws` is made in, and where Terraform keeps its state."""
    file = click.Path(path_type=Path)
    for option in (
        click.option("--backend", type=file, help="BACKEND= settings of an S3 backend"),
        click.option(
            "--account",
            type=file,
            default=paths.TERRAFORM / "account.tfvars",
            help="ACCOUNT= the account's variables  [default: terraform/account.tfvars]",
        ),
    ):
        command = option(command)
    return command


def host_options(command: click.decorators.FC) -> click.decorators.FC:
    """Where the hosts of targets other than local and lab come from."""
    file = click.Path(path_type=Path)
    option = click.option("--inventory", type=file, help="INVENTORY= the hosts of target hosts")
    return account_options(option(command))


def host_arguments(
    account: Path, backend: Path | None, inventory: Path | None, server: Path | None
) -> tuple[str, ...]:
    """What `host_options` and `server_option` were given, for a verb called from another folder."""
    given = {
        "--account": account,
        "--backend": backend,
        "--inventory": inventory,
        "--scylla": server,
    }
    return tuple(
        text for option, path in given.items() if path for text in (option, str(path.absolute()))
    )


def deployment(
    target: str,
    stack: str,
    console: Console,
    account: Path,
    backend: Path | None = None,
    inventory: Path | None = None,
    server: Path | None = None,
    *,
    monitoring: bool = False,
) -> Deployment:
    """What is deployed, where and with what; `server` is one of the user's own (SCYLLA=)."""
    from kairoscope.cli import known
    from kairoscope.deploy.deploy import Deployment
    from kairoscope.targets.target import Options

    options = Options(
        *(account.absolute(), absolute(backend), absolute(inventory), absolute(server)),
        monitoring=monitoring,
    )
    return Deployment(known.target(target), known.stack(stack), options, console)


def absolute(path: Path | None) -> Path | None:
    """A path as seen from wherever the program goes on."""
    return path.absolute() if path else None


def enter_kairosdb(target: str) -> None:
    """The same for a verb that knows KairosDB alone. UserError if something else stands there."""
    from kairoscope.hosts.deployed import deployed_stack
    from kairoscope.stacks.kairosdb.stack import KairosDB

    if (stack := deployed_stack(target)) != KairosDB.name:
        raise UserError(
            f"Target {target} is deployed with {stack}, and this verb looks after KairosDB alone: "
            "docs/systems.md has what works with other stacks"
        )
    enter(target)


def leave(status: int, why: str) -> NoReturn:
    """End the command with a status. Of one that is not 0 `why` is said: make says no more than
    that there was an error."""
    if status:
        click.echo(f"exit status {status}: {why}", err=True)
    sys.exit(status)


def enter(target: str) -> None:
    """Be where the target's hosts can be reached."""
    from kairoscope.cli import known

    known.target(target).enter()
