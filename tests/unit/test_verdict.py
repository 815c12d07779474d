"""The five parts and the word they add up to."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.verdict import sustained
from kairoscope.verdict.ledger import Ledger
from kairoscope.verdict.outcomes import Counts


def whole(**changes: int) -> Ledger:
    """A ledger of 1,000 points in which nothing is amiss, but for the changes."""
    counts = {
        "scheduled": 1000, "not_sent": 0, "sent": 1000, "acknowledged": 1000, "rejected": 0,
        "unknown": 0, "stored": 1000, "queued": 0, "failed_logged": 0, "missing": 0,
        "wrong_value": 0, "unknown_stored": 0, "unknown_missing": 0, "rejected_stored": 0,
        "not_sent_stored": 0,
        "unexpected": 0, "rows_by_cql": 1000, "rows_expected": 1000,
    }  # fmt: skip
    return Ledger(**(counts | changes))


def telnet(**changes: int) -> Ledger:
    """The same over telnet: nothing is acknowledged, and all was found."""
    counts = {"acknowledged": 0, "unknown": 1000, "stored": 0, "unknown_stored": 1000}
    return whole(**(counts | {"acknowledges": False} | changes))


def parts(**outcomes: sustained.Outcome) -> dict[str, sustained.Part]:
    names = ("schedule", "latency", "queue", "drain", "readback")
    return {n: sustained.Part(1, 1, "", outcomes.get(n, "pass"), f"about {n}") for n in names}


@pytest.mark.parametrize(("in_time", "outcome"), [(999, "pass"), (1000, "pass"), (998, "fail")])
def test_schedule(in_time, outcome):
    counts = Counts(acknowledged_in_time=in_time, sent_in_time=in_time)
    part = sustained.schedule_part(whole(), counts, 0.999)
    assert (part.figure, part.outcome) == (in_time / 1000, outcome)
    over_telnet = sustained.schedule_part(
        telnet(), dataclasses.replace(counts, acknowledged_in_time=0), 0.999
    )
    assert (over_telnet.figure, over_telnet.outcome) == (in_time / 1000, outcome)
    assert "handed to the socket (telnet acknowledges nothing) in time" in over_telnet.text


@pytest.mark.parametrize(("arrived", "outcome"), [(1000, "pass"), (998, "fail")])
def test_a_replay_has_no_time_to_be_in(arrived, outcome):
    book = whole(acknowledged=arrived, unknown=1000 - arrived)
    part = sustained.schedule_part(book, Counts(), 0.999, replay=True)
    assert (part.figure, part.outcome) == (arrived / 1000, outcome)
    assert "in whatever time" in part.text
    book = telnet(sent=arrived, not_sent=1000 - arrived)
    assert sustained.schedule_part(book, Counts(), 0.999, replay=True).outcome == outcome


def test_latency():
    assert sustained.latency_part(100, 10, 100).outcome == "pass"
    assert sustained.latency_part(100.1, 10, 100).outcome == "fail"
    assert sustained.latency_part(None, 0, 100).outcome == "unknown"
    assert "over 12,345 points" in sustained.latency_part(1, 12345, 100).text
    over_telnet = sustained.latency_part(1, 12345, 100, acknowledges=False)
    assert "until handed to the socket, over 12,345 points" in over_telnet.text


@given(st.floats(-500, 500), st.floats(0, 1e6), st.integers(5, 60))
def test_slope_is_that_of_the_line(rate, offset, samples):
    line = [(1.7e9 + t, offset + rate * t) for t in range(samples)]
    assert sustained.slope(line) == pytest.approx(rate, abs=1e-3)


def test_a_growing_queue_fails_however_small_it_is():
    grows = [(float(t), 11.0 * t) for t in range(60)]
    assert sustained.queue_part(grows, 0.01, 1000).outcome == "fail"
    slower = [(float(t), 9.0 * t) for t in range(60)]
    assert sustained.queue_part(slower, 0.01, 1000).outcome == "pass"


def test_a_deep_queue_that_does_not_grow_passes():
    waves = [(float(t), 5000.0 + 100 * (t % 2)) for t in range(60)]
    assert sustained.queue_part(waves, 0.01, 1000).outcome == "pass"


def test_too_few_queue_samples_are_unknown_not_zero():
    assert sustained.queue_part([(1.0, 0.0)] * 4, 0.01, 1000).outcome == "unknown"


def test_drain():
    assert sustained.drain_part(3.0, 0, 60).outcome == "pass"
    late = sustained.drain_part(None, 77, 60)
    assert (late.outcome, late.figure) == ("fail", None)
    assert "77 points still waited" in late.text
    assert "did not tell" in sustained.drain_part(None, None, 60).text


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
    assert sustained.readback_part(whole()).outcome == "pass"
    assert sustained.readback_part(whole(**changes)).outcome == "fail"


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown_stored": 999, "unknown_missing": 1},
        {"unknown_stored": 999, "wrong_value": 1},
        {"unknown_stored": 999, "queued": 1},
        {"rows_by_cql": 999},
        {"unexpected": 1},
        {"sent": 0, "not_sent": 1000, "unknown": 0, "unknown_stored": 0},
    ],
)
def test_over_telnet_every_point_sent_must_be_there(changes):
    assert sustained.readback_part(telnet()).outcome == "pass"
    part = sustained.readback_part(telnet(**changes))
    assert part.outcome == "fail"
    assert "sent points read back" in part.text


def test_wrong_answers_to_queries_fail_the_readback():
    part = sustained.readback_part(whole(), wrong_answers=3)
    assert part.outcome == "fail"
    assert part.text.endswith("3 queries gave wrong values")
    assert sustained.readback_part(whole(rows_by_cql=None), wrong_answers=3).outcome == "fail"
    unread = dataclasses.replace(whole(), stored=None)
    assert sustained.readback_part(unread, wrong_answers=3).outcome == "fail"


def test_a_ledger_that_does_not_balance_says_where():
    assert "rows by CQL" in sustained.readback_part(whole(rows_by_cql=990)).text


def test_no_readback_is_unknown():
    ledger = dataclasses.replace(whole(), stored=None)
    assert sustained.readback_part(ledger).outcome == "unknown"


def test_rows_not_counted_is_unknown_unless_it_fails_anyway():
    uncounted = {"rows_by_cql": None}
    assert sustained.readback_part(whole(**uncounted)).outcome == "unknown"
    assert sustained.readback_part(whole(stored=999, missing=1, **uncounted)).outcome == "fail"


def test_words_and_exit_statuses():
    assert sustained.judge(parts(), [], []).verdict == "pass"
    assert sustained.judge(parts(drain="fail"), [], []).verdict == "fail"
    assert sustained.judge(parts(drain="fail"), ["loader late"], []).verdict == "invalid"
    assert sustained.judge(parts(), ["loader late"], ["Ctrl-C"]).verdict == "incomplete"
    assert sustained.judge(parts(queue="unknown"), [], []).verdict == "incomplete"
    assert sustained.EXIT_STATUS == {"pass": 0, "fail": 1, "invalid": 2, "incomplete": 2}


def test_what_is_not_judged_does_not_hinder_and_is_said():
    spared = parts(latency="not judged", queue="not judged")
    judged = sustained.judge(spared, [], [])
    assert judged.verdict == "pass"
    assert judged.summary.endswith("not judged: latency, queue.")
    assert judged.reasons == []
    spared["drain"] = parts(drain="fail")["drain"]
    assert sustained.judge(spared, [], []).verdict == "fail"
    part = sustained.not_judged(100, "ms", "because")
    assert (part.figure, part.outcome, part.text) == (None, "not judged", "because")


def test_every_failed_part_is_a_reason_also_beside_another_word():
    judged = sustained.judge(parts(latency="fail", drain="fail"), ["loader late"], [])
    assert judged.reasons == ["loader late", "latency: about latency", "drain: about drain"]
    assert judged.summary == "loader late (and 2 more)"
