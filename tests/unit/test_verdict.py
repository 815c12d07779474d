"""The five parts and the word they add up to."""

import dataclasses

import load_samples
import pytest
from hypothesis import given

from kairoscope.experiment.schema.limits import Limits
from kairoscope.verdict import latencies, sustained, timely, waiting
from kairoscope.verdict.ledger import Ledger
from kairoscope.verdict.outcomes import Counts
from loaders.schedule.due import Schedule


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


LIMITS = Limits(achieved=0.999, in_time=0.99, p99_ms=500, longest_silence_s=6)
QUIET = timely.Silence(0.2, 1.7e9, 1, None, 0.0, [0.2])


def schedule_of(book, in_time=900, quiet=QUIET, **more):
    """Of 1,000 points 900 are after the warm-up."""
    return timely.schedule_part(book, Counts(in_time=in_time), 900, quiet, LIMITS, **more)


@pytest.mark.parametrize(("in_time", "outcome"), [(900, "pass"), (891, "pass"), (890, "fail")])
@pytest.mark.parametrize("book", [whole(), telnet()], ids=["rest", "telnet"])
def test_schedule(book, in_time, outcome):
    part = schedule_of(book, in_time)
    assert (part.figure, part.limit, part.outcome) == (in_time / 900, 0.99, outcome)
    assert f"{in_time} of 900 points after the warm-up" in part.text
    assert "within 500 ms of their planned time; of all, 1,000 of 1,000" in part.text
    assert ("protocol acknowledges nothing" in part.text) != book.acknowledges


@pytest.mark.parametrize("lacking", [{"unknown": 2}, {"rejected": 2}, {"not_sent": 2, "sent": 998}])
def test_what_never_arrives_is_not_forgiven_as_late(lacking):
    part = schedule_of(whole(acknowledged=998, **lacking), 898)
    assert (part.figure, part.limit, part.outcome) == (0.998, 0.999, "fail")


def test_a_long_silence_fails_however_small_its_share_is():
    long = dataclasses.replace(QUIET, seconds=6.1, node="kairosdb-2")
    part = schedule_of(whole(), quiet=long)
    assert (part.figure, part.limit, part.unit, part.outcome) == (6.1, 6, "s", "fail")
    assert "longest silence 6.1 s (worker 1, node kairosdb-2), limit 6 s" in part.text
    assert schedule_of(whole(), quiet=None).outcome == "unknown"


def silent(worker, longest_s=0.0, long=(), by_node=(0.0, 0.0)):
    def line(seconds, spans=()):
        return {"longest_s": seconds, "from_t": 100.0, "long": [list(span) for span in spans]}

    nodes = {"by_node": [line(seconds) for seconds in by_node]}
    return {"worker": worker, "scheduled": 10, "silence": {**line(longest_s, long), **nodes}}


def test_the_longest_silence_is_the_worst_of_workers_and_nodes():
    names = ["kairosdb-1", "kairosdb-2"]
    first = silent(0, 3.0, [(10, 13), (20, 21)], (1.0, 4.0))
    second = silent(1, 2.0, [(5, 6), (12, 14), (20.5, 30)], (2.0, 1.0))
    found = timely.silence([first, second], names)
    assert (found.seconds, found.worker, found.node) == (4.0, 0, "kairosdb-2")
    assert (found.of_all_s, found.by_node) == (1.0, [2.0, 4.0])
    alone = timely.silence([first], names)
    assert alone.of_all_s == 3.0
    assert timely.silence([first, silent(1)], names).of_all_s == 0.0
    assert timely.silence([], names) is None
    even = timely.silence([silent(0, 2.0, by_node=(2.0, 0.0))], names)
    assert "2.0 s (worker 0, all nodes)" in even.text


