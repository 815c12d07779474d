"""A stand-in for KairosDB that takes data points and throws them away.

It shows what the *loader* can do, and says nothing about KairosDB: it stores nothing, checks
nothing, and answers at once. It is made to cost little, as it shares the machine with the loader
that is measured against it: bodies are skipped by their length, never joined and never parsed.
Only with `--count` it reads every body, to say exactly how many data points came.

    python -m loaders.sink [--host 127.0.0.1] [--http PORT]… [--telnet PORT]… [--count]

listens on every port given (0: a free one; an option given twice stands for two KairosDB nodes)
and prints one line when it does: {"http": [port, …], "telnet": [port, …]}.

REST: `POST /api/v1/datapoints` (JSON, or gzip with `Content-Type: application/gzip`) is answered by
204, `GET /api/v1/version`, `/api/v1/health/check` and `/api/v1/health/status` as by KairosDB.
Telnet: lines are thrown away; `version` is answered, once everything before it has been read.

And for whoever measures: `GET /stats`, which gives the counters (see `Sink.stats`), and
`POST /stall?seconds=2.5`, which holds back all other answers and reads no telnet for so long from
then on (0 ends it).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs

VERSION = "KairosDB sink"

_DATAPOINTS = ("POST", "/api/v1/datapoints")
# How a stall is asked for and looked at: not held back by it.
_CONTROL = (("GET", "/stats"), ("POST", "/stall"))
_HEAD_END = b"\r\n\r\n"
_MOST_HEAD = 64 * 1024  # also the longest telnet line
_READ = 256 * 1024
_NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_PUTS = (b"\nput ", b"\nputm ", b"\nputs ")
_MOST_CACHED_HEADS = 1024
_LONGEST_STALL_S = 3600.0

# What is read is looked at before anything else is read, so all connections share one buffer.
_buffer = bytearray(_MOST_HEAD + _READ)
_view = memoryview(_buffer)


def points_in(body: bytes | bytearray) -> int:
    """Number of data points in the JSON body of a request, in either of KairosDB's forms.

    Raises:
        ValueError: it is not JSON, or not a metric or a list of metrics.
    """
    document = json.loads(body)
    metrics = document if isinstance(document, list) else [document]
    points = 0
    for metric in metrics:
        if not isinstance(metric, dict):
            raise ValueError(f"a metric must be an object, not {metric!r}")
        points += "timestamp" in metric and "value" in metric
        points += len(metric.get("datapoints", ()))
    return points


@dataclass(frozen=True, slots=True)
class _Head:
    """What the head of an HTTP request says."""

    target: tuple[str, str]  # method, path
    query: str
    length: int
    gzip: bool
    close: bool
    awaits_continue: bool
    refusal: tuple[HTTPStatus, str] | None


def _parse(head: bytes) -> _Head:
    """Read the head of a request; one that cannot be served has a refusal."""
    lines = head.decode("latin-1").split("\r\n")
    method, _, rest = lines[0].partition(" ")
    url, _, protocol = rest.partition(" ")
    path, _, query = url.partition("?")
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    length = fields.get("content-length", "" if method == "POST" else "0")
    refusal: tuple[HTTPStatus, str] | None = None
    if protocol not in ("HTTP/1.1", "HTTP/1.0"):
        refusal = HTTPStatus.BAD_REQUEST, "not HTTP/1.1"
    elif "transfer-encoding" in fields or (not length and path != "/stall"):
        refusal = HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed"
    elif length and not (length.isascii() and length.isdecimal()):
        refusal = HTTPStatus.BAD_REQUEST, "Content-Length is no number"
    connection = fields.get("connection", "").lower()
    close = "close" in connection or (protocol == "HTTP/1.0" and connection != "keep-alive")
    return _Head(
        target=(method, path),
        query=query,
        length=0 if refusal else int(length or 0),
        gzip=fields.get("content-type", "") == "application/gzip",
        close=close or refusal is not None,
        awaits_continue=fields.get("expect", "").lower() == "100-continue",
        refusal=refusal,
    )


def _response(status: HTTPStatus, document: Any = None, *, close: bool = False) -> bytes:
    body = b"" if document is None else json.dumps(document).encode()
    head = [f"HTTP/1.1 {status.value} {status.phrase}"]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if close:
        head.append("Connection: close")
    return "\r\n".join(head).encode() + _HEAD_END + body


class Sink:
    """Counters, and the switch that holds back answers; one for all connections."""

    def __init__(self, *, count: bool = False) -> None:
        """With `count`, every body is read for its number of data points."""
        self.count = count
        self.connections = 0
        self.requests = 0
        self.lines = 0
        self.points = 0
        self.bytes = 0
        self.heads: dict[bytes, _Head] = {}
        self.open: set[_Http | _Telnet] = set()
        self._resume: asyncio.TimerHandle | None = None

    @property
    def stalled(self) -> bool:
        """Whether answers are held back now."""
        return self._resume is not None

    def stall(self, seconds: float) -> None:
        """Hold back all answers, and read no telnet, for so long from now (0: no longer).

        Raises:
            ValueError: not between 0 and an hour.
        """
        if not 0 <= seconds <= _LONGEST_STALL_S:
            raise ValueError(f"seconds: must be 0 … {_LONGEST_STALL_S:g}, not {seconds:g}")
        if self._resume:
            self._resume.cancel()
        self._resume = asyncio.get_running_loop().call_later(seconds, self._go_on)
        for connection in self.open:
            connection.hold()

    def _go_on(self) -> None:
        self._resume = None
        for connection in self.open:
            connection.go_on()

    def stats(self) -> dict[str, Any]:
        """The counters since the start.

        `connections` that brought data points; `requests` to /api/v1/datapoints, read to their end;
        `lines` of telnet other than `version`; data `points` in both (None without `--count`);
        `bytes` of request bodies, as they were sent, and of telnet; `cpu_s` of this process.
        """
        return {
            "connections": self.connections,
            "requests": self.requests,
            "lines": self.lines,
            "points": self.points if self.count else None,
            "bytes": self.bytes,
            "cpu_s": time.process_time(),
        }

    def answer(self, head: _Head, body: bytearray) -> bytes:
        """What to answer to a request that is not one more body to throw away."""
        if head.refusal:
            status, why = head.refusal
            return _response(status, {"errors": [why]}, close=True)
        if head.target == _DATAPOINTS and self.count:
            try:
                self.points += points_in(gzip.decompress(body) if head.gzip else body)
            except (ValueError, OSError, EOFError, TypeError) as error:
                return _response(HTTPStatus.BAD_REQUEST, {"errors": [str(error)]}, close=head.close)
        status = HTTPStatus.OK
        document: Any = None
        match head.target:
            case "GET", "/api/v1/version":
                document = {"version": VERSION}
            case "GET", "/api/v1/health/status":
                document = ["JVM-Thread-Deadlock: OK", "Datastore-Query: OK"]
            case "GET", "/stats":
                document = self.stats()
            case ("GET", "/api/v1/health/check") | ("POST", "/api/v1/datapoints"):
                status = HTTPStatus.NO_CONTENT
            case "POST", "/stall":
                status = HTTPStatus.NO_CONTENT
                try:
                    self.stall(float(parse_qs(head.query)["seconds"][0]))
                except (KeyError, ValueError):
                    status = HTTPStatus.BAD_REQUEST
                    document = {"errors": ["seconds: 0 … 3600 are needed, as in ?seconds=2.5"]}
            case _:
                status, document = HTTPStatus.NOT_FOUND, {"errors": ["no such path in the sink"]}
        return _response(status, document, close=head.close)


class _Http(asyncio.BufferedProtocol):
    """One REST connection. Answers are in the order of the requests."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._transport: asyncio.Transport
        self._kept = b""  # the beginning of a head whose end has not come yet
        self._head: _Head | None = None
        self._left = 0  # bytes of the body to come
        self._body = bytearray()  # only if it is to be counted
        self._out = bytearray()  # answers not given yet
        self._counted = False
        self._ended = False  # the last request has been read: what comes now is nobody's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._sink.open.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._sink.open.discard(self)

    def get_buffer(self, _hint: int) -> memoryview:
        kept = len(self._kept)
        _buffer[:kept] = self._kept
        return _view[kept:]

    def buffer_updated(self, nbytes: int) -> None:
        end = len(self._kept) + nbytes
        self._kept = b""
        at = 0
        while at < end and not self._ended:
            if self._head is None:
                head_end = _buffer.find(_HEAD_END, at, end)
                if head_end < 0:
                    self._keep(at, end)
                    break
                self._begin(bytes(_buffer[at:head_end]))
                at = head_end + len(_HEAD_END)
            else:
                take = min(self._left, end - at)
                if self._sink.count:
                    self._body += _view[at : at + take]
                self._left -= take
                at += take
            if not self._left:
                self._finish()
        if self._out and not self._sink.stalled:
            self.go_on()

    def _keep(self, at: int, end: int) -> None:
        self._kept = bytes(_buffer[at:end])
        if len(self._kept) > _MOST_HEAD:
            self._transport.abort()

    def _begin(self, raw: bytes) -> None:
        """Take in a head. A loader's are alike, so most have been read before."""
        head = self._sink.heads.get(raw)
        if head is None:
            head = _parse(raw)
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
        if head.target == _DATAPOINTS and not head.refusal:
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


