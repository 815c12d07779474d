"""Prometheus' rules: each alert fires where it should, not where it should not, and has a page."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kairoscope import paths
from kairoscope.deploy import monitoring
from loaders.metrics import FAMILIES

PROMETHEUS = paths.DASHBOARDS / "prometheus"
TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
RUNBOOK = (paths.DASHBOARDS / "runbook.md").read_text()


@pytest.fixture
def promtool() -> Path:
    """Debian's, as a watched target gets it (`make test` brings it); in CI it must be there."""
    found = monitoring.folder() / "bin" / "promtool"
    if not found.exists():
        found = Path(shutil.which("promtool") or found)
    if not found.exists():
        why = "no promtool: .venv/bin/kairoscope bundles --with-monitoring"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    return found


def run(promtool: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)


def test_rules_are_rules(promtool):
    done = run(promtool, "check", "rules", PROMETHEUS / "alerts.yml", PROMETHEUS / "recording.yml")
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_alerts_fire_where_they_should(promtool, file):
    done = run(promtool, "test", "rules", file)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.parametrize("instead", ["vector(0) > 1", "vector(1)"])
def test_the_tests_see_a_rule_that_never_fires_and_one_that_always_does(
    promtool, tmp_path, instead
):
    rules = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())
    for group in rules["groups"]:
        group["rules"] = [{"alert": rule["alert"], "expr": instead} for rule in group["rules"]]
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    shutil.copy(PROMETHEUS / "recording.yml", tmp_path)
    (tmp_path / "tests").mkdir()
    said = ""
    for file in TESTS:
        shutil.copy(file, tmp_path / "tests")
        done = run(promtool, "test", "rules", tmp_path / "tests" / file.name)
        said += done.stdout + done.stderr
    assert set(re.findall(r"alertname: *(\w+)", said)) == set(ALERTS)


def cases() -> dict[str, set[bool]]:
    """Of each alert, whether its tests have it firing (True), and not (False)."""
    found: dict[str, set[bool]] = {name: set() for name in ALERTS}
    for file in TESTS:
        for test in yaml.safe_load(file.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                found[case["alertname"]].add(bool(case["exp_alerts"]))
    return found


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_has_both_cases(name):
    # Watchdog fires always.
    assert cases()[name] == ({True} if name == "Watchdog" else {True, False})


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_has_a_page_of_ten_lines_at_most(name):
    sections = re.split(r"^## ", RUNBOOK, flags=re.M)[1:]
    by_name = {section.partition("\n")[0]: section.splitlines() for section in sections}
    lines = by_name[name]
    assert len([line for line in lines if line.strip()]) <= 10
    text = "\n".join(lines)
    assert all(f"**{part}**" in text for part in ("Means", "Look", "Do"))
    assert ALERTS[name]["labels"]["severity"] in ("critical", "warning", "none")


def test_no_page_is_of_an_alert_that_is_gone():
    assert set(re.findall(r"^## (\w+)", RUNBOOK, re.M)) == set(ALERTS)


def used(prefix: str) -> set[str]:
    """Names of metrics that rules ask for, without what a histogram adds."""
    text = "".join((PROMETHEUS / name).read_text() for name in ("alerts.yml", "recording.yml"))
    return set(re.findall(rf"\b{prefix}_\w+", text))


def test_every_metric_of_ours_that_is_asked_for_is_told():
    kairosdb = set(
        re.findall(r"^\| `(\w+)`", (paths.CHECKOUT / "docs/metrics.md").read_text(), re.M)
    )
    assert used("kairosdb") <= kairosdb
    rules = yaml.safe_load((PROMETHEUS / "cassandra-jmx.yml").read_text())["rules"]
    cassandra = {rule["name"].replace("$2", "timeouts") for rule in rules}
    assert used("cassandra") <= cassandra
    assert used("kairoscope_loader") <= {family for family, *_ in FAMILIES.values()}
    assert len(used("kairosdb")) > 5
    assert len(used("cassandra")) > 3
