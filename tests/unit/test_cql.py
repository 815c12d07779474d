"""CQL text and KairosDB's row keys; that these are its keys is checked in tests/cluster."""

from pathlib import Path

import pytest

from kairoscope import cql

pytestmark = pytest.mark.unit


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


def test_the_loader_package_stands_alone():
    """It ships to loader hosts without the rest."""
    for path in Path(cql.__file__).parents[1].joinpath("loaders").glob("*.py"):
        assert "kairoscope" not in path.read_text(), path
