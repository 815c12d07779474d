"""Graphite's whisper files: where they are on this machine, and over SSH on a host of its own."""

import json
import shutil
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.stacks.graphite import newest

_PROBE = Path(newest.__file__)
OWN = "carbon"
"""Below which its processes have their own metrics."""


def root(host: Host) -> Path:
    """Folder of all files."""
    return host.home / "data" / "whisper"


def name_of(host: Host) -> str:
    """What the host calls itself, which its processes have in the names of their metrics. OSError
    if it does not tell."""
    if ssh.is_local(host):
        return socket.gethostname()
    return _on(host, ["hostname"]).strip()


def newest_points(
    host: Host, wanted: dict[str, str], fresh_s: float
) -> dict[str, list[tuple[int, float]]]:
    """(time in s, value) of the newest point of the last seconds of each of some files: a glob
    below `root`, by a name. OSError if the host does not tell."""
    if ssh.is_local(host):
        return newest.points(str(root(host)), wanted, fresh_s)
    given = json.dumps({"root": str(root(host)), "wanted": wanted, "fresh_s": fresh_s})
    said = _on(host, ["python3", "-c", _PROBE.read_text(), given])
    return {name: [(t, value) for t, value in found] for name, found in json.loads(said).items()}


def every(host: Host) -> Iterator[tuple[str, bytes]]:
    """Dotted path and content of all files but those of its own metrics. OSError if they cannot be
    had."""
    if ssh.is_local(host):
        for file in root(host).rglob("*.wsp"):
            path = file.relative_to(root(host))
            if path.parts[0] != OWN:
                yield _dotted(PurePosixPath(path)), file.read_bytes()
        return
    sent = ["tar", "--create", "--file=-", f"--directory={root(host)}", f"--exclude=./{OWN}", "."]
    try:
        with (
            ssh.reading(host, sent, sudo=True) as stream,
            tarfile.open(fileobj=cast(Any, stream).buffer, mode="r|") as files,
        ):
            for member in files:
                if member.name.endswith(".wsp") and (content := files.extractfile(member)):
                    yield _dotted(PurePosixPath(member.name)), content.read()
    except (ssh.RemoteError, tarfile.TarError) as error:
        raise OSError(f"the files of {host.name}: {error}") from error


def remove(host: Host) -> None:
    """Remove all files but those of its own metrics. OSError if they cannot be."""
    if ssh.is_local(host):
        for path in root(host).iterdir():
            if path.name == OWN:
                continue
            # A metric without tags is a file of its own there.
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        return
    found = ["find", str(root(host)), "-mindepth", "1", "-maxdepth", "1", "-not", "-name", OWN]
    _on(host, [*found, "-exec", "rm", "-r", "{}", "+"])


def _dotted(path: PurePosixPath) -> str:
    return ".".join(path.with_suffix("").parts)


def _on(host: Host, program: list[str]) -> str:
    try:
        return ssh.run(host, program, sudo=True)
    except ssh.RemoteError as error:
        raise OSError(str(error)) from error
