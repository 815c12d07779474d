"""Read series of a run back through KairosDB's query API and compare what each point is."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np

from kairoscope.errors import UserError
from kairoscope.hosts.secret_files import Access
from kairoscope.stacks.compared import compare
from kairoscope.verdict.settlement import SeriesResult
from loaders.schedule import naming
from loaders.schedule.due import Int64s, Schedule, Series
from loaders.schedule.spec import LoadSpec
from loaders.schedule.values import LIMIT, ValueType

# KairosDB builds an answer in memory, at about 25 bytes a point as JSON. Large enough that the
# request's own cost vanishes.
POINTS_PER_QUERY = 200_000
# A query answers its metrics one after the other: more of them save little.
METRICS_PER_QUERY = 50
# Of one metric, told apart by a tag. Each such query walks over the row keys of all its series, so
# few large ones are cheaper than many.
SERIES_PER_METRIC = 10_000
CONCURRENCY = 4
TIMEOUT_S = 300
SETTLE_S = (2.0, 5.0, 10.0)
"""Pauses before series are asked for again of which points are missing."""
AGAIN_S = (2.0, 10.0)
"""Pauses before all nodes are asked again of which none has answered: a store that is busy right
after a load has timeouts, and KairosDB refuses queries while its memory is short."""

Spans = list[tuple[int, int]]
"""Spans of time that follow each other: (first, last) epoch ms, both included."""


@dataclass(slots=True)
class _Metric:
    """One metric of a query, and the series in it by the text of their tag ("" without one).

    `points` are those that the series should have.
    """

    name: str
    tag: str = ""
    series: dict[str, Series] = field(default_factory=dict)
    points: int = 0


@dataclass(slots=True)
class _Found:
    """Points of a series as they come in: int64[n, 2] of timestamp in ms and value."""

    points: list[Int64s] = field(default_factory=list)
    unexpected: int = 0


def spans(schedule: Schedule) -> Spans:
    """The time of the run, cut so that no series has more than POINTS_PER_QUERY points in one."""
    spec = schedule.spec
    # Rank 0 is the first of every tick.
    cuts = [
        schedule.timestamp_ms(0, tick)
        for tick in range(POINTS_PER_QUERY, spec.ticks, POINTS_PER_QUERY)
    ]
    starts, ends = [spec.start_ms, *cuts], [*cuts, spec.end_ms]
    return [(first, end - 1) for first, end in zip(starts, ends, strict=True)]


def telling_tag(spec: LoadSpec) -> str:
    """The tag that tells the series of a metric apart; "" if each has a metric of its own."""
    if "{n}" in spec.metric:
        return ""
    return next(name for name, pattern in spec.tags.items() if "{n}" in pattern)


def _varying_tags(spec: LoadSpec) -> list[str]:
    return [name for name, pattern in spec.tags.items() if "{n" in pattern]


def _metrics(schedule: Schedule, series: Iterable[Series]) -> Iterator[_Metric]:
    """Series by metric, as many together as may be in one answer."""
    spec = schedule.spec
    tag = telling_tag(spec)
    filling: dict[str, _Metric] = {}
    for one in series:
        name = spec.metric_name(one.number)
        if not tag:
            yield _Metric(name, "", {"": one}, len(one.ticks))
            continue
        metric = filling.setdefault(name, _Metric(name, tag))
        full = len(metric.series) == SERIES_PER_METRIC
        if metric.series and (full or metric.points + len(one.ticks) > POINTS_PER_QUERY):
            yield metric
            metric = filling[name] = _Metric(name, tag)
        metric.series[naming.expand(spec.tags[tag], one.number)] = one
        metric.points += len(one.ticks)
    yield from filling.values()


def _chunks(schedule: Schedule, series: Iterable[Series]) -> Iterator[list[_Metric]]:
    """The metrics of each query, so that an answer has at most POINTS_PER_QUERY points a span."""
    chunk: list[_Metric] = []
    points = 0
    for metric in _metrics(schedule, series):
        full = len(chunk) == METRICS_PER_QUERY
        if chunk and (full or points + metric.points > POINTS_PER_QUERY):
            yield chunk
            chunk, points = [], 0
        chunk.append(metric)
        points += metric.points
    if chunk:
        yield chunk


def query(spec: LoadSpec, metrics: list[_Metric], span: tuple[int, int]) -> dict[str, Any]:
    """KairosDB query for all points of some metrics' series in a span of time."""
    asked: list[dict[str, Any]] = []
    varying = _varying_tags(spec)
    for metric in metrics:
        if not metric.tag:
            tags = {k: [v] for k, v in spec.tags_of(metric.series[""].number).items()}
            asked.append({"name": metric.name, "tags": tags})
            continue
        # Other tags that vary are not asked for but looked at: a point with a wrong one must show.
        tags = {k: [v] for k, v in spec.tags.items() if k not in varying}
        tags[metric.tag] = list(metric.series)
        group_by = [{"name": "tag", "tags": varying}]
        asked.append({"name": metric.name, "tags": tags, "group_by": group_by})
    return {"start_absolute": span[0], "end_absolute": span[1], "metrics": asked}


