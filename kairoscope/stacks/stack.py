"""What a stack is to those who deploy and run it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from kairoscope.hosts.machines import Layout, Machine, Machines
from kairoscope.plan import Plan
from kairoscope.plan.interfaces import Stack as Planned


class Brought(Protocol):
    """A server that the user brings, in place of a package."""

    @property
    def name(self) -> str:
        """Of its bundle and of its inventory variables."""

    @property
    def release(self) -> str:
        """Its version, as releases are named."""

    @property
    def folder(self) -> Path:
        """That it is in, here."""

    @property
    def parts(self) -> Iterable[str]:
        """What of the folder it runs with."""


class Stack(Planned, Protocol):
    """What stands on the hosts: all that deployment and run ask of it."""

    def brought(self, plan: Plan, shared: bool, given: Path | None) -> Any:
        """The user's own server that a plan is deployed with; None where it takes none.

        UserError if `given` is not what the plan wants, or one is wanted and not given.
        """

    def remember(self, target: str, server: Any) -> None:
        """Keep which of the user's servers a target is deployed with."""

    def fresh_tokens(self, plan: Plan, node: int) -> list[str]:
        """Tokens that the node of that number (from 0) of a fresh cluster is given."""

    def of_all(
        self, plan: Plan, machines: Machines, folders: Mapping[str, str], brought: Any
    ) -> dict[str, Any]:
        """Inventory variables of all hosts; `folders` has where each bundle lies there."""

    def of_machine(
        self, plan: Plan, machine: Machine, layout: Layout, brought: Any
    ) -> dict[str, Any]:
        """Inventory variables of one host that follow from its role."""
