"""The manifests that pin what Maven brings."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import bundles
from kairoscope.errors import UserError

pytestmark = pytest.mark.unit

SUMS = st.dictionaries(
    st.from_regex(r"[a-z0-9./-]{1,20}\.jar", fullmatch=True),
    st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)


@given(SUMS)
def test_a_manifest_is_read_as_it_was_written(sums):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.sha256"
        bundles.write_manifest(path, sums)
        assert bundles.read_manifest(path) == sums


def test_differences_name_the_file():
    wanted = {"lib/a.jar": "1", "lib/b.jar": "2", "lib/c.jar": "3"}
    found = {"lib/a.jar": "1", "lib/b.jar": "x", "lib/d.jar": "4"}
    assert bundles.differences(wanted, found) == [
        "missing: lib/c.jar",
        "not in the manifest: lib/d.jar",
        "other content: lib/b.jar",
    ]
    assert bundles.differences(wanted, dict(wanted)) == []


def test_the_committed_manifests_hold_both_drivers_and_the_pinned_servers():
    kairosdb = bundles.read_manifest(bundles.bundle("kairosdb").manifest)
    assert f"lib/kairosdb-{bundles.bundle('kairosdb').version}.jar" in kairosdb
    scylla = bundles.property_of_pom("scylla.driver.version")
    assert f"driver-scylla/scylla-driver-core-{scylla}.jar" in kairosdb
    assert "driver-datastax/cassandra-driver-core-3.10.2.jar" in kairosdb
    # Both drivers have the same classes: neither may lie where all jars are loaded.
    assert not [n for n in kairosdb if n.startswith("lib/") and "driver-core" in n]
    cassandra = bundles.bundle("cassandra")
    assert f"lib/cassandra-all-{cassandra.version}.jar" in bundles.read_manifest(cassandra.manifest)


def test_an_unknown_pin_is_an_error():
    with pytest.raises(UserError, match="no property"):
        bundles.property_of_pom("nothing.version")
