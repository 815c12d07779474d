"""Host keys, taken at the first login to an address that may be another host's by now."""

import subprocess
from collections.abc import Iterable

from kairoscope import paths
from kairoscope.hosts.inventory import Inventory
from kairoscope.hosts.machines import Machine


def forget_new(made: Iterable[Machine], before: Inventory | None) -> None:
    """Forget the keys of those addresses that belong to another instance than before.

    AWS gives an address that has become free to the next instance, whose key is another: ssh would
    take it for somebody in between.
    """
    file = paths.target_dir("aws") / "known_hosts"
    if not file.exists():
        return
    was = {host.address: host.vars.get("instance_id") for host in before.all} if before else {}
    for machine in made:
        if was.get(machine.address) != machine.more["instance_id"]:
            subprocess.run(
                ["ssh-keygen", "-q", "-R", machine.address, "-f", str(file)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # It says so of one that is not in it.
                check=False,
            )
