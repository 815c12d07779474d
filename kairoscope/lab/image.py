"""What all hosts are made of: a Debian (or Ubuntu) as a folder, built once from this machine's
own package sources and never changed afterwards; every host lays its own disk over it.
"""

import fcntl
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.lab import system

FOLDER = paths.CHECKOUT / ".kairoscope" / "lab-base"
LOGIN = "kairoscope"

# What a cloud image of Debian has and these hosts are used for. No more: what a role needs beyond
# it, it has to bring along, as on any host without a way to the internet.
PACKAGES = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "libpam-systemd",
    "netbase",
    "nftables",
    "openssh-server",
    "passwd",
    "procps",
    "python3",
    "python3-apt",  # Ansible's apt module
    "python3-venv",  # the loader's virtual environment
    "sudo",
    "systemd",
    "systemd-sysv",
    "systemd-timesyncd",
)

# Run in the new root. Host keys, the machine's id and the login's key are each host's own.
CUSTOMISE = f"""
set -eu
useradd --create-home --shell /bin/bash {LOGIN}
echo '{LOGIN} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{LOGIN}
chmod 440 /etc/sudoers.d/{LOGIN}
cat > /etc/ssh/sshd_config.d/lab.conf <<'END'
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
HostKey /etc/ssh/ssh_host_ed25519_key
UseDNS no
END
rm -f /etc/ssh/ssh_host_*
systemctl --quiet enable systemd-networkd ssh
# None of these has anything to do, or to wait for, on a host without a console or the internet.
systemctl --quiet mask systemd-networkd-wait-online.service console-getty.service \
  apt-daily.timer apt-daily-upgrade.timer
: > /etc/machine-id
rm -f /var/lib/dbus/machine-id /etc/hostname /etc/resolv.conf
# The hosts have no way to these; a role that brings a repository along adds its own.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99mmdebstrap \
  /var/lib/apt/lists/* /var/cache/apt/*.bin
mkdir -p /var/lib/kairoscope
"""


def key() -> str:
    """What names the base image: it changes with the recipe and the system's release."""
    recipe = json.dumps([_codename(), PACKAGES, CUSTOMISE])
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


def base(say: Callable[[str], None]) -> Path:
    """The folder of the base image, which is built if it is not there yet.

    It is built aside and renamed, so that what is there is whole. Whoever comes second waits.

    Raises:
        UserError: it cannot be built; with what mmdebstrap said.
    """
    path = FOLDER / key()
    if path.exists():
        return path
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        say(f"lab: building the hosts' base image of {_codename()}, once (about a minute)")
        aside = FOLDER / "unfinished"
        system.remove(aside)
        _build(aside, lock.fileno())
        aside.rename(path)
    return path


def _build(folder: Path, lock: int) -> None:
    log = FOLDER / "build.log"
    command = [
        # Its mounts are in a namespace of its own and its processes end with the first: whatever
        # ends a build, no /dev of this machine is left mounted in a folder that will be removed.
        *("unshare", "--mount", "--mount-proc", "--pid", "--fork", "--kill-child"),
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--skip=check/empty"),
        f"--include={','.join(PACKAGES)}",
        *(f"--aptopt={option}" for option in _apt_options()),
        '--customize-hook=chroot "$1" sh -c "$KAIROSCOPE_CUSTOMISE"',
        *(_codename(), str(folder), "-"),
    ]
    with log.open("w") as output:
        done = subprocess.run(
            command,
            input="\n".join(_sources()) + "\n",
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "KAIROSCOPE_CUSTOMISE": CUSTOMISE},
            # What was started goes on if we are killed; nobody else may begin until it has ended.
            pass_fds=[lock],
            check=False,
        )
    if done.returncode != 0:
        system.remove(folder)
        said = [line for line in log.read_text().splitlines() if line.startswith(("E:", "Err:"))]
        raise UserError(
            f"The lab's base image could not be built (all of it: {log}):"
            + "".join(f"\n  {line}" for line in said[-5:])
            + "\nIt takes packages from where this machine does: does apt-get update work?"
        )


def _codename() -> str:
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def _sources() -> list[str]:
    """This machine's package sources of its own release, as lines for apt; nobody else's."""
    lines = _source_lines()
    if not lines:
        system.call("apt-get", "-qq", "update")
        lines = _source_lines()
    if not lines:
        raise UserError(
            f"This machine's apt has no package source of {_codename()}, of which the lab's hosts "
            "are made. Add it to /etc/apt/sources.list.d, then run again."
        )
    return lines


def _source_lines() -> list[str]:
    fields = "$(REPO_URI) $(RELEASE) $(COMPONENT)|$(ORIGIN)"
    listing = system.call("apt-get", "indextargets", "--format", fields, "Identifier: Packages")
    releases = {_codename() + suffix for suffix in ("", "-updates", "-security")}
    lines: dict[str, None] = {}
    for source, _, origin in (line.partition("|") for line in listing.splitlines()):
        if source.split()[1] in releases and origin in ("Debian", "Ubuntu"):
            lines[f"deb {source}"] = None
    return list(lines)


def _apt_options() -> list[str]:
    """How this machine's apt reaches its sources: proxies, certificates, old snapshots."""
    wanted = ("Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until", "Acquire::Retries")
    return [
        line
        for line in system.call("apt-config", "dump", "--no-empty").splitlines()
        if line.startswith(wanted)
    ]
