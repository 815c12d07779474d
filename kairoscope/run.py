"""One run: capture, load, drain, read back, judge, report. `make load` is this.

Everything goes to the run folder as it happens; whatever ends the run, the folder then says so.
"""

import asyncio
import contextlib
import fcntl
import json
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import yaml
from cassandra.cluster import NoHostAvailable
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from kairoscope import (
    __version__,
    bundles,
    cql,
    inventory,
    ledger,
    measure,
    outcomes,
    paths,
    readback,
    report,
    status,
    verdict,
)
from kairoscope.capture import nodetool
from kairoscope.capture.samplers import (
    JsonLines,
    Periodic,
    Processes,
    ProxyHistograms,
    QueueDepth,
    folder_bytes,
    stamp,
)
from kairoscope.deploy import check_finished, deployed_plan
from kairoscope.errors import UserError
from kairoscope.inventory import Inventory
from kairoscope.ledger import Ledger
from kairoscope.outcomes import Outcomes
from kairoscope.plan import Plan
from loaders import emulator, histograms
from loaders.spec import LoadSpec

# Workers import numpy and aiohttp before they can send: on two busy cores that takes seconds.
START_DELAY_S = 5

PERCENTILES = (50, 75, 90, 95, 98, 99, 99.9)


@dataclass
class State:
    """What is known of a run so far; the finish works from this whatever has happened."""

    folder: Path
    plan: Plan
    inventory: Inventory
    events: JsonLines
    stop: threading.Event = field(default_factory=threading.Event)
    incomplete: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    spec: LoadSpec | None = None
    outcomes: Outcomes | None = None
    ledger: Ledger | None = None
    drained_s: float | None = None
    left_in_queue: int | None = None
    drain_watched: bool = False
    disk_before: int | None = None
    disk_after: int | None = None


def load(plan: Plan, console: Console) -> int:
    """Run the plan's load on its deployed target; returns the exit status of the verdict."""
    hosts = inventory.load(plan.target)
    _check_deployed(plan, hosts)
    with (paths.target_dir(plan.target) / "load.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Another load runs on target {plan.target}: each would measure the other."
            ) from None
        return _run(plan, hosts, console)


def _run(plan: Plan, hosts: Inventory, console: Console) -> int:
    state = _open(plan, hosts)
    try:
        console.print(f"run folder: {state.folder}", soft_wrap=True)
        _measured_load(state, console)
        _settle(state, console)
    except KeyboardInterrupt:
        state.incomplete.insert(0, "interrupted by the user (Ctrl-C)")
        state.events.write(t=time.time(), what="interrupted", detail="Ctrl-C")
    except (UserError, OSError) as error:
        message = error.message if isinstance(error, UserError) else str(error)
        state.incomplete.insert(0, message)
        state.events.write(t=time.time(), what="error", detail=message)
    except Exception as error:  # a bug of ours; what was captured must not be lost
        state.incomplete.insert(0, f"unexpected error in Kairoscope: {error!r}")
        state.events.write(t=time.time(), what="unexpected error", detail=traceback.format_exc())
    return _finish(state, console)


def _check_deployed(plan: Plan, hosts: Inventory) -> None:
    deployed = deployed_plan(plan.target)
    check_finished(plan.target)
    for part in ("kairosdb", "storage"):
        was, wanted = getattr(deployed, part), getattr(plan, part)
        other = [k for k in wanted if was.get(k) != wanted[k]]
        if other:
            details = ", ".join(f"{k} is {was.get(k)}, wanted {wanted[k]}" for k in other[:4])
            raise UserError(
                f"Target {plan.target} is deployed with other {part} settings ({details}). "
                f"First: make deploy with the same EXPERIMENT=, SENSORS=, RATE=, DURATION="
            )
    for host in hosts.kairosdb:
        found = status.kairosdb(host.url)
        if not found.healthy:
            raise UserError(f"{host.name} at {host.url} is not healthy. See: make status")
        if found.read_only:
            raise UserError(f"{host.name} at {host.url} is in read-only mode. See its log.")


