"""`kairoscope lab …`: look at the lab's hosts, log in to them, and let things happen to them."""

import os
import sys
from collections.abc import Callable

import click

from kairoscope import paths
from kairoscope.cli.options import Verbs, console
from kairoscope.targets.lab.lab import Lab
from kairoscope.targets.lab.system import check_root


@click.group(cls=Verbs)
@click.pass_context
def lab(ctx: click.Context) -> None:
    """Hosts of target lab: look, log in, and let things happen to them (docs/lab.md).

    They are made by: kairoscope deploy --target lab
    """
    ctx.obj = Lab(paths.target_dir("lab"))


@lab.command()
@click.pass_obj
def hosts(lab: Lab) -> None:
    """List the hosts: address, state, what is wrong with their network."""
    # Others see neither their namespaces nor, mostly, the folder that says which there are.
    check_root()
    states = lab.hosts()
    if not states:
        click.echo("the lab has no hosts; first: make deploy TARGET=lab")
    width = max((len(state.host.name) for state in states), default=0)
    for state in states:
        line = f"{state.host.name:{width}}  {state.host.address:15}  {state.state:8}"
        click.echo(f"{line}{'  ' + '; '.join(state.faults) if state.faults else ''}".rstrip())


# All that follows the host is the command's: its -maxdepth has our -h in it.
@lab.command("exec", context_settings={"allow_interspersed_args": False})
@click.argument("host")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def exec_(lab: Lab, host: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on HOST by ssh, as a user who may sudo; without COMMAND, a shell."""
    check_root()
    terminal = ["-t"] if sys.stdin.isatty() else ["-T"]
    line = lab.ssh(host, command[command[:1] == ("--",) :], *terminal)
    os.execvp(line[0], line)  # noqa: S606


@lab.command()
def down() -> None:
    """End all hosts and remove everything of the lab but the base image, as destroy does."""
    from kairoscope.cli import known
    from kairoscope.deploy import deploy

    deploy.destroy(known.target("lab"), console, str)


def _for_each_host(name: str, verb: Callable[[Lab, str], str]) -> None:
    @lab.command(name, help=(verb.__doc__ or "").partition("\n")[0])
    @click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
    @click.pass_obj
    def command(lab: Lab, hosts: tuple[str, ...]) -> None:
        for host in hosts:
            click.echo(verb(lab, host))


for _name, _verb in (
    ("start", Lab.start),
    ("stop", Lab.stop),
    ("kill", Lab.kill),
    ("reboot", Lab.reboot),
    ("freeze", Lab.freeze),
    ("thaw", Lab.thaw),
    ("cut", Lab.cut),
    ("free-disk", Lab.free_disk),
    ("remove", Lab.remove),
):
    _for_each_host(_name, _verb)


@lab.command()
@click.argument("one")
@click.argument("other")
@click.pass_obj
def partition(lab: Lab, one: str, other: str) -> None:
    """Let no packet pass between two hosts."""
    click.echo(lab.partition(one, other))


@lab.command()
@click.argument("host")
@click.argument("percent", type=float)
@click.pass_obj
def loss(lab: Lab, host: str, percent: float) -> None:
    """Lose PERCENT of HOST's packets, each way."""
    click.echo(lab.loss(host, percent))


@lab.command()
@click.argument("host")
@click.argument("ms", type=float)
@click.pass_obj
def delay(lab: Lab, host: str, ms: float) -> None:
    """Let HOST's packets arrive later by MS milliseconds, each way."""
    click.echo(lab.delay(host, ms / 1000))


@lab.command()
@click.argument("host")
@click.argument("kbit", type=int)
@click.pass_obj
def bandwidth(lab: Lab, host: str, kbit: int) -> None:
    """Let HOST send, and receive, at most KBIT kbit/s."""
    click.echo(lab.bandwidth(host, kbit))


@lab.command()
@click.pass_obj
def heal(lab: Lab) -> None:
    """Undo all network faults."""
    click.echo(lab.heal())


@lab.command("slow-disk")
@click.argument("host")
@click.argument("operations", type=int)
@click.pass_obj
def slow_disk(lab: Lab, host: str, operations: int) -> None:
    """Let HOST read, and write, its data disk OPERATIONS times a second."""
    click.echo(lab.slow_disk(host, operations))


@lab.command("fill-disk")
@click.argument("host")
@click.option("--leave", "leave_mib", type=int, default=0, help="MiB to leave  [default: 0]")
@click.pass_obj
def fill_disk(lab: Lab, host: str, leave_mib: int) -> None:
    """Fill HOST's data disk."""
    click.echo(lab.fill_disk(host, leave_mib))
