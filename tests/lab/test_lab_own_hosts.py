"""Target `hosts`, whole: machines that somebody has, with an inventory of theirs, and a way in."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployed_lab import as_root
from harness import SERVER, SMALL, STORE, HostsCli, but, changed, have_bundles, wait_for

from kairoscope.hosts import inventory
from kairoscope.targets.lab import Lab, LabHost

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1500)]

ADDRESSES = {
    **{f"storage-{i}": f"10.77.0.{10 + i}" for i in (1, 2, 3)},
    **{f"kairosdb-{i}": f"10.77.0.{100 + i}" for i in (1, 2)},
    "loader-1": "10.77.0.201",
}
# A reboot of a lab's host takes seconds, and its server half a minute on two cores.
FAULTS: list[dict[str, str]] = [
    {"at": "15s", "kill": "storage-2", "for": "8s"},
    {"at": "15s", "freeze": "kairosdb-1", "for": "8s"},
    {"at": "60s", "partition": "storage-3", "for": "8s"},
    {"at": "60s", "freeze": "loader-1", "for": "5s"},
    {"at": "80s", "restart": "kairosdb-2"},
    {"at": "95s", "kill": "kairosdb-1"},
]
EXPERIMENT = but(
    SMALL,
    name="own-hosts-test",
    cluster={"kairosdb_nodes": 2, "loader_hosts": 1},
    storage=STORE or {"engine": "cassandra"},
)


class Site(HostsCli):
    """A KAIROSCOPE_HOME, hosts in a network of their own, and an inventory of them."""

    base = EXPERIMENT

    def __init__(self, lab: Lab, scratch: Path) -> None:
        self.lab, self.scratch = lab, scratch
        self.home = scratch / "home"
        self.through = lab.network.inside()
        self.inventory = scratch / "my-hosts.yml"
        groups: dict[str, Any] = {}
        for name, address in ADDRESSES.items():
            # A host's address is the one that the others call it by; it is reached by a name.
            way = lab.inventory_vars(name) | {"address": address}
            groups.setdefault(name.partition("-")[0], {"hosts": {}})["hosts"][name] = way
        # The hosts share this machine's clock.
        of_all = {"common_time_sync": False}
        self.inventory.write_text(yaml.safe_dump({"all": {"vars": of_all, "children": groups}}))

    def deploy(self) -> str:
        """With the inventory; what it printed."""
        given = (self.write("plain"), "--target", "hosts", "--inventory", self.inventory, *SERVER)
        return self.well("deploy", *given)

    def is_well(self) -> bool:
        return self.cli("status", "--target", "hosts").returncode == 0


@pytest.fixture(scope="module")
def site(new_lab: Callable[[], Lab], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Hosts that nothing was deployed to."""
    have_bundles("--with-java")
    lab = new_lab()
    lab.up([LabHost(name, address) for name, address in ADDRESSES.items()], print)
    yield Site(lab, tmp_path_factory.mktemp("own-hosts"))


def test_from_an_inventory_to_hosts_that_are_verified(site: Site) -> None:
    site.deploy()
    assert set(changed(site.deploy()).values()) == {0}
    assert ", 0 FAIL" in site.well("verify", "--target", "hosts")


def test_faults_happen_to_them_are_undone_and_lose_nothing(site: Site) -> None:
    load = {"duration_s": 150, "warmup_s": 5}
    what = site.write("faulty", load=load, faults=FAULTS)
    site.survives_faults(what, "hosts")
    wait_for("hosts that are well", site.is_well, 300)
    assert not any(left_on(site).values()), left_on(site)
    assert ", 0 FAIL" in site.well("verify", "--target", "hosts")
    assert set(changed(site.deploy()).values()) == {0}


def test_hosts_undo_it_by_themselves_if_nobody_comes(site: Site) -> None:
    """As when the machine that leads the load has ended meanwhile."""
    home = inventory.read(site.home / "hosts" / "inventory.yml").host("loader-1").home
    as_root(site.lab, "loader-1", _AS_A_LOAD, f"{home}/load")
    begin = """
import sys
from kairoscope.hosts import host_trouble, inventory
host_trouble._FORGOTTEN_S = 5
everyone = inventory.load("hosts").all
for action, name in (("kill", "storage-1"), ("freeze", "kairosdb-1"), ("partition", "storage-2"),
                     ("freeze", "loader-1")):
    hosts = [host for host in everyone if host.name == name]
    host_trouble.begin(action, hosts, everyone, 5)
"""
    subprocess.run([*site.through, sys.executable, "-c", begin], env=site.environment, check=True)
    assert _stands_still(site)
    assert not site.is_well()
    wait_for("hosts that are well again", site.is_well, 300)
    wait_for("a load that goes on", lambda: not _stands_still(site), 60)
    wait_for("nothing being left", lambda: not any(left_on(site).values()), 60)


# Found as one is, by its arguments.
_AS_A_LOAD = """
setsid bash -c 'exec -a "python3 -m loaders.host $0" sleep 900' "$1" >/dev/null 2>&1 &
echo $! > /root/like-a-load
"""


def _stands_still(site: Site) -> bool:
    look = 'ps -o stat= "$(cat /root/like-a-load)"'
    return as_root(site.lab, "loader-1", look).startswith("T")


def left_on(site: Site) -> dict[str, str]:
    """What a fault may leave on each host."""
    look = (
        "find /run -xdev -name '*kairoscope-fault*' "
        "-o -name '*kairoscope-undo*' 2>/dev/null || true; "
        "nft list tables | grep kairoscope_fault || true"
    )
    return {name: as_root(site.lab, name, look) for name in ADDRESSES}
