"""The five parts and the word they add up to."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import verdict
from kairoscope.ledger import Ledger

pytestmark = pytest.mark.unit


def whole(**changes: int) -> Ledger:
    """A ledger of 1,000 points in which nothing is amiss, but for the changes."""
    counts = {
        "scheduled": 1000, "not_sent": 0, "sent": 1000, "acknowledged": 1000, "rejected": 0,
        "unknown": 0, "stored": 1000, "queued": 0, "failed_logged": 0, "missing": 0,
        "wrong_value": 0, "unknown_stored": 0, "rejected_stored": 0, "not_sent_stored": 0,
        "unexpected": 0, "rows_by_cql": 1000, "rows_expected": 1000,
    }  # fmt: skip
    return Ledger(**(counts | changes))


def parts(**outcomes: verdict.Outcome) -> dict[str, verdict.Part]:
    names = ("schedule", "latency", "queue", "drain", "readback")
    return {n: verdict.Part(1, 1, "", outcomes.get(n, "pass"), f"about {n}") for n in names}


@pytest.mark.parametrize(("in_time", "outcome"), [(999, "pass"), (1000, "pass"), (998, "fail")])
def test_schedule(in_time, outcome):
    part = verdict.schedule_part(whole(), in_time, 0.999)
    assert (part.figure, part.outcome) == (in_time / 1000, outcome)


def test_latency():
    assert verdict.latency_part(100, 10, 100).outcome == "pass"
    assert verdict.latency_part(100.1, 10, 100).outcome == "fail"
    assert verdict.latency_part(None, 0, 100).outcome == "unknown"
    assert "over 12,345 points" in verdict.latency_part(1, 12345, 100).text


@given(st.floats(-500, 500), st.floats(0, 1e6), st.integers(5, 60))
def test_slope_is_that_of_the_line(rate, offset, samples):
    line = [(1.7e9 + t, offset + rate * t) for t in range(samples)]
    assert verdict.slope(line) == pytest.approx(rate, abs=1e-3)


def test_a_growing_queue_fails_however_small_it_is():
    grows = [(float(t), 11.0 * t) for t in range(60)]
    assert verdict.queue_part(grows, 0.01, 1000).outcome == "fail"
    slower = [(float(t), 9.0 * t) for t in range(60)]
    assert verdict.queue_part(slower, 0.01, 1000).outcome == "pass"


def test_a_deep_queue_that_does_not_grow_passes():
    waves = [(float(t), 5000.0 + 100 * (t % 2)) for t in range(60)]
    assert verdict.queue_part(waves, 0.01, 1000).outcome == "pass"


def test_too_few_queue_samples_are_unknown_not_zero():
    assert verdict.queue_part([(1.0, 0.0)] * 4, 0.01, 1000).outcome == "unknown"


def test_drain():
    assert verdict.drain_part(3.0, 0, 60).outcome == "pass"
    late = verdict.drain_part(None, 77, 60)
    assert (late.outcome, late.figure) == ("fail", None)
    assert "77 points still waited" in late.text
    assert "did not tell" in verdict.drain_part(None, None, 60).text


@pytest.mark.parametrize(
    "changes",
    [
        {"stored": 999, "missing": 1},
        {"stored": 999, "wrong_value": 1},
        {"stored": 999, "queued": 1},
        {"stored": 999, "failed_logged": 1},
        {"rows_by_cql": 999},
        {"rows_by_cql": 1001},
        {"unexpected": 1},
        {"not_sent_stored": 1},
        {"sent": 999},
        {"acknowledged": 0, "stored": 0, "unknown": 1000},
    ],
)
def test_readback_fails_on_anything_amiss(changes):
    assert verdict.readback_part(whole()).outcome == "pass"
    assert verdict.readback_part(whole(**changes)).outcome == "fail"


def test_a_ledger_that_does_not_balance_says_where():
    assert "rows by CQL" in verdict.readback_part(whole(rows_by_cql=990)).text


def test_no_readback_is_unknown():
    ledger = dataclasses.replace(whole(), stored=None)
    assert verdict.readback_part(ledger).outcome == "unknown"


def test_rows_not_counted_is_unknown_unless_it_fails_anyway():
    uncounted = {"rows_by_cql": None}
    assert verdict.readback_part(whole(**uncounted)).outcome == "unknown"
    assert verdict.readback_part(whole(stored=999, missing=1, **uncounted)).outcome == "fail"


def test_words_and_exit_statuses():
    assert verdict.judge(parts(), [], []).verdict == "pass"
    assert verdict.judge(parts(drain="fail"), [], []).verdict == "fail"
    assert verdict.judge(parts(drain="fail"), ["loader late"], []).verdict == "invalid"
    assert verdict.judge(parts(), ["loader late"], ["Ctrl-C"]).verdict == "incomplete"
    assert verdict.judge(parts(queue="unknown"), [], []).verdict == "incomplete"
    assert verdict.EXIT_STATUS == {"pass": 0, "fail": 1, "invalid": 2, "incomplete": 2}


def test_every_failed_part_is_a_reason_also_beside_another_word():
    judged = verdict.judge(parts(latency="fail", drain="fail"), ["loader late"], [])
    assert judged.reasons == ["loader late", "latency: about latency", "drain: about drain"]
    assert judged.summary == "loader late (and 2 more)"
