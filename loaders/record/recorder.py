"""The latencies and the lateness of one worker."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from loaders.record.files import OutputFiles
from loaders.record.histograms import LATENCY, SERVICE, WAIT, WARMUP, Sparse, node_tag
from loaders.schedule.spec import LoadSpec


class Recorder:
    """Collects latencies between two reports, and the send error of the whole run.

    Warm-up is a property of the request, not of the moment: a warm-up request that is answered
    late still does not count as measured.
    """

    def __init__(self, spec: LoadSpec, now_us: int) -> None:
        """Start the first interval at the start of the schedule, or now if that is past."""
        self._start_us = spec.start_ms * 1000
        self._warmup_ticks = spec.warmup_ticks
        self._interval_start_us = max(now_us, self._start_us)
        self._send_error = Sparse()
        self._send_error_max_us = 0
        self._tags = [node_tag(node) for node in range(len(spec.nodes))]
        self._reset()

    def _reset(self) -> None:
        # By what is measured, and in that by tag.
        self._found: defaultdict[str, defaultdict[str, Sparse]] = defaultdict(
            lambda: defaultdict(Sparse)
        )
        self._done = 0
        self._behind_us = 0

    def started(self, tick: int, late_us: int, points: int) -> None:
        """Record how late (µs) a request began; `tick` is the last of its points."""
        self._behind_us = max(self._behind_us, late_us)
        if tick >= self._warmup_ticks:
            self._send_error_max_us = max(self._send_error_max_us, late_us)
            self._send_error.record(late_us, points)

    def ended(
        self, tick: int, latency_us: int, points: int, *, done: bool, node: int | None = None
    ) -> None:
        """Record the time from planned to acknowledged (telnet: handed over), which is `done`, or
        until given up: a lower bound. `node`: where it was sent, if that is told apart."""
        tag = "" if node is None else self._tags[node]
        self._found[LATENCY][self._tag(tick, tag)].record(latency_us, points)
        if done:
            self._done += points

    def parts(self, tick: int, wait_us: int, service_us: int | None, points: int) -> None:
        """Record what of a latency was waiting for a connection, and the last attempt, if any."""
        tag = self._tag(tick, "")
        self._found[WAIT][tag].record(wait_us, points)
        if service_us is not None:
            self._found[SERVICE][tag].record(service_us, points)

    def _tag(self, tick: int, measured: str) -> str:
        return WARMUP if tick < self._warmup_ticks else measured

    def flush(self, files: OutputFiles, now_us: int, backlog_us: int) -> dict[str, Any]:
        """Write the interval's histograms and start the next one.

        Args:
            files: where to.
            now_us: end of the interval, epoch µs.
            backlog_us: by how much the next request to start is overdue; ≤ 0 if it is not.

        Returns:
            The interval's part of the progress record.
        """
        start_s = (self._interval_start_us - self._start_us) / 1e6
        length_s = (now_us - self._interval_start_us) / 1e6
        for what, by_tag in self._found.items():
            for tag, found in by_tag.items():
                files.interval(what, found, start_s, length_s, tag)
        # Of several nodes, and in the second in which the warm-up ends, there are several: the
        # slowest one is what a person must see.
        told = self._found[LATENCY].values()
        p50_us, p99_us = (max((each.percentile(p) for each in told), default=0) for p in (50, 99))
        figures = {
            "behind_ms": round(max(self._behind_us, backlog_us, 0) / 1000, 3),
            "p50_ms": p50_us / 1000,
            "p99_ms": p99_us / 1000,
            "count": self._done,
        }
        self._interval_start_us = max(now_us, self._start_us)
        self._reset()
        return figures

    def send_error_us(self) -> dict[str, int]:
        """Send error after the warm-up: percentiles and exact maximum in µs, count in points."""
        return {
            "p50": self._send_error.percentile(50),
            "p99": self._send_error.percentile(99),
            "max": self._send_error_max_us,
            "count": self._send_error.count,
        }
