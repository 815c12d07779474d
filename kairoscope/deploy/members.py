"""Which storage nodes are in a target's ring, and at which addresses: nothing else begins as one.

A machine that a deploy meets at another address than the node of that name had begins without its
data, but with its tokens where those were given (`bootstrap`): it would take over the node's share
of the ring, and answer for what it never had. So only `replace` lets a node's place be taken.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kairoscope import paths, whole
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, ssh
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.inventory import Host
from kairoscope.stacks.kairosdb.servers import nodetool


def _file(target: str) -> Path:
    return paths.target_dir(target) / "members.json"


def read(target: str) -> dict[str, str]:
    """Address of each storage node that has joined, by its name; {} where none has.

    Of a deployment of before this was noted: that of each node, if its last deploy finished.
    """
    if _file(target).exists():
        found: dict[str, str] = json.loads(_file(target).read_text())
        return found
    if finished_file(target).exists() and inventory.file(target).exists():
        return {host.name: host.address for host in inventory.load(target).storage}
    return {}


def note(target: str, addresses: Mapping[str, str]) -> None:
    """Note these as all that there are."""
    whole.record(_file(target), json.dumps(addresses, indent=2) + "\n")


def joined(target: str, name: str) -> None:
    """Note that a node has joined at the address that the inventory has."""
    note(target, read(target) | {name: inventory.load(target).host(name).address})


def check(target: str, made: Mapping[str, Any], but: Collection[str] = ()) -> None:
    """UserError if an inventory lets another machine begin in a node's name, or has it no more.

    Args:
        target: its name.
        made: the inventory, as it would be written.
        but: hosts of which a verb knows that they hold no data any more, or are not there yet.
    """
    given = made["all"]["children"]["storage"]["hosts"]
    hosts = {name: Host(name, "storage", {**made["all"]["vars"], **given[name]}) for name in given}
    there = read(target)
    for name, was in there.items():
        if name in but:
            continue
        if name not in hosts:
            raise UserError(
                f"{name} ({was}) is a storage node of target {target}, and the inventory does not "
                "have it: name it as it was. If it is dead, a new machine takes its place under "
                f"its name: make operate VERB=replace TARGET={target} LIMIT={name}. If it shall "
                "leave: VERB=decommission"
            )
        if hosts[name].address == was:
            continue
        others = [each for each in hosts.values() if there.get(each.name) == each.address]
        if not _has_its_place(hosts[name].address, was, others):
            raise UserError(_moved(target, hosts[name], was))


def _has_its_place(now: str, was: str, others: list[Host]) -> bool:
    """Whether the ring has a node at its new address already, as a verb may have left it."""
    for host in others:
        try:
            ring = nodetool.ring(ssh.run(host, [str(host.vars["nodetool"]), "status"], sudo=True))
        except ssh.RemoteError:
            continue
        if ring:
            return ring.get(now) == "UN" and was not in ring
    return False


def _moved(target: str, host: Host, was: str) -> str:
    """What is to be done about a node that is to be at another address than it `was`."""
    now = host.address
    differs = f"{host.name} is the storage node at {was}, and the inventory has it at {now}"
    # A new machine may not be reached before a deploy has met it. What is said then holds of each:
    # nothing is changed, and `replace` looks for itself.
    if ssh.look_for(host, f"{host.vars['keyspaces_dir']}/system").there:
        return (
            f"{differs}, where a machine answers that has a node's data: the same one, it seems. "
            "The others, their firewalls and its certificate know a node by its address, which it "
            f"keeps as long as it lives. Give the machine and the inventory {was} again"
        )
    return (
        f"{differs}: a machine there would answer for data that it does not have. If the node at "
        f"{was} is dead, and the machine at {now} new and empty: make operate VERB=replace "
        f"TARGET={target} LIMIT={host.name}, with this inventory. If it lives: give it {was} again"
    )
