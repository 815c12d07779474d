"""What stacks of one server have in common: a process that takes points and stores them.

A stack of that kind is a `Single` with a `Server`: what is the system's own. All else (the plan's
shape, the inventory, a run's captures and its read-back) is here, and the same for all of them.
Its server is the only host of the group `kairosdb`, which is that of the servers that take points.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.hosts import forwards
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.machines import Layout, Machine
from kairoscope.hosts.supervisor import Process
from kairoscope.plan import Plan
from kairoscope.plan.amounts import n
from kairoscope.plan.draft import Draft
from kairoscope.plan.interfaces import Target
from kairoscope.stacks import fetched
from kairoscope.stacks.needs import Listener, Memory, Needs
from kairoscope.stacks.single_session import Server, Session, points_port
from kairoscope.stacks.stack import Scraped
from kairoscope.stacks.told import Told

_SECTIONS = ("kairosdb", "storage")
# What is left to the read-back before points are too old to be there.
_READ_BACK_S = 600
_UNUSED = (
    *("cluster.storage_nodes", "cluster.replication_factor", "cluster.kairosdb_nodes"),
    *("cluster.datacenter", "cluster.jvm", "load.replay_queue_points", "queries", "security"),
    *("limits.queries_failed", "limits.points_late"),
    *("capture.proxyhistograms_every_s", "capture.shards_every_s", "assume"),
)


@dataclass(frozen=True)
class Program:
    """A server's program and its release, and what of Debian's packages runs beside it; see
    `kairoscope.stacks.stack.Brought`."""

    name: str
    release: str
    debian: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """That all of it is in, here."""
        return paths.BUNDLES

    @property
    def own(self) -> Path:
        """Its own once the stack has fetched it."""
        return self.folder / f"{self.name}-{self.release}"

    @property
    def parts(self) -> list[str]:
        """Folders below, of its own and of each package."""
        return [self.own.name, *(fetched.debian_folder(name).name for name in self.debian)]


@dataclass(frozen=True)
class Settings:
    """The server's settings as planned before the load is."""

    settings: dict[str, Any]
    held_s: float = 0


