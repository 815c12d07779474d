"""Who sends what, when, and with which value: pure functions, checked by properties."""

import dataclasses
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads import (
    START_MS,
    all_groups,
    load_spec,
    load_specs,
    naive_rounds,
    naive_series,
    naive_timestamp_ms,
    naive_value,
    nodes,
)

from loaders.schedule import shard
from loaders.schedule.due import Request, Schedule
from loaders.schedule.spec import ALIGNED, SPREAD, LoadSpec, Step
from loaders.schedule.values import LIMIT, LOWEST, ValueType, seeded_values, seeds, values

# Sharding


@given(st.integers(1, 3000), st.integers(1, 40), st.integers(1, 12))
def test_cells_partition_the_sensors_evenly(sensors: int, workers: int, count: int) -> None:
    per_worker = [
        [shard.cell(sensors, workers, w, count, n) for n in range(count)] for w in range(workers)
    ]
    everything = np.concatenate([cell for row in per_worker for cell in row])
    assert sorted(everything.tolist()) == list(range(sensors))
    for w, row in enumerate(per_worker):
        block = shard.worker_range(sensors, workers, w)
        for n, cell in enumerate(row):
            assert all(s in block and s % count == n for s in cell.tolist())
        sizes = [len(cell) for cell in row]
        assert max(sizes) - min(sizes) <= 1
    for totals in (
        [sum(map(len, row)) for row in per_worker],
        [sum(map(len, column)) for column in zip(*per_worker, strict=True)],
    ):
        assert max(totals) - min(totals) <= 1


