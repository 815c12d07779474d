"""The firewall role on real hosts: who gets in, who does not, and that Ansible always does."""

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import without_nftables
import yaml

from kairoscope import paths
from kairoscope.deploy.verify import answers, probe
from kairoscope.hosts.inventory import Host
from kairoscope.targets.lab import LabHost

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

HOSTS = {
    "storage-1": "storage",
    "storage-2": "storage",
    "kairosdb-1": "kairosdb",
    "loader-1": "loader",
    "stranger": "",
}
ADDRESSES = {name: f"10.77.0.{i}" for i, name in enumerate(HOSTS, 11)}
TABLE = answers.Firewall.read()
# Those of the table, and two that nobody should know of.
PORTS = [*TABLE.ports.values(), 7199, 8778]
UNDO_S = 20

PLAYBOOK = """
- hosts: all
  become: true
  tasks:
    - ansible.builtin.include_role:
        name: firewall
        tasks_from: "{{ tasks_from | default('main') }}"
"""

# Servers of all ports on all addresses, again after a reboot.
SERVERS = """
import selectors, socket
ready = selectors.DefaultSelector()
for port in PORTS:
    ready.register(socket.create_server(("", port)), selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        key.fileobj.accept()[0].close()
"""
UNIT = """[Service]
ExecStart=/usr/bin/python3 /usr/local/lib/servers.py
[Install]
WantedBy=multi-user.target
"""


