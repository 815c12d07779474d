"""What a run came to: from the files of its folder to measurements, ledger and verdict.

Works from whatever there is, so that a run that was interrupted gets a verdict as well.
"""

import json
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from kairoscope.hosts.inventory import Inventory
from kairoscope.plan import Plan
from kairoscope.run_folder import JsonLines
from kairoscope.verdict import completeness, ledger, measurements, outcomes, sustained
from kairoscope.verdict.ledger import Ledger
from kairoscope.verdict.outcomes import Outcomes
from loaders.record import histograms
from loaders.schedule.due import Schedule
from loaders.send.failover import NODE_DOWN

PERCENTILES = (50, 75, 90, 95, 98, 99, 99.9)

_REPLAYED = "history has no planned send times: it is sent as fast as it is acknowledged"


@dataclass
class State:
    """What is known of a run so far; the finish works from this whatever has happened."""

    folder: Path
    plan: Plan
    inventory: Inventory
    started: float  # epoch s
    events: JsonLines
    stop: threading.Event = field(default_factory=threading.Event)
    incomplete: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    schedule: Schedule | None = None
    outcomes: Outcomes | None = None
    ledger: Ledger | None = None
    drained_s: float | None = None
    left_in_queue: int | None = None
    drain_watched: bool = False
    disk_before: int | None = None
    disk_after: int | None = None
    # Whether all of the captures were attempted, so that what is missing can be said.
    captured: bool = False
    # Nodes that were taken away meanwhile by one of our verbs.
    removed: set[str] = field(default_factory=set)


def times(state: State) -> dict[str, Any] | None:
    """When the load went on (epoch ms), and for a replay which time its points are of."""
    if state.schedule is None:
        return None
    spec = state.schedule.spec
    times = {"start_ms": spec.start_ms, "end_ms": spec.end_ms}
    if not spec.replay:
        return times
    start, end = measured_window(state.schedule, state.folder / "load")
    if not end:
        return None
    return {"start_ms": round(start * 1000), "end_ms": round(end * 1000), "history": times}


def failing(state: State) -> str | None:
    """Why a load that has ended cannot pass, whatever is read back; None if it still can."""
    schedule = state.schedule
    if schedule is None:
        return None
    load = state.folder / "load"
    if late := _loader_limits(load, state.plan.experiment.limits.send_error_p99_ms):
        return late[0]
    window = measured_window(schedule, load)
    found = outcomes.read(schedule, load)
    book = ledger.not_read_back(ledger.open_ledger(found), "not yet")
    latency = _latency(schedule, window, load, "worker")
    parts = _parts(state, schedule, window, latency, found, book, 0)
    failed = [part.text for part in parts.values() if part.outcome == "fail"]
    return failed[0] if failed else None


def judge(state: State) -> sustained.Verdict:
    """The verdict from what is in the run folder; writes latency, measurements and ledger."""
    schedule = state.schedule
    load = state.folder / "load"
    if schedule is None or not (load / "spec.json").exists():
        reasons = state.incomplete or ["the load never started"]
        return sustained.judge({}, [], reasons)
    for log in load.glob("*.hlog"):
        shutil.move(log, state.folder / "latency" / log.name)
    window = measured_window(schedule, load)
    latency = _latency(schedule, window, state.folder / "latency", "worker")
    write_json(state.folder / "latency" / "merged.json", latency)

    found = state.outcomes or outcomes.read(schedule, load)
    book = state.ledger or ledger.not_read_back(
        ledger.open_ledger(found), state.incomplete[0] if state.incomplete else "no read-back"
    )
    ledger.write(book, state.folder)
    measured = _measurements(state, schedule, window, latency, found, book)
    write_json(state.folder / "measurements.json", measured)
    wrong_answers = _queries(state, schedule, window)

    if state.captured:
        state.incomplete += _not_captured(state, schedule, window, measured)
    state.invalid += _loader_limits(load, state.plan.experiment.limits.send_error_p99_ms)
    parts = _parts(state, schedule, window, latency, found, book, wrong_answers)
    judged = sustained.judge(parts, state.invalid, state.incomplete)
    # Whatever the word: nobody should take a run with a crash in it for an undisturbed one.
    for happened in _disturbances(state, schedule):
        judged.summary = f"{judged.summary.rstrip('.')}. {happened}."
    return judged


