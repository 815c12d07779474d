"""The `kairoscope` command. The Makefile's verbs call it; what each does is in its module.

What a command needs it imports itself: all of it takes seconds to load, and roles call some of the
commands once for every host.
"""

import sys
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console

from kairoscope import __version__, paths
from kairoscope.cli.lab import lab
from kairoscope.cli.operate import operate_commands
from kairoscope.cli.options import (
    Verbs,
    absolute,
    account_options,
    deploy_options,
    enter,
    host_options,
    make_plan,
    node_options,
    plan_options,
    target_option,
)
from kairoscope.cli.queue import queue_commands
from kairoscope.errors import UserError
from kairoscope.stacks.kairosdb import scylla

# Lines are not folded: a path or a figure cut in two cannot be copied or searched for.
console = Console(highlight=False, soft_wrap=True)


class _Group(Verbs):
    """Ends an interrupted command with status 2 and a sentence (click: status 1 and "Aborted!")."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise UserError("interrupted; what was done stays, the same command goes on") from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Deploy KairosDB on ScyllaDB, load it with sensors, prove what it sustains."""
    if (home := paths.home()).exists() and not home.is_dir():
        raise UserError(f"KAIROSCOPE_HOME {home} is a file: give a folder of yours.")


@main.command()
@plan_options
@click.option("--json", "as_json", is_flag=True, help="Print plan.json instead of tables.")
def plan(as_json: bool, **wanted: Any) -> None:
    """Print what EXPERIMENT resolves to: every setting with its arithmetic and reason."""
    from kairoscope.deploy import preflight
    from kairoscope.plan import render

    made = make_plan(**wanted)
    if as_json:
        click.echo(made.to_json())
    else:
        here = preflight.notices(made)
        console.print(render(made.model_copy(update={"notices": (*made.notices, *here)})))


@main.command()
@click.option(
    "--scylla",
    "server",
    type=click.Path(path_type=Path),
    help="SCYLLA= a ScyllaDB server of yours, for ENGINE=scylla on this machine: its maker's "
    "archive, or a folder with one",
)
@host_options
@plan_options
def deploy(
    account: Path,
    backend: Path | None,
    inventory: Path | None,
    server: Path | None,
    **wanted: Any,
) -> None:
    """Deploy TARGET for EXPERIMENT; changes only what differs from the plan."""
    from kairoscope.deploy import deploy

    options = deploy_options(account, backend, inventory, server)
    deploy.deploy(make_plan(**wanted), options, console)


@main.command()
@host_options
@plan_options
def provision(account: Path, backend: Path | None, inventory: Path | None, **wanted: Any) -> None:
    """Have the hosts of TARGET and their inventory, as deploy does before anything else."""
    from kairoscope.deploy import deploy

    options = deploy_options(account, backend, inventory)
    path = deploy.provision(make_plan(**wanted), options, console)
    console.print(f"inventory: {path}")


@main.command("plan-aws")
@account_options
@plan_options
def plan_aws(account: Path, backend: Path | None, **wanted: Any) -> None:
    """Show what a deploy of EXPERIMENT on aws would create, change and delete; change nothing."""
    from kairoscope.targets.aws import target

    made = make_plan(**{**wanted, "target": "aws"})
    target.show(made, account.absolute(), absolute(backend), console)


@main.command()
@plan_options
def cost(**wanted: Any) -> None:
    """Print what EXPERIMENT costs on aws, by the hour and for a run."""
    from kairoscope.targets.aws.cost import render

    console.print(render(make_plan(**{**wanted, "target": "aws"})))


