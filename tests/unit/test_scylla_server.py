"""A ScyllaDB server of the user's: what is taken, and what each other thing is told."""

import io
import platform
import struct
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from kairoscope import experiment
from kairoscope.cli import known
from kairoscope.cli.options import make_plan
from kairoscope.deploy import bundles, deploy
from kairoscope.deploy.deploy import Deployment
from kairoscope.errors import UserError
from kairoscope.hosts.deployed import plan_file
from kairoscope.stacks.kairosdb.scylla import brought
from kairoscope.targets.target import Options

HERE = {"x86_64": 0x3E, "aarch64": 0xB7}[platform.machine()]
OTHER = 0xB7 if HERE == 0x3E else 0x3E

# In the place of the loader that a server brings: says what the server would.
LOADER = """#!/bin/sh
[ "$1" = --library-path ] || exit 9
cat "$3.version" 2>/dev/null && exit
echo 'error while loading shared libraries: libx.so' >&2
exit 127
"""


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, machine) + bytes(40)


def files(version: str = "2026.1.11", machine: int = HERE) -> dict[str, bytes]:
    """The maker's layout, below the folder of its version."""
    return {
        "scylla/libexec/scylla": elf(machine),
        "scylla/libexec/scylla.version": f"{version}-0.20260801.abc\n".encode(),
        "scylla/libreloc/ld.so": LOADER.encode(),
        "scylla/SCYLLA-VERSION-FILE": f"{version}\n".encode(),
        "scylla/SCYLLA-RELEASE-FILE": b"0.20260801.abc\n",
        "scylla/node_exporter/node_exporter": b"big",
        "scylla-python3/libexec/python3": elf(machine),
        "install.sh": b"#!/bin/sh\n",
    }


def folder(tmp_path, content: dict[str, bytes]):
    for name, data in content.items():
        path = tmp_path / "scylla-x" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755)
    return tmp_path


def archive(path, content: dict[str, bytes]):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(f"scylla-2026.1.11/{name}")
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    return path


def refused(where) -> str:
    with pytest.raises(UserError) as error:
        brought.find(where)
    return error.value.message


def test_a_folder_in_which_the_archive_was_unpacked(tmp_path):
    found = brought.find(folder(tmp_path, files()))
    root = tmp_path / "scylla-x" / "scylla"
    assert (found.version, found.folder) == ("2026.1.11-0.20260801.abc", root)
    assert found.command[0] == str(root / "libreloc" / "ld.so")
    assert found.command[-1] == str(root / "libexec" / "scylla")
    # One level further in, or all of the way, is the same server.
    assert brought.find(tmp_path / "scylla-x") == brought.find(root) == found


def test_the_archive_is_unpacked_once_and_only_the_server(tmp_path):
    path = archive(tmp_path / "scylla-unified-2026.1.11.x86_64.tar.gz", files())
    into = tmp_path / "home"
    found = brought.given(path, "local", into)
    assert found.version.startswith("2026.1.11")
    (unpacked,) = into.iterdir()
    assert {p.name for p in (unpacked / "scylla-2026.1.11").iterdir()} == {"scylla"}
    assert not list(unpacked.rglob("node_exporter"))
    (found.folder / "mine").touch()
    again = brought.given(path, "local", into)
    assert (again.folder / "mine").exists()


