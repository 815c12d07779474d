"""The begin of a run: that the target is deployed as planned, and a folder with all that is known
before anything is sent."""

import platform
import shutil
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from kairoscope import __version__, paths, run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import provenance
from kairoscope.hosts.deployed import check_finished, deployed_plan
from kairoscope.hosts.inventory import Inventory
from kairoscope.plan import Plan
from kairoscope.run import faults, speed_probe, speeds, warmth
from kairoscope.run.current import CurrentRun
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.stack import Session


def check_deployed(plan: Plan, hosts: Inventory) -> None:
    """UserError if the target is not deployed as the plan has it."""
    deployed = deployed_plan(plan.target)
    check_finished(plan.target)
    for part in ("kairosdb", "storage"):
        was, wanted = getattr(deployed, part), getattr(plan, part)
        other = [k for k in wanted if was.get(k) != wanted[k]]
        if other:
            details = ", ".join(f"{k} is {was.get(k)}, wanted {wanted[k]}" for k in other[:4])
            whose = plan.roles.get(part, part)
            raise UserError(
                f"Target {plan.target} is deployed with other {whose} settings ({details}). "
                f"First: make deploy with the same EXPERIMENT=, SENSORS=, RATE=, DURATION=, ENGINE="
            )
    if len(hosts.loader) != plan.load["hosts"]:
        raise UserError(
            f"Target {plan.target} has {len(hosts.loader)} loader hosts, the plan wants "
            f"{plan.load['hosts']}. First: make deploy with the same EXPERIMENT="
        )


def open_folder(
    plan: Plan, hosts: Inventory, session: Session, into: Path, levers: faults.Levers | None
) -> CurrentRun:
    """Create the run folder with what is known before anything is sent.

    UserError if it cannot be filled, as with a full disk; there is none then.
    """
    now = time.time()
    folder = into / f"{run_folder.stamp(now)}-{plan.experiment.name}-{plan.target}"
    # What takes time comes before the folder, so that Ctrl-C leaves none, or one with a verdict.
    manifest = _manifest(plan, folder.name, now, hosts, session)
    folder.mkdir(parents=True)
    try:
        current = CurrentRun(folder, plan, hosts, now, _fill(folder, plan, manifest), levers)
        session.begin(folder, now, current.events)
        current.facts.incomplete += session.untold()
        current.save()
        latest, partial = into / "latest", into / ".latest"
        partial.unlink(missing_ok=True)
        partial.symlink_to(folder.name)
        partial.replace(latest)
    except BaseException as error:
        # It has no verdict, and nobody would give it one.
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise UserError(
                f"{folder} cannot be written ({error.strerror or error}); nothing was sent, and "
                "there is no run."
            ) from error
        raise
    return current


def _fill(folder: Path, plan: Plan, manifest: dict[str, Any]) -> JsonLines:
    """Write what is known of a run into its folder; what its events go into."""
    for sub in run_folder.SUBFOLDERS:
        (folder / sub).mkdir(parents=True)
    (folder / run_folder.PLAN).write_text(plan.to_json())
    (folder / run_folder.EXPERIMENT).write_text(
        yaml.safe_dump(plan.experiment.model_dump(mode="json"), sort_keys=False)
    )
    run_folder.write_json(folder / run_folder.MANIFEST, manifest)
    return JsonLines(folder / run_folder.EVENTS)


def _manifest(
    plan: Plan, run: str, now: float, hosts: Inventory, session: Session
) -> dict[str, Any]:
    return {
        "run": run,
        "experiment": plan.experiment.name,
        "target": plan.target,
        "started": datetime.fromtimestamp(now, UTC).isoformat(),
        "ended": None,
        "command": " ".join(sys.argv),
        "git": provenance.git(),
        "machine": provenance.this_machine(),
        "booted": provenance.booted(),
        "hosts": provenance.hosts(hosts) if hosts.managed else [],
        "nodes": {
            role: [host.name for host in getattr(hosts, role)] for role in ("kairosdb", "storage")
        },
        "captures": asdict(session.expected()),
        "versions": {
            "kairoscope": __version__,
            **session.versions(),
            "python": platform.python_version(),
        },
        "conditions": {
            **warmth.conditions(hosts, plan.target, paths.runs_dir(), session.waiting_now()),
            "speed": {
                "work": speed_probe.WORK,
                "before": speeds.of_machines(hosts),
                "after": {},
            },
        },
        "load": None,
    }
