"""What a run captures of KairosDB and its store: latencies by nodetool, counters, queue depth.

What they write is on disk at every moment, so an interrupted run keeps what was captured.
"""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.run_folder import CAPTURES, JsonLines, stamp, write_json
from kairoscope.stacks.kairosdb import nodetool, scylla_rest
from kairoscope.stacks.kairosdb.client import Client

# Between two attempts at a node that has just been started again, in s.
_AGAIN_S = 2.0


class ProxyHistograms:
    """`nodetool proxyhistograms` of every storage node: raw text kept, parsed beside it."""

    def __init__(
        self, hosts: list[Host], folder: Path, events: JsonLines, touch: Callable[[Host], None]
    ) -> None:
        """Raw files go to folder/<node>/, all parsed captures to folder/captures.json.

        `touch` has a node coordinate a read, without which Cassandra has no figures; never raises.
        """
        self._hosts = hosts
        self._folder = folder
        self._events = events
        self._touch = touch
        self._captures: list[dict[str, Any]] = []
        for host in hosts:
            (folder / host.name).mkdir(parents=True)

    def capture(self, phase: str, patience_s: float = 0) -> list[str]:
        """Capture every node once, one after another; `phase` is before, during or after.

        A node that does not answer for `patience_s` is an event, not an error: it may be what the
        run is about. Returns the names of those.
        """
        failed = []
        deadline = time.monotonic() + patience_s
        for host in self._hosts:
            while (trouble := self._one(host, phase)) and time.monotonic() < deadline:
                time.sleep(_AGAIN_S)
                self._touch(host)
            if trouble:
                failed.append(host.name)
                self._events.write(
                    t=time.time(),
                    what="capture failed",
                    detail=f"{host.name}: {trouble}",
                    node=host.name,
                    phase=phase,
                )
        write_json(self._folder / Path(CAPTURES).name, self._captures)
        return failed

    def without(self, names: set[str]) -> None:
        """Ask nodes that were taken away no more."""
        self._hosts = [host for host in self._hosts if host.name not in names]

    def _one(self, host: Host, phase: str) -> str:
        """Capture a node; why it could not be, else ""."""
        t = time.time()
        try:
            text = nodetool.run(host, "proxyhistograms")
            rows = nodetool.parse_proxyhistograms(text)
        except (nodetool.NodetoolError, nodetool.FormatError) as error:
            return str(error) or type(error).__name__
        file = Path(host.name) / f"{phase}-{stamp(t)}.txt"
        (self._folder / file).write_text(text)
        self._captures.append(
            {"t": t, "node": host.name, "phase": phase, "file": str(file), "rows": rows}
        )
        return ""


class StoreWindow:
    """What ScyllaDB's nodes counted of their requests in exactly the measured time of a run.

    `proxyhistograms` cannot say that: its figures are a sample of the last requests, or forget.
    """

    def __init__(self, hosts: list[Host], path: Path, events: JsonLines) -> None:
        """The document goes to `path` when it ends."""
        self._hosts = hosts
        self._path = path
        self._events = events
        self._looks: list[dict[str, Any]] = [{}, {}]
        self._timers: list[threading.Timer] = []

    def start(self, begin_s: float, end_s: float) -> None:
        """Look in so many seconds from now, twice."""
        self._timers = [self._timer(0, begin_s), self._timer(1, end_s)]

    def end_at(self, end_s: float) -> None:
        """Take the second look in so many seconds from now, as the load ends earlier."""
        self._timers.pop().cancel()
        self._timers.append(self._timer(1, end_s))

    def _timer(self, place: int, delay_s: float) -> threading.Timer:
        timer = threading.Timer(max(delay_s, 0), self._look, (place,))
        timer.daemon = True
        timer.start()
        return timer

    def stop(self) -> None:
        """Write what there is; looks that were not due yet are not taken any more."""
        for timer in self._timers:
            timer.cancel()
            timer.join()
        nodes = {}
        for host in self._hosts:
            (t0, before), (t1, after) = (look.get(host.name, (0.0, {})) for look in self._looks)
            try:
                counted = {
                    name: scylla_rest.window(before[name], after[name])
                    for name in scylla_rest.COUNTED
                }
            except (LookupError, TypeError, ValueError) as error:
                why = str(error) if isinstance(error, ValueError) else "a look is missing"
                self._note(host, why)
                continue
            nodes[host.name] = {"begin": t0, "end": t1, **counted}
        write_json(self._path, {"nodes": nodes})

    def _look(self, place: int) -> None:
        def one(host: Host) -> tuple[float, Any] | None:
            t = time.time()
            try:
                return t, json.loads(nodetool.rest(host, "counters"))
            except (nodetool.NodetoolError, ValueError) as error:
                self._note(host, str(error))
                return None

        found = zip(self._hosts, ssh.on_all(self._hosts, one), strict=True)
        self._looks[place] = {host.name: look for host, look in found if look is not None}

    def _note(self, host: Host, why: str) -> None:
        detail = f"{host.name}: {why}"
        self._events.write(t=time.time(), what="store's own counts not captured", detail=detail)


class QueueDepth:
    """KairosDB's queue depth in data points, asked of every node."""

    def __init__(
        self,
        hosts: list[Host],
        client: Client,
        file: JsonLines,
        removed: Callable[[Host], bool],
    ) -> None:
        """Samples go to `file`. A host that was `removed` was drained before."""
        self._hosts = hosts
        self._client = client
        self._file = file
        self._removed = removed
        # The newest sample of each node; None while it does not answer.
        self.waiting: dict[str, int | None] = {host.name: None for host in hosts}

    def sample(self) -> None:
        """Ask every node once; a node that does not answer is a sample too."""
        for host in self._hosts:
            t = time.time()
            if self._removed(host):
                self.waiting[host.name] = 0
                self._file.write(t=t, node=host.name, waiting=0, removed=True)
                continue
            try:
                depth = self._client.get_json(host, "/api/v1/kairoscope/queue", timeout_s=5)
            except OSError as error:
                self.waiting[host.name] = None
                self._file.write(t=t, node=host.name, error=str(error))
                continue
            self.waiting[host.name] = depth["waiting"]
            self._file.write(t=t, node=host.name, **depth)

    @property
    def total(self) -> int | None:
        """Points waiting on all nodes together; None if any of them does not tell."""
        depths = list(self.waiting.values())
        return None if None in depths else sum(d for d in depths if d is not None)
