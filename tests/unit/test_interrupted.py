"""What a verb leaves that was interrupted, or that failed, and how the next command goes on.

The playbooks and roles themselves, by Ansible, on hosts that are made up: this machine with
stand-ins for the programs that they would call there.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import test_replace
import yaml
from test_operate import HEALTHY, hosts, planned

from kairoscope import paths
from kairoscope.deploy import deploy
from kairoscope.deploy.operate import cluster, data, nodes, removing, safety, servers
from kairoscope.deploy.operate.deployed import Deployed
from kairoscope.errors import UserError
from kairoscope.hosts import operation
from kairoscope.hosts.deployed import finished_file
from kairoscope.stacks.kairosdb.servers import nodetool

PLAYBOOKS = paths.ANSIBLE / "playbooks"

# Each notes what it was told. The state of its server is in a file, as systemd has it.
PROGRAMS = {
    "systemctl": """
unit=$(cat unit)
case "$1" in
  is-active) cat state; grep -qx active state ;;
  is-enabled) cat enabled; grep -qx enabled enabled ;;
  show)
    if [ -z "$unit" ]; then echo LoadState=not-found; exit 0; fi
    echo "LoadState=loaded"; echo "ActiveState=$(cat state)" ;;
  start) if [ -e start-fails ]; then echo "A dependency job for $2 failed." >&2; exit 1; fi
    echo active > state ;;
  stop) echo inactive > state ;;
  disable) echo disabled > enabled ;;
esac
""",
    "nft": 'if [ "$1" = delete ] && [ ! -e shut ]; then echo "No such file" >&2; exit 1; fi\n'
    'if [ "$1" = delete ]; then rm shut; else cat > shut; fi\n',
    # Of a storage node: `mode` is what it says of itself, and CQL answers only in NORMAL.
    "supervisorctl": """
case "$1" in
  status) if grep -qx active state; then echo "$2   RUNNING  "; else echo STOPPED; exit 3; fi ;;
  pid) if grep -qx active state; then echo 7; else echo 0; fi ;;
  stop) echo inactive > state; rm -f mode ;;
  start) echo active > state; echo NORMAL > mode ;;
esac
""",
    "nodetool": """
[ -e mode ] || exit 1
case "$1" in
  netstats) echo "Mode: $(cat mode)" ;;
  status) echo "UN  127.0.0.1  1 KiB  16  ?  0  rack1" ;;
esac
""",
    # As the playbooks call it on the control machine: what it is told to say, by the verb.
    "kairoscope": 'if [ -e "fails-$2" ]; then cat "fails-$2" >&2; exit 1; fi\n',
}


class MadeUp:
    """A host, and Ansible."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name, script in PROGRAMS.items():
            self.program(name, script)
        self.has(state="active", enabled="enabled", unit="kairosdb", calls="")
        (folder / "plan.json").write_text("{}")

    def program(self, name: str, script: str) -> None:
        """Have a stand-in of a program; it runs in the host's folder."""
        path = self.bin / name
        head = f'#!/bin/sh\ncd "{self.folder}"\necho "{name} $*" >> calls\n'
        path.write_text(head + script)
        path.chmod(0o755)

    def has(self, **files: str) -> None:
        for name, content in files.items():
            (self.folder / name.replace("_", "-")).write_text(content + "\n")

    def is_(self, name: str) -> str:
        return (self.folder / name).read_text().strip()

    def calls(self, *of: str) -> list[str]:
        """What was called of some programs, without what only looks."""
        looks = ("is-active", "is-enabled", "show", "list", "status", "pid", "update")
        lines = (self.folder / "calls").read_text().splitlines()
        return [
            line
            for line in lines
            if line and line.split()[0] in of and line.split()[1] not in looks
        ]

    def play(
        self, playbook: Path, groups: dict[str, list[str]], told: dict[str, Any], **given: Any
    ) -> tuple[int, str]:
        """Run a playbook; all hosts of the groups are this machine.

        `told`: as a verb tells it; `given`: by the inventory. Exit status, and what it said, on one
        line.
        """
        of_all = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "managed": True,
            "secured": False,
            "service_manager": "systemd",
            "plan_file": str(self.folder / "plan.json"),
            "inventory_file": str(self.folder / "inventory.json"),
            "kairoscope": str(self.bin / "kairoscope"),
            "unit": "kairosdb",
            "target": "lab",
            "http_port": 8080,
            "telnet_port": 4242,
            **given,
        }
        children = {
            group: {"hosts": {name: {} for name in names}} for group, names in groups.items()
        }
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps({"all": {"vars": of_all, "children": children}}))
        tool = Path(sys.executable).with_name("ansible-playbook")
        done = subprocess.run(
            [tool, "-i", inventory, "--extra-vars", json.dumps(told), playbook],
            env=os.environ
            | {
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "ANSIBLE_GATHERING": "explicit",
                "ANSIBLE_HOME": str(self.folder / "ansible"),
                "ANSIBLE_ROLES_PATH": str(paths.ANSIBLE / "roles"),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).replace("\\n", " ").split())


