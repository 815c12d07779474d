"""What Ansible does as root on a host, and the services there may not turn to their use."""

import base64
import hashlib
import os
import pwd
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from test_firewall import trusted

from kairoscope import paths

ROLES = paths.ANSIBLE / "roles"
# Folders that a service writes; whatever else there is on a host is root's.
OF_SERVICES = {"log", "queue", "tmp", "data"}


def tasks_of(role: str) -> Iterator[dict[str, Any]]:
    """All tasks of a role, those in blocks too."""

    def flat(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for task in tasks:
            yield task
            for part in ("block", "rescue", "always"):
                yield from flat(task.get(part, []))

    for path in sorted((ROLES / role / "tasks").rglob("*.yml")):
        yield from flat(yaml.safe_load(path.read_text()))


# But the restore of a backup, whose files the server moves (docs/security.md).
BUT = {"restore"}
# The one task that gives a service something.
OWN = "Folders of the service"
MANY = sorted({path.name for path in ROLES.iterdir() if (path / "tasks").is_dir()} - BUT)


@pytest.mark.parametrize("role", MANY)
def test_a_service_owns_what_it_writes_and_nothing_else(role):
    """It could put a link in the place of what it owns, and root would follow it."""
    for task in tasks_of(role):
        for folder in task.get("vars", {}).get("service_own_folders", []):
            assert folder.rpartition("/")[2] in OF_SERVICES, task["name"]
        if role == "service" and task["name"] == OWN:
            continue
        for module in ("file", "copy", "template", "lineinfile"):
            owner = task.get(f"ansible.builtin.{module}", {}).get("owner", "root")
            assert owner.startswith(("root", "{{ 'root' if")), task["name"]


@pytest.mark.parametrize("role", MANY)
def test_root_writes_nothing_where_a_service_could_put_a_link(role):
    for task in tasks_of(role):
        for module in ("copy", "template", "lineinfile"):
            given = task.get(f"ansible.builtin.{module}", {})
            place = str(given.get("dest", given.get("path", "")))
            found = re.search(r"home \}\}/(\w+)", place)
            assert not found or found[1] not in OF_SERVICES, (task["name"], place)


def played(
    tmp_path: Path, play: dict[str, Any], umask: int = -1
) -> subprocess.CompletedProcess[str]:
    """What became of a play on this machine, with nothing of ours around it."""
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    return subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), tmp_path / "play.yml", "-c", "local"],
        env=os.environ | {"ANSIBLE_HOME": str(tmp_path), "ANSIBLE_LOCALHOST_WARNING": "false"},
        cwd=tmp_path,
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_link_in_the_place_of_a_folder_fails_the_deploy(tmp_path):
    """What it leads to keeps its owner and its mode."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    home = tmp_path / "home"
    home.mkdir()
    (home / "tmp").symlink_to(elsewhere)
    (own,) = [task for task in tasks_of("service") if task["name"] == OWN]
    defaults = yaml.safe_load((ROLES / "service" / "defaults" / "main.yml").read_text())
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": defaults
        | {
            "run_as": pwd.getpwuid(os.getuid()).pw_name,
            "service_home": str(home),
            "service_own_folders": ["log", "tmp"],
        },
        "tasks": [own],
    }
    done = played(tmp_path, play)
    assert done.returncode == 2, done.stdout + done.stderr
    assert elsewhere.stat().st_mode & 0o777 == 0o700
    assert (home / "log").is_dir()


def owners(folder: Path) -> dict[str, tuple[int, int]]:
    """Whose a folder is and all in it, and for whom; of a link that is nobody's."""
    found = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {
        path.name: (stat.st_uid, 0 if path.is_symlink() else stat.st_mode & 0o777)
        for path, stat in found.items()
    }