def _open(plan: Plan, hosts: Inventory) -> State:
    """Create the run folder with what is known before anything is sent."""
    now = time.time()
    folder = paths.runs_dir() / f"{stamp(now)}-{plan.experiment.name}-{plan.target}"
    # What takes time comes before the folder, so that Ctrl-C leaves none, or one with a verdict.
    manifest = _manifest(plan, folder.name, now, hosts)
    for sub in ("load", "latency", "proxyhistograms"):
        (folder / sub).mkdir(parents=True)
    (folder / "plan.json").write_text(plan.to_json())
    (folder / "experiment.yml").write_text(
        yaml.safe_dump(plan.experiment.model_dump(mode="json"), sort_keys=False)
    )
    _write_json(folder / "manifest.json", manifest)
    latest = paths.runs_dir() / "latest"
    partial = paths.runs_dir() / ".latest"
    partial.unlink(missing_ok=True)
    partial.symlink_to(folder.name)
    partial.replace(latest)
    return State(folder, plan, hosts, JsonLines(folder / "events.jsonl"))


def _manifest(plan: Plan, run: str, now: float, hosts: Inventory) -> dict[str, Any]:
    kairosdb = bundles.bundle("kairosdb")
    # Named by what the bundle holds, such as scylla-driver-core-3.10.2-scylla-1.
    driver = f"driver-{plan.kairosdb['driver']}/"
    jars = bundles.read_manifest(kairosdb.manifest)
    java = subprocess.run(
        [str(hosts.hosts[0].vars["java"]), "-version"], capture_output=True, text=True, check=False
    )
    return {
        "run": run,
        "experiment": plan.experiment.name,
        "target": plan.target,
        "started": datetime.fromtimestamp(now, UTC).isoformat(),
        "ended": None,
        "command": " ".join(sys.argv),
        "git": _git(),
        "machine": {
            "cpus": psutil.cpu_count(),
            "cpu_model": _cpu_model(),
            "memory_bytes": psutil.virtual_memory().total,
            "kernel": platform.release(),
            "os": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        },
        "versions": {
            "kairoscope": __version__,
            "kairosdb": kairosdb.version,
            "engine": plan.engine,
            "engine_version": bundles.bundle(plan.engine).version,
            "driver": next(Path(name).stem for name in jars if name.startswith(driver)),
            "java": java.stderr.splitlines()[0] if java.stderr else "unknown",
            "python": platform.python_version(),
        },
        "load": None,
    }


