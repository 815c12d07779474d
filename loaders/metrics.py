"""A loader host's figures for Prometheus, over HTTP, as long as its load runs.

What they are of is the last progress record of each worker, which is made once a second anyway: a
look costs the load nothing, and any number of readers sees the same.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

FAMILIES: Mapping[str, tuple[str, str, float, str]] = {
    "due": (
        "kairoscope_loader_due_points_total",
        "counter",
        1,
        "Points whose planned time has come.",
    ),
    "sent": ("kairoscope_loader_sent_points_total", "counter", 1, "Points that were sent."),
    "acknowledged": (
        "kairoscope_loader_acknowledged_points_total",
        "counter",
        1,
        "Points that were acknowledged; over telnet handed over.",
    ),
    "in_time": (
        "kairoscope_loader_in_time_points_total",
        "counter",
        1,
        "Points after the warm-up that were acknowledged within the limit of their planned time.",
    ),
    "rejected": (
        "kairoscope_loader_rejected_points_total",
        "counter",
        1,
        "Points that were refused.",
    ),
    "unknown": (
        "kairoscope_loader_unknown_points_total",
        "counter",
        1,
        "Points that were sent and never answered.",
    ),
    "not_sent": (
        "kairoscope_loader_not_sent_points_total",
        "counter",
        1,
        "Points that were given up before they were sent.",
    ),
    "in_flight": (
        "kairoscope_loader_in_flight_points",
        "gauge",
        1,
        "Points that left the schedule and have no outcome yet.",
    ),
    "behind_ms": (
        "kairoscope_loader_behind_seconds",
        "gauge",
        1e-3,
        "How late the latest request of the last second began: past the limit a run is invalid.",
    ),
    "p99_ms": (
        "kairoscope_loader_latency_p99_seconds",
        "gauge",
        1e-3,
        "99th percentile from the planned send time, of the last second.",
    ),
}
"""What of a progress record is told: family, type, factor to its unit, and help."""


def exposition(records: Iterable[Mapping[str, Any]]) -> str:
    """The last progress record of each worker in Prometheus' text format."""
    by_worker = sorted(records, key=lambda record: int(record["worker"]))
    lines = []
    for name, (family, kind, factor, text) in FAMILIES.items():
        lines += [f"# HELP {family} {text}", f"# TYPE {family} {kind}"]
        for record in by_worker:
            lines.append(f'{family}{{worker="{record["worker"]}"}} {record[name] * factor:.15g}')
    return "\n".join(lines) + "\n"


class Endpoint:
    """Answers GET /metrics until it is closed; OSError if the address cannot be listened on."""

    def __init__(self, address: str, port: int, text: Callable[[], str]) -> None:
        """`text` is called for each look, in a thread of its own."""

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != "/metrics":
                    self.send_error(404)
                    return
                body = text().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nobody reads it, and stderr is for what goes wrong."""

        # A reader that hangs must not hold the end of the load up.
        self._server = http.server.ThreadingHTTPServer((address, port), Answer)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
