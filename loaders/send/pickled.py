"""Carbon's pickle protocol: requests as bytes, made once for each group of sensors.

A message is its length in four bytes and a pickle of [(path, (time in s, value)), …]
(carbon 1.1.10, lib/carbon/protocols.py, MetricPickleReceiver). A float has eight bytes in a pickle
whatever it is (opcode BINFLOAT of Python's pickletools), so times and values have fixed places, as
the digits of text have in `loaders.send.encode`.
"""

from __future__ import annotations

import struct

import numpy as np

from loaders.schedule import naming
from loaders.send.encode import DOUBLE_BYTES, BinaryEncoder, Bytes, path_of

POINTS_PER_MESSAGE = 2_000
"""Carbon takes messages of at most 1 MiB (PICKLE_RECEIVER_MAX_LENGTH): 500 bytes are left to a
point, and a name has at most some hundred."""

_LENGTH, _TEXT = struct.Struct("!L"), struct.Struct("<I")
# Protocol 2, an empty list, a mark; what ends it: the items behind the mark are its own.
_BEGIN, _END = b"\x80\x02](", b"e."
_UNICODE, _FLOAT, _PAIR = b"X", b"G", b"\x86"
_POINT = _FLOAT + bytes(DOUBLE_BYTES) + _FLOAT + bytes(DOUBLE_BYTES) + 2 * _PAIR


class PickleEncoder(BinaryEncoder):
    """Encodes the requests of one group."""

    _FLOAT = ">f8"

    def _written(self, timestamps_ms: list[int]) -> Bytes:
        return self._floats(np.array(timestamps_ms) / 1000)

    def _lay_out(self, series: list[int], count: int) -> None:
        pattern = path_of(self._schedule.spec.metric, self._schedule.spec.tags)
        paths = [naming.expand(pattern, number).encode() for number in series]
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
        self._bytes = np.frombuffer(made, dtype=np.uint8)
        start = np.array(ends, dtype=np.int64)[:, np.newaxis] - len(_POINT)
        bytes_of = np.arange(DOUBLE_BYTES)
        self._times = start + 1 + bytes_of
        self._values = start + 2 + DOUBLE_BYTES + bytes_of