def _not_captured(
    state: State, schedule: Schedule, window: tuple[float, float], measured: dict[str, Any]
) -> list[str]:
    """What of the store and its processes is not known though it should be; see `completeness`."""
    spec = schedule.spec
    load_s = window[1] - window[0] if spec.replay else spec.duration_s
    disk = {"before": state.disk_before, "after": state.disk_after}
    every_s = state.plan.experiment.capture.shards_every_s
    storage = [host.name for host in state.inventory.storage]
    if state.removed & set(storage):
        # Its data went to the others, and its folder with it: no figure is to be had.
        disk = dict.fromkeys(disk, 0)
    there = [name for name in storage if name not in state.removed]
    with_shards = state.plan.engine == "scylla"
    wanted = completeness.Wanted(
        there,
        [host.name for host in state.inventory.kairosdb if host.name not in state.removed],
        completeness.phases(load_s, state.plan.experiment.capture.proxyhistograms_every_s),
        # A window too short for two looks has none due.
        there if with_shards and window[1] - window[0] > 2 * every_s + completeness.GRACE_S else (),
    )
    return completeness.missing(
        wanted,
        _read_json(state.folder / "proxyhistograms" / "captures.json") or [],
        _json_lines(state.folder / "events.jsonl"),
        measured["cpu_cores"],
        measurements.shards_seen(_json_lines(state.folder / "scylla.jsonl"), *window),
        disk,
    )


def _parts(
    state: State,
    schedule: Schedule,
    window: tuple[float, float],
    latency: dict[str, Any],
    found: Outcomes,
    book: Ledger,
    wrong_answers: int,
) -> dict[str, sustained.Part]:
    """The five parts of the verdict."""
    limits = state.plan.experiment.limits
    spec = schedule.spec
    timely = sustained.schedule_part(book, found.counts, limits.achieved, replay=spec.replay)
    if spec.replay:
        fast = sustained.not_judged(limits.p99_ms, "ms", _REPLAYED)
        why = f"a replay fills the queue as far as {spec.replay_queue_points:,} points a node"
        if not spec.replay_queue_points:
            why = "a replay fills the queue"
        steady = sustained.not_judged(limits.queue_growth, "fraction of the rate", why)
    else:
        fast = sustained.latency_part(
            latency["p99_ms"], latency["count"], limits.p99_ms, acknowledges=spec.acknowledges
        )
        # A queue that keeps points for a window fills for so long, however well they are stored.
        full = spec.start_ms / 1000 + state.plan.kairosdb.get("queue_window_ms", 0) / 1000
        samples = _queue_samples(
            state.folder / "queue.jsonl",
            (max(window[0], full), window[1]),
            len(state.inventory.kairosdb),
        )
        due = measurements.points_due(schedule, spec.warmup_ticks) / (window[1] - window[0])
        steady = sustained.queue_part(samples, limits.queue_growth, due)
    if state.drain_watched:
        drain = sustained.drain_part(state.drained_s, state.left_in_queue, limits.drain_s)
    else:
        text = "the queue was not watched after the load"
        drain = sustained.Part(None, limits.drain_s, "s", "unknown", text)
    return {
        "schedule": timely,
        "latency": fast,
        "queue": steady,
        "drain": drain,
        "readback": sustained.readback_part(book, wrong_answers),
    }


def _disturbances(state: State, schedule: Schedule) -> list[str]:
    """Sentences on processes that ended (and were started again) while the run went on, and on
    KairosDB nodes that workers took for down; those go to the events as well."""
    sentences = []
    ended = {
        e["detail"].split(":")[0]
        for e in _json_lines(state.folder / "events.jsonl")
        if e["what"] in ("process ended", "process started again")
    }
    if ended:
        sentences.append(f"During the run ended: {', '.join(sorted(ended))}")
    down = set()
    workers = schedule.spec.workers
    for event in outcomes.node_events(workers, state.folder / "load"):
        name = state.inventory.kairosdb[event.node].name
        seen = f"seen by {len(event.workers)} of {workers} workers"
        state.events.write(t=event.t, what=event.event, detail=f"{name}: {event.detail} ({seen})")
        if event.event == NODE_DOWN:
            down.add(name)
    if down:
        sentences.append(f"Loaders failed over from: {', '.join(sorted(down))}")
    return sentences


