"""Which sensors are followed: asked for again and again by the reader of their own loader host.

Theirs are the same clock and the same answer to who they are in workers, readers and verdict. A
place is followed, not a series: with churn the series in it change.
"""

from __future__ import annotations

from loaders.schedule import shard
from loaders.schedule.spec import LoadSpec


def places(spec: LoadSpec, host: int) -> list[int]:
    """Places of the followed sensors of a loader host, ascending, of 0 … spec.sensors - 1.

    They are spread over the host's workers, and over the KairosDB nodes by turns.

    Raises:
        ValueError: there is no such host.
    """
    workers = shard.host_workers(spec.hosts, spec.workers_per_host, host)
    first = shard.worker_range(spec.sensors, spec.workers, workers[0]).start
    end = shard.worker_range(spec.sensors, spec.workers, workers[-1]).stop
    count = min(spec.queries.followed if spec.queries else 0, end - first)
    nodes, apart = len(spec.nodes), (end - first) // max(count, 1)
    if apart < nodes:
        # Neighbours are of different nodes.
        return list(range(first, first + count))
    starts = [first + turn * apart for turn in range(count)]
    return [start + (turn - start) % nodes for turn, start in enumerate(starts)]
