"""Servers that speak KairosDB's ingest protocols and misbehave when told to."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from aiohttp import web


class Sink:
    """KairosDB's REST interface; records every point. Use as `async with Sink() as sink`.

    Attributes, to be changed at any time:
        status, body: the answer to each request with points.
        first: statuses of the first answers, before `status`.
        reset: cut the connection instead of answering (after having read the request).
        half: send half an answer, then cut the connection.
        delay_s: time before each answer.
        headers: of each answer to a request with points.
        healthy: what the health check says; None: there is none.
        waiting: points in the queue, as the status plugin tells; None: there is no plugin.
    What it got:
        points: {"name", "timestamp", "value", "tags"} in order of arrival.
        batches: the same by request.
        arrivals: when each request was there, epoch s.
        most_at_once: most requests that were under way at a time.
        kinds: content types.
        ports: of the loader's side: one for each connection.
        probes: requests for the health check.
        looks: requests for the depth of the queue.
    """

    def __init__(self) -> None:
        self.status = 204
        self.body = ""
        self.first: list[int] = []
        self.reset = False
        self.half = False
        self.delay_s = 0.0
        self.headers: dict[str, str] = {}
        self.healthy: bool | None = True
        self.waiting: int | None = None
        self.batches: list[list[dict[str, Any]]] = []
        self.arrivals: list[float] = []
        self.kinds: set[str] = set()
        self.ports: set[int] = set()
        self.most_at_once = 0
        self.probes = 0
        self.looks = 0
        self._at_once = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._port = 0
        self._site: web.TCPSite | None = None
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/api/v1/datapoints", self._datapoints)
        app.router.add_get("/api/v1/health/check", self._health)
        app.router.add_get("/api/v1/kairoscope/queue", self._queue)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def requests(self) -> int:
        return len(self.batches)

    @property
    def points(self) -> list[dict[str, Any]]:
        return [point for batch in self.batches for point in batch]

    async def __aenter__(self) -> Sink:
        self._loop = asyncio.get_running_loop()
        await self._runner.setup()
        await self.listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.resume()
        await self._runner.cleanup()

    async def listen(self) -> None:
        """Accept connections, on the same port as before."""
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await self._site.start()
        self._port = self._runner.addresses[0][1]

    async def refuse(self) -> None:
        """Close the listener and cut all connections: further ones are refused."""
        assert self._site and self._runner.server
        await self._site.stop()
        for connection in list(self._runner.server.connections):
            if connection.transport:
                connection.transport.abort()

    def stall(self) -> None:
        """Read requests, but hold back every answer until `resume`."""
        self._flowing.clear()

    def resume(self) -> None:
        """Give all answers held back; from any thread."""
        if self._loop:
            self._loop.call_soon_threadsafe(self._flowing.set)

    async def _datapoints(self, request: web.Request) -> web.Response:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await self._take(request)
        finally:
            self._at_once -= 1

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.kinds.add(request.content_type)
        assert request.transport
        self.ports.add(request.transport.get_extra_info("peername")[1])
        if request.content_type == "application/gzip":
            body = zlib.decompress(body, 31)
        self.arrivals.append(time.time())
        self.batches.append([point for metric in json.loads(body) for point in _points(metric)])
        status = self.first.pop(0) if self.first else self.status
        await asyncio.sleep(self.delay_s)
        await self._flowing.wait()
        if self.half:
            request.transport.write(b"HTTP/1.1 204 No Con")
            await asyncio.sleep(0.01)
        if self.reset or self.half:
            request.transport.abort()
        return web.Response(status=status, text=self.body or None, headers=self.headers)

    async def _health(self, _: web.Request) -> web.Response:
        self.probes += 1
        await self._flowing.wait()
        if self.healthy is None:
            raise web.HTTPNotFound
        return web.Response(status=204 if self.healthy else 500)

    async def _queue(self, _: web.Request) -> web.Response:
        self.looks += 1
        if self.waiting is None:
            raise web.HTTPNotFound
        # As long as it gets when the queue is in trouble.
        troubles = ["The disk is as good as full: " + "x" * 400]
        return web.json_response(
            {"troubles": troubles, "since_checkpoint": 0, "waiting": self.waiting}
        )


def _points(metric: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for timestamp, value in metric.pop("datapoints", None) or [
        (metric.pop("timestamp"), metric.pop("value"))
    ]:
        yield metric | {"timestamp": timestamp, "value": value}


class TelnetSink:
    """KairosDB's telnet interface; records every line. Use as `async with TelnetSink() as sink`.

    Attributes, to be changed at any time:
        mute: answer nothing.
        unknown: say of each line that its command is unknown.
    What it got:
        lines: whole lines but `version`, in order of arrival.
        halves: what was left of a line when its connection ended.
        versions: how often it was asked for the version.
        connections: how many there were.
    """

    def __init__(self) -> None:
        self.mute = False
        self.unknown = False
        self.lines: list[str] = []
        self.halves: list[str] = []
        self.versions = 0
        self.connections = 0
        self.stalled = False
        self.open: set[_TelnetConnection] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def points(self) -> list[dict[str, Any]]:
        return [_of_line(line) for line in self.lines]

    async def __aenter__(self) -> TelnetSink:
        await self.listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.refuse()

    async def listen(self) -> None:
        """Accept connections, on the same port as before."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # So that less is enough to fill what the kernel keeps for a server that does not read.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**17)
        listener.bind(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _TelnetConnection(self), sock=listener)

    async def refuse(self) -> None:
        """Close the listener and cut all connections: further ones are refused."""
        assert self._server
        self._server.close()
        self.cut()
        await asyncio.sleep(0)

    def cut(self) -> None:
        """Cut all connections."""
        for connection in list(self.open):
            connection.transport.abort()

    def stall(self) -> None:
        """Read nothing more until `resume`."""
        self.stalled = True
        for connection in self.open:
            connection.transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        self.stalled = False
        for connection in self.open:
            connection.transport.resume_reading()


class _TelnetConnection(asyncio.Protocol):
    def __init__(self, sink: TelnetSink) -> None:
        self.sink = sink
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.sink.connections += 1
        self.sink.open.add(self)
        if self.sink.stalled:
            asyncio.get_running_loop().call_soon(transport.pause_reading)

    def connection_lost(self, _: Exception | None) -> None:
        self.sink.open.discard(self)
        if self.rest:
            self.sink.halves.append(self.rest.decode())

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line == b"version":
                self.sink.versions += 1
                self.say("KairosDB sink\n")
            else:
                self.sink.lines.append(line.decode())
                if self.sink.unknown:
                    self.say(f"unknown command: {line.split()[0].decode()}.  Try `help'.\n")

    def say(self, text: str) -> None:
        if not self.sink.mute:
            self.transport.write(text.encode())


def _of_line(line: str) -> dict[str, Any]:
    """A line as KairosDB reads it."""
    verb, name, timestamp, value, *tags = line.split(" ")
    assert tags
    number = value if verb == "puts" else float(value) if "." in value else int(value)
    return {
        "name": name,
        "timestamp": int(timestamp),
        "value": number,
        "tags": dict(tag.split("=") for tag in tags),
    }


@contextmanager
def served() -> Iterator[Sink]:
    """A sink in a thread of its own, for tests that block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    sink = Sink()
    try:
        asyncio.run_coroutine_threadsafe(sink.__aenter__(), loop).result(10)
        try:
            yield sink
        finally:
            asyncio.run_coroutine_threadsafe(sink.__aexit__(None, None, None), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
