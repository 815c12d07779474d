"""The open loop against a server that misbehaves. Times are lower bounds or very generous."""

import asyncio
import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sink as sinks
from loader_runs import (
    PERIOD_MS,
    TICKS,
    at,
    at_least,
    check,
    expected_points,
    lines,
    make,
    measured,
    outcomes,
    received,
    until,
    work,
)
from loads import load_spec, nodes
from sink import Sink

from loaders import emulator
from loaders.record import files, histograms
from loaders.record.tally import Outcome, Tally
from loaders.schedule import follow
from loaders.schedule.clock import Clock
from loaders.schedule.due import Group, Schedule
from loaders.schedule.spec import LoadSpec, Queries, Step
from loaders.send import throttle
from loaders.send.delivery import Delivery, Ending
from loaders.send.protocol import Answer, Batch, Reply
from loaders.send.worker import Worker, main

pytestmark = pytest.mark.timeout(60)

ROOT = Path(__file__).resolve().parents[2]

# A server that behaves


async def test_all_points_arrive_exactly_once(tmp_path: Path) -> None:
    async with Sink() as one, Sink() as two:
        spec = make(one, two, sensors=23)
        result = await work(spec, tmp_path)
        assert received(one, two) == Counter(expected_points(spec))
        for node, sink in enumerate((one, two)):
            assert {int(point["name"][7:]) % 2 for point in sink.points} == {node}
            assert all(point["tags"] == {"status": "good"} for point in sink.points)
            assert sink.kinds == {"application/json"}
            assert result["sent_by_node"][node] == len(sink.points)
        # No request left before it was due.
        assert min(one.arrivals) >= spec.start_ms / 1000
    assert result["acknowledged"] == result["scheduled"] == Schedule(spec).points
    assert result["errors"] == {}
    assert result["first_errors"] == []
    assert result["retries"] == result["failovers"] == 0
    assert not result["stopped_early"]
    assert spec.start_ms < result["arrived_t"] * 1000 <= result["ended_ms"] + 1
    assert measured(tmp_path).get_total_count() == 23 * (TICKS - 2)
    assert measured(tmp_path, warmup=True).get_total_count() == 23 * 2
    assert result["send_error_us"]["count"] == 23 * (TICKS - 2)
    assert result["max_rss_bytes"] > 1_000_000


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "rest-gzip"},
        {"value_type": "double"},
        {"value_type": "string", "protocol": "rest-gzip"},
        {"points_per_request": 4},
        {"steps": [Step(100, 4), Step(30, 10), Step(200, 2)]},
        {"ramp_ticks": 8},
        {"lifetime_ticks": 3},
        {"lifetime_ticks": 4, "points_per_request": 2, "ramp_ticks": 5},
        {"pacing": "aligned"},
        {"jitter_ms": 100, "seed": 7},
        {"pacing": "aligned", "jitter_ms": 60, "points_per_request": 3},
        {"metric": "M{n%5}", "tags": {"sensor": "{n}", 'a "b"': "ü{n%3}\n"}},
    ],
    ids=str,
)
async def test_all_points_of_any_schedule_arrive_exactly_once(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    async with Sink() as one, Sink() as two:
        spec = make(one, two, sensors=23, **changes)
        schedule = Schedule(spec)
        result = await work(spec, tmp_path)
        by_tags = Counter(
            (point["name"], json.dumps(point["tags"], sort_keys=True), point["timestamp"])
            for sink in (one, two)
            for point in sink.points
        )
        assert by_tags == Counter(
            (spec.metric_name(one.number), json.dumps(tags, sort_keys=True), at_ms)
            for one in schedule.series()
            for tags in [spec.tags_of(one.number)]
            for at_ms in schedule.timestamps_ms(one.rank, one.ticks).tolist()
        )
        assert set(received(one, two)) == expected_points(spec)
        if spec.protocol == "rest-gzip":
            assert one.kinds == {"application/gzip"}
        # No request left before the last of its points was due.
        for sink in (one, two):
            for arrived_s, batch in zip(sink.arrivals, sink.batches, strict=True):
                assert max(point["timestamp"] for point in batch) / 1000 <= arrived_s
    assert result["acknowledged"] == result["scheduled"] == schedule.points


async def test_workers_of_two_hosts_share_the_sensors(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, sensors=23, hosts=2, workers_per_host=2, ticks=3)
        results = await asyncio.gather(
            *(work(spec, tmp_path, worker=worker) for worker in range(4))
        )
        assert received(sink) == Counter(expected_points(spec))
    assert [result["host"] for result in results] == [0, 0, 1, 1]


async def test_a_start_in_the_past_is_lateness(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, start_in_ms=-3000, warmup_ticks=0)
        result = await work(spec, tmp_path)
        assert received(sink) == Counter(expected_points(spec))
    # The last tick was due 2 seconds before the worker began.
    assert result["send_error_us"]["p50"] >= 2_000_000
    assert result["send_error_us"]["max"] >= 3_000_000 - PERIOD_MS * 1000
    assert measured(tmp_path).get_value_at_percentile(1) >= 2_000_000


async def test_too_late_to_be_sent(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, start_in_ms=-5000, retry_for_s=1, request_timeout_s=1)
        result = await work(spec, tmp_path)
        assert sink.requests == 0
    assert result["not_sent"] == result["scheduled"]
    assert {row["reason"] for row in outcomes(tmp_path)} == {"no connection was free in time"}


@pytest.mark.parametrize("jitter_ms", [0, 50])
async def test_a_worker_without_sensors(tmp_path: Path, jitter_ms: int) -> None:
    spec = make("http://127.0.0.1:9", sensors=1, workers_per_host=3, jitter_ms=jitter_ms)
    assert (await work(spec, tmp_path))["scheduled"] == 0


@pytest.mark.parametrize("connections", [1, 3])
async def test_a_node_gets_as_many_connections_as_it_may(tmp_path: Path, connections: int) -> None:
    async with Sink() as one, Sink() as two:
        spec = make(one, two, connections_per_node=connections)
        # Twenty requests for each of them, and no answer.
        one.stall()
        two.stall()

        async def resume() -> None:
            await until(lambda: one.requests == two.requests == connections)
            await at(spec, 1.0)
            assert one.requests == two.requests == connections
            one.resume()
            two.resume()

        result = await work(spec, tmp_path, resume)
        assert one.most_at_once == two.most_at_once == connections
        assert received(one, two) == Counter(expected_points(spec))
    assert result["acknowledged"] == result["scheduled"]


async def test_connections_are_kept_but_not_for_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KairosDB closes those that were idle for long, and a request must not meet that."""
    async with Sink() as kept, Sink() as left:
        await work(make(kept, sensors=1), tmp_path)
        assert len(kept.ports) == 1
        assert kept.requests == TICKS
        monkeypatch.setattr("loaders.send.post._KEEP_IDLE_S", 0)
        result = await work(make(left, sensors=1), tmp_path)
        assert len(left.ports) == left.requests == TICKS
    assert result["errors"] == {}


# Stalls


async def test_a_stall_shows_in_full(tmp_path: Path) -> None:
    """What a closed-loop tool hides: every point that was due in the stall waited for its end."""
    stalled_ms = resumed_ms = 0.0
    async with Sink() as sink:
        # Far fewer connections than requests in the stall: most cannot even be sent in it.
        spec = make(sink, sensors=50, ticks=18, warmup_ticks=0, connections_per_node=2)

        async def stall() -> None:
            nonlocal stalled_ms, resumed_ms
            await at(spec, 0.3)
            sink.stall()
            stalled_ms = time.time() * 1000
            await asyncio.sleep(1)
            resumed_ms = time.time() * 1000
            sink.resume()

        result = await work(spec, tmp_path, stall)
        assert received(sink) == Counter(expected_points(spec))
    assert result["acknowledged"] == result["scheduled"]
    histogram = measured(tmp_path)
    planned_ms = [request.planned_us / 1000 for request in Schedule(spec).requests(0)]
    assert len(planned_ms) == 180  # 100 requests a second, of 5 points
    for latency_ms in (10, 100, 300, 500, 700, 900):
        # Whatever was due since the stall began was not answered before it ended.
        waited = [due for due in planned_ms if stalled_ms + 2 <= due <= resumed_ms - latency_ms]
        assert at_least(histogram, (latency_ms - 2) * 1000) >= 5 * len(waited) > 0
    assert histogram.get_max_value() >= (resumed_ms - stalled_ms - PERIOD_MS / 10 - 2) * 1000
    # The load was not held up: the loop went on starting requests through the stall.
    assert histogram.get_total_count() == Schedule(spec).points


async def test_an_outage_is_ridden_out(tmp_path: Path) -> None:
    outage_ms = 0.0
    async with Sink() as sink:
        spec = make(sink)

        async def outage() -> None:
            nonlocal outage_ms
            await at(spec, 0.3)
            await sink.refuse()
            began = time.time()
            await asyncio.sleep(0.7)
            outage_ms = (time.time() - began) * 1000
            await sink.listen()

        result = await work(spec, tmp_path, outage)
        assert set(received(sink)) == expected_points(spec)
    assert result["acknowledged"] == result["scheduled"]
    assert result["errors"]["refused"] >= 1
    assert result["retries"] >= 1
    assert measured(tmp_path).get_max_value() >= (outage_ms - PERIOD_MS / 4 - 2) * 1000
    assert result["first_errors"]


# Refusals and failures


async def test_client_error_is_final_and_keeps_the_body(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.status, sink.body = 400, '{"errors":["value:\nnot a number"]}'
        spec = make(sink, ticks=3)
        result = await work(spec, tmp_path)
        assert sink.requests == 12
    assert result["rejected"] == result["sent"] == result["scheduled"]
    assert result["retries"] == 0
    assert result["errors"] == {"http_400": 12}
    assert len(result["first_errors"]) == 10
    assert result["first_errors"][0] == 'HTTP 400: {"errors":["value: not a number"]}'
    reasons = {row["reason"] for row in outcomes(tmp_path)}
    assert reasons == {result["first_errors"][0]}
    # A quick refusal is not a fast acknowledgement.
    assert measured(tmp_path).get_total_count() == 0


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (
            '{"taken": 3, "refused": 2, "errors": ["SENSOR_1: ttl 700000000 is too long"]}',
            "unknown",
        ),
        ('{"errors": ["' + "x" * 5000 + '"], "refused": 2, "taken": 3}', "unknown"),
        ('{"taken": 0, "refused": 5, "errors": ["all of them"]}', "rejected"),
        ('{"errors": ["KairosDB says no more than this"]}', "rejected"),
        ("[1]", "rejected"),
        ('{"taken": "some"}', "rejected"),
        ("<html>", "rejected"),
    ],
)
async def test_a_request_of_which_some_was_taken_is_unknown(
    tmp_path: Path, body: str, outcome: str
) -> None:
    """Which of its points were refused is in sentences only, and the rest must not be missed."""
    async with Sink() as sink:
        sink.status, sink.body = 400, body
        spec = make(sink, sensors=5, ticks=2, warmup_ticks=0, sensors_per_request=5)
        result = await work(spec, tmp_path)
        assert sink.requests == 2, "sending it again would tell no more"
    assert result[outcome] == result["scheduled"] == result["sent"] == 10
    assert {row["outcome"] for row in outcomes(tmp_path)} == {outcome}
    # A quick refusal is not a fast acknowledgement.
    assert measured(tmp_path).get_total_count() == 0
    assert result["errors"] == {"http_400": 2}


async def test_retry_after_goes_all_the_way(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.first, sink.headers = [503], {"Retry-After": "1"}
        spec = make(sink, sensors=1, ticks=1, warmup_ticks=0)
        result = await work(spec, tmp_path)
        first, second = sink.arrivals
        assert second - first >= 1
    assert result["acknowledged"] == 1
    assert result["retries"] == 1


async def test_what_comes_too_early_is_sent_again(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.first, sink.headers, sink.body = [429], {"Retry-After": "1"}, "new series"
        spec = make(sink, sensors=1, ticks=1, warmup_ticks=0)
        result = await work(spec, tmp_path)
        first, second = sink.arrivals
        assert second - first >= 1
    assert result["acknowledged"] == 1
    assert result["errors"] == {"http_429": 1}


async def test_server_errors_are_tried_again(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.first, sink.body = [503, 500, 502, 503], "later"
        spec = make(sink, ticks=3)
        result = await work(spec, tmp_path)
        assert sink.requests == 12 + 4
        assert set(received(sink)) == expected_points(spec)
    assert result["acknowledged"] == result["scheduled"]
    assert result["retries"] == 4
    assert result["errors"] == {"http_503": 2, "http_500": 1, "http_502": 1}
    assert set(result["first_errors"]) == {f"HTTP {n}: later" for n in (500, 502, 503)}
    assert outcomes(tmp_path) == []


async def test_each_outcome_is_that_of_its_request(tmp_path: Path) -> None:
    """Some refused, some failed for good, the others well: and each is listed for what it was."""
    async with Sink() as sink:
        spec = make(sink, ticks=6, retry_for_s=0)
        sink.first = [204, 204, 400, 204, 503, 204, 204, 413, 204]
        result = await work(spec, tmp_path)
        assert sink.requests == 24
        bad = {}
        for status, batch in zip(
            [204, 204, 400, 204, 503, 204, 204, 413], sink.batches, strict=False
        ):
            if status != 204:
                bad[min((p["name"], p["timestamp"]) for p in batch)] = status
    assert (result["rejected"], result["unknown"], result["not_sent"]) == (10, 5, 0)
    assert result["acknowledged"] == result["scheduled"] - 15
    schedule = Schedule(spec)
    listed = {}
    for row in outcomes(tmp_path):
        group = schedule.groups(0)[row["group"]]
        name = min(spec.metric_name(number) for number in group.slots.tolist())
        listed[name, schedule.timestamp_ms(group.rank, row["tick"])] = (
            row["outcome"],
            row["reason"],
        )
    words = {
        400: ("rejected", "HTTP 400"),
        413: ("rejected", "HTTP 413"),
        503: ("unknown", "HTTP 503"),
    }
    assert listed == {point: words[status] for point, status in bad.items()}


async def test_when_followed_sensors_were_acknowledged_is_kept(tmp_path: Path) -> None:
    queries = Queries(rate=1, last_s=1, lag_s=1, sensors=1, bucket_s=1, followed=2)
    async with Sink() as sink:
        spec = make(sink, ticks=6, retry_for_s=0, queries=queries)
        sink.first = [204, 503, 204, 204, 400]
        before_s = time.time()
        await work(spec, tmp_path)
    kept = lines(files.followed_path(tmp_path, 0))
    assert all(before_s - 1 < row["t"] < time.time() + 1 for row in kept)
    places = set(follow.places(spec, 0))
    # Two of the four groups, and of the two requests that had no 204 those that are theirs.
    groups = {g.index for g in Schedule(spec).groups(0) if places & set(g.slots.tolist())}
    assert len(groups) == 2
    due = {(group, tick) for group in groups for tick in range(6)}
    lost = {(row["group"], row["tick"]) for row in outcomes(tmp_path)}
    assert {(row["group"], row["tick"]) for row in kept} == due - lost
    assert len(lost) == 2
    assert due & lost


@pytest.mark.parametrize("status", [500, 302, 200])
async def test_server_error_for_ever_is_unknown(tmp_path: Path, status: int) -> None:
    async with Sink() as sink:
        sink.status, sink.body = status, "no"
        spec = make(sink, ticks=3, retry_for_s=0.3)
        result = await work(spec, tmp_path)
        assert sink.requests == 12 + result["retries"]
    assert result["unknown"] == result["scheduled"]
    assert result["retries"] >= 1
    assert set(result["errors"]) == {f"http_{status}"}
    # Given up after retry_for_s: that is the least their latency can be.
    assert measured(tmp_path).get_value_at_percentile(1) >= 299_000


async def test_refused_for_ever_is_not_sent(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, ticks=3, retry_for_s=0.3, request_timeout_s=0.3)
        await sink.refuse()
        result = await work(spec, tmp_path)
    assert result["not_sent"] == result["scheduled"]
    assert result["sent"] == 0
    assert set(result["errors"]) == {"refused"}
    assert measured(tmp_path).get_total_count() == 20
    assert measured(tmp_path).get_value_at_percentile(1) >= 299_000


async def test_no_name_is_not_sent(tmp_path: Path) -> None:
    spec = make("http://nowhere.invalid:8080", ticks=2, warmup_ticks=0, retry_for_s=0)
    result = await work(spec, tmp_path)
    assert result["not_sent"] == result["scheduled"]


async def test_timeout_is_unknown(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.stall()
        spec = make(sink, ticks=3, retry_for_s=0, request_timeout_s=0.5, connections_per_node=100)
        result = await work(spec, tmp_path)
    assert result["unknown"] == result["scheduled"]
    assert result["errors"] == {"timeout": 12}


async def test_an_answer_after_the_time_limit_is_nobodys(tmp_path: Path) -> None:
    """The refusals that come late must not be taken for the answers to other requests."""
    async with Sink() as sink:
        sink.stall()
        sink.first = [400] * 8
        spec = make(sink, ticks=8, request_timeout_s=0.3, connections_per_node=100)

        async def trouble() -> None:
            await until(lambda: sink.requests >= 8 and len(sink.first) == 0)
            await at(spec, 0.7)
            sink.resume()

        result = await work(spec, tmp_path, trouble)
        assert set(received(sink)) == expected_points(spec)
    assert result["acknowledged"] + result["rejected"] == result["scheduled"]
    assert set(result["errors"]) <= {"timeout", "http_400"}
    # Only who still waited when the answers were given took one of them.
    assert result["errors"]["timeout"] >= 8
    assert result["rejected"] == 5 * result["errors"].get("http_400", 0) <= 5 * 4


@pytest.mark.parametrize(("how", "kind"), [("reset", "reset"), ("half", "broken")])
async def test_a_cut_answer_is_unknown(tmp_path: Path, how: str, kind: str) -> None:
    async with Sink() as sink:
        setattr(sink, how, True)
        spec = make(sink, ticks=3, retry_for_s=0.2)
        result = await work(spec, tmp_path)
    assert result["unknown"] == result["scheduled"]
    assert set(result["errors"]) == {kind}
    assert result["errors"][kind] == 12 + result["retries"]


async def test_a_cut_answer_is_tried_again(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.half = True
        spec = make(sink, ticks=5)

        async def mend() -> None:
            await until(lambda: sink.requests >= 5)
            sink.half = False

        result = await work(spec, tmp_path, mend)
        # Stored twice is stored once: timestamps and values are the same.
        assert set(received(sink)) == expected_points(spec)
    assert result["acknowledged"] == result["scheduled"]
    assert result["errors"]["broken"] >= 1


async def test_no_http_is_unknown(tmp_path: Path) -> None:
    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"unknown command: POST.  Try `help'.\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(chatter, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        spec = make(f"http://127.0.0.1:{port}", ticks=3, retry_for_s=0)
        result = await work(spec, tmp_path)
    assert result["unknown"] == result["scheduled"]
    assert result["errors"] == {"broken": 12}
    assert "not HTTP" in result["first_errors"][0]


async def test_waiting_for_a_connection_for_ever_is_not_sent(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.stall()
        spec = make(sink, ticks=3, retry_for_s=0, request_timeout_s=0.4, connections_per_node=1)
        result = await work(spec, tmp_path)
    assert result["unknown"] > 0
    assert result["not_sent"] > 0
    assert result["unknown"] + result["not_sent"] == result["scheduled"]


async def test_late_acknowledgement_is_not_in_time(tmp_path: Path) -> None:
    async with Sink() as sink:
        spec = make(sink, ticks=3, latency_limit_ms=1)

        async def stall() -> None:
            sink.stall()
            await asyncio.sleep(0.8)
            sink.resume()

        result = await work(spec, tmp_path, stall)
    assert result["acknowledged"] == result["scheduled"]
    assert result["in_time"] == 0


async def test_a_point_is_in_time_in_the_step_in_which_it_was_due(tmp_path: Path) -> None:
    """And not in the next one, in which its answer came."""
    async with Sink() as sink:
        steps = [Step(PERIOD_MS, 4), Step(PERIOD_MS, 8)]
        spec = make(sink, steps=steps, latency_limit_ms=60_000)

        async def stall() -> None:
            sink.stall()
            await asyncio.sleep(0.7)
            sink.resume()

        result = await work(spec, tmp_path, stall)
    assert result["in_time_by_step"] == [20 * (4 - 2), 20 * 8]


async def test_waiting_for_a_connection_is_told_from_being_served(tmp_path: Path) -> None:
    """A server that answers in 40 ms looked as if it took seconds, with no word of why."""
    async with Sink() as sink:
        sink.delay_s = 0.04
        # 80 requests/s: two connections carry 50.
        spec = make(sink, sensors=80, sensors_per_request=1, connections_per_node=2)
        spec = dataclasses.replace(spec, steps=[Step(period_ms=1000, ticks=4)], warmup_ticks=1)
        result = await work(spec, tmp_path)
        assert sink.most_at_once <= 2
    assert result["acknowledged"] == result["scheduled"]
    waits, served = (
        histograms.merged([path(tmp_path, 0)]) for path in (files.wait_path, files.service_path)
    )
    assert waits.get_total_count() == served.get_total_count() == 80 * 3
    latency = measured(tmp_path)
    # Half a second is lost in each second, and more on a busy machine.
    assert waits.get_max_value() >= 500_000
    assert waits.get_max_value() <= latency.get_max_value()
    assert served.get_value_at_percentile(50) >= 40_000
    assert served.get_value_at_percentile(50) < waits.get_max_value()


async def test_latencies_are_told_by_node(tmp_path: Path) -> None:
    async with Sink() as quick, Sink() as slow:
        slow.delay_s = 0.2
        spec = make(quick, slow, connections_per_node=100)
        await work(spec, tmp_path)
    found = histograms.by_tag(files.histogram_path(tmp_path, 0))
    assert set(found) == {"warmup", "node-0", "node-1"}
    assert found["node-0"].get_total_count() == found["node-1"].get_total_count() == 10 * 8
    assert found["node-1"].get_min_value() >= 190_000


# Replay


def history(sink: Sink, **changes: Any) -> LoadSpec:
    """A hundred requests of an hour ago."""
    return make(sink, ticks=25, start_in_ms=-3_600_000, replay=True, **changes)


@pytest.mark.parametrize("connections", [1, 3])
async def test_a_replay_is_bounded_by_what_is_under_way(tmp_path: Path, connections: int) -> None:
    async with Sink() as sink:
        sink.delay_s = 0.01
        spec = history(sink, connections_per_node=connections)
        result = await work(spec, tmp_path)
        assert received(sink) == Counter(expected_points(spec))
        assert sink.most_at_once == connections
    assert result["acknowledged"] == result["scheduled"]
    records = lines(files.progress_path(tmp_path, 0))
    assert all(record["in_flight"] <= 5 * connections for record in records)
    assert records[-1]["due"] == result["scheduled"]
    # Latency counts from when a request was begun, not from history.
    assert measured(tmp_path).get_max_value() < 3_000_000_000


async def test_a_replay_waits_for_room_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "_LOOK_S", 0.02)
    async with Sink() as sink, Sink() as other:  # the other one has no plugin to ask
        sink.waiting = 1001
        sink.delay_s = 0.01
        spec = make(
            sink,
            other,
            ticks=25,
            start_in_ms=-3_600_000,
            replay=True,
            replay_queue_points=1000,
            connections_per_node=1,
        )
        held: list[int] = []

        async def trouble() -> None:
            # Full from the start: nothing is sent.
            await asyncio.sleep(0.3)
            held.append(sink.requests + other.requests)
            sink.waiting = 1000
            await until(lambda: sink.requests >= 5)
            sink.waiting = 100_000
            # What is under way comes to its end, and then nothing more is sent.
            await asyncio.sleep(0.3)
            held.append(sink.requests + other.requests)
            await asyncio.sleep(0.3)
            held.append(sink.requests + other.requests)
            sink.waiting = 0

        result = await work(spec, tmp_path, trouble)
        assert received(sink, other) == Counter(expected_points(spec))
    assert held[0] == 0
    assert 5 <= held[1] == held[2] < 100
    assert result["acknowledged"] == result["scheduled"]


async def test_only_a_replay_looks_at_queues(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.waiting = 10**9
        result = await work(make(sink, ticks=3, replay_queue_points=1), tmp_path)
        assert sink.looks == 0
    assert result["in_time"] == 20 * (3 - 2), "all after the warm-up"


async def test_a_replay_rides_out_an_outage(tmp_path: Path) -> None:
    async with Sink() as sink:
        sink.delay_s = 0.005
        spec = history(sink)

        async def outage() -> None:
            await until(lambda: sink.requests >= 20)
            await sink.refuse()
            await asyncio.sleep(0.3)
            await sink.listen()

        result = await work(spec, tmp_path, outage)
        assert set(received(sink)) == expected_points(spec)
    assert result["acknowledged"] == result["scheduled"]
    assert result["retries"] >= 1


@pytest.mark.parametrize("waiting", [0, 1001])
async def test_a_stopped_replay_is_accounted_for(tmp_path: Path, waiting: int) -> None:
    async with Sink() as sink:
        sink.delay_s = 0.01
        sink.waiting = waiting
        spec = make(
            sink, ticks=10_000, start_in_ms=-3_600_000, replay=True, replay_queue_points=1000
        )
        worker = Worker(spec, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        if waiting:
            await asyncio.sleep(0.3)
        else:
            await until(lambda: sink.requests >= 20)
        worker.stop()
        result = await running
        check(spec, tmp_path, result)
        assert (sink.requests == 0) == bool(waiting)
        assert result["acknowledged"] == len(sink.points)
    assert result["stopped_early"]
    assert result["not_sent"] == result["scheduled"] - result["acknowledged"]


# The connections of a node, one attempt at a time


class Nodes:
    """A protocol and a fail-over in one: what is sent waits until the test answers it."""

    def __init__(self, count: int, **changes: Any) -> None:
        spec = load_spec(nodes=nodes(count), sensors=9 * count, connections_per_node=1, **changes)
        spec = dataclasses.replace(spec, start_ms=int(time.time() * 1000))
        self.groups = Schedule(spec).groups(0)
        self.routes = {group.index: group.node for group in self.groups}
        self.tally = Tally()
        self.clock = Clock()
        self.delivery = Delivery(spec, self, self, self.clock, self.tally)  # type: ignore[arg-type]
        self.sent: list[tuple[int, int]] = []  # group, node
        self._answers: list[tuple[Callable[[], None], asyncio.Future[Reply]]] = []
        self._deliveries: list[asyncio.Task[Ending]] = []

    async def deliver(self, group: int) -> asyncio.Task[Ending]:
        batch = Batch(self.groups[group], 0, 1)
        task = asyncio.create_task(self.delivery.deliver(batch, self.clock.now_us()))
        self._deliveries.append(task)
        await self.settle()
        return task

    async def answer(self, reply: Reply, *, reached: bool = True) -> None:
        """Answer the oldest attempt that has none."""
        on_reach, future = self._answers.pop(0)
        if reached:
            on_reach()
        future.set_result(reply)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def end(self) -> None:
        for task in self._deliveries:
            task.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)

    # Protocol.

    async def send(self, node: int, batch: Batch, on_reach: Callable[[], None]) -> Reply:
        self.sent.append((batch.group.index, node))
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._answers.append((on_reach, future))
        return await future

    # Fail-over.

    def route(self, group: Group) -> int:
        return self.routes[group.index]

    def asked(self, node: int) -> None:
        pass

    def answered(self, node: int) -> None:
        pass

    def refused(self, node: int) -> None:
        pass


def became(task: asyncio.Task[Ending]) -> tuple[Outcome, str]:
    ending = task.result()
    return ending.outcome, ending.reason


ACKNOWLEDGED = Reply(Answer.ACKNOWLEDGED)
FULL = Reply(Answer.FAILED, "http_503", "full")
REFUSED = Reply(Answer.FAILED, "refused", "nobody there", silent=True)


async def test_requests_wait_for_a_connection_in_order() -> None:
    servers = Nodes(1)
    tasks = [await servers.deliver(group) for group in (0, 2, 1)]
    for expected in ([0], [0, 2], [0, 2, 1]):
        assert [group for group, _ in servers.sent] == expected
        await servers.answer(ACKNOWLEDGED)
    assert all(task.result().arrived for task in tasks)


async def test_a_request_that_failed_leaves_its_connection_to_others() -> None:
    """The failure may be its own: it must not keep the others from being sent."""
    servers = Nodes(1)
    await servers.deliver(0)
    await servers.deliver(1)
    await servers.answer(FULL)
    assert servers.sent == [(0, 0), (1, 0)]
    await servers.end()


@pytest.mark.parametrize(("asked_s", "waited_s"), [(0.0, 0.05), (0.02, 0.05), (0.4, 0.4)])
async def test_a_server_is_left_alone_for_as_long_as_it_asks(
    monkeypatch: pytest.MonkeyPatch, asked_s: float, waited_s: float
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    servers = Nodes(1)
    task = await servers.deliver(0)
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", note)
        on_reach, future = servers._answers.pop(0)
        on_reach()
        future.set_result(dataclasses.replace(FULL, unwilling=True, retry_after_s=asked_s))
        for _ in range(20):
            await sleep(0)
    assert slept == [waited_s]
    await servers.answer(ACKNOWLEDGED)
    assert became(task) == (Outcome.ACKNOWLEDGED, "")
    assert servers.sent == [(0, 0), (0, 0)]


async def test_what_nothing_can_reach_is_tried_by_one_request_at_a_time() -> None:
    """A long outage costs a few attempts a second, and not one for each request that waits."""
    servers = Nodes(1)
    first = await servers.deliver(0)
    await servers.deliver(1)
    await servers.answer(REFUSED, reached=False)
    await until(lambda: len(servers.sent) > 1)
    assert servers.sent == [(0, 0), (0, 0)]
    await servers.answer(ACKNOWLEDGED)
    assert became(first) == (Outcome.ACKNOWLEDGED, "")
    assert servers.sent == [(0, 0), (0, 0), (1, 0)]
    await servers.end()


async def test_who_waited_for_another_node_goes_home_if_that_is_back() -> None:
    servers = Nodes(2)
    zero, one, zero_too = (
        next(g.index for g in servers.groups[skip:] if g.node == node)
        for skip, node in ((0, 0), (0, 1), (2, 0))
    )
    await servers.deliver(zero)
    servers.routes[one] = 0  # node 1 is down
    waiting = await servers.deliver(one)
    assert servers.sent == [(zero, 0)]
    servers.routes[one] = 1  # and back
    await servers.answer(ACKNOWLEDGED)
    assert servers.sent == [(zero, 0), (one, 1)]
    # The connection that it had waited for is free again.
    await servers.deliver(zero_too)
    assert servers.sent == [(zero, 0), (one, 1), (zero_too, 0)]
    await servers.answer(ACKNOWLEDGED)
    assert became(waiting) == (Outcome.ACKNOWLEDGED, "")
    assert servers.tally.acknowledged_by_node == {0: 3, 1: 3}
    await servers.end()


async def test_the_node_that_counts_is_the_last_one_that_was_reached() -> None:
    servers = Nodes(2, retry_for_s=0.2)
    task = await servers.deliver(0)
    await servers.answer(FULL)
    servers.routes[0] = 1
    await until(lambda: len(servers.sent) == 2)
    await servers.answer(REFUSED, reached=False)
    while not task.done():
        await asyncio.sleep(0.01)
        if servers._answers:
            await servers.answer(REFUSED, reached=False)
    assert became(task) == (Outcome.UNKNOWN, "nobody there")
    assert {node for _, node in servers.sent[1:]} == {1}
    assert servers.tally.sent_by_node == {0: 3}
    assert servers.tally.sent == 3


async def test_a_connection_is_not_lost_with_the_request_that_waited_for_it() -> None:
    """Cancelled in the very moment in which the connection became free."""
    servers = Nodes(1)
    await servers.deliver(0)
    cancelled = await servers.deliver(1)
    _, future = servers._answers.pop(0)
    future.set_result(ACKNOWLEDGED)
    while not servers.delivery._slots[0]._free and servers.delivery._slots[0]._waiting:
        await asyncio.sleep(0)  # until the first one has handed its connection on
    cancelled.cancel()
    await servers.settle()
    assert became(cancelled) == (Outcome.NOT_SENT, "stopped")
    await servers.deliver(2)
    assert [group for group, _ in servers.sent] == [0, 2]
    await servers.end()


# Being stopped


async def test_stop_settles_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loaders.send.worker._GRACE_S", 0.2)
    async with Sink() as sink:
        spec = make(sink, ticks=10_000)
        worker = Worker(spec, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0.6)
        sink.stall()  # nothing more is answered: in-flight requests end as unknown
        await asyncio.sleep(0.3)
        worker.stop()
        worker.stop()
        result = await running
        check(spec, tmp_path, result)
    assert result["stopped_early"]
    assert result["acknowledged"] > 0
    assert result["unknown"] > 0
    assert result["not_sent"] > result["scheduled"] * 0.9
    rows = outcomes(tmp_path)
    assert {row["reason"] for row in rows} == {"stopped"}
    # What never began is one range for each group.
    assert sum(row["outcome"] == "not_sent" and row["ticks"] > 1 for row in rows) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"points_per_request": 3, "lifetime_ticks": 6, "ramp_ticks": 900},
        {"jitter_ms": 100, "pacing": "aligned"},
    ],
    ids=str,
)
async def test_stop_in_mid_run_leaves_no_point_out(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with Sink() as sink:
        spec = make(sink, ticks=1000, **changes)
        worker = Worker(spec, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        await until(lambda: sink.requests >= 8)
        worker.stop()
        result = await running
        check(spec, tmp_path, result)
        assert result["acknowledged"] == len(sink.points)
        # What is listed and what was acknowledged are the whole schedule.
        schedule = Schedule(spec)
        covered = {
            (number, schedule.timestamp_ms(group.rank, tick))
            for row in outcomes(tmp_path)
            for group in [schedule.groups(0)[row["group"]]]
            for tick in range(row["tick"], row["tick"] + row["ticks"])
            for number in schedule.numbers(group, tick).tolist()
        }
    names = {(spec.metric_name(number), at_ms) for number, at_ms in covered}
    arrived = {(point["name"], point["timestamp"]) for point in sink.points}
    assert names | arrived == {point[:2] for point in expected_points(spec)}
    assert not names & arrived


async def test_stopped_while_waiting_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loaders.send.worker._GRACE_S", 0.2)
    async with Sink() as sink:
        sink.status, sink.body = 503, "full"
        spec = make(sink, ticks=1000, retry_for_s=60)
        worker = Worker(spec, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        await until(lambda: sink.requests >= 8)
        worker.stop()
        result = await running
        check(spec, tmp_path, result)
    assert result["unknown"] > 0
    reasons = {row["reason"] for row in outcomes(tmp_path) if row["outcome"] == "unknown"}
    assert reasons == {"stopped; before that: HTTP 503: full"}


# Processes


@pytest.fixture
def served() -> Iterator[Sink]:
    """A sink in a thread of its own, for tests that block."""
    with sinks.served() as sink:
        yield sink


def pids_of(outdir: Path) -> dict[int, int]:
    """Process ids of the workers that write to `outdir`, by worker."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if "loaders.send.worker" in words and str(outdir) in words:
            found[int(words[words.index(str(outdir)) - 1])] = int(folder.name)
    return found


def test_workers_together(served: Sink, tmp_path: Path) -> None:
    outdir = tmp_path / "new" / "load"
    spec = make(served, start_in_ms=700, workers_per_host=3, sensors=25)
    seen: list[emulator.Progress] = []
    results = emulator.run(spec, outdir, seen.append)
    for result in results:
        check(spec, outdir, result)
    assert [result["worker"] for result in results] == [0, 1, 2]
    assert sum(result["acknowledged"] for result in results) == Schedule(spec).points
    assert received(served) == Counter(expected_points(spec))
    assert LoadSpec.from_json((outdir / "spec.json").read_text()) == spec
    last = seen[-1]
    assert (last.due, last.sent, last.acknowledged) == (Schedule(spec).points,) * 3
    assert last.duration_s == 1.0
    assert pids_of(outdir) == {}
    paths = [files.histogram_path(outdir, worker) for worker in range(3)]
    assert sum(row["count"] for row in histograms.intervals(paths)) == Schedule(spec).points
    assert sum(row["warmup_count"] for row in histograms.intervals(paths)) == 25 * 2


def test_a_killed_worker_is_reported_and_others_finish(served: Sink, tmp_path: Path) -> None:
    spec = make(served, start_in_ms=500, workers_per_host=2, ticks=15)

    served.stall()  # so that no worker can be done before one is killed

    def kill_one() -> None:
        while not served.requests:
            time.sleep(0.01)
        os.kill(pids_of(tmp_path)[0], signal.SIGKILL)
        served.resume()

    killer = threading.Thread(target=kill_one)
    killer.start()
    dead, alive = emulator.run(spec, tmp_path)
    killer.join()
    assert dead["worker"] == 0
    assert dead["died"] == "signal 9 (SIGKILL)"
    assert dead["last"] is None or dead["last"]["worker"] == 0
    check(spec, tmp_path, alive)
    assert alive["acknowledged"] == alive["scheduled"]
    assert not alive["stopped_early"]


@pytest.mark.parametrize("how", ["sigint", "exception"])
def test_stopped_in_mid_run(served: Sink, tmp_path: Path, how: str) -> None:
    spec = make(served, start_in_ms=300, workers_per_host=2, ticks=1000)
    sent: set[int] = set()

    def end(progress: emulator.Progress) -> None:
        if not progress.acknowledged:
            return
        if how == "exception":
            raise KeyboardInterrupt
        # As Ctrl-C in a terminal does, which goes to the workers too.
        for pid in set(pids_of(tmp_path).values()) - sent:
            sent.add(pid)
            os.kill(pid, signal.SIGINT)

    if how == "exception":
        with pytest.raises(KeyboardInterrupt):
            emulator.run(spec, tmp_path, end)
        results = [json.loads(files.result_path(tmp_path, w).read_text()) for w in range(2)]
    else:
        results = emulator.run(spec, tmp_path, end)
    assert pids_of(tmp_path) == {}
    for result in results:
        check(spec, tmp_path, result)
        assert result["stopped_early"]
    assert sum(result["acknowledged"] for result in results) > 0


def test_no_process_outlives_a_ctrl_c_that_came_while_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def interrupted(*arguments: Any, **how: Any) -> subprocess.Popen[str]:
        started.append(start(*arguments, **how))
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(emulator.subprocess, "Popen", interrupted)
    spec = make("http://127.0.0.1:9", workers_per_host=2, start_in_ms=600_000)
    with pytest.raises(KeyboardInterrupt):
        emulator.run(spec, tmp_path)
    assert [process.poll() for process in started] == [0, 0]


def test_stopped_before_python_is_up(tmp_path: Path) -> None:
    """Ctrl-C right after the start must not cost a worker its report."""
    spec = make("http://127.0.0.1:9", workers_per_host=2, start_in_ms=60_000)
    stop = threading.Event()
    stop.set()
    for result in emulator.run(spec, tmp_path, stop=stop):
        check(spec, tmp_path, result)
        assert result["stopped_early"]
        assert result["not_sent"] == result["scheduled"]


def test_a_worker_ends_when_its_parent_dies(tmp_path: Path) -> None:
    spec = make("http://127.0.0.1:9", start_in_ms=600_000)
    spec_path = tmp_path / "in.json"
    spec_path.write_text(spec.to_json())
    program = (
        "import sys; from pathlib import Path; from loaders import emulator;"
        "from loaders.schedule.spec import LoadSpec;"
        "emulator.run(LoadSpec.from_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, spec_path, tmp_path], cwd=ROOT)
    deadline = time.monotonic() + 20
    while not files.progress_path(tmp_path, 0).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    while not files.result_path(tmp_path, 0).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    check(spec, tmp_path, json.loads(files.result_path(tmp_path, 0).read_text()))
    while pids_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert pids_of(tmp_path) == {}


def worker_process(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loaders.send.worker", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("name", ["jsonl", "hlog", "outcomes.jsonl", "events.jsonl"])
def test_a_full_disk_ends_the_worker_with_one_line(served: Sink, tmp_path: Path, name: str) -> None:
    served.status = 400
    # The other node refuses, which is an event.
    spec = make(served, "http://127.0.0.1:9", start_in_ms=400, ticks=1000, failover_after_s=0.2)
    (tmp_path / "spec.json").write_text(spec.to_json())
    full = tmp_path / f"worker-0.{name}"
    full.symlink_to("/dev/full")
    done = worker_process(tmp_path / "spec.json", 0, tmp_path)
    assert done.returncode == 3
    assert done.stderr == f"worker 0: cannot write {full}: No space left on device\n"
    assert not files.result_path(tmp_path, 0).exists()


def test_the_emulator_says_why_a_worker_died(served: Sink, tmp_path: Path) -> None:
    served.status, served.body = 400, "a long reason " * 30
    spec = make(served, start_in_ms=300, workers_per_host=2, ticks=30)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Large enough for the spec, too small for the outcomes.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(spec.to_json()) + 10, before[1]))
    try:
        results = emulator.run(spec, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for result in results:
        assert result["died"].startswith(f"exit status 3: worker {result['worker']}: cannot write")
        assert result["died"].endswith("File too large")


@pytest.mark.parametrize(
    ("text", "index", "message"),
    [
        ("{}", "0", "sensors: missing"),
        (None, "0", "No such file"),
        (make("http://127.0.0.1:9").to_json(), "1", "worker: must be"),
        ("{}", "x", "usage:"),
    ],
    # The same in every process of pytest: a spec has the time in it.
    ids=["spec", "file", "worker", "number"],
)
def test_bad_arguments(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    index: str,
    message: str,
) -> None:
    path = tmp_path / "spec.json"
    if text is not None:
        path.write_text(text)
    assert main([str(path), index, str(tmp_path)]) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
