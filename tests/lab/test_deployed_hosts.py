"""Three storage nodes, two KairosDB nodes and a loader host in the lab, over SSH and secured.

One deployment for all tests and those of test_nodes, test_operations and test_destroyed, in the
order in which they stand here: each leaves it whole.
"""

import json
import os
import re
import signal
from pathlib import Path

import pytest
import yaml
from deployed_lab import DeployedLab
from harness import SCYLLA, STORE, changed, end, wait_for

pytestmark = pytest.mark.timeout(1500)

HOSTS = ("storage-1", "storage-2", "storage-3", "kairosdb-1", "kairosdb-2", "loader-1")


@pytest.mark.lab
def test_a_deploy_is_interrupted_again_and_again_and_comes_to_its_end(empty_lab):
    for task in ("Run-time bundle", "Certificates", "Start"):
        interrupt_deploy(empty_lab, task)
    empty_lab.deploy()


def interrupt_deploy(lab: DeployedLab, task: str) -> None:
    """Ctrl-C in the first task of that name."""
    output = lab.scratch / "deploy.txt"
    with output.open("w") as file:
        process = lab.start("deploy", *lab.deploying(), stdout=file, stderr=file)
    try:
        wait_for(
            f"task {task}",
            lambda: f"{task}] **" in output.read_text() or process.poll() is not None,
            600,
            lambda: output.read_text()[-3000:],
        )
        assert process.poll() is None, output.read_text()[-3000:]
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 2, output.read_text()[-3000:]
    finally:
        end(process)
    assert not (lab.state / "deployed").exists()


def test_a_second_deploy_changes_nothing(lab):
    before = {path: path.read_bytes() for path in (lab.scratch / "secrets").rglob("*.*")}
    assert before
    assert set(changed(lab.deploy()).values()) == {0}
    assert {path: path.read_bytes() for path in before} == before


def test_a_load_over_tls_loses_nothing_while_a_storage_host_dies(lab):
    with lab.loading() as load:
        lab.well("lab", "kill", "storage-2")
        lab.well("lab", "start", "storage-2")
        load.lost_nothing()
    nodes = json.loads((load.folder / "load" / "spec.json").read_text())["nodes"]
    assert all(url.startswith("https:") for url in nodes)
    # The hosts share this machine: what the others of them use is not somebody else's.
    machines = json.loads((load.folder / "measurements.json").read_text())["conditions"]["machines"]
    assert {machine["foreign_cores"] for machine in machines} == {None}
    lab.wait_until_well()


@pytest.mark.faults
@pytest.mark.skipif(bool(SCYLLA), reason="of ScyllaDB the lab has no such levers")
def test_faults_of_servers_and_disks_happen_are_undone_and_lose_nothing(lab):
    given = [
        {"at": "12s", "delay": "loader-1", "by": "0.05s", "for": "5s"},
        {"at": "12s", "slow-disk": "storage-1", "for": "5s"},
        {"at": "25s", "clock": "kairosdb-1", "by": "-5s", "for": "5s"},
        {"at": "25s", "expire-certificate": "storage-2", "for": "5s"},
        {"at": "150s", "fill-disk": "kairosdb-2", "for": "5s"},
    ]
    what = lab.write("faulty", load={"duration_s": 180}, faults=given)
    lab.survives_faults(what, "lab")
    for host in ("kairosdb-1", "storage-2"):
        assert lab.on(host, "sudo", "find", "/run/systemd/system", "-name", "lab-*.conf") == ""
    assert lab.on("kairosdb-2", "sudo", "find", "/var/lib/kairoscope", "-name", "lab-*") == ""
    lab.wait_until_well()
    assert ", 0 FAIL" in lab.well("verify", "--target", "lab")


@pytest.mark.lab
def test_hosts_that_cannot_take_it_are_refused_before_anything_is_changed(lab):
    def refused(experiment: Path) -> str:
        done = lab.cli("deploy", *lab.deploying(experiment))
        assert done.returncode == 2, done.stdout[-3000:]
        # The recap of Ansible, where it was reached.
        assert not re.search(r"changed=[1-9]", done.stdout), done.stdout[-3000:]
        return " ".join((done.stdout + done.stderr).split())

    content = yaml.safe_load(lab.experiment.read_text())
    other = lab.scratch / "other.yml"

    memory = "memory_mb" if SCYLLA else "heap_mb"
    other.write_text(yaml.safe_dump(content | {"storage": {**STORE, memory: 60_000}}))
    # All hosts are on one machine here, which cannot have them whatever each of them says.
    assert "This machine cannot take the deployment: too little memory" in refused(other)
    small = "sed 's/^MemTotal:.*/MemTotal: 500000 kB/' /proc/meminfo > /root/meminfo"
    lab.on("storage-1", "sudo", "sh", "-ec", f"{small}; mount --bind /root/meminfo /proc/meminfo")
    said = refused(lab.experiment)
    lab.on("storage-1", "sudo", "umount", "/proc/meminfo")
    assert "storage-1 (10.77.0.11) has 488 MiB" in said
    assert f"lower storage.{memory}" in said
    month = {"sensors": 3000, "rate": 10, "duration_s": 30 * 24 * 3600}
    other.write_text(yaml.safe_dump(content | {"load": content["load"] | month}))
    said = refused(other)
    assert "MiB are needed" in said
    assert "lower SENSORS= or DURATION=" in said

    # A release that is too old says so in the first on Debian, in the second on Ubuntu.
    releases = "/etc/debian_version /usr/lib/os-release"
    pretend = (
        f"tar -cf /root/was {releases}; echo 11.9 > /etc/debian_version; "
        'sed -i \'s/^VERSION_ID="2.*/VERSION_ID="20.04"/\' /usr/lib/os-release'
    )
    lab.on("kairosdb-2", "sudo", "sh", "-ec", pretend)
    said = refused(lab.experiment)
    assert re.search(r"kairosdb-2 \(10\.77\.0\.102\) runs (Debian 11|Ubuntu 20\.04)", said), said
    lab.on("kairosdb-2", "sudo", "tar", "-xf", "/root/was", "-C", "/")

    lab.well("lab", "cut", "loader-1")
    assert "loader-1" in refused(lab.experiment)
    lab.well("lab", "heal")


