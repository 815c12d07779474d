"""The local target's supervisord: which processes it keeps, and ending them all."""

import contextlib
import socket
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from xmlrpc.client import Error, ServerProxy

import psutil
from supervisor.xmlrpc import SupervisorTransport

from kairoscope import paths
from kairoscope.errors import UserError

_ANSWERS_WITHIN_S = 30.0
"""supervisord does nothing that takes long."""


@dataclass(frozen=True)
class Process:
    """One supervised process: `state` is supervisord's word (RUNNING, …), pid 0 if none."""

    name: str
    state: str
    pid: int
    started: float


class _Connection(HTTPConnection):
    """To supervisord's socket; its own transport waits for ever for one that stands still."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ANSWERS_WITHIN_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def proxy(supervisor_dir: Path) -> ServerProxy:
    """What supervisord is spoken to through. For one thread: it keeps a connection.

    A call raises OSError (TimeoutError where supervisord stands still), or an Error of XML-RPC.
    """
    # The host in the URL is a formality of XML-RPC; the transport goes through the socket.
    path = supervisor_dir / "sock"
    transport = SupervisorTransport("", "", serverurl=f"unix://{path}")
    transport._get_connection = lambda: _Connection(path)
    return ServerProxy("http://127.0.0.1", transport=transport)


def processes(supervisor_dir: Path) -> list[Process] | None:
    """What supervisord says of its processes; None if it does not run.

    UserError if it runs and does not answer: what it would say is not known, and None would be a
    reason to end what it keeps.
    """
    if not (supervisor_dir / "sock").exists():
        return None
    try:
        infos = proxy(supervisor_dir).supervisor.getAllProcessInfo()
    except TimeoutError:
        raise UserError(
            f"supervisord has not answered for {_ANSWERS_WITHIN_S:g} s at {supervisor_dir}: it "
            "stands still, or this machine is too busy for it"
        ) from None
    except (OSError, HTTPException, Error):
        return None
    assert isinstance(infos, list)
    return [
        Process(i["name"], i["statename"], int(i["pid"]), float(i["start"]))
        for i in infos
        if isinstance(i, dict)
    ]


def owned(state: Path, bundles: Path = paths.BUNDLES) -> list[psutil.Process]:
    """Every live process of this deployment: its folder stands in the command line.

    `bundles`: where the programs that we brought are, of which some run there. The calling process
    and its ancestors are never among them.
    """
    mine = {psutil.Process().pid, *(p.pid for p in psutil.Process().parents())}
    marker = f"{state}/"
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        command = process.info["cmdline"] or []
        # Only what runs from the folder: supervisord and the servers name a file in it as an
        # argument of their own. An editor with such a file open is not ours to end.
        ours = any(part.startswith((marker, f"@{marker}")) for part in command[1:]) and (
            is_supervisord(command)
            or any(part.endswith("/java") for part in command[:3])
            or is_scylla(command)
        )
        # Of programs that we brought, and run where they are, with files in it. Some make one title
        # of all that, with words before it.
        brought = command[:1] and f"{bundles}/" in command[0]
        ours |= bool(brought) and any(marker in part for part in command)
        # Monitoring's programs are in it themselves.
        watches = any(
            part.startswith((f"{marker}opt/monitoring-", f"{marker}opt/node-exporter-"))
            for part in command[:1]
        )
        if (ours or watches) and process.pid not in mine:
            found.append(process)
    return found


def is_supervisord(command: list[str]) -> bool:
    """Whether a command line is supervisord's, by itself or by its interpreter; not that of who
    reads its log or its settings."""
    return any(Path(part).name == "supervisord" for part in command[:2])


def is_scylla(command: list[str]) -> bool:
    """Whether a command line is a ScyllaDB server's, by itself or by the loader that it brings."""
    by_loader = command[0].endswith("/ld.so") and "--library-path" in command[1:2]
    return any(part.endswith("/scylla") for part in (command[3:4] if by_loader else command[:1]))


def end_all(state: Path, patience_s: float = 60, *, bundles: Path = paths.BUNDLES) -> list[int]:
    """End supervisord (which ends its processes) and whatever else is left; returns their pids.

    SIGTERM first; what is still there after `patience_s` seconds is killed.
    """
    ended = owned(state, bundles)
    # supervisord first: it would start again what is ended under it.
    for process in ended:
        if is_supervisord(_cmdline(process)):
            _signal(process, "terminate")
    deadline = time.monotonic() + patience_s
    while (left := owned(state, bundles)) and time.monotonic() < deadline:
        if not any(is_supervisord(_cmdline(p)) for p in left):
            for process in left:
                _signal(process, "terminate")
        time.sleep(0.5)
    for process in owned(state, bundles):
        _signal(process, "kill")
    psutil.wait_procs(owned(state, bundles), timeout=10)
    return [p.pid for p in ended]


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _signal(process: psutil.Process, how: str) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        getattr(process, how)()