@main.command(
    "terraform", context_settings={"ignore_unknown_options": True, "help_option_names": []}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def terraform_command(arguments: tuple[str, ...]) -> None:
    """Run terraform with ARGUMENTS, with an offline provider mirror where there is one."""
    from kairoscope.targets.aws import terraform

    terraform.passthrough(arguments)


@main.command()
@plan_options
@click.option(
    "--always-read-back/--read-back-if-sustained",
    default=True,
    help="Whether to read back the points of a load that cannot pass any more  [default: always]",
)
def load(*, always_read_back: bool, **wanted: Any) -> None:
    """Run EXPERIMENT's load on a deployed TARGET: exit 0 pass, 1 fail, 2 invalid or incomplete."""
    from kairoscope.run import run

    made = make_plan(**wanted)
    enter(made.target)
    sys.exit(run.load(made, console, always_read_back=always_read_back))


@main.command()
@plan_options
def rehearse(**wanted: Any) -> None:
    """Run EXPERIMENT's sensors against a sink that throws all away; exit 1 if it is too much."""
    from kairoscope.run import rehearse

    sys.exit(0 if rehearse.rehearse(make_plan(**wanted), console) else 1)


@main.command()
@target_option
def status(target: str) -> None:
    """Show every process, the ring, KairosDB's health and queue depth; exit 1 if any is off."""
    from kairoscope.deploy import status

    enter(target)
    sys.exit(0 if status.show(target, console) else 1)


@main.command()
@target_option
def verify(target: str) -> None:
    """Check that TARGET is what it should be, on its hosts; exit 1 if anything is off."""
    from kairoscope.deploy import verify

    enter(target)
    sys.exit(0 if verify.show(target, console) else 1)


@main.command()
@target_option
@click.option(
    "--seconds",
    type=click.IntRange(min=1, max=3600),
    default=30,
    show_default=True,
    help="How long to look",
)
@click.argument("process")
def profile(process: str, seconds: int, target: str) -> None:
    """Show where the CPU time of PROCESS goes: a Java server's name (kairosdb-1), or its id."""
    from kairoscope.deploy import profile

    console.print(f"written: {profile.profile(process, seconds, target, console)}")


@main.command()
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
def report(run_dir: Path | None) -> None:
    """Write report.html and report.md of RUN_DIR (default: the latest run)."""
    from kairoscope import report

    folder = run_dir or paths.runs_dir() / "latest"
    if not folder.is_dir():
        raise UserError(f"No run folder at {folder}. First: make load")
    for path in report.write(folder.resolve(), paths.REFERENCE):
        console.print(f"{path}", soft_wrap=True)


@main.command()
@target_option
def destroy(target: str) -> None:
    """End all of TARGET: its processes, or its hosts. Runs and reports stay."""
    from kairoscope.deploy import deploy

    deploy.destroy(target, console)


@main.command()
@click.option("--update-manifest", is_flag=True, help="Pin what Maven brings now.")
@click.option("--with-java", is_flag=True, help="Also the Java run-time for hosts of their own.")
def bundles(update_manifest: bool, with_java: bool) -> None:
    """Build the run-time bundles from Maven Central, checked against their manifests."""
    from kairoscope.deploy import bundles

    if bundles.build(update_manifest, with_java=with_java, console=console):
        console.print(f"run-time bundles built in {paths.BUNDLES}", soft_wrap=True)


@main.command()
@node_options
@click.option("--keyspace", required=True)
def schema(inventory: Path, node: str, keyspace: str) -> None:
    """Apply the CQL script on standard input through a storage node (called by its role)."""
    from kairoscope.hosts import inventory as inventories
    from kairoscope.stacks.kairosdb import client, cql

    found = inventories.read(inventory)
    # The driver looks for every node that the ring names, so there are ways to all of them.
    with (
        client.connect(found, found.storage) as talk,
        talk.cql([found.host(node)]) as session,
    ):
        changed = cql.apply_schema(session, keyspace, sys.stdin.read())
    click.echo("schema changed" if changed else "schema as planned")


@main.command()
@target_option
@click.argument("what", metavar="certificates|ca|passwords|rest")
def rotate(target: str, what: str) -> None:
    """Replace certificates, the CA, the database's passwords or that of KairosDB's REST."""
    from kairoscope.deploy import rotate

    enter(target)
    rotate.rotate(target, what)


@main.command()
@click.option("--inventory", type=click.Path(exists=True, path_type=Path), required=True)
@click.argument("step", type=click.Choice(["replicate", "roles", "grants", "drop-retired"]))
def access(inventory: Path, step: str) -> None:
    """Bring the database's roles to what the secrets say (called by the access role)."""
    from kairoscope.hosts import inventory as inventories
    from kairoscope.stacks.kairosdb import database_roles

    changes = database_roles.apply(step, inventories.read(inventory))
    click.echo("\n".join(changes) or "as planned")


@main.command("check-conf")
@click.option("--reference", type=click.Path(exists=True, path_type=Path), required=True)
@click.argument("conf", type=click.File())
def check_conf(reference: Path, conf: TextIO) -> None:
    """Check a rendered kairosdb.conf against KairosDB's own key list (called by its role)."""
    from kairoscope.stacks.kairosdb import hocon

    hocon.check(conf.read(), reference)


@main.command("check-effective")
@node_options
@click.option("--wait", "wait_s", type=float, default=0, help="Seconds for it to become healthy")
@click.argument("conf", type=click.File())
def check_effective(inventory: Path, node: str, wait_s: float, conf: TextIO) -> None:
    """Check that a KairosDB node is healthy and runs with CONF's settings (called by its role)."""
    from kairoscope.hosts import inventory as inventories
    from kairoscope.stacks.kairosdb import client, hocon

    found = inventories.read(inventory)
    host = found.host(node)
    with client.connect(found, [host]) as talk:
        talk.wait_until_healthy(host, wait_s)
        try:
            status = talk.get_json(host, "/api/v1/kairoscope/settings", timeout_s=10)
        except OSError as error:
            raise UserError(f"{node}: KairosDB does not tell its settings: {error}") from error
        count = hocon.check_effective(conf.read(), status, node)
    click.echo(f"{count} settings as planned")


main.add_command(lab)
main.add_command(operate_commands)
main.add_command(queue_commands)
main.add_command(scylla.release_command)
main.add_command(scylla.superuser_command)
main.add_command(scylla.check_command)
