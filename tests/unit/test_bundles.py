"""The manifests that pin what Maven brings."""

import ast
import contextlib
import errno
import os
import sys
import tarfile
import tempfile
import threading
import time
import tomllib
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import live, paths
from kairoscope.deploy import bundles, monitoring
from kairoscope.deploy.building import loader, run_time, tool
from kairoscope.deploy.checksums import checksums, differences, read_manifest, write_manifest
from kairoscope.errors import UserError

SUMS = st.dictionaries(
    st.from_regex(r"[a-z0-9./-]{1,20}\.jar", fullmatch=True),
    st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)


@given(SUMS)
def test_a_manifest_is_read_as_it_was_written(sums):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.sha256"
        write_manifest(path, sums)
        assert read_manifest(path) == sums


def test_differences_name_the_file():
    wanted = {"lib/a.jar": "1", "lib/b.jar": "2", "lib/c.jar": "3"}
    found = {"lib/a.jar": "1", "lib/b.jar": "x", "lib/d.jar": "4"}
    assert differences(wanted, found) == [
        "missing: lib/c.jar",
        "not in the manifest: lib/d.jar",
        "other content: lib/b.jar",
    ]
    assert differences(wanted, dict(wanted)) == []


def test_the_committed_manifests_hold_both_drivers_and_the_pinned_servers():
    kairosdb = read_manifest(bundles.bundle("kairosdb").manifest)
    assert f"lib/kairosdb-{bundles.bundle('kairosdb').version}.jar" in kairosdb
    scylla = bundles.property_of_pom("scylla.driver.version")
    assert f"driver-scylla/scylla-driver-core-{scylla}.jar" in kairosdb
    assert "driver-datastax/cassandra-driver-core-3.10.2.jar" in kairosdb
    # Both drivers have the same classes: neither may lie where all jars are loaded.
    assert not [n for n in kairosdb if n.startswith("lib/") and "driver-core" in n]
    cassandra = bundles.bundle("cassandra")
    assert f"lib/cassandra-all-{cassandra.version}.jar" in read_manifest(cassandra.manifest)


def test_an_unknown_pin_is_an_error():
    with pytest.raises(UserError, match="no property"):
        bundles.property_of_pom("nothing.version")


def test_hosts_get_roots_files_that_all_may_read_whoever_built_them(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "BUNDLES", tmp_path)
    folder = tmp_path / "built"
    (folder / "bin").mkdir(parents=True)
    for name, mode in (("bin/tool", 0o700), ("lib.jar", 0o600)):
        (folder / name).write_text(name)
        (folder / name).chmod(mode)
        if os.geteuid() == 0:
            os.chown(folder / name, 1000, 1000)
    item = bundles.Bundle("x", "1")
    bundles.write_archive(item, folder, checksums(folder))
    packed = bundles.pack("y", "1", folder, ["bin", "lib.jar"], tmp_path)
    for archive in (item.archive, packed.archive):
        with tarfile.open(archive) as tar:
            assert {member.name: member.mode for member in tar} == {
                "SHA256SUMS": 0o644,
                "bin/tool": 0o755,
                "lib.jar": 0o644,
            }
            assert {(m.uid, m.gid, m.uname, m.gname) for m in tar} == {(0, 0, "", "")}


LOCK = """\
# made by a tool
aio==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
    # via somebody
big-one==2.0 \\
    --hash=sha256:ba
    # via aio
hdr==3 --hash=sha256:ca
lost==4 \\
    --hash=sha256:da
"""


def test_locked_takes_what_is_needed_and_nothing_else():
    stated = {
        "aio": ["Big_One>=1; python_version < '4'", "old-thing; python_version < '3'"],
        "big-one": ["lost>=4; extra == 'speedups'", "AIO"],
        "hdr": [],
    }
    part = loader.locked(["AIO", "hdr"], LOCK, stated.__getitem__)
    assert part == (
        "aio==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:ab\n"
        "big-one==2.0 \\\n    --hash=sha256:ba\n"
        "hdr==3 --hash=sha256:ca\n"
    )


def test_locked_names_what_the_lock_does_not_have():
    with pytest.raises(UserError, match=r"requirements\.lock: nothing for gone"):
        loader.locked(["hdr", "gone"], LOCK, lambda _: [])


def test_the_loaders_state_what_they_import_and_import_nothing_of_ours():
    imported = set()
    for path in paths.LOADERS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - {"loaders"}
    called = {"hdrhistogram": "hdrh", "scylla-driver": "cassandra"}
    stated = {called.get(name, name) for name in _dependencies()}
    assert foreign == stated


def _dependencies() -> list[str]:
    return tomllib.loads((paths.LOADERS / "pyproject.toml").read_text())["project"]["dependencies"]


