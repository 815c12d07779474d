"""The scylla role over SSH, against the stand-in for ScyllaDB's packages (see its README.md)."""

import contextlib
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import scylla_stand_in
import yaml
from scylla_stand_in import OF_IMAGE, PACKAGES

from kairoscope import paths
from kairoscope.hosts import secret_files
from kairoscope.targets.lab import Lab, LabHost

pytestmark = [pytest.mark.scylla, pytest.mark.timeout(900)]

NEWEST, VERSION, OLDER = "2026.2.5", "2026.1.11", "2026.1.10"
LATER = "2026.2.6"  # To be had all the time, and never asked for.
GATEWAY = "10.77.0.1"
NODES = {f"storage-{i}": f"10.77.0.{10 + i}" for i in (1, 2, 3)}
DISKS = ["/srv/disk-a", "/srv/disk-b"]
LIST = "/etc/apt/sources.list.d/scylla.list"
SERVICE = "scylla-server.service"
CALLS = "/var/log/scylla-stand-in/calls"

PLAN = {
    "storage": {
        "datacenter": "dc1",
        "batch_size_warn_kib": 512,
        "batch_size_fail_kib": 1024,
        "commitlog_sync": "periodic",
        "commitlog_sync_period_ms": 1000,
    },
    "totals": {"disk_bytes": 3 * 2**20},
}

# As in deploy.yml, without what is not storage's.
PLAYBOOK = """
- hosts: storage
  become: true
  any_errors_fatal: true
  tasks:
    - ansible.builtin.user: {name: "{{ run_as }}", system: true, create_home: false}
    - ansible.builtin.include_role: {name: firewall}
    - ansible.builtin.include_role: {name: pki}
    - ansible.builtin.include_role: {name: scylla, tasks_from: prepare}

- hosts: storage
  become: true
  any_errors_fatal: true
  serial: 1
  tasks:
    - ansible.builtin.include_role: {name: scylla}

- hosts: storage
  become: true
  any_errors_fatal: true
  serial: 1
  tasks:
    - ansible.builtin.include_role: {name: scylla, tasks_from: restart}
"""

# Alone, as a verb calls it: nothing was found out before.
RESTART = """
- hosts: storage
  become: true
  any_errors_fatal: true
  serial: 1
  tasks:
    - ansible.builtin.include_role: {name: scylla, tasks_from: restart}
"""

PREPARE = """
- hosts: storage-3
  become: true
  tasks:
    - ansible.builtin.include_role: {name: scylla, tasks_from: prepare}
"""

# Without what it reads, its snapshots, and the deploy at its end.
UPGRADE = [
    play
    for play in yaml.safe_load((paths.ANSIBLE / "playbooks" / "upgrade-scylla.yml").read_text())
    if "hosts" in play
]


