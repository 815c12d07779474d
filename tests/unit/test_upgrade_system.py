"""A host's own packages: what is upgraded, what stays, what starts anew and what has to wait."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import scylla_stand_in
import yaml
from test_replace import RING, Site

from kairoscope import paths
from kairoscope.deploy import deploy
from kairoscope.deploy.operate import cluster, servers
from kairoscope.deploy.operate.deployed import Deployed
from kairoscope.errors import UserError
from kairoscope.hosts import operation
from kairoscope.hosts.deployed import finished_file

ROLES = paths.ANSIBLE / "roles"
PLAYBOOK = paths.ANSIBLE / "playbooks" / "upgrade-system.yml"

# While a load runs


@pytest.fixture
def site(monkeypatch, tmp_path):
    """A target of which all is well, and what would be run on it."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    site = Site()
    site.ring = dict.fromkeys(RING, "UN")
    monkeypatch.setattr(cluster, "_ring", lambda _: site.ring)
    monkeypatch.setattr(cluster, "_schemas", lambda _: 1)
    monkeypatch.setattr(cluster, "_kairosdb", lambda *_: site.kairosdb)
    monkeypatch.setattr(deploy, "playbook", site.playbook)
    monkeypatch.setattr(Deployed, "confirm", site.confirm)
    site.has()
    finished_file("lab").touch()
    return site


@pytest.mark.parametrize("limit", [None, "loader-1"])
def test_no_host_that_sends_a_load_is_rebooted_under_it(site, limit):
    with operation.hold(operation.load_lock("lab"), "mine"):
        why = "A load runs on target lab: upgrade-system may reboot loader-1; --limit takes another"
        with pytest.raises(UserError, match=why):
            servers.upgrade_system(site.deployed, limit)
        assert site.calls == []
    servers.upgrade_system(site.deployed, limit)
    assert site.calls[0] == ("upgrade-system", "")


@pytest.mark.parametrize("limit", ["storage-1", "kairosdb-1", "monitoring-1"])
def test_the_others_are_what_a_load_can_do_without(site, limit):
    with operation.hold(operation.load_lock("lab"), "mine"):
        servers.upgrade_system(site.deployed, limit)
        servers.rolling_restart(site.deployed, None)
    assert [call[0] for call in site.calls] == [
        *("upgrade-system", "confirm", "rolling-restart", "confirm")
    ]


def test_none_can_begin_meanwhile(site, monkeypatch):
    def begin(*_: Any, **__: Any) -> None:
        with operation.hold(operation.load_lock("lab"), "a load cannot begin"):
            pass

    monkeypatch.setattr(deploy, "playbook", begin)
    with pytest.raises(UserError, match="a load cannot begin"):
        servers.upgrade_system(site.deployed, None)


# What starts anew: lines of /proc/<pid>/maps

# Of Cassandra 5.0.9 on a host of the lab that ran for half an hour, and nothing had been upgraded.
UNPACKED = """\
7fc1e0ae7000-7fc1e0ae8000 r-xp 00000000 00:ac 15                         /tmp/ffiOJKbMs (deleted)
7fc157c00000-7fc157c1e000 r-xp 00000000 07:05 262173                     /var/lib/kairoscope/storage-1/tmp/jna7949835690850045452.tmp (deleted)
7fc1e0800000-7fc1e0823000 r--p 00000000 07:05 262166                     /var/lib/kairoscope/storage-1/tmp/libnetty_tcnative_linux_x86_6410196661094394935212.so (deleted)
7fc153800000-7fc153812000 r-xp 00000000 07:05 262176                     /var/lib/kairoscope/storage-1/tmp/libnetty_transport_native_epoll_x86_6416044783253893246606.so (deleted)
7fc1e13b0000-7fc1e13b2000 r--p 00000000 00:9f 10028670                   /opt/kairoscope/java-17.0.15-a3e9bc15/lib/libzip.so
"""  # noqa: E501
# Of a process whose libraries were replaced as dpkg does it: a new file, renamed over the old one.
OF_PACKAGES = """\
7f97fd01e000-7f97fd044000 r--p 00000000 fe:00 10331480                   /usr/lib/x86_64-linux-gnu/libc.so.6 (deleted)
7f97fd7bf000-7f97fd7d2000 r-xp 00003000 fe:00 10331603                   /usr/lib/x86_64-linux-gnu/libz.so.1.2.13 (deleted)
7fbd22ee6000-7fbd22ee9000 r--p 00000000 00:125 326956                    /usr/lib/x86_64-linux-gnu/libz.so.1.2.13 (deleted)
"""  # noqa: E501
# By their places, of other layouts and of ScyllaDB's package.
ELSEWHERE = "7f97fd01e000-7f97fd044000 r--p 00000000 fe:00 10331480                   {}"
THERE = (
    "/lib/x86_64-linux-gnu/libc-2.31.so (deleted)",
    "/lib64/ld-linux-x86-64.so.2 (deleted)",
    "/usr/lib64/libssl.so.3 (deleted)",
)
NOT_THERE = (
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/locale/locale-archive (deleted)",
    "/opt/scylladb/libreloc/libc.so.6 (deleted)",
    "/usr/local/lib/libjemalloc.so.2 (deleted)",
    "/var/lib/kairoscope/storage-1/tmp/liblz4-java-12554193520852214314.so (deleted)",
    "/dev/zero (deleted)",
)


