"""KairosDB's two queues on the embedded cluster: what a point costs, and how many are sustained.

Baseline is KairosDB's own queue with the settings that our plan derives for it: what is left is the
queue alone. Beside it the settings published in 2018. All run on one cluster of this machine in
turn, each after a restart of KairosDB and on empty tables, with the same load; every run folder is
kept.

Whether a change made it dearer is asked by `beside`: this checkout and another in turn, as between
two days a shared machine may be half as fast again.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cassandra.cluster import Session

from bench.harness import BASELINE, OURS, RATIO, Bench, BenchError, Limit, Round, Side, Sides
from kairoscope import paths, run_folder
from kairoscope.hosts import inventory, supervisor
from kairoscope.hosts.inventory import Host
from kairoscope.series import driver, record, trials
from kairoscope.series.bounds import Goal
from kairoscope.series.search import Outcome, Plan, Searching, Wanted
from kairoscope.stacks.kairosdb.captures import threads
from kairoscope.stacks.kairosdb.servers import cql

EXPERIMENT: dict[str, Any] = {
    "name": "bench",
    "description": "KairosDB's two queues, one after the other.",
    "cluster": {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1, "jvm": "full"},
    "storage": {"heap_mb": 1024},
    # As laptop.yml's, and for its reasons; the warm-up is longer, as KairosDB has just started.
    # By its end every series has its index, and what is done for each point is compiled.
    "load": {"rate": 1, "duration_s": 90, "warmup_s": 45, "sensors_per_request": 100},
    # Whether points are found by a dashboard that is open; after the same age on all sides, or
    # shares of late points could not be put beside each other.
    # Nobody is followed: eight sensors that are asked for every second are KairosDB's work too, and
    # were not there when the figures of before were measured.
    "queries": {"rate": 0.5, "last_s": 60, "sensors": 10, "lag_s": 35, "followed": 0},
    # Late points are a figure here, and no limit: the stock queue has some before it is at its end.
    "limits": {"p99_ms": 1000, "drain_s": 240, "send_error_p99_ms": 500, "points_late": 1},
    "capture": {"proxyhistograms_every_s": 60},
}
PUBLISHED_2018: dict[str, Any] = {
    "queue": "stock",
    "batch_size": 50,
    "min_batch_size": 15,
    "ingest_threads": 20,
    "connections_per_host": 30,
    "max_requests_per_connection": 8,
}
STOCK: dict[str, Any] = {"queue": "stock"}
COALESCING: dict[str, Any] = {}
LONGEST: dict[str, Any] = {"queue_window_ms": 30_000}
"""The longest window that the plan gives: what can be had for points that are found later."""

WARM: dict[str, Any] = {"duration_s": 135, "warmup_s": 90}
"""The load of what a point costs: a server runs for weeks, so Java's compilers should be through
with most of it. What is done once a request, 200 times a second, they take up after some 5,000 to
15,000 times (Tier4InvocationThreshold and Tier4CompileThreshold of Java 17): after 25 to 75 s. What
they still spend then is a figure of its own. Measured are 45 s, as in a search."""

TEN_MINUTES: dict[str, Any] = {"duration_s": 645, "warmup_s": 600}
"""A load before which all is compiled, measured as long."""

SIXTY = paths.CHECKOUT / "experiments" / "laptop-60k.yml"
"""Its load is the one that the aim of KairosDB's CPU was set by: at 60,000 points/s, 200 a request,
points as objects in a map took 6.3 µs each, with a store that answered at once."""

SENSORS = 20_000
SYNC_SENSORS = 5_000
"""Of the bench of acknowledgements that wait for the disk: no matter how many sensors, all of a few
ms wait together, so it is the latency that tells, on servers that are not short of CPU."""
SYNCED: dict[str, Any] = {"queue_sync_ms": 5}
SYNCED_SELDOM: dict[str, Any] = {"queue_sync_ms": 20}
OTHER = "BESIDE"
"""The variable of the environment that names the other checkout."""
PRECISION = 0.1
"""Width between the bounds of what is sustained, of the upper one."""


class Cluster:
    """The embedded cluster that a bench has for itself, in a home of its own.

    `checkout`, set up, is the one that deploys and loads it.
    """

    def __init__(self, home: Path, kept: Path, checkout: Path = paths.CHECKOUT) -> None:
        self.home = home
        self._kept = kept
        self._checkout = checkout

    def _call(self, *arguments: str | Path, ends: tuple[int, ...] = (0,)) -> None:
        status, said = driver.run_verb(
            [self._checkout / ".venv" / "bin" / "kairoscope", *arguments],
            self._checkout,
            os.environ | {"KAIROSCOPE_HOME": str(self.home)},
            quiet=True,
        )
        if status not in ends:
            raise BenchError(f"`kairoscope {arguments[0]}` ended with {status}: {said[-1500:]}")

    def run(
        self,
        kairosdb: dict[str, Any],
        sensors: int,
        *options: str,
        load: Mapping[str, Any] | None = None,
        queries: Mapping[str, Any] | None = None,
    ) -> "Run":
        """Deploy with these settings of KairosDB, empty the table, load and read back.

        `options` are for `kairoscope load`; `load` and `queries` are laid over the experiment's.
        """
        file = self.deploy(kairosdb, sensors, load, queries)
        with self.session() as db:
            # What the rounds before left would be merged in this one.
            cql.empty(db, "kairosdb")
        here = self.inventory
        roles = dict.fromkeys(pids(here.storage), "storage")
        roles |= dict.fromkeys(pids(here.kairosdb), "kairosdb")
        with threads.watching(roles) as watch:
            self._call("load", file, "--into", self._kept, *options, ends=(0, 1, 2))
        return Run((self._kept / "latest").resolve(), watch)

    def deploy(
        self,
        kairosdb: dict[str, Any],
        sensors: int,
        load: Mapping[str, Any] | None = None,
        queries: Mapping[str, Any] | None = None,
    ) -> Path:
        """Deploy with these settings of KairosDB; returns the experiment's file."""
        file = self.home / "bench.yml"
        over = {
            "load": EXPERIMENT["load"] | (load or {}) | {"sensors": sensors},
            "queries": EXPERIMENT["queries"] | (queries or {}),
            "kairosdb": kairosdb,
        }
        file.write_text(yaml.safe_dump(EXPERIMENT | over))
        if (self.home / "local" / "inventory.yml").exists():
            # The same settings twice in a row would find it warm.
            driver.restart(self.inventory)
        self._call("deploy", file)
        return file

    @property
    def inventory(self) -> inventory.Inventory:
        return inventory.read(self.home / "local" / "inventory.yml")

    def session(self) -> contextlib.AbstractContextManager[Session]:
        """CQL to the storage nodes."""
        hosts = self.inventory.storage
        port = int(hosts[0].vars["native_transport_port"])
        return cql.session([host.address for host in hosts], port)

    def destroy(self) -> None:
        """End it."""
        self._call("destroy")


