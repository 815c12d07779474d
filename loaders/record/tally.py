"""What one worker counts, in points, and the equations that must hold."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from loaders.record.silence import Silences

_FIRST_ERRORS = 10


class Outcome(enum.Enum):
    """What finally became of a request's points."""

    ACKNOWLEDGED = "acknowledged"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    """An attempt may have reached the server, and nothing confirms it: stored or not. Over telnet
    that is the best there is."""
    NOT_SENT = "not_sent"
    """Given up, and no attempt can have reached the server."""


@dataclass
class Tally:
    """Cumulative counters of a worker: points, but `retries` and `errors`, which count attempts.

    A point is `taken` when its request leaves the schedule, and `sent` as soon
    as an attempt may have reached the server. When all is settled, scheduled = sent + not_sent and
    sent = acknowledged + rejected + unknown.

    `in_time_by_step` are points after the warm-up that were acknowledged (over telnet: handed over)
    within the latency limit of their planned time, by the step in which they were due, whenever
    that was. `untimed` are those that have no latency: refused, or never begun as the worker was
    stopped. Those by node are of the node that a request was sent to last. `arrived_us` (epoch) is
    when the latest ones were acknowledged (over telnet: handed over).
    """

    taken: int = 0
    sent: int = 0
    settled: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    sent_by_node: Counter[int] = field(default_factory=Counter)
    acknowledged_by_node: Counter[int] = field(default_factory=Counter)
    in_time_by_step: Counter[int] = field(default_factory=Counter)
    untimed: int = 0
    arrived_us: int | None = None
    silences: Silences = field(default_factory=Silences)
    retries: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    first_errors: list[str] = field(default_factory=list)

    @property
    def in_time(self) -> int:
        """Those of all steps."""
        return self.in_time_by_step.total()

    @property
    def in_flight(self) -> int:
        """Points taken from the schedule that have no outcome yet, waiting ones included."""
        return self.taken - sum(self.settled.values())

    def error(self, kind: str, text: str) -> None:
        """Count a failed attempt, and keep the text of the first ones."""
        self.errors[kind] += 1
        if len(self.first_errors) < _FIRST_ERRORS:
            self.first_errors.append(text)

    def counters(self) -> dict[str, int]:
        """The point counters under the names used in files."""
        return {
            "sent": self.sent,
            "in_time": self.in_time,
            **{outcome.value: count for outcome, count in self.settled.items()},
        }
