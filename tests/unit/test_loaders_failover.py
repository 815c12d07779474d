"""Which node gets a group's points when nodes go down: the rule, and the rule at work."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loader_runs import (
    at,
    events,
    expected_points,
    make,
    measured,
    nodes_by_sensor,
    outcomes,
    received,
    until,
    work,
)
from loads import all_groups, load_spec, nodes
from sink import Sink, TelnetSink

from loaders.record.files import NODE_DOWN, NODE_UP
from loaders.schedule.clock import Clock
from loaders.schedule.due import Group, Schedule
from loaders.send import failover
from loaders.send.failover import Event, Failover

pytestmark = pytest.mark.timeout(60)

# The rule


class Hands(Clock):
    """A clock that is set by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.us = 1_700_000_000_000_000

    def now_us(self) -> int:
        return self.us


class Rule:
    """A fail-over with a clock set by hand, and nodes that answer probes if they are in `alive`."""

    def __init__(self, count: int, after_s: float = 5.0) -> None:
        self.clock = Hands()
        self.alive: set[int] = set()
        self.probed: list[int] = []
        self.seen: list[Event] = []
        self.failover = Failover(count, after_s, self.clock, self.probe, self.seen.append)

    async def probe(self, node: int) -> bool:
        self.probed.append(node)
        return node in self.alive

    def later(self, seconds: float) -> list[tuple[str, int]]:
        """Let time pass and look; what happened."""
        before = len(self.seen)
        self.clock.us += int(seconds * 1e6)
        self.failover._look()
        return [(event.event, event.node) for event in self.seen[before:]]


def groups_of(count: int, **changes: Any) -> list[Group]:
    return all_groups(Schedule(load_spec(nodes=nodes(count), sensors_per_request=1, **changes)))


def test_a_silent_node_is_down_and_one_that_was_not_asked_is_not() -> None:
    rule = Rule(3)
    rule.failover.asked(1)
    assert rule.later(4.9) == []
    assert rule.later(0.1) == [(NODE_DOWN, 1)]
    assert rule.later(100) == []
    (event,) = rule.seen
    assert event.t_us == rule.clock.us - 100_000_000
    assert event.detail == "no answer for 5.0 s; its sensors go to node 0, 2"


def test_silence_counts_from_the_first_request_that_was_not_answered() -> None:
    rule = Rule(2)
    rule.failover.asked(1)
    assert rule.later(4) == []
    rule.failover.asked(1)
    assert rule.later(1) == [(NODE_DOWN, 1)]


def test_any_answer_ends_the_silence() -> None:
    rule = Rule(2)
    for _ in range(5):
        rule.failover.asked(1)
        rule.failover.asked(1)
        assert rule.later(4.9) == []
        rule.failover.answered(1)
        assert rule.later(60) == []


def test_a_node_that_takes_nothing_is_as_good_as_silent() -> None:
    rule = Rule(2)
    for _ in range(4):
        rule.failover.asked(1)
        rule.failover.refused(1)
        assert rule.later(1) == []
    rule.failover.answered(1)  # for once it took something
    rule.failover.asked(1)
    rule.failover.refused(1)
    assert rule.later(4.9) == []
    rule.failover.refused(1)
    assert rule.later(0.1) == [(NODE_DOWN, 1)]
    assert rule.seen[0].detail == "takes nothing for 5.0 s; its sensors go to node 0"


def test_a_node_that_is_not_healthy_is_down_though_it_answers() -> None:
    rule = Rule(3)
    rule.failover.checked(1, healthy=False)
    for _ in range(4):
        rule.failover.asked(1)
        rule.failover.answered(1)
        rule.failover.checked(1, healthy=False)
        assert rule.later(1) == []
    assert rule.later(1) == [(NODE_DOWN, 1)]
    assert rule.seen[0].detail == "not healthy for 5.0 s; its sensors go to node 0, 2"


@pytest.mark.parametrize("well", [True, None])
def test_health_counts_in_one_piece(well: bool | None) -> None:
    rule = Rule(2)
    for _ in range(5):
        rule.failover.checked(1, healthy=False)
        assert rule.later(4.9) == []
        rule.failover.checked(1, healthy=well)
        assert rule.later(60) == []


