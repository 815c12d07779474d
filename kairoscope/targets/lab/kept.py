"""What is kept of a lab in its folder, and what its hosts are called on this machine."""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

from kairoscope.errors import UserError
from kairoscope.targets.lab import system
from kairoscope.targets.lab.host import LabHost


class Kept:
    """The folder of a lab, and how what is in it is called on this machine."""

    def __init__(self, folder: Path) -> None:
        """Name the lab by its folder; nothing is made."""
        self.folder = folder.resolve()
        self._id_file = self.folder / "id"
        by_folder = "ks" + hashlib.sha256(str(self.folder).encode()).hexdigest()[:5]
        self.id = self._noted() or by_folder
        self.hosts_folder = self.folder / "hosts"
        self.ssh_folder = self.folder / "ssh"
        self.faults_file = self.folder / "faults.json"
        # Ansible's connections that stay open. Not where all its runs keep them, by address: other
        # labs have the same addresses.
        self.connections = Path("/run") / self.id
        self.group = f"kairoscope-{self.id}"

    def _noted(self) -> str | None:
        """The id that the lab was made with, also where its folder has been moved since."""
        found, _, made_in = system.read(self._id_file).strip().partition(" ")
        # Of a copy the first one is there still, and what runs is its own.
        copied = Path(made_in) != self.folder and (Path(made_in) / self._id_file.name).exists()
        return found if found and not copied else None

    def note(self) -> None:
        """Keep the id with what is called by it."""
        system.write(self._id_file, f"{self.id} {self.folder}\n")

    def known(self) -> dict[str, LabHost]:
        """The hosts that were made, by name, in the order of their addresses."""
        found = []
        for path in self.hosts_folder.glob("*/host.json"):
            kept = json.loads(path.read_text())
            found.append(LabHost(kept["name"], kept["address"], kept["data_disk_mib"]))
        return {host.name: host for host in sorted(found, key=lambda h: IPv4Address(h.address))}

    def host(self, name: str) -> LabHost:
        """One of them. UserError if there is none of that name."""
        known = self.known()
        if name not in known:
            names = ", ".join(known) or "none; first: make deploy TARGET=lab"
            raise UserError(f"The lab has no host {name}. Its hosts: {names}")
        return known[name]

    def base(self, name: str) -> Path:
        """The image that a host was made of."""
        return Path(json.loads((self.hosts_folder / name / "host.json").read_text())["base"])

    def cgroup(self, name: str) -> system.Cgroup:
        """A host's own control group."""
        return system.Cgroup(f"{self.group}/{name}")

    def payload(self, name: str) -> Path:
        """The control group of all of a host's processes."""
        return self.cgroup(name).path / "machine" / "payload"

    def machine(self, host: LabHost) -> str:
        """What nspawn calls it."""
        # Short, as it names the host's port of the switch: at most 15 letters in all.
        return f"{self.id}-{int(IPv4Address(host.address)) & 255}"

    def port(self, name: str) -> str:
        """A host's port of the switch."""
        return f"vb-{self.machine(self.host(name))}"

    def ssh_options(self) -> list[str]:
        """What ssh is told of the hosts' keys and of ours."""
        known = str(self.ssh_folder / "known_hosts").replace("%", "%%")
        return [
            *("-o", f'UserKnownHostsFile="{known}"', "-o", "GlobalKnownHostsFile=/dev/null"),
            *("-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"),
        ]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One at a time. The lock is the folder itself, so nothing is left of it."""
        try:
            handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise UserError("The lab is not up. First: make deploy TARGET=lab") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink == 0:
                raise UserError("The lab was taken down meanwhile; run the command again.")
            yield
        finally:
            os.close(handle)
