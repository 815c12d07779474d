"""How many machines a number of sensors takes on AWS, and what they cost. Pure arithmetic.

Every line has its arithmetic; what no line can know is said beside them (`unknown`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kairoscope.errors import UserError
from kairoscope.plan.amounts import in_bytes, n
from kairoscope.plan.draft import MIB
from kairoscope.sizing.figures import Figures
from kairoscope.stacks.kairosdb.settings.kairosdb import (
    BYTES_PER_CACHED_SERIES,
    CACHE_HEADROOM,
    HEAP_BASE_MIB,
)
from kairoscope.stacks.kairosdb.settings.queue import INDEX_BYTES, OUTAGE_H
from kairoscope.stacks.kairosdb.settings.storage import COMPACTION_HEADROOM
from kairoscope.targets.aws import cost
from kairoscope.targets.aws.instance_types import InstanceType, Prices
from kairoscope.targets.aws.shape import CPU_SHARE, DISK_SHARE

MAX_SENSORS = 100_000_000
STORAGE_FAMILIES = ("i3.", "i3en.", "i4i.")
KAIROSDB_FAMILIES = ("m5.", "m6i.")
HEAP_SHARE = 0.5
"""Of a KairosDB node's memory: the rest is the queue's mapped files and the system."""
QUEUE_BYTES = 100
"""Of a point in KairosDB's queue file, its index apart: as the plan assumes."""
LEAST_KAIROSDB = 2
_DAY_S = 86_400
_GIB = 2**30


@dataclass(frozen=True)
class Need:
    """What is asked for.

    Attributes:
        rate: points a second of each sensor.
        retention_s: how long a point is kept.
        copies: replication factor.
    """

    sensors: int
    rate: float
    retention_s: float
    copies: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.sensors <= MAX_SENSORS:
            raise UserError(f"--sensors {self.sensors:,}: from 1 to {MAX_SENSORS:,}")
        if not 0.00001 <= self.rate <= 10:
            raise UserError(f"--rate {self.rate:g}: from 0.00001 to 10 points/s of a sensor")
        if not 3600 <= self.retention_s <= 20 * 365 * _DAY_S:
            raise UserError("--retention: from an hour (1h) to 20 years (20y)")
        if not 1 <= self.copies <= 7:
            raise UserError(f"--replication {self.copies}: from 1 to 7")

    @property
    def points_per_s(self) -> float:
        """Of all sensors."""
        return self.sensors * self.rate


@dataclass(frozen=True)
class Line:
    """One figure, how it came about, and how sure it is."""

    what: str
    value: str
    arithmetic: str
    sure: str = ""


@dataclass(frozen=True)
class Nodes:
    """Nodes of one type: as many as CPU, disk or memory, and the least, ask for."""

    type: str
    count: int
    usd_per_hour: float
    bound_by: str
    arithmetic: str

    @property
    def total(self) -> float:
        """USD an hour."""
        return self.count * self.usd_per_hour


@dataclass(frozen=True)
class Sizing:
    """The answer: lines, the choice, what else would do, the price, what is not known."""

    need: Need
    lines: tuple[Line, ...]
    storage: Nodes
    kairosdb: Nodes
    others: tuple[Nodes, ...]
    usd_per_hour: float
    usd_per_month: float
    unknown: tuple[str, ...]


Types = Mapping[str, InstanceType]


def data_bytes(need: Need, figures: Figures) -> float:
    """Of all copies on all nodes, merged, when the oldest points are about to expire."""
    per_copy = figures.bytes_per_copy.value
    return need.points_per_s * need.retention_s * per_copy * need.copies


