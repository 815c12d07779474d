"""Day two on three storage nodes, two KairosDB nodes and a loader host, under a running load.

One deployment for all tests, in the order in which they stand here: each leaves it whole. Each verb
has a load of its own, so that it is under one however slow the machine is.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from deployed_lab import DeployedLab, as_root, status_of
from harness import SCYLLA, changed, wait_for
from test_nodes import interrupted

from kairoscope.hosts import inventory
from kairoscope.stacks.kairosdb.readback import queries
from kairoscope.stacks.kairosdb.servers import client
from kairoscope.targets.lab import Lab
from kairoscope.verdict import ledger, outcomes, settlement
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec

pytestmark = [pytest.mark.day_two, pytest.mark.timeout(1500)]

STORAGE = ("storage-1", "storage-2", "storage-3")
KAIROSDB = ("kairosdb-1", "kairosdb-2")
HOSTS = (*STORAGE, *KAIROSDB, "loader-1")
STORE_UNIT = "scylla-server" if SCYLLA else "cassandra"
# ScyllaDB's log is the journal.
STORE_LOG = "unit-journal.txt" if SCYLLA else "files/var/lib/kairoscope/storage-1/log/system.log"


def test_unsafe_use_is_refused_before_anything_is_changed(lab):
    four = lab.write_nodes(storage_nodes=4)
    five = lab.write_nodes(storage_nodes=5)
    assert "needs --limit" in lab.refuses("replace")
    assert "sees storage-2 UN; only one that is down" in lab.refuses(
        "replace", "--limit", "storage-2"
    )
    assert "one at a time" in lab.refuses("add-storage", five)
    assert "no host storage-9" in lab.refuses("rolling-restart", "--limit", "storage-9")
    two = lab.write_nodes(storage_nodes=2, replication_factor=2)
    assert "one change at a time" in lab.refuses("decommission", two, "--limit", "storage-3")
    assert "is the last, kairosdb-2" in lab.refuses(
        "remove-kairosdb", lab.write_nodes(kairosdb_nodes=1), "--limit", "kairosdb-1"
    )
    with lab.loading() as load:
        lab.well("lab", "kill", "storage-2")
        for verb, *arguments in (
            ("rolling-restart",),
            ("repair",),
            ("backup",),
            ("add-storage", four),
        ):
            assert "nothing was changed" in lab.refuses(verb, *arguments)
        lab.well("lab", "start", "storage-2")
        load.lost_nothing()
    lab.wait_until_well()


def test_restarts_and_other_settings_under_load(lab):
    before = {host: started(lab, host) for host in HOSTS[:5]}
    other = lab.write("other", kairosdb={"connections_per_host": 3})
    with lab.loading() as load:
        lab.operate("rolling-restart")
        load.lost_nothing()
    # The load saw it, however slow the machine is.
    assert "process started again" in (load.folder / "events.jsonl").read_text()
    after = {host: started(lab, host) for host in HOSTS[:5]}
    assert all(after[host] != before[host] for host in before)
    with lab.loading() as load:
        lab.operate("rolling-config", other)
        load.lost_nothing()
    # Only what the setting concerns.
    last = {host: started(lab, host) for host in HOSTS[:5]}
    assert {host for host in last if last[host] != after[host]} == set(KAIROSDB)
    lab.operate("rolling-config", lab.experiment)


def test_what_an_interruption_left_is_gone_on_from_under_load(lab):
    """A storage node drained and not stopped: it runs, and the others see it down. A KairosDB node
    that its drain keeps shut."""
    tool = "/var/lib/kairoscope/storage-2/bin/nodetool"
    with lab.loading() as load:
        lab.on("storage-2", "sudo", tool, "drain")
        wait_for(
            "storage-2 seen down",
            lambda: re.search(r"^DN +10\.77\.0\.12 ", status_of(lab, "storage-1"), re.M),
        )
        said = lab.refuses("repair")
        assert "storage-2 was drained, and not started again: make deploy" in said
        lab.operate("rolling-restart", "--limit", "storage-1")
        assert status_of(lab, "storage-1").count("\nUN ") == 3
        shut = (
            "table inet kairoscope_drain { chain input { "
            "type filter hook input priority filter - 1; "
            'iifname != "lo" tcp dport 8080 reject with tcp reset; }; }'
        )
        as_root(Lab(lab.state), "kairosdb-1", "nft --file -", text=shut.encode())
        told = lab.cli("status", "--target", "lab")
        assert told.returncode == 1
        assert "kairosdb-1: takes no points, by a drain" in told.stdout
        # Of the two the other one is drained, and the load goes on.
        lab.operate("rolling-restart", "--limit", "kairosdb-2")
        assert "kairoscope_drain" not in lab.on("kairosdb-1", "sudo", "nft", "list", "tables")
        load.lost_nothing()


def started(lab: DeployedLab, host: str) -> str:
    """What tells one start of a host's server from another."""
    unit = "kairosdb" if host.startswith("kairosdb") else STORE_UNIT
    return lab.on(host, "systemctl", "show", "-p", "InvocationID", unit)


