"""What is asked of Graphite's processes: their own metrics, what waits in the caches, the files; of
graphite-web what queries find (graphite.readthedocs.io, "The Render URL API").
"""

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope.hosts.inventory import Host
from kairoscope.stacks import asked
from kairoscope.stacks.compared import numbers, pattern
from kairoscope.stacks.graphite import cache, files, whisper
from kairoscope.stacks.graphite.files import OWN
from kairoscope.stacks.graphite.topology import C_RELAY, CACHE, HTTP, QUERIES, RELAY, WEB
from kairoscope.stacks.questions import HOUR, LAST, MEANS, Question, Request
from kairoscope.stacks.single_session import Found, series_by_key, wait_for_nothing
from loaders.schedule import naming
from loaders.schedule.due import Schedule
from loaders.schedule.values import ValueType
from loaders.send.encode import path_of

# Of `carbon.agents.<host>-<instance>.` (carbon 1.1.10, lib/carbon/instrumentation.py); of the last
# CARBON_METRIC_INTERVAL each, which is a second here.
_OF_CACHE = (
    *("metricsReceived", "committedPoints", "updateOperations", "pointsPerUpdate", "creates"),
    *("droppedCreates", "errors", "cache.size", "cache.queues", "cache.overflow"),
    *("avgUpdateTime", "cpuUsage", "memUsage", "activeConnections"),
)
# Of `carbon.relays.`: carbon-relay's; and carbon-c-relay's (its page, statistics), which go on.
# What they received is what the caches did, once more.
_OF_RELAY = ("cpuUsage", "metricsDropped", "metricsQueued", "metricsSent")
OWN_POINTS = 40
"""Figures of its own that a process has at most written a second, as others are: a cache's into
itself, those of a relay, some more for each of its caches, spread over these."""
# Older than that a figure of its own says nothing of now.
_FRESH_S = 10
_SETTLE_S = 30
_DROPS = "fullQueueDrops"

Part = Mapping[str, Any]


def own_points(relays: int) -> int:
    """Points in a cache behind so many relays of which none need be a sensor's: carbon does not
    tell them apart, so that so many count as nothing that waits."""
    return OWN_POINTS * (1 + relays)


