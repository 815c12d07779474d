"""Carries one request to its outcome: which node, connection slots, retries, giving up."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from loaders.record.tally import Outcome, Tally
from loaders.schedule.clock import Clock
from loaders.schedule.spec import LoadSpec
from loaders.send.failover import Failover
from loaders.send.protocol import Answer, Batch, Protocol

_FIRST_PAUSE_US = 50_000
_LONGEST_PAUSE_US = 1_000_000
REFUSED_IN_PART = "refused in part: "
"""Begins the reason of a request of which some points were taken, and others refused."""


# Not frozen: that is a microsecond of every request.
@dataclass(slots=True)
class Ending:
    """What became of a request.

    Attributes:
        reason: "" if the outcome is what the protocol gives when all is well.
        at_us: when it was settled, epoch µs.
        node: where it was due last.
        wait_us: how long it waited for connections, over all attempts.
        service_us: how long its last attempt took, from having a connection; None: there was none,
            or it was cut short.
    """

    outcome: Outcome
    reason: str
    at_us: int
    node: int
    wait_us: int
    service_us: int | None

    @property
    def arrived(self) -> bool:
        """Acknowledged or, over telnet, handed over: nothing went wrong, nothing is confirmed."""
        handed_over = self.outcome is Outcome.UNKNOWN and not self.reason
        return self.outcome is Outcome.ACKNOWLEDGED or handed_over

    @property
    def refused(self) -> bool:
        """The server refused all of it or some: no acknowledgement, however fast it comes."""
        return self.outcome is Outcome.REJECTED or self.reason.startswith(REFUSED_IN_PART)


@dataclass(slots=True)
class _Request:
    """What is known of a request under way; `node` is where it is due."""

    batch: Batch
    planned_us: int
    node: int | None = None
    holds: _Slots | None = None
    attempts: int = 0
    sent_to: int | None = None
    reason: str = ""
    retry_after_us: int = 0  # as its last answer asks for
    wait_us: int = 0
    service_us: int | None = None

    def release(self) -> None:
        if self.holds:
            self.holds.release()
            self.holds = None


class _Slots:
    """The connections that a worker may have to one node; requests beyond them wait in order."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: deque[asyncio.Future[bool]] = deque()

    def try_take(self) -> bool:
        if not self._free:
            return False
        self._free -= 1
        return True

    async def take(self) -> bool:
        """Wait for one; False if the wait was called off."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.release()
            raise

    def release(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(True)
                return
        self._free += 1

    def call_off(self) -> None:
        """Send all who wait away: they may look for another node."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(False)


