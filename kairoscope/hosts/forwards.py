"""From this machine to the servers of hosts that only SSH leads to: port forwards, kept up.

A forward ends on the host itself, whose SSH host key was verified. So the ports of the stores need
not be open to this machine, and the same works through a bastion.
"""

import contextlib
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host

_OPEN_S = 30.0
_LOOK_S = 0.5
_PORT_OF = {"storage": "native_transport_port", "kairosdb": "http_port"}

Endpoint = tuple[str, int]
"""Address and port."""


@dataclass(frozen=True)
class Ways:
    """Where this machine reaches the servers of some hosts."""

    endpoints: dict[Endpoint, Endpoint] = field(default_factory=dict)
    """What a server listens on → where this machine reaches it."""

    def endpoint(self, host: Host, port: int | None = None) -> Endpoint:
        """Where to connect for a storage node's CQL, or the first port of what takes points; or
        for another of the ports in its variable `listens`."""
        own = (host.address, int(host.vars[_PORT_OF[host.role]]) if port is None else port)
        return self.endpoints.get(own, own)

    def url(self, host: Host) -> str:
        """Base URL of a server that takes points, as seen from here."""
        address, port = self.endpoint(host)
        return f"{host.scheme}://{address}:{port}"


class _Forward:
    """One host's forward, of all ports that it has: an ssh process, started again when it ends."""

    def __init__(self, host: Host) -> None:
        self.host = host
        main = int(host.vars[_PORT_OF[host.role]])
        ports = dict.fromkeys([main, *map(int, host.vars.get("listens", {}).values())])
        self.ends = {(host.address, port): ("127.0.0.1", _free_port()) for port in ports}
        self.here = next(iter(self.ends.values()))
        options = ["-N", "-o", "ExitOnForwardFailure=yes"]
        for own, here in self.ends.items():
            options += ["-L", f"{here[0]}:{here[1]}:{own[0]}:{own[1]}"]
        self._line = ssh.ssh(host, *options)
        # What ssh says. No pipe: it says a line for every connection that the host refuses, and
        # stands still once nobody reads them.
        self._said = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (as long as it lasts)
        try:
            self._popen = self._start()
        except BaseException:
            self._said.close()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        self._said.seek(0)
        self._said.truncate()
        return subprocess.Popen(
            self._line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            # Ctrl-C is for us; what is still to be read goes through here.
            start_new_session=True,
        )

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(self.here, timeout=1):
            return True
        return False

    def wait(self, deadline: float) -> None:
        """Wait until it listens. UserError if it does not."""
        while not self.listens():
            if self._popen.poll() is not None or time.monotonic() > deadline:
                said = self._last_line() if self._popen.poll() is not None else ""
                raise UserError(
                    f"Host {self.host.name} ({self.host.address}) is not reached by ssh"
                    f"{': ' + said if said else f' within {_OPEN_S:.0f} s'}"
                )
            time.sleep(0.05)

    def look_after(self) -> None:
        if self._popen.poll() is not None:
            self._popen = self._start()

    def close(self) -> None:
        self._popen.terminate()
        try:
            self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._said.close()

    def _last_line(self) -> str:
        self._said.seek(0)
        return (self._said.read().decode(errors="replace").strip().splitlines() or [""])[-1]


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def open_ways(hosts: Sequence[Host]) -> Iterator[Ways]:
    """Ways to the servers of these hosts (`Inventory.hosts`), kept up until the end of the block.

    A host that is away for a while, as in a restart, is reached again once it is back.

    Raises:
        UserError: a host cannot be reached by ssh.
    """
    distant = [host for host in hosts if not ssh.is_local(host)]
    forwards: list[_Forward] = []
    ended = threading.Event()

    def look_after() -> None:
        while not ended.wait(_LOOK_S):
            for forward in forwards:
                forward.look_after()

    keeper = threading.Thread(target=look_after, daemon=True)
    try:
        for host in distant:
            forwards.append(_Forward(host))
        deadline = time.monotonic() + _OPEN_S
        for forward in forwards:
            forward.wait(deadline)
        if forwards:
            keeper.start()
        yield Ways({own: here for forward in forwards for own, here in forward.ends.items()})
    finally:
        ended.set()
        if keeper.is_alive():
            keeper.join()
        for forward in forwards:
            forward.close()
