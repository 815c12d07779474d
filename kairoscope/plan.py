"""The plan: what an experiment resolves to on a target, with the arithmetic made visible.

Settings are derived, not folklore. Each one carries the numbers it came from and why it is
computed that way; an experiment may override any of them, and the plan then shows both. The plan
is pure (it looks at no machine), and its JSON is what the deployment and the load read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, replicas_needed

FORMAT = 1
"""Version of plan.json; raised when a reader of the old one would misread the new one."""

ENGINES = {"local": "cassandra"}
"""Targets that can be planned for, and the storage engine of each: the target decides it."""

Origin = Literal["derived", "experiment", "command line", "default"]
Scalar = int | float | str | dict[str, str] | None

# ---------------------------------------------------------------- the rules of the arithmetic
# Policy, each once with its reason. What an experiment knows better (latencies, sizes) is in its
# `assume`; what it wants otherwise it overrides by the setting itself.

# KairosDB's own default for both caches: never less than what it ships with.
CACHE_MIN_ENTRIES = 50_000
# Sensors that come and go, and both row keys of a series while a 3-week row ends.
CACHE_HEADROOM = 1.25
# Series that KairosDB writes about itself; some hundreds of metrics with their tags.
OWN_SERIES = 1_000

# A batch holds what arrives in this time, and KairosDB waits this long for one to fill.
BATCH_WINDOW_MS = 100
# Below 50 (the 2018 value) the cost of a request exceeds that of its points; above 1000 nothing
# is gained (batches of 5000 cost the store as much a point as batches of 50), and a lost or
# retried batch weighs more.
BATCH_MIN, BATCH_MAX = 50, 1_000
# The 2018 setting: 15 of 50.
MIN_BATCH_SHARE = 0.3

# Little's law gives the mean; twice that also carries a neighbour's sensors after a fail-over.
THREADS_HEADROOM = 2
# Four keep a quiet node's batches from queueing behind a slow one; beyond 64 the one thread that
# hands out batches is the limit.
THREADS_MIN, THREADS_MAX = 4, 64

# A batch with new series sends two more that nobody waits for: metric names, and row keys with
# their time index.
INDEX_BATCHES = 2
REQUESTS_HEADROOM = 2
# 8 is the 2018 value; 1024 is the driver's own default for CQL v3 and later.
REQUESTS_MIN, REQUESTS_MAX = 8, 1_024

# What a node can fall behind before KairosDB reads points back from its file, which costs more
# just when it has no time.
MEMORY_QUEUE_S = 20
MEMORY_QUEUE_MIN, MEMORY_QUEUE_MAX = 10_000, 1_000_000
# KairosDB's default is 90. After a kill all points since the last checkpoint are sent again.
CHECKPOINT_S = 10

# KairosDB without load: classes, Jetty, the driver, metrics.
HEAP_BASE_MIB = 512
HEAP_STEP_MIB = 256
BYTES_PER_CACHED_SERIES = 1_024  # a row key with its tags in a linked hash map, generous
BYTES_PER_QUEUED_POINT = 500  # the event object with its tags, and its place in the ring

# ScyllaDB's own default for refusing a batch; Cassandra's 50 KiB would refuse KairosDB's batches.
BATCH_FAIL_MIN_KIB = 1_024
BATCH_FAIL_STEP_KIB = 64
# The estimate of a point's size may be off by this much before a batch is refused.
BATCH_FAIL_HEADROOM = 4
BATCH_WARN_SHARE = 0.5

# One loader process (Python, one core) sends this many points a second with room to stay on time.
POINTS_PER_WORKER = 25_000
# Several even for a small load, so that what merges them is always exercised.
WORKERS_MIN = 2

# Merging data files needs the old and the new side by side.
COMPACTION_HEADROOM = 2
# KairosDB's queue files are pages of 50 MiB; one is written while the one before is still read.
QUEUE_PAGES, QUEUE_PAGE_BYTES = 2, 52_428_800

MIB = 1_048_576


class Setting(BaseModel):
    """One line of the plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Dotted, as in the experiment file where it can be set there ("kairosdb.batch_size")."""
    value: Scalar
    unit: str
    origin: Origin
    arithmetic: str = ""
    """How the value came about, in the plan's own numbers; "" where it was simply given."""
    reason: str = ""
    derived_value: Scalar = None
    """What the arithmetic gave where an override replaced it."""


