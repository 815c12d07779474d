"""The ledger against a brute-force count, and the comparison that feeds it."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kairoscope import ledger, outcomes, readback
from loaders import schedule, shard
from loaders.spec import LoadSpec
from loaders.values import values

pytestmark = pytest.mark.unit

WORDS = ("acknowledged", "rejected", "unknown", "not_sent")


def spec_of(sensors: int, ticks: int, workers: int, nodes: int, per_request: int) -> LoadSpec:
    return LoadSpec(
        sensors=sensors,
        period_ms=1000,
        ticks=ticks,
        warmup_ticks=0,
        start_ms=1_700_000_000_000,
        nodes=[f"http://127.0.0.{n + 1}:8080" for n in range(nodes)],
        workers=workers,
        metric="SENSOR_{n}",
        tags={"status": "good"},
        sensors_per_request=per_request,
        request_timeout_s=1,
        retry_for_s=1,
        latency_limit_ms=100,
        connections_per_node=1,
    )


SPECS = st.builds(
    spec_of,
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 4),
)


def write_loader_files(spec: LoadSpec, folder: Path, became: dict[tuple[int, int, int], str]):
    """Worker files as a loader leaves them; `became`: outcome by (worker, group, tick)."""
    for worker in range(spec.workers):
        counts = Counter()
        lines = []
        for group in schedule.groups(spec, worker):
            for tick in range(spec.ticks):
                word = became[worker, group.index, tick]
                counts[word] += len(group.sensors)
                if word != "acknowledged":
                    lines.append({"group": group.index, "tick": tick, "outcome": word})
        scheduled = len(shard.worker_range(spec.sensors, spec.workers, worker)) * spec.ticks
        final = {
            "scheduled": scheduled,
            "not_sent": counts["not_sent"],
            "sent": scheduled - counts["not_sent"],
            "acknowledged": counts["acknowledged"],
            "acknowledged_in_time": counts["acknowledged"],
            "rejected": counts["rejected"],
            "unknown": counts["unknown"],
        }
        (folder / f"worker-{worker}.json").write_text(json.dumps(final))
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"worker-{worker}.outcomes.jsonl").write_text(text)


def points_of(spec: LoadSpec, sensor: int) -> list[list[int]]:
    times = schedule.timestamps_ms(spec, sensor)
    return np.stack([times, values(np.full(len(times), sensor), times)], axis=1).tolist()


@settings(deadline=None)
@given(SPECS, st.data())
def test_the_ledger_equals_a_count_by_hand(spec, data):
    became = {
        (w, g.index, t): data.draw(st.sampled_from(WORDS))
        for w in range(spec.workers)
        for g in schedule.groups(spec, w)
        for t in range(spec.ticks)
    }
    outcome_of = {
        (sensor, t): became[w, g.index, t]
        for w in range(spec.workers)
        for g in schedule.groups(spec, w)
        for sensor in g.sensors.tolist()
        for t in range(spec.ticks)
    }
    expected: Counter[str] = Counter()
    failed, results = [], []
    for sensor in range(spec.sensors):
        returned = []
        for tick, (time_ms, value) in enumerate(points_of(spec, sensor)):
            fate = data.draw(st.sampled_from(["right", "right", "wrong", "absent", "given up"]))
            word = outcome_of[sensor, tick]
            expected[word] += 1
            expected[word, fate] += 1
            if fate == "right":
                returned.append([time_ms, value])
            elif fate == "wrong":
                returned.append([time_ms, value + 1])
            elif fate == "given up":
                failed.append((spec.metric_name(sensor), time_ms))
        results.append(readback.compare(spec, sensor, data.draw(st.permutations(returned))))
    queued = data.draw(st.one_of(st.none(), st.integers(0, 10)))

    with tempfile.TemporaryDirectory() as folder:
        write_loader_files(spec, Path(folder), became)
        found = outcomes.read(spec, Path(folder))
    book = ledger.settle(spec, found, readback.ReadBack(results), queued, failed)

    assert book.scheduled == spec.points
    for word in WORDS:
        assert getattr(book, word) == expected[word]
    assert book.stored == expected["acknowledged", "right"]
    assert book.wrong_value == expected["acknowledged", "wrong"]
    assert book.failed_logged == expected["acknowledged", "given up"]
    assert book.queued + book.missing == expected["acknowledged", "absent"]
    assert book.queued == min(queued or 0, expected["acknowledged", "absent"])
    for word in ("unknown", "rejected", "not_sent"):
        back = expected[word, "right"] + expected[word, "wrong"]
        assert getattr(book, f"{word}_stored") == back
    assert book.rows_expected == sum(r.present.sum() for r in results)
    named = sum(len(g.timestamps_ms) for g in book.gaps if g.kind == "missing")
    assert named == expected["acknowledged", "absent"]
    book.rows_by_cql = book.rows_expected
    amiss = book.missing or book.wrong_value or book.not_sent_stored
    assert book.balanced == (not amiss)
    assert book.equations[0].holds
    assert book.equations[1].holds
    assert book.equations[2].holds == (book.missing == 0 and book.wrong_value == 0)


def test_a_gap_names_series_and_timestamps():
    spec = spec_of(4, 3, 1, 1, 2)
    results = []
    for sensor in range(4):
        points = points_of(spec, sensor)
        if sensor == 2:
            del points[1]
        results.append(readback.compare(spec, sensor, points))
    with tempfile.TemporaryDirectory() as folder:
        became = {
            (0, g.index, t): "acknowledged" for g in schedule.groups(spec, 0) for t in range(3)
        }
        write_loader_files(spec, Path(folder), became)
        found = outcomes.read(spec, Path(folder))
        book = ledger.settle(spec, found, readback.ReadBack(results), 0, [])
        ledger.write(book, Path(folder))
        written = json.loads((Path(folder) / "ledger.json").read_text())
        every = (Path(folder) / "ledger-gaps.jsonl").read_text().splitlines()
    (gap,) = written["gaps"]
    lost = schedule.timestamps_ms(spec, 2).tolist()[1]
    assert gap == {"series": "SENSOR_2", "kind": "missing", "count": 1, "timestamps_ms": [lost]}
    assert json.loads(every[0])["timestamps_ms"] == [lost]
    assert written["balanced"] is False
    assert [e["holds"] for e in written["equations"]] == [True, True, False, False]


def test_points_at_times_never_scheduled_are_seen():
    spec = spec_of(1, 3, 1, 1, 1)
    points = [*points_of(spec, 0), [spec.start_ms + 1, 7]]
    result = readback.compare(spec, 0, points)
    assert result.unexpected == 1
    assert result.right.all()


def test_a_worker_that_died_claims_no_more_than_it_said():
    spec = spec_of(4, 5, 2, 1, 2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        became = {
            (w, g.index, t): "acknowledged"
            for w in range(2)
            for g in schedule.groups(spec, w)
            for t in range(5)
        }
        write_loader_files(spec, folder, became)
        (folder / "worker-1.json").unlink()
        record = {"sent": 8, "acknowledged": 6, "rejected": 0, "unknown": 0}
        (folder / "worker-1.jsonl").write_text(json.dumps(record) + "\n" + '{"sent": 9, "ackno')
        found = outcomes.read(spec, folder)
    assert found.counts.acknowledged == 10 + 6
    assert found.counts.unknown == 2
    assert found.counts.not_sent == 2
    results = [readback.compare(spec, s, points_of(spec, s)) for s in range(4)]
    book = ledger.settle(spec, found, readback.ReadBack(results), 0, [])
    assert (book.stored, book.missing, book.unknown_stored) == (16, 0, 4)
    assert book.equations[2].holds
    # Only five of its points are there, six were acknowledged: one is lost.
    short = [readback.compare(spec, s, points_of(spec, s)[: 5 if s < 2 else 2]) for s in range(3)]
    short.append(readback.compare(spec, 3, points_of(spec, 3)[:3]))
    book = ledger.settle(spec, found, readback.ReadBack(short), 0, [])
    assert (book.stored, book.missing) == (15, 1)


def test_not_read_back_is_unknown_never_zero():
    counts = outcomes.Counts(scheduled=10, sent=10, acknowledged=9, unknown=1)
    book = ledger.not_read_back(ledger.open_ledger(outcomes.Outcomes(counts)), "Ctrl-C")
    document = book.to_json()
    assert document["stored"] is None
    assert document["missing"] is None
    assert document["balanced"] is False
    assert "Ctrl-C" in document["notes"][0]


def test_failed_log_of_kairosdb(tmp_path):
    log = tmp_path / "failed.log"
    point = {"name": "SENSOR_2", "timestamp": 2, "value": 1, "tags": {"status": "good"}, "ttl": 0}
    log.write_text(json.dumps(point) + "\n{broken\n")
    assert list(ledger.failed_points([log])) == [("SENSOR_2", 2)]