def test_what_is_unpacked_of_a_bundle_is_not_its_builders(tmp_path):
    """As an archive of an earlier release has it in it, with the builder's umask; and the login of
    the host has one too, by which tar makes folders."""
    (tmp_path / "bin" / "more").mkdir(parents=True)
    tools = {"bin/more/tool": 0o755, "bin/data": 0o644}
    for name, mode in tools.items():
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    (tmp_path / "bin" / "link").symlink_to("data")
    sums = [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in tools]
    (tmp_path / "SHA256SUMS").write_text("".join(sums))

    def theirs(member):
        member.uid = member.gid = 1234
        member.mode &= 0o700
        return member

    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name in (*tools, "bin/link", "SHA256SUMS"):
            tar.add(tmp_path / name, arcname=name, filter=theirs)
    tasks = yaml.safe_load((ROLES / "bundle" / "tasks" / "main.yml").read_text())
    given = {"bundle_dir": str(tmp_path / "opt"), "bundle_archive": str(tmp_path / "x.tar")}
    python = {"ansible_python_interpreter": sys.executable}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {**python, **given},
        "tasks": tasks,
    }
    done = played(tmp_path, play, 0o077)
    assert done.returncode == 0, done.stdout + done.stderr
    opt, mine = tmp_path / "opt", os.geteuid()
    assert (opt / "checked").exists()
    modes = {"bin": 0o755, "more": 0o755, "tool": 0o755, "data": 0o644, "link": 0}
    wanted = {name: (mine, mode) for name, mode in modes.items()}
    assert owners(opt / "bin") == wanted
    done = played(tmp_path, play, 0o077)
    assert "changed=0" in done.stdout, done.stdout + done.stderr

    # A host of an earlier release, which had not seen to it.
    (opt / "readable").unlink()
    for path in (opt / "bin").rglob("*"):
        if mine == 0:
            os.chown(path, 1234, 1234, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
    done = played(tmp_path, play, 0o077)
    assert done.returncode == 0, done.stdout + done.stderr
    assert owners(opt / "bin") == wanted


@pytest.mark.parametrize(("uid", "as_whom"), [(0, "cassandra"), (1000, None)])
def test_nodetool_is_not_run_as_root(tmp_path, uid, as_whom):
    """It is a program of root's that reads and writes what the service owns."""
    source = (ROLES / "cassandra" / "templates" / "nodetool.j2").read_text()
    facts = {"java": f"{tmp_path}/java", "home": "/h", "run_as": "cassandra", "jmx_port": 7199}
    text = jinja2.Template(source, trim_blocks=True).render(facts)
    (tmp_path / "nodetool").write_text(text)
    for name, says in {
        "id": f"echo {uid}",
        "setpriv": "echo setpriv $*",
        "java": "echo java",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["sh", str(tmp_path / "nodetool"), "status"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    nodetool = tmp_path / "nodetool"
    become = f"setpriv --reuid {as_whom} --regid {as_whom} --init-groups -- {nodetool} status"
    assert done.stdout.strip() == (become if as_whom else "java")
    local = {name: value for name, value in facts.items() if name != "run_as"}
    assert "setpriv" not in jinja2.Template(source).render(local)


OLD, NEW, OTHER = (
    f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n" for name in "abc"
)


@pytest.mark.parametrize(
    ("theirs", "ours", "taken"),
    [
        (None, OLD, True),  # a new host
        (OLD, OLD, True),
        (OLD, OLD + NEW, True),  # a change of the CA, step by step
        (OLD + NEW, NEW, True),
        (OTHER, OLD, False),
        (OTHER, OLD + NEW, False),
    ],
)
def test_no_host_is_given_the_certificates_of_another_ca(tmp_path, theirs, ours, taken):
    """They are those of a person, or of a checkout, without the deployment's secrets."""
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "ca.crt").write_text(ours)
    tasks = yaml.safe_load((ROLES / "pki" / "tasks" / "check.yml").read_text())
    (refuse,) = (task for task in tasks if task["name"].startswith("Refuse"))
    content = {} if theirs is None else {"content": base64.b64encode(theirs.encode()).decode()}
    facts = {"secrets_dir": str(tmp_path), "pki_trusted": content, **trusted(refuse["vars"])}
    holds = trust_as_template("{{ " + refuse["ansible.builtin.assert"]["that"] + " }}")
    assert Templar(DataLoader(), variables=facts).template(holds) is taken


def test_whose_deployment_it_is_is_asked_before_anything_is_changed():
    plays = yaml.safe_load((paths.ANSIBLE / "playbooks" / "deploy.yml").read_text())
    first = next(play for play in plays if "tasks" in play)
    assert [task["ansible.builtin.include_role"] for task in first["tasks"]] == [
        {"name": "preflight"},
        {"name": "pki", "tasks_from": "check"},
    ]


def test_a_missing_disk_stops_the_service_and_not_the_host():
    """RequiredBy=local-fs.target would start the host into emergency mode, without sshd."""
    mount = (ROLES / "data_disk" / "templates" / "data.mount.j2").read_text()
    assert "\nWantedBy=local-fs.target\n" in mount
    assert "RequiredBy=" not in mount
    unit = (ROLES / "service" / "templates" / "unit.service.j2").read_text()
    head, _, _ = unit.partition("[Service]")
    assert "\nRequiresMountsFor={{ service_home }}\n" in head


def test_a_java_that_does_not_run_on_the_host_is_told():
    refuse = next(task for task in tasks_of("java") if task["name"] == "It runs here")
    said = "java: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found"
    facts = {
        "inventory_hostname": "kairosdb-1",
        "bundles_dir": "/b",
        "java_says": {"rc": 1, "stderr_lines": [said], "stdout_lines": []},
    }
    given = trusted(refuse["ansible.builtin.assert"])
    there = Templar(DataLoader(), variables=facts)
    assert there.template(trust_as_template("{{ " + given["that"] + " }}")) is False
    assert said in there.template(given["fail_msg"])


SCHEMAS = """Cluster Information:
\tName: kairoscope
\tSchema versions:
{versions}
Stats for all nodes:
\tLive: 2
Database versions:
\t5.0.9: [10.0.0.1:7000, 10.0.0.2:7000]
\t5.0.8: [10.0.0.3:7000]
"""


@pytest.mark.parametrize(
    ("versions", "agreed"),
    [
        ({"54e17321": ["10.0.0.1", "10.0.0.2"]}, True),
        ({"54e17321": ["10.0.0.1"], "86afa796": ["10.0.0.2"]}, False),
        ({"54e17321": ["10.0.0.1"], "UNREACHABLE": ["10.0.0.2"]}, False),
        ({"54e17321": ["10.0.0.1"]}, False),
        ({"UNREACHABLE": ["10.0.0.1", "10.0.0.2"]}, False),
        ({}, False),
    ],
)
def test_no_node_is_taken_down_while_the_schema_is_not_one(versions, agreed):
    (task,) = [task for task in tasks_of("ring") if task.get("register") == "ring_cluster"]
    assert task["failed_when"] == "not ring_agreed"
    lines = "".join(f"\t\t{name}: [{', '.join(of)}]\n\n" for name, of in versions.items())
    given = {
        **trusted(task["vars"]),
        "ring_cluster": {"rc": 0, "stdout": SCHEMAS.format(versions=lines)},
        "groups": {"storage": ["storage-1", "storage-2"]},
    }
    templar = Templar(loader=DataLoader(), variables=given)
    assert templar.template(trust_as_template("{{ ring_agreed }}")) is agreed
