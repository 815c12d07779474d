"""Deploy and destroy a target: plan and inventory to files, then the one Ansible playbook."""

import contextlib
import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope import interrupts, live, paths, whole
from kairoscope.deploy import inventory_vars, members, monitoring, preflight
from kairoscope.deploy.building import run_time
from kairoscope.errors import UserError
from kairoscope.hosts import ansible, inventory, operation, secret_files, ssh, steps
from kairoscope.hosts.deployed import deployed_plan, finished_file, plan_file
from kairoscope.hosts.inventory import Host
from kairoscope.plan import Plan
from kairoscope.stacks.stack import Stack
from kairoscope.targets.target import Options, Target

_ENDS_S = 15.0
"""Ansible ends its workers, and what these wait for, when it is interrupted."""


@dataclass(frozen=True)
class Deployment:
    """What a deploy is of beside its plan: where, what, and what both are told."""

    target: Target
    stack: Stack
    options: Options
    console: Console


def check_shape(plan: Plan, where: Target, stack: Stack) -> None:
    """Refuse to deploy other nodes or addresses over a running deployment, or settings that the
    stack has from its first deploy on.

    KairosDB nodes may be added, as they know nothing of each other; one that is taken away would
    take along what waits in its queue; but where its host could not be had (a quota) there is none,
    and whoever wanted it may give it up. Loader hosts may come and go: nothing runs on them.
    """
    target = where.name
    if not plan_file(target).exists():
        return
    where.check_same()
    if (was := deployed_plan(target).stack) != plan.stack:
        raise UserError(
            f"Target {target} is deployed with {was}, the experiment's stack is {plan.stack}. "
            f"First: make destroy TARGET={target}"
        )
    if (was := deployed_plan(target).engine) != plan.engine:
        raise UserError(
            f"Target {target} is deployed with {was}, the plan wants {plan.engine}: neither reads "
            f"the other's data. First: make destroy TARGET={target}"
        )
    old, new = deployed_plan(target).experiment.cluster, plan.experiment.cluster
    for field in ("storage_nodes", "kairosdb_nodes", "replication_factor", "datacenter"):
        was, wanted = getattr(old, field), getattr(new, field)
        least = was
        if field == "kairosdb_nodes" and inventory.file(target).exists():
            least = min(was, len(inventory.load(target).kairosdb))
        if was != wanted and not (field == "kairosdb_nodes" and wanted >= least):
            raise UserError(
                f"Target {target} is deployed with {field} = {was}, the experiment wants {wanted}. "
                f"First: make destroy TARGET={target}"
            )
    had = deployed_plan(target).kairosdb
    for name in stack.fixed:
        if had.get(name) != plan.kairosdb[name]:
            raise UserError(
                f"Target {target} is deployed with system.{name} = {had.get(name)}, which is what "
                f"its first deploy made it, and the experiment wants {plan.kairosdb[name]}. "
                f"First: make destroy TARGET={target}"
            )


def deploy(plan: Plan, of: Deployment) -> None:
    """Bring the target to what the plan says. Safe to run again, also after an interruption."""
    preflight.check_home()
    with operation.alone(plan.target):
        operation.check_none_unfinished(plan.target)
        check_shape(plan, of.target, of.stack)
        _check_given(plan, of)
        if of.target.shared:
            _check_here(plan, of)
            # It may be tried: what comes of it is judged.
            needs = of.stack.needs(plan)
            for notice in preflight.notices(plan, needs, of_hosts=of.target.managed):
                of.console.print(notice, soft_wrap=True, markup=False)
        with steps.told(plan.target) as told:
            told.stage("What is sent to the hosts")
            _bundles(of)
            told.stage("Hosts, logins, secrets")
            prepare(plan, of)
            apply(plan, of.stack, "deploy", told)


def _check_given(plan: Plan, of: Deployment) -> None:
    """Refuse what is not given, or does not fit, before anything takes long."""
    of.target.check_given(of.options, plan)
    _brought(plan, of)


def _brought(plan: Plan, of: Deployment) -> Any:
    """The user's own server that the plan is deployed with; None where it takes none."""
    return of.stack.brought(plan, of.target.shared, of.options.server)


def _bundles(of: Deployment) -> None:
    """Have what is sent to hosts; where they are reached there may be no way to get it."""
    jars = bool(of.stack.bundles)
    run_time.build(with_java=of.target.managed, jars=jars, console=of.console)
    of.stack.fetch(of.console)
    if of.target.watched(of.options):
        monitoring.fetch(of.console)


