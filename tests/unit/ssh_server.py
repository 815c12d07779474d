"""An SSH server on loopback, for the real ssh client, with keys that live as long as it does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any

import asyncssh

USER = "sensor"


class SshServer:
    """Does with a command what sshd does. Use as `with SshServer(folder) as server`.

    The command is given to a shell in a home and an environment of its own. When the connection
    ends, its pipes are closed; it is not killed, as sshd does not do that either. A password is
    asked for, as most sshd do, and always wrong.

    Attributes:
        port: where it listens, on 127.0.0.1.
        home: where commands run.
        user_key: path of the private key that may log in.
        known_hosts: path of a file with the server's key.
        commands: what was asked to be run.
        passwords: what was tried.
    """

    def __init__(self, folder: Path) -> None:
        """Write keys and home into a new folder, and listen."""
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.user_key = folder / "user_key"
        self.known_hosts = folder / "known_hosts"
        self.commands: list[str] = []
        self.passwords: list[str] = []
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._children: list[subprocess.Popen[bytes]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

        host_key = asyncssh.generate_private_key("ssh-ed25519")
        user_key = new_key(self.user_key)
        self._thread.start()
        try:
            self._acceptor = self._call(self._listen(host_key, user_key))
        except BaseException:
            self._end_loop()
            raise
        self.port: int = self._acceptor.get_port()
        public = host_key.export_public_key().decode()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public}")

    def variables(self, **replaced: str) -> dict[str, Any]:
        """What an inventory says of a host that is behind this server.

        Nothing of the user's own ssh counts; `replaced` are options of ssh.
        """
        options = {
            "UserKnownHostsFile": f'"{self.known_hosts}"',
            "GlobalKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
        } | replaced
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_user": USER,
            "ansible_ssh_private_key_file": str(self.user_key),
            "ansible_ssh_common_args": "-F none "
            + " ".join(f"-o '{name}={value}'" for name, value in options.items()),
        }

    def drop(self) -> None:
        """Break all connections."""
        self._call(self._drop())

    def stop(self) -> None:
        """Break all connections and accept no more."""
        self._loop.call_soon_threadsafe(self._acceptor.close)
        self.drop()

    def __enter__(self) -> SshServer:
        """Give this server."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and kill what is left of commands."""
        try:
            self.stop()
        finally:
            for child in self._children:
                with child, contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            self._end_loop()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _end_loop(self) -> None:
        self._call(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _listen(
        self, host_key: asyncssh.SSHKey, user_key: asyncssh.SSHKey
    ) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[host_key],
            authorized_client_keys=asyncssh.import_authorized_keys(
                user_key.export_public_key().decode()
            ),
            server_factory=lambda: _Login(self._connections, self.passwords),
            process_factory=self._run,
            encoding=None,
        )

    async def _drop(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def _run(self, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        command = channel.command or ""
        self.commands.append(command)
        child = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"], "USER": USER},
            start_new_session=True,
        )
        self._children.append(child)
        await channel.redirect(child.stdin, child.stdout, child.stderr, send_eof=False)
        end = asyncio.create_task(_exit_with(channel, child))
        await channel.wait_closed()
        end.cancel()


async def _exit_with(
    channel: asyncssh.SSHServerProcess[bytes], child: subprocess.Popen[bytes]
) -> None:
    """When all that a command wrote has been sent, and it has ended, say how."""
    await channel.stdout.drain()
    await channel.stderr.drain()
    status = await asyncio.get_running_loop().run_in_executor(None, child.wait)
    if status < 0:
        channel.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
    else:
        channel.exit(status)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class _Login(asyncssh.SSHServer):
    """Who is connected, and what passwords were tried."""

    def __init__(
        self, connections: set[asyncssh.SSHServerConnection], passwords: list[str]
    ) -> None:
        self._connections = connections
        self._passwords = passwords

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self._connection)

    def password_auth_supported(self) -> bool:
        return True

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> bool:
        """Forwards lead anywhere."""
        return True

    def validate_password(self, username: str, password: str) -> bool:
        self._passwords.append(password)
        return False


def new_key(path: Path) -> asyncssh.SSHKey:
    """Make a key and write its private half to a file."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.touch(mode=0o600)  # or ssh will not have it
    key.write_private_key(path)
    return key
