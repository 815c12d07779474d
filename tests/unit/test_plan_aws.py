"""Target `aws` in the plan: shards, what the shape carries, and what it costs."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from test_plan import described, printed

from kairoscope import paths
from kairoscope.cli import known
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, load
from kairoscope.plan import Plan
from kairoscope.targets.aws import cost
from kairoscope.targets.aws.instance_types import InstanceType, table


def planned(**sections: dict[str, Any]) -> Plan:
    data = described(**sections)
    del data["cluster"]["shards"]
    data["cluster"].update(sections.get("cluster", {}))
    return known.plan(Experiment.model_validate(data), "aws")


def refused(**sections: dict[str, Any]) -> str:
    with pytest.raises(UserError) as error:
        planned(**sections)
    return error.value.message


@pytest.mark.parametrize(
    ("vcpus", "shards"),
    # i3.8xlarge: 30 of 32, as published with the run of 2018.
    [(2, 2), (4, 4), (8, 7), (12, 10), (16, 14), (32, 30), (64, 60), (128, 120)],
)
def test_shards_of_a_storage_node(vcpus: int, shards: int) -> None:
    line = InstanceType(vcpus=vcpus, memory_gib=1, nvme_gb=(1,), usd_per_hour=1)
    assert line.shards == shards


@given(st.integers(1, 512))
def test_there_is_a_shard_and_never_more_than_threads(vcpus: int) -> None:
    line = InstanceType(vcpus=vcpus, memory_gib=1, nvme_gb=(1,), usd_per_hour=1)
    assert 1 <= line.shards <= vcpus


def test_the_published_run_fits_the_published_topology() -> None:
    plan = known.plan(load("cluster-180k"), "aws")
    assert plan.engine == "scylla"
    assert plan.setting("cluster.shards").value == 30
    assert plan.setting("cluster.shards").derived_value == 30
    assert plan.terraform == {
        "experiment": "cluster-180k",
        "storage_nodes": 3,
        "replication_factor": 3,
        "kairosdb_nodes": 3,
        "loader_hosts": 1,
        "storage_instance_type": "i3.8xlarge",
        "kairosdb_instance_type": "m5.2xlarge",
        "loader_instance_type": "m5.2xlarge",
        "monitoring_instance_type": "t3.large",
        "storage_zones": 1,
        "queue_volume_gib": 200,
        "secured": True,
        "loader_spot": False,
        "scylla_version": "2026.1.11",
    }
    # 3 × 2.496 + 3 × 0.384 + 0.384 + 0.0832 + 0.0104, (3 × 50 + 6 × 30 + 3 × 200) GiB × 0.08 / 730,
    # NAT 0.045, load balancer 0.0225, two addresses 0.005 each
    instances = 3 * 2.496 + 4 * 0.384 + 0.0832 + 0.0104
    by_hand = instances + 930 * 0.08 / 730 + 0.045 + 0.0225 + 0.01
    assert plan.totals["usd_per_hour"] == pytest.approx(by_hand, abs=0.005)
    assert plan.totals["usd_per_run"] == pytest.approx(by_hand * (1 + 2000 / 3600), abs=0.005)


def test_shards_come_from_the_instance_type_and_reach_kairosdb() -> None:
    plan = planned(aws={"storage_instance_type": "i4i.4xlarge"})
    assert plan.storage["shards"] == 14
    assert plan.kairosdb["connections_per_host"] == 14


def test_the_embedded_engine_has_none() -> None:
    data = described()
    del data["cluster"]["shards"]
    plan = known.plan(Experiment.model_validate(data), "local")
    assert plan.storage["shards"] == 2
    assert plan.terraform == {}


def test_three_zones_pay_for_the_traffic_between_them() -> None:
    one = planned()
    three = planned(aws={"storage_zones": 3})
    hours = cost.run_hours(120)
    # 600,000 points × 120 B × 3 ways × 2/3 of them to another zone × 0.02 USD/GB
    extra = 600_000 * 120 / 1e9 * 3 * 2 / 3 * 0.02
    assert extra == pytest.approx(cost.zone_traffic_usd(three.terraform, 600_000, 120), rel=1e-9)
    assert cost.zone_traffic_usd(one.terraform, 600_000, 120) == 0
    assert three.totals["usd_per_run"] == pytest.approx(
        cost.usd_per_hour(three.terraform) * hours + extra, abs=0.005
    )


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (
            {"aws": {"storage_instance_type": "i3.9xlarge"}},
            ["aws.storage_instance_type", "i3.9xlarge is not in", "i3.8xlarge"],
        ),
        (
            {"aws": {"loader_instance_type": "z9.huge"}},
            ["aws.loader_instance_type", "z9.huge", "i3.large", "add its line"],
        ),
        (
            {"aws": {"storage_instance_type": "m5.4xlarge"}},
            ["aws.storage_instance_type", "no local NVMe", "i4i"],
        ),
        (
            {"load": {"sensors": 200_000}, "cluster": {"kairosdb_nodes": 4}},
            ["load.sensors", "600,000 writes/s", "562,500", "cluster.storage_nodes ≥ 4"],
        ),
        (
            {"load": {"sensors": 90_000}, "aws": {"kairosdb_instance_type": "m5.large"}},
            ["cluster.kairosdb_nodes", "1.8 threads", "take ≥ 2 nodes"],
        ),
        (
            {"load": {"workers": 6}, "aws": {"loader_instance_type": "m5.xlarge"}},
            ["cluster.loader_hosts", "6 loader processes", "4 threads", "≥ 2 loader hosts"],
        ),
        (
            {
                "load": {"sensors": 50_000, "duration_s": 2_592_000},
                "aws": {"storage_instance_type": "i3.2xlarge"},
            },
            ["aws.storage_instance_type", "while merging", "1.9 TB"],
        ),
        (
            {"cluster": {"storage_nodes": 2, "replication_factor": 2}, "aws": {"storage_zones": 3}},
            ["aws.storage_zones", "cluster.storage_nodes is 2"],
        ),
        (
            {"kairosdb": {"heap_mb": 65_536}, "aws": {"kairosdb_instance_type": "m5.2xlarge"}},
            ["kairosdb.heap_mb", "65,536 MiB and 550 MiB", "m5.2xlarge has 32,768 MiB"],
        ),
    ],
)
def test_what_the_shape_does_not_carry_is_refused(
    sections: dict[str, Any], words: list[str]
) -> None:
    message = refused(**sections)
    assert [word for word in words if word not in message] == []


def test_all_unknown_instance_types_are_told_at_once() -> None:
    message = refused(aws={"storage_instance_type": "a.b", "kairosdb_instance_type": "c.d"})
    assert message.count("is not in terraform/instance-types.yml") == 2


@pytest.mark.parametrize(
    ("version", "nodes", "told"),
    [
        ("2026.1.11", "i3.8xlarge", True),
        ("6.2.3", "i3.8xlarge", False),
        ("2026.1.11", "i3.4xlarge", False),
    ],
)
def test_the_licence_is_told_where_it_matters(version: str, nodes: str, told: bool) -> None:
    plan = planned(storage={"scylla_version": version}, aws={"storage_instance_type": nodes})
    assert any("agreement with ScyllaDB" in notice for notice in plan.notices) is told


def test_the_bill_and_the_plan_say_the_same() -> None:
    plan = planned()
    console = Console(width=160, file=io.StringIO())
    with console.capture() as captured:
        console.print(cost.render(plan))
    bill = captured.get()
    assert f"{plan.totals['usd_per_hour']:.2f}" in bill
    assert f"{plan.totals['usd_per_run']:.2f} USD" in bill
    assert "us-east-1" in bill and "2026" in bill
    assert "aws: what the target is made of" in printed(plan, 100)


@pytest.mark.parametrize("page", ["README.md", "docs/aws.md"])
def test_pages_that_name_the_cost_are_up_to_date(page: str) -> None:
    totals = known.plan(load("cluster-180k"), "aws").totals
    told = f"{totals['usd_per_hour']:.2f} USD an hour, {totals['usd_per_run']:.2f} a run"
    assert told in (paths.CHECKOUT / page).read_text()


def test_the_first_hour_costs_what_its_page_says() -> None:
    made, (_, types) = known.plan(load("first-hour"), "aws"), table()
    page = (paths.CHECKOUT / "docs" / "first-hour.md").read_text()
    aws, cluster = made.experiment.aws, made.experiment.cluster
    storage = cluster.storage_nodes * types[aws.storage_instance_type].vcpus
    vcpus = storage + sum(
        hosts * types[name].vcpus
        for hosts, name in (
            (cluster.kairosdb_nodes, aws.kairosdb_instance_type),
            (cluster.loader_hosts, aws.loader_instance_type),
            (1, aws.monitoring_instance_type),
            (1, "t3.micro"),
        )
    )
    assert f"**{made.totals['usd_per_hour']:.2f} USD an hour**" in page
    assert f" {vcpus} vCPUs of the region's quota" in page
    assert storage <= 50  # ScyllaDB's licence without a contract


def test_every_line_of_the_table_is_sound() -> None:
    prices, types = table()
    assert prices.region == "us-east-1"
    for name, line in types.items():
        assert name.startswith(("i3.", "i3en.", "i4i.")) == bool(line.nvme_gb), name
        assert line.memory_gib / line.vcpus <= 16, name


def test_a_compressor_that_the_release_does_not_know_is_refused() -> None:
    """At the plan, not when hosts are made and the store says no."""
    with_dictionaries = {"compression": "ZstdWithDictsCompressor"}
    assert planned(storage=with_dictionaries).storage["compression"] == "ZstdWithDictsCompressor"
    said = refused(storage={**with_dictionaries, "scylla_version": "6.2.3"})
    assert "not known to ScyllaDB 6.2.3, only from 2025.2.0 on: take ZstdCompressor" in said
    data = described(storage=with_dictionaries)
    with pytest.raises(UserError, match="is ScyllaDB's alone; this target stores in cassandra"):
        known.plan(Experiment.model_validate(data), "local")