def storage(need: Need, figures: Figures, name: str, one: InstanceType) -> Nodes:
    """Storage nodes of a type: enough threads for all copies, enough disk, a node for each copy."""
    threads = need.points_per_s * need.copies * figures.cpu_us_per_copy.value / 1e6
    each = (one.shards if figures.engine == "scylla" else one.vcpus) * CPU_SHARE
    disk = data_bytes(need, figures) * COMPACTION_HEADROOM
    room = sum(one.nvme_gb) * 1e9 * DISK_SHARE
    wanted = {
        "CPU": math.ceil(threads / each),
        "disk": math.ceil(disk / room),
        "copies": need.copies,
    }
    by = max(wanted, key=lambda key: wanted[key])
    how = (
        f"CPU {n(threads)} / ({n(each / CPU_SHARE)} threads × {CPU_SHARE}) = {n(wanted['CPU'])}; "
        f"disk {in_bytes(disk)} / ({in_bytes(room / DISK_SHARE)} × {DISK_SHARE}) = "
        f"{n(wanted['disk'])}; a node for each of {need.copies} copies"
    )
    return Nodes(name, wanted[by], one.usd_per_hour, by, how)


def kairosdb(need: Need, figures: Figures, name: str, one: InstanceType) -> Nodes:
    """KairosDB nodes of a type: enough CPU and heap when one of them has failed."""
    threads = need.points_per_s * figures.cpu_us_kairosdb.value / 1e6
    each = one.vcpus * CPU_SHARE
    heap = one.memory_gib * _GIB * HEAP_SHARE - HEAP_BASE_MIB * MIB
    # Two caches: row keys, and metric names at most as many.
    series = need.sensors * CACHE_HEADROOM * 2 * BYTES_PER_CACHED_SERIES
    wanted = {
        "CPU": math.ceil(threads / each) + 1,
        "memory": math.ceil(series / heap) + 1,
        "a spare": LEAST_KAIROSDB,
    }
    by = max(wanted, key=lambda key: wanted[key])
    how = (
        f"CPU {n(threads)} / ({one.vcpus} threads × {CPU_SHARE}) and one that may fail = "
        f"{n(wanted['CPU'])}; caches {in_bytes(series)} / {in_bytes(heap)} of heap and one = "
        f"{n(wanted['memory'])}"
    )
    return Nodes(name, wanted[by], one.usd_per_hour, by, how)


def queue_gib(need: Need, nodes: int) -> int:
    """Volume of one KairosDB node for all points of an outage of the store, one node having
    failed, in GiB."""
    rate = need.points_per_s / max(1, nodes - 1)
    return max(10, math.ceil(rate * OUTAGE_H * 3600 * (QUEUE_BYTES + INDEX_BYTES) / _GIB))


def size(need: Need, figures: Figures, types: Types, prices: Prices, zones: int = 3) -> Sizing:
    """The cheapest nodes that carry a need, with their arithmetic and price."""
    stores = _cheapest(
        [
            storage(need, figures, name, one)
            for name, one in types.items()
            if name.startswith(STORAGE_FAMILIES)
        ]
    )
    doors = _cheapest(
        [
            kairosdb(need, figures, name, one)
            for name, one in types.items()
            if name.startswith(KAIROSDB_FAMILIES) and one.memory_gib * HEAP_SHARE > 1
        ]
    )
    store, door = stores[0], doors[0]
    gib = queue_gib(need, door.count)
    zones = min(zones, store.count)
    values = _values(need, store, door, gib, zones)
    items = cost.items(values)
    an_hour = cost.usd_per_hour(values)
    month_s = prices.hours_per_month * 3600
    traffic = cost.zone_traffic_usd(values, round(need.points_per_s * month_s), _BYTES_ON_WIRE)
    a_month = an_hour * prices.hours_per_month + traffic
    lines = (
        *_needs(need, figures),
        Line("storage nodes", f"{n(store.count)} × {store.type}", store.arithmetic),
        Line("KairosDB nodes", f"{n(door.count)} × {door.type}", door.arithmetic),
        Line(
            "queue volume of each",
            f"{n(gib)} GiB",
            f"{n(need.points_per_s)} points/s / {n(max(1, door.count - 1))} × {OUTAGE_H} h × "
            f"{QUEUE_BYTES + INDEX_BYTES} B, at least 10",
            "as the plan assumes: four hours without the store",
        ),
        Line(
            "an hour",
            f"{an_hour:,.2f} USD",
            " + ".join(
                f"{item.what.split(' (')[0]} {item.total:,.2f}" for item in items if item.count
            ),
            f"list prices, {prices.region}, on demand, {prices.as_of}",
        ),
        Line(
            "a month",
            f"{a_month:,.0f} USD",
            f"{an_hour:,.2f} × {n(prices.hours_per_month)} h + {traffic:,.0f} for traffic between "
            f"{zones} zones",
            f"{_BYTES_ON_WIRE} bytes a point on the wire, as the plan assumes",
        ),
    )
    return Sizing(
        need, lines, store, door, tuple(stores[1:3]), an_hour, a_month, _unknown(figures, store)
    )


