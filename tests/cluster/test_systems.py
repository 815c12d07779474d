"""Each other stack as itself: deployed, loaded, read back, destroyed; and killed under a load."""

import os
import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from boards import BOARDS, KAIROSDBS, empty, panels
from deployment import Home, Run
from harness import changed, running_load, wait_for
from other_systems import PROTOCOLS, SECONDS, SENSORS, experiment

from kairoscope import run_folder
from kairoscope.cli import known
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, supervisor
from kairoscope.hosts.deployed import deployed_plan
from kairoscope.run import host_probe
from kairoscope.stacks.questions import KINDS
from loaders.schedule.due import Schedule
from loaders.schedule.protocols import ONE_WAY

LATE = {"gnocchi": set(KINDS)}
"""What may find nothing in a few seconds of a busy machine: its ids are looked up before the first
question, when it may have made no metric yet, and it finds what is aggregated, which comes late."""
ACKNOWLEDGE = {name for name, protocol in PROTOCOLS.items() if protocol not in ONE_WAY}
PROCESSES = {
    "gnocchi": {part: part for part in ("api", "metricd", "postgresql", "redis")},
    "graphite": {"cache-a": "cache", "web": "web"},
}
"""Of those that are more than one, or have their own names: the role of each."""
OF_STACKS = {board["name"] for board in BOARDS} - set(KAIROSDBS.values())
"""Those that have a dashboard: that tell Prometheus their figures."""
# A program that is built or fetched for the first time takes its time.
FETCH_S = 1800


