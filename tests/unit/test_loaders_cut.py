"""A load that is told to end earlier: what it sent is the whole of a shorter schedule."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_runs import check, expected_points, make, outcomes, received, until
from sink import Sink

from loaders.schedule import cut
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Step
from loaders.send.worker import Worker

NODE = "http://127.0.0.1:9"
START_MS = 1_700_000_000_000


def spec(**changes: Any) -> LoadSpec:
    return make(NODE, **{"start_ms": START_MS, "ticks": 60, **changes})


@pytest.mark.parametrize(
    ("changes", "after_ms", "ticks"),
    [
        ({}, 1000, 10),
        ({}, 1001, 11),
        ({"points_per_request": 4}, 1001, 12),
        ({}, 5900, 59),
        ({}, 5901, 60),
        ({}, 100_000, 60),
        # Before anything is measured there is nothing to be judged.
        ({}, -1000, 3),
        ({"ramp_ticks": 20}, 1000, 21),
        ({"steps": [Step(100, 10), Step(50, 10), Step(1000, 3)]}, 1300, 16),
        ({"steps": [Step(100, 10), Step(50, 10), Step(1000, 3)]}, 1500, 20),
        ({"steps": [Step(100, 10), Step(50, 10), Step(1000, 3)]}, 1501, 21),
    ],
    ids=str,
)
def test_where_a_schedule_is_cut(changes: dict[str, Any], after_ms: int, ticks: int) -> None:
    whole = spec(**changes)
    shorter = whole.cut_at(START_MS + after_ms)
    assert shorter.ticks == ticks
    assert (shorter is whole) == (ticks == whole.ticks)
    assert [step.period_ms for step in shorter.steps] == [
        step.period_ms for step in whole.steps[: len(shorter.steps)]
    ]


@settings(max_examples=25)
@given(
    ticks=st.integers(3, 80),
    changes=st.sampled_from(
        [
            {},
            {"pacing": "aligned"},
            {"steps": [Step(100, 30), Step(50, 40)]},
            {"ramp_ticks": 2, "lifetime_ticks": 10},
        ]
    ),
)
def test_a_cut_schedule_is_the_beginning_of_the_whole_one(
    ticks: int, changes: dict[str, Any]
) -> None:
    whole = spec(**changes)
    shorter = whole.cut_to(ticks)
    expected = {p for p in expected_points(whole) if p[1] < shorter.end_ms}
    assert expected_points(shorter) == expected
    assert LoadSpec.from_json(shorter.to_json()) == shorter


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"points_per_request": 3, "lifetime_ticks": 6, "ramp_ticks": 9},
        {"jitter_ms": 100, "pacing": "aligned"},
        # Long after the end nothing would be due.
        {"steps": [Step(100, 30), Step(60_000, 10)], "pacing": "aligned"},
    ],
    ids=str,
)
async def test_what_is_sent_is_the_shorter_schedule(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    async with Sink() as sink:
        whole = make(sink, **{"ticks": 10_000, **changes})
        worker = Worker(whole, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        await until(lambda: sink.requests >= 4)
        # A whole number of requests, none of which has begun, however slow this machine is.
        shorter = whole.cut_to(30 if "steps" in changes else max(worker._begun) + 6)
        cut.write(tmp_path, shorter.ticks)
        worker._look_for_cut()
        result = await running
        check(shorter, tmp_path, result)
        assert set(received(sink)) == expected_points(shorter)
    assert not result["stopped_early"]
    assert result["acknowledged"] == result["scheduled"] == Schedule(shorter).points
    assert outcomes(tmp_path) == []


async def test_an_end_that_is_past_is_told_too_late(tmp_path: Path) -> None:
    async with Sink() as sink:
        whole = make(sink, ticks=10_000)
        running = asyncio.create_task(Worker(whole, 0, tmp_path).run())
        await until(lambda: sink.requests >= 40)
        cut.write(tmp_path, 3)
        with pytest.raises(cut.TooLateError, match="to end before tick 3"):
            await running


async def test_stopped_after_it_was_cut(tmp_path: Path) -> None:
    async with Sink() as sink:
        whole = make(sink, ticks=10_000)
        worker = Worker(whole, 0, tmp_path)
        running = asyncio.create_task(worker.run())
        await until(lambda: sink.requests >= 4)
        cut.write(tmp_path, 1000)
        worker.stop()
        result = await running
        check(whole.cut_to(1000), tmp_path, result)
    assert result["stopped_early"]
    assert result["not_sent"] > 0