def _parse(
    spec: LoadSpec, metrics: list[_Metric], document: dict[str, Any], found: dict[Series, _Found]
) -> None:
    """Add an answer's points to those of their series."""
    kind = ValueType(spec.value_type)
    for metric, answer in zip(metrics, document["queries"], strict=True):
        # A series has several results if it has values of several types.
        for result in answer["results"]:
            if not result["values"]:
                continue
            series = metric.series.get("")
            if metric.tag:
                group = next(g["group"] for g in result["group_by"] if g["name"] == "tag")
                series = metric.series[group[metric.tag]]
                tags = spec.tags_of(series.number)
                if any(tags[name] != text for name, text in group.items()):
                    found[series].unexpected += len(result["values"])
                    continue
            assert series is not None  # for the type checker
            # What is beyond any value of ours need not fit into an integer of 64 bits.
            pairs = [(t, min(kind.number(value), LIMIT)) for t, value in result["values"]]
            found[series].points.append(np.array(pairs, dtype=np.int64))


async def _ask(
    http: aiohttp.ClientSession, nodes: list[str], document: dict[str, Any]
) -> dict[str, Any]:
    """The answer of the first of these nodes that gives one: any can answer for any series.

    UserError, with what was wrong with the first, if none does.
    """
    problem = ""
    for node in nodes:
        try:
            async with http.post(f"{node}/api/v1/datapoints/query", json=document) as answer:
                if answer.status == 200:
                    found: dict[str, Any] = await answer.json()
                    return found
                body = (await answer.text())[:300]
                said = f"{node}: read-back query answered {answer.status}: {body}"
                problem = problem or said
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = problem or f"{node}: read-back failed: {error!r}"
    raise UserError(problem)


async def _ask_again(
    http: aiohttp.ClientSession, nodes: list[str], document: dict[str, Any]
) -> dict[str, Any]:
    """As `_ask`, some times if need be: a read-back of hours must not end by a moment's trouble."""
    for pause in AGAIN_S:
        try:
            return await _ask(http, nodes, document)
        except UserError:
            await asyncio.sleep(pause)
    return await _ask(http, nodes, document)


def _client(nodes: list[str], access: Access | None) -> aiohttp.ClientSession:
    tls: ssl.SSLContext | bool = True
    headers: dict[str, str] = {}
    if access and all(node.startswith("https:") for node in nodes):
        tls, headers = access.tls, access.headers
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        connector=aiohttp.TCPConnector(ssl=tls),
        headers=headers,
    )


