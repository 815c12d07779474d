"""Wait until what a KairosDB node was given is in the store."""

import time

from kairoscope import client
from kairoscope.client import Client
from kairoscope.errors import UserError
from kairoscope.inventory import Host, Inventory

METRIC = "kairoscope.drain"
_LOOK_S = 0.5
# KairosDB looks at its clock for a checkpoint, and at what waits on disk, only when points come.
_NUDGE_S = 5
# The points of the nudges are of no use to anybody a while later.
_TTL_S = 3600


def wait(host: Host, hosts: Inventory, limit_s: float, for_good: bool) -> str:
    """Wait until a KairosDB node's queue is stored; what was found.

    For now: nothing waits. A node that does not answer has nothing to be waited for, and what is
    left when the time is over stays on its disk.

    For good: all that it had been given is before the queue's checkpoint, so that what was in
    flight to the store is known to be there. UserError if it does not come to that.
    """
    deadline = time.monotonic() + limit_s
    nudge_at = time.monotonic()
    nudges = 0
    with client.connect(hosts, [host]) as talk:
        while True:
            found = talk.kairosdb(host)
            if not found.healthy and not for_good:
                return "it does not answer"
            # For good: what came since the checkpoint is nothing but our own.
            passed = not for_good or (found.since_checkpoint or 0) <= nudges
            if found.healthy and found.waiting == 0 and passed:
                return "drained"
            if time.monotonic() > deadline:
                told = f"{found.waiting} points wait, {found.since_checkpoint} since its checkpoint"
                text = told if found.healthy else "it does not answer"
                if not for_good:
                    return text
                raise UserError(f"{host.name} after {limit_s:.0f} s: {text}")
            if found.healthy and time.monotonic() >= nudge_at:
                nudge_at = time.monotonic() + _NUDGE_S
                nudges += _nudge(talk, host)
            time.sleep(_LOOK_S)


def _nudge(talk: Client, host: Host) -> int:
    """Give a node one point; how many it has taken for sure, 0 or 1."""
    point = {
        "name": METRIC,
        "datapoints": [[int(time.time() * 1000), 0]],
        "tags": {"node": host.name},
        "ttl": _TTL_S,
    }
    try:
        talk.post(host, "/api/v1/datapoints", [point])
    except OSError:
        return 0
    return 1
