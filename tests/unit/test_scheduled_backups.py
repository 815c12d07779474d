"""Backups that storage hosts send by themselves: what is sent, when it is whole, when it goes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from click.testing import CliRunner
from test_operate import here_as_host, planned

from kairoscope import paths
from kairoscope.cli.main import main
from kairoscope.deploy.operate import data, snapshots
from kairoscope.errors import UserError
from kairoscope.stacks.kairosdb.servers import client

SEND = paths.ANSIBLE / "roles" / "backups" / "files" / "send.py"
FILES = {
    "data_points/nb-1-big-Data.db": b"\0\1" * 70_000,
    "data_points/nb-1-big-TOC.txt": b"Data.db\n",
    "data_points/manifest.json": b"{}",
    "row_keys/schema.cql": b"CREATE TABLE",
}
# Makes snapshots of the files beside the folder `snapshots` of each table, and notes its calls.
NODETOOL = """#!/bin/sh
echo "$@" >> "{top}/calls"
case $1 in
  snapshot)
    for table in "{top}"/tables/kairosdb/*; do
      mkdir -p "$table/snapshots/$3"
      find "$table" -maxdepth 1 -type f -exec cp '{{}}' "$table/snapshots/$3" ';'
    done ;;
  clearsnapshot) rm -rf "{top}"/tables/*/*/snapshots/"$3" ;;
  info) printf 'ID : x\\nToken                  : -7\\nToken                  : 12\\n' ;;
esac
"""
RCLONE = """#!/bin/sh
echo "$@" >> "{top}/sent"
exit {status}
"""


class Node:
    """A storage host's folders, its nodetool, and the program."""

    def __init__(self, top: Path, name: str = "storage-1", **more: Any):
        self.top = top / name
        self.name = name
        for file, content in FILES.items():
            table, _, name = file.partition("/")
            path = self.top / "tables" / "kairosdb" / f"{table}-{'a' * 32}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.program("nodetool", NODETOOL.format(top=self.top))
        (self.top / "textfile").mkdir()
        self.config = {
            "to": str(top / "to"),
            "keep_days": 14,
            "about": {
                "keyspace": "kairosdb",
                "replication_factor": 2,
                "nodes": ["storage-1", "storage-2"],
            },
            "region": "eu-central-1",
            "endpoint": "",
            "node": self.name,
            "address": "10.0.0.1",
            "rack": "rack1",
            "nodetool": str(self.top / "nodetool"),
            "keyspace": "kairosdb",
            "keyspaces_dir": str(self.top / "tables"),
            "scratch": str(self.top / "scratch"),
            "began": str(self.top / "began"),
            "textfile": str(self.top / "textfile"),
            **more,
        }
        (self.top / "config.json").write_text(json.dumps(self.config))

    def program(self, name: str, text: str) -> None:
        (self.top / name).write_text(text)
        (self.top / name).chmod(0o755)

    def send(self, *more: str) -> subprocess.CompletedProcess[str]:
        sending = self.start(*more)
        said = sending.communicate()
        return subprocess.CompletedProcess([], sending.returncode, *said)

    def start(self, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, SEND, self.top / "config.json", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PATH": f"{self.top}:{os.environ['PATH']}"},
        )

    def calls(self) -> list[str]:
        return [line.split()[0] for line in (self.top / "calls").read_text().splitlines()]


def wait_for(path: Path) -> None:
    for _ in range(3000):
        if path.exists():
            return
        time.sleep(0.02)
    pytest.fail(f"no {path}")


def sent(tmp_path: Path, *names: str) -> Path:
    """The folder of a backup that these nodes have sent."""
    (tmp_path / "to").mkdir()
    for name in names:
        done = Node(tmp_path, name).send()
        assert done.returncode == 0, done.stderr
    # A minute may have ended between them, which it does not where timers start them.
    first, *others = sorted((tmp_path / "to").iterdir())
    for other in others:
        for part in other.iterdir():
            part.replace(first / part.name)
    return first


