"""What a sink counts and answers, and the switch that holds back its answers."""

import asyncio
import gzip
import json
import time
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qs

from loaders.sink.request import Head, response

VERSION = "KairosDB sink"

DATAPOINTS = ("POST", "/api/v1/datapoints")
_LONGEST_STALL_S = 3600.0


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


class Connection(Protocol):
    """What a sink does with a connection."""

    def hold(self) -> None:
        """Give no answers from now on."""

    def go_on(self) -> None:
        """Give those that were held back."""


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
        self.heads: dict[bytes, Head] = {}
        self.open: set[Connection] = set()
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

    def answer(self, head: Head, body: bytearray) -> bytes:
        """What to answer to a request that is not one more body to throw away."""
        if head.refusal:
            status, why = head.refusal
            return response(status, {"errors": [why]}, close=True)
        if head.target == DATAPOINTS and self.count:
            try:
                self.points += points_in(gzip.decompress(body) if head.gzip else body)
            except (ValueError, OSError, EOFError, TypeError) as error:
                return response(HTTPStatus.BAD_REQUEST, {"errors": [str(error)]}, close=head.close)
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
        return response(status, document, close=head.close)
