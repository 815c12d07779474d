"""Load specifications for the loaders' tests: one that is good, and any that is possible."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from loaders.schedule.due import Group, Schedule
from loaders.schedule.protocols import CQL, PROTOCOLS
from loaders.schedule.spec import ALIGNED, PACINGS, LoadSpec, Step, Store

START_MS = 1_700_000_000_000
VALUE_TYPES = ("long", "double", "string")

STORE = Store(["127.0.0.1:9042", "127.0.0.2:9042"], "kairosdb", "QUORUM", 0, 1000)

FIELDS: dict[str, Any] = {
    "sensors": 10,
    "steps": [Step(period_ms=1000, ticks=20)],
    "warmup_ticks": 5,
    "start_ms": START_MS,
    "nodes": ["http://127.0.0.1:8080"],
    "metric": "SENSOR_{n}",
    "tags": {"status": "good"},
    "sensors_per_request": 3,
    "request_timeout_s": 10.0,
    "retry_for_s": 60.0,
    "latency_limit_ms": 500.0,
    "connections_per_node": 8,
}


def load_spec(**changes: Any) -> LoadSpec:
    """A small load, with some fields changed."""
    return LoadSpec(**FIELDS | changes)


def nodes(count: int) -> list[str]:
    return [f"http://10.0.0.{i + 1}:8080" for i in range(count)]


def telnets(count: int) -> list[str]:
    return [f"10.0.0.{i + 1}:4242" for i in range(count)]


@st.composite
def load_specs(draw: st.DrawFn, **fixed: Any) -> LoadSpec:
    """Any load of few sensors and ticks; `fixed` fields are as given."""
    steps = draw(
        st.lists(
            st.builds(Step, period_ms=st.integers(1, 3000), ticks=st.integers(1, 20)),
            min_size=1,
            max_size=3,
        )
    )
    steps = fixed.get("steps", steps)
    ticks = sum(step.ticks for step in steps)
    shortest_ms = min(step.period_ms for step in steps)
    together = fixed.get("points_per_request", draw(st.integers(1, 7)))
    lives = draw(st.integers(0, 3 * ticks // together))
    count = draw(st.integers(1, 5))
    fields = {
        "sensors": draw(st.integers(1, 200)),
        "steps": steps,
        "warmup_ticks": draw(st.integers(0, ticks - 1)),
        "ramp_ticks": draw(st.integers(0, ticks - 1)),
        "lifetime_ticks": lives * together,
        "start_ms": draw(st.integers(10**12, 10**13 - 10**6)),
        "pacing": draw(st.sampled_from(PACINGS)),
        "jitter_ms": draw(st.integers(0, shortest_ms)),
        "seed": draw(st.integers(0, 2**53 - 1)),
        "nodes": nodes(count),
        "telnet": telnets(count),
        "protocol": draw(st.sampled_from(PROTOCOLS)),
        "hosts": draw(st.integers(1, 3)),
        "workers_per_host": draw(st.integers(1, 3)),
        "value_type": draw(st.sampled_from(VALUE_TYPES)),
        "sensors_per_request": draw(st.integers(1, 50)),
        "points_per_request": together,
    }
    fields |= fixed
    return load_spec(**{"store": STORE if fields["protocol"] == CQL else None} | fields)


def all_groups(schedule: Schedule) -> list[Group]:
    return [g for worker in range(schedule.spec.workers) for g in schedule.groups(worker)]


# The same arithmetic once more: slow, in Python's integers, tick by tick.


def naive_timestamp_ms(spec: LoadSpec, groups: int, rank: int, tick: int) -> int:
    now_ms = spec.start_ms
    for step in spec.steps:
        if tick < step.ticks:
            phase_ms = 0 if spec.pacing == ALIGNED else rank * step.period_ms // groups
            return now_ms + tick * step.period_ms + phase_ms
        now_ms += step.ticks * step.period_ms
        tick -= step.ticks
    raise IndexError(tick)


def naive_rounds(spec: LoadSpec, first_tick: int) -> list[range]:
    """The ticks of each request of a group that joins at a tick."""
    together = spec.points_per_request
    starts = range(first_tick, spec.ticks, together)
    return [range(start, min(start + together, spec.ticks)) for start in starts]


def naive_series(spec: LoadSpec, group: Group, slot: int, tick: int) -> int:
    age, generation = group.age, 0
    for _ in range(tick):
        age += 1
        if spec.lifetime_ticks and age == spec.lifetime_ticks:
            age = 0
            generation += 1
    return slot + generation * spec.sensors


def naive_value(series: int, timestamp_ms: int) -> int:
    """The value function in exact integers."""

    def splitmix64(state: int) -> int:
        z = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    return 100_000 + splitmix64(splitmix64(series) ^ timestamp_ms) % 900_000


def scheduled_points(schedule: Schedule) -> dict[tuple[int, int], int]:
    """(series number, timestamp) → value of every point of the run."""
    points: dict[tuple[int, int], int] = {}
    for group in all_groups(schedule):
        for tick in range(group.first_tick, schedule.spec.ticks):
            at_ms = schedule.timestamp_ms(group.rank, tick)
            for number in np.asarray(schedule.numbers(group, tick)).tolist():
                assert (number, at_ms) not in points
                points[number, at_ms] = naive_value(number, at_ms)
    return points