def test_what_the_hosts_sent_is_restored_as_any_backup(tmp_path):
    backup = sent(tmp_path, "storage-1", "storage-2")
    snapshots.gather(backup)
    manifest = snapshots.read(backup)
    assert manifest["keyspace"] == "kairosdb"
    assert manifest["nodes"]["storage-2"]["tokens"] == ["-7", "12"]
    assert snapshots.ring_of(manifest).racks == {"storage-1": "rack1", "storage-2": "rack1"}
    assert snapshots.size(manifest, ["storage-1"]) == sum(map(len, FILES.values()))
    to = tmp_path / "restored"
    host = here_as_host(tmp_path)
    assert snapshots.send(host, backup / "storage-1", str(to)) == ["data_points"]
    found = {str(p.relative_to(to)): p.read_bytes() for p in to.rglob("*") if p.is_file()}
    assert found == {name: FILES[name] for name in FILES if "nb-1" in name}


def test_a_backup_that_can_be_restored_whole(tmp_path):
    said = data.check(str(sent(tmp_path, "storage-1", "storage-2")))
    assert "2 nodes, 8 files, 0.3 MiB, all as they were sent" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda file: file.unlink(), "nb-1-big-Data.db is not there"),
        (lambda file: file.write_bytes(b"cut"), "nb-1-big-Data.db is not what manifest.json says"),
        (
            lambda file: file.write_bytes(b"\1" * file.stat().st_size),
            "nb-1-big-Data.db is not what manifest.json says",
        ),
    ],
)
def test_damage_is_told_before_it_is_needed(change, said, tmp_path):
    backup = sent(tmp_path, "storage-1", "storage-2")
    change(backup / "storage-2" / "data_points" / "nb-1-big-Data.db")
    with pytest.raises(
        UserError, match=f"cannot be restored whole:\n  storage-2/data_points/{said}$"
    ):
        data.check(str(backup))


def test_a_part_of_a_table_s_file_that_was_never_sent_is_told(tmp_path):
    backup = sent(tmp_path, "storage-1", "storage-2")
    part = backup / "storage-1" / "node.json"
    said = json.loads(part.read_text())
    del said["files"]["data_points/nb-1-big-Data.db"]
    part.write_text(json.dumps(said))
    with pytest.raises(UserError, match=r"nb-1-big-Data.db belongs to .*TOC.txt, and was not sent"):
        data.check(str(backup))


def test_a_snapshot_is_given_up_whatever_happens(tmp_path):
    node = Node(tmp_path, to="s3://bucket/backups/scheduled")
    node.program("rclone", RCLONE.format(top=node.top, status=1))
    assert node.send().returncode != 0
    assert node.calls() == ["snapshot", "clearsnapshot"]
    assert not list((node.top / "tables").rglob("snapshots/*"))
    assert not (node.top / "began").exists()


def test_one_that_is_ended_gives_its_snapshot_up(tmp_path):
    """By systemd after 20 hours, or as the host reboots."""
    node = Node(tmp_path, to="s3://bucket/backups/scheduled")
    node.program("rclone", f'#!/bin/sh\ntouch "{node.top}/sends"; exec sleep 600\n')
    sending = node.start()
    try:
        wait_for(node.top / "sends")
        sending.send_signal(signal.SIGTERM)
        _, said = sending.communicate(timeout=60)
    finally:
        sending.kill()
    assert sending.returncode == 1
    assert "ended before it was whole" in said
    assert node.calls() == ["snapshot", "clearsnapshot"]
    assert not list((node.top / "tables").rglob("snapshots/*"))


def test_what_one_left_that_could_not_is_given_up_by_the_next(tmp_path):
    (tmp_path / "to").mkdir()
    node = Node(tmp_path)
    node.program("rclone", RCLONE.format(top=node.top, status=0))
    by_hand, upgrade = "kairoscope-20261127T030005Z", "before-upgrade-20261127T030005Z"
    for tag in ("kairoscope-20261127T0300Z", "kairoscope-20261126T0300Z", by_hand, upgrade):
        for table in (node.top / "tables" / "kairosdb").iterdir():
            (table / "snapshots" / tag).mkdir(parents=True)
    assert node.send().returncode == 0
    # One by hand may be under way.
    assert {path.name for path in (node.top / "tables").rglob("snapshots/*")} == {by_hand, upgrade}