# A target of the verbs that make and give back hosts; what is called, in order.
site = test_replace.site


@pytest.fixture
def made_up(tmp_path):
    return MadeUp(tmp_path)


# A KairosDB node that is removed


def remove(made_up: MadeUp) -> tuple[int, str]:
    """Its playbook on one of two nodes."""
    return made_up.play(
        PLAYBOOKS / "remove-kairosdb.yml",
        {"kairosdb": ["kairosdb-1", "kairosdb-2"]},
        {"operate_host": "kairosdb-2"},
    )


DRAINED = "operate await-drained"


@pytest.mark.parametrize("state", ["active", "activating", "inactive"])
def test_one_that_does_not_run_is_started_and_drained_before_it_ends(made_up, state):
    """What it has acknowledged is on its disk, and would go with it."""
    made_up.has(state=state, fails_check_empty="Error: kairosdb-2: 7 points are in its queue")
    status, said = remove(made_up)
    assert status == 0, said
    (drained,) = [call for call in made_up.calls("kairoscope") if DRAINED in call]
    assert drained.endswith("--for-good")
    acts = made_up.calls("systemctl", "kairoscope")
    before = [call for call in acts[: acts.index(drained)] if call.startswith("systemctl")]
    stopped_and_started = ["systemctl stop kairosdb.service", "systemctl start kairosdb.service"]
    if state == "active":
        assert before == []
    else:
        assert before == stopped_and_started[state == "inactive" :]
    assert (made_up.is_("state"), made_up.is_("enabled")) == ("inactive", "disabled")
    # Of the others none is shut still.
    assert made_up.calls("nft") == ["nft delete table inet kairoscope_drain", "nft --file -"]


def test_one_that_does_not_start_stays_with_what_it_has(made_up):
    """Its mount is missing, for example."""
    made_up.has(state="failed", fails_check_empty="Error: kairosdb-2: 7 points are in its queue")
    made_up.has(start_fails="")
    status, said = remove(made_up)
    assert status != 0
    assert "kairosdb-2 does not start, and with its host would go what it has acknowledged" in said
    assert "kairosdb-2: 7 points are in its queue. Mend that (journalctl -u kairosdb" in said
    assert made_up.is_("enabled") == "enabled"


def test_a_machine_that_knows_no_kairosdb_is_not_one_with_nothing(made_up):
    """Somebody has put another one in its place, or has made it anew."""
    made_up.has(state="inactive", unit="")
    status, said = remove(made_up)
    assert status != 0
    assert "kairosdb-2 does not start" in said
    assert "what waits there is not known. Mend that" in said


def test_a_drain_that_fails_again_ends_nothing(made_up):
    made_up.has(state="activating", fails_check_empty="Error: not known")
    made_up.has(fails_await_drained="Error: kairosdb-2 after 300 s: it does not answer")
    status, said = remove(made_up)
    assert status != 0
    assert "kairosdb-2 after 300 s: it does not answer" in said
    assert (made_up.is_("state"), made_up.is_("enabled")) == ("active", "enabled")


