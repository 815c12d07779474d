"""The `kairoscope` command. The Makefile's verbs call it; what each does is in its module."""

import sys
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console

from kairoscope import __version__, client, cql, hocon, paths, roles, run, scylla
from kairoscope import bench as bench_module
from kairoscope import bundles as bundles_module
from kairoscope import deploy as deploy_module
from kairoscope import inventory as inventory_module
from kairoscope import plan as plan_module
from kairoscope import rehearse as rehearse_module
from kairoscope import report as report_module
from kairoscope import rotate as rotate_module
from kairoscope import status as status_module
from kairoscope import verify as verify_module
from kairoscope.aws import target as aws
from kairoscope.aws import terraform
from kairoscope.errors import UserError
from kairoscope.lab import commands as lab_commands
from kairoscope.operate.commands import operate_commands
from kairoscope.options import (
    absolute,
    account_options,
    deploy_options,
    enter,
    host_options,
    make_plan,
    node_options,
    plan_options,
)
from kairoscope.plan import cost as cost_module

# Lines are not folded: a path or a figure cut in two cannot be copied or searched for.
console = Console(highlight=False, soft_wrap=True)


class _Group(click.Group):
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


@main.command()
@plan_options
@click.option("--json", "as_json", is_flag=True, help="Print plan.json instead of tables.")
def plan(as_json: bool, **wanted: Any) -> None:
    """Print what EXPERIMENT resolves to: every setting with its arithmetic and reason."""
    made = make_plan(**wanted)
    if as_json:
        click.echo(made.to_json())
    else:
        console.print(plan_module.render(made))


@main.command()
@host_options
@plan_options
def deploy(account: Path, backend: Path | None, inventory: Path | None, **wanted: Any) -> None:
    """Deploy TARGET for EXPERIMENT; changes only what differs from the plan."""
    deploy_module.deploy(make_plan(**wanted), deploy_options(account, backend, inventory), console)


@main.command()
@host_options
@plan_options
def provision(account: Path, backend: Path | None, inventory: Path | None, **wanted: Any) -> None:
    """Have the hosts of TARGET and their inventory, as deploy does before anything else."""
    path = deploy_module.provision(
        make_plan(**wanted), deploy_options(account, backend, inventory), console
    )
    console.print(f"inventory: {path}")


@main.command("plan-aws")
@account_options
@plan_options
def plan_aws(account: Path, backend: Path | None, **wanted: Any) -> None:
    """Show what a deploy of EXPERIMENT on aws would create, change and delete; change nothing."""
    made = make_plan(**{**wanted, "target": "aws"})
    aws.show(made, account.absolute(), absolute(backend), console)


@main.command()
@plan_options
def cost(**wanted: Any) -> None:
    """Print what EXPERIMENT costs on aws, by the hour and for a run."""
    console.print(cost_module.render(make_plan(**{**wanted, "target": "aws"})))


