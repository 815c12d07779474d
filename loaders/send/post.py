"""Batches by HTTP POST: connections, timeouts, health; what is posted and what an answer means is
of a protocol."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable
from dataclasses import dataclass

from loaders.credentials import Credentials
from loaders.schedule.due import Group, Schedule
from loaders.schedule.spec import LoadSpec
from loaders.send.connection import Address, BrokenAnswerError, HttpConnection, Response
from loaders.send.encode import Prepared
from loaders.send.protocol import Answer, Batch, Reply

_SUCCESS = range(200, 300)
_CLIENT_ERRORS = range(400, 500)
_SERVER_ERRORS = range(500, 600)
_UNAVAILABLE = 503
_LATER = 429
# Jetty closes connections that were idle for 30 s; a request must not meet that.
_KEEP_IDLE_S = 15.0
_PROBE_S = 2.0

_ACK = Reply(Answer.ACKNOWLEDGED)


@dataclass(frozen=True)
class Way:
    """What one protocol posts.

    Attributes:
        path: of the requests, with their query, where the specification has no other.
        content_type: of their bodies.
        encoder: makes what encodes the bodies of one group.
        health: path that says whether a node serves.
        took_some: whether the body of a refusal says that other points of the request were taken.
        pack: compresses a body; None to send it as it is.
        headers: others than of type and length, each with its line's end.
        acknowledged: the status that acknowledges.
    """

    path: str
    content_type: str
    encoder: Callable[[Schedule, Group], Prepared]
    health: str
    took_some: Callable[[bytes], bool]
    pack: Callable[[memoryview], bytes] | None = None
    headers: str = ""
    acknowledged: int = 204


def said_partly(spec: LoadSpec) -> Callable[[bytes], bool]:
    """`took_some` of a protocol that servers refuse in their own words: those of the load's."""
    words = spec.partly.encode()
    return lambda body: bool(words) and words in body


class Post:
    """Sends batches by POST; must be created inside a running event loop.

    The number of connections is not limited here: the caller makes no more attempts at once than
    it wants connections, and so knows what waited for a connection and what waited for the server.
    """

    def __init__(
        self,
        schedule: Schedule,
        groups: list[Group],
        way: Way,
        credentials: Credentials | None = None,
    ) -> None:
        """Prepare an encoder for each group; connections are opened when they are needed."""
        spec = schedule.spec
        self._way = way
        self._timeout_s = spec.request_timeout_s
        self._addresses = [Address.of(url, credentials) for url in spec.nodes]
        self._heads = [
            f"POST {spec.path or way.path} HTTP/1.1\r\n{address.prefix}"
            f"Content-Type: {way.content_type}\r\n{way.headers}Content-Length: "
            for address in self._addresses
        ]
        self._encoders = {group.index: way.encoder(schedule, group) for group in groups}
        self._idle: list[list[HttpConnection]] = [[] for _ in spec.nodes]

    async def send(self, node: int, batch: Batch, on_reach: Callable[[], None]) -> Reply:
        """Make one attempt; see `loaders.send.protocol.Protocol`."""
        try:
            connection = self._idle_connection(node)
            if connection is None:
                async with asyncio.timeout(self._timeout_s):
                    connection = await HttpConnection.connect(self._addresses[node])
            on_reach()
            response = await connection.exchange(self._payload(node, batch), self._timeout_s)
        except ConnectionRefusedError as error:
            return Reply(Answer.FAILED, "refused", _line(error), silent=True)
        except TimeoutError:
            limit = f"no answer within {self._timeout_s:g} s"
            return Reply(Answer.FAILED, "timeout", limit, silent=True)
        except BrokenAnswerError as error:
            return Reply(Answer.FAILED, "broken", _line(error), silent=True)
        except OSError as error:
            kind = "reset" if _was_open(error) else "connect"
            return Reply(Answer.FAILED, kind, _line(error), silent=True)
        self._keep(node, connection)
        return self._reply(response)

    async def probe(self, node: int) -> bool:
        """Whether the node says that it is healthy."""
        return await self.healthy(node) is True

    async def healthy(self, node: int) -> bool | None:
        """What the node's health check says; None for no answer, or one that says neither."""
        address = self._addresses[node]
        timeout_s = min(self._timeout_s, _PROBE_S)
        try:
            response = await HttpConnection.get(address, self._way.health, timeout_s)
        except (OSError, BrokenAnswerError):
            return None
        if response.status in _SUCCESS:
            return True
        return False if response.status in _SERVER_ERRORS else None

    async def close(self) -> str:
        """Cut the idle connections; nothing is buffered."""
        for idle in self._idle:
            for connection in idle:
                connection.abort()
        return ""

    def _payload(self, node: int, batch: Batch) -> bytes:
        encoded = self._encoders[batch.group.index].encode(batch.first, batch.count)
        body = encoded if self._way.pack is None else self._way.pack(encoded)
        head = f"{self._heads[node]}{len(body)}\r\n\r\n"
        return b"".join((head.encode(), body))

    def _idle_connection(self, node: int) -> HttpConnection | None:
        """The connection used last: so that a low load lets the others close."""
        idle = self._idle[node]
        while idle:
            connection = idle.pop()
            if connection.usable and time.monotonic() - connection.idle_since < _KEEP_IDLE_S:
                return connection
            connection.abort()
        return None

    def _keep(self, node: int, connection: HttpConnection) -> None:
        if connection.usable:
            connection.idle_since = time.monotonic()
            self._idle[node].append(connection)

    def _reply(self, response: Response) -> Reply:
        status = response.status
        if status == self._way.acknowledged:
            return _ACK
        # A status that is neither that nor 4xx (a proxy's page, say) confirms nothing and refuses
        # nothing; and 429 is "not now": nothing is wrong with the points, nor with the node.
        answer = Answer.FAILED
        if status in _CLIENT_ERRORS and status != _LATER:
            some = self._way.took_some(response.body)
            answer = Answer.PARTLY if some else Answer.REJECTED
        return Reply(
            answer,
            f"http_{status}",
            f"HTTP {status}: {response.excerpt}".rstrip(": "),
            unwilling=status == _UNAVAILABLE,
            retry_after_s=response.retry_after_s,
        )


def _was_open(error: OSError) -> bool:
    return isinstance(error, ConnectionError) or error.errno in (errno.EPIPE, errno.ECONNRESET)


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