def test_one_whose_queue_was_emptied_by_hand_need_not_start(made_up):
    made_up.has(state="activating", start_fails="")
    status, said = remove(made_up)
    assert status == 0, said
    assert not any(DRAINED in call for call in made_up.calls("kairoscope"))
    assert (made_up.is_("state"), made_up.is_("enabled")) == ("inactive", "disabled")


# A storage node that was drained and not stopped

DRAINED_ONE = frozenset({"storage-2"})
ENGINES: dict[str, dict[str, Any]] = {
    "cassandra": {
        "cassandra_prepared": True,
        "cassandra_command": "cassandra",
        "cassandra_conf_files": ["one.yaml"],
        "cassandra_bundle_dir": "/cassandra-5",
        "cassandra_start_seconds": 3,
        "initial_tokens": ["1"],
    },
    "scylla": {
        "scylla_prepared": True,
        "scylla_from": "folder",
        "scylla_command": "scylla",
        "scylla_files": ["{{ home }}/conf/one.yaml"],
        "scylla_old_data": {"stat": {"exists": True}},
        "scylla_start_seconds": 4,
    },
}


class Node(MadeUp):
    """A storage node's host, with its port for clients."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.has(mode="NORMAL")
        for name in ("home/conf", "supervisor/conf.d"):
            (folder / name).mkdir(parents=True)
        (folder / "home" / "conf" / "one.yaml").touch()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        mode, taking = self.folder / "mode", None
        while not self.ended.wait(0.05):
            normal = mode.exists() and mode.read_text().strip() == "NORMAL"
            if normal and taking is None:
                taking = socket.create_server(("127.0.0.1", self.port))
            elif not normal and taking:
                taking.close()
                taking = None
        if taking:
            taking.close()

    def close(self) -> None:
        self.ended.set()
        self._thread.join()

    def start(self, engine: str, role: str = "", tasks: str = "main") -> tuple[int, str]:
        """The engine's role, as a deploy has it, or tasks of another role."""
        include = {"name": role or engine, "tasks_from": tasks, "rolespec_validate": False}
        task = {"name": "As a playbook does", "ansible.builtin.include_role": include}
        plays = [{"name": "Storage nodes", "hosts": "storage", "tasks": [task]}]
        (self.folder / "play.yml").write_text(json.dumps(plays))
        return self.storage(self.folder / "play.yml", engine)

    def storage(self, playbook: Path, engine: str) -> tuple[int, str]:
        """A playbook on it."""
        return self.play(
            playbook,
            {"storage": ["storage-1"]},
            ENGINES[engine],
            storage_engine=engine,
            managed=False,
            service_manager="supervisor",
            supervisorctl=[str(self.bin / "supervisorctl")],
            supervisor_dir=str(self.folder / "supervisor"),
            home=str(self.folder / "home"),
            address="127.0.0.1",
            native_transport_port=self.port,
            nodetool=str(self.bin / "nodetool"),
            # What the role is told beside, and has no use for here.
            **dict.fromkeys(("jmx_port", "jolokia_port", "prometheus_port", "storage_port"), 1),
            **dict.fromkeys(("bundles_dir", "java", "rack"), "/x"),
            **dict.fromkeys(("cassandra_version", "jolokia_address", "prometheus_address"), "x"),
            plan={},
        )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


STOPPED_AND_STARTED = ["supervisorctl stop storage-1", "supervisorctl start storage-1"]


@pytest.mark.parametrize(("engine", "mode"), [("cassandra", "DRAINED"), ("scylla", "DRAINING")])
def test_a_deploy_starts_a_node_that_was_drained_and_not_stopped(node, engine, mode):
    """It runs, so that a start by itself changes nothing, and takes no clients until it is anew."""
    node.has(mode=mode)
    status, said = node.start(engine)
    assert status == 0, said
    assert node.calls("supervisorctl") == STOPPED_AND_STARTED


def test_any_other_node_is_left_alone(node):
    for mode, asked in (("NORMAL", []), ("JOINING", ["nodetool netstats"])):
        node.has(mode=mode)
        assert node.start("cassandra", "ring", "drained")[0] == 0
        # Not where it takes clients, as that takes a JVM.
        assert node.calls("nodetool") == asked
    assert node.calls("supervisorctl") == []


