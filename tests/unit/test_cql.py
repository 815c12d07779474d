"""CQL text and KairosDB's row keys; that these are its keys is checked in tests/cluster."""

import itertools
import re
import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kairoscope import cql


def test_statements_without_comments():
    script = (
        "-- a; comment\nCREATE TABLE a (x int);\n\n-- b\nALTER TABLE a\n  WITH y = {'c': 'd'};\n"
    )
    assert cql.statements(script) == [
        "CREATE TABLE a (x int)",
        "ALTER TABLE a\n  WITH y = {'c': 'd'}",
    ]


def test_row_key_as_kairosdb_writes_it():
    key = cql.row_key("SENSOR_7", 0x0102030405060708, {"status": "good"}, "kairos_long")
    assert key == b"SENSOR_7\0\x01\x02\x03\x04\x05\x06\x07\x08\0\x0bkairos_longstatus=good:"


def test_row_key_sorts_and_escapes_tags():
    key = cql.row_key("m", 0, {"b": "x=y:z", "a:1": "2"}, "kairos_long")
    assert key.endswith(b"a::1=2:b=x==y=:z:")


WEEKS_3 = 1_814_400_000


@given(
    st.integers(10**12, 2 * 10**12),
    st.lists(st.integers(1, 2 * WEEKS_3), min_size=1, max_size=4),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_each_time_is_looked_at_once(start, lengths, at):
    """Spans that follow each other, over any number of rows: no time is left out, or twice."""
    ends = list(itertools.accumulate(lengths, initial=start))
    spans = [(a, b - 1) for a, b in itertools.pairwise(ends)]
    looked_at = [
        (row + struct.unpack(">i", begin)[0], row + struct.unpack(">i", end)[0])
        for row, begin, end in cql._slices(spans, WEEKS_3)
    ]
    assert all(a // WEEKS_3 == b // WEEKS_3 for a, b in looked_at)
    times = [start, ends[-1] - 1, *(int(start + share * (ends[-1] - start - 1)) for share in at)]
    for t in times:
        assert sum(a <= t <= b for a, b in looked_at) == 1
    assert sum(b - a + 1 for a, b in looked_at) == ends[-1] - start


def test_the_loader_package_stands_alone():
    """It ships to loader hosts without the rest."""
    for path in Path(cql.__file__).parents[1].joinpath("loaders").glob("*.py"):
        assert not re.search(r"^\s*(import|from) kairoscope", path.read_text(), re.MULTILINE), path


def test_nodes_keep_their_addresses_and_are_reached_elsewhere():
    """So the ring's tokens still name the node that has a row."""
    factory = cql._EndPoints(9042, {("10.0.0.1", 9042): ("127.0.0.1", 40001)})
    one, other = factory.of(("10.0.0.1", 9042)), factory.of(("10.0.0.2", 9042))
    assert (one.address, one.port, one.resolve()) == ("10.0.0.1", 9042, ("127.0.0.1", 40001))
    assert other.resolve() == ("10.0.0.2", 9042)
    # The driver must take a node of the ring for the contact point that it is.
    assert one == factory.of(("10.0.0.1", 9042))
    assert one != other
