"""Queries beside the load: what is asked, how answers are judged, and the process that asks.

The server here keeps points and answers as KairosDB 1.3.0 does, as far as these queries go. What it
holds comes from the schedule point by point, not from the code under test.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kairoscope.verdict.followed import of_run
from loaders.process import EXIT_FILES, EXIT_USAGE, PARENT_VARIABLE
from loaders.query import following, query_files
from loaders.query.answers import LATE, RIGHT, WRONG, AnswerError, Checked, check, series_number
from loaders.query.following import Following
from loaders.query.queries import AGGREGATED, KINDS, RAW, TAGS, Query, QueryLoad
from loaders.query.reader import MAX_IN_FLIGHT, Reader
from loaders.record import histograms
from loaders.schedule import cut, follow, naming
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Queries, Step
from loaders.schedule.values import ValueType, values

pytestmark = pytest.mark.timeout(60)

ROOT = Path(__file__).resolve().parents[2]
Document = dict[str, Any]

GOOD: Document = {
    "sensors": 12,
    "steps": [Step(100, 200)],
    "warmup_ticks": 0,
    "start_ms": 1_700_000_000_123,
    "nodes": ["http://127.0.0.1:8080"],
    "metric": "temperature",
    "tags": {"sensor": "s{n}", "rack": "r{n%3}", "site": "north"},
    "sensors_per_request": 3,
    "request_timeout_s": 10,
    "retry_for_s": 0,
    "latency_limit_ms": 500,
    "connections_per_node": 4,
    "queries": Queries(rate=10, last_s=4, lag_s=1, sensors=3, bucket_s=2),
}


def make(**changes: Any) -> LoadSpec:
    return LoadSpec(**GOOD | changes)


# A server like KairosDB


def stored(spec: LoadSpec, series: int, timestamp_ms: int) -> Any:
    """A value as a query gives it back."""
    value = int(values(series, timestamp_ms)[0])
    if spec.value_type == ValueType.STRING.value:
        return f"v{value}"
    return value if spec.value_type == ValueType.LONG.value else float(f"{value / 1000:.3f}")


def number(value: float) -> Any:
    """As Java's JSONWriter: no ".0"."""
    return int(value) if float(value).is_integer() else value


