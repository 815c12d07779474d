"""What is asked of Gnocchi, by its REST interface (gnocchi.osci.io, REST API usage).

All sensors are metrics of one resource, by their dotted paths; a metric has an aggregate for each
of the methods of its archive policy, and what it was aggregated from is not kept.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope.hosts.inventory import Host
from kairoscope.stacks import asked
from kairoscope.stacks.compared import numbers, pattern
from kairoscope.stacks.gnocchi import probes
from kairoscope.stacks.questions import HOUR, LAST, MEANS, Question, Request
from kairoscope.stacks.single_session import Found, series_by_key, wait_for_nothing
from kairoscope.stacks.stack import Probe
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec
from loaders.schedule.values import ValueType
from loaders.send.encode import RESOURCE, path_of

# The methods of the role's archive policy: of one point both are exact.
_LAST, _COUNT = "last", "count"
# Metrics asked for at once: some thousand points in an answer.
_AT_ONCE = 100
_SETTLE_S = 60
_NOT_THERE = 404

# [time as text, granularity, value] each.
Aggregate = list[tuple[str, float, float]]


def _points(body: bytes) -> int:
    return len(json.loads(body))


def _series(body: bytes) -> int:
    return sum(bool(of[_LAST]) for of in json.loads(body)["measures"].values())


def _seconds(body: bytes) -> int:
    return len(json.loads(body)["measures"]["aggregated"])


class GnocchiServer:
    """See `kairoscope.stacks.single_session.Server`."""

    def version(self, host: Host) -> str:
        """Of its build."""
        with asked.understood():
            return str(json.loads(asked.get(host.url))["build"])

    def _status(self, host: Host) -> dict[str, Any]:
        said = asked.get(f"{host.url}/v1/status", {"details": "false"}, timeout_s=10)
        status: dict[str, Any] = json.loads(said)
        return status

    def trouble(self, host: Host) -> str:
        """Why it does not answer; its index is not there, or nobody aggregates."""
        asked.get(f"{host.url}/v1/archive_policy_rule/{RESOURCE}")
        with asked.understood():
            processors = self._status(host)["metricd"]["processors"]
        return "" if processors else "no metricd: what it takes is not aggregated"

    def counters(self, host: Host) -> dict[str, float]:
        """What waits, and what its metricd have done since they started, added up."""
        status, found = self._status(host), dict[str, float]()
        with asked.understood():
            waiting = status["storage"]["summary"]
            found["metrics waiting"] = float(waiting["metrics"])
            found["bundles waiting"] = float(waiting["measures"])
            for told in status["metricd"]["statistics"].values():
                for name, value in told.items():
                    found[name] = found.get(name, 0) + float(value)
        return found

    def waiting(self, host: Host) -> int | None:
        """Bundles that are not aggregated yet: what a request had of one metric, whatever its
        points are."""
        with asked.understood():
            return int(self._status(host)["storage"]["summary"]["measures"])

    def settle(self, host: Host) -> None:
        """Wait until all is aggregated, for a while."""
        wait_for_nothing(self, host, _SETTLE_S)

    def _metrics(self, host: Host) -> dict[str, str]:
        """Ids of all metrics by name."""
        said = json.loads(asked.get(f"{host.url}/v1/resource/generic/{RESOURCE}"))
        with asked.understood():
            return dict(said["metrics"])

    def _aggregates(
        self, host: Host, spec: LoadSpec, metrics: dict[str, str], method: str
    ) -> Iterator[tuple[str, Aggregate]]:
        """By metric's name, in the load's time."""
        window = f"start={spec.start_ms // 1000}&stop={-(-spec.end_ms // 1000)}"
        names = list(metrics)
        for first in range(0, len(names), _AT_ONCE):
            part = names[first : first + _AT_ONCE]
            wanted = {"operations": ["metric", *([metrics[name], method] for name in part)]}
            said = asked.send("POST", f"{host.url}/v1/aggregates?{window}", wanted)
            with asked.understood():
                measures = json.loads(said)["measures"]
                found = [(name, measures[metrics[name]][method]) for name in part]
            yield from found

    def read(self, host: Host, schedule: Schedule) -> Found:
        """The last of each second, which is all there is. Of a second the rest, which is the same
        for all points of a series, comes from the schedule."""
        spec = schedule.spec
        kind, known = ValueType(spec.value_type), series_by_key(schedule, path_of)
        there = {name: id for name, id in self._metrics(host).items() if name in known}
        for name, points in self._aggregates(host, spec, there, _LAST):
            one = known[name]
            # Its times end in "+00:00", which numpy does not take.
            seconds = np.array([text[:19] for text, _, _ in points], dtype="datetime64[s]")
            ms = seconds.astype(np.int64) * 1000
            ms += schedule.timestamp_ms(one.rank, one.ticks.start) % 1000
            stored = np.array([value for _, _, value in points], dtype=np.float64)
            inside = (ms >= spec.start_ms) & (ms < spec.end_ms)
            yield one, np.stack([ms[inside], numbers(kind, stored[inside])], axis=1)

    def count(self, host: Host, schedule: Schedule) -> int:
        """By its own aggregate, of all metrics that may be the load's."""
        spec = schedule.spec
        ours = re.compile(pattern(path_of(spec.metric, spec.tags)))
        there = {name: id for name, id in self._metrics(host).items() if ours.fullmatch(name)}
        return sum(
            int(value)
            for _, points in self._aggregates(host, spec, there, _COUNT)
            for _, _, value in points
        )

    def requests(self, host: Host, questions: Sequence[Question]) -> Iterator[Request]:
        """By measures and dynamic aggregates. It is not asked for last points, but for those of the
        minute, of which they are the last; the ids of so many metrics its clients know."""
        ids = self._metrics(host)
        for question in questions:
            start, stop = question.from_ms // 1000, question.until_ms // 1000
            window = {"start": str(start), "stop": str(stop)}
            names = [path_of(question.metric, tags) for tags in question.series]
            if question.kind == HOUR:
                where = f"{host.url}/v1/resource/generic/{RESOURCE}/metric/{names[0]}/measures"
                yield Request(where, _points, {"aggregation": _LAST, **window})
                continue
            # One whose first point is still to be taken has none.
            known = [ids[name] for name in names if name in ids]
            document: dict[str, Any] = {"operations": ["metric", *([id, _LAST] for id in known)]}
            if question.kind == MEANS:
                every = path_of(question.metric, dict.fromkeys(question.names, "*"))
                document = {
                    "operations": ["aggregate", "mean", ["metric", every, _LAST]],
                    **{"resource_type": "generic", "search": {"=": {"id": RESOURCE}}},
                }
            found = _series if question.kind == LAST else _seconds
            yield Request(f"{host.url}/v1/aggregates", found, window, document)

    def probe(self, host: Host) -> dict[str, Probe]:
        """Of metrics and reads; see `probes`."""
        if waiting := self.waiting(host):
            raise ValueError(
                f"{waiting:,} bundles are not aggregated yet, and would be measured too"
            )
        return probes.measure(host, self._metrics(host))

    def data(self, host: Host) -> Path:
        """Where its aggregates are; elsewhere are the index and what waits, which do not grow with
        points."""
        return host.home / "data"

    def empty(self, host: Host) -> None:
        """Delete the resource with all its metrics, whose files a metricd removes later, and make
        it anew."""
        try:
            asked.send("DELETE", f"{host.url}/v1/resource/generic/{RESOURCE}")
        except asked.RefusedError as error:
            # Whoever came before was interrupted here.
            if error.status != _NOT_THERE:
                raise
        asked.send("POST", f"{host.url}/v1/resource/generic", {"id": RESOURCE})
