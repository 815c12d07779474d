"""A server that speaks KairosDB's ingest API and misbehaves when told to."""

from __future__ import annotations

import asyncio
import json
import time
from types import TracebackType
from typing import Any

from aiohttp import web


class Sink:
    """Records every point it is sent. Use as `async with Sink() as sink`.

    Attributes, to be changed at any time:
        status, body: the answer to each request.
        reset: cut the connection instead of answering (after having read the request).
        keep: whether to parse and keep points; off for measuring the sender.
    What it got:
        points: {"name", "timestamp", "value", "tags"} in order of arrival.
        requests: how many.
    """

    def __init__(self) -> None:
        self.status = 204
        self.body = ""
        self.reset = False
        self.keep = True
        self.points: list[dict[str, Any]] = []
        self.arrivals: list[float] = []
        self.requests = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._port = 0
        self._site: web.TCPSite | None = None
        app = web.Application()
        app.router.add_post("/api/v1/datapoints", self._datapoints)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

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
        text = await request.read()
        self.requests += 1
        if self.keep:
            self.arrivals.append(time.time())
            self.points.extend(json.loads(text))
        await self._flowing.wait()
        if self.reset:
            assert request.transport
            request.transport.abort()
        return web.Response(status=self.status, text=self.body or None)


if __name__ == "__main__":

    async def _serve() -> None:
        async with Sink() as sink:
            sink.keep = False
            print(sink.url, flush=True)
            await asyncio.Event().wait()

    asyncio.run(_serve())