class Kairos:
    """Points by series, and KairosDB's answers from them.

    Attributes:
        rows: points of each series, timestamp to value; the key is its metric and tags.
        shuffle: order in which a bucket's values are added; KairosDB's is by time.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, tuple[tuple[str, str], ...]], dict[int, Any]] = {}
        self.shuffle: Callable[[list[Any]], None] = lambda _: None

    def row(self, spec: LoadSpec, series: int) -> dict[int, Any]:
        key = (spec.metric_name(series), tuple(sorted(spec.tags_of(series).items())))
        return self.rows.setdefault(key, {})

    def put(self, spec: LoadSpec, series: int, timestamp_ms: int) -> None:
        self.row(spec, series)[timestamp_ms] = stored(spec, series, timestamp_ms)

    def answer(self, path: str, document: Document) -> Document:
        assert path in ("/api/v1/datapoints/query", "/api/v1/datapoints/query/tags")
        tags_only = path.endswith("/tags")
        return {"queries": [self._metric(document, m, tags_only) for m in document["metrics"]]}

    def _metric(self, document: Document, metric: Document, tags_only: bool) -> Document:
        start, end = document["start_absolute"], document["end_absolute"]
        assert start <= end
        rows = [
            (dict(tags), points)
            for (name, tags), points in self.rows.items()
            if name == metric["name"]
            and all(dict(tags).get(tag) in texts for tag, texts in metric["tags"].items())
        ]
        if tags_only:
            return {"results": [self._result(metric, rows, [])]}
        held = [
            (tags, {t: v for t, v in points.items() if start <= t <= end}) for tags, points in rows
        ]
        held = [row for row in held if row[1]]
        groups: dict[tuple[str, ...], list[Any]] = {}
        by = [tag for group in metric.get("group_by", []) for tag in group["tags"]]
        for row in held:
            groups.setdefault(tuple(row[0].get(tag, "") for tag in by), []).append(row)
        results = []
        for _, members in sorted(groups.items()) or [((), [])]:
            points = sorted(
                ((t, v) for _, own in members for t, v in own.items()), key=lambda item: item[0]
            )
            for aggregator in metric.get("aggregators", []):
                points = self._aggregate(start, aggregator, points)
            results.append(self._result(metric, members, [list(point) for point in points]))
        return {"sample_size": sum(len(own) for _, own in held), "results": results}

    def _result(self, metric: Document, rows: list[Any], points: list[Any]) -> Document:
        tags: dict[str, set[str]] = {}
        for own, _ in rows:
            for tag, text in own.items():
                tags.setdefault(tag, set()).add(text)
        shown = {tag: sorted(texts) for tag, texts in tags.items()}
        return {"name": metric["name"], "tags": shown, "values": points}

    def _aggregate(self, start: int, aggregator: Document, points: list[Any]) -> list[Any]:
        # Otherwise buckets would begin at midnight, and be stamped with their first point's time.
        assert aggregator["align_sampling"] is False
        assert aggregator["align_start_time"] is True
        assert aggregator["sampling"]["unit"] == "seconds"
        if aggregator["name"] == "sum" and any(isinstance(value, str) for _, value in points):
            return points
        length = aggregator["sampling"]["value"] * 1000
        buckets: dict[int, list[Any]] = {}
        for timestamp, value in points:
            buckets.setdefault(start + (timestamp - start) // length * length, []).append(value)
        if aggregator["name"] == "count":
            return [(t, len(own)) for t, own in buckets.items()]
        assert aggregator["name"] == "sum"
        summed = []
        for t, own in buckets.items():
            self.shuffle(own)
            total = 0.0
            for value in own:
                total += value
            summed.append((t, number(total)))
        return summed


def requests_of(schedule: Schedule) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """When each request of the run is due (µs), and its points: series and timestamp."""
    for worker in range(schedule.spec.workers):
        groups = schedule.groups(worker)
        for request in schedule.requests(worker):
            group = groups[request.group]
            yield (
                request.planned_us,
                [
                    (series, schedule.timestamp_ms(group.rank, tick))
                    for tick in range(request.first, request.first + request.ticks)
                    for series in schedule.numbers(group, tick).tolist()
                ],
            )


def filled(schedule: Schedule, until_us: int | None = None) -> Kairos:
    """All points whose requests were due by then."""
    kairos = Kairos()
    for planned_us, points in requests_of(schedule):
        if until_us is None or planned_us <= until_us:
            for series, timestamp in points:
                kairos.put(schedule.spec, series, timestamp)
    return kairos


def ask(load: QueryLoad, query: Query, kairos: Kairos) -> Checked:
    document = json.loads(json.dumps(load.body(query)))
    answer = json.dumps(kairos.answer(load.path(query), document)).encode()
    return check(load, query, answer, query.planned_us // 1000)


def asked_points(load: QueryLoad, query: Query) -> list[tuple[int, int]]:
    """Series and timestamp of every scheduled point that a query asks for, the long way."""
    spec = load.schedule.spec
    found = []
    for series in load.schedule.series():
        for entry in query.entries:
            own = spec.tags_of(series.number)
            meant = entry.numbers is None or series.number in entry.numbers
            passes = all(own[tag] in texts for tag, texts in entry.tags.items())
            if spec.metric_name(series.number) == entry.metric and meant and passes:
                times = [load.schedule.timestamp_ms(series.rank, tick) for tick in series.ticks]
                found += [(series.number, t) for t in times if query.from_ms <= t < query.until_ms]
    return found


# Properties

NAMES = [
    ("SENSOR_{n}", {"status": "good"}),
    ("SENSOR_{n}", {"status": "good", "rack": "r{n%3}"}),
    ("temperature", {"sensor": "s{n}"}),
    ("temperature", {"sensor": "1{n}", "site": "north"}),
    ("temperature", {"sensor": "s{n}", "rack": "r{n%4}", "row": "{n%2}", "site": "north"}),
    ("m_{n%3}", {"sensor": "{n}", "rack": "{n%5}"}),
    ("m_{n%2}", {"sensor": "{n%7}-{n}.{n}"}),
]


@st.composite
def specs(draw: st.DrawFn) -> LoadSpec:
    together = draw(st.integers(1, 4))
    steps = draw(
        st.lists(
            st.builds(Step, st.integers(150, 2500), st.integers(1, 25)), min_size=1, max_size=3
        )
    )
    ticks = sum(step.ticks for step in steps)
    metric, tags = draw(st.sampled_from(NAMES))
    bucket_s = draw(st.integers(1, 3))
    return make(
        sensors=draw(st.integers(1, 20)),
        steps=steps,
        warmup_ticks=draw(st.integers(0, ticks - 1)),
        ramp_ticks=draw(st.sampled_from([0, ticks // 2, ticks - 1])),
        lifetime_ticks=draw(st.sampled_from([0, 0, 1, 3, 10])) * together,
        start_ms=1_700_000_000_000 + draw(st.integers(0, 5000)),
        nodes=[f"http://127.0.0.{i}:8080" for i in range(1, draw(st.integers(1, 3)) + 1)],
        hosts=draw(st.integers(1, 3)),
        workers_per_host=draw(st.integers(1, 2)),
        sensors_per_request=draw(st.integers(1, 7)),
        points_per_request=together,
        pacing=draw(st.sampled_from(["spread", "aligned"])),
        jitter_ms=draw(st.sampled_from([0, 0, 40, min(step.period_ms for step in steps)])),
        seed=draw(st.integers(0, 2**40)),
        value_type=draw(st.sampled_from([kind.value for kind in ValueType])),
        metric=metric,
        tags=tags,
        queries=Queries(
            rate=draw(st.sampled_from([0.1, 1, 3, 7.3, 50, 1000])),
            last_s=bucket_s * draw(st.integers(1, 4)),
            lag_s=draw(st.integers(0, 2)),
            sensors=draw(st.integers(1, 6)),
            bucket_s=bucket_s,
        ),
    )


@st.composite
def asked(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> tuple[QueryLoad, Query]:
    load = QueryLoad(Schedule(draw(specs())))
    assume(load.total > 0)
    first = draw(st.integers(0, load.total - 1))
    ahead = range(first, min(first + 3 * load.schedule.spec.hosts, load.total))
    query = next((q for q in map(load.query, ahead) if q.kind in kinds), None)
    assume(query)
    assert query
    return load, query


thorough = settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@thorough
@given(asked(), st.booleans(), st.randoms(use_true_random=False))
def test_an_answer_with_all_that_is_old_enough_is_right(
    asked: tuple[QueryLoad, Query], newer: bool, order: random.Random
) -> None:
    load, query = asked
    spec = load.schedule.spec
    assert spec.queries
    # What is younger than lag may be there or not.
    until_us = query.planned_us - spec.queries.lag_s * 1_000_000
    kairos = filled(load.schedule, None if newer else until_us)
    kairos.shuffle = order.shuffle
    # And so may what an earlier run left, with the same names.
    for series in range(0, 3 * spec.sensors, 2):
        kairos.put(spec, series, spec.start_ms - 1)
    judgement = ask(load, query, kairos)
    assert judgement.verdict == RIGHT, (judgement, query)
    points = asked_points(load, query)
    if query.kind != TAGS:
        assert judgement.checked == len(points)
        assert judgement.extra == 0
    else:
        texts = {
            (spec.metric_name(series), tag, text)
            for series, _ in points
            for tag, text in spec.tags_of(series).items()
        }
        assert judgement.checked == len(texts)


@thorough
@given(asked((RAW, AGGREGATED)), st.data())
def test_a_missing_point_is_late(asked: tuple[QueryLoad, Query], data: st.DataObject) -> None:
    load, query = asked
    points = asked_points(load, query)
    assume(points)
    lost = data.draw(st.sets(st.sampled_from(points), min_size=1, max_size=4))
    kairos = filled(load.schedule)
    for series, timestamp in lost:
        del kairos.row(load.schedule.spec, series)[timestamp]
    judgement = ask(load, query, kairos)
    assert (judgement.verdict, judgement.missing) == (LATE, len(lost))
    for what in judgement.first_missing:
        if query.kind == RAW:
            own = [timestamp for series, timestamp in lost if series == what["series"]]
            assert (what["t"], what["points"]) == (min(own), len(own))
        else:
            own = [t for _, t in lost if what["t"] <= t < what["t"] + load.bucket_ms]
            assert len(own) >= what["points"] > 0


@thorough
@given(asked((RAW, AGGREGATED)), st.sampled_from([-1, 1]), st.data())
def test_a_wrong_value_is_wrong(
    asked: tuple[QueryLoad, Query], off: int, data: st.DataObject
) -> None:
    load, query = asked
    spec = load.schedule.spec
    points = asked_points(load, query)
    assume(points)
    assume(query.kind == RAW or spec.value_type != ValueType.STRING.value)
    series, timestamp = data.draw(st.sampled_from(points))
    kairos = filled(load.schedule)
    kind = ValueType(spec.value_type)
    text = kind.text(int(values(series, timestamp)[0]) + off)
    kairos.row(spec, series)[timestamp] = text if kind is ValueType.STRING else float(text)
    judgement = ask(load, query, kairos)
    assert (judgement.verdict, judgement.wrong) == (WRONG, 1)
    if query.kind == RAW:
        assert judgement.first_wrong[0]["series"] == series
        assert judgement.first_wrong[0]["t"] == timestamp


@thorough
@given(asked((RAW, AGGREGATED)), st.data())
def test_a_point_that_was_never_scheduled_is_wrong(
    asked: tuple[QueryLoad, Query], data: st.DataObject
) -> None:
    load, query = asked
    spec = load.schedule.spec
    points = asked_points(load, query)
    assume(points)
    series = data.draw(st.sampled_from(sorted({series for series, _ in points})))
    timestamp = data.draw(st.integers(query.from_ms, query.until_ms - 1))
    kairos = filled(load.schedule)
    assume(timestamp not in kairos.row(spec, series))
    kairos.put(spec, series, timestamp)
    assert ask(load, query, kairos).verdict == WRONG
    # Just outside the span it is nobody's business.
    del kairos.row(spec, series)[timestamp]
    kairos.put(spec, series, query.from_ms - 1)
    kairos.put(spec, series, query.until_ms)
    assert ask(load, query, kairos).verdict == RIGHT


@thorough
@given(asked((TAGS,)), st.data())
def test_a_series_that_no_tag_tells_of_is_late(
    asked: tuple[QueryLoad, Query], data: st.DataObject
) -> None:
    load, query = asked
    spec = load.schedule.spec
    living = sorted({series for series, _ in asked_points(load, query)})
    assume(living)
    gone = data.draw(st.sampled_from(living))
    kairos = filled(load.schedule)
    del kairos.rows[spec.metric_name(gone), tuple(sorted(spec.tags_of(gone).items()))]
    entry = next(e for e in query.entries if e.metric == spec.metric_name(gone))
    others = {
        item
        for metric, tags in kairos.rows
        if metric == entry.metric
        and all(dict(tags)[tag] in texts for tag, texts in entry.tags.items())
        for item in tags
    }
    judgement = ask(load, query, kairos)
    # What another series has as well is not missed.
    assert judgement.missing == len(set(spec.tags_of(gone).items()) - others) > 0
    assert judgement.verdict == LATE


@thorough
@given(specs())
def test_queries_are_dealt_and_paced(spec: LoadSpec) -> None:
    load = QueryLoad(Schedule(spec))
    assert spec.queries
    assert sorted(itertools.chain(*map(load.of_host, range(spec.hosts)))) == list(range(load.total))
    interval_us = 1e6 / spec.queries.rate
    for k in {0, 1, load.total // 2, load.total - 1} & set(range(load.total)):
        query = load.query(k)
        assert query.planned_us == load.planned_us(k)
        assert abs(query.planned_us - load.planned_us(0) - k * interval_us) <= 1
        assert query.planned_us < spec.end_ms * 1000
        assert load.due(query.planned_us) == k + 1
        assert load.due(query.planned_us - 1) == k
        # Nothing is asked for that is younger than lag, older than the run, or longer than last.
        assert query.until_ms * 1000 <= query.planned_us - spec.queries.lag_s * 1_000_000
        assert spec.start_ms <= query.from_ms < query.until_ms
        assert query.until_ms - query.from_ms <= spec.queries.last_s * 1000
        if query.kind == AGGREGATED:
            assert query.from_ms % load.bucket_ms == query.until_ms % load.bucket_ms == 0
        # The same query from the same spec, wherever it is made.
        assert QueryLoad(Schedule(LoadSpec.from_json(spec.to_json()))).query(k) == query
    # There is no room for one more.
    assert load.planned_us(load.total) >= spec.end_ms * 1000


@pytest.mark.parametrize("hosts", [1, 2, 3])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_each_host_asks_each_node_for_each_kind_equally(hosts: int, nodes: int) -> None:
    urls = [f"http://127.0.0.{i}:8080" for i in range(1, nodes + 1)]
    load = QueryLoad(Schedule(make(hosts=hosts, nodes=urls)))
    for host in range(hosts):
        mine = load.of_host(host)[: 3 * nodes * 4]
        counts = Counter((query.kind, query.node) for query in map(load.query, mine))
        assert counts == dict.fromkeys(itertools.product(KINDS, range(nodes)), 4)


def test_what_is_asked_for() -> None:
    load = QueryLoad(Schedule(make()))
    raw, aggregated, tags = map(load.query, range(3))
    body = load.body(raw)
    assert load.path(raw) == load.path(aggregated) == "/api/v1/datapoints/query"
    assert body["end_absolute"] == raw.until_ms - 1
    [metric] = body["metrics"]
    assert len(set(metric["tags"]["sensor"])) == 3
    assert metric["group_by"] == [{"name": "tag", "tags": ["sensor", "rack"]}]
    count, total = load.body(aggregated)["metrics"]
    assert [count["aggregators"][0]["name"], total["aggregators"][0]["name"]] == ["count", "sum"]
    [rack] = count["tags"]["rack"]
    assert count["tags"] == {"site": ["north"], "rack": [rack]}
    # All sensors with that value, not some.
    assert len({series for series, _ in asked_points(load, aggregated)}) == 4
    assert load.path(tags) == "/api/v1/datapoints/query/tags"
    assert set(load.body(tags)["metrics"][0]["tags"]) == {"site", "rack"}


def test_choices_differ_by_number_and_seed() -> None:
    def chosen(seed: int) -> list[Any]:
        load = QueryLoad(Schedule(make(sensors=500, seed=seed)))
        return [load.query(3 * k).entries for k in range(20)]

    assert len({str(entries) for entries in chosen(1)}) == 20
    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)


def test_sensors_are_chosen_from_all_evenly() -> None:
    load = QueryLoad(Schedule(make(steps=[Step(100, 10_000)])))
    counts = Counter(
        number
        for k in range(0, load.total, 3)
        for entry in load.query(k).entries
        for number in entry.numbers or ()
    )
    mean = counts.total() / 12
    assert set(counts) == set(range(12))
    assert all(0.7 * mean < count < 1.3 * mean for count in counts.values())


def test_a_schedule_too_short_to_ask_has_no_queries() -> None:
    assert QueryLoad(Schedule(make(steps=[Step(100, 20)]))).total == 0


def test_a_spec_without_queries() -> None:
    with pytest.raises(ValueError, match="queries: "):
        QueryLoad(Schedule(make(queries=None)))


# What the sum tells and what not


def one_bucket(kind: str = "double", sensors: int = 300) -> tuple[QueryLoad, Query, Kairos]:
    spec = make(
        sensors=sensors,
        steps=[Step(100, 60)],
        value_type=kind,
        tags={"sensor": "s{n}", "rack": "r{n%1}"},
        queries=Queries(rate=1, last_s=2, lag_s=1, sensors=3, bucket_s=2),
    )
    load = QueryLoad(Schedule(spec))
    return load, load.query(1), filled(load.schedule)


@pytest.mark.parametrize("order", [sorted, lambda v: sorted(v, reverse=True), list])
def test_rounding_of_sums_is_forgiven_and_a_thousandth_is_not(order: Callable[..., Any]) -> None:
    load, query, kairos = one_bucket()

    def reorder(own: list[Any]) -> None:
        own[:] = order(own)

    kairos.shuffle = reorder
    assert ask(load, query, kairos).verdict == RIGHT
    series, timestamp = asked_points(load, query)[0]
    kairos.row(load.schedule.spec, series)[timestamp] += 0.001
    assert ask(load, query, kairos).verdict == WRONG


def tampered(load: QueryLoad, query: Query, kairos: Kairos, change: Callable[..., None]) -> Any:
    answer = kairos.answer(load.path(query), load.body(query))
    change(answer["queries"])
    return check(load, query, json.dumps(answer).encode(), query.planned_us // 1000)


def test_a_sum_that_points_could_make_up_is_late_although_the_count_is_full() -> None:
    """Two readings at consistency ONE: the second may have met a replica that is behind."""
    load, query, kairos = one_bucket("long", sensors=5)
    series, timestamp = asked_points(load, query)[0]
    missing = stored(load.schedule.spec, series, timestamp)

    def lack(amount: float) -> Callable[[Any], None]:
        def change(queries: Any) -> None:
            queries[1]["results"][0]["values"][0][1] -= amount

        return change

    judgement = tampered(load, query, kairos, lack(missing))
    assert (judgement.verdict, judgement.missing) == (LATE, 1)
    # Less than any value, or more than there is: no delay explains it.
    for amount in (1, 99_999, -1, 10**12):
        assert tampered(load, query, kairos, lack(amount)).verdict == WRONG
    gone = tampered(load, query, kairos, lambda queries: queries[1]["results"].clear())
    assert gone.verdict == LATE


@pytest.mark.parametrize("bad", ["5", None, True, [1]])
@pytest.mark.parametrize("reading", [0, 1])
def test_an_aggregate_that_is_no_number_is_wrong(bad: Any, reading: int) -> None:
    load, query, kairos = one_bucket("long", sensors=5)

    def change(queries: Any) -> None:
        queries[reading]["results"][0]["values"][0][1] = bad

    assert tampered(load, query, kairos, change).verdict == WRONG


@pytest.mark.parametrize("shift_ms", [1, 2000, -2000])
def test_buckets_that_are_none_are_wrong(shift_ms: int) -> None:
    load, query, kairos = one_bucket("long", sensors=5)

    def change(queries: Any) -> None:
        for one in queries:
            one["results"][0]["values"][0][0] += shift_ms

    assert tampered(load, query, kairos, change).verdict == WRONG


def test_points_of_a_series_that_was_not_asked_for_are_wrong() -> None:
    load = QueryLoad(Schedule(make()))
    query, kairos = load.query(0), filled(load.schedule)

    def change(queries: Any) -> None:
        queries[0]["results"][0]["tags"]["sensor"] = ["s99"]

    judgement = tampered(load, query, kairos, change)
    assert judgement.verdict == WRONG
    assert judgement.first_wrong[0]["tags"]["sensor"] == ["s99"]


def test_a_point_twice_is_wrong() -> None:
    load = QueryLoad(Schedule(make()))
    query, kairos = load.query(0), filled(load.schedule)

    def change(queries: Any) -> None:
        points = queries[0]["results"][0]["values"]
        points.append(points[0])

    assert tampered(load, query, kairos, change).wrong == 1


# Tags


def test_tags_of_series_begun_are_allowed_and_others_are_told() -> None:
    """With churn the row keys of the dead stay for three weeks."""
    spec = make(lifetime_ticks=10, steps=[Step(100, 100)])
    load = QueryLoad(Schedule(spec))
    query = load.query(2)
    until_us = query.planned_us
    kairos = filled(load.schedule, until_us)
    judgement = ask(load, query, kairos)
    assert (judgement.verdict, judgement.extra) == (RIGHT, 0)
    # There were dead ones.
    begun = {
        series.number
        for series in load.schedule.series()
        if load.schedule.timestamp_ms(series.rank, series.ticks.start) * 1000 <= until_us
        and spec.tags_of(series.number)["rack"] in query.entries[0].tags["rack"]
    }
    assert len(begun) > len({series for series, _ in asked_points(load, query)})
    # A series of this run that begins later only, and one of another run.
    rack = int(query.entries[0].tags["rack"][0][1:])
    later = next(n for n in range(spec.sensors * 9, 10**6) if n % 3 == rack)
    kairos.put(spec, later, spec.start_ms)
    other = ("temperature", (("rack", f"r{rack}"), ("sensor", "x"), ("site", "north"), ("y", "z")))
    kairos.rows[other] = {spec.start_ms - 1: 1}
    judgement = ask(load, query, kairos)
    assert (judgement.verdict, judgement.extra) == (RIGHT, 3)
    assert {what["got"] for what in judgement.first_extra} == {f"s{later}", "x", "z"}

    # One that has begun, but is in another rack.
    def change(queries: Any) -> None:
        queries[0]["results"][0]["tags"]["sensor"].append(f"s{(rack + 1) % 3}")

    assert tampered(load, query, kairos, change).extra == 4


def test_tags_that_the_filter_does_not_let_pass_are_wrong() -> None:
    load = QueryLoad(Schedule(make()))
    query, kairos = load.query(2), filled(load.schedule)

    def change(queries: Any) -> None:
        queries[0]["results"][0]["tags"]["rack"] = ["r0", "r1", "r2"]

    judgement = tampered(load, query, kairos, change)
    assert (judgement.verdict, judgement.wrong) == (WRONG, 2)


@given(st.integers(0, 10**9), st.sampled_from([t for _, tags in NAMES for t in tags.values()]))
def test_a_series_is_known_by_its_tag(series: int, pattern: str) -> None:
    assume("{n}" in pattern)
    text = naming.expand(pattern, series)
    assert series_number(pattern, text) == series
    assert series_number(pattern, text + "x") is None
    assert series_number(pattern, "x" + text) is None


# Answers that are none


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"queries":[]}',
        b'{"queries":[{},{}]}',
        b'{"queries":[1]}',
        b'{"queries":[{"results":[1]}]}',
        b'{"queries":[{"results":[{"name":"a","tags":{},"values":null}]}]}',
        b'{"queries":[{"results":[{"name":"a","tags":{"b":"c"},"values":[]}]}]}',
        b'{"queries":[{"results":[{"name":"a","tags":{"b":[1]},"values":[]}]}]}',
        b'{"queries":[{"results":[{"name":"a","tags":{},"values":[1]}]}]}',
        b'{"queries":[{"results":[{"name":"a","tags":{},"values":[["1",2]]}]}]}',
        b'{"queries":[{"results":[{"name":"a","tags":{},"values":[[1,2,3]]}]}]}',
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    load = QueryLoad(Schedule(make()))
    with pytest.raises(AnswerError, match=r"."):
        check(load, load.query(0), answer, 0)


# The process


class Server:
    """The store behind HTTP.

    Attributes, to be changed at any time:
        fault: changes an answer's document.
        status, text: given instead of an answer, if the status is not 200 or there is a text.
        flowing: cleared, it holds every answer back.
        arrivals: (epoch s, path, document) of each query.
        most: most queries held at once.
    """

    def __init__(self, kairos: Kairos) -> None:
        self.kairos = kairos
        self.fault: Callable[[str, Document, Document], None] = lambda *_: None
        self.status, self.text = 200, ""
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.arrivals: list[tuple[float, str, Document]] = []
        self.held = self.most = 0

    async def handle(self, request: web.Request) -> web.Response:
        document = await request.json()
        self.arrivals.append((time.time(), request.path, document))
        self.held += 1
        self.most = max(self.most, self.held)
        try:
            await self.flowing.wait()
        finally:
            self.held -= 1
        if self.status != 200 or self.text:
            return web.Response(status=self.status, text=self.text)
        answer = self.kairos.answer(request.path, document)
        self.fault(request.path, document, answer)
        return web.json_response(answer)


def lively(url: str, **changes: Any) -> LoadSpec:
    """A run whose first query is due within a second, and its last 0.6 seconds later.

    There are 24 queries, fewer than may be in flight: a slow machine makes none of them wait.
    """
    start_ms = (int(time.time()) + 1) * 1000 - 2000
    fields: Document = {
        "start_ms": start_ms,
        "steps": [Step(100, 26)],
        "nodes": [url],
        "queries": Queries(rate=40, last_s=2, lag_s=1, sensors=3, bucket_s=1),
    }
    return make(**fields | changes)


@asynccontextmanager
async def serving(**changes: Any) -> AsyncIterator[tuple[LoadSpec, Server]]:
    server = Server(Kairos())
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        spec = lively(f"http://127.0.0.1:{runner.addresses[0][1]}", **changes)
        server.kairos = filled(Schedule(spec))
        yield spec, server
    finally:
        server.flowing.set()
        await runner.cleanup()


def lines(path: Path) -> list[Document]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def read(
    spec: LoadSpec, outdir: Path, trouble: Callable[[Reader], Awaitable[None]] | None = None
) -> Document:
    """Run one reader in this process, with `trouble` beside it; check what always holds."""
    one = Reader(spec, 0, outdir)
    beside = asyncio.ensure_future(trouble(one)) if trouble else None
    result = await one.run()
    if beside:
        await beside
    assert json.loads(query_files.result_path(outdir, 0).read_text()) == result
    verdicts = ("right", "late", "wrong", "failed")
    assert result["sent"] == sum(result[verdict] for verdict in verdicts)
    if not result["stopped_early"]:
        assert result["sent"] + result["not_sent"] == result["scheduled"] > 0
    for name in ("sent", "not_sent", *verdicts):
        assert result[name] == sum(kind[name] for kind in result["kinds"].values())
    records = lines(query_files.progress_path(outdir, 0))
    for before, after in itertools.pairwise(records):
        for name in ("due", "sent", "not_sent", *verdicts):
            assert before[name] <= after[name]
    last = records[-1]
    assert last["in_flight"] == 0
    assert {name: last[name] for name in verdicts} == {name: result[name] for name in verdicts}
    answers = lines(query_files.answers_path(outdir, 0))
    assert Counter(row["verdict"] for row in answers) == Counter(
        {verdict: result[verdict] for verdict in verdicts[1:] if result[verdict]}
    )
    load = QueryLoad(Schedule(spec))
    for row in answers:
        query = load.query(row["number"])
        assert (row["kind"], row["from_ms"]) == (query.kind, query.from_ms)
        assert row["metrics"][0]["name"] == query.entries[0].metric
    return result


def measured(outdir: Path, *, warmup: bool = False) -> Any:
    return histograms.merged([query_files.histogram_path(outdir, 0)], warmup=warmup)


def at_least(histogram: Any, latency_us: float) -> int:
    """Number of queries whose latency was certainly not below `latency_us`."""
    indexes = np.flatnonzero(np.array(histogram.counts))
    return sum(
        histogram.counts[int(i)]
        for i in indexes
        if histogram.get_highest_equivalent_value(histogram.get_value_from_index(int(i)))
        >= latency_us
    )


async def test_all_is_right(tmp_path: Path) -> None:
    async with serving(warmup_ticks=23) as (spec, server):
        result = await read(spec, tmp_path)
    load = QueryLoad(Schedule(spec))
    assert result["right"] == result["scheduled"] == load.total == 24
    assert result["points_late"] == 0
    assert not result["stopped_early"]
    assert result["errors"] == {}
    queries = [load.query(k) for k in range(load.total)]
    assert result["points_checked"] == sum(
        len(asked_points(load, query)) for query in queries if query.kind != TAGS
    )
    assert {kind: counts["right"] for kind, counts in result["kinds"].items()} == dict.fromkeys(
        KINDS, 8
    )
    # Each was asked once, and none before it was due.
    bodies = sorted((path, json.dumps(document)) for _, path, document in server.arrivals)
    assert bodies == sorted((load.path(query), json.dumps(load.body(query))) for query in queries)
    arrivals = sorted(at for at, _, _ in server.arrivals)
    assert all(
        at * 1e6 >= query.planned_us - 1000 for at, query in zip(arrivals, queries, strict=True)
    )
    # Warm-up: due before the 24th tick.
    warm = sum(load.is_warmup(query) for query in queries)
    assert warm == 12
    assert measured(tmp_path, warmup=True).get_total_count() == warm
    assert measured(tmp_path).get_total_count() == 24 - warm
    assert result["send_error_us"]["count"] == 24 - warm
    assert sum(row["count"] for row in lines(query_files.progress_path(tmp_path, 0))) == 24


@pytest.mark.parametrize("kind", ["double", "string"])
async def test_other_value_types(tmp_path: Path, kind: str) -> None:
    async with serving(value_type=kind, metric="M_{n}", tags={"a": "b"}) as (spec, _):
        result = await read(spec, tmp_path)
    assert result["right"] == result["scheduled"]


@pytest.mark.parametrize("fault", ["value", "missing", "unscheduled"])
async def test_faults_are_found_by_the_queries_that_ask_for_them(
    tmp_path: Path, fault: str
) -> None:
    # All sensors in every query for raw points.
    queries = Queries(rate=40, last_s=2, lag_s=1, sensors=12, bucket_s=1)
    async with serving(queries=queries) as (spec, server):
        load = QueryLoad(Schedule(spec))
        series, t = asked_points(load, load.query(0))[0]
        row = server.kairos.row(spec, series)
        if fault == "value":
            row[t] += 1
        elif fault == "missing":
            del row[t]
        else:
            row[t + 1] = row[t]
        result = await read(spec, tmp_path)
    hit = [
        query
        for query in map(load.query, range(load.total))
        if query.kind != TAGS and (series, t) in asked_points(load, query)
    ]
    told = lines(query_files.answers_path(tmp_path, 0))
    assert sorted(row["number"] for row in told) == [query.number for query in hit] != []
    verdict = LATE if fault == "missing" else WRONG
    assert result[verdict] == len(hit)
    assert result["right"] == load.total - len(hit)
    assert result["points_late"] == (len(hit) if fault == "missing" else 0)
    first = next(row for row in told if row["kind"] == RAW)
    detail = first["first_missing" if fault == "missing" else "first_wrong"][0]
    assert (detail["series"], detail["t"]) == (series, t + (fault == "unscheduled"))
    assert first["latency_ms"] > 0
    assert series in first["series"]


async def test_a_server_error_fails_and_keeps_the_body(tmp_path: Path) -> None:
    async with serving() as (spec, server):
        server.status, server.text = 500, '{"errors":["out of\nmemory"]}'
        result = await read(spec, tmp_path)
    assert result["failed"] == result["scheduled"]
    assert result["errors"] == {"http_500": result["failed"]}
    assert result["first_errors"][0] == 'HTTP 500: {"errors":["out of memory"]}'
    assert lines(query_files.answers_path(tmp_path, 0))[0]["reason"] == result["first_errors"][0]
    # A quick error is no fast answer.
    assert measured(tmp_path).get_total_count() == 0


async def test_what_is_not_kairosdb_fails(tmp_path: Path) -> None:
    async with serving() as (spec, server):
        server.text = "<html>welcome</html>"
        result = await read(spec, tmp_path)
    assert result["errors"] == {"answer": result["scheduled"]}


async def test_a_node_that_is_down_fails(tmp_path: Path) -> None:
    async with serving() as (spec, _):
        pass
    result = await read(lively(spec.nodes[0]), tmp_path)
    assert result["errors"] == {"connection": result["scheduled"]}
    assert measured(tmp_path).get_total_count() == 0


async def test_a_stall_shows_in_full_and_delays_no_query(tmp_path: Path) -> None:
    async with serving() as (spec, server):
        load = QueryLoad(Schedule(spec))
        resumed_us = 0.0

        async def stall(_: Reader) -> None:
            nonlocal resumed_us
            server.flowing.clear()
            # Until all are there that are ever sent: had one waited for another, it would hang.
            while len(server.arrivals) < load.total:
                await asyncio.sleep(0.01)
            resumed_us = time.time() * 1e6
            server.flowing.set()

        result = await read(spec, tmp_path, stall)
    assert result["right"] == load.total
    histogram = measured(tmp_path)
    waited = [resumed_us - load.planned_us(k) for k in range(load.total)]
    assert max(waited) > 500_000
    for latency_us in waited:
        longer = sum(other >= latency_us for other in waited)
        assert at_least(histogram, latency_us - 2000) >= longer


async def test_a_late_start_is_latency(tmp_path: Path) -> None:
    async with serving() as (spec, server):
        past = lively(spec.nodes[0], start_ms=spec.start_ms - 5000)
        server.kairos = filled(Schedule(past))
        result = await read(past, tmp_path)
    # `lively` starts at least one second before now; the last query is due 2.585 s after that.
    assert result["right"] == result["scheduled"] == 24
    assert at_least(measured(tmp_path), 3_400_000) == 24
    assert result["send_error_us"]["p50"] >= 3_400_000


async def test_no_more_than_the_bound_are_in_flight(tmp_path: Path) -> None:
    queries = Queries(rate=100, last_s=2, lag_s=1, sensors=3, bucket_s=1)
    async with serving(queries=queries) as (spec, server):
        server.flowing.clear()

        async def let_go(_: Reader) -> None:
            await asyncio.sleep(spec.end_ms / 1000 - time.time())
            # All are sent; on a busy machine they have not all arrived.
            async with asyncio.timeout(60):
                while server.most < MAX_IN_FLIGHT:
                    await asyncio.sleep(0.01)
            server.flowing.set()

        result = await read(spec, tmp_path, let_go)
    assert server.most == MAX_IN_FLIGHT
    assert result["not_sent"] >= 1
    assert result["right"] == result["sent"] >= MAX_IN_FLIGHT
    assert len(server.arrivals) == result["sent"]


async def test_an_answer_that_takes_too_long_fails_and_is_measured(tmp_path: Path) -> None:
    async with serving(request_timeout_s=0.2) as (spec, server):
        server.flowing.clear()
        result = await read(spec, tmp_path)
    assert result["errors"] == {"timeout": result["sent"]}
    assert result["first_errors"][0] == "no answer within 0.2 s"
    assert at_least(measured(tmp_path), 199_000) == result["sent"]


async def test_stopped_with_queries_in_flight(tmp_path: Path) -> None:
    async with serving(steps=[Step(100, 600)]) as (spec, server):
        server.flowing.clear()

        async def stop(one: Reader) -> None:
            while len(server.arrivals) < 3:
                await asyncio.sleep(0.01)
            one.stop()
            one.stop()

        result = await read(spec, tmp_path, stop)
    assert result["stopped_early"]
    assert result["errors"] == {"stopped": result["sent"]}
    assert 3 <= result["sent"] < result["scheduled"]


async def test_a_cut_schedule_ends_the_queries(tmp_path: Path) -> None:
    async with serving(steps=[Step(100, 6000)]) as (spec, server):

        async def end(_: Reader) -> None:
            while len(server.arrivals) < 3:
                await asyncio.sleep(0.01)
            cut.write(tmp_path, spec.cut_at(int(time.time() * 1000)).ticks)

        result = await read(spec, tmp_path, end)
    assert 3 <= result["scheduled"] < QueryLoad(Schedule(spec)).total
    assert not result["stopped_early"]


async def test_two_hosts_share_the_queries(tmp_path: Path) -> None:
    async with serving(hosts=2) as (spec, server):
        one, two = await asyncio.gather(
            Reader(spec, 0, tmp_path).run(), Reader(spec, 1, tmp_path).run()
        )
    load = QueryLoad(Schedule(spec))
    assert one["right"] + two["right"] == load.total == len(server.arrivals)
    assert abs(one["right"] - two["right"]) <= 1


# What is followed


@thorough
@given(specs(), st.integers(1, 6), st.data())
def test_every_scheduled_point_of_followed_sensors_is_asked_for(
    spec: LoadSpec, followed: int, data: st.DataObject
) -> None:
    assert spec.queries
    spec = replace(spec, queries=replace(spec.queries, followed=followed))
    schedule = Schedule(spec)
    load = QueryLoad(schedule)
    host = data.draw(st.integers(0, spec.hosts - 1))
    one, node = Following(load, host), data.draw(st.integers(0, len(spec.nodes) - 1))
    now_us = one.due_us(node, data.draw(st.integers(0, spec.end_ms * 1000)))
    query = one.query(node, now_us)
    points = {
        (series.number, schedule.timestamp_ms(series.rank, tick)): tick
        for series in schedule.series()
        if series.number % spec.sensors in follow.places(spec, host)
        for tick in series.ticks
        if schedule.timestamp_ms(series.rank, tick) < now_us // 1000
    }
    if query is None:
        assert not points
        return
    assert query.planned_us == now_us
    assert query.from_ms <= max(spec.start_ms, now_us // 1000 - 60_000)
    points = {point: tick for point, tick in points.items() if point[1] >= query.from_ms}
    assert set(asked_points(load, query)) == points.keys()
    lost = data.draw(st.sets(st.sampled_from(sorted(points)))) if points else set()
    kairos = filled(schedule)
    for series, timestamp in lost:
        del kairos.row(spec, series)[timestamp]
    record = one.answered(query, now_us + 7, ask(load, query, kairos))
    assert (record["begun"], record["ended"]) == (now_us / 1e6, (now_us + 7) / 1e6)
    found = [
        (each["series"], tick, any(tick in range(*span) for span in each["absent"]))
        for each in record["series"]
        for tick in range(*each["ticks"])
    ]
    assert sorted(found) == sorted(
        (series, tick, (series, t) in lost) for (series, t), tick in points.items()
    )


def test_nodes_are_asked_by_turns_a_second_apart() -> None:
    spec = make(nodes=[f"http://127.0.0.{i}:8080" for i in (1, 2, 3)])
    one = Following(QueryLoad(Schedule(spec)), 0)
    start_us = spec.start_ms * 1000
    assert [one.due_us(node, 0) - start_us for node in range(3)] == [10**6, 2 * 10**6, 3 * 10**6]
    for now_us, due_us in ((10**6 - 1, 10**6), (10**6, 4 * 10**6), (9 * 10**6, 10 * 10**6)):
        assert one.due_us(0, start_us + now_us) == start_us + due_us


FOLLOWED = Queries(rate=40, last_s=2, lag_s=1, sensors=3, bucket_s=1, followed=3)


def history(spec: LoadSpec, outdir: Path) -> Document:
    """What the verdict makes of a reader's files."""
    found = of_run(Schedule(spec), outdir)
    assert found
    return found