@pytest.fixture(params=PROTOCOLS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shared() -> Iterator[Home]:
    """One home for all: the loaders' environment, which is the same for each, is installed once."""
    home = Home()
    try:
        yield home
    finally:
        home.remove()


@pytest.fixture
def there(shared: Home) -> Iterator[Home]:
    """A home in which nothing is deployed; what the test deploys is destroyed."""
    installed = shared.scratch / "opt"
    installed.mkdir(exist_ok=True)
    shared.state.mkdir(parents=True)
    (shared.state / "opt").symlink_to(installed)
    try:
        yield shared
    finally:
        shared.well("destroy")
    assert not supervisor.owned(shared.state)


def deployed(home: Home, content: dict[str, Any], *options: str) -> Home:
    home.deployed = home.write("mine", content)
    home.well("deploy", home.deployed, *options, timeout_s=FETCH_S)
    return home


def loaded(home: Home, *options: str, killed_after_s: float | None = None) -> Run:
    """A load to its end; the server is killed once, so long after its first point was sent."""
    runs, output = home.path / "runs", home.scratch / "load.txt"
    how = (home.deployed, "--no-serve", *options)
    with running_load(home, runs, output, *how) as (process, folder):
        run = Run(process, output, folder, home)
        if killed_after_s is not None:
            wait_for("the load", (folder / run_folder.LOAD_SPEC).exists)
            time.sleep(max(0.0, run.spec().start_ms / 1000 + killed_after_s - time.time()))
            for pid in servers(home):
                os.kill(pid, signal.SIGKILL)
        run.end()
        return run


def servers(home: Home) -> list[int]:
    """Of one system, and all that descend from it: a pool of workers goes with its master."""
    pids = [process.pid for process in supervisor.processes(home.state / "supervisor") or []]
    assert pids
    assert all(pids)
    return sorted(host_probe.tree(set(pids), host_probe.processes()))


def test_from_experiment_to_verdict(name: str, there: Home) -> None:
    deployed(there, experiment(name))
    run = loaded(there, "--ask")
    judged, ledger = run.json("verdict.json"), run.json("ledger.json")
    assert judged["verdict"] == "pass", run.output
    outcomes = {part: told["outcome"] for part, told in judged["parts"].items()}
    stack: Any = known.stack(name)
    spared = {part for part, outcome in outcomes.items() if outcome == "not judged"}
    assert spared == set(stack.told.not_judged)
    assert {outcomes[part] for part in outcomes.keys() - spared} == {"pass"}
    points = SENSORS * SECONDS
    assert ledger["scheduled"] == ledger["rows_by_cql"] == points
    assert ledger["stored" if name in ACKNOWLEDGE else "unknown_stored"] == points
    assert all("error" not in look for look in run.lines("counters.jsonl"))
    measured = run.json("measurements.json")
    for process, role in PROCESSES.get(name, {f"{name}-1": name}).items():
        assert measured["cpu_us_per_point"][role] > 0
        assert measured["rss_max_bytes"][process] > 0
    versions = run.json("manifest.json")["versions"]
    assert re.search(r"\d+\.\d+", versions[name])
    asked = run.lines("asked.jsonl")
    assert {record["kind"] for record in asked} == set(KINDS)
    answered = {r["kind"] for r in asked if r.get("found")}
    assert answered >= set(KINDS) - LATE.get(name, set()), asked
    assert not any("why" in record for record in asked)


@pytest.mark.panels
@pytest.mark.parametrize("name", sorted(OF_STACKS))
def test_its_dashboard_finds_what_it_asks_for(name: str, there: Home) -> None:
    deployed(there, experiment(name, seconds=90), "--monitoring")
    assert loaded(there).json("verdict.json")["verdict"] == "pass"
    targets = there.watched("targets?state=active")["activeTargets"]
    assert {t["labels"]["job"]: t["health"] for t in targets}[name] == "up"
    wanted = [(board, panel) for board, panel in panels() if board == name]
    assert not empty(wanted, there.watched, "1m", 150)


@pytest.mark.faults
def test_what_a_kill_takes_is_found_and_nothing_else(
    name: str, there: Home, record_property: Any
) -> None:
    """What each promises: InfluxDB, QuestDB and, with a log, Gnocchi keep what they acknowledged;
    VictoriaMetrics has its last seconds in memory; Graphite acknowledges nothing and here has more
    to write than it may."""
    system = {
        "graphite": {"max_updates_per_second": 20},
        "gnocchi": {"incoming_log": "everysec"},
    }
    more = {"system": system[name]} if name in system else {}
    deployed(there, experiment(name, seconds=40, **more))
    assert f"{name}-1:" in there.well("status")
    assert sum(changed(there.well("deploy", there.deployed, timeout_s=420)).values()) == 0
    run = loaded(there, killed_after_s=20)
    ledger = run.json("ledger.json")
    acknowledges = name in ACKNOWLEDGE
    lost = ledger["missing" if acknowledges else "unknown_missing"]
    claimed = ledger["acknowledged" if acknowledges else "unknown"]
    row = f"{name} | kill -9 after 20 s | {claimed} | {lost} | {ledger['failed_logged']}"
    record_property("killed", row)
    assert run.events("process started again") or run.events("process ended")
    assert claimed > SENSORS * 20
    judged = run.json("verdict.json")
    if name in ("gnocchi", "influxdb", "questdb"):
        assert lost == 0
        # Its only server was gone for a while: of that nothing is known.
        assert judged["verdict"] == "incomplete", judged["reasons"]
    else:
        assert lost > 0
        assert judged["parts"]["readback"]["outcome"] == "fail"
        assert judged["verdict"] == "fail"


@pytest.mark.faults
def test_every_point_can_be_taken_away(
    name: str, there: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As between two runs of a series; and also where there are none, as before its first."""
    deployed(there, experiment(name))
    monkeypatch.setenv("KAIROSCOPE_HOME", str(there.path))
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", there.net)
    stack: Any = known.stack(name)
    with stack.connect(deployed_plan("local"), inventory.load("local")) as session:
        session.empty()
        run = loaded(there)
        schedule = Schedule(run.spec())
        with pytest.raises(UserError, match=f"has {SENSORS * SECONDS} points of that time"):
            session.refuse_old_history(schedule)
        session.empty()
        session.empty()
        session.refuse_old_history(schedule)
    assert loaded(there).json("verdict.json")["verdict"] == "pass"


@pytest.mark.faults
def test_what_carbon_drops_without_a_word_is_found_and_named(there: Home) -> None:
    content = experiment("graphite", seconds=20, system={"max_creates_per_minute": 50})
    deployed(there, content)
    run = loaded(there)
    judged, ledger = run.json("verdict.json"), run.json("ledger.json")
    assert judged["verdict"] == "fail"
    assert judged["parts"]["readback"]["outcome"] == "fail"
    assert ledger["unknown_missing"] > 0
    assert "graphite-1 counts cache-a/droppedCreates" in judged["summary"]


@pytest.mark.faults
@pytest.mark.parametrize("by", ["influxdb", "victoriametrics"])
def test_every_point_comes_by_remote_write(by: str, there: Home) -> None:
    content = experiment(by, seconds=20)
    more = {"protocol": "remote-write", "points_per_request": 2, "value_type": "double"}
    content["load"] |= more
    deployed(there, content)
    run = loaded(there, "--ask")
    assert run.json("verdict.json")["verdict"] == "pass", run.output
    ledger = run.json("ledger.json")
    assert ledger["stored"] == ledger["rows_by_cql"] == SENSORS * 20
    assert {r["kind"] for r in run.lines("asked.jsonl") if r.get("found")} == set(KINDS)


BEHIND_RELAYS = {
    "plaintext": {"caches": 2, "relays": 1, "relay_program": "carbon-c-relay"},
    "pickle": {"caches": 3, "relays": 2},
}


@pytest.mark.faults
@pytest.mark.parametrize("protocol", BEHIND_RELAYS)
def test_every_point_comes_through_the_relays(protocol: str, there: Home) -> None:
    """One relay in C by plaintext; HAProxy and two relays in Python by pickle, a connection for
    each request."""
    content = experiment("graphite", system=BEHIND_RELAYS[protocol])
    # So many that each cache has more to write every second than figures of its own.
    sensors = 6 * SENSORS
    content["load"] |= {"protocol": protocol, "connection_per_request": protocol == "pickle"}
    content["load"]["sensors"] = sensors
    deployed(there, content)
    said = there.well("status")
    assert "cache-b" in said
    assert "relay-a" in said
    assert sum(changed(there.well("deploy", there.deployed, timeout_s=420)).values()) == 0
    run = loaded(there)
    assert run.json("verdict.json")["verdict"] == "pass", run.output
    assert run.json("ledger.json")["unknown_stored"] == sensors * SECONDS
    measured = run.json("measurements.json")
    roles = {"cache", "relay", "web", "loader"} | ({"balancer"} if protocol == "pickle" else set())
    assert set(measured["cpu_us_per_point"]) == roles
    wrote = {
        name.partition("/")[0]
        for look in run.lines("counters.jsonl")
        for name, value in look["counters"].items()
        if name.endswith("/committedPoints") and value > 60
    }
    assert len(wrote) == BEHIND_RELAYS[protocol]["caches"]