def pids(hosts: Sequence[Host]) -> list[int]:
    """Process ids of these hosts' servers, of the local target. BenchError if one does not run."""
    folder = Path(hosts[0].vars["supervisor_dir"])
    found = {process.name: process.pid for process in supervisor.processes(folder) or []}
    if missing := [host.name for host in hosts if not found.get(host.name)]:
        raise BenchError(f"{', '.join(missing)}: no such process")
    return [found[host.name] for host in hosts]


@dataclass(frozen=True)
class Run:
    """What a run folder says, and what the servers' CPU time went into meanwhile."""

    folder: Path
    watch: threads.Threads

    def _json(self, name: str) -> Any:
        path = self.folder / name
        if not path.exists():
            raise BenchError(f"{self.folder}: the run left no {name}")
        return run_folder.read_json(path)

    @property
    def outcome(self) -> Outcome:
        """What it says of the load, for a search."""
        return trials.outcome(self.folder, "")

    @property
    def passed(self) -> bool:
        """Whether all five parts of the verdict hold."""
        return bool(self._json(run_folder.VERDICT)["verdict"] == "pass")

    @property
    def why(self) -> str:
        """The verdict in a sentence."""
        return str(self._json(run_folder.VERDICT)["summary"])

    def round(self) -> Round:
        """The CPU that a point costs the storage nodes, in µs, while the load is on.

        A queue that falls behind takes more points than the store gets: the store's CPU is divided
        by the points that it was given in the window, and KairosDB's by those that it took.
        """
        book, measured = self._json(run_folder.LEDGER), self._json(run_folder.MEASUREMENTS)
        if book["missing"] or book["wrong_value"]:
            raise BenchError(f"{self.folder}: acknowledged points are missing: {self.why}")
        latency = self._json(run_folder.LATENCY_MERGED)
        taken = latency["count"]
        stored = taken - self._grown(latency["warmup_s"])
        per_point = measured["cpu_us_per_point"]
        if not taken or stored <= 0 or per_point["storage"] is None:
            raise BenchError(f"{self.folder}: nothing was measured: {self.why}")
        start, end = self._window(latency["warmup_s"])
        threads_us = self._by_threads({"storage": stored, "kairosdb": taken}, latency["warmup_s"])
        return Round(
            per_point["storage"] * taken / stored,
            {
                "kairosdb_us_per_point": per_point["kairosdb"],
                "kairosdb_compiled_us_per_point": per_point["kairosdb"]
                - threads_us["kairosdb_compiler_us_per_point"],
                "loader_us_per_point": per_point["loader"],
                "stored_per_s": stored / (end - start),
                "p99_ms": latency["p99_ms"],
                "cores": sum(measured["cpu_cores"].values()),
                "sustained": float(self.passed),
                **threads_us,
                **self._late(),
            },
            str(self.folder),
        )

    def _late(self) -> dict[str, float]:
        """Of points older than `lag_s` those that a query did not find; nothing without queries."""
        if not self._json(run_folder.PLAN)["experiment"]["queries"]["rate"]:
            return {}
        answers = self._json(run_folder.QUERIES)["answers"]
        if not answers["points_checked"]:
            raise BenchError(f"{self.folder}: no query was answered: {self.why}")
        return {"points_late_share": answers["points_late"] / answers["points_checked"]}

    def _by_threads(self, points: Mapping[str, float], warmup_s: float) -> dict[str, float]:
        """CPU a point by group of threads, in µs, from the end of the warm-up to the load's."""
        spent = self.watch.between(*self._window(warmup_s))
        if not spent:
            raise BenchError(f"{self.folder}: the load was too short to be looked at")
        return {
            f"{role}_{group}_us_per_point": cpu_s / points[role] * 1e6
            for (role, group), cpu_s in spent.items()
        }

    def _window(self, warmup_s: float) -> tuple[float, float]:
        load = self._json(run_folder.MANIFEST)["load"]
        return load["start_ms"] / 1000 + warmup_s, load["end_ms"] / 1000

    def _grown(self, warmup_s: float) -> float:
        """Points by which the queue grew from the end of the warm-up to that of the load."""
        start, end = self._window(warmup_s)
        records = run_folder.records(self.folder / run_folder.QUEUE)
        depths = [r["waiting"] for r in records if start <= r["t"] <= end and "waiting" in r]
        if not depths:
            raise BenchError(f"{self.folder}: KairosDB did not tell how many points wait")
        return float(depths[-1] - depths[0])