class Plan(BaseModel):
    """An experiment resolved for a target: what plan.json holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    experiment_file: str
    target: str
    engine: str
    experiment: Experiment
    """As scaled by the command line; derived settings that it leaves open stay open here."""
    settings: tuple[Setting, ...]
    kairosdb: dict[str, Any]
    """Final values for KairosDB's templates, flat."""
    storage: dict[str, Any]
    """Final values for the storage engine's templates and the schema, flat."""
    load: dict[str, Any]
    """Final values for the load's specification, flat."""
    totals: dict[str, int | float]
    notices: tuple[str, ...]

    def setting(self, name: str) -> Setting:
        """The line of one setting; KeyError if there is none of that name."""
        for setting in self.settings:
            if setting.name == name:
                return setting
        raise KeyError(name)

    def to_json(self) -> str:
        """Text of plan.json, ending in a newline."""
        data = self.model_dump(mode="json")
        data["experiment"] = self.experiment.model_dump(mode="json", exclude_none=True)
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote. UserError for anything else."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the text"
            raise UserError(
                f"plan.json: {where}: {first['msg']}. It was written by another version or by "
                "hand; make it again with `kairoscope plan EXPERIMENT --json`."
            ) from None


def make(experiment: Experiment, target: str = "local") -> Plan:
    """Resolve an experiment for a target.

    Raises UserError for an unknown target and for settings that contradict each other once the
    open ones are derived; all contradictions at once, one per line.
    """
    if target not in ENGINES:
        raise UserError(f"target {target} is not available yet; available: {', '.join(ENGINES)}")
    return _Planner(experiment, target).plan()


