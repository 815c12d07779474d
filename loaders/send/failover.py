"""Which KairosDB node gets a group's points: its own, or another while that one is down.

The rule, for each worker by itself: a node that was asked and has given no sign of life for
`failover_after_s` is down, if another one gave a sign, or was not asked, in the last half of that
time. (If none answers, the cause is elsewhere, and moving would bury the first one that is back
under the load of all. So the last node up is never given up.) An answer that it takes nothing now
(503) is no sign of life. A node whose health check has failed for so long is down, too, if that of
another one does not: a store that is away makes all of them fail, if not at the same moment.

While a node is down, its groups go to the nodes that are up, in turn, so that each takes an even
share and each series stays with one node. Once a second the node is probed; when it is healthy,
its groups come home at once. A node that is given up again soon after that is well for probes
alone: it is left for longer each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from loaders.record.files import NODE_DOWN, NODE_UP
from loaders.schedule.clock import Clock
from loaders.schedule.due import Group

_LOOK_S = 0.25
_PROBE_EVERY_US = 1_000_000
_RELAPSE_US = 60_000_000
"""Given up again within so long after it came back (and four times `failover_after_s`), a node is
well for probes alone."""
_FIRST_STAY_US, _LONGEST_STAY_US = 5_000_000, 60_000_000
"""Then it is left for so long, and twice as long each time, before it is probed again: its sensors
are without an answer for `failover_after_s` whenever they are sent home."""
# Of nodes that are up, by each worker: KairosDB's health check asks the store, at some cost.
_HEALTH_EVERY_S = 1.5


@dataclass(frozen=True)
class Event:
    """A node went down or came back: for the record."""

    t_us: int
    event: str
    node: int
    detail: str


@dataclass
class _Node:
    up: bool = True
    silent_since_us: int | None = None
    refuses: bool = False  # in place of silence it answered that it takes nothing
    unhealthy_since_us: int | None = None
    down_since_us: int = 0
    back_us: int | None = None
    stay_us: int = 0
    probed_us: int = 0


class Failover:
    """Routes groups to nodes, and watches who answers."""

    def __init__(
        self,
        nodes: int,
        after_s: float,
        clock: Clock,
        probe: Callable[[int], Awaitable[bool]],
        on_event: Callable[[Event], None],
        healthy: Callable[[int], Awaitable[bool | None]] | None = None,
    ) -> None:
        """All nodes are up; `on_event` is told of each change.

        `healthy` asks a node for its health, None if it says nothing of it; it is asked where there
        is another node to go to.
        """
        self._nodes = [_Node() for _ in range(nodes)]
        self._after_us = max(1, int(after_s * 1e6))
        self._clock = clock
        self._probe = probe
        self._on_event = on_event
        self._healthy = healthy if nodes > 1 else None
        self._up = list(range(nodes))
        self._down: list[int] = []

    def route(self, group: Group) -> int:
        """The node that a group's points go to now."""
        if self._nodes[group.node].up:
            return group.node
        # The groups of a worker take turns by node (`Schedule`), those without a node by themselves
        # too. Where the turns begin differs by worker, as the rest of a division is not even.
        turn = group.index // len(self._nodes) * len(self._down) + self._down.index(group.node)
        return self._up[(turn + group.worker) % len(self._up)]

    def asked(self, node: int) -> None:
        """A request is on its way to a node."""
        state = self._nodes[node]
        if state.silent_since_us is None:
            state.silent_since_us = self._clock.now_us()

    def answered(self, node: int) -> None:
        """A node gave a sign of life."""
        self._nodes[node].silent_since_us = None
        self._nodes[node].refuses = False

    def refused(self, node: int) -> None:
        """A node said that it takes nothing now."""
        self._nodes[node].refuses = True

    def checked(self, node: int, healthy: bool | None) -> None:
        """A node's health check said this; None for nothing, which counts as silence does."""
        state = self._nodes[node]
        if healthy is not False:
            state.unhealthy_since_us = None
        elif state.unhealthy_since_us is None:
            state.unhealthy_since_us = self._clock.now_us()

    async def watch(self) -> None:
        """Look for nodes that went down or came back, until cancelled or one of the looks fails."""
        if self._healthy is None:
            await self._watch_silence()
            return
        looks = [
            asyncio.create_task(self._watch_silence()),
            asyncio.create_task(self._watch_health(self._healthy)),
        ]
        try:
            await asyncio.gather(*looks)
        finally:
            for look in looks:
                look.cancel()

    async def _watch_health(self, healthy: Callable[[int], Awaitable[bool | None]]) -> None:
        async def check(node: int) -> None:
            self.checked(node, await healthy(node))

        while True:
            await asyncio.sleep(_HEALTH_EVERY_S)
            await asyncio.gather(*map(check, list(self._up)))

    async def _watch_silence(self) -> None:
        while True:
            before_us = self._clock.now_us()
            await asyncio.sleep(_LOOK_S)
            # If this process was held up itself, answers may lie here unread.
            if self._clock.now_us() - before_us < _LOOK_S * 1e6 + self._after_us / 2:
                self._look()
            await asyncio.gather(*map(self._probe_down, list(self._down)))

    async def _probe_down(self, index: int) -> None:
        node = self._nodes[index]
        now_us = self._clock.now_us()
        # With nobody else to go to, one that may take nothing is better than those that are silent.
        stay_us = node.stay_us if self._living(now_us) else 0
        if now_us - node.probed_us >= _PROBE_EVERY_US and now_us - node.down_since_us >= stay_us:
            node.probed_us = now_us
            if await self._probe(index):
                self._back(index)

    def _silent_us(self, index: int, now_us: int) -> int:
        return now_us - (self._nodes[index].silent_since_us or now_us)

    def _living(self, now_us: int) -> list[int]:
        """Nodes that are up and gave a sign of life, or were not asked."""
        longest_us = self._after_us // 2
        return [index for index in self._up if self._silent_us(index, now_us) <= longest_us]

    def _look(self) -> None:
        """Give up nodes that are silent or not healthy while another one is neither."""
        now_us = self._clock.now_us()
        silent_us = {index: self._silent_us(index, now_us) for index in self._up}
        sick_us = {
            index: now_us - (self._nodes[index].unhealthy_since_us or now_us) for index in self._up
        }
        living = self._living(now_us)
        well = [index for index in living if self._nodes[index].unhealthy_since_us is None]
        for index in list(self._up):
            if living and silent_us[index] >= self._after_us:
                how = "takes nothing" if self._nodes[index].refuses else "no answer"
                self._give_up(index, now_us, f"{how} for {silent_us[index] / 1e6:.1f} s")
            elif well and sick_us[index] >= self._after_us:
                self._give_up(index, now_us, f"not healthy for {sick_us[index] / 1e6:.1f} s")

    def _give_up(self, index: int, now_us: int, why: str) -> None:
        node = self._nodes[index]
        node.up = False
        relapse_us = max(_RELAPSE_US, 4 * self._after_us)
        if node.back_us is not None and now_us - node.back_us < relapse_us:
            node.stay_us = min(max(2 * node.stay_us, _FIRST_STAY_US), _LONGEST_STAY_US)
            why += f", again, so that it is left for {node.stay_us / 1e6:.0f} s"
        else:
            node.stay_us = 0
        node.down_since_us = node.probed_us = now_us
        self._changed()
        others = ", ".join(map(str, self._up))
        self._on_event(Event(now_us, NODE_DOWN, index, f"{why}; its sensors go to node {others}"))

    def _back(self, index: int) -> None:
        now_us = self._clock.now_us()
        node = self._nodes[index]
        node.up = True
        node.back_us = now_us
        node.silent_since_us = node.unhealthy_since_us = None
        node.refuses = False
        self._changed()
        detail = f"answers again after {(now_us - node.down_since_us) / 1e6:.1f} s"
        self._on_event(Event(now_us, NODE_UP, index, detail))

    def _changed(self) -> None:
        self._up = [index for index, node in enumerate(self._nodes) if node.up]
        self._down = [index for index, node in enumerate(self._nodes) if not node.up]