@pytest.mark.parametrize(
    ("line", "replaced"),
    [
        *((line, False) for line in UNPACKED.splitlines()),
        *((line, True) for line in OF_PACKAGES.splitlines()),
        *((ELSEWHERE.format(place), True) for place in THERE),
        *((ELSEWHERE.format(place), False) for place in NOT_THERE),
    ],
)
def test_libraries_of_packages_alone_make_a_server_start_anew(line, replaced):
    """A Cassandra has deleted some of its own at each time; it would restart at each upgrade."""
    pattern = yaml.safe_load((ROLES / "updates" / "vars" / "main.yml").read_text())
    words = ["grep", "--quiet", "--extended-regexp", pattern["updates_replaced"]]
    done = subprocess.run(words, input=line + "\n", text=True, check=False)
    assert done.returncode == (0 if replaced else 1)


# What is done on a host: the role, with apt's and dpkg's programs replaced

APT = """#!/bin/sh
echo "apt-get $1 LC_ALL=$LC_ALL" >> "$CALLS"
[ "$1" = update ] || { printf 'Calculating upgrade...\\n0 upgraded, 0 newly installed\\n'; exit 0; }
answer=$(head -n 1 "$ANSWERS"); sed -i 1d "$ANSWERS"
[ -z "$answer" ] || { echo "$answer" >&2; exit 100; }
"""
DPKG = """#!/bin/sh
echo "dpkg $*" >> "$CALLS"
exit 1
"""
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1234 (apt-get)"
AWAY = "E: Failed to fetch http://10.77.0.1:1/dists/stable/InRelease  Could not connect"


