"""InfluxDB's line protocol over HTTP: POST /write, a line for each point; 204 acknowledges.

What 204 promises is the server's business: `acknowledgement` of its stack says it.
"""

from __future__ import annotations

import functools

from loaders.credentials import Credentials
from loaders.schedule.due import Group, Schedule
from loaders.send.encode import Encoder, line_text
from loaders.send.post import Post, Way, said_partly

DATABASE = "kairoscope"
"""That the points are written to; a server without databases makes a label of it, or ignores it."""


class Line(Post):
    """Sends batches as lines; see `Post`."""

    def __init__(
        self, schedule: Schedule, groups: list[Group], credentials: Credentials | None = None
    ) -> None:
        """Prepare the requests; connections are opened when they are needed."""
        way = Way(
            path=f"/write?db={DATABASE}&precision=ms",
            content_type="text/plain; charset=utf-8",
            encoder=functools.partial(Encoder, text=line_text),
            health="/ping",
            took_some=said_partly(schedule.spec),
        )
        super().__init__(schedule, groups, way, credentials)
