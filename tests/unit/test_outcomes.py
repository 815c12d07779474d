"""What the loaders say, point by point, against a naive model."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import load_samples
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.verdict import outcomes
from loaders.schedule.due import Schedule

CODES = {
    "acknowledged": outcomes.ACKNOWLEDGED,
    "rejected": outcomes.REJECTED,
    "unknown": outcomes.UNKNOWN,
    "not_sent": outcomes.NOT_SENT,
}


@given(load_samples.specs(), st.data())
def test_every_point_has_the_outcome_that_was_written(spec, data):
    schedule = Schedule(spec)
    became = {
        cell: data.draw(st.sampled_from(load_samples.WORDS))
        for cell in load_samples.cells(schedule)
    }
    with tempfile.TemporaryDirectory() as name:
        load_samples.write_worker_files(schedule, Path(name), became)
        found = outcomes.read(schedule, Path(name))
    counted = Counter()
    for series in schedule.series():
        words = [became[series.worker, series.group, tick] for tick in series.ticks]
        assert found.of_series(series).tolist() == [CODES[word] for word in words]
        counted.update(words)
    for word in load_samples.WORDS:
        assert getattr(found.counts, word) == counted[word]
    assert found.counts.scheduled == schedule.points == counted.total()
    assert sum(found.sent_by_node) == found.counts.sent
    assert sum(found.acknowledged_by_node) == found.counts.acknowledged


@given(
    load_samples.specs(),
    st.lists(
        st.tuples(st.integers(0, 14), st.integers(1, 15), st.sampled_from(load_samples.WORDS)),
        max_size=12,
    ),
    st.booleans(),
)
def test_ranges_are_what_they_say_tick_by_tick(spec, ranges, dies):
    schedule = Schedule(spec)
    usual = CODES["acknowledged" if spec.acknowledges and not dies else "unknown"]
    by_tick = dict.fromkeys(range(40), usual)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        all_well = dict.fromkeys(load_samples.cells(schedule), "acknowledged")
        load_samples.write_worker_files(schedule, folder, all_well)
        with (folder / "worker-0.outcomes.jsonl").open("w") as file:
            for first, count, word in ranges:
                line = {"group": 0, "tick": first, "ticks": count, "outcome": word}
                file.write(json.dumps(line) + "\n")
                by_tick |= dict.fromkeys(range(first, first + count), CODES[word])
            file.write('{"group": 0, "ti')  # cut off while it was written
        if dies:
            (folder / "worker-0.json").unlink()
        found = outcomes.read(schedule, folder)
    for series in schedule.series():
        if (series.worker, series.group) == (0, 0):
            assert found.of_series(series).tolist() == [by_tick[tick] for tick in series.ticks]


def test_what_is_unusual_is_all_that_is_kept(tmp_path):
    """A stall of thousands of ticks is one range, not thousands."""
    schedule = Schedule(load_samples.spec_of(sensors=2, ticks=5000))
    cells = load_samples.cells(schedule)
    load_samples.write_worker_files(schedule, tmp_path, dict.fromkeys(cells, "acknowledged"))
    with (tmp_path / "worker-0.outcomes.jsonl").open("w") as file:
        for tick in range(1000, 4000):
            line = {"group": 0, "tick": tick, "ticks": 1, "outcome": "rejected"}
            file.write(json.dumps(line) + "\n")
    found = outcomes.read(schedule, tmp_path)
    assert found._exceptions == {(0, 0): [(1000, 4000, outcomes.REJECTED)]}


def test_a_worker_that_died_claims_no_more_than_it_said(tmp_path):
    schedule = Schedule(load_samples.spec_of(sensors=4, ticks=5, workers_per_host=2))
    cells = load_samples.cells(schedule)
    load_samples.write_worker_files(schedule, tmp_path, dict.fromkeys(cells, "acknowledged"))
    (tmp_path / "worker-1.json").unlink()
    record = {"sent": 8, "acknowledged": 6, "rejected": 0, "unknown": 0, "in_time": 4}
    (tmp_path / "worker-1.jsonl").write_text(json.dumps(record) + "\n" + '{"sent": 9, "ackno')
    found = outcomes.read(schedule, tmp_path)
    assert list(found.died) == [1]
    assert found.counts.acknowledged == 10 + 6
    assert found.counts.in_time == 10 + 4
    assert (found.counts.unknown, found.counts.not_sent) == (2, 2)
    codes = {s.worker: set(found.of_series(s).tolist()) for s in schedule.series()}
    assert codes == {0: {outcomes.ACKNOWLEDGED}, 1: {outcomes.UNKNOWN}}


def test_node_events_of_many_workers_are_told_once(tmp_path):
    def write(worker: int, *events: tuple[float, str, int]) -> None:
        lines = [{"t": t, "event": e, "node": n, "detail": f"by {worker}"} for t, e, n in events]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"worker-{worker}.events.jsonl").write_text(text)

    write(0, (100.5, "node down", 1), (107.0, "node up", 1), (108.0, "node down", 1))
    write(1, (100.2, "node down", 1), (106.9, "node up", 1))
    write(2, (300.0, "node down", 1), (301.0, "node down", 0))
    found = [(e.t, e.event, e.node, e.workers, e.detail) for e in outcomes.node_events(4, tmp_path)]
    assert found == [
        (100.2, "node down", 1, [1, 0], "by 1"),
        (106.9, "node up", 1, [1, 0], "by 1"),
        (108.0, "node down", 1, [0], "by 0"),
        (300.0, "node down", 1, [2], "by 2"),
        (301.0, "node down", 0, [2], "by 2"),
    ]


def test_answers_of_all_hosts_and_the_last_words_of_one_that_died(tmp_path):
    counts = {"sent": 9, "not_sent": 1, "right": 6, "late": 1, "wrong": 1, "failed": 1}
    kinds = {"raw": {**counts, "checked": 50, "missing": 2}}
    final = {
        **counts,
        "host": 0,
        "kinds": kinds,
        "points_checked": 50,
        "points_late": 2,
        "errors": {"timeout": 1},
        "first_errors": ["no answer within 10 s"],
        "stopped_early": True,
    }
    (tmp_path / "queries-0.json").write_text(json.dumps(final))
    last = json.dumps({"sent": 3, "right": 2, "wrong": 1})
    (tmp_path / "queries-1.jsonl").write_text(f"{last}\n{last[:9]}")
    found = outcomes.answers(tmp_path, 3)
    assert (found["sent"], found["right"], found["wrong"], found["late"]) == (12, 8, 2, 1)
    assert found["kinds"]["raw"]["checked"] == 50
    assert found["errors"] == {"timeout": 1}
    assert found["hosts_without_final_counts"] == [1, 2]
    assert found["hosts_stopped_early"] == [0]
