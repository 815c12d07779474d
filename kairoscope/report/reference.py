"""Published figures of others beside this run's, and what makes each comparable or not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kairoscope.report import other_figures, units
from kairoscope.report.data import Json, RunData, items, part
from kairoscope.report.published import Comparable, Comparison, Line, figure
from kairoscope.report.units import NONE, number

_KAIROSDB = "kairosdb"


@dataclass(frozen=True)
class _Ours:
    """What this run has to compare; None is not measured."""

    engine: str
    target: str
    shared: bool
    load: Json
    cluster: Json
    kairosdb: Json
    points: float | None
    duration_s: float | None
    points_per_s: float | None
    bytes_per_point: float | None
    disk_bytes: float | None
    storage_cores: float | None
    store_p95_ms: float | None
    store_p99_ms: float | None
    client_p99_ms: float | None
    client_count: float | None
    hardware: str
    acknowledges: bool
    replay: bool


def compare(run: RunData, reference_dir: Path) -> tuple[Comparison, ...]:
    """The run beside the published experiment that it names, or beside all of its stack if it names
    none.

    Files of `reference_dir` that are not readable are left out: a report must not fail over them.
    """
    wanted = part(run.plan, "experiment").get("reference")
    ours = _ours(run)
    found = []
    for path in sorted(reference_dir.glob("*.yml")):
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue
        for entry in items(document, "experiments"):
            if not isinstance(entry, dict):
                continue
            stack = entry.get("stack", _KAIROSDB)
            if entry.get("id") == wanted or (wanted is None and stack == run.stack):
                of_kairosdb = stack == _KAIROSDB
                lines = _lines(entry, ours) if of_kairosdb else other_figures.lines(entry, run)
                found.append(_comparison(entry, part(document, "source"), lines))
    return tuple(found)


def _ours(run: RunData) -> _Ours:
    machine = part(run.manifest, "machine")
    cores = part(run.measurements, "cpu_cores")
    storage = {str(r.get("name")) for r in run.processes if r.get("role") == "storage"}
    mean_cores = [v for name in storage if (v := number(cores.get(name))) is not None]
    # The last capture of each node under load; the worst node, because percentiles cannot be
    # averaged.
    last = {c.node: c.rows.get("Write", {}) for c in run.captures if c.phase == "during"}
    sent = part(run.manifest, "load")
    start, end = units.epoch_s(sent.get("start_ms")), units.epoch_s(sent.get("end_ms"))
    on_disk = number(part(run.measurements, "bytes_per_point").get("on_disk_all_replicas"))
    points = number(run.ledger.get("acknowledged" if run.acknowledges else "unknown_stored"))
    return _Ours(
        engine=str(part(run.manifest, "versions").get("engine") or run.plan.get("engine") or "?"),
        target=str(run.manifest.get("target") or run.plan.get("target") or "?"),
        shared=run.shared,
        load=run.load,
        cluster=part(run.plan, "experiment", "cluster"),
        kairosdb=part(run.plan, "kairosdb"),
        points=points,
        duration_s=None if start is None or end is None else end - start,
        points_per_s=number(part(run.measurements, "points_per_s").get("achieved")),
        bytes_per_point=on_disk,
        disk_bytes=None if on_disk is None or points is None else on_disk * points,
        storage_cores=sum(mean_cores) / len(mean_cores) if mean_cores else None,
        store_p95_ms=_worst(last, "95%"),
        store_p99_ms=_worst(last, "99%"),
        client_p99_ms=number(run.latency.get("p99_ms")),
        client_count=number(run.latency.get("count")),
        hardware=f"{units.count(machine.get('cpus'))} CPUs, "
        f"{units.byte_size(machine.get('memory_bytes'))} of memory",
        acknowledges=run.acknowledges,
        replay=run.replay,
    )


@dataclass(frozen=True)
class _Theirs:
    """What was published of one run of others."""

    engine: str
    setup: Json
    figures: Json


def _worst(rows: dict[str, Json], percentile: str) -> float | None:
    """The highest value over the nodes, in ms; 0.00 is an empty reservoir and does not count."""
    micros = [v for row in rows.values() if (v := number(row.get(percentile)))]
    return max(micros) / 1000 if micros else None


def _comparison(entry: Json, source: Json, lines: tuple[Line, ...]) -> Comparison:
    return Comparison(
        title=str(entry.get("title", entry.get("id", "?"))),
        source=f"Published by {source.get('publisher', 'others')}: “{source.get('title', '?')}”, "
        f"{source.get('published', '?')}, {source.get('url', 'no address')}. Not measured here; "
        "figures as published are rounded, derived ones carry their arithmetic.",
        loader=str(source.get("loader", "")),
        lines=lines,
    )


def _lines(entry: Json, ours: _Ours) -> tuple[Line, ...]:
    theirs = _Theirs(str(entry.get("engine", "?")), part(entry, "setup"), part(entry, "figures"))
    same_engine = ours.engine.lower() == theirs.engine
    engine = "the same engine, another release of it" if same_engine else "another engine"
    where = "everything shares one machine here" if ours.shared else "compare the instance types"
    store: Comparable = "partly" if same_engine and not ours.shared else "no"
    return (
        Line(
            "Storage engine", theirs.engine, ours.engine, "partly" if same_engine else "no", engine
        ),
        *_machines(theirs, ours, "no" if ours.shared else "partly", where),
        *_load(theirs, ours, where),
        *_latencies(theirs, ours, store, f"{engine}; {where}"),
        *_costs(theirs, ours),
    )


def _machines(theirs: _Theirs, ours: _Ours, comparable: Comparable, where: str) -> tuple[Line, ...]:
    """What the servers stood on, and how many there were."""
    setup = theirs.setup
    nodes = f"{setup.get('storage_nodes')} storage + {setup.get('kairosdb_nodes')} KairosDB"
    our_nodes = (
        f"{ours.cluster.get('storage_nodes', NONE)} storage + "
        f"{ours.cluster.get('kairosdb_nodes', NONE)} KairosDB"
    )
    return (
        Line(
            "Hardware",
            f"storage {setup.get('storage_nodes')} × {setup.get('storage_hardware')}, KairosDB "
            f"{setup.get('kairosdb_hardware')}, loaders {setup.get('loader_hardware')}",
            f"{ours.target}: {ours.hardware}",
            comparable,
            where,
        ),
        Line("Nodes", nodes, our_nodes, *_equal(nodes, our_nodes)),
    )


def _load(theirs: _Theirs, ours: _Ours, where: str) -> tuple[Line, ...]:
    """What was sent."""
    figures = theirs.figures
    return (
        Line(
            "Sensors",
            figure(figures, "sensors"),
            units.count(ours.load.get("sensors")),
            *_equal(
                number(part(figures, "sensors").get("value")), number(ours.load.get("sensors"))
            ),
        ),
        Line(
            "Data points",
            figure(figures, "points"),
            units.count(ours.points),
            *_near(part(figures, "points").get("value"), ours.points),
        ),
        Line(
            "Duration",
            figure(figures, "duration_s"),
            units.duration(ours.duration_s),
            *_near(part(figures, "duration_s").get("value"), ours.duration_s),
        ),
        Line(
            "Points per second",
            figure(figures, "points_per_s"),
            units.count(ours.points_per_s),
            "no",
            "theirs is what a closed loop got through, "
            + (
                "ours is history loaded as fast as it is taken; "
                if ours.replay
                else "ours is scheduled beforehand (open loop); "
            )
            + where,
        ),
    )


def _latencies(theirs: _Theirs, ours: _Ours, store: Comparable, but: str) -> tuple[Line, ...]:
    """At the store and at the client; `store`: whether the former are comparable, `but` why not."""
    figures = theirs.figures
    coordinator = (
        "same tool and place (write, at the store's coordinator; ours: worst node under load)"
    )
    return (
        Line(
            "Store write p95",
            figure(figures, "coordinator_p95_ms"),
            units.milliseconds(ours.store_p95_ms),
            store,
            f"{coordinator}, but {but}",
        ),
        Line(
            "Store write p99",
            figure(figures, "coordinator_p99_ms"),
            units.milliseconds(ours.store_p99_ms),
            store,
            f"{coordinator}, but {but}",
        ),
        Line(
            "Client p99",
            "not published",
            f"{units.milliseconds(ours.client_p99_ms)} of {units.count(ours.client_count)} points",
            "no",
            "the 2018 loaders did not wait for an answer; "
            + (
                "ours includes KairosDB and all waiting"
                if ours.acknowledges
                else "ours ends with the hand-over to the socket"
            ),
        ),
    )


def _costs(theirs: _Theirs, ours: _Ours) -> tuple[Line, ...]:
    """What it took of the store, and in which batches it came there."""
    setup, figures = theirs.setup, theirs.figures
    same_rf = ours.cluster.get("replication_factor") == setup.get("replication_factor")
    cores = NONE if ours.storage_cores is None else units.significant(ours.storage_cores)
    batch = f"{ours.kairosdb.get('batch_size', NONE)} / {ours.kairosdb.get('min_batch_size', NONE)}"
    return (
        Line(
            "CPU of a storage node",
            figure(figures, "reactor_load"),
            f"{cores} cores, mean per node",
            "no",
            "reactor load is the busy share of ScyllaDB's own polling cores; ours is CPU time that "
            "the operating system counted",
        ),
        Line(
            "Replication factor",
            str(setup.get("replication_factor", NONE)),
            str(ours.cluster.get("replication_factor", NONE)),
            *_equal(setup.get("replication_factor"), ours.cluster.get("replication_factor")),
        ),
        Line(
            "Disk, all replicas",
            figure(figures, "disk_bytes_all_replicas"),
            units.byte_size(ours.disk_bytes),
            "no",
            "grows with the number of points; compare bytes per point",
        ),
        Line(
            "Bytes per point, all replicas",
            figure(figures, "bytes_per_point_all_replicas"),
            units.byte_size(ours.bytes_per_point),
            "partly" if same_rf else "no",
            ("same replication factor; " if same_rf else "another replication factor; ")
            + "depends on compression, on how far compaction got and on points per row",
        ),
        Line(
            "KairosDB batch / min batch",
            f"{setup.get('batch_size')} / {setup.get('min_batch_size')}",
            batch,
            *_equal(f"{setup.get('batch_size')} / {setup.get('min_batch_size')}", batch),
        ),
    )


def _equal(theirs: Any, ours: Any) -> tuple[Comparable, str]:
    return ("yes", "the same") if theirs == ours else ("no", "not the same")


def _near(theirs: Any, ours: float | None) -> tuple[Comparable, str]:
    """Whether ours is within 10 % of theirs, which is as exact as the published figures are."""
    their = number(theirs)
    if not their or ours is None:
        return "no", "not measured"
    if abs(ours / their - 1) <= 0.1:
        return "yes", "within 10 %"
    return "no", f"ours is {units.percent(ours / their)} of it"