@pytest.mark.parametrize("apart_s", [0.0, 0.1, 2.0, 4.9])
def test_if_no_node_is_healthy_nothing_moves(apart_s: float) -> None:
    """The store is away: each of them notices it when it looks."""
    rule = Rule(3)
    for node in range(3):
        rule.failover.checked(node, healthy=False)
        assert rule.later(apart_s / 2) == []
    assert rule.later(100) == []
    rule.failover.checked(2, healthy=True)
    assert rule.later(0) == [(NODE_DOWN, 0), (NODE_DOWN, 1)]


def test_the_last_node_is_never_given_up() -> None:
    rule = Rule(3)
    rule.failover.asked(0)
    assert rule.later(5) == [(NODE_DOWN, 0)]
    rule.failover.asked(1)
    assert rule.later(5) == [(NODE_DOWN, 1)]
    rule.failover.asked(2)
    assert rule.later(1000) == []
    assert {rule.failover.route(group) for group in groups_of(3)} == {2}


def test_a_single_node_is_never_given_up() -> None:
    rule = Rule(1, after_s=1e-9)
    rule.failover.asked(0)
    assert rule.later(1000) == []


@given(st.integers(2, 6), st.data())
def test_if_no_node_answers_nothing_moves(count: int, data: st.DataObject) -> None:
    """Requests to all of them, within a second or two, and then nothing."""
    rule = Rule(count)
    for node in data.draw(st.permutations(range(count))):
        rule.failover.asked(node)
        assert rule.later(data.draw(st.floats(0, 2.4 / count))) == []
    for _ in range(10):
        assert rule.later(data.draw(st.floats(0, 10))) == []
    for group in groups_of(count):
        assert rule.failover.route(group) == group.node
    # The first one that is back shows that the others are not.
    rule.failover.answered(count - 1)
    assert rule.later(5) == [(NODE_DOWN, node) for node in range(count - 1)]


def test_even_the_shortest_time_leaves_a_node() -> None:
    rule = Rule(3, after_s=1e-9)
    for node in range(3):
        rule.failover.asked(node)
    assert rule.later(0) == []
    assert rule.later(1) == []
    rule.failover.answered(2)
    assert rule.later(0) == [(NODE_DOWN, 0), (NODE_DOWN, 1)]


@given(
    st.integers(2, 7),
    st.integers(1, 4),
    st.integers(1, 200),
    st.data(),
)
def test_the_share_of_those_that_are_down_is_even(
    count: int, workers: int, sensors: int, data: st.DataObject
) -> None:
    down = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=count - 1)))
    rule = Rule(count)
    for node in down:
        rule.failover.asked(node)
    assert rule.later(5) == [(NODE_DOWN, node) for node in down]
    up = [node for node in range(count) if node not in down]
    groups = groups_of(count, sensors=sensors, workers_per_host=workers)
    routes = {group.rank: rule.failover.route(group) for group in groups}
    total = Counter[int]()
    for worker in range(workers):
        moved = Counter[int]()
        for group in groups:
            if group.worker == worker and group.node in down:
                moved[routes[group.rank]] += 1
        assert set(moved) <= set(up)
        assert max(moved[node] for node in up) - min(moved[node] for node in up) <= 2
        total.update(moved)
    assert max(total[node] for node in up) - min(total[node] for node in up) <= workers + 1
    # Who has a node of its own stays, and asking again changes nothing.
    for group in groups:
        if group.node in up:
            assert routes[group.rank] == group.node
        assert rule.failover.route(group) == routes[group.rank]


def test_two_of_four_nodes_share_out_evenly() -> None:
    # By rank alone all groups of nodes 0 and 2 would go to the same node: their ranks are even.
    rule = Rule(4)
    rule.failover.asked(0)
    rule.failover.asked(2)
    rule.later(5)
    groups = groups_of(4, sensors=80, workers_per_host=1)
    moved = Counter(rule.failover.route(group) for group in groups if group.node in (0, 2))
    assert moved == {1: 20, 3: 20}