def upgraded(folder: Path, *answers: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The role on this machine, where `apt-get update` says these, the last one again and again
    ("" is well): how it ended, and what was called."""
    programs, calls, told = folder / "bin", folder / "calls", folder / "answers"
    programs.mkdir()
    for name, text in {"apt-get": APT, "dpkg": DPKG}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    told.write_text("\n".join([*answers, *answers[-1:] * 9, ""]))
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_role": {"name": "updates"}}],
    }
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("ansible-playbook"), folder / "play.yml"),
            *("-c", "local", "-e", '{"updates_wait_seconds": 4}'),
        ],
        env=os.environ
        | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "CALLS": str(calls),
            "ANSWERS": str(told),
            "ANSIBLE_HOME": str(folder / "ansible"),
            "ANSIBLE_ROLES_PATH": str(ROLES),
            "ANSIBLE_LOCALHOST_WARNING": "false",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, calls.read_text().splitlines()


UPDATE, UPGRADE = "apt-get update LC_ALL=C", "apt-get upgrade LC_ALL=C"
FINISH = "dpkg --force-confdef --force-confold --configure --pending"


def test_another_apt_on_the_host_is_waited_for(tmp_path):
    """By itself apt-get does not wait for the lock of its lists, as each host's timer has it."""
    done, calls = upgraded(tmp_path, LOCKED, "")
    assert done.returncode == 0, done.stdout
    # One that was killed is finished first, and what dpkg cannot do is apt-get's to say.
    assert calls == [UPDATE, UPDATE, FINISH, UPGRADE]
    assert re.search(r"localhost .* changed=0 ", done.stdout), done.stdout


@pytest.mark.parametrize(("answer", "asked"), [(AWAY, 1), (LOCKED, 3)])
def test_a_host_that_gets_nothing_is_left_as_it_was(tmp_path, answer, asked):
    done, calls = upgraded(tmp_path, answer)
    assert done.returncode == 2
    assert answer.partition(":")[2].strip()[:30] in done.stdout
    assert calls == [UPDATE] * asked


# What stays: ScyllaDB's packages


def includes(tasks: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What tasks are made of, in their order: files and roles by their names, else the task's own;
    with the task."""
    for task in tasks:
        if "block" in task:
            yield from includes(task["block"])
            continue
        role = task.get("ansible.builtin.include_role", {})
        of_role = "/".join([role[key] for key in ("name", "tasks_from") if key in role])
        yield task.get("ansible.builtin.include_tasks") or of_role or task["name"], task


def test_wherever_scylladb_is_from_its_packages_stay():
    """Those of its image too, which holds nothing (packer/scylla_install_image)."""
    tasks = yaml.safe_load((ROLES / "scylla" / "tasks" / "package" / "prepare.yml").read_text())
    made = dict(includes(tasks))
    assert "when" not in made["package/hold.yml"]
    # Once there is something to hold, and it is what the plan wants.
    names = list(made)
    refuse = names.index("Refuse another version than the plan's")
    assert refuse < names.index("package/install.yml") < names.index("package/hold.yml")


def test_before_a_host_s_packages_are_upgraded_they_are_held():
    """Also on hosts that were deployed before a deploy held them."""
    names = storage_play()
    assert names.index("scylla/hold") < names.index("updates")


def storage_play() -> list[str]:
    """What is done with a storage node, in order."""
    plays = yaml.safe_load(PLAYBOOK.read_text())
    (storage,) = [play for play in plays if play.get("hosts", "").startswith("storage:")]
    return [name for name, _ in includes(storage["tasks"])]


def test_a_node_is_taken_down_where_all_are_up_after_the_upgrade_too():
    """Which takes minutes where there is much."""
    wanted = ["ring", "updates", "ring", "Drain", "Stop", "updates/reboot"]
    assert [name for name in storage_play() if name in wanted] == wanted


@pytest.mark.skipif(not shutil.which("apt-get"), reason="apt is Debian's")
@pytest.mark.parametrize(
    ("pinned", "selection", "taken"),
    [(False, "install", True), (True, "install", False), (False, "hold", False)],
)
def test_either_keeps_apt_from_a_newer_release(tmp_path, repository, pinned, selection, taken):
    """Of each package that an image has, by apt itself."""
    etc, status = tmp_path / "etc", tmp_path / "status"
    for folder in ("state/lists/partial", "cache/archives/partial", "etc/preferences.d"):
        (tmp_path / folder).mkdir(parents=True)
    source = f"deb [trusted=yes] file:{repository.folder} {scylla_stand_in.SUITE} main\n"
    (etc / "sources.list").write_text(source)
    packages = scylla_stand_in.PACKAGES | scylla_stand_in.OF_IMAGE
    old = scylla_stand_in.package_version("2026.1.10")
    with status.open("w") as file:
        for name in packages:
            deb = repository.folder / "pool" / f"{name}_{old}_all.deb"
            said = subprocess.run(
                ["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True
            )
            file.write(f"{said.stdout}Status: {selection} ok installed\n\n")
    if pinned:
        template = (ROLES / "scylla" / "templates" / "preferences.j2").read_text()
        made = jinja2.Template(template).render(scylla_version="2026.1.10", ansible_managed="")
        (etc / "preferences.d" / "scylla").write_text(made + "\n")
    places = {
        "State": tmp_path / "state",
        "State::status": status,
        "Cache": tmp_path / "cache",
        "Etc": etc,
    }
    options = [
        *(f"-o=Dir::{name}={place}" for name, place in places.items()),
        *("-o=APT::Sandbox::User=root", "-o=Debug::NoLocking=1"),
    ]
    subprocess.run(["apt-get", "-qq", "update", *options], check=True, capture_output=True)
    words = ["apt-get", "--simulate", "--yes", "upgrade", "--with-new-pkgs", *options]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    new = re.findall(r"^Inst (\S+) ", said, re.M)
    assert sorted(new) == (sorted(packages) if taken else []), said


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Of the stand-in's packages, with a release and the patch after it."""
    return scylla_stand_in.build(tmp_path_factory.mktemp("packages"), ["2026.1.10", "2026.1.11"])
