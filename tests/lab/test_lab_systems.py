"""Another system than KairosDB on a host of its own: the same role, under systemd, over SSH."""

import json
from collections.abc import Iterator

import pytest
import yaml
from deployed_lab import DeployedLab
from harness import SMALL, but, changed

from kairoscope.targets.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

SENSORS, SECONDS = 100, 12
HOST, UNIT = "influxdb-1", "influxdb"


@pytest.fixture(scope="module")
def deployed() -> Iterator[tuple[DeployedLab, str]]:
    """A lab with the server and a loader host, and its experiment."""
    lab = DeployedLab()
    content = but(
        SMALL,
        name="lab-system-test",
        stack="influxdb",
        cluster={"storage_nodes": 1, "replication_factor": 1},
        load={
            **{"sensors": SENSORS, "duration_s": SECONDS, "warmup_s": 3, "metric": "temperature"},
            **{"protocol": "line", "tags": {"sensor": "{n}"}, "sensors_per_request": 20},
        },
    )
    del content["storage"]
    try:
        file = lab.scratch / "system.yml"
        file.write_text(yaml.safe_dump(content))
        lab.well("deploy", file, "--target", "lab", timeout_s=1800)
        yield lab, str(file)
    finally:
        lab.remove()


def test_it_is_a_service_of_a_user_of_its_own(deployed: tuple[DeployedLab, str]) -> None:
    lab, file = deployed
    assert sorted(found.host.name for found in Lab(lab.state).hosts()) == [HOST, "loader-1"]
    shown = lab.on(HOST, "systemctl", "show", "-p", "User,ActiveState,UnitFileState", UNIT)
    assert set(shown.split()) == {f"User={UNIT}", "ActiveState=active", "UnitFileState=enabled"}
    rules = lab.on(HOST, "sudo", "nft", "list", "table", "inet", "kairoscope")
    assert "tcp dport 8086" in rules
    assert "4242" not in rules
    again = lab.well("deploy", file, "--target", "lab", timeout_s=1800)
    assert sum(changed(again).values()) == 0


def test_a_load_ends_in_a_verdict(deployed: tuple[DeployedLab, str]) -> None:
    lab, file = deployed
    said = lab.well("load", file, "--target", "lab", "--no-serve", timeout_s=900)
    assert "verdict: pass" in said
    run = lab.home / "runs" / "latest"
    ledger = json.loads((run / "ledger.json").read_text())
    assert ledger["stored"] == ledger["rows_by_cql"] == SENSORS * SECONDS
    measured = json.loads((run / "measurements.json").read_text())
    assert measured["cpu_us_per_point"]["influxdb"] > 0
    assert "takes points" in lab.well("status", "--target", "lab")
