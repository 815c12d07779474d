"""Points and series as KairosDB writes them into its store's tables, for who goes there past it."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from loaders.schedule.values import LIMIT, LOWEST, ValueType

Int64s = npt.NDArray[np.int64]

# Of a zigzag number in seven bits a byte; all values have as many (`values.LOWEST`, `LIMIT`).
_LONG_BYTES = 3
assert 1 << 14 <= LOWEST << 1 < LIMIT << 1 <= 1 << 21


def escaped(text: str, mark: str) -> str:
    """A tag's name (`mark` ":") or value ("=") as it stands in a row key."""
    return "".join(mark + c if c in ":=" else c for c in text)


def row_key(metric: str, row_time_ms: int, tags: dict[str, str], data_type: str) -> bytes:
    """Partition key of `data_points`, as KairosDB serialises it.

    Source: DataPointsRowKeySerializer at tag v1.3.0: name, 0, row time (8 bytes), 0, length and
    name of the data type, then `tag=value:` sorted by tag, with `:` and `=` escaped.
    """

    tag_string = "".join(f"{escaped(k, ':')}={escaped(tags[k], '=')}:" for k in sorted(tags))
    return (
        metric.encode()
        + b"\0"
        + struct.pack(">q", row_time_ms)
        + b"\0"
        + bytes([len(data_type)])
        + data_type.encode()
        + tag_string.encode()
    )


def type_name(kind: ValueType) -> str:
    """What KairosDB calls the type of a value, such as "kairos_long"."""
    return f"kairos_{kind.value}"


def column(offset_ms: int) -> bytes:
    """Name of a point's column: its offset in its row. Source: RowSpec.getColumnName at v1.3.0."""
    return struct.pack(">i", offset_ms)


def blobs(kind: ValueType, numbers: Int64s) -> list[bytes]:
    """Values as KairosDB stores them, of the whole numbers behind them, int64[n].

    Source: KairosDB at tag v1.3.0, Util.packLong (zigzag, seven bits a byte, the lowest first),
    DoubleDataPointFactoryImpl (IEEE 754, big-endian) and StringDataPoint (DataOutput.writeUTF).
    """
    if kind is ValueType.LONG:
        packed = (numbers << 1)[:, np.newaxis] >> np.array([0, 7, 14]) & 0x7F
        packed[:, :-1] |= 0x80
        raw, size = packed.astype(np.uint8).tobytes(), _LONG_BYTES
    elif kind is ValueType.DOUBLE:
        raw, size = (numbers / 1000).astype(">f8").tobytes(), 8
    else:
        texts = [kind.text(number).encode() for number in numbers.tolist()]
        return [struct.pack(">H", len(text)) + text for text in texts]
    return [raw[place : place + size] for place in range(0, len(raw), size)]
