"""The section `aws`: what target `aws` is made of."""

from typing import Literal

from kairoscope.experiment.schema.section import Section, described

INSTANCE_TYPE = r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$"
INSTANCE_TYPE_WORDS = "an instance type of terraform/instance-types.yml, e.g. i3.8xlarge"


class Aws(Section):
    """What target `aws` is made of; the defaults are the published run of 2018."""

    storage_instance_type: str = described(
        "",
        "Of the storage nodes; needs local NVMe disks. An i3.8xlarge has 32 threads and four of "
        "1.9 TB; i4i is its successor.",
        allowed=INSTANCE_TYPE_WORDS,
        default="i3.8xlarge",
        pattern=INSTANCE_TYPE,
    )
    kairosdb_instance_type: str = described(
        "",
        "Of the KairosDB nodes: 8 threads, 32 GiB.",
        allowed=INSTANCE_TYPE_WORDS,
        default="m5.2xlarge",
        pattern=INSTANCE_TYPE,
    )
    loader_instance_type: str = described(
        "",
        "Of the loader hosts; each loader process takes one thread.",
        allowed=INSTANCE_TYPE_WORDS,
        default="m5.2xlarge",
        pattern=INSTANCE_TYPE,
    )
    monitoring_instance_type: str = described(
        "",
        "Of the one host for Prometheus and Grafana; its memory holds some hours of all series.",
        allowed=INSTANCE_TYPE_WORDS,
        default="t3.large",
        pattern=INSTANCE_TYPE,
    )
    storage_zones: Literal[1, 3] = described(
        "zones",
        "1: all hosts in one availability zone, storage nodes in a cluster placement group: least "
        "latency, as in 2018, and lost with the zone. 3: a rack in each of three zones, of which "
        "one may fail; every write crosses zones, which costs latency and traffic.",
        default=1,
    )
    queue_volume_gib: int = described(
        "GiB",
        "Encrypted gp3 volume of each KairosDB node for its file queue: at 60,000 points/s of "
        "132 bytes, index included, 200 GiB hold seven hours of an unreachable store.",
        default=200,
        ge=1,
        le=16_384,
    )
    loader_spot: bool = described(
        "",
        "Loader hosts from spare capacity: a fraction of the price, and may be taken away in "
        "mid-run, which the verdict then says.",
        default=False,
    )
