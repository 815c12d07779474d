"""A target that verbs work on: what it was deployed with, its hosts, and looking at all of it."""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kairoscope.deploy import deploy
from kairoscope.deploy.building import run_time
from kairoscope.deploy.deploy import Deployment
from kairoscope.deploy.operate import cluster, safety
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation
from kairoscope.hosts.deployed import check_finished, deployed_plan
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan

STREAM_SECONDS = 86_400
"""Longest time for one step that moves data (cleanup, repair, decommission), in s. A node of 1 TB
takes hours; what ends earlier is noticed earlier."""
SETTLE_S = 180
"""For gossip, and for KairosDB to notice that its store is back."""
SHAPE = ("storage_nodes", "kairosdb_nodes", "loader_hosts", "replication_factor", "datacenter")
"""Fields of `cluster` that say which hosts there are, and which of them have a row."""


def towards(plan: Plan, verb: str, host: str = "", *, release: bool = True) -> Operation:
    """A verb that brings a target to a plan, and goes on with none that differs in its nodes.

    Nor in its release of ScyllaDB, unless the verb knows by itself (`release`) to which it may go.
    """
    shape = {name: getattr(plan.experiment.cluster, name) for name in SHAPE}
    if release and (version := plan.storage.get("scylla_version")):
        shape["scylla_version"] = version
    return Operation(verb, host, experiment=plan.experiment_file, shape=shape)


@dataclass(frozen=True)
class Deployed:
    """A deployed target whose hosts can be reached, and what its deploys are of."""

    of: Deployment

    @property
    def name(self) -> str:
        """As in TARGET=."""
        return self.of.target.name

    @property
    def plan(self) -> Plan:
        """The plan it was deployed with."""
        return deployed_plan(self.name)

    @property
    def inventory(self) -> Inventory:
        return inventory.load(self.name)

    def say(self, text: str) -> None:
        """Tell what is done."""
        self.of.console.print(text)

    def build(self) -> None:
        """Have the bundles that hosts get, as this checkout says. UserError if they cannot be."""
        with self.of.target.outside():
            run_time.build(with_java=True)

    def playbook(self, name: str, **variables: Any) -> None:
        """Run a playbook that changes no settings."""
        deploy.playbook(
            self.name, self.of.stack, name, operate_stream_seconds=STREAM_SECONDS, **variables
        )

    def deploy(
        self, plan: Plan, playbook: str = "deploy", *, limit: str = "", **variables: Any
    ) -> None:
        """Bring the prepared hosts to a plan, or those of a pattern of Ansible (`limit`)."""
        deploy.apply(
            plan,
            self.of.stack,
            playbook,
            limit=limit,
            operate_stream_seconds=STREAM_SECONDS,
            **variables,
        )

    def prepare(
        self,
        plan: Plan,
        let_go: str | None = None,
        *,
        without: Collection[str] = (),
        spared: Collection[str] = (),
    ) -> list[str]:
        """Have the hosts of a plan; the host `let_go` holds no data any more.

        The inventory gets none of those named `without`. Names of hosts that do not answer, where
        their role is `spared`.
        """
        options = replace(self.of.options, let_go=let_go, without=tuple(without))
        return deploy.prepare(plan, replace(self.of, options=options), spared)

    def given(self, host: Host) -> Host:
        """A host as what is given says it is now, of a target whose hosts others make: it may be
        another machine by then."""
        machines = self.of.target.provision(self.plan, self.of.options, self.say, lambda: None)
        for machine in machines.machines:
            if machine.name == host.name:
                now = {"address": machine.address, **machine.way, **machine.more}
                return Host(host.name, host.role, {**host.vars, **now})
        raise UserError(f"The inventory that is given has no host {host.name}.")

    def refuse_unless_whole(
        self, verb: str, *more: str, but: Collection[str] = (), starts_drained: bool = False
    ) -> None:
        """UserError unless all servers but some hosts' are well, and there is nothing `more`.

        `starts_drained`: the verb begins by starting a storage node that was drained, as it leaves
        one itself where it is interrupted.
        """
        self.say(f"{verb}: looking at every server …")
        here = self.inventory
        seen = cluster.look(here)
        if starts_drained and seen.drained:
            self.say(f"{verb}: first starts what was drained: {', '.join(sorted(seen.drained))}")
            but = {*but, *seen.drained}
        safety.refuse(verb, [*more, *safety.whole(here, seen, but)])

    def confirm(self, verb: str, but: Collection[str] = ()) -> None:
        """Look again, and say that all but some hosts are well. UserError if not in a while."""
        deadline = time.monotonic() + SETTLE_S
        here = self.inventory
        while problems := safety.whole(here, cluster.look(here), but):
            if time.monotonic() > deadline:
                listed = "".join(f"\n  {problem}" for problem in problems)
                raise UserError(f"{verb} was carried out, but then:{listed}")
            time.sleep(2)
        healthy = len([host for host in here.kairosdb if host.name not in but])
        self.say(
            f"{verb}: done; {len(here.storage)} storage nodes up and normal with one schema"
            + (f", {healthy} KairosDB nodes healthy" if healthy else "")
        )

    def end(self, verb: str) -> None:
        """`confirm`, and no command need go on with it. UserError as there."""
        self.confirm(verb)
        operation.end(self.name)


@contextmanager
def changing(
    target: Deployed,
    wanted: Operation | None = None,
    *,
    provisions: bool = False,
    whatever_deploy: bool = False,
    over: Collection[str] = (),
) -> Iterator[Operation | None]:
    """Nothing else changes the target meanwhile; the interrupted operation that is gone on with.

    `provisions`: the verb has hosts made or given back, for which something has to be given.
    `whatever_deploy`: the verb looks for itself at all that it needs, and may come in the middle of
    a deploy that cannot go on, as when a node died in it. `over`: verbs in the middle of which it
    may come as well.

    UserError if the target is not deployed, another operation is unfinished, the target is
    processes of this machine, or what has to be given is not.
    """
    deployed = target.inventory
    if not deployed.managed:
        raise UserError(
            f"Target {target.name} is processes of this machine, which a deploy or destroy serves "
            "better. Verbs are for hosts: TARGET=lab, aws or hosts"
        )
    if provisions:
        target.of.target.check_given(target.of.options)
    with operation.alone(target.name):
        unfinished = operation.check_none_unfinished(target.name, wanted, over)
        if unfinished is None and not whatever_deploy:
            check_finished(target.name)
        if unfinished:
            on = f", by `{wanted}` from there" if wanted and wanted.way != unfinished.way else ""
            target.say(f"going on with `{unfinished}`{on}")
        elif left := operation.unfinished(target.name):
            target.say(f"`{left}` is unfinished, and stays so meanwhile")
        yield unfinished
