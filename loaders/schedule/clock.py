"""Wall-clock time that cannot jump: the wall clock is read once, the monotonic clock runs on."""

from __future__ import annotations

import time


class Clock:
    """Epoch time from the monotonic clock, anchored once.

    A correction of the system's clock in mid-run would otherwise bend the schedule, and every
    latency with it.
    """

    def __init__(self) -> None:
        """Anchor to the wall clock now."""
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> int:
        """Epoch microseconds."""
        return (time.monotonic_ns() + self._offset_ns) // 1000

    def monotonic_s(self, epoch_us: int) -> float:
        """The moment `epoch_us` in seconds of the monotonic clock, which asyncio's loop uses."""
        return (epoch_us * 1000 - self._offset_ns) / 1e9
