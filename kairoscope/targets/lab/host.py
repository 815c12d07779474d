"""A host of a lab: its name, its address, its disk; and which can be of one lab."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from kairoscope.errors import UserError

# The longest hostname of Linux; what a DNS name may have in it.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class LabHost:
    """A host to have: its name, its address (all of one lab in one /24), and a small data disk.

    With `data_disk_mib` it has an ext4 file system of that size at /var/lib/kairoscope, which can
    be filled. Without, that is a folder on the machine's own disk.
    """

    name: str
    address: str
    data_disk_mib: int | None = None


def check_hosts(hosts: Sequence[LabHost]) -> None:
    """UserError for names and addresses that no lab can have together."""
    for host in hosts:
        if not _NAME.fullmatch(host.name):
            raise UserError(
                f"{host.name!r} cannot be a host's name: small letters, digits and hyphens only."
            )
        try:
            last = int(IPv4Address(host.address)) & 255
        except AddressValueError:
            last = 0
        if last in (0, 1, 255):
            raise UserError(
                f"Lab host {host.name} cannot have {host.address}: an IPv4 address is needed, of "
                "which .0 and .255 are the network's, and .1 is the control machine's."
            )
    if len({gateway(host) for host in hosts}) > 1:
        raise UserError("The lab's hosts have to be in one /24 network.")
    for what in ("name", "address"):
        values = [getattr(host, what) for host in hosts]
        if twice := [value for value in values if values.count(value) > 1]:
            raise UserError(f"Two lab hosts have the {what} {twice[0]}.")


def gateway(host: LabHost) -> str:
    """The control machine's address in the host's network."""
    return host.address.rpartition(".")[0] + ".1"
