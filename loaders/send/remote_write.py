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
from loaders.schedule import naming
from loaders.schedule.due import Group, Schedule
from loaders.send.encode import DOUBLE_BYTES, BinaryEncoder, Bytes
from loaders.send.post import Post, Way, said_partly

# The wire's tags: of field 1 or 2, with a length, eight bytes or a varint behind it.
_FIRST, _SECOND, _DOUBLE, _VARINT = b"\x0a", b"\x12", b"\x09", b"\x10"
_TIME_BYTES = 6
_BITS = 7
_MORE = 0x80
_FROM_MS, _BEFORE_MS = 1 << (_BITS * (_TIME_BYTES - 1)), 1 << (_BITS * _TIME_BYTES)
"""Times with as many bytes: from 1971 to 2109."""
_SAMPLE = _DOUBLE + bytes(DOUBLE_BYTES) + _VARINT + bytes(_TIME_BYTES)


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
            took_some=said_partly(schedule.spec),
            pack=lambda body: bytes(cramjam.snappy.compress_raw(body)),
        )
        super().__init__(schedule, groups, way, credentials)


class RemoteWriteEncoder(BinaryEncoder):
    """Encodes the requests of one group, not packed."""

    def _written(self, timestamps_ms: list[int]) -> Bytes:
        assert all(_FROM_MS <= t < _BEFORE_MS for t in timestamps_ms)
        raw = np.frombuffer(b"".join(map(varint, timestamps_ms)), dtype=np.uint8)
        return raw.reshape(-1, _TIME_BYTES)

    def _lay_out(self, series: list[int], count: int) -> None:
        spec = self._schedule.spec
        named = sorted({"__name__": spec.metric, **spec.tags}.items())
        sample = _field(_SECOND, _SAMPLE)
        made, ends = bytearray(), []
        for number in series:
            labels = b"".join(
                _field(
                    _FIRST,
                    _field(_FIRST, name.encode())
                    + _field(_SECOND, naming.expand(text, number).encode()),
                )
                for name, text in named
            )
            made += _field(_FIRST, labels + count * sample)
            ends += [len(made) - len(sample) * left for left in reversed(range(count))]
        self._bytes = np.frombuffer(made, dtype=np.uint8)
        start = np.array(ends, dtype=np.int64)[:, np.newaxis] - len(_SAMPLE)
        self._values = start + len(_DOUBLE) + np.arange(DOUBLE_BYTES)
        behind = len(_DOUBLE) + DOUBLE_BYTES + len(_VARINT)
        self._times = start + behind + np.arange(_TIME_BYTES)


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