def test_verbs_begin_with_the_node_that_an_earlier_one_has_drained(node):
    """Before they wait for the whole ring, of which it is no part."""
    node.has(mode="DRAINED")
    status, said = node.storage(PLAYBOOKS / "drained.yml", "cassandra")
    assert status == 0, said
    assert node.calls("supervisorctl") == STOPPED_AND_STARTED
    for verb in ("rolling-restart", "upgrade-system"):
        plays = yaml.safe_load((PLAYBOOKS / f"{verb}.yml").read_text())
        assert [play.get("ansible.builtin.import_playbook") for play in plays[:3]] == [
            *("read.yml", "drained.yml"),
            None,
        ]
    down = yaml.safe_load((paths.ANSIBLE / "roles/scylla/tasks/upgrade_down.yml").read_text())
    assert down[0]["ansible.builtin.include_role"] == {"name": "ring", "tasks_from": "drained"}


@pytest.mark.parametrize("mode", ["DRAINED", "DRAINING", "NORMAL"])
def test_a_node_that_others_see_down_is_asked_whether_it_was_drained(monkeypatch, mode):
    here = hosts()
    ring = "".join(f"UN  {host.address}  1 KiB  16  ?  0  rack1\n" for host in here.storage)
    asked = []

    def run(host, verb, *_, **__):
        if verb == "netstats":
            asked.append(host.name)
            return f"Mode: {mode}\nNot sending any streams.\n"
        if verb == "describecluster":
            seen_by = "0000: [10.0.0.2]" if host.name != "storage-1" else "UNREACHABLE: [10.0.0.2]"
            return f"Schema versions:\n\t\t{seen_by}\n"
        # The drained one goes on seeing all as they were.
        return ring if host.name == "storage-1" else ring.replace("UN  10.0.0.1 ", "DN  10.0.0.1 ")

    monkeypatch.setattr(nodetool, "run", run)
    monkeypatch.setattr(cluster, "_kairosdb", lambda *_: HEALTHY)
    found = cluster.look(here)
    assert asked == ["storage-1"]
    drained = mode != "NORMAL"
    assert found.drained == ({"storage-1"} if drained else set())
    problems = safety.whole(here, found)
    assert "storage-2 sees storage-1 DN" in problems
    said = "storage-1 was drained, and not started again: make deploy"
    assert (said in problems) == drained
    if drained:
        assert safety.whole(here, found, but=found.drained) == []


@pytest.mark.parametrize("limit", [None, "storage-1"])
def test_a_rolling_restart_goes_on_where_it_has_drained_a_node(site, monkeypatch, limit):
    finished_file("lab").touch()
    verbs = (servers.rolling_restart, servers.upgrade_system)
    for verb in verbs:
        with pytest.raises(UserError, match="storage-1 sees storage-2 DN"):
            verb(site.deployed, limit)
    assert site.calls == []

    monkeypatch.setattr(cluster, "look", lambda h: replace(site.look(h), drained=DRAINED_ONE))
    for verb in verbs:
        verb(site.deployed, limit)
    assert [name for name, *_ in site.calls if name != "confirm"] == [
        *("rolling-restart", "upgrade-system")
    ]
    # A verb that does not begin with it says the way out.
    with pytest.raises(UserError, match="storage-2 was drained, and not started again: make dep"):
        data.backup(site.deployed, None)


# A backup that was interrupted


@pytest.fixture
def backups(site, monkeypatch):
    """The folder that backups of a target which is well are made in; each is cut off."""

    def cut_off(_: str, __: Any, ___: str, *, operate_folder: str, **____: Any) -> None:
        Path(operate_folder, "storage-1").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(Deployed, "refuse_unless_whole", lambda *_: None)
    monkeypatch.setattr(data, "_check_disk_here", lambda *_: None)
    monkeypatch.setattr(data, "about", lambda *_: {"schema": ""})
    monkeypatch.setattr(deploy, "playbook", cut_off)
    finished_file("lab").touch()
    site.now = 1_795_000_000.0  # 18 November 2026, 11:06:40 UTC

    def later() -> float:
        site.now += 1
        return site.now

    monkeypatch.setattr(data, "time", SimpleNamespace(time=later))
    return paths.home() / "backups"


