"""What all hosts are made of: a Debian or Ubuntu as a folder, built once and never changed
afterwards; every host lays its own disk over it.

Of this machine's own release and package sources; of another one, which `KAIROSCOPE_LAB_SYSTEM`
names, from its public mirrors.
"""

import fcntl
import hashlib
import json
import os
import platform
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.targets.lab import system

FOLDER = paths.CHECKOUT / ".kairoscope" / "lab-base"
LOGIN = "kairoscope"

KEYRINGS = Path("/usr/share/keyrings")
# Debian 12 has no package of Ubuntu's keys: this is Ubuntu 24.04's own, and the keys in it those of
# 2012 and 2018 that Ubuntu publishes.
UBUNTU_KEYS = (
    "http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/"
    "ubuntu-keyring_2023.11.28.1_all.deb",
    "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8",  # SHA-256
)


@dataclass(frozen=True)
class System:
    """A release that hosts can be made of, though this machine is another.

    Attributes:
        codename: what its archives call it.
        archives: addresses of its packages, updates and security's, by suffix of the codename.
        components: of each of them.
        keyring: whose keys sign them, in KEYRINGS.
        keys: address and SHA-256 of a package that has the keyring, if this machine has not.
    """

    codename: str
    archives: dict[str, str]
    components: str
    keyring: str
    keys: tuple[str, str] | None = None

    def sources(self) -> list[str]:
        """Lines for apt. UserError if the keys to check the packages by cannot be had."""
        keyring = KEYRINGS / self.keyring
        if not keyring.exists() and self.keys:
            keyring = _fetched(*self.keys) / "usr/share/keyrings" / self.keyring
        if not keyring.exists():
            raise UserError(
                f"The packages of {self.codename} cannot be checked: {keyring} is missing. "
                "First: apt-get install debian-archive-keyring"
            )
        return [
            f"deb [signed-by={keyring}] {url} {self.codename}{suffix} {self.components}"
            for suffix, url in self.archives.items()
        ]


def _fetched(url: str, sha256: str) -> Path:
    """Folder of the files of a Debian package that is fetched, once. UserError if it is not it."""
    folder = FOLDER / f"package-{sha256[:12]}"
    if folder.exists():
        return folder
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 (one of ours)
            content = answer.read()
    except OSError as error:
        raise UserError(f"{url} could not be fetched: {error}. Is there a way to it?") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(f"{url} is not the file that it was: its SHA-256 is not {sha256}")
    package, unfinished = FOLDER / "package.deb", FOLDER / "package"
    package.write_bytes(content)
    system.remove(unfinished)
    system.call("dpkg-deb", "--extract", package, unfinished)
    unfinished.rename(folder)
    return folder


def _debian(codename: str) -> System:
    main, security = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
    return System(
        codename,
        {"": main, "-updates": main, "-security": security},
        "main",
        "debian-archive-keyring.gpg",
    )


def _ubuntu(codename: str) -> System:
    at_main = platform.machine() == "x86_64"
    url = "http://archive.ubuntu.com/ubuntu" if at_main else "http://ports.ubuntu.com/ubuntu-ports"
    return System(
        codename,
        {"": url, "-updates": url, "-security": url},
        "main universe",
        "ubuntu-archive-keyring.gpg",
        UBUNTU_KEYS,
    )


SYSTEMS = {
    "debian-12": _debian("bookworm"),
    "debian-13": _debian("trixie"),
    "ubuntu-22.04": _ubuntu("jammy"),
    "ubuntu-24.04": _ubuntu("noble"),
}

# What a cloud image of Debian has and these hosts are used for. No more: what a role needs beyond
# it, it has to bring along, as on any host without a way to the internet.
PACKAGES = (
    "apt",  # not part of a minimal Ubuntu
    "ca-certificates",
    "dbus",
    "iproute2",
    "libfaketime",  # a server's own wrong clock: an experiment's faults
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
            + "\nIt takes packages from where this machine does, of another system from its public "
            "mirrors: does apt-get update work?"
        )


def _wanted() -> System | None:
    """What `KAIROSCOPE_LAB_SYSTEM` names. UserError if it is not known."""
    name = os.environ.get("KAIROSCOPE_LAB_SYSTEM")
    if not name:
        return None
    if name not in SYSTEMS:
        raise UserError(
            f"KAIROSCOPE_LAB_SYSTEM={name}: the lab's hosts can be {', '.join(SYSTEMS)}, or, "
            "without it, what this machine is"
        )
    return SYSTEMS[name]


def _codename() -> str:
    """Of the release that hosts are made of."""
    wanted = _wanted()
    return wanted.codename if wanted else _own_codename()


def _own_codename() -> str:
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def _sources() -> list[str]:
    """Package sources of the hosts' release, and no other's, as lines for apt."""
    if (wanted := _wanted()) and wanted.codename != _own_codename():
        return wanted.sources()
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