@given(st.integers(1, 3000), st.integers(1, 12), st.integers(1, 12))
def test_hosts_partition_the_workers_and_the_sensors_evenly(
    sensors: int, hosts: int, workers_per_host: int
) -> None:
    workers = hosts * workers_per_host
    own = [shard.host_workers(hosts, workers_per_host, host) for host in range(hosts)]
    assert [worker for block in own for worker in block] == list(range(workers))
    assert {worker // workers_per_host for worker in own[-1]} == {hosts - 1}
    shares = [
        sum(len(shard.worker_range(sensors, workers, worker)) for worker in block) for block in own
    ]
    assert sum(shares) == sensors
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("number", [-1, 2])
def test_no_such_worker_or_host(number: int) -> None:
    with pytest.raises(ValueError, match=r"^worker: .* between 0 and 1, not"):
        Schedule(load_spec(workers_per_host=2)).groups(number)
    with pytest.raises(ValueError, match=r"^host: .* between 0 and 1, not"):
        shard.host_workers(2, 3, number)


# Groups


@given(load_specs())
def test_each_slot_is_in_one_group_and_shares_are_even(spec: LoadSpec) -> None:
    schedule = Schedule(spec)
    count = len(spec.nodes)
    slots: list[int] = []
    shares: dict[str, Counter[int]] = {"host": Counter(), "worker": Counter(), "node": Counter()}
    for worker in range(spec.workers):
        mine = schedule.groups(worker)
        assert [group.index for group in mine] == list(range(len(mine)))
        for group in mine:
            assert group.worker == worker
            assert 1 <= len(group.slots) <= spec.sensors_per_request
            assert group.slots.tolist() == sorted(group.slots.tolist())
            assert set((group.slots % count).tolist()) == {group.node}
            assert set(schedule.rank_of[group.slots].tolist()) == {group.rank}
            slots += group.slots.tolist()
            shares["host"][worker // spec.workers_per_host] += len(group.slots)
            shares["worker"][worker] += len(group.slots)
            shares["node"][group.node] += len(group.slots)
        # Even pieces: one request more is worth more than one that is almost empty.
        for node in range(count):
            sizes = [len(group.slots) for group in mine if group.node == node]
            assert max(sizes, default=0) - min(sizes, default=0) <= 1
            assert len(sizes) == -(-sum(sizes) // spec.sensors_per_request)
    assert sorted(slots) == list(range(spec.sensors))
    for what, of in (("host", spec.hosts), ("worker", spec.workers), ("node", count)):
        sizes = [shares[what][which] for which in range(of)]
        assert max(sizes) - min(sizes) <= 1


@given(load_specs())
def test_ranks_are_the_order_of_sending(spec: LoadSpec) -> None:
    schedule = Schedule(spec)
    groups = all_groups(schedule)
    assert sorted(group.rank for group in groups) == list(range(len(groups)))
    for worker in range(spec.workers):
        ranks = [group.rank for group in schedule.groups(worker)]
        assert ranks == sorted(ranks)
    assert schedule.rank_of.shape == (spec.sensors,)


def test_neighbouring_requests_go_to_different_nodes_and_come_from_different_workers() -> None:
    spec = load_spec(sensors=1200, nodes=nodes(3), workers_per_host=2, sensors_per_request=10)
    schedule = Schedule(spec)
    order = sorted(
        (schedule.timestamp_ms(group.rank, 0), group.rank, group.worker, group.node)
        for group in all_groups(schedule)
    )
    assert [rank for _, rank, _, _ in order] == list(range(len(order)))
    for start in range(0, len(order), 6):
        window = order[start : start + 6]
        assert sorted(node for _, _, _, node in window) == [0, 0, 1, 1, 2, 2]
        assert sorted(worker for _, _, worker, _ in window) == [0, 0, 0, 1, 1, 1]


@given(load_specs())
def test_points_are_counted(spec: LoadSpec) -> None:
    schedule = Schedule(spec)
    naive = sum(
        len(group.slots) * len(range(group.first_tick, spec.ticks))
        for group in all_groups(schedule)
    )
    assert schedule.points == naive
    if not spec.ramp_ticks:
        assert schedule.points == spec.sensors * spec.ticks


# Timestamps


@given(load_specs(pacing=SPREAD))
def test_phases_are_spread_over_the_period(spec: LoadSpec) -> None:
    schedule = Schedule(spec)
    groups = all_groups(schedule)
    tick = 0
    begin_ms = spec.start_ms
    for step in spec.steps:
        phases = sorted(schedule.timestamp_ms(group.rank, tick) - begin_ms for group in groups)
        assert phases[0] == 0
        assert phases[-1] < step.period_ms
        # Around the clock: the last group of a tick is followed by the first of the next.
        gaps = np.diff([*phases, step.period_ms])
        assert gaps.max() <= math.ceil(step.period_ms / len(phases))
        tick += step.ticks
        begin_ms += step.ticks * step.period_ms


@given(load_specs(pacing=ALIGNED))
def test_aligned_sensors_all_send_at_the_start_of_the_tick(spec: LoadSpec) -> None:
    schedule = Schedule(spec)
    groups = all_groups(schedule)
    at_ms = spec.start_ms
    for tick, step in enumerate(one for one in spec.steps for _ in range(one.ticks)):
        assert {schedule.timestamp_ms(group.rank, tick) for group in groups} == {at_ms}
        at_ms += step.period_ms
    assert at_ms == spec.end_ms


@given(load_specs(), st.data())
def test_timestamps_are_exact_ascending_and_the_same_from_everywhere(
    spec: LoadSpec, data: st.DataObject
) -> None:
    schedule = Schedule(spec)
    groups = all_groups(schedule)
    group = data.draw(st.sampled_from(groups))
    expected = [
        naive_timestamp_ms(spec, len(groups), group.rank, tick) for tick in range(spec.ticks)
    ]
    assert [schedule.timestamp_ms(group.rank, tick) for tick in range(spec.ticks)] == expected
    # Across steps too: a series never has two points of one time.
    assert all(before < after for before, after in itertools.pairwise(expected))
    assert spec.start_ms <= expected[0]
    assert expected[-1] < spec.end_ms
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, spec.ticks)] * 2)))
    times = schedule.timestamps_ms(group.rank, range(begin, end))
    assert times.dtype == np.int64
    assert times.tolist() == expected[begin:end]


