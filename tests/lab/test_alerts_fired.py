"""Each alert is fired by the fault that it is for, on hosts that are watched, and is over after it;
none fires under a load in which nothing is wrong.

One deployment for all tests, in the order in which they stand here. For the faults, and for them
alone, no alert waits longer than WAITS before it fires (`for:` of its rule, 30 s to 30 minutes).
What is looked at is its expression, as deployed; how long each waits is for promtool's tests. A
disk is given an hour of its past, which the lab is too young for.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from harness import wait_for
from watched_lab import RULES, WatchedLab

# How long the load is in which none fires; an hour is what an alert has to stand.
CLEAN_MINUTES = float(os.environ.get("CLEAN_MINUTES", "10"))
pytestmark = [pytest.mark.alerts, pytest.mark.timeout(3600 + CLEAN_MINUTES * 60)]
WAITS = "15s"
# Until it fires, or is over: figures of the last five minutes and three looks, on a busy machine.
PATIENCE_S = 900

Brought = contextlib.AbstractContextManager[None]


@pytest.fixture(scope="module")
def watched(needed: None) -> Iterator[WatchedLab]:
    lab = WatchedLab()
    try:
        lab.deploy()
        yield lab
    finally:
        lab.remove()


@pytest.fixture(scope="module")
def hurried(watched: WatchedLab) -> WatchedLab:
    """The same one, with alerts that fire sooner."""
    before = watched.rules()
    watched.have_rules_wait(WAITS)
    wait_for("rules that wait less", lambda: longest_wait(watched) == 15, 60)
    after = watched.rules()
    assert {name: rule["query"] for name, rule in before.items()} == {
        name: rule["query"] for name, rule in after.items()
    }
    return watched


def longest_wait(lab: WatchedLab) -> float:
    return max(float(rule["duration"]) for rule in lab.rules().values())


# What is brought about, and undone at the end of the block.


@contextlib.contextmanager
def undone_by(*undo: Callable[[], object]) -> Iterator[None]:
    """Whatever happens in the block, so that the next fault finds hosts that are whole."""
    try:
        yield
    finally:
        for each in undo:
            each()


@contextlib.contextmanager
def two_hosts_lose_power(lab: WatchedLab) -> Iterator[None]:
    hosts = ("storage-2", "storage-3")
    start = [functools.partial(lab.there.start, host) for host in hosts]
    with lab.loading(), undone_by(*start, lab.wait_until_well):
        for host in hosts:
            lab.there.kill(host)
        yield


@contextlib.contextmanager
def a_host_is_cut_off_from_its_peers(lab: WatchedLab) -> Iterator[None]:
    """From all of them: of two that reach a third each hears by that one that the other lives."""
    with undone_by(lab.there.heal):
        for other in ("storage-1", "storage-3"):
            lab.there.partition(other, "storage-2")
        yield
        assert not {name for name, _ in lab.firing()} & {"NodeDown", "NoQuorum"}


@contextlib.contextmanager
def the_store_takes_nothing(lab: WatchedLab) -> Iterator[None]:
    """No column of that name: no point can be written."""
    rename = "ALTER TABLE kairosdb.data_points RENAME {} TO {}"
    back = functools.partial(lab.cql, rename.format("attacked", "column1"))
    with lab.loading():
        lab.cql(rename.format("column1", "attacked"))
        with undone_by(back):
            yield
        wait_for("a queue that is well", lambda: not lab.query("kairosdb_queue_healthy == 0"))


@contextlib.contextmanager
def the_store_refuses_a_point_for_good(lab: WatchedLab) -> Iterator[None]:
    """An index of Cassandra's takes no value of 64 KiB: a text which the door takes."""
    lab.cql("CREATE INDEX attacks ON kairosdb.data_points (value)")
    with undone_by(functools.partial(lab.cql, "DROP INDEX kairosdb.attacks")):
        lab.inside("post", "dead", "65535")
        yield


@contextlib.contextmanager
def two_replicas_of_three_stutter(lab: WatchedLab) -> Iterator[None]:
    with lab.loading(), lab.stuttering("storage-2", "storage-3"):
        yield
    lab.wait_until_well()


@contextlib.contextmanager
def merges_do_not_keep_up(lab: WatchedLab) -> Iterator[None]:
    """140 MiB came into levels of files of 1 MiB, and nobody merges."""
    lab.cql(
        "CREATE KEYSPACE merges WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}",
        "CREATE TABLE merges.late (id int PRIMARY KEY, value blob) WITH compaction = {'class': "
        "'LeveledCompactionStrategy', 'sstable_size_in_mb': 1, 'enabled': 'false'}",
    )
    with undone_by(functools.partial(lab.cql, "DROP KEYSPACE merges")):
        lab.inside("blobs", "140")
        tool = "/var/lib/kairoscope/storage-1/bin/nodetool"
        lab.run("storage-1", "sudo", tool, "flush", "merges")
        yield