def test_the_system_s_packages_and_what_has_to_start_anew(lab):
    """There are none to be had: what asks for it reboots or restarts, and nothing else does."""
    for host in HOSTS:
        # The lab's hosts have no way to Debian's.
        lists = "rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*"
        lab.on(host, "sudo", "sh", "-c", lists)
    with lab.loading() as load:
        assert "upgrade-system may reboot loader-1" in lab.refuses("upgrade-system")
        wants_reboot(lab, "kairosdb-2")
        replace_library(lab, "kairosdb-1")
        before = begun(lab)
        for host in KAIROSDB:
            lab.operate("upgrade-system", "--limit", host)
        load.lost_nothing()
    after = begun(lab)
    assert {host for host in HOSTS if after[host][0] != before[host][0]} == {"kairosdb-2"}
    assert {host for host in HOSTS if after[host][1] != before[host][1]} == set(KAIROSDB)

    for host in ("storage-2", "loader-1"):
        wants_reboot(lab, host)
    restarted = {"storage-2"}
    if not SCYLLA:  # It has all that it runs with in its own folder.
        replace_library(lab, "storage-1")
        restarted |= {"storage-1"}
    lab.operate("upgrade-system")
    last = begun(lab)
    assert {host for host in HOSTS if last[host][0] != after[host][0]} == {"storage-2", "loader-1"}
    # Cassandra has always deleted libraries of its own by then.
    assert {host for host in HOSTS if last[host][1] != after[host][1]} == restarted
    lab.wait_until_well()


def begun(lab: DeployedLab) -> dict[str, tuple[str, str]]:
    """What tells one start of each host, and of its server if it has one, from another."""
    boot = ("cat", "/proc/sys/kernel/random/boot_id")
    return {
        host: (lab.on(host, *boot), "" if host.startswith("loader") else started(lab, host))
        for host in HOSTS
    }


def wants_reboot(lab: DeployedLab, host: str) -> None:
    """As the package of a kernel leaves it on Ubuntu."""
    lab.on(host, "sudo", "touch", "/run/reboot-required")


def replace_library(lab: DeployedLab, host: str) -> None:
    """Of those that a host's Java has open, as dpkg does it: another file, renamed over it."""
    unit = "kairosdb" if host.startswith("kairosdb") else STORE_UNIT
    script = f"""
    pid=$(systemctl show --property MainPID --value {unit})
    library=$(grep --only-matching '/usr/lib/.*/libz[.]so[.0-9]*$' /proc/$pid/maps | head -n 1)
    cp --archive "$library" "$library.dpkg-new"
    mv "$library.dpkg-new" "$library"
    """
    lab.on(host, "sudo", "sh", "-euc", script)


def test_backup_under_load_then_wipe_restore_and_every_point_is_back(lab):
    with lab.loading() as load:
        lab.operate("repair")
        load.lost_nothing()
    with lab.loading() as load:
        lab.operate("backup", "--to", lab.scratch / "under-load")
        load.lost_nothing()
    backup = lab.scratch / "backup"
    # What a backup leaves that was killed.
    tool = "/var/lib/kairoscope/storage-2/bin/nodetool"
    lab.on("storage-2", "sudo", tool, "snapshot", "-t", "kairoscope-20200101T000000Z", "kairosdb")
    lab.operate("backup", "--to", backup)
    for host in STORAGE:
        assert lab.on(host, "sudo", "find", "/var/lib", "-path", "*/snapshots/kairoscope-*") == ""
    assert "is not empty" in lab.refuses("restore", backup)
    manifest = json.loads((backup / "manifest.json").read_text())
    assert sorted(manifest["nodes"]) == list(STORAGE)

    restored(lab, backup, load.folder)
    lab.wait_until_well()


