"""Samples of several processes, taken one after the other, at moments that they share."""

import math
from itertools import pairwise
from statistics import median

import numpy as np

from kairoscope.report.charts.chart import Pairs, Row, Value
from kairoscope.report.data import RunData


def rates(pairs: Pairs) -> Pairs:
    """Growth per second of a cumulative count between neighbours, at the later one's time.

    A fall means that the process was replaced: its rate is unknown there.
    """
    rates: Pairs = []
    for (t0, v0), (t1, v1) in pairwise(pairs):
        if t1 > t0:
            known = v0 is not None and v1 is not None and v1 >= v0
            rates.append((t1, (v1 - v0) / (t1 - t0) if known else None))  # type: ignore[operator]
    return rates


def on_grid(lines: dict[str, Pairs], run: RunData) -> tuple[tuple[float, ...], dict[str, Row]]:
    """A common x (seconds since the start of the load) and each line's values on it.

    Samples of several nodes or processes are taken one after another and never on the dot; both
    ways of drawing need them at the same x. Those within half a sampling period of each other
    share one. Where all lines pause for longer, an empty x is put in, so that a hole is not drawn
    over.
    """
    lines = {name: pairs for name, pairs in lines.items() if pairs}
    if not lines:
        return (), {}
    gaps = [b[0] - a[0] for pairs in lines.values() for a, b in pairwise(pairs)]
    period = median(gaps) if gaps else 1.0
    # Looks that come in pairs are no looks with holes between the pairs.
    hole = max(_HOLE * period, 1.5 * float(np.quantile(gaps, 0.75))) if gaps else math.inf
    at: list[float] = []
    rows: dict[str, dict[float, Value]] = {name: {} for name in lines}
    for t, name, value in sorted(
        ((t, name, v) for name, pairs in lines.items() for t, v in pairs), key=lambda s: s[0]
    ):
        if not at or t - at[-1] > period / 2:
            if at and t - at[-1] > hole:
                at.append((at[-1] + t) / 2)
            at.append(t)
        rows[name][at[-1]] = value
    start = at[0] if run.start_s is None else run.start_s
    x = tuple(round(t - start, 3) for t in at)
    return x, {name: [values.get(t) for t in at] for name, values in rows.items()}


_HOLE = 2.5  # sampling periods, at least; a shorter pause is a late sample