async def _read(
    schedule: Schedule, series: Iterable[Series], here: list[str], access: Access | None
) -> AsyncIterator[SeriesResult]:
    spec = schedule.spec
    within = spans(schedule)

    async def one(number: int, metrics: list[_Metric]) -> list[SeriesResult]:
        found = {s: _Found() for metric in metrics for s in metric.series.values()}
        # Taking turns spreads the work over the nodes.
        turn = number % len(here)
        nodes = here[turn:] + here[:turn]
        for span in within:
            _parse(spec, metrics, await _ask_again(http, nodes, query(spec, metrics, span)), found)
        nothing = np.empty((0, 2), dtype=np.int64)
        return [
            compare(schedule, s, np.concatenate([nothing, *each.points]), each.unexpected)
            for s, each in found.items()
        ]

    async with _client(here, access) as http:
        under_way: set[asyncio.Task[list[SeriesResult]]] = set()
        try:
            # As many as are asked for at a time, not as many as there are: a run may have millions.
            for number, metrics in enumerate(_chunks(schedule, series)):
                under_way.add(asyncio.create_task(one(number, metrics)))
                if len(under_way) == CONCURRENCY:
                    done, under_way = await asyncio.wait(
                        under_way, return_when=asyncio.FIRST_COMPLETED
                    )
                    for result in [r for task in done for r in task.result()]:
                        yield result
            while under_way:
                done, under_way = await asyncio.wait(under_way)
                for result in [r for task in done for r in task.result()]:
                    yield result
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)


async def read_all(
    schedule: Schedule,
    incomplete: Callable[[SeriesResult], bool],
    on_result: Callable[[SeriesResult], None],
    settle_s: tuple[float, ...] = SETTLE_S,
    nodes: list[str] | None = None,
    access: Access | None = None,
    series: Iterable[Series] | None = None,
    seen: Mapping[int, SeriesResult] | None = None,
    on_last: Callable[[], object] = lambda: None,
) -> int:
    """Read series back, all if none are given; ask again for those that `incomplete` names.

    A value that was wrong once stays wrong, whatever comes back later, and what was unexpected
    stays so; `seen` has what was found before, by number of the series.

    `on_result` gets each series once, with what came back last. Returns how many passes it took,
    with the pauses of `settle_s` between them.

    With consistency ONE a read may meet the one replica that is still behind (it catches up by
    hints and read repair); so a point is missing only if it stays missing over the passes.
    `nodes` are base URLs of KairosDB nodes as this machine reaches them, where they are not those
    that the loaders use; `access` is for https ones. `on_last` is called before the last pass, if
    it comes to that: nothing is missing but what was missing then.

    UserError if no KairosDB node answers.
    """
    here = nodes or schedule.spec.nodes
    todo: Iterable[Series] = schedule.series() if series is None else series
    before = dict(seen or {})
    passes = 1
    for pause in settle_s:
        again: list[Series] = []
        async for result in _read(schedule, todo, here, access):
            merged = _remembering(before.get(result.series.number), result)
            if incomplete(result):
                again.append(result.series)
                before[result.series.number] = merged
            else:
                on_result(merged)
        if not again:
            return passes
        todo = again
        passes += 1
        await asyncio.sleep(pause)
    on_last()
    async for result in _read(schedule, todo, here, access):
        on_result(_remembering(before.get(result.series.number), result))
    return passes


def _remembering(before: SeriesResult | None, now: SeriesResult) -> SeriesResult:
    """What came back now, with the wrong and unexpected points of earlier looks at the series."""
    if before is None:
        return now
    wrong = before.present & ~before.right
    return SeriesResult(
        now.series,
        now.present | wrong,
        now.right & ~wrong,
        max(now.unexpected, before.unexpected),
    )


async def read_once(
    schedule: Schedule,
    series: Iterable[Series],
    on_result: Callable[[SeriesResult], None],
    nodes: list[str] | None = None,
    access: Access | None = None,
) -> None:
    """Read some series back a single time; otherwise as `read_all`."""
    async for result in _read(schedule, series, nodes or schedule.spec.nodes, access):
        on_result(result)


async def already_there(
    schedule: Schedule, nodes: list[str] | None = None, access: Access | None = None
) -> int:
    """How many points of the run's first series the store already has in the run's time span.

    `nodes` and `access` as of `read_all`.
    """
    here = nodes or schedule.spec.nodes
    first = next(_chunks(schedule, schedule.series()))
    series = [one for metric in first for one in metric.series.values()]
    return sum(
        [r.unexpected + int(r.present.sum()) async for r in _read(schedule, series, here, access)]
    )
