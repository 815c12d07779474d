"""The `kairoscope` command. The Makefile's verbs call it; what each does is in its module.

What a command needs it imports itself: all of it takes seconds to load, and roles call some of the
commands once for every host.
"""

import os
import sys
from pathlib import Path
from typing import Any

import click

from kairoscope import __version__, interrupts, paths, ready
from kairoscope.cli.bakeoff import bakeoff
from kairoscope.cli.compare import compare_commands
from kairoscope.cli.demo import demo, deploy, load
from kairoscope.cli.faults import faults
from kairoscope.cli.lab import lab
from kairoscope.cli.operate import operate_commands
from kairoscope.cli.options import (
    Verbs,
    absolute,
    account_options,
    console,
    deployment,
    enter,
    enter_kairosdb,
    host_options,
    leave,
    make_plan,
    plan_options,
    port_option,
    target_option,
)
from kairoscope.cli.queue import queue_commands
from kairoscope.cli.roles import role_commands
from kairoscope.cli.search import search
from kairoscope.cli.size import size
from kairoscope.errors import UserError


class _Group(Verbs):
    """Ends an interrupted command with status 2 and a sentence (click: status 1 and "Aborted!").

    By SIGTERM and SIGHUP as by Ctrl-C: else what a command waits for (Maven, pip, apt) would go on
    without it.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with interrupts.as_ctrl_c():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise UserError("interrupted; what was done stays, the same command goes on") from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Deploy KairosDB on ScyllaDB, load it with sensors, prove what it sustains."""
    # For what is started elsewhere too: verbs of a series, what roles call.
    for name in ("KAIROSCOPE_HOME", "KAIROSCOPE_SECRETS"):
        if given := os.environ.get(name):
            os.environ[name] = str(Path(given).absolute())
    if (home := paths.home()).exists() and not home.is_dir():
        raise UserError(ready.home_problem(home) or "")


@main.group("experiment", cls=Verbs)
def experiment_commands() -> None:
    """Look up what an experiment may say (experiments/README.md)."""


@experiment_commands.command("fields")
@click.argument("section", default="")
def experiment_fields(section: str) -> None:
    """Print every field, or those of SECTION: unit, default, what is allowed, and why."""
    from kairoscope.experiment import fields

    click.echo(fields.described(section))


@main.command()
@plan_options
@click.option("--json", "as_json", is_flag=True, help="Print plan.json instead of tables.")
def plan(as_json: bool, **wanted: Any) -> None:
    """Print what EXPERIMENT resolves to: every setting with its arithmetic and reason."""
    from kairoscope.cli import known
    from kairoscope.deploy import preflight
    from kairoscope.plan import render

    made = make_plan(**wanted)
    if as_json:
        click.echo(made.to_json())
    else:
        where, what = known.target(made.target), known.stack(made.stack)
        here = (
            preflight.notices(made, what.needs(made), of_hosts=where.managed)
            if where.shared
            else []
        )
        console.print(render(made.model_copy(update={"notices": (*made.notices, *here)})))


@main.command()
@host_options
@plan_options
def provision(account: Path, backend: Path | None, inventory: Path | None, **wanted: Any) -> None:
    """Have the hosts of TARGET and their inventory, as deploy does before anything else."""
    from kairoscope.deploy import deploy

    made = make_plan(**wanted)
    path = deploy.provision(
        made, deployment(made.target, made.stack, console, account, backend, inventory)
    )
    console.print(f"inventory: {path}")


@main.command("plan-aws")
@account_options
@plan_options
def plan_aws(account: Path, backend: Path | None, **wanted: Any) -> None:
    """Show what a deploy of EXPERIMENT on aws would create, change and delete; change nothing."""
    from kairoscope.targets.aws import target

    made = make_plan(**{**wanted, "target": "aws"})
    target.show(made, account.absolute(), absolute(backend), console.print)


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
def rehearse(**wanted: Any) -> None:
    """Run EXPERIMENT's sensors against a sink that discards all; exit 1 if it is too much."""
    from kairoscope.run import rehearse

    carried = rehearse.rehearse(make_plan(**wanted), console)
    leave(0 if carried else 1, "this machine's loaders cannot carry it")


@main.command()
@target_option
def status(target: str) -> None:
    """Show every process, health and what waits, KairosDB's ring; exit 1 if any is off."""
    from kairoscope.cli import known
    from kairoscope.deploy import status
    from kairoscope.hosts.deployed import deployed_stack

    enter(target)
    well = status.show(target, known.stack(deployed_stack(target)), console)
    leave(0 if well else 1, "not all is well")


