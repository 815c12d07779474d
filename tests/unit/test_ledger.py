"""The ledger against a brute-force count."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import load_samples
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import run_folder
from kairoscope.stacks.compared import compare
from kairoscope.stacks.kairosdb.given_up import dead_letters, of_run
from kairoscope.verdict import ledger, outcomes, settlement, sustained
from kairoscope.verdict.settlement import FailedPoint, ReadBack, SeriesResult, label
from loaders.schedule.due import Schedule, Series
from loaders.schedule.spec import LoadSpec

Points = list[tuple[int, int]]


def result_of(schedule: Schedule, series: Series, points: Points) -> SeriesResult:
    got = np.array(points, dtype=np.int64).reshape(-1, 2)
    return compare(schedule, series, got)


def settled(
    schedule: Schedule,
    found: outcomes.Outcomes,
    back: dict[int, Points],
    queued: int | None = 0,
    failed: list[FailedPoint] | None = None,
    waiting: int | None = None,
) -> ledger.Ledger:
    """The ledger if `back` came back, by series number; all of a series that is not in it.

    `waiting`: of `queued` points those that still waited when they were read back.
    """
    settling = settlement.Settlement(schedule, found)
    for series in schedule.series():
        points = back.get(series.number, load_samples.points_of(schedule, series))
        settling.add(result_of(schedule, series, points))
    failed = failed or []
    facts = settling.found()
    facts.waiting = waiting
    book = ledger.balance(found, facts, queued, failed)
    again = ledger.balance(found, *written_and_read(schedule, facts, queued, failed))
    assert again.to_json() == book.to_json()
    assert [gap.whole() for gap in again.gaps] == [gap.whole() for gap in book.gaps]
    return again


def written_and_read(
    schedule: Schedule, found: ReadBack, queued: int | None, failed: list[FailedPoint]
) -> tuple[ReadBack, int | None, list[FailedPoint]]:
    """What a ledger is balanced from, by way of the run folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found.write_gaps(folder)
        found.write(folder)
        run_folder.write_lines(
            folder / run_folder.FAILED_POINTS, (point._asdict() for point in failed)
        )
        read = ReadBack.read(schedule, folder)
        assert read is not None
        return read, queued, list(settlement.failed_points(folder))