@given(load_samples.specs())
def test_points_due_after_the_warmup_are_those_of_measured_requests(spec):
    spec = dataclasses.replace(spec, warmup_ticks=spec.ticks // 2)
    schedule = Schedule(spec)
    due = sum(
        len(schedule.groups(worker)[group].slots)
        for worker, group, tick in load_samples.cells(schedule)
        if load_samples.last_of_round(spec, schedule.groups(worker)[group].first_tick, tick)
        >= spec.warmup_ticks
    )
    assert timely.due_after_warmup(schedule) == due


@pytest.mark.parametrize(("arrived", "outcome"), [(1000, "pass"), (998, "fail")])
def test_a_replay_has_no_time_to_be_in(arrived, outcome):
    part = schedule_of(whole(acknowledged=arrived, unknown=1000 - arrived), 0, None, replay=True)
    assert (part.figure, part.outcome) == (arrived / 1000, outcome)
    assert "in whatever time" in part.text
    book = telnet(sent=arrived, not_sent=1000 - arrived)
    assert schedule_of(book, 0, None, replay=True).outcome == outcome


def latencies_of(p99_ms, count=12345, problems=()):
    figures = {"p99_ms": p99_ms, "p99_9_ms": p99_ms, "max_ms": p99_ms}
    return {**figures, "count": count, "problems": list(problems), "nodes": [], "hosts": []}


def test_latency():
    part = latencies.latency_part
    assert part(latencies_of(100), 100).outcome == "pass"
    assert part(latencies_of(100.1), 100).outcome == "fail"
    assert part(latencies_of(None, 0), 100).outcome == "unknown"
    assert "over 12,345 points" in part(latencies_of(1), 100).text
    over_telnet = part(latencies_of(1), 100, acknowledges=False)
    assert "until handed to the socket, over 12,345 points" in over_telnet.text
    lacking = part(latencies_of(1, problems=[f"worker {n}" for n in range(5)]), 100)
    assert (lacking.outcome, lacking.figure) == ("unknown", None)
    assert lacking.text.endswith("worker 0; worker 1; worker 2; and 2 more")


def test_the_worst_node_and_the_worst_host_are_judged_too():
    nodes = [{"node": f"kairosdb-{n}", "p99_ms": 20.0, "count": 10_000} for n in range(20)]
    hosts = [{"host": f"loader-{n}", "p99_ms": 20.0 + n, "count": 10_000} for n in range(3)]
    found = latencies_of(20.0) | {"nodes": nodes, "hosts": hosts}
    part = latencies.latency_part(found, 500, points_per_request=100)
    assert (part.outcome, part.figure) == ("pass", 22.0)
    assert "worst node kairosdb-0 20.0 ms over 10,000 points" in part.text
    assert "worst loader host loader-2 22.0 ms over 10,000 points" in part.text
    nodes[7] |= {"p99_ms": 20_000.0}
    part = latencies.latency_part(found, 500, points_per_request=100)
    assert (part.outcome, part.figure) == ("fail", 20_000.0)
    assert "kairosdb-7 20,000.0 ms" in part.text
    assert "above the limit of 500 ms, which the whole hides" in part.text
    # Fewer than a hundred requests: their 99th percentile would be their maximum.
    nodes[7] |= {"count": 9_999}
    assert latencies.latency_part(found, 500, points_per_request=100).outcome == "pass"
    assert latencies.latency_part(found, 500).outcome == "fail"


def waited(p99_ms, wait_ms, service_ms):
    return {"p99_ms": p99_ms, "wait": {"p99_ms": wait_ms}, "service": {"p99_ms": service_ms}}


@pytest.mark.parametrize(
    ("found", "connections", "reason"),
    [
        # 300 requests/s to a node: 8 connections carry answers of 27 ms.
        (waited(12_500, 12_400, 45), 8, True),
        (waited(400, 390, 45), 8, False),  # within the limit, however it came to be
        (waited(12_500, 5_000, 7_400), 8, False),  # most of it was not waiting
        # Enough for a server that holds the limit: it does not, and that is its failure.
        (waited(12_500, 12_400, 2_000), 150, False),
        (waited(None, None, None), 8, False),
    ],
)
def test_a_latency_that_is_mostly_waiting_for_a_connection(found, connections, reason):
    spec = load_samples.spec_of(
        sensors=300, sensors_per_request=1, connections_per_node=connections
    )
    schedule = Schedule(spec)
    said = waiting.invalid(found, schedule, 500)
    assert bool(said) == reason
    if said:
        assert "99th percentile 12,400 ms of 12,500 ms" in said
        assert "8 connections of a worker to a node carry this load up to answers of 27 ms" in said
    telnet_too = dataclasses.replace(spec, protocol="telnet-put")
    assert waiting.invalid(found, Schedule(telnet_too), 500) is None
    slow = found["p99_ms"] and found["p99_ms"] > 500 and found["wait"]["p99_ms"] > 6_250
    assert bool(waiting.note(found, schedule, 500)) == bool(slow)


def test_when_all_are_due_at_once_a_connection_is_there_for_each():
    aligned = load_samples.spec_of(sensors=300, sensors_per_request=1, pacing="aligned")
    enough = dataclasses.replace(aligned, connections_per_node=300)
    assert waiting.open_up_to_ms(Schedule(enough), 500) == 500
    fewer = dataclasses.replace(aligned, connections_per_node=30)
    assert waiting.open_up_to_ms(Schedule(fewer), 500) == 50


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


def test_what_vanished_meanwhile_fails_the_readback_whatever_came_back():
    part = sustained.readback_part(whole(), vanished="1 point was missed")
    assert (part.outcome, part.figure) == ("fail", 1.0)
    assert part.text.endswith("; 1 point was missed")
    unread = dataclasses.replace(whole(), stored=None)
    assert sustained.readback_part(unread, vanished="1 point was missed").outcome == "fail"


def test_a_ledger_that_does_not_balance_says_where():
    assert "rows counted" in sustained.readback_part(whole(rows_by_cql=990)).text


def test_no_readback_is_unknown():
    ledger = dataclasses.replace(whole(), stored=None)
    assert sustained.readback_part(ledger).outcome == "unknown"


def test_rows_not_counted_is_unknown_unless_it_fails_anyway():
    uncounted = {"rows_by_cql": None}
    assert sustained.readback_part(whole(**uncounted)).outcome == "unknown"
    assert sustained.readback_part(whole(stored=999, missing=1, **uncounted)).outcome == "fail"


def test_words_and_exit_statuses():
    assert sustained.verdict_of(parts(), [], []).verdict == "pass"
    assert sustained.verdict_of(parts(drain="fail"), [], []).verdict == "fail"
    assert sustained.verdict_of(parts(drain="fail"), ["loader late"], []).verdict == "invalid"
    both = sustained.verdict_of(parts(drain="fail"), ["the machine was not ours"], ["killed"])
    assert both.verdict == "incomplete"
    assert both.reasons[:2] == ["killed", "the machine was not ours"], "neither hides the other"
    lost = sustained.verdict_of(
        parts(readback="fail", drain="fail"), ["the machine was not ours"], []
    )
    assert lost.verdict == "fail", "what is lost is lost on any machine"
    assert lost.reasons[-1] == "the machine was not ours"
    assert sustained.verdict_of(parts(), ["loader late"], ["Ctrl-C"]).verdict == "incomplete"
    assert sustained.verdict_of(parts(queue="unknown"), [], []).verdict == "incomplete"
    assert sustained.EXIT_STATUS == {"pass": 0, "fail": 1, "invalid": 2, "incomplete": 2}


def test_what_is_not_judged_does_not_hinder_and_is_said():
    spared = parts(latency="not judged", queue="not judged")
    judged = sustained.verdict_of(spared, [], [])
    assert judged.verdict == "pass"
    assert judged.summary.endswith("not judged: latency, queue.")
    assert judged.reasons == []
    spared["drain"] = parts(drain="fail")["drain"]
    assert sustained.verdict_of(spared, [], []).verdict == "fail"
    part = sustained.not_judged(100, "ms", "because")
    assert (part.figure, part.outcome, part.text) == (None, "not judged", "because")


def test_every_failed_part_is_a_reason_also_beside_another_word():
    judged = sustained.verdict_of(parts(latency="fail", drain="fail"), ["loader late"], [])
    assert judged.reasons == ["loader late", "latency: about latency", "drain: about drain"]
    assert judged.summary == "loader late (and 2 more)"


@pytest.mark.parametrize(
    ("outcome", "figure", "latest_s", "names"),
    [
        ("fail", 0.344, 0.8, ["queue"]),
        ("fail", 0.02, 0.8, ["queue"]),
        # 60 s × 1 % are 0.6 s of points: that late ones, sent at once, can have made.
        ("fail", 0.01, 0.8, []),
        ("fail", 0.344, 25.0, []),
        ("undecided", 0.344, 0.8, []),
        ("unknown", None, 0.8, []),
        ("pass", -0.1, 0.8, []),
    ],
)
def test_a_queue_grows_despite_a_late_loader(outcome, figure, latest_s, names):
    parts = {"queue": sustained.Part(figure, 0.01, "fraction of the rate", outcome, "")}
    assert sustained.despite_lateness(parts, latest_s, 60) == names