class GraphiteServer:
    """See `kairoscope.stacks.single_session.Server`."""

    def __init__(self, release: str) -> None:
        """`release` of carbon, which it does not tell itself."""
        self._release = release
        self._names: dict[str, str] = {}

    def version(self, host: Host) -> str:
        """Of carbon, whisper and graphite-web, as installed."""
        return self._release

    def trouble(self, host: Host) -> str:
        """Why a cache does not answer, or nobody where points go, or where queries are asked."""
        for part in _of_role(host, CACHE):
            cache.points(_queries(host, part), [])
        socket.create_connection((host.address, host.vars["http_port"]), timeout=5).close()
        asked.get(f"{_web(host)}/version", timeout_s=10)
        return ""

    def _told(self, host: Host, wanted: Mapping[str, Sequence[str]]) -> dict[str, float]:
        """What processes told of themselves in the last seconds, by `<process>/<metric>`: of each
        role the wanted metrics, in a cache or a file. One look at all files."""
        found, paths, written = dict[str, float](), dict[str, str](), dict[str, str]()
        for role, keys in wanted.items():
            for part in _of_role(host, role):
                own = f"{OWN}.{self._own(host, part)}"
                paths |= {f"{part['name']}/{key}": f"{own}.{key}" for key in keys}
                if role == RELAY:
                    # What a relay of carbon's own had no room for, of all its caches together.
                    name = f"{part['name']}/{_DROPS}"
                    written[name] = _file(f"{own}.destinations.*.{_DROPS}")
        written |= {name: _file(path) for name, path in paths.items()}
        looks = files.newest_points(host, written, _FRESH_S)
        waiting = self._waiting_points(host, list(paths.values()))
        since = time.time() - _FRESH_S
        for name, points in looks.items():
            if name.endswith(_DROPS):
                if points:
                    found[name] = sum(value for _, value in points)
                continue
            told = [*waiting.get(paths[name], []), *points]
            if told and max(told)[0] > since:
                found[name] = max(told)[1]
        return found

    def _waiting_points(self, host: Host, paths: list[str]) -> dict[str, list[tuple[float, float]]]:
        """What caches have of some metrics and have not written; of a relay's any may."""
        found: dict[str, list[tuple[float, float]]] = {}
        for part in _of_role(host, CACHE):
            for path, points in cache.points(_queries(host, part), paths).items():
                found.setdefault(path, []).extend(points)
        return found

    def counters(self, host: Host) -> dict[str, float]:
        """Each process' own metrics, each of the last second that it told of."""
        return self._told(host, {CACHE: _OF_CACHE, RELAY: _OF_RELAY})

    def waiting(self, host: Host) -> int | None:
        """Points in the caches, which are on no disk; None if one has not told lately."""
        told = self._told(host, {CACHE: ["cache.size"]})
        if len(told) < len(_of_role(host, CACHE)):
            return None
        own = own_points(len(_of_role(host, RELAY)))
        return sum(int(size) for size in told.values() if size > own)

    def settle(self, host: Host) -> None:
        """Wait until the caches are written, for a while."""
        wait_for_nothing(self, host, _SETTLE_S)

    def read(self, host: Host, schedule: Schedule) -> Found:
        """Of each series its file. Time there is in whole steps of the archive: what is left of
        one, which is the same for all points of a series, comes from the schedule.

        A file that a kill cut short says nothing of the others."""
        spec, known = schedule.spec, series_by_key(schedule, path_of)
        kind = ValueType(spec.value_type)
        for path, data in files.every(host):
            if not (one := known.get(path)):
                continue
            try:
                times, values = whisper.finest(data)
                step_ms = 1000 * whisper.step_s(data)
            except ValueError as error:
                yield f"the file of {path} is not whole: {error}"
                continue
            ms = times * 1000 + schedule.timestamp_ms(one.rank, one.ticks.start) % step_ms
            inside = (ms >= spec.start_ms) & (ms < spec.end_ms)
            yield one, np.stack([ms[inside], numbers(kind, values[inside])], axis=1)

    def count(self, host: Host, schedule: Schedule) -> int:
        """Points in all whole files that may be the load's, whichever series they are of."""
        start, end = schedule.spec.start_ms // 1000, -(-schedule.spec.end_ms // 1000)
        name = re.compile(pattern(path_of(schedule.spec.metric, schedule.spec.tags)))
        total = 0
        for path, data in files.every(host):
            if not name.fullmatch(path):
                continue
            with contextlib.suppress(ValueError):
                times, step = whisper.finest(data)[0], whisper.step_s(data)
                total += int(((times >= start // step * step) & (times < end)).sum())
        return total

    def found(self, host: Host, schedule: Schedule) -> int:
        """Points of all series that may be the load's, as graphite-web has them: of the files, and
        of what waits in the caches beside. Series of other tags are not told apart, as in files."""
        spec = schedule.spec
        path, step = path_of(spec.metric, spec.tags), int(host.vars["resolution_s"])
        # The first point has the time of the step that it is in.
        first_s = spec.start_ms // 1000 // step * step
        given = _window(first_s - 1, -(-spec.end_ms // 1000) - 1, naming.PLACE.sub("*", path))
        name = re.compile(pattern(path))
        said = asked.get(f"{_web(host)}/render", given)
        with asked.understood():
            told = [one for one in json.loads(said) if name.fullmatch(one["target"])]
            return sum(len(one["datapoints"]) for one in told)

    def requests(self, host: Host, questions: Sequence[Question]) -> Iterator[Request]:
        """By graphite-web. It is not asked for last points, but for those of the minute, of which
        they are the last."""
        for question in questions:
            paths = [path_of(question.metric, tags) for tags in question.series]
            every = path_of(question.metric, dict.fromkeys(question.names, "*"))
            target = {
                LAST: f"group({','.join(paths)})",
                HOUR: paths[0] if paths else "",
                MEANS: f"averageSeries({every})",
            }[question.kind]
            given = _window(question.from_ms // 1000, question.until_ms // 1000, target)
            found = _series if question.kind == LAST else _points
            yield Request(f"{_web(host)}/render", found, given)

    def data(self, host: Host) -> Path:
        """Where its files are."""
        return files.root(host).parent

    def empty(self, host: Host) -> None:
        """Remove all files but those of its own metrics, once they are written: what waits would
        make them again."""
        self.settle(host)
        files.remove(host)

    def _own(self, host: Host, part: Part) -> str:
        """Where a process has its own metrics, below `OWN`."""
        if part["program"] == C_RELAY:
            return f"relays.{part['name']}"  # As its role names it (-H).
        if host.name not in self._names:
            self._names[host.name] = files.name_of(host).replace(".", "_")
        name = self._names[host.name]
        return f"{'agents' if part['role'] == CACHE else 'relays'}.{name}-{part['instance']}"


def _web(host: Host) -> str:
    return f"http://{host.address}:{host.vars['listens'][f'{WEB} {HTTP}']}"


def _window(from_s: int, until_s: int, target: str) -> dict[str, str]:
    """What is asked of the points in (from, until]."""
    when = {"from": str(from_s), "until": str(until_s)}
    return {"target": target, **when, "format": "json", "noNullPoints": "true"}


def _series(body: bytes) -> int:
    return len(json.loads(body))


def _points(body: bytes) -> int:
    return sum(len(one["datapoints"]) for one in json.loads(body))


def _file(path: str) -> str:
    """Of a dotted path, below the folder of all files."""
    return f"{path.replace('.', '/')}.wsp"


def _of_role(host: Host, role: str) -> list[Part]:
    return [part for part in host.vars["parts"] if part["role"] == role]


def _queries(host: Host, part: Part) -> tuple[str, int]:
    return host.address, int(host.vars["listens"][f"{part['name']} {QUERIES}"])
