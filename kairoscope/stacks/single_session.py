"""A run's ways to a stack of one server; see `single`."""

import functools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, stored
from kairoscope.hosts.forwards import Ways
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.sampling import Followed, Periodic
from kairoscope.run_folder import Expected, JsonLines
from kairoscope.stacks.compared import compare
from kairoscope.stacks.questions import Asks, Question, Request
from kairoscope.stacks.stack import Probe, ReadBack
from kairoscope.stacks.told import Told
from kairoscope.verdict.settlement import AtAll, FailedPoint, Gap, SeriesResult
from loaders.schedule.due import Int64s, Schedule, Series
from loaders.schedule.spec import LoadSpec

COUNTERS_EVERY_S = 2
"""Between two looks at a server's own counters: a handful of figures from a page of text."""
PASSES = 3
PAUSE_S = 2.0
"""A read-back is done again so often, with such a pause, while points that must be there are not:
they may only be late."""

LOOK_S = 0.5
"""Between two looks at what waits, where it is waited for."""

Found = Iterator[tuple[Series, Int64s] | str]
"""What a read-back finds: points of a series, or why one's could not be read, a part of a sentence.
"""


class Server(Protocol):
    """What is a system's own of its one server. All of it may raise OSError or ValueError."""

    def version(self, host: Host) -> str:
        """As the running server says it."""

    def trouble(self, host: Host) -> str:
        """Why it cannot take points; "" if it can."""

    def counters(self, host: Host) -> dict[str, float]:
        """Its own counters, by their names there."""

    def waiting(self, host: Host) -> int | None:
        """Points that it took and that are not on its disk; None if it does not tell."""

    def settle(self, host: Host) -> None:
        """Have what it took found by queries."""

    def read(self, host: Host, schedule: Schedule) -> Found:
        """What it has of the run's series in the run's time: int64[n, 2] of ms and value. What
        cannot be read is missing, and told in its place."""

    def count(self, host: Host, schedule: Schedule) -> int:
        """Points that it counts itself in the run's series and time."""

    def requests(self, host: Host, questions: Sequence[Question]) -> Iterator[Request | str]:
        """Each question in its words, or why it cannot be asked; see `questions.Asks`."""

    def data(self, host: Host) -> Path:
        """Folder of its data."""

    def empty(self, host: Host) -> None:
        """Take every point away."""


@runtime_checkable
class Probed(Protocol):
    """A server of which more was published than a load of points shows."""

    def probe(self, host: Host) -> dict[str, Probe]:
        """Those figures, by their names in `results/reference/`. OSError or ValueError."""


@runtime_checkable
class Finds(Protocol):
    """A server that counts in another way than by queries."""

    def found(self, host: Host, schedule: Schedule) -> int:
        """Points of the run that its queries find. OSError or ValueError."""


def points_port(listens: Mapping[str, int], protocol: str) -> int:
    """The port where points of a protocol go: that which is named like it, or the first."""
    return listens.get(protocol, next(iter(listens.values())))


def series_by_key(
    schedule: Schedule, key: Callable[[str, dict[str, str]], str]
) -> dict[str, Series]:
    """The run's series by how a system names them: `key` of metric and tags."""
    spec = schedule.spec
    return {
        key(spec.metric_name(one.number), spec.tags_of(one.number)): one
        for one in schedule.series()
    }


def metric_and_tags(metric: str, tags: dict[str, str]) -> str:
    """The key of a series in a system that keeps both as they are."""
    return json.dumps([metric, tags], sort_keys=True)


def wait_for_nothing(server: Server, host: Host, patience_s: float) -> None:
    """Until nothing waits in a server that tells of it, or the patience (s) is at its end."""
    deadline = time.monotonic() + patience_s
    while server.waiting(host) != 0 and time.monotonic() < deadline:
        time.sleep(LOOK_S)


class Waiting:
    """What the server took and has not on its disk; see `kairoscope.stacks.stack.Backlog`."""

    def __init__(self, server: Server, host: Host, file: JsonLines) -> None:
        """Samples go to `file`."""
        self._server, self._host, self._file = server, host, file
        self._now: int | None = None
        self._looked = 0.0
        self.samplers = [Periodic(f"what waits in {host.name}", 1, self.look, spread=True)]

    def look(self) -> None:
        """Ask once; no answer is a sample too."""
        asked = time.time()
        try:
            self._now = self._server.waiting(self._host)
        except (OSError, ValueError) as error:
            self._now = None
            self._file.write(t=asked, node=self._host.name, error=str(error))
        else:
            if self._now is not None:
                self._file.write(t=asked, node=self._host.name, waiting=self._now)
        self._looked = asked

    def total(self, since: float = 0) -> int | None:
        """Points; None if it has not told since then (epoch s)."""
        return self._now if self._looked >= since else None

    def nudge(self) -> None:
        """It looks after that itself."""


