"""A lean HTTP/1.1 client connection: one request at a time, a pre-made payload, a short answer.

The loader shares its machine with what it measures, and a general HTTP client spends more on a
request than everything else here together. Parsing is left to httptools (llhttp).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httptools

from loaders.credentials import Credentials

_NO_CREDENTIALS = Credentials()
_EXCERPT_BYTES = 300
# What KairosDB tells of its queue, or of each point that it refused, is longer than an excerpt.
_BODY_BYTES = 65_536
_LONGEST_NUMBER = 9
_FINAL = 200  # a lower status only announces the answer
_NO_BODY = (204, 304)


class BrokenAnswerError(Exception):
    """The server closed in the middle of an answer, or what it sent is not HTTP."""


@dataclass(frozen=True, slots=True)
class Response:
    """Status, the beginning of the body on one line, and what of the body was kept.

    `retry_after_s` is how long the server asks to be left alone for; 0 if it does not.
    """

    status: int
    excerpt: str
    body: bytes = field(default=b"", compare=False, repr=False)
    retry_after_s: int = 0


@dataclass(frozen=True)
class Address:
    """Where a base URL leads, and what it puts into every request."""

    host: str
    port: int
    tls: bool
    prefix: str = field(repr=False)
    credentials: Credentials = _NO_CREDENTIALS

    @classmethod
    def of(cls, url: str, credentials: Credentials | None = None) -> Address:
        """From a base URL such as "http://127.0.0.1:8080"; credentials are for HTTPS only."""
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        given = (credentials if tls else None) or _NO_CREDENTIALS
        headers = {"Host": parts.netloc} | given.headers
        prefix = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return cls(parts.hostname or "", parts.port or (443 if tls else 80), tls, prefix, given)


class HttpConnection(asyncio.Protocol):
    """One connection; `exchange` one request after the other, until it is no longer `usable`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._lost: Exception | None = None
        self._deadline = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self.usable = False
        self.idle_since = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._begun = self._sized = self._until_close = False
        self._body = b""
        self._retry_after_s = 0

    @classmethod
    async def connect(cls, address: Address) -> HttpConnection:
        """Open a connection. Raises OSError."""
        context = address.credentials.tls if address.tls else None
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, address.host, address.port, ssl=context)
        return connection

    @classmethod
    async def get(cls, address: Address, path: str, timeout_s: float) -> Response:
        """One GET on a connection of its own.

        Raises:
            BrokenAnswerError: half an answer, or none of HTTP.
            OSError: no connection, no answer, or none in time (TimeoutError).
        """
        async with asyncio.timeout(timeout_s):
            connection = await cls.connect(address)
            try:
                head = f"GET {path} HTTP/1.1\r\n{address.prefix}\r\n"
                return await connection.exchange(head.encode(), timeout_s)
            finally:
                connection.abort()

    async def exchange(self, payload: bytes, timeout_s: float) -> Response:
        """Send a whole request and wait for the answer.

        If the wait is cancelled or too long, the connection is cut: its answer would be taken for
        the next.

        Raises:
            BrokenAnswerError: half an answer, or none of HTTP.
            OSError: the connection was lost before an answer, or there was none in time
                (TimeoutError).
        """
        if self._lost or self._transport is None:
            raise self._lost or ConnectionResetError("closed by the server")
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._deadline = loop.time() + timeout_s
        if self._alarm is None:
            self._alarm = loop.call_at(self._deadline, self._ring)
        self._transport.write(payload)
        try:
            return await self._waiter
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiter = None

    def _ring(self) -> None:
        """Fail a request that has waited too long; one alarm serves many requests."""
        loop = asyncio.get_running_loop()
        self._alarm = None
        if self._waiter and loop.time() < self._deadline:
            self._alarm = loop.call_at(self._deadline, self._ring)
        elif self._waiter:
            self._fail(TimeoutError())

    def abort(self) -> None:
        """Cut the connection."""
        self.usable = False
        if self._transport:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.usable = True

    def data_received(self, data: bytes) -> None:
        """Parse what came; whole answers end in `on_message_complete`."""
        if self._waiter is None:
            self.abort()  # nothing was asked
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BrokenAnswerError(f"not HTTP: {error}"))
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request under way, if any; a body may end this way."""
        self.usable = False
        if self._alarm:
            self._alarm.cancel()
        if self._until_close and exc is None:
            self.on_message_complete()
        if self._begun and not self._until_close:
            self._lost = BrokenAnswerError("the connection ended in the middle of an answer")
        else:
            reason = exc or ConnectionResetError("closed by the server before an answer")
            self._lost = reason if isinstance(reason, OSError) else OSError(str(reason))
        self._fail(self._lost)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """The first bytes of an answer are there."""
        self._begun = True
        if self._waiter and self._waiter.done():
            self.abort()  # one answer too many, right behind the one that was asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note whether the answer says how long it is, and when to come again."""
        name = name.lower()
        self._sized |= name in (b"content-length", b"transfer-encoding")
        # It may be a date, too; KairosDB's is a number of seconds.
        if name == b"retry-after" and value.isdigit():
            self._retry_after_s = int(value[:_LONGEST_NUMBER])

    def on_headers_complete(self) -> None:
        """From here a body without a length ends with the connection."""
        status = self._parser.get_status_code()
        self._until_close = not self._sized and status >= _FINAL and status not in _NO_BODY

    def on_body(self, data: bytes) -> None:
        """Keep the beginning."""
        if len(self._body) < _BODY_BYTES:
            self._body += data[: _BODY_BYTES - len(self._body)]

    def on_message_complete(self) -> None:
        """Hand the answer to whoever waits, and be ready for the next request."""
        status = self._parser.get_status_code()
        if status >= _FINAL:
            excerpt = " ".join(self._body[:_EXCERPT_BYTES].decode(errors="replace").split())
            if not self._parser.should_keep_alive() or self._until_close:
                self.abort()
            if self._waiter and not self._waiter.done():
                self._waiter.set_result(Response(status, excerpt, self._body, self._retry_after_s))
        self._begun = self._sized = self._until_close = False
        self._body = b""
        self._retry_after_s = 0

    def _fail(self, error: Exception) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_exception(error)
