"""Where a series of figures changed for good: one figure a run, in the order of the runs. Pure.

Few runs: FD.io's jumpavg, which groups them by the shortest description, each group a normal
distribution. Many: the method of Hunter and Otava (Fleming and others 2023, doi
10.1145/3578244.3583719): E-divisive (Matteson and James 2014) proposes, a t-test takes the place
of its permutations, at ten times the level first, and then the weakest are merged until all hold.
Otava itself is not used: of PyPI's apache-otava 0.8 the clients of BigQuery, Slack and PostgreSQL
come along, and it asks for numpy 2.2.0 alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jumpavg
import numpy as np
from numpy.typing import NDArray

from kairoscope.stats import groups

LEAST_RUNS = 8
"""With fewer a change cannot be told from noise."""
MANY_RUNS = 30
"""From here on there is enough of a distribution for Otava's method."""
LEAST_CHANGE = 0.05
"""Share; smaller ones are not worth a look, however sure."""
P = 0.001
_LEAST_GROUP = 2

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """Where a series changed.

    Attributes:
        at: index of the first run after the change.
        before, after: geometric means of the runs between this change and its neighbours.
    """

    at: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """After by before."""
        return self.after / self.before


def changes(values: Sequence[float]) -> list[Change]:
    """All changes of 5 % and more, in order; none of fewer than LEAST_RUNS values."""
    if len(values) < LEAST_RUNS:
        return []
    series = np.asarray(values, dtype=float)
    found = _hunter(series) if len(series) >= MANY_RUNS else _shortest(series)
    return [
        Change(at, _mean(series[start:at]), _mean(series[at:end]))
        for at, start, end in _between(found, len(series))
    ]


def _between(cuts: Sequence[int], length: int) -> list[tuple[int, int, int]]:
    """Each cut with where the groups on its sides begin and end."""
    edges = [0, *cuts, length]
    return [(cut, edges[i], edges[i + 2]) for i, cut in enumerate(cuts)]


def _mean(values: Floats) -> float:
    return math.exp(float(np.mean(np.log(values))))


def _shift(before: Floats, after: Floats) -> float:
    """The change as a share of the smaller one."""
    return math.expm1(abs(math.log(_mean(after) / _mean(before))))


def _shortest(series: Floats) -> list[int]:
    """Where jumpavg begins a new group; it takes a single odd run for two changes."""
    sizes = [len(group.run_list) for group in jumpavg.classify(series.tolist())]
    cuts = np.cumsum(sizes)[:-1].tolist()
    return _merged(series, cuts, 10 * P)


def _hunter(series: Floats) -> list[int]:
    """Where the distribution changes, at P and by LEAST_CHANGE."""
    cuts: list[int] = []
    todo = [(0, len(series))]
    while todo:
        start, end = todo.pop()
        cut = _candidate(series[start:end])
        if cut is None:
            continue
        at = start + cut
        if _p(series[start:at], series[at:end]) <= 10 * P:
            cuts.append(at)
            todo += [(start, at), (at, end)]
    return _merged(series, sorted(cuts), P)


def _candidate(values: Floats) -> int | None:
    """The split with the largest energy distance between its sides; None if it is too short."""
    n = len(values)
    if n < 2 * _LEAST_GROUP:
        return None
    distances = np.abs(np.subtract.outer(values, values))
    # Sums of distances within the first t, and within the rest, for every t.
    corner = distances.cumsum(axis=0).cumsum(axis=1)
    sizes = np.arange(_LEAST_GROUP, n - _LEAST_GROUP + 1)
    left = corner[sizes - 1, sizes - 1]
    across = corner[sizes - 1, n - 1] - left
    right = corner[n - 1, n - 1] - 2 * across - left
    others = n - sizes
    energy = 2 * across / (sizes * others) - left / (sizes * (sizes - 1))
    energy -= right / (others * (others - 1))
    return int(sizes[np.argmax(energy * sizes * others / n)])


def _p(before: Floats, after: Floats) -> float:
    return groups.difference(before.tolist(), after.tolist()).p


def _merged(series: Floats, cuts: list[int], level: float) -> list[int]:
    """The cuts without the weakest, one after another, until all are sure and large enough."""
    while cuts:
        found = []
        for at, start, end in _between(cuts, len(series)):
            before, after = series[start:at], series[at:end]
            alone = min(len(before), len(after)) < _LEAST_GROUP
            chance = 1.0 if alone else _p(before, after)
            found.append((chance > level, chance, -_shift(before, after), at))
        unsure, _, shift, weakest = max(found)
        if not unsure:
            shift, weakest = max((shift, at) for _, _, shift, at in found)
            if -shift >= LEAST_CHANGE:
                break
        cuts = [cut for cut in cuts if cut != weakest]
    return cuts
