"""What of the followed sensors is asked for, when, and what is written down of each answer.

As in Jepsen's set-full (checker.clj) an element is looked for again and again, and what is kept is
the history: of each read when it began and ended, what it asked for and what it did not find. What
that makes of each point is the verdict's to say, with the times of the acknowledgements. So a
reader remembers nothing of a point, however long the run is. A read that got no answer says
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loaders.query.answers import Checked
from loaders.query.queries import Query, QueryLoad
from loaders.schedule import follow

EVERY_US = 1_000_000
"""From one read of a host to its next; they go to the KairosDB nodes by turns. What becomes visible
is known to so much time, as long as the nodes answer."""
_BEYOND_LAG_MS = 60_000
"""A point is looked for until it is so much older than when it should be there."""
_MOST_TICKS = 1000
"""Points of a sensor in one read at most: beyond that a shorter span is asked for."""

Record = dict[str, Any]


class Following:
    """The followed sensors of a loader host, and how many reads came to what."""

    def __init__(self, load: QueryLoad, host: int) -> None:
        """Nothing is read yet. ValueError if there is no such host."""
        self._load = load
        spec = load.schedule.spec
        self._places = follow.places(spec, host)
        self._counts = {"reads": 0, "unanswered": 0, "wrong": 0}
        assert spec.queries  # as `load` has them
        shortest_ms = min(step.period_ms for step in spec.steps)
        expected_ms = spec.queries.lag_s * 1000 + _BEYOND_LAG_MS
        self._span_ms = min(expected_ms, _MOST_TICKS * shortest_ms)

    def __bool__(self) -> bool:
        """Whether any sensor is followed."""
        return bool(self._places)

    def due_us(self, node: int, now_us: int) -> int:
        """When a node is asked next, after `now_us` (epoch)."""
        spec = self._load.schedule.spec
        turn_us = EVERY_US * len(spec.nodes)
        first_us = spec.start_ms * 1000 + EVERY_US * (node + 1)
        return first_us + max(0, (now_us - first_us) // turn_us + 1) * turn_us

    def query(self, node: int, now_us: int) -> Query | None:
        """What a node is asked for now; None before there is a point."""
        from_ms = max(now_us // 1000 - self._span_ms, self._load.schedule.spec.start_ms)
        return self._load.for_places(self._places, node, now_us, from_ms)

    def unanswered(self, query: Query, ended_us: int, why: str) -> Record:
        """A read of which nothing is known."""
        self._counts["reads"] += 1
        self._counts["unanswered"] += 1
        return {**_when(query, ended_us), "unanswered": why}

    def answered(self, query: Query, ended_us: int, checked: Checked) -> Record:
        """A read, with what it asked for of each series and what it did not find."""
        self._counts["reads"] += 1
        found: Record = {"series": list(self._looked_for(query, checked))}
        if checked.wrong:
            self._counts["wrong"] += 1
            found |= {"wrong": checked.wrong, "first_wrong": checked.first_wrong}
        return {**_when(query, ended_us), **found}

    def _looked_for(self, query: Query, checked: Checked) -> Iterator[Record]:
        for entry in query.entries:
            for rank, numbers, ticks in self._load.living(query, entry):
                series = int(numbers[0])
                times = self._load.schedule.timestamps_ms(rank, ticks)
                absent = np.flatnonzero(np.isin(times, checked.absent.get(series, [])))
                cuts = np.flatnonzero(np.diff(absent) != 1) + 1
                spans = [piece + ticks.start for piece in np.split(absent, cuts) if len(piece)]
                yield {
                    "series": series,
                    "ticks": [ticks.start, ticks.stop],
                    "absent": [[int(span[0]), int(span[-1]) + 1] for span in spans],
                }

    def to_json(self) -> Record:
        """As the reader's final figures have it."""
        return {"sensors": len(self._places), **self._counts}


def _when(query: Query, ended_us: int) -> Record:
    return {"begun": query.planned_us / 1e6, "ended": ended_us / 1e6, "node": query.node}
