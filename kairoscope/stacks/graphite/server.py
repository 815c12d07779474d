"""What is asked of a carbon-cache: its own metrics, what waits in its cache, and its files.

Files are read where they are, so on this machine alone.
"""

import re
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kairoscope.hosts.inventory import Host
from kairoscope.stacks.compared import numbers, pattern
from kairoscope.stacks.graphite import cache, whisper
from kairoscope.stacks.single_session import Found, series_by_key
from loaders.schedule.due import Schedule
from loaders.schedule.values import ValueType
from loaders.send.encode import path_of

INSTANCE = "a"
# Of `carbon.agents.<host>-<instance>.` (carbon 1.1.10, lib/carbon/instrumentation.py); of the last
# CARBON_METRIC_INTERVAL each, which is a second here.
_OWN = (
    *("metricsReceived", "committedPoints", "updateOperations", "pointsPerUpdate", "creates"),
    *("droppedCreates", "errors", "cache.size", "cache.queues", "cache.overflow"),
    *("avgUpdateTime", "cpuUsage", "memUsage", "activeConnections"),
)
# It writes its own metrics as it does others, about 20 a second: of so many points in its cache
# none need be a sensor's.
OWN_POINTS = 40
# Older than that a figure of its own says nothing of now.
_FRESH_S = 10
_SETTLE_S = 30


class GraphiteServer:
    """See `kairoscope.stacks.single_session.Server`."""

    def __init__(self, release: str) -> None:
        """`release` of carbon, which it does not tell itself."""
        self._release = release

    def version(self, host: Host) -> str:
        """Of carbon and whisper, as installed."""
        return self._release

    def trouble(self, host: Host) -> str:
        """Why it does not answer."""
        cache.points(host, [])
        return ""

    def _told(self, host: Host) -> dict[str, tuple[float, float]]:
        """Its own metrics: when (epoch s) and what it told last, in its cache or a file."""
        name = socket.gethostname().replace(".", "_")
        paths = {key: f"carbon.agents.{name}-{INSTANCE}.{key}" for key in _OWN}
        waiting = cache.points(host, list(paths.values()))
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
        """Its own metrics, each of the last second that it told of."""
        return {key: value for key, (_, value) in self._told(host).items()}

    def waiting(self, host: Host) -> int | None:
        """Points in its cache, which are on no disk; None if it has not told lately."""
        at, size = self._told(host).get("cache.size", (0.0, 0.0))
        if time.time() - at > _FRESH_S:
            return None
        return 0 if size <= OWN_POINTS else int(size)

    def settle(self, host: Host) -> None:
        """Wait until its cache is written, for a while."""
        deadline = time.monotonic() + _SETTLE_S
        while self.waiting(host) != 0 and time.monotonic() < deadline:
            time.sleep(1)

    def _files(self, host: Host) -> Path:
        return self.data(host) / "whisper"

    def read(self, host: Host, schedule: Schedule) -> Found:
        """Of each series its file. Time there is in whole seconds: the fraction of a second, which
        is the same for all points of a series, comes from the schedule."""
        spec = schedule.spec
        kind = ValueType(spec.value_type)
        for path, one in series_by_key(schedule, path_of).items():
            file = whisper.file_of(self._files(host), path)
            if not file.exists():
                continue
            times, values = whisper.finest(file.read_bytes())
            ms = times * 1000 + schedule.timestamp_ms(one.rank, one.ticks.start) % 1000
            inside = (ms >= spec.start_ms) & (ms < spec.end_ms)
            yield one, np.stack([ms[inside], numbers(kind, values[inside])], axis=1)

    def count(self, host: Host, schedule: Schedule) -> int:
        """Points in all files that may be the load's, whichever series they are of."""
        spec = schedule.spec
        return sum(
            int(((times >= spec.start_ms // 1000) & (times < -(-spec.end_ms // 1000))).sum())
            for times in self._times(host, schedule)
        )

    def _times(self, host: Host, schedule: Schedule) -> Iterator[whisper.Int64s]:
        root = self._files(host)
        name = re.compile(pattern(path_of(schedule.spec.metric, schedule.spec.tags)))
        for file in root.rglob("*.wsp"):
            if name.fullmatch(".".join(file.relative_to(root).with_suffix("").parts)):
                yield whisper.finest(file.read_bytes())[0]

    def data(self, host: Host) -> Path:
        """Where its files are."""
        return host.home / "data"

    def empty(self, host: Host) -> None:
        """Remove all files but those of its own metrics."""
        for folder in self._files(host).iterdir():
            if folder.name != "carbon":
                shutil.rmtree(folder)
