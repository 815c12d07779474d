"""The load: how the sensors' points become requests, and what they come to."""

import math
from typing import Any

from kairoscope.experiment import timing
from kairoscope.plan.amounts import bounded, count, n, short, up
from kairoscope.plan.draft import Draft

# One loader process (Python, one core) sends this many points a second with room to stay on time:
# half of 180,000 sensors from two workers, which `make bench ONLY=pacing` measures.
POINTS_PER_WORKER = 90_000
# Several even for a small load, so that what merges them is always exercised.
WORKERS_MIN = 2
# Connections of all workers to one KairosDB node. Its Jetty needs no thread for one that is idle
# and works on 200 requests at a time (the default of its pool, which KairosDB leaves as it is);
# the others wait there, each with its body (10 kB) and buffers of about as much: 40 MB of a heap of
# half a gigabyte at least. More than ten times as many would only lengthen that queue.
CONNECTIONS_MAX = 2_000
# Where few requests are under way on average, chance puts some of them together.
CONNECTIONS_MIN = 8
# A loader that is an open loop up to twice the latency limit never waits for a connection to a
# server that holds the limit, not even in the second after a pause.
CONNECTIONS_SPARE = 2
# Requests of a replay that are under way to a node, by one worker: it is as fast as they are.
REPLAY_CONNECTIONS = 8
# From leaving KairosDB's queue until a query finds a point, while the load is sustained.
FRESH_AFTER_S = 5


def settings(draft: Draft, held_s: float) -> dict[str, Any]:
    """What the sensors send: the final values of the load.

    `held_s`: how long KairosDB's queue keeps a point before it writes it, while all is well.
    """
    load = draft.experiment.load
    values = draft.given(
        "load",
        skip=("workers", "steps", "connections_per_node"),
        absent={
            "rate": None if load.steps else timing.DEFAULT_RATE,
            "warmup_s": load.warmup_resolved_s,
        },
    )
    values.pop("points", None)
    values |= _schedule(draft)
    workers = _workers(draft)
    hosts = draft.experiment.cluster.loader_hosts
    groups = requests_per_tick(load.sensors, draft.nodes, workers, load.sensors_per_request)
    together, period = min(load.points_per_request, load.ticks), load.shortest_period_ms
    requests_per_s = short(groups * 1000 / (period * together))
    draft.add(
        "load.requests_per_s",
        requests_per_s,
        "requests/s",
        f"{n(groups)} groups of ≤ {n(load.sensors_per_request)} sensors × 1000 / "
        f"({n(period)} ms × {count(together, 'point')}) = {n(requests_per_s)}",
        f"Sensors are cut into {count(workers, 'worker')} × "
        f"{count(draft.nodes, draft.taker)}, and those into requests.",
    )
    return {
        **values,
        "duration_s": short(timing.length_ms(load.steps_resolved) / 1000),
        "hosts": hosts,
        "workers": workers,
        "workers_per_host": workers // hosts,
        "requests_per_s": requests_per_s,
        "connections_per_node": _connections(draft, workers, groups, requests_per_s),
        "latency_limit_ms": draft.experiment.limits.p99_ms,
        "queries": _queries(draft, held_s),
    }


def _schedule(draft: Draft) -> dict[str, Any]:
    """Steps, ticks and periods."""
    load = draft.experiment.load
    steps = load.steps_resolved
    period = load.period_ms
    resolved = [{"period_ms": period_ms, "ticks": ticks} for period_ms, ticks in steps]
    if load.steps is not None:
        draft.add(
            "load.steps",
            resolved,
            "",
            "; ".join(
                f"rate {n(step.rate)} for {n(step.duration_s)} s = {count(ticks, 'point')}, "
                f"{n(period_ms)} ms apart"
                for step, (period_ms, ticks) in zip(load.steps, steps, strict=True)
            ),
            "One after the other; what is derived from points/s is derived from the highest.",
            origin="experiment",
        )
    draft.add(
        "load.period_ms",
        period,
        "ms",
        f"1000 / {n(1000 / period)} points/s = {n(period)}",
        "Time between two points of a sensor" + (", in the first step." if load.steps else "."),
    )
    if load.points is not None:
        arithmetic = "load.points"
    elif load.steps is not None:
        arithmetic = " + ".join(n(ticks) for _, ticks in steps) + f" = {n(load.ticks)}"
    else:
        arithmetic = f"{n(load.duration_s or 0)} s × 1000 / {n(period)} ms = {n(load.ticks)}"
    draft.add(
        "load.ticks",
        load.ticks,
        "points",
        arithmetic,
        "Points of each sensor, warm-up included; whole periods only.",
    )
    _spans(draft)
    return {
        "steps": resolved,
        "period_ms": period,
        "ticks": load.ticks,
        "warmup_ticks": load.warmup_ticks,
        "ramp_ticks": load.ramp_ticks,
        "lifetime_ticks": load.lifetime_ticks,
    }