class Captures:
    """The server's own counters and the bytes of its data; see `kairoscope.stacks.stack`."""

    def __init__(self, server: Server, host: Host, folder: Path, events: JsonLines) -> None:
        """Files go to the run folder."""
        self._server, self._host, self._events = server, host, events
        self._file = JsonLines(folder / run_folder.COUNTERS)
        self.samplers: list[Periodic | Followed] = [
            Periodic(f"counters of {host.name}", COUNTERS_EVERY_S, self.look)
        ]

    def look(self) -> None:
        """Write its counters down once."""
        t = time.time()
        try:
            said = self._server.counters(self._host)
        except (OSError, ValueError) as error:
            self._file.write(t=t, node=self._host.name, error=str(error))
            return
        self._file.write(t=t, node=self._host.name, counters=said)

    def before(self) -> list[str]:
        """Look once; its name if it did not answer."""
        try:
            self._server.counters(self._host)
        except (OSError, ValueError):
            return [self._host.name]
        return []

    def start(self, begin_s: float, end_s: float, first_s: float) -> None:
        """Nothing but the samplers."""

    def end_at(self, end_s: float) -> None:
        """Nothing."""

    def loaded(self) -> None:
        """Nothing."""

    def stop(self) -> list[str]:
        """Nothing."""
        return []

    def after(self) -> None:
        """Nothing."""

    def stored_bytes(self) -> int | None:
        """Bytes of its data folder, once it has made visible what it took."""
        try:
            self._server.settle(self._host)
            return stored.below(self._host, str(self._server.data(self._host)))
        except (OSError, ValueError, ssh.RemoteError) as error:
            self._events.write(t=time.time(), what="disk not measured", detail=str(error))
            return None