def _git() -> dict[str, Any]:
    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", *arguments],
                cwd=paths.CHECKOUT,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changes = git("status", "--porcelain")
    return {
        "commit": git("rev-parse", "HEAD"),
        "dirty": bool(changes) if changes is not None else None,
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def _write_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n")


def _keyspace_bytes(state: State) -> int | None:
    """Bytes of the keyspace's flushed tables on all storage nodes; None if a node cannot flush."""

    def flushed(host: inventory.Host) -> int:
        keyspace = str(host.vars["kairosdb_keyspace"])
        nodetool.run(Path(host.vars["nodetool"]), "flush", keyspace)
        return folder_bytes(host.home / "data" / "data" / keyspace)

    with ThreadPoolExecutor() as pool:
        try:
            return sum(pool.map(flushed, state.inventory.storage))
        except nodetool.NodetoolError as error:
            state.events.write(t=time.time(), what="flush failed", detail=str(error))
            return None


def _failed_logs(state: State) -> list[Path]:
    return [
        p for h in state.inventory.kairosdb for p in sorted((h.home / "log").glob("failed*.log"))
    ]


def _spec(state: State) -> LoadSpec:
    wanted = state.plan.load
    return LoadSpec(
        sensors=wanted["sensors"],
        period_ms=wanted["period_ms"],
        ticks=wanted["ticks"],
        warmup_ticks=wanted["warmup_ticks"],
        start_ms=(int(time.time()) + START_DELAY_S) * 1000,
        nodes=[h.url for h in state.inventory.kairosdb],
        workers=wanted["workers"],
        metric=wanted["metric"],
        tags=wanted["tags"],
        sensors_per_request=wanted["sensors_per_request"],
        request_timeout_s=wanted["request_timeout_s"],
        retry_for_s=wanted["retry_for_s"],
        latency_limit_ms=state.plan.experiment.limits.p99_ms,
        connections_per_node=wanted["connections_per_node"],
    )


def _measured_load(state: State, console: Console) -> None:
    """Capture before, load with all samplers running, watch the queue drain, capture after."""
    supervisor_dir = Path(state.inventory.hosts[0].vars["supervisor_dir"])
    histogram = ProxyHistograms(
        state.inventory.storage, state.folder / "proxyhistograms", state.events
    )
    console.print("before the load: flush, nodetool proxyhistograms …")
    for host in state.inventory.storage:
        port, keyspace = host.vars["native_transport_port"], host.vars["kairosdb_keyspace"]
        with contextlib.suppress(NoHostAvailable):  # The capture will say so.
            cql.touch(host.address, port, keyspace)
    state.disk_before = _keyspace_bytes(state)
    histogram.capture("before")

    def low_disk(message: str) -> None:
        if not state.stop.is_set():
            state.incomplete.append(message)
            state.events.write(t=time.time(), what="low disk", detail=message)
            state.stop.set()

    queue = QueueDepth(state.inventory.kairosdb, JsonLines(state.folder / "queue.jsonl"))
    processes = Processes(
        state.inventory.hosts,
        supervisor_dir,
        JsonLines(state.folder / "processes.jsonl"),
        state.events,
        low_disk,
    )
    capture = state.plan.experiment.capture
    samplers = [
        Periodic("queue depth", 1, queue.sample),
        Periodic("processes", capture.processes_every_s, processes.sample),
    ]
    during = Periodic(
        "proxyhistograms",
        capture.proxyhistograms_every_s,
        lambda: histogram.capture("during"),
        after_s=START_DELAY_S + capture.proxyhistograms_every_s,
    )
    for sampler in samplers:
        sampler.start()
    try:
        state.spec = _spec(state)
        during.start()
        _emulate(state, console, queue)
        during.stop()
        _watch_drain(state, console, queue)
    finally:
        for sampler in [*samplers, during]:
            sampler.stop()
            if sampler.error:
                state.incomplete.append(f"a capture ended early: {sampler.error}")
    console.print("after the load: flush, nodetool proxyhistograms …")
    histogram.capture("after")
    state.disk_after = _keyspace_bytes(state)


def _emulate(state: State, console: Console, queue: QueueDepth) -> None:
    """Run the sensors to the end of their schedule, with a live line."""
    assert state.spec is not None  # noqa: S101 (set by the caller)
    spec = state.spec
    console.print(
        f"load: {spec.sensors:,} sensors × {1000 / spec.period_ms:g} point/s for "
        f"{spec.duration_s:,.0f} s from {spec.workers} workers"
    )
    with live_progress(console) as bar:
        task = bar.add_task("load", total=spec.points, figures="starting")
        last_line = -10.0

        def show(now: emulator.Progress) -> None:
            nonlocal last_line
            waiting = "?" if queue.total is None else f"{queue.total:,}"
            figures = (
                f"sent {now.sent:,}  acknowledged {now.acknowledged:,}  "
                f"behind {now.behind_ms:,.0f} ms  p99 {now.p99_ms:,.0f} ms  queue {waiting}"
            )
            bar.update(task, completed=now.due, figures=figures)
            # Without a terminal the bar shows nothing: a line every ten seconds instead.
            if not console.is_terminal and now.elapsed_s - last_line >= 10:  # noqa: PLR2004
                last_line = now.elapsed_s
                console.print(f"  {now.elapsed_s:4.0f}/{now.duration_s:.0f} s  {figures}")

        results = emulator.run(spec, state.folder / "load", show, state.stop)
    for result in results:
        if "died" in result:
            state.incomplete.append(f"loader worker {result['worker']} died: {result['died']}")


def live_progress(console: Console) -> Progress:
    """A progress bar with a free text of figures; nothing where there is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
        console=console,
        disable=not console.is_terminal,
    )


def _watch_drain(state: State, console: Console, queue: QueueDepth) -> None:
    """Wait until no point waits in KairosDB's queues, up to the limit."""
    limit = state.plan.experiment.limits.drain_s
    console.print("drain: waiting for KairosDB's queue …")
    start = time.monotonic()
    state.drain_watched = True
    while True:
        queue.sample()
        waited = time.monotonic() - start
        state.left_in_queue = queue.total
        if state.left_in_queue == 0:
            state.drained_s = waited
            return
        if waited >= limit:
            return
        time.sleep(0.5)


def _settle(state: State, console: Console) -> None:
    """Read every point back and balance the ledger."""
    assert state.spec is not None  # noqa: S101 (set by _measured_load)
    spec = state.spec
    found = state.outcomes = outcomes.read(spec, state.folder / "load")
    with live_progress(console) as bar:
        task = bar.add_task("read back", total=spec.sensors, figures="")
        done = 0

        def on_done(sensors: int) -> None:
            nonlocal done
            done += sensors
            bar.update(task, completed=done, figures=f"{done:,} of {spec.sensors:,} sensors")

        console.print(f"read back: {spec.points:,} points of {spec.sensors:,} sensors …")
        back = asyncio.run(readback.read_all(spec, lambda r: ledger.incomplete(found, r), on_done))
    failed = ledger.failed_points(_failed_logs(state))
    state.ledger = ledger.settle(spec, found, back, state.left_in_queue, failed)
    console.print("row counts by CQL …")
    try:
        state.ledger.rows_by_cql = _rows(state, spec)
    except Exception as error:
        state.ledger.notes.append(f"rows could not be counted by CQL: {error}")
        state.events.write(t=time.time(), what="row count failed", detail=str(error))


def _rows(state: State, spec: LoadSpec) -> int:
    hosts = state.inventory.storage
    keyspace = str(hosts[0].vars["kairosdb_keyspace"])
    port = int(hosts[0].vars["native_transport_port"])
    series = [(spec.metric_name(s), spec.tags) for s in range(spec.sensors)]
    with cql.session([h.address for h in hosts], port) as db:
        return sum(cql.rows_of_series(db, keyspace, series, spec.start_ms, spec.end_ms - 1))


def _finish(state: State, console: Console) -> int:
    """Judge what there is, write it, and tell where it is."""
    # A second Ctrl-C now would lose what the first one left; this takes seconds.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        judged = _judge(state)
        _write_json(state.folder / "verdict.json", judged.to_json())
        manifest = json.loads((state.folder / "manifest.json").read_text())
        manifest["ended"] = datetime.now(UTC).isoformat()
        if state.spec:
            manifest["load"] = {"start_ms": state.spec.start_ms, "end_ms": state.spec.end_ms}
        _write_json(state.folder / "manifest.json", manifest)
        html, _ = report.write(state.folder, paths.REFERENCE)
    except OSError as error:
        raise UserError(
            f"The run's results could not be written to {state.folder}: {error}. What was captured "
            "before stays there; the run is incomplete."
        ) from error
    show_verdict(judged, console)
    console.print(f"report: {html}", soft_wrap=True)
    return verdict.EXIT_STATUS[judged.verdict]


def _judge(state: State) -> verdict.Verdict:
    """The verdict from what is in the run folder; writes latency, measurements and ledger."""
    limits = state.plan.experiment.limits
    spec = state.spec
    if spec is None or not (state.folder / "load" / "spec.json").exists():
        reasons = state.incomplete or ["the load never started"]
        return verdict.judge({}, [], reasons)
    for log in (state.folder / "load").glob("*.hlog"):
        shutil.move(log, state.folder / "latency" / log.name)
    latency = _latency(spec, sorted((state.folder / "latency").glob("*.hlog")))
    _write_json(state.folder / "latency" / "merged.json", latency)

    found = state.outcomes or outcomes.read(spec, state.folder / "load")
    book = state.ledger or ledger.not_read_back(
        ledger.open_ledger(found), state.incomplete[0] if state.incomplete else "no read-back"
    )
    ledger.write(book, state.folder)
    _write_json(state.folder / "measurements.json", _measurements(state, spec, latency, book))

    state.invalid += _loader_limits(state.folder / "load", limits.send_error_p99_ms)
    samples = _queue_samples(state.folder / "queue.jsonl", spec, len(state.inventory.kairosdb))
    parts = {
        "schedule": verdict.schedule_part(book, found.counts.acknowledged_in_time, limits.achieved),
        "latency": verdict.latency_part(latency["p99_ms"], latency["count"], limits.p99_ms),
        "queue": verdict.queue_part(
            samples, limits.queue_growth, spec.sensors * 1000 / spec.period_ms
        ),
        "readback": verdict.readback_part(book),
    }
    if state.drain_watched:
        parts["drain"] = verdict.drain_part(state.drained_s, state.left_in_queue, limits.drain_s)
    else:
        parts["drain"] = verdict.Part(
            None, limits.drain_s, "s", "unknown", "the queue was not watched after the load"
        )
    order = ("schedule", "latency", "queue", "drain", "readback")
    judged = verdict.judge({k: parts[k] for k in order}, state.invalid, state.incomplete)
    if ended := _ended_processes(state.folder / "events.jsonl"):
        # Whatever the word: nobody should take a run with a crash in it for an undisturbed one.
        judged.summary = f"{judged.summary.rstrip('.')}. During the run ended: {', '.join(ended)}."
    return judged


def _ended_processes(path: Path) -> list[str]:
    """Names of the processes that ended (and were started again) while the run went on."""
    what = ("process ended", "process started again")
    return sorted({e["detail"].split(":")[0] for e in _json_lines(path) if e["what"] in what})


def _loader_limits(folder: Path, limit_ms: float) -> list[str]:
    """Why the loader, not the store, was the limit: its send-time error past the limit."""
    found = []
    for path in sorted(folder.glob("worker-*.json")):
        said = json.loads(path.read_text())
        error_ms = said["send_error_us"]["p99"] / 1000
        if error_ms > limit_ms:
            found.append(
                f"loader: worker {said['worker']} sent late, 99th percentile {error_ms:,.0f} ms "
                f"(limit {limit_ms:,.0f} ms) over {said['send_error_us']['count']:,} points"
            )
    return found


def _latency(spec: LoadSpec, logs: list[Path]) -> dict[str, Any]:
    """The content of latency/merged.json; ms, from the planned send time."""
    whole = histograms.merged(logs)
    count = whole.get_total_count()
    document: dict[str, Any] = {"count": count}
    for p in PERCENTILES:
        name = f"p{p:g}_ms".replace(".", "_", 1) if p != int(p) else f"p{p}_ms"
        document[name] = whole.get_value_at_percentile(p) / 1000 if count else None
    document["max_ms"] = whole.get_max_value() / 1000 if count else None
    document["mean_ms"] = whole.get_mean_value() / 1000 if count else None
    document["warmup_count"] = histograms.merged(logs, warmup=True).get_total_count()
    document["warmup_s"] = spec.warmup_ticks * spec.period_ms / 1000
    document["intervals"] = histograms.intervals(logs)
    return document


def _json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _window(spec: LoadSpec) -> tuple[float, float]:
    """Epoch seconds of the measured part of the load: after the warm-up, to the last point."""
    return (spec.start_ms + spec.warmup_ticks * spec.period_ms) / 1000, spec.end_ms / 1000


def _queue_samples(path: Path, spec: LoadSpec, nodes: int) -> list[tuple[float, float]]:
    """(t, points waiting on all nodes) for each second of the window in which all nodes told."""
    start, end = _window(spec)
    by_second: dict[int, dict[str, float]] = {}
    for record in _json_lines(path):
        if start <= record["t"] <= end and "waiting" in record:
            by_second.setdefault(int(record["t"]), {})[record["node"]] = record["waiting"]
    return [
        (float(t), sum(depths.values()))
        for t, depths in sorted(by_second.items())
        if len(depths) == nodes
    ]


def _measurements(
    state: State, spec: LoadSpec, latency: dict[str, Any], book: Ledger
) -> dict[str, Any]:
    stored = book.rows_expected
    target = spec.sensors * 1000 / spec.period_ms
    in_time = state.outcomes.counts.acknowledged_in_time if state.outcomes else None
    return measure.measurements(
        _json_lines(state.folder / "processes.jsonl"),
        _window(spec),
        latency["count"],
        psutil.cpu_count() or 1,
        {
            "target": target,
            "achieved": in_time / spec.duration_s if in_time is not None else None,
        },
        {"before": state.disk_before, "after": state.disk_after, "points": stored},
        state.plan.experiment.cluster.replication_factor,
    )


def show_verdict(judged: verdict.Verdict, console: Console) -> None:
    """Print the word, the sentence and the five parts."""
    colour = {"pass": "green", "fail": "red"}.get(judged.verdict, "yellow")
    console.print(f"\n[bold {colour}]verdict: {judged.verdict}[/]  {judged.summary}")
    for name, part in judged.parts.items():
        console.print(f"  {name:9} {part.outcome:8} {part.text}", markup=False)
    for reason in judged.reasons[1:]:
        console.print(f"  also: {reason}", markup=False)
