"""KairosDB's configuration: unknown and misplaced keys, and settings that did not take effect."""

import re

import pytest

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.stacks.kairosdb.settings import hocon

REFERENCE = """
kairosdb: {
  telnetserver: { port: 4242, address: "0.0.0.0" }
  queue_processor.batch_size: 200
  datastore.cassandra: {
    row_key_cache_size: 50000
    write_cluster: { keyspace: "kairosdb", tag_indexed_row_key_lookup_metrics: {} }
  }
}
"""


def test_known_and_documented_keys_pass():
    text = """kairosdb: {
      queue_processor.batch_size: 50
      datastore.cassandra.datapoint_ttl: 3600
      service.anything: "a.b.C"
      datastore.cassandra.write_cluster.tag_indexed_row_key_lookup_metrics: { m: ["t"] }
    }"""
    assert hocon.problems(text, REFERENCE) == []


def test_a_misspelt_key_is_named_with_the_right_one():
    found = hocon.problems("kairosdb.queue_processor.batchsize: 50", REFERENCE)
    assert len(found) == 1
    assert "kairosdb.queue_processor.batchsize" in found[0]
    assert "did you mean kairosdb.queue_processor.batch_size?" in found[0]


def test_a_key_outside_kairosdb_is_named():
    text = "kairosdb: { telnetserver.port: 1 }\nqueue_processor.batch_size: 5"
    assert hocon.problems(text, REFERENCE) == [
        "queue_processor.batch_size: outside kairosdb { }, KairosDB would ignore it"
    ]


def test_a_stray_brace_is_an_error(tmp_path):
    reference = tmp_path / "reference.conf"
    reference.write_text(REFERENCE)
    with pytest.raises(UserError, match="not valid HOCON"):
        hocon.check("kairosdb: { telnetserver: { port: 1 ", reference)


def test_check_names_every_problem(tmp_path):
    reference = tmp_path / "reference.conf"
    reference.write_text(REFERENCE)
    with pytest.raises(UserError) as error:
        hocon.check("kairosdb.nothing: 1\nelsewhere: 2", reference)
    assert "kairosdb.nothing" in error.value.message
    assert "elsewhere" in error.value.message


def test_effective_settings_compare_by_value_not_by_type():
    planned = {"kairosdb.a": 50, "kairosdb.b": "ONE", "kairosdb.c": ["x:1"], "kairosdb.d": False}
    effective = {
        "kairosdb.a": 50.0,
        "kairosdb.b": "ONE",
        "kairosdb.c": ["x:1"],
        "kairosdb.d": "false",
        "kairosdb.other": 1,
    }
    assert hocon.effective_differences(planned, effective) == []


@pytest.mark.parametrize(
    ("effective", "says"),
    [
        ({"kairosdb.a": 51}, "planned 50, effective 51"),
        ({}, "KairosDB does not have it"),
        ({"kairosdb.a": 50.5}, "effective 50.5"),
    ],
)
def test_a_setting_that_did_not_take_effect_is_named(effective, says):
    (line,) = hocon.effective_differences({"kairosdb.a": 50}, effective)
    assert line.startswith("kairosdb.a: ")
    assert says in line


def test_the_plugin_hides_what_is_not_compared():
    """What KairosDB does not tell must not be expected of it, and the other way round."""
    sources = paths.KAIROSDB_CONF / "plugin" / "src" / "main"
    (source,) = sources.rglob("StatusResource.java")
    listed = re.search(r"SECRET =\s+Set\.of\(([^)]*)\)", source.read_text())
    assert listed
    assert set(re.findall(r'"([^"]*)"', listed[1])) == set(hocon.SECRET)