class Site:
    """The hosts, their inventory, and Ansible."""

    def __init__(self, lab, folder: Path):
        self.lab = lab
        self.folder = folder
        self.groups = {name: group for name, group in HOSTS.items() if group}
        (folder / "play.yml").write_text(PLAYBOOK)

    def vars(self, **more):
        return {
            "target": "test",
            "managed": True,
            "ansible_python_interpreter": "/usr/bin/python3",
            "secured": True,
            "storage_engine": "scylla",
            "native_transport_port": 9042,
            "plan": {"experiment": {"load": {"protocol": "rest"}}},
            **more,
        }

    def host(self, name: str) -> Host:
        return Host(name, self.groups.get(name, ""), {**self.vars(), "address": ADDRESSES[name]})

    def ansible(self, *limit: str, **more) -> subprocess.CompletedProcess[str]:
        groups = {
            group: {
                "hosts": {
                    name: {**self.lab.inventory_vars(name), "address": ADDRESSES[name]}
                    for name in self.groups
                    if self.groups[name] == group
                }
            }
            for group in set(self.groups.values())
        }
        inventory = {"all": {"vars": self.vars(**more), "children": groups}}
        (self.folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
        command = [str(Path(sys.executable).with_name("ansible-playbook"))]
        command += ["-i", str(self.folder / "inventory.yml"), str(self.folder / "play.yml")]
        command += ["-l", ",".join(limit)] if limit else []
        return subprocess.run(
            self.lab.network.inside(
                "env",
                f"ANSIBLE_CONFIG={paths.ANSIBLE}/ansible.cfg",
                f"ANSIBLE_ROLES_PATH={paths.ANSIBLE}/roles",
                *command,
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def apply(self, *limit: str, **more) -> list[str]:
        """Apply the role; the names of the hosts that were changed."""
        done = self.ansible(*limit, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(re.findall(r"^(\S+)\s+: .*changed=[1-9]", done.stdout, re.M))

    def run(self, name: str, *command: str, stdin: str = "", check: bool = True) -> str:
        done = subprocess.run(
            self.lab.ssh(name, command), input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def reached(self, source: str, *targets: str) -> list[set[int]]:
        """The ports of each target that a source reaches."""
        endpoints = [[ADDRESSES[target], port] for target in targets for port in PORTS]
        script = Path(probe.__file__).read_text()
        said = self.run(
            source, "python3", "-", "connect_all", json.dumps([endpoints]), stdin=script
        )
        hows = json.loads(said)
        # What is not let in is dropped, not refused: nothing is learned of what listens there.
        assert set(hows) <= {probe.OPEN, probe.SILENT}
        each = [hows[i : i + len(PORTS)] for i in range(0, len(hows), len(PORTS))]
        return [{p for p, how in zip(PORTS, row, strict=True) if how == probe.OPEN} for row in each]

    def lets_in(self, target: str, source: str) -> set[int]:
        return self.reached(source, target)[0]

    def serve(self, name: str) -> None:
        script = f"PORTS = {PORTS}\n{SERVERS}"
        self.run(name, "sudo", "tee", "/usr/local/lib/servers.py", stdin=script)
        self.run(name, "sudo", "tee", "/etc/systemd/system/servers.service", stdin=UNIT)
        self.run(name, "sudo", "systemctl", "enable", "--now", "--quiet", "servers.service")


@pytest.fixture(scope="module")
def site(new_lab, tmp_path_factory):
    """Hosts with the role applied once."""
    lab = new_lab()
    lab.up([LabHost(name, address) for name, address in ADDRESSES.items()], print)
    site = Site(lab, tmp_path_factory.mktemp("site"))
    for name in HOSTS:
        site.serve(name)
    # The host's own filter, as many have one; it is in no file.
    site.run("storage-2", "sudo", "nft", "-f", "-", stdin=OWN_RULES)
    assert site.lets_in("storage-1", "stranger") == set(PORTS)
    assert site.apply() == sorted(site.groups)
    return site


OWN_RULES = """
table inet own {
  chain input { type filter hook input priority filter; tcp dport 9042 drop; }
}
"""


def test_each_host_lets_in_what_the_table_says(site):
    targets = list(site.groups)
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda source: site.reached(source, *targets), HOSTS))
    for source, row in zip(HOSTS, found, strict=True):
        for target, ports in zip(targets, row, strict=True):
            wanted = TABLE.lets_in(site.host(source), site.host(target), telnet=False)
            if source == target:
                wanted = set(PORTS)
            if target == "storage-2":
                wanted -= {9042}  # by its own rules
            assert ports == wanted & set(PORTS), (source, target)


def test_the_table_is_not_empty_where_it_matters(site):
    """What the test above compares with."""
    assert site.lets_in("storage-1", "kairosdb-1") == {9042, 9142, 19042, 19142}
    assert site.reached("storage-2", "storage-1", "stranger") == [{7000, 7001}, set(PORTS)]
    assert site.reached("loader-1", "kairosdb-1", "storage-1") == [{8080}, set()]
    assert site.reached("stranger", "kairosdb-1", "storage-1") == [set(), set()]


def test_rules_of_the_host_stay_and_its_restart_of_nftables_takes_none_of_ours(site):
    assert "own" in site.run("storage-2", "sudo", "nft", "list", "tables")
    # Debian's unit flushes all tables, then loads the host's own file.
    site.run("storage-1", "sudo", "systemctl", "start", "nftables.service")
    assert site.apply("storage-1") in ([], ["storage-1"])
    site.run("storage-1", "sudo", "systemctl", "restart", "nftables.service")
    assert site.lets_in("storage-1", "loader-1") == set()
    site.run("storage-1", "sudo", "systemctl", "reload", "nftables.service")
    assert site.lets_in("storage-1", "loader-1") == set()
    assert site.apply("storage-1") == []


def test_rules_that_were_taken_away_are_loaded_again(site):
    site.run("kairosdb-1", "sudo", "nft", "delete", "table", "inet", "kairoscope")
    assert 9042 in site.lets_in("kairosdb-1", "stranger")
    assert site.apply("kairosdb-1") == ["kairosdb-1"]
    assert site.lets_in("kairosdb-1", "stranger") == set()


def test_it_is_there_after_a_reboot(site):
    site.lab.reboot("storage-1")
    deadline = time.monotonic() + 60
    while site.lets_in("storage-1", "kairosdb-1") == set():
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert site.lets_in("storage-1", "kairosdb-1") == {9042, 9142, 19042, 19142}
    assert site.lets_in("storage-1", "stranger") == set()
    assert site.apply("storage-1") == []


def test_a_host_that_is_added_is_let_in_by_the_others(site):
    site.groups["stranger"] = "loader"
    try:
        assert site.apply() == ["kairosdb-1", "stranger"]
        assert site.lets_in("kairosdb-1", "stranger") == {8080}
        assert site.lets_in("stranger", "storage-1") == set()
        assert site.apply("stranger", tasks_from="remove") == ["stranger"]
        assert site.apply("stranger", tasks_from="remove") == []
        assert site.lets_in("stranger", "storage-1") == set(PORTS)
    finally:
        del site.groups["stranger"]
    assert site.apply("kairosdb-1") == ["kairosdb-1"]
    assert site.lets_in("kairosdb-1", "stranger") == set()


def test_rules_that_shut_ansible_out_take_themselves_away(site):
    done = site.ansible(
        "loader-1", firewall_admin_cidrs=["192.0.2.0/24"], firewall_undo_seconds=UNDO_S
    )
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert "loader-1: its new firewall lets Ansible in no more" in said
    assert "firewall_admin_cidrs (192.0.2.0/24) must cover" in said
    deadline = time.monotonic() + UNDO_S + 20
    while not site.run("loader-1", "echo", "yes", check=False):
        assert time.monotonic() < deadline
    unit = ("systemctl", "is-enabled", "kairoscope-firewall.service")
    assert site.run("loader-1", *unit, check=False).strip() == "disabled"
    # The next deploy heals it, here with the right network.
    assert site.apply("loader-1", firewall_admin_cidrs=["10.77.0.1/32"]) == ["loader-1"]
    assert site.run("loader-1", "echo", "in").strip() == "in"
    assert site.apply("loader-1") == ["loader-1"]


def test_what_is_not_an_address_is_refused_before_anything_is_changed(site):
    wrong = {"to": "kairosdb", "cidrs": ["balancer"], "ports": ["kairosdb_http"], "why": "x"}
    done = site.ansible("kairosdb-1", firewall_extra=[wrong])
    assert done.returncode != 0
    assert "firewall of kairosdb-1 cannot be made" in " ".join(done.stdout.split())
    assert "changed=0" in done.stdout


def test_a_host_without_nftables_is_given_it(site):
    site.run("loader-1", "sudo", "systemctl", "stop", "kairoscope-firewall.service")
    site.run("loader-1", "sudo", "sh", stdin=without_nftables.PURGE)
    done = site.ansible("loader-1")
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert "its package nftables cannot be installed" in said and "nat = true" in said
    site.run("loader-1", "sudo", "tee", without_nftables.LIST, stdin=without_nftables.SOURCE)
    assert site.apply("loader-1") == ["loader-1"]
    assert site.lets_in("loader-1", "stranger") == set()
    assert site.apply("loader-1") == []


def test_verify_sees_a_firewall_that_is_not_as_deployed(site):
    """The checks themselves, from a process in the hosts' network."""

    def checked() -> dict[str, list[str]]:
        script = (
            "import json, sys; from pathlib import Path; from types import SimpleNamespace as N\n"
            "from kairoscope.hosts import inventory; from kairoscope.deploy.verify import checks\n"
            "from kairoscope.deploy.verify.context import Context\n"
            "hosts = inventory.read_own(Path(sys.argv[1]))\n"
            "plan = N(experiment=N(load=N(protocol='rest'), limits=N(clock_offset_ms=20)))\n"
            "names = {host.name for host in hosts.all}\n"
            "context = Context('test', hosts, plan, names)\n"
            "context.client = N(access=1)\n"
            "for check in checks.CHECKS:\n"
            "    if check.name in ('clock', 'disk space', 'firewall', 'ports'):\n"
            "        for one in check.findings(context):\n"
            "            print(json.dumps([one.check, one.where, one.found, one.outcome.value]))\n"
        )
        done = subprocess.run(
            site.lab.network.inside(
                sys.executable, "-c", script, str(site.folder / "inventory.yml")
            ),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            check, where, said, state = json.loads(line)
            found.setdefault(check, [])
            if state != "ok":
                found[check].append(f"{where}: {said}")
        return found

    assert site.apply() == []
    well = checked()
    assert well["clock"] == well["disk space"] == well["firewall"] == []
    # Its own rules keep KairosDB from its CQL port, though the table lets it in.
    assert well["ports"] == ["storage-2 from kairosdb-1: 9042 is not reached"]
    site.run("kairosdb-1", "sudo", "nft", "delete", "table", "inet", "kairoscope")
    off = checked()
    assert off["firewall"] == ["kairosdb-1: not as deployed, or none"]
    assert "kairosdb-1 from storage-1: 4242 is open, 7000 is open" in " ".join(off["ports"])
    assert site.apply("kairosdb-1") == ["kairosdb-1"]
