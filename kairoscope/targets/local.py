"""Target `local`: the servers are processes of this machine, on loopback addresses."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.experiment.faults import Fault
from kairoscope.hosts import inventory, supervisor, trouble
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.java import java17
from kairoscope.hosts.machines import Layout, Machine, Machines
from kairoscope.plan import Plan
from kairoscope.targets.target import Options, Say, Target


def local_net() -> str:
    """First three octets of the local target's addresses (`KAIROSCOPE_LOCAL_NET`)."""
    net = os.environ.get("KAIROSCOPE_LOCAL_NET", "127.0.0")
    octets = net.split(".")
    if not (re.fullmatch(r"127\.\d{1,3}\.\d{1,3}", net) and all(int(o) <= 255 for o in octets)):
        raise UserError(
            f"KAIROSCOPE_LOCAL_NET={net}: give the first three octets of a loopback network, "
            "e.g. 127.0.7"
        )
    return net


def _moved() -> tuple[Path, Path] | None:
    """Where the target's folder, and that of its bundles, were when it was deployed, if they have
    been moved since: its processes were started by these names."""
    if not inventory.file("local").exists():
        return None
    # What cannot be read does not keep a person from destroying.
    with contextlib.suppress(UserError, LookupError):
        told = inventory.load("local").all[0].vars
        state = Path(told["supervisor_dir"]).parent
        # Of a copy the first one is there still, and what runs is its own.
        if not (state / "inventory.yml").exists():
            return state, Path(told["bundles_dir"])
    return None


class Local(Target):
    """Processes of this machine, kept by supervisord; no root."""

    name = "local"
    shared = True
    thrown_away = True
    managed = False
    secured = False
    levers = ("kill", "freeze", "restart")

    def check_same(self) -> None:
        """The nodes know each other, and their cluster's name, by their addresses."""
        was_net = inventory.load(self.name).all[0].address.rpartition(".")[0]
        if was_net != (net := local_net()):
            raise UserError(
                f"Target {self.name} is deployed on {was_net}.*, not on {net}.*: set "
                f"KAIROSCOPE_LOCAL_NET={was_net}, or first: make destroy TARGET={self.name}"
            )

    def provision(
        self,
        plan: Plan,
        options: Options,
        say: Say,
        begin: Callable[[], None],
    ) -> Machines:
        """Loopback addresses; nothing is made."""
        net, cluster = local_net(), plan.experiment.cluster
        state, tools = paths.target_dir(self.name), Path(sys.executable).parent
        counts = {
            "storage": cluster.storage_nodes,
            "kairosdb": cluster.kairosdb_nodes,
            "loader": cluster.loader_hosts,
            "monitoring": int(self.watched(options)),
        }
        called = {**plan.roles, "loader": "loader", "monitoring": "monitoring"}
        return Machines(
            [
                Machine(f"{called[role]}-{i + 1}", role, f"{net}.{i + 1}", {})
                for role, count in counts.items()
                if role in called
                for i in range(count)
            ],
            cluster_name=f"kairoscope {net}",
            layout=Layout("supervisor", state / "opt", state, java17(), sys.executable),
            variables={
                "ansible_connection": "local",
                "supervisor_dir": str(state / "supervisor"),
                "supervisor_bin": str(tools),
                "supervisorctl": [
                    str(tools / "supervisorctl"),
                    "-c",
                    str(state / "supervisor" / "supervisord.conf"),
                ],
            },
        )

    def ready(self) -> None:
        """End what a killed supervisord kept running: nobody restarts it, and it has the ports."""
        folder = paths.target_dir(self.name)
        if supervisor.processes(folder / "supervisor") is None:
            supervisor.end_all(folder)

    def begin(self, fault: Fault, hosts: Sequence[Host]) -> None:
        """By signals and by supervisord."""
        acts = {"kill": trouble.kill, "freeze": trouble.freeze, "restart": trouble.restart}
        acts[fault.action](hosts)

    def undo(self, action: str, hosts: Sequence[Host]) -> None:
        """The same way; a loader that was killed has nobody who would start it again."""
        if action == "freeze":
            trouble.thaw(hosts)
        elif action == "kill":
            trouble.start(hosts)

    def destroy(self, say: Say) -> None:
        """End all processes."""
        ended = supervisor.end_all(paths.target_dir(self.name))
        if moved := _moved():
            ended += supervisor.end_all(moved[0], bundles=moved[1])
        say(f"target {self.name}: {len(ended)} processes ended, folder removed")
