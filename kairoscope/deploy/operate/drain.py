"""Wait until what a KairosDB node was given is in the store."""

import time

from kairoscope.deploy.operate import queue
from kairoscope.errors import UserError
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.stacks.kairosdb.servers import client

_LOOK_S = 0.5


def wait(host: Host, hosts: Inventory, limit_s: float, for_good: bool) -> str:
    """Wait until a KairosDB node's queue is stored; what was found.

    For now: nothing waits. A node that does not answer has nothing to be waited for, and what is
    left when the time is over stays on its disk.

    For good: what was in flight to the store is known to be there. With the coalescing queue it
    counts as waiting until then; of the stock queue, all that it was given must be before its
    checkpoint. UserError if it does not come to that.
    """
    deadline = time.monotonic() + limit_s
    nudge_at = time.monotonic()
    nudges = 0
    with client.connect(hosts, [host]) as talk:
        while True:
            found = talk.kairosdb(host)
            # One that is not healthy may drain: a node whose disk is full, or that gave up a point.
            if not found.answers and not for_good:
                return "it does not answer"
            # What came since the checkpoint is nothing but our own.
            passed = (found.since_checkpoint or 0) <= nudges
            passed = passed or not for_good or not found.stock_queue
            if found.waiting == 0 and passed:
                return "drained"
            if time.monotonic() > deadline:
                told = f"{found.waiting} points wait, {found.since_checkpoint} since its checkpoint"
                text = told if found.answers else "it does not answer"
                if not for_good:
                    return text
                raise UserError(f"{host.name} after {limit_s:.0f} s: {text}")
            if found.stock_queue and time.monotonic() >= nudge_at:
                nudge_at = time.monotonic() + client.NUDGE_EVERY_S
                nudges += talk.nudge(host)
            time.sleep(_LOOK_S)


def check_empty(host: Host) -> None:
    """UserError unless nothing is in the queue of a KairosDB node that does not run.

    Of one that ever took points the last one stays there, also once it is stored: its queue is
    empty only if somebody has dropped what was in it.
    """
    found = queue.look(host)
    if found.trouble:
        raise UserError(f"{host.name}: what is in its queue is not known: {found.trouble}")
    if found.waiting or found.unreadable:
        torn = f", and {found.unreadable:,} that cannot be read" if found.unreadable else ""
        raise UserError(f"{host.name}: {found.waiting:,} points are in its queue{torn}")
