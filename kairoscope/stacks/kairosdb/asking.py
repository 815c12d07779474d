"""The questions beside a load in KairosDB's words: its query of metrics by REST
(kairosdb.github.io/docs/restapi/QueryMetrics.html)."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kairoscope.stacks.questions import HOUR, LAST, Question, Request


def requests(urls: Sequence[str], questions: Sequence[Question]) -> Iterator[Request]:
    """Each question for one of the nodes at these base URLs, in turn."""
    for question in questions:
        url = urls[question.number % len(urls)]
        # Its end is included.
        span = {"start_absolute": question.from_ms, "end_absolute": question.until_ms - 1}
        document = {**span, "metrics": [{"name": question.metric, **_asked(question)}]}
        found = _series if question.kind == LAST else _points
        yield Request(f"{url}/api/v1/datapoints/query", found, document=document)


def _asked(question: Question) -> dict[str, Any]:
    if question.kind == LAST:
        # A limit is of each series' row in the store (CassandraDatastore of 1.3.0).
        by_series = {"name": "tag", "tags": [question.tag]}
        return {**_of(question), "order": "desc", "limit": 1, "group_by": [by_series]}
    if question.kind == HOUR:
        return _of(question)
    mean = {"name": "avg", "sampling": {"value": 1, "unit": "seconds"}, "align_start_time": True}
    return {"aggregators": [mean]}


def _of(question: Question) -> dict[str, Any]:
    return {"tags": {question.tag: question.texts}}


def _series(body: bytes) -> int:
    return sum(bool(each["values"]) for each in _results(body))


def _points(body: bytes) -> int:
    return sum(len(each["values"]) for each in _results(body))


def _results(body: bytes) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads(body)["queries"][0]["results"]
    return results