def test_a_host_that_sends_to_s3_need_only_be_allowed_to_write(tmp_path):
    node = Node(tmp_path, to="s3://bucket/backups/scheduled")
    node.program("rclone", RCLONE.format(top=node.top, status=0))
    assert node.send().returncode == 0
    calls = (node.top / "sent").read_text().splitlines()
    for call in calls:
        assert call.startswith("copy ")
        assert {"--no-check-dest", "--no-traverse", "--s3-no-head", "--s3-no-check-bucket"} <= set(
            call.split()
        )
    # What says that it is whole goes last.
    where = (
        r":s3,provider=AWS,env_auth=true,region=eu-central-1:bucket/backups/scheduled/\d{8}T\d{4}Z"
    )
    last = [re.search(rf"{where}(\S*)$", call) for call in calls]
    assert [found and found[1] for found in last] == [
        *("/storage-1/data_points", "/storage-1/row_keys"),
        *("", "/storage-1"),
    ]


def test_a_folder_that_is_not_mounted_is_told(tmp_path):
    node = Node(tmp_path)
    assert "is not there: is it mounted?" in node.send().stderr
    assert not (node.top / "calls").exists()


def test_one_that_not_all_nodes_have_sent_is_not_whole(tmp_path):
    backup = sent(tmp_path, "storage-1")
    with pytest.raises(UserError, match="storage-2 did not send all of its part"):
        snapshots.gather(backup)
    with pytest.raises(UserError, match="no whole backup"):
        snapshots.read(backup)


@pytest.mark.parametrize("name", ["../x/y", "a/../b", "a/.ssh", "/etc/passwd", "a/b/c", ""])
def test_a_host_does_not_name_files_elsewhere(name, tmp_path):
    backup = sent(tmp_path, "storage-1", "storage-2")
    part = backup / "storage-2" / "node.json"
    said = json.loads(part.read_text())
    said["files"][name] = {"bytes": 1, "sha256": ""}
    part.write_text(json.dumps(said))
    with pytest.raises(UserError, match="has no such file"):
        snapshots.gather(backup)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nodes": 3}', '{"nodes": ["storage-1"]}'])
def test_what_is_no_such_backup_is_told(text, tmp_path):
    (tmp_path / "about.json").write_text(text)
    (tmp_path / "storage-1").mkdir()
    (tmp_path / "storage-1" / "node.json").write_text("[]")
    with pytest.raises(UserError, match="no whole backup"):
        snapshots.gather(tmp_path)


def test_what_is_old_goes_from_a_folder_and_nothing_else(tmp_path):
    to, now = tmp_path / "to", time.time()

    def name(days: float) -> str:
        return time.strftime("%Y%m%dT%H%MZ", time.gmtime(now - days * 86_400))

    for folder in (name(13), name(15), name(16), "by-hand", "20200101"):
        for node in ("storage-1", "storage-2"):
            (to / folder / node).mkdir(parents=True)
        (to / folder / "about.json").touch()
    (to / name(16) / "storage-2").rmdir()
    assert Node(tmp_path).send().returncode == 0
    left = {p.name: {part.name for part in p.iterdir()} for p in to.iterdir()}
    assert left.pop(name(15)) == {"storage-2", "about.json"}
    whole = {"storage-1", "storage-2", "about.json"}
    assert [left.pop(name) for name in (name(13), "by-hand", "20200101")] == [whole] * 3
    assert list(left.values()) == [{"storage-1", "about.json"}]  # The new one.


def test_prometheus_hears_of_it(tmp_path):
    (tmp_path / "to").mkdir()
    node = Node(tmp_path)
    assert node.send().returncode == node.send("--tell").returncode == 0
    said = (node.top / "textfile" / "backup.prom").read_text()
    assert re.search(r"\nkairoscope_last_backup_timestamp_seconds \d{10}\n$", said)
    # The same as after a backup by the verb, so that alerts go on.
    tasks = (paths.ANSIBLE / "roles/node_exporter/tasks/done.yml").read_text()
    assert "kairoscope_last_{{ node_exporter_verb }}_timestamp_seconds" in tasks


