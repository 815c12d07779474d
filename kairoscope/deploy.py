"""Deploy and destroy a target: plan and inventory to files, then the one Ansible playbook."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from kairoscope import bundles, inventory, paths, preflight, supervisor
from kairoscope.aws import target as aws
from kairoscope.errors import UserError
from kairoscope.plan import Plan

HOSTS_ONLY = (
    "Target aws is hosts and an inventory so far: the roles that put ScyllaDB, KairosDB and "
    "loaders on hosts of their own are not built yet (docs/limits.md)."
)


def plan_file(target: str) -> Path:
    """The plan that a target was deployed with."""
    return paths.target_dir(target) / "plan.json"


def deployed_plan(target: str) -> Plan:
    """The plan that a target was deployed with. UserError if it is not deployed."""
    path = plan_file(target)
    if not path.exists():
        raise UserError(f"Target {target} is not deployed (no {path}). First: make deploy")
    return Plan.from_json(path.read_text())


def finished_file(target: str) -> Path:
    """There while what runs is what the plan says: from the end of a deploy to the next one."""
    return paths.target_dir(target) / "deployed"


def check_finished(target: str) -> None:
    """UserError if the last deploy did not end: what runs is then of two plans, or of neither."""
    if target == "aws":
        raise UserError(HOSTS_ONLY)
    if not finished_file(target).exists():
        raise UserError(f"The last deploy of target {target} did not finish. First: make deploy")


def check_shape(plan: Plan, target: str) -> None:
    """Refuse to deploy other nodes or addresses over a running deployment.

    KairosDB nodes may be added, as they know nothing of each other; one that is taken away would
    take along what waits in its queue. Loader hosts may come and go: nothing runs on them.
    """
    if not plan_file(target).exists():
        return
    if target == "local":
        # The nodes know each other, and their cluster's name, by these addresses.
        was_net = inventory.load(target).storage[0].address.rpartition(".")[0]
        if was_net != (net := inventory.local_net()):
            raise UserError(
                f"Target {target} is deployed on {was_net}.*, not on {net}.*: set "
                f"KAIROSCOPE_LOCAL_NET={was_net}, or first: make destroy TARGET={target}"
            )
    old, new = deployed_plan(target).experiment.cluster, plan.experiment.cluster
    for field in ("storage_nodes", "kairosdb_nodes", "replication_factor", "datacenter"):
        was, wanted = getattr(old, field), getattr(new, field)
        added = field == "kairosdb_nodes" and wanted > was
        if was != wanted and not added:
            raise UserError(
                f"Target {target} is deployed with {field} = {was}, the experiment wants {wanted}. "
                f"First: make destroy TARGET={target}"
            )


def deploy(plan: Plan) -> None:
    """Bring the target to what the plan says. Safe to run again, also after an interruption."""
    bundles.build()
    check_shape(plan, plan.target)
    folder = paths.target_dir(plan.target)
    first = not plan_file(plan.target).exists()
    try:
        inventory.write_local(plan)
        preflight.check_local(plan, inventory.load(plan.target))
    except UserError:
        if first:  # Nothing was started: leave nothing behind.
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # Not ours alone: it holds something else.
                paths.home().rmdir()
        raise
    # The shape is fixed from here on, even if this deploy is interrupted: what is half there was
    # started with it.
    finished_file(plan.target).unlink(missing_ok=True)
    plan_file(plan.target).write_text(plan.to_json())
    if supervisor.processes(folder / "supervisor") is None:
        # supervisord was killed: what it kept running has nobody to restart it, and its ports.
        supervisor.end_all(folder)
    playbook(plan.target, "deploy")
    finished_file(plan.target).touch()


def provision(plan: Plan, account: Path, backend: Path | None, console: Console) -> Path:
    """Bring target `aws` to the plan and write its inventory, whose path is returned.

    Safe to run again, also after an interruption.
    """
    check_shape(plan, plan.target)
    folder = paths.target_dir(plan.target)

    def begin() -> None:
        # The shape is fixed from here on, even if this deploy is interrupted.
        plan_file(plan.target).write_text(plan.to_json())

    made = aws.provision(plan, account, backend, console, begin)
    path = folder / "inventory.yml"
    inventory.write(path, made, "from Terraform's outputs")
    return path


def playbook(target: str, name: str) -> None:
    """Run a playbook on a target's inventory, its output shown. UserError if it fails."""
    tool = Path(sys.executable).parent / "ansible-playbook"
    done = subprocess.run(
        [
            str(tool),
            "-i",
            str(paths.target_dir(target) / "inventory.yml"),
            str(paths.ANSIBLE / "playbooks" / f"{name}.yml"),
        ],
        cwd=paths.ANSIBLE,
        env={**os.environ, "ANSIBLE_CONFIG": str(paths.ANSIBLE / "ansible.cfg")},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise UserError(
            f"The {name} playbook failed (exit status {done.returncode}); the task and its message "
            "are above. What was done stays; run it again once the cause is mended."
        )


def destroy(target: str) -> list[int]:
    """End every process of a target and remove its folder; the pids that were ended.

    Works on what is left of an interrupted deploy or destroy as well.
    """
    folder = paths.target_dir(target)
    ended = supervisor.end_all(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise UserError(f"Could not remove {folder}: remove it by hand.")
    return ended
