"""What a stack is to those who deploy and run it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.machines import Layout, Machine
from kairoscope.hosts.sampling import Followed, Periodic
from kairoscope.hosts.supervisor import Process
from kairoscope.plan import Plan
from kairoscope.plan.interfaces import Stack as Planned
from kairoscope.run_folder import Expected, JsonLines
from kairoscope.stacks.needs import Listener, Needs
from kairoscope.stacks.questions import Asks
from kairoscope.verdict.settlement import AtAll, FailedPoint, Gap, SeriesResult
from loaders.credentials import Credentials
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec, Store


class Brought(Protocol):
    """A server that the user brings, in place of a package."""

    @property
    def name(self) -> str:
        """Of its bundle and of its inventory variables."""

    @property
    def release(self) -> str:
        """Its version, as releases are named."""

    @property
    def folder(self) -> Path:
        """That it is in, here."""

    @property
    def parts(self) -> Iterable[str]:
        """What of the folder it runs with."""


@dataclass(frozen=True)
class Scraped:
    """Servers that tell Prometheus their figures: a stack's, and what every watched target has.

    Attributes:
        job: what Prometheus calls them.
        group: of the inventory, whose hosts have one each if they have its port; or all.
        address: inventory variable that has where it listens.
        port: inventory variable that has on which port.
        path: that they are asked for.
        secured: whether they want TLS, and KairosDB's REST password, where the target is secured.
    """

    job: str
    group: str
    address: str
    port: str
    path: str = "/metrics"
    secured: bool = False


class Stack(Planned, Protocol):
    """What stands on the hosts: all that deployment and run ask of it."""

    @property
    def acknowledgement(self) -> str:
        """What its acknowledgement means, a sentence."""

    @property
    def durable(self) -> Mapping[str, Any]:
        """Settings of section `system` with which more of what was acknowledged survives a killed
        process than with those that are planned; none where these keep as much as it can."""

    @property
    def fair(self) -> str:
        """What of its settings and its release makes its figures fair beside others' on the same
        load, or not; a sentence or two for who compares."""

    @property
    def fixed(self) -> Sequence[str]:
        """Settings of section `system` that a target has from its first deploy on: its processes,
        or what they have made, would stay as they were."""

    def not_judged(self, plan: Plan) -> Mapping[str, str]:
        """Parts of a run's verdict that it has no figure for, and why."""

    @property
    def bundles(self) -> Sequence[str]:
        """Names of the run-time bundles (`kairoscope.deploy.bundles`) that it runs; others have
        nothing to do with Maven's jars."""

    def fetch(self, console: Console) -> None:
        """Have on this machine what else is sent to hosts. UserError, with what to install, if
        it cannot be had."""

    def brought(self, plan: Plan, shared: bool, given: Path | None) -> Any:
        """The user's own server that a plan is deployed with; None where it takes none.

        UserError if `given` is not what the plan wants, or one is wanted and not given.
        """

    def remember(self, target: str, server: Any) -> None:
        """Keep which of the user's servers a target is deployed with."""

    def fresh_tokens(self, plan: Plan, node: int) -> list[str]:
        """Tokens that the node of that number (from 0) of a fresh cluster is given."""

    def of_all(
        self, plan: Plan, layout: Layout, shared: bool, folders: Mapping[str, str], brought: Any
    ) -> dict[str, Any]:
        """Inventory variables of all hosts.

        `shared`: whether all servers share the cores of one machine; `folders` has where each
        bundle lies there.
        """

    def of_machine(
        self, plan: Plan, machine: Machine, layout: Layout, brought: Any
    ) -> dict[str, Any]:
        """Inventory variables of one host that follow from its role.

        `preflight_memory_mib` is what its servers take, in MiB, by `preflight_memory_setting` of
        the experiment, if one says it; neither where that is not known, or is what the host has.
        """

    def needs(self, plan: Plan) -> Needs:
        """What all servers of a plan need together of a machine that they share."""

    def listeners(self, host: Host, *, watched: bool) -> Sequence[Listener]:
        """What listens on a host with servers (`Inventory.hosts`), by its inventory variables.

        `watched`: whether a monitoring host asks for their figures.
        """

    @property
    def scraped(self) -> Sequence[Scraped]:
        """Its servers that tell Prometheus their figures, where a target is watched."""

    @property
    def playbooks(self) -> Path:
        """Folder of the playbooks that bring hosts to a plan; `deploy.yml` is the one."""

    def show(self, hosts: Inventory, states: Mapping[str, Process], console: Console) -> bool:
        """Print what the servers say of themselves; True if all is well.

        `states`: the processes as their service manager has them, by name of the host.
        """

    def connect(self, plan: Plan, hosts: Inventory) -> AbstractContextManager["Session"]:
        """The ways to the servers of a deployed target, for a run."""


