"""What the verbs have in common by which nodes come and go."""

from kairoscope.deploy.operate import cluster, safety
from kairoscope.deploy.operate.deployed import SETTLE_S, SHAPE, Deployed
from kairoscope.errors import UserError
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.plan import Plan

EMPTY = "empty"
"""What the note of a host that leaves remembers: nothing is on it any more that is needed."""
GROUPS = {
    "storage": "storage_nodes",
    "kairosdb": "kairosdb_nodes",
    "loader": "loader_hosts",
}
"""Field of `cluster` that has the number of the hosts of each role."""
# Of a host that has units, or will have them. Nor after a reboot, which a deploy undoes.
_STAND_ASIDE = """
for unit; do
  if systemctl cat "$unit" > /dev/null 2>&1; then systemctl disable --now "$unit"; fi
done
"""


def stand_aside(target: Deployed, members: list[Host], hosts: list[Host]) -> None:
    """End the servers of storage hosts that have not joined, until their verb goes on."""
    for host in hosts:
        target.say(f"{host.name}: its server is stopped, it has not joined")
        try:
            ssh.run(host, ["sh", "-euc", _STAND_ASIDE, "sh", *host.units.values()], sudo=True)
        except ssh.RemoteError as error:
            target.say(f"{error}; should it come back, stop its server by hand")
        cluster.forget_joining(members, host.address, SETTLE_S)


def check_only_count_changes(old: Plan, new: Plan, role: str, by: int, verb: str) -> None:
    """UserError unless the new plan has one node more, or less, of a role, and no other change."""
    field = GROUPS[role]
    was, wanted = getattr(old.experiment.cluster, field), getattr(new.experiment.cluster, field)
    (safety.one_more if by > 0 else safety.one_less)(role, was, wanted, verb, f"cluster.{field}")
    for other in SHAPE:
        before, after = (getattr(p.experiment.cluster, other) for p in (old, new))
        if other != field and before != after:
            raise UserError(
                f"The experiment also changes {other} from {before} to {after}: one change at a "
                "time."
            )
