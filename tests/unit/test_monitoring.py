"""A target that is watched: its inventory, what is written for Prometheus, what that answers."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from test_firewall import trusted
from watched import NOT_WATCHED, WATCHED, here, hosts, rendered

from kairoscope import paths, ready
from kairoscope.cli import known
from kairoscope.deploy import monitoring, preflight
from kairoscope.deploy.verify import answers
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, prometheus, secret_files
from kairoscope.targets.target import Options

pytestmark = pytest.mark.usefixtures("nothing_fetched")


def test_a_target_is_watched_where_it_was_said_and_stays_so():
    assert not here(NOT_WATCHED).monitoring
    assert "scraped" not in here(NOT_WATCHED).storage[0].vars
    assert [host.name for host in here(WATCHED).monitoring] == ["monitoring-1"]
    assert [host.name for host in here(NOT_WATCHED).monitoring] == ["monitoring-1"]


def test_on_one_machine_its_figures_are_told_once():
    found = here(WATCHED)
    ports = [host.name for host in found.all if "node_exporter_port" in host.vars]
    assert ports == ["monitoring-1"]
    assert found.monitoring[0].vars["monitoring_address"] == "127.9.8.1"
    assert "alerting" not in yaml.safe_load(rendered("prometheus/prometheus.yml", found))


def test_of_hosts_each_tells_its_own_and_no_page_is_open_to_others():
    found = hosts()
    assert all(host.vars["node_exporter_address"] == host.address for host in found.all)
    assert found.monitoring[0].vars["monitoring_address"] == "127.0.0.1"
    assert found.monitoring[0].vars["unit"] == "kairoscope-prometheus"
    (told,) = yaml.safe_load(rendered("prometheus/prometheus.yml", found))["alerting"][
        "alertmanagers"
    ]
    assert told == {"static_configs": [{"targets": ["127.0.0.1:9093"]}]}
    # The others' units are their own servers'.
    assert found.kairosdb[0].vars["unit"] == "kairosdb"


def test_ports_are_looked_at_before_anything_starts():
    def listened_on(target: inventory.Inventory) -> set[tuple[str, int]]:
        stack = known.stack("kairosdb")
        return {(one.address, one.port) for one in preflight.listeners(stack, target)}

    found, before = listened_on(here(WATCHED)), listened_on(stripped(here(WATCHED)))
    ports = {("127.9.8.1", port) for port in (9090, 9100)}
    assert found - before == ports | {(f"127.9.8.{node}", 9180) for node in (1, 2, 3)}


def stripped(of: inventory.Inventory) -> inventory.Inventory:
    """The same without a monitoring host."""
    return inventory.Inventory(of.path, of.storage, of.kairosdb, of.loader)


def test_hosts_of_ones_own_need_one_in_the_group(tmp_path):
    file = tmp_path / "hosts.yml"
    hosts = {role: {"hosts": {f"{role}-1": None}} for role in ("storage", "kairosdb", "loader")}
    hosts["storage"] = {"hosts": {f"storage-{i}": None for i in (1, 2, 3)}}
    file.write_text(yaml.safe_dump({"all": {"children": hosts}}))
    where = known.target("hosts")
    assert not where.watched(Options(Path("x"), inventory=file))
    with pytest.raises(UserError, match="no host in the group monitoring"):
        where.watched(Options(Path("x"), inventory=file, monitoring=True))
    file.write_text(yaml.safe_dump({"all": {"children": hosts | {"monitoring": hosts["loader"]}}}))
    assert where.watched(Options(Path("x"), inventory=file))


# What the role writes.


def asked(found: inventory.Inventory) -> dict[tuple[str, str], str]:
    """Address of each target by job and instance, as the role writes them."""
    return {
        (job["job"], target["labels"]["instance"]): target["targets"][0]
        for job in found.monitoring[0].vars["scraped"]
        for target in yaml.safe_load(rendered("prometheus/targets.yml", found, job=job))
    }


def test_everybody_is_asked_and_verify_knows_it():
    for found in (here(WATCHED), hosts()):
        assert set(asked(found)) == prometheus.wanted(found)
    assert asked(hosts()) == {
        ("storage", "storage-1"): "10.77.0.11:9180",
        ("kairosdb", "kairosdb-1"): "10.77.0.12:8080",
        ("node", "storage-1"): "10.77.0.11:9100",
        ("node", "kairosdb-1"): "10.77.0.12:9100",
        ("node", "loader-1"): "10.77.0.13:9100",
        ("loader", "loader-1"): "10.77.0.13:9105",
        ("node", "monitoring-1"): "10.77.0.14:9100",
    }
    assert asked(here(WATCHED))["node", "monitoring-1"] == "127.9.8.1:9100"


@pytest.mark.parametrize("stack", known.STACKS, ids=lambda stack: stack.name)
def test_a_stack_is_asked_where_it_tells_and_has_a_dashboard_then(stack):
    if stack.name == "kairosdb":
        what = "laptop"
    else:
        what = "graphite-1" if stack.name == "graphite" else stack.name
    found = here(WATCHED, what)
    jobs = {job for job, _ in prometheus.wanted(found)} - {"node", "loader"}
    assert jobs == {job.job for job in stack.scraped}
    assert set(asked(found)) == prometheus.wanted(found)
    board = paths.CHECKOUT / "kairoscope" / "stacks" / stack.name / "board.yml"
    assert board.exists() == (jobs == {stack.name})
    # The rules of all stacks.
    rules = yaml.safe_load(rendered("prometheus/deployment.yml", found, what))["groups"]
    spare = 1 if stack.name == "kairosdb" else 0
    assert rules[0]["rules"][0]["expr"] == f"vector({spare})"


def test_nobody_to_ask_is_a_list_too():
    found = here(WATCHED)
    job = {"job": "x", "group": "nobody", "port": "x", "address": "address"}
    assert yaml.safe_load(rendered("prometheus/targets.yml", found, job=job)) == []


def jobs(text: str) -> dict:
    return {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}


def test_kairosdb_is_asked_with_a_password_that_stands_in_a_file_of_its_own():
    text = rendered("prometheus/prometheus.yml", hosts())
    job = jobs(text)["kairosdb"]
    assert (job["scheme"], job["metrics_path"]) == ("https", "/api/v1/kairoscope/metrics")
    assert job["basic_auth"]["password_file"].endswith("/conf/rest-secret")
    assert "nobody's" not in text
    assert (
        "basic_auth"
        not in jobs(rendered("prometheus/prometheus.yml", hosts(), rest_auth=False))["kairosdb"]
    )
    plain = jobs(rendered("prometheus/prometheus.yml", here(WATCHED)))
    assert "scheme" not in plain["kairosdb"]
    assert list(plain) == ["storage", "kairosdb", "node", "loader", "monitoring"]


def test_prometheus_takes_what_is_written(tmp_path):
    promtool = monitoring.folder() / "bin" / "promtool"
    if not promtool.exists():
        pytest.skip("no promtool: .venv/bin/kairoscope bundles --with-monitoring")
    found = here(WATCHED)
    (tmp_path / "conf" / "rules").mkdir(parents=True)
    (tmp_path / "conf" / "prometheus.yml").write_text(
        rendered("prometheus/prometheus.yml", found, home=str(tmp_path))
    )
    rules = tmp_path / "conf" / "rules" / "deployment.yml"
    rules.write_text(rendered("prometheus/deployment.yml", found))
    done = subprocess.run(
        [promtool, "check", "config", tmp_path / "conf" / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "4 rules found" in done.stdout


def test_the_rules_know_the_plan():
    rules = yaml.safe_load(rendered("prometheus/deployment.yml", here(WATCHED)))["groups"][0][
        "rules"
    ]
    values = {rule["record"]: rule["expr"] for rule in rules}
    # Three copies: one may be away. laptop's limit is 1,000 ms.
    assert values["kairoscope:storage_nodes:spare"] == "vector(1)"
    assert values["kairoscope:p99_limit:seconds"] == "vector(1.0)"
    assert values["kairoscope:send_error_limit:seconds"] == "vector(0.5)"
    used = (paths.DASHBOARDS / "prometheus" / "alerts.yml").read_text()
    assert all(f"scalar({name})" in used for name in values)


def test_a_certificate_tells_when_it_ends():
    where = secret_files.ensure("lab", {"storage-1": ["10.77.0.11"]})
    ends = secret_files.ends(where)
    lines = monitoring.certificate_metrics(where, "storage-1").splitlines()
    name = "kairoscope_certificate_end_timestamp_seconds"
    assert lines[2:] == [
        f'{name}{{of="CA"}} {ends["CA"]:.0f}',
        f'{name}{{of="storage-1"}} {ends["storage-1"]:.0f}',
    ]
    # A loader host has none of its own.
    assert len(monitoring.certificate_metrics(where, "loader-1").splitlines()) == 3
    assert f"{name} - time()" in (paths.DASHBOARDS / "prometheus" / "alerts.yml").read_text()


TOLD = yaml.safe_load((paths.ANSIBLE / "roles/node_exporter/tasks/done.yml").read_text())


@pytest.mark.parametrize("verb", ["backup", "repair"])
def test_a_verb_says_when_it_was_done_under_the_name_that_the_alert_asks_for(verb):
    (task,) = TOLD
    variables = {"node_exporter_verb": verb, "node_exporter_at": "1790000000", **task["vars"]}
    source = trust_as_template(task["ansible.builtin.copy"]["content"])
    said = str(Templar(DataLoader(), variables=trusted(variables)).template(source)).splitlines()
    name = f"kairoscope_last_{verb}_timestamp_seconds"
    assert said[0].startswith(f"# HELP {name} When the last {verb} began;")
    assert said[1:] == [f"# TYPE {name} gauge", f"{name} 1790000000"]
    assert name in (paths.DASHBOARDS / "prometheus" / "alerts.yml").read_text()


# What it answers.


def known_to_it(**more) -> prometheus.Known:
    """A Prometheus that asks two servers and has two rules, one alert of which fires."""
    target = {"labels": {"job": "storage", "instance": "storage-1"}, "health": "up"}
    other = {
        "labels": {"job": "kairosdb", "instance": "kairosdb-1"},
        "health": "down",
        "lastError": "connection refused",
    }
    fired = {"alertname": "NodeDown", "severity": "critical"}
    alerts = [
        {"labels": fired, "annotations": {"summary": "away"}, "state": "firing"},
        {"labels": fired, "annotations": {"summary": "perhaps"}, "state": "pending"},
        {
            "labels": {"alertname": "Watchdog", "severity": "none"},
            "annotations": {"summary": "alerts get through"},
            "state": "firing",
        },
    ]
    rules = [
        {"name": "NodeDown", "health": "ok"},
        {"name": "x", "health": "err", "lastError": "bad"},
    ]
    return prometheus.read(
        {"activeTargets": more.get("targets", [target, other])},
        {"groups": [{"rules": rules}]},
        {"alerts": alerts},
    )


def test_what_it_says_is_understood():
    found = known_to_it()
    assert found.targets == {
        ("storage", "storage-1"): "up",
        ("kairosdb", "kairosdb-1"): "connection refused",
    }
    assert found.alerts == ["NodeDown: away"]
    assert not found.first_round
    new = {"labels": {"job": "node", "instance": "a"}, "health": "unknown"}
    assert known_to_it(targets=[new]).first_round


def test_verify_names_who_is_not_watched_and_which_rule_is_broken():
    found = known_to_it()
    wanted = {("storage", "storage-1"), ("kairosdb", "kairosdb-1"), ("node", "storage-1")}
    assert answers.not_watched(found, wanted) == [
        "node of storage-1: not asked",
        "kairosdb of kairosdb-1: connection refused",
    ]
    assert answers.not_watched(prometheus.Known({("a", "b"): "up"}, {}, []), {("a", "b")}) == []
    # Between two loads nobody is there.
    away = {("loader", "loader-1"): "connection refused"}
    assert answers.not_watched(prometheus.Known(away, {}, []), away) == []
    assert answers.broken_rules(found, {"NodeDown", "QueueOld"}) == [
        "QueueOld: not loaded",
        "x: bad",
    ]
    assert {"NodeDown", "kairoscope:storage_nodes:down"} <= answers.rule_names()


def test_what_root_has_fetched_is_in_the_way_of_one_that_stays_watched(monkeypatch, tmp_path):
    """Without MONITORING= as well: its deploys write the programs that watch."""
    made = tmp_path / ".kairoscope" / "bundles" / "monitoring"
    made.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != made)

    def problem() -> str | None:
        return ready.owner_problem(tmp_path, {"TARGET": "local", "MONITORING": "false"})

    assert problem() is None
    here(NOT_WATCHED)
    assert problem() is None
    here(WATCHED)
    assert str(problem()).endswith(f"sudo chown -R 4711 {made.parent}")


# Where the programs come from.


def test_without_apt_it_is_said_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "BUNDLES", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="apt-get update"):
        monitoring.fetch()
    # What is there is used, whatever apt knows.
    (tmp_path / "monitoring" / "bin").mkdir(parents=True)
    for name in monitoring.PROGRAMS:
        (tmp_path / "monitoring" / "bin" / name).touch()
    assert not monitoring.fetch()


@pytest.mark.parametrize("theirs", ["monitoring", "monitoring-built-from.txt"])
def test_what_cannot_be_written_says_whose_it_may_be(monkeypatch, tmp_path, theirs):
    """By `sudo make deploy TARGET=lab`: the user's own, after apt had newer packages, ended in a
    traceback."""

    def unpack(into: Path) -> None:
        """As far as root's files let another user."""
        denied = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / theirs))
        if into.name == theirs:
            raise denied
        into.mkdir()
        monkeypatch.setattr(Path, "write_text", lambda *_: (_ for _ in ()).throw(denied))

    monkeypatch.setattr(paths, "BUNDLES", tmp_path)
    monkeypatch.setattr(monitoring, "_unpack", unpack)
    monkeypatch.setattr(monitoring, "_known_to_apt", lambda: "Package: x\nVersion: 1")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    whose = rf"{tmp_path}/monitoring: .*{theirs}.*sudo chown -R {os.geteuid()} {tmp_path}$"
    with pytest.raises(UserError, match=whose):
        monitoring.fetch()


