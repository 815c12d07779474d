"""Telnet: nothing is acknowledged, and still every point that was handed over is accounted for."""

import asyncio
import socket
import struct
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from loader_runs import (
    TICKS,
    at,
    at_least,
    check,
    events,
    expected_points,
    make,
    measured,
    outcomes,
    received,
    until,
    work,
)
from loads import load_spec
from sink import TelnetSink

from kairoscope.verdict import timely
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec
from loaders.send import telnet
from loaders.send.protocol import Answer, Batch
from loaders.send.telnet import Telnet
from loaders.send.worker import Worker

pytestmark = pytest.mark.timeout(60)

KERNEL_BYTES = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2]) + 2**20
"""More than the kernel takes for a server that does not read."""

LONG_LINES = {"sensors": 1800, "sensors_per_request": 180, "tags": {"filler": "x" * 400}}
"""Most of a megabyte a tick: the kernel takes no more, long before the end."""


def load(*sinks: TelnetSink, **changes: Any) -> LoadSpec:
    rest = [f"http://127.0.0.{number + 1}:9" for number in range(len(sinks))]  # nobody asks it
    addresses = [sink.address for sink in sinks]
    return make(*rest, telnet=addresses, **{"protocol": "telnet-put"} | changes)


# A server that behaves


@pytest.mark.parametrize(
    ("changes", "verb"),
    [
        ({}, "put"),
        ({"protocol": "telnet-putm"}, "putm"),
        ({"value_type": "double"}, "put"),
        ({"value_type": "string"}, "puts"),
        ({"value_type": "string", "protocol": "telnet-putm"}, "puts"),
        ({"points_per_request": 4, "lifetime_ticks": 8, "ramp_ticks": 3}, "put"),
        ({"tags": {"a": "b", "sensor": "{n}", "rack": "r{n%4}"}}, "put"),
    ],
    ids=str,
)
async def test_all_lines_arrive_exactly_once(
    tmp_path: Path, changes: dict[str, Any], verb: str
) -> None:
    async with TelnetSink() as one, TelnetSink() as two:
        spec = load(one, two, sensors=23, **changes)
        schedule = Schedule(spec)
        result = await work(spec, tmp_path)
        # All is there when the worker has ended: it waited for that.
        assert received(one, two) == Counter(expected_points(spec))
        tags = {spec.metric_name(one.number): spec.tags_of(one.number) for one in schedule.series()}
        for node, sink in enumerate((one, two)):
            assert {line.split()[0] for line in sink.lines} == {verb}
            assert {int(point["name"][7:]) % spec.sensors % 2 for point in sink.points} == {node}
            assert all(point["tags"] == tags[point["name"]] for point in sink.points)
            assert (sink.connections, sink.versions, sink.halves) == (1, 1, [])
        assert result["sent_by_node"] == [len(one.lines), len(two.lines)]
    # Nothing confirms it, and nothing went wrong: no line in the file of outcomes.
    assert result["unknown"] == result["sent"] == result["scheduled"] == schedule.points
    assert result["acknowledged"] == 0
    assert result["in_time"] == timely.due_after_warmup(schedule)
    assert outcomes(tmp_path) == []
    assert result["errors"] == {}
    histograms = (measured(tmp_path), measured(tmp_path, warmup=True))
    assert sum(histogram.get_total_count() for histogram in histograms) == schedule.points


async def test_the_end_waits_for_a_server_that_is_behind(tmp_path: Path) -> None:
    """Closing at once would cut off what the kernel still has."""
    async with TelnetSink() as sink:
        spec = load(sink, ticks=5)

        async def slow() -> None:
            sink.stall()
            await at(spec, 1.0)
            assert not sink.lines
            sink.resume()

        result = await work(spec, tmp_path, slow)
        assert received(sink) == Counter(expected_points(spec))
        assert sink.versions == 1
    assert result["ended_ms"] >= spec.start_ms + 1000
    assert result["errors"] == {}


# Servers that do not read


async def test_back_pressure_shows_in_the_latency(tmp_path: Path) -> None:
    resumed_ms = 0.0
    async with TelnetSink() as sink:
        sink.stall()
        spec = load(sink, **LONG_LINES, warmup_ticks=0, ticks=15, retry_for_s=30)

        async def resume() -> None:
            nonlocal resumed_ms
            await at(spec, 1.7)
            resumed_ms = time.time() * 1000
            sink.resume()

        result = await work(spec, tmp_path, resume)
        assert received(sink) == Counter(expected_points(spec))
        taken = KERNEL_BYTES // min(map(len, sink.lines))
    assert result["unknown"] == result["scheduled"]
    assert outcomes(tmp_path) == []
    histogram = measured(tmp_path)
    planned = [request.planned_us / 1000 for request in Schedule(spec).requests(0)]
    for latency_ms in (200, 500):
        waited = [due for due in planned if due <= resumed_ms - latency_ms]
        # All that were due so long before, but those that the kernel took.
        blocked = LONG_LINES["sensors_per_request"] * len(waited) - taken
        assert at_least(histogram, (latency_ms - 2) * 1000) >= blocked > 0


