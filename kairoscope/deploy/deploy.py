"""Deploy and destroy a target: plan and inventory to files, then the one Ansible playbook."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope import paths, releases
from kairoscope.deploy import bundles, inventory_vars, preflight
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, secrets, supervisor
from kairoscope.plan import Plan
from kairoscope.plan.derive import SHARED
from kairoscope.stacks.kairosdb import scylla_server
from kairoscope.stacks.kairosdb.scylla_server import Server
from kairoscope.stacks.kairosdb.storage import compression_problem
from kairoscope.targets import own
from kairoscope.targets.aws import target as aws
from kairoscope.targets.lab import target as lab_target


def plan_file(target: str) -> Path:
    """The plan that a target was deployed with."""
    return paths.target_dir(target) / "plan.json"


def deployed_plan(target: str) -> Plan:
    """The plan that a target was deployed with. UserError if it is not deployed."""
    path = plan_file(target)
    if not path.exists():
        raise UserError(f"Target {target} is not deployed (no {path}). First: make deploy")
    return Plan.from_json(path.read_text())


def deployed_engine(target: str) -> str | None:
    """What a target was deployed to store in; None if it is not deployed, or does not tell."""
    try:
        return str(json.loads(plan_file(target).read_text())["engine"])
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def finished_file(target: str) -> Path:
    """There while what runs is what the plan says: from the end of a deploy to the next one."""
    return paths.target_dir(target) / "deployed"


def check_finished(target: str) -> None:
    """UserError if the last deploy did not end: what runs is then of two plans, or of neither."""
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
    if (was := deployed_plan(target).engine) != plan.engine:
        raise UserError(
            f"Target {target} is deployed with {was}, the plan wants {plan.engine}: neither reads "
            f"the other's data. First: make destroy TARGET={target}"
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


@dataclass(frozen=True)
class Options:
    """What a deploy of some targets is told beside the plan.

    Fields:
        account: the AWS account's variables.
        backend: settings of an S3 backend of Terraform; without it the state is a file here.
        inventory: the hosts of target `hosts`.
        scylla: a ScyllaDB server of the user's: its maker's archive, or a folder with one.
        let_go: a host that holds no data any more, and may be given back.
    """

    account: Path
    backend: Path | None = None
    inventory: Path | None = None
    scylla: Path | None = None
    let_go: str | None = None


def deploy(plan: Plan, options: Options, console: Console) -> None:
    """Bring the target to what the plan says. Safe to run again, also after an interruption."""
    preflight.check_home()
    with operation.alone(plan.target):
        operation.check_none_unfinished(plan.target)
        check_shape(plan, plan.target)
        _server(plan, options)  # Refused before anything takes long.
        if plan.target in SHARED:
            preflight.check_shared(plan)
        bundles.build(with_java=plan.target != "local", console=console)
        prepare(plan, options, console)
        apply(plan, "deploy")


def _server(plan: Plan, options: Options) -> Server | None:
    """The user's own ScyllaDB server, where the plan stores in one.

    UserError where there is none, or it is not what the plan wants.
    """
    if plan.engine != "scylla" or plan.target not in SHARED:
        if options.scylla is not None:
            raise UserError(
                f"SCYLLA={options.scylla} is for ENGINE=scylla on targets {' and '.join(SHARED)}; "
                f"this is {plan.engine} on target {plan.target}. Leave it out, or change the two."
            )
        return None
    server = scylla_server.of(plan.target, options.scylla)
    wanted = plan.storage.get("scylla_version")
    if wanted is not None and not releases.same_release(server.version, wanted):
        raise UserError(
            f"The experiment wants ScyllaDB {wanted} (storage.scylla_version), {server.program} is "
            f"{server.version}. Leave the field out, or give a server of that release by SCYLLA=."
        )
    problem = compression_problem(plan.engine, plan.storage["compression"], server.release)
    if problem:
        raise UserError(f"storage.compression: {problem}")
    return server


def prepare(plan: Plan, options: Options, console: Console) -> None:
    """Have what a playbook needs: hosts that let us in, their inventory, the target's secrets."""
    server = _server(plan, options)
    if plan.target == "local":
        _prepare_local(plan, server)
    else:
        _prepare_hosts(plan, options, server, console)
        preflight.check_login(inventory.load(plan.target))
    if server:
        scylla_server.remember(plan.target, server)
    if plan.security["enabled"]:
        servers = inventory.load(plan.target).hosts
        secrets.ensure(plan.target, {host.name: host.known_as for host in servers})