def prepare(plan: Plan, of: Deployment, spared: Collection[str] = ()) -> list[str]:
    """Have what a playbook needs: hosts that let us in, their inventory, the target's secrets.

    Names of the hosts of some roles, `spared`, that do not answer; UserError if another does not.
    """
    away: list[str] = []
    server = _brought(plan, of)
    _machines(plan, of, server)
    here = inventory.load(plan.target)
    if of.target.managed:
        # Before Ansible, and by plain ssh: the key of a new host is taken here, where the target
        # says so (accept-new). Mitogen (0.3.54, ssh.py) puts its own StrictHostKeyChecking before
        # what the inventory gives, and ssh heeds the first.
        away = preflight.check_login(here, of.target.boot_s, of.console.print, spared)
    of.target.ready()
    if server:
        of.stack.remember(plan.target, server)
    if plan.security["enabled"]:
        where = secret_files.ensure(
            plan.target,
            {host.name: host.known_as for host in here.hosts},
            lambda: _trusting(here, away),
        )
        secret_files.remember(plan.target, where)
    return away


def _trusting(here: inventory.Inventory, away: Collection[str]) -> list[str]:
    """Names of hosts that have the certificate of a CA from an earlier deploy, of those reached."""

    def has_one(host: Host) -> bool:
        found = ssh.look_for(host, f"{host.vars['pki_host_dir']}/ca.crt")
        if found.there is None:
            raise UserError(f"Whether it is deployed already is not known: {found.why}")
        return found.there

    if not here.managed:  # It lies in the target's own folder, and goes with it.
        return []
    asked = [h for h in here.hosts if "pki_host_dir" in h.vars and h.name not in away]
    found = ssh.on_all(asked, has_one)
    return [host.name for host, there in zip(asked, found, strict=True) if there]


def apply(
    plan: Plan,
    stack: Stack,
    name: str,
    told: steps.Told | None = None,
    *,
    limit: str = "",
    **variables: Any,
) -> None:
    """Bring prepared hosts to the plan by a playbook, `deploy` or one that has it in it; it says
    how far it is where that is `told`. With a `limit` the deploy is not finished by it."""
    _fix_shape(plan)
    playbook(plan.target, stack, name, told, limit=limit, **variables)
    if not limit:
        here = inventory.load(plan.target)
        members.note(plan.target, {host.name: host.address for host in here.storage})
        finished_file(plan.target).touch()


def _fix_shape(plan: Plan) -> None:
    """From here on the target has this plan, even if the deploy is interrupted: what is half there
    was started with it."""
    finished_file(plan.target).unlink(missing_ok=True)
    whole.record(plan_file(plan.target), plan.to_json())


def provision(plan: Plan, of: Deployment) -> Path:
    """Have a target's hosts, with nothing on them yet; the path of their inventory."""
    if not of.target.managed:
        raise UserError(
            f"Target {plan.target} has no hosts to provision: its servers are processes here."
        )
    preflight.check_home()
    with operation.alone(plan.target):
        operation.check_none_unfinished(plan.target)
        check_shape(plan, of.target, of.stack)
        _check_given(plan, of)
        _bundles(of)
        return _machines(plan, of, _brought(plan, of))


def servers_here(plan: Plan, target: Target, stack: Stack, options: Options) -> list[Host]:
    """The servers that would be processes of this machine itself, with their ports; all planned.

    None of a target that has hosts of its own.
    """
    if target.managed:
        return []
    machines = target.provision(plan, options, lambda _: None, lambda: None)
    common = {"secured": plan.security["enabled"]}
    found = []
    for each in machines.machines:
        of_role = stack.of_machine(plan, each, machines.layout, None)
        if machines.watched:
            of_role |= monitoring.of_machine(each, machines.layout)
        variables = {"address": each.address, **common, **of_role, **each.more}
        found.append(Host(each.name, each.group, variables))
    return found


def _check_here(plan: Plan, of: Deployment) -> None:
    """UserError if this machine cannot take the servers, as far as the plan alone says."""
    preflight.check_shared(plan, of.stack, servers_here(plan, of.target, of.stack, of.options))


