"""Target `aws`, whole: from an experiment to hosts that are verified, loaded and given back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from aws_cloud import initialised
from aws_hosts import HOSTS, PATCH, STORAGE, VERSION, AwsHosts, lab_hosts
from deployed_lab import as_root
from harness import changed, have_bundles, wait_for
from scylla_stand_in import OF_IMAGE, PACKAGES, package_version

from kairoscope.hosts import inventory
from kairoscope.targets.lab import Lab

pytestmark = [pytest.mark.aws, pytest.mark.timeout(2400)]

SERVERS = ("storage-1", "storage-2", "storage-3", "kairosdb-1", "kairosdb-2")
# Not of a host with a volume: a lab's host that boots has no devices but its own.
FAULTS = [
    {"at": "15s", "kill": "storage-2", "for": "8s"},
    {"at": "15s", "freeze": "kairosdb-1", "for": "8s"},
    {"at": "50s", "partition": "storage-3", "for": "8s"},
    {"at": "75s", "restart": "storage-1"},
]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsHosts]:
    """Hosts that are as their images are, and nothing deployed to them."""
    folder = tmp_path_factory.mktemp("aws-hosts")
    lab = Lab(Path(folder, "hosts", "lab"))
    there = None
    try:
        have_bundles("--with-java", "--with-monitoring")
        with initialised(folder):
            lab.up(lab_hosts(), print)
            there = AwsHosts(lab, folder)
            there.well("provision", *there.arguments())
            there.boot()
            yield there
    finally:
        if there:
            there.close()
        lab.down()


def test_from_an_experiment_to_hosts_that_are_verified(cloud: AwsHosts) -> None:
    said = cloud.well("deploy", *cloud.arguments(), timeout_s=1800)
    # AWS showed it before, on the consoles.
    assert "unchecked" not in said
    assert set(changed(cloud.well("deploy", *cloud.arguments())).values()) == {0}
    wait_for("all figures that are gathered", lambda: _is_verified(cloud), 120)


def _is_verified(cloud: AwsHosts) -> bool:
    """Prometheus asks everybody every 15 s, and a restart is so long unknown to it."""
    done = cloud.cli("verify", "--target", "aws")
    failed = [line for line in done.stdout.splitlines() if " FAIL " in line]
    assert all("monitoring" in line for line in failed), failed
    return ", 0 FAIL, 0 checks not made" in done.stdout


def test_the_queue_is_on_a_volume_of_its_own(cloud: AwsHosts) -> None:
    for host in inventory.read(cloud.home / "aws" / "inventory.yml").kairosdb:
        look = "findmnt --noheadings --output SOURCE --target /var/lib/kairoscope/*/queue"
        assert as_root(cloud.lab, host.name, look).split() == ["/dev/nvme1n1"]


def test_packages_are_upgraded_and_scylladb_stays(cloud: AwsHosts) -> None:
    """Hosts that ask for it reboot: of each kind one, but none with a volume (as above)."""
    asked = ("storage-3", "loader-1", "monitoring-1")
    booted = {name: _boot(cloud, name) for name in HOSTS}
    for name in asked:
        as_root(cloud.lab, name, "touch /run/reboot-required")
    for name in STORAGE:
        seen = as_root(cloud.lab, name, "apt-get -qq update && apt-cache policy scylla")
        assert package_version(PATCH) in seen
    cloud.well("operate", "upgrade-system", "--target", "aws", timeout_s=1800)
    look = "dpkg-query --show --showformat '${Package} ${db:Status-Want} ${Version}\\n' 'scylla*'"
    stays = sorted(f"{name} hold {package_version(VERSION)}" for name in PACKAGES | OF_IMAGE)
    for name in STORAGE:
        assert sorted(as_root(cloud.lab, name, look).splitlines()) == stays
    assert {name for name in HOSTS if _boot(cloud, name) != booted[name]} == set(asked)
    wait_for("all figures that are gathered", lambda: _is_verified(cloud), 120)


def _boot(cloud: AwsHosts, name: str) -> str:
    return as_root(cloud.lab, name, "cat /proc/sys/kernel/random/boot_id")


def test_faults_happen_to_instances_are_undone_and_lose_nothing(cloud: AwsHosts) -> None:
    what = cloud.write("faulty", load={"duration_s": 150}, faults=FAULTS)
    cloud.survives_faults(what, "aws")


def test_a_dead_storage_node_is_replaced_by_a_new_instance(cloud: AwsHosts) -> None:
    """Step 12 to 14 of docs/first-hour.md."""
    cloud.end("storage-2")
    _wait_until_down(cloud)
    # Nothing is marked, and nothing begun, while it is not known whose account it is.
    assert "account.tfvars: missing" in cloud.refused(*_replacing("storage-2"))
    _is_replaced(cloud, "storage-2")


def test_one_with_blank_disks_is_replaced_too(cloud: AwsHosts) -> None:
    """An instance that was stopped and started again has new local disks, and its old address. The
    first node is the one that made the cluster, and must not make another."""
    as_root(cloud.lab, "storage-1", "systemctl stop scylla-server; rm -r /var/lib/scylla/data")
    _wait_until_down(cloud)
    _is_replaced(cloud, "storage-1")


def _wait_until_down(cloud: AwsHosts) -> None:
    def down() -> bool:
        return "DN " in as_root(cloud.lab, "storage-3", "nodetool status")

    wait_for("a node that is seen to be down", down, 60)


def _replacing(name: str) -> tuple[str, ...]:
    return ("operate", "replace", "--limit", name, "--target", "aws")


def _is_replaced(cloud: AwsHosts, name: str) -> None:
    before = inventory.read(cloud.home / "aws" / "inventory.yml").host(name)
    with cloud.booting(name):
        cloud.well(*_replacing(name), "--account", cloud.account, timeout_s=1800)
    after = inventory.read(cloud.home / "aws" / "inventory.yml").host(name)
    assert before.vars["instance_id"] != after.vars["instance_id"]
    wait_for("all figures that are gathered", lambda: _is_verified(cloud), 120)


def test_a_kairosdb_node_comes_and_goes(cloud: AwsHosts) -> None:
    three = cloud.write("three", cluster={"kairosdb_nodes": 3})
    at = ("--target", "aws", "--account", cloud.account)
    with cloud.booting("kairosdb-3"):
        cloud.well("operate", "add-kairosdb", three, *at, timeout_s=1800)
    wait_for("all figures that are gathered", lambda: _is_verified(cloud), 120)
    cloud.well(
        *("operate", "remove-kairosdb", cloud.experiment, "--limit", "kairosdb-3", *at),
        timeout_s=1800,
    )
    assert len(cloud.left()) == len(HOSTS)
    cloud.lab.remove("kairosdb-3")
    wait_for("all figures that are gathered", lambda: _is_verified(cloud), 120)


def test_nothing_is_left_of_it(cloud: AwsHosts) -> None:
    assert len(cloud.left()) == len(HOSTS)
    cloud.well("destroy", "--target", "aws", "--deployment", "kairoscope")
    assert not (cloud.home / "aws" / "inventory.yml").exists()
    assert cloud.left() == []
