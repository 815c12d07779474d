"""How long it takes until queries find what was sent: counted again and again as a load ends.

What is counted is all of the load's points, so the figure is of the last ones, at the load's rate.
A look takes a while by itself, seconds where there are many points: all were there at some time
between the begin of the last look that lacked some and the end of the one that had them. The first
look comes when the loaders have ended, some tenths of a second after the last point was due: what
is there by then was not looked for before.
"""

import time
from collections.abc import Callable

from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.run.current import CurrentRun
from kairoscope.stacks.stack import Session
from kairoscope.verdict import outcomes

EVERY_S = 0.1
PATIENCE_S = 60.0
"""As long as a load may wait for its backlog by default: what is not there then may be lost."""


def watch(
    current: CurrentRun,
    session: Session,
    console: Console,
    pause: Callable[[float], None] = time.sleep,
    patience_s: float = PATIENCE_S,
) -> None:
    """Write visible.json; nothing where the servers do not tell."""
    assert current.schedule is not None  # there was a load
    schedule = current.schedule
    found = outcomes.read(schedule, current.folder / run_folder.LOAD)
    wanted = found.counts.acknowledged if found.acknowledges else found.counts.sent
    due_s = schedule.spec.end_ms / 1000
    looks, began, lacked_s = 0, time.monotonic(), None
    with live.stage(console, "until queries find all points", wanted, "points") as shown:
        while True:
            asked_s = time.time() - due_s
            try:
                seen = session.visible(schedule)
            except (OSError, ValueError) as error:
                current.note("points not counted", str(error))
                return
            if seen is None:
                return
            answered_s = time.time() - due_s
            looks += 1
            shown(seen)
            there = seen >= wanted
            lacked_s = lacked_s if there else asked_s
            if there or time.monotonic() - began > patience_s:
                break
            pause(EVERY_S)
    record = {
        "wanted": wanted,
        "found": seen,
        "looks": looks,
        "lacked_s": lacked_s,
        "asked_s": asked_s,
        "after_due_s": answered_s if there else None,
    }
    run_folder.write_json(current.folder / run_folder.VISIBLE, record)
