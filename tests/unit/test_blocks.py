"""The measured time in blocks, and how sure the percentiles of a run are."""

import json

import load_samples
import numpy as np
import pytest
from hypothesis import given, settings
from run_samples import run_of

from kairoscope import run_folder
from kairoscope.run_folder import JsonLines
from kairoscope.verdict import blocks
from kairoscope.verdict.blocks import Grid
from kairoscope.verdict.sustained import Part
from loaders.record import histograms
from loaders.record.histograms import LogWriter, new_histogram, record
from loaders.schedule.due import Schedule


def test_blocks_are_equal_and_fill_the_window():
    grid = Grid.over((100.0, 145.0), 15)
    assert grid.edges() == [(100.0, 115.0), (115.0, 130.0), (130.0, 145.0)]
    assert Grid.over((0.0, 29.0), 15).edges() == [(0.0, 29.0)]
    assert Grid.over((0.0, 3.0), 15).count == 1


@settings(max_examples=50)
@given(load_samples.specs())
def test_requests_are_counted_as_they_are_made(spec):
    schedule = Schedule(spec)
    requests = [r for worker in range(spec.workers) for r in schedule.requests(worker)]
    for tick in range(spec.ticks):
        by_hand = sum(r.first + r.ticks - 1 >= tick for r in requests)
        assert schedule.requests_from(tick) == by_hand
    if not spec.jitter_ms:
        for at_ms in (spec.start_ms - 1, spec.start_ms + 1500, spec.end_ms, spec.end_ms + 10_000):
            due = sum(schedule.requests_due(worker, at_ms) for worker in range(spec.workers))
            assert due == sum(r.planned_us <= at_ms * 1000 for r in requests)


def slow_for(run, spans, slow_us=900_000):
    """Latency logs of 20 ms, but in spans of seconds since the start."""
    spec = run.schedule.spec
    for worker in range(spec.workers):
        # As many points as the ledger has: one a second for each of the worker's sensors.
        sensors = sum(len(group.slots) for group in run.schedule.groups(worker))
        with (run.folder / run_folder.LOAD / f"worker-{worker}.hlog").open("w") as file:
            log = LogWriter(file, spec.start_ms)
            for second in range(spec.ticks):
                histogram = new_histogram()
                slow = any(first <= second < last for first, last in spans)
                record(histogram, slow_us if slow else 20_000, sensors)
                warm = second < spec.warmup_ticks
                log.write(histogram, float(second), 1.0, "warmup" if warm else "")


def test_what_each_block_was_like(tmp_path):
    run = run_of(tmp_path, duration_s=35)
    slow_for(run, [(15, 20)])
    for worker in range(run.schedule.spec.workers):
        progress = JsonLines(run.folder / run_folder.LOAD / f"worker-{worker}.jsonl")
        for second in range(36):
            progress.write(t=run.began_s + second, acknowledged=5 * second, sent=5 * second)
    run.read_back()
    run.judge()
    found = run.json(run_folder.BLOCKS)
    assert found["from_t"] == run.began_s + 5
    assert found["block_s"] == 5
    rows = found["blocks"]
    assert [row["t"] for row in rows] == [0, 5, 10, 15, 20, 25]
    assert [row["due"] for row in rows] == [100] * 6
    assert [row["acknowledged"] for row in rows] == [100] * 6
    assert [row["count"] for row in rows] == [100] * 6
    assert sum(row["requests"] for row in rows) == run.json("latency/merged.json")["requests"]
    assert [round(row["p99_ms"]) for row in rows] == [20, 20, 900, 20, 20, 20]
    assert rows[0]["queue_points"] == 14
    assert rows[0]["cpu_us_per_point"]["storage"] == pytest.approx(3 * 0.5 / 100 * 1e6)
    assert set(rows[0]) == {
        *("t", "length_s", "due", "acknowledged", "requests", "count", "p50_ms", "p95_ms"),
        *("p99_ms", "p99_9_ms", "max_ms", "service_p99_ms", "wait_p99_ms", "cpu_us_per_point"),
        *("queue_points", "steal_share", "foreign_cores"),
    }