async def test_points_that_vanish_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "EVERY_US", 50_000)
    async with serving(queries=FOLLOWED) as (spec, server):
        place = follow.places(spec, 0)[1]
        row = server.kairos.row(spec, place)
        times = sorted(row)

        async def vanish(_: Reader) -> None:
            path = query_files.followed_path(tmp_path, 0)
            while not path.read_text().count("\n"):
                await asyncio.sleep(0.01)
            taken = {t: row.pop(t) for t in times[2:4]}
            reads = path.read_text().count("\n")
            while path.read_text().count("\n") < reads + 3:
                await asyncio.sleep(0.01)
            row[times[2]] = taken[times[2]]

        result = await read(spec, tmp_path, vanish)
    found = history(spec, tmp_path)
    assert (found["vanished"], found["found_again"]) == (2, 1)
    assert {point["timestamp_ms"] for point in found["vanished_points"]} == set(times[2:4])
    assert result["followed"] == {
        **{"sensors": 3, "reads": found["reads"], "unanswered": 0, "wrong": 0}
    }
    assert len({id(each) for each in server.arrivals}) == result["sent"] + found["reads"]


async def test_a_failed_read_of_what_is_followed_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "EVERY_US", 50_000)
    async with serving(queries=FOLLOWED) as (spec, server):

        async def fail(_: Reader) -> None:
            path = query_files.followed_path(tmp_path, 0)
            for status, text in ((500, "no"), (200, "<html>"), (200, "")):
                reads = path.read_text().count("\n")
                while path.read_text().count("\n") < reads + 2:
                    await asyncio.sleep(0.01)
                server.status, server.text = status, text

        await read(spec, tmp_path, fail)
    found = history(spec, tmp_path)
    reasons = {row.get("unanswered") for row in lines(query_files.followed_path(tmp_path, 0))}
    assert {"HTTP 500: no", None} < reasons
    assert found["unanswered"] >= 2
    assert (found["vanished"], found["found"] > 0) == (0, True)


