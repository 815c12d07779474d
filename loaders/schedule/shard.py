"""Who emulates which sensor, and which KairosDB node gets its points.

A worker has a contiguous block of sensors, a node every N-th sensor. So every worker talks to
every node, and all shares are even within one sensor, whatever the numbers are. A loader host has
the same number of workers as any other, with consecutive numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def worker_range(sensors: int, workers: int, worker: int) -> range:
    """Sensors of a worker: the block [S·w//W, S·(w+1)//W).

    Raises:
        ValueError: there is no such worker.
    """
    if not 0 <= worker < workers:
        raise ValueError(f"worker: must be between 0 and {workers - 1}, not {worker}")
    return range(sensors * worker // workers, sensors * (worker + 1) // workers)


def host_workers(hosts: int, workers_per_host: int, host: int) -> range:
    """Workers of a loader host.

    Raises:
        ValueError: there is no such host.
    """
    if not 0 <= host < hosts:
        raise ValueError(f"host: must be between 0 and {hosts - 1}, not {host}")
    return range(host * workers_per_host, (host + 1) * workers_per_host)


def cell(sensors: int, workers: int, worker: int, nodes: int, node: int) -> npt.NDArray[np.int64]:
    """Sensors of one worker that go to one node, ascending, as int64[n]; may be empty."""
    block = worker_range(sensors, workers, worker)
    first = block.start + (node - block.start) % nodes
    return np.arange(first, block.stop, nodes, dtype=np.int64)
