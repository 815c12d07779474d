"""Three questions that every system is asked in its own words while points come in: the last point
of some sensors, an hour of one, and the mean of all in each second of a minute.

Which sensors and which time is said here, the same for all, and follows from the schedule alone.
How it is put, by a documented interface, is each stack's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaders.schedule.due import Schedule

LAST, HOUR, MEANS = "last", "hour", "means"
KINDS = (LAST, HOUR, MEANS)
SENSORS = 100
"""Whose last point is asked for."""
ENDED_EARLY = "questions ended early"
"""The event of a run whose questions did not come to their end, with what is known of why."""
EVERY_MS = 500
"""Between two questions of a kind: a hundred and twenty in a minute, so that one is beyond the 99th
percentile."""
# How far back is asked for. A sensor that has sent nothing for a minute has no last point.
_SPAN_MS = {LAST: 60_000, HOUR: 3_600_000, MEANS: 60_000}


@dataclass(frozen=True)
class Question:
    """What is asked for, and when.

    Attributes:
        number: counted of each kind.
        kind: LAST, HOUR or MEANS.
        metric: of all series of the load.
        tag: the one that tells them apart.
        series: tags of those that are meant; none: all of the metric.
        names: of all tags.
        from_ms, until_ms: the time [from, until) that is asked for, at its end; epoch ms.
    """

    number: int
    kind: str
    metric: str
    tag: str
    series: tuple[Mapping[str, str], ...]
    names: tuple[str, ...]
    from_ms: int
    until_ms: int

    @property
    def texts(self) -> list[str]:
        """Of the tag that tells series apart, of those that are meant."""
        return [tags[self.tag] for tags in self.series]


@dataclass(frozen=True)
class Request:
    """A question in a system's words: GET, or POST if there is a document to be sent as JSON.

    Attributes:
        url: without parameters.
        given: the parameters.
        found: how many sensors (LAST), points (HOUR) or seconds (MEANS) an answer's body has; a
            ValueError, LookupError or TypeError if it is none.
    """

    url: str
    found: Callable[[bytes], int]
    given: Mapping[str, str] | None = None
    document: Any = None


Asks = Callable[[Sequence[Question]], Iterable[Request | str]]
"""Puts each question in a system's words, or says why it cannot be asked. It is sent to another
process (so it is pickled) and called there shortly before the first is due, under the load."""


def of_load(schedule: Schedule) -> list[Question]:
    """Questions of all kinds in the order in which they are due, from the warm-up's end on.

    For loads of one metric with a tag of each series' own, whose sensors stay.
    """
    spec = schedule.spec
    tag = next(name for name, pattern in spec.tags.items() if "{n}" in pattern)
    found = []
    for place, kind in enumerate(KINDS):
        rng = np.random.default_rng((spec.seed, place))
        meant = {LAST: min(SENSORS, spec.sensors), HOUR: 1, MEANS: 0}[kind]
        # The kinds take turns.
        first_ms = schedule.timestamp_ms(0, spec.warmup_ticks) + place * EVERY_MS // len(KINDS)
        for number, due_ms in enumerate(range(first_ms, spec.end_ms, EVERY_MS)):
            chosen = rng.choice(spec.sensors, meant, replace=False).tolist()
            series = tuple(spec.tags_of(sensor) for sensor in chosen)
            span = (due_ms - _SPAN_MS[kind], due_ms)
            names = tuple(spec.tags)
            found.append(Question(number, kind, spec.metric, tag, series, names, *span))
    return sorted(found, key=lambda question: question.until_ms)
