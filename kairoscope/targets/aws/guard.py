"""Refuses a Terraform plan that would destroy data, before anything of it is carried out."""

import re
from collections.abc import Collection, Iterator
from typing import Any

from kairoscope.errors import UserError

# What holds data: storage nodes on their local disks, KairosDB's queues, and the results.
_HOLDERS = (
    ("module.storage.", "aws_instance", "the data on its local disks is lost"),
    ("module.kairosdb.", "aws_ebs_volume", "points that wait in its queue are lost"),
    ("module.results.", "aws_s3_bucket", "results and backups are lost"),
)
_NO_BASTION = (
    ". The bastion is gone as well, and without it replace reaches no host. Before it: {way_in}"
)
_NEVER_FINISHED = (
    ". The last deploy did not finish: if none of this target ever has, and replace is refused as "
    "the other storage nodes do not answer, there is no data yet: make destroy TARGET=aws, then "
    "make deploy"
)
# A change of these in place stops the instance, and local disks come back empty.
_STOPPING = ("instance_type", "cpu_options", "ebs_optimized", "user_data")


def check(
    plan: dict[str, Any],
    let_go: str | None = None,
    deployed: Collection[str] = (),
    *,
    known: Collection[str] | None = None,
    without: Collection[str] = (),
    finished: bool = True,
    way_in: str = "",
    untaint: str = "",
) -> None:
    """UserError if the plan (`terraform show -json`) destroys what holds data, naming each.

    The host `let_go` holds none any more: it and its disks may be deleted, or made anew where they
    are gone. Another of the storage nodes that were `deployed` may not be made: it would be empty,
    and the others wait for the one that it is not. A KairosDB host that is not `known`, as it never
    got into an inventory, was never deployed to, and may be deleted; so may any host that a verb
    goes on `without`, which has not joined, or has left. While no deploy has `finished` the others
    may not be there to take its place among, and what helps then is said too; and so is the
    `way_in` to them where the bastion is gone as well, which no verb makes by itself. Nor may what
    was deployed be replaced as it is tainted: a `replace` that did not come to its end has left
    that, and the command `untaint` keeps it.
    """
    if gone := [name for name in _made(plan) if name in deployed and name != let_go]:
        raise UserError(
            f"{', '.join(gone)}: AWS has no such instance any more, so its data is gone with it. "
            "An empty one cannot join beside the dead node: nothing was changed. First: "
            + "; ".join(f"make operate VERB=replace TARGET=aws LIMIT={name}" for name in gone)
            + (_NO_BASTION.format(way_in=way_in) if _makes_bastion(plan) else "")
            + ("" if finished else _NEVER_FINISHED)
        )
    losses = list(_losses(plan, let_go, known, without, untaint))
    if losses:
        listed = "\n".join(f"  {address}: {what}" for address, what in losses)
        raise UserError(
            f"This plan would destroy data, so nothing was changed:\n{listed}\n"
            "Put back what the target was deployed with, or first: make destroy TARGET=aws"
        )


def _made(plan: dict[str, Any]) -> Iterator[str]:
    """Storage nodes that the plan makes, and does not replace."""
    for resource in plan.get("resource_changes", []):
        address, kind = resource["address"], resource["type"]
        made = resource["change"]["actions"] == ["create"]
        if made and kind == "aws_instance" and address.startswith("module.storage."):
            yield address.split('"')[1]


def _makes_bastion(plan: dict[str, Any]) -> bool:
    return any(
        resource["address"].startswith("module.access.module.bastion[")
        and resource["type"] == "aws_instance"
        and resource["change"]["actions"] == ["create"]
        for resource in plan.get("resource_changes", [])
    )


def in_the_way(
    plan: dict[str, Any], known: Collection[str] | None = None, without: Collection[str] = ()
) -> list[str]:
    """Addresses of the guards (terraform/modules/protection) that protect nothing: of hosts whose
    instance is gone, or which hold nothing (`_holds_nothing`) and go.

    Each goes with its host, or with the id of its instance, and refuses that. Nor does `protect =
    false` help: a guard that goes is asked by what it was told before (Terraform 1.11.4).
    """
    changes = plan.get("resource_changes", [])
    gone = {
        resource["address"].removesuffix(".aws_instance.host")
        for resource in changes
        if resource["type"] == "aws_instance" and resource["change"]["actions"] == ["create"]
    }
    return [
        resource["address"]
        for resource in changes
        if resource["type"] == "terraform_data"
        and "delete" in resource["change"]["actions"]
        and resource["change"]["before"]["input"]["protect"]
        and (
            resource["address"].partition(".module.protection[")[0] in gone
            or _holds_nothing(resource, known, without)
        )
    ]


def _holds_nothing(
    resource: dict[str, Any], known: Collection[str] | None, without: Collection[str]
) -> bool:
    """Whether something is deleted that is of a host that is gone on `without`, or of a KairosDB
    host which no inventory has had.

    Of a storage host this machine's inventory is not enough to go by: it may have joined from
    another checkout.
    """
    found = re.match(r'module\.(\w+)\.module\.node\["([^"]+)"\]\.', resource["address"])
    if not found or resource["change"]["actions"] != ["delete"]:
        return False
    role, name = found.groups()
    return name in without or (role == "kairosdb" and known is not None and name not in known)


def _losses(
    plan: dict[str, Any],
    let_go: str | None,
    known: Collection[str] | None,
    without: Collection[str],
    untaint: str,
) -> Iterator[tuple[str, str]]:
    for resource in plan.get("resource_changes", []):
        address, kind, change = resource["address"], resource["type"], resource["change"]
        for module, holder, what in _HOLDERS:
            if not address.startswith(module) or kind != holder:
                continue
            if resource.get("action_reason") == "replace_because_tainted":
                name = address.split('"')[1] if '"' in address else ""
                # Where it was never deployed to its making was interrupted, or failed.
                if known is not None and name != let_go and (not name or name in known):
                    yield address, f"tainted; {what}. If it is well: {untaint} '{address}'"
                continue
            if let_go and f'["{let_go}"]' in address and change["actions"] == ["delete"]:
                continue
            if _holds_nothing(resource, known, without):
                continue
            if "delete" in change["actions"]:
                yield address, f"deleted or replaced; {what}"
            elif change["actions"] == ["update"] and kind == "aws_instance":
                before, after = change["before"], change["after"]
                changed = [key for key in _STOPPING if before.get(key) != after.get(key)]
                if changed:
                    yield address, f"stopped to change {', '.join(changed)}; {what}"


def summary(plan: dict[str, Any]) -> dict[str, int]:
    """Resources that the plan creates, changes and deletes; a replaced one counts in two."""
    found = {"create": 0, "update": 0, "delete": 0}
    for resource in plan.get("resource_changes", []):
        for action in resource["change"]["actions"]:
            if action in found:
                found[action] += 1
    return found