def test_what_it_has_brought_goes_with_the_next_one(site, backups):
    """No other takes it up, and it is as large as the data."""
    others = [
        *(
            "aws-20261118T110641Z.partial",
            "lab-of-mine.partial",
            "lab-20261118T110641Z.partial.old",
        ),
        "lab-20261117T110641Z",
    ]
    for name in others:
        (backups / name).mkdir(parents=True)
    for second in (41, 42):
        with pytest.raises(KeyboardInterrupt):
            data.backup(site.deployed, None)
        left = f"lab-20261118T1106{second}Z.partial"
        assert sorted(path.name for path in backups.iterdir()) == sorted([*others, left])
    # Also by one that goes elsewhere.
    with pytest.raises(KeyboardInterrupt):
        data.backup(site.deployed, str(paths.home() / "there"))
    assert sorted(path.name for path in backups.iterdir()) == sorted(others)
    assert (paths.home() / "there.partial").is_dir()


def test_its_room_counts_as_free(site, backups, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        data.backup(site.deployed, None)

    def check(*_: Any) -> None:
        assert list(backups.iterdir()) == []
        raise UserError("no room")

    monkeypatch.setattr(data, "_check_disk_here", check)
    with pytest.raises(UserError, match="no room"):
        data.backup(site.deployed, None)


def test_one_that_is_under_way_is_not_removed(site, backups):
    with pytest.raises(KeyboardInterrupt):
        data.backup(site.deployed, None)
    (under_way,) = backups.iterdir()
    # By its verb, or by the playbook of a verb that was killed.
    with operation.alone("lab"), pytest.raises(UserError, match="is being changed"):
        data.backup(site.deployed, None)
    assert (under_way / "storage-1").is_dir()


# A storage node that has left while nobody looked


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("says", ["", "Mode: STARTING"])
def test_one_that_has_left_and_started_again_is_ended(made_up, says, ends):
    """It refuses to join, and is started for ever; unless the others have it in their rings."""
    made_up.program("nodetool", f'[ -n "{says}" ] && echo "{says}"\n')
    status, said = made_up.play(
        PLAYBOOKS / "decommission.yml",
        {"storage": ["storage-1", "storage-4"]},
        {"operate_host": "storage-4", "operate_left": ends, "operate_stream_seconds": 15},
        nodetool=str(made_up.bin / "nodetool"),
        unit="cassandra",
    )
    assert (status == 0) == ends, said
    assert made_up.calls("nodetool") == ["nodetool netstats"]
    assert made_up.is_("state") == ("inactive" if ends else "active")
    assert made_up.is_("enabled") == ("disabled" if ends else "enabled")


def test_nor_does_it_matter_whether_its_machine_is_there(made_up):
    status, said = made_up.play(
        PLAYBOOKS / "decommission.yml",
        {"storage": ["storage-4"]},
        {"operate_host": "storage-4", "operate_left": True, "operate_stream_seconds": 15},
        nodetool="nodetool",
        ansible_connection="ssh",
        ansible_host="127.0.0.1",
        ansible_port=1,
    )
    assert status == 0, said
    assert "UNREACHABLE" in said


@pytest.mark.parametrize(
    ("ring", "left"),
    [
        ({"10.77.0.11": "UN", "10.77.0.12": "UN", "10.77.0.1": "UN"}, True),
        ({**test_replace.RING, "10.77.0.14": "UL"}, False),
        (None, False),
    ],
)
def test_only_an_interrupted_decommission_asks_whether_it_has_left(site, monkeypatch, ring, left):
    """Of a node that is to leave and is in no ring nobody knows why, before the verb has begun."""
    site.has(storage_4="10.77.0.14")
    told = []

    def playbook(*_: Any, operate_left: bool, **__: Any) -> None:
        told.append(operate_left)
        raise KeyboardInterrupt

    monkeypatch.setattr(deploy, "playbook", playbook)
    monkeypatch.setattr(cluster, "_ring", lambda _: ring)
    monkeypatch.setattr(removing, "_no_room_for", lambda *_: [])
    monkeypatch.setattr(nodes, "check_only_count_changes", lambda *_: None)
    monkeypatch.setattr(Deployed, "refuse_unless_whole", lambda *_: None)
    finished_file("lab").touch()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            removing.decommission(site.deployed, planned(), "storage-4")
    assert told == [False, left]


# A KairosDB node that an interrupted drain keeps shut


def test_it_is_opened_before_another_one_is_drained(made_up):
    """Else none would take points. To whoever asks over its own loopback it is well."""
    made_up.has(shut="")
    status, said = made_up.play(PLAYBOOKS / "let-in.yml", {"kairosdb": ["kairosdb-1"]}, {})
    assert status == 0, said
    assert not (made_up.folder / "shut").exists()
    for verb in ("deploy", "rolling-restart", "upgrade-system", "remove-kairosdb"):
        plays = yaml.safe_load((PLAYBOOKS / f"{verb}.yml").read_text())
        drained = [
            i for i, play in enumerate(plays) if play.get("hosts", "").startswith("kairosdb")
        ]
        first = drained[0] if drained else len(plays) - 1
        assert plays[first - 1].get("ansible.builtin.import_playbook") == "let-in.yml", verb


# ScyllaDB's packages, whose installation was cut off

# As dpkg and apt do it (tried with 1.21.22 and 2.6.1): there is a journal of what was begun, and of
# configuration files they ask whoever is not there.
DPKG = """
case "$*" in
  *force-confold*--configure*) rm -f interrupted ;;
  *--configure*) echo "end of file on stdin at conffile prompt" >&2; exit 1 ;;
esac
"""
APT = """
[ ! -e interrupted ] || { echo "E: dpkg was interrupted, you must manually …" >&2; exit 100; }
"""


@pytest.mark.parametrize("file", ["upgrade.yml", "install.yml"])
def test_an_installation_that_was_cut_off_is_finished_before_apt_is_asked(made_up, file):
    """apt refuses to fetch before; the node, which is down, stayed so."""
    role = made_up.folder / "roles" / "scylla"
    shutil.copytree(paths.ANSIBLE / "roles" / "scylla", role)
    tasks = role / "tasks" / "package"
    # What would change this machine.
    for name in ("repository", "pin", "select"):
        (tasks / f"{name}.yml").write_text("[]\n")
    found = yaml.safe_load((tasks / file).read_text())
    if file == "upgrade.yml":
        (change,) = [task for task in found if "block" in task]
        names = [task["name"] for task in change["block"]]
        del change["block"][names.index("Fetch it") + 1 :]
    else:
        names = [task["name"] for task in found]
        install = found[names.index("Install")]
        install["ansible.builtin.command"] = {"argv": ["apt-get", "install"]}
        del install["ansible.builtin.apt"]
    (tasks / file).write_text(yaml.safe_dump(found))
    made_up.has(state="inactive", interrupted="")
    made_up.program("dpkg", DPKG)
    made_up.program("apt-get", APT)
    made_up.program(
        "dpkg-query",
        'echo "scylla installed 2026.1.11-0"; echo "scylla-server unpacked 2026.2.5-0"',
    )
    (made_up.folder / "play.yml").write_text(
        json.dumps([{"name": "Storage nodes", "hosts": "storage", "roles": ["scylla"]}])
    )
    (role / "tasks" / "main.yml").write_text(
        yaml.safe_dump(
            [
                {"ansible.builtin.include_tasks": "package/installed.yml"},
                {"ansible.builtin.include_tasks": f"package/{file}"},
            ]
        )
    )
    (role / "meta" / "argument_specs.yml").unlink()
    status, said = made_up.play(
        made_up.folder / "play.yml", {"storage": ["storage-1"]}, {}, scylla_version="2026.2.5"
    )
    assert status == 0, said
    asked = made_up.calls("dpkg", "apt-get")
    assert [call.split()[0] for call in asked] == ["dpkg", "apt-get"]