async def test_what_is_not_taken_in_time_is_given_up_with_a_reason(tmp_path: Path) -> None:
    async with TelnetSink() as sink:
        sink.stall()
        spec = load(
            sink,
            **LONG_LINES,
            warmup_ticks=0,
            request_timeout_s=0.5,
            retry_for_s=0,
        )
        result = await work(spec, tmp_path)
        sink.resume()
        await until(lambda: not sink.open)
        # What was given up was not sent later, and the lines that came are whole.
        assert sink.connections >= 2
        assert set(received(sink)) <= expected_points(spec)
    assert result["errors"]["timeout"] >= 1
    given_up = [row for row in outcomes(tmp_path) if row["outcome"] == "unknown"]
    assert {row["reason"] for row in given_up} <= {
        "not taken within 0.5 s",
        # What waited on the same connection.
        "ConnectionResetError: closed by the loader",
    }
    assert given_up
    assert sum(row["points"] for row in given_up) < result["unknown"]


# Connections that break


async def test_a_reset_is_tried_again_as_a_whole(tmp_path: Path) -> None:
    async with TelnetSink() as sink:
        sink.stall()
        spec = load(sink, **LONG_LINES, warmup_ticks=0, retry_for_s=30)
        worker = Worker(spec, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        assert isinstance(worker._protocol, Telnet)
        connections = worker._protocol._connections
        await until(lambda: connections[0] and connections[0]._blocked)
        cut_ms = time.time() * 1000
        sink.cut()
        sink.resume()
        result = await running
        check(spec, tmp_path, result)
        assert sink.connections == 2
        got = set(received(sink))
        assert got <= expected_points(spec)
        # What was handed over before may be lost, and what came later is all there.
        assert {point for point in expected_points(spec) if point[1] > cut_ms} <= got
    assert result["errors"]["reset"] >= 1
    assert result["retries"] >= 1
    assert result["unknown"] == result["scheduled"]
    assert outcomes(tmp_path) == []


async def test_refused_at_first(tmp_path: Path) -> None:
    async with TelnetSink() as sink:
        await sink.refuse()
        spec = load(sink)

        async def listen() -> None:
            await at(spec, 0.5)
            await sink.listen()

        result = await work(spec, tmp_path, listen)
        assert received(sink) == Counter(expected_points(spec))
    assert set(result["errors"]) == {"refused"}
    assert measured(tmp_path, warmup=True).get_max_value() >= 490_000


async def test_refused_for_ever_is_not_sent(tmp_path: Path) -> None:
    async with TelnetSink() as sink:
        await sink.refuse()
        spec = load(sink, ticks=3, retry_for_s=0.3, request_timeout_s=0.3)
        result = await work(spec, tmp_path)
        await sink.listen()
    assert result["not_sent"] == result["scheduled"]
    assert result["sent"] == result["in_time"] == 0
    assert set(result["errors"]) == {"refused"}
    reasons = {row["reason"].split(":")[0] for row in outcomes(tmp_path)}
    assert "ConnectionRefusedError" in reasons
    assert reasons <= {"ConnectionRefusedError", "no connection was free in time"}


async def test_stopped_in_mid_run(tmp_path: Path) -> None:
    async with TelnetSink() as sink:
        spec = load(sink, ticks=1000)
        worker = Worker(spec, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        await until(lambda: len(sink.lines) >= 50)
        worker.stop()
        result = await running
        check(spec, tmp_path, result)
        assert result["unknown"] == len(sink.lines)
        assert sink.halves == []
    assert result["not_sent"] == result["scheduled"] - result["unknown"]
    assert {row["outcome"] for row in outcomes(tmp_path)} == {"not_sent"}


# What servers say


async def test_a_server_that_does_not_confirm_the_end(tmp_path: Path) -> None:
    async with TelnetSink() as one, TelnetSink() as two:
        two.mute = True
        spec = load(one, two, ticks=3, request_timeout_s=0.3)
        result = await work(spec, tmp_path)
        assert received(one, two) == Counter(expected_points(spec))
    assert result["errors"] == {"close": 1}
    assert result["first_errors"] == ["node 1 did not confirm the end: TimeoutError:"]
    assert result["unknown"] == result["scheduled"]


async def test_a_server_that_is_gone_at_the_end(tmp_path: Path) -> None:
    async with TelnetSink() as sink:
        spec = load(sink, ticks=3, request_timeout_s=5)
        sink.mute = True

        async def go() -> None:
            await until(lambda: sink.versions)
            sink.cut()

        result = await work(spec, tmp_path, go)
    assert result["errors"] == {"close": 1}
    (text,) = result["first_errors"]
    assert text == "node 0 did not confirm the end: ConnectionResetError: closed by the server"


async def test_a_server_that_does_not_know_the_command(tmp_path: Path) -> None:
    """It answers each line, and none of these answers is the one to `version`."""
    async with TelnetSink() as sink:
        sink.unknown = True
        spec = load(sink, value_type="string", ticks=3)

        async def slow() -> None:
            sink.stall()
            await at(spec, 0.6)
            sink.resume()

        result = await work(spec, tmp_path, slow)
        assert received(sink) == Counter(expected_points(spec))
        assert sink.versions == 1
    assert result["errors"] == {"close": 1}
    assert result["first_errors"] == ["node 0 said: unknown command: puts.  Try `help'."]


async def test_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telnet, "_PROBE_S", 0.3)
    async with TelnetSink() as sink:
        schedule = Schedule(load(sink))
        protocol = Telnet(schedule, schedule.groups(0))
        assert await protocol.probe(0)
        await until(lambda: not sink.open)
        sink.mute = True
        assert not await protocol.probe(0)
        sink.mute = False
        sink.stall()
        assert not await protocol.probe(0)
        await sink.refuse()
        assert not await protocol.probe(0)
        sink.resume()
        await sink.listen()
        assert await protocol.probe(0)


# The protocol by itself


async def test_bytes_that_a_closing_connection_would_swallow_are_not_handed_over() -> None:
    """asyncio takes them without a word."""
    async with TelnetSink() as sink:
        schedule = Schedule(load(sink))
        groups = schedule.groups(0)
        protocol = Telnet(schedule, groups)
        reached: list[int] = []

        async def send() -> Answer:
            reply = await protocol.send(0, Batch(groups[0], 0, 1), lambda: reached.append(1))
            return reply.answer

        assert await send() is Answer.HANDED_OVER
        (connection,) = [each for each in protocol._connections if each]
        assert connection.transport
        connection.transport.abort()  # what asyncio does by itself when a send fails
        assert connection.lost is None
        assert await send() is Answer.FAILED
        assert len(reached) == 2
        await until(lambda: connection.lost)
        assert await send() is Answer.HANDED_OVER
        connection = next(each for each in protocol._connections if each)
        connection.cut()
        assert await send() is Answer.HANDED_OVER
        assert await protocol.close() == ""
        assert sink.connections == 3
        assert len(sink.lines) == 3 * len(groups[0].slots)


async def test_a_reset_that_only_sending_shows() -> None:
    """asyncio throws the bytes away then, and says so later, to nobody in particular."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        schedule = Schedule(load_spec(protocol="telnet-put", telnet=[f"127.0.0.1:{port}"]))
        groups = schedule.groups(0)
        protocol = Telnet(schedule, groups)
        reply = await protocol.send(0, Batch(groups[0], 0, 1), int)
        assert reply.answer is Answer.HANDED_OVER
        server, _ = listener.accept()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.close()
        reply = await protocol.send(0, Batch(groups[0], 1, 1), int)
    assert (reply.answer, reply.kind, reply.silent) == (Answer.FAILED, "reset", True)


async def test_connections_are_shared_and_made_once() -> None:
    async with TelnetSink() as sink:
        schedule = Schedule(load(sink))
        groups = schedule.groups(0)
        protocol = Telnet(schedule, groups)
        replies = await asyncio.gather(
            *(protocol.send(0, Batch(group, tick, 1), int) for group in groups for tick in (0, 1))
        )
        assert {reply.answer for reply in replies} == {Answer.HANDED_OVER}
        assert await protocol.close() == ""
        assert sink.connections == 1
        assert len(sink.lines) == 2 * 20


async def test_an_address_may_be_ipv6(tmp_path: Path) -> None:
    spec = load_spec(protocol="telnet-put", telnet=["[::1]:9"])
    schedule = Schedule(spec)
    protocol = Telnet(schedule, schedule.groups(0))
    reply = await protocol.send(0, Batch(schedule.groups(0)[0], 0, 1), int)
    # Refused, or there is no IPv6: but not an unknown name.
    assert reply.answer is Answer.FAILED
    assert "gaierror" not in reply.detail


async def test_no_node_is_given_up_that_only_waits_for_the_kernel(tmp_path: Path) -> None:
    """What the kernel takes is a sign of life, as far as telnet gives any."""
    async with TelnetSink() as one, TelnetSink() as two:
        one.stall()
        spec = load(one, two, failover_after_s=0.3)

        async def resume() -> None:
            await at(spec, TICKS / 10)
            one.resume()

        await work(spec, tmp_path, resume)
        assert received(one, two) == Counter(expected_points(spec))
    assert events(tmp_path) == []