class _Planner:
    """Collects settings while the arithmetic goes from the load to the store."""

    def __init__(self, experiment: Experiment, target: str) -> None:
        self.experiment = experiment
        self.target = target
        self.engine = ENGINES[target]
        self.settings: list[Setting] = []
        self.notices: list[str] = []
        self.problems: list[str] = []

        load, cluster = experiment.load, experiment.cluster
        self.nodes = cluster.kairosdb_nodes
        self.survivors = max(1, self.nodes - 1)
        self.points_per_s = load.sensors * 1000 / load.period_ms
        self.node_points_per_s = self.points_per_s / self.nodes
        self.points = load.sensors * load.ticks
        self.series = math.ceil(load.sensors / self.nodes)
        self.series_failed_over = math.ceil(load.sensors / self.survivors)

    def plan(self) -> Plan:
        self._given("cluster")
        load = self._load()
        totals = self._rates()
        kairosdb = self._kairosdb()
        storage = self._storage(kairosdb)
        self._disk(kairosdb, totals)
        for section in ("limits", "capture", "assume"):
            self._given(section)
        self._notices(kairosdb)
        if self.problems:
            raise UserError("\n".join(self.problems))
        return Plan(
            experiment_file=self.experiment.source.shown,
            target=self.target,
            engine=self.engine,
            # A fresh copy: line numbers belong to the file, not to the plan.
            experiment=Experiment.model_validate(self.experiment.model_dump()),
            settings=tuple(self.settings),
            kairosdb=kairosdb,
            storage=storage,
            load=load,
            totals=totals,
            notices=tuple(self.notices),
        )

    # ------------------------------------------------------------ recording

    def _given(self, section: str, *, skip: tuple[str, ...] = ()) -> dict[str, Any]:
        """Record the fields of a section that are given or have a plain default."""
        model = getattr(self.experiment, section)
        source = self.experiment.source
        values: dict[str, Any] = {}
        for key, info in type(model).model_fields.items():
            name = f"{section}.{key}"
            value = getattr(model, key)
            if key in skip or value is None:
                continue
            arithmetic = ""
            if name in source.command_line:
                origin: Origin = "command line"
                if name in source.replaced:
                    arithmetic = f"{source.command_line[name]}; the experiment has "
                    arithmetic += source.replaced[name]
            else:
                origin = "experiment" if key in model.model_fields_set else "default"
            extra = info.json_schema_extra
            unit = str(extra.get("unit", "")) if isinstance(extra, dict) else ""
            self._add(name, value, unit, arithmetic, info.description or "", origin=origin)
            values[key] = value
        return values

    def _add(
        self,
        name: str,
        value: Any,
        unit: str,
        arithmetic: str,
        reason: str,
        *,
        origin: Origin = "derived",
        derived_value: Any = None,
    ) -> None:
        self.settings.append(
            Setting(
                name=name,
                value=value,
                unit=unit,
                origin=origin,
                arithmetic=arithmetic,
                reason=reason,
                derived_value=derived_value,
            )
        )

    def _derive(self, name: str, value: int, unit: str, arithmetic: str, reason: str) -> int:
        """Record a derived setting, or the experiment's override of it; returns what holds."""
        section, key = name.split(".")
        override: int | None = getattr(getattr(self.experiment, section), key)
        if override is None:
            self._add(name, value, unit, arithmetic, reason)
            return value
        self._add(
            name, override, unit, arithmetic, reason, origin="experiment", derived_value=value
        )
        return override

    def _refuse(self, name: str, text: str) -> None:
        self.problems.append(f"{self.experiment.source.where(name)}: {name}: {text}")

    # ------------------------------------------------------------ the load

    def _load(self) -> dict[str, Any]:
        load = self.experiment.load
        values = self._given("load", skip=("workers",))
        period = load.period_ms
        self._add(
            "load.period_ms",
            period,
            "ms",
            f"1000 / {_n(load.rate)} point/s = {_n(period)}",
            "Time between two points of a sensor.",
        )
        if load.points is not None:
            ticks_arithmetic = "load.points"
        else:
            exact = f"{_n(load.duration_s or 0)} s × 1000 / {_n(period)} ms"
            ticks_arithmetic = f"{exact} = {_n(load.ticks)}"
        self._add(
            "load.ticks",
            load.ticks,
            "points",
            ticks_arithmetic,
            "Points of each sensor, warm-up included; whole periods only.",
        )
        self._add(
            "load.warmup_ticks",
            load.warmup_ticks,
            "points",
            f"{_n(load.warmup_s)} s × 1000 / {_n(period)} ms = {_n(load.warmup_ticks)}",
            "The first points of each sensor; sent and accounted for, but not in the latencies.",
        )
        wanted = math.ceil(self.points_per_s / POINTS_PER_WORKER)
        workers = self._derive(
            "load.workers",
            min(load.sensors, max(WORKERS_MIN, wanted)),
            "processes",
            f"{_n(self.points_per_s)} points/s / {_n(POINTS_PER_WORKER)} = {_n(wanted)}"
            f"{_clamped(wanted, WORKERS_MIN, load.sensors)}",
            "One Python process keeps one core; it must stay on time to measure anything.",
        )
        requests = _requests_per_tick(load.sensors, self.nodes, workers, load.sensors_per_request)
        requests_per_s = requests * 1000 / period
        self._add(
            "load.requests_per_s",
            _short(requests_per_s),
            "requests/s",
            f"{_n(requests)} groups of ≤ {_n(load.sensors_per_request)} sensors × 1000 / "
            f"{_n(period)} ms = {_n(requests_per_s)}",
            f"Sensors are cut into {_count(workers, 'worker')} × "
            f"{_count(self.nodes, 'KairosDB node')}, and "
            "those into requests.",
        )
        values.pop("points", None)
        return {
            **values,
            "duration_s": _short(load.ticks * period / 1000),
            "period_ms": period,
            "ticks": load.ticks,
            "warmup_ticks": load.warmup_ticks,
            "workers": workers,
            "requests_per_s": _short(requests_per_s),
            "latency_limit_ms": self.experiment.limits.p99_ms,
        }

    def _rates(self) -> dict[str, int | float]:
        load = self.experiment.load
        rate, node_rate = self.points_per_s, self.node_points_per_s
        self._add(
            "totals.points_per_s",
            _short(rate),
            "points/s",
            f"{_n(load.sensors)} sensors × 1000 / {_n(load.period_ms)} ms = {_n(rate)}",
            "What the cluster is asked to sustain.",
        )
        self._add(
            "totals.points",
            self.points,
            "points",
            f"{_n(load.sensors)} sensors × {_n(load.ticks)} = {_n(self.points)}",
            "What the ledger must account for.",
        )
        self._add(
            "totals.points_per_s_per_node",
            _short(node_rate),
            "points/s",
            f"{_n(rate)} / {_nodes(self.nodes)} = {_n(node_rate)}",
            "What one KairosDB node takes while all are up.",
        )
        self._add(
            "totals.series_per_node",
            self.series,
            "series",
            f"{_n(load.sensors)} / {_nodes(self.nodes)} = {_n(self.series)}",
            "One series a sensor; a sensor always goes to the same KairosDB node.",
        )
        self._add(
            "totals.series_per_node_after_failover",
            self.series_failed_over,
            "series",
            f"{_n(load.sensors)} / {_nodes(self.survivors)} = {_n(self.series_failed_over)}",
            "When one KairosDB node is down, the others have its sensors too."
            if self.nodes > 1
            else "With one KairosDB node there is nobody to take over.",
        )
        return {
            "points_per_s": _short(rate),
            "points": self.points,
            "points_per_s_per_node": _short(node_rate),
            "series_per_node": self.series,
            "series_per_node_after_failover": self.series_failed_over,
        }

    # ------------------------------------------------------------ KairosDB

    def _kairosdb(self) -> dict[str, Any]:
        given = self.experiment.kairosdb
        plain = ("driver", "write_consistency", "read_consistency")
        derived = tuple(key for key in type(given).model_fields if key not in plain)
        values = {"nodes": self.nodes, **self._given("kairosdb", skip=derived)}
        values |= self._batches()
        values |= self._connections(values["batch_size"])
        values |= self._caches()
        values |= self._queue()
        values["heap_mb"] = self._kairosdb_heap(values)
        return values

    def _batches(self) -> dict[str, int]:
        rate = self.node_points_per_s
        arriving = math.ceil(rate * BATCH_WINDOW_MS / 1000)
        batch = self._derive(
            "kairosdb.batch_size",
            _clamp(arriving, BATCH_MIN, BATCH_MAX),
            "points",
            f"{_n(rate)} points/s × {BATCH_WINDOW_MS} ms = {_n(arriving)}"
            f"{_clamped(arriving, BATCH_MIN, BATCH_MAX)}",
            f"What arrives in {BATCH_WINDOW_MS} ms: large enough to spread a request's cost, small "
            "enough to be written soon. Never ≤ 10: after a write timeout KairosDB does not "
            "retry such a batch but logs and drops it (one taken from a nearly empty queue can "
            "still be that small).",
        )
        share = max(1, math.floor(batch * MIN_BATCH_SHARE))
        least = self._derive(
            "kairosdb.min_batch_size",
            share,
            "points",
            f"{_n(batch)} × {MIN_BATCH_SHARE} = {_n(share)}",
            "The share of 2018 (15 of 50): while fewer wait, KairosDB pauses before it takes a "
            "batch.",
        )
        if least > batch:
            self._refuse(
                "kairosdb.min_batch_size",
                f"must be ≤ kairosdb.batch_size, which is derived as {_n(batch)}; got {_n(least)}",
            )
        wait = self._derive(
            "kairosdb.min_batch_wait_ms",
            BATCH_WINDOW_MS,
            "ms",
            f"the {BATCH_WINDOW_MS} ms that kairosdb.batch_size is computed over",
            "One pause fills a batch. KairosDB's default of 500 ms makes points wait half a second "
            "for nothing whenever fewer queue; users report three times the throughput from "
            "less.",
        )
        return {"batch_size": batch, "min_batch_size": least, "min_batch_wait_ms": wait}

    def _connections(self, batch: int) -> dict[str, int]:
        cluster, latency = self.experiment.cluster, self.experiment.assume.write_latency_ms
        rate = self.node_points_per_s
        batches = rate / batch
        hosts = min(cluster.storage_nodes, batch)
        busy = batches * hosts * latency / 1000
        wanted = math.ceil(busy * THREADS_HEADROOM)
        threads_arithmetic = (
            f"{_n(batches)} batches/s × {_n(hosts)} hosts one after another × {_n(latency)} ms = "
            f"{_n(busy)} in flight × {THREADS_HEADROOM} = {_n(wanted)}"
            f"{_clamped(wanted, THREADS_MIN, THREADS_MAX)}"
        )
        derived = _clamp(wanted, THREADS_MIN, THREADS_MAX)
        threads = self.experiment.kairosdb.ingest_threads or derived
        ceiling = threads * batch / (hosts * latency / 1000)
        self._derive(
            "kairosdb.ingest_threads",
            derived,
            "threads",
            f"{threads_arithmetic}; ceiling {_n(threads)} × {_n(batch)} / ({_n(hosts)} × "
            f"{_n(latency)} ms) = {_n(ceiling)} points/s",
            "Little's law. KairosDB cuts a batch by storage node and sends the parts one after "
            "another, so a thread is busy for the sum of their latencies.",
        )
        failed_over = self.points_per_s / self.survivors
        if ceiling < failed_over:
            when = "" if self.survivors == self.nodes else " after one KairosDB node has failed"
            self.notices.append(
                f"By this arithmetic a KairosDB node writes at most {_n(ceiling)} points/s, less "
                f"than the {_n(failed_over)} it gets{when}: its queue would grow. Raise "
                "kairosdb.ingest_threads or kairosdb.batch_size, add a KairosDB node, or lower "
                "assume.write_latency_ms if you have measured less."
            )

        connections = self._derive(
            "kairosdb.connections_per_host",
            cluster.shards,
            "connections",
            f"{_n(cluster.shards)} shards × 1",
            "One connection for each shard of a ScyllaDB node (core = max, so none is opened under "
            "load); the driver then reaches the shard that owns the row. Cassandra has no shards: "
            "there the number only bounds parallelism.",
        )
        in_flight = threads * (1 + INDEX_BATCHES)
        each = math.ceil(in_flight * REQUESTS_HEADROOM / connections)
        requests = self._derive(
            "kairosdb.max_requests_per_connection",
            _clamp(each, REQUESTS_MIN, REQUESTS_MAX),
            "requests",
            f"{_n(threads)} threads × (1 + {INDEX_BATCHES} index batches) × {REQUESTS_HEADROOM} / "
            f"{_n(connections)} connections = {_n(each)}"
            f"{_clamped(each, REQUESTS_MIN, REQUESTS_MAX)}",
            "Everything in flight may go to one storage node, with the index batches that nobody "
            "waits for; more would queue in the driver. KairosDB's default is 128.",
        )
        if connections * requests < threads:
            self.notices.append(
                f"{_n(connections)} connections × {_n(requests)} requests carry fewer than the "
                f"{_n(threads)} ingest threads can send to one storage node; the rest queue in "
                "the driver. Raise kairosdb.max_requests_per_connection."
            )
        return {
            "connections_per_host": connections,
            "max_requests_per_connection": requests,
            "ingest_threads": threads,
        }

    def _caches(self) -> dict[str, int]:
        series = self.series_failed_over
        wanted = math.ceil(series * CACHE_HEADROOM) + OWN_SERIES
        load = self.experiment.load
        arithmetic = (
            f"{_n(load.sensors)} series / {_nodes(self.survivors)} × {CACHE_HEADROOM} + "
            f"{_n(OWN_SERIES)} of KairosDB's own = {_n(wanted)}"
            f"{_clamped(wanted, CACHE_MIN_ENTRIES, None)}"
        )
        values = {}
        for key, what in (
            ("row_key_cache_size", "row keys, one a series"),
            ("string_cache_size", "metric names, one a sensor"),
        ):
            name = f"kairosdb.{key}"
            entries = self._derive(
                name,
                max(CACHE_MIN_ENTRIES, wanted),
                "entries",
                arithmetic,
                f"Strict LRU of {what}: a sweep over more than it holds hits about 0 %, and each "
                "point then costs about four inserts. Sized for the sensors of a failed KairosDB "
                "node too.",
            )
            values[key] = entries
            if entries < series:
                after = " after one KairosDB node has failed" if self.nodes > 1 else ""
                self._refuse(
                    name,
                    f"more sensors than the caches can hold on the surviving nodes: {_n(series)} "
                    f"series on a KairosDB node{after}, but {_n(entries)} entries; raise {name} to "
                    f"≥ {_n(max(CACHE_MIN_ENTRIES, wanted))} or add a KairosDB node",
                )
            elif entries < wanted:
                self.notices.append(
                    f"{name} {_n(entries)} holds the {_n(series)} series of a node, but leaves "
                    f"less room than the {_n(wanted)} derived: KairosDB's own metrics and new "
                    "sensors may push it over."
                )
        return values

    def _queue(self) -> dict[str, int]:
        rate = self.node_points_per_s
        wanted = math.ceil(rate * MEMORY_QUEUE_S)
        size = self._derive(
            "kairosdb.memory_queue_size",
            _clamp(wanted, MEMORY_QUEUE_MIN, MEMORY_QUEUE_MAX),
            "points",
            f"{_n(rate)} points/s × {MEMORY_QUEUE_S} s = {_n(wanted)}"
            f"{_clamped(wanted, MEMORY_QUEUE_MIN, MEMORY_QUEUE_MAX)}",
            f"Points beyond it are read back from the queue file; {MEMORY_QUEUE_S} s ride out a "
            "garbage collection or a storage node's restart in memory.",
        )
        checkpoint = self._derive(
            "kairosdb.checkpoint_s",
            CHECKPOINT_S,
            "s",
            f"{_n(rate)} points/s × {CHECKPOINT_S} s = {_n(rate * CHECKPOINT_S)} points at most",
            "After a kill the points since the last checkpoint are sent again (harmless, but "
            "work); KairosDB's default is 90 s.",
        )
        return {"memory_queue_size": size, "checkpoint_s": checkpoint}

    def _kairosdb_heap(self, values: dict[str, Any]) -> int:
        entries = values["row_key_cache_size"] + values["string_cache_size"]
        queued = values["memory_queue_size"]
        exact = HEAP_BASE_MIB + math.ceil(
            (entries * BYTES_PER_CACHED_SERIES + queued * BYTES_PER_QUEUED_POINT) / MIB
        )
        rounded = _up(exact, HEAP_STEP_MIB)
        heap = self._derive(
            "kairosdb.heap_mb",
            rounded,
            "MiB",
            f"{HEAP_BASE_MIB} MiB + {_n(entries)} cache entries × {BYTES_PER_CACHED_SERIES} B + "
            f"{_n(queued)} queued points × {BYTES_PER_QUEUED_POINT} B = {_n(exact)}, rounded up "
            f"to {HEAP_STEP_MIB}s = {_n(rounded)}",
            "Both caches and the memory queue full, and KairosDB itself.",
        )
        if heap < exact:
            self.notices.append(
                f"kairosdb.heap_mb {_n(heap)} is less than the {_n(exact)} MiB that full caches "
                "and a full memory queue take: KairosDB may run out of memory when it falls behind."
            )
        return heap

    # ------------------------------------------------------------ the store

    def _storage(self, kairosdb: dict[str, Any]) -> dict[str, Any]:
        cluster, size = self.experiment.cluster, self.experiment.assume.bytes_per_point_on_wire
        batch = kairosdb["batch_size"]
        values = self._given("storage", skip=("batch_size_fail_kib",))
        wanted = math.ceil(batch * size * BATCH_FAIL_HEADROOM / 1024)
        fail = self._derive(
            "storage.batch_size_fail_kib",
            max(BATCH_FAIL_MIN_KIB, _up(wanted, BATCH_FAIL_STEP_KIB)),
            "KiB",
            f"{_n(batch)} points × {_n(size)} B × {BATCH_FAIL_HEADROOM} / 1024 = {_n(wanted)}, "
            f"rounded up to {BATCH_FAIL_STEP_KIB}s{_clamped(wanted, BATCH_FAIL_MIN_KIB, None)}",
            "The store refuses a larger batch, and all of one may go to one storage node. "
            f"{_n(BATCH_FAIL_MIN_KIB)} is ScyllaDB's default; Cassandra's 50 would refuse "
            "KairosDB's batches.",
        )
        if batch * size > fail * 1024:
            self._refuse(
                "storage.batch_size_fail_kib",
                f"a batch of {_n(batch)} points × {_n(size)} B = {_n(batch * size / 1024)} KiB "
                f"would be refused at {_n(fail)} KiB; raise it to ≥ {_n(wanted)} or lower "
                "kairosdb.batch_size",
            )
        warn = max(1, math.floor(fail * BATCH_WARN_SHARE))
        self._add(
            "storage.batch_size_warn_kib",
            warn,
            "KiB",
            f"{_n(fail)} × {BATCH_WARN_SHARE} = {_n(warn)}",
            "A log line well before batches are refused, and none for planned ones.",
        )
        return {
            "nodes": cluster.storage_nodes,
            "datacenter": cluster.datacenter,
            "replication_factor": cluster.replication_factor,
            "shards": cluster.shards,
            **values,
            "batch_size_fail_kib": fail,
            "batch_size_warn_kib": warn,
        }

    def _disk(self, kairosdb: dict[str, Any], totals: dict[str, int | float]) -> None:
        cluster, assume = self.experiment.cluster, self.experiment.assume
        copies, per_point = cluster.replication_factor, assume.bytes_per_point_on_disk
        data = math.ceil(self.points * per_point * copies)
        self._add(
            "totals.data_bytes",
            data,
            "bytes",
            f"{_n(self.points)} points × {_n(per_point)} B × {copies} copies = {_bytes(data)}",
            "Data files over all storage nodes once merged.",
        )
        commitlog = cluster.storage_nodes * assume.commitlog_mib_per_node * MIB
        backlog = self.node_points_per_s * kairosdb["checkpoint_s"]
        queue = self.nodes * (
            QUEUE_PAGES * QUEUE_PAGE_BYTES + math.ceil(backlog * assume.bytes_per_point_in_queue)
        )
        disk = data * COMPACTION_HEADROOM + commitlog + queue
        self._add(
            "totals.disk_bytes",
            disk,
            "bytes",
            f"data {_bytes(data)} × {COMPACTION_HEADROOM} while merging + commit log "
            f"{_nodes(cluster.storage_nodes)} × {_n(assume.commitlog_mib_per_node)} MiB + KairosDB "
            f"queue {_nodes(self.nodes)} × ({QUEUE_PAGES} pages of 50 MiB + "
            f"{_n(kairosdb['checkpoint_s'])} s of points) = {_bytes(disk)}",
            "Free disk that the run needs, over all nodes.",
        )
        cpu = assume.cpu_us_per_replica * copies + assume.cpu_us_kairosdb
        cores = self.points_per_s * cpu / 1e6
        self._add(
            "totals.cpu_cores",
            round(cores, 2),
            "cores",
            f"{_n(self.points_per_s)} points/s × ({copies} × {_n(assume.cpu_us_per_replica)} + "
            f"{_n(assume.cpu_us_kairosdb)}) µs = {_n(cores)}",
            "CPU of storage and KairosDB together, loaders excluded, as measured with the "
            "embedded engine.",
        )
        totals["data_bytes"] = data
        totals["disk_bytes"] = disk
        totals["cpu_cores"] = round(cores, 2)

    # ------------------------------------------------------------ what to know before starting

    def _notices(self, kairosdb: dict[str, Any]) -> None:
        load, copies = self.experiment.load, self.experiment.cluster.replication_factor
        if self.engine == "cassandra":
            self.notices.append(
                f"Target {self.target} stores in Apache Cassandra, not ScyllaDB: it has no shards "
                "(connections per host only bound parallelism), one Java heap per node, and its "
                "proxyhistograms forget within minutes (half-life 60 s), so they are captured "
                "throughout the run. Its figures do not predict ScyllaDB's."
            )
        write = replicas_needed(kairosdb["write_consistency"], copies)
        read = replicas_needed(kairosdb["read_consistency"], copies)
        if read + write <= copies:
            self.notices.append(
                f"Read {kairosdb['read_consistency']} ({read}) + write "
                f"{kairosdb['write_consistency']} ({write}) ≤ {copies} copies: a query may miss "
                "points just written, until all replicas have them. For reads that see every "
                "acknowledged write take QUORUM for both."
            )
        for what, level, needed in (
            ("Writes", kairosdb["write_consistency"], write),
            ("Reads", kairosdb["read_consistency"], read),
        ):
            if needed == copies:
                cause = f"{level} needs {needed} of {copies} replicas"
                self.notices.append(f"{what} stop when one storage node is down: {cause}.")
        if self.nodes == 1:
            self.notices.append(
                "One KairosDB node: while it is down no point is taken, and loaders retry for "
                f"{_n(load.retry_for_s)} s (load.retry_for_s)."
            )
        if load.duration_s is not None and load.duration_s * 1000 % load.period_ms:
            self.notices.append(
                f"{_n(load.duration_s)} s is not a whole number of periods: the load ends after "
                f"{_n(load.ticks)} points of each sensor, {_n(load.ticks * load.period_ms / 1000)}"
                " s."
            )


