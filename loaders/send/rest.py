"""KairosDB's REST interface: POST /api/v1/datapoints, JSON, plain or gzip; 204 acknowledges."""

from __future__ import annotations

import functools
import json
import zlib

from loaders.credentials import Credentials
from loaders.schedule.due import Group, Schedule
from loaders.schedule.protocols import REST_GZIP
from loaders.send.encode import Encoder, json_text
from loaders.send.post import Post, Way

# The fastest: the loader shares the machine, and points repeat so much that it hardly matters.
_GZIP_LEVEL = 1
_GZIP_WBITS = 31


class Rest(Post):
    """Sends batches as JSON; see `Post`."""

    def __init__(
        self, schedule: Schedule, groups: list[Group], credentials: Credentials | None = None
    ) -> None:
        """Prepare the requests; connections are opened when they are needed."""
        gzip = schedule.spec.protocol == REST_GZIP
        way = Way(
            path="/api/v1/datapoints",
            content_type="application/gzip" if gzip else "application/json",
            encoder=functools.partial(Encoder, text=json_text),
            health="/api/v1/health/check",
            took_some=_took_some,
            pack=_packed if gzip else None,
        )
        super().__init__(schedule, groups, way, credentials)


def _packed(body: memoryview) -> bytes:
    return zlib.compress(body, _GZIP_LEVEL, _GZIP_WBITS)


def _took_some(body: bytes) -> bool:
    """Whether a refusal says that other points of the request were taken.

    Kairoscope's queue says {"taken": 99, "refused": 1, …}; KairosDB alone says nothing of that.
    """
    try:
        said = json.loads(body)
    except ValueError:
        return False
    taken = said.get("taken") if isinstance(said, dict) else None
    return isinstance(taken, int) and taken > 0
