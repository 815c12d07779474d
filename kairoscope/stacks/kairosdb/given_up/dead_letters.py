"""Points that the store refused for good: a line each in a file beside KairosDB's queue.

The coalescing queue (kairosdb-conf/plugin) writes it, and takes no notice of it afterwards. It
keeps a value as the store would have had it, in base64; here it becomes a number or a text again,
as somebody will want to mend the point and send it once more.
"""

import base64
import binascii
import json
import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

FILE = "dead_letters.jsonl"
"""Its name in the queue's folder."""
NO_REASON = "no reason given"

# A varint of 64 bits has at most ten bytes of seven; KairosDB refuses longer ones too.
_VARINT_BYTES = 10
_LONG_BITS = 64


@dataclass(frozen=True)
class Letter:
    """A point that the store refused. Times in ms since 1970, `ttl` in s, 0 for none given."""

    metric: str
    tags: dict[str, str]
    type: str
    """As the store's rows say: kairos_long, kairos_double, kairos_string, or of a plugin."""
    time: int
    value: bytes
    ttl: int
    taken_at: int
    """When KairosDB took it (its host's clock)."""
    dead_at: int
    reason: str

    def rest(self) -> dict[str, Any]:
        """The point as KairosDB's REST interface takes it.

        Where its value cannot be told it has `value_base64` in place of `value`: KairosDB refuses
        that, and does not store something else in its place.
        """
        point: dict[str, Any] = {"name": self.metric, "timestamp": self.time}
        value = decode(self.type, self.value)
        if value is None:
            point |= {"value_base64": base64.b64encode(self.value).decode(), "type": self.type}
        else:
            point |= {"value": value, "type": self.type.removeprefix("kairos_")}
        return point | {"tags": self.tags, "ttl": self.ttl}


def parse(line: str) -> Letter | None:
    """The letter of a line; None for what is none, such as a line that was torn."""
    try:
        said = json.loads(line)
        tags = {str(name): str(value) for name, value in said["tags"].items()}
        return Letter(
            metric=str(said["metric"]),
            tags=tags,
            type=str(said["type"]),
            time=int(said["time"]),
            value=base64.b64decode(said["value_base64"], validate=True),
            ttl=int(said["ttl"]),
            taken_at=int(said["taken_at"]),
            dead_at=int(said["dead_at"]),
            reason=" ".join(str(said["reason"]).split()) or NO_REASON,
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, binascii.Error):
        return None


def read(lines: Iterable[str]) -> Iterator[Letter | None]:
    """What `parse` makes of each line that is not empty."""
    return (parse(line) for line in lines if line.strip())


def decode(kind: str, value: bytes) -> int | float | str | None:
    """A value of one of KairosDB's own types; None if it is of another, not whole, or not JSON."""
    try:
        if kind == "kairos_long":
            return _long(value)
        if kind == "kairos_double":
            number: float = struct.unpack(">d", value)[0]
            return number if math.isfinite(number) else None
        if kind == "kairos_string":
            return _utf(value)
    except (ValueError, struct.error):
        pass
    return None


def _long(value: bytes) -> int:
    """KairosDB's packed long (Util.packLong): zigzag, seven bits a byte, the lowest first."""
    packed = 0
    for position, byte in enumerate(value):
        packed |= (byte & 0x7F) << (7 * position)
        if not byte & 0x80:
            break
    else:
        raise ValueError("the last byte is missing")
    if position + 1 != len(value) or len(value) > _VARINT_BYTES or packed >= 1 << _LONG_BITS:
        raise ValueError("more than one long")
    return (packed >> 1) ^ -(packed & 1)


def _utf(value: bytes) -> str:
    """Java's DataOutput.writeUTF: two bytes of length, then its own UTF-8.

    That has two bytes for NUL, and beyond the basic plane three for each half of a pair.
    """
    if len(value) < 2 or int.from_bytes(value[:2]) != len(value) - 2:
        raise ValueError("not as long as it says")
    text = value[2:].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
