"""The plan's arithmetic: invariants for any experiment, and the known ones to the number."""

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, Overrides, load
from kairoscope.plan import Plan, make, render
from kairoscope.plan.load import requests_per_tick

pytestmark = pytest.mark.unit
# No deadlines: a busy machine is no mistake of the plan's.


def described(**sections: dict[str, Any]) -> dict[str, Any]:
    """An experiment of three nodes and 5,000 sensors, with the given fields laid over it."""
    data: dict[str, Any] = {
        "name": "mine",
        "description": "A small one.",
        "cluster": {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1, "shards": 2},
        "load": {"sensors": 5000, "rate": 1.0, "duration_s": 120, "warmup_s": 15},
    }
    for section, fields in sections.items():
        data[section] = {**data.get(section, {}), **fields}
    return data


def planned(**sections: dict[str, Any]) -> Plan:
    return make(Experiment.model_validate(described(**sections)), "local")


def printed(plan: Plan, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as captured:
        console.print(render(plan))
    return captured.get()


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    nodes = draw(st.integers(1, 12))
    period = draw(st.integers(100, 20_000))
    rate = 1000 / period
    ticks = draw(st.integers(2, 5000))
    warmup = draw(st.integers(0, max(0, math.floor((ticks - 1) * period / 1000))))
    length = draw(st.sampled_from(["points", "duration_s"]))
    duration = math.ceil(ticks * period / 1000)
    return Experiment.model_validate(
        described(
            cluster={
                "storage_nodes": nodes,
                "replication_factor": draw(st.integers(1, nodes)),
                "kairosdb_nodes": draw(st.integers(1, 12)),
                "shards": draw(st.integers(1, 64)),
            },
            load={
                "sensors": draw(st.integers(1, 10_000_000)),
                "rate": rate,
                "duration_s": duration if length == "duration_s" else None,
                "points": ticks if length == "points" else None,
                "warmup_s": warmup,
                "sensors_per_request": draw(st.integers(1, 10_000)),
            },
            assume={
                "write_latency_ms": draw(st.floats(0.1, 100)),
                "bytes_per_point_on_wire": draw(st.integers(20, 2000)),
            },
        )
    )


@settings(deadline=None)
@given(experiments())
def test_what_holds_for_every_plan(experiment: Experiment) -> None:
    plan = make(experiment, "local")
    kairosdb, storage, totals = plan.kairosdb, plan.storage, plan.totals
    survivors = max(1, experiment.cluster.kairosdb_nodes - 1)

    after = totals["series_per_node_after_failover"]
    assert after * survivors >= experiment.load.sensors
    assert min(kairosdb["row_key_cache_size"], kairosdb["string_cache_size"]) >= after
    assert totals["points"] == experiment.load.sensors * experiment.load.ticks

    assert 10 < kairosdb["batch_size"] <= 1000
    assert 1 <= kairosdb["min_batch_size"] <= kairosdb["batch_size"]
    bytes_of_batch = kairosdb["batch_size"] * experiment.assume.bytes_per_point_on_wire
    assert 4 * bytes_of_batch <= storage["batch_size_fail_kib"] * 1024
    assert bytes_of_batch <= storage["batch_size_warn_kib"] * 1024

    assert 4 <= kairosdb["ingest_threads"] <= 64
    hosts = experiment.cluster.storage_nodes
    ceiling = (
        kairosdb["ingest_threads"]
        * kairosdb["batch_size"]
        / (hosts * experiment.assume.write_latency_ms / 1000)
    )
    warned = any("its queue would grow" in notice for notice in plan.notices)
    assert warned == (ceiling < totals["points_per_s"] / survivors)
    carried = kairosdb["connections_per_host"] * kairosdb["max_requests_per_connection"]
    assert carried >= kairosdb["ingest_threads"] * 3

    queued = kairosdb["memory_queue_size"] * 500
    cached = (kairosdb["row_key_cache_size"] + kairosdb["string_cache_size"]) * 1024
    assert kairosdb["heap_mb"] * 1_048_576 >= queued + cached
    assert kairosdb["heap_mb"] % 256 == 0

    assert 1 <= plan.load["workers"] <= experiment.load.sensors
    assert 0 <= plan.load["warmup_ticks"] < plan.load["ticks"]
    points_per_request = totals["points_per_s"] / plan.load["requests_per_s"]
    assert points_per_request <= experiment.load.sensors_per_request * (1 + 1e-6)
    assert totals["disk_bytes"] > totals["data_bytes"] > 0

    for section, final in (("kairosdb", kairosdb), ("storage", storage), ("load", plan.load)):
        for setting in plan.settings:
            group, _, key = setting.name.partition(".")
            if group != section or key not in final:
                continue
            if setting.name == "load.duration_s":
                # As asked for; the final value is what whole periods make of it.
                assert 0 <= setting.value - final[key] < plan.load["period_ms"] / 1000
            else:
                assert final[key] == setting.value, setting.name
    assert all(setting.reason for setting in plan.settings)
    assert all(s.arithmetic for s in plan.settings if s.origin == "derived")
    assert len({s.name for s in plan.settings}) == len(plan.settings)


@settings(deadline=None)
@given(experiments())
def test_json_round_trip(experiment: Experiment) -> None:
    plan = make(experiment, "local")
    assert Plan.from_json(plan.to_json()) == plan


@settings(deadline=None, max_examples=20)
@given(experiments())
def test_every_plan_can_be_printed(experiment: Experiment) -> None:
    assert experiment.name in printed(make(experiment, "local"), 80)


@settings(deadline=None)
@given(
    sensors=st.integers(1, 3000),
    nodes=st.integers(1, 7),
    workers=st.integers(1, 9),
    per_request=st.integers(1, 200),
)
def test_requests_are_counted_as_sensors_are_dealt(
    sensors: int, nodes: int, workers: int, per_request: int
) -> None:
    total = 0
    for worker in range(workers):
        block = range(sensors * worker // workers, sensors * (worker + 1) // workers)
        for node in range(nodes):
            total += math.ceil(len([s for s in block if s % nodes == node]) / per_request)
    assert requests_per_tick(sensors, nodes, workers, per_request) == total


def test_the_laptop_to_the_number() -> None:
    plan = make(load("laptop"), "local")
    assert plan.engine == "cassandra"
    assert plan.kairosdb == {
        "nodes": 1,
        "driver": "scylla",
        "write_consistency": "ONE",
        "read_consistency": "ONE",
        "batch_size": 500,
        "min_batch_size": 150,
        "min_batch_wait_ms": 100,
        "connections_per_host": 2,
        "max_requests_per_connection": 12,
        "ingest_threads": 4,
        "row_key_cache_size": 50_000,
        "string_cache_size": 50_000,
        "memory_queue_size": 100_000,
        "checkpoint_s": 10,
        "heap_mb": 768,
    }
    assert plan.storage["batch_size_fail_kib"] == 1024
    assert plan.load["workers"] == 2
    assert plan.load["requests_per_s"] == 50
    assert plan.totals["points"] == 600_000
    assert plan.setting("kairosdb.batch_size").arithmetic == "5,000 points/s × 100 ms = 500"
    assert "one Java heap per node" in plan.notices[0]


APPENDIX_A = {
    "connections_per_host": 30,
    "max_requests_per_connection": 8,
    "ingest_threads": 20,
    "batch_size": 50,
    "min_batch_size": 15,
    "write_consistency": "ONE",
}


@pytest.mark.parametrize(
    ("name", "sensors", "kairosdb_nodes"), [("single-60k", 60_000, 1), ("cluster-180k", 180_000, 3)]
)
def test_the_2018_experiments_are_the_published_ones(
    name: str, sensors: int, kairosdb_nodes: int
) -> None:
    plan = make(load(name), "local")
    for key, value in APPENDIX_A.items():
        assert plan.kairosdb[key] == value
        assert plan.setting(f"kairosdb.{key}").origin == "experiment"
    assert plan.storage["replication_factor"] == plan.storage["nodes"] == 3
    assert plan.kairosdb["nodes"] == kairosdb_nodes
    assert plan.load["metric"] == "SENSOR_{n}"
    assert plan.load["tags"] == {"status": "good"}
    assert (plan.load["sensors"], plan.load["ticks"]) == (sensors, 2000)
    assert plan.totals["points"] == sensors * 2000
    assert plan.experiment.reference == name
    # What replaced what: the arithmetic's own values stay visible.
    assert plan.setting("kairosdb.batch_size").derived_value == 1000
    assert plan.setting("kairosdb.max_requests_per_connection").derived_value == 8
    assert plan.kairosdb["row_key_cache_size"] > plan.totals["series_per_node_after_failover"]


def test_the_published_disk_figure_is_met() -> None:
    # ~12 GB for 120 million points at RF 3.
    assert make(load("single-60k"), "local").totals["data_bytes"] == pytest.approx(12e9, rel=0.1)


def test_caches_are_sized_for_the_sensors_of_a_failed_node() -> None:
    plan = planned(cluster={"kairosdb_nodes": 3}, load={"sensors": 180_000})
    assert plan.totals["series_per_node"] == 60_000
    assert plan.totals["series_per_node_after_failover"] == 90_000
    setting = plan.setting("kairosdb.row_key_cache_size")
    assert setting.value == 112_500
    assert setting.arithmetic == ("180,000 series / 2 nodes × 1.25 = 112,500")


def test_more_sensors_than_the_caches_hold_is_refused_for_both() -> None:
    with pytest.raises(UserError) as caught:
        planned(
            cluster={"kairosdb_nodes": 2},
            load={"sensors": 60_000},
            kairosdb={"row_key_cache_size": 50_000, "string_cache_size": 59_999},
        )
    first, second = caught.value.message.splitlines()
    assert "more sensors than the caches can hold on the surviving nodes" in first
    assert "60,000 series on a KairosDB node after one KairosDB node has failed" in first
    assert "raise kairosdb.row_key_cache_size to ≥ 75,000 or add a KairosDB node" in first
    assert "raise kairosdb.string_cache_size to ≥ 75,000" in second


def test_the_refusal_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(
        "name: mine\ndescription: d\n"
        "cluster: {storage_nodes: 1, replication_factor: 1, kairosdb_nodes: 1}\n"
        "kairosdb:\n  row_key_cache_size: 10\n"
        "load: {sensors: 20, duration_s: 60}\n"
    )
    with pytest.raises(UserError, match=r"mine\.yml:5: kairosdb\.row_key_cache_size: more sensors"):
        make(load(str(path)), "local")


def test_a_cache_that_is_just_large_enough_is_remarked_on() -> None:
    plan = planned(load={"sensors": 60_000}, kairosdb={"row_key_cache_size": 60_000})
    assert any("leaves less room than the 75,000 derived" in notice for notice in plan.notices)


def test_overrides_keep_what_they_replaced_and_carry_on() -> None:
    plan = planned(kairosdb={"batch_size": 200, "heap_mb": 2048})
    batch = plan.setting("kairosdb.batch_size")
    assert (batch.value, batch.origin, batch.derived_value) == (200, "experiment", 500)
    assert plan.kairosdb["min_batch_size"] == 60, "derived from what holds"
    assert plan.kairosdb["heap_mb"] == 2048
    assert plan.setting("kairosdb.heap_mb").derived_value == 768


def test_a_minimum_above_the_derived_batch_is_refused() -> None:
    with pytest.raises(UserError, match=r"kairosdb\.min_batch_size: must be ≤ .* derived as 500"):
        planned(kairosdb={"min_batch_size": 501})


def test_a_batch_that_the_store_would_refuse_is_refused_here() -> None:
    with pytest.raises(UserError, match=r"storage\.batch_size_fail_kib: a batch of 500 points"):
        planned(storage={"batch_size_fail_kib": 50})
    assert planned(kairosdb={"batch_size": 10_000}).storage["batch_size_fail_kib"] == 4736


def test_a_small_heap_is_remarked_on() -> None:
    plan = planned(kairosdb={"heap_mb": 256})
    assert any("may run out of memory" in notice for notice in plan.notices)


def test_the_command_line_scales_and_shows_it() -> None:
    plan = make(load("laptop", Overrides(sensors="20000", rate="2", duration_s="60")), "local")
    assert plan.totals["points_per_s"] == 40_000
    assert plan.totals["points"] == 20_000 * 120
    assert plan.kairosdb["batch_size"] == 1000
    sensors = plan.setting("load.sensors")
    assert (sensors.origin, sensors.value) == ("command line", 20_000)
    assert sensors.arithmetic == "SENSORS=20000; the experiment has 5000"
    assert plan.experiment.load.sensors == 20_000, "plan.json holds what was run"


def test_duration_in_place_of_points_shows_the_points() -> None:
    plan = make(load("single-60k", Overrides(duration_s="90")), "local")
    assert plan.load["ticks"] == 90
    assert (
        plan.setting("load.duration_s").arithmetic == "DURATION=90; the experiment has points: 2000"
    )


@pytest.mark.parametrize(
    ("level", "copies", "stops", "may_miss"),
    [
        ("ONE", 3, False, True),
        ("QUORUM", 3, False, False),
        ("ALL", 3, True, False),
        ("ONE", 1, True, False),
    ],
)
def test_notices_on_consistency(level: str, copies: int, stops: bool, may_miss: bool) -> None:
    plan = planned(
        cluster={"replication_factor": copies},
        kairosdb={"write_consistency": level, "read_consistency": level},
    )
    assert any("Writes stop when one storage node is down" in n for n in plan.notices) == stops
    assert any("a query may miss points" in n for n in plan.notices) == may_miss


def test_a_length_that_is_no_whole_number_of_periods_is_remarked_on() -> None:
    plan = planned(load={"rate": 0.4, "duration_s": 121})
    assert plan.load["ticks"] == 48
    assert plan.load["duration_s"] == 120
    assert any("121 s is not a whole number of periods" in notice for notice in plan.notices)


def test_other_targets_are_not_there_yet() -> None:
    with pytest.raises(UserError, match="target aws is not available yet; available: local"):
        make(load("laptop"), "aws")


@settings(deadline=None)
@given(experiments())
def test_plan_json_is_what_the_templates_read(experiment: Experiment) -> None:
    data = json.loads(make(experiment, "local").to_json())
    assert data["format"] == 1
    assert data["experiment"]["cluster"] == experiment.cluster.model_dump()
    assert None not in data["experiment"]["load"].values()
    for section in ("kairosdb", "storage", "load"):
        assert None not in data[section].values()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}'])
def test_a_foreign_plan_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"plan\.json: .*make it again"):
        Plan.from_json(text)


def test_rendering_shows_arithmetic_reason_origin_and_what_was_replaced() -> None:
    text = printed(make(load("single-60k", Overrides(sensors="50000")), "local"), 140)
    assert "SENSORS=50000; the experiment has 60000" in text
    assert "replaces 1,000 points: " in text
    assert "as derived: 30 shards × 1" in text
    assert "Strict LRU" in text
    assert "To know before starting" in text
