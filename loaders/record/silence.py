"""How long points were due while no acknowledgement arrived: of a worker, and of each node by it.

A share of points in time forgives an outage by the length of the run: one hundredth of a day is a
quarter of an hour. So the longest silence is measured for itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

# Shorter ones are the ordinary time of an answer; longer ones are kept, to be put beside those of
# other workers.
LONG_US = 250_000
_MOST_KEPT = 200

Span = tuple[int, int]


@dataclass(slots=True)
class _Line:
    """Whether points are due somewhere, and since when none was acknowledged (epoch µs)."""

    from_us: int
    due: int = 0  # requests that are due and have no outcome
    since_us: int | None = None
    longest: Span | None = None
    long: list[Span] = field(default_factory=list)

    def begin(self, at_us: int) -> None:
        self.due += 1
        if self.since_us is None:
            self.since_us = max(at_us, self.from_us)

    def end(self, now_us: int, *, arrived: bool) -> None:
        """A request is settled; one that did not arrive was due, and its silence goes on."""
        self.due -= 1
        if arrived:
            self.close(now_us)
            self.since_us = max(now_us, self.from_us) if self.due else None

    def leave(self, now_us: int) -> None:
        """A request is due elsewhere from now on."""
        self.due -= 1
        if not self.due:
            self.close(now_us)

    def close(self, now_us: int) -> None:
        """The silence, if there is one, ends here."""
        if self.since_us is not None and now_us > self.since_us:
            span = (self.since_us, now_us)
            if self.longest is None or _length(span) > _length(self.longest):
                self.longest = span
            if _length(span) >= LONG_US:
                self.long.append(span)
                if len(self.long) > _MOST_KEPT:
                    self.long.remove(min(self.long, key=_length))
        self.since_us = None

    def to_json(self) -> dict[str, Any]:
        """The longest in s, and the long ones as [from, to] in epoch s."""
        return {
            "longest_s": _length(self.longest) / 1e6 if self.longest else 0.0,
            "from_t": self.longest[0] / 1e6 if self.longest else None,
            "long": [[first / 1e6, last / 1e6] for first, last in self.long],
        }


def _length(span: Span) -> int:
    return span[1] - span[0]


class Silences:
    """Of one worker; told of requests, from when they are due to their outcome."""

    def __init__(self, from_us: int = 0) -> None:
        """Silence counts from `from_us` on (epoch), the end of the warm-up."""
        self._all = _Line(from_us)
        self._nodes: defaultdict[int, _Line] = defaultdict(lambda: _Line(from_us))

    def due(self, planned_us: int) -> None:
        """A request is due."""
        self._all.begin(planned_us)

    def placed(self, node: int, at_us: int) -> None:
        """A request is due at a node, from `at_us`."""
        self._nodes[node].begin(at_us)

    def moved(self, node: int, now_us: int) -> None:
        """A request is no longer due at a node, as another one gets it."""
        self._nodes[node].leave(now_us)

    def node_went_down(self, node: int, now_us: int) -> None:
        """All that is due at a node goes elsewhere."""
        self._nodes[node].close(now_us)

    def settled(self, node: int | None, now_us: int, *, arrived: bool) -> None:
        """A request has its outcome; `node`: where it was due last."""
        self._all.end(now_us, arrived=arrived)
        if node is not None:
            self._nodes[node].end(now_us, arrived=arrived)

    def to_json(self, nodes: int, now_us: int) -> dict[str, Any]:
        """What the worker's final figures say of it; silences that go on end now."""
        for line in (self._all, *self._nodes.values()):
            line.close(now_us)
        return {
            **self._all.to_json(),
            "by_node": [self._nodes[node].to_json() for node in range(nodes)],
        }