def test_the_storage_hosts_send_a_backup_by_themselves(lab):
    """By their timers, under a load, and all that was stored before is back from it. Each has a
    disk of its own: what they sent is brought together, as in a folder that all have mounted."""
    with lab.loading() as before:
        before.lost_nothing()
    sent, user = "/srv/backups", "scylla" if SCYLLA else "cassandra"
    for host in STORAGE:
        lab.on(host, "sudo", "install", "--directory", "--owner", user, "--mode", "750", sent)
    with lab.loading() as load:
        at = time.strftime("%H:%M", time.gmtime(time.time() + 150))
        lab.operate("schedule-backups", "--to", sent, "--at", at)
        wait_for(
            "a part of each host",
            lambda: all(
                lab.on(host, "sudo", "find", sent, "-name", "node.json") for host in STORAGE
            ),
            300,
        )
        load.lost_nothing()
    assert set(changed(lab.deploy()).values()) == {0}
    together = lab.scratch / "scheduled"
    together.mkdir()
    for host in STORAGE:
        tar = Lab(lab.state).ssh(host, ["sudo", "tar", "--create", "--directory", sent, "."])
        part = subprocess.run(tar, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        subprocess.run(["tar", "--extract", "--directory", together], input=part.stdout, check=True)
        kept = lab.on(host, "sudo", "find", "/var/lib", "-path", "*/snapshots/kairoscope-*")
        assert kept == "", "the snapshot was given up"
    (backup,) = together.iterdir()
    assert "3 nodes, " in lab.operate("check-backup", backup)
    lab.operate("schedule-backups", "--off")
    for host in STORAGE:
        assert lab.on(host, "find", "/etc/systemd", "-name", "kairoscope-backup*") == ""

    restored(lab, backup, before.folder)
    lab.wait_until_well()


def test_a_backup_of_three_nodes_is_restored_into_four(lab):
    """Every node has other tokens than any of those backed up."""
    with lab.loading() as load:
        load.lost_nothing()
    backup = lab.scratch / "of-three"
    lab.operate("backup", "--to", backup)
    restored(lab, backup, load.folder, lab.write_nodes(storage_nodes=4))
    lab.wait_until_well()
    # As the others find it.
    lab.well("destroy", "--target", "lab")
    lab.deploy()


def test_a_backup_is_restored_into_another_replication_factor(lab):
    """There and back, on nodes that with Cassandra have the tokens of those backed up. Where two of
    three replicas stayed empty, a read at a quorum that reaches those finds nothing."""
    with lab.loading() as load:
        load.lost_nothing()
    for made, deployed in (
        ("of-three-replicas", lab.write_nodes(replication_factor=1)),
        ("of-one-replica", lab.experiment),
    ):
        backup = lab.scratch / made
        lab.operate("backup", "--to", backup)
        assert "all to every node" in restored(lab, backup, load.folder, deployed)
    lab.wait_until_well()


def restored(lab: DeployedLab, backup: Path, run: Path, experiment: Path | None = None) -> str:
    """End all hosts, deploy anew and restore; returns what `restore` said.

    None of a run's points is there before it, and all are after it.
    """
    lab.well("destroy", "--target", "lab")
    lab.deploy(experiment)
    run_in_lab(lab, "none", run)
    said = lab.operate("restore", backup)
    run_in_lab(lab, "all", run)
    return said


def run_in_lab(lab: DeployedLab, wanted: str, run: Path) -> None:
    """Read a run's points back, in a process that can reach the lab: `all` of them, or `none`."""
    inside = Lab(lab.state).network.inside(sys.executable, __file__, str(run), wanted)
    environment = os.environ | {
        "KAIROSCOPE_HOME": str(lab.home),
        "KAIROSCOPE_SECRETS": str(lab.scratch / "secrets"),
        # What pytest has by its configuration.
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(inside, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def read_back(run: Path, wanted: str) -> None:
    """See `run_in_lab`."""
    schedule = Schedule(LoadSpec.from_json((run / "load" / "spec.json").read_text()))
    here = inventory.load("lab")
    by_loaders = outcomes.read(schedule, run / "load")
    settling = settlement.Settlement(schedule, by_loaders)
    with client.connect(here) as talk:
        passes = asyncio.run(
            queries.read_all(
                schedule,
                settling.incomplete,
                settling.add,
                nodes=[talk.url(host) for host in here.kairosdb],
                access=talk.access,
            )
        )
    found = ledger.balance(by_loaders, settling.found(passes), 0, [])
    if wanted == "none":
        assert found.stored == 0, found
    else:
        assert found.stored == found.acknowledged > 0, found
        assert found.wrong_value == found.missing == 0, found


def test_passwords_and_certificates_are_replaced_under_load(lab):
    for what in ("passwords", "certificates"):
        with lab.loading() as load:
            lab.well("rotate", what, "--target", "lab")
            load.lost_nothing()
    lab.well("rotate", "rest", "--target", "lab")
    assert ", 0 FAIL" in lab.well("verify", "--target", "lab")


def test_evidence_has_what_is_needed_and_no_secret(lab):
    lab.well("lab", "kill", "kairosdb-2")
    try:
        archive = lab.scratch / "evidence.tar.gz"
        said = lab.operate("evidence", "--to", archive)
    finally:
        lab.well("lab", "start", "kairosdb-2")
    assert "nothing from: kairosdb-2" in said
    with tarfile.open(archive) as found:
        members = {m.name: found.extractfile(m).read() for m in found}  # type: ignore[union-attr]
    for wanted in (
        "evidence/plan.json",
        "evidence/storage-1/nodetool-status.txt",
        f"evidence/storage-1/{STORE_LOG}",
        "evidence/kairosdb-1/files/var/lib/kairoscope/kairosdb-1/conf/kairosdb.conf",
        "evidence/kairosdb-1/unit-journal.txt",
        "evidence/loader-1/disks.txt",
    ):
        assert members[wanted], wanted
    everything = b"\n".join(members.values())
    secrets = list((lab.scratch / "secrets").rglob("secrets.yml"))
    assert secrets
    for line in secrets[0].read_text().splitlines():
        if "password:" in line:
            assert line.split("password:")[1].strip().encode() not in everything
    assert b"PRIVATE KEY" not in everything
    lab.wait_until_well()


def test_upgrade_to_another_bundle_and_back(lab):
    """The version before is a copy of the bundle in another folder, as a rebuilt one would be."""
    path = lab.state / "inventory.yml"
    found = re.search(r"kairosdb_bundle_dir: (\S+)", path.read_text())
    assert found
    new, old = found[1], f"{found[1][:-8]}00000000"
    path.write_text(path.read_text().replace(found[0], f"kairosdb_bundle_dir: {old}"))
    for host in KAIROSDB:
        lab.on(host, "sudo", "cp", "--archive", new, old)
        lab.operate("rolling-restart", "--limit", host)
    assert {bundle_of(lab, host) for host in KAIROSDB} == {old}
    for way, bundle in (([], new), (["--rollback"], old)):
        with lab.loading() as load:
            if way:
                with interrupted(lab, "upgrade", *way):
                    wait_for("the way back", lambda: old in path.read_text(), 300)
                said = lab.refuses("rolling-restart")
                assert "Run it again: kairoscope operate upgrade --rollback --target lab" in said
            lab.operate("upgrade", *way)
            assert {bundle_of(lab, host) for host in KAIROSDB} == {bundle}
            load.lost_nothing()
    assert "nothing to go back to" in lab.refuses("upgrade", "--rollback")


def bundle_of(lab: DeployedLab, host: str) -> str:
    """The folder that a KairosDB node's server runs from."""
    arguments = lab.on(host, "sudo", "cat", f"/var/lib/kairoscope/{host}/conf/java.args")
    (folder,) = set(re.findall(r"/opt/kairoscope/kairosdb-[^/:]+", arguments))
    return folder


if __name__ == "__main__":
    read_back(Path(sys.argv[1]), sys.argv[2])