async def test_a_wrong_value_of_what_is_followed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "EVERY_US", 50_000)
    async with serving(queries=replace(FOLLOWED, lag_s=60)) as (spec, server):
        row = server.kairos.row(spec, follow.places(spec, 0)[0])
        first = min(row)
        row[first] += 1
        result = await Reader(spec, 0, tmp_path).run()
    # No point is old enough for a query, and yet it went on to the end.
    assert result["sent"] == 0
    assert result["followed"]["wrong"] == result["followed"]["reads"] > 0
    record = lines(query_files.followed_path(tmp_path, 0))[0]
    assert (record["wrong"], record["first_wrong"][0]["t"]) == (1, first)


async def test_a_schedule_without_room_for_a_query(tmp_path: Path) -> None:
    spec = lively("http://127.0.0.1:9", steps=[Step(100, 5)])
    result = await Reader(spec, 0, tmp_path).run()
    assert result["scheduled"] == result["sent"] == 0


# From the command line


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-P", "-m", "loaders.query.reader", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)} | more


def written(spec: LoadSpec, folder: Path) -> Path:
    path = folder / "spec.json"
    path.write_text(spec.to_json())
    return path


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, "parent"])
async def test_signals_and_the_parents_death_end_it_well(
    tmp_path: Path, how: signal.Signals | str
) -> None:
    async with serving(steps=[Step(100, 600)]) as (spec, server):
        # Process 1 is not the parent of the reader: as if the parent had died.
        more = {PARENT_VARIABLE: "1"} if how == "parent" else {}
        process = await asyncio.create_subprocess_exec(
            *command(written(spec, tmp_path), 0, tmp_path), env=environment(**more)
        )
        try:
            while isinstance(how, signal.Signals) and not server.arrivals:
                await asyncio.sleep(0.01)
            if isinstance(how, signal.Signals):
                process.send_signal(how)
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    result = json.loads(query_files.result_path(tmp_path, 0).read_text())
    assert result["stopped_early"]
    assert result["failed"] == 0


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, check=False
    )


