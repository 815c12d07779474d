"""Carries one request to its outcome: connection slots, retries, giving up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from loaders.clock import Clock
from loaders.protocol import Answer, Protocol
from loaders.schedule import Group
from loaders.spec import LoadSpec
from loaders.tally import Outcome, Tally

_FIRST_PAUSE_US = 50_000
_LONGEST_PAUSE_US = 1_000_000


@dataclass
class _Request:
    """What is known of a request under way."""

    group: Group
    tick: int
    planned_us: int
    attempts: int = 0
    sent: bool = False
    reason: str = ""

    @property
    def points(self) -> int:
        return len(self.group.sensors)


class Delivery:
    """Sends the requests of one worker; any number may be under way at once.

    A node gets at most `connections_per_node` attempts at once; further requests wait in order.
    Their number is bounded by time: whatever has not had its first attempt within
    max(retry_for_s, request_timeout_s) of its planned time is given up.
    """

    def __init__(self, spec: LoadSpec, protocol: Protocol, clock: Clock, tally: Tally) -> None:
        """Share the worker's clock and counters."""
        self._protocol = protocol
        self._clock = clock
        self._tally = tally
        self._retry_for_us = int(spec.retry_for_s * 1e6)
        self._patience_us = int(max(spec.retry_for_s, spec.request_timeout_s) * 1e6)
        self._slots = [asyncio.Semaphore(spec.connections_per_node) for _ in spec.nodes]

    async def deliver(self, group: Group, tick: int, planned_us: int) -> tuple[Outcome, str]:
        """Send a group's points of a tick, again if need be, until the outcome is final.

        Being cancelled is an outcome too: it means that the worker was stopped.

        Args:
            group: one of the worker's groups.
            tick: 0-based.
            planned_us: planned send time, epoch µs.

        Returns:
            The outcome, and the reason if it is not ACKNOWLEDGED. The tally's counters of
            outcomes are left to the caller.
        """
        request = _Request(group, tick, planned_us)
        slot = _Slot(self._slots[group.node])
        try:
            return await self._attempts(request, slot)
        except asyncio.CancelledError:
            reason = f"stopped; before that: {request.reason}" if request.reason else "stopped"
            return _given_up(request, reason)
        finally:
            slot.release()

    async def _attempts(self, request: _Request, slot: _Slot) -> tuple[Outcome, str]:
        retry_until_us = request.planned_us + self._retry_for_us
        while True:
            first = not request.attempts
            until_us = request.planned_us + self._patience_us if first else retry_until_us
            if not await self._take(slot, until_us):
                return _given_up(request, request.reason or "no connection was free in time")
            reached, answer = await self._attempt(request)
            if answer is Answer.ACKNOWLEDGED:
                return Outcome.ACKNOWLEDGED, ""
            if answer is Answer.REJECTED:
                return Outcome.REJECTED, request.reason

            left_us = retry_until_us - self._clock.now_us()
            if left_us <= 0:
                return _given_up(request, request.reason)
            # A node that nothing can reach keeps the slot taken, so that a long outage costs a
            # few attempts a second and not one for every request that waits. Any other failure
            # may be this request's own, and must not keep the others from being sent.
            if reached:
                slot.release()
            doublings = min(request.attempts - 1, 8)
            pause_us = min(_FIRST_PAUSE_US * 2**doublings, _LONGEST_PAUSE_US)
            await asyncio.sleep(min(pause_us, left_us) / 1e6)

    async def _take(self, slot: _Slot, until_us: int) -> bool:
        """Hold a connection slot, waiting if need be; False if there was none before `until_us`."""
        if self._clock.now_us() >= until_us:
            return False
        if slot.taken:
            return True
        try:
            async with asyncio.timeout_at(self._clock.monotonic_s(until_us)):
                await slot.take()
        except TimeoutError:
            return False
        return True

    async def _attempt(self, request: _Request) -> tuple[bool, Answer]:
        """One attempt: whether it may have reached the server, and the answer."""
        reached = False

        def on_reach() -> None:
            nonlocal reached
            reached = True
            if not request.sent:
                request.sent = True
                self._tally.sent += request.points

        request.attempts += 1
        if request.attempts > 1:
            self._tally.retries += 1
        reply = await self._protocol.send(request.group, request.tick, on_reach)
        if reply.answer is not Answer.ACKNOWLEDGED:
            request.reason = reply.detail
            self._tally.error(reply.kind, reply.detail)
        return reached, reply.answer


class _Slot:
    """A request's claim to one connection of a node."""

    def __init__(self, pool: asyncio.Semaphore) -> None:
        self._pool = pool
        self.taken = False

    async def take(self) -> None:
        await self._pool.acquire()
        self.taken = True

    def release(self) -> None:
        if self.taken:
            self.taken = False
            self._pool.release()


def _given_up(request: _Request, reason: str) -> tuple[Outcome, str]:
    return (Outcome.UNKNOWN if request.sent else Outcome.NOT_SENT), reason
