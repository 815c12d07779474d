"""What the target costs: from the plan and the price table, before anything is created."""

from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from kairoscope.plan.amounts import n
from kairoscope.plan.model import Plan
from kairoscope.targets.aws.instance_types import Prices, table

ROOT_VOLUME_GIB = {"storage": 50, "other": 30}
"""Root volumes as terraform/modules/instance makes them."""
BASTION_TYPE = "t3.micro"
OVERHEAD_H = 1.0
"""Beside the load itself: provisioning and deploying, reading every point back, destroying. Not
measured on AWS."""


@dataclass(frozen=True)
class Item:
    """One line of the bill: `count` of something at `usd_per_hour` each."""

    what: str
    count: float
    usd_per_hour: float

    @property
    def total(self) -> float:
        """USD an hour of all of them."""
        return self.count * self.usd_per_hour


def items(values: dict[str, Any]) -> list[Item]:
    """What is paid by the hour, for the values that the plan hands to Terraform.

    With a NAT gateway and a bastion, which the account's settings may leave out, and loaders at
    the full price also where they are spot.
    """
    prices, types = table()
    per_gib = prices.gp3_usd_per_gib_month / prices.hours_per_month
    counts = {
        "storage": values["storage_nodes"],
        "kairosdb": values["kairosdb_nodes"],
        "loader": values["loader_hosts"],
        "monitoring": 1,
    }
    lines = []
    for role, count in counts.items():
        name = values[f"{role}_instance_type"]
        lines.append(Item(f"{role}: {name}", count, types[name].usd_per_hour))
    others = sum(counts.values()) - counts["storage"] + 1
    root = counts["storage"] * ROOT_VOLUME_GIB["storage"] + others * ROOT_VOLUME_GIB["other"]
    queues = counts["kairosdb"] * values["queue_volume_gib"]
    return [
        *lines,
        Item(f"bastion: {BASTION_TYPE} (access = ssh)", 1, types[BASTION_TYPE].usd_per_hour),
        Item("volumes: GiB of gp3", root + queues, per_gib),
        Item("NAT gateway (nat = true)", 1, prices.nat_gateway_usd_per_hour),
        Item("load balancer", 1, prices.load_balancer_usd_per_hour),
        Item("public addresses", 2, prices.public_ipv4_usd_per_hour),
    ]


def usd_per_hour(values: dict[str, Any]) -> float:
    """USD an hour for all of it."""
    return sum(item.total for item in items(values))


def zone_traffic_usd(values: dict[str, Any], points: int, bytes_per_point: float) -> float:
    """USD for the points of one run that cross zones; 0 in one zone.

    With a rack in each of three zones, two of three times KairosDB and the storage node that it
    writes to, and that one and each further replica, are in different zones.
    """
    zones: int = values["storage_zones"]
    if zones == 1:
        return 0.0
    prices, _ = table()
    copies: int = values["replication_factor"]  # to the first node, and from it to the others
    crossings = copies * (zones - 1) / zones
    return points * bytes_per_point / 1e9 * crossings * prices.between_zones_usd_per_gb


def run_hours(duration_s: float) -> float:
    """Hours that one run keeps the hosts."""
    return OVERHEAD_H + duration_s / 3600


def render(plan: Plan) -> RenderableType:
    """The bill of an experiment on `aws` for a terminal."""
    prices, _ = table()
    lines = Table(title=f"{plan.experiment.name} on aws", title_justify="left", title_style="bold")
    lines.add_column("what")
    for column in ("count", "USD/h each", "USD/h"):
        lines.add_column(column, justify="right")
    for item in items(plan.terraform):
        lines.add_row(item.what, n(item.count), f"{item.usd_per_hour:.4f}", f"{item.total:.2f}")
    lines.add_section()
    lines.add_row("together", "", "", f"{plan.totals['usd_per_hour']:.2f}")
    run = plan.setting("totals.usd_per_run")
    return Group(
        lines,
        f"a run: {run.arithmetic}",
        _caveat(prices),
    )


def _caveat(prices: Prices) -> str:
    return (
        f"Prices: {prices.region}, on demand, as of {prices.as_of} (terraform/instance-types.yml); "
        "without taxes, S3, traffic out of AWS and ScyllaDB's licence. Other regions differ."
    )