def test_the_lock_pins_all_that_the_loaders_need():
    part = loader.locked(_dependencies(), paths.LOCK.read_text(), loader._requires)
    names = {line.partition("==")[0] for line in part.splitlines() if "==" in line}
    assert names >= {"numpy", "hdrhistogram", "httptools"}
    # Far from all of it: a loader host needs neither Ansible nor a plotting library.
    assert not names & {"ansible-core", "matplotlib", "pytest"}


def test_the_wheel_is_the_same_from_the_same_sources(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "BUNDLES", tmp_path)
    sources = [paths.LOADERS / "pyproject.toml", *paths.LOADERS.rglob("*.py")]
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    first = loader._build_wheel(sources, wheels, None).read_bytes()
    second = loader._build_wheel(sources, wheels, None)
    assert second.read_bytes() == first
    packed = set(zipfile.ZipFile(second).namelist())
    assert {
        str(path.relative_to(paths.LOADERS.parent)) for path in paths.LOADERS.rglob("*.py")
    } <= packed


def test_two_that_build_at_once_do_it_one_after_the_other(tmp_path, monkeypatch):
    """Each removed under the other what it had fetched."""
    monkeypatch.setattr(paths, "BUNDLES", tmp_path / "bundles")
    did = []

    def build(*_: object) -> bool:
        did.append("begins")
        time.sleep(0.1)
        did.append("ends")
        return True

    for name in ("build_jars", "build_java", "build_loader"):
        monkeypatch.setattr(run_time, name, build)
    monkeypatch.setattr(monitoring, "_fetch", build)
    both = [
        threading.Thread(target=run_time.build, kwargs={"with_java": True}),
        threading.Thread(target=monitoring.fetch),
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert did == ["begins", "ends"] * 4


def test_a_checkout_that_another_one_has_set_up_is_used_as_it_is(monkeypatch):
    monkeypatch.setattr(paths, "BUNDLES", Path("/proc/bundles"))
    with tool.alone(None):
        pass


def test_a_build_tool_says_how_many_files_it_has_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "_LOOK_EVERY_S", 0.01)
    script = (
        "import os, sys, time\n"
        "print('[INFO] Downloading from central: https://x/a.jar')\n"
        "print('[INFO] Downloaded from central: https://x/a.jar (3 kB)')\n"
        "print('[INFO] Downloaded from central: https://x/b.jar (3 kB)', flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "sys.exit(3)\n"
    )

    class Seen(live.Stage):
        def __call__(self, done: int, total: int | None = None) -> None:
            super().__call__(done, total)
            if done == 2:
                (tmp_path / "seen").touch()

    stage = Seen("Maven", None, "files fetched", "")
    command = [sys.executable, "-c", script, str(tmp_path / "seen")]
    log = tmp_path / "new" / "maven.log"
    assert not tool.logged(log, lambda: contextlib.nullcontext(stage), command)
    assert stage.text(5) == "2 files fetched, 5 s"
    assert log.read_text().count("central") == 3


def test_build_tools_run_side_by_side_and_one_that_fails_is_told(tmp_path):
    """Each waits for what the other one writes; the first to fail does not end the others."""
    script = (
        "import pathlib, sys, time\n"
        "mine, others, status = sys.argv[1:]\n"
        "pathlib.Path(mine).touch()\n"
        "while not pathlib.Path(others).exists(): time.sleep(0.01)\n"
        "print('ERROR: of', pathlib.Path(mine).name, flush=True)\n"
        "sys.exit(int(status))\n"
    )
    one, two = str(tmp_path / "one"), str(tmp_path / "two")

    def run(*statuses: str) -> bool:
        for made in (one, two):
            Path(made).unlink(missing_ok=True)
        return tool.logged(
            tmp_path / "log",
            lambda: contextlib.nullcontext(live.Stage("pip", None, "", "")),
            [sys.executable, "-c", script, one, two, statuses[0]],
            [sys.executable, "-c", script, two, one, statuses[1]],
        )

    assert run("0", "0")
    assert not run("1", "0")
    assert not run("0", "1")
    assert {"of one", "of two"} <= {
        line.removeprefix("ERROR: ") for line in (tmp_path / "log").read_text().splitlines()
    }


def test_a_bundle_that_cannot_be_written_says_whose_it_may_be(monkeypatch, tmp_path):
    def pack(*_) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "monitoring-1.sha256")

    monkeypatch.setattr(paths, "BUNDLES", tmp_path)
    monkeypatch.setattr(monitoring.bundles, "pack", pack)
    (tmp_path / "monitoring").mkdir()
    with pytest.raises(UserError, match=rf"monitoring-1\.sha256.*chown -R {os.geteuid()}"):
        monitoring.packed("monitoring", ["bin"])
