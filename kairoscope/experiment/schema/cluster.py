"""The section `cluster`: how many of what."""

from typing import Literal

from kairoscope.experiment.schema.section import Section, described


class Cluster(Section):
    """The shape: how many of what."""

    storage_nodes: int = described(
        "nodes", "How many nodes store the data; three is the least that RF 3 needs.", ge=1, le=200
    )
    replication_factor: int = described(
        "replicas",
        "Copies of every point, each on another storage node; 3 survives the loss of one node "
        "with a quorum left.",
        ge=1,
        le=20,
    )
    kairosdb_nodes: int = described(
        "nodes",
        "How many KairosDB processes take the sensors' points; sensors are split evenly over them.",
        ge=1,
        le=200,
    )
    loader_hosts: int = described(
        "hosts",
        "How many hosts run the sensors; each has the same number of loader processes.",
        default=1,
        ge=1,
        le=200,
    )
    datacenter: str = described(
        "",
        "Name of the one datacenter: NetworkTopologyStrategy and KairosDB's local_dc_name use it.",
        allowed="letters, digits, - and _, at most 48",
        default="dc1",
        pattern=r"^[A-Za-z0-9_-]{1,48}$",
    )
    shards: int | None = described(
        "shards",
        "CPU shards of one ScyllaDB node (its threads less those kept for interrupts: 30 of 32 "
        "on an i3.8xlarge). Cassandra has no shards; there it is the threads a node may count on.",
        absent="2; 1 of ScyllaDB on targets `local` and `lab`; on `aws` of the instance type",
        default=None,
        ge=1,
        le=256,
    )
    jvm: Literal["quick", "full"] | None = described(
        "",
        "Compilers of the Java servers. `full` has Java's optimising one too: it takes much of the "
        "CPU in a server's first minutes, and points cost less from then on. `quick` does without, "
        "for servers that live for minutes.",
        absent="quick on targets `local` and `lab`, full on others",
        default=None,
    )
