"""A loader host: which loader it has, and how far its clock is off."""

import subprocess

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.run_folder import ClockOffset
from loaders.host import fingerprint

READY_S = 60.0
"""To log in, and to start Python on a busy machine."""


def best_offset(pings: list[tuple[int, int, int]]) -> ClockOffset:
    """The offset by the ping with the shortest round trip, the one that can be least wrong.

    Args:
        pings: (when it was sent, the host's clock in its answer, when that came), epoch µs each.
    """
    sent, theirs, came = min(pings, key=lambda ping: ping[2] - ping[0])
    return ClockOffset(theirs - (sent + came) // 2, came - sent)


def python(host: Host) -> list[str]:
    """Command of a loader host's Python with the loader."""
    # -P: a folder named "loaders" where the login happens to be is not ours.
    return [f"{ssh.variable(host, 'loader_venv')}/bin/python", "-P"]


def version(host: Host) -> str | None:
    """What the loader on a host says it is, such as "loaders 7f1044168832"; None if nothing.

    Raises:
        UserError: see `ssh.command`.
    """
    try:
        done = subprocess.run(
            ssh.command(host, [*python(host), "-m", "loaders.host", "--version"]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def current_version() -> str:
    """What `version` gives for a host that has this checkout's code."""
    return f"loaders {fingerprint()}"
