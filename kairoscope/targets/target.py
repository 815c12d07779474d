"""What a target is: where servers run, and the levers that it has.

A target hands machines over, which are deployed to in the same way wherever they are. Each is a
module of this package; `kairoscope.cli.known` names them.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kairoscope.errors import UserError
from kairoscope.experiment.faults import Fault
from kairoscope.hosts import host_trouble, inventory
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.machines import Machines
from kairoscope.plan import Plan
from kairoscope.plan.draft import Draft

Say = Callable[[str], None]

# On disks of hosts that the plan does not know; kairosdb.queue_disk_free_mb holds.
HOST_QUEUE_DISK_MIB = 65_536
# Of the 10 GB that a laptop needs: what KairosDB's queue may take while the store is away.
SHARED_QUEUE_DISK_MIB = 4_096


@dataclass(frozen=True)
class Options:
    """What a deploy of some targets is told beside the plan.

    Attributes:
        account: the AWS account's variables.
        backend: settings of an S3 backend of Terraform; without it the state is a file here.
        inventory: the hosts of target `hosts`.
        server: a server of the user's own for the stack (SCYLLA=): an archive or a folder.
        let_go: a host that holds no data any more, and may be given back or made anew.
        without: hosts that are not deployed to, though the target hands them over, or could not be
            had: nothing is on them that is needed.
        monitoring: whether a target that makes its own hosts gets one that watches the others.
    """

    account: Path
    backend: Path | None = None
    inventory: Path | None = None
    server: Path | None = None
    let_go: str | None = None
    without: tuple[str, ...] = ()
    monitoring: bool = False


class Target(ABC):
    """Where servers run. What most targets have in common is here."""

    name: str
    """As in TARGET=."""
    shared = False
    """Whether all servers share the cores and the memory of this machine."""
    thrown_away = False
    """Whether it holds nobody's points but those of runs, as it goes with the machine that made
    it: then `--empty` may take them all."""
    managed = True
    """Whether it has hosts of its own, with systemd, and no processes of this machine."""
    secured = True
    """Whether TLS and logins are on unless the experiment says otherwise."""
    makes_anew = False
    """Whether a host can be made anew, empty, by its name: see `make_anew`."""
    boot_s = 0.0
    """For how long a host may not answer yet that was made a moment ago."""
    levers: tuple[str, ...] = ()
    """Actions of an experiment's `faults` that it can carry out; see `begin`."""

    # What the plan asks

    def shape(self, draft: Draft) -> None:
        """Refuse what cannot be had here; UserError if nothing can be computed then."""

    def shards(self, draft: Draft) -> int | None:
        """Record the shards of a storage node; None where the machines do not say."""
        return None

    def queue_disk(self, draft: Draft) -> tuple[int, str]:
        """Most that a KairosDB node's disk has for its queue, in MiB, and what says so."""
        if self.shared:
            return SHARED_QUEUE_DISK_MIB, "on a machine that all servers share"
        return HOST_QUEUE_DISK_MIB, "on a disk that the plan does not know"

    def settings(self, draft: Draft, load: dict[str, Any], *, secured: bool) -> dict[str, Any]:
        """What its maker (Terraform) is told; {} where there is none."""
        return {}

    # What a deploy asks

    def watched(self, options: Options) -> bool:
        """Whether one host watches the others: once that is said, until they are destroyed."""
        path = inventory.file(self.name)
        return options.monitoring or (path.exists() and bool(inventory.read(path).monitoring))

    def check_same(self) -> None:
        """UserError if what is deployed cannot become what a deploy would make now."""

    @abstractmethod
    def provision(
        self, plan: Plan, options: Options, say: Say, begin: Callable[[], None]
    ) -> Machines:
        """Have the plan's machines. Safe to run again; UserError if they cannot be had.

        `begin` is called once that is known to be possible, before anything costs.
        """

    def check_given(self, options: Options, plan: Plan | None = None) -> None:
        """UserError if `provision` would refuse what it is given, or lacks, whatever is there.

        Takes no longer than a look, so that it comes before what takes minutes. `plan`: that is
        to be had, where the verb knows it by then.
        """

    def ready(self) -> None:
        """Called when all was checked, before anything is changed on the machines."""

    def enter(self) -> None:
        """Be where its machines can be reached: this thread, and what it starts from now on."""

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Within the block, be where packages can be had from, should `enter` have led away."""
        yield

    def typed_to_destroy(self) -> str | None:
        """What must be typed before it is destroyed; None where a deploy brings all of it back."""
        return None

    @abstractmethod
    def destroy(self, say: Say) -> None:
        """End what was made. UserError if it may not be, or is not gone afterwards."""

    # What day two asks

    def resized(self, plan: Plan, counts: Mapping[str, int]) -> Plan:
        """A plan of this target with other numbers of hosts, by their fields of `cluster`.

        What `provision` is to have them by; nothing else of the plan is derived anew.
        """
        cluster = plan.experiment.cluster.model_copy(update=counts)
        experiment = plan.experiment.model_copy(update={"cluster": cluster})
        return plan.model_copy(update={"experiment": experiment})

    def check_leaves(self, here: Inventory, host: Host, options: Options, verb: str) -> None:
        """UserError unless a smaller plan would be without this host, which may end."""
        last = [h for h in here.all if h.role == host.role][-1]
        if host.name != last.name:
            raise UserError(
                f"--limit {host.name}: hosts of target {self.name} are numbered, so the one that "
                f"can go is the last, {last.name}."
            )

    def give_back(self, host: str, say: Say) -> None:
        """Let a host go that nothing needs any more, where the next `provision` does not."""

    def make_anew(self, host: Host, say: Say) -> None:
        """Have the next `provision` make a host anew, empty. What is on it is lost.

        Only of a target that `makes_anew`. Safe to run again, also once the host is gone.
        """
        raise NotImplementedError

    def keep(self, host: Host, say: Say) -> None:
        """Take `make_anew` back, as far as the host is still the one that it was called for."""

    # What a run with faults asks

    def lacks(self, action: str, on: str, engine: str, *, secured: bool) -> str:
        """Why one of `levers` cannot be had on a host or group (`on`); "" if it can.

        `engine`: of the store; `secured`: whether its servers have certificates.
        """
        return ""

    def begin(self, fault: Fault, hosts: Sequence[Host]) -> None:
        """Let a fault of `levers` happen to hosts, on all at the same time as far as that can be.

        Returns once it has happened; a restart, once the hosts are back. UserError if it could not
        be done to each of them.
        """
        raise NotImplementedError

    def undo(self, action: str, hosts: Sequence[Host]) -> None:
        """Have it as before `begin`; also what was begun on some of them alone, and undone before.

        Returns once the hosts are back. UserError if one is not.
        """
        raise NotImplementedError


class Reached(Target):
    """Hosts with systemd that are reached by SSH, and are not this machine's to stop or cut off."""

    levers = host_trouble.LEVERS

    def begin(self, fault: Fault, hosts: Sequence[Host]) -> None:
        """By SSH and their service manager."""
        everyone = inventory.load(self.name).all
        host_trouble.begin(fault.action, hosts, everyone, fault.for_s)

    def undo(self, action: str, hosts: Sequence[Host]) -> None:
        """The same way."""
        host_trouble.undo(action, hosts)