@contextlib.contextmanager
def temporary_cluster(kept: Path, checkout: Path = paths.CHECKOUT) -> Iterator[Cluster]:
    """A cluster of a checkout in a folder of its own, with the block ended and removed; its runs
    stay in `kept`."""
    # Short: the path of a Unix socket has 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="kb-"))
    made = Cluster(folder, kept, checkout)
    try:
        yield made
    finally:
        try:
            made.destroy()
        except BenchError as error:
            # What still runs is only found by what is in there.
            again = f"KAIROSCOPE_HOME={folder} make destroy"
            raise BenchError(f"{error}. Its servers may still run: {again}") from error
        shutil.rmtree(folder)


def runs_of(bench: str) -> Path:
    """Make the folder of a bench's runs: results/series/<UTC time>-bench-<name>/."""
    folder = paths.results_dir() / "series" / f"{run_folder.stamp(time.time())}-bench-{bench}"
    folder.mkdir(parents=True)
    return folder


@dataclass
class Search:
    """Finds how many sensors are sustained: all five parts of the verdict.

    By the search of `kairoscope search`, but each trial on servers that are deployed for it. Each
    round begins at what the one before it found.
    """

    cluster: Cluster
    kairosdb: dict[str, Any]
    sensors: int
    """Where to begin."""

    def __call__(self) -> Round:
        """One round. BenchError if no bounds are found."""
        runs: dict[str, Run] = {}

        def measure(wanted: Wanted) -> Outcome:
            options = () if wanted.full else ("--read-back-if-sustained",)
            run = self.cluster.run(self.kairosdb, round(wanted.load), *options)
            runs[run.folder.name] = run
            return run.outcome

        measured_s = EXPERIMENT["load"]["duration_s"] - EXPERIMENT["load"]["warmup_s"]
        goal = Goal(
            self.sensors, self.sensors / 10, self.sensors * 10, PRECISION, measured_s, measured_s
        )
        searching = Searching(Plan(goal, lambda load: max(1, round(load / 100)) * 100.0), measure)
        result = searching()
        lower, upper, interval = result.bounds.lower, result.bounds.upper, result.capacity
        if lower is None or upper is None or interval is None or result.how != "found":
            raise BenchError(record.sentence(result, "sensors", confirm=False))
        self.sensors = round(lower)
        best = next(
            runs[trial.outcome.run]
            for trial in reversed(searching.trials)
            if trial.wanted.load == lower and trial.outcome.sustained
        )
        found = {"sensors": lower, "not_sustained": upper}
        found |= {f"interval_{name}": getattr(interval, name) for name in ("low", "high")}
        return Round(
            1e6 / lower,
            {**found, **best.round().figures},
            str(best.folder),
            (1e6 / interval.high, 1e6 / interval.low),
        )


