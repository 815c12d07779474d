"""How a load goes, in a line on the screen."""

from dataclasses import replace

from kairoscope import live
from loaders.emulator import Progress
from loaders.schedule.spec import LoadSpec

_THOUSANDS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))


def short(count: int) -> str:
    """A count in at most six characters: 9,999, 12.3k, 2.88M."""
    if count < 10_000:
        return f"{count:,}"
    for size, letter in _THOUSANDS:
        # 999,950 is 1.00M, not 1000k.
        if count >= size * 0.9995:
            scaled = count / size
            digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:.{digits}f}{letter}"
    return f"{count:,}"


def figures(spec: LoadSpec, points: int, now: Progress, waiting: int | None) -> str:
    """How a load goes, short enough for a line of 80 characters with its bar.

    *behind* are points that should have been sent and were not: a replay has none, as nothing of
    it is due at a time.

    Args:
        spec: of the load.
        points: of the whole load.
        now: how far it is.
        waiting: points in KairosDB's queues; None if a node did not tell.
    """
    arrived = now.acknowledged if spec.acknowledges else now.sent
    said = [f"{'acked' if spec.acknowledges else 'sent'} {short(arrived)}"]
    if not spec.replay:
        said.append(f"behind {short(max(0, now.due - now.sent))}")
    said.append(f"p99 {now.p99_ms:,.0f} ms")
    said.append(f"queue {'?' if waiting is None else short(waiting)}")
    if spec.replay:
        left_s = live.time_left(arrived, points, now.elapsed_s)
    else:
        left_s = now.duration_s - max(0.0, now.elapsed_s)
    if left_s is not None:
        said.append(f"{live.duration(left_s)} left" if left_s > 0 else "ending")
    return "  ".join(said)


class Lines:
    """Of the looks at a load, one a second, those that get a line where lines are not redrawn."""

    def __init__(self) -> None:
        """The first look gets one."""
        self._last_s = float("-inf")
        self._worst_ms = 0.0

    def due(self, now: Progress) -> Progress | None:
        """What the line says: `now`, with the worst second since the last line; None: no line."""
        self._worst_ms = max(self._worst_ms, now.p99_ms)
        if now.elapsed_s - self._last_s < live.LINE_EVERY_S:
            return None
        told = replace(now, p99_ms=self._worst_ms)
        self._last_s, self._worst_ms = now.elapsed_s, 0.0
        return told