@pytest.mark.parametrize("pacing", [SPREAD, ALIGNED])
def test_nothing_has_drifted_after_a_million_ticks(pacing: str) -> None:
    million = 10**6
    steps = [Step(period_ms=333, ticks=million), Step(period_ms=7, ticks=million)]
    spec = load_spec(steps=steps, sensors=77, sensors_per_request=7, pacing=pacing)
    schedule = Schedule(spec)
    groups = all_groups(schedule)
    assert len(groups) == 11
    for group in groups:
        share = Fraction(group.rank, len(groups)) if pacing == SPREAD else Fraction(0)
        for tick, exact in (
            (million - 1, START_MS + (million - 1 + share) * 333),
            (million, START_MS + million * 333 + share * 7),
            (2 * million - 1, START_MS + million * 333 + (million - 1 + share) * 7),
        ):
            assert schedule.timestamp_ms(group.rank, tick) == math.floor(exact)
            assert schedule.timestamps_ms(group.rank, range(tick - 3, tick + 1))[-1] == exact // 1
        last = schedule.lives(group)
        assert list(last) == [range(2 * million)]
    due = schedule.due(0, spec.end_ms)
    assert due == 77 * 2 * million


@given(load_specs(), st.data())
def test_ticks_within_are_those_whose_timestamps_are(spec: LoadSpec, data: st.DataObject) -> None:
    schedule = Schedule(spec)
    groups = all_groups(schedule)
    rank = data.draw(st.integers(0, len(groups) - 1))
    times = [naive_timestamp_ms(spec, len(groups), rank, tick) for tick in range(spec.ticks)]
    # Near to a timestamp, where it matters, or anywhere.
    moment = st.one_of(
        st.sampled_from(times).flatmap(lambda at: st.integers(at - 1, at + 1)),
        st.integers(spec.start_ms - 5000, spec.end_ms + 5000),
    )
    from_ms, until_ms = sorted(data.draw(st.tuples(moment, moment)))
    found = schedule.ticks_within(rank, from_ms, until_ms)
    expected = [tick for tick, at in enumerate(times) if from_ms <= at < until_ms]
    assert list(found) == expected


# Ramp and churn


@given(load_specs())
def test_groups_join_one_after_the_other_within_the_ramp(spec: LoadSpec) -> None:
    groups = sorted(all_groups(Schedule(spec)), key=lambda group: group.rank)
    joins = [group.first_tick for group in groups]
    assert joins == sorted(joins)
    assert joins[0] == 0
    assert joins[-1] <= max(0, spec.ramp_ticks - 1)
    for group in groups:
        assert group.first_tick % spec.points_per_request == 0
        # Evenly: no round later than an exact ramp would have it, and less than a round earlier.
        exact = Fraction(group.rank * spec.ramp_ticks, len(groups))
        assert exact - spec.points_per_request < group.first_tick <= exact


@given(load_specs())
def test_replacements_are_spread_over_the_lifetime(spec: LoadSpec) -> None:
    groups = sorted(all_groups(Schedule(spec)), key=lambda group: group.rank)
    for group in groups:
        assert group.age % spec.points_per_request == 0
        exact = Fraction(group.rank * spec.lifetime_ticks, len(groups))
        assert exact - spec.points_per_request < group.age <= exact
        assert group.age == 0 or group.age < spec.lifetime_ticks


@given(load_specs(), st.data())
def test_lives_and_generations_agree(spec: LoadSpec, data: st.DataObject) -> None:
    schedule = Schedule(spec)
    group = data.draw(st.sampled_from(all_groups(schedule)))
    lives = list(schedule.lives(group))
    ticks = [tick for life in lives for tick in life]
    assert ticks == list(range(group.first_tick, spec.ticks))
    first = schedule.generation(group, group.first_tick)
    for turn, life in enumerate(lives):
        assert {schedule.generation(group, tick) for tick in life} == {first + turn}
        if spec.lifetime_ticks:
            assert len(life) <= spec.lifetime_ticks
    for life in lives[1:-1]:
        assert len(life) == spec.lifetime_ticks
    if not spec.lifetime_ticks:
        assert len(lives) == 1
        assert first == 0


