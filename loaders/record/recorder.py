"""The latencies and the lateness of one worker."""

from __future__ import annotations

from typing import Any

from loaders.record.files import OutputFiles
from loaders.record.histograms import new_histogram, record
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
        self._send_error = new_histogram()
        self._send_error_max_us = 0
        self._reset()

    def _reset(self) -> None:
        self._warmup = new_histogram()
        self._measured = new_histogram()
        self._done = 0
        self._behind_us = 0

    def started(self, tick: int, late_us: int, points: int) -> None:
        """Record how late (µs) a request began; `tick` is the last of its points."""
        self._behind_us = max(self._behind_us, late_us)
        if tick >= self._warmup_ticks:
            self._send_error_max_us = max(self._send_error_max_us, late_us)
            record(self._send_error, late_us, points)

    def ended(self, tick: int, latency_us: int, points: int, *, done: bool) -> None:
        """Record the time from planned to acknowledged (telnet: handed over), which is `done`, or
        until given up: a lower bound."""
        record(self._warmup if tick < self._warmup_ticks else self._measured, latency_us, points)
        if done:
            self._done += points

    def flush(self, files: OutputFiles, now_us: int, backlog_us: int) -> dict[str, Any]:
        """Write the interval's histograms and start the next one.

        Args:
            files: where to.
            now_us: end of the interval, epoch µs.
            backlog_us: by how much the next request to start is overdue; ≤ 0 if it is not.

        Returns:
            The interval's part of the progress record.
        """
        files.latencies(
            self._warmup,
            self._measured,
            (self._interval_start_us - self._start_us) / 1e6,
            (now_us - self._interval_start_us) / 1e6,
        )
        both = (self._warmup, self._measured)
        filled = [histogram for histogram in both if histogram.get_total_count()]
        # In the second of the change there are two: the slower one is what a person must see.
        p99_us = max((each.get_value_at_percentile(99) for each in filled), default=0)
        figures = {
            "behind_ms": round(max(self._behind_us, backlog_us, 0) / 1000, 3),
            "p99_ms": p99_us / 1000,
            "count": self._done,
        }
        self._interval_start_us = max(now_us, self._start_us)
        self._reset()
        return figures

    def send_error_us(self) -> dict[str, int]:
        """Send error after the warm-up: percentiles and exact maximum in µs, count in points."""
        at = self._send_error.get_value_at_percentile
        count = self._send_error.get_total_count()
        return {
            "p50": int(at(50)) if count else 0,
            "p99": int(at(99)) if count else 0,
            "max": self._send_error_max_us,
            "count": int(count),
        }
