"""What an answer to a query is worth: it is compared with the schedule and the value function.

Nobody here knows which points were acknowledged: what is missing is *late*, never *wrong*. *Wrong*
is only what no delay explains.
"""

from __future__ import annotations

import functools
import json
import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from loaders.query.queries import AGGREGATED, PLACE, RAW, Entry, Query, QueryLoad, period, residues
from loaders.schedule import naming, values
from loaders.schedule.due import Int64s
from loaders.schedule.values import ValueType

RIGHT, LATE, WRONG, FAILED = "right", "late", "wrong", "failed"

_EXAMPLES = 5
_CELLS = 2**20  # values computed at once
_UNIT_ROUNDOFF = Fraction(1, 2**53)


class AnswerError(ValueError):
    """What came back is not an answer of KairosDB to this query; the message says why."""


@dataclass
class Checked:
    """What an answer is worth. Counts are points; for a query for tags, tag values.

    Attributes:
        checked: what had to be there.
        missing: how much of it was not.
        wrong: findings that no delay explains.
        extra: tag values of series that this run has not begun. KairosDB looks them up by row key,
            and a row is three weeks: another run may have left them. So they are counted, and not
            held against the answer.
        first_missing, first_wrong, first_extra: the first few of each.
        absent: of a query for raw points the timestamps (ms) that were not there, by series.
    """

    checked: int = 0
    missing: int = 0
    wrong: int = 0
    extra: int = 0
    first_missing: list[dict[str, Any]] = field(default_factory=list)
    first_wrong: list[dict[str, Any]] = field(default_factory=list)
    first_extra: list[dict[str, Any]] = field(default_factory=list)
    absent: dict[int, list[int]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """RIGHT, LATE (something is missing, and nothing else is off) or WRONG."""
        return WRONG if self.wrong else LATE if self.missing else RIGHT

    def note_missing(self, count: int, **what: Any) -> None:
        """Count what is missing."""
        self.missing += count
        _keep(self.first_missing, what)

    def note_wrong(self, count: int, **what: Any) -> None:
        """Count what is wrong."""
        self.wrong += count
        _keep(self.first_wrong, what)

    def note_extra(self, **what: Any) -> None:
        """Count a tag value that may be another run's."""
        self.extra += 1
        _keep(self.first_extra, what)


def _keep(examples: list[dict[str, Any]], what: dict[str, Any]) -> None:
    if len(examples) < _EXAMPLES:
        examples.append(what)


def check(load: QueryLoad, query: Query, answer: bytes, now_ms: int) -> Checked:
    """Compare the body of an answer with what it should be.

    Args:
        load: the run's queries.
        query: what was asked.
        answer: the body that came with HTTP 200.
        now_ms: epoch ms at which it had come.

    Raises:
        AnswerError: it is not the JSON document that KairosDB would answer.
    """
    checked = Checked()
    readings = len(load.functions) if query.kind == AGGREGATED else 1
    results = _results(answer, len(query.entries) * readings)
    for index, entry in enumerate(query.entries):
        mine = results[index * readings : (index + 1) * readings]
        if query.kind == AGGREGATED:
            _check_buckets(checked, load, query, entry, mine)
        elif query.kind == RAW:
            _check_points(checked, load, query, entry, mine[0])
        else:
            _check_tags(checked, load, query, entry, mine[0], now_ms)
    return checked


# Raw points.


def _check_points(
    checked: Checked, load: QueryLoad, query: Query, entry: Entry, results: list[_Result]
) -> None:
    spec = load.schedule.spec
    asked = {
        (
            entry.metric,
            _fixed({name: [text] for name, text in spec.tags_of(number).items()}),
        ): number
        for number in entry.numbers or ()
    }
    found: dict[int, list[tuple[int, object]]] = {number: [] for number in asked.values()}
    for result in results:
        number = asked.get((result.name, _fixed(result.tags)))
        if number is not None:
            found[number] += result.values
        elif result.values:
            checked.note_wrong(
                len(result.values),
                what="points of a series that was not asked for",
                metric=result.name,
                tags=result.tags,
                t=result.values[0][0],
            )
    wanted: dict[int, dict[int, int]] = {}
    for rank, numbers, ticks in load.living(query, entry):
        times = load.schedule.timestamps_ms(rank, ticks)
        own = values.values(numbers, times)
        wanted[int(numbers[0])] = dict(zip(times.tolist(), own.tolist(), strict=True))
    kind = ValueType(spec.value_type)
    for number, points in found.items():
        _compare(checked, kind, number, wanted.get(number, {}), points)


def _fixed(tags: dict[str, list[str]]) -> tuple[tuple[str, ...], ...]:
    """Tags as a key."""
    return tuple((name, *texts) for name, texts in sorted(tags.items()))


def _compare(
    checked: Checked,
    kind: ValueType,
    number: int,
    wanted: dict[int, int],
    found: list[tuple[int, object]],
) -> None:
    """Compare the points of one series; what is there is taken out of `wanted`."""
    checked.checked += len(wanted)
    for timestamp, stored in found:
        value = wanted.pop(timestamp, None)
        if value is None:
            what = "a point that was never scheduled, or comes twice"
            checked.note_wrong(1, what=what, series=number, t=timestamp, got=stored)
        elif kind.number(stored) != value:
            expected = kind.text(value)
            checked.note_wrong(
                1, what="value", series=number, t=timestamp, expected=expected, got=stored
            )
    if wanted:
        checked.absent[number] = list(wanted)
        checked.note_missing(len(wanted), series=number, t=min(wanted), points=len(wanted))


# Buckets.


@dataclass(frozen=True, eq=False)
class _Buckets:
    """Number, sum and least of the values in each bucket, int64[buckets] each."""

    counts: Int64s
    sums: Int64s
    lowest: Int64s


def _expected_buckets(load: QueryLoad, query: Query, entry: Entry) -> _Buckets:
    size = (query.until_ms - query.from_ms) // load.bucket_ms
    counts = np.zeros(size, dtype=np.int64)
    sums = np.zeros(size, dtype=np.int64)
    lowest = np.full(size, values.LIMIT, dtype=np.int64)
    for rank, numbers, ticks in load.living(query, entry):
        seeds = values.seeds(numbers)[:, None]
        together = max(1, _CELLS // len(numbers))
        for first in range(ticks.start, ticks.stop, together):
            piece = range(first, min(first + together, ticks.stop))
            times = load.schedule.timestamps_ms(rank, piece)
            index = (times - query.from_ms) // load.bucket_ms
            own = values.seeded_values(seeds, times)
            np.add.at(counts, index, len(numbers))
            np.add.at(sums, index, own.sum(axis=0))
            np.minimum.at(lowest, index, own.min(axis=0))
    return _Buckets(counts, sums, lowest)


def _check_buckets(
    checked: Checked,
    load: QueryLoad,
    query: Query,
    entry: Entry,
    results: list[list[_Result]],
) -> None:
    kind = ValueType(load.schedule.spec.value_type)
    buckets = _expected_buckets(load, query, entry)
    checked.checked += int(buckets.counts.sum())
    found = [_by_bucket(checked, load, query, entry, reading) for reading in results]
    rows = zip(buckets.counts.tolist(), buckets.sums.tolist(), buckets.lowest.tolist(), strict=True)
    for index, (count, total, lowest) in enumerate(rows):
        where = {"metric": entry.metric, "t": query.from_ms + index * load.bucket_ms}
        counted = found[0].get(index, 0)
        if type(counted) is not int or not 0 <= counted <= count:
            checked.note_wrong(1, what="count", **where, expected=count, got=counted)
            continue
        missing = count - counted
        if len(found) > 1:
            summed = found[1].get(index, 0)
            short = _points_short(kind, count, total, lowest, summed)
            if short is None:
                expected = total if kind is ValueType.LONG else total / 1000
                checked.note_wrong(1, what="sum", **where, expected=expected, got=summed)
                continue
            missing = max(missing, short)
        if missing:
            checked.note_missing(missing, **where, points=missing)


def _by_bucket(
    checked: Checked, load: QueryLoad, query: Query, entry: Entry, results: list[_Result]
) -> dict[int, object]:
    """Aggregated values by the number of their bucket."""
    buckets = range((query.until_ms - query.from_ms) // load.bucket_ms)
    found: dict[int, object] = {}
    for result in results:
        for timestamp, stored in result.values:
            index, rest = divmod(timestamp - query.from_ms, load.bucket_ms)
            if rest or index not in buckets or index in found:
                what = "a bucket that is none, or comes twice"
                checked.note_wrong(1, what=what, metric=entry.metric, t=timestamp, got=stored)
            else:
                found[index] = stored
    return found


def _points_short(
    kind: ValueType, count: int, total: int, lowest: int, summed: object
) -> int | None:
    """How many points at least a bucket's sum lacks: 0 or 1; None if it is wrong.

    KairosDB adds doubles. A sum of longs is exact, as below 2⁵³ no digit is lost. Doubles are
    rounded when they are read and at each addition: the sum of n positive ones is off by at most
    nu / (1 - nu) of itself, u = 2⁻⁵³, in whatever order they are added (Higham, Accuracy and
    Stability of Numerical Algorithms, section 4.2).

    Count and sum are two readings, and at consistency ONE the second may see less than the first:
    a full count does not prove that the sum is full. So a sum that lacks what points could make up
    is taken for late. Queries for raw points tell for certain.
    """
    if isinstance(summed, bool) or not isinstance(summed, int | float) or not math.isfinite(summed):
        return None
    scale, roundings = (1, 0) if kind is ValueType.LONG else (1000, count)
    tolerance = total * roundings * _UNIT_ROUNDOFF / (1 - roundings * _UNIT_ROUNDOFF)
    lacks = total - Fraction(summed) * scale
    if abs(lacks) <= tolerance:
        return 0
    some = lowest - tolerance <= lacks <= total - lowest + tolerance
    return 1 if some or (summed == 0 and count) else None


# Tags.


def _check_tags(
    checked: Checked,
    load: QueryLoad,
    query: Query,
    entry: Entry,
    results: list[_Result],
    now_ms: int,
) -> None:
    found: dict[str, set[str]] = {}
    for result in results:
        if result.name != entry.metric:
            checked.note_wrong(1, what="metric", metric=entry.metric, got=result.name)
            continue
        for name, texts in result.tags.items():
            found.setdefault(name, set()).update(texts)
    required = _required_tags(load, query, entry)
    for name, needed in required.items():
        checked.checked += len(needed)
        if absent := sorted(needed - found.get(name, set())):
            checked.note_missing(
                len(absent), metric=entry.metric, tag=name, values=absent[:_EXAMPLES]
            )
    for name, there in found.items():
        for text in sorted(there - required.get(name, set())):
            what = {"metric": entry.metric, "tag": name, "got": text}
            if text not in entry.tags.get(name, [text]):
                checked.note_wrong(1, what="a value that the filter does not let pass", **what)
            elif not _is_begun(load, entry, name, text, now_ms):
                checked.note_extra(**what)


def _required_tags(load: QueryLoad, query: Query, entry: Entry) -> dict[str, set[str]]:
    """Tag values of the series that have points in the span."""
    living = [numbers for _, numbers, _ in load.living(query, entry)]
    if not living:
        return {}
    numbers = np.concatenate(living)
    required = {}
    for name, pattern in load.schedule.spec.tags.items():
        # As few series as give all texts.
        telling = numbers if "{n}" in pattern else np.unique(numbers % period(pattern))
        required[name] = {naming.expand(pattern, number) for number in telling.tolist()}
    return required


def _is_begun(load: QueryLoad, entry: Entry, name: str, text: str, now_ms: int) -> bool:
    """Whether a series that an entry asks for, and that has begun, has this tag value."""
    pattern = load.schedule.spec.tags.get(name)
    if pattern is None:
        return False
    if entry.numbers is not None:
        return any(
            naming.expand(pattern, number) == text and load.begun(number, now_ms)
            for number in entry.numbers
        )
    if "{n}" not in pattern:
        return bool(residues(pattern, text).any())
    number = series_number(pattern, text)
    return (
        number is not None
        and bool(load.passing(entry, np.array([number]))[0])
        and load.begun(number, now_ms)
    )


def series_number(pattern: str, text: str) -> int | None:
    """The series for which a pattern with "{n}" gives a text, if there is one."""
    match = _inverse(pattern).fullmatch(text)
    if match and naming.expand(pattern, number := int(match["n"])) == text:
        return number
    return None


@functools.lru_cache(maxsize=64)
def _inverse(pattern: str) -> re.Pattern[str]:
    """Matches the texts of a pattern; its group "n" is the series number."""
    literal, *rest = PLACE.split(pattern)
    expression = re.escape(literal)
    for modulus, literal in zip(rest[::2], rest[1::2], strict=True):
        named = modulus is None and "(?P<n>" not in expression
        # At most as many digits as an int64 surely holds.
        expression += ("(?P<n>[0-9]{1,18})" if named else "[0-9]+") + re.escape(literal)
    return re.compile(expression)


# The document.


@dataclass(frozen=True)
class _Result:
    name: str
    tags: dict[str, list[str]]
    values: list[tuple[int, object]]


def _results(answer: bytes, metrics: int) -> list[list[_Result]]:
    """The results for each metric of a query.

    Raises:
        AnswerError: not such a document.
    """
    try:
        document = json.loads(answer)
    except ValueError as error:
        raise AnswerError(f"not JSON: {error}") from error
    queries = document.get("queries") if isinstance(document, dict) else None
    if not isinstance(queries, list) or len(queries) != metrics:
        raise AnswerError(f'no "queries" with one answer for each of {metrics} metrics')
    parsed = []
    for one in queries:
        results = one.get("results") if isinstance(one, dict) else None
        if not isinstance(results, list):
            raise AnswerError('an answer without "results"')
        parsed.append([_result(result) for result in results])
    return parsed


def _result(result: Any) -> _Result:
    if not isinstance(result, dict):
        raise AnswerError("a result that is not an object")
    name, tags, points = result.get("name"), result.get("tags"), result.get("values")
    if not isinstance(name, str) or not isinstance(tags, dict) or not isinstance(points, list):
        raise AnswerError('a result without "name", "tags" or "values"')
    if not all(isinstance(texts, list) for texts in tags.values()) or not all(
        isinstance(text, str) for texts in tags.values() for text in texts
    ):
        raise AnswerError('"tags" that are not lists of texts')
    for point in points:
        match point:
            case [int(), _]:
                pass
            case _:
                raise AnswerError(f"a point that is not [timestamp, value]: {str(point)[:100]}")
    return _Result(name, tags, points)
