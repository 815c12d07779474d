"""Run folders as a run leaves them, made by what makes them in a run, for tests of the verdict."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import load_samples
import numpy as np

from kairoscope import run_folder
from kairoscope.cli import known
from kairoscope.experiment import Experiment
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.run.current import CurrentRun
from kairoscope.run.load_spec import build
from kairoscope.run_folder import Drain, Expected, Facts, JsonLines
from kairoscope.stacks.compared import compare
from kairoscope.verdict import conclude, outcomes, settlement, sustained
from loaders.record.histograms import (
    LATENCY,
    SERVICE,
    WAIT,
    WARMUP,
    LogWriter,
    Sparse,
    node_tag,
)
from loaders.schedule.due import Schedule

NOW_S = 1_790_000_000
NODES = ("kairosdb-1", "kairosdb-2")
STORAGE = ("storage-1", "storage-2", "storage-3")


def captures_of(engine: str) -> dict[str, Any]:
    """As the manifest has it."""
    shards = list(STORAGE) if engine == "scylla" else []
    processes = [*STORAGE, *NODES]
    return asdict(Expected(list(STORAGE), shards, processes, disk=True))


@dataclass
class Run:
    """A run folder, and the state of the run that made it."""

    state: CurrentRun
    schedule: Schedule

    @property
    def folder(self) -> Path:
        return self.state.folder

    @property
    def facts(self) -> Facts:
        return self.state.facts

    @property
    def began_s(self) -> float:
        return self.state.started

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def change(self, name: str, **values: Any) -> None:
        """Replace fields of a document."""
        path = self.folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    def limit(self, **limits: float) -> None:
        """Give the plan other limits."""
        plan = self.json(run_folder.PLAN)
        plan["experiment"].setdefault("limits", {}).update(limits)
        (self.folder / run_folder.PLAN).write_text(json.dumps(plan))

    def drained(self, after_s: float = 0.5, left: int | None = 0) -> None:
        """Say that the queues were watched so long after the last point, and what was left."""
        self.facts.drain = Drain(left, self.schedule.spec.end_ms / 1000 + after_s)

    def event(self, what: str, detail: str, **more: Any) -> None:
        self.state.events.write(t=NOW_S + 6, what=what, detail=detail, **more)

    def captured(self, *made: tuple[str, str]) -> None:
        """Say that these (node, phase) were captured, and no others."""
        records = [{"t": NOW_S, "node": node, "phase": phase, "rows": {}} for node, phase in made]
        run_folder.write_json(self.folder / run_folder.CAPTURES, records)

    def read_back(
        self,
        lost: dict[int, int] | None = None,
        failed: list[settlement.FailedPoint] | None = None,
        rows: bool = True,
    ) -> None:
        """Read back all points but the first few of some series (`lost`: how many, by number)."""
        found = outcomes.read(self.schedule, self.folder / run_folder.LOAD)
        settling = settlement.Settlement(self.schedule, found)
        for series in self.schedule.series():
            points = load_samples.points_of(self.schedule, series)
            left = points[(lost or {}).get(series.number, 0) :]
            got = np.array(left, dtype=np.int64).reshape(-1, 2)
            settling.add(compare(self.schedule, series, got))
        run_folder.write_lines(
            self.folder / run_folder.FAILED_POINTS, [point._asdict() for point in failed or []]
        )
        read_back = settling.found()
        if rows:
            read_back.rows_by_cql = read_back.counts["present"] + read_back.counts["unexpected"]
        read_back.write_gaps(self.folder)
        read_back.write(self.folder)

    def end(self) -> None:
        """Come to an end, as every run does that is not killed."""
        self.state.end()

    def judge(self) -> sustained.Verdict:
        """End the run and judge it; the results are in the folder then."""
        self.end()
        conclusion = conclude.judge(self.folder)
        conclusion.write()
        return conclusion.verdict


def run_of(
    folder: Path, queries: dict[str, Any] | None = None, window_ms: int = 2000, **load: Any
) -> Run:
    """A run that has been loaded, drained and not yet read back: all went well."""
    cluster = {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 2, "shards": 2}
    fields = {"sensors": 20, "rate": 1.0, "duration_s": 20, "warmup_s": 5, "workers": 4}
    document = {
        "name": "mine",
        "description": "A small one.",
        "cluster": {**cluster, "loader_hosts": 2},
        "kairosdb": {"queue_window_ms": window_ms},
        "load": fields | load,
        "queries": queries or {},
    }
    plan = known.plan(Experiment.model_validate(document), "local")
    for sub in run_folder.SUBFOLDERS:
        (folder / sub).mkdir(parents=True)
    (folder / run_folder.PLAN).write_text(plan.to_json())
    manifest = {
        "run": folder.name,
        "machine": {"cpus": 2},
        "nodes": {"kairosdb": NODES, "storage": STORAGE},
        "captures": captures_of(plan.engine),
    }
    run_folder.write_json(folder / run_folder.MANIFEST, manifest)
    telnet = ["127.0.0.1:4242", "127.0.0.2:4242"]
    spec = build(plan, ["http://127.0.0.1:8080", "http://127.0.0.2:8080"], telnet, NOW_S)
    schedule = Schedule(spec)
    # A replay goes on now, whatever time its points are of.
    began_s = NOW_S + 1 if spec.replay else spec.start_ms / 1000
    stores, nodes = (
        [Host(name, role, {}) for name in names]
        for role, names in (("storage", STORAGE), ("kairosdb", NODES))
    )
    inventory = Inventory(folder / "inventory.yml", stores, nodes, [])
    events = JsonLines(folder / run_folder.EVENTS)
    run = Run(CurrentRun(folder, plan, inventory, began_s, events, schedule=schedule), schedule)
    _loaded(run)
    queue = JsonLines(folder / run_folder.QUEUE)
    processes = JsonLines(folder / run_folder.PROCESSES)
    load_s = 20 if spec.replay else round(spec.duration_s)
    for second in range(load_s + 10):
        for node in NODES:
            queue.write(t=began_s + second, node=node, waiting=7 if second <= load_s else 0)
        for name in (*NODES, *STORAGE):
            cpu = {"role": name[:-2], "pid": 7, "cpu_s": second / 10, "rss_bytes": 1000}
            processes.write(t=began_s + second, name=name, **cpu)
        machine = {"role": "machine", "cpu_busy_s": second * 1.0}
        processes.write(t=began_s + second, name="machine", **machine)
    run.captured(*((node, phase) for node in STORAGE for phase in ("before", "after")))
    run.drained()
    run.facts.disk_bytes = {"before": 10_000, "after": 50_000}
    run.facts.captured = True
    run.facts.write(folder)
    return run


def _loaded(run: Run) -> None:
    """The loaders' files, of a load in which all went well."""
    spec, folder = run.schedule.spec, run.folder / run_folder.LOAD
    usual = "acknowledged" if spec.acknowledges else "unknown"
    became = dict.fromkeys(load_samples.cells(run.schedule), usual)
    load_samples.write_worker_files(run.schedule, folder, became)
    (run.folder / run_folder.LOAD_SPEC).write_text(spec.to_json())
    hosts = [{"host": "loader-1"}, {"host": "loader-2"}]
    run_folder.write_json(run.folder / run_folder.LOAD_HOSTS, hosts)
    for worker in range(spec.workers):
        run.change(
            f"load/worker-{worker}.json",
            send_error_us={"p50": 1, "p99": 2000, "max": 3000, "count": 75},
            cpu_s=0.5,
            started_ms=round(run.began_s * 1000),
            ended_ms=round(run.began_s * 1000) + 20_000,
        )
        write_latencies(run, worker)


