"""Two releases of KairosDB on the embedded cluster: what a point costs, and how many are stored.

Both run as they came out, with their own queue, driver and libraries and nothing of ours, one after
the other on one cluster of this machine, each as a new process on empty tables. And what makes the
newer one take points more slowly, by the same loads: it beside itself without its own metrics.
"""

import contextlib
import json
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
from cassandra.cluster import Session
from cassandra.query import SimpleStatement

from kairoscope import bundles, java, paths
from kairoscope.bench import queue
from kairoscope.bench.harness import Bench, BenchError, Round, Side
from kairoscope.inventory import Host, Inventory
from loaders import emulator, files, histograms
from loaders.spec import LoadSpec, Step

SENSORS = 3_000
"""So many that a point a second of each leaves a machine of two cores some time: what a point costs
is measured while nothing falls behind."""
STEADY = Step(period_ms=1_000, ticks=75)
STEADY_WARMUP_S = 35
"""KairosDB has just started, and writes the row key of every series within the first second."""
FLOOD = Step(period_ms=200, ticks=200)
"""15,000 points/s, twice what this cluster was seen to store on two cores: how many are stored."""
FLOOD_WARMUP_S = 10
RUSH = Step(period_ms=1_000, ticks=10_000)
"""History, as fast as it is acknowledged, and more than that can be: how many KairosDB takes."""
RUSH_S = 15

# As in 2018, and both releases know them. What is not here is each release's own default, and the
# same in both: memory queue, checkpoints, caches.
TUNED: Mapping[str, int] = {
    "kairosdb.queue_processor.batch_size": queue.PUBLISHED_2018["batch_size"],
    "kairosdb.queue_processor.min_batch_size": queue.PUBLISHED_2018["min_batch_size"],
    "kairosdb.ingest_executor.thread_count": queue.PUBLISHED_2018["ingest_threads"],
}
TUNED_STORE: Mapping[str, str | int] = {
    "connections_per_host.local.core": queue.PUBLISHED_2018["connections_per_host"],
    "connections_per_host.local.max": queue.PUBLISHED_2018["connections_per_host"],
    "max_requests_per_connection.local": queue.PUBLISHED_2018["max_requests_per_connection"],
    # Both, as 1.2 sends its batches at the consistency level of reads, whatever that of writes is.
    "read_consistency_level": "ONE",
    "write_consistency_level": "ONE",
}

_DATACENTER = "dc1"  # of an experiment that names none
_PATIENCE_S = 90  # for the first answer of a KairosDB

Settings = Mapping[str, str | int | list[str]]