class Single(ABC):
    """A stack of one server; see `kairoscope.stacks.stack.Stack` for what is not said here."""

    name: ClassVar[str]
    title: ClassVar[str]
    """As its makers write it."""
    protocols: ClassVar[Sequence[str]]
    write_paths: ClassVar[Mapping[str, str]] = {}
    partly: ClassVar[str] = ""
    program: ClassVar[Program]
    listens: ClassVar[Mapping[str, int]]
    """Its ports by what they are for; the first is where points go."""
    told: ClassVar[Told]
    server: ClassVar[Server]

    replays: ClassVar[bool] = False
    """Whether history can be loaded into it as fast as it takes it."""
    java: ClassVar[bool] = False
    """Whether it runs on a Java run-time, which hosts of their own are sent."""
    python: ClassVar[bool] = False
    """Whether it is packages of Python's, which hosts of their own run with their own Python."""
    playbooks = paths.ANSIBLE / "systems"
    bundles = ()
    durable: ClassVar[Mapping[str, Any]] = {}
    fair: ClassVar[str]
    """Of its figures beside others'; see `kairoscope.stacks.stack.Stack`."""
    fixed: ClassVar[Sequence[str]] = ()
    unused = _UNUSED
    scraped: tuple[Scraped, ...] = ()

    @abstractmethod
    def own(self, draft: Draft) -> dict[str, Any]:
        """Record the settings of the system's own, by `draft.own`; their final values."""

    @abstractmethod
    def fetch(self, console: Console) -> None:
        """Have `program` on this machine. UserError, with what to install, if it cannot be had."""

    def ports(self, plan: Plan) -> Mapping[str, int]:
        """Its ports by what they are for; the first is where points go, unless one is named like
        the protocol."""
        return self.listens

    def of_server(self, plan: Plan, name: str) -> dict[str, Any]:
        """Inventory variables of its own; `processes` has more than one, with their roles."""
        return {"processes": {name: self.name}}

    @property
    def roles(self) -> dict[str, str]:
        """One server, which takes points."""
        return {"kairosdb": self.name}

    @property
    def acknowledgement(self) -> str:
        """As it tells."""
        return self.told.acknowledgement

    def not_judged(self, plan: Plan) -> dict[str, str]:
        """As it tells, of any plan."""
        return self.told.not_judged

    @property
    def taker(self) -> str:
        """Its server, in words."""
        return f"{self.title} server"

    def engine(self, target: Target) -> str:
        """It stores itself. UserError for a target that it cannot be deployed to yet."""
        if not target.shared:
            raise UserError(
                f"Stack {self.name} can be deployed so far to targets alone that are of this "
                f"machine (docs/systems.md), not to {target.name}"
            )
        return self.name

    def shards(self, draft: Draft) -> int:
        """None."""
        return 0

    def servers(self, draft: Draft) -> Settings:
        """Record its settings; refuse what of the experiment is for KairosDB."""
        self._refuse(draft)
        values = self.own(draft)
        known = {setting.name for setting in draft.settings}
        for key in draft.experiment.system:
            if f"system.{key}" not in known:
                there = ", ".join(values) or "none"
                draft.refuse(f"system.{key}", f"{self.title} has no such setting here: {there}")
        return Settings(values)

    def _refuse(self, draft: Draft) -> None:
        wanted = draft.experiment
        for section in _SECTIONS:
            for key in sorted(getattr(wanted, section).model_fields_set):
                draft.refuse(f"{section}.{key}", f"is KairosDB's, and the stack is {self.name}")
        for key in ("storage_nodes", "replication_factor", "kairosdb_nodes"):
            if (given := getattr(wanted.cluster, key)) != 1:
                draft.refuse(f"cluster.{key}", f"{self.title} is one server here: 1, not {given}")
        if wanted.security.enabled:
            draft.refuse("security.enabled", f"{self.title} has neither TLS nor a password here")
        if wanted.queries.rate:
            draft.refuse("queries.rate", "queries beside the load are asked of KairosDB alone")
        load = wanted.load
        if load.replay and not self.replays:
            draft.refuse("load.replay", f"history is not loaded into {self.title} here")
        elif load.replay and load.replay_queue_points:
            draft.refuse("load.replay_queue_points", "asks for KairosDB's queue: 0 here")
        if load.value_type == "string":
            draft.refuse("load.value_type", f"{self.title} stores numbers here: long or double")
        if self.told.whole_seconds and any(ms % 1000 for ms, _ in load.steps_resolved):
            draft.refuse(
                "load.rate",
                f"{self.title} keeps whole seconds: two points of a sensor must be a whole number "
                "of seconds apart, and two in a second would be one",
            )

    def store(self, draft: Draft, servers: Settings, now_s: float) -> dict[str, Any]:
        """Record what the run takes of disk and memory."""
        each = self.told.bytes_per_point
        draft.total(
            "disk_bytes",
            round(draft.points * each),
            "bytes",
            f"{n(draft.points)} points × {n(each)} bytes",
            f"At most, on the disk of the {self.taker}; measured again by each run.",
        )
        draft.totals["servers_mib"] = self.told.memory_mib
        return {}

    def notices(self, draft: Draft, target: Target, servers: Settings) -> None:
        """Record what an acknowledgement means, and which parts of a verdict it cannot give."""
        draft.notices.append(self.told.acknowledgement)
        draft.notices += self.told.more
        draft.notices += [
            f"The verdict's part {part} is not judged: {why}."
            for part, why in self.told.not_judged.items()
        ]

    def brought(self, plan: Plan, shared: bool, given: Path | None) -> Program:
        """Its program, run where it is; a server of the user's is refused."""
        if given:
            raise UserError(f"SCYLLA={given} is for KairosDB's store, and the stack is {self.name}")
        return self.program

    def remember(self, target: str, server: Program) -> None:  # noqa: B027
        """It is the same for all targets."""

    def fresh_tokens(self, plan: Plan, node: int) -> list[str]:
        """None."""
        return []

    def of_all(
        self,
        plan: Plan,
        layout: Layout,
        shared: bool,
        folders: Mapping[str, str],
        brought: Program | None,
    ) -> dict[str, Any]:
        """Which role deploys it, and where its programs are."""
        there, own = folders[self.program.name], self.program.own.name
        return {
            # For the firewall, which opens neither an engine's ports nor KairosDB's telnet.
            "storage_engine": self.name,
            "firewall_telnet": False,
            "system_role": self.name,
            "system_title": self.title,
            "system_version": self.program.release,
            "system_java": self.java,
            "system_packages": f"{there}/{fetched.packages(own)}" if self.python else "",
            "system_folder": f"{there}/{own}",
            "system_programs": {
                name: f"{there}/{fetched.debian_folder(name).name}" for name in self.program.debian
            },
        }

    def of_machine(
        self, plan: Plan, machine: Machine, layout: Layout, brought: Program | None
    ) -> dict[str, Any]:
        """Where it listens, and its folder."""
        if machine.group != "kairosdb":
            return {}
        listens = dict(self.ports(plan))
        return {
            "home": layout.home(machine.name),
            "http_port": next(iter(listens.values())),
            "points_port": points_port(listens, plan.load["protocol"]),
            "listens": listens,
            "preflight_memory_mib": plan.totals["servers_mib"],
            **({"unit": self.name, "run_as": self.name} if layout.managed else {}),
            **self.of_server(plan, machine.name),
        }

    def needs(self, plan: Plan) -> Needs:
        """Memory, as `store` has it of its processes; what they take of CPU was not measured."""
        mib = int(plan.totals["servers_mib"])
        return Needs(Memory(mib, f"{mib:,} of the servers"))

    def listeners(self, host: Host, *, watched: bool) -> list[Listener]:
        """All its ports, watched or not."""
        return [
            Listener(host.address, port, f"{what} of {host.name}")
            for what, port in host.vars["listens"].items()
        ]

    def show(self, hosts: Inventory, states: Mapping[str, Process], console: Console) -> bool:
        """Print its release and what waits; True if it takes points."""
        with self._session(hosts) as session:
            try:
                session.check_ready()
            except UserError as error:
                console.print(error.message, markup=False, highlight=False, soft_wrap=True)
                return False
            versions = ", ".join(f"{name} {said}" for name, said in session.versions().items())
            console.print(f"{versions}: takes points", markup=False, highlight=False)
            for node in session.waiting_now():
                waits = "-" if node["waiting"] is None else f"{node['waiting']:,}"
                console.print(f"{node['node']}: waiting {waits}", highlight=False)
        return True

    @contextmanager
    def connect(self, plan: Plan, hosts: Inventory) -> Iterator[Session]:
        """A run's ways to its server."""
        with self._session(hosts, plan.load["protocol"]) as session:
            yield session

    @contextmanager
    def _session(self, hosts: Inventory, protocol: str = "") -> Iterator[Session]:
        """Through ssh where it is on a host of its own."""
        host = hosts.kairosdb[0]
        with forwards.open_ways([host]) as ways:
            yield Session(self.name, self.server, host, self.told, ways, protocol)


def refuse_slashes(draft: Draft, why: str) -> None:
    """Refuse a metric or a tag with a slash, where series have folders or addresses by name."""
    load = draft.experiment.load
    if any("/" in name for name in (load.metric, *load.tags, *load.tags.values())):
        draft.refuse("load.metric", f"neither it nor a tag may have a / : {why}")


def refuse_short(draft: Draft, retention_s: int, end: str) -> None:
    """Refuse a `system.retention_s` after which points would come to their `end` too early."""
    length = sum(ms * ticks for ms, ticks in draft.experiment.load.steps_resolved) / 1000
    if (least := int(length) + _READ_BACK_S) > retention_s:
        draft.refuse(
            "system.retention_s",
            f"must be at least {least:,} (the load's {length:g} s and {_READ_BACK_S} to read it "
            f"back), got {retention_s:,}: points would be {end} before they are counted",
        )
