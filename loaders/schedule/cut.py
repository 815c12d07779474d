"""How a load that runs is told to end earlier than its schedule.

Whoever leads it decides at which tick (`LoadSpec.cut_at`), some seconds ahead; the agent of each
host notes that in a file beside the spec, where the host's processes look once a second. What would
have been due later was never scheduled then: it is neither sent nor missed.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

FILE = "cut.json"

AHEAD_MS = 10_000
"""How far ahead the end has to be, so that every process knows of it in time, however busy."""


class TooLateError(Exception):
    """A process has begun what is beyond the end that it was told of."""


def write(outdir: Path, ticks: int) -> None:
    """Tell the processes of a folder that the schedule has so many ticks.

    Raises:
        OSError: the file cannot be written.
    """
    draft = outdir / f"{FILE}.part"
    draft.write_text(json.dumps({"ticks": ticks}), encoding="utf-8")
    draft.replace(outdir / FILE)


def read(outdir: Path) -> int | None:
    """How many ticks the schedule has; None as long as nobody has cut it."""
    with contextlib.suppress(FileNotFoundError):
        return int(json.loads((outdir / FILE).read_text(encoding="utf-8"))["ticks"])
    return None


def remove_old(outdir: Path) -> None:
    """Remove what an earlier load left.

    Raises:
        OSError: the file cannot be removed.
    """
    (outdir / FILE).unlink(missing_ok=True)
