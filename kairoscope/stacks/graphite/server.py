"""What is asked of Graphite's processes: their own metrics, what waits in the caches, the files."""

import itertools
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope.hosts.inventory import Host
from kairoscope.stacks.compared import numbers, pattern
from kairoscope.stacks.graphite import cache, files, whisper
from kairoscope.stacks.graphite.files import OWN
from kairoscope.stacks.graphite.topology import C_RELAY, CACHE, QUERIES, RELAY
from kairoscope.stacks.questions import Question
from kairoscope.stacks.single_session import Found, series_by_key
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
# Each process has some twenty to forty figures of its own a second written as others are: of so
# many points in a cache none need be a sensor's.
OWN_POINTS = 40
# Older than that a figure of its own says nothing of now.
_FRESH_S = 10
_SETTLE_S = 30
_NOT_ASKED = (
    "its queries are graphite-web's, which is not deployed here; carbon itself tells no more than "
    "what waits in its cache"
)

Part = Mapping[str, Any]


class GraphiteServer:
    """See `kairoscope.stacks.single_session.Server`."""

    def __init__(self, release: str) -> None:
        """`release` of carbon, which it does not tell itself."""
        self._release = release
        self._names: dict[str, str] = {}

    def version(self, host: Host) -> str:
        """Of carbon and whisper, as installed."""
        return self._release

    def trouble(self, host: Host) -> str:
        """Why a cache does not answer, or nobody where points go."""
        for part in _of_role(host, CACHE):
            cache.points(_queries(host, part), [])
        socket.create_connection((host.address, host.vars["http_port"]), timeout=5).close()
        return ""

    def _told(
        self, host: Host, part: Part, begins: str, wanted: Sequence[str]
    ) -> dict[str, tuple[float, float]]:
        """A process' own metrics of the last seconds: when (epoch s) and what it told last, in its
        cache or a file."""
        paths = {key: f"{OWN}.{begins}.{key}" for key in wanted}
        waiting = {}
        if part["role"] == CACHE:  # It keeps its own; a relay's go to any of them.
            waiting = cache.points(_queries(host, part), list(paths.values()))
        written = {key: f"{path.replace('.', '/')}.wsp" for key, path in paths.items()}
        since, found = time.time() - _FRESH_S, {}
        for key, looks in files.newest_points(host, written, _FRESH_S).items():
            told = [*waiting.get(paths[key], []), *looks]
            if told and max(told)[0] > since:
                found[key] = max(told)
        return found

    def counters(self, host: Host) -> dict[str, float]:
        """Each process' own metrics, each of the last second that it told of."""
        found: dict[str, float] = {}
        for role, wanted in ((CACHE, _OF_CACHE), (RELAY, _OF_RELAY)):
            for part in _of_role(host, role):
                own = self._own(host, part)
                last = self._told(host, part, own, wanted)
                told = {key: value for key, (_, value) in last.items()} | self._dropped(host, own)
                found |= {f"{part['name']}/{key}": value for key, value in told.items()}
        return found

    def _dropped(self, host: Host, own: str) -> dict[str, float]:
        """What a relay of carbon's own had no room for, of all its caches together."""
        key = "fullQueueDrops"
        wanted = {key: f"{OWN}/{own.replace('.', '/')}/destinations/*/{key}.wsp"}
        looks = files.newest_points(host, wanted, _FRESH_S)[key]
        return {key: sum(value for _, value in looks)} if looks else {}

    def waiting(self, host: Host) -> int | None:
        """Points in the caches, which are on no disk; None if one has not told lately."""
        processes, total = len(host.processes), 0
        for part in _of_role(host, CACHE):
            told = self._told(host, part, self._own(host, part), ["cache.size"])
            if "cache.size" not in told:
                return None
            size = told["cache.size"][1]
            total += 0 if size <= OWN_POINTS * processes else int(size)
        return total

    def settle(self, host: Host) -> None:
        """Wait until the caches are written, for a while."""
        deadline = time.monotonic() + _SETTLE_S
        while self.waiting(host) != 0 and time.monotonic() < deadline:
            time.sleep(1)

    def read(self, host: Host, schedule: Schedule) -> Found:
        """Of each series its file. Time there is in whole steps of the archive: what is left of
        one, which is the same for all points of a series, comes from the schedule."""
        spec, known = schedule.spec, series_by_key(schedule, path_of)
        kind = ValueType(spec.value_type)
        for path, data in files.every(host):
            if not (one := known.get(path)):
                continue
            times, values = whisper.finest(data)
            step_ms = 1000 * whisper.step_s(data)
            ms = times * 1000 + schedule.timestamp_ms(one.rank, one.ticks.start) % step_ms
            inside = (ms >= spec.start_ms) & (ms < spec.end_ms)
            yield one, np.stack([ms[inside], numbers(kind, values[inside])], axis=1)

    def count(self, host: Host, schedule: Schedule) -> int:
        """Points in all files that may be the load's, whichever series they are of."""
        start, end = schedule.spec.start_ms // 1000, -(-schedule.spec.end_ms // 1000)
        name = re.compile(pattern(path_of(schedule.spec.metric, schedule.spec.tags)))
        total = 0
        for path, data in files.every(host):
            if name.fullmatch(path):
                times, step = whisper.finest(data)[0], whisper.step_s(data)
                total += int(((times >= start // step * step) & (times < end)).sum())
        return total

    def requests(self, host: Host, questions: Sequence[Question]) -> Iterator[str]:
        """Nobody answers them here."""
        return itertools.repeat(_NOT_ASKED, len(questions))

    def data(self, host: Host) -> Path:
        """Where its files are."""
        return files.root(host).parent

    def empty(self, host: Host) -> None:
        """Remove all files but those of its own metrics."""
        files.remove(host)

    def _own(self, host: Host, part: Part) -> str:
        """Where a process has its own metrics, below `OWN`."""
        if part["program"] == C_RELAY:
            return f"relays.{part['name']}"  # As its role names it (-H).
        if host.name not in self._names:
            self._names[host.name] = files.name_of(host).replace(".", "_")
        name = self._names[host.name]
        return f"{'agents' if part['role'] == CACHE else 'relays'}.{name}-{part['instance']}"


def _of_role(host: Host, role: str) -> list[Part]:
    return [part for part in host.vars["parts"] if part["role"] == role]


def _queries(host: Host, part: Part) -> tuple[str, int]:
    return host.address, int(host.vars["listens"][f"{part['name']} {QUERIES}"])