class Session:
    """One run's; see `kairoscope.stacks.stack.Session`."""

    credentials = None

    def __init__(
        self,
        name: str,
        server: Server,
        host: Host,
        told: Told,
        ways: Ways,
        protocol: str,
    ) -> None:
        """`ways` lead to the server from here; points are sent by `protocol`."""
        self._name, self._server, self._told = name, server, told
        self._there = host
        address, port = ways.endpoint(host)
        listens = {
            what: ways.endpoint(host, int(own))[1]
            for what, own in host.vars.get("listens", {}).items()
        }
        reached = {"address": address, "http_port": port, "listens": listens}
        self._host = replace(host, vars={**host.vars, **reached})
        own = host.vars.get("listens") or {"": int(host.vars["http_port"])}
        self._port = points_port(own, protocol)
        self._folder = Path()
        self._events: JsonLines | None = None

    def check_ready(self) -> None:
        """UserError if the server does not take points."""
        try:
            trouble = self._server.trouble(self._host)
        except (OSError, ValueError) as error:
            trouble = str(error)
        if trouble:
            raise UserError(f"{self._host.name} at {self._host.url}: {trouble}. See: make status")

    def versions(self) -> dict[str, str]:
        """The server's, as it says it."""
        return {self._name: self._server.version(self._host)}

    def untold(self) -> list[str]:
        """Nothing."""
        return []

    def expected(self) -> Expected:
        """Its processes, its disk, its counters."""
        processes, name = list(self._host.processes), [self._host.name]
        return Expected(
            *([], [], processes, True, name),
            not_judged=self._told.not_judged,
            losses=self._told.losses,
            flows=self._told.flows,
        )

    def begin(self, folder: Path, started_s: float, events: JsonLines) -> None:
        """There is a run folder."""
        self._folder, self._events = folder, events

    def removed(self, host: Host) -> bool:
        """Never: there is one."""
        return False

    def endpoints(self) -> tuple[list[str], list[str]]:
        """Where points go, by HTTP or as lines."""
        return [self._there.url], [f"{self._there.address}:{self._port}"]

    def store(self) -> None:
        """Nothing that a load would go to by itself."""

    def waiting_now(self) -> list[dict[str, Any]]:
        """What waits in the server."""
        try:
            waiting = self._server.waiting(self._host)
        except (OSError, ValueError):
            waiting = None
        return [{"node": self._host.name, "waiting": waiting, "disk_bytes": None}]

    def empty(self) -> None:
        """Take every point away."""
        try:
            self._server.empty(self._host)
        except (OSError, ValueError) as error:
            raise UserError(f"{self._host.name} could not be emptied: {error}") from error

    def compacts(self) -> bool:
        """It does not tell."""
        return False

    def backlog(self) -> Waiting | None:
        """What waits in the server; None where it does not tell."""
        if "drain" in self._told.not_judged:
            return None
        return Waiting(self._server, self._host, JsonLines(self._folder / run_folder.QUEUE))

    def captures(self) -> Captures:
        """Its counters and its disk."""
        assert self._events is not None  # `begin` came before
        return Captures(self._server, self._host, self._folder, self._events)

    def refuse_old_history(self, schedule: Schedule) -> None:
        """UserError if the series have points of that time."""
        try:
            there = self._server.count(self._host, schedule)
        except (OSError, ValueError) as error:
            raise UserError(f"{self._host.name} could not be asked: {error}") from error
        if there:
            raise UserError(
                f"{self._host.name} has {there:,} points of that time already, which a replay "
                "would not be told from. Another load.metric, or first: make destroy deploy"
            )

    def read_back(
        self,
        schedule: Schedule,
        incomplete: Callable[[SeriesResult], bool],
        on_result: Callable[[SeriesResult], None],
        console: Console,
    ) -> ReadBack:
        """Every point of every series, again while something is missing that may only be late."""
        results: list[SeriesResult] = []
        unread: list[str] = []
        for passes in range(1, PASSES + 1):
            if passes > 1:
                time.sleep(PAUSE_S)
            unread.clear()
            try:
                self._server.settle(self._host)
                # Before they are read: what comes to be found meanwhile is not lost.
                waiting = self.waiting_now()[0]["waiting"]
                with live.stage(console, "read back", schedule.points, "points") as shown:
                    results = list(self._results(schedule, shown, unread))
            except (OSError, ValueError) as error:
                raise UserError(f"{self._host.name} could not be read back: {error}") from error
            if not any(map(incomplete, results)):
                break
        for result in results:
            on_result(result)
        note = (
            f"read back: every point of {len(results):,} series from the server, timestamp and "
            "value compared; the server counted the points too"
        )
        if unread:
            note += f"; {len(unread):,} series could not be read and are missing, as {unread[0]}"
        count = functools.partial(self._server.count, self._host, schedule)
        return ReadBack(passes, note, count, waiting)

    def _results(
        self, schedule: Schedule, shown: Callable[[int], object], unread: list[str]
    ) -> Iterator[SeriesResult]:
        """What it comes to series by series; what could not be read is added to `unread`."""
        found: dict[tuple[int, int], list[Int64s]] = {}
        done = 0
        for read in self._server.read(self._host, schedule):
            if isinstance(read, str):
                unread.append(read)
                continue
            one, points = read
            found.setdefault((one.number, one.ticks.start), []).append(points)
            done += len(points)
            shown(done)
        nothing = np.empty((0, 2), dtype=np.int64)
        for one in schedule.series():
            own = found.get((one.number, one.ticks.start), [])
            yield compare(schedule, one, np.concatenate([nothing, *own]))

    def visible(self, schedule: Schedule) -> int:
        """As the server counts them, by queries."""
        server = self._server
        found = server.found if isinstance(server, Finds) else server.count
        return found(self._host, schedule)

    def probe(self) -> dict[str, Probe]:
        """Of the server, if there is more to it."""
        if not isinstance(self._server, Probed):
            return {}
        self._server.settle(self._host)
        return self._server.probe(self._host)

    def asks(self) -> Asks:
        """In the server's words."""
        return functools.partial(self._server.requests, self._host)

    def given_up(self, spec: LoadSpec, on_silent: Callable[[str], None]) -> Iterable[FailedPoint]:
        """It does not list any."""
        return []

    def look_on_all_replicas(self, gaps: list[Gap]) -> AtAll:
        """There is one copy: what it does not have is lost."""
        missing = sum(gap.count for gap in gaps)
        return AtAll("its one copy", missing, 0, 0, missing)
