"""A load does not begin on top of what an earlier one left in the queues."""

import time
from typing import Any

from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.plan import Plan
from kairoscope.run.current import CurrentRun
from kairoscope.stacks.stack import Backlog

_TOLD_S = 5.0
"""A node that has not told its queue by then is not waited for: the queue part speaks of it."""


def usual(plan: Plan) -> int:
    """Points that may wait under a steady load: those of a window, or of a second without one."""
    return int(float(plan.totals["points_per_s"]) * max(plan.held_s, 1))


def wait(current: CurrentRun, console: Console, backlog: Backlog) -> None:
    """Wait while more than `usual` points wait, at most as long as a drain may take.

    What came of it is added to the manifest's conditions, if there was anything to wait for. The
    samplers of `backlog` are at work.
    """
    if current.plan.load["replay"]:
        return
    path = current.folder / run_folder.MANIFEST
    manifest = run_folder.read_object(path)
    found = sum(each["waiting"] or 0 for each in manifest["conditions"]["queue"])
    limit = usual(current.plan)
    if found <= limit:
        return
    manifest["conditions"]["backlog"] = _waited(current, console, backlog, limit)
    run_folder.write_json(path, manifest)


def _waited(current: CurrentRun, console: Console, backlog: Backlog, limit: int) -> dict[str, Any]:
    """`limit`, and how many points are left (None: not known) after how many seconds."""
    began, since = time.monotonic(), time.time()
    most_s = current.plan.experiment.limits.drain_s
    what = f"points of an earlier load wait, until at most {limit:,} do"
    with live.stage(console, what, None, "points") as shown:
        while True:
            left, took_s = backlog.total(since=since), time.monotonic() - began
            shown(left or 0)
            current.at("backlog", waiting=left)
            untold = left is None and took_s >= _TOLD_S
            if untold or took_s >= most_s or (left is not None and left <= limit):
                return {"limit": limit, "left": left, "waited_s": round(took_s, 1)}
            backlog.nudge()
            time.sleep(0.5)