@given(load_specs(), st.data())
def test_series_cover_each_point_once(spec: LoadSpec, data: st.DataObject) -> None:
    schedule = Schedule(spec)
    series = list(schedule.series())
    assert len({one.number for one in series}) == len(series)
    covered = Counter((one.number % spec.sensors, tick) for one in series for tick in one.ticks)
    expected = Counter(
        (slot, tick)
        for group in all_groups(schedule)
        for slot in group.slots.tolist()
        for tick in range(group.first_tick, spec.ticks)
    )
    assert covered == expected
    one = data.draw(st.sampled_from(series))
    group = schedule.groups(one.worker)[one.group]
    assert one.rank == group.rank
    slot = one.number % spec.sensors
    assert slot in group.slots
    place = group.slots.tolist().index(slot)
    for tick in one.ticks:
        assert one.number == naive_series(spec, group, slot, tick)
        assert schedule.numbers(group, tick)[place] == one.number


# Requests


@given(load_specs())
def test_requests_cover_each_tick_once_in_the_order_in_which_they_are_due(spec: LoadSpec) -> None:
    schedule = Schedule(spec)
    count = len(all_groups(schedule))
    for worker in range(spec.workers):
        groups = schedule.groups(worker)
        requests = list(schedule.requests(worker))
        planned = [request.planned_us for request in requests]
        assert planned == sorted(planned)
        rounds: dict[int, list[range]] = {group.index: [] for group in groups}
        for request in requests:
            group = groups[request.group]
            rounds[group.index].append(range(request.first, request.first + request.ticks))
            last = request.first + request.ticks - 1
            late_us = request.planned_us - schedule.timestamp_ms(group.rank, last) * 1000
            assert 0 <= late_us < max(1, spec.jitter_ms * 1000)
            assert request.planned_us == schedule.planned_us(group, last)
            # All of a request's points belong to the same series.
            begun = schedule.generation(group, request.first)
            assert schedule.generation(group, last) == begun
        for group in groups:
            assert rounds[group.index] == naive_rounds(spec, group.first_tick)
            assert group.rank < count


@given(load_specs())
def test_jitter_moves_requests_and_not_points(spec: LoadSpec) -> None:
    plain = Schedule(dataclasses.replace(spec, jitter_ms=0))
    jittered = Schedule(spec)
    for worker in range(spec.workers):

        def ticks(schedule: Schedule, worker: int = worker) -> set[tuple[int, int, int]]:
            return {(r.group, r.first, r.ticks) for r in schedule.requests(worker)}

        assert ticks(plain) == ticks(jittered)
    assert plain.timestamps_ms(0, range(spec.ticks)).tolist() == (
        jittered.timestamps_ms(0, range(spec.ticks)).tolist()
    )


def all_requests(spec: LoadSpec) -> list[Request]:
    schedule = Schedule(spec)
    return [r for worker in range(spec.workers) for r in schedule.requests(worker)]


@given(st.integers(0, 2**53 - 1), st.integers(0, 2**53 - 1))
def test_jitter_is_a_function_of_the_seed(seed: int, other: int) -> None:
    spec = load_spec(sensors=40, sensors_per_request=1, jitter_ms=1000, seed=seed)
    assert all_requests(spec) == all_requests(spec)
    different = all_requests(dataclasses.replace(spec, seed=other)) != all_requests(spec)
    assert different == (seed != other)


