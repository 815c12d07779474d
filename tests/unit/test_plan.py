"""The plan's arithmetic: invariants for any experiment, and the known ones to the number."""

import dataclasses
import io
import json
import math
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from kairoscope import paths
from kairoscope.cli import known
from kairoscope.deploy.verify import answers
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, Overrides, load
from kairoscope.plan import Plan, render
from kairoscope.plan.load import requests_per_tick
from kairoscope.stacks.kairosdb import variables
from kairoscope.stacks.kairosdb.scylla import options
from kairoscope.stacks.kairosdb.settings import hocon
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Queries, Step


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
    return known.plan(Experiment.model_validate(described(**sections)), "local")


def printed(plan: Plan, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as captured:
        console.print(render(plan))
    return captured.get()


def surely_due(periods: list[int], seconds: list[int], warm_ms: int) -> int:
    """So many points at least of a sensor are due in what is measured of each step; 1 or more."""
    end, counts = 0, []
    for period, length_s in zip(periods, seconds, strict=True):
        begin, end = end, end + length_s * 1000 // period * period
        if end > warm_ms:
            counts.append((end - max(begin, warm_ms)) // period - 1)
    return max(1, min(counts))


@st.composite
def schedules(draw: st.DrawFn) -> dict[str, Any]:
    """Rate, length, warm-up, ramp, lifetime and pacing of a load that is let pass."""
    periods = draw(st.lists(st.integers(100, 20_000), min_size=1, max_size=4))
    ticks = [draw(st.integers(2, 1000)) for _ in periods]
    rates = [1000 / period for period in periods]
    seconds = [math.ceil(p * t / 1000) for p, t in zip(periods, ticks, strict=True)]
    load: dict[str, Any] = {"replay": draw(st.booleans())}
    length = draw(st.sampled_from(["points", "duration_s", "steps"]))
    if length == "steps":
        steps = zip(rates, seconds, strict=True)
        load |= {"rate": None, "duration_s": None}
        load["steps"] = [{"rate": rate, "duration_s": each} for rate, each in steps]
        run_ms = sum(s * 1000 // p * p for p, s in zip(periods, seconds, strict=True))
        last_ms = periods[-1]
    else:
        load |= {"rate": rates[0], "duration_s": None}
        load[length] = ticks[0] if length == "points" else seconds[0]
        run_ms, last_ms = periods[0] * ticks[0], periods[0]
    load["warmup_s"] = 0
    if not load["replay"]:
        load["warmup_s"] = draw(st.integers(0, max(0, math.floor((run_ms - last_ms) / 1000))))
        load["ramp_s"] = draw(st.integers(0, load["warmup_s"]))
        load["pacing"] = draw(st.sampled_from(["spread", "aligned"]))
        load["jitter_ms"] = draw(st.integers(0, 100))
    most = 10
    if length == "steps" and not load["replay"]:
        most = min(most, surely_due(periods, seconds, load["warmup_s"] * 1000))
    load["points_per_request"] = draw(st.integers(1, most))
    if length != "steps" and draw(st.booleans()):
        # The least number of whole seconds that is whole requests, some times over.
        lifetime_ms = math.lcm(1000, periods[0] * load["points_per_request"])
        load["lifetime_s"] = lifetime_ms // 1000 * draw(st.integers(1, 3))
        if load["lifetime_s"] > 2_592_000:
            del load["lifetime_s"]
    return load


@st.composite
def experiments(draw: st.DrawFn, max_sensors: int = 10_000_000) -> Experiment:
    nodes = draw(st.integers(1, 12))
    sensors = draw(st.integers(1, max_sensors))
    load = draw(schedules())
    protocols = ["rest", "rest-gzip"] + ["telnet-put", "telnet-putm"] * (not load["replay"])
    queried = not load["replay"] and draw(st.booleans())
    return Experiment.model_validate(
        described(
            cluster={
                "storage_nodes": nodes,
                "replication_factor": draw(st.integers(1, nodes)),
                "kairosdb_nodes": draw(st.integers(1, 12)),
                "loader_hosts": draw(st.integers(1, min(sensors, 20))),
                "shards": draw(st.integers(1, 64)),
            },
            load={
                "sensors": sensors,
                **load,
                "protocol": draw(st.sampled_from(protocols)),
                "metric": draw(st.sampled_from(["SENSOR_{n}", "m", "m-{n%5}"])),
                "tags": {"sensor": "{n}", "site": "{n%20}"},
                "sensors_per_request": draw(st.integers(1, 10_000)),
            },
            kairosdb={"queue": draw(st.sampled_from(["coalescing", "stock"]))},
            queries={"rate": 2.5, "sensors": min(10, sensors)} if queried else {},
            assume={
                "write_latency_ms": draw(st.floats(0.1, 100)),
                "bytes_per_point_on_wire": draw(st.integers(20, 2000)),
            },
        )
    )


def spec_of(plan: Plan) -> LoadSpec:
    """The loader's specification of a plan, for KairosDB nodes that nobody asks for."""
    names = {field.name for field in dataclasses.fields(LoadSpec)}
    values = {name: value for name, value in plan.load.items() if name in names}
    queries = values.pop("queries")
    nodes = range(plan.kairosdb["nodes"])
    return LoadSpec(
        **{
            **values,
            "steps": [Step(**step) for step in values["steps"]],
            "start_ms": 1_700_000_000_000,
            "nodes": [f"http://127.0.0.1:{8000 + node}" for node in nodes],
            "telnet": [f"127.0.0.1:{9000 + node}" for node in nodes],
            "queries": Queries(**queries) if queries else None,
        }
    )


@given(experiments())
def test_what_holds_for_every_plan(experiment: Experiment) -> None:
    plan = known.plan(experiment, "local")
    kairosdb, storage, totals = plan.kairosdb, plan.storage, plan.totals
    survivors = max(1, experiment.cluster.kairosdb_nodes - 1)

    after = totals["series_per_node_after_failover"]
    assert after * survivors >= experiment.load.sensors
    replaced = experiment.load.lifetime_s is not None
    assert kairosdb["row_key_cache_size"] >= after * (2 if replaced else 1)
    if experiment.load.metric == "SENSOR_{n}":
        assert kairosdb["string_cache_size"] == kairosdb["row_key_cache_size"]
    else:
        assert kairosdb["string_cache_size"] == 50_000
    assert totals["points"] == experiment.load.sensors * experiment.load.ticks
    shortest = min(step["period_ms"] for step in plan.load["steps"])
    assert totals["points_per_s"] == pytest.approx(
        experiment.load.sensors * 1000 / shortest, abs=1e-6
    )

    assert 10 < kairosdb["batch_size"] <= 1000
    if kairosdb["queue"] == "stock":
        batch_bytes, in_flight, queued = what_holds_for_the_stock_queue(plan)
    else:
        batch_bytes, in_flight, queued = what_holds_for_the_coalescing_queue(plan)
    assert 4 * batch_bytes <= storage["batch_size_fail_kib"] * 1024
    assert batch_bytes <= storage["batch_size_warn_kib"] * 1024
    carried = kairosdb["connections_per_host"] * kairosdb["max_requests_per_connection"]
    assert carried >= in_flight * 3

    cached = (kairosdb["row_key_cache_size"] + kairosdb["string_cache_size"]) * 1024
    assert kairosdb["heap_mb"] * 1_048_576 >= queued + cached
    assert kairosdb["heap_mb"] % 256 == 0

    assert 1 <= plan.load["workers"] <= experiment.load.sensors
    assert plan.load["workers"] == plan.load["hosts"] * plan.load["workers_per_host"]
    assert 0 <= plan.load["ramp_ticks"] <= plan.load["warmup_ticks"] < plan.load["ticks"]
    assert plan.load["ticks"] == sum(step["ticks"] for step in plan.load["steps"])
    assert plan.load["period_ms"] == plan.load["steps"][0]["period_ms"]
    per_request = experiment.load.sensors_per_request * experiment.load.points_per_request
    assert totals["points_per_s"] / plan.load["requests_per_s"] <= per_request * (1 + 1e-3)
    assert totals["disk_bytes"] > totals["data_bytes"] > 0
    what_holds_for_connections(plan)

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


def what_holds_for_connections(plan: Plan) -> None:
    """No request waits for a connection to a server that holds the limit, or the plan says so."""
    load, limit_ms = plan.load, plan.experiment.limits.p99_ms
    connections = load["connections_per_node"]
    if load["replay"] or plan.experiment.load.connections_per_node is not None:
        return
    most = max(1, 2000 // load["workers"])
    assert 1 <= connections <= most
    pairs = max(1, plan.experiment.cluster.kairosdb_nodes - 1) * load["workers"]
    open_ms = connections * pairs / load["requests_per_s"] * 1000
    told = any("load.connections_per_node" in notice for notice in plan.notices)
    assert open_ms >= 2 * limit_ms * (1 - 1e-6) or connections == most
    assert open_ms >= limit_ms - 1 or told or not load["protocol"].startswith("rest")


def warned_of_growth(plan: Plan) -> bool:
    return any("its queue would grow" in notice for notice in plan.notices)


def rate_after_failure(plan: Plan) -> float:
    """Points a second that a KairosDB node gets when one has failed."""
    rate: float = plan.totals["points_per_s"] / max(1, plan.experiment.cluster.kairosdb_nodes - 1)
    return rate


def what_holds_for_the_stock_queue(plan: Plan) -> tuple[int, int, int]:
    """Checks; bytes of a batch, batches to a storage node at a time, bytes of heap when full."""
    kairosdb, assume = plan.kairosdb, plan.experiment.assume
    batch: int = kairosdb["batch_size"]
    assert 1 <= kairosdb["min_batch_size"] <= batch
    threads: int = kairosdb["ingest_threads"]
    assert 4 <= threads <= 64
    latency_s = plan.experiment.cluster.storage_nodes * assume.write_latency_ms / 1000
    assert warned_of_growth(plan) == (threads * batch / latency_s < rate_after_failure(plan))
    queued: int = kairosdb["memory_queue_size"] * 500
    return batch * assume.bytes_per_point_on_wire, threads, queued


def what_holds_for_the_coalescing_queue(plan: Plan) -> tuple[int, int, int]:
    """As for the stock queue."""
    kairosdb, assume = plan.kairosdb, plan.experiment.assume
    window_s: float = kairosdb["queue_window_ms"] / 1000
    assert 1 <= window_s <= 30
    in_flight: int = kairosdb["queue_in_flight"]
    assert 4 <= in_flight <= 64
    assert in_flight >= plan.storage["shards"]
    batch_bytes: int = kairosdb["queue_batch_kib"] * 1024
    points = max(1, batch_bytes // assume.bytes_per_point_on_wire)
    nodes = plan.experiment.cluster.storage_nodes
    ceiling = in_flight * points * nodes / (assume.write_latency_ms / 1000)
    assert warned_of_growth(plan) == (ceiling < rate_after_failure(plan))
    if plan.load["queries"]:
        assert plan.load["queries"]["lag_s"] >= window_s + 5
    memory: int = kairosdb["queue_memory_mb"] * 1_048_576
    held = rate_after_failure(plan) * window_s * 16
    assert memory * 0.75 >= held, "a whole window, without releasing early"
    assert memory * 0.25 >= in_flight * kairosdb["batch_size"] * nodes * 140
    assert not any("released early" in notice for notice in plan.notices)
    what_holds_for_its_disk(plan)
    return batch_bytes, in_flight, memory


def what_holds_for_its_disk(plan: Plan) -> None:
    """It has room for what it holds while all is well, twice."""
    kairosdb, assume = plan.kairosdb, plan.experiment.assume
    seconds = kairosdb["queue_window_ms"] / 1000 + kairosdb["queue_keep_s"]
    seconds += kairosdb["checkpoint_s"]
    points = rate_after_failure(plan) * seconds
    if plan.load["replay"]:
        points = max(points, plan.load["replay_queue_points"])
    usual = points * (assume.bytes_per_point_in_queue + 32)
    assert kairosdb["queue_disk_mb"] * 1_048_576 >= 2 * usual
    assert kairosdb["queue_disk_mb"] >= 512
    period_s = plan.storage["commitlog_sync_period_ms"] / 1000
    assert kairosdb["queue_keep_s"] >= 2 * period_s + 20, "on the disk, and its node's end noticed"
    assert kairosdb["queue_latest_expiry_s"] == 2**31 - 2


@settings(max_examples=60)
@given(experiments(max_sensors=300))
def test_the_loader_takes_the_plan_and_comes_to_the_same_totals(experiment: Experiment) -> None:
    plan = known.plan(experiment, "local")
    spec = spec_of(plan)
    schedule = Schedule(spec)
    groups = [group for worker in range(spec.workers) for group in schedule.groups(worker)]
    if spec.ramp_ticks:
        assert schedule.points <= plan.totals["points"]
        assert all(group.first_tick <= spec.warmup_ticks for group in groups)
    else:
        assert schedule.points == plan.totals["points"]
    lives = sum(len(list(schedule.lives(group))) * len(group.slots) for group in groups)
    assert lives <= plan.totals["series"]
    if not spec.lifetime_ticks:
        assert lives == plan.totals["series"]
    shortest_ms = min(step.period_ms for step in spec.steps)
    together = min(spec.points_per_request, spec.ticks)
    a_second = len(groups) * 1000 / shortest_ms / together
    assert plan.load["requests_per_s"] == pytest.approx(a_second, rel=1e-5, abs=1e-6)
    assert spec.duration_s == pytest.approx(plan.load["duration_s"])


@given(experiments())
def test_json_round_trip(experiment: Experiment) -> None:
    plan = known.plan(experiment, "local")
    assert Plan.from_json(plan.to_json()) == plan


@settings(max_examples=20)
@given(experiments())
def test_every_plan_can_be_printed(experiment: Experiment) -> None:
    assert experiment.name in printed(known.plan(experiment, "local"), 80)


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
    plan = known.plan(load("laptop"), "local")
    assert plan.engine == "cassandra"
    assert plan.kairosdb == {
        "nodes": 1,
        "driver": "scylla",
        "write_consistency": "QUORUM",
        "read_consistency": "QUORUM",
        "queue": "coalescing",
        "queue_window_ms": 15_000,
        "queue_memory_mb": 32,
        "queue_batch_kib": 32,
        "batch_size": 1000,
        "queue_in_flight": 4,
        "queue_keep_s": 22,
        "queue_disk_mb": 4096,
        "queue_disk_free_mb": 300,
        "queue_sync_ms": 0,
        "queue_new_series_per_s": 500,
        "queue_latest_expiry_s": 2_147_483_646,
        "connections_per_host": 2,
        "max_requests_per_connection": 12,
        "row_key_cache_size": 50_000,
        "string_cache_size": 50_000,
        "checkpoint_s": 10,
        "heap_mb": 768,
    }
    assert plan.storage["batch_size_fail_kib"] == 1024
    assert plan.load["workers"] == 2
    assert plan.load["requests_per_s"] == 150
    assert plan.load["steps"] == [{"period_ms": 1000, "ticks": 120}]
    assert plan.load["queries"] is None
    assert plan.totals["points"] == 1_800_000
    assert plan.setting("kairosdb.queue_window_ms").arithmetic == "15 points × 1,000 ms = 15,000"
    assert plan.setting("kairosdb.queue_memory_mb").arithmetic == (
        "15,000 points/s × (15 + 20) s × 20 B / 0.75 = 14, or 4,000 points in flight × 3 nodes × "
        "140 B / 0.25 = 7; 14 rounded up to 32s"
    )
    assert plan.setting("kairosdb.queue_disk_mb").arithmetic == (
        "15,000 points/s × (4 h + 22 s) × 132 B = 27,233, at most 4,096 on a machine that all "
        "servers share; 4,096 MiB last for 35.4 min without the store"
    )
    assert plan.setting("kairosdb.queue_keep_s").arithmetic.endswith("takes 43.6 MB of disk")
    assert "one Java heap per node" in plan.notices[0]


def test_scylla_on_a_shared_machine_to_the_number() -> None:
    plan = known.plan(load("laptop", Overrides(engine="scylla")), "local")
    assert plan.storage["shards"] == 1
    assert plan.setting("storage.memory_mb").arithmetic == "1 shard × 1,088 = 1,088"
    assert plan.storage["memory_mb"] == 1088
    # Only the server that is given will tell.
    assert "scylla_version" not in plan.storage
    (notice,) = [text for text in plan.notices if "developer mode" in text]
    assert "without a measurement of the disk" in notice
    assert not [text for text in plan.notices if "Apache Cassandra" in text]
    given = planned(storage={"engine": "scylla", "memory_mb": 700, "scylla_version": "6.2.3"})
    assert given.storage["memory_mb"] == 700
    assert given.setting("storage.memory_mb").derived_value == 2 * 1088
    assert given.storage["scylla_version"] == "6.2.3"
    on_hosts = known.plan(load("laptop"), "hosts")
    assert "memory_mb" not in on_hosts.storage
    assert not [text for text in on_hosts.notices if "developer mode" in text]


@pytest.mark.parametrize(
    ("load", "limit_ms", "connections", "told"),
    [
        # 60,000 / 100 = 600 requests/s from two workers.
        ({}, 500, 300, False),
        ({}, 5, 8, False),
        ({}, 10_000, 1000, True),
        ({"connections_per_node": 8}, 500, 8, True),
        ({"pacing": "aligned"}, 100, 300, False),
        ({"protocol": "telnet-put", "connections_per_node": 8}, 500, 8, False),
        ({"replay": True, "warmup_s": None}, 500, 8, False),
    ],
)
def test_connections_follow_from_the_rate_and_the_limit(
    load: dict[str, Any], limit_ms: float, connections: int, told: bool
) -> None:
    plan = planned(load={"sensors": 60_000, "duration_s": 60, **load}, limits={"p99_ms": limit_ms})
    assert plan.load["connections_per_node"] == connections
    notices = [notice for notice in plan.notices if "load.connections_per_node" in notice]
    assert bool(notices) == told
    if "connections_per_node" in load and told:
        assert "beyond answers of 26 ms on average requests wait for a connection" in notices[0]


def test_the_stock_queue_to_the_number() -> None:
    plan = planned(kairosdb={"queue": "stock"})
    of_the_queue = {
        "queue": "stock",
        "batch_size": 500,
        "min_batch_size": 150,
        "min_batch_wait_ms": 100,
        "ingest_threads": 4,
        "memory_queue_size": 100_000,
        "heap_mb": 768,
    }
    assert of_the_queue.items() <= plan.kairosdb.items()
    assert plan.setting("kairosdb.batch_size").arithmetic == "5,000 points/s × 100 ms = 500"
    assert not any(key.startswith("queue_") for key in plan.kairosdb)


APPENDIX_A = {
    "connections_per_host": 30,
    "max_requests_per_connection": 8,
    "ingest_threads": 20,
    "batch_size": 50,
    "min_batch_size": 15,
    "write_consistency": "ONE",
    "read_consistency": "ONE",
}


@pytest.mark.parametrize(
    ("name", "sensors", "kairosdb_nodes"), [("single-60k", 60_000, 1), ("cluster-180k", 180_000, 3)]
)
def test_the_2018_experiments_are_the_published_ones(
    name: str, sensors: int, kairosdb_nodes: int
) -> None:
    plan = known.plan(load(name), "local")
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
    assert known.plan(load("single-60k"), "local").totals["data_bytes"] == pytest.approx(
        12e9, rel=0.1
    )


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
        known.plan(load(str(path)), "local")


def test_a_cache_that_is_just_large_enough_is_remarked_on() -> None:
    plan = planned(load={"sensors": 60_000}, kairosdb={"row_key_cache_size": 60_000})
    assert any("leaves less room than the 75,000 derived" in notice for notice in plan.notices)


def test_overrides_keep_what_they_replaced_and_carry_on() -> None:
    plan = planned(kairosdb={"queue": "stock", "batch_size": 200, "heap_mb": 2048})
    batch = plan.setting("kairosdb.batch_size")
    assert (batch.value, batch.origin, batch.derived_value) == (200, "experiment", 500)
    assert plan.kairosdb["min_batch_size"] == 60, "derived from what holds"
    assert plan.kairosdb["heap_mb"] == 2048
    assert plan.setting("kairosdb.heap_mb").derived_value == 768


def test_a_minimum_above_the_derived_batch_is_refused() -> None:
    with pytest.raises(UserError, match=r"kairosdb\.min_batch_size: must be ≤ .* derived as 500"):
        planned(kairosdb={"queue": "stock", "min_batch_size": 501})


def test_a_batch_that_the_store_would_refuse_is_refused_here() -> None:
    with pytest.raises(UserError, match=r"storage\.batch_size_fail_kib: a batch of 500 points"):
        planned(storage={"batch_size_fail_kib": 50}, kairosdb={"queue": "stock"})
    plan = planned(kairosdb={"queue": "stock", "batch_size": 10_000})
    assert plan.storage["batch_size_fail_kib"] == 4736
    with pytest.raises(UserError, match=r"a batch of 64 KiB = 64 KiB would .*queue_batch_kib"):
        planned(storage={"batch_size_fail_kib": 50}, kairosdb={"queue_batch_kib": 64})
    assert planned(kairosdb={"queue_batch_kib": 512}).storage["batch_size_fail_kib"] == 2048


def test_batches_shrink_with_what_the_store_takes() -> None:
    plan = planned(storage={"batch_size_fail_kib": 50})
    assert plan.kairosdb["queue_batch_kib"] == 12
    setting = plan.setting("kairosdb.queue_batch_kib")
    assert setting.arithmetic == "32, at most 12 (0.25 of storage.batch_size_fail_kib)"


def test_the_window_follows_the_rate_and_the_memory_follows_the_window() -> None:
    def window(rate: float) -> int:
        ms: int = planned(load={"rate": rate}).kairosdb["queue_window_ms"]
        return ms

    assert [window(rate) for rate in (10, 2, 1, 0.5, 0.1)] == [1500, 7500, 15_000, 30_000, 30_000]
    plan = planned(load={"sensors": 60_000}, kairosdb={"queue_window_ms": 30_000})
    assert plan.kairosdb["queue_memory_mb"] == 96
    assert plan.held_s == 30
    assert planned(kairosdb={"queue": "stock"}).held_s == 0
    assert any("longer than load.warmup_s" in notice for notice in plan.notices)


@pytest.mark.parametrize(
    ("sensors", "marked"),
    [
        (74_000, "74,000 points/s × 4 h / 4 per byte / 0.75 = 339;"),
        # The plugin marks no more, so that more memory is of no use for it.
        (
            150_000,
            "150,000 points/s × 4 h, at most 1,073,741,823 points (of 2.0 h), / 4 per byte / "
            "0.75 = 342;",
        ),
    ],
)
def test_no_more_points_are_marked_than_the_plugin_can(sensors: int, marked: str) -> None:
    plan = planned(cluster={"storage_nodes": 4}, load={"sensors": sensors})
    assert marked in plan.setting("kairosdb.queue_memory_mb").arithmetic
    assert plan.kairosdb["queue_memory_mb"] == 352


def test_a_window_that_the_drain_has_no_time_for_is_refused() -> None:
    def with_window(ms: int, **load: Any) -> Plan:
        return planned(load=load, kairosdb={"queue_window_ms": ms}, limits={"drain_s": 60})

    with pytest.raises(
        UserError, match=r"limits\.drain_s: 60 s .* 120,000 ms .* raise it to ≥ 125"
    ):
        with_window(120_000)
    assert with_window(55_000).kairosdb["queue_window_ms"] == 55_000
    assert with_window(120_000, protocol="cql").kairosdb["queue_window_ms"] == 120_000


def test_memory_that_a_window_does_not_fit_in_is_remarked_on() -> None:
    plan = planned(load={"sensors": 60_000}, kairosdb={"queue_memory_mb": 8})
    assert any("series are released early" in notice for notice in plan.notices)


MIB = 1_048_576


@pytest.mark.parametrize(
    ("target", "sensors", "nodes", "volume_gib", "derived"),
    [
        # A few points need a few pages; on a shared machine 4 GiB are much.
        ("local", 10, 1, 200, 576),
        ("local", 60_000, 1, 200, 4096),
        # Four hours of an unreachable store, or what the volume has.
        ("aws", 60_000, 1, 200, 108_992),
        ("aws", 180_000, 3, 200, 163_456),
        ("aws", 180_000, 3, 100, 92_160),
        ("hosts", 60_000, 1, 200, 65_536),
        # Never less than twice what it takes while all is well.
        ("hosts", 9_000_000, 1, 200, 107_072),
    ],
)
def test_the_queues_disk(
    target: str, sensors: int, nodes: int, volume_gib: int, derived: int
) -> None:
    described_ = described(
        cluster={"kairosdb_nodes": nodes},
        load={"sensors": sensors},
        queries={"sensors": 1},
        aws={"queue_volume_gib": volume_gib},
    )
    plan = known.plan(Experiment.model_validate(described_), target)
    assert plan.kairosdb["queue_disk_mb"] == derived
    assert ("queue_latest_expiry_s" in plan.kairosdb) == (target == "local")


def test_a_queue_without_room_for_what_it_always_has_is_refused() -> None:
    with pytest.raises(UserError, match=r"queue_disk_mb: 1,024 MiB are less than .* 3,225 MiB"):
        planned(
            load={"sensors": 60_000},
            kairosdb={"queue_disk_mb": 1024, "queue_keep_s": 368},
        )
    plan = planned(load={"sensors": 60_000}, kairosdb={"queue_disk_mb": 65_536})
    assert plan.kairosdb["queue_disk_mb"] == 65_536
    assert "last for 2.4 h" in plan.setting("kairosdb.queue_disk_mb").arithmetic
    assert any("kairosdb.queue_disk_free_mb ends" in notice for notice in plan.notices)


def test_what_is_kept_outlives_what_a_commit_log_has_not_yet_on_the_disk() -> None:
    def remarks(keep_s: int, period_ms: int) -> list[str]:
        wanted = {"queue_keep_s": keep_s}
        plan = planned(kairosdb=wanted, storage={"commitlog_sync_period_ms": period_ms})
        return [notice for notice in plan.notices if "kairosdb.queue_keep_s" in notice]

    # A node's end has to be noticed as well; a late commit log takes two periods.
    assert "leaves 19 s to notice" in remarks(39, 10_000)[0]
    assert not remarks(40, 10_000)
    assert not remarks(22, 1_000)
    for keep_s, period_ms in ((19, 10_000), (1, 1_000)):
        with pytest.raises(UserError, match=r"queue_keep_s: .* late commit log .* raise it to"):
            remarks(keep_s, period_ms)
    assert "0: nothing is written again. 2 storage nodes killed together" in remarks(0, 1_000)[0]
    assert planned(kairosdb={"queue_keep_s": 0, "queue_sync_ms": 5}).kairosdb["queue_sync_ms"] == 5


@pytest.mark.parametrize(
    ("target", "level", "period_ms", "lost"),
    [
        ("hosts", "QUORUM", None, "2 storage nodes killed together lose up to 5,000 points (1 s)"),
        ("hosts", "QUORUM", 10_000, "up to 50,000 points (10 s) acknowledged at QUORUM: a query"),
        ("hosts", "ONE", None, "1 storage node killed loses up to 5,000 points (1 s)"),
        ("hosts", "ALL", None, "3 storage nodes killed together lose up to 5,000 points (1 s)"),
        # A killed Cassandra leaves what is in the operating system's memory.
        ("local", "QUORUM", None, "up to 500 points (0.1 s) acknowledged at QUORUM, without power"),
    ],
)
def test_what_the_stock_queue_does_not_write_again_is_said(
    target: str, level: str, period_ms: int | None, lost: str
) -> None:
    data = described(
        kairosdb={"queue": "stock", "write_consistency": level},
        storage={"commitlog_sync_period_ms": period_ms},
    )
    notices = known.plan(Experiment.model_validate(data), target).notices
    assert any(lost in notice for notice in notices), notices
    data["storage"] = {"commitlog_sync": "batch"}
    notices = known.plan(Experiment.model_validate(data), target).notices
    assert not any("lose" in notice for notice in notices)


def test_a_commit_log_that_writes_wait_for_needs_no_keeping_and_no_period() -> None:
    plan = planned(storage={"commitlog_sync": "batch"})
    assert plan.storage["commitlog_sync"] == "batch"
    assert "commitlog_sync_period_ms" not in plan.storage
    assert plan.kairosdb["queue_keep_s"] == 0
    assert not any("queue_keep_s" in notice for notice in plan.notices)
    with pytest.raises(UserError, match=r"commitlog_sync_period_ms: .* knows no period"):
        planned(storage={"commitlog_sync": "batch", "commitlog_sync_period_ms": 1000})


def rendered_store(plan: Plan, engine: str) -> dict[str, Any]:
    """The storage node's configuration as its role renders it, of what concerns the commit log."""
    folder = paths.ANSIBLE / "roles" / engine / "templates"
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), trim_blocks=True)  # noqa: S701
    environment.filters["to_json"] = lambda value: json.dumps(value, default=str)
    text = environment.get_template(f"{engine}.yaml.j2").render(
        plan=json.loads(plan.to_json()),
        scylla_release={"options": [], "shipped": {}},
        scylla_settings={},
    )
    return {k: v for k, v in yaml.safe_load(text).items() if k.startswith("commitlog_sync")}


def test_both_engines_are_rendered_as_planned() -> None:
    periodic = planned(storage={"commitlog_sync_period_ms": 2500})
    batch = planned(storage={"commitlog_sync": "batch"})
    assert rendered_store(periodic, "scylla") == {
        "commitlog_sync": "periodic",
        "commitlog_sync_period_in_ms": 2500,
    }
    assert rendered_store(periodic, "cassandra") == {
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "2500ms",
    }
    # A period beside batch stops Cassandra; ScyllaDB's window for it is read by nothing.
    for engine in ("scylla", "cassandra"):
        assert rendered_store(batch, engine) == {"commitlog_sync": "batch"}
    for version in yaml.safe_load(options.TABLE.read_text())["releases"]:
        known = options.release(version).options
        assert {"commitlog_sync", "commitlog_sync_period_in_ms"} <= set(known)


# Seconds since 1970, in November 2026.
NOW = 1_795_000_000
WIDTH = 1_814_400


def test_no_point_may_expire_when_the_engine_cannot_say_it() -> None:
    def at(ttl_s: int, target: str = "local", **load: Any) -> Plan:
        data = described(storage={"ttl_s": ttl_s}, load=load)
        return known.plan(Experiment.model_validate(data), target, now=NOW)

    run = 120
    last = 2_147_483_646 - NOW - run - WIDTH
    assert at(last).storage["ttl_s"] == last
    with pytest.raises(UserError) as refused:
        at(last + 1)
    assert "storage.ttl_s: " in refused.value.message
    assert "from 2026-11-" in refused.value.message
    assert "after 2038-01-19 03:14:06 UTC" in refused.value.message
    assert f"At most {last:,} today" in refused.value.message
    # History ends now: its points are written now.
    at(last + run, replay=True, warmup_s=None)
    # ScyllaDB has no such end, and the schema bounds what it takes.
    assert at(630_720_000 - WIDTH, "hosts").storage["ttl_s"] == 628_905_600
    for queue in ("stock", "coalescing"):
        with pytest.raises(UserError, match="after 2038"):
            planned(storage={"ttl_s": 628_905_600}, kairosdb={"queue": queue})


def rendered(plan: Plan) -> dict[str, Any]:
    """KairosDB's configuration as the role renders it, by key."""
    template = (paths.KAIROSDB_CONF / "templates" / "kairosdb.conf.j2").read_text()
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True)  # noqa: S701  # noqa: S701
    text = environment.from_string(template).render(
        plan=plan,
        ansible_managed="made by a test",
        secured=False,
        home="/home",
        address="127.0.0.1",
        http_port=8080,
        telnet_port=4242,
        inventory_hostname="kairosdb-1",
        kairosdb_keyspace="kairosdb",
        groups={"storage": ["storage-1"], "kairosdb": ["kairosdb-1"]},
        hostvars={"storage-1": {"address": "127.0.0.1", "native_transport_port": 9042}},
    )
    found: dict[str, Any] = hocon.parse(text, "kairosdb.conf")
    return found


@pytest.mark.parametrize("target", ["local", "hosts"])
@pytest.mark.parametrize("queue", ["coalescing", "stock"])
def test_kairosdb_is_told_of_its_queue(target: str, queue: str) -> None:
    data = described(kairosdb={"queue": queue}, storage={"ttl_s": 86_400})
    plan = known.plan(Experiment.model_validate(data), target)
    told = rendered(plan)
    documented = set((paths.KAIROSDB_CONF / "documented-keys.txt").read_text().splitlines())
    prefix = "kairosdb.kairoscope.queue."
    ours = {key.removeprefix(prefix): told[key] for key in told if key.startswith(prefix)}
    assert {prefix + key for key in ours} <= documented
    if queue == "stock":
        assert ours == {}
        return
    latest = {"latest_expiry_s": 2_147_483_646} if target == "local" else {}
    assert {key: int(value) for key, value in ours.items()} == {
        "nodes": 1,
        "window_ms": 15_000,
        "memory_mb": 32,
        "batch_bytes": 32_768,
        "in_flight_per_host": 4,
        "disk_mb": plan.kairosdb["queue_disk_mb"],
        "disk_free_mb": 300,
        "keep_s": 22,
        "sync_ms": 0,
        "new_series_per_s": 500,
        **latest,
    }
    assert answers.planned_settings(plan).items() <= told.items()


def test_a_small_heap_is_remarked_on() -> None:
    plan = planned(kairosdb={"heap_mb": 256})
    assert any("may run out of memory" in notice for notice in plan.notices)


def test_the_command_line_scales_and_shows_it() -> None:
    plan = known.plan(
        load("laptop", Overrides(sensors="20000", rate="2", duration_s="60")), "local"
    )
    assert plan.totals["points_per_s"] == 40_000
    assert plan.totals["points"] == 20_000 * 120
    assert plan.kairosdb["batch_size"] == 1000
    sensors = plan.setting("load.sensors")
    assert (sensors.origin, sensors.value) == ("command line", 20_000)
    assert sensors.arithmetic == "SENSORS=20000; the experiment has 15000"
    assert plan.experiment.load.sensors == 20_000, "plan.json holds what was run"


def test_duration_in_place_of_points_shows_the_points() -> None:
    plan = known.plan(load("single-60k", Overrides(duration_s="90")), "local")
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


STEPS = [{"rate": 1.0, "duration_s": 60}, {"rate": 4.0, "duration_s": 61}]
STEPPED = {"rate": None, "duration_s": None, "steps": STEPS}


def test_steps_are_planned_for_at_their_highest_rate() -> None:
    plan = planned(load=STEPPED)
    assert plan.load["steps"] == [
        {"period_ms": 1000, "ticks": 60},
        {"period_ms": 250, "ticks": 244},
    ]
    assert (plan.load["ticks"], plan.load["duration_s"]) == (304, 121)
    assert "rate" not in plan.load
    assert plan.totals["points_per_s"] == 20_000
    assert plan.totals["points"] == 5000 * 304
    assert plan.load["requests_per_s"] == 50 * 4
    assert plan.kairosdb["batch_size"] == 1000
    steps = plan.setting("load.steps")
    assert steps.arithmetic == (
        "rate 1 for 60 s = 60 points, 1,000 ms apart; rate 4 for 61 s = 244 points, 250 ms apart"
    )
    assert "2 steps" in printed(plan, 100)


def test_a_step_that_is_no_whole_number_of_periods_is_remarked_on() -> None:
    steps = [{"rate": 0.4, "duration_s": 61}, {"rate": 1.0, "duration_s": 60}]
    plan = planned(load={**STEPPED, "steps": steps})
    assert any("121 s is not a whole number of periods" in notice for notice in plan.notices)
    assert not any("whole number" in notice for notice in planned(load=STEPPED).notices)


def test_workers_are_derived_from_the_peak_and_the_same_for_each_host() -> None:
    assert planned(load={"sensors": 180_000}).load["workers"] == 2
    stepped = planned(load={**STEPPED, "sensors": 180_000}, cluster={"loader_hosts": 3})
    assert (stepped.load["workers"], stepped.load["workers_per_host"]) == (9, 3)
    assert stepped.setting("load.workers").arithmetic == (
        "720,000 points/s / 90,000 = 8, rounded up to a multiple of 3 hosts = 9"
    )
    given = planned(load={"workers": 6}, cluster={"loader_hosts": 3})
    assert (given.load["workers"], given.load["workers_per_host"], given.load["hosts"]) == (6, 2, 3)
    assert given.setting("load.workers").derived_value == 3


def test_points_that_travel_together_are_fewer_requests() -> None:
    assert planned(load={"points_per_request": 5}).load["requests_per_s"] == 10
    whole_run = planned(load={"points_per_request": 1000})
    assert whole_run.load["requests_per_s"] == pytest.approx(50 / 120)


def test_a_ramp_leaves_points_out() -> None:
    plan = planned(load={"ramp_s": 10})
    assert plan.load["ramp_ticks"] == 10
    total = plan.setting("totals.points")
    assert total.value == 600_000
    assert total.arithmetic == "5,000 sensors × 120 = 600,000, less what the ramp leaves out"
    assert Schedule(spec_of(plan)).points < 600_000
    assert "ramp" not in planned().setting("totals.points").arithmetic


def test_churn_makes_series_and_room_for_them() -> None:
    still = planned(cluster={"kairosdb_nodes": 3}, load={"sensors": 180_000})
    churn = planned(cluster={"kairosdb_nodes": 3}, load={"sensors": 180_000, "lifetime_s": 60})
    assert churn.load["lifetime_ticks"] == 60
    assert still.load["lifetime_ticks"] == 0
    assert (still.totals["series"], churn.totals["series"]) == (180_000, 540_000)
    assert churn.setting("totals.series").arithmetic == (
        "180,000 sensors × (1 + 119 / 60 rounded up) = 540,000, at most"
    )
    assert still.kairosdb["queue_new_series_per_s"] == 500
    assert churn.kairosdb["queue_new_series_per_s"] == 180_000 / 2 / 60 * 2
    for key in ("row_key_cache_size", "string_cache_size"):
        assert churn.setting(f"kairosdb.{key}").arithmetic == (
            "180,000 series / 2 nodes × 2 with churn × 1.25 = 225,000"
        )


def test_a_cache_for_the_sensors_but_not_for_their_successors_is_remarked_on() -> None:
    load = {"sensors": 60_000, "lifetime_s": 60}
    plan = planned(load=load, kairosdb={"row_key_cache_size": 75_000})
    assert any("less room than the 150,000 derived" in notice for notice in plan.notices)
    with pytest.raises(UserError, match="60,000 series on a KairosDB node, but 59,999 entries"):
        planned(load=load, kairosdb={"row_key_cache_size": 59_999})


def test_metric_names_are_fewer_than_series_where_tags_tell_sensors_apart() -> None:
    tags = {"sensor": "{n}"}
    plan = planned(
        load={"sensors": 200_000, "metric": "m-{n%3}", "tags": tags},
        kairosdb={"string_cache_size": 3},
    )
    assert plan.kairosdb["row_key_cache_size"] == 250_000
    setting = plan.setting("kairosdb.string_cache_size")
    assert setting.arithmetic == "3 metric names × 1.25 = 4, at least 50,000"


def test_queries_are_shown_whole_or_as_off() -> None:
    assert [s.name for s in planned().settings if s.name.startswith("queries.")] == ["queries.rate"]
    plan = planned(queries={"rate": 2.0})
    assert plan.load["queries"] == {
        "rate": 2.0,
        "last_s": 60,
        "lag_s": 20,
        "sensors": 10,
        "bucket_s": 10,
        "followed": 8,
    }
    lag = plan.setting("queries.lag_s")
    assert (lag.origin, lag.arithmetic) == ("derived", "15 s in KairosDB's queue + 5 s = 20")
    assert "2 queries/s" in printed(plan, 100)


@pytest.mark.parametrize("protocol", ["telnet-put", "telnet-putm"])
def test_telnet_is_remarked_on(protocol: str) -> None:
    notices = planned(load={"protocol": protocol}).notices
    assert any(f"{protocol} acknowledges nothing: the ledger rests on" in n for n in notices)
    assert not any("acknowledges nothing" in n for n in planned().notices)


def test_a_load_past_kairosdb_is_for_a_plain_cluster_of_this_machine() -> None:
    plan = planned(cluster={"kairosdb_nodes": 1}, load={"protocol": "cql"})
    assert any("past KairosDB: its queue stays empty" in n for n in plan.notices)
    with pytest.raises(UserError, match=r"load\.protocol: cql has no way to a store with TLS"):
        planned(
            cluster={"kairosdb_nodes": 1},
            load={"protocol": "cql"},
            security={"enabled": True},
        )
    with pytest.raises(UserError, match=r"kairosdb_nodes: cql goes past KairosDB, and 2 nodes"):
        planned(cluster={"kairosdb_nodes": 2}, load={"protocol": "cql"})


def test_replay_of_a_day() -> None:
    load = {"duration_s": 86_400, "replay": True, "warmup_s": None, "replay_queue_points": 10**8}
    plan = planned(load=load)
    assert (plan.load["ticks"], plan.load["warmup_ticks"], plan.load["warmup_s"]) == (86_400, 0, 0)
    assert plan.setting("load.warmup_s").origin == "default"
    assert any("Replay goes as fast as" in notice for notice in plan.notices)
    # Its queue is the one that it is let fill: 10 GB more than with none.
    less = planned(load={**load, "replay_queue_points": 0})
    assert plan.totals["disk_bytes"] - less.totals["disk_bytes"] == (10**8 - 235_000) * 132


def test_giving_up_before_failing_over_is_remarked_on() -> None:
    def remarked(nodes: int, patience: float) -> bool:
        plan = planned(cluster={"kairosdb_nodes": nodes}, load={"retry_for_s": patience})
        return any("(load.failover_after_s)" in notice for notice in plan.notices)

    assert remarked(2, 5.0)
    assert not remarked(2, 5.1)
    assert not remarked(1, 5.0), "nobody to fail over to"


def test_the_fleet_is_all_of_it() -> None:
    plan = known.plan(load("fleet"), "local")
    assert plan.load["hosts"] == plan.kairosdb["nodes"] == 2
    assert plan.load["protocol"] == "rest-gzip"
    assert 0 < plan.load["ramp_ticks"] < plan.load["warmup_ticks"]
    assert plan.load["lifetime_ticks"] == 60
    assert plan.load["queries"]["rate"] == 2
    spec = spec_of(plan)
    assert spec.tags_of(2025) == {"sensor": "sensor-2025", "site": "site-5"}
    assert spec.metric_name(2025) == "sensor.temperature"


def test_defaults_that_are_not_in_the_file_are_shown() -> None:
    data = described()
    del data["load"]["rate"], data["load"]["warmup_s"]
    plan = known.plan(Experiment.model_validate(data), "local")
    for name, value in (("load.rate", 1.0), ("load.warmup_s", 15)):
        assert (plan.setting(name).value, plan.setting(name).origin) == (value, "default")
    assert plan.load["warmup_s"] == 15


@pytest.mark.parametrize(
    ("target", "given", "held"),
    [
        ("local", None, "quick"),
        ("lab", None, "quick"),
        ("hosts", None, "full"),
        ("local", "full", "full"),
        ("hosts", "quick", "quick"),
    ],
)
def test_compilers(target: str, given: str | None, held: str) -> None:
    data = described()
    data["cluster"] |= {"jvm": given} if given else {}
    plan = known.plan(Experiment.model_validate(data), target)
    assert plan.setting("cluster.jvm").value == held
    options = variables.jvm_options(plan, "-Xmore")
    assert options["cassandra_jvm_options"] == options["kairosdb_jvm_options"]
    quick = "-XX:TieredStopAtLevel=1" in options["kairosdb_jvm_options"]
    assert (quick, "-Xmore" in options["kairosdb_jvm_options"]) == (held == "quick", True)


def test_other_targets_are_not_there_yet() -> None:
    with pytest.raises(UserError, match=r"TARGET=moon: .* There are: local, lab, aws, hosts"):
        known.plan(load("laptop"), "moon")


@given(experiments())
def test_plan_json_is_what_the_templates_read(experiment: Experiment) -> None:
    data = json.loads(known.plan(experiment, "local").to_json())
    assert data["format"] == 1
    assert data["experiment"]["cluster"] == experiment.cluster.model_dump(exclude_none=True)
    assert None not in data["experiment"]["load"].values()
    reads = data["load"].pop("queries")
    assert (reads is None) == (experiment.queries.rate == 0)
    for section in ("kairosdb", "storage", "load"):
        assert None not in data[section].values()


# Of a run itself are only its start, its nodes and what is under them.
OF_THE_RUN = {"start_ms", "nodes", "telnet", "store"}
LOAD_KEYS = {field.name for field in dataclasses.fields(LoadSpec)} - OF_THE_RUN
LOAD_KEYS |= {"ticks", "workers", "duration_s", "period_ms", "warmup_s", "requests_per_s"}


@settings(max_examples=20)
@given(experiments())
def test_the_load_has_all_that_a_run_reads(experiment: Experiment) -> None:
    assert set(known.plan(experiment, "local").load) >= LOAD_KEYS


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}'])
def test_a_foreign_plan_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"plan\.json: .*make it again"):
        Plan.from_json(text)


def test_rendering_shows_arithmetic_reason_origin_and_what_was_replaced() -> None:
    text = printed(known.plan(load("single-60k", Overrides(sensors="50000")), "local"), 140)
    assert "SENSORS=50000; the experiment has 60000" in text
    assert "replaces 1,000 points: " in text
    assert "as derived: 30 shards × 1" in text
    assert "Strict LRU" in text
    assert "To know before starting" in text