def _machines(plan: Plan, of: Deployment, server: Any) -> Path:
    """Have the machines, and write their inventory; its path."""
    target, folder = of.target, paths.target_dir(plan.target)
    first = not plan_file(plan.target).exists()
    # One kernel for all hosts of this machine; once they are there, what runs there has its share.
    makes_hosts_here = target.shared and target.managed and first
    if makes_hosts_here and (problem := preflight.check_aio(of.stack.needs(plan))):
        raise UserError(f"This machine cannot take the hosts: {problem}")
    path = inventory.file(plan.target)
    there = members.read(plan.target)
    try:
        machines = target.provision(plan, of.options, of.console.print, lambda: _fix_shape(plan))
        deployed_to = [m for m in machines.machines if m.name not in of.options.without]
        machines = replace(machines, machines=deployed_to)
        made = inventory_vars.make(plan, machines, of.stack, server, shared=target.shared)
        if there:
            # Once an inventory of another deploy is written, nobody knows it by the last one.
            members.note(plan.target, there)
            members.check(plan.target, made, [*of.options.without, of.options.let_go or ""])
        inventory.write(path, made, machines.origin)
        if not target.managed:
            _check_here(plan, of)
    except UserError:
        if first and not target.managed:  # Nothing was started: leave nothing behind.
            shutil.rmtree(folder, ignore_errors=True)
            steps.forget(plan.target)
            with contextlib.suppress(OSError):  # Not ours alone: it holds something else.
                paths.home().rmdir()
        raise
    return path


def playbook(
    target: str,
    stack: Stack,
    name: str,
    told: steps.Told | None = None,
    *,
    limit: str = "",
    **variables: Any,
) -> None:
    """Run a playbook on a target's inventory, its output shown. UserError if it fails.

    On the hosts of a pattern of Ansible alone, if there is a `limit`. `variables` are shown to
    whoever looks at the machine's processes: nothing secret.
    """
    status = _run(
        [
            ansible.program("ansible-playbook"),
            "-i",
            str(inventory.file(target)),
            *(["--limit", limit] if limit else []),
            *(["--extra-vars", json.dumps(variables)] if variables else []),
            str(stack.playbooks / f"{name}.yml"),
        ],
        cwd=paths.ANSIBLE,
        env={
            **ansible.environment(),
            "ANSIBLE_CONFIG": str(paths.ANSIBLE / "ansible.cfg"),
            # For the callback `narrate`.
            **({"KAIROSCOPE_STEPS": str(told.path)} if told else {}),
        },
        stdin=subprocess.DEVNULL,
    )
    if status != 0:
        raise UserError(
            f"The {name} playbook failed (exit status {status}); the task and its message "
            "are above. What was done stays; run it again once the cause is mended."
        )


def _run(arguments: list[str], **how: Any) -> int:
    """Run a playbook, which ends with us, whoever is told to: one that went on by itself would
    change the target beside whatever comes next. Its exit status.

    If we are killed we tell it nothing, and it goes on: then it holds our locks to its end. Not so
    what it starts: Ansible and Mitogen let programs have no descriptor but their own (close_fds).

    A terminal's Ctrl-C is for us alone, and is passed on: told twice, Ansible breaks off its end.
    """
    process: subprocess.Popen[bytes] | None = None

    def told(*_: object) -> None:
        if process is not None:
            process.send_signal(signal.SIGINT)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, *interrupts.SIGNALS)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        # What we ignore it would ignore too, unless we do so by a handler.
        signal.signal(number, _nothing if handler is signal.SIG_IGN else told)
    try:
        process = subprocess.Popen(
            arguments, start_new_session=True, pass_fds=operation.held(), **how
        )
        try:
            return process.wait()
        except KeyboardInterrupt:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDS_S)
            process.kill()
            process.wait()
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _nothing(*_: object) -> None:
    """Of a signal that is ignored."""


def destroy(target: Target, console: Console, ask: Callable[[str], str]) -> None:
    """End a target with all its data; its runs and reports stay, and backups in S3.

    Works on what is left of an interrupted deploy or destroy as well. `ask` is what a person types
    who is told what to type; UserError if that is something else, where the target wants it, and
    while a load runs or a verb changes the target.
    """
    wanted = target.typed_to_destroy()
    if wanted is not None and ask(wanted) != wanted:
        raise UserError(
            f"Target {target.name} is the deployment {wanted}, with all its data; nothing was "
            f"destroyed. To mean it: make destroy TARGET={target.name} DEPLOYMENT={wanted}"
        )
    idle = operation.without_load(target.name, "its servers are what it measures")
    with operation.alone(target.name), idle:
        held = secret_files.folder(target.name)
        # Of others what ends them (Terraform) writes by itself.
        shown = console if target.shared else None
        with live.stage(shown, f"ending target {target.name}", usual="a minute at most"):
            target.destroy(console.print)
        folder = paths.target_dir(target.name)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise UserError(f"Could not remove {folder}: remove it by hand.")
        secret_files.remove(held)
