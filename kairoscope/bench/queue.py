"""KairosDB's two queues on the embedded cluster: what a point costs, and how many are sustained.

Baseline is KairosDB as it is, with the settings published in 2018. Both run on one cluster of this
machine in turn, each after a restart of KairosDB and on empty tables, with the same load.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cassandra.cluster import Session

from kairoscope import cql, inventory, paths
from kairoscope.bench.harness import RATIO, Bench, BenchError, Limit, Round

EXPERIMENT: dict[str, Any] = {
    "name": "bench",
    "description": "KairosDB's two queues, one after the other.",
    "cluster": {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1},
    "storage": {"heap_mb": 1024},
    # As laptop.yml's, and for its reasons; the warm-up is longer, as KairosDB has just started.
    "load": {"rate": 1, "duration_s": 90, "warmup_s": 45, "sensors_per_request": 100},
    "limits": {"p99_ms": 1000, "drain_s": 240, "send_error_p99_ms": 500},
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
COALESCING: dict[str, Any] = {}

SENSORS = 20_000
STEP = 1.1
"""Of the search: the next number of sensors to try is this times the last, or divided by it."""


class Cluster:
    """The embedded cluster that a bench has for itself, in a home of its own."""

    def __init__(self, home: Path) -> None:
        """Nothing is deployed yet."""
        self.home = home

    def _call(self, *arguments: str | Path, ends: tuple[int, ...] = (0,)) -> None:
        done = subprocess.run(
            [Path(sys.executable).parent / "kairoscope", *arguments],
            cwd=paths.CHECKOUT,
            env={**os.environ, "KAIROSCOPE_HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in ends:
            said = (done.stderr.strip() or done.stdout.strip())[-1500:]
            raise BenchError(f"`kairoscope {arguments[0]}` ended with {done.returncode}: {said}")

    def run(self, kairosdb: dict[str, Any], sensors: int) -> "Run":
        """Deploy with these settings of KairosDB, empty the table, load and read back."""
        file = self.deploy(kairosdb, sensors)
        with self.session() as db:
            empty(db)
        self._call("load", file, ends=(0, 1, 2))
        return Run((self.home / "runs" / "latest").resolve())

    def deploy(self, kairosdb: dict[str, Any], sensors: int) -> Path:
        """Deploy with these settings of KairosDB; returns the experiment's file."""
        file = self.home / "bench.yml"
        load = EXPERIMENT["load"] | {"sensors": sensors}
        file.write_text(yaml.safe_dump(EXPERIMENT | {"load": load, "kairosdb": kairosdb}))
        self._call("deploy", file)
        return file

    @property
    def inventory(self) -> inventory.Inventory:
        """What is deployed, and where."""
        return inventory.read(self.home / "local" / "inventory.yml")

    def session(self) -> contextlib.AbstractContextManager[Session]:
        """CQL to the storage nodes."""
        hosts = self.inventory.storage
        port = int(hosts[0].vars["native_transport_port"])
        return cql.session([host.address for host in hosts], port)

    def destroy(self) -> None:
        """End it."""
        self._call("destroy")


def empty(db: Session) -> None:
    """Take all points away: what the rounds before left would be merged in this one."""
    db.execute("TRUNCATE kairosdb.data_points", timeout=120)


