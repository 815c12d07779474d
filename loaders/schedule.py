"""When each point is due: pure arithmetic, so that loader and read-back agree without talking.

The sensors of a worker are cut, per KairosDB node, into groups; a group sends one request per
tick. All groups of all workers are spread evenly over the period, and interleaved by node and
worker: otherwise every tick would be a burst, or each node in turn would be idle.

Times are computed by multiplication from the start, never by adding up, so they cannot drift.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loaders import shard
from loaders.spec import LoadSpec

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Sensors of one worker that share a request.

    Attributes:
        index: number of the group within its worker, in order of sending.
        node: index into the spec's nodes.
        sensors: int64[n], ascending.
        phase_ms: offset from the start of each tick, in [0, period_ms).
    """

    index: int
    node: int
    sensors: Int64s
    phase_ms: int


@dataclass(frozen=True, eq=False)
class _Layout:
    """How the groups fall, apart from time: rank is the place in the order of sending."""

    groups: list[list[tuple[int, Int64s, int]]]  # per worker: node, sensors, rank
    rank: Int64s  # per sensor
    count: int


# Read-back asks for one sensor after the other; the layout of them all is the same.
@functools.lru_cache(maxsize=4)
def _layout(sensors: int, workers: int, nodes: int, sensors_per_request: int) -> _Layout:
    cut: list[list[tuple[int, Int64s]]] = []
    for worker in range(workers):
        mine: list[tuple[int, int, Int64s]] = []
        for node in range(nodes):
            members = shard.cell(sensors, workers, worker, nodes, node)
            pieces = -(-len(members) // sensors_per_request)
            # Even pieces: 101 sensors become 51 + 50 rather than 100 + 1.
            for turn, piece in enumerate(np.array_split(members, pieces) if pieces else ()):
                piece.flags.writeable = False
                mine.append((turn, node, piece))
        mine.sort(key=lambda item: item[:2])
        cut.append([(node, piece) for _, node, piece in mine])

    groups: list[list[tuple[int, Int64s, int]]] = [[] for _ in range(workers)]
    rank = np.empty(sensors, dtype=np.int64)
    count = 0
    for index in range(max(len(mine) for mine in cut)):
        for worker in range(workers):
            if index < len(cut[worker]):
                node, piece = cut[worker][index]
                groups[worker].append((node, piece, count))
                rank[piece] = count
                count += 1
    rank.flags.writeable = False
    return _Layout(groups, rank, count)


def _layout_of(spec: LoadSpec) -> _Layout:
    return _layout(spec.sensors, spec.workers, len(spec.nodes), spec.sensors_per_request)


def groups(spec: LoadSpec, worker: int) -> list[Group]:
    """Groups of a worker in order of sending: phases do not descend; empty if it has no sensor.

    Raises:
        ValueError: there is no such worker.
    """
    shard.worker_range(spec.sensors, spec.workers, worker)
    layout = _layout_of(spec)
    return [
        Group(index, node, sensors, rank * spec.period_ms // layout.count)
        for index, (node, sensors, rank) in enumerate(layout.groups[worker])
    ]


def phases_ms(spec: LoadSpec) -> Int64s:
    """Offset of each sensor from the start of a tick, int64[sensors], in [0, period_ms)."""
    layout = _layout_of(spec)
    return layout.rank * spec.period_ms // layout.count


def timestamps_ms(spec: LoadSpec, sensor: int) -> Int64s:
    """Timestamps of all points of a sensor, which are their planned send times too.

    Returns:
        Epoch milliseconds, int64[ticks], ascending by exactly period_ms.

    Raises:
        ValueError: there is no such sensor.
    """
    if not 0 <= sensor < spec.sensors:
        raise ValueError(f"sensor: must be between 0 and {spec.sensors - 1}, not {sensor}")
    layout = _layout_of(spec)
    phase = int(layout.rank[sensor]) * spec.period_ms // layout.count
    return spec.start_ms + phase + np.arange(spec.ticks, dtype=np.int64) * spec.period_ms


def planned_ms(spec: LoadSpec, group: Group, tick: int) -> int:
    """Epoch milliseconds at which a group's request of a tick is due: its points' timestamp."""
    return spec.start_ms + tick * spec.period_ms + group.phase_ms
