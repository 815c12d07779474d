"""Figures from samples."""

import load_samples
from hypothesis import given

from kairoscope.verdict import measurements
from kairoscope.verdict.outcomes import Counts, Outcomes
from loaders.schedule.due import Schedule


def sample(t: float, name: str, pid: int, cpu_s: float) -> dict:
    role = name.split("-", maxsplit=1)[0]
    return {"t": t, "name": name, "role": role, "pid": pid, "cpu_s": cpu_s, "rss_bytes": 100}


def test_cpu_is_that_of_the_window_over_all_pids():
    samples = [
        sample(0, "storage-1", 1, 5.0),
        sample(10, "storage-1", 1, 10.0),
        sample(20, "storage-1", 1, 14.0),
        sample(22, "storage-1", 2, 1.0),  # restarted
        sample(30, "storage-1", 2, 3.0),
        sample(40, "storage-1", 2, 99.0),
    ]
    assert measurements.cpu_seconds(samples, 10, 30) == {"storage-1": 4.0 + 2.0}


def test_cost_per_point_and_bytes_per_point():
    samples = [
        sample(10, "storage-1", 1, 0.0),
        sample(20, "storage-1", 1, 4.0),
        sample(10, "storage-2", 2, 0.0),
        sample(20, "storage-2", 2, 6.0),
        {"t": 10, "name": "machine", "role": "machine", "cpu_busy_s": 0.0},
        {"t": 20, "name": "machine", "role": "machine", "cpu_busy_s": 15.0},
    ]
    found = measurements.measurements(
        samples,
        (10, 20),
        100_000,
        2,
        {"target": 10_000, "achieved": 9_999.0},
        {"before": 1000, "after": 1000 + 30 * 1000, "points": 1000},
        3,
    )
    assert found["cpu_us_per_point"] == {"storage": 100.0, "kairosdb": None, "loader": None}
    assert found["cpu_cores"] == {"storage-1": 0.4, "storage-2": 0.6}
    assert found["machine_cpu_busy_fraction"] == 0.75
    assert found["bytes_per_point"] == {"on_disk_all_replicas": 30.0, "per_replica": 10.0}


def test_what_was_not_measured_is_null_with_a_reason():
    disk = {"before": None, "after": 5, "points": 5}
    found = measurements.measurements([], (0, 1), 0, 2, {}, disk, 3)
    assert found["bytes_per_point"]["on_disk_all_replicas"] is None
    assert found["machine_cpu_busy_fraction"] is None
    assert "could not be flushed" in found["notes"][0]


def test_loaders_elsewhere_are_counted_by_themselves():
    disk = {"before": None, "after": None, "points": None}
    found = measurements.measurements([], (0, 1), 10, 2, {}, disk, 3, loaders=(2.5, 100_000))
    assert found["cpu_us_per_point"]["loader"] == 25.0
    assert any("workers counted themselves" in note for note in found["notes"])
    here = [sample(10, "loader-0", 1, 0.0), sample(20, "loader-0", 1, 1.0)]
    found = measurements.measurements(
        here, (10, 20), 100_000, 2, {}, disk, 3, loaders=(2.5, 100_000)
    )
    assert found["cpu_us_per_point"]["loader"] == 10.0


@given(load_samples.specs())
def test_points_due_are_those_of_the_schedule(spec):
    schedule = Schedule(spec)
    for first in range(spec.ticks):
        by_hand = sum(tick >= first for s in schedule.series() for tick in s.ticks)
        assert measurements.points_due(schedule, first) == by_hand
    assert measurements.points_due(schedule, 0) == schedule.points


def test_balance_of_the_kairosdb_nodes():
    nodes = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    schedule = Schedule(load_samples.spec_of(sensors=5, nodes=nodes, telnet=[]))
    counted = Outcomes(Counts(), True, [12, 3], [11, 2])
    assert measurements.node_balance(["a", "b"], schedule, counted) == [
        {"node": "a", "sensors": 3, "points_sent": 12, "points_acknowledged": 11},
        {"node": "b", "sensors": 2, "points_sent": 3, "points_acknowledged": 2},
    ]
