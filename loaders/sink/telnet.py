"""A telnet connection to the sink."""

import asyncio

from loaders.sink.buffer import BUFFER, MOST_HEAD, VIEW
from loaders.sink.sink import VERSION, Sink

_PUTS = (b"\nput ", b"\nputm ", b"\nputs ")


class Telnet(asyncio.BufferedProtocol):
    """One telnet connection, whose lines are counted and thrown away."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._transport: asyncio.Transport
        self._kept = b""  # the beginning of a line whose end has not come yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take part in what the sink does with all connections."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._sink.open.add(self)
        self._sink.connections += 1
        if self._sink.stalled:
            # Reading begins only after this call.
            asyncio.get_running_loop().call_soon(self.hold)

    def connection_lost(self, _error: Exception | None) -> None:
        """Take part no more."""
        self._sink.open.discard(self)

    def get_buffer(self, _hint: int) -> memoryview:
        """Where the next bytes go: behind those that are kept."""
        # A newline before the first line, so that every line can be found by the one before it.
        first = 1 + len(self._kept)
        BUFFER[:first] = b"\n" + self._kept
        return VIEW[first:]

    def buffer_updated(self, nbytes: int) -> None:
        """Look at what has come."""
        sink = self._sink
        sink.bytes += nbytes
        end = 1 + len(self._kept) + nbytes
        last = BUFFER.rfind(b"\n", 0, end)
        self._kept = bytes(BUFFER[last + 1 : end])
        if len(self._kept) > MOST_HEAD:
            self._transport.abort()
            return
        sink.lines += BUFFER.count(b"\n", 1, last + 1)
        if sink.count:
            sink.points += sum(BUFFER.count(put, 0, last + 1) for put in _PUTS)
        # One letter is found much faster than a word, and most often it is not there.
        if BUFFER.find(b"v", 1, last) > 0:
            asked = BUFFER.count(b"\nversion\n", 0, last + 1)
            asked += BUFFER.count(b"\nversion\r\n", 0, last + 1)
            if asked:
                sink.lines -= asked
                self._transport.write(f"{VERSION}\n".encode() * asked)

    def hold(self) -> None:
        """Read no more: telnet has no answers that could be held back."""
        if self._sink.stalled:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read on."""
        self._transport.resume_reading()
