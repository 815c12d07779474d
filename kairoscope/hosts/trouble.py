"""What can happen to the processes of target `local` on purpose: killed, frozen, restarted.

A server's are those that supervisord keeps, under the names that the inventory has for them; a
loader host's are those that work in its folder.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from xmlrpc.client import Fault

import psutil

from kairoscope.errors import UserError
from kairoscope.hosts import supervisor
from kairoscope.hosts.inventory import Host

_STOP_S = 120.0
"""supervisord waits for a server as long as its program says, and then kills it."""
_STAND_STILL_S = 5.0
"""One that waits for a disk stands still only when that answers, and is killed all the same."""
_POLL_S = 0.05


def kill(hosts: Sequence[Host]) -> None:
    """End all their processes at once, and keep supervisord from starting them again.

    UserError if one does not run.
    """
    # First stopped, so that what supervisord tells them to do in good order never reaches them: of
    # two signals that wait for a process Linux delivers the lower number first (signal(7)), and
    # that is SIGTERM's.
    stopped = [pid for host in _servers(hosts) for pid in _signal(host, signal.SIGSTOP)]
    _until(lambda: all(map(_stands_still, stopped)), _STAND_STILL_S)
    for host in _servers(hosts):
        _call(host, "stopProcess")
    for host in hosts:
        _signal(host, signal.SIGKILL)


def start(hosts: Sequence[Host]) -> None:
    """Start servers that were killed, as soon as supervisord knows that they have ended."""
    for host in _servers(hosts):
        if not _until(lambda host=host: _states(host) <= {"STOPPED", "RUNNING"}):  # type: ignore[misc]
            raise UserError(f"{host.name} did not end, so that it could not be started again")
        _call(host, "startProcess", of={"STOPPED"})


def freeze(hosts: Sequence[Host]) -> None:
    """Stop all their processes where they are. UserError if one has none."""
    for host in hosts:
        _signal(host, signal.SIGSTOP)


def thaw(hosts: Sequence[Host]) -> None:
    """Let them go on, those that are still there."""
    for host in hosts:
        with contextlib.suppress(UserError):
            _signal(host, signal.SIGCONT)


def restart(hosts: Sequence[Host]) -> None:
    """End servers in good order, all at once, and start them again."""
    for host in hosts:
        _call(host, "stopProcess")
    start(hosts)


def _servers(hosts: Sequence[Host]) -> list[Host]:
    return [host for host in hosts if host.role != "loader"]


def _signal(host: Host, number: signal.Signals) -> list[int]:
    """Send a signal to all processes of a host, and say which they are. UserError if none."""
    pids = _of_loader(host) if host.role == "loader" else _of_server(host)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return pids


def _stands_still(pid: int) -> bool:
    """Whether a process was stopped by a signal, or is not there any more."""
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _of_server(host: Host) -> list[int]:
    """A server's processes, and their children: a database's, a pool of workers."""
    found = []
    for process in _processes(host):
        if not process.pid:
            raise UserError(f"{process.name} does not run")
        found.append(process.pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children(recursive=True)
            found += [child.pid for child in children]
    return found


def _of_loader(host: Host) -> list[int]:
    """Agent, workers and readers of a loader host: its folder is an argument of theirs."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        command = process.info["cmdline"] or []
        ours = any(part.startswith("loaders.") for part in command)
        if ours and any(part.startswith(f"{host.home}/") for part in command):
            found.append(int(process.pid))
    if not found:
        raise UserError(f"{host.name} has no process: its load is not under way")
    return found


def _processes(host: Host) -> list[supervisor.Process]:
    known = {process.name: process for process in supervisor.processes(_folder(host)) or []}
    if unknown := sorted(set(host.processes) - set(known)):
        raise UserError(f"{', '.join(unknown)}: supervisord does not run, or does not know it")
    return [known[name] for name in host.processes]


def _states(host: Host) -> set[str]:
    return {process.state for process in _processes(host)}


def _folder(host: Host) -> Path:
    return Path(host.vars["supervisor_dir"])


def _call(host: Host, verb: str, of: Collection[str] | None = None) -> None:
    """Tell supervisord so of each process of a host, those in a state of `of` alone, without
    waiting for its end."""
    for process in _processes(host):
        if of is not None and process.state not in of:
            continue
        try:
            getattr(supervisor.proxy(_folder(host)).supervisor, verb)(process.name, False)
        except (OSError, Fault) as error:
            said = error.faultString if isinstance(error, Fault) else str(error)
            raise UserError(f"{process.name}: supervisord could not {verb}: {said}") from error


def _until(true: Callable[[], bool], within_s: float = _STOP_S) -> bool:
    end = time.monotonic() + within_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True
