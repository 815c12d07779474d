"""Backups that the storage hosts send by themselves: when, where to, for how long."""

import json
import re

from kairoscope import whole
from kairoscope.deploy import inventory_vars
from kairoscope.deploy.operate import s3
from kairoscope.deploy.operate.deployed import Deployed, changing
from kairoscope.errors import UserError

_VERB = "schedule-backups"
# Below it the deployment's bucket on AWS lets storage hosts write, and ends what is old
# (terraform/modules/results).
AWS_PREFIX = "backups/scheduled"


def schedule(target: Deployed, to: str | None, at: str, keep_days: int) -> None:
    """Have the storage hosts send a backup each day, all at the same moment.

    Args:
        target: deployed.
        to: s3://bucket/prefix, or a folder that is mounted on all storage hosts; None: on aws the
            deployment's bucket.
        at: hour and minute, UTC.
        keep_days: age at which a host removes what it sent to a folder; in S3 the bucket does.
    """
    with changing(target):
        where = _place(target, to)
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", at):
            raise UserError(f"--at {at}: give hour and minute, UTC, such as 03:00")
        target.refuse_unless_whole(_VERB)
        told = {"to": where, "at": at, "keep_days": keep_days}
        path = inventory_vars.backups_file(target.name)
        whole.record(path, json.dumps(told, indent=1) + "\n")
        # Deploys have it from their inventory.
        target.playbook(_VERB, operate_off=False, backups_file=str(path))
        target.say(
            f"{_VERB}: each day at {at} UTC to {where}/<time>; of one host now: systemctl start "
            "kairoscope-backup, its log: journalctl -u kairoscope-backup"
        )


def off(target: Deployed) -> None:
    """Have them send none any more; what they sent stays."""
    with changing(target):
        inventory_vars.backups_file(target.name).unlink(missing_ok=True)
        target.playbook(_VERB, operate_off=True)
        target.say(f"{_VERB}: the storage hosts send none any more; what they sent stays")


def _place(target: Deployed, to: str | None) -> str:
    """Where to, without a slash at its end."""
    given = target.inventory.storage[0].vars
    if to is None:
        if not (bucket := given.get("results_bucket")):
            raise UserError(
                f"{_VERB} needs --to (make: TO=): s3://bucket/prefix, or a folder that is mounted "
                "on all storage hosts"
            )
        return f"s3://{bucket}/{AWS_PREFIX}"
    if s3.is_address(to):
        if not re.fullmatch(r"s3://[a-z0-9.-]+/[\w./-]*\w", to.rstrip("/")):
            raise UserError(f"--to {to}: give s3://bucket/prefix")
    elif not re.fullmatch(r"/[\w./-]*\w", to.rstrip("/")):
        raise UserError(f"--to {to}: give s3://bucket/prefix, or the path of a folder on the hosts")
    return to.rstrip("/")
