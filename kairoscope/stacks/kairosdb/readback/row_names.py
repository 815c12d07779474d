"""From KairosDB's row keys back to the series of a run."""

import re
import struct
from collections.abc import Callable

from kairoscope.stacks.kairosdb.readback import queries
from loaders.schedule import naming
from loaders.schedule.due import Group, Schedule, Series
from loaders.schedule.values import ValueType
from loaders.send.kairos_rows import escaped, row_key, type_name


class Names:
    """From KairosDB's row keys back to the series of a run."""

    def __init__(self, schedule: Schedule) -> None:
        """Of the series of this schedule."""
        self._schedule = schedule
        spec = schedule.spec
        self._spec = spec
        self._type = type_name(ValueType(spec.value_type))
        groups = [g for worker in range(spec.workers) for g in schedule.groups(worker)]
        self._groups: list[Group] = sorted(groups, key=lambda group: group.rank)
        self._metric = _pattern(spec.metric)
        self._tag = None
        if tag := queries.telling_tag(spec):
            # As `row_key` writes it: among the others, each with its end.
            name, value = escaped(tag, ":"), _escaped_pattern(spec.tags[tag])
            self._tag = re.compile(f"(?:^|.*?:){re.escape(name)}={value}:.*")

    @property
    def count(self) -> int:
        """All series numbers are below it."""
        spec = self._spec
        lives = max(self._schedule.generation(g, spec.ticks - 1) for g in self._groups)
        return (lives + 1) * spec.sensors

    def series(self, number: int) -> Series | None:
        """The series of a number; None if the run has none."""
        slot, wanted = number % self._spec.sensors, number // self._spec.sensors
        group = self._groups[int(self._schedule.rank_of[slot])]
        for life in self._schedule.lives(group):
            if self._schedule.generation(group, life.start) == wanted:
                return Series(number, group.worker, group.index, group.rank, life)
        return None

    def key(self, number: int, row_ms: int) -> bytes:
        """The row key of a series."""
        spec = self._spec
        return row_key(spec.metric_name(number), row_ms, spec.tags_of(number), self._type)

    def look(self, key: bytes) -> tuple[Series, int, bool] | None:
        """The series of a row key, its row's time in ms, and whether key and type are its own.

        None for a key that has nothing to do with this run.
        """
        name, _, rest = key.partition(b"\0")
        metric = self._metric.fullmatch(name.decode(errors="replace"))
        if not metric or len(rest) < 10:  # time, 0, length
            return None
        row_ms: int = struct.unpack(">q", rest[:8])[0]
        found: re.Match[str] | None = metric
        if self._tag:
            found = self._tag.fullmatch(rest[10 + rest[9] :].decode(errors="replace"))
        if not found:
            return None
        number = int(found[1]) if found.re.groups else 0
        series = self.series(number)
        if series is None:
            return None
        return series, row_ms, key == self.key(number, row_ms)


def _pattern(text: str) -> re.Pattern[str]:
    """What matches the names that a pattern of `naming` gives, with {n} as the first group."""
    return re.compile(_with_places(text, re.escape))


def _escaped_pattern(text: str) -> str:
    return _with_places(text, lambda part: re.escape(escaped(part, "=")))


def _with_places(text: str, literal: Callable[[str], str]) -> str:
    parts, last = [], 0
    for place in naming.PLACE.finditer(text):
        parts.append(literal(text[last : place.start()]))
        parts.append("[0-9]+" if place[1] else "([0-9]{1,18})")
        last = place.end()
    return "".join([*parts, literal(text[last:])])