@contextlib.contextmanager
def costs() -> Iterator[Sides]:
    """What a point costs with either queue: ours with the plan's window and with its longest, the
    stock one with the plan's settings and with those of 2018."""
    with temporary_cluster(runs_of("coalescing")) as cluster:

        def side(kairosdb: dict[str, Any]) -> Side:
            return lambda: cluster.run(kairosdb, SENSORS, load=WARM).round()

        yield {
            OURS: side(COALESCING),
            BASELINE: side(STOCK),
            "longest": side(LONGEST),
            "published_2018": side(PUBLISHED_2018),
        }


@contextlib.contextmanager
def searches() -> Iterator[Sides]:
    """How many sensors either queue sustains."""
    with temporary_cluster(runs_of("sustained")) as cluster:
        yield {
            OURS: Search(cluster, LONGEST, 60_000),
            BASELINE: Search(cluster, STOCK, 12_000),
            "published_2018": Search(cluster, PUBLISHED_2018, 12_000),
        }


def _of_kairosdb(
    cluster: Cluster,
    kairosdb: dict[str, Any],
    sensors: int,
    load: Mapping[str, Any] | None = None,
    queries: Mapping[str, Any] | None = None,
) -> Side:
    """What a point costs KairosDB, with these settings under this load."""

    def measure() -> Round:
        found = cluster.run(kairosdb, sensors, load=load, queries=queries).round()
        return Round(found.figures["kairosdb_us_per_point"], found.figures, found.run)

    return measure


@contextlib.contextmanager
def syncs() -> Iterator[Sides]:
    """What acknowledgements cost that survive a loss of power: waited for every 5 ms, and 20."""
    with temporary_cluster(runs_of("synced")) as cluster:
        yield {
            OURS: _of_kairosdb(cluster, SYNCED, SYNC_SENSORS),
            BASELINE: _of_kairosdb(cluster, COALESCING, SYNC_SENSORS),
            "every_20_ms": _of_kairosdb(cluster, SYNCED_SELDOM, SYNC_SENSORS),
        }


@contextlib.contextmanager
def warm_ups() -> Iterator[Sides]:
    """What a point costs KairosDB after ten minutes of load, and in its third minute."""
    with temporary_cluster(runs_of("warm")) as cluster:
        yield {
            OURS: _of_kairosdb(cluster, COALESCING, SENSORS, TEN_MINUTES),
            BASELINE: _of_kairosdb(cluster, COALESCING, SENSORS, WARM),
        }


@contextlib.contextmanager
def sixties() -> Iterator[Sides]:
    """What a point costs KairosDB at 60,000 points/s, without queries and with some."""
    load = yaml.safe_load(SIXTY.read_text())["load"]
    with temporary_cluster(runs_of("sixty")) as cluster:
        yield {
            OURS: _of_kairosdb(cluster, LONGEST, load["sensors"], load, {"rate": 0}),
            BASELINE: _of_kairosdb(cluster, LONGEST, load["sensors"], load),
        }