async def test_a_node_that_answers_a_probe_gets_its_groups_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failover, "_LOOK_S", 0.001)
    rule = Rule(3)
    watching = asyncio.create_task(rule.failover.watch())
    rule.failover.asked(1)
    rule.clock.us += 2_400_000
    await asyncio.sleep(0.02)
    rule.clock.us += 2_600_000
    await until(lambda: rule.seen)
    groups = groups_of(3)
    assert all(rule.failover.route(group) != 1 for group in groups)
    # A second between probes.
    rule.clock.us += 900_000
    await asyncio.sleep(0.02)
    assert rule.probed == []
    rule.clock.us += 100_000
    await until(lambda: rule.probed)
    await asyncio.sleep(0.02)
    assert rule.probed == [1]
    assert len(rule.seen) == 1
    rule.alive.add(1)
    rule.clock.us += 1_000_000
    await until(lambda: len(rule.seen) == 2)
    watching.cancel()
    assert (rule.seen[1].event, rule.seen[1].node) == (NODE_UP, 1)
    assert rule.seen[1].detail == "answers again after 2.0 s"
    assert all(rule.failover.route(group) == group.node for group in groups)
    # What it left unanswered before is forgotten.
    assert rule.later(100) == []


async def test_a_node_that_is_well_for_probes_alone_is_left_for_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failover, "_LOOK_S", 0.001)
    rule = Rule(2)
    rule.alive.add(1)
    watching = asyncio.create_task(rule.failover.watch())

    async def gone_for() -> int:
        """Take nothing until it is given up; after how many seconds it is probed then."""
        there, probes = len(rule.seen), len(rule.probed)
        rule.failover.asked(1)
        rule.failover.answered(0)
        rule.clock.us += 2_400_000
        await asyncio.sleep(0.02)
        rule.clock.us += 2_600_000
        await until(lambda: len(rule.seen) > there)
        for seconds in range(1, 100):
            rule.clock.us += 1_000_000
            await asyncio.sleep(0.02)
            if len(rule.probed) > probes:
                await until(lambda: len(rule.seen) > there + 1)
                return seconds
        pytest.fail("never probed")

    assert [await gone_for() for _ in range(6)] == [1, 5, 10, 20, 40, 60]
    assert "again, so that it is left for 60 s; its sensors go to node 0" in rule.seen[-2].detail
    # Once it has been well for a minute, it is as good as any.
    rule.clock.us += 61_000_000
    assert await gone_for() == 1
    # Unless there is nobody else: node 0 is silent, too.
    rule.alive.clear()
    rule.failover.asked(1)
    rule.failover.answered(0)
    for us in (2_400_000, 2_400_000):
        rule.clock.us += us
        await asyncio.sleep(0.02)
    rule.failover.asked(0)
    rule.clock.us += 200_000
    await until(lambda: rule.seen[-1].event == NODE_DOWN)
    rule.alive.add(1)
    rule.clock.us += 2_000_000
    await asyncio.sleep(0.02)
    assert rule.seen[-1].event == NODE_DOWN
    rule.clock.us += 1_000_000
    await until(lambda: rule.seen[-1].event == NODE_UP)
    watching.cancel()


async def test_a_health_check_that_fails_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a bug of ours: nobody would have looked at any node's health any more."""
    monkeypatch.setattr(failover, "_HEALTH_EVERY_S", 0)

    async def healthy(_: int) -> bool:
        raise LookupError("no such node")

    rule = Rule(2)
    watched = Failover(2, 5.0, rule.clock, rule.probe, rule.seen.append, healthy)
    with pytest.raises(LookupError):
        await asyncio.wait_for(watched.watch(), 5)


@pytest.mark.parametrize("answered", [True, False])
async def test_a_loader_that_was_held_up_first_reads_the_answers(
    monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    monkeypatch.setattr(failover, "_LOOK_S", 0)
    rule = Rule(2)
    watching = rule.failover.watch()
    watching.send(None)  # it sleeps …
    rule.failover.asked(1)
    rule.clock.us += 60_000_000  # … for much longer than it meant to
    watching.send(None)
    assert rule.seen == []
    if answered:
        rule.failover.answered(1)
    watching.send(None)
    watching.close()
    assert len(rule.seen) == (not answered)


# At work

AFTER_S = 1.0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover, "_LOOK_S", 0.05)
    monkeypatch.setattr(failover, "_PROBE_EVERY_US", 100_000)
    monkeypatch.setattr(failover, "_HEALTH_EVERY_S", 0.05)


def home(sensor: str, count: int = 3) -> int:
    return int(sensor.removeprefix("SENSOR_")) % count


