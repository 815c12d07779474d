"""A host's own packages: what is upgraded, what stays, what starts anew and what has to wait."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import jinja2
import pytest
import scylla_stand_in
import yaml

from kairoscope import paths

ROLES = paths.ANSIBLE / "roles"
PLAYBOOK = paths.ANSIBLE / "playbooks" / "upgrade-system.yml"

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
