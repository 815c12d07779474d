"""Read-back against a store that answers as KairosDB does, whatever the load looked like."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import load_samples
import numpy as np
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kairoscope.errors import UserError
from kairoscope.stacks.compared import compare
from kairoscope.stacks.kairosdb.readback import queries
from kairoscope.verdict.settlement import SeriesResult
from loaders.schedule.due import Schedule, Series
from loaders.schedule.spec import LoadSpec, Step
from loaders.schedule.values import ValueType

NEVER = (0.0,)


@dataclasses.dataclass
class Point:
    metric: str
    tags: dict[str, str]
    t: int
    value: Any


class Store:
    """Answers queries for points as KairosDB 1.3.0 does: filters, groups, types apart."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points
        self.queries: list[dict[str, Any]] = []
        self.most_points = 0

    async def answer(self, request: web.Request) -> web.Response:
        query = await request.json()
        self.queries.append(query)
        span = (query["start_absolute"], query["end_absolute"])
        answers = [{"results": self._results(m, *span)} for m in query["metrics"]]
        count = sum(len(r["values"]) for answer in answers for r in answer["results"])
        self.most_points = max(self.most_points, count)
        return web.json_response({"queries": answers})

    def _results(self, metric: dict[str, Any], start: int, end: int) -> list[dict[str, Any]]:
        by = [g["tags"] for g in metric.get("group_by", [])]
        tags = by[0] if by else []
        groups: dict[tuple[str, ...], list[Point]] = {}
        for p in self.points:
            wanted = all(p.tags.get(k) in values for k, values in metric["tags"].items())
            if p.metric == metric["name"] and wanted and start <= p.t <= end:
                kind = "text" if isinstance(p.value, str) else "number"
                groups.setdefault((kind, *(p.tags[t] for t in tags)), []).append(p)
        results = []
        for (kind, *texts), points in sorted(groups.items()):
            group_by = [{"name": "type", "type": kind}]
            if tags:
                group = dict(zip(tags, texts, strict=True))
                group_by.insert(0, {"name": "tag", "tags": tags, "group": group})
            values = sorted([p.t, p.value] for p in points)
            results.append({"name": metric["name"], "group_by": group_by, "values": values})
        return results or [{"name": metric["name"], "tags": {}, "values": []}]

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/api/v1/datapoints/query", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "AGAIN_S", (0.0, 0.0))


def stored(spec: LoadSpec, series: Series, t: int, value: int) -> Point:
    """A point as it comes back: KairosDB writes 123.000 as 123.0."""
    text = ValueType(spec.value_type).text(value)
    said = text if spec.value_type == "string" else json.loads(text)
    return Point(spec.metric_name(series.number), spec.tags_of(series.number), t, said)


def all_points(schedule: Schedule) -> list[Point]:
    return [
        stored(schedule.spec, series, t, value)
        for series in schedule.series()
        for t, value in load_samples.points_of(schedule, series)
    ]


def read(
    store: Store,
    schedule: Schedule,
    *,
    settle_s: tuple[float, ...] = (),
    incomplete: bool = False,
    also: tuple[str, ...] = (),
    on_last: Callable[[], object] = lambda: None,
) -> tuple[dict[int, SeriesResult], int]:
    """Results by series number, and passes; `also`: nodes asked in turn, before the store's."""
    results: dict[int, SeriesResult] = {}

    def keep(result: SeriesResult) -> None:
        assert result.series.number not in results
        results[result.series.number] = result

    async def go() -> int:
        async with store.serving() as url:
            spec = dataclasses.replace(schedule.spec, nodes=[*also, url], telnet=[])
            return await queries.read_all(
                Schedule(spec),
                lambda r: incomplete and not r.right.all(),
                keep,
                settle_s,
                on_last=on_last,
            )

    return results, asyncio.run(go())


@settings(max_examples=60)
@given(load_samples.specs(), st.data())
def test_each_point_is_found_as_it_is(spec, data):
    spec = dataclasses.replace(spec, protocol="rest", telnet=[], nodes=spec.nodes[:1])
    schedule = Schedule(spec)
    points: list[Point] = []
    expected: dict[int, tuple[list[bool], list[bool], int]] = {}
    for series in schedule.series():
        present, right, unexpected = [], [], 0
        for t, value in load_samples.points_of(schedule, series):
            fate = data.draw(st.sampled_from(["right", "right", "wrong", "absent", "moved"]))
            present.append(fate in ("right", "wrong"))
            right.append(fate == "right")
            at, is_now = t + 7 * (fate == "moved"), value + (fate == "wrong")
            if fate != "absent":
                points.append(stored(spec, series, at, is_now))
            # What moved out of the run's time is not the run's.
            unexpected += fate == "moved" and at < spec.end_ms
        expected[series.number] = (present, right, unexpected)
    results, _ = read(Store(data.draw(st.permutations(points))), schedule)
    assert {
        number: (r.present.tolist(), r.right.tolist(), r.unexpected)
        for number, r in results.items()
    } == expected


