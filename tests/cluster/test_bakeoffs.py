"""A bake-off of one system on real servers: each kill, and what the page says of it."""

import json

import pytest
from deployment import Home

from kairoscope import run_folder
from kairoscope.hosts import supervisor
from kairoscope.series.bakeoff import QUERIES
from kairoscope.stacks.questions import KINDS


@pytest.mark.faults
def test_a_system_is_loaded_killed_and_destroyed(home: Home) -> None:
    asked = ("--only", "influxdb", "--sensors", "100", "--duration", "30", "--quick")
    said = home.well("bakeoff", *asked, timeout_s=1800)
    (folder,) = (home.path / "bakeoff").glob("2*")
    document = json.loads((folder / "influxdb.json").read_text())
    assert document["error"] is None
    assert len(document["steps"]) == 5
    for step, name in document["steps"].items():
        ledger = json.loads((folder / name / "ledger.json").read_text())
        assert ledger["acknowledged"] == ledger["stored"] > 0, step
        if step.startswith("kill"):
            killed = json.loads((folder / name / "killed.json").read_text())
            assert killed["servers"] == ["influxdb-1"]
            assert killed["serving_s"] > 0
            assert killed["after_arrived_s"] >= float(step.split()[2])
            assert killed["after_arrived_s"] >= killed["after_load_s"] >= 0
    asked = list(run_folder.records(folder / document["steps"]["queries"] / run_folder.ASKED))
    # An hour has the points of both loads, and of the one that is asked if a neighbour spoiled it;
    # the first one is made once more on servers that are new.
    loads = 2 + (QUERIES in document["spoiled"])
    most = {kind: max(r.get("found", 0) for r in asked if r["kind"] == kind) for kind in KINDS}
    assert most["last"] == 100
    assert 30 < most["hour"] <= 30 * loads
    assert 30 <= most["means"] <= 30 * loads + 1
    assert not [record for record in asked if "error" in record]
    page = (folder / "report.html").read_text()
    assert "InfluxDB" in page
    assert "(100 %)" in page
    assert str(folder) in said
    assert not supervisor.owned(home.state)
