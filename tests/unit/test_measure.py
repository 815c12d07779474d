"""Figures from samples."""

from typing import Any

import load_samples
import numpy as np
import pytest

from kairoscope.verdict import conditions, measurements
from kairoscope.verdict.outcomes import Counts, Outcomes
from kairoscope.verdict.usage import Usage
from loaders.schedule.due import Schedule


def sample(t: float, name: str, pid: int, cpu_s: float) -> dict:
    role = name.split("-", maxsplit=1)[0]
    return {"t": t, "name": name, "role": role, "pid": pid, "cpu_s": cpu_s, "rss_bytes": 100}


def measured(samples: list, window: tuple[float, float], points: int, **more: Any) -> dict:
    condition = conditions.Machines(samples, 2).within(*window)
    disk = more.pop("disk", {"before": None, "after": None, "points": None})
    rate = {"target": 10_000, "achieved": 9_999.0}
    return measurements.measurements(
        samples, window, points, condition, rate, disk, 3, more.get("loaders")
    )


def looks(name: str, pid: int, every_s: float, spans: tuple[float, float], rate: float) -> list:
    """Looks at a process that began at the start of the span and uses `rate` cores evenly."""
    start, end = spans
    times = [t for t in np.arange(0.3, 200, every_s) if start <= t <= end]
    return [sample(float(t), name, pid, rate * (t - start)) for t in times]


@pytest.mark.parametrize("every_s", [1, 2, 10, 30, 60])
@pytest.mark.parametrize("window", [(15.0, 120.0), (15.0, 60.0)])
def test_cpu_of_a_window_whose_edges_are_between_looks(every_s, window):
    usage = Usage(looks("storage-1", 1, every_s, (0, 200), 0.5))
    length = window[1] - window[0]
    assert usage.seconds(*window)["storage-1"] == pytest.approx(0.5 * length)
    assert usage.covered(*window) == 1


@pytest.mark.parametrize("every_s", [1, 2, 10, 30])
def test_a_process_that_is_started_again_counts_with_both_its_lives(every_s):
    until = 60.0
    lives = [
        *looks("storage-1", 1, every_s, (0, until), 0.5),
        *looks("storage-1", 2, every_s, (until, 200), 0.5),
    ]
    usage = Usage(lives)
    # Of the first life's end nothing is known: half a step, more or less.
    assert usage.seconds(15, 120)["storage-1"] == pytest.approx(52.5, abs=0.25 * every_s + 0.01)
    assert usage.covered(15, 120) == pytest.approx(1 - every_s / 105, abs=0.01)


def test_a_process_that_ended_uses_nothing_more():
    ends = looks("kairosdb-1", 1, 2, (0, 60), 1.0)
    usage = Usage(ends + looks("storage-1", 2, 2, (0, 200), 0.5))
    assert usage.seconds(20, 120)["kairosdb-1"] == pytest.approx(40, abs=1)
    assert usage.seconds(100, 120) == {"storage-1": pytest.approx(10)}


def host_looks(name: str, until: float) -> list:
    return [
        {"t": t, "name": f"host {name}", "role": "host", "cpu_busy_s": t}
        for t in np.arange(0.3, until, 2)
    ]


@pytest.mark.parametrize(("until", "seen"), [(110, True), (60, False)])
def test_a_host_that_was_not_looked_at_any_more_is_not_one_at_rest(until, seen):
    here = looks("storage-1", 1, 2, (0, until), 0.5) + host_looks("storage-1", until)
    other = looks("storage-2", 2, 2, (0, 200), 0.5) + host_looks("storage-2", 200)
    usage = Usage(here + other)
    found = usage.seconds(20, 120)
    assert found["storage-2"] == pytest.approx(50)
    # Known for less than half of the time is not known; else what was seen stands for the rest.
    assert ("storage-1" in found) is seen
    if seen:
        assert found["storage-1"] == pytest.approx(50, abs=1)
    assert usage.covered(20, 120) == pytest.approx((until - 20) / 100, abs=0.03)


