"""What a target was deployed with, as its folder says."""

import json
from pathlib import Path

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.plan import Plan


def plan_file(target: str) -> Path:
    """The plan that a target was deployed with."""
    return paths.target_dir(target) / "plan.json"


def deployed_plan(target: str) -> Plan:
    """The plan that a target was deployed with. UserError if it is not deployed."""
    path = plan_file(target)
    if not path.exists():
        raise UserError(f"Target {target} is not deployed (no {path}). First: make deploy")
    return Plan.from_json(path.read_text())


def deployed_engine(target: str, stack: str) -> str | None:
    """What a target was deployed to store in; None if it is not deployed, or does not tell, or with
    another stack than that."""
    return _told(target, "engine") if deployed_stack(target) == stack else None


def deployed_stack(target: str) -> str:
    """The system that a target was deployed with, as far as it tells."""
    return _told(target, "stack") or str(Plan.model_fields["stack"].default)


def _told(target: str, field: str) -> str | None:
    try:
        return str(json.loads(plan_file(target).read_text())[field])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def finished_file(target: str) -> Path:
    """There while what runs is what the plan says: from the end of a deploy to the next one."""
    return paths.target_dir(target) / "deployed"


def check_finished(target: str) -> None:
    """UserError if the last deploy did not end: what runs is then of two plans, or of neither."""
    if not finished_file(target).exists():
        raise UserError(f"The last deploy of target {target} did not finish. First: make deploy")
