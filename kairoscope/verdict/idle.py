"""Storage nodes that did nothing while a load went on: looks at their CPU time. Pure.

A server that runs uses some CPU in every second, if only for its timers and to hear of others. One
that was stopped uses none. With a majority of three a load passes without it.
One that is cut off from the network, or waits for its disk, goes on using CPU and is not seen here;
nor is one whose host stood still, as nobody looked at it meanwhile.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kairoscope.run_folder import Life, life

LEAST_S = 6.0
"""Shorter is no silence worth a word: looks are two seconds apart."""

_TICKS_S = 0.025
"""Two ticks of the kernel's clock (10 ms): what may fall into a look at either end."""


def silent(
    samples: Iterable[dict[str, Any]], start: float, end: float
) -> list[tuple[str, float, float]]:
    """Storage nodes with the longest time in which each used no CPU: name, since when, how long.

    Since when is epoch s. How long is the time between two looks: it may have been up to two
    intervals of sampling more. Nothing below `LEAST_S`.

    Args:
        samples: records of processes.jsonl.
        start, end: when the load went on.
    """
    looks: dict[str, dict[Life, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        if sample["role"] == "storage" and start <= sample["t"] <= end:
            looks[sample["name"]][life(sample)].append((sample["t"], sample["cpu_s"]))
    found = []
    for name, lives in looks.items():
        since, length = max((_longest(life) for life in lives.values()), key=lambda each: each[1])
        if length >= LEAST_S:
            found.append((name, since, length))
    return found


def _longest(looks: list[tuple[float, float]]) -> tuple[float, float]:
    """The longest time between two looks (t, CPU s) at one process with no use between: (t, s)."""
    best, first = (0.0, 0.0), 0
    for t, used in looks:
        while used - looks[first][1] > _TICKS_S:
            first += 1
        best = max(best, (looks[first][0], t - looks[first][0]), key=lambda each: each[1])
    return best


def remarks(samples: Iterable[dict[str, Any]], start: float, end: float) -> list[str]:
    """A sentence on each node of `silent`."""
    return [
        f"Storage node {name} used no CPU for at least {length:,.0f} s, from "
        f"{since - start:,.0f} s after the load's start on: it was stopped"
        for name, since, length in silent(samples, start, end)
    ]