def last_done(lab: WatchedLab, verb: str, days: int) -> None:
    """Have storage-2 say what it says where nobody has done it for so long."""
    file = f"/var/lib/kairoscope/node-exporter/textfile/{verb}.prom"
    name = f"kairoscope_last_{verb}_timestamp_seconds"
    then = int(time.time()) - days * 86400
    lab.run("storage-2", "sudo", "sed", "-i", f"s/^{name} .*/{name} {then}/", file)


@contextlib.contextmanager
def nobody_made_a_backup(lab: WatchedLab) -> Iterator[None]:
    last_done(lab, "backup", days=8)
    yield
    lab.operate("backup", "--to", lab.scratch / "backup")


@contextlib.contextmanager
def nobody_repaired(lab: WatchedLab) -> Iterator[None]:
    last_done(lab, "repair", days=9)
    yield
    lab.operate("repair", "--limit", "storage-2")


@contextlib.contextmanager
def the_loader_stutters(lab: WatchedLab) -> Iterator[None]:
    with lab.loading(), lab.stuttering("loader-1"):
        yield


@contextlib.contextmanager
def a_disk_fills(lab: WatchedLab) -> Iterator[None]:
    where = "/srv/small"
    free = f'node_filesystem_avail_bytes{{mountpoint="{where}"}}'
    with lab.disk("loader-1", where) as disk:
        (found,) = wait_for("a disk that is told of", lambda: lab.query(free))
        lab.remember(found["metric"], float(found["value"][1]), minutes=65)
        wait_for("its past", lambda: lab.query(f"{free} offset 50m"))
        room = os.statvfs(disk)
        with (disk / "ballast").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, int(0.95 * room.f_bavail * room.f_frsize))
        yield
        # Room again, and not a disk that nobody tells of.
        (disk / "ballast").unlink()
        wait_for("an end of it", lambda: over(lab, {"DiskFilling": "", "DiskAlmostFull": ""}))


@contextlib.contextmanager
def a_certificate_ends_in_twenty_days(lab: WatchedLab) -> Iterator[None]:
    lab.certificate_for("kairosdb-2", days=20)
    lab.deploy()
    lab.have_rules_wait(WAITS)
    yield
    lab.certificate_for("kairosdb-2", days=700)
    lab.deploy()
    lab.have_rules_wait(WAITS)


@contextlib.contextmanager
def a_kernel_says_that_its_clock_is_off(lab: WatchedLab) -> Iterator[None]:
    """Or so it is told: the lab has one clock, this machine's, which is not ours to set."""
    with lab.other_clock("storage-2", off_s=5):
        yield


@contextlib.contextmanager
def alertmanager_ends(lab: WatchedLab) -> Iterator[None]:
    systemctl = functools.partial(lab.run, "monitoring-1", "sudo", "systemctl")

    def answers() -> bool:
        with contextlib.suppress(AssertionError):
            lab.told()
            return True
        return False

    def begin() -> None:
        systemctl("start", "kairoscope-alertmanager")
        # It listens some time after systemd calls it started.
        wait_for("Alertmanager", answers)

    with undone_by(begin):
        systemctl("stop", "kairoscope-alertmanager")
        yield


@dataclass(frozen=True)
class Fault:
    """What happens, and which alerts it fires, each with the host that it names ("" for any)."""

    brought: Callable[[WatchedLab], Brought]
    fires: dict[str, str]
    # Alertmanager has to be there, and a rule that looks an hour back has to have done so.
    told: bool = True
    looks_back_s: int = 0


FAULTS = [
    Fault(two_hosts_lose_power, {"NodeDown": "storage-2", "NoQuorum": ""}),
    Fault(a_host_is_cut_off_from_its_peers, {"StorageNodeNotSeen": "storage-1"}),
    Fault(
        the_store_takes_nothing,
        {"QueueInTrouble": "kairosdb-1", "QueueOld": "kairosdb-1", "QueueGrowing": "kairosdb-1"},
    ),
    Fault(two_replicas_of_three_stutter, {"WriteTimeouts": "", "StoreSlow": ""}),
    Fault(the_loader_stutters, {"LoaderLate": "loader-1"}),
    Fault(merges_do_not_keep_up, {"CompactionBehind": "storage-1"}),
    Fault(a_disk_fills, {"DiskFilling": "loader-1", "DiskAlmostFull": "loader-1"}),
    Fault(nobody_made_a_backup, {"BackupOld": ""}),
    Fault(nobody_repaired, {"RepairOld": "storage-2"}),
    Fault(a_certificate_ends_in_twenty_days, {"CertificateEnds": "kairosdb-2"}),
    Fault(a_kernel_says_that_its_clock_is_off, {"ClockOff": "storage-2"}),
    Fault(alertmanager_ends, {"MonitoringBlind": ""}, told=False),
    # Last: it fires for an hour.
    Fault(the_store_refuses_a_point_for_good, {"DeadLetters": "kairosdb-1"}, looks_back_s=3600),
]

# Of the others, why not.
NOT_BROUGHT = {
    "Watchdog": "fires always: that it does, and is told, is looked at under the clean load",
}