def hocon(settings: Settings) -> str:
    """As KairosDB reads them since 1.3: paths, and values as in JSON."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())


def properties(settings: Settings) -> str:
    """As KairosDB read them until 1.2: texts, lists with commas."""
    texts = {
        key: ",".join(value) if isinstance(value, list) else value
        for key, value in settings.items()
    }
    return "".join(f"{key}={text}\n" for key, text in texts.items())


@dataclass(frozen=True)
class Release:
    """A KairosDB, and how it differs from the others in what it reads.

    Attributes:
        bundle: whose version it has.
        jars: its class path, where the given KairosDB host is deployed.
        file: name of its configuration file, by which it knows the format.
        text: settings in that format.
        store: what the names of settings of the store begin with.
        datacenter: the one of them that names the local datacenter.
    """

    bundle: str
    jars: Callable[[Host], list[Path]]
    file: str
    text: Callable[[Settings], str]
    store: str
    datacenter: str

    def settings(self, host: Host, hosts: Sequence[Host], tuned: bool) -> Settings:
        """All settings that differ from its defaults.

        Args:
            host: whose address it listens at.
            hosts: the storage nodes.
            tuned: whether with the settings published in 2018.
        """
        store: dict[str, Any] = {
            "cql_host_list": [f"{h.address}:{h.vars['native_transport_port']}" for h in hosts],
            "keyspace": host.vars["kairosdb_keyspace"],
            self.datacenter: _DATACENTER,
            **(TUNED_STORE if tuned else {}),
        }
        return {
            "kairosdb.jetty.address": host.address,
            "kairosdb.jetty.port": host.vars["http_port"],
            "kairosdb.service.telnet": "<disabled>",
            # It would write points of its own, which are counted as those of the sensors.
            "kairosdb.service.reporter": "<disabled>",
            "kairosdb.service.datastore": "org.kairosdb.datastore.cassandra.CassandraModule",
            **{self.store + key: value for key, value in store.items()},
            **(TUNED if tuned else {}),
        }


def _deployed_jars(host: Host) -> list[Path]:
    folder = Path(host.vars["kairosdb_bundle_dir"])
    # With the driver that it came with, and without our plugin.
    jars = [*folder.glob("lib/*.jar"), *folder.glob("driver-datastax/*.jar")]
    return sorted(jar for jar in jars if jar.name != bundles.OWN)


NEWER = Release(
    bundle="kairosdb",
    jars=_deployed_jars,
    file="kairosdb.conf",
    text=hocon,
    store="kairosdb.datastore.cassandra.write_cluster.",
    datacenter="local_dc_name",
)
OLDER = Release(
    bundle=bundles.OLDER,
    jars=lambda _: sorted(bundles.older_kairosdb().glob("*.jar")),
    file="kairosdb.properties",
    text=properties,
    store="kairosdb.datastore.cassandra.",
    datacenter="local_datacenter",
)


UNCOUNTED = replace(NEWER, jars=lambda host: [_uncounted(host), *_deployed_jars(host)])
"""The newer release with metrics that are not looked up, nor kept."""


def _uncounted(host: Host) -> Path:
    """Folder of a class that goes before the one of metrics4j. BenchError if it does not compile.

    Like KairosDB's own it is compiled against what runs; nothing of it is in a bundle.
    """
    folder = host.home.parent / "uncounted"
    javac = java.java_home(java.java17()) / "bin" / "javac"
    source = paths.KAIROSDB_CONF / "bench" / "SourceInvocationHandler.java"
    jars = ":".join(map(str, _deployed_jars(host)))
    done = subprocess.run(
        [javac, "-cp", jars, "-d", folder, source], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchError(f"{source} does not compile: {done.stderr.strip()[-1500:]}")
    return folder


@dataclass(frozen=True)
class Window:
    """The measured part of a load: epoch seconds, and CPU seconds that were used in it."""

    begin_s: float
    end_s: float
    kairosdb_cpu_s: float
    storage_cpu_s: float

    @property
    def length_s(self) -> float:
        """How long it was."""
        return self.end_s - self.begin_s

    def stored(self, written_ms: npt.NDArray[np.int64]) -> int:
        """How many points were written within it, of all (epoch ms)."""
        since = written_ms >= self.begin_s * 1000
        return int(np.count_nonzero(since & (written_ms < self.end_s * 1000)))


@dataclass
class Watch:
    """Looks at the CPU time of KairosDB and of the storage nodes.

    Attributes:
        seen: epoch seconds of each look, CPU seconds of KairosDB and of all storage nodes by then.
    """

    kairosdb: psutil.Process
    storage: Sequence[psutil.Process]
    seen: list[tuple[float, float, float]] = field(default_factory=list)

    def look(self) -> None:
        """Look once. BenchError if one of them is gone."""
        try:
            own, *others = (_cpu_s(process) for process in (self.kairosdb, *self.storage))
        except psutil.Error as error:
            raise BenchError(f"a server has ended during the load: {error}") from error
        self.seen.append((time.time(), own, sum(others)))

    def window(self, begin_s: float, end_s: float) -> Window:
        """From the first to the last look between these times. BenchError without two."""
        looks = [look for look in self.seen if begin_s <= look[0] <= end_s]
        if len(looks) < 2:  # noqa: PLR2004
            raise BenchError("the load was too short, or this machine too busy, to be looked at")
        (first_s, *before), (last_s, *after) = looks[0], looks[-1]
        return Window(first_s, last_s, *(b - a for a, b in zip(before, after, strict=True)))


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@dataclass(frozen=True)
class Loaded:
    """What became of a load.

    Attributes:
        window: its measured part.
        acknowledged_share: of the points that were due.
        acknowledged_per_s: from the start of the workers to their end.
        p99_ms: latency from the planned time, or from the request's start without one.
    """

    window: Window
    acknowledged_share: float
    acknowledged_per_s: float
    p99_ms: float


def paced(url: str, step: Step, warmup_s: int, patience_s: float) -> LoadSpec:
    """A load that begins now; a request that is not answered within `patience_s` is given up."""
    return LoadSpec(
        sensors=SENSORS,
        steps=[step],
        warmup_ticks=warmup_s * 1000 // step.period_ms,
        start_ms=int(time.time() * 1000) + emulator.START_MARGIN_MS,
        nodes=[url],
        metric="SENSOR_{n}",
        tags={"status": "good"},
        sensors_per_request=100,
        request_timeout_s=patience_s,
        retry_for_s=patience_s,
        latency_limit_ms=1_000,
        connections_per_node=8,
    )


def rush(url: str) -> LoadSpec:
    """The same sensors without a pace, with points of a day ago."""
    spec = paced(url, RUSH, 0, 5)
    return replace(spec, replay=True, start_ms=spec.start_ms - 24 * 3600 * 1000)


def load(spec: LoadSpec, watch: Watch, stop_after_s: float | None = None) -> Loaded:
    """Load KairosDB, with the watch looking about once a second. BenchError if a loader died."""
    stop = threading.Event()

    def look(now: emulator.Progress) -> None:
        watch.look()
        if stop_after_s is not None and now.elapsed_s >= stop_after_s:
            stop.set()

    with tempfile.TemporaryDirectory(prefix="kairoscope-bench-") as name:
        folder = Path(name)
        results = emulator.run(spec, folder, look, stop)
        for result in results:
            if "died" in result:
                raise BenchError(f"loader worker {result['worker']} died: {result['died']}")
        logs = [files.histogram_path(folder, worker) for worker in range(spec.workers)]
        latencies = histograms.merged(logs)
    began_s = min(result["started_ms"] for result in results) / 1000
    ended_s = max(result["ended_ms"] for result in results) / 1000
    measured = (began_s, ended_s)
    if not spec.replay:
        warmup_ms = spec.warmup_ticks * spec.steps[0].period_ms
        measured = ((spec.start_ms + warmup_ms) / 1000, spec.end_ms / 1000)
    acknowledged = sum(result["acknowledged"] for result in results)
    return Loaded(
        watch.window(*measured),
        acknowledged / (spec.sensors * spec.ticks),
        acknowledged / (ended_s - began_s),
        latencies.get_value_at_percentile(99) / 1000,
    )


def figures(
    steady: Loaded, flood: Loaded, rushed: Loaded, written_ms: npt.NDArray[np.int64]
) -> Round:
    """A round's figures from its three loads and the times at which all points were written.

    Raises:
        BenchError: KairosDB stored nothing in one of the first two.
    """
    stored = steady.window.stored(written_ms)
    most = flood.window.stored(written_ms)
    if not stored or not most:
        raise BenchError("KairosDB stored no point while it was measured")
    return Round(
        steady.window.kairosdb_cpu_s / stored * 1e6,
        {
            "storage_us_per_point": steady.window.storage_cpu_s / stored * 1e6,
            "stored_per_s": stored / steady.window.length_s,
            "acknowledged_share": steady.acknowledged_share,
            "p99_ms": steady.p99_ms,
            "flood_stored_per_s": most / flood.window.length_s,
            "flood_kairosdb_cores": flood.window.kairosdb_cpu_s / flood.window.length_s,
            "flood_storage_cores": flood.window.storage_cpu_s / flood.window.length_s,
            "flood_acknowledged_share": flood.acknowledged_share,
            "rush_acknowledged_per_s": rushed.acknowledged_per_s,
            "rush_kairosdb_cores": rushed.window.kairosdb_cpu_s / rushed.window.length_s,
            "rush_storage_cores": rushed.window.storage_cpu_s / rushed.window.length_s,
            "rush_p99_ms": rushed.p99_ms,
        },
    )


def write_times(db: Session, keyspace: str) -> npt.NDArray[np.int64]:
    """When each point was written, in epoch ms: KairosDB says so to the store with each."""
    statement = SimpleStatement(
        f"SELECT writetime(value) FROM {keyspace}.data_points",  # noqa: S608 - of the inventory
        fetch_size=5_000,
    )
    return np.fromiter((row[0] for row in db.execute(statement)), dtype=np.int64)


@contextlib.contextmanager
def running(release: Release, deployed: Inventory, tuned: bool) -> Iterator[psutil.Process]:
    """The release as a process that answers; killed with the block.

    Killed, not ended: what still waits in its queue then is not to be stored, nor waited for.

    Raises:
        BenchError: it does not start.
    """
    (host,) = deployed.kairosdb
    # Below the target's folder: whatever happens, `destroy` ends what runs from there.
    with tempfile.TemporaryDirectory(prefix="release-", dir=host.home.parent) as name:
        folder = Path(name)
        conf, arguments, log = folder / "conf", folder / "java.args", folder / "out.log"
        for each in (conf, folder / "queue", folder / "tmp"):
            each.mkdir()
        settings = release.settings(host, deployed.storage, tuned)
        (conf / release.file).write_text(release.text(settings))
        arguments.write_text("\n".join(command_line(release, host, folder)) + "\n")
        with log.open("w") as out:
            process = subprocess.Popen(
                [host.vars["java"], f"@{arguments}"],
                cwd=folder,  # its queue and logs go to folders below
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            _wait_for_answer(host, process, log)
            yield psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()


def command_line(release: Release, host: Host, folder: Path) -> list[str]:
    """Arguments of `java`: the JVM options of the KairosDB that is deployed on the host.

    And where it is told how to log: without that logback writes everything down from DEBUG on.
    """
    deployed = (host.home / "conf" / "java.args").read_text().splitlines()
    return [
        *(line for line in deployed if line.startswith(("-X", "--add-", "-Dlogback."))),
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        "-Duser.timezone=UTC",
        "-cp",
        ":".join(map(str, release.jars(host))),
        "org.kairosdb.core.Main",
        *("-c", "run", "-p", str(folder / "conf" / release.file)),
    ]


def _wait_for_answer(host: Host, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{host.url}/api/v1/health/check", timeout=5).close()  # noqa: S310
            return
        time.sleep(0.5)
    raise BenchError(f"KairosDB did not start: {log.read_text(errors='replace')[-1500:]}")


@dataclass(frozen=True)
class Measured:
    """One release with one kind of settings; a round of it."""

    cluster: queue.Cluster
    release: Release
    tuned: bool

    def __call__(self) -> Round:
        """Start it on an empty table, load it, with more than it can at last, kill it, count."""
        deployed = self.cluster.inventory
        (host,) = deployed.kairosdb
        storage = [psutil.Process(pid) for pid in queue.pids(deployed.storage)]
        with self.cluster.session() as db:
            queue.empty(db)
        with running(self.release, deployed, self.tuned) as process:
            watch = Watch(process, storage)
            steady = load(paced(host.url, STEADY, STEADY_WARMUP_S, 30), watch)
            # Nobody waits for answers after a flood: what is stored by then counts.
            flood = load(paced(host.url, FLOOD, FLOOD_WARMUP_S, 5), watch)
            # Last, as it leaves more in the queue than could be waited for.
            rushed = load(rush(host.url), watch, RUSH_S)
        with self.cluster.session() as db:
            written_ms = write_times(db, host.vars["kairosdb_keyspace"])
        return figures(steady, flood, rushed, written_ms)


@contextlib.contextmanager
def cluster() -> Iterator[queue.Cluster]:
    """Storage nodes for the rounds within the block, without a KairosDB."""
    with queue.temporary_cluster() as made:
        made.deploy(queue.PUBLISHED_2018, SENSORS)
        (host,) = made.inventory.kairosdb
        # Its address is that of the releases.
        stopped = subprocess.run(
            [*host.vars["supervisorctl"], "stop", host.name],
            capture_output=True,
            text=True,
            check=False,
        )
        if stopped.returncode:
            raise BenchError(f"{host.name} could not be stopped: {stopped.stdout.strip()}")
        yield made


def _bench(name: str, what: str, tuned: bool, other: Release, other_what: str) -> Bench:
    @contextlib.contextmanager
    def sides() -> Iterator[tuple[Side, Side]]:
        if other is OLDER:
            bundles.older_kairosdb()  # fetched before anything is deployed
        with cluster() as made:
            yield Measured(made, NEWER, tuned), Measured(made, other, tuned)

    newer, version = (bundles.property_of_pom(f"{r.bundle}.version") for r in (NEWER, other))
    return Bench(
        name=name,
        what=f"KairosDB {newer}, {what}: {SENSORS:,} sensors × 1 point/s, RF 3; then more",
        unit="µs CPU of KairosDB a stored point",
        sides=sides,
        baseline_what=f"KairosDB {version}, {other_what}",
    )


_TUNED = "with the settings published in 2018"
_SHIPPED = "with its own defaults"
BENCHES = (
    _bench("releases", _TUNED, True, OLDER, _TUNED),
    _bench("releases-shipped", _SHIPPED, False, OLDER, _SHIPPED),
    _bench("releases-metrics", _TUNED, True, UNCOUNTED, f"{_TUNED}, its metrics not looked up"),
)
