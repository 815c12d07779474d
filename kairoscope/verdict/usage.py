"""CPU time between any two moments, from looks at counters that only grow. Pure, no I/O.

A look tells what a process has used since it started. Between two looks the use is taken for even,
so that a window whose edges are between looks gets its share of both sides, and a process that is
started again counts from its start, which is put at the last look at the one before it. What was
used after the last look at a process that ended is not known: half a step at its mean is the best
guess, and the whole step counts as not covered. So does all time after a host was looked at for the
last time: its processes are taken to go on at their mean.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kairoscope.run_folder import Life, life

Floats = npt.NDArray[np.float64]

LEAST_COVERED = 0.95
"""Below this share of a window its figures come with a note."""

LEAST_KNOWN = 0.5
"""Below this share of a window the use of a process is not known at all."""


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

    def unknown_share(self, start: float, end: float) -> float:
        """Share of the time from `start` to `end` of which nothing is known."""
        unknown = sum(_overlap(span, (start, end)) for span in self.unknown)
        return unknown / max(end - start, 1e-9)


class Usage:
    """CPU seconds of every process of a run, by name, between any two moments."""

    def __init__(self, samples: Iterable[dict[str, Any]]) -> None:
        """`samples` are records of processes.jsonl; those of machines only say when was looked."""
        looks: dict[str, dict[Life, list[tuple[float, float]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        times = []
        hosts: dict[str, float] = {}
        self.role: dict[str, str] = {}
        for sample in samples:
            times.append(sample["t"])
            if sample["role"] == "host":
                hosts[sample["name"].removeprefix("host ")] = sample["t"]
            if "cpu_s" in sample:
                self.role[sample["name"]] = sample["role"]
                looks[sample["name"]][life(sample)].append((sample["t"], sample["cpu_s"]))
        self._seen = (min(times, default=0.0), max(times, default=0.0))
        self._processes = {
            name: _process(list(lives.values()), hosts.get(name, self._seen[1]), self._seen[1])
            for name, lives in looks.items()
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
            if any(
                len(life.t) > 1 and life.t[0] < end and life.t[-1] > start for life in process.lives
            )
            and process.unknown_share(start, end) <= 1 - LEAST_KNOWN
        }

    def covered(self, start: float, end: float) -> float:
        """Share of the time from `start` to `end` of which the use of all processes is known."""
        unknown = (each.unknown_share(start, end) for each in self._processes.values())
        return max(0.0, self._share_seen(start, end) - max(unknown, default=0.0))

    def _share_seen(self, start: float, end: float) -> float:
        return _overlap(self._seen, (start, end)) / max(end - start, 1e-9)


def _overlap(a: tuple[float, float], b: tuple[float, float]) -> float:
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0]))


def _process(lives: list[list[tuple[float, float]]], looked_until: float, until: float) -> _Process:
    """The curves of the lives of one process, whose looks are in order.

    `looked_until`: the last look at its host; `until`: at anything.
    """
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
        last = number + 1 == len(lives)
        following = until if last else lives[number + 1][0][0]
        # Seen by the last look at its host: it may well have gone on.
        unseen = last and looked_until - before <= 1.5 * step
        gap = following - before if unseen else min(step, following - before)
        # A look at one process is some milliseconds from that at another: no gap is half a step.
        if gap > step / 2 and len(t) > 1:
            rate = (value[-1] - value[0]) / max(t[-1] - t[0], 1e-9)
            t = np.append(t, before + gap)
            value = np.append(value, value[-1] + rate * (gap if unseen else gap / 2))
            found.unknown.append((before, before + gap))
        found.lives.append(Curve(t, value))
    return found
