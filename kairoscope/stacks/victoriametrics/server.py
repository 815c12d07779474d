"""What is asked of a VictoriaMetrics server: its counters, and every point back.

Its pages: docs.victoriametrics.com, "Single-node version" (export, force_flush, durability of data
in memory) and "Integrations", of the line protocol (names: measurement_field, a label for each tag
and one for the database). By remote write names are as they are sent.
"""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kairoscope.hosts.inventory import Host
from kairoscope.stacks import asked
from kairoscope.stacks.compared import numbers, pattern
from kairoscope.stacks.questions import HOUR, LAST, MEANS, Question, Request
from kairoscope.stacks.single_session import Found, series_by_key
from loaders.schedule.due import Schedule
from loaders.schedule.protocols import REMOTE_WRITE
from loaders.schedule.spec import LoadSpec
from loaders.schedule.values import ValueType
from loaders.send.line import DATABASE

# Rows in memory alone, and rows that are not even sorted: what a kill takes.
_UNWRITTEN = ('vm_rows{type="storage/inmemory"}', 'vm_pending_rows{type="storage"}')
_COUNTERS = (
    *(
        "vm_rows{",
        "vm_pending_rows{",
        'vm_rows_inserted_total{type="influx"}',
        'vm_rows_inserted_total{type="promremotewrite"}',
        "vm_rows_added_to_storage_total",
    ),
    *("vm_new_timeseries_created_total", "vm_slow_row_inserts_total", "vm_data_size_bytes{"),
    *("vm_parts{", "vm_active_merges{", "vm_rows_ignored_total{"),
)


def selector(spec: LoadSpec) -> str:
    """All series of a load."""
    name, more = _named(spec, pattern(spec.metric))
    labels = [f'__name__=~"{_quoted(name)}"', *(f'{key}="{text}"' for key, text in more.items())]
    labels += [f'{name}=~"{_quoted(pattern(text))}"' for name, text in spec.tags.items()]
    return f"{{{','.join(labels)}}}"


def _quoted(expression: str) -> str:
    return expression.replace("\\", "\\\\").replace('"', '\\"')


def _named(spec: LoadSpec, metric: str) -> tuple[str, dict[str, str]]:
    """The name that it gives a metric, and the labels beside the tags."""
    if spec.protocol == REMOTE_WRITE:
        return metric, {}
    return f"{metric}_value", {"db": DATABASE}


def _key(spec: LoadSpec, metric: str, tags: dict[str, str]) -> str:
    name, more = _named(spec, metric)
    return _labels({"__name__": name, **more, **tags})


def _labels(labels: dict[str, str]) -> str:
    return json.dumps(labels, sort_keys=True)


def _meant(question: Question) -> str:
    """The series of a question: all of the metric if there are none."""
    # However the points have travelled.
    name = re.escape(question.metric)
    labels = [f'__name__=~"{_quoted(name)}|{_quoted(name)}_value"']
    if question.series:
        texts = "|".join(map(re.escape, question.texts))
        labels.append(f'{question.tag}=~"{_quoted(texts)}"')
    return f"{{{','.join(labels)}}}"


def _series(body: bytes) -> int:
    return len(json.loads(body)["data"]["result"])


def _points(body: bytes) -> int:
    return sum(len(one["values"]) for one in json.loads(body)["data"]["result"])


class VictoriaMetricsServer:
    """See `kairoscope.stacks.single_session.Server`."""

    def __init__(self, release: str) -> None:
        """`release` that was built: by `go install` it is not told which it is."""
        self._release = release

    def version(self, host: Host) -> str:
        """Of the module that was built."""
        return self._release

    def trouble(self, host: Host) -> str:
        """Why it is not healthy."""
        said = asked.get(f"{host.url}/health", timeout_s=5)
        return "" if said == b"OK" else f"its health check says {said[:80]!r}"

    def counters(self, host: Host) -> dict[str, float]:
        """Rows, parts and merges, as its page has them."""
        return asked.samples(self._metrics(host), _COUNTERS)

    def waiting(self, host: Host) -> int | None:
        """Rows that are in memory alone."""
        said = asked.samples(self._metrics(host), _UNWRITTEN)
        return int(sum(said.values())) if said else None

    def _metrics(self, host: Host) -> str:
        return asked.get(f"{host.url}/metrics", timeout_s=5).decode()

    def settle(self, host: Host) -> None:
        """Have queries find what it has in memory; that does not bring it to the disk."""
        asked.get(f"{host.url}/internal/force_flush")

    def read(self, host: Host, schedule: Schedule) -> Found:
        """By its export, a line for each series."""
        spec = schedule.spec
        known = series_by_key(schedule, functools.partial(_key, spec))
        kind = ValueType(spec.value_type)
        said = asked.get(
            f"{host.url}/api/v1/export",
            {
                "match[]": selector(spec),
                "start": f"{spec.start_ms / 1000:.3f}",
                "end": f"{(spec.end_ms - 1) / 1000:.3f}",
            },
        )
        for line in said.splitlines():
            with asked.understood():
                found = json.loads(line)
                if not (one := known.get(_labels(found["metric"]))):
                    continue
                values = numbers(kind, np.array(found["values"], dtype=np.float64))
                times = np.array(found["timestamps"], dtype=np.int64)
            yield one, np.stack([times, values], axis=1)

    def count(self, host: Host, schedule: Schedule) -> int:
        """By a query, which does not export."""
        spec = schedule.spec
        query = f"sum(count_over_time({selector(spec)}[{spec.duration_ms}ms]))"
        time = f"{(spec.end_ms - 1) / 1000:.3f}"
        given = {"query": query, "time": time, "nocache": "1", "latency_offset": "1ms"}
        said = asked.get(f"{host.url}/api/v1/query", given)
        with asked.understood():
            found = json.loads(said)["data"]["result"]
            return int(found[0]["value"][1]) if found else 0

    def requests(self, host: Host, questions: Sequence[Question]) -> Iterator[Request]:
        """By MetricsQL: instant queries, of which one with a range alone gives points as they are,
        and a range query. Without `latency_offset` they would leave out the last 30 s."""
        for question in questions:
            end = f"{question.until_ms / 1000:.3f}"
            span_s = (question.until_ms - question.from_ms) // 1000
            series = _meant(question)
            how, given = {
                LAST: ("query", {"query": f"last_over_time({series}[{span_s}s])", "time": end}),
                HOUR: ("query", {"query": f"{series}[{span_s}s]", "time": end}),
                MEANS: (
                    "query_range",
                    {
                        **{"query": f"avg({series})", "step": "1s", "end": end},
                        "start": f"{question.from_ms / 1000 + 1:.3f}",
                    },
                ),
            }[question.kind]
            found = _series if question.kind == LAST else _points
            given["latency_offset"] = "1ms"
            yield Request(f"{host.url}/api/v1/{how}", found, given)

    def data(self, host: Host) -> Path:
        """Of its -storageDataPath."""
        return host.home / "data"

    def empty(self, host: Host) -> None:
        """Delete all series."""
        asked.get(f"{host.url}/api/v1/admin/tsdb/delete_series", {"match[]": '{__name__!=""}'})