@pytest.mark.parametrize("model", load_samples.MODELS)
@pytest.mark.parametrize("limit", [1, 4, 7])
def test_answers_stay_bounded_and_nothing_is_left_out(monkeypatch, model, limit):
    metric, tags = model
    spec = load_samples.spec_of(
        sensors=7, steps=[Step(1000, 6), Step(500, 6)], metric=metric, tags=tags
    )
    schedule = Schedule(spec)
    monkeypatch.setattr(queries, "POINTS_PER_QUERY", limit)
    store = Store(all_points(schedule))
    results, _ = read(store, schedule)
    assert sorted(results) == list(range(7))
    assert all(r.right.all() and not r.unexpected for r in results.values())
    assert store.most_points <= limit
    spans = queries.spans(schedule)
    assert spans[0][0] == spec.start_ms
    assert spans[-1][1] == spec.end_ms - 1
    assert all(b[0] == a[1] + 1 for a, b in itertools.pairwise(spans))


def test_series_of_one_metric_are_asked_for_together():
    metric, tags = load_samples.MODELS[2]
    schedule = Schedule(load_samples.spec_of(sensors=500, metric=metric, tags=tags))
    store = Store(all_points(schedule))
    results, passes = read(store, schedule)
    assert (len(results), passes, len(store.queries)) == (500, 1, 1)


def test_points_with_a_wrong_tag_are_not_those_of_the_run():
    metric, tags = load_samples.MODELS[2]
    spec = load_samples.spec_of(sensors=4, metric=metric, tags=tags)
    schedule = Schedule(spec)
    points = all_points(schedule)
    points[0] = dataclasses.replace(points[0], tags={**points[0].tags, "site": "site-9"})
    results, _ = read(Store(points), schedule)
    first = results[0]
    assert (first.present.tolist(), first.unexpected) == ([False, True, True], 1)
    assert all(r.right.all() for number, r in results.items() if number)


def test_a_value_of_another_type_is_wrong():
    schedule = Schedule(load_samples.spec_of(sensors=1))
    points = all_points(schedule)
    points[1] = dataclasses.replace(points[1], value="text")
    points[2] = dataclasses.replace(points[2], value=1e300)
    results, _ = read(Store(points), schedule)
    assert results[0].present.tolist() == [True, True, True]
    assert results[0].right.tolist() == [True, False, False]


def test_what_is_missing_is_asked_for_again_and_told_once():
    schedule = Schedule(load_samples.spec_of(sensors=60))
    points = all_points(schedule)
    store = Store(points[1:-1])

    async def late(request: web.Request) -> web.Response:
        if len(store.queries) == 3:  # two of the first pass, one of the second
            store.points = points
        return await Store.answer(store, request)

    store.answer = late  # type: ignore[method-assign]
    results, passes = read(store, schedule, settle_s=(0.0, 0.0, 0.0), incomplete=True)
    assert passes == 3
    assert sorted(results) == list(range(60))
    assert all(r.right.all() for r in results.values())
    # The other 58 were asked for once.
    assert sorted(len(query["metrics"]) for query in store.queries) == [2, 2, 10, 50]


def test_what_stays_missing_is_told_after_the_last_pass():
    schedule = Schedule(load_samples.spec_of(sensors=3))
    points = all_points(schedule)
    store, asked_before = Store(points[1:]), list[int]()
    results, passes = read(
        store,
        schedule,
        settle_s=NEVER,
        incomplete=True,
        on_last=lambda: asked_before.append(len(store.queries)),
    )
    assert passes == 2
    assert asked_before == [len(store.queries) - 1]
    assert results[0].present.tolist() == [False, True, True]
    assert len(results) == 3


def test_another_node_is_asked_if_one_is_down():
    dead = ("http://127.0.0.1:1", "http://127.0.0.1:2")
    nodes = [*dead, "http://127.0.0.1:3"]
    schedule = Schedule(load_samples.spec_of(sensors=120, nodes=nodes, telnet=[]))
    results, _ = read(Store(all_points(schedule)), schedule, also=dead)
    assert all(r.right.all() for r in results.values())
    assert len(results) == 120