def test_each_alert_has_a_fault_or_a_reason_for_none(
    record_property: Callable[[str, object], None],
) -> None:
    rules = [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]
    fired = [name for fault in FAULTS for name in fault.fires]
    assert sorted([*fired, *NOT_BROUGHT]) == sorted(rule["alert"] for rule in rules)
    for name, why in NOT_BROUGHT.items():
        record_property("not fired", f"{name} | {why}")


def test_monitoring_is_deployed_and_verified(watched: WatchedLab) -> None:
    said = watched.well("verify", "--target", "lab")
    assert ", 0 FAIL" in said
    (line,) = [line for line in said.splitlines() if "targets" in line and "monitoring" in line]
    assert "as wanted" in line


def test_hosts_tell_what_rules_and_dashboards_ask_for(watched: WatchedLab) -> None:
    """A service may be kept by systemd from what its figures are made of."""
    files = [*RULES.parent.glob("*.yml"), RULES.parents[1] / "grafana" / "hosts.json"]
    names = {name for file in files for name in re.findall(r"\bnode_\w+", file.read_text())}
    assert "node_timex_offset_seconds" in names
    assert [name for name in sorted(names) if not watched.query(name)] == []


def test_no_alert_fires_while_nothing_is_wrong(watched: WatchedLab) -> None:
    """As deployed, from the load's first second until a minute after its end."""
    began = time.time()
    with watched.loading() as load:
        until = time.monotonic() + CLEAN_MINUTES * 60
        while time.monotonic() < until:
            assert load.process.poll() is None, "the load ended"
            time.sleep(5)
        load.lost_nothing()
    time.sleep(60)
    span = f"[{time.time() - began:.0f}s]"
    fired = watched.query(f'count_over_time(ALERTS{{alertstate="firing"}}{span})')
    assert {found["metric"]["alertname"] for found in fired} == {"Watchdog"}, fired
    assert ("Watchdog", "") in watched.told()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.brought.__name__)
def test_alerts_are_fired_by_their_fault_and_over_after_it(
    hurried: WatchedLab, fault: Fault, record_property: Callable[[str, object], None]
) -> None:
    assert not matching(hurried.firing(), fault.fires)
    began = time.monotonic()
    with fault.brought(hurried):
        wait_for(
            f"{', '.join(fault.fires)}",
            lambda: (
                matching(hurried.firing(), fault.fires) == set(fault.fires)
                and (not fault.told or matching(hurried.told(), fault.fires) == set(fault.fires))
            ),
            PATIENCE_S,
            lambda: str(state(hurried, fault.fires)),
        )
        fired = time.monotonic()
    undone = time.monotonic()
    if fault.looks_back_s:
        over_once_it_is_past(hurried, fault)
        ended = f"by what Prometheus says of {fault.looks_back_s} s later"
    else:
        wait_for(
            f"no {', '.join(fault.fires)}",
            lambda: over(hurried, fault.fires),
            PATIENCE_S,
            lambda: str(state(hurried, fault.fires)),
        )
        ended = f"{time.monotonic() - undone:.0f} s"
    what = fault.brought.__name__.replace("_", " ")
    row = f"{', '.join(fault.fires)} | {what} | {fired - began:.0f} s | {ended}"
    record_property("alert", row)


def matching(found: set[tuple[str, str]], wanted: dict[str, str]) -> set[str]:
    """Those of the wanted alerts that are there, with their host."""
    return {
        name
        for name, host in wanted.items()
        if any(name == other and host in ("", where) for other, where in found)
    }


def over(lab: WatchedLab, alerts: dict[str, str]) -> bool:
    """Whether none of them fires, of whichever host, and Alertmanager was told so."""
    return not {name for name, _ in lab.firing() | lab.told()} & alerts.keys()


def over_once_it_is_past(lab: WatchedLab, fault: Fault) -> None:
    """The rule's own expression, asked of a time at which it looks back on what came after."""
    (name,) = fault.fires
    since = time.time()
    wait_for(
        "figures of afterwards",
        lambda: len(seen_since(lab, since)) >= 2,
        seen=lambda: str(seen_since(lab, since)),
    )
    later = since + fault.looks_back_s
    assert lab.query("increase(kairosdb_queue_dead_letters_total[1h])", time=later)
    assert not lab.query(lab.rules()[name]["query"], time=later)


def seen_since(lab: WatchedLab, since: float) -> list[Any]:
    """Times and values of what one server told."""
    found = lab.query('kairosdb_queue_dead_letters_total{instance="kairosdb-1"}[5m]')
    return [seen for series in found for seen in series["values"] if float(seen[0]) > since]


def state(lab: WatchedLab, alerts: dict[str, str]) -> dict[str, Any]:
    """What Prometheus has of each alert that was waited for, and of its expression."""
    rules = lab.rules()
    return {name: (rules[name]["alerts"], lab.query(rules[name]["query"])) for name in alerts}


def test_a_deploy_brings_the_rules_back(hurried: WatchedLab) -> None:
    hurried.deploy()
    assert longest_wait(hurried) == 30 * 60
