"""Each other system than KairosDB on a host of its own: the same role, under systemd, over SSH."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from deployed_lab import DeployedLab
from harness import changed
from other_systems import PROTOCOLS, SENSORS, experiment

from kairoscope.cli import known
from kairoscope.targets.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2400)]

SECONDS = 12
GRAPHITE = {"caches": 2, "relays": 1, "relay_program": "carbon-c-relay"}
"""Processes of both kinds, and points that wait in several."""
UNITS = {
    "gnocchi": {f"gnocchi-{part}" for part in ("api", "metricd", "postgresql", "redis")},
    "graphite": {f"graphite-{part}" for part in ("cache-a", "cache-b", "relay-a", "web")},
}
"""Of those that are more than one."""
TAKES = {"gnocchi": "api", "graphite": "cache"}
"""Role of a process of these."""
OPEN = {
    "gnocchi": {8041},
    "graphite": {2003},
    "influxdb": {8086},
    "questdb": {9000},
    "victoriametrics": {8428},
}


@pytest.fixture(scope="module")
def lab() -> Iterator[DeployedLab]:
    """A lab; what is deployed in it changes."""
    made = DeployedLab()
    try:
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("stack", PROTOCOLS)
def test_from_experiment_to_verdict(stack: str, lab: DeployedLab) -> None:
    more = {"system": GRAPHITE} if stack == "graphite" else {}
    file = lab.scratch / f"{stack}.yml"
    file.write_text(yaml.safe_dump(experiment(stack, seconds=SECONDS, **more)))
    lab.well("deploy", file, "--target", "lab", timeout_s=1800)
    try:
        _is_a_service_of_a_user_of_its_own(stack, lab)
        again = lab.well("deploy", file, "--target", "lab", timeout_s=1800)
        assert sum(changed(again).values()) == 0
        _load_ends_in_a_verdict(stack, lab, str(file))
    finally:
        lab.well("destroy", "--target", "lab", timeout_s=600)


def _is_a_service_of_a_user_of_its_own(stack: str, lab: DeployedLab) -> None:
    host, units = f"{stack}-1", UNITS.get(stack, {stack})
    assert sorted(found.host.name for found in Lab(lab.state).hosts()) == sorted([host, "loader-1"])
    for unit in units:
        shown = lab.on(host, "systemctl", "show", "-p", "User,ActiveState,UnitFileState", unit)
        assert set(shown.split()) == {
            f"User={stack}",
            "ActiveState=active",
            "UnitFileState=enabled",
        }
    rules = lab.on(host, "sudo", "nft", "list", "table", "inet", "kairoscope")
    points = " ".join(line for line in rules.splitlines() if 'comment "Points"' in line)
    assert all(str(port) in points for port in OPEN[stack])
    for other in ("4242", "5432", "6379", "7002"):
        assert other not in rules
    # A service may write its data, and not what root writes for it.
    shown = ("-maxdepth", "2", "-printf", "%u %P\\n")
    found = lab.on(host, "sudo", "find", f"/var/lib/kairoscope/{host}", *shown)
    owners = dict(reversed(line.split(" ", 1)) for line in found.splitlines())
    assert owners[""] == "root"
    assert {who for path, who in owners.items() if path.startswith("conf")} <= {"root"}
    assert owners["data"] == stack


def _load_ends_in_a_verdict(stack: str, lab: DeployedLab, file: str) -> None:
    said = lab.well("load", file, "--target", "lab", "--no-serve", timeout_s=900)
    assert "verdict: pass" in said
    run, points = lab.home / "runs" / "latest", SENSORS * SECONDS
    ledger = json.loads((run / "ledger.json").read_text())
    told: Any = known.stack(stack)
    stored = "unknown_stored" if "latency" in told.told.not_judged else "stored"
    assert ledger[stored] == ledger["rows_by_cql"] == points
    measured = json.loads((run / "measurements.json").read_text())
    assert measured["cpu_us_per_point"][TAKES.get(stack, stack)] > 0
    assert "takes points" in lab.well("status", "--target", "lab")
