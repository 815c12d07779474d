"""The load: how the sensors' points become requests, and what they come to."""

import math
from typing import Any

from kairoscope.plan.draft import Draft
from kairoscope.plan.numbers import bounded, count, n, short

# One loader process (Python, one core) sends this many points a second with room to stay on time.
POINTS_PER_WORKER = 25_000
# Several even for a small load, so that what merges them is always exercised.
WORKERS_MIN = 2


def settings(draft: Draft) -> dict[str, Any]:
    """What the sensors send: the final values of the load."""
    load = draft.experiment.load
    values = draft.given("load", skip=("workers",))
    period = load.period_ms
    draft.add(
        "load.period_ms",
        period,
        "ms",
        f"1000 / {n(load.rate)} point/s = {n(period)}",
        "Time between two points of a sensor.",
    )
    if load.points is not None:
        ticks_arithmetic = "load.points"
    else:
        exact = f"{n(load.duration_s or 0)} s × 1000 / {n(period)} ms"
        ticks_arithmetic = f"{exact} = {n(load.ticks)}"
    draft.add(
        "load.ticks",
        load.ticks,
        "points",
        ticks_arithmetic,
        "Points of each sensor, warm-up included; whole periods only.",
    )
    draft.add(
        "load.warmup_ticks",
        load.warmup_ticks,
        "points",
        f"{n(load.warmup_s)} s × 1000 / {n(period)} ms = {n(load.warmup_ticks)}",
        "The first points of each sensor; sent and accounted for, but not in the latencies.",
    )
    wanted = math.ceil(draft.points_per_s / POINTS_PER_WORKER)
    derived, bound = bounded(wanted, WORKERS_MIN, load.sensors)
    workers = draft.derive(
        "load.workers",
        derived,
        "processes",
        f"{n(draft.points_per_s)} points/s / {n(POINTS_PER_WORKER)} = {n(wanted)}{bound}",
        "One Python process keeps one core; it must stay on time to measure anything.",
    )
    requests = requests_per_tick(load.sensors, draft.nodes, workers, load.sensors_per_request)
    requests_per_s = short(requests * 1000 / period)
    draft.add(
        "load.requests_per_s",
        requests_per_s,
        "requests/s",
        f"{n(requests)} groups of ≤ {n(load.sensors_per_request)} sensors × 1000 / "
        f"{n(period)} ms = {n(requests * 1000 / period)}",
        f"Sensors are cut into {count(workers, 'worker')} × "
        f"{count(draft.nodes, 'KairosDB node')}, and those into requests.",
    )
    values.pop("points", None)
    return {
        **values,
        "duration_s": short(load.ticks * period / 1000),
        "period_ms": period,
        "ticks": load.ticks,
        "warmup_ticks": load.warmup_ticks,
        "workers": workers,
        "requests_per_s": requests_per_s,
        "latency_limit_ms": draft.experiment.limits.p99_ms,
    }


def totals(draft: Draft) -> None:
    """What the load comes to, over all KairosDB nodes and for each."""
    load = draft.experiment.load
    rate, node_rate = draft.points_per_s, draft.node_points_per_s
    draft.total(
        "points_per_s",
        short(rate),
        "points/s",
        f"{n(load.sensors)} sensors × 1000 / {n(load.period_ms)} ms = {n(rate)}",
        "What the cluster is asked to sustain.",
    )
    draft.total(
        "points",
        draft.points,
        "points",
        f"{n(load.sensors)} sensors × {n(load.ticks)} = {n(draft.points)}",
        "What the ledger must account for.",
    )
    draft.total(
        "points_per_s_per_node",
        short(node_rate),
        "points/s",
        f"{n(rate)} / {count(draft.nodes, 'node')} = {n(node_rate)}",
        "What one KairosDB node takes while all are up.",
    )
    draft.total(
        "series_per_node",
        draft.series,
        "series",
        f"{n(load.sensors)} / {count(draft.nodes, 'node')} = {n(draft.series)}",
        "One series a sensor; a sensor always goes to the same KairosDB node.",
    )
    draft.total(
        "series_per_node_after_failover",
        draft.series_failed_over,
        "series",
        f"{n(load.sensors)} / {count(draft.survivors, 'node')} = {n(draft.series_failed_over)}",
        "When one KairosDB node is down, the others have its sensors too."
        if draft.nodes > 1
        else "With one KairosDB node there is nobody to take over.",
    )


def requests_per_tick(sensors: int, nodes: int, workers: int, per_request: int) -> int:
    """Requests that all sensors of one tick make: each worker's contiguous block of sensors is
    dealt to the nodes (sensor i to node i mod nodes) and cut into groups of `per_request`."""
    total = 0
    for worker in range(workers):
        start, end = sensors * worker // workers, sensors * (worker + 1) // workers
        for node in range(nodes):
            cell = _multiples_below(end, node, nodes) - _multiples_below(start, node, nodes)
            total += math.ceil(cell / per_request)
    return total


def _multiples_below(limit: int, remainder: int, modulus: int) -> int:
    """How many i in [0, limit) have i mod modulus = remainder."""
    return max(0, (limit - remainder + modulus - 1) // modulus)