_BYTES_ON_WIRE = 120


def _cheapest(nodes: list[Nodes]) -> list[Nodes]:
    """By price an hour, then fewer of them."""
    return sorted(nodes, key=lambda one: (one.total, one.count))


def _values(need: Need, store: Nodes, door: Nodes, gib: int, zones: int) -> dict[str, Any]:
    """What the bill of `cost` is computed from; there are no loaders."""
    return {
        "storage_nodes": store.count,
        "storage_instance_type": store.type,
        "kairosdb_nodes": door.count,
        "kairosdb_instance_type": door.type,
        "loader_hosts": 0,
        "loader_instance_type": door.type,
        "monitoring_instance_type": "t3.large",
        "queue_volume_gib": gib,
        "storage_zones": zones,
        "replication_factor": need.copies,
    }


def _needs(need: Need, figures: Figures) -> tuple[Line, ...]:
    cpu, per_copy = figures.cpu_us_per_copy, figures.bytes_per_copy
    door = figures.cpu_us_kairosdb
    rate = need.points_per_s
    return (
        Line("points", f"{n(rate)} /s", f"{n(need.sensors)} sensors × {need.rate:g} points/s"),
        Line(
            f"CPU of the store ({figures.engine})",
            f"{n(rate * need.copies * cpu.value / 1e6)} threads",
            f"{n(rate)} points/s × {need.copies} copies × {n(cpu.value)} µs "
            f"({n(cpu.least)} to {n(cpu.most)})",
            cpu.sure,
        ),
        Line(
            "disk of the store",
            in_bytes(data_bytes(need, figures) * COMPACTION_HEADROOM),
            f"{n(rate)} points/s × {n(need.retention_s / _DAY_S)} days × {need.copies} copies × "
            f"{n(per_copy.value)} B ({n(per_copy.least)} to {n(per_copy.most)}) × "
            f"{COMPACTION_HEADROOM} while merging",
            per_copy.sure,
        ),
        Line(
            "CPU of KairosDB",
            f"{n(rate * door.value / 1e6)} threads",
            f"{n(rate)} points/s × {n(door.value)} µs ({n(door.least)} to {n(door.most)})",
            door.sure,
        ),
    )


TESTED_NODES = 3
"""Storage nodes of the largest cluster that figures are from."""


def _unknown(figures: Figures, store: Nodes) -> tuple[str, ...]:
    said = [
        "No figure is from these instance types: a thread of theirs may do more or less.",
        "Queries, repairs, backups and traffic out of AWS are in no line.",
        f"Headroom is {1 - CPU_SHARE:.0%} of CPU and {1 - DISK_SHARE:.0%} of disk; what a failed "
        "storage node leaves to the others is not added.",
    ]
    if figures.engine == "scylla" and "published 2018" in figures.cpu_us_per_copy.sure:
        said.append(
            "ScyllaDB's CPU was measured in developer mode only. The published figure is of "
            "batches of 50 as they came; the coalescing queue cost Cassandra a quarter of that."
        )
    if store.count > TESTED_NODES:
        said.append(
            f"Figures are from {TESTED_NODES} storage nodes; that {store.count:,} do as much each "
            "is an assumption."
        )
    return tuple(said)
