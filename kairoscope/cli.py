"""The `kairoscope` command. The Makefile's verbs call it; what each does is in its module."""

import sys
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console

from kairoscope import __version__, cql, hocon, paths, run
from kairoscope import bench as bench_module
from kairoscope import bundles as bundles_module
from kairoscope import deploy as deploy_module
from kairoscope import experiment as experiment_module
from kairoscope import plan as plan_module
from kairoscope import rehearse as rehearse_module
from kairoscope import report as report_module
from kairoscope import status as status_module
from kairoscope.aws import target as aws
from kairoscope.aws import terraform
from kairoscope.errors import UserError
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


def _plan_options(command: click.decorators.FC) -> click.decorators.FC:
    """Which experiment, on which target, and scaled how."""
    for option in (
        click.option("--protocol", help="PROTOCOL= rest, rest-gzip, telnet-put or telnet-putm"),
        click.option(
            "--duration",
            "duration_s",
            help="DURATION= of the load in seconds, in place of the file's",
        ),
        click.option("--rate", help="RATE= points per second of each sensor"),
        click.option("--sensors", help="SENSORS= number of sensors"),
        click.option("--target", default="local", show_default=True),
        click.argument("experiment", default="laptop"),
    ):
        command = option(command)
    return command


def _plan(experiment: str, target: str, **given: str | None) -> plan_module.Plan:
    overrides = experiment_module.Overrides(**given)
    return plan_module.make(experiment_module.load(experiment, overrides), target)


@main.command()
@_plan_options
@click.option("--json", "as_json", is_flag=True, help="Print plan.json instead of tables.")
def plan(as_json: bool, **wanted: Any) -> None:
    """Print what EXPERIMENT resolves to: every setting with its arithmetic and reason."""
    made = _plan(**wanted)
    if as_json:
        click.echo(made.to_json())
    else:
        console.print(plan_module.render(made))


def _account_options(command: click.decorators.FC) -> click.decorators.FC:
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


@main.command()
@_account_options
@_plan_options
def deploy(account: Path, backend: Path | None, **wanted: Any) -> None:
    """Deploy TARGET for EXPERIMENT; changes only what differs from the plan."""
    made = _plan(**wanted)
    if made.target == "aws":
        path = deploy_module.provision(made, account.absolute(), _absolute(backend), console)
        console.print(f"inventory: {path}\n{deploy_module.HOSTS_ONLY}")
    else:
        deploy_module.deploy(made)


@main.command("plan-aws")
@_account_options
@_plan_options
def plan_aws(account: Path, backend: Path | None, **wanted: Any) -> None:
    """Show what a deploy of EXPERIMENT on aws would create, change and delete; change nothing."""
    made = _plan(**{**wanted, "target": "aws"})
    aws.show(made, account.absolute(), _absolute(backend), console)


def _absolute(path: Path | None) -> Path | None:
    return path.absolute() if path else None


@main.command()
@_plan_options
def cost(**wanted: Any) -> None:
    """Print what EXPERIMENT costs on aws, by the hour and for a run."""
    console.print(cost_module.render(_plan(**{**wanted, "target": "aws"})))


@main.command(
    "terraform", context_settings={"ignore_unknown_options": True, "help_option_names": []}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def terraform_command(arguments: tuple[str, ...]) -> None:
    """Run terraform with ARGUMENTS, with an offline provider mirror where there is one."""
    terraform.passthrough(arguments)


@main.command()
@_plan_options
def load(**wanted: Any) -> None:
    """Run EXPERIMENT's load on a deployed TARGET: exit 0 pass, 1 fail, 2 invalid or incomplete."""
    sys.exit(run.load(_plan(**wanted), console))


@main.command()
@_plan_options
def rehearse(**wanted: Any) -> None:
    """Run EXPERIMENT's sensors against a sink that throws all away; exit 1 if it is too much."""
    sys.exit(0 if rehearse_module.rehearse(_plan(**wanted), console) else 1)


@main.command()
@click.argument("only", required=False)
def bench(only: str | None) -> None:
    """Measure the loader beside the published way of 2018, all benches or ONLY one."""
    bench_module.run(only, console)


@main.command()
@click.option("--target", default="local", show_default=True)
def status(target: str) -> None:
    """Show every process, the ring, KairosDB's health and queue depth; exit 1 if any is off."""
    if target == "aws":
        deploy_module.check_finished(target)
    sys.exit(0 if status_module.show(target, console) else 1)


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
    if target == "aws":
        aws.destroy(console)
        return
    ended = deploy_module.destroy(target)
    console.print(f"target {target}: {len(ended)} processes ended, folder removed")


@main.command()
@click.option("--update-manifest", is_flag=True, help="Pin what Maven brings now.")
def bundles(update_manifest: bool) -> None:
    """Build the run-time bundles from Maven Central, checked against their manifests."""
    if bundles_module.build(update_manifest):
        console.print(f"run-time bundles built in {paths.BUNDLES}", soft_wrap=True)


@main.command()
@click.option("--host", "hosts", multiple=True, required=True)
@click.option("--port", type=int, required=True)
@click.option("--keyspace", required=True)
def schema(hosts: tuple[str, ...], port: int, keyspace: str) -> None:
    """Apply the CQL script on standard input (called by the schema role)."""
    with cql.session(list(hosts), port) as session:
        changed = cql.apply_schema(session, keyspace, sys.stdin.read())
    click.echo("schema changed" if changed else "schema as planned")


@main.command("check-conf")
@click.option("--reference", type=click.Path(exists=True, path_type=Path), required=True)
@click.argument("conf", type=click.File())
def check_conf(reference: Path, conf: TextIO) -> None:
    """Check a rendered kairosdb.conf against KairosDB's own key list (called by its role)."""
    hocon.check(conf.read(), reference)


@main.command("check-effective")
@click.option("--url", required=True)
@click.argument("conf", type=click.File())
def check_effective(url: str, conf: TextIO) -> None:
    """Check that KairosDB at URL really runs with CONF's settings (called by its role)."""
    click.echo(f"{hocon.check_effective(conf.read(), url)} settings as planned")
