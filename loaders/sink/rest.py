"""A REST connection to the sink."""

import asyncio
import contextlib

from loaders.sink.buffer import BUFFER, MOST_HEAD, VIEW
from loaders.sink.request import HEAD_END, Head, parse
from loaders.sink.sink import DATAPOINTS, Sink

# How a stall is asked for and looked at: not held back by it.
_CONTROL = (("GET", "/stats"), ("POST", "/stall"))
_NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_MOST_CACHED_HEADS = 1024


class Rest(asyncio.BufferedProtocol):
    """One REST connection. Answers are in the order of the requests."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._transport: asyncio.Transport
        self._kept = b""  # the beginning of a head whose end has not come yet
        self._head: Head | None = None
        self._left = 0  # bytes of the body to come
        self._body = bytearray()  # only if it is to be counted
        self._out = bytearray()  # answers not given yet
        self._counted = False
        self._ended = False  # the last request has been read: what comes now is nobody's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take part in what the sink does with all connections."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._sink.open.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        """Take part no more."""
        self._sink.open.discard(self)

    def get_buffer(self, _hint: int) -> memoryview:
        """Where the next bytes go: behind those that are kept."""
        kept = len(self._kept)
        BUFFER[:kept] = self._kept
        return VIEW[kept:]

    def buffer_updated(self, nbytes: int) -> None:
        """Look at what has come."""
        end = len(self._kept) + nbytes
        self._kept = b""
        at = 0
        while at < end and not self._ended:
            if self._head is None:
                head_end = BUFFER.find(HEAD_END, at, end)
                if head_end < 0:
                    self._keep(at, end)
                    break
                self._begin(bytes(BUFFER[at:head_end]))
                at = head_end + len(HEAD_END)
            else:
                take = min(self._left, end - at)
                if self._sink.count:
                    self._body += VIEW[at : at + take]
                self._left -= take
                at += take
            if not self._left:
                self._finish()
        if self._out and not self._sink.stalled:
            self.go_on()

    def _keep(self, at: int, end: int) -> None:
        self._kept = bytes(BUFFER[at:end])
        if len(self._kept) > MOST_HEAD:
            self._transport.abort()

    def _begin(self, raw: bytes) -> None:
        """Take in a head. A loader's are alike, so most have been read before."""
        head = self._sink.heads.get(raw)
        if head is None:
            head = parse(raw)
            if len(self._sink.heads) >= _MOST_CACHED_HEADS:
                self._sink.heads.clear()
            self._sink.heads[raw] = head
        self._head = head
        self._left = head.length
        if head.awaits_continue and self._left:
            self._out += _CONTINUE

    def _finish(self) -> None:
        """The whole request has been read."""
        head, sink = self._head, self._sink
        assert head is not None
        self._head = None
        self._ended = head.close
        if head.target == DATAPOINTS and not head.refusal:
            sink.requests += 1
            sink.bytes += head.length
            if not self._counted:
                self._counted = True
                sink.connections += 1
            if not (sink.count or head.close):
                self._out += _NO_CONTENT
                return
        at_once = head.target in _CONTROL and not self._out
        self._out += sink.answer(head, self._body)
        self._body.clear()
        if at_once:
            self.go_on()

    def hold(self) -> None:
        """Nothing to do: the switch is looked at before an answer is given."""

    def go_on(self) -> None:
        """Give the answers that were held back."""
        if self._out:
            self._transport.write(bytes(self._out))
            self._out.clear()
            if self._ended:
                # Not closed yet: bytes that nobody has read would turn the answer into a reset.
                with contextlib.suppress(OSError):
                    self._transport.write_eof()