def read_as(schedule: Schedule, word: str, *, died: dict[int, dict[str, int]] | None = None):
    """Outcomes if all had this one; `died`: last words of workers that died."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        became = dict.fromkeys(load_samples.cells(schedule), word)
        load_samples.write_worker_files(schedule, folder, became)
        for worker, last in (died or {}).items():
            (folder / f"worker-{worker}.json").unlink()
            (folder / f"worker-{worker}.jsonl").write_text(json.dumps(last) + "\n")
        return outcomes.read(schedule, folder)


def label_of(spec: LoadSpec, series: Series) -> str:
    return label(spec, spec.metric_name(series.number), spec.tags_of(series.number))


@given(load_samples.specs(), st.data())
def test_the_ledger_equals_a_count_by_hand(spec, data):
    schedule = Schedule(spec)
    claimed = "acknowledged" if spec.acknowledges else "unknown"
    words = [w for w in load_samples.WORDS if spec.acknowledges or w != "acknowledged"]
    became = {c: data.draw(st.sampled_from(words)) for c in load_samples.cells(schedule)}
    expected: Counter = Counter()
    failed, back, gaps = [], {}, set()
    for series in schedule.series():
        back[series.number] = []
        for tick, (t, value) in zip(
            series.ticks, load_samples.points_of(schedule, series), strict=True
        ):
            fate = data.draw(st.sampled_from(["right", "right", "wrong", "absent", "given up"]))
            word = became[series.worker, series.group, tick]
            expected[word] += 1
            expected[word, fate] += 1
            expected[fate] += 1
            if fate == "right":
                back[series.number].append((t, value))
            elif fate == "wrong":
                back[series.number].append((t, value + 1))
                gaps.add((label_of(spec, series), "wrong value", t))
            elif fate == "given up":
                why = data.draw(st.sampled_from(["expires too late", "no such table"]))
                failed += [FailedPoint(label_of(spec, series), t, why)] * 2
            elif word == claimed:
                kind = "missing" if spec.acknowledges else "missing (unacknowledged)"
                gaps.add((label_of(spec, series), kind, t))
    queued, waiting = (data.draw(st.one_of(st.none(), st.integers(0, 10))) for _ in range(2))

    with tempfile.TemporaryDirectory() as folder:
        load_samples.write_worker_files(schedule, Path(folder), became)
        found = outcomes.read(schedule, Path(folder))
    book = settled(schedule, found, back, queued, failed, waiting)

    assert book.scheduled == schedule.points
    for word in load_samples.WORDS:
        assert getattr(book, word) == expected[word]
    assert book.stored == expected["acknowledged", "right"]
    for word in ("unknown", "rejected", "not_sent"):
        assert getattr(book, f"{word}_stored") == expected[word, "right"]
    assert book.wrong_value == expected["wrong"]
    assert book.failed_logged == expected[claimed, "given up"]
    assert sum(count for _, count in book.failed_reasons) == book.failed_logged
    waits = queued or 0 if waiting is None else min(queued or 0, waiting)
    assert book.queued == min(waits, expected[claimed, "absent"])
    assert book.queued + book.claimed_missing == expected[claimed, "absent"]
    if spec.acknowledges:
        not_back = expected["unknown", "absent"] + expected["unknown", "given up"]
        assert book.unknown_missing == not_back
    else:
        assert book.missing == 0
    assert book.rows_expected == expected["right"] + expected["wrong"]
    assert {(g.series, g.kind, t) for g in book.gaps for t in g.timestamps_ms} == gaps
    assert sum(g.count for g in book.gaps) == len(gaps)
    book.rows_by_cql = book.rows_expected
    amiss = book.claimed_missing or book.wrong_value or book.not_sent_stored
    assert book.balanced == (not amiss)
    assert [e.holds for e in book.equations] == [
        *(True, True),
        not book.claimed_missing and not expected[claimed, "wrong"],
        True,
    ]


@given(load_samples.specs(), st.data())
def test_incomplete_is_what_must_be_there_and_is_not(spec, data):
    schedule = Schedule(spec)
    claimed = "acknowledged" if spec.acknowledges else "unknown"
    became = {
        c: data.draw(st.sampled_from([claimed, "rejected"])) for c in load_samples.cells(schedule)
    }
    with tempfile.TemporaryDirectory() as folder:
        load_samples.write_worker_files(schedule, Path(folder), became)
        found = outcomes.read(schedule, Path(folder))
    settling = settlement.Settlement(schedule, found)
    for series in schedule.series():
        points = load_samples.points_of(schedule, series)
        kept = [data.draw(st.booleans()) for _ in points]
        result = result_of(schedule, series, [p for p, k in zip(points, kept, strict=True) if k])
        lacks = [
            not there and became[series.worker, series.group, tick] == claimed
            for tick, there in zip(series.ticks, kept, strict=True)
        ]
        assert settling.incomplete(result) == any(lacks)


@pytest.mark.parametrize(
    ("model", "name"), [(0, "SENSOR_2"), (2, "temperature{sensor=2, site=site-2}")]
)
def test_a_gap_names_series_and_timestamps(model, name):
    metric, tags = load_samples.MODELS[model]
    schedule = Schedule(load_samples.spec_of(metric=metric, tags=tags))
    series = next(s for s in schedule.series() if s.number == 2)
    points = load_samples.points_of(schedule, series)
    lost = points.pop(1)[0]
    book = settled(schedule, read_as(schedule, "acknowledged"), {2: points})
    written = book.to_json()
    (gap,) = written["gaps"]
    assert gap == {"series": name, "kind": "missing", "count": 1, "timestamps_ms": [lost]}
    (gap,) = book.gaps
    assert gap.whole()["spans"] == [{"first_ms": lost, "last_ms": lost, "count": 1}]
    assert written["balanced"] is False
    assert [e["holds"] for e in written["equations"]] == [True, True, False, False]


def test_a_series_that_lacks_points_and_has_wrong_ones_is_one_series_with_two_gaps():
    schedule = Schedule(load_samples.spec_of())
    points = load_samples.points_of(schedule, next(schedule.series()))
    back = [points[0], (points[1][0], points[1][1] + 1)]
    found = settled(schedule, read_as(schedule, "acknowledged"), {0: back}).to_json()
    assert [gap["kind"] for gap in found["gaps"]] == ["wrong value", "missing"]
    assert (found["gap_series"], found["gap_count"]) == (1, 2)


def test_a_long_gap_is_told_by_its_ends():
    schedule = Schedule(load_samples.spec_of(sensors=1, ticks=5000))
    (series,) = schedule.series()
    points = load_samples.points_of(schedule, series)
    book = settled(
        schedule, read_as(schedule, "acknowledged"), {0: points[:100] + points[4000:4500]}
    )
    assert book.missing == 3900 + 500
    assert len(book.to_json()["gaps"][0]["timestamps_ms"]) == 20
    gap = book.gaps[0].whole()
    times = [t for t, _ in points]
    assert gap["spans"] == [
        {"first_ms": times[100], "last_ms": times[3999], "count": 3900},
        {"first_ms": times[4500], "last_ms": times[4999], "count": 500},
    ]


def test_points_at_times_never_scheduled_are_seen():
    schedule = Schedule(load_samples.spec_of(sensors=1))
    (series,) = schedule.series()
    points = [*load_samples.points_of(schedule, series), (schedule.spec.start_ms + 1, 7)]
    book = settled(schedule, read_as(schedule, "acknowledged"), {0: points})
    book.rows_by_cql = book.rows_expected
    assert (book.unexpected, book.stored) == (1, 3)
    assert all(e.holds for e in book.equations)
    assert not book.balanced


@pytest.mark.parametrize("protocol", ["rest", "telnet-put"])
def test_a_worker_that_died_claims_no_more_than_it_said(protocol):
    spec = load_samples.spec_of(sensors=4, ticks=5, workers_per_host=2, protocol=protocol)
    schedule = Schedule(spec)
    # Ten points of its: eight sent, six of them acknowledged where that is told.
    done = 6 if spec.acknowledges else 0
    last = {"sent": 8, "acknowledged": done, "rejected": 0, "unknown": 8 - done}
    usual = "acknowledged" if spec.acknowledges else "unknown"
    found = read_as(schedule, usual, died={1: last})
    book = settled(schedule, found, {})
    claimed = 10 + (done or 8)
    assert (book.claimed, book.claimed_stored, book.claimed_missing) == (claimed, claimed, 0)
    # More is found than was known to be sent: none of the unknown ones is missing.
    assert book.unknown_missing == 0
    assert book.equations[2].holds
    # Only five of its points are there.
    of_worker = {
        s.number: load_samples.points_of(schedule, s) for s in schedule.series() if s.worker == 1
    }
    first, second = of_worker
    short = {first: of_worker[first][:2], second: of_worker[second][:3]}
    book = settled(schedule, found, short)
    assert (book.claimed_stored, book.claimed_missing) == (10 + 5, claimed - 15)
    assert not book.equations[2].holds
    assert any(f"{claimed - 15} of its" in note for note in book.notes)


def test_telnet_rests_on_what_came_back():
    schedule = Schedule(load_samples.spec_of(sensors=2, protocol="telnet-putm"))
    found = read_as(schedule, "unknown")
    whole = settled(schedule, found, {})
    whole.rows_by_cql = whole.rows_expected
    assert whole.balanced
    assert (whole.acknowledged, whole.unknown, whole.unknown_stored) == (0, 6, 6)
    assert "the protocol acknowledges nothing" in whole.notes[0]
    book = settled(schedule, found, {1: []})
    book.rows_by_cql = book.rows_expected
    assert (book.unknown_stored, book.unknown_missing) == (3, 3)
    assert not book.balanced
    assert book.equations[2].text == "unknown = stored + queued + logged as failed"
    assert [(g.kind, g.count) for g in book.gaps] == [("missing (unacknowledged)", 3)]


def test_not_read_back_is_unknown_never_zero():
    counts = outcomes.Counts(scheduled=10, sent=10, acknowledged=9, unknown=1)
    book = ledger.not_read_back(ledger.open_ledger(outcomes.Outcomes(counts)), "Ctrl-C")
    document = book.to_json()
    assert document["stored"] is None
    assert document["missing"] is None
    assert document["balanced"] is False
    assert "Ctrl-C" in document["notes"][0]


def test_failed_log_of_kairosdb(tmp_path):
    metric, tags = load_samples.MODELS[2]
    spec = load_samples.spec_of(metric=metric, tags=tags)
    log = tmp_path / "failed.log"
    point = {"name": metric, "timestamp": spec.start_ms + 5, "value": 1, "ttl": 0}
    point["tags"] = spec.tags_of(2)
    earlier = {**point, "timestamp": spec.start_ms - 1}
    log.write_text(json.dumps(point) + "\n{broken\n[1]\n{}\n" + json.dumps(earlier) + "\n")
    name = "temperature{sensor=2, site=site-2}"
    why = of_run.REASON_OF_FAILED_LOG
    found = [(name, spec.start_ms + 5, why)]
    assert list(of_run.points(spec, [log], spec.start_ms)) == found
    plain = load_samples.spec_of()
    log.write_text(json.dumps({**point, "name": "SENSOR_2"}))
    assert list(of_run.points(plain, [log], 0)) == [("SENSOR_2", spec.start_ms + 5, why)]


def letter(spec: LoadSpec, number: int, time: int, taken_at: int, reason: str) -> dict:
    return {
        "metric": spec.metric_name(number),
        "tags": spec.tags_of(number),
        "type": f"kairos_{spec.value_type}",
        "time": time,
        "value_base64": "AA==",
        "ttl": 700_000_000,
        "taken_at": taken_at,
        "dead_at": taken_at + 15_000,
        "reason": reason,
    }


@given(load_samples.specs(), st.data())
def test_dead_letters_are_logged_as_failed_with_their_reason(spec, data):
    """All lost points stand in the file, among lines of other runs, of others, and torn ones."""
    schedule = Schedule(spec)
    claimed = "acknowledged" if spec.acknowledges else "unknown"
    began = spec.start_ms - 5_000
    lines, expected, back = [], Counter(), {}
    for series in schedule.series():
        back[series.number] = []
        for t, value in load_samples.points_of(schedule, series):
            fate = data.draw(st.sampled_from(["stored", "dead", "dead of an earlier run"]))
            why = data.draw(st.sampled_from(["TTL of 22 years", "  over\nmany   lines "]))
            if fate == "stored":
                back[series.number].append((t, value))
                continue
            taken_at = t if fate == "dead" else began - of_run.CLOCK_SLACK_MS - 1
            lines.append(json.dumps(letter(spec, series.number, t, taken_at, why)))
            expected[fate] += 1
            expected[fate, " ".join(why.split())] += 1
    lines += [
        json.dumps(letter(spec, 0, spec.start_ms - 1, began, "of the time before")),
        json.dumps(letter(spec, 0, spec.end_ms, began, "of the time after")),
        json.dumps({**letter(spec, 0, spec.start_ms, began, "somebody else's"), "metric": "other"}),
        *("", "[]", "null", '{"metric": "torn', '{"time": "x"}', "\0" * 40),
    ]
    lines = data.draw(st.permutations(lines))
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / dead_letters.FILE
        file.write_text("\n".join(lines))
        failed = list(of_run.points(spec, [file], began))
    book = settled(schedule, read_as(schedule, claimed), back, 0, failed)
    assert book.failed_logged == expected["dead"]
    assert book.claimed_missing == expected["dead of an earlier run"]
    assert dict(book.failed_reasons) == {
        key[1]: n for key, n in expected.items() if key[0] == "dead" and isinstance(key, tuple)
    }
    assert book.equations[2].holds == (not book.claimed_missing)
    text = sustained.readback_part(book).text
    for reason, count in book.failed_reasons:
        assert f"{count:,} × {reason}" in text
        assert f"{count:,} × {reason}" in " ".join(book.notes)
    document = book.to_json()
    assert sum(one["points"] for one in document["failed_reasons"]) == expected["dead"]


def test_of_many_reasons_the_most_frequent_are_named():
    spec = load_samples.spec_of(sensors=12, ticks=3)
    schedule = Schedule(spec)
    failed = [
        FailedPoint(label_of(spec, series), t, f"reason {series.number}")
        for series in schedule.series()
        for t, _ in load_samples.points_of(schedule, series)
    ]
    everything_gone = {series.number: [] for series in schedule.series()}
    book = settled(schedule, read_as(schedule, "acknowledged"), everything_gone, 0, failed)
    assert book.failed_logged == 36
    assert len(book.failed_reasons) == ledger.NAMED_REASONS
    assert ledger.reasons(book).endswith("; 21 for other reasons")
