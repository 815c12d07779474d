"""What is asked of an InfluxDB 1.x server, by InfluxQL (docs.influxdata.com/influxdb/v1)."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope.hosts.inventory import Host
from kairoscope.stacks import asked
from kairoscope.stacks.compared import numbers, pattern
from kairoscope.stacks.questions import HOUR, LAST, MEANS, Question, Request
from kairoscope.stacks.single_session import Found, metric_and_tags, series_by_key
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec
from loaders.schedule.values import ValueType
from loaders.send.line import DATABASE

# Of /debug/vars: what was written, and what waits in its caches; those of a shard are added up.
_COUNTED = ("write", "tsm1_cache", "tsm1_wal", "tsm1_engine")


def _of(spec: LoadSpec) -> str:
    """The measurements of a load, by a regular expression, and its time."""
    names = pattern(spec.metric).replace("/", "\\/")
    return f"FROM /^{names}$/ WHERE time >= {spec.start_ms}ms AND time < {spec.end_ms}ms"


def _rows(body: bytes) -> int:
    """Rows of an answer; of the last points that is one for each series."""
    (result,) = json.loads(body)["results"]
    if "error" in result:
        raise ValueError(result["error"])
    return sum(len(one["values"]) for one in result.get("series", []))


class InfluxDBServer:
    """See `kairoscope.stacks.single_session.Server`."""

    def version(self, host: Host) -> str:
        """As it reports it to its own statistics."""
        with asked.understood():
            for one in self._ask(host, "SHOW DIAGNOSTICS"):
                if one["name"] == "build":
                    return str(dict(zip(one["columns"], one["values"][0], strict=True))["Version"])
        return "unknown"

    def _ask(self, host: Host, query: str) -> Iterator[dict[str, Any]]:
        """The series of an answer, chunk by chunk. ValueError if it is an error."""
        given = {"db": DATABASE, "q": query, "epoch": "ms", "chunked": "true"}
        for line in asked.get(f"{host.url}/query", given).splitlines():
            with asked.understood():
                said = json.loads(line)
                for result in said.get("results", [said]):
                    if "error" in result:
                        raise ValueError(f"{query}: {result['error']}")
                    yield from result.get("series", [])

    def trouble(self, host: Host) -> str:
        """Why it does not answer, or lacks its database."""
        with asked.understood():
            names = [row[0] for one in self._ask(host, "SHOW DATABASES") for row in one["values"]]
        return "" if DATABASE in names else f"it has no database {DATABASE}"

    def counters(self, host: Host) -> dict[str, float]:
        """Points and errors of writes; caches, write-ahead log and compactions of all shards."""
        found: dict[str, float] = {}
        said = asked.get(f"{host.url}/debug/vars", timeout_s=5)
        with asked.understood():
            for one in json.loads(said).values():
                if not isinstance(one, dict) or one.get("name") not in _COUNTED:
                    continue
                for key, value in one["values"].items():
                    if isinstance(value, int | float):
                        name = f"{one['name']}.{key}"
                        found[name] = found.get(name, 0) + value
        return found

    def waiting(self, host: Host) -> int | None:
        """It does not tell, and nothing does: an acknowledged point is in its log."""
        return None

    def settle(self, host: Host) -> None:
        """Queries find points from their acknowledgement on."""

    def read(self, host: Host, schedule: Schedule) -> Found:
        """Every point of the load's measurements, by series."""
        spec = schedule.spec
        known, kind = series_by_key(schedule, metric_and_tags), ValueType(spec.value_type)
        query = f"SELECT value {_of(spec)} GROUP BY *"
        for one in self._ask(host, query):
            with asked.understood():
                tags = one.get("tags", {})
                # Of points by remote write the metric's name may be a tag as well.
                tags.pop("__name__", None)
                if not (series := known.get(metric_and_tags(one["name"], tags))):
                    continue
                times = np.array([row[0] for row in one["values"]], dtype=np.int64)
                stored = np.array([row[1] for row in one["values"]], dtype=np.float64)
            yield series, np.stack([times, numbers(kind, stored)], axis=1)

    def count(self, host: Host, schedule: Schedule) -> int:
        """By its own aggregate."""
        spec = schedule.spec
        query = f"SELECT count(value) {_of(spec)}"
        with asked.understood():
            return sum(int(one["values"][0][1]) for one in self._ask(host, query))

    def requests(self, host: Host, questions: Sequence[Question]) -> Iterator[Request]:
        """By InfluxQL: `last`, raw points, `mean` by time."""
        for question in questions:
            within = f"time >= {question.from_ms}ms AND time < {question.until_ms}ms"
            tag = f'"{question.tag}"'
            meant = " OR ".join(f"{tag} = '{text}'" for text in question.texts)
            select, where, how = {
                LAST: ("last(value)", f"({meant}) AND {within}", f" GROUP BY {tag}"),
                HOUR: ("value", f"{meant} AND {within}", ""),
                MEANS: ("mean(value)", within, " GROUP BY time(1s) fill(none)"),
            }[question.kind]
            of = f'FROM "{question.metric}" WHERE {where}'
            given = {"db": DATABASE, "epoch": "ms", "q": f"SELECT {select} {of}{how}"}
            yield Request(f"{host.url}/query", _rows, given)

    def data(self, host: Host) -> Path:
        """Its data files and its write-ahead log."""
        return host.home / "data"

    def empty(self, host: Host) -> None:
        """Drop all series."""
        list(self._ask(host, "DROP SERIES FROM /.*/"))