async def lose_a_node(
    outdir: Path,
    go_down: Callable[[Sink], Awaitable[None]],
    come_back: Callable[[Sink], Awaitable[None]],
    **changes: Any,
) -> None:
    """Three nodes; node 1 goes down 0.3 s after the start and comes back when that was noticed."""
    async with Sink() as zero, Sink() as one, Sink() as two:
        sinks = (zero, one, two)
        spec = make(
            *sinks,
            sensors=48,
            sensors_per_request=4,
            ticks=30,
            failover_after_s=AFTER_S,
            **changes,
        )
        back_s = 0.0

        async def trouble() -> None:
            nonlocal back_s
            await at(spec, 0.3)
            await go_down(one)
            await until(lambda: events(outdir))
            await at(spec, 2.0)
            back_s = asyncio.get_running_loop().time()
            await come_back(one)

        result = await work(spec, outdir, trouble)
        assert set(received(*sinks)) == expected_points(spec)
        assert result["acknowledged"] == result["scheduled"]
        assert outcomes(outdir) == []
        assert result["failovers"] == 1
        down, up = events(outdir)
        assert (down["event"], down["node"]) == (NODE_DOWN, 1)
        assert (up["event"], up["node"]) == (NODE_UP, 1)
        assert up["t"] - down["t"] > 0
        # Nothing was asked before the start; what was answered after it depends on the machine.
        assert down["t"] >= spec.start_ms / 1000 + AFTER_S

        whole = nodes_by_sensor(sinks, 0, 1e12)
        orphans = {sensor: found for sensor, found in whole.items() if home(sensor) == 1}
        assert len(orphans) == 16
        # Each series had one other node all the time, and both others took half of them.
        assert all(len(found - {1}) == 1 for found in orphans.values())
        shares = Counter(next(iter(found - {1})) for found in orphans.values())
        assert shares == {0: 8, 2: 8}
        # Nobody else moved.
        for sensor, found in whole.items():
            assert sensor in orphans or found == {home(sensor)}
        # What was due after it was back went home at once.
        for node, sink in enumerate(sinks):
            for point in sink.points:
                if point["timestamp"] > up["t"] * 1000 + 1:
                    assert home(point["name"]) == node
        # What each node acknowledged is what it got, or, if it held answers back, at least.
        for node, sink in enumerate(sinks):
            assert result["acknowledged_by_node"][node] <= len(sink.points)
            if node != 1:
                assert result["acknowledged_by_node"][node] == len(sink.points)
        # The latency of what had to move is in the figures.
        assert measured(outdir).get_max_value() >= (AFTER_S - 0.1) * 1e6


@pytest.mark.usefixtures("quick")
async def test_a_node_that_refuses_is_gone_around(tmp_path: Path) -> None:
    async def go_down(sink: Sink) -> None:
        await sink.refuse()

    async def come_back(sink: Sink) -> None:
        await sink.listen()

    await lose_a_node(tmp_path, go_down, come_back)


@pytest.mark.usefixtures("quick")
async def test_a_node_that_takes_nothing_is_gone_around(tmp_path: Path) -> None:
    """Its disk is full: it answers 503 at once, and says so in its health check."""

    async def go_down(sink: Sink) -> None:
        sink.status, sink.healthy = 503, False

    async def come_back(sink: Sink) -> None:
        sink.status, sink.healthy = 204, True

    await lose_a_node(tmp_path, go_down, come_back)


@pytest.mark.usefixtures("quick")
async def test_a_node_that_is_not_healthy_is_gone_around(tmp_path: Path) -> None:
    async def go_down(sink: Sink) -> None:
        sink.healthy = False

    async def come_back(sink: Sink) -> None:
        sink.healthy = True

    async with Sink() as zero, Sink() as one:
        spec = make(zero, one, ticks=30, failover_after_s=AFTER_S)

        async def trouble() -> None:
            await go_down(one)
            await until(lambda: events(tmp_path))
            await come_back(one)

        result = await work(spec, tmp_path, trouble)
        assert received(zero, one) == Counter(expected_points(spec))
    assert result["acknowledged"] == result["scheduled"]
    assert [row["event"] for row in events(tmp_path)] == [NODE_DOWN, NODE_UP]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("healthy", [None, True])
