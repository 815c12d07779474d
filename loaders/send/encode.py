"""Requests as bytes: made once for each group of sensors, and filled in for each tick.

Only timestamps and values change from tick to tick, and they always have the same number of digits.
So a group keeps its request as an array of bytes with the places of those digits, and numpy writes
all new digits at once: no object is made for a point.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from loaders.schedule import naming, values
from loaders.schedule.due import Group, Schedule
from loaders.schedule.protocols import TELNET_PUT
from loaders.schedule.spec import LoadSpec
from loaders.schedule.values import ValueType

_TIME_DIGITS = 13
# Bytes that no name may have, in place of the digits to come.
_TIME, _DIGIT = "\x00", "\x01"
_TIMESTAMP = _TIME * _TIME_DIGITS
_ZERO = ord("0")
RESOURCE = "kairoscope"
"""Of Gnocchi, that the metrics of all sensors belong to."""
DOUBLE_BYTES = 8
_HALF = 10 ** (values.DIGITS // 2)
# The texts 000 … 999: half of a value is written by looking it up.
_HALVES = np.array([list(f"{half:03d}".encode()) for half in range(_HALF)], dtype=np.uint8)

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


def _value(kind: ValueType) -> str:
    """A value's text with places for its digits."""
    return kind.text(values.LOWEST).translate({ord(c): _DIGIT for c in "0123456789"})


def json_text(spec: LoadSpec, series: list[int], count: int) -> str:
    """A body for POST /api/v1/datapoints with `count` points for each series, digits left out."""
    kind = ValueType(spec.value_type)
    value = f'"{_value(kind)}"' if kind is ValueType.STRING else _value(kind)
    if count == 1:
        points = f'"timestamp":{_TIMESTAMP},"value":{value}'
    else:
        points = '"datapoints":[' + ",".join([f"[{_TIMESTAMP},{value}]"] * count) + "]"

    def compact(document: object) -> str:
        return json.dumps(document, separators=(",", ":"))

    # The places of a pattern are as they were in its JSON, so the whole object is a pattern.
    pattern = f'{compact(spec.metric)},{points},"tags":{compact(spec.tags)}'
    metrics = ",".join(f'{{"name":{naming.expand(pattern, number)}}}' for number in series)
    return f"[{metrics}]"


def telnet_text(spec: LoadSpec, series: list[int], count: int) -> str:
    """Telnet commands, a line for each of `count` points of each series, digits left out.

    `put` takes 13 digits for milliseconds, `putm` any number; `puts` is the command for text.
    """
    kind = ValueType(spec.value_type)
    verb = "put" if spec.protocol == TELNET_PUT else "putm"
    if kind is ValueType.STRING:
        verb = "puts"
    tags = " ".join(f"{name}={value}" for name, value in spec.tags.items())
    pattern = f"{verb} {spec.metric} {_TIMESTAMP} {_value(kind)} {tags}\n" * count
    return "".join(naming.expand(pattern, number) for number in series)


def line_text(spec: LoadSpec, series: list[int], count: int) -> str:
    """InfluxDB's line protocol, a line for each of `count` points of each series, digits left out.

    The tags are sorted, as its page asks for (docs.influxdata.com, line protocol of 1.x), and
    the time is in ms, which the request says. Names need no escapes: an experiment's have none of
    the characters that do.
    """
    kind = ValueType(spec.value_type)
    value = _value(kind)
    if kind is ValueType.LONG:
        value += "i"
    elif kind is ValueType.STRING:
        value = f'"{value}"'
    tags = "".join(f",{name}={text}" for name, text in sorted(spec.tags.items()))
    pattern = f"{spec.metric}{tags} value={value} {_TIMESTAMP}\n" * count
    return "".join(naming.expand(pattern, number) for number in series)


def plaintext_text(spec: LoadSpec, series: list[int], count: int) -> str:
    """Carbon's plaintext protocol, a line for each of `count` points of each series, digits left
    out.

    The tags are parts of the path (`path_of`). Time is in seconds there, and may have a fraction.
    """
    seconds = _TIME * (_TIME_DIGITS - 3) + "." + _TIME * 3
    value = _value(ValueType(spec.value_type))
    pattern = f"{path_of(spec.metric, spec.tags)} {value} {seconds}\n" * count
    return "".join(naming.expand(pattern, number) for number in series)


def measures_text(spec: LoadSpec, series: list[int], count: int) -> str:
    """A body for Gnocchi's POST /v1/batch/resources/metrics/measures with `count` points for each
    series, digits left out: all are metrics of one resource, by their dotted paths.

    Time is in seconds there (its page, REST API usage).
    """
    seconds = _TIME * (_TIME_DIGITS - 3) + "." + _TIME * 3
    point = f'{{"timestamp":{seconds},"value":{_value(ValueType(spec.value_type))}}}'
    path, points = path_of(spec.metric, spec.tags), ",".join([point] * count)
    metrics = (f"{json.dumps(naming.expand(path, number))}:[{points}]" for number in series)
    return f'{{"{RESOURCE}":{{{",".join(metrics)}}}}}'