def write_latencies(run: Run, worker: int, *intervals: tuple[int, int], first_s: float = 0) -> None:
    """A worker's interval log: of each interval (µs, points), or 75 points of 20 ms; the rest of
    what it sent is in the warm-up. `first_s`: when they begin, seconds of the load."""
    spec = run.schedule.spec
    points = sum(map(run.schedule.points_of, run.schedule.groups(worker)))
    measured = intervals or ((20_000, 75),)
    began_s = run.began_s - spec.start_ms / 1000 + first_s
    warm = points - sum(count for _, count in measured)
    for ending, what in (("", LATENCY), (".wait", WAIT), (".service", SERVICE)):
        with (run.folder / "load" / f"worker-{worker}{ending}.hlog").open("w") as file:
            log = LogWriter(file, spec.start_ms, what)
            _interval(log, began_s, 20_000, warm, WARMUP)
            for second, (latency_us, count) in enumerate(measured):
                at_s = began_s + second
                if what == LATENCY:
                    first = (count + second // 2 % 2) // 2  # the odd one by turns
                    _interval(log, at_s, latency_us, first, node_tag(0))
                    _interval(log, at_s, latency_us, count - first, node_tag(1))
                else:
                    _interval(log, at_s, 0 if what == WAIT else latency_us, count, "")


def _interval(log: LogWriter, at_s: float, value_us: int, count: int, tag: str) -> None:
    sparse = Sparse()
    sparse.record(value_us, count)
    if count:
        log.write_sparse(sparse, at_s, 1.0, tag)
