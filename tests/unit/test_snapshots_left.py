"""What the playbooks leave of snapshots, by Ansible itself, on folders of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_scheduled_backups import NODETOOL, Node

from kairoscope import paths

NOW = "kairoscope-20261128T101112Z"
BY_HAND = "kairoscope-20261127T101112Z"
BY_TIMER = "kairoscope-20261127T0300Z"
UPGRADE = "before-upgrade-20261127T101112Z"
OTHERS = {"dropped-1764000000000-data_points", "mine"}
EVERYTHING = {BY_HAND, BY_TIMER, UPGRADE, *OTHERS}


class Hosts:
    """Storage hosts that are folders, with snapshots in them."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.nodes = [Node(top, name) for name in ("storage-1", "storage-2")]
        for node in self.nodes:
            for tag in EVERYTHING:
                for table in (node.top / "tables" / "kairosdb").iterdir():
                    (table / "snapshots" / tag).mkdir(parents=True)
        self.program("systemctl", "echo inactive; exit 3")
        self.program("kairoscope", f'echo "$@" >> "{top}/fetched"')
        (top / "plan.json").write_text("{}")

    def program(self, name: str, text: str) -> None:
        (self.top / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.top / name).chmod(0o755)

    def play(self, name: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run a playbook of ours as a verb does."""
        everywhere = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "plan_file": str(self.top / "plan.json"),
            "secured": False,
            "kairosdb_keyspace": "kairosdb",
            "kairoscope": str(self.top / "kairoscope"),
        }
        storage = {
            node.name: {
                "keyspaces_dir": node.config["keyspaces_dir"],
                "nodetool": node.config["nodetool"],
            }
            for node in self.nodes
        }
        inventory = self.top / "inventory.yml"
        inventory.write_text(
            yaml.safe_dump(
                {"all": {"vars": everywhere, "children": {"storage": {"hosts": storage}}}}
            )
        )
        tool = Path(sys.executable).with_name("ansible-playbook")
        return subprocess.run(
            [
                *(tool, "-i", inventory, "--extra-vars", json.dumps(variables)),
                paths.ANSIBLE / "playbooks" / f"{name}.yml",
            ],
            cwd=paths.ANSIBLE,
            env=os.environ
            | {
                "ANSIBLE_CONFIG": str(paths.ANSIBLE / "ansible.cfg"),
                "PATH": f"{self.top}:{os.environ['PATH']}",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def backup(self) -> subprocess.CompletedProcess[str]:
        return self.play("backup", operate_tag=NOW, operate_folder=str(self.top / "to"))

    def left(self) -> list[set[str]]:
        """The snapshots of each node."""
        return [
            {path.name for path in (node.top / "tables").rglob("snapshots/*")}
            for node in self.nodes
        ]


@pytest.fixture
def hosts(tmp_path):
    return Hosts(tmp_path)


def test_a_backup_gives_up_what_others_left_and_its_own(hosts):
    done = hosts.backup()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((hosts.top / "fetched").read_text().splitlines()) == 2
    assert hosts.left() == [{UPGRADE, *OTHERS}] * 2


def test_one_that_fails_on_a_node_leaves_no_snapshot_on_the_others(hosts):
    node = hosts.nodes[1]
    refuses = NODETOOL.format(top=node.top).replace("  snapshot)", "  snapshot) exit 1")
    node.program("nodetool", refuses)
    assert hosts.backup().returncode != 0
    assert not (hosts.top / "fetched").exists()
    assert hosts.left() == [{UPGRADE, *OTHERS}] * 2


def test_snapshots_are_cleared_but_of_a_backup_that_a_host_is_sending(hosts):
    hosts.program("systemctl", "echo activating; exit 3")
    done = hosts.play("clear-snapshots")
    assert done.returncode == 0, done.stdout + done.stderr
    assert hosts.left() == [{BY_TIMER, *OTHERS}] * 2
    hosts.program("systemctl", "echo inactive; exit 3")
    assert hosts.play("clear-snapshots").returncode == 0
    assert hosts.left() == [OTHERS] * 2