def test_verify_finds_nothing_off(lab):
    assert ", 0 FAIL" in lab.well("verify", "--target", "lab")


@pytest.mark.lab
def test_verify_finds_what_is_off(lab):
    lab.on("storage-2", "sudo", "nft", "delete", "table", "inet", "kairoscope")
    lab.on("kairosdb-1", "sudo", "systemctl", "disable", "kairosdb")
    done = lab.cli("verify", "--target", "lab")
    assert done.returncode == 1, done.stdout
    failed = [line for line in done.stdout.splitlines() if "FAIL" in line]
    assert any("firewall" in line and "storage-2" in line for line in failed)
    assert any("starts at boot" in line and "kairosdb-1" in line for line in failed)
    assert {host for host, count in changed(lab.deploy()).items() if count} == {
        "storage-2",
        "kairosdb-1",
    }
    assert ", 0 FAIL" in lab.well("verify", "--target", "lab")


def test_no_secret_is_seen_on_the_hosts(lab):
    (path,) = (lab.scratch / "secrets").rglob("secrets.yml")
    content = yaml.safe_load(path.read_text())
    passwords = [content[key]["password"] for key in ("cql_admin", "cql_kairosdb", "rest")]
    assert all(len(password) > 20 for password in passwords)
    for host in HOSTS:
        seen = lab.on(
            host,
            *("sudo", "sh", "-c"),
            "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; "
            "journalctl --no-pager; cat /var/lib/kairoscope/*/log/*.log 2>/dev/null; true",
        )
        assert host in seen
        assert not [password for password in passwords if password in seen], host


@pytest.mark.lab
def test_what_root_runs_or_writes_into_is_nobodys_to_replace(lab):
    """A service that was broken into would become root by a link or a program of its own."""
    for host in ("storage-1", "kairosdb-1"):
        lines = lab.on(
            *(host, "sudo", "find", "/var/lib/kairoscope", "-maxdepth", "2"),
            *("!", "-user", "root", "-printf", "%f\\n"),
        )
        assert set(lines.split()) <= {"data", "log", "queue", "tmp"}, lines
    lab.on("storage-1", "sudo", "/var/lib/kairoscope/storage-1/bin/nodetool", "info")
    if not SCYLLA:
        # Cassandra's keeps a history, and root has just called it.
        tmp = "/var/lib/kairoscope/storage-1/tmp"
        assert lab.on("storage-1", "sudo", "find", tmp, "-user", "root") == ""

    tmp = "/var/lib/kairoscope/kairosdb-1/tmp"
    lab.on(
        "kairosdb-1", "sudo", "sh", "-ec", f"mv {tmp} {tmp}.was; mkdir /srv/x; ln -s /srv/x {tmp}"
    )
    done = lab.cli("deploy", lab.experiment, "--target", "lab")
    assert done.returncode == 2, done.stdout[-3000:]
    assert lab.on("kairosdb-1", "stat", "--format", "%U", "/srv/x") == "root\n"
    lab.on("kairosdb-1", "sudo", "sh", "-ec", f"rm {tmp}; mv {tmp}.was {tmp}; rmdir /srv/x")
    lab.deploy()


@pytest.mark.lab
def test_faults_of_an_experiment_happen_to_hosts_and_lose_nothing(lab):
    at = ("15s", "40s", "60s", "75s")
    what = lab.write(
        "faults",
        load={"duration_s": 150, "warmup_s": 5},
        faults=[
            {"at": at[0], "kill": "storage-2", "for": "5s"},
            {"at": at[1], "partition": "storage-1", "for": "8s"},
            {"at": at[2], "loss": "kairosdb-1", "for": "8s", "percent": 20.0},
            {"at": at[3], "freeze": "kairosdb-2", "for": "8s"},
        ],
    )
    lab.survives_faults(what, "lab")
    assert "no packets" not in lab.well("lab", "hosts")
    lab.wait_until_well()


@pytest.mark.lab
def test_every_host_comes_back_after_a_reboot(lab):
    for host in HOSTS:
        lab.well("lab", "reboot", host)
    lab.wait_until_well()
    assert set(changed(lab.deploy()).values()) == {0}
