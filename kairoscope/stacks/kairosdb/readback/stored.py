"""Rows of `data_points` as KairosDB writes them, back to times and numbers, many at a time."""

import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kairoscope.errors import UserError
from loaders.schedule.due import Int64s
from loaders.schedule.values import LIMIT, ValueType

Objects = npt.NDArray[np.object_]
"""Blobs of a column."""


@dataclass(frozen=True)
class Partition:
    """Rows of one partition of `data_points` as they come: offsets in ms, values as KairosDB's."""

    key: bytes
    offsets: Int64s
    numbers: Int64s


def numbers(kind: ValueType, blobs: Objects) -> Int64s:
    """The whole numbers behind values as KairosDB stores them; -1 for any that is none of ours.

    Source: KairosDB at tag v1.3.0, Util.packLong (zigzag, seven bits a byte, the lowest first),
    DoubleDataPointFactoryImpl (IEEE 754, big-endian) and StringDataPoint (DataOutput.writeUTF).
    """
    found = np.full(len(blobs), -1, dtype=np.int64)
    lengths = np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs))
    for length in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == length)
        raw = np.frombuffer(b"".join(blobs[which]), dtype=np.uint8).reshape(len(which), length)
        found[which] = _DECODERS[kind](raw)
    return found


def _longs(raw: npt.NDArray[np.uint8]) -> Int64s:
    _, length = raw.shape
    # Beyond five bytes no value is below LIMIT.
    if not 1 <= length <= 5:
        return np.full(len(raw), -1, dtype=np.int64)
    shifted = (raw & 0x7F).astype(np.int64) << (7 * np.arange(length, dtype=np.int64))
    packed = shifted.sum(axis=1)
    value = (packed >> 1) ^ -(packed & 1)
    ends = (raw[:, -1] < 0x80) & (raw[:, :-1] >= 0x80).all(axis=1)
    return np.where(ends & (value >= 0) & (value < LIMIT), value, -1)


def _doubles(raw: npt.NDArray[np.uint8]) -> Int64s:
    _, length = raw.shape
    if length != 8:
        return np.full(len(raw), -1, dtype=np.int64)
    stored = raw.copy().view(">f8").ravel().astype(np.float64)
    inside = (stored >= 0) & (stored < LIMIT)  # which no NaN is
    whole = np.rint(np.where(inside, stored, 0) * 1000).astype(np.int64)
    return np.where(inside & (whole / 1000 == stored), whole, -1)


def _texts(raw: npt.NDArray[np.uint8]) -> Int64s:
    kind = ValueType.STRING
    return np.array([kind.number(_utf(bytes(one))) for one in raw], dtype=np.int64)


def _utf(raw: bytes) -> str:
    """A text as DataOutput.writeUTF writes it; "" if it is none of ours, which are ASCII."""
    length = raw[:2]
    if len(length) < 2 or struct.unpack(">H", length)[0] != len(raw) - 2:
        return ""
    return raw[2:].decode("ascii", errors="replace")


_DECODERS: dict[ValueType, Callable[[npt.NDArray[np.uint8]], Int64s]] = {
    ValueType.LONG: _longs,
    ValueType.DOUBLE: _doubles,
    ValueType.STRING: _texts,
}


def partitions(
    kind: ValueType, keys: Objects, names: Objects, blobs: Objects
) -> Iterator[Partition]:
    """Rows, as long as those of a key follow each other, by partition."""
    joined = b"".join(names)
    if len(joined) != 4 * len(names):
        raise UserError("data_points has columns that are not KairosDB's: no offset of four bytes")
    offsets = np.frombuffer(joined, dtype=">i4").astype(np.int64)
    values = numbers(kind, blobs)
    cuts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
    for begin, end in itertools.pairwise(cuts):
        yield Partition(keys[begin], offsets[begin:end], values[begin:end])