@main.command(
    "terraform", context_settings={"ignore_unknown_options": True, "help_option_names": []}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def terraform_command(arguments: tuple[str, ...]) -> None:
    """Run terraform with ARGUMENTS, with an offline provider mirror where there is one."""
    terraform.passthrough(arguments)


@main.command()
@plan_options
def load(**wanted: Any) -> None:
    """Run EXPERIMENT's load on a deployed TARGET: exit 0 pass, 1 fail, 2 invalid or incomplete."""
    made = make_plan(**wanted)
    enter(made.target)
    sys.exit(run.load(made, console))


@main.command()
@plan_options
def rehearse(**wanted: Any) -> None:
    """Run EXPERIMENT's sensors against a sink that throws all away; exit 1 if it is too much."""
    sys.exit(0 if rehearse_module.rehearse(make_plan(**wanted), console) else 1)


@main.command()
@click.argument("only", required=False)
def bench(only: str | None) -> None:
    """Measure the loader beside the published way of 2018, all benches or ONLY one."""
    bench_module.run(only, console)


@main.command()
@click.option("--target", default="local", show_default=True)
def status(target: str) -> None:
    """Show every process, the ring, KairosDB's health and queue depth; exit 1 if any is off."""
    enter(target)
    sys.exit(0 if status_module.show(target, console) else 1)


@main.command()
@click.option("--target", default="local", show_default=True)
def verify(target: str) -> None:
    """Check that TARGET is what it should be, on its hosts; exit 1 if anything is off."""
    enter(target)
    sys.exit(0 if verify_module.show(target, console) else 1)


@main.command()
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
def report(run_dir: Path | None) -> None:
    """Write report.html and report.md of RUN_DIR (default: the latest run)."""
    folder = run_dir or paths.runs_dir() / "latest"
    if not folder.is_dir():
        raise UserError(f"No run folder at {folder}. First: make load")
    for path in report_module.write(folder.resolve(), paths.REFERENCE):
        console.print(f"{path}", soft_wrap=True)


@main.command()
@click.option("--target", default="local", show_default=True)
def destroy(target: str) -> None:
    """End all of TARGET: its processes, or its hosts. Runs and reports stay."""
    deploy_module.destroy(target, console)


@main.command()
@click.option("--update-manifest", is_flag=True, help="Pin what Maven brings now.")
@click.option("--with-java", is_flag=True, help="Also the Java run-time for hosts of their own.")
def bundles(update_manifest: bool, with_java: bool) -> None:
    """Build the run-time bundles from Maven Central, checked against their manifests."""
    if bundles_module.build(update_manifest, with_java=with_java):
        console.print(f"run-time bundles built in {paths.BUNDLES}", soft_wrap=True)


@main.command()
@node_options
@click.option("--keyspace", required=True)
def schema(inventory: Path, node: str, keyspace: str) -> None:
    """Apply the CQL script on standard input through a storage node (called by its role)."""
    found = inventory_module.read(inventory)
    host = found.host(node)
    with client.connect(found, [host]) as talk, talk.cql([host]) as session:
        changed = cql.apply_schema(session, keyspace, sys.stdin.read())
    click.echo("schema changed" if changed else "schema as planned")


@main.command()
@click.option("--target", default="local", show_default=True)
@click.argument("what", type=click.Choice(rotate_module.WHAT))
def rotate(target: str, what: str) -> None:
    """Replace certificates, the CA, the database's passwords or that of KairosDB's REST."""
    enter(target)
    rotate_module.rotate(target, what)


@main.command()
@click.option("--inventory", type=click.Path(exists=True, path_type=Path), required=True)
@click.argument("step", type=click.Choice(["replicate", "roles", "grants", "drop-retired"]))
def access(inventory: Path, step: str) -> None:
    """Bring the database's roles to what the secrets say (called by the access role)."""
    changes = roles.apply(step, inventory_module.read(inventory))
    click.echo("\n".join(changes) or "as planned")


@main.command("check-conf")
@click.option("--reference", type=click.Path(exists=True, path_type=Path), required=True)
@click.argument("conf", type=click.File())
def check_conf(reference: Path, conf: TextIO) -> None:
    """Check a rendered kairosdb.conf against KairosDB's own key list (called by its role)."""
    hocon.check(conf.read(), reference)


@main.command("check-effective")
@node_options
@click.option("--wait", "wait_s", type=float, default=0, help="Seconds for it to become healthy")
@click.argument("conf", type=click.File())
def check_effective(inventory: Path, node: str, wait_s: float, conf: TextIO) -> None:
    """Check that a KairosDB node is healthy and runs with CONF's settings (called by its role)."""
    found = inventory_module.read(inventory)
    host = found.host(node)
    with client.connect(found, [host]) as talk:
        talk.wait_until_healthy(host, wait_s)
        try:
            status = talk.get_json(host, "/api/v1/kairoscope/settings", timeout_s=10)
        except OSError as error:
            raise UserError(f"{node}: KairosDB does not tell its settings: {error}") from error
        count = hocon.check_effective(conf.read(), status, node)
    click.echo(f"{count} settings as planned")


main.add_command(lab_commands.lab)
main.add_command(operate_commands)
main.add_command(scylla.release_command)
main.add_command(scylla.superuser_command)
main.add_command(scylla.check_command)
