"""The seam between the open loop, which knows when, and a protocol, which knows how."""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable
from dataclasses import dataclass

from loaders.schedule.due import Group


class Answer(enum.Enum):
    """What one attempt came to."""

    ACKNOWLEDGED = "acknowledged"
    HANDED_OVER = "handed over"
    """All bytes are on their way, and the protocol has no acknowledgement."""
    REJECTED = "rejected"
    """The server refuses these points; sending them again would not help."""
    PARTLY = "partly taken"
    """The server took some of these points and refuses the others, and need not say which: sending
    them again would tell no more."""
    FAILED = "failed"
    """No usable answer; another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of one attempt.

    Attributes:
        kind: short name to count errors by, such as "http_503" or "timeout"; "" if it succeeded.
        detail: one line for a person, with an excerpt of the server's answer.
        silent: the server gave no sign of life that makes sense: refused, reset, timed out, half an
            answer.
        unwilling: it lives, but takes nothing now (503): as good as silent if that goes on.
        retry_after_s: how long the server asks to be left alone for.
    """

    answer: Answer
    kind: str = ""
    detail: str = ""
    silent: bool = False
    unwilling: bool = False
    retry_after_s: float = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Points of one group that travel together: `count` ticks from `first`."""

    group: Group
    first: int
    count: int

    @property
    def points(self) -> int:
        return len(self.group.slots) * self.count

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class Protocol(typing.Protocol):
    """One way of sending points to a store."""

    async def send(self, node: int, batch: Batch, on_reach: Callable[[], None]) -> Reply:
        """Make one attempt to send a batch.

        Args:
            node: index into the spec's nodes; not always the group's own.
            batch: points of one of the worker's groups.
            on_reach: called before the first byte can leave. An attempt that never called it
                certainly did not reach the server, whatever went wrong.

        Never raises for trouble with the server or the network: that is an Answer.FAILED.
        """

    async def probe(self, node: int) -> bool:
        """Whether a node that was down serves again. Never raises for trouble with it."""

    async def healthy(self, node: int) -> bool | None:
        """What a node says of its own health; None if it says nothing. Never raises for trouble."""

    async def close(self) -> str:
        """Hand over what is still buffered, release connections; returns what went wrong, or ""."""