def _requests_per_tick(sensors: int, nodes: int, workers: int, per_request: int) -> int:
    """Requests that all sensors of one tick make: each worker's contiguous block of sensors is
    dealt to the nodes (sensor i to node i mod nodes) and cut into groups of `per_request`."""
    total = 0
    for worker in range(workers):
        start, end = sensors * worker // workers, sensors * (worker + 1) // workers
        for node in range(nodes):
            cell = _multiples_below(end, node, nodes) - _multiples_below(start, node, nodes)
            total += math.ceil(cell / per_request)
    return total


def _multiples_below(limit: int, remainder: int, modulus: int) -> int:
    """How many i in [0, limit) have i mod modulus = remainder."""
    return max(0, (limit - remainder + modulus - 1) // modulus)


# ---------------------------------------------------------------- numbers as text


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def _clamped(value: int, low: int, high: int | None) -> str:
    """What a bound did to a value, for the end of an arithmetic string."""
    if high is not None and value > high:
        return f", at most {_n(high)}"
    return f", at least {_n(low)}" if value < low else ""


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _short(value: float) -> int | float:
    """A whole number as int, another with six decimals: plan.json is read by people."""
    return int(value) if float(value).is_integer() else round(value, 6)


def _n(value: float) -> str:
    """1234567 as 1,234,567; 0.31415 as 0.314; 66666.67 as 66,667."""
    if float(value).is_integer():
        return f"{int(value):,}"
    if abs(value) >= 1000:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.5g}"


