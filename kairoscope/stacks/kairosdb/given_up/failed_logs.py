"""What KairosDB says of the points that it gave up: on its host, and goes with it.

KairosDB's own queue logs the batches that it drops (failed.log). The coalescing queue keeps the
points that the store refused for good beside its file (`dead_letters`).
"""

from pathlib import Path

from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.stacks.kairosdb.given_up import dead_letters


def fetch(host: Host, folder: Path) -> list[Path]:
    """Copy a KairosDB host's files that are not empty to `folder`/<host>; the copies.

    Raises:
        UserError: the host does not hand them out. What they say cannot be had elsewhere.
    """
    copies = []
    try:
        # Logs that are empty are there always.
        listed = ssh.run(
            host,
            [
                *("find", f"{host.home}/log", f"{host.home}/queue", "-maxdepth", "1"),
                *("(", "-name", "failed*.log", "-o", "-name", dead_letters.FILE, ")"),
                *("-size", "+0"),
            ],
            sudo=True,
        )
        for name in sorted(listed.split()):
            copy = folder / host.name / Path(name).name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(ssh.run(host, ["cat", name], sudo=True, timeout_s=600))
            copies.append(copy)
    except ssh.RemoteError as error:
        raise UserError(
            f"The log of points that KairosDB gave up cannot be had: {error}"
        ) from error
    return copies


def kept(folder: Path) -> list[Path]:
    """The copies in a host's folder."""
    return sorted([*folder.glob("failed*.log"), *folder.glob(dead_letters.FILE)])


def is_dead_letters(path: Path) -> bool:
    """Whether a copy is of dead letters; else it is of failed.log."""
    return path.name == dead_letters.FILE
