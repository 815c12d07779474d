"""Whether latency was waiting for a connection, and so the loader's own. Pure.

A loader with n connections to a node is an open loop as long as the node answers within n / rate
(Little's law). Where that is longer than the latency limit, requests only wait for a connection
once the servers are too slow by themselves: that is a failure of theirs. Where it is shorter,
requests of a server that answers well within the limit may wait in the loader for seconds: such a
run says nothing of the server, and is invalid.
"""

from typing import Any

from loaders.schedule.due import Schedule
from loaders.schedule.spec import ALIGNED, LoadSpec


def open_up_to_ms(schedule: Schedule, limit_ms: float) -> float:
    """Up to which mean time of an answer requests do not wait, with all nodes up.

    Of the worker and node with the most requests, in the fastest step. Where all are due at the
    same moment, it is the time of an answer with which they are all served within `limit_ms`.
    """
    spec = schedule.spec
    most = max(
        sum(group.node == node for group in schedule.groups(worker))
        for worker in range(spec.workers)
        for node in range(len(spec.nodes))
    )
    between_ms: float = min(step.period_ms for step in spec.steps) * spec.points_per_request
    if spec.pacing == ALIGNED:
        between_ms = min(between_ms, limit_ms)
    return spec.connections_per_node * between_ms / most


def mostly_waiting(found: dict[str, Any], limit_ms: float) -> bool:
    """Whether a 99th percentile above the limit is for the most part waiting for a connection.

    `found`: as of `latencies.of_load`.
    """
    p99_ms, wait_ms = found["p99_ms"], found["wait"]["p99_ms"]
    return p99_ms is not None and wait_ms is not None and limit_ms < p99_ms < 2 * wait_ms


def invalid(found: dict[str, Any], schedule: Schedule, limit_ms: float) -> str | None:
    """Why the connections, and not the servers, were the limit; None if they were not.

    Telnet has one connection to a node by nature, which all requests share: what waits there waits
    for the server to take it. A replay is as fast as its connections by definition.
    """
    spec = schedule.spec
    if spec.replay or not spec.acknowledges or not mostly_waiting(found, limit_ms):
        return None
    open_ms = open_up_to_ms(schedule, limit_ms)
    if open_ms >= limit_ms:
        return None
    return (
        "loader: points waited for a connection, 99th percentile "
        f"{found['wait']['p99_ms']:,.0f} ms of {found['p99_ms']:,.0f} ms, while one that was had "
        f"answered within {_ms(found['service']['p99_ms'])} (99th percentile). "
        f"{_connections(spec)} to a node carry this load up to answers of {open_ms:,.0f} ms; the "
        f"limit is {limit_ms:,.0f} ms (load.connections_per_node)"
    )


def note(found: dict[str, Any], schedule: Schedule, limit_ms: float) -> str:
    """Of a load that is slow by its servers: how much of that was waiting; "" if little was."""
    spec = schedule.spec
    if spec.replay or not mostly_waiting(found, limit_ms):
        return ""
    if not spec.acknowledges:
        return "; most of it before the server took what was sent before"
    return (
        f"; of it {found['wait']['p99_ms']:,.1f} ms waiting for a connection: all of "
        f"{_connections(spec)} to a node waited for answers, 99th percentile "
        f"{_ms(found['service']['p99_ms'])}"
    )


def _connections(spec: LoadSpec) -> str:
    count = spec.connections_per_node
    return f"{count:,} connection{'s' * (count > 1)} of a worker"


def _ms(value: float | None) -> str:
    return "an unknown time" if value is None else f"{value:,.0f} ms"