def test_usage_errors(tmp_path: Path) -> None:
    good = written(make(), tmp_path)
    cases: list[tuple[list[object], str]] = [
        ([good], "usage"),
        ([good, "x", tmp_path], "usage"),
        ([tmp_path / "none.json", 0, tmp_path], "none.json"),
        ([good, 1, tmp_path], "host: must be between 0 and 0"),
    ]
    for arguments, words in cases:
        done = run(*arguments)
        assert done.returncode == EXIT_USAGE
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    none = tmp_path / "other"
    none.mkdir()
    done = run(written(make(queries=None), none), "0", none)
    assert done.returncode == EXIT_USAGE
    assert "queries: " in done.stderr


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    done = run(written(make(), tmp_path), "0", tmp_path / "nowhere")
    assert done.returncode == EXIT_FILES
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_old_files_are_removed(tmp_path: Path) -> None:
    paths = [
        path(tmp_path, 3)
        for path in (
            query_files.progress_path,
            query_files.histogram_path,
            query_files.answers_path,
            query_files.followed_path,
            query_files.result_path,
        )
    ]
    assert {path.name for path in paths} == {
        "queries-3.jsonl",
        "queries-3.hlog",
        "queries-3.answers.jsonl",
        "queries-3.followed.jsonl",
        "queries-3.json",
    }
    for path in paths:
        path.touch()
    query_files.remove_old(tmp_path, 3)
    assert not any(path.exists() for path in paths)
    query_files.remove_old(tmp_path, 3)