@main.command()
@target_option
def verify(target: str) -> None:
    """Check that TARGET is what it should be, on its hosts; exit 1 if anything is off."""
    from kairoscope.deploy import verify

    enter_kairosdb(target)
    leave(0 if verify.show(target, console) else 1, "not all is as it should be")


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
    from kairoscope.deploy.operate import cpu_profile

    console.print(f"written: {cpu_profile.profile(process, seconds, target, console)}")


def _run_folder(given: Path | None) -> Path:
    """A run folder, or that of the latest run. UserError if there is none."""
    folder = given or paths.runs_dir() / "latest"
    if not folder.is_dir():
        raise UserError(f"No run folder at {folder}. First: make load")
    return folder.resolve()


@main.command()
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
@click.option(
    "--serve",
    is_flag=True,
    help="Show it, and the list of all runs, in a browser on this machine until Ctrl-C; also a run "
    "that goes on. Writes nothing",
)
@port_option
def report(run_dir: Path | None, serve: bool, port: int | None) -> None:
    """Write report.html and report.md of RUN_DIR (default: the latest run)."""
    from kairoscope import report

    if serve:
        from kairoscope.serve import command

        command.serve(run_dir.resolve() if run_dir else None, port, console)
        return
    if port is not None:
        raise UserError("--port is for --serve")
    for path in report.write(_run_folder(run_dir), paths.REFERENCE):
        console.print(f"{path}", soft_wrap=True)


@main.command()
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
def judge(run_dir: Path | None) -> None:
    """Judge RUN_DIR (default: the latest run) again, from its files alone; exit as load does.

    Writes verdict, ledger and measurements anew; the report is of `kairoscope report`.
    """
    from kairoscope.run.show import show
    from kairoscope.verdict import conclude, sustained

    judged = conclude.again(_run_folder(run_dir)).verdict
    show(judged, console)
    leave(sustained.EXIT_STATUS[judged.verdict], f"the verdict is {judged.verdict}")


@main.command()
@target_option
@click.option("--deployment", help="DEPLOYMENT= of target aws: its name, to say that it is meant")
def destroy(target: str, deployment: str | None) -> None:
    """End all of TARGET: its processes, or its hosts. Runs and reports stay, and backups in S3."""
    from kairoscope.cli import known
    from kairoscope.deploy import deploy

    def ask(wanted: str) -> str:
        if deployment is not None or not sys.stdin.isatty():
            return deployment or ""
        told = f"All hosts of {wanted} end, with all that is stored on them. Type its name"
        return str(click.prompt(told, default="", show_default=False))

    deploy.destroy(known.target(target), console, ask)


@main.command()
@click.option("--update-manifest", is_flag=True, help="Pin what Maven brings now.")
@click.option("--with-java", is_flag=True, help="Also the Java run-time for hosts of their own.")
@click.option("--with-monitoring", is_flag=True, help="Also Prometheus and its tools, by apt.")
def bundles(update_manifest: bool, with_java: bool, with_monitoring: bool) -> None:
    """Build the run-time bundles from Maven Central, checked against their manifests."""
    from kairoscope.deploy import monitoring
    from kairoscope.deploy.building import run_time

    built = run_time.build(update_manifest, with_java=with_java, console=console)
    if with_monitoring:
        built |= monitoring.fetch(console)
    if built:
        console.print(f"run-time bundles built in {paths.BUNDLES}", soft_wrap=True)


@main.command()
@target_option
@click.argument("what", metavar="certificates|ca|passwords|rest")
def rotate(target: str, what: str) -> None:
    """Replace certificates, the CA, the database's passwords or that of KairosDB's REST."""
    from kairoscope.cli import known
    from kairoscope.deploy.operate import rotate
    from kairoscope.hosts.deployed import deployed_stack

    enter_kairosdb(target)
    rotate.rotate(target, known.stack(deployed_stack(target)), what)


main.add_command(bakeoff)
main.add_command(demo)
main.add_command(deploy)
main.add_command(faults)
main.add_command(lab)
main.add_command(load)
main.add_command(operate_commands)
main.add_command(queue_commands)
main.add_command(search)
main.add_command(size)
for _command in (*compare_commands, *role_commands):
    main.add_command(_command)
