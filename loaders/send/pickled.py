"""Carbon's pickle protocol: requests as bytes, made once for each group of sensors.

A message is its length in four bytes and a pickle of [(path, (time in s, value)), …]
(carbon 1.1.10, lib/carbon/protocols.py, MetricPickleReceiver). A float has eight bytes in a pickle
whatever it is (opcode BINFLOAT of Python's pickletools), so times and values have fixed places, as
the digits of text have in `loaders.send.encode`.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from loaders.schedule import naming, values
from loaders.schedule.due import Group, Schedule
from loaders.schedule.values import ValueType
from loaders.send.encode import Bytes, Positions, path_of

POINTS_PER_MESSAGE = 2_000
"""Carbon takes messages of at most 1 MiB (PICKLE_RECEIVER_MAX_LENGTH): 500 bytes are left to a
point, and a name has at most some hundred."""

_LENGTH, _TEXT = struct.Struct("!L"), struct.Struct("<I")
_FLOAT_BYTES = 8
# Protocol 2, an empty list, a mark; what ends it: the items behind the mark are its own.
_BEGIN, _END = b"\x80\x02](", b"e."
_UNICODE, _FLOAT, _PAIR = b"X", b"G", b"\x86"
_POINT = _FLOAT + bytes(_FLOAT_BYTES) + _FLOAT + bytes(_FLOAT_BYTES) + 2 * _PAIR


class PickleEncoder:
    """Encodes the requests of one group; see `loaders.send.encode.Encoder`."""

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
        whole = values.seeded_values(self._seeds, ms)
        scale = 1000 if ValueType(schedule.spec.value_type) is ValueType.DOUBLE else 1
        times = np.broadcast_to(np.array(ms) / 1000, whole.shape)
        self._write(self._times, times)
        self._write(self._values, whole / scale)
        return self._bytes.data

    def _write(self, places: Positions, floats: npt.NDArray[np.float64]) -> None:
        raw = np.ascontiguousarray(floats, dtype=">f8").view(np.uint8)
        self._bytes[places] = raw.reshape(-1, _FLOAT_BYTES)

    def _make(self, first: int, count: int) -> None:
        schedule, spec = self._schedule, self._schedule.spec
        numbers = schedule.numbers(self._group, first)
        self._seeds = values.seeds(numbers)[:, np.newaxis]
        pattern = path_of(spec.metric, spec.tags)
        paths = [naming.expand(pattern, number).encode() for number in numbers.tolist()]
        points = [path for path in paths for _ in range(count)]
        made, ends = bytearray(), []
        for begin in range(0, len(points), POINTS_PER_MESSAGE):
            message = bytearray(_BEGIN)
            at = len(made) + _LENGTH.size
            for path in points[begin : begin + POINTS_PER_MESSAGE]:
                message += _UNICODE + _TEXT.pack(len(path)) + path + _POINT
                ends.append(at + len(message))
            message += _END
            made += _LENGTH.pack(len(message)) + message
        self._bytes: Bytes = np.frombuffer(made, dtype=np.uint8)
        bytes_of = np.arange(_FLOAT_BYTES)
        start = np.array(ends, dtype=np.int64)[:, np.newaxis] - len(_POINT)
        self._times: Positions = start + 1 + bytes_of
        self._values: Positions = start + 2 + _FLOAT_BYTES + bytes_of
        self._made_for = (schedule.generation(self._group, first), count)
