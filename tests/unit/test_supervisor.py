"""Which processes are a local deployment's, and are ended with it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kairoscope.hosts import supervisor

WAITS = "import time\nprint(flush=True)\ntime.sleep(600)\n"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts something that goes on until the test has ended."""
    started = []

    def begin(*command: str | Path) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
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
