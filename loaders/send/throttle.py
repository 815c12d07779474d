"""Holds a replay back while KairosDB has more waiting in its queue than it should.

KairosDB acknowledges a point when it is in its queue file, much faster than the store takes it.
History sent at that speed would only move the file from here to there.
"""

from __future__ import annotations

import asyncio
import json

from loaders.credentials import Credentials
from loaders.send.connection import Address, BrokenAnswerError, HttpConnection

_QUEUE = "/api/v1/kairoscope/queue"
_LOOK_S = 0.5
_TIMEOUT_S = 5.0


class Throttle:
    """`open` is set while all nodes have room; a node that does not tell does not count.

    It is not set before the first look: the queues may be full of something else.
    """

    def __init__(
        self, nodes: list[str], most_points: int, credentials: Credentials | None = None
    ) -> None:
        """Take `most_points` for each node's queue; 0 for not looking, and always open."""
        self._nodes = [Address.of(node, credentials) for node in nodes]
        self._most_points = most_points
        self.open = asyncio.Event()
        if not most_points:
            self.open.set()

    async def watch(self) -> None:
        """Look at the queues twice a second, until cancelled; returns at once if not wanted."""
        if not self._most_points:
            return
        while True:
            waiting = await asyncio.gather(*map(_waiting, self._nodes))
            if max(waiting) > self._most_points:
                self.open.clear()
            else:
                self.open.set()
            await asyncio.sleep(_LOOK_S)


async def _waiting(node: Address) -> int:
    try:
        response = await HttpConnection.get(node, _QUEUE, _TIMEOUT_S)
        return int(json.loads(response.body)["waiting"])
    except (OSError, BrokenAnswerError, ValueError, KeyError, TypeError):
        return 0
