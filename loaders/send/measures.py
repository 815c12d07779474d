"""Gnocchi's REST interface: POST of measures of many metrics in one JSON; 202 acknowledges.

A metric that is not there yet is made on the way, by the server's own rule of archive policies.
"""

from __future__ import annotations

import functools

from loaders.credentials import Credentials
from loaders.schedule.due import Group, Schedule
from loaders.send.encode import Encoder, measures_text
from loaders.send.post import Post, Way


class Measures(Post):
    """Sends batches as measures; see `Post`."""

    def __init__(
        self, schedule: Schedule, groups: list[Group], credentials: Credentials | None = None
    ) -> None:
        """Prepare the requests; connections are opened when they are needed."""
        way = Way(
            path="/v1/batch/resources/metrics/measures?create_metrics=true",
            content_type="application/json",
            encoder=functools.partial(Encoder, text=measures_text),
            health="/healthcheck",
            took_some=lambda _: False,  # a body is taken whole or not at all
            acknowledged=202,
        )
        super().__init__(schedule, groups, way, credentials)
