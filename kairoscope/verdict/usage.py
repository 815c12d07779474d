"""CPU time between any two moments, from looks at counters that only grow. Pure, no I/O.

A look tells what a process has used since it started. Between two looks the use is taken for even,
so that a window whose edges are between looks gets its share of both sides, and a process that is
started again counts from its start, which is put at the last look at the one before it. What was
used after the last look at a process that ended is not known: half a step at its mean is the best
guess, and the whole step counts as not covered.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEAST_COVERED = 0.95
"""Below this share of a window its figures come with a note."""


@dataclass(frozen=True)
class Curve:
    """A counter over time: `t` in epoch s, ascending; `value` at each."""

    t: Floats
    value: Floats

    def between(self, start: float, end: float) -> float:
        """By how much it grew; before its first and after its last look it stands still."""
        first, last = np.interp((start, end), self.t, self.value)
        return float(last - first)


@dataclass
class _Process:
    """All lives of one process, by name.

    Attributes:
        lives: a curve each, what was put before its first look and behind its last one included.
        unknown: spans (epoch s) behind the last look at a life of which nothing is known.
    """

    lives: list[Curve] = field(default_factory=list)
    unknown: list[tuple[float, float]] = field(default_factory=list)


class Usage:
    """CPU seconds of every process of a run, by name, between any two moments."""

    def __init__(self, samples: Iterable[dict[str, Any]]) -> None:
        """`samples` are records of processes.jsonl; those of machines only say when was looked."""
        looks: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        times = []
        self.role: dict[str, str] = {}
        for sample in samples:
            times.append(sample["t"])
            if "cpu_s" in sample:
                self.role[sample["name"]] = sample["role"]
                looks[sample["name"]][sample["pid"]].append((sample["t"], sample["cpu_s"]))
        self._seen = (min(times, default=0.0), max(times, default=0.0))
        self._processes = {
            name: _process(list(lives.values()), self._seen[1]) for name, lives in looks.items()
        }

    def seconds(self, start: float, end: float) -> dict[str, float]:
        """CPU seconds of each process that was seen, in epoch s from `start` to `end`.

        Where looks began later or ended earlier than that, what they saw stands for the rest.
        """
        seen = self._share_seen(start, end)
        if not seen:
            return {}
        return {
            name: sum(life.between(start, end) for life in process.lives) / seen
            for name, process in self._processes.items()
            if any(life.t[0] < end and life.t[-1] > start for life in process.lives)
        }

    def covered(self, start: float, end: float) -> float:
        """Share of the time from `start` to `end` of which the use of all processes is known."""
        length = max(end - start, 1e-9)
        unknown = max(
            (
                sum(_overlap(span, (start, end)) for span in process.unknown)
                for process in self._processes.values()
            ),
            default=0.0,
        )
        return max(0.0, self._share_seen(start, end) - unknown / length)

    def _share_seen(self, start: float, end: float) -> float:
        return _overlap(self._seen, (start, end)) / max(end - start, 1e-9)


def _overlap(a: tuple[float, float], b: tuple[float, float]) -> float:
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0]))


def _process(lives: list[list[tuple[float, float]]], until: float) -> _Process:
    """The curves of the lives of one process, whose looks are in order; `until`: the last look at
    anything."""
    found = _Process()
    lives.sort()
    steps = [b[0] - a[0] for looks in lives for a, b in pairwise(looks)]
    step = float(np.median(steps)) if steps else 0.0
    before: float | None = None
    for number, looks in enumerate(lives):
        t, value = np.array(looks, dtype=float).T
        if before is not None:
            t, value = np.insert(t, 0, before), np.insert(value, 0, 0.0)
        before = float(t[-1])
        following = lives[number + 1][0][0] if number + 1 < len(lives) else until
        # A look at one process is some milliseconds from that at another: no gap is half a step.
        if (gap := min(step, following - before)) > step / 2 and len(t) > 1:
            rate = (value[-1] - value[0]) / max(t[-1] - t[0], 1e-9)
            t = np.append(t, before + gap)
            value = np.append(value, value[-1] + rate * gap / 2)
            found.unknown.append((before, before + gap))
        found.lives.append(Curve(t, value))
    return found