def _spans(draft: Draft) -> None:
    """Record the parts of a sensor's life: ramp, warm-up, lifetime."""
    load = draft.experiment.load
    steps, period = load.steps_resolved, load.period_ms
    for key, seconds, ticks, reason in (
        (
            "warmup_ticks",
            load.warmup_resolved_s,
            load.warmup_ticks,
            "The first points of each sensor; sent and accounted for, but not in the latencies.",
        ),
        (
            "ramp_ticks",
            load.ramp_s,
            load.ramp_ticks,
            "The first points, within which the sensors join one group after the other.",
        ),
        (
            "lifetime_ticks",
            load.lifetime_s or 0,
            load.lifetime_ticks,
            "Points of a sensor before a new one takes its place; 0 for ever.",
        ),
    ):
        how = f"{n(seconds)} s × 1000 / {n(period)} ms"
        if len(steps) > 1:
            how = f"ticks that begin in {n(seconds)} s"
        draft.add(f"load.{key}", ticks, "points", f"{how} = {n(ticks)}", reason)


def _workers(draft: Draft) -> int:
    hosts = draft.experiment.cluster.loader_hosts
    wanted = math.ceil(draft.points_per_s / POINTS_PER_WORKER)
    enough, bound = bounded(wanted, WORKERS_MIN, draft.experiment.load.sensors)
    derived = up(enough, hosts)
    even = f", rounded up to a multiple of {n(hosts)} hosts = {n(derived)}" if hosts > 1 else ""
    workers = draft.derive(
        "load.workers",
        derived,
        "processes",
        f"{n(draft.points_per_s)} points/s / {n(POINTS_PER_WORKER)} = {n(wanted)}{bound}{even}",
        "One Python process keeps one core; it must stay on time to measure anything. Every "
        "loader host runs as many.",
    )
    draft.add(
        "load.workers_per_host",
        workers // hosts,
        "processes",
        f"{n(workers)} / {count(hosts, 'loader host')} = {n(workers // hosts)}",
        "Each of them keeps a core of its host.",
    )
    return workers


