"""Dead letters, with values as KairosDB's classes write them."""

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.stacks.kairosdb.given_up import dead_letters


def packed(value: int) -> bytes:
    """Util.packLong, in its own words: (value << 1) ^ (value >> 63), then seven bits a byte."""
    left = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    out = bytearray()
    while left & ~0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def written(text: str) -> bytes:
    """DataOutput.writeUTF: each unit of UTF-16 by itself, NUL as two bytes."""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    body = b"".join(chr(u).encode("utf-8", "surrogatepass") if u else b"\xc0\x80" for u in units)
    return struct.pack(">H", len(body)) + body


def line(kind: str, value: bytes, **changes: Any) -> str:
    return json.dumps(
        {
            "metric": "boiler",
            "tags": {"site": "a"},
            "type": kind,
            "time": 1_764_000_000_123,
            "value_base64": base64.b64encode(value).decode(),
            "ttl": 700_000_000,
            "taken_at": 1_764_000_000_200,
            "dead_at": 1_764_000_015_300,
            "reason": "expires too late",
        }
        | changes
    )


def rest_of(kind: str, value: bytes) -> dict[str, Any]:
    letter = dead_letters.parse(line(kind, value))
    assert letter is not None
    return letter.rest()


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs(value: int) -> None:
    assert rest_of("kairos_long", packed(value))["value"] == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles(value: float) -> None:
    assert rest_of("kairos_double", struct.pack(">d", value))["value"] == value


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_texts(value: str) -> None:
    assert rest_of("kairos_string", written(value))["value"] == value


def test_a_point_can_be_posted_again() -> None:
    assert rest_of("kairos_long", packed(-3)) == {
        "name": "boiler",
        "timestamp": 1_764_000_000_123,
        "value": -3,
        "type": "long",
        "tags": {"site": "a"},
        "ttl": 700_000_000,
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("kairos_long", b""),
        ("kairos_long", b"\x80"),
        ("kairos_long", b"\x01\x01"),
        ("kairos_long", b"\xff" * 9 + b"\x7f"),
        ("kairos_double", b"\0" * 7),
        ("kairos_double", struct.pack(">d", float("nan"))),
        ("kairos_string", b"\0"),
        ("kairos_string", b"\0\x02a"),
        ("kairos_complex", b"\1\2\3"),
    ],
)
def test_what_cannot_be_told_is_kept_and_not_made_up(kind: str, value: bytes) -> None:
    point = rest_of(kind, value)
    assert "value" not in point
    assert (point["type"], base64.b64decode(point["value_base64"])) == (kind, value)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
def test_any_line_is_a_letter_or_none(text: str) -> None:
    dead_letters.parse(text)


@given(st.integers(0, 200), st.sampled_from(["{", "}", "", "\0\0", ","]))
def test_a_torn_line_is_none_or_whole(at: int, middle: str) -> None:
    whole = line("kairos_long", packed(5))
    found = dead_letters.parse(whole[:at] + middle + whole[at + len(middle) + 1 :])
    assert found is None or isinstance(found.time, int)


def test_no_reason_is_said_to_be_none() -> None:
    letter = dead_letters.parse(line("kairos_long", packed(5), reason=" "))
    assert letter is not None
    assert letter.reason == dead_letters.NO_REASON
