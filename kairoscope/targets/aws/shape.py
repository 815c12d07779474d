"""The target `aws`: what Terraform is told, and whether the experiment fits the shape."""

import math
from typing import Any

from kairoscope.hosts.java import JVM_OVERHEAD_MIB
from kairoscope.plan.amounts import count, in_bytes, n
from kairoscope.plan.draft import Draft
from kairoscope.targets.aws import cost
from kairoscope.targets.aws.instance_types import InstanceType, table, unknown

# A KairosDB node whose threads are all busy has none for the collector and for queries.
CPU_SHARE = 0.8
# ScyllaDB needs room to compact; beyond this share its own guidance is to add disk.
DISK_SHARE = 0.8
# Free of charge up to so many threads of an organisation (scylladb.com/source-available-faq).
FREE_VCPUS, FREE_FROM = 50, 2025
ROLES = ("storage", "kairosdb", "loader", "monitoring")


def shape(draft: Draft) -> dict[str, InstanceType] | None:
    """The instance types by role, None where one of them is unknown (recorded as a problem)."""
    _, types = table()
    known = {}
    for role in ROLES:
        field = f"{role}_instance_type"
        name = getattr(draft.experiment.aws, field)
        if name in types:
            known[role] = types[name]
        else:
            draft.refuse(f"aws.{field}", unknown(name))
    return known if len(known) == len(ROLES) else None


def shards(draft: Draft, storage: InstanceType) -> int:
    """Record the shards of a storage node, derived from its threads; returns what holds."""
    name = draft.experiment.aws.storage_instance_type
    return draft.derive(
        "cluster.shards",
        storage.shards,
        "shards",
        f"{name}: {count(storage.vcpus, 'thread')} less {storage.vcpus - storage.shards} for "
        f"interrupts = {storage.shards}",
        "One shard a thread; as ScyllaDB's setup (perftune, mode auto) divides them.",
    )


def settings(
    draft: Draft, types: dict[str, InstanceType], load: dict[str, Any], *, secured: bool
) -> dict[str, Any]:
    """Record what the target is made of and costs; Terraform's variables that come from the plan.

    Refuses an experiment that the shape does not carry.
    """
    cluster = draft.experiment.cluster
    values = {
        "experiment": draft.experiment.name,
        "storage_nodes": cluster.storage_nodes,
        "replication_factor": cluster.replication_factor,
        "kairosdb_nodes": cluster.kairosdb_nodes,
        "loader_hosts": cluster.loader_hosts,
        "secured": secured,
        "scylla_version": draft.experiment.storage.scylla_version,
        **draft.given("aws"),
    }
    _fits(draft, types, load)
    _cost(draft, values, load["duration_s"])
    _licence(draft, types["storage"])
    return values


def _fits(draft: Draft, types: dict[str, InstanceType], load: dict[str, Any]) -> None:
    """Refuse what the shape cannot carry, each with what would."""
    experiment, aws = draft.experiment, draft.experiment.aws
    cluster, assume = experiment.cluster, experiment.assume

    of_each = assume.shard_writes_per_s
    wanted = draft.points_per_s * cluster.replication_factor
    carried: float = cluster.storage_nodes * types["storage"].shards * of_each
    if wanted > carried:
        nodes = math.ceil(wanted / (types["storage"].shards * of_each))
        draft.refuse(
            "load.sensors",
            f"{n(draft.points_per_s)} points/s × {cluster.replication_factor} copies = {n(wanted)} "
            f"writes/s, and {cluster.storage_nodes} × {aws.storage_instance_type} carry "
            f"{cluster.storage_nodes} × {types['storage'].shards} shards × {n(of_each)} = "
            f"{n(carried)}; fewer sensors, a larger aws.storage_instance_type, or "
            f"cluster.storage_nodes ≥ {nodes}",
        )

    _fits_kairosdb(draft, types["kairosdb"])

    if load["workers_per_host"] > types["loader"].vcpus:
        draft.refuse(
            "cluster.loader_hosts",
            f"{load['workers_per_host']} loader processes a host, and an "
            f"{aws.loader_instance_type} has {types['loader'].vcpus} threads; take "
            f"≥ {math.ceil(load['workers'] / types['loader'].vcpus)} loader hosts, or a larger "
            "aws.loader_instance_type",
        )

    nvme = sum(types["storage"].nvme_gb) * 1e9
    data = draft.totals["data_bytes"] / cluster.storage_nodes
    if not nvme:
        draft.refuse(
            "aws.storage_instance_type",
            f"{aws.storage_instance_type} has no local NVMe disks, which ScyllaDB needs; take one "
            "of the i3, i3en or i4i families",
        )
    elif data * 2 > nvme * DISK_SHARE:
        draft.refuse(
            "aws.storage_instance_type",
            f"{in_bytes(data)} a storage node × 2 while merging, and an "
            f"{aws.storage_instance_type} has {in_bytes(nvme)} × {DISK_SHARE}; a larger type, more "
            "storage nodes, or a shorter load",
        )
    if aws.storage_zones > cluster.storage_nodes:
        draft.refuse(
            "aws.storage_zones",
            f"a rack in each of {aws.storage_zones} zones needs as many storage nodes, but "
            f"cluster.storage_nodes is {cluster.storage_nodes}",
        )