def _connections(draft: Draft, workers: int, groups: int, requests_per_s: float) -> int:
    """Connections of a worker to a node, by Little's law: in use = rate × time of an answer."""
    load, limit_s = draft.experiment.load, draft.experiment.limits.p99_ms / 1000
    name, unit = "load.connections_per_node", "connections"
    if load.replay:
        reason = "A replay is as fast as so many requests under way are acknowledged."
        how = f"{REPLAY_CONNECTIONS} requests under way of each worker to each node"
        return draft.derive(name, REPLAY_CONNECTIONS, unit, how, reason)
    pairs = draft.survivors * workers
    wanted = math.ceil(CONNECTIONS_SPARE * limit_s * requests_per_s / pairs)
    how = (
        f"{CONNECTIONS_SPARE} × {n(limit_s)} s (limits.p99_ms) × {n(requests_per_s)} requests/s / "
        f"({count(draft.survivors, 'node')} × {count(workers, 'worker')}), rounded up = {n(wanted)}"
    )
    if load.pacing == "aligned" and (at_once := math.ceil(groups / pairs)) > wanted:
        wanted = at_once
        how = f"{n(groups)} requests at once / {n(pairs)} = {n(wanted)}"
    most = max(1, CONNECTIONS_MAX // workers)
    enough, bound = bounded(wanted, CONNECTIONS_MIN, most)
    derived = draft.derive(
        name,
        enough,
        unit,
        f"{how}{bound}",
        f"Little's law{draft.after_failure}: with fewer, requests would wait in the loader for a "
        "server that holds the latency limit. Opened as they are needed. At most "
        f"{n(CONNECTIONS_MAX)} to a {draft.taker} from all workers: more only wait there.",
    )
    open_ms = math.floor(derived * pairs / requests_per_s * 1000)
    if load.protocol.startswith("rest") and open_ms < 1000 * limit_s:
        draft.notices.append(
            f"{name} {n(derived)}: beyond answers of {n(open_ms)} ms on average requests wait for "
            f"a connection, before the latency limit of {n(limit_s * 1000)} ms. If it is this wait "
            "that exceeds the limit, the run is invalid, and says nothing of the servers."
        )
    return derived


def _queries(draft: Draft, held_s: float) -> dict[str, Any] | None:
    """The reads beside the writes, or None."""
    fields = tuple(type(draft.experiment.queries).model_fields)
    if draft.experiment.queries.rate == 0:
        draft.given("queries", skip=tuple(key for key in fields if key != "rate"))
        return None
    values = draft.given("queries", skip=("lag_s",))
    lag = math.ceil(held_s) + FRESH_AFTER_S
    values["lag_s"] = draft.derive(
        "queries.lag_s",
        lag,
        "s",
        f"{n(held_s)} s in KairosDB's queue + {FRESH_AFTER_S} s = {n(lag)}",
        "Age from which a point is expected in an answer: the acknowledgement does not wait until "
        "it is written.",
    )
    return values


def totals(draft: Draft) -> None:
    """What the load comes to, over all KairosDB nodes and for each."""
    load = draft.experiment.load
    rate, node_rate = draft.points_per_s, draft.node_points_per_s
    fastest = " In the fastest step." if load.steps else ""
    draft.total(
        "points_per_s",
        short(rate),
        "points/s",
        f"{n(load.sensors)} sensors × 1000 / {n(load.shortest_period_ms)} ms = {n(rate)}",
        f"What the cluster is asked to sustain.{fastest}",
    )
    draft.total(
        "points",
        draft.points,
        "points",
        f"{n(load.sensors)} sensors × {n(load.ticks)} = {n(draft.points)}"
        + (", less what the ramp leaves out" if load.ramp_ticks else ""),
        "What the ledger must account for.",
    )
    draft.total(
        "points_per_s_per_node",
        short(node_rate),
        "points/s",
        f"{n(rate)} / {count(draft.nodes, 'node')} = {n(node_rate)}",
        f"What one {draft.taker} takes while all are up.{fastest}",
    )
    series, arithmetic = load.sensors, f"{n(load.sensors)} sensors"
    if load.lifetime_ticks:
        # A sensor may be at any age when the load starts, so the first replacement may be due at
        # the second tick.
        replaced = -(-(load.ticks - 1) // load.lifetime_ticks)
        series *= replaced + 1
        arithmetic = (
            f"{n(load.sensors)} sensors × (1 + {n(load.ticks - 1)} / {n(load.lifetime_ticks)} "
            f"rounded up) = {n(series)}, at most"
        )
    draft.total(
        "series",
        series,
        "series",
        arithmetic,
        "One a sensor, and a new one for each that is replaced; each is indexed once.",
    )
    draft.total(
        "series_per_node",
        draft.series,
        "series",
        f"{n(load.sensors)} / {count(draft.nodes, 'node')} = {n(draft.series)}",
        "Series that send at a time; while all nodes are up, a sensor always goes to the same one.",
    )
    draft.total(
        "series_per_node_after_failover",
        draft.series_failed_over,
        "series",
        f"{n(load.sensors)} / {count(draft.survivors, 'node')} = {n(draft.series_failed_over)}",
        f"When one {draft.taker} is down, the others have its sensors too."
        if draft.nodes > 1
        else f"With one {draft.taker} there is nobody to take over.",
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