def path_of(metric: str, tags: Mapping[str, str]) -> str:
    """A series, or the pattern of all, as a dotted path: `temperature.sensor.7`."""
    return ".".join([metric, *(f"{name}.{text}" for name, text in sorted(tags.items()))])


class _Template:
    """The request of one generation of a group's sensors, with its places for digits."""

    def __init__(self, text: str, series: Positions, count: int) -> None:
        shape = (len(series), count)
        self.bytes: Bytes = np.frombuffer(bytearray(text.encode()), dtype=np.uint8)
        times = np.flatnonzero(self.bytes == ord(_TIME)).reshape(*shape, _TIME_DIGITS)
        # By digit, so that only those that changed need be written: mostly one or two of 13.
        self._times = [np.ascontiguousarray(times[:, :, place]) for place in range(_TIME_DIGITS)]
        digits = np.flatnonzero(self.bytes == ord(_DIGIT)).reshape(-1, 2, values.DIGITS // 2)
        self._high = np.ascontiguousarray(digits[:, 0])
        self._low = np.ascontiguousarray(digits[:, 1])
        self._seeds = values.seeds(series)[:, np.newaxis]
        self._written = b""

    def fill(self, timestamps_ms: list[int]) -> None:
        """Write timestamps (epoch ms, one a tick) and the values that belong to them."""
        text = "".join(map(str, timestamps_ms)).encode()
        for place, positions in enumerate(self._times):
            digits = text[place::_TIME_DIGITS]
            if digits != self._written[place::_TIME_DIGITS]:
                self.bytes[positions] = np.frombuffer(digits, dtype=np.uint8)
        self._written = text
        whole = values.seeded_values(self._seeds, timestamps_ms).ravel()
        high, low = np.divmod(whole, _HALF)
        self.bytes[self._high] = _HALVES.take(high, axis=0)
        self.bytes[self._low] = _HALVES.take(low, axis=0)


class Prepared(ABC):
    """Encodes the requests of one group: each is made once, and filled in for each tick."""

    _bytes: Bytes

    def __init__(self, schedule: Schedule, group: Group) -> None:
        """Make the first request."""
        self._schedule, self._group = schedule, group
        left = schedule.spec.ticks - group.first_tick
        self._prepare(group.first_tick, min(schedule.spec.points_per_request, left))

    def encode(self, first: int, count: int) -> memoryview:
        """The bytes of `count` points of each sensor from tick `first`.

        They are valid until the next call.
        """
        schedule, group = self._schedule, self._group
        if self._made_for != (schedule.generation(group, first), count):
            self._prepare(first, count)
        ticks = range(first, first + count)
        self._fill([schedule.timestamp_ms(group.rank, tick) for tick in ticks])
        return self._bytes.data

    def _prepare(self, first: int, count: int) -> None:
        self._make(self._schedule.numbers(self._group, first), count)
        self._made_for = (self._schedule.generation(self._group, first), count)

    @abstractmethod
    def _make(self, series: Positions, count: int) -> None:
        """Make `_bytes`: a request with `count` points of each of these series."""

    @abstractmethod
    def _fill(self, timestamps_ms: list[int]) -> None:
        """Write timestamps (epoch ms, one a tick) and the values that belong to them into it."""


class Encoder(Prepared):
    """Encodes requests that are text."""

    def __init__(
        self,
        schedule: Schedule,
        group: Group,
        text: Callable[[LoadSpec, list[int], int], str],
    ) -> None:
        """`text` is one of the functions above."""
        self._text = text
        super().__init__(schedule, group)

    def _make(self, series: Positions, count: int) -> None:
        text = self._text(self._schedule.spec, series.tolist(), count)
        self._template = _Template(text, series, count)
        self._bytes = self._template.bytes

    def _fill(self, timestamps_ms: list[int]) -> None:
        self._template.fill(timestamps_ms)


class BinaryEncoder(Prepared):
    """Encodes requests in which a value is a double, and has its bytes in the same place."""

    _FLOAT = "<f8"
    _times: Positions
    _values: Positions

    def _fill(self, timestamps_ms: list[int]) -> None:
        whole = values.seeded_values(self._seeds, timestamps_ms)
        scale = 1000 if ValueType(self._schedule.spec.value_type) is ValueType.DOUBLE else 1
        self._bytes[self._values] = self._floats(whole / scale)
        times = self._written(timestamps_ms)
        self._bytes[self._times] = np.tile(times, (len(whole), 1))

    def _floats(self, numbers: npt.NDArray[np.float64]) -> Bytes:
        raw = np.ascontiguousarray(numbers, dtype=self._FLOAT).view(np.uint8)
        return raw.reshape(-1, DOUBLE_BYTES)

    @abstractmethod
    def _written(self, timestamps_ms: list[int]) -> Bytes:
        """Timestamps as they stand there: a row of bytes each."""

    def _make(self, series: Positions, count: int) -> None:
        self._seeds = values.seeds(series)[:, np.newaxis]
        self._lay_out(series.tolist(), count)

    @abstractmethod
    def _lay_out(self, series: list[int], count: int) -> None:
        """Make `_bytes`, and say where `_times` and `_values` are in it, a row for each point."""