def apply(plan: Plan, name: str, **variables: Any) -> None:
    """Bring prepared hosts to the plan by a playbook, `deploy` or one that has it in it."""
    _fix_shape(plan)
    playbook(plan.target, name, **variables)
    finished_file(plan.target).touch()


def _fix_shape(plan: Plan) -> None:
    """From here on the target has this plan, even if the deploy is interrupted: what is half there
    was started with it."""
    finished_file(plan.target).unlink(missing_ok=True)
    plan_file(plan.target).write_text(plan.to_json())


def provision(plan: Plan, options: Options, console: Console) -> Path:
    """Have a target's hosts, with nothing on them yet; the path of their inventory."""
    if plan.target == "local":
        raise UserError("Target local has no hosts to provision: its servers are processes here.")
    bundles.build(with_java=True, console=console)
    check_shape(plan, plan.target)
    _prepare_hosts(plan, options, _server(plan, options), console)
    return paths.target_dir(plan.target) / "inventory.yml"


def _prepare_local(plan: Plan, server: Server | None) -> None:
    folder = paths.target_dir(plan.target)
    first = not plan_file(plan.target).exists()
    try:
        inventory.write_local(plan, server)
        preflight.check_shared(plan)
    except UserError:
        if first:  # Nothing was started: leave nothing behind.
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # Not ours alone: it holds something else.
                paths.home().rmdir()
        raise
    if supervisor.processes(folder / "supervisor") is None:
        # supervisord was killed: what it kept running has nobody to restart it, and its ports.
        supervisor.end_all(folder)


def _prepare_hosts(plan: Plan, options: Options, server: Server | None, console: Console) -> None:
    """Have the hosts and their inventory."""
    folder = paths.target_dir(plan.target)
    origin = "from the plan"
    if plan.target == "lab":
        made = lab_target.provision(plan, server, console.print)
        lab_target.enter()
    elif plan.target == "aws":
        made = aws.provision(
            plan,
            options.account,
            options.backend,
            console,
            lambda: _fix_shape(plan),
            options.let_go,
        )
        origin = "from Terraform's outputs"
    else:
        if options.inventory is None:
            raise UserError("Target hosts needs INVENTORY=, a file that says where they are.")
        made = own.complete(plan, options.inventory)
        origin = f"from {options.inventory}"
    inventory.write(folder / "inventory.yml", made, origin)


def playbook(target: str, name: str, **variables: Any) -> None:
    """Run a playbook on a target's inventory, its output shown. UserError if it fails.

    `variables` are shown to whoever looks at the machine's processes: nothing secret.
    """
    tool = Path(sys.executable).parent / "ansible-playbook"
    done = subprocess.run(
        [
            str(tool),
            "-i",
            str(paths.target_dir(target) / "inventory.yml"),
            *(["--extra-vars", json.dumps(variables)] if variables else []),
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


def destroy(target: str, console: Console) -> None:
    """End a target with all its data; its runs and reports stay.

    Works on what is left of an interrupted deploy or destroy as well.
    """
    folder = paths.target_dir(target)
    if target == "hosts":
        raise UserError(
            "Target hosts is machines of your own: Kairoscope does not wipe them. Remove "
            f"{inventory_vars.STATE_DIR}, {inventory_vars.INSTALL_DIR} and the units there, then "
            f"{folder} here."
        )
    if target == "aws":
        aws.destroy(console)
    elif target == "lab":
        lab_target.lab().down()
        console.print("target lab: its hosts are gone")
    else:
        ended = supervisor.end_all(folder)
        console.print(f"target {target}: {len(ended)} processes ended, folder removed")
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise UserError(f"Could not remove {folder}: remove it by hand.")
    secrets.remove(target)
