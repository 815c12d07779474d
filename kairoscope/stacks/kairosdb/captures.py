"""What a run captures of KairosDB and its store: latencies by nodetool, counters, queue depth.

What they write is on disk at every moment, so an interrupted run keeps what was captured.
"""

import contextlib
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.experiment.schema import Capture
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.sampling import Followed, Periodic
from kairoscope.run_folder import CAPTURES, JsonLines, stamp, write_json
from kairoscope.stacks.kairosdb import cql, nodetool
from kairoscope.stacks.kairosdb.client import NUDGE_EVERY_S, Client
from kairoscope.stacks.kairosdb.shards import ShardLoads
from kairoscope.stacks.kairosdb.store_window import StoreWindow

# A storage node that was killed near the end of a load is given so long, in s, to be back before
# what it would have said of itself is missing for good.
PATIENCE_S = 60

# What a load left in memory may be gigabytes and the disk slow: a flush after it took longer than
# 60 s, and made a run incomplete in which all else was known.
FLUSH_S = 600

_DU_TRIES = 5

# Between two attempts at a node that has just been started again, in s.
_AGAIN_S = 2.0


class ProxyHistograms:
    """`nodetool proxyhistograms` of every storage node: raw text kept, parsed beside it.

    nodetool's own before and after the load; during it of Cassandra by its agent.
    """

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
            text = (
                nodetool.proxyhistograms_beside(host)
                if phase == "during"
                else nodetool.run(host, "proxyhistograms")
            )
            rows = nodetool.parse_proxyhistograms(text)
        except (nodetool.NodetoolError, nodetool.FormatError) as error:
            return str(error) or type(error).__name__
        file = Path(host.name) / f"{phase}-{stamp(t)}.txt"
        (self._folder / file).write_text(text)
        self._captures.append(
            {"t": t, "node": host.name, "phase": phase, "file": str(file), "rows": rows}
        )
        return ""


class QueueDepth:
    """KairosDB's queue depth in data points, asked of every node, side by side."""

    EVERY_S = 1

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
        # The newest sample of each node and when it was; None while it does not answer.
        self.waiting: dict[str, int | None] = {host.name: None for host in hosts}
        self._looked: dict[str, float] = {host.name: 0.0 for host in hosts}
        self._nudged = time.monotonic()
        # One for each node: who is slow to answer delays nobody else. Series are due a second
        # apart, and the depth goes up and down with that.
        self.samplers = [
            Periodic(
                f"queue depth of {host.name}",
                self.EVERY_S,
                functools.partial(self.look, host),
                spread=True,
            )
            for host in hosts
        ]

    def look(self, host: Host) -> None:
        """Ask a node once, with the time of its own answer; no answer is a sample too."""
        asked = time.time()
        if self._removed(host):
            self._note(host, asked, 0)
            self._file.write(t=asked, node=host.name, waiting=0, removed=True)
            return
        try:
            depth = self._client.get_json(host, "/api/v1/kairoscope/queue", timeout_s=5)
        except OSError as error:
            self._note(host, asked, None)
            self._file.write(t=asked, node=host.name, error=str(error))
            return
        self._note(host, asked, depth["waiting"])
        # Read some time between question and answer.
        self._file.write(t=(asked + time.time()) / 2, node=host.name, **depth)

    def _note(self, host: Host, t: float, waiting: int | None) -> None:
        self.waiting[host.name] = waiting
        self._looked[host.name] = t

    def nudge(self) -> None:
        """Have KairosDB's own queue store what waits on its disk.

        A node that was started again meanwhile does not look at that by itself. Called as often as
        one likes; it does so every NUDGE_EVERY_S.
        """
        if time.monotonic() - self._nudged < NUDGE_EVERY_S:
            return
        self._nudged = time.monotonic()
        for host in self._hosts:
            if self.waiting[host.name] and self._client.kairosdb(host).stock_queue:
                self._client.nudge(host)

    def total(self, since: float = 0) -> int | None:
        """Points waiting on all nodes together; None if any of them has not told `since` then."""
        if any(looked < since for looked in self._looked.values()):
            return None
        depths = list(self.waiting.values())
        return None if None in depths else sum(d for d in depths if d is not None)


class Captures:
    """All that a run captures of the store beside its load; see `kairoscope.stacks.stack`."""

    def __init__(
        self,
        storage: list[Host],
        talk: Client,
        folder: Path,
        events: JsonLines,
        how: Capture,
        removed: Callable[[Host], bool],
    ) -> None:
        """Files go to the run folder `folder`; `how` is the experiment's section capture."""
        self._storage = storage
        self._talk = talk
        self._events = events
        self._how = how
        self._removed = removed
        self._histograms = ProxyHistograms(
            storage, folder / run_folder.PROXYHISTOGRAMS, events, self._touch
        )
        self._during: Periodic | None = None
        self._window = StoreWindow(storage, folder / run_folder.STORE_WINDOW, events)
        self.samplers: list[Periodic | Followed] = []
        if storage[0].vars["storage_engine"] == "scylla":
            file = JsonLines(folder / run_folder.SHARDS)
            self.samplers.append(ShardLoads(storage, how.shards_every_s, file, events, removed))

    def _touch(self, host: Host) -> None:
        with contextlib.suppress(*cql.SAID, OSError, UserError):  # The capture will say so.
            self._talk.touch(host)

    def before(self) -> list[str]:
        """`proxyhistograms` of all nodes, each of which has coordinated a read before."""
        for host in self._storage:
            self._touch(host)
        return self._histograms.capture("before", PATIENCE_S)

    def start(self, begin_s: float, end_s: float, first_s: float) -> None:
        """`proxyhistograms` again and again, and the store's own counts of the measured part."""
        every_s = self._how.proxyhistograms_every_s
        self._during = Periodic(
            "proxyhistograms",
            every_s,
            lambda: self._histograms.capture("during"),
            after_s=first_s + every_s,
        )
        self._during.start()
        if end_s > begin_s:
            self._window.start(begin_s, end_s)

    def end_at(self, end_s: float) -> None:
        """The measured part ends earlier than was said."""
        self._window.end_at(end_s)

    def loaded(self) -> None:
        """No more looks at `proxyhistograms`."""
        if self._during:
            self._during.stop()

    def stop(self) -> list[str]:
        """End what still looks, and write what there is of the window; looks that ended early."""
        self.loaded()
        self._window.stop()
        return [self._during.error] if self._during and self._during.error else []

    def after(self) -> None:
        """`proxyhistograms` once more, of the nodes that are still the target's."""
        self._histograms.without({h.name for h in self._storage if self._removed(h)})
        self._histograms.capture("after", PATIENCE_S)

    def stored_bytes(self) -> int | None:
        """Bytes of the keyspace's flushed tables on all nodes; None if a node cannot flush."""

        def flushed(host: Host) -> int:
            keyspace = str(host.vars["kairosdb_keyspace"])
            nodetool.run(host, "flush", keyspace, timeout_s=FLUSH_S)
            folder = f"{host.vars['keyspaces_dir']}/{keyspace}"
            # A compaction may end while du looks, and take files away that it has seen.
            for _ in range(_DU_TRIES - 1):
                with contextlib.suppress(ssh.RemoteError):
                    return _du(host, folder)
            return _du(host, folder)

        try:
            return sum(ssh.on_all(self._storage, flushed))
        except (nodetool.NodetoolError, ssh.RemoteError) as error:
            self._events.write(t=time.time(), what="disk not measured", detail=str(error))
            return None


def _du(host: Host, folder: str) -> int:
    return int(ssh.run(host, ["du", "-s", "-B1", folder], sudo=True).split()[0])
