"""Whisper files as they lie on the disk. Pure but for reading them.

The format is whisper.py's (github.com/graphite-project/whisper 1.1.10, its head comment): a head of
16 bytes, 12 for each archive (where it begins, seconds a point, points), then the archives, each a
ring of points of 12 bytes: time in s, 0 for none, and a float. All big-endian.
"""

import struct

import numpy as np
import numpy.typing as npt

_HEAD = struct.Struct("!2LfL")
_ARCHIVE = struct.Struct("!3L")
_POINT = np.dtype([("t", ">u4"), ("value", ">f8")])

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def finest(data: bytes) -> tuple[Int64s, Floats]:
    """Times in s, ascending, and values of the points in a file's finest archive.

    ValueError if it is not a whisper file.
    """
    try:
        (archives,) = _HEAD.unpack_from(data)[3:]
        offset, _, points = _ARCHIVE.unpack_from(data, _HEAD.size)
        ring = np.frombuffer(data, dtype=_POINT, count=points, offset=offset)
    except struct.error as error:
        raise ValueError(f"no whisper file: {error}") from error
    if archives < 1:
        raise ValueError("no whisper file: it has no archive")
    held = np.sort(ring[ring["t"] != 0], order="t")
    return held["t"].astype(np.int64), held["value"].astype(np.float64)


def step_s(data: bytes) -> int:
    """Seconds a point of a file's finest archive. ValueError if it is not a whisper file."""
    try:
        return int(_ARCHIVE.unpack_from(data, _HEAD.size)[1]) or 1
    except struct.error as error:
        raise ValueError(f"no whisper file: {error}") from error