def told(release: str, columns: list[tuple[str, str]], folder: Path, monkeypatch: Any) -> Any:
    """What the command says that the role calls, of servers and tables such as these."""
    rows = [
        SimpleNamespace(table_name=table, column_name=name, type="blob", kind="regular")
        for table, name in columns
    ]
    tables = {"kairosdb": SimpleNamespace(export_as_string=lambda: "CREATE TABLE …")}
    db = SimpleNamespace(
        execute=lambda *_: rows,
        cluster=SimpleNamespace(metadata=SimpleNamespace(keyspaces=tables)),
    )

    @contextmanager
    def connect(*_: Any) -> Any:
        yield SimpleNamespace(cql=connect_cql)

    @contextmanager
    def connect_cql(*_: Any) -> Any:
        yield db

    monkeypatch.setattr(client, "connect", connect)
    (folder / "plan.json").write_text(planned().to_json())
    everywhere = {
        "storage_engine": "scylla",
        "scylla_version": release,
        "kairosdb_version": "1.3.0-1",
        "kairosdb_keyspace": "kairosdb",
        "plan_file": str(folder / "plan.json"),
    }
    hosts = {"storage": {"hosts": {"storage-1": {"address": "10.0.0.1"}}}}
    hosts |= {group: {"hosts": {}} for group in ("kairosdb", "loader", "monitoring")}
    (folder / "inventory.yml").write_text(
        yaml.safe_dump({"all": {"vars": everywhere, "children": hosts}})
    )
    done = CliRunner().invoke(
        main, ["operate", "backups-about", "--inventory", str(folder / "inventory.yml")]
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_deploy_renews_what_they_say_of_servers_and_tables(tmp_path, monkeypatch):
    """Else a backup names the release before an upgrade, and columns that a restore compares."""
    before = told("2026.1.11", [("row_keys", "a")], tmp_path, monkeypatch)
    after = told("2026.2.5", [("row_keys", "b"), ("row_keys", "a")], tmp_path, monkeypatch)
    assert before["versions"]["scylla"] == "2026.1.11"
    assert after["versions"]["scylla"] == "2026.2.5"
    assert [column[1] for column in after["columns"]] == ["a", "b"]
    assert after["replication_factor"] == 3

    # The hosts are told what was asked in this deploy, whatever backups.json has.
    role = paths.ANSIBLE / "roles" / "backups"
    wanted = {"to": "/srv/backups", "keep_days": 14, "about": before}
    facts = {
        "backups": wanted,
        "backups_about": {"stdout": json.dumps(after)},
        "backups_endpoint": "",
        "groups": {"storage": ["storage-1", "storage-2"]},
        "inventory_hostname": "storage-1",
        "address": "10.0.0.1",
        "rack": 1,
        "nodetool": "nodetool",
        "kairosdb_keyspace": "kairosdb",
        "keyspaces_dir": "/var/lib/scylla/data",
    }
    text = (role / "templates" / "backup.json.j2").read_text()
    said = Templar(DataLoader(), variables=facts).template(trust_as_template(text))
    said = json.loads(said) if isinstance(said, str) else said
    assert said["rack"] == "1"
    assert said["about"] == after | {"nodes": ["storage-1", "storage-2"]}


def test_they_are_told_once_all_servers_are_deployed():
    plays = yaml.safe_load((paths.ANSIBLE / "playbooks" / "deploy.yml").read_text())
    names = [str(play) for play in plays]
    (backups,) = [n for n, play in enumerate(names) if "'name': 'backups'" in play]
    (schema,) = [n for n, play in enumerate(names) if "'name': 'schema'" in play]
    (kairosdb,) = [n for n, play in enumerate(names) if "'role': 'kairosdb'" in play]
    assert schema < kairosdb < backups
