"""What a target hands over to be deployed to: machines, and where things lie on them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Machine:
    """One machine: `group` is its role, `way` how Ansible reaches it, `more` other variables."""

    name: str
    group: str
    address: str
    way: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """Where things lie on a target's machines, and what keeps servers running there.

    Attributes:
        service_manager: `systemd`, or `supervisor` where the servers are processes of this machine.
        install_dir: run-time bundles are unpacked below it.
        state_dir: a folder for each server is below it.
        java: the machines' own; None where ours is sent along.
        python: what runs our programs there.
    """

    service_manager: str
    install_dir: Path
    state_dir: Path
    java: str | None
    python: str

    @property
    def managed(self) -> bool:
        """Whether they are hosts of their own, with systemd and users, reached over SSH."""
        return self.service_manager == "systemd"

    def home(self, name: str) -> str:
        """Folder of a server."""
        return str(self.state_dir / name)


SYSTEMD = Layout(
    "systemd",
    Path("/opt/kairoscope"),
    Path("/var/lib/kairoscope"),
    java=None,
    python="/usr/bin/python3",
)
"""Of every host of its own, wherever it is."""


@dataclass(frozen=True)
class Machines:
    """All that a target hands over.

    Attributes:
        machines: in the order of their numbers.
        cluster_name: of the storage nodes.
        layout: the same on all machines.
        variables: inventory variables of all hosts that only this target has; over the usual ones.
        origin: where they are from, for the head of the inventory.
    """

    machines: list[Machine]
    cluster_name: str
    layout: Layout = SYSTEMD
    variables: dict[str, Any] = field(default_factory=dict)
    origin: str = "from the plan"

    @property
    def watched(self) -> bool:
        """Whether one of them watches the others, which then tell their figures."""
        return any(machine.group == "monitoring" for machine in self.machines)