def test_a_process_that_was_seen_once_is_not_known():
    once = [sample(50, "storage-1", 1, 10.0)]
    usage = Usage(once + looks("storage-2", 2, 2, (0, 200), 0.5))
    assert set(usage.seconds(20, 120)) == {"storage-2"}


def test_where_nobody_looked_what_was_seen_stands_for_the_rest_and_a_note_says_so():
    seen = looks("storage-1", 1, 2, (0, 60), 0.5)
    usage = Usage(seen)
    assert usage.seconds(20, 120)["storage-1"] == pytest.approx(50)
    assert usage.covered(20, 120) < 0.5
    found = measured(seen, (20, 120), 1_000_000)
    assert found["cpu_us_per_point"]["storage"] == pytest.approx(50)
    assert any("of the measured time is known" in note for note in found["notes"])
    assert Usage(seen).seconds(100, 120) == {}


def test_cost_per_point_and_bytes_per_point():
    samples = [
        sample(10, "storage-1", 1, 0.0),
        sample(20, "storage-1", 1, 4.0),
        sample(10, "storage-2", 2, 0.0),
        sample(20, "storage-2", 2, 6.0),
        {"t": 10, "name": "machine", "role": "machine", "cpu_busy_s": 0.0},
        {"t": 20, "name": "machine", "role": "machine", "cpu_busy_s": 15.0},
    ]
    disk = {"before": 1000, "after": 1000 + 30 * 1000, "points": 1000}
    found = measured(samples, (10, 20), 100_000, disk=disk)
    assert found["cpu_us_per_point"] == {"storage": 100.0, "loader": None}
    assert found["cpu_cores"] == {"storage-1": 0.4, "storage-2": 0.6}
    assert found["machine_cpu_busy_fraction"] == 0.75
    assert found["bytes_per_point"] == {"on_disk_all_replicas": 30.0, "per_replica": 10.0}


def test_what_was_not_measured_is_null_with_a_reason():
    disk = {"before": 60_000, "after": 60_000 + 30_000, "points": 1000}
    found = measured([], (0, 1), 0, disk=disk)
    assert found["bytes_per_point"]["on_disk_all_replicas"] == 30.0
    assert any("held 2.0 times as much before" in note for note in found["notes"])
    # Seen in a series of runs on one cluster: -254.5 bytes a point.
    found = measured([], (0, 1), 0, disk={"before": 60_000, "after": 50_000, "points": 1000})
    assert found["bytes_per_point"] == {"on_disk_all_replicas": None, "per_replica": None}
    assert any("shrank" in note for note in found["notes"])
    found = measured([], (0, 1), 0, disk={"before": None, "after": 5, "points": 5})
    assert found["bytes_per_point"]["on_disk_all_replicas"] is None
    assert found["machine_cpu_busy_fraction"] is None
    assert "could not be flushed" in found["notes"][0]


def test_loaders_elsewhere_are_counted_by_themselves():
    found = measured([], (0, 1), 10, loaders=(2.5, 100_000))
    assert found["cpu_us_per_point"]["loader"] == 25.0
    assert any("workers counted themselves" in note for note in found["notes"])
    here = [sample(10, "loader-0", 1, 0.0), sample(20, "loader-0", 1, 1.0)]
    found = measured(here, (10, 20), 100_000, loaders=(2.5, 100_000))
    assert found["cpu_us_per_point"]["loader"] == 10.0


def test_balance_of_the_kairosdb_nodes():
    nodes = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    schedule = Schedule(load_samples.spec_of(sensors=5, nodes=nodes, telnet=[]))
    counted = Outcomes(Counts(), True, [12, 3], [11, 2])
    assert measurements.node_balance(["a", "b"], schedule, counted) == [
        {"node": "a", "sensors": 3, "points_sent": 12, "points_acknowledged": 11},
        {"node": "b", "sensors": 2, "points_sent": 3, "points_acknowledged": 2},
    ]
