"""Prometheus' remote write, version 1: POST of a WriteRequest, packed by snappy; 204 acknowledges.

The messages are those of Prometheus' prompb/remote.proto and types.proto (prometheus.io,
"Prometheus Remote-Write 1.0 specification"): a WriteRequest of TimeSeries (field 1), each of Labels
(1), sorted by name, and Samples (2); a Label of name (1) and value (2), a Sample of value (1, a
double) and timestamp (2, an int64 in ms). A double has eight bytes, and a time of these years six,
so that both have fixed places, as in `loaders.send.pickled`.
"""

from __future__ import annotations

import cramjam
import numpy as np

from loaders.credentials import Credentials
from loaders.schedule import naming, values
from loaders.schedule.due import Group, Schedule
from loaders.schedule.values import ValueType
from loaders.send.encode import Bytes, Positions
from loaders.send.post import Post, Way

# The wire's tags: of field 1 or 2, with a length, eight bytes or a varint behind it.
_FIRST, _SECOND, _DOUBLE, _VARINT = b"\x0a", b"\x12", b"\x09", b"\x10"
_TIME_BYTES, _VALUE_BYTES = 6, 8
_BITS = 7
_MORE = 0x80
_FROM_MS, _BEFORE_MS = 1 << (_BITS * (_TIME_BYTES - 1)), 1 << (_BITS * _TIME_BYTES)
"""Times with as many bytes: from 1971 to 2109."""
_SAMPLE = _DOUBLE + bytes(_VALUE_BYTES) + _VARINT + bytes(_TIME_BYTES)


class RemoteWrite(Post):
    """Sends batches by remote write; see `Post`."""

    def __init__(
        self, schedule: Schedule, groups: list[Group], credentials: Credentials | None = None
    ) -> None:
        """Prepare the requests; connections are opened when they are needed."""
        way = Way(
            path="/api/v1/write",
            content_type="application/x-protobuf",
            headers="Content-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n",
            encoder=RemoteWriteEncoder,
            # InfluxDB's; whoever takes both has it too.
            health="/ping",
            took_some=lambda _: False,  # it does not say
            pack=lambda body: bytes(cramjam.snappy.compress_raw(body)),
        )
        super().__init__(schedule, groups, way, credentials)


class RemoteWriteEncoder:
    """Encodes the requests of one group, not packed; see `loaders.send.encode.Encoder`."""

    def __init__(self, schedule: Schedule, group: Group) -> None:
        """Make the first request."""
        self._schedule, self._group = schedule, group
        left = schedule.spec.ticks - group.first_tick
        self._make(group.first_tick, min(schedule.spec.points_per_request, left))

    def encode(self, first: int, count: int) -> memoryview:
        """The bytes of `count` points of each sensor from tick `first`.

        They are valid until the next call.
        """
        schedule, group = self._schedule, self._group
        if self._made_for != (schedule.generation(group, first), count):
            self._make(first, count)
        ms = [schedule.timestamp_ms(group.rank, tick) for tick in range(first, first + count)]
        assert all(_FROM_MS <= t < _BEFORE_MS for t in ms)
        whole = values.seeded_values(self._seeds, ms)
        scale = 1000 if ValueType(schedule.spec.value_type) is ValueType.DOUBLE else 1
        raw = np.ascontiguousarray(whole / scale, dtype="<f8").view(np.uint8)
        self._bytes[self._values] = raw.reshape(-1, _VALUE_BYTES)
        times = np.frombuffer(b"".join(map(varint, ms)), dtype=np.uint8)
        self._bytes[self._times] = np.tile(times.reshape(count, _TIME_BYTES), (len(whole), 1))
        return self._bytes.data

    def _make(self, first: int, count: int) -> None:
        schedule, spec = self._schedule, self._schedule.spec
        numbers = schedule.numbers(self._group, first)
        self._seeds = values.seeds(numbers)[:, np.newaxis]
        named = sorted({"__name__": spec.metric, **spec.tags}.items())
        samples = count * _field(_SECOND, _SAMPLE)
        made, ends = bytearray(), []
        for number in numbers.tolist():
            labels = b"".join(
                _field(
                    _FIRST,
                    _field(_FIRST, name.encode())
                    + _field(_SECOND, naming.expand(text, number).encode()),
                )
                for name, text in named
            )
            made += _field(_FIRST, labels + samples)
            step = len(samples) // count
            ends += [len(made) - step * left for left in reversed(range(count))]
        self._bytes: Bytes = np.frombuffer(made, dtype=np.uint8)
        start = np.array(ends, dtype=np.int64)[:, np.newaxis] - len(_SAMPLE)
        self._values: Positions = start + len(_DOUBLE) + np.arange(_VALUE_BYTES)
        self._times: Positions = (
            start + len(_DOUBLE) + _VALUE_BYTES + len(_VARINT) + np.arange(_TIME_BYTES)
        )
        self._made_for = (schedule.generation(self._group, first), count)


def varint(number: int) -> bytes:
    """A whole number from 0 on as protobuf has it: seven bits a byte, the lowest first."""
    found = bytearray()
    while number >= _MORE:
        found.append(number & (_MORE - 1) | _MORE)
        number >>= _BITS
    found.append(number)
    return bytes(found)


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + varint(len(content)) + content
