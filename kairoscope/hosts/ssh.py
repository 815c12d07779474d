"""Run programs on the hosts of an inventory: on this machine, or by ssh as Ansible would."""

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TypeVar

from kairoscope.errors import UserError
from kairoscope.hosts.inventory import Host

SSH_FAILED = 255
"""Exit status of ssh when it is not that of what it ran."""
NO_ANSWER = "no answer within"
"""Of what RemoteError says where a host, or what it was to run, stands still."""
_ALL_HOSTS_AT_ONCE = 32
# Answered either way. By the exit status of `test` alone, a host whose sudo wants a password would
# be one that has not what was looked for.
_LOOK = 'if [ -e "$1" ]; then echo yes; else echo no; fi'
_LOOKED = {"yes": True, "no": False}

T = TypeVar("T")


class RemoteError(Exception):
    """A program could not be run on a host, or failed there; the message says which and how.

    `said` is what the program itself said of it, "" if it said nothing or did not run.
    """

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said


@dataclass(frozen=True)
class Looked:
    """Whether something is on a host.

    Attributes:
        there: None where that is not known, as the host does not answer, or answers something
            else: who would delete, or put another machine in its place, must not take it for False.
        why: it is not known, with the host's name; "" if it is.
    """

    there: bool | None
    why: str = ""


def is_local(host: Host) -> bool:
    """Whether the host is this machine."""
    return variable(host, "ansible_connection") in ("local", "ansible.builtin.local")


def variable(host: Host, name: str, default: str = "") -> str:
    """An inventory variable as text.

    Raises:
        UserError: it is a template, which only Ansible could resolve.
    """
    value = str(host.vars.get(name, default))
    if "{{" in value:
        raise UserError(
            f"Host {host.name}: {name} is a template, which Ansible alone can resolve. "
            "Give the value itself in the inventory."
        )
    return value


def ssh(host: Host, *options: str) -> list[str]:
    """The command line of ssh to a host, with what the inventory says for Ansible.

    Raises:
        UserError: the inventory wants a way to reach the host that is not known here, or is not
            installed.
    """
    connection = variable(host, "ansible_connection", "ssh").removeprefix("ansible.builtin.")
    if connection not in ("ssh", "smart"):
        raise UserError(
            f"Host {host.name}: ansible_connection is {connection}; hosts are reached over ssh "
            "or are local only. Change it in the inventory."
        )
    if not shutil.which("ssh"):
        raise UserError(
            f"Host {host.name} is reached by ssh, which is not installed here. "
            "First: scripts/need ssh"
        )
    # What the inventory says stands first: for ssh the first of two values counts.
    line = ["ssh", "-T", "-o", "BatchMode=yes"]
    for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        line += shlex.split(variable(host, name))
    line += ["-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=10"]
    for option, name in (
        ("-p", "ansible_port"),
        ("-l", "ansible_user"),
        ("-i", "ansible_ssh_private_key_file"),
    ):
        if value := variable(host, name):
            line += [option, value]
    return [*line, *options, variable(host, "ansible_host", host.name)]


def command(host: Host, program: list[str], *, sudo: bool = False) -> list[str]:
    """The command line that runs a program on a host, as root there if `sudo` and it is managed.

    Raises:
        UserError: see `ssh`.
    """
    if sudo and host.vars.get("managed"):
        program = ["sudo", "-n", *program]
    if is_local(host):
        return program
    return [*ssh(host), shlex.join(program)]


def run(
    host: Host,
    program: list[str],
    *,
    sudo: bool = False,
    stdin: str | None = None,
    timeout_s: float = 60,
) -> str:
    """Run a program on a host and return what it printed.

    Raises:
        RemoteError: it could not be run, or its exit status is not 0.
        UserError: see `ssh`.
    """
    shown = f"{host.name}: {shlex.join(program)}"
    try:
        done = subprocess.run(
            command(host, program, sudo=sudo),
            input="" if stdin is None else stdin,
            capture_output=True,
            # A name that was torn, in a log that is copied, must not cost all else that it says.
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        # Its own text has all that ssh was told: an inventory may have a password in that.
        raise RemoteError(f"{shown}: {NO_ANSWER} {timeout_s:g} s") from None
    except OSError as error:
        raise RemoteError(f"{shown}: {error}") from error
    if done.returncode != 0:
        raise _failure(host, shown, done.returncode, done.stderr + done.stdout)
    return done.stdout


def look_for(host: Host, path: str) -> Looked:
    """Whether a file or folder is on a host, as root sees it there.

    Raises:
        UserError: see `ssh`.
    """
    try:
        said = run(host, ["sh", "-c", _LOOK, "sh", path], sudo=True).split()
    except RemoteError as error:
        return Looked(None, str(error))
    # The last word: a login may greet before.
    there = _LOOKED.get(said[-1]) if said else None
    if there is None:
        return Looked(None, f"{host.name}: looking for {path} said {' '.join(said) or 'nothing'}")
    return Looked(there)


@contextmanager
def reading(host: Host, program: list[str], *, sudo: bool = False) -> Iterator[IO[str]]:
    """What a program prints on a host, as it comes: for more of it than fits into memory.

    It is ended if the block ends before it does.

    Raises:
        RemoteError: it could not be run, or its exit status is not 0; at the end of the block.
        UserError: see `ssh`.
    """
    shown = f"{host.name}: {shlex.join(program)}"
    with tempfile.TemporaryFile("w+", errors="replace") as trouble:
        try:
            running = subprocess.Popen(
                command(host, program, sudo=sudo),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=trouble,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise RemoteError(f"{shown}: {error}") from error
        with running:
            assert running.stdout is not None
            try:
                yield running.stdout
            except BaseException:
                running.kill()
                raise
        if running.returncode != 0:
            trouble.seek(0)
            raise _failure(host, shown, running.returncode, trouble.read())


def _failure(host: Host, shown: str, status: int, text: str) -> RemoteError:
    # A Java stack trace may follow; the message is the first line that is none of it.
    said = [s for s in text.splitlines() if s.strip() and s[0] != "\t"]
    how = "ssh failed: " if status == SSH_FAILED and not is_local(host) else ""
    message = f"{shown}: {how}{said[0] if said else f'exit status {status}'}"
    return RemoteError(message, said[0] if said and not how else "")


def on_all(hosts: Sequence[Host], work: Callable[[Host], T]) -> list[T]:
    """The results of `work` for all hosts, side by side, in their order."""
    with ThreadPoolExecutor(max(1, min(len(hosts), _ALL_HOSTS_AT_ONCE))) as pool:
        return list(pool.map(work, hosts))
