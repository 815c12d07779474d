"""What whisper files have of the last seconds: carbon's own metrics, which it writes as others.

Standard library only: to a host of its own it is sent as text, and run by the host's own Python,
as root. Argument: {"root": folder of all files, "fresh_s": seconds, "wanted": a glob of files below
it by a name}. Prints [time in s, value] of the newest point of each file, by that name.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from pathlib import Path

# Of a file, of its one archive, and of a point; see `whisper`.
_HEAD = struct.Struct("!2LfL3L")
_POINT = struct.Struct("!Ld")

Point = tuple[int, float]


def point(file: Path, fresh_s: float) -> Point | None:
    """The newest point of a file of one archive; None if it has none of the last seconds."""
    try:
        with file.open("rb") as whole:
            *_, offset, step, room = _HEAD.unpack(whole.read(_HEAD.size))
            whole.seek(offset)
            # The ring's first place tells which time each of the others is of.
            first = _POINT.unpack(whole.read(_POINT.size))[0]
            now = int(time.time())
            for at in range(now - now % step, int(now - fresh_s), -step):
                whole.seek(offset + (at - first) // step % room * _POINT.size)
                when, value = _POINT.unpack(whole.read(_POINT.size))
                if when == at:
                    return when, value
    except (OSError, struct.error, ZeroDivisionError):
        pass  # Not there, or not whole yet.
    return None


def points(root: str, wanted: dict[str, str], fresh_s: float) -> dict[str, list[Point]]:
    """The newest point of each file by name, of those that have one."""
    return {
        name: [
            found for file in Path(root).glob(files) if (found := point(file, fresh_s)) is not None
        ]
        for name, files in wanted.items()
    }


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(points(given["root"], given["wanted"], given["fresh_s"])))
