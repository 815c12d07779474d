"""What is seen of a target: the ring as each node sees it, the schema, KairosDB's health."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kairoscope.deploy.verify import answers
from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.stacks.kairosdb.servers import client, nodetool
from kairoscope.stacks.kairosdb.servers.client import KairosDBStatus

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Cassandra's (FileUtils), and those of ScyllaDB's nodetool: of 1024 too, and called KB to TB
# (file_size_printer in tools/scylla-nodetool.cc).
_UNITS = {
    "bytes": 0,
    **{f"{prefix}{unit}": 10 * n for n, prefix in enumerate("KMGT", 1) for unit in ("iB", "B")},
}
_LOAD = re.compile(rf"\s([\d.]+) ({'|'.join(_UNITS)})\s")


@dataclass(frozen=True)
class Seen:
    """A target at one moment.

    Fields:
        rings: for each storage host, state by address of every node as it sees the ring; None where
            nodetool has no answer.
        schemas: versions of the schema among the nodes, as the first that answers sees them.
        kairosdb: what each KairosDB host says of itself.
        drained: storage hosts that others see down, and that run: drained, and not started again.
    """

    rings: Mapping[str, Mapping[str, str] | None]
    schemas: int
    kairosdb: Mapping[str, KairosDBStatus]
    drained: frozenset[str] = frozenset()


def look(inventory: Inventory) -> Seen:
    """Ask all servers of a target, side by side. Never raises: no answer is something seen too."""
    rings = ssh.on_all(inventory.storage, _ring)
    statuses = ssh.on_all(inventory.kairosdb, lambda host: _kairosdb(inventory, host))
    down = {address for ring in rings for address, state in (ring or {}).items() if state != "UN"}
    suspects = [host for host in inventory.storage if host.address in down]
    found = zip(suspects, ssh.on_all(suspects, _is_drained), strict=True)
    drained = frozenset(host.name for host, is_drained in found if is_drained)
    return Seen(
        {host.name: ring for host, ring in zip(inventory.storage, rings, strict=True)},
        # One that is drained hears nobody's.
        _schemas([host for host in inventory.storage if host.name not in drained]),
        {host.name: status for host, status in zip(inventory.kairosdb, statuses, strict=True)},
        drained,
    )


def _ring(host: Host) -> dict[str, str] | None:
    try:
        return nodetool.ring(nodetool.run(host, "status")) or None
    except (nodetool.NodetoolError, UserError):
        return None


def _is_drained(host: Host) -> bool:
    try:
        return bool(re.search(r"Mode: DRAIN(ING|ED)", nodetool.run(host, "netstats")))
    except (nodetool.NodetoolError, UserError):
        return False


def _schemas(hosts: list[Host]) -> int:
    for host in hosts:
        try:
            said = nodetool.run(host, "describecluster")
        except (nodetool.NodetoolError, UserError):
            continue
        return len([v for v in answers.schema_versions(said) if v != "UNREACHABLE"])
    return 0


def _kairosdb(inventory: Inventory, host: Host) -> KairosDBStatus:
    try:
        with client.connect(inventory, [host]) as talk:
            return talk.kairosdb(host)
    except UserError:
        return client.NO_ANSWER


def status_of(hosts: Iterable[Host]) -> str:
    """`nodetool status` of the first of the hosts that answers. UserError if none does."""
    said = "there is no other node"
    for host in hosts:
        try:
            return nodetool.run(host, "status")
        except nodetool.NodetoolError as error:
            said = str(error)
    raise UserError(f"No storage node answers nodetool: {said}")


def host_id(status: str, address: str) -> str:
    """A node's host id in what `nodetool status` prints. UserError if it is not in the ring."""
    for line in status.splitlines():
        if address in line.split()[1:2] and (found := _UUID.search(line)):
            return found[0]
    raise UserError(f"The ring has no node {address}:\n{status.strip()}")


def load_bytes(status: str, address: str) -> int:
    """Bytes of a node's data in what `nodetool status` prints. UserError where it prints none:
    what does not count would pass for nothing."""
    for line in status.splitlines():
        if address in line.split()[1:2] and (found := _LOAD.search(line)):
            return int(float(found[1]) * 2 ** _UNITS[found[2]])
    raise UserError(
        f"How much data {address} has is not known: nodetool does not say it yet, or in another "
        f"form. A minute after the node started it does:\n{status.strip()}"
    )


def is_gone(hosts: list[Host], address: str) -> bool:
    """Whether all of some storage nodes tell their ring, and none has an address in it."""
    rings = ssh.on_all(hosts, _ring)
    return all(ring is not None and address not in ring for ring in rings)


def wait_until_gone(hosts: list[Host], address: str, limit_s: float) -> None:
    """Wait until no node has an address in its ring any more. UserError if one has at the end."""
    _wait_while(hosts, address, bool, "in the ring", limit_s)


def forget_joining(hosts: list[Host], address: str, limit_s: float) -> None:
    """Have all nodes forget one that was joining and whose server has been ended.

    Cassandra goes on showing it as joining, and lets no other node join meanwhile (5.0.9, still
    after 110 s, when its own time for that was over); so it is told. ScyllaDB has no such command,
    and lets go of it by itself.

    UserError if some node has it at the end, or it has joined in its last moment.
    """
    _wait_while(hosts, address, lambda state: state[:1] in ("U", "?"), "up", limit_s)
    state = (_ring(hosts[0]) or {}).get(address, "")
    if state[-1:] not in ("", "J"):
        raise UserError(f"{address} has joined meanwhile: {hosts[0].name} sees it {state}")
    if hosts[0].vars["storage_engine"] == "cassandra" and state:
        try:
            # It looks for half a minute whether that node is alive.
            nodetool.run(hosts[0], "assassinate", address, timeout_s=limit_s)
        except nodetool.NodetoolError as error:
            raise UserError(f"{hosts[0].name} does not forget {address}: {error}") from None
    wait_until_gone(hosts, address, limit_s)


def _wait_while(
    hosts: list[Host], address: str, sees: Callable[[str], bool], what: str, limit_s: float
) -> None:
    """Wait while some node sees an address so, by its state: "" not there, "?" no answer."""
    deadline = time.monotonic() + limit_s
    while any(sees((_ring(host) or {address: "?"}).get(address, "")) for host in hosts):
        if time.monotonic() > deadline:
            raise UserError(f"{address} is still {what} after {limit_s:.0f} s")
        time.sleep(2)


def free_bytes(host: Host) -> int:
    """Free bytes on the disk of a storage node's data. RemoteError if the host does not say."""
    said = ssh.run(
        host, ["df", "--output=avail", "-B1", str(host.vars["keyspaces_dir"])], sudo=True
    )
    return int(said.split()[-1])