def _fits_kairosdb(draft: Draft, one: InstanceType) -> None:
    """Refuse what the threads and the memory of a KairosDB node do not carry."""
    name = draft.experiment.aws.kairosdb_instance_type
    of_point = draft.experiment.assume.cpu_us_kairosdb
    wanted = draft.node_points_per_s * of_point / 1e6
    carried = one.vcpus * CPU_SHARE
    if wanted > carried:
        draft.refuse(
            "cluster.kairosdb_nodes",
            f"{n(draft.node_points_per_s)} points/s a KairosDB node × "
            f"{n(of_point)} µs = {n(wanted)} threads, and an "
            f"{name} has {one.vcpus} × {CPU_SHARE} = "
            f"{n(carried)}; take ≥ {math.ceil(draft.nodes * wanted / carried)} nodes, or a larger "
            "aws.kairosdb_instance_type",
        )

    heap = draft.value("kairosdb.heap_mb") or 0
    memory = one.memory_gib * 1024
    if heap + JVM_OVERHEAD_MIB > memory:
        draft.refuse(
            "kairosdb.heap_mb",
            f"a heap of {n(heap)} MiB and {JVM_OVERHEAD_MIB} MiB beside it, and an "
            f"{name} has {n(memory)} MiB of memory; a smaller heap, or a "
            "larger aws.kairosdb_instance_type",
        )


def _cost(draft: Draft, values: dict[str, Any], duration_s: float) -> None:
    an_hour = cost.usd_per_hour(values)
    draft.total(
        "usd_per_hour",
        round(an_hour, 2),
        "USD/h",
        " + ".join(f"{item.what.split(' (')[0]} {item.total:.2f}" for item in cost.items(values))
        + f" = {an_hour:.2f}",
        "What the hosts cost while they are there, loaded or not; `make cost` has the lines.",
    )
    hours = cost.run_hours(duration_s)
    traffic = cost.zone_traffic_usd(
        values, draft.points, draft.experiment.assume.bytes_per_point_on_wire
    )
    a_run = an_hour * hours + traffic
    crossing = f" + {traffic:.2f} for traffic between zones" if traffic else ""
    draft.total(
        "usd_per_run",
        round(a_run, 2),
        "USD",
        f"{an_hour:.2f} USD/h × ({cost.OVERHEAD_H:g} h to deploy, read back and destroy + "
        f"{n(duration_s / 3600)} h of load){crossing} = {a_run:.2f} USD",
        "From nothing to a report and back to nothing.",
    )


def _licence(draft: Draft, storage: InstanceType) -> None:
    version = draft.experiment.storage.scylla_version
    vcpus = draft.experiment.cluster.storage_nodes * storage.vcpus
    if int(version.split(".")[0]) >= FREE_FROM and vcpus > FREE_VCPUS:
        draft.notices.append(
            f"ScyllaDB {version} is free up to {FREE_VCPUS} vCPUs of an organisation, and these "
            f"storage nodes have {vcpus}: you need an agreement with ScyllaDB, smaller nodes, or "
            "storage.scylla_version 6.2.3, the last open-source release line."
        )
