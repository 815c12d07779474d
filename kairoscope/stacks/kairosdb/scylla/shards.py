"""What the shards of ScyllaDB's nodes do while a load goes on."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from kairoscope.hosts.inventory import Host
from kairoscope.hosts.sampling import Followed
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.kairosdb.scylla import metrics

PORT = 9180
"""ScyllaDB's own for Prometheus (`prometheus_port`)."""

_PROGRAM = Path(metrics.__file__)


class ShardLoads(Followed):
    """Looks at each storage node's counters by shard (`metrics`), a line of a file each.

    On the node's own host, as only SSH need be open to us. A node that is down is a line too.
    """

    def __init__(
        self,
        hosts: list[Host],
        every_s: float,
        file: JsonLines,
        events: JsonLines,
        removed: Callable[[Host], bool],
    ) -> None:
        """Not started yet; `file` gets the lines. See `Followed`."""
        super().__init__(hosts, "capture of shards", self._look, self._note, events, removed)
        self._every_s = every_s
        self._file = file
        self._silent: set[str] = set()

    def _look(self, host: Host) -> list[str]:
        options = {"url": url(host), "every_s": self._every_s}
        program = _PROGRAM.read_text()
        # At the lowest priority: the store is being measured on the same machine.
        return ["nice", "-n", "19", "python3", "-u", "-c", program, json.dumps(options)]

    def _note(self, host: Host, line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:  # Cut off by the host's end.
            return
        self._file.write(t=found.pop("t"), node=host.name, **found)
        # Once for each time that it falls silent: the file has every look.
        trouble = found.get("error")
        if trouble and host.name not in self._silent:
            detail = f"{host.name}: {trouble}"
            self._events.write(
                t=time.time(), what="shards not captured", detail=detail, node=host.name
            )
        (self._silent.add if trouble else self._silent.discard)(host.name)


def url(host: Host) -> str:
    """Where a storage node's metrics are, as its own host reaches them."""
    address = host.vars.get("prometheus_address", host.address)
    return f"http://{address}:{host.vars.get('prometheus_port', PORT)}/metrics"