def test_a_figure_near_the_limit_is_within_its_noise(tmp_path):
    run = run_of(tmp_path, duration_s=105)
    run.limit(p99_ms=500)
    # The 99th percentile is one slow second in a hundred: a coin.
    slow_for(run, [(50, 51)])
    run.read_back()
    part = run.judge().parts["latency"]
    assert part.outcome == "pass"
    assert "within the noise of the limit, 500 ms" in part.text
    latency = json.loads((tmp_path / "latency/merged.json").read_text())
    low, high = latency["sure"]["p99_ms"]
    assert low <= latency["p99_ms"] <= high
    assert high > 800
    assert latency["sure"]["p50_ms"] == [latency["p50_ms"], latency["p50_ms"]]
    assert f"; {latency['requests']:,} requests; the 99th percentile is between" in part.text


def test_one_far_from_it_is_not(tmp_path):
    run = run_of(tmp_path, duration_s=105)
    slow_for(run, [])
    run.read_back()
    text = run.judge().parts["latency"].text
    assert "is between 20.0 and 20.0 ms at 95 %" in text
    assert "noise" not in text


def test_a_window_that_is_too_short_says_so(tmp_path):
    run = run_of(tmp_path)
    run.read_back()
    assert "too short a time to say how sure that is" in run.judge().parts["latency"].text


def test_an_unknown_part_has_no_precision():
    part = Part(None, 500, "ms", "unknown", "nothing")
    assert blocks.with_precision(part, {"requests": 1, "sure": {}}) is part


def test_the_interval_of_the_whole_is_not_said_of_the_worst_node():
    found = {"p99_ms": 20.0, "requests": 40_000, "sure": {"p99_ms": [18.0, 600.0]}}
    part = Part(20_000.0, 500, "ms", "fail", "worst node kairosdb-7 20,000.0 ms")
    text = blocks.with_precision(part, found).text
    assert "40,000 requests in all; the 99th percentile of the whole is between 18.0 and" in text
    assert "how sure the worst one's is, is not known" in text
    assert "within the noise" not in text
    whole = blocks.with_precision(Part(20.0, 500, "ms", "pass", "p99 20 ms"), found)
    assert "so it is within the noise of the limit, 500 ms" in whole.text


def test_the_same_percentile_as_the_merged_histogram(tmp_path):
    run = run_of(tmp_path, duration_s=65)
    random = np.random.default_rng(1)
    spec = run.schedule.spec
    for worker in range(spec.workers):
        with (run.folder / run_folder.LOAD / f"worker-{worker}.hlog").open("w") as file:
            log = LogWriter(file, spec.start_ms)
            for second in range(5, 65):
                histogram = new_histogram()
                for value in random.lognormal(9, 1, 5):
                    record(histogram, int(value), 1)
                log.write(histogram, float(second), 1.0)
    run.read_back()
    run.judge()
    latency = run.json("latency/merged.json")
    for name in ("p50_ms", "p95_ms", "p99_ms", "p99_9_ms"):
        low, high = latency["sure"][name]
        assert low <= latency[name] <= high
    found = blocks.latencies(run.schedule, (run.began_s + 5, run.began_s + 65), run.folder)
    (row,) = blocks._latencies(
        histograms.Blocks(found.counts.values_us, found.counts.counts.sum(axis=0, keepdims=True))
    )
    assert {n: row[n] for n in ("p50_ms", "p99_ms", "max_ms")} == {
        n: latency[n] for n in ("p50_ms", "p99_ms", "max_ms")
    }


def test_a_block_is_no_shorter_than_the_queues_window(tmp_path):
    run = run_of(tmp_path, duration_s=41, window_ms=12_000)
    slow_for(run, [(15, 20)])
    run.read_back()
    run.judge()
    found = run.json(run_folder.BLOCKS)
    assert len(found["blocks"]) == 2
    assert found["block_s"] >= 12
    assert sum(row["length_s"] for row in found["blocks"]) == pytest.approx(36)
    assert sum(row["count"] for row in found["blocks"]) == 36 * 20
