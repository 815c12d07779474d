"""The verbs on target `aws`: plan, deploy and destroy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.plan import Plan
from kairoscope.targets.aws import guard, machines
from kairoscope.targets.aws.terraform import Terraform


def working_folder() -> Terraform:
    """Terraform in the target's folder."""
    return Terraform(paths.target_dir("aws") / "terraform")


def show(plan: Plan, account: Path, backend: Path | None, console: Console) -> None:
    """Show what a deploy would change in the account, and change nothing."""
    terraform = working_folder()
    found = _planned(terraform, plan, account, backend)
    _tell(found, plan, console)


def provision(
    plan: Plan,
    account: Path,
    backend: Path | None,
    console: Console,
    begin: Callable[[], None],
    let_go: str | None = None,
) -> dict[str, Any]:
    """Bring the account to the plan and return the inventory. Safe to run again.

    `begin` is called once the plan is known to be possible, before anything is changed. The host
    `let_go` holds no data any more and may be ended.
    """
    terraform = working_folder()
    found = _planned(terraform, plan, account, backend, let_go)
    _tell(found, plan, console)
    begin()
    terraform.apply()
    return machines.inventory(terraform.outputs(), plan)


def _planned(
    terraform: Terraform,
    plan: Plan,
    account: Path,
    backend: Path | None,
    let_go: str | None = None,
) -> dict[str, Any]:
    terraform.prepare(plan.terraform, account, backend)
    found = terraform.plan()
    guard.check(found, let_go)
    return found


def _tell(found: dict[str, Any], plan: Plan, console: Console) -> None:
    changes = guard.summary(found)
    console.print(
        f"{changes['create']} resources to create, {changes['update']} to change, "
        f"{changes['delete']} to delete; {plan.totals['usd_per_hour']:.2f} USD an hour while it "
        "stands (make cost)"
    )


def check_may_end(host: str) -> None:
    """UserError if the target is protected: AWS would not end the host, nor would Terraform."""
    terraform = working_folder()
    terraform.initialise()
    _check_unprotected(terraform, f"To end {host}", "the same command again")


def _check_unprotected(terraform: Terraform, purpose: str, then: str) -> None:
    if terraform.outputs().get("protect"):
        raise UserError(
            f"The target is protected (protect = true in the account's variables). {purpose}: set "
            f"protect = false, make deploy TARGET=aws, and then {then}"
        )


def destroy(console: Console) -> None:
    """Destroy everything that Terraform made for the target.

    UserError if the target is protected; nothing is destroyed then.
    """
    terraform = working_folder()
    if not terraform.exists:
        console.print("target aws: nothing is provisioned from here")
        return
    terraform.initialise()
    _check_unprotected(terraform, "To destroy it with all its data", "destroy")
    terraform.destroy()
    if left := terraform.resources():
        listed = "\n".join(f"  {address}" for address in left)
        raise UserError(f"Still there, and paid for:\n{listed}\nRun the same command again.")
    console.print("target aws: nothing is left of it in the account")
