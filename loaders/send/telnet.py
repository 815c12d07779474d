"""KairosDB's telnet interface: `put` and `putm`, a line for each point, as in 2018.

It acknowledges nothing. A batch counts as handed over when the kernel has all of its bytes; what
the server makes of them only read-back tells. At the end `version`, which KairosDB answers after
all that came before on the connection, shows that nothing was cut off by closing.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable

from loaders.schedule.due import Group, Schedule
from loaders.send.encode import Encoder, Prepared, telnet_text
from loaders.send.protocol import Answer, Batch, Reply

_HANDED_OVER = Reply(Answer.HANDED_OVER)
_PROBE_S = 2.0
# Whoever stopped a worker does not wait for ever.
_LONGEST_CLOSE_S = 10.0
# All that KairosDB ever says but the answer to `version`; a bad line it only logs.
_COMPLAINT = b"unknown command"
_LONGEST_LINE = 200


class Connection(asyncio.Protocol):
    """To one node: tells when the kernel has taken what was written, and when the server has read
    it."""

    def __init__(self, on_complaint: Callable[[str], object]) -> None:
        self._on_complaint = on_complaint
        self._heard = b""
        self.transport: asyncio.Transport | None = None
        self.lost: Exception | None = None
        self.closed = False  # by the server, in order
        self._written: deque[asyncio.Future[None]] = deque()
        self._blocked = False
        self._said: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # Told of the first byte that the kernel does not take.
        transport.set_write_buffer_limits(high=0)

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        self._blocked = True

    def resume_writing(self) -> None:
        """The kernel has taken all."""
        self._blocked = False
        while self._written:
            waiter = self._written.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def data_received(self, data: bytes) -> None:
        """The server says something, which is a complaint or the answer to `version`."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            if line.startswith(_COMPLAINT):
                self._on_complaint(line[:_LONGEST_LINE].decode(errors="replace").strip())
            elif not self._said.done():
                self._said.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, whoever has ended it."""
        self.closed = exc is None and self.lost is None
        self.lost = self.lost or exc or ConnectionResetError("closed by the server")
        for waiter in (*self._written, self._said):
            if not waiter.done():
                waiter.set_exception(self.lost)
                waiter.exception()  # nobody need be waiting
        self._written.clear()

    async def write(self, data: bytes) -> None:
        """Until the kernel has all of it. Raises OSError if the connection is lost."""
        self._check()
        assert self.transport is not None
        self.transport.write(data)
        # A connection that is being closed takes bytes without a word, and throws them away.
        self._check()
        if self._blocked:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._written.append(waiter)
            await waiter

    def _check(self) -> None:
        if self.lost:
            raise self.lost
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("closed by the server")

    async def processed(self) -> None:
        """Until the server has dealt with all that was written. Raises OSError."""
        self._said = asyncio.get_running_loop().create_future()
        await self.write(b"version\n")
        await self._said

    def cut(self) -> None:
        """End it at once, whatever is on its way."""
        self.lost = self.lost or ConnectionResetError("closed by the loader")
        if self.transport:
            self.transport.abort()


class Telnet:
    """Sends batches as lines, over one connection to each node."""

    kind = Connection

    def __init__(self, schedule: Schedule, groups: list[Group]) -> None:
        """Prepare an encoder for each group; connections are opened when they are needed."""
        spec = schedule.spec
        self._of_its_own = spec.connection_per_request
        self._timeout_s = spec.request_timeout_s
        self._addresses = [address.rsplit(":", 1) for address in spec.telnet]
        self._complaints: dict[int, str] = {}  # the first of each node
        self._encoders = {group.index: self.encoder(schedule, group) for group in groups}
        self._connections: list[Connection | None] = [None] * len(self._addresses)
        self._opening = [asyncio.Lock() for _ in self._addresses]

    def encoder(self, schedule: Schedule, group: Group) -> Prepared:
        """What makes the bytes of a group's requests."""
        return Encoder(schedule, group, telnet_text)

    async def send(self, node: int, batch: Batch, on_reach: Callable[[], None]) -> Reply:
        """Make one attempt; see `loaders.send.protocol.Protocol`."""
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                opens = self._open if self._of_its_own else self._connection
                connection = await opens(node)
                on_reach()
                body = self._encoders[batch.group.index].encode(batch.first, batch.count)
                await connection.write(bytes(body))
                if self._of_its_own:
                    await connection.processed()
        except ConnectionRefusedError as error:
            return Reply(Answer.FAILED, "refused", _line(error), silent=True)
        except TimeoutError:
            # What is given up must neither pile up here nor be sent some time later all the same.
            if connection:
                connection.cut()
            limit = f"not taken within {self._timeout_s:g} s"
            return Reply(Answer.FAILED, "timeout", limit, silent=True)
        except OSError as error:
            kind = "reset" if connection else "connect"
            return Reply(Answer.FAILED, kind, _line(error), silent=True)
        finally:
            if connection and self._of_its_own:
                connection.cut()
        return _HANDED_OVER

    async def probe(self, node: int) -> bool:
        """Whether the node answers `version`, or closes a connection that we have ended."""
        try:
            async with asyncio.timeout(_PROBE_S):
                connection = await self._open(node)
                try:
                    await connection.processed()
                finally:
                    connection.cut()
        except OSError:
            return False
        return True

    async def healthy(self, node: int) -> bool | None:
        """Nothing: it has no word for that."""
        return None

    async def close(self) -> str:
        """Wait until the servers have dealt with everything, then close."""
        nodes = range(len(self._connections))
        return "; ".join(filter(None, await asyncio.gather(*map(self._end, nodes))))

    async def _end(self, node: int) -> str:
        """Close the connection to a node; returns what went wrong there, or ""."""
        problems = []
        connection = self._connections[node]
        if connection and not connection.lost:
            try:
                async with asyncio.timeout(min(self._timeout_s, _LONGEST_CLOSE_S)):
                    await connection.processed()
            except OSError as error:
                problems.append(f"node {node} did not confirm the end: {_line(error)}")
            connection.cut()
        if node in self._complaints:
            problems.append(f"node {node} said: {self._complaints[node]}")
        return "; ".join(problems)

    async def _connection(self, node: int) -> Connection:
        async with self._opening[node]:
            connection = self._connections[node]
            if connection is None or connection.lost:
                connection = self._connections[node] = await self._open(node)
            return connection

    async def _open(self, node: int) -> Connection:
        host, port = self._addresses[node]

        def connection() -> Connection:
            return self.kind(functools.partial(self._complaints.setdefault, node))

        loop = asyncio.get_running_loop()
        _, opened = await loop.create_connection(connection, host.strip("[]"), int(port))
        return opened


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
