"""What the lab says no to, and what it makes of names; the hosts themselves are in tests/lab."""

import os
import platform
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kairoscope.cli import lab as cli_lab
from kairoscope.cli.main import main
from kairoscope.errors import UserError
from kairoscope.hosts import operation, secret_files
from kairoscope.targets.lab import Lab, LabHost, check, host, image, making, system
from kairoscope.targets.lab.kept import Kept
from kairoscope.targets.lab.network import Faults

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True)


@pytest.fixture
def root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", os.environ["PATH"])


def test_not_root(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for act in (
        check,
        Lab(tmp_path).down,
        lambda: Lab(tmp_path).up([LabHost("a", "10.77.0.11")], print),
        lambda: Lab(tmp_path).kill("a"),
        Lab(tmp_path).enter,
    ):
        with pytest.raises(UserError, match=r"needs root.*sudo.*TARGET=local"):
            act()
    assert list(tmp_path.iterdir()) == []


def test_a_user_is_not_told_that_there_is_no_host(monkeypatch, tmp_path):
    """They ran, and only root sees them."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    done = CliRunner().invoke(main, ["lab", "hosts"])
    assert done.exit_code != 0
    assert "needs root" in done.output
    assert "no hosts" not in done.output


def test_another_system(root, monkeypatch):
    release = {"ID": "fedora", "PRETTY_NAME": "Fedora Linux 40"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    with pytest.raises(UserError, match="Debian or Ubuntu; this is Fedora Linux 40"):
        check()


def test_missing_tools(root, monkeypatch):
    release = {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in ("nft", "ssh") else tool)
    with pytest.raises(UserError, match=r"needs nft, ssh, which .* scripts/need lab"):
        check()


def test_no_lab(root, tmp_path):
    lab = Lab(tmp_path / "lab")
    assert lab.hosts() == []
    for act in (lab.enter, lab.heal):
        with pytest.raises(UserError, match=r"not up\. First: make deploy TARGET=lab"):
            act()
    with pytest.raises(UserError, match=r"no host a\. Its hosts: none"):
        lab.kill("a")


@pytest.mark.parametrize(
    ("hosts", "problem"),
    [
        ([("Storage_1", "10.77.0.11")], "'Storage_1' cannot be a host's name"),
        ([("-a", "10.77.0.11")], "'-a' cannot be"),
        ([("a", "10.77.0.1")], "a cannot have 10.77.0.1:"),
        ([("a", "10.77.0.255")], "a cannot have 10.77.0.255:"),
        ([("a", "10.77.0.11"), ("b", "10.77.1.12")], "in one /24"),
        ([("a", "10.77.0.11"), ("b", "10.77.0.11")], "Two lab hosts have the address 10.77.0.11"),
        ([("a", "10.77.0.11"), ("a", "10.77.0.12")], "Two lab hosts have the name a"),
        ([("a", "storage")], "a cannot have storage"),
    ],
)
def test_hosts_that_cannot_be(hosts, problem):
    with pytest.raises(UserError) as error:
        host.check_hosts([LabHost(*each) for each in hosts])
    assert problem in error.value.message


def test_labs_of_different_folders_have_different_names(tmp_path):
    assert Lab(tmp_path / "a").id != Lab(tmp_path / "b").id
    assert Lab(tmp_path / "a").id == Lab(tmp_path / "x" / ".." / "a").id
    # vb- before it, - and an octet behind it: at most 15 in all.
    assert len(Lab(tmp_path).id) == 7


def test_a_lab_that_was_moved_keeps_its_name(tmp_path):
    """Its hosts and their network go on by it, and nobody would end them."""
    (tmp_path / "a").mkdir()
    was = Lab(tmp_path / "a").id
    Kept(tmp_path / "a").note()
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    # What runs is not the copy's.
    assert Lab(tmp_path / "copy").id != was
    assert Lab(tmp_path / "a").id == was
    (tmp_path / "a").rename(tmp_path / "b c")
    assert Lab(tmp_path / "b c").id == was


def test_inventory_survives_folders_with_odd_names(tmp_path):
    folder = tmp_path / "a b's 100%" / "lab"
    (folder / "hosts" / "a").mkdir(parents=True)
    (folder / "hosts" / "a" / "host.json").write_text(
        '{"name": "a", "address": "10.77.0.11", "data_disk_mib": null, "base": "/base"}'
    )
    given = Lab(folder).inventory_vars("a")
    assert given["ansible_host"] == "10.77.0.11"
    options = shlex.split(given["ansible_ssh_common_args"])
    known = str(folder / "ssh" / "known_hosts").replace("%", "%%")
    assert options[:2] == ["-o", f'UserKnownHostsFile="{known}"']
    assert "StrictHostKeyChecking=yes" in options


@settings(max_examples=30)
@given(
    loss=st.dictionaries(NAMES, st.floats(0.01, 100), max_size=3),
    bandwidth=st.dictionaries(NAMES, st.integers(8, 10**7), max_size=3),
    cut=st.lists(NAMES, max_size=3, unique=True),
    pairs=st.lists(st.lists(NAMES, min_size=2, max_size=2, unique=True), max_size=3),
)
def test_each_fault_is_a_rule_each_way_and_can_be_read_back(
    tmp_path_factory, loss, bandwidth, cut, pairs
):
    faults = Faults(cut, pairs, loss, bandwidth)
    path = tmp_path_factory.getbasetemp() / "faults.json"
    faults.write(path)
    assert Faults.read(path) == faults

    rules = faults.rules(lambda name: f"port-{name}").splitlines()
    drops = [line for line in rules if line.endswith(" drop")]
    assert len(drops) == 2 * (len(cut) + len(pairs) + len(loss) + len(bandwidth))
    for one, other in pairs:
        assert f'    iifname "port-{one}" oifname "port-{other}" drop' in drops
        assert f'    iifname "port-{other}" oifname "port-{one}" drop' in drops
    for name, percent in loss.items():
        chance = f"numgen random mod 10000 < {round(percent * 100)} drop"
        assert f'    iifname "port-{name}" {chance}' in drops
    concerned = {*cut, *loss, *bandwidth, *(name for pair in pairs for name in pair)}
    assert all(faults.of(name) for name in concerned)
    for name in concerned:
        faults.forget(name)
    assert faults == Faults()


def test_no_faults_is_no_rule():
    assert "drop" not in Faults().rules(str)
    assert Faults.read(Path("/nowhere")) == Faults()


def test_base_image_is_another_when_its_recipe_changes(monkeypatch):
    was = image.key()
    monkeypatch.setattr(image, "PACKAGES", (*image.PACKAGES, "one-more"))
    assert image.key() != was


def test_hosts_of_another_system_are_made_of_its_packages(monkeypatch, tmp_path):
    monkeypatch.setattr(
        platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "bookworm"}
    )
    own = image.key()
    monkeypatch.setenv("KAIROSCOPE_LAB_SYSTEM", "ubuntu-24.04")
    assert image.key() != own
    monkeypatch.setattr(image, "KEYRINGS", tmp_path)
    keyring = tmp_path / "ubuntu-archive-keyring.gpg"
    keyring.touch()
    sources = image._sources()
    assert [line.split()[3] for line in sources] == ["noble", "noble-updates", "noble-security"]
    assert all(f"[signed-by={keyring}] http" in line for line in sources)
    assert all(line.endswith(" main universe") for line in sources)


def test_its_own_system_by_name_is_the_same(monkeypatch):
    monkeypatch.setattr(
        platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "bookworm"}
    )
    own = image.key()
    monkeypatch.setenv("KAIROSCOPE_LAB_SYSTEM", "debian-12")
    assert image.key() == own
    monkeypatch.setattr(image, "_source_lines", lambda: ["deb http://mirror bookworm main"])
    assert image._sources() == ["deb http://mirror bookworm main"]


def test_a_system_that_is_not_known(monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_LAB_SYSTEM", "fedora-40")
    with pytest.raises(UserError, match=r"SYSTEM=fedora-40: .*debian-13, .*ubuntu-24\.04"):
        image.key()


def test_packages_without_their_keys(monkeypatch, tmp_path):
    monkeypatch.setattr(image, "KEYRINGS", tmp_path)
    with pytest.raises(UserError, match=r"trixie cannot be checked: .*debian-archive-keyring"):
        image.SYSTEMS["debian-13"].sources()


def test_a_fetched_package_is_the_one_that_is_wanted(monkeypatch, tmp_path):
    monkeypatch.setattr(image, "FOLDER", tmp_path)
    wrong = tmp_path / "wrong.deb"
    wrong.write_bytes(b"something else")
    with pytest.raises(UserError, match="not the file that it was"):
        image._fetched(wrong.as_uri(), image.UBUNTU_KEYS[1])
    with pytest.raises(UserError, match=r"gone\.deb could not be fetched"):
        image._fetched((tmp_path / "gone.deb").as_uri(), image.UBUNTU_KEYS[1])
    assert list(tmp_path.iterdir()) == [wrong]


def test_a_umask_of_ours_hides_nothing_from_a_hosts_services(monkeypatch, tmp_path):
    """Its `/` and its network's file were root's alone: it had no network."""
    folder = tmp_path / "hosts" / "storage-1"

    def mount(*_: object) -> None:
        for path in ("etc/systemd/network", "etc/ssh", "home/lab"):
            (folder / "root" / path).mkdir(parents=True, exist_ok=True)

    def make_key(path: Path, comment: str) -> None:
        for name in (path, Path(f"{path}.pub")):
            name.parent.mkdir(exist_ok=True, parents=True)
            name.write_text(f"ssh-ed25519 {comment} it\n")

    monkeypatch.setattr(making, "_make_key", make_key)
    monkeypatch.setattr(making.Making, "mount", mount)
    monkeypatch.setattr(image, "LOGIN", "lab")
    make = making.Making(Kept(tmp_path))
    before = os.umask(0o077)
    try:
        make_key(tmp_path / "ssh" / "id_ed25519", "lab")
        make.create(LabHost("storage-1", "10.77.0.11"), tmp_path)
        make.introduce()
    finally:
        os.umask(before)
    etc = folder / "root" / "etc"
    assert (folder / "upper").stat().st_mode & 0o777 == 0o755
    for name in ("hostname", "hosts", "systemd/network/10-lab.network"):
        assert (etc / name).stat().st_mode & 0o777 == 0o644, name


def test_mount_points_with_spaces(monkeypatch):
    line = r"36 35 98:0 / /mnt/a\040b\134c rw,noatime shared:1 - overlay overlay rw,lowerdir=/x"
    monkeypatch.setattr(Path, "read_text", lambda path, **_: f"{line}\n")
    assert system.mounts() == [(Path("/mnt/a b\\c"), "overlay")]


def test_a_file_that_is_as_wanted_is_not_written_again(tmp_path):
    path = tmp_path / "file"
    system.write(path, "one")
    os.utime(path, (1, 1))
    system.write(path, "one")
    assert path.stat().st_mtime == 1
    system.write(path, "two")
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_tool_that_fails_is_named_with_what_it_said():
    with pytest.raises(UserError, match=r"`ls /nowhere` failed: .*No such file"):
        system.call("ls", "/nowhere")


def test_down_is_a_destroy(monkeypatch, tmp_path):
    """It went past the lock, and left passwords and certificates."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "secrets"))
    ended = []
    monkeypatch.setattr(Lab, "down", lambda self: ended.append(self.folder))
    held = secret_files.ensure("lab", {"storage-1": ["10.77.0.11"]})
    with operation.alone("lab"):
        done = CliRunner().invoke(main, ["lab", "down"])
    assert "is being changed by another deploy" in done.output
    assert not ended
    assert held.exists()
    done = CliRunner().invoke(main, ["lab", "down"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("ending target lab …\n")
    assert len(ended) == 1
    assert not held.exists()


@pytest.mark.parametrize("end_of_ours", [[], ["--"]])
def test_all_that_follows_the_host_is_the_commands(monkeypatch, end_of_ours):
    """Its -maxdepth was taken for our -h."""
    ran = []
    monkeypatch.setattr(cli_lab, "check_root", lambda: None)
    monkeypatch.setattr(Lab, "ssh", lambda self, name, command, *options: [name, *command])
    monkeypatch.setattr(os, "execvp", lambda program, line: ran.append(line))
    wanted = ["find", "/srv", "-maxdepth", "2", "--", "-h"]
    done = CliRunner().invoke(cli_lab.lab, ["exec", "storage-1", *end_of_ours, *wanted])
    assert done.exit_code == 0, done.output
    assert ran == [["storage-1", *wanted]]
