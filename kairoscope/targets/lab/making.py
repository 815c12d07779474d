"""What hosts are made of: their disks, their keys, and that all know each other's names."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

from kairoscope.errors import UserError
from kairoscope.targets.lab import image, system
from kairoscope.targets.lab.host import LabHost, gateway
from kairoscope.targets.lab.kept import Kept

_MIB = 1024 * 1024
_NETWORK = """[Match]
Name=host0

[Network]
Address={address}/24
Gateway={gateway}
LinkLocalAddressing=no
IPv6AcceptRA=no
"""


class Making:
    """Makes what hosts are of; knows nothing of what runs."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def login(self) -> None:
        """Make the key that we log in with."""
        self._kept.ssh_folder.mkdir(mode=0o700, exist_ok=True)
        self._kept.connections.mkdir(mode=0o700, exist_ok=True)
        _make_key(self._kept.ssh_folder / "id_ed25519", "kairoscope lab")

    def create(self, host: LabHost, base: Path) -> None:
        """Make a host's disks and keys; what an interrupted creation left is made anew."""
        folder = self._kept.hosts_folder / host.name
        system.remove(folder)
        for part in ("upper", "work", "root", "data"):
            (folder / part).mkdir(parents=True)
        # It is the host's own `/`, whatever our umask.
        (folder / "upper").chmod(0o755)
        _make_key(folder / "ssh_host_ed25519_key", host.name)
        if host.data_disk_mib:
            with (folder / "data.img").open("wb") as disk:
                disk.truncate(host.data_disk_mib * _MIB)
            # What is all zeros need not be written as such.
            lazy = ("-E", "lazy_itable_init=1,lazy_journal_init=1")
            system.call("mkfs.ext4", "-q", "-m", "0", *lazy, folder / "data.img")
        self.mount(host, base)
        etc = folder / "root" / "etc"
        _write(etc / "hostname", f"{host.name}\n")
        network = _NETWORK.format(address=host.address, gateway=gateway(host))
        _write(etc / "systemd/network/10-lab.network", network)
        for suffix, mode in (("", 0o600), (".pub", 0o644)):
            key = etc / "ssh" / f"ssh_host_ed25519_key{suffix}"
            shutil.copyfile(folder / f"ssh_host_ed25519_key{suffix}", key)
            key.chmod(mode)
        home = folder / "root" / "home" / image.LOGIN
        owner = home.stat()
        keys = home / ".ssh" / "authorized_keys"
        keys.parent.mkdir(mode=0o700)
        shutil.copyfile(self._kept.ssh_folder / "id_ed25519.pub", keys)
        for path, mode in ((keys.parent, 0o700), (keys, 0o600)):
            path.chmod(mode)
            os.chown(path, owner.st_uid, owner.st_gid)
        # Last, as it says that the host is whole.
        kept = {**asdict(host), "base": str(base)}
        system.write(folder / "host.json", json.dumps(kept, indent=2) + "\n")

    def mount(self, host: LabHost, base: Path) -> None:
        """Have a host's disks mounted on this machine. UserError if its image is gone."""
        folder = self._kept.hosts_folder / host.name
        if not base.is_dir():
            raise UserError(
                f"Lab host {host.name} is made of {base}, which is gone. First: make lab-down"
            )
        if not system.mounted(folder / "root"):
            layers = f"lowerdir={base},upperdir={folder / 'upper'},workdir={folder / 'work'}"
            system.call("mount", "-t", "overlay", "overlay", "-o", layers, folder / "root")
        if host.data_disk_mib and not system.mounted(folder / "data"):
            system.call("mount", "-o", "loop,noatime", folder / "data.img", folder / "data")

    def introduce(self) -> None:
        """Tell every host the names of all, and ssh their keys."""
        known = self._kept.known()
        keys = ""
        names = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
        for name, host in known.items():
            names += f"{host.address} {name}\n"
            public = self._kept.hosts_folder / name / "ssh_host_ed25519_key.pub"
            kind, key, *_ = public.read_text().split(maxsplit=2)
            keys += f"{host.address},{name} {kind} {key}\n"
        system.write(self._kept.ssh_folder / "known_hosts", keys)
        for name, host in known.items():
            folder = self._kept.hosts_folder / name
            # Only if the lab has changed: what a deployment made of the file is left alone.
            if system.read(folder / "etc-hosts") != names:
                self.mount(host, self._kept.base(name))
                _write(folder / "root" / "etc" / "hosts", names)
                system.write(folder / "etc-hosts", names)

    def data_disk(self, host: LabHost) -> Path:
        """Where a host's data disk is mounted. UserError if it has none."""
        if not host.data_disk_mib:
            raise UserError(
                f"Lab host {host.name} has no data disk of its own that could be filled or slow: "
                "it was made without a size for one."
            )
        self.mount(host, self._kept.base(host.name))
        return self._kept.hosts_folder / host.name / "data"


def _write(path: Path, text: str) -> None:
    """Write a file that the host's services may read, whatever our umask."""
    path.write_text(text)
    path.chmod(0o644)


def _make_key(path: Path, comment: str) -> None:
    if not path.exists():
        aside = path.with_name(f"{path.name}.new")
        for old in (aside, aside.with_name(f"{aside.name}.pub")):
            old.unlink(missing_ok=True)
        system.call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", aside)
        aside.with_name(f"{aside.name}.pub").rename(f"{path}.pub")
        aside.rename(path)
