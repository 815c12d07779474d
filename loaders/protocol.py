"""The seam between the open loop, which knows when, and a protocol, which knows how."""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable
from dataclasses import dataclass

from loaders.schedule import Group


class Answer(enum.Enum):
    """What one attempt came to."""

    ACKNOWLEDGED = "acknowledged"
    REJECTED = "rejected"
    """The server refuses these points; sending them again would not help."""
    FAILED = "failed"
    """No usable answer; another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of one attempt.

    Attributes:
        kind: short name to count errors by, such as "http_503" or "timeout"; "" if acknowledged.
        detail: one line for a person, with an excerpt of the server's answer.
    """

    answer: Answer
    kind: str = ""
    detail: str = ""


class Protocol(typing.Protocol):
    """One way of sending points to KairosDB."""

    async def send(self, group: Group, tick: int, on_reach: Callable[[], None]) -> Reply:
        """Make one attempt to send a group's points of a tick.

        Args:
            group: one of the worker's groups.
            tick: 0-based.
            on_reach: called before the first byte can leave. An attempt that never called it
                certainly did not reach the server, whatever went wrong.

        Never raises for trouble with the server or the network: that is an Answer.FAILED.
        """

    async def close(self) -> None:
        """Release connections."""
