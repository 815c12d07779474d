"""What attacks of a queue need: posts of any kind, and a small disk."""

from __future__ import annotations

import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

MIB = 1 << 20


class Answer(NamedTuple):
    """Of KairosDB's to a post."""

    status: int
    document: dict[str, Any]
    retry_after: str | None


def post(url: str, body: bytes | list[Any], **headers: str) -> Answer:
    """Post points, or what looks like it; an answer with errors must be KairosDB's JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = urllib.request.Request(  # noqa: S310 (ours)
        f"{url}/api/v1/datapoints",
        data=data,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            return Answer(answer.status, {}, None)
    except urllib.error.HTTPError as error:
        with error:
            said = json.loads(error.read())
        return Answer(error.code, said, error.headers["Retry-After"])


def point(name: str, t: int, value: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "timestamp": t, "value": value, "tags": {"attack": "yes"}} | more


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Disk:
    """A small file system of memory, and what else fills it."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.ballast = where / "ballast"

    def fill(self, leave: int) -> None:
        """Take its room, up to so many bytes."""
        room = os.statvfs(self.where)
        # The queue may take the last of it meanwhile.
        with contextlib.suppress(OSError), self.ballast.open("wb", buffering=0) as file:
            for _ in range((room.f_bavail * room.f_bsize - leave) // MIB):
                file.write(bytes(MIB))
