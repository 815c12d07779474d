"""What a run captures of the store: latencies by nodetool, counters, bytes on disk.

What they write is on disk soon or at the end, so an interrupted run keeps what was captured.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.experiment.schema.capture import Capture
from kairoscope.hosts import ssh, stored
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.sampling import Followed, Periodic
from kairoscope.run_folder import CAPTURES, JsonLines, stamp, write_json
from kairoscope.stacks.kairosdb.captures.store_window import StoreWindow
from kairoscope.stacks.kairosdb.scylla.shards import ShardLoads
from kairoscope.stacks.kairosdb.servers import cql, nodetool
from kairoscope.stacks.kairosdb.servers.client import Client

# A storage node that was killed near the end of a load is given so long, in s, to be back before
# what it would have said of itself is missing for good.
PATIENCE_S = 60

# What a load left in memory may be gigabytes and the disk slow: a flush after it took longer than
# 60 s, and made a run incomplete in which all else was known.
FLUSH_S = 600

# So much more than was written of the parsed captures may be in memory alone while a load goes on;
# the raw text of each is on disk at once.
_UNWRITTEN = 0.1

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
        self._written = 0
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
                if phase == "during":
                    # One that was started again has figures at the next look only if it was asked
                    # for rows meanwhile, which no load does.
                    self._touch(host)
                failed.append(host.name)
                self._events.write(
                    t=time.time(),
                    what="capture failed",
                    detail=f"{host.name}: {trouble}",
                    node=host.name,
                    phase=phase,
                )
        # Of a load of a day all of them at each look would be many gigabytes.
        if phase != "during" or len(self._captures) >= (1 + _UNWRITTEN) * self._written:
            self.write()
        return failed

    def write(self) -> None:
        """Write all parsed captures. OSError if the disk is full."""
        write_json(self._folder / Path(CAPTURES).name, self._captures)
        self._written = len(self._captures)

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
        self._histograms.write()
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
            return stored.below(host, f"{host.vars['keyspaces_dir']}/{keyspace}")

        try:
            return sum(ssh.on_all(self._storage, flushed))
        except (nodetool.NodetoolError, ssh.RemoteError) as error:
            self._events.write(t=time.time(), what="disk not measured", detail=str(error))
            return None
