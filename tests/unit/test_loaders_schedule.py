"""Who sends what, when, and with which value: pure functions, checked by properties."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders import rest, schedule, shard
from loaders.spec import LoadSpec
from loaders.values import values

pytestmark = pytest.mark.unit

GOOD: dict[str, Any] = {
    "sensors": 10,
    "period_ms": 1000,
    "ticks": 20,
    "warmup_ticks": 5,
    "start_ms": 1_700_000_000_000,
    "nodes": ["http://127.0.0.1:8080"],
    "workers": 2,
    "metric": "SENSOR_{n}",
    "tags": {"status": "good"},
    "sensors_per_request": 3,
    "request_timeout_s": 10.0,
    "retry_for_s": 60.0,
    "latency_limit_ms": 500.0,
    "connections_per_node": 8,
}


def nodes(count: int) -> list[str]:
    return [f"http://10.0.0.{i + 1}:8080" for i in range(count)]


specs = st.builds(
    lambda sensors, workers, count, per, period_ms, ticks, start_ms: LoadSpec(
        **GOOD
        | {
            "sensors": sensors,
            "workers": workers,
            "nodes": nodes(count),
            "sensors_per_request": per,
            "period_ms": period_ms,
            "ticks": ticks,
            "warmup_ticks": 0,
            "start_ms": start_ms,
        }
    ),
    st.integers(1, 400),
    st.integers(1, 9),
    st.integers(1, 7),
    st.integers(1, 50),
    st.integers(1, 5000),
    st.integers(1, 50),
    st.integers(0, 2**42),
)

# Sharding


@given(st.integers(1, 3000), st.integers(1, 40), st.integers(1, 12))
def test_cells_partition_the_sensors_evenly(sensors: int, workers: int, count: int) -> None:
    per_worker = [
        [shard.cell(sensors, workers, w, count, n) for n in range(count)] for w in range(workers)
    ]
    everything = np.concatenate([cell for row in per_worker for cell in row])
    assert sorted(everything.tolist()) == list(range(sensors))
    for w, row in enumerate(per_worker):
        block = shard.worker_range(sensors, workers, w)
        for n, cell in enumerate(row):
            assert all(s in block and shard.node_of(s, count) == n for s in cell.tolist())
        sizes = [len(cell) for cell in row]
        assert max(sizes) - min(sizes) <= 1
    for totals in (
        [sum(map(len, row)) for row in per_worker],
        [sum(map(len, column)) for column in zip(*per_worker, strict=True)],
    ):
        assert max(totals) - min(totals) <= 1


@pytest.mark.parametrize("worker", [-1, 2])
def test_no_such_worker(worker: int) -> None:
    with pytest.raises(ValueError, match="worker"):
        schedule.groups(LoadSpec(**GOOD), worker)


# Groups and phases


@given(specs)
def test_groups_cover_each_sensor_once_on_its_node(spec: LoadSpec) -> None:
    phases = schedule.phases_ms(spec)
    assert phases.shape == (spec.sensors,)
    for worker in range(spec.workers):
        mine = schedule.groups(spec, worker)
        assert [group.index for group in mine] == list(range(len(mine)))
        assert [group.phase_ms for group in mine] == sorted(group.phase_ms for group in mine)
        members = [s for group in mine for s in group.sensors.tolist()]
        assert sorted(members) == list(shard.worker_range(spec.sensors, spec.workers, worker))
        for group in mine:
            assert 1 <= len(group.sensors) <= spec.sensors_per_request
            assert set((group.sensors % len(spec.nodes)).tolist()) == {group.node}
            assert set(phases[group.sensors].tolist()) == {group.phase_ms}


@given(specs)
def test_phases_are_spread_over_the_period(spec: LoadSpec) -> None:
    phases = sorted(
        group.phase_ms for worker in range(spec.workers) for group in schedule.groups(spec, worker)
    )
    assert phases[0] == 0
    assert phases[-1] < spec.period_ms
    # Around the clock: the last group of a tick is followed by the first of the next.
    gaps = np.diff([*phases, spec.period_ms])
    assert gaps.max() <= math.ceil(spec.period_ms / len(phases))


def test_neighbouring_requests_go_to_different_nodes_and_come_from_different_workers() -> None:
    spec = LoadSpec(**GOOD | {"sensors": 1200, "nodes": nodes(3), "sensors_per_request": 10})
    order = sorted(
        (group.phase_ms, worker, group.node)
        for worker in range(spec.workers)
        for group in schedule.groups(spec, worker)
    )
    for start in range(0, len(order), 6):
        window = order[start : start + 6]
        assert sorted(node for _, _, node in window) == [0, 0, 1, 1, 2, 2]
        assert sorted(worker for _, worker, _ in window) == [0, 0, 0, 1, 1, 1]


@given(specs, st.data())
def test_timestamps_are_unique_drift_free_and_those_of_the_group(
    spec: LoadSpec, data: st.DataObject
) -> None:
    worker = data.draw(st.integers(0, spec.workers - 1))
    for group in schedule.groups(spec, worker)[:3]:
        for sensor in (int(group.sensors[0]), int(group.sensors[-1])):
            times = schedule.timestamps_ms(spec, sensor)
            assert times.dtype == np.int64
            assert times.tolist() == [
                schedule.planned_ms(spec, group, tick) for tick in range(spec.ticks)
            ]
            assert set(np.diff(times).tolist()) <= {spec.period_ms}
            assert spec.start_ms <= times[0]
            assert times[-1] < spec.end_ms


@pytest.mark.parametrize("sensor", [-1, 10])
def test_no_such_sensor(sensor: int) -> None:
    with pytest.raises(ValueError, match="sensor"):
        schedule.timestamps_ms(LoadSpec(**GOOD), sensor)


# Values


def oracle(sensor: int, timestamp_ms: int) -> int:
    """The value function once more, in exact integers."""

    def splitmix64(state: int) -> int:
        z = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    return splitmix64(splitmix64(sensor) ^ timestamp_ms) % 1_000_000


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**53)), min_size=1))
def test_values_equal_the_oracle(points: list[tuple[int, int]]) -> None:
    sensors, times = zip(*points, strict=True)
    result = values(sensors, times)
    assert result.dtype == np.int64
    assert result.tolist() == [oracle(*point) for point in points]
    assert (result >= 0).all()
    assert (result <= 999_999).all()


def test_values_are_the_same_for_ever() -> None:
    # Stored data outlives the code that wrote it.
    expected = [oracle(0, 1_700_000_000_000), oracle(1, 1_700_000_000_000)]
    assert values([0, 1], 1_700_000_000_000).tolist() == expected == FIXED


FIXED = [837038, 243616]


@given(st.integers(0, 10**6), st.integers(0, 2**42), st.sampled_from([1, 10, 100, 1000]))
def test_values_of_neighbours_differ(sensor: int, start_ms: int, step_ms: int) -> None:
    # By chance one pair in a million is equal; of 200 pairs, three never are.
    over_time = values(sensor, start_ms + step_ms * np.arange(200))
    over_sensors = values(sensor + np.arange(200), start_ms)
    for series in (over_time, over_sensors):
        assert (np.diff(series) == 0).sum() < 3
        assert len(set(series.tolist())) > 190


def test_values_are_spread_evenly() -> None:
    counts, _ = np.histogram(values(np.arange(1000)[:, None], np.arange(100)), bins=10)
    assert counts.min() > 9_500
    assert counts.max() < 10_500


# Request bodies


@given(st.integers(0, 19), st.sampled_from(["SENSOR_{n}", '100%_"{n}"_é%d', "{n}.{n}"]))
def test_body_is_the_json_of_the_points(tick: int, metric: str) -> None:
    spec = LoadSpec(**GOOD | {"metric": metric, "tags": {"status": "good", "50%": 'a"%d'}})
    for worker in range(spec.workers):
        for group in schedule.groups(spec, worker):
            body = rest.datapoints_body(spec, group, tick, rest.body_template(spec, group))
            assert json.loads(body) == [
                {
                    "name": metric.replace("{n}", str(sensor)),
                    "timestamp": int(schedule.timestamps_ms(spec, sensor)[tick]),
                    "value": oracle(sensor, int(schedule.timestamps_ms(spec, sensor)[tick])),
                    "tags": spec.tags,
                }
                for sensor in group.sensors.tolist()
            ]


# LoadSpec


@given(specs)
def test_spec_survives_json(spec: LoadSpec) -> None:
    assert LoadSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("as_float", [True, False])
def test_spec_numbers_may_be_whole(as_float: bool) -> None:
    kind = float if as_float else int
    spec = LoadSpec(**GOOD | {"retry_for_s": kind(0), "request_timeout_s": kind(1)})
    assert LoadSpec.from_json(spec.to_json()) == spec


WHOLE = [0, -1, 1.5, "3", True, None, 2**60]
BAD: dict[str, list[Any]] = {
    "sensors": WHOLE,
    "period_ms": WHOLE,
    "ticks": [*WHOLE, 2**52],
    "warmup_ticks": [-1, 1.5, "3", True, None, 20, 21],
    "start_ms": [-1, 1.5, "3", True, None, 2**53],
    "nodes": [
        [],
        "http://127.0.0.1:8080",
        None,
        ["127.0.0.1:8080"],
        ["ftp://127.0.0.1"],
        ["http://"],
        ["http://a:port"],
        ["http://a:99999"],
        ["http://a/api"],
        ["http://a?x=1"],
        [7],
        ["http://a:1", "http://a:1"],
    ],
    "workers": WHOLE,
    "metric": ["", "SENSOR", None, 7, "SENSOR_{}"],
    "tags": [{}, None, [], {"a": ""}, {"": "a"}, {"a": 1}],
    "sensors_per_request": WHOLE,
    "request_timeout_s": [0, -1, "3", True, None, math.nan, math.inf],
    "retry_for_s": [-1, "3", True, None, math.nan, math.inf],
    "latency_limit_ms": [0, -1, "3", True, None, math.nan, math.inf],
    "connections_per_node": WHOLE,
}


def test_every_field_has_bad_values() -> None:
    assert set(BAD) == {field.name for field in dataclasses.fields(LoadSpec)} == set(GOOD)


@pytest.mark.parametrize(("name", "value"), [(name, bad) for name in BAD for bad in BAD[name]])
def test_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        LoadSpec.from_json(json.dumps(GOOD | {name: value}))


@pytest.mark.parametrize("name", list(GOOD))
def test_missing_field_is_refused_by_name(name: str) -> None:
    rest_of_it = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(ValueError, match=f"^{name}: missing"):
        LoadSpec.from_json(json.dumps(rest_of_it))


def test_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^sensor: unknown"):
        LoadSpec.from_json(json.dumps(GOOD | {"sensor": 1}))


@pytest.mark.parametrize("text", ["", "[]", "{", "7"])
def test_not_a_spec(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        LoadSpec.from_json(text)