def _loader_limits(folder: Path, limit_ms: float) -> list[str]:
    """Why the loader, not the store, was the limit: its send-time error past the limit."""
    hosts = _read_json(folder / "hosts.json") or []
    found = []
    for said in outcomes.finals(folder):
        error_ms = said["send_error_us"]["p99"] / 1000
        if error_ms > limit_ms:
            host = hosts[said["host"]]["host"] if said["host"] < len(hosts) else "?"
            found.append(
                f"loader: worker {said['worker']} on {host} sent late, 99th percentile "
                f"{error_ms:,.0f} ms (limit {limit_ms:,.0f} ms) over "
                f"{said['send_error_us']['count']:,} points"
            )
    return found


def _latency(
    schedule: Schedule, window: tuple[float, float], folder: Path, what: str
) -> dict[str, Any]:
    """Percentiles in ms from the planned time, and intervals, of all `<what>-<i>.hlog` merged."""
    logs = sorted(folder.glob(f"{what}-*.hlog"))
    whole = histograms.merged(logs)
    count = whole.get_total_count()
    document: dict[str, Any] = {"count": count}
    for p in PERCENTILES:
        name = f"p{p:g}_ms".replace(".", "_", 1) if p != int(p) else f"p{p}_ms"
        document[name] = whole.get_value_at_percentile(p) / 1000 if count else None
    document["max_ms"] = whole.get_max_value() / 1000 if count else None
    document["mean_ms"] = whole.get_mean_value() / 1000 if count else None
    document["warmup_count"] = histograms.merged(logs, warmup=True).get_total_count()
    spec = schedule.spec
    warmup_ms = schedule.timestamp_ms(0, spec.warmup_ticks) - spec.start_ms
    document["warmup_s"] = warmup_ms / 1000
    document["intervals"] = histograms.intervals(logs)
    if spec.replay:
        # Logs count from the start of the history, a reader from the start of the load.
        ago = round(window[0] - spec.start_ms / 1000)
        for interval in document["intervals"]:
            interval["t"] -= ago
    return document


def _queries(state: State, schedule: Schedule, window: tuple[float, float]) -> int:
    """Write what became of the queries beside the load; returns how many gave wrong values."""
    spec = schedule.spec
    if spec.queries is None:
        return 0
    answers = outcomes.answers(state.folder / "load", spec.hosts)
    latency = _latency(schedule, window, state.folder / "latency", "queries")
    write_json(state.folder / "queries.json", {"answers": answers, "latency": latency})
    return int(answers["wrong"])


def _json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def measured_window(schedule: Schedule, folder: Path) -> tuple[float, float]:
    """Epoch seconds of the measured part of the load: after the warm-up, to the last point; of a
    replay all of it."""
    spec = schedule.spec
    if not spec.replay:
        return schedule.timestamp_ms(0, spec.warmup_ticks) / 1000, spec.end_ms / 1000
    times = []
    for log in folder.glob("worker-*.jsonl"):
        records = [] if log.name.count(".") > 1 else _json_lines(log)
        times += [record["t"] for record in (records[:1] + records[-1:])]
    for said in outcomes.finals(folder):
        times += [said["started_ms"] / 1000, said["ended_ms"] / 1000]
    return min(times, default=0.0), max(times, default=0.0)


def _queue_samples(
    path: Path, window: tuple[float, float], nodes: int
) -> list[tuple[float, float]]:
    """(t, points waiting on all nodes) for each second of the window in which all nodes told."""
    start, end = window
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
    state: State,
    schedule: Schedule,
    window: tuple[float, float],
    latency: dict[str, Any],
    found: Outcomes,
    book: Ledger,
) -> dict[str, Any]:
    spec = schedule.spec
    workers = outcomes.finals(state.folder / "load")
    rate: dict[str, float | None] = {
        "target": schedule.points / spec.duration_s,
        "achieved": found.counts.sent_in_time / spec.duration_s,
    }
    if spec.replay:
        arrived = found.counts.acknowledged if spec.acknowledges else found.counts.sent
        length = window[1] - window[0]
        rate = {"target": None, "achieved": arrived / length if length else None}
    return {
        **measurements.measurements(
            _json_lines(state.folder / "processes.jsonl"),
            window,
            latency["count"],
            psutil.cpu_count() or 1,
            rate,
            {"before": state.disk_before, "after": state.disk_after, "points": book.rows_expected},
            state.plan.experiment.cluster.replication_factor,
            (sum(w["cpu_s"] for w in workers), sum(w["sent"] for w in workers)),
        ),
        "kairosdb_nodes": measurements.node_balance(
            [host.name for host in state.inventory.kairosdb], schedule, found
        ),
    }


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document as people may read it."""
    path.write_text(json.dumps(document, indent=1) + "\n")