class Delivery:
    """Sends the requests of one worker; any number may be under way at once.

    A node gets at most `connections_per_node` attempts at once; further requests wait in order.
    Their number is bounded by time: whatever has not had its first attempt within
    max(retry_for_s, request_timeout_s) of its planned time is given up.
    """

    def __init__(
        self, spec: LoadSpec, protocol: Protocol, failover: Failover, clock: Clock, tally: Tally
    ) -> None:
        self._protocol = protocol
        self._failover = failover
        self._clock = clock
        self._tally = tally
        self._retry_for_us = int(spec.retry_for_s * 1e6)
        self._patience_us = int(max(spec.retry_for_s, spec.request_timeout_s) * 1e6)
        self._slots = [_Slots(spec.connections_per_node) for _ in spec.nodes]

    def node_went_down(self, node: int) -> None:
        """What waits for this node's connections goes elsewhere."""
        self._tally.silences.node_went_down(node, self._clock.now_us())
        self._slots[node].call_off()

    async def deliver(self, batch: Batch, planned_us: int) -> Ending:
        """Send a batch, again if need be, until the outcome is final.

        Being cancelled is an outcome too: it means that the worker was stopped.

        Args:
            batch: points of one of the worker's groups.
            planned_us: planned send time, epoch µs.

        Returns:
            What became of it. The tally's counters of outcomes are left to the caller, but for
            those by node.
        """
        request = _Request(batch, planned_us)
        self._tally.silences.due(planned_us)
        try:
            outcome, reason = await self._attempts(request)
        except asyncio.CancelledError:
            reason = f"stopped; before that: {request.reason}" if request.reason else "stopped"
            outcome, reason = _given_up(request, reason)
        finally:
            request.release()
        if request.sent_to is not None:
            self._tally.sent_by_node[request.sent_to] += batch.points
            if outcome is Outcome.ACKNOWLEDGED:
                self._tally.acknowledged_by_node[request.sent_to] += batch.points
        node = batch.group.node if request.node is None else request.node
        now_us = self._clock.now_us()
        ending = Ending(outcome, reason, now_us, node, request.wait_us, request.service_us)
        self._tally.silences.settled(request.node, ending.at_us, arrived=ending.arrived)
        return ending

    async def _attempts(self, request: _Request) -> tuple[Outcome, str]:
        retry_until_us = request.planned_us + self._retry_for_us
        while True:
            first = not request.attempts
            until_us = request.planned_us + self._patience_us if first else retry_until_us
            if not await self._place(request, until_us):
                return _given_up(request, request.reason or "no connection was free in time")
            reached, answer = await self._attempt(request)
            if answer is Answer.ACKNOWLEDGED:
                return Outcome.ACKNOWLEDGED, ""
            if answer is Answer.HANDED_OVER:
                return Outcome.UNKNOWN, ""
            if answer is Answer.REJECTED:
                return Outcome.REJECTED, request.reason
            if answer is Answer.PARTLY:
                # Of each of its points it is not known whether it was taken or refused.
                return Outcome.UNKNOWN, REFUSED_IN_PART + request.reason

            left_us = retry_until_us - self._clock.now_us()
            if left_us <= 0:
                return _given_up(request, request.reason)
            # A node that nothing can reach keeps the slot taken, so that a long outage costs a
            # few attempts a second and not one for every request that waits. Any other failure
            # may be this request's own, and must not keep the others from being sent.
            if reached:
                request.release()
            doublings = min(request.attempts - 1, 8)
            pause_us = min(_FIRST_PAUSE_US * 2**doublings, _LONGEST_PAUSE_US)
            pause_us = max(pause_us, request.retry_after_us)
            await asyncio.sleep(min(pause_us, left_us) / 1e6)

    async def _place(self, request: _Request, until_us: int) -> bool:
        """Hold a connection slot of the node that is right now; False if there is none in time."""
        while self._clock.now_us() < until_us:
            node = self._failover.route(request.batch.group)
            self._move(request, node)
            slots = self._slots[node]
            if request.holds is not slots:
                request.release()
                if not slots.try_take() and not await self._wait(request, slots, until_us):
                    continue
                request.holds = slots
                if self._failover.route(request.batch.group) != node:
                    continue  # it went down, or came back, while this waited
            return True
        return False

    def _move(self, request: _Request, node: int) -> None:
        """From now on a request is due at this node."""
        if request.node is None:
            self._tally.silences.placed(node, request.planned_us)
        elif request.node != node:
            now_us = self._clock.now_us()
            self._tally.silences.moved(request.node, now_us)
            self._tally.silences.placed(node, now_us)
        request.node = node

    async def _wait(self, request: _Request, slots: _Slots, until_us: int) -> bool:
        began_us = self._clock.now_us()
        try:
            async with asyncio.timeout_at(self._clock.monotonic_s(until_us)):
                return await slots.take()
        except TimeoutError:
            return False
        finally:
            request.wait_us += self._clock.now_us() - began_us

    async def _attempt(self, request: _Request) -> tuple[bool, Answer]:
        """One attempt: whether it may have reached the server, and the answer."""
        node = request.node
        assert node is not None  # it was placed
        reached = False

        def on_reach() -> None:
            nonlocal reached
            reached = True
            if request.sent_to is None:
                self._tally.sent += request.batch.points
            request.sent_to = node

        request.attempts += 1
        if request.attempts > 1:
            self._tally.retries += 1
        self._failover.asked(node)
        request.service_us = None
        began_us = self._clock.now_us()
        reply = await self._protocol.send(node, request.batch, on_reach)
        request.service_us = self._clock.now_us() - began_us
        request.retry_after_us = int(reply.retry_after_s * 1e6)
        if reply.unwilling:
            self._failover.refused(node)
        elif not reply.silent:
            self._failover.answered(node)
        if reply.kind:
            request.reason = reply.detail
            self._tally.error(reply.kind, reply.detail)
        return reached, reply.answer


def _given_up(request: _Request, reason: str) -> tuple[Outcome, str]:
    return (Outcome.NOT_SENT if request.sent_to is None else Outcome.UNKNOWN), reason
