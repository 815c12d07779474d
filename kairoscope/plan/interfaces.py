"""What the arithmetic asks of the target and of the stack that a plan is for.

Both come as objects: the plan is the same for all of them. Targets are in `kairoscope.targets`,
stacks in `kairoscope.stacks`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kairoscope.plan.draft import Draft


class Target(Protocol):
    """Where the servers will run."""

    @property
    def name(self) -> str:
        """As in TARGET=."""

    @property
    def shared(self) -> bool:
        """Whether all servers share the cores and the memory of this machine."""

    @property
    def secured(self) -> bool:
        """Whether TLS and logins are on unless the experiment says otherwise."""

    @property
    def levers(self) -> Sequence[str]:
        """Actions of `experiment.faults` that it can carry out."""

    def lacks(self, action: str, on: str, engine: str, *, secured: bool) -> str:
        """Why it cannot carry out one of `levers` on a host or group; "" if it can."""

    def shape(self, draft: Draft) -> None:
        """Refuse what cannot be had there; UserError if nothing can be computed then."""

    def shards(self, draft: Draft) -> int | None:
        """Record the shards of a storage node; None where the machines do not say."""

    def queue_disk(self, draft: Draft) -> tuple[int, str]:
        """Most that a KairosDB node's disk has for its queue, in MiB, and what says so."""

    def settings(self, draft: Draft, load: dict[str, Any], *, secured: bool) -> dict[str, Any]:
        """What its maker (Terraform) is told; {} where there is none. Refuses a bad fit."""


class Servers(Protocol):
    """A stack's servers as far as they are planned before the load is."""

    @property
    def settings(self) -> dict[str, Any]:
        """Final values for the servers that take points."""

    @property
    def held_s(self) -> float:
        """How long a point is kept before it is written, while all is well, in s."""


class Stack(Protocol):
    """What stands there."""

    @property
    def name(self) -> str:
        """Of the system under test."""

    @property
    def roles(self) -> Mapping[str, str]:
        """What its servers are called, by their group of the inventory: those that take points are
        in `kairosdb`, those that only store in `storage`, where it has such."""

    @property
    def title(self) -> str:
        """As its makers write it."""

    @property
    def taker(self) -> str:
        """A server that takes points, in words, such as "KairosDB node"."""

    @property
    def unused(self) -> Sequence[str]:
        """Sections and settings of an experiment that mean nothing to it; no plan shows them."""

    @property
    def protocols(self) -> Sequence[str]:
        """Of `load.protocol`, that it speaks."""

    @property
    def write_paths(self) -> Mapping[str, str]:
        """Where requests of a protocol go there, with their query, if not to its own path."""

    @property
    def partly(self) -> str:
        """What it says in a refusal by HTTP (4xx) where other points of the request were taken; ""
        where it takes a request whole or not at all, or the protocol knows."""

    def engine(self, target: Target) -> str:
        """What stores on a target, unless the experiment says otherwise. UserError if the stack
        cannot be deployed there."""

    def shards(self, draft: Draft) -> int:
        """Shards of a storage node where neither experiment nor target says; 0: it has none."""

    def servers(self, draft: Draft) -> Servers:
        """Record the settings of the servers that take points."""

    def store(self, draft: Draft, servers: Any, now_s: float) -> dict[str, Any]:
        """Record the settings of the store and what the run takes of disk and CPU; its final
        values. `servers` as `servers` gave it, `now_s` in epoch s.

        Of `draft.totals`, `disk_bytes` must be set."""

    def notices(self, draft: Draft, target: Target, servers: Any) -> None:
        """Record what to know of the stack before starting."""
