"""What the storage nodes counted of their requests in exactly the measured time of a run.

`proxyhistograms` cannot say that: its figures are a sample of the last requests, or forget.
"""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.run_folder import NOT_COUNTED, JsonLines, write_json
from kairoscope.stacks.kairosdb.scylla.rest import COUNTED
from kairoscope.stacks.kairosdb.servers import nodetool

_PERCENTILES = (50, 75, 95, 98, 99, 99.9)


class StartedAgain(ValueError):
    """What a server counted before is not known any more."""


def difference(
    before: Mapping[str, Sequence[Any]], after: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """What was counted between two looks at one histogram: counts by bucket, and percentiles.

    A look is `ends_us`, where each bucket ends (µs; the last nowhere, None), and its `counts` since
    the server's start. A percentile is the end of its bucket: so many were no slower.

    StartedAgain if the two are not of one server's life: its counts only grow while it runs.
    ValueError if they cannot be compared.
    """
    ends, counts = list(after["ends_us"]), list(after["counts"])
    if list(before["ends_us"]) != ends or len(before["counts"]) != len(counts):
        raise ValueError("the buckets are others than before")
    grown = [new - old for old, new in zip(before["counts"], counts, strict=True)]
    if any(count < 0 for count in grown):
        raise StartedAgain("counts became less: the server was started again meanwhile")
    document: dict[str, Any] = {"count": sum(grown), "bucket_ends_us": ends, "buckets": grown}
    for p in _PERCENTILES:
        document[f"p{p:g}_us".replace(".", "_", 1)] = _end_of_bucket(grown, ends, p / 100)
    return document


def check_same_life(before: Mapping[str, Any], after: Mapping[str, Any], apart_s: float) -> None:
    """StartedAgain if a server is not the one that it was `apart_s` seconds before.

    By its uptime: soon its counts may be higher than before though they began anew. The same one
    has been up for so long and what it had been before; another for so long at most. The line is
    half-way between, as an answer may take a while.
    """
    if after["uptime_ms"] < apart_s * 1000 + before["uptime_ms"] / 2:
        raise StartedAgain("the server was started again meanwhile")


def _end_of_bucket(counts: Sequence[int], ends: Sequence[int | None], share: float) -> int | None:
    total, seen = sum(counts), 0
    for count, end in zip(counts, ends, strict=True):
        seen += count
        if count and seen >= share * total:
            return end
    return None


class StoreWindow:
    """Two looks at all nodes, and the document of what was counted between them."""

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
        """Write what there is; looks that were not due yet are not taken any more.

        Nothing, where there was no measured time: of a replay, or of a load that never began.
        """
        if not self._timers:
            return
        for timer in self._timers:
            timer.cancel()
            timer.join()
        nodes = {}
        for host in self._hosts:
            (t0, before), (t1, after) = (look.get(host.name, (0.0, {})) for look in self._looks)
            try:
                check_same_life(before, after, t1 - t0)
                counted = {name: difference(before[name], after[name]) for name in COUNTED}
            except (LookupError, TypeError, ValueError) as error:
                why = str(error) if isinstance(error, ValueError) else "a look is missing"
                self._note(host, why, started_again=isinstance(error, StartedAgain))
                continue
            nodes[host.name] = {"begin": t0, "end": t1, **counted}
        write_json(self._path, {"nodes": nodes})

    def _look(self, place: int) -> None:
        def one(host: Host) -> tuple[float, Any] | None:
            t = time.time()
            try:
                return t, json.loads(nodetool.counts(host))
            except (nodetool.NodetoolError, ValueError) as error:
                self._note(host, str(error))
                return None

        found = zip(self._hosts, ssh.on_all(self._hosts, one), strict=True)
        self._looks[place] = {host.name: look for host, look in found if look is not None}

    def _note(self, host: Host, why: str, *, started_again: bool = False) -> None:
        self._events.write(
            t=time.time(),
            what=NOT_COUNTED,
            detail=f"{host.name}: {why}",
            node=host.name,
            started_again=started_again,
        )
