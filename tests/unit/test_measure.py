"""Figures from samples."""

import pytest

from kairoscope import measure

pytestmark = pytest.mark.unit


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
    assert measure.cpu_seconds(samples, 10, 30) == {"storage-1": 4.0 + 2.0}


def test_cost_per_point_and_bytes_per_point():
    samples = [
        sample(10, "storage-1", 1, 0.0),
        sample(20, "storage-1", 1, 4.0),
        sample(10, "storage-2", 2, 0.0),
        sample(20, "storage-2", 2, 6.0),
        {"t": 10, "name": "machine", "role": "machine", "cpu_busy_s": 0.0},
        {"t": 20, "name": "machine", "role": "machine", "cpu_busy_s": 15.0},
    ]
    found = measure.measurements(
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
    found = measure.measurements([], (0, 1), 0, 2, {}, disk, 3)
    assert found["bytes_per_point"]["on_disk_all_replicas"] is None
    assert found["machine_cpu_busy_fraction"] is None
    assert "could not be flushed" in found["notes"][0]