async def test_a_node_without_a_health_check_stays(tmp_path: Path, healthy: bool | None) -> None:
    async with Sink() as zero, Sink() as one:
        one.healthy = healthy
        spec = make(zero, one, ticks=10, failover_after_s=0.2)
        result = await work(spec, tmp_path)
        assert one.probes > 0
    assert result["failovers"] == 0


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("connections", [1, 4])
async def test_a_node_that_stalls_is_gone_around(tmp_path: Path, connections: int) -> None:
    async def go_down(sink: Sink) -> None:
        sink.stall()

    async def come_back(sink: Sink) -> None:
        sink.resume()

    await lose_a_node(tmp_path, go_down, come_back, connections_per_node=connections)


@pytest.mark.usefixtures("quick")
async def test_what_waits_for_the_connections_of_a_node_goes_elsewhere(tmp_path: Path) -> None:
    """Without waiting for the time limit of what holds them."""
    async with Sink() as zero, Sink() as one:
        one.stall()
        spec = make(
            zero,
            one,
            ticks=15,
            failover_after_s=AFTER_S,
            connections_per_node=1,
            request_timeout_s=600,
            retry_for_s=600,
        )
        waited: list[dict[str, Any]] = []

        async def trouble() -> None:
            await until(lambda: events(tmp_path))
            down_ms = events(tmp_path)[0]["t"] * 1000

            def moved() -> list[dict[str, Any]]:
                return [
                    point
                    for point in zero.points
                    if home(point["name"], 2) == 1 and point["timestamp"] < down_ms
                ]

            # All that was due by then, but for the one request that holds the connection.
            due = [p for p in expected_points(spec) if home(p[0], 2) == 1 and p[1] < down_ms]
            await until(lambda: len(moved()) >= len(due) - 5)
            waited.extend(moved())
            assert one.requests == 1
            one.resume()

        result = await work(spec, tmp_path, trouble)
        assert set(received(zero, one)) == expected_points(spec)
    assert result["acknowledged"] == result["scheduled"]
    assert waited


@pytest.mark.usefixtures("quick")
async def test_if_all_nodes_stall_nothing_moves(tmp_path: Path) -> None:
    async with Sink() as zero, Sink() as one, Sink() as two:
        sinks = (zero, one, two)
        spec = make(*sinks, sensors=24, sensors_per_request=4, ticks=25, failover_after_s=AFTER_S)

        async def trouble() -> None:
            await at(spec, 0.3)
            for sink in sinks:
                sink.stall()
            await at(spec, 2.0)
            for sink in sinks:
                sink.resume()

        result = await work(spec, tmp_path, trouble)
        assert received(*sinks) == Counter(expected_points(spec))
        for sensor, found in nodes_by_sensor(sinks, 0, 1e12).items():
            assert found == {home(sensor)}
    assert events(tmp_path) == []
    assert result["failovers"] == 0
    assert result["acknowledged"] == result["scheduled"]


@pytest.mark.usefixtures("quick")
async def test_a_node_that_is_down_from_the_start_loses_nothing(tmp_path: Path) -> None:
    async with Sink() as zero, Sink() as one:
        await one.refuse()
        spec = make(zero, one, ticks=20, failover_after_s=0.5)
        result = await work(spec, tmp_path)
        assert received(zero) == Counter(expected_points(spec))
    assert [row["event"] for row in events(tmp_path)] == [NODE_DOWN]
    assert result["acknowledged_by_node"] == [result["scheduled"], 0]
    assert result["sent_by_node"] == [result["scheduled"], 0]


@pytest.mark.usefixtures("quick")
async def test_over_telnet_too(tmp_path: Path) -> None:
    async with Sink() as zero, Sink() as one, TelnetSink() as zero_t, TelnetSink() as one_t:
        await one_t.refuse()
        spec = make(
            zero,
            one,
            telnet=[zero_t.address, one_t.address],
            protocol="telnet-put",
            ticks=30,
            failover_after_s=0.5,
        )

        async def trouble() -> None:
            await until(lambda: events(tmp_path))
            await one_t.listen()

        result = await work(spec, tmp_path, trouble)
        assert received(zero_t, one_t) == Counter(expected_points(spec))
        assert result["sent_by_node"] == [len(zero_t.lines), len(one_t.lines)]
        assert {home(point["name"], 2) for point in one_t.points} == {1}
    assert [row["event"] for row in events(tmp_path)] == [NODE_DOWN, NODE_UP]
    assert result["unknown"] == result["scheduled"]
    assert outcomes(tmp_path) == []