def test_jitter_is_spread_evenly_and_independent_of_its_neighbours() -> None:
    spec = load_spec(sensors=100, sensors_per_request=1, jitter_ms=1000, nodes=nodes(3))
    schedule = Schedule(spec)
    late = np.array(
        [
            [
                schedule.planned_us(group, tick) - schedule.timestamp_ms(group.rank, tick) * 1000
                for tick in range(spec.ticks)
            ]
            for group in schedule.groups(0)
        ]
    )
    counts, _ = np.histogram(late, bins=10, range=(0, 1_000_000))
    assert counts.min() > 140
    assert counts.max() < 260
    for one, other in ((late[:, :-1], late[:, 1:]), (late[:-1], late[1:])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.1


def test_a_worker_without_sensors_has_no_requests() -> None:
    for jitter_ms in (0, 500):
        schedule = Schedule(load_spec(sensors=1, workers_per_host=3, jitter_ms=jitter_ms))
        idle = [worker for worker in range(3) if not schedule.groups(worker)]
        assert len(idle) == 2
        for worker in idle:
            assert list(schedule.requests(worker)) == []
            assert schedule.due(worker, START_MS + 10**9) == 0


@given(load_specs(), st.data())
def test_due_is_what_a_count_gives(spec: LoadSpec, data: st.DataObject) -> None:
    schedule = Schedule(spec)
    worker = data.draw(st.integers(0, spec.workers - 1))
    lasts = [
        (schedule.timestamp_ms(group.rank, ticks[-1]), len(group.slots) * len(ticks))
        for group in schedule.groups(worker)
        for ticks in naive_rounds(spec, group.first_tick)
    ]
    near = [at for at, _ in lasts] or [spec.start_ms]
    now_ms = data.draw(
        st.one_of(
            st.sampled_from(near).flatmap(lambda at: st.integers(at - 1, at + 1)),
            st.integers(spec.start_ms - 5000, spec.end_ms + 5000),
        )
    )
    assert schedule.due(worker, now_ms) == sum(points for at, points in lasts if at <= now_ms)


# Values


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**53)), min_size=1))
def test_values_equal_the_oracle(points: list[tuple[int, int]]) -> None:
    series, times = zip(*points, strict=True)
    result = values(series, times)
    assert result.dtype == np.int64
    assert result.tolist() == [naive_value(*point) for point in points]
    assert seeded_values(seeds(series), times).tolist() == result.tolist()
    assert (result >= LOWEST).all()
    assert (result < LIMIT).all()


def test_values_are_the_same_for_ever() -> None:
    # Stored data outlives the code that wrote it.
    expected = [naive_value(0, 1_700_000_000_000), naive_value(1, 1_700_000_000_000)]
    assert values([0, 1], 1_700_000_000_000).tolist() == expected == FIXED


FIXED = [637038, 943616]


@given(st.integers(0, 10**6), st.integers(0, 2**42), st.sampled_from([1, 10, 100, 1000]))
def test_values_of_neighbours_differ(series: int, start_ms: int, step_ms: int) -> None:
    # By chance one pair in 900,000 is equal; of 200 pairs, three never are.
    over_time = values(series, start_ms + step_ms * np.arange(200))
    over_series = values(series + np.arange(200), start_ms)
    for row in (over_time, over_series):
        assert (np.diff(row) == 0).sum() < 3
        assert len(set(row.tolist())) > 190


def test_values_are_spread_evenly() -> None:
    drawn = values(np.arange(1000)[:, None], np.arange(100))
    counts, _ = np.histogram(drawn, bins=10, range=(LOWEST, LIMIT))
    assert counts.min() > 9_500
    assert counts.max() < 10_500


@given(st.sampled_from(ValueType), st.integers(LOWEST, LIMIT - 1))
def test_a_value_is_known_again(kind: ValueType, value: int) -> None:
    text = kind.text(value)
    assert len(text) == {"long": 6, "double": 7, "string": 7}[kind.value]
    stored = {"long": int, "double": float, "string": str}[kind.value](text)
    assert kind.number(stored) == value
    if kind is ValueType.LONG:
        assert kind.number(float(value)) == value  # as JSON may have it


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("long", "123456"),
        ("long", 123456.5),
        ("long", True),
        ("long", None),
        ("long", math.nan),
        ("long", math.inf),
        ("double", 123.4561),
        ("double", "123.456"),
        ("double", True),
        ("double", math.nan),
        ("double", -math.inf),
        ("string", 123456),
        ("string", "123456"),
        ("string", "v12345"),
        ("string", "v0123456"),
        ("string", "v12345x"),
        ("string", "v١٢٣٤٥٦"),
        ("string", "v" + "1" * 5000),
        ("string", ""),
        ("string", None),
    ],
)
def test_anything_else_is_no_value(kind: str, stored: object) -> None:
    assert ValueType(kind).number(stored) == -1


@pytest.mark.parametrize("stored", [10**400, 2**63])
def test_a_huge_number_is_a_wrong_value_and_no_error(stored: int) -> None:
    for kind in ValueType:
        assert kind.number(stored) == -1
