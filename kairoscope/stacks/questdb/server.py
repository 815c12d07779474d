"""What is asked of a QuestDB server, by SQL over its REST interface (questdb.com/docs).

A metric is a table there, a tag a column; a table has the column `timestamp` in µs.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope.hosts.inventory import Host
from kairoscope.stacks import asked
from kairoscope.stacks.compared import numbers
from kairoscope.stacks.questions import HOUR, LAST, MEANS, Question, Request
from kairoscope.stacks.single_session import Found, metric_and_tags, series_by_key, wait_for_nothing
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec
from loaders.schedule.values import ValueType

_COUNTERS = (
    *("questdb_commits_total", "questdb_o3_commits_total", "questdb_committed_rows_total"),
    *("questdb_physically_written_rows_total", "questdb_wal_", "questdb_line_http_"),
)
_SETTLE_S = 60


def _within(spec: LoadSpec) -> str:
    return f"timestamp >= {spec.start_ms * 1000} AND timestamp < {spec.end_ms * 1000}"


class QuestDBServer:
    """See `kairoscope.stacks.single_session.Server`."""

    def _ask(self, host: Host, query: str) -> list[list[Any]]:
        """The rows of an answer. ValueError where there are none, as of what changes tables."""
        with asked.understood():
            return list(json.loads(_exec(host, query))["dataset"])

    def _one(self, host: Host, query: str) -> Any:
        """The first cell of an answer."""
        with asked.understood():
            return self._ask(host, query)[0][0]

    def version(self, host: Host) -> str:
        """Such as QuestDB 9.3.4, of its build."""
        said = str(self._one(host, "SELECT build()"))
        return said.removeprefix("Build Information: ").partition(",")[0]

    def trouble(self, host: Host) -> str:
        """Why it does not answer, or a table that takes nothing any more."""
        names = [row[0] for row in self._ask(host, "SELECT name FROM wal_tables() WHERE suspended")]
        return f"suspended tables: {', '.join(names)}" if names else ""

    def counters(self, host: Host) -> dict[str, float]:
        """Rows and commits, of its write-ahead log and of its tables."""
        url = f"http://{host.address}:{host.vars['listens']['metrics']}/metrics"
        return asked.samples(asked.get(url, timeout_s=5).decode(), _COUNTERS)

    def waiting(self, host: Host) -> int | None:
        """Rows of its write-ahead log that are in no table yet, so that no query finds them; after
        it was killed at least as many.

        It counts rows from its start on, forgets with that what waited before, and then takes off
        what it never counted: below zero (questdb/questdb#7470). Transactions it has on the disk,
        of which one that brings points has one at least.
        """
        rows = "SELECT sum(wal_pending_row_count) FROM tables() WHERE wal_pending_row_count > 0"
        transactions = (
            "SELECT sum(sequencerTxn - writerTxn) FROM wal_tables() WHERE sequencerTxn > writerTxn"
        )
        return max(int(self._one(host, query) or 0) for query in (rows, transactions))

    def settle(self, host: Host) -> None:
        """Wait until its log is applied, for a while. ValueError if a table is suspended: its log
        has points that no query finds, and that are not lost, until somebody looks."""
        wait_for_nothing(self, host, _SETTLE_S)
        if trouble := self.trouble(host):
            raise ValueError(trouble)

    def _tables(self, host: Host, spec: LoadSpec, known: set[str]) -> list[str]:
        """The load's metrics of which there is a table."""
        there = {row[0] for row in self._ask(host, "SELECT table_name FROM tables()")}
        return sorted(known & there)

    def read(self, host: Host, schedule: Schedule) -> Found:
        """Table by table, as CSV."""
        spec = schedule.spec
        kind, tags = ValueType(spec.value_type), sorted(spec.tags)
        known = series_by_key(schedule, metric_and_tags)
        columns = "".join(f'"{name}", ' for name in tags)
        for table in self._tables(host, spec, _metrics(schedule)):
            query = f"SELECT {columns}timestamp / 1000 ms, value {_of(table, spec)}"
            said = asked.get(f"{host.url}/exp", {"query": query}).decode()
            found: dict[tuple[str, ...], list[tuple[int, float]]] = {}
            rows = csv.reader(io.StringIO(said))
            next(rows, None)  # the names
            for *texts, ms, value in rows:
                found.setdefault(tuple(texts), []).append((int(ms), float(value or "nan")))
            for of_tags, points in found.items():
                if one := known.get(metric_and_tags(table, dict(zip(tags, of_tags, strict=True)))):
                    times = np.array([ms for ms, _ in points], dtype=np.int64)
                    values = numbers(kind, np.array([v for _, v in points], dtype=np.float64))
                    yield one, np.stack([times, values], axis=1)

    def count(self, host: Host, schedule: Schedule) -> int:
        """By its own aggregate."""
        spec = schedule.spec
        return sum(
            int(self._one(host, f"SELECT count() {_of(table, spec)}"))
            for table in self._tables(host, spec, _metrics(schedule))
        )

    def requests(self, host: Host, questions: Sequence[Question]) -> Iterator[Request]:
        """By SQL: LATEST ON, rows, SAMPLE BY."""
        for question in questions:
            within = f"timestamp >= {question.from_ms * 1000}"
            within += f" AND timestamp < {question.until_ms * 1000}"
            tag = f'"{question.tag}"'
            meant = f"{tag} IN ({', '.join(map(_text, question.texts))})"
            columns, where, how = {
                LAST: (
                    *(f"{tag}, timestamp, value", f"{meant} AND {within}"),
                    f" LATEST ON timestamp PARTITION BY {tag}",
                ),
                HOUR: ("timestamp, value", f"{meant} AND {within}", ""),
                MEANS: ("timestamp, avg(value)", within, " SAMPLE BY 1s"),
            }[question.kind]
            of = f"FROM '{question.metric}' WHERE {where}"
            yield Request(f"{host.url}/exec", _rows, {"query": f"SELECT {columns} {of}{how}"})

    def data(self, host: Host) -> Path:
        """Its tables and their logs."""
        return host.home / "data" / "db"

    def empty(self, host: Host) -> None:
        """Drop all tables, which is answered without rows."""
        _exec(host, "DROP ALL TABLES")


def _exec(host: Host, query: str) -> bytes:
    """The answer to a statement; OSError, with its words, if it refuses it (HTTP 400)."""
    return asked.get(f"{host.url}/exec", {"query": query})


def _rows(body: bytes) -> int:
    return len(json.loads(body)["dataset"])


def _text(text: str) -> str:
    return f"'{text}'"


def _metrics(schedule: Schedule) -> set[str]:
    return {schedule.spec.metric_name(one.number) for one in schedule.series()}


def _of(table: str, spec: LoadSpec) -> str:
    """Points of a table in the load's time."""
    return f"FROM '{table}' WHERE {_within(spec)}"