def test_another_node_is_asked_if_one_answers_with_an_error():
    """One that has lost its way to the store says 500 for as long as it lives."""

    class Broken(Store):
        async def answer(self, request: web.Request) -> web.StreamResponse:
            return web.Response(status=500, text="no host available")

    nodes = [f"http://127.0.0.1:{port}" for port in (1, 2)]
    schedule = Schedule(load_samples.spec_of(sensors=20, nodes=nodes, telnet=[]))
    results: list[SeriesResult] = []

    async def go(*stores: Store) -> None:
        async with contextlib.AsyncExitStack() as served:
            urls = [await served.enter_async_context(store.serving()) for store in stores]
            spec = dataclasses.replace(schedule.spec, nodes=urls)
            await queries.read_all(Schedule(spec), lambda _: False, results.append)

    asyncio.run(go(Broken([]), Store(all_points(schedule))))
    assert [r.right.all() for r in results] == [True] * 20
    with pytest.raises(UserError, match="read-back query answered 500: no host available"):
        asyncio.run(go(Broken([]), Broken([])))


def test_no_node_answers():
    spec = load_samples.spec_of(nodes=["http://127.0.0.1:1"], telnet=[])

    def nothing(_: SeriesResult) -> None:
        raise AssertionError

    with pytest.raises(UserError, match="read-back failed"):
        asyncio.run(queries.read_all(Schedule(spec), lambda _: False, nothing))


def test_nodes_are_asked_again_that_were_in_trouble_for_a_moment():
    class Troubled(Store):
        left = len(queries.AGAIN_S)

        async def answer(self, request: web.Request) -> web.Response:
            if not self.left:
                return await super().answer(request)
            self.left -= 1
            return web.Response(status=500, text="Query is using too much memory")

    schedule = Schedule(load_samples.spec_of())
    results, passes = read(Troubled(all_points(schedule)), schedule)
    assert passes == 1
    assert all(r.right.all() for r in results.values())


def test_an_earlier_run_is_noticed():
    schedule = Schedule(load_samples.spec_of())
    store = Store(all_points(schedule)[5:6])

    async def look() -> list[int]:
        async with store.serving() as url:
            spec = dataclasses.replace(schedule.spec, nodes=[url], telnet=[])
            seen = [await queries.already_there(Schedule(spec))]
            store.points = []
            return [*seen, await queries.already_there(Schedule(spec))]

    assert asyncio.run(look()) == [1, 0]


def test_compare_takes_no_other_time_for_the_scheduled_one():
    schedule = Schedule(load_samples.spec_of(sensors=1))
    (series,) = schedule.series()
    points = [*load_samples.points_of(schedule, series), (schedule.spec.start_ms + 1, 7)]
    result = compare(schedule, series, np.array(points, dtype=np.int64))
    assert result.unexpected == 1
    assert result.right.all()


def test_a_point_that_comes_twice_is_unexpected_and_right_only_if_both_are():
    schedule = Schedule(load_samples.spec_of(sensors=1))
    (series,) = schedule.series()
    points = load_samples.points_of(schedule, series)
    (t, value), *_ = points
    for extra, right in (((t, value), True), ((t, value + 1), False)):
        for both in ([extra, *points], [*points, extra]):
            result = compare(schedule, series, np.array(both, dtype=np.int64))
            assert result.unexpected == 1
            assert result.present.all()
            assert bool(result.right[0]) is right
            assert result.right[1:].all()


def test_a_wrong_value_is_never_forgiven():
    schedule = Schedule(load_samples.spec_of(sensors=1))
    points = all_points(schedule)
    wrong = dataclasses.replace(points[0], value=points[0].value + 1)
    store = Store([wrong, *points[1:]])

    async def heals(request: web.Request) -> web.Response:
        if store.queries:
            store.points = points
        return await Store.answer(store, request)

    store.answer = heals  # type: ignore[method-assign]
    results, passes = read(store, schedule, settle_s=(0.0, 0.0), incomplete=True)
    assert passes == 2
    assert results[0].present.all()
    assert results[0].right.tolist() == [False, True, True]


def test_what_was_wrong_or_unexpected_before_stays_so():
    schedule = Schedule(load_samples.spec_of(sensors=1))
    (series,) = schedule.series()
    every = np.ones(len(series.ticks), dtype=bool)
    wrong, absent = every.copy(), every.copy()
    wrong[1] = absent[2] = False
    now = SeriesResult(series, every, every, 0)
    found = queries._remembering(SeriesResult(series, absent, wrong & absent, 3), now)
    assert found.right.tolist() == [True, False, True]
    assert found.present.all()
    assert found.unexpected == 3
