"""What instance types have and cost: `terraform/instance-types.yml`, the one table of both."""

import functools
import math
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from kairoscope import paths

TABLE = paths.TERRAFORM / "instance-types.yml"


class InstanceType(BaseModel):
    """One line of the table. `nvme_gb`: local disks, GB (10^9 bytes) each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vcpus: int = Field(ge=1)
    memory_gib: float = Field(gt=0)
    nvme_gb: tuple[float, ...]
    usd_per_hour: float = Field(gt=0)

    @property
    def shards(self) -> int:
        """Shards of a ScyllaDB node: its threads less those that ScyllaDB keeps for interrupts.

        As perftune.py chooses by itself (mode "auto", ScyllaDB's seastar repository): none up to 4
        threads, one thread up to 4 cores, and above one core of two threads for each 16 cores.
        """
        cores = math.ceil(self.vcpus / 2)
        if self.vcpus <= 4:
            return self.vcpus
        if cores <= 4:
            return self.vcpus - 1
        return self.vcpus - 2 * math.ceil(cores / 16)


class Prices(BaseModel):
    """What is paid for beside instances, in USD."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    region: str
    as_of: Any
    hours_per_month: float
    gp3_usd_per_gib_month: float
    nat_gateway_usd_per_hour: float
    load_balancer_usd_per_hour: float
    public_ipv4_usd_per_hour: float
    between_zones_usd_per_gb: float


@functools.cache
def table() -> tuple[Prices, Mapping[str, InstanceType]]:
    """The table as it is in the checkout."""
    data = yaml.safe_load(TABLE.read_text())
    types = {name: InstanceType(**line) for name, line in data["instance_types"].items()}
    return Prices(**data["prices"]), types


def unknown(name: str) -> str:
    """What is wrong with an instance type that the table does not have, and what to do."""
    _, types = table()
    family = name.partition(".")[0]
    near = [known for known in types if known.startswith(f"{family}.")] or list(types)
    return (
        f"{name} is not in terraform/instance-types.yml; there are {', '.join(near)}. To use "
        "another one, add its line with its threads, memory, disks and price"
    )