@dataclass(frozen=True)
class Run:
    """What a run folder says."""

    folder: Path

    def _json(self, name: str) -> Any:
        path = self.folder / name
        if not path.exists():
            raise BenchError(f"{self.folder}: the run left no {name}")
        return json.loads(path.read_text())

    @property
    def passed(self) -> bool:
        """Whether all five parts of the verdict hold."""
        return bool(self._json("verdict.json")["verdict"] == "pass")

    @property
    def why(self) -> str:
        """The verdict in a sentence."""
        return str(self._json("verdict.json")["summary"])

    def round(self) -> Round:
        """The CPU that a point costs the storage nodes, in µs, while the load is on.

        A queue that falls behind takes more points than the store gets: the store's CPU is divided
        by the points that it was given in the window, and KairosDB's by those that it took.
        """
        book, measured = self._json("ledger.json"), self._json("measurements.json")
        if book["missing"] or book["wrong_value"]:
            raise BenchError(f"{self.folder}: acknowledged points are missing: {self.why}")
        latency = self._json("latency/merged.json")
        taken = latency["count"]
        stored = taken - self._grown(latency["warmup_s"])
        per_point = measured["cpu_us_per_point"]
        if not taken or stored <= 0 or per_point["storage"] is None:
            raise BenchError(f"{self.folder}: nothing was measured: {self.why}")
        cores = measured["cpu_cores"]
        return Round(
            per_point["storage"] * taken / stored,
            {
                "kairosdb_us_per_point": per_point["kairosdb"],
                "loader_us_per_point": per_point["loader"],
                "stored_per_s": stored / (EXPERIMENT["load"]["duration_s"] - latency["warmup_s"]),
                "p99_ms": latency["p99_ms"],
                "cores": sum(cores.values()),
                "sustained": float(self.passed),
            },
        )

    def _grown(self, warmup_s: float) -> float:
        """Points by which the queue grew from the end of the warm-up to that of the load."""
        load = self._json("manifest.json")["load"]
        start, end = load["start_ms"] / 1000 + warmup_s, load["end_ms"] / 1000
        text = (self.folder / "queue.jsonl").read_text()
        records = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        depths = [r["waiting"] for r in records if start <= r["t"] <= end and "waiting" in r]
        if not depths:
            raise BenchError(f"{self.folder}: KairosDB did not tell how many points wait")
        return float(depths[-1] - depths[0])


@contextlib.contextmanager
def temporary_cluster() -> Iterator[Cluster]:
    """A cluster in a folder of its own, with the block ended and removed."""
    # Short: the path of a Unix socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="kb-") as folder:
        made = Cluster(Path(folder))
        try:
            yield made
        finally:
            made.destroy()


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """The cluster that the rounds within the block use."""
    with temporary_cluster() as made:
        _in_use.append(made)
        try:
            yield
        finally:
            _in_use.pop()


_in_use: list[Cluster] = []


def _cost(kairosdb: dict[str, Any]) -> Callable[[], Round]:
    return lambda: _in_use[-1].run(kairosdb, SENSORS).round()


@dataclass
class Search:
    """Finds how many sensors are sustained: all five parts of the verdict.

    Each round goes on from what the one before it found, a step at a time, until a number passes
    and the next one does not.
    """

    kairosdb: dict[str, Any]
    sensors: int
    """The next number to try."""

    def __call__(self) -> Round:
        """One round. BenchError if not even a tenth of where it began is sustained."""
        best: Round | None = None
        failed_at: int | None = None
        least, number = self.sensors // 10, self.sensors
        while best is None or failed_at is None:
            run = _in_use[-1].run(self.kairosdb, number)
            if run.passed:
                found = run.round().figures
                best = Round(1e6 / number, {"sensors": number, **found})
                number, self.sensors = _times(number, STEP), number
            else:
                failed_at, number = number, _times(number, 1 / STEP)
            if number < least:
                raise BenchError(f"no number of sensors was sustained: {run.why}")
        return best


def _times(sensors: int, factor: float) -> int:
    """Rounded to hundreds, and another number in any case."""
    hundreds, times = sensors // 100, round(sensors * factor / 100)
    if times == hundreds:
        times += 1 if factor > 1 else -1
    return times * 100


_2018 = "KairosDB's own queue with the batch and connection settings published in 2018"

BENCHES = (
    Bench(
        name="coalescing",
        what=f"the coalescing queue: {SENSORS:,} sensors × 1 point/s, three storage nodes, RF 3",
        unit="µs CPU of all storage nodes a point",
        ours=_cost(COALESCING),
        baseline=_cost(PUBLISHED_2018),
        baseline_what=_2018,
        limits=(
            Limit("storage CPU a point at least 4 times less", RATIO, at_least=4),
            Limit("KairosDB's own CPU a point not more", "kairosdb_us_per_point_ratio", at_least=1),
        ),
        prepared=cluster,
    ),
    Bench(
        name="sustained",
        what="sensors × 1 point/s that the coalescing queue sustains, RF 3, by search",
        unit="µs a point at that rate",
        ours=Search(COALESCING, 30_000),
        baseline=Search(PUBLISHED_2018, 8_000),
        baseline_what=_2018,
        limits=(
            Limit("at least 3 times the sensors", RATIO, at_least=3),
            Limit("the aim: the 60,000 sensors of 2018", "sensors", at_least=60_000),
        ),
        prepared=cluster,
    ),
)
