"""What is asked of Graphite's processes: their own metrics, what waits in the caches, the files.

Files are read where they are, so on this machine alone.
"""

import itertools
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope.hosts.inventory import Host
from kairoscope.stacks.compared import numbers, pattern
from kairoscope.stacks.graphite import cache, whisper
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
        """A process' own metrics: when (epoch s) and what it told last, in its cache or a file."""
        paths = {key: f"carbon.{begins}.{key}" for key in wanted}
        waiting = {}
        if part["role"] == CACHE:  # It keeps its own; a relay's go to any of them.
            waiting = cache.points(_queries(host, part), list(paths.values()))
        found = {}
        for key, path in paths.items():
            looks = list(waiting.get(path, []))
            file = whisper.file_of(self._files(host), path)
            if file.exists():
                times, values = whisper.finest(file.read_bytes())
                looks += list(zip(times[-1:].tolist(), values[-1:].tolist(), strict=True))
            if looks:
                found[key] = max(looks)
        return found

    def counters(self, host: Host) -> dict[str, float]:
        """Each process' own metrics, each of the last second that it told of."""
        found: dict[str, float] = {}
        since = time.time() - _FRESH_S
        for role, wanted in ((CACHE, _OF_CACHE), (RELAY, _OF_RELAY)):
            for part in _of_role(host, role):
                told = self._told(host, part, _own(part), wanted) | self._dropped(host, part)
                fresh = {key: value for key, (at, value) in told.items() if at > since}
                found |= {f"{part['name']}/{key}": value for key, value in fresh.items()}
        return found

    def _dropped(self, host: Host, part: Part) -> dict[str, tuple[float, float]]:
        """What a relay of carbon's own had no room for, of all its caches together."""
        own = self._files(host) / "carbon" / Path(*_own(part).split("."))
        looks = []
        for file in own.glob("destinations/*/fullQueueDrops.wsp"):
            times, values = whisper.finest(file.read_bytes())
            looks += list(zip(times[-1:].tolist(), values[-1:].tolist(), strict=True))
        if not looks:
            return {}
        return {"fullQueueDrops": (max(at for at, _ in looks), sum(value for _, value in looks))}

    def waiting(self, host: Host) -> int | None:
        """Points in the caches, which are on no disk; None if one has not told lately."""
        processes, total = len(host.processes), 0
        for part in _of_role(host, CACHE):
            told = self._told(host, part, _own(part), ["cache.size"])
            at, size = told.get("cache.size", (0.0, 0.0))
            if time.time() - at > _FRESH_S:
                return None
            total += 0 if size <= OWN_POINTS * processes else int(size)
        return total

    def settle(self, host: Host) -> None:
        """Wait until the caches are written, for a while."""
        deadline = time.monotonic() + _SETTLE_S
        while self.waiting(host) != 0 and time.monotonic() < deadline:
            time.sleep(1)

    def _files(self, host: Host) -> Path:
        return self.data(host) / "whisper"

    def read(self, host: Host, schedule: Schedule) -> Found:
        """Of each series its file. Time there is in whole steps of the archive: what is left of
        one, which is the same for all points of a series, comes from the schedule."""
        spec = schedule.spec
        kind = ValueType(spec.value_type)
        for path, one in series_by_key(schedule, path_of).items():
            file = whisper.file_of(self._files(host), path)
            if not file.exists():
                continue
            data = file.read_bytes()
            times, values = whisper.finest(data)
            step_ms = 1000 * whisper.step_s(data)
            ms = times * 1000 + schedule.timestamp_ms(one.rank, one.ticks.start) % step_ms
            inside = (ms >= spec.start_ms) & (ms < spec.end_ms)
            yield one, np.stack([ms[inside], numbers(kind, values[inside])], axis=1)

    def count(self, host: Host, schedule: Schedule) -> int:
        """Points in all files that may be the load's, whichever series they are of."""
        start, end = schedule.spec.start_ms // 1000, -(-schedule.spec.end_ms // 1000)
        total = 0
        for data in self._of_load(host, schedule):
            times, step = whisper.finest(data)[0], whisper.step_s(data)
            total += int(((times >= start // step * step) & (times < end)).sum())
        return total

    def _of_load(self, host: Host, schedule: Schedule) -> Iterator[bytes]:
        root = self._files(host)
        name = re.compile(pattern(path_of(schedule.spec.metric, schedule.spec.tags)))
        for file in root.rglob("*.wsp"):
            if name.fullmatch(".".join(file.relative_to(root).with_suffix("").parts)):
                yield file.read_bytes()

    def requests(self, host: Host, questions: Sequence[Question]) -> Iterator[str]:
        """Nobody answers them here."""
        return itertools.repeat(_NOT_ASKED, len(questions))

    def data(self, host: Host) -> Path:
        """Where its files are."""
        return host.home / "data"

    def empty(self, host: Host) -> None:
        """Remove all files but those of its own metrics."""
        for folder in self._files(host).iterdir():
            if folder.name != "carbon":
                shutil.rmtree(folder)


def _of_role(host: Host, role: str) -> list[Part]:
    return [part for part in host.vars["parts"] if part["role"] == role]


def _queries(host: Host, part: Part) -> tuple[str, int]:
    return host.address, int(part["ports"][QUERIES])


def _own(part: Part) -> str:
    """Where a process has its own metrics, below `carbon`."""
    if part["program"] == C_RELAY:
        return f"relays.{part['name']}"  # As its role names it (-H).
    name = socket.gethostname().replace(".", "_")
    return f"{'agents' if part['role'] == CACHE else 'relays'}.{name}-{part['instance']}"