@given(share=st.floats(0, 0.98))
@settings(max_examples=30, deadline=None)
def test_an_archive_that_is_not_whole_leaves_nothing(tmp_path_factory, share):
    """Wherever a download ended."""
    tmp_path = tmp_path_factory.mktemp("cut")
    path = archive(tmp_path / "scylla.tar.gz", files() | {"scylla/more": bytes(range(256)) * 4096})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UserError, match="cannot be unpacked"):
        brought.given(path, "local", tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


def test_an_archive_of_what_cannot_run_here_leaves_nothing(tmp_path):
    path = archive(tmp_path / "scylla.tar.gz", files() | {"scylla/libexec/scylla": elf(OTHER)})
    with pytest.raises(UserError, match="this machine is"):
        brought.given(path, "local", tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("linkname", ["/etc/passwd", "../../../outside"])
def test_an_archive_that_reaches_outside_is_not_unpacked(tmp_path, linkname):
    path = tmp_path / "scylla.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("scylla-x/scylla/libreloc")
        member.type, member.linkname = tarfile.SYMTYPE, linkname
        tar.addfile(member)
    with pytest.raises(UserError, match="outside of its own folder"):
        brought.given(path, "local", tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scylla/libexec/scylla": elf(OTHER)}, f"this machine is {platform.machine()}"),
        ({"scylla/libexec/scylla": elf(0xF3)}, "is for machine 0xf3"),
        ({"scylla/libexec/scylla": b"#!/bin/sh"}, "no ScyllaDB server in it"),
        ({"scylla/libexec/scylla": None}, "no ScyllaDB server in it"),
        ({"scylla/libreloc/ld.so": None}, "unpacked in part"),
        ({"scylla/libexec/scylla.version": None}, "exit status 127): error while loading"),
        ({"scylla/libexec/scylla.version": b"no version"}, "does not say its version"),
        ({"scylla/SCYLLA-VERSION-FILE": b"2026.1.10"}, "parts of two releases"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, says):
    content = {name: data for name, data in (files() | change).items() if data is not None}
    assert says in refused(folder(tmp_path, content))


@pytest.mark.parametrize(
    ("version", "says"),
    [("5.1.9", "5.2 is the oldest"), ("2024.1.3", "which options it knows is not recorded")],
)
def test_releases_that_are_not_known(tmp_path, version, says):
    assert says in refused(folder(tmp_path, files(version)))


def test_what_is_not_there(tmp_path):
    with pytest.raises(UserError, match="there is no such file or folder"):
        brought.given(tmp_path / "nothing", "local", tmp_path)
    text = tmp_path / "notes.txt"
    text.write_text("not an archive")
    with pytest.raises(UserError, match="cannot be unpacked"):
        brought.given(text, "local", tmp_path / "home")


def server_of(plan, given=None):
    where = known.target(plan.target)
    of = Deployment(where, known.stack(plan.stack), Options(Path("x"), server=given), Console())
    return deploy._brought(plan, of)


@pytest.mark.parametrize("target", ["local", "lab"])
def test_without_a_server_it_is_three_lines_on_what_to_get(target):
    plan = known.plan(experiment.load("laptop", experiment.Overrides(engine="scylla")), target)
    assert plan.engine == "scylla"
    with pytest.raises(UserError) as error:
        server_of(plan)
    lines = error.value.message.splitlines()
    assert len(lines) == 3
    assert f"target {target} needs SCYLLA=" in lines[0]
    assert "https://docs.scylladb.com/" in lines[1]
    assert "MB" in lines[1]


def planned(target: str = "local", **storage):
    found = experiment.load("laptop", experiment.Overrides(engine="scylla"))
    # As a file has it: what is set is known as stated.
    values = found.storage.model_dump(exclude_unset=True) | storage
    return known.plan(
        found.model_copy(update={"storage": type(found.storage).model_validate(values)}), target
    )


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "local").mkdir(parents=True)
    return tmp_path / "home"


def test_a_deployed_target_keeps_its_server_without_being_told_again(home, tmp_path):
    where = folder(tmp_path, files())
    first = server_of(planned(), where)
    assert first.release == "2026.1.11"
    brought.remember("local", first)
    assert server_of(planned()) == first
    (first.folder / "libreloc" / "ld.so").unlink()
    with pytest.raises(
        UserError, match=r"(?s)cannot be had any more.*unpacked in part.*SCYLLA="
    ) as e:
        server_of(planned())
    assert "2026.1.11" in e.value.message
    # The same release from elsewhere will do.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = server_of(planned(), folder(elsewhere, files()))
    assert again.folder.is_relative_to(elsewhere)


def test_a_deployed_target_keeps_its_release(home, tmp_path):
    (old := tmp_path / "old").mkdir()
    (new := tmp_path / "new").mkdir()
    brought.remember("local", brought.find(folder(old, files())))
    with pytest.raises(UserError, match=r"deployed with ScyllaDB 2026\.1\.11.*is 6\.2\.3"):
        server_of(planned(), folder(new, files("6.2.3")))


def test_a_server_that_the_experiment_does_not_fit(home, tmp_path):
    server = folder(tmp_path, files("6.2.3"))
    assert server_of(planned(), server).release == "6.2.3"
    assert server_of(planned(scylla_version="6.2.3"), server).release == "6.2.3"
    with pytest.raises(UserError, match=r"wants ScyllaDB 2026\.1\.11 .storage\.scylla_version"):
        server_of(planned(scylla_version="2026.1.11"), server)
    with pytest.raises(UserError, match=r"ZstdWithDicts.*not known to ScyllaDB 6\.2\.3"):
        server_of(planned(compression="ZstdWithDictsCompressor"), server)


def test_a_server_that_nobody_asked_for_is_not_ignored(tmp_path):
    for_cassandra = known.plan(experiment.load("laptop"), "local")
    with pytest.raises(UserError, match="is for ENGINE=scylla on targets of this machine"):
        server_of(for_cassandra, tmp_path)
    with pytest.raises(UserError, match="this is scylla on target hosts"):
        server_of(planned("hosts"), tmp_path)


def test_what_goes_to_hosts_is_what_it_runs_with(tmp_path):
    more = {"scylla/libreloc/gnutls.config": b"[priorities]", "scylla/obj/huge.o": b"x"}
    found = brought.find(folder(tmp_path, files() | more))
    assert found.parts == ["libexec/scylla", "libreloc"]
    there = Path("/opt/kairoscope/scylla-x")
    # With its own settings of GnuTLS, as its maker starts it.
    assert found.command_at(there) == [
        "/usr/bin/env",
        "GNUTLS_SYSTEM_PRIORITY_FILE=/opt/kairoscope/scylla-x/libreloc/gnutls.config",
        "/opt/kairoscope/scylla-x/libreloc/ld.so",
        "--library-path",
        "/opt/kairoscope/scylla-x/libreloc",
        "/opt/kairoscope/scylla-x/libexec/scylla",
    ]
    packed = bundles.pack("scylla", found.release, found.folder, found.parts, tmp_path)
    with tarfile.open(packed.archive) as tar:
        assert set(tar.getnames()) == {
            "SHA256SUMS",
            "libexec/scylla",
            "libreloc/ld.so",
            "libreloc/gnutls.config",
        }
    made = packed.archive.stat().st_mtime_ns
    assert bundles.pack("scylla", found.release, found.folder, found.parts, tmp_path) == packed
    assert packed.archive.stat().st_mtime_ns == made
    (found.libraries / "libnew.so").write_bytes(b"new")
    other = bundles.pack("scylla", found.release, found.folder, found.parts, tmp_path)
    assert other.folder != packed.folder


def test_the_engine_is_the_experiment_s_or_the_command_s_choice():
    def engine(target: str, given_: str | None = None) -> str:
        return known.plan(
            experiment.load("laptop", experiment.Overrides(engine=given_)), target
        ).engine

    assert (engine("local"), engine("hosts")) == ("cassandra", "scylla")
    assert engine("hosts", "cassandra") == "cassandra"
    plan = known.plan(experiment.load("laptop", experiment.Overrides(engine="scylla")), "local")
    assert plan.setting("storage.engine").origin == "command line"
    with pytest.raises(UserError, match=r"ENGINE=mysql.*must be one of cassandra, scylla"):
        engine("local", "mysql")
    with pytest.raises(UserError, match="makes its storage hosts of ScyllaDB's image"):
        engine("aws", "cassandra")


def test_a_deployed_target_keeps_its_engine(monkeypatch, tmp_path):
    """Neither reads the other's data."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    (tmp_path / "local").mkdir()
    assert make_plan("laptop", "local").engine == "cassandra"
    plan_file("local").write_text(planned().to_json())
    # Not said again, it is what is there, for a deploy as for a load; said, it is checked.
    assert make_plan("laptop", "local").engine == "scylla"
    assert make_plan("laptop", "local", engine="cassandra").engine == "cassandra"
    plan_file("local").write_text('{"engine"')
    assert make_plan("laptop", "local").engine == "cassandra"

    there = known.plan(experiment.load("laptop"), "lab")
    file = plan_file("lab")
    file.parent.mkdir(parents=True)
    file.write_text(there.to_json())
    deploy.check_shape(there, known.target("lab"), known.stack("kairosdb"))
    other = known.plan(experiment.load("laptop", experiment.Overrides(engine="scylla")), "lab")
    with pytest.raises(UserError, match="deployed with cassandra, the plan wants scylla"):
        deploy.check_shape(other, known.target("lab"), known.stack("kairosdb"))