class _Telnet(asyncio.BufferedProtocol):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._transport: asyncio.Transport
        self._kept = b""  # the beginning of a line whose end has not come yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._sink.open.add(self)
        self._sink.connections += 1
        if self._sink.stalled:
            # Reading begins only after this call.
            asyncio.get_running_loop().call_soon(self.hold)

    def connection_lost(self, _error: Exception | None) -> None:
        self._sink.open.discard(self)

    def get_buffer(self, _hint: int) -> memoryview:
        # A newline before the first line, so that every line can be found by the one before it.
        first = 1 + len(self._kept)
        _buffer[:first] = b"\n" + self._kept
        return _view[first:]

    def buffer_updated(self, nbytes: int) -> None:
        sink = self._sink
        sink.bytes += nbytes
        end = 1 + len(self._kept) + nbytes
        last = _buffer.rfind(b"\n", 0, end)
        self._kept = bytes(_buffer[last + 1 : end])
        if len(self._kept) > _MOST_HEAD:
            self._transport.abort()
            return
        sink.lines += _buffer.count(b"\n", 1, last + 1)
        if sink.count:
            sink.points += sum(_buffer.count(put, 0, last + 1) for put in _PUTS)
        # One letter is found much faster than a word, and most often it is not there.
        if _buffer.find(b"v", 1, last) > 0:
            asked = _buffer.count(b"\nversion\n", 0, last + 1)
            asked += _buffer.count(b"\nversion\r\n", 0, last + 1)
            if asked:
                sink.lines -= asked
                self._transport.write(f"{VERSION}\n".encode() * asked)

    def hold(self) -> None:
        if self._sink.stalled:
            self._transport.pause_reading()

    def go_on(self) -> None:
        self._transport.resume_reading()