def _nodes(count: int) -> str:
    return _count(count, "node")


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _bytes(value: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


# ---------------------------------------------------------------- printing


_TITLES = {
    "cluster": "cluster: the shape",
    "load": "load: what the sensors send",
    "totals": "totals: what it comes to",
    "kairosdb": "kairosdb: how points are written",
    "storage": "storage: how they are kept",
    "limits": "limits: what makes a run a pass",
    "capture": "capture: how often it is looked at",
    "assume": "assume: inputs of the arithmetic, to be replaced by measurements",
}
_SINGULAR = {
    "nodes": "node",
    "replicas": "replica",
    "shards": "shard",
    "sensors": "sensor",
    "series": "series",
    "points": "point",
    "points/s": "point/s",
    "requests": "request",
    "requests/s": "request/s",
    "connections": "connection",
    "threads": "thread",
    "processes": "process",
    "entries": "entry",
    "cores": "core",
}
_ORIGIN_STYLE: dict[Origin, str] = {
    "derived": "cyan",
    "experiment": "green",
    "command line": "bold magenta",
    "default": "dim italic",
}


def render(plan: Plan) -> RenderableType:
    """The plan for a terminal: a table for each group, then what to know before starting."""
    experiment = plan.experiment
    parts: list[RenderableType] = [
        Text.from_markup(
            f"[bold]{escape(experiment.name)}[/] on target [bold]{escape(plan.target)}[/] "
            f"({escape(plan.engine)}), from {escape(plan.experiment_file)}\n"
            f"{escape(experiment.description)}\n"
        )
    ]
    for group, title in _TITLES.items():
        table = Table(title=title, title_justify="left", title_style="bold", expand=True)
        table.add_column("setting", no_wrap=True)
        # The origin stands below the value: a column of its own would leave no room for the
        # arithmetic in a terminal of 80 columns.
        table.add_column("value, origin", no_wrap=True)
        table.add_column("arithmetic, reason", ratio=1)
        for setting in plan.settings:
            if setting.name.partition(".")[0] == group:
                table.add_row(*_row(setting))
        if table.row_count:
            parts += [table, ""]
    if plan.notices:
        parts.append(Text("To know before starting", style="bold yellow"))
        parts += [_bullet(notice) for notice in plan.notices]
    return Group(*parts)


def _row(setting: Setting) -> Iterator[RenderableType]:
    yield Text(setting.name.partition(".")[2])
    value = Text(_value(setting.value, setting.unit) + "\n", style="bold")
    yield value.append(setting.origin, style=_ORIGIN_STYLE[setting.origin])
    how = Text()
    if setting.derived_value is not None and setting.derived_value == setting.value:
        how.append("as derived: ", style="green")
    elif setting.derived_value is not None:
        how.append(f"replaces {_value(setting.derived_value, setting.unit)}: ", style="yellow")
    if setting.arithmetic:
        how.append(setting.arithmetic + "\n")
    how.append(setting.reason, style="dim")
    yield how


def _value(value: Scalar, unit: str) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, str) or value is None:
        return str(value)
    text = _bytes(value) if unit == "bytes" and value >= 1e6 else _n(value)  # noqa: PLR2004
    if unit in ("", "bytes", "share"):
        return text
    return f"{text} {_SINGULAR.get(unit, unit) if value == 1 else unit}"


def _bullet(text: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_row("•", Text(text))
    return grid