class Site:
    """The hosts, their inventory, and Ansible. `port` is the package repository's."""

    version = VERSION

    def __init__(self, lab: Lab, folder: Path, port: int):
        self.lab, self.folder, self.port = lab, folder, port
        (folder / "deploy.yml").write_text(PLAYBOOK)
        (folder / "restart.yml").write_text(RESTART)
        (folder / "prepare.yml").write_text(PREPARE)
        (folder / "upgrade-nodes.yml").write_text(yaml.safe_dump(UPGRADE))
        (folder / "plan.json").write_text(json.dumps(PLAN))

    def play(self, name: str = "deploy", *words: str, **more) -> subprocess.CompletedProcess[str]:
        """Run a playbook: one of the above, or one of the project's."""
        playbook = self.folder / f"{name}.yml"
        if not playbook.exists():
            playbook = paths.ANSIBLE / "playbooks" / f"{name}.yml"
        hosts = {
            name: {
                **self.lab.inventory_vars(name),
                "address": address,
                "home": f"/var/lib/kairoscope/{name}",
                "pki_host_dir": f"/var/lib/kairoscope/{name}/pki",
                "rack": f"rack{name[-1]}",
                "prometheus_address": address,
            }
            for name, address in NODES.items()
        }
        of_all = {
            "managed": True,
            "secured": True,
            "secrets_dir": str(secret_files.folder("lab")),
            "run_as": "scylla",
            "cluster_name": "a lab's cluster",
            "storage_engine": "scylla",
            "service_manager": "systemd",
            "api_address": "127.0.0.1",
            "api_port": 10000,
            "prometheus_port": 9180,
            "native_transport_port": 9042,
            "storage_port": 7000,
            "firewall_telnet": False,
            "nodetool": "nodetool",
            "keyspaces_dir": "/var/lib/scylla/data",
            "kairoscope": str(Path(sys.executable).with_name("kairoscope")),
            "plan": PLAN,
            "plan_file": str(self.folder / "plan.json"),
            "unit": "scylla-server",
            "data_devices": DISKS,
            "scylla_version": self.version,
            "scylla_repository": f"http://{GATEWAY}:{self.port}",
            "scylla_repository_key": str(self.folder / "packages" / "key.gpg"),
            "scylla_repository_seconds": 5,
            "scylla_start_seconds": 30,
            **more,
        }
        (self.folder / "inventory.yml").write_text(
            json.dumps({"all": {"vars": of_all, "children": {"storage": {"hosts": hosts}}}})
        )
        return subprocess.run(
            self.lab.network.inside(
                *("env", f"ANSIBLE_CONFIG={paths.ANSIBLE}/ansible.cfg"),
                f"ANSIBLE_ROLES_PATH={paths.ANSIBLE}/roles",
                str(Path(sys.executable).with_name("ansible-playbook")),
                *("-i", str(self.folder / "inventory.yml"), *words),
                str(playbook),
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def changes(self, name: str = "deploy", *words: str, **more) -> dict[str, int]:
        """Run a playbook that has to succeed; tasks that changed something, by host."""
        done = self.play(name, *words, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        recap = re.findall(r"^(\S+)\s+: .*changed=(\d+)", done.stdout, re.M)
        return {host: int(count) for host, count in recap}

    def refused(self, name: str = "deploy", *words: str, **more) -> str:
        """Run a playbook that has to fail; what it said, on one line."""
        done = self.play(name, *words, **more)
        assert done.returncode != 0, done.stdout
        return " ".join((done.stdout + done.stderr).replace("\\n", " ").split())

    def run(self, node: str, *command: str, stdin: str = "", check: bool = True) -> str:
        done = subprocess.run(
            self.lab.ssh(node, ["sudo", *command]),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, (command, done.stdout, done.stderr)
        return done.stdout

    def said(self, node: str, *command: str) -> str:
        """What a command that fails says."""
        done = subprocess.run(
            self.lab.ssh(node, command), capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        return done.stderr

    def calls(self, node: str) -> list[tuple[float, str]]:
        """What was called on a node, with the time."""
        lines = self.run(node, "cat", CALLS, check=False).splitlines()
        return [(float(when), call) for when, call in (line.split(" ", 1) for line in lines)]

    def ring(self, node: str) -> dict[str, str]:
        status = self.run(node, "nodetool", "status")
        return {a: s for s, a in re.findall(r"^([UDX?]+[NLJM]) +(\S+) ", status, re.M)}

    def units(self) -> list[str]:
        """Whether the server is active, on each node."""
        return [self.run(node, "systemctl", "is-active", SERVICE, check=False) for node in NODES]

    @contextlib.contextmanager
    def knobs(self, node: str, *lines: str) -> Iterator[None]:
        """Something that goes wrong on a node."""
        path = "/etc/scylla-stand-in.conf"
        self.run(node, "tee", path, stdin="\n".join(lines) + "\n")
        try:
            yield
        finally:
            self.run(node, "rm", path)


@pytest.fixture(scope="module")
def site(new_lab, tmp_path_factory):
    """Empty hosts with two disks each, and a package repository in their network."""
    folder = tmp_path_factory.mktemp("site")
    packages = folder / "packages"
    packages.mkdir()
    scylla_stand_in.build(packages, [OLDER, VERSION, NEWEST, LATER])
    lab = new_lab()
    lab.up([LabHost(name, address) for name, address in NODES.items()], print)
    for node in NODES:
        subprocess.run(lab.ssh(node, ["sudo", "truncate", "--size", "4M", *DISKS]), check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAIROSCOPE_SECRETS", str(folder / "secrets"))
        secret_files.ensure("lab", {name: [address] for name, address in NODES.items()})
        port = 8099
        server = subprocess.Popen(
            lab.network.inside(
                *(sys.executable, "-m", "http.server", str(port), "--bind", GATEWAY),
                *("--directory", str(packages / "repository")),
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Site(lab, folder, port)
        finally:
            server.terminate()
            server.wait()


# From empty hosts to a cluster, with what can go wrong on the way: nothing that a deploy which
# failed leaves behind stands in the way of the next one.


def test_what_the_release_does_not_use_is_refused_before_a_host_is_touched(site):
    said = site.refused(
        scylla_settings={"saved_caches_directory": "/srv/x"},
        scylla_arguments="--background-writer-scheduling-quota=0.3",
    )
    assert "saved_caches_directory is accepted and ignored by ScyllaDB 2026.1.11" in said
    assert "--background-writer-scheduling-quota is deprecated in ScyllaDB 2026.1.11" in said
    said = site.refused(scylla_version="2024.1.3")
    assert "which options it knows is not recorded" in said
    for node in NODES:
        assert not site.run(node, "ls", "/etc/scylla", LIST, check=False)


def test_a_repository_that_does_not_answer(site):
    said = site.refused(scylla_repository=f"http://{GATEWAY}:1")
    assert f"gets nothing from ScyllaDB's package repository http://{GATEWAY}:1" in said
    assert "See that the host reaches it" in said


def test_a_repository_signed_by_another_key(site, tmp_path):
    other = scylla_stand_in.build(tmp_path, [])
    said = site.refused(scylla_repository_key=str(other.key))
    assert "gets nothing from ScyllaDB's package repository" in said
    assert "NO_PUBKEY" in said


def unpack(site: Site, node: str, release: str) -> None:
    """Leave the packages of a release on a node as an installation does that was cut off."""
    names = [f"{name}_{scylla_stand_in.package_version(release)}_all.deb" for name in PACKAGES]
    for name in names:
        package = (site.folder / "packages" / "repository" / "pool" / name).read_bytes()
        subprocess.run(
            site.lab.ssh(node, ["sudo", "tee", f"/root/{name}"]),
            input=package,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    site.run(node, "dpkg", "--unpack", *(f"/root/{name}" for name in names))


def test_disks_with_something_on_them_are_not_touched(site):
    # Also left by an installation that was interrupted: unpacked, not set up.
    unpack(site, "storage-2", VERSION)

    site.run("storage-1", "mkswap", DISKS[1])
    said = site.refused()
    assert "storage-1: /var/lib/scylla is not mounted, but there is something on" in said
    assert "swap" in said
    assert "swap" in site.run("storage-1", "wipefs", DISKS[1])
    for node in NODES:
        assert site.calls(node) == []
    site.run("storage-1", "wipefs", "--all", DISKS[1])


def test_a_setup_that_fails_or_dies_starts_nothing(site):
    with site.knobs("storage-2", "setup_dies=raid"), site.knobs("storage-3", "setup_fails=1"):
        said = site.refused()
    assert "scylla_setup failed on storage-3 (exit status 1)" in said
    assert "Kernel version check failed" in said
    # Its disks have a signature now, and no mount was made.
    assert "scylla_setup failed on storage-2" in said
    with site.knobs("storage-2", "setup_dies=iotune"):
        said = site.refused()
    assert "scylla_setup failed on storage-2" in said
    for node in NODES:
        assert not any(call == "start" for _, call in site.calls(node))
        assert "disabled" in site.run(node, "systemctl", "is-enabled", SERVICE, check=False)


def test_a_step_of_scylla_setup_that_nobody_decided(site):
    # A later release may do something to the host that nobody asked for.
    with site.knobs("storage-3", "new_step=telemetry-setup"):
        said = site.refused()
    assert "offers steps that are not decided: telemetry-setup" in said


def test_a_disk_that_is_too_small_for_the_data_starts_nothing(site):
    # Known once scylla_setup has made it.
    said = site.refused(plan=PLAN | {"totals": {"disk_bytes": 3 * 2**60}})
    assert "MiB of disk for /var/lib/scylla/data, 1099511628576 MiB are needed" in said
    for node in NODES:
        assert not any(call == "start" for _, call in site.calls(node))


def test_a_node_that_stops_keeps_the_next_from_starting(site):
    with site.knobs("storage-2", "crash=1"):
        said = site.refused()
    assert "storage-2: ScyllaDB has stopped" in said
    assert "told to by a knob" in said
    assert site.ring("storage-1") == {NODES["storage-1"]: "UN"}
    assert not any(call == "start" for _, call in site.calls("storage-3"))


def test_a_node_that_does_not_become_normal_keeps_the_next_from_starting(site):
    with site.knobs("storage-2", "never_normal=1"):
        said = site.refused(scylla_join_seconds=10)
        assert "storage-2: not all is up and normal after 10 s" in said
        assert "UJ 10.77.0.12" in said
        site.run("storage-2", "systemctl", "kill", "--signal", "KILL", SERVICE)
    assert not any(call == "start" for _, call in site.calls("storage-3"))


def test_one_that_was_killed_while_it_joined_does_not_come_back_by_itself(site):
    """As its host does it at a reboot: the others do not take it."""
    site.run("storage-2", "systemctl", "start", SERVICE, check=False)
    assert "failed" in site.run("storage-2", "systemctl", "is-active", SERVICE, check=False)
    said = site.run("storage-2", "journalctl", "--unit", SERVICE, "--lines", "5")
    assert "Please clear the data directory and restart" in said


def test_then_a_deploy_heals_all_of_it(site):
    # With a node that takes longer to join than one may take to start.
    with site.knobs("storage-3", "join_seconds=40"):
        assert site.changes()["storage-3"] > 0
    for node in NODES:
        assert site.ring(node) == dict.fromkeys(NODES.values(), "UN")
        # Measured once, tuned before it started, and on its own file system.
        calls = [call.split()[0] for _, call in site.calls(node)]
        if node != "storage-2":  # Where it was killed in the middle.
            assert calls.count("iotune") == 1
        last_setup = max(i for i, call in enumerate(calls) if call == "scylla_setup")
        assert last_setup < calls.index("start")
        site.run(node, "mountpoint", "/var/lib/scylla")
        assert site.run(node, "systemctl", "is-enabled", SERVICE).strip() == "enabled"


def test_one_node_after_another(site):
    turns = []
    for node in NODES:
        times = {call: when for when, call in site.calls(node)}  # The last of each.
        turns.append((times["start"], times["normal"]))
    for (_, normal), (start, _) in itertools.pairwise(turns):
        assert normal < start


def test_a_second_deploy_changes_nothing(site):
    assert site.changes() == dict.fromkeys(NODES, 0)


def test_the_version_is_exact_and_stays(site):
    shown = site.run(
        "storage-1", "dpkg-query", "-W", "-f", "${Package} ${db:Status-Want} ${Version}\n"
    )
    found = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    for name in PACKAGES:
        assert found[name] == ["hold", scylla_stand_in.package_version(VERSION)]
    site.run("storage-1", "apt-get", "-qq", "upgrade", "--yes")
    policy = site.run("storage-1", "apt-cache", "policy", "scylla")
    assert f"Candidate: {scylla_stand_in.package_version(VERSION)}" in policy
    assert scylla_stand_in.package_version(LATER) in policy


def test_another_version_than_the_installed_one_is_refused(site):
    said = site.refused(scylla_version=OLDER)
    assert f"storage-3 has ScyllaDB {scylla_stand_in.package_version(VERSION)}" in said
    assert f"the plan wants {OLDER}" in said


def test_what_is_rendered(site):
    settings = yaml.safe_load(site.run("storage-2", "cat", "/etc/scylla/scylla.yaml"))
    assert settings["cluster_name"] == "a lab's cluster"
    assert settings["seed_provider"][0]["parameters"][0]["seeds"] == "10.77.0.11"
    assert settings["batch_size_fail_threshold_in_kb"] == 1024
    assert settings["tablets_mode_for_new_keyspaces"] == "disabled"
    assert settings["authenticator"] == "PasswordAuthenticator"
    assert "rack=rack2" in site.run("storage-2", "cat", "/etc/scylla/cassandra-rackdc.properties")
    # The hash is what crypt makes of the password, and only root and the server may read it.
    admin = secret_files.access(secret_files.folder("lab")).admin
    assert settings["auth_superuser_name"] == admin.user
    hashed = settings["auth_superuser_salted_password"]
    salt = hashed.rpartition("$")[0]
    made = subprocess.run(
        ["openssl", "passwd", "-6", "-salt", salt.removeprefix("$6$"), "-stdin"],
        input=admin.password,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == hashed
    mode = site.run("storage-2", "stat", "-c", "%a %U %G", "/etc/scylla/scylla.yaml")
    assert mode.strip() == "640 root scylla"


def test_secrets_are_in_no_output(site):
    done = site.play("deploy", "-vvv", "--diff", scylla_settings={"hinted_handoff_enabled": True})
    assert done.returncode == 0, done.stdout
    shown = done.stdout + done.stderr
    settings = yaml.safe_load(site.run("storage-1", "cat", "/etc/scylla/scylla.yaml"))
    assert secret_files.access(secret_files.folder("lab")).admin.password not in shown
    assert settings["auth_superuser_salted_password"].rpartition("$")[2] not in shown


def test_a_changed_setting_restarts_one_after_another(site):
    before = {node: len(site.calls(node)) for node in NODES}
    assert all(site.changes().values())  # Back from the setting above.
    turns = []
    for node in NODES:
        calls = site.calls(node)[before[node] :]
        assert [call for _, call in calls] == ["drain", "start", "normal"]
        turns.append((calls[0][0], calls[-1][0]))
    for (_, normal), (drain, _) in itertools.pairwise(turns):
        assert normal < drain
    assert site.changes() == dict.fromkeys(NODES, 0)


def test_tls_is_not_optional(site):
    script = (
        "import socket, ssl, sys\n"
        "c = ssl.create_default_context(cafile=sys.argv[3]); c.check_hostname = False\n"
        "if sys.argv[4:]: c.load_cert_chain(sys.argv[4])\n"
        "s = c.wrap_socket(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5))\n"
        "s.settimeout(1)\n"
        "try: print('closed' if s.recv(1) == b'' else 'open')\n"
        "except TimeoutError: print('open')\n"
        "except OSError: print('refused')\n"
    )
    # On the host itself, as its firewall lets no storage host get at CQL.
    pki = "/var/lib/kairoscope/storage-2/pki"
    for port in ("9042", "7001"):
        words = ["python3", "-", NODES["storage-2"], port, f"{pki}/ca.crt"]
        assert site.run("storage-2", *words, stdin=script).strip() == "refused"
        with_certificate = site.run("storage-2", *words, f"{pki}/node.pem", stdin=script)
        assert with_certificate.strip() == "open"
    plain = "import socket; socket.create_connection(('10.77.0.12', 7000), 5)"
    assert "refused" in site.said("storage-1", "python3", "-c", plain)


def test_all_come_back_after_a_reboot(site):
    for node in NODES:
        site.lab.reboot(node)
    assert site.changes() == dict.fromkeys(NODES, 0)
    for node in NODES:
        assert site.ring(node) == dict.fromkeys(NODES.values(), "UN")


def test_a_restart_stands_by_itself_and_refuses_while_a_node_is_down(site):
    # Nothing has changed: nothing to do, unless a node has forgotten what it runs with.
    assert site.changes("restart") == dict.fromkeys(NODES, 0)
    site.run("storage-1", "rm", "/var/lib/kairoscope/storage-1/started-with")
    site.run("storage-3", "systemctl", "stop", SERVICE)
    before = site.calls("storage-1")
    said = site.refused("restart", scylla_start_seconds=4)
    assert "storage-1: not all is up and normal" in said
    assert "DN 10.77.0.13" in said
    assert site.calls("storage-1") == before
    # The deploy heals it.
    assert site.changes()["storage-3"] == 1
    for node in NODES:
        site.run(node, "rm", f"/var/lib/kairoscope/{node}/started-with")
    assert all(site.changes("restart").values())


def drained(site: Site, node: str) -> int:
    """Leave a node as an interruption does that came before its stop: it runs, and the others see
    it down. How many calls it has had by then."""
    site.run(node, "nodetool", "drain")
    assert site.run(node, "systemctl", "is-active", SERVICE).strip() == "active"
    assert "Mode: DRAINED" in site.run(node, "nodetool", "netstats")
    other = "storage-1" if node != "storage-1" else "storage-2"
    assert site.ring(other)[NODES[node]] == "DN"
    return len(site.calls(node))


def test_a_node_that_was_drained_and_not_stopped_is_started_anew(site):
    """By a deploy, and by the verb that has left it so, before that waits for the whole ring."""
    for playbook, more in (("deploy", []), ("rolling-restart", ["drain", "start", "normal"])):
        before = drained(site, "storage-2")
        site.changes(playbook)
        calls = [call for _, call in site.calls("storage-2")[before:]]
        assert calls == ["start", "normal", *more]
        for node in NODES:
            assert site.ring(node) == dict.fromkeys(NODES.values(), "UN")
    assert site.changes() == dict.fromkeys(NODES, 0)


def installed(site: Site, node: str) -> str:
    shown = site.run(
        node, "dpkg-query", "-W", "-f", "${db:Status-Want} ${Version}", "scylla-server"
    )
    return shown.removesuffix(f"-{scylla_stand_in.BUILD}")


def test_a_release_that_is_not_to_be_had_takes_no_node_down(site):
    before = {node: len(site.calls(node)) for node in NODES}
    said = site.refused("upgrade-nodes", scylla_version="2026.2.99")
    assert "storage-1 does not get ScyllaDB 2026.2.99, and was left as it is: E: Version" in said
    pin = site.run("storage-1", "cat", "/etc/apt/preferences.d/scylla")
    assert f"Pin: version {VERSION}-*" in pin
    for node in NODES:
        assert len(site.calls(node)) == before[node]
        assert installed(site, node) == f"hold {VERSION}"


def test_an_upgrade_that_fails_stops_and_goes_back(site):
    tag = "before-upgrade-1"
    assert site.changes("snapshot", operate_tag=tag) == dict.fromkeys(NODES, 1)
    with site.knobs("storage-2", "crash=1"):
        said = site.refused("upgrade-nodes", scylla_version=NEWEST)
    assert "storage-2: ScyllaDB has stopped" in said
    assert installed(site, "storage-3") == f"hold {VERSION}"
    assert site.ring("storage-3")[NODES["storage-2"]] == "DN"
    # Run again, on or back, it begins with the node that is down.
    assert site.changes("snapshot", operate_tag=tag) == dict.fromkeys(NODES, 0)
    site.changes("upgrade-nodes", scylla_version=VERSION)
    for node in NODES:
        assert installed(site, node) == f"hold {VERSION}"
        assert site.ring(node) == dict.fromkeys(NODES.values(), "UN")


def test_an_upgrade_begins_with_a_node_that_was_drained(site):
    before = drained(site, "storage-2")
    site.changes("upgrade-nodes")
    assert [call for _, call in site.calls("storage-2")[before:]] == ["start", "normal"]
    for node in NODES:
        assert site.ring(node) == dict.fromkeys(NODES.values(), "UN")


def test_an_upgrade_whose_installation_was_cut_off_goes_on(site):
    """By a power cut, which leaves dpkg's journal behind; here it goes back."""
    node = "storage-2"
    site.run(node, "systemctl", "stop", SERVICE)
    site.run(node, "apt-mark", "unhold", *PACKAGES)
    unpack(site, node, NEWEST)
    site.run(node, "sh", "-c", "dpkg-query --status scylla-conf > /var/lib/dpkg/updates/0001")
    assert "dpkg was interrupted" in site.said(
        node, "sudo", "apt-get", "install", "--yes", "scylla"
    )
    settings = site.run(node, "cat", "/etc/scylla/scylla.yaml")
    site.changes("upgrade-nodes", scylla_version=VERSION)
    assert site.run(node, "cat", "/etc/scylla/scylla.yaml") == settings
    for each in NODES:
        assert installed(site, each) == f"hold {VERSION}"
        assert site.ring(each) == dict.fromkeys(NODES.values(), "UN")


def test_an_upgrade_goes_node_by_node(site):
    before = {node: len(site.calls(node)) for node in NODES}
    site.version = NEWEST
    site.changes("upgrade-nodes")
    turns = []
    for node in NODES:
        assert installed(site, node) == f"hold {NEWEST}"
        assert site.run(node, "scylla", "--version").startswith(NEWEST)
        calls = site.calls(node)[before[node] :]
        assert [call for _, call in calls] == ["drain", "start", "normal"]
        turns.append((calls[0][0], calls[-1][0]))
    for (_, normal), (drain, _) in itertools.pairwise(turns):
        assert normal < drain
    assert site.changes() == dict.fromkeys(NODES, 0)
    there = ["test", "-e", "/var/lib/scylla/data/kairosdb/data_points-0/snapshots/before-upgrade-1"]
    site.run("storage-1", *there)
    site.changes("clear-snapshots")
    assert site.said("storage-1", *there) == ""


def test_the_system_s_packages_host_by_host(site):
    name = scylla_stand_in.probe(site.folder / "packages" / "repository" / "probe")
    unreachable = "deb [trusted=yes] http://10.77.0.1:1 stable main\n"
    site.run("storage-1", "tee", "/etc/apt/sources.list.d/probe.list", stdin=unreachable)
    said = site.refused("upgrade-system")
    assert "storage-1 gets nothing from its package repositories" in said
    line = f"deb [trusted=yes] http://{GATEWAY}:{site.port}/probe stable main\n"
    # The lab's hosts have no way to Debian's.
    away = "rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*.sources"
    for node in NODES:
        site.run(node, "sh", "-c", away)
        site.run(node, "tee", "/etc/apt/sources.list.d/probe.list", stdin=line)
        site.run(node, "apt-get", "-qq", "update")
        site.run(node, "apt-get", "-qq", "install", f"{name}=1")
    before = {node: len(site.calls(node)) for node in NODES}
    booted = {node: site.run(node, "stat", "-c", "%Y", "/proc/1") for node in NODES}
    site.changes("upgrade-system")
    turns = []
    for node in NODES:
        assert site.run(node, "dpkg-query", "-W", "-f", "${Version}", name) == "2"
        assert installed(site, node) == f"hold {NEWEST}"
        assert site.run(node, "stat", "-c", "%Y", "/proc/1") != booted[node]
        calls = site.calls(node)[before[node] :]
        assert [call for _, call in calls] == ["drain", "start", "normal"]
        turns.append((calls[0][0], calls[-1][0]))
        assert site.ring(node) == dict.fromkeys(NODES.values(), "UN")
    for (_, normal), (drain, _) in itertools.pairwise(turns):
        assert normal < drain
    before = {node: len(site.calls(node)) for node in NODES}
    assert site.changes("upgrade-system") == dict.fromkeys(NODES, 0)
    assert {node: len(site.calls(node)) for node in NODES} == before


def test_an_image_is_configured_only(site):
    said = site.refused(scylla_image=True, scylla_setup_seconds=2)
    assert "ScyllaDB's image has not finished its setup after 2 s" in said
    for node in NODES:
        site.run(node, "touch", "/etc/scylla/machine_image_configured")
    before = {node: site.calls(node) for node in NODES}
    assert site.changes(scylla_image=True) == dict.fromkeys(NODES, 0)
    assert {node: site.calls(node) for node in NODES} == before


def test_a_node_of_an_older_image_gets_the_release_before_it_joins(site):
    """As it is made after an upgrade, where the account's variables pin what there was before."""
    kept = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
    older = (
        "apt-get",
        "-qq",
        *kept,
        "install",
        "--allow-downgrades",
        "--allow-change-held-packages",
    )
    packages = [f"{name}={scylla_stand_in.package_version(VERSION)}" for name in PACKAGES]
    data = "/var/lib/scylla/data"

    def image() -> None:
        site.run("storage-3", "systemctl", "stop", SERVICE)
        site.run("storage-3", "rm", "/etc/apt/preferences.d/scylla")
        site.run("storage-3", *older, *packages)

    image()
    # What has been stored with it is an upgrade's to bring on.
    said = site.refused("prepare", scylla_image=True)
    assert f"storage-3 has ScyllaDB {VERSION}-" in said and "upgrade-scylla" in said
    assert installed(site, "storage-3").endswith(VERSION)
    site.run("storage-3", "mv", f"{data}/system", "/srv/system")
    # As the image has it, and what a reboot before the first deploy would start.
    assert site.run("storage-3", "systemctl", "is-enabled", SERVICE).strip() == "enabled"
    before = site.calls("storage-3")
    said = site.refused("prepare", scylla_image=True, scylla_repository_key="")
    assert "scylla_repository_key is not set" in said
    site.changes("prepare", scylla_image=True)
    assert installed(site, "storage-3") == f"hold {NEWEST}"
    assert site.calls("storage-3") == before
    assert "disabled" in site.run("storage-3", "systemctl", "is-enabled", SERVICE, check=False)
    assert site.changes("prepare", scylla_image=True) == {"storage-3": 0}
    site.run("storage-3", "mv", "/srv/system", f"{data}/system")
    site.changes(scylla_image=True)
    assert site.ring("storage-3") == dict.fromkeys(NODES.values(), "UN")


def test_one_that_takes_a_dead_node_s_place_may_take_longer_than_a_start(site):
    """The ring shows it as normal from the first on: until clients are taken it has not joined."""
    node, data = "storage-3", "/var/lib/scylla/data"
    status = site.run("storage-1", "nodetool", "status")
    (dead,) = re.findall(rf"^UN +{NODES[node]} .* ([0-9a-f-]{{36}}) ", status, re.M)
    site.run(node, "systemctl", "stop", SERVICE)
    site.run(node, "sh", "-c", f"rm -r {data}/*")
    place = ("--limit", node, "--extra-vars", json.dumps({"replaces": dead}))
    with site.knobs(node, "never_normal=1"):
        said = site.refused("deploy", *place, scylla_join_seconds=10, scylla_image=True)
        assert f"{node}: not all is up and normal after 10 s" in said
        site.run(node, "systemctl", "kill", "--signal", "KILL", SERVICE)
    # What it was sent by then is of no use, and the dead one is still to be replaced.
    assert site.ring("storage-1")[NODES[node]] == "DN"
    with site.knobs(node, "join_seconds=40"):
        site.changes("deploy", *place, scylla_image=True)
    assert site.ring("storage-1") == dict.fromkeys(NODES.values(), "UN")
    assert dead not in site.run("storage-1", "nodetool", "status")
    site.changes(scylla_image=True)
    assert site.changes(scylla_image=True) == dict.fromkeys(NODES, 0)


def as_its_image_has_them(site: Site, node: str) -> None:
    """ScyllaDB's packages, and those that its image has beside: nothing pins or holds them, and a
    repository of the host's has a newer patch (packer/scylla_install_image)."""
    beside = [f"{name}={scylla_stand_in.package_version(NEWEST)}" for name in OF_IMAGE]
    site.run(node, "apt-get", "-qq", "install", "--yes", "--allow-change-held-packages", *beside)
    site.run(node, "rm", "--force", "/etc/apt/preferences.d/scylla")
    site.run(node, "apt-mark", "unhold", *PACKAGES, *OF_IMAGE)
    would = site.run(node, "apt-get", "--simulate", "upgrade", "--with-new-pkgs")
    for name in PACKAGES | OF_IMAGE:
        older, newer = (scylla_stand_in.package_version(release) for release in (NEWEST, LATER))
        assert f"Inst {name} [{older}] ({newer} " in would


def packages_of(site: Site, node: str) -> dict[str, str]:
    """What is wanted of each package of ScyllaDB's on a node, and its release."""
    shown = site.run(
        node, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Want} ${Version}\n", "scylla*"
    )
    found = [line.partition(" ") for line in shown.splitlines()]
    return {name: told.removesuffix(f"-{scylla_stand_in.BUILD}") for name, _, told in found}


def test_an_image_s_packages_stay_at_their_release_too(site):
    stay = dict.fromkeys(PACKAGES | OF_IMAGE, f"hold {NEWEST}")
    for node in NODES:
        as_its_image_has_them(site, node)
    before = {node: len(site.calls(node)) for node in NODES}
    assert all(site.changes(scylla_image=True).values())
    assert site.changes(scylla_image=True) == dict.fromkeys(NODES, 0)
    # One that was deployed when a deploy held none of an image's.
    as_its_image_has_them(site, "storage-2")
    changed = site.changes("upgrade-system", scylla_image=True)
    assert changed.pop("storage-2") > 0
    assert set(changed.values()) == {0}
    for node in NODES:
        assert packages_of(site, node) == stay
        assert site.run(node, "scylla", "--version").startswith(NEWEST)
        assert len(site.calls(node)) == before[node]


def test_an_empty_first_node_makes_no_second_cluster(site):
    # What it may ask the others by, their firewalls let through.
    for node in NODES:
        assert "policy drop" in site.run(node, "nft", "list", "table", "inet", "kairoscope")
    site.run("storage-1", "systemctl", "stop", SERVICE)
    site.run("storage-1", "sh", "-c", "rm -r /var/lib/scylla/data/*")
    said = site.refused()
    assert "storage-1 has no data and would make a cluster of its own, while storage-2" in said
    # Also where it could not ask them: their data says that there is a cluster.
    for node in ("storage-2", "storage-3"):
        site.run(node, "systemctl", "stop", SERVICE)
    said = site.refused()
    assert "while storage-2, storage-3 have a node's data" in said
    # And by a verb that comes to one node after another, the one that is down first.
    assert "while storage-2, storage-3 have a node's data" in site.refused("upgrade-nodes")
    assert "active" not in [state.strip() for state in site.units()]
