"""Read every point of a run back through KairosDB's query API and compare its content."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import aiohttp
import numpy as np
import numpy.typing as npt

from kairoscope.errors import UserError
from loaders import schedule
from loaders.spec import LoadSpec
from loaders.values import values

# Series in one query: large enough that the request's own cost vanishes, small enough that the
# answer (sensors × points × ~25 bytes) stays small in KairosDB's memory.
SENSORS_PER_QUERY = 50
CONCURRENCY = 4

Bools = npt.NDArray[np.bool_]


@dataclass
class SensorResult:
    """What came back for one sensor.

    `present` and `right` are bool[ticks]: a point with the scheduled timestamp came back; and its
    value is that of the value function. `unexpected` counts points at no scheduled timestamp.
    """

    sensor: int
    present: Bools
    right: Bools
    unexpected: int


@dataclass
class ReadBack:
    """All sensors' results; `passes` counts how often points that were missing were asked again."""

    sensors: list[SensorResult] = field(default_factory=list)
    passes: int = 1


def compare(spec: LoadSpec, sensor: int, points: list[list[int]]) -> SensorResult:
    """Compare a sensor's returned [timestamp in ms, value] pairs with its schedule and values."""
    expected = schedule.timestamps_ms(spec, sensor)
    got = np.array(points, dtype=np.int64).reshape(-1, 2)
    order = np.argsort(got[:, 0], kind="stable")
    got = got[order]
    index = np.searchsorted(expected, got[:, 0])
    hit = (index < len(expected)) & (expected[np.minimum(index, len(expected) - 1)] == got[:, 0])
    present = np.zeros(len(expected), dtype=bool)
    right = np.zeros(len(expected), dtype=bool)
    present[index[hit]] = True
    wanted = values(np.full(int(hit.sum()), sensor, dtype=np.int64), got[hit, 0])
    right[index[hit]] = wanted == got[hit, 1]
    return SensorResult(sensor, present, right, int((~hit).sum()))


def query(spec: LoadSpec, sensors: list[int]) -> dict[str, object]:
    """KairosDB query for all points of some sensors in the run's time span."""
    return {
        "start_absolute": spec.start_ms,
        "end_absolute": spec.end_ms - 1,
        "metrics": [
            {"name": spec.metric_name(s), "tags": {k: [v] for k, v in spec.tags.items()}}
            for s in sensors
        ],
    }


async def _ask(
    http: aiohttp.ClientSession, node: str, spec: LoadSpec, sensors: list[int]
) -> list[SensorResult]:
    async with http.post(f"{node}/api/v1/datapoints/query", json=query(spec, sensors)) as answer:
        if answer.status != 200:  # noqa: PLR2004
            body = (await answer.text())[:300]
            raise UserError(f"{node}: read-back query answered {answer.status}: {body}")
        document = await answer.json()
    found = []
    for sensor, result in zip(sensors, document["queries"], strict=True):
        points = [pair for series in result["results"] for pair in series["values"]]
        found.append(compare(spec, sensor, points))
    return found


async def _read(
    spec: LoadSpec, sensors: list[int], on_done: Callable[[int], None]
) -> AsyncIterator[SensorResult]:
    chunks = [sensors[i : i + SENSORS_PER_QUERY] for i in range(0, len(sensors), SENSORS_PER_QUERY)]
    limit = asyncio.Semaphore(CONCURRENCY)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as http:

        async def one(number: int, chunk: list[int]) -> list[SensorResult]:
            async with limit:
                # Any node can answer for any sensor; taking turns spreads the work.
                node = spec.nodes[number % len(spec.nodes)]
                try:
                    results = await _ask(http, node, spec, chunk)
                except (aiohttp.ClientError, TimeoutError) as error:
                    raise UserError(f"{node}: read-back failed: {error!r}") from error
                on_done(len(chunk))
                return results

        tasks = [asyncio.create_task(one(i, c)) for i, c in enumerate(chunks)]
        try:
            for task in tasks:
                for result in await task:
                    yield result
        finally:
            for task in tasks:
                task.cancel()


async def read_all(
    spec: LoadSpec,
    incomplete: Callable[[SensorResult], bool],
    on_done: Callable[[int], None] = lambda _: None,
    settle_s: tuple[float, ...] = (2, 5, 10),
) -> ReadBack:
    """Read all sensors back; ask again, after pauses, for those that `incomplete` names.

    With consistency ONE a read may meet the one replica that is still behind (it catches up by
    hints and read repair); so a point is missing only if it stays missing over the passes.
    UserError if KairosDB does not answer.
    """
    back = ReadBack()
    by_sensor: dict[int, SensorResult] = {}
    todo = list(range(spec.sensors))
    for pause in (0.0, *settle_s):
        if pause:
            await asyncio.sleep(pause)
            back.passes += 1
        async for result in _read(spec, todo, on_done):
            by_sensor[result.sensor] = result
        todo = [s for s in todo if incomplete(by_sensor[s])]
        if not todo:
            break
    back.sensors = [by_sensor[s] for s in sorted(by_sensor)]
    return back
