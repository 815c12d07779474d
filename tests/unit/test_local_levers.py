"""Processes that a real supervisord keeps are killed, frozen and restarted, and come back."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kairoscope.errors import UserError
from kairoscope.hosts import supervisor, trouble
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.series import driver

# Says in a file that it was told to end, as a server writes what it has when it is.
SERVER = """
import signal, sys, time
def told(*_):
    open(sys.argv[1], "a").write("told to end\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
open(sys.argv[1], "a").write("up\\n")
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def server() -> Iterator[Host]:
    # A socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="ks"))
    (folder / "server.py").write_text(SERVER)
    (folder / "supervisord.conf").write_text(f"""
[unix_http_server]
file={folder}/sock
[supervisord]
logfile={folder}/log
pidfile={folder}/pid
nodaemon=true
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://{folder}/sock
[program:storage-1]
command={sys.executable} {folder}/server.py {folder}/said
autorestart=true
startsecs=0
stopasgroup=true
[program:worker]
command={sys.executable} {folder}/server.py {folder}/worker
autostart=false
startsecs=0
[program:broken]
command={folder}/is-not-there
autostart=false
""")
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor.supervisord", "-c", str(folder / "supervisord.conf")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    host = Host("storage-1", "storage", {"supervisor_dir": str(folder), "home": str(folder)})
    try:
        until(lambda: said(host) == ["up"])
        yield host
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def said(host: Host) -> list[str]:
    path = host.home / "said"
    return path.read_text().splitlines() if path.exists() else []


def process(host: Host) -> supervisor.Process:
    (found,) = [p for p in supervisor.processes(host.home) or [] if p.name == host.name]
    return found


def state(host: Host) -> str:
    return process(host).state


def test_a_server_is_killed_stays_down_and_comes_back(server: Host) -> None:
    trouble.kill([server])
    until(lambda: state(server) == "STOPPED")
    assert said(server) == ["up"], "nobody told it to end in good order"
    with pytest.raises(UserError, match="storage-1 does not run"):
        trouble.kill([server])
    trouble.start([server])
    until(lambda: said(server) == ["up", "up"])
    trouble.start([server])
    assert state(server) == "RUNNING", "started twice is started"


def test_a_server_stands_still_before_supervisord_ends_it(
    server: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two signals that wait for it Linux delivers the one to end in good order first."""
    call, pid = trouble._call, process(server).pid
    states = []

    def seen(host: Host, verb: str, *args: Any, **more: Any) -> None:
        states.append(psutil.Process(pid).status())
        call(host, verb, *args, **more)

    monkeypatch.setattr(trouble, "_call", seen)
    trouble.kill([server])
    assert states == [psutil.STATUS_STOPPED]


def test_a_server_is_frozen_and_goes_on(server: Host) -> None:
    pid = process(server).pid
    trouble.freeze([server])
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    trouble.thaw([server])
    until(lambda: psutil.Process(pid).status() != psutil.STATUS_STOPPED)
    assert said(server) == ["up"]


def test_a_server_is_restarted_in_good_order(server: Host) -> None:
    trouble.restart([server])
    until(lambda: said(server) == ["up", "told to end", "up"])


def test_of_a_host_with_several_processes_each_is_meant(server: Host) -> None:
    """None of them has the host's name; a server that is down keeps no other from being started."""
    names = {"storage-1": "api", "worker": "worker"}
    front = Host("front", "kairosdb", {**server.vars, "processes": names})
    with pytest.raises(UserError, match="worker does not run"):
        trouble.freeze([front])
    supervisor.proxy(server.home).supervisor.startProcess("worker")

    def states() -> list[str]:
        found = {p.name: p.state for p in supervisor.processes(server.home) or []}
        return [found[name] for name in names]

    trouble.kill([front])
    until(lambda: states() == ["STOPPED", "STOPPED"])
    supervisor.proxy(server.home).supervisor.startProcess("worker")
    trouble.start([front])
    until(lambda: said(server) == ["up", "up"])
    assert states() == ["RUNNING", "RUNNING"]
    trouble.restart([front])
    until(lambda: said(server) == ["up", "up", "told to end", "up"])
    until(lambda: states() == ["RUNNING", "RUNNING"])
    unknown = Host("front", "kairosdb", {**server.vars, "processes": {"nobody": "api"}})
    with pytest.raises(UserError, match="nobody: supervisord does not run, or does not know it"):
        trouble.kill([unknown])


def test_a_series_restarts_each_process_of_a_host_under_its_own_name(server: Host) -> None:
    """What takes points may be several, none of which has the host's name."""

    def standing(**processes: str) -> Inventory:
        front = Host("front", "kairosdb", {**server.vars, "processes": processes})
        return Inventory(Path(), [], [front], [])

    driver.restart(standing(**{"storage-1": "api"}))
    until(lambda: said(server) == ["up", "told to end", "up"])
    trouble.kill([server])
    until(lambda: state(server) == "STOPPED")
    driver.restart(standing(**{"storage-1": "api"}))
    until(lambda: said(server) == ["up", "told to end", "up", "up"])
    # What a deploy that was interrupted has not come to, the next one starts.
    driver.restart(standing(**{"storage-1": "api", "to-come": "worker"}))
    until(lambda: said(server)[-2:] == ["told to end", "up"])
    with pytest.raises(UserError, match=r"front could not be restarted: .*broken: ERROR"):
        driver.restart(standing(**{"broken": "worker"}))


def test_processes_that_do_not_end_are_given_up_in_a_sentence(
    server: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are stopped one after the other, so that each has its time."""
    given: list[float] = []

    def never(command: list[str], *, timeout: float, **_: Any) -> None:
        given.append(timeout)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(driver.subprocess, "run", never)
    for processes in ({"storage-1": "api"}, {"storage-1": "api", "worker": "worker"}):
        front = Host("front", "kairosdb", {**server.vars, "processes": processes})
        with pytest.raises(UserError, match=r"^front could not be restarted: .*First: make"):
            driver.restart(Inventory(Path(), [], [front], []))
    assert given[1] == 2 * given[0]


def test_a_loader_host_is_what_works_in_its_folder(tmp_path: Path) -> None:
    loader = Host("loader-1", "loader", {"home": str(tmp_path / "loader-1")})
    with pytest.raises(UserError, match="loader-1 has no process"):
        trouble.freeze([loader])
    stand_in = [sys.executable, "-c", "import time; time.sleep(600)", "loaders.host"]
    processes = [
        subprocess.Popen([*stand_in, f"{tmp_path}/{name}/load"]) for name in ("loader-1", "other")
    ]
    try:
        trouble.thaw([loader])
        trouble.kill([loader])
        assert processes[0].wait(60) == -9
        assert processes[1].poll() is None
        trouble.start([loader])  # Nobody would start it again.
    finally:
        for process in processes:
            process.kill()
            process.wait()
