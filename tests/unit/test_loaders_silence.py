"""How long points were due and none was acknowledged: by the arithmetic, and by a real worker."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from loader_runs import at, make, work
from sink import Sink

from loaders.record.silence import Silences
from loaders.schedule.spec import Step

pytestmark = pytest.mark.timeout(60)


def longest(silences: Silences, now_us: int = 0) -> tuple[float, list[float]]:
    found = silences.to_json(2, now_us)
    return found["longest_s"], [node["longest_s"] for node in found["by_node"]]


def begun(silences: Silences, node: int, *at_us: int) -> None:
    for planned_us in at_us:
        silences.due(planned_us)
        silences.placed(node, planned_us)


def test_nothing_due_is_no_silence() -> None:
    silences = Silences()
    begun(silences, 0, 1_000_000)
    silences.settled(0, 1_100_000, arrived=True)
    begun(silences, 0, 9_000_000)
    silences.settled(0, 9_050_000, arrived=True)
    assert longest(silences, 20_000_000) == (0.1, [0.1, 0.0])


def test_each_acknowledgement_begins_anew_while_more_is_due() -> None:
    silences = Silences()
    begun(silences, 0, 0, 0, 0)
    for at_us in (1_000_000, 4_000_000):
        silences.settled(0, at_us, arrived=True)
    assert longest(silences, 4_500_000) == (3.0, [3.0, 0.0])


def test_of_one_node_while_another_answers() -> None:
    silences = Silences()
    begun(silences, 0, 0)
    for second in range(10):
        begun(silences, 1, second * 1_000_000)
        silences.settled(1, second * 1_000_000 + 10_000, arrived=True)
    silences.settled(0, 9_900_000, arrived=True)
    whole, (silent, other) = longest(silences, 10_000_000)
    assert (whole, silent, other) == (1.0, 9.9, 0.01)


def test_what_is_given_up_was_due_and_its_silence_goes_on() -> None:
    silences = Silences()
    begun(silences, 0, 0)
    silences.settled(0, 1_000_000, arrived=False)
    begun(silences, 0, 2_000_000)
    silences.settled(0, 5_000_000, arrived=True)
    assert longest(silences, 6_000_000) == (5.0, [5.0, 0.0])


def test_a_node_that_is_given_up_is_silent_until_then() -> None:
    silences = Silences()
    begun(silences, 0, 0)
    silences.node_went_down(0, 5_000_000)
    silences.moved(0, 8_000_000)
    silences.placed(1, 8_000_000)
    silences.settled(1, 8_200_000, arrived=True)
    whole, by_node = longest(silences, 9_000_000)
    assert whole == 8.2
    assert by_node == pytest.approx([5.0, 0.2])


def test_a_silence_of_the_warmup_is_none() -> None:
    silences = Silences(from_us=10_000_000)
    begun(silences, 0, 0)
    silences.settled(0, 9_000_000, arrived=True)
    begun(silences, 0, 9_500_000)
    silences.settled(0, 12_000_000, arrived=True)
    assert longest(silences, 12_000_000) == (2.0, [2.0, 0.0])


async def stalled(tmp_path: Path, **changes: Any) -> tuple[dict[str, Any], int, float]:
    """A load of 2 s in which nothing is answered for 0.8 s; what was due, and for how long."""
    loop = asyncio.get_running_loop()
    async with Sink() as sink:
        spec = make(sink, steps=[Step(period_ms=50, ticks=40)], **changes)
        quiet_s = 0.0

        async def stall() -> None:
            nonlocal quiet_s
            await at(spec, 0.8)
            sink.stall()
            began = loop.time()
            await asyncio.sleep(0.8)
            quiet_s = loop.time() - began
            sink.resume()

        result = await work(spec, tmp_path, stall)
    return result, 20 * (40 - 2), quiet_s


async def test_what_a_loader_catches_up_on_is_late(tmp_path: Path) -> None:
    """All of it is acknowledged before the end of the schedule and the limit, and yet is late."""
    result, measured, _ = await stalled(tmp_path, latency_limit_ms=300, warmup_ticks=2)
    assert result["acknowledged"] == result["scheduled"]
    # What was due in the first half second of the stall: ten ticks.
    assert result["in_time"] <= measured - 20 * 9


async def test_a_worker_tells_its_longest_silence(tmp_path: Path) -> None:
    result, _, quiet_s = await stalled(tmp_path, warmup_ticks=2)
    silence = result["silence"]
    assert silence["longest_s"] >= quiet_s - 0.15, "a tick is 50 ms"
    assert silence["by_node"][0]["longest_s"] == silence["longest_s"]
    assert silence["long"], "a span of it, to be put beside those of others"
    assert all(last - first >= 0.25 for first, last in silence["long"])
