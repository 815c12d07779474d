"""Which processes are a local deployment's, and are ended with it."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kairoscope.hosts import inventory, supervisor
from kairoscope.targets.local import Local

WAITS = "import time\nprint(flush=True)\ntime.sleep(600)\n"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts something that goes on until the test has ended."""
    started = []

    def begin(*command: str | Path, program: str | None = None) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, executable=program, stdin=pipe, stdout=pipe)
        started.append(process)
        assert process.stdout
        process.stdout.readline()  # It is what it is to be, and no fork of this one.
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def script(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(WAITS)
    return folder / name


def supervisord(start: Start, venv: Path, state: Path) -> subprocess.Popen[bytes]:
    """What is called as supervisord is, by its interpreter."""
    settings = state / "supervisor" / "supervisord.conf"
    return start(sys.executable, script(venv / "bin", "supervisord"), "-c", settings)


def test_who_reads_supervisord_s_log_or_settings_goes_on(start: Start, tmp_path: Path) -> None:
    state = tmp_path / "local"
    log = state / "supervisor" / "log" / "supervisord.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line\n")
    reader = start("tail", "-f", log)
    editor = start(
        sys.executable, script(tmp_path, "vim"), state / "supervisor" / "supervisord.conf"
    )
    ours = supervisord(start, tmp_path / "venv", state)
    assert {process.pid for process in supervisor.owned(state)} == {ours.pid}
    assert supervisor.end_all(state, patience_s=10) == [ours.pid]
    assert ours.wait(10) < 0
    assert reader.poll() is None
    assert editor.poll() is None


def deployed(home: Path, bundles: Path) -> None:
    """The inventory of a deployment there."""
    told = {"supervisor_dir": str(home / "local" / "supervisor"), "bundles_dir": str(bundles)}
    hosts = {"loader": {"hosts": {"loader-1": {"address": "127.0.0.1"}}}}
    (home / "local").mkdir(parents=True)
    inventory.write(
        home / "local" / "inventory.yml", {"all": {"vars": told, "children": hosts}}, ""
    )


@pytest.mark.parametrize("moved", [True, False])
def test_what_runs_is_ended_after_the_clone_was_moved(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    deployed(old / "home", old / "bundles")
    server = supervisord(start, old / "venv", old / "home" / "local")
    # Some run where they were unpacked, and have the folder within a word.
    title = f"title {old}/home/local/log"
    wrapper = start(old / "bundles" / "x", "-c", "echo; read _", title, program="/bin/bash")
    shutil.copytree(old, new)
    if moved:
        shutil.rmtree(old)
    monkeypatch.setenv("KAIROSCOPE_HOME", str(new / "home"))
    said: list[str] = []
    Local().destroy(said.append)
    assert ("2 processes ended" in said[0]) == moved
    # A copy leaves alone what is the first one's.
    assert [process.poll() is not None for process in (server, wrapper)] == [moved, moved]