def test_a_fetch_that_was_interrupted_is_made_again(monkeypatch, tmp_path):
    """Between the programs and the note of which they are."""
    monkeypatch.setattr(paths, "BUNDLES", tmp_path)
    monkeypatch.setattr(monitoring, "_unpack", lambda _: None)
    monkeypatch.setattr(monitoring, "_known_to_apt", lambda: "Package: x\nVersion: 1")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (tmp_path / "monitoring" / "bin").mkdir(parents=True)
    for name in monitoring.PROGRAMS:
        (tmp_path / "monitoring" / "bin" / name).touch()
    assert monitoring.fetch()
    assert not monitoring.fetch()


@pytest.mark.parametrize("told", [True, False])
def test_pages_come_with_their_scripts_where_the_release_can_be_told_where_they_are(
    monkeypatch, tmp_path, told
):
    def apt_and_dpkg(command, where):
        """What the packages have, once they are extracted."""
        (where / "some.deb").touch()
        usr = where / "root" / "usr"
        (usr / "bin").mkdir(parents=True, exist_ok=True)
        for name in monitoring.PROGRAMS:
            help_text = "--web.local-assets=/usr/share/prometheus/web/" if told else "--other"
            (usr / "bin" / name).write_text(f"#!/bin/sh\necho ' {help_text}' >&2\n")
            (usr / "bin" / name).chmod(0o755)
        (usr / "share" / "javascript" / "jquery").mkdir(parents=True, exist_ok=True)
        (usr / "share" / "javascript" / "jquery" / "jquery.js").write_text("script")
        static = usr / "share" / "prometheus" / "web" / "static"
        static.mkdir(parents=True, exist_ok=True)
        for name in ("jquery", "of-no-package"):
            if not (static / name).is_symlink():
                (static / name).symlink_to(f"../../../javascript/{name}")

    monkeypatch.setattr(paths, "BUNDLES", tmp_path)
    monkeypatch.setattr(monitoring, "_call", apt_and_dpkg)
    monkeypatch.setattr(monitoring, "_known_to_apt", lambda: "Package: x\nVersion: 1")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert monitoring.fetch()
    script = tmp_path / "monitoring" / "share" / "web" / "static" / "jquery" / "jquery.js"
    assert script.exists() == told
    option = here(WATCHED).monitoring[0].vars["monitoring_pages_option"]
    assert option.startswith("--web.local-assets=/") == told
    assert told or option == ""