@contextlib.contextmanager
def checkouts() -> Iterator[Sides]:
    """What a point costs with this checkout, and with another that is set up beside it.

    Each round of each has a cluster of its own, as one deploys and configures what the other does
    not know. BenchError if there is no other.
    """
    other = Path(os.environ.get(OTHER) or "")
    if not (other / ".venv" / "bin" / "kairoscope").exists():
        raise BenchError(
            f"{OTHER}={os.environ.get(OTHER, '')}: no checkout that was set up; clone the commit "
            "to compare with, `make setup` in the clone, and give its folder"
        )
    runs = runs_of("beside")

    def side(checkout: Path) -> Side:
        def measure() -> Round:
            with temporary_cluster(runs, checkout) as cluster:
                return cluster.run(COALESCING, SENSORS, load=WARM).round()

        return measure

    yield {OURS: side(paths.CHECKOUT), BASELINE: side(other.resolve())}


_PLANNED = "KairosDB's own queue with the settings that our plan derives for it"
_2018 = "KairosDB's own queue with the batch and connection settings published in 2018"

BENCHES = (
    Bench(
        name="coalescing",
        what=f"the coalescing queue: {SENSORS:,} sensors × 1 point/s, three storage nodes, RF 3",
        unit="µs CPU of all storage nodes a point",
        sides=costs,
        baseline_what=_PLANNED,
        others={"longest": "ours with the longest window, 30 s", "published_2018": _2018},
        thrown_away=1,
        # One less than elsewhere: each takes longer, as it waits until the servers are warm.
        rounds=4,
        limits=(
            Limit(
                "storage CPU a point at least 4 times less than that of 2018",
                f"published_2018.{RATIO}",
                at_least=4,
            ),
            Limit(
                "KairosDB's own CPU a point not more", f"kairosdb_us_per_point_{RATIO}", at_least=1
            ),
            Limit("99 % found after 35 s", "points_late_share", at_most=0.01),
        ),
    ),
    Bench(
        name="synced",
        what=f"acknowledgements that survive a loss of power (queue_sync_ms 5): {SYNC_SENSORS:,} "
        "sensors × 1 point/s, three storage nodes, RF 3",
        unit="µs CPU of KairosDB a point",
        sides=syncs,
        baseline_what="the same queue, whose acknowledgements do not wait for the disk",
        others={"every_20_ms": "acknowledgements waited for every 20 ms"},
        thrown_away=1,
        rounds=3,
    ),
    Bench(
        name="sustained",
        what="sensors × 1 point/s that the coalescing queue sustains with its longest window, "
        "30 s, RF 3, by search",
        unit="µs a point at that rate",
        sides=searches,
        baseline_what=_PLANNED,
        others={"published_2018": _2018},
        # Each a search of ten trials and more, with an interval of its own: more would be a day.
        rounds=1,
        limits=(
            Limit(
                "at least 3 times the sensors of the settings of 2018",
                f"published_2018.{RATIO}",
                at_least=3,
            ),
            Limit("the aim: the 60,000 sensors of 2018", "sensors", at_least=60_000),
        ),
    ),
)

ASKED_FOR = (
    Bench(
        name="warm",
        what=f"the coalescing queue after ten minutes of load: {SENSORS:,} sensors × 1 point/s, "
        "three storage nodes, RF 3",
        unit="µs CPU of KairosDB a point",
        sides=warm_ups,
        baseline_what="the same in its third minute, as `coalescing` measures it",
        rounds=3,
    ),
    Bench(
        name="sixty",
        what="the coalescing queue with its longest window, 30 s, under the load of "
        f"{SIXTY.name}, three storage nodes, RF 3",
        unit="µs CPU of KairosDB a point",
        sides=sixties,
        baseline_what="the same with a query beside it every two seconds",
        thrown_away=1,
        rounds=3,
        limits=(
            Limit(
                "the aim: 3.5 µs of KairosDB's CPU a point, its compilers' included",
                "kairosdb_us_per_point",
                at_most=3.5,
            ),
        ),
    ),
    Bench(
        name="beside",
        what=f"the coalescing queue of this checkout beside that of {OTHER}=: {SENSORS:,} sensors "
        "× 1 point/s, three storage nodes, RF 3",
        unit="µs CPU of all storage nodes a point",
        sides=checkouts,
        baseline_what=f"the checkout at {OTHER}=",
        rounds=6,
        limits=(
            Limit("the store's CPU a point not a tenth more", RATIO, at_least=0.9),
            Limit(
                "KairosDB's CPU a point not a tenth more",
                f"kairosdb_us_per_point_{RATIO}",
                at_least=0.9,
            ),
        ),
    ),
)
"""Those that need what not everyone has, or answer what is seldom asked: they run by their name
alone."""