class Backlog(Protocol):
    """What the servers acknowledged and have not stored yet."""

    def total(self, since: float = 0) -> int | None:
        """Points that wait on all nodes together; None if any has not told since (epoch s)."""

    @property
    def samplers(self) -> Sequence[Periodic]:
        """What asks every node about once a second and writes the answers down."""

    def nudge(self) -> None:
        """Have a node that does not look at what waits by itself do so; called now and then."""


class Captures(Protocol):
    """What is captured of the servers beside a load, into files of the run folder."""

    @property
    def samplers(self) -> list[Periodic | Followed]:
        """What looks at them from before the load until the backlog is stored."""

    def before(self) -> list[str]:
        """Look before anything is sent; names of the nodes of which nothing could be captured."""

    def start(self, begin_s: float, end_s: float, first_s: float) -> None:
        """The load begins.

        Args:
            begin_s: seconds from now until the measured part begins.
            end_s: seconds from now until that ends.
            first_s: seconds from now until points are sent.
        """

    def end_at(self, end_s: float) -> None:
        """The measured part ends in so many seconds from now, earlier than was said."""

    def loaded(self) -> None:
        """The load has ended: what is of the load alone is not looked at any more."""

    def stop(self) -> list[str]:
        """End what still looks, whatever has happened; what ended early, a sentence each."""

    def after(self) -> None:
        """Look once more, when nothing waits any more."""

    def stored_bytes(self) -> int | None:
        """Bytes of the data files, once all is in them; None if a node did not tell."""


@dataclass(frozen=True)
class ReadBack:
    """What a read-back says of itself beside the series.

    Attributes:
        passes: how often it had to ask for some series.
        note: which way it went, for the ledger.
        rows: counts the rows of the run in the store; may raise anything.
        waiting: points that waited when what is missing was about to be asked for the last time.
            None: a node did not tell, or nothing is missing.
    """

    passes: int
    note: str
    rows: Callable[[], int]
    waiting: int | None = None


@dataclass(frozen=True)
class Probe:
    """A figure of a system that a load of points does not show, and how it came about."""

    value: float
    unit: str
    how: str


class Session(Protocol):
    """The ways to the servers of a deployed target, for one run."""

    def check_ready(self) -> None:
        """UserError if the servers are not well, or not what was deployed."""

    def versions(self) -> dict[str, str]:
        """Versions of all that was asked, for the manifest."""

    def untold(self) -> list[str]:
        """Why a run of these servers is incomplete whatever it measures, a sentence each."""

    def expected(self) -> Expected:
        """What is captured of which servers; without it a run is incomplete."""

    def begin(self, folder: Path, started_s: float, events: JsonLines) -> None:
        """There is a run folder; `started_s` in epoch s."""

    def removed(self, host: Host) -> bool:
        """Whether a host was taken away from the target since the run began."""

    def endpoints(self) -> tuple[list[str], list[str]]:
        """Base URLs and "host:port" of the nodes that take points, as loader hosts reach them."""

    def store(self) -> Store | None:
        """What is under those nodes, for a load that goes past them; None for all others."""

    @property
    def credentials(self) -> Credentials | None:
        """What loaders prove themselves with; None if nobody asks."""

    def waiting_now(self) -> list[dict[str, Any]]:
        """What waits on each node that takes points, for the manifest: `node`, `waiting` (points)
        and `disk_bytes`, null where it does not tell."""

    def empty(self) -> None:
        """Take away every point that the store holds, of anybody's runs; series stay indexed.

        For targets that are made to be thrown away.
        """

    def compacts(self) -> bool:
        """Whether the store is known to merge files now, from what was written before."""

    def backlog(self) -> Backlog | None:
        """What waits on the servers; None if they do not tell: `Expected.not_judged` says why."""

    def captures(self) -> Captures:
        """What is captured of them."""

    def refuse_old_history(self, schedule: Schedule) -> None:
        """UserError if points that a replay would send are there already."""

    def read_back(
        self,
        schedule: Schedule,
        incomplete: Callable[[SeriesResult], bool],
        on_result: Callable[[SeriesResult], None],
        console: Console,
    ) -> ReadBack:
        """Read every point of the run back; `on_result` gets each series once.

        `incomplete` says whether points that must be there are not, which may only be late.
        UserError if the servers do not answer.
        """

    def visible(self, schedule: Schedule) -> int | None:
        """Points of the run that queries find now; None where they cannot be counted by queries.

        OSError or ValueError if the servers do not answer.
        """

    def probe(self) -> Mapping[str, Probe]:
        """What else was published of such a system, measured now, when nothing waits any more; by
        its name in `results/reference/`. Nothing for most.

        OSError or ValueError if the servers do not answer.
        """

    def asks(self) -> Asks:
        """How the questions beside a load are put to these servers."""

    def given_up(self, spec: LoadSpec, on_silent: Callable[[str], None]) -> Iterable[FailedPoint]:
        """The run's points that the servers say they gave up.

        `on_silent` gets a sentence for each server that does not say it: what it gave up cannot be
        told from what is missing.
        """

    def look_on_all_replicas(self, gaps: list[Gap]) -> AtAll:
        """Tell missing points that are on some replica from those that are on none."""