async def _serve(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sink = Sink(count=options.count)
    ports: dict[str, list[int]] = {"http": [], "telnet": []}
    for name, protocol, wanted in (
        ("http", _Http, options.http or [0]),
        ("telnet", _Telnet, options.telnet or [0]),
    ):
        for port in wanted:
            accept = functools.partial(protocol, sink)
            server = await loop.create_server(accept, options.host, port, backlog=1024)
            ports[name].append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    while not stop.is_set() and options.parent in (0, os.getppid()):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loaders.sink", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--http", type=int, action="append", metavar="PORT")
    parser.add_argument("--telnet", type=int, action="append", metavar="PORT")
    parser.add_argument("--count", action="store_true", help="read bodies to count data points")
    parser.add_argument("--parent", type=int, default=0, help="end when no longer a child of PID")
    try:
        asyncio.run(_serve(parser.parse_args(arguments)))
    except OSError as error:
        print(f"sink: {error}", file=sys.stderr)
        return 1
    return 0


class SinkProcess:
    """A sink in a process of its own. Use as `with SinkProcess() as sink`."""

    def __init__(
        self,
        *,
        count: bool = False,
        host: str = "127.0.0.1",
        http: Sequence[int] = (0,),
        telnet: Sequence[int] = (0,),
    ) -> None:
        """Start it and wait until it listens.

        Args:
            count: read all bodies to count data points.
            host: address to listen on.
            http: REST ports, one for each KairosDB node it stands for; 0 for a free one.
            telnet: telnet ports, likewise.

        Raises:
            RuntimeError: it did not start (a port is taken, say); it said why on stderr.
        """
        options = ["--host", host, "--parent", str(os.getpid())]
        options += [text for port in http for text in ("--http", str(port))]
        options += [text for port in telnet for text in ("--telnet", str(port))]
        if count:
            options.append("--count")
        self._host = host
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loaders.sink", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).resolve().parents[1],
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the sink did not start: exit status {self._process.wait()}")
        self._ports: dict[str, list[int]] = json.loads(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def urls(self) -> list[str]:
        """Base URL of each KairosDB node it stands for."""
        return [f"http://{self._host}:{port}" for port in self._ports["http"]]

    @property
    def url(self) -> str:
        """Base URL of the first one."""
        return self.urls[0]

    @property
    def telnets(self) -> list[str]:
        """ "host:port" of each KairosDB node's telnet port."""
        return [f"{self._host}:{port}" for port in self._ports["telnet"]]

    @property
    def telnet(self) -> str:
        """ "host:port" of the first one."""
        return self.telnets[0]

    def stats(self) -> dict[str, Any]:
        """The counters; see `Sink.stats`. OSError if it has ended."""
        with urllib.request.urlopen(f"{self.url}/stats", timeout=30) as answer:  # noqa: S310
            counters: dict[str, Any] = json.load(answer)
        return counters

    def cpu_s(self) -> float:
        """CPU seconds that it has used."""
        return float(self.stats()["cpu_s"])

    def stall(self, seconds: float) -> None:
        """Hold back all answers, and read no telnet, for so long from now (0: no longer)."""
        url = f"{self.url}/stall?seconds={seconds}"
        request = urllib.request.Request(url, method="POST")  # noqa: S310
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310

    def close(self) -> None:
        """End it, and wait for its end."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> SinkProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


if __name__ == "__main__":
    sys.exit(main())
