"""How much waits in KairosDB's queue while a load goes on; each sample is on disk at once."""

import functools
import time
from collections.abc import Callable

from kairoscope.hosts.inventory import Host
from kairoscope.hosts.sampling import Periodic
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.kairosdb.servers.client import NUDGE_EVERY_S, Client


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
