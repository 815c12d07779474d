"""Run folders made up for the tests of the report: one that passed, one that failed, remains."""

import json
import math
from pathlib import Path
from typing import Any

START_MS = 1_795_000_000_000  # 2026-11-18
START = START_MS / 1000
SENSORS, SECONDS, WARMUP = 5000, 120, 15
NODES = ("storage-1", "storage-2", "storage-3")
HEAD = "Percentile       Read Latency      Write Latency      Range Latency"
MANIFEST = {
    "run": "20261118T100000Z-laptop-local",
    "experiment": "laptop",
    "target": "local",
    "started": "2026-11-18T09:59:20Z",
    "ended": "2026-11-18T10:03:05Z",
    "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
    "machine": {
        "cpus": 2,
        "cpu_model": "Example CPU @ 2.4 GHz",
        "memory_bytes": 24_000_000_000,
        "kernel": "6.1.0",
        "os": "Debian GNU/Linux 12",
    },
    "versions": {
        "kairoscope": "0.1.0",
        "kairosdb": "1.3.0-1",
        "engine": "cassandra",
        "engine_version": "5.0.9",
        "java": "17.0.13",
    },
    "load": {"start_ms": START_MS, "end_ms": START_MS + SECONDS * 1000},
    "command": "make demo",
}
PLAN = {
    "format": 2,
    "experiment_file": "experiments/laptop.yml",
    "target": "local",
    "engine": "cassandra",
    "experiment": {
        "name": "laptop",
        "reference": "single-60k",
        "cluster": {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1},
        "limits": {"achieved": 0.999, "p99_ms": 500, "send_error_p99_ms": 100},
        "load": {"sensors": SENSORS, "rate": 1.0, "duration_s": SECONDS, "warmup_s": WARMUP},
    },
    "settings": [
        {
            "name": "kairosdb.batch_size",
            "value": 50,
            "unit": "points",
            "origin": "experiment",
            "arithmetic": "5,000 points/s x 0.1 s = 500",
            "reason": "the published setting",
            "derived_value": 500,
        },
        {
            "name": "kairosdb.ingest_threads",
            "value": 4,
            "unit": "threads",
            "origin": "derived",
            "arithmetic": "5,000 points/s / 50 x 5 ms = 0.5, times 4, up",
            "reason": "Little's law with room for slow writes",
        },
    ],
    "kairosdb": {"batch_size": 50, "min_batch_size": 15},
    "load": {"sensors": SENSORS, "workers": 2, "period_ms": 1000, "ticks": SECONDS},
    "totals": {"points_per_s": SENSORS, "points": SENSORS * SECONDS},
    "notices": [],
}
TOTAL = SENSORS * SECONDS


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))


def _captures(run: Path) -> None:
    listed = []
    for n, node in enumerate(NODES):
        times = [("before", -10), *(("during", t) for t in range(10, SECONDS, 20)), ("after", 140)]
        for phase, at in times:
            base = 0.0 if phase == "before" else 900 + 140 * n + 3 * at
            row = {p: round(base * k, 2) for p, k in _SHAPE.items()}
            rows = {"Read": dict.fromkeys(_SHAPE, 0.0), "Write": row, "Range": row}
            file = f"proxyhistograms/{node}/{phase}-{at:04d}.txt"
            table = "\n".join(f"{p:<10}{0.0:>19.2f}{row[p]:>19.2f}{row[p]:>19.2f}" for p in _SHAPE)
            (run / file).parent.mkdir(parents=True, exist_ok=True)
            (run / file).write_text(f"proxy histograms\n{HEAD}\n{table}\n\n")
            entry = {"t": START + at, "node": node, "phase": phase, "file": file, "rows": rows}
            listed.append(entry)
    _write(run / "proxyhistograms/captures.json", listed)


_SHAPE = {"50%": 1.0, "75%": 1.4, "95%": 3.1, "98%": 5.0, "99%": 7.2, "Min": 0.2, "Max": 30.0}


def passing(folder: Path) -> Path:
    """A run of 5,000 sensors for two minutes that passed all five parts."""
    return _full(folder, killed=False)


def failing(folder: Path) -> Path:
    """The same run with KairosDB killed at 0:50 for 12 s: slow, and three points are lost."""
    return _full(folder, killed=True)


def interrupted(folder: Path) -> Path:
    """Ctrl-C right after the start: a manifest without an end, and the plan."""
    run = folder / "20261118T100000Z-laptop-local"
    _write(run / "manifest.json", {**MANIFEST, "ended": None, "load": {"start_ms": START_MS}})
    _write(run / "plan.json", PLAN)
    return run


def fleet(folder: Path) -> Path:
    """The run that passed, from two loader hosts to two nodes, with ramp, steps, churn and queries;
    a node is down for a while."""
    run = passing(folder)
    load = {
        **{"protocol": "rest-gzip", "protocol_title": "REST with gzip", "replay": False},
        **{"pacing": "spread", "jitter_ms": 50},
        **{"sensors_per_request": 100, "points_per_request": 5, "value_type": "double"},
        **{"metric": "sensor.temperature", "tags": {"sensor": "s-{n}", "site": "site-{n%20}"}},
        **{"steps": [{"period_ms": 2000, "ticks": 30}, {"period_ms": 1000, "ticks": 60}]},
        **{"period_ms": 2000, "ramp_ticks": 5, "ramp_s": 10, "lifetime_ticks": 30, "hosts": 2},
        **{"lifetime_s": 60, "queries": {"rate": 2.0, "lag_s": 15}},
    }
    kairosdb = {"queue": "coalescing", "queue_window_ms": 10_000}
    _change(run / "plan.json", kairosdb=kairosdb, load={**PLAN["load"], **load})  # type: ignore[dict-item]
    hosts = [
        {
            **{"host": f"loader-{n + 1}", "address": f"10.0.0.{n + 11}", "workers": [n]},
            **{"python": "3.11.7", "cpus": 4, "offset_us": [120, -3400][n], "rtt_us": 380},
        }
        for n in range(2)
    ]
    _write(run / "load/hosts.json", hosts)
    for w in range(2):
        _change(run / f"load/worker-{w}.json", host=w)
        path = run / f"load/worker-{w}.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        due = 0
        for t, record in enumerate(records):
            due += int(SENSORS / 2 * min(1, (t + 1) / 10) * (0.5 if t < 60 else 1))
            record |= {"due": due, "sent": due, "acknowledged": due}
        _lines(path, records)
    nodes = [
        {"node": "kairosdb-1", "sensors": 2500, "points_sent": 360_000},
        {"node": "kairosdb-2", "sensors": 2500, "points_sent": 240_000},
    ]
    for node in nodes:
        node["points_acknowledged"] = node["points_sent"]
    _change(run / "measurements.json", kairosdb_nodes=nodes)
    seen = "(seen by 2 of 2 workers)"
    down = {"t": START + 70.2, "what": "node down", "detail": f"kairosdb-2: no answer {seen}"}
    back = {"t": START + 88.0, "what": "node up", "detail": f"kairosdb-2: answers again {seen}"}
    ended = {"t": START + 64.9, "what": "process ended", "detail": "kairosdb-2: pid 7 → none"}
    _lines(run / "events.jsonl", [ended, down, back])
    _change(run / "ledger.json", series=14_321)
    kinds = {
        "raw": {"sent": 70, "right": 66, "late": 2, "wrong": 0, "failed": 2, "not_sent": 0},
        "aggregated": {"sent": 70, "right": 65, "late": 3, "wrong": 0, "failed": 2, "not_sent": 0},
        "tags": {"sent": 70, "right": 69, "late": 0, "wrong": 0, "failed": 1, "not_sent": 0},
    }
    total = {key: sum(counts[key] for counts in kinds.values()) for key in kinds["raw"]}
    answers = {**total, "kinds": kinds, "points_checked": 61_234, "points_late": 17}
    answers |= {"errors": {"connection": 5}, "first_errors": ["Cannot connect"]}
    answers |= {"hosts_without_final_counts": []}
    latency = {"count": 180, "p50_ms": 21.0, "p75_ms": 33.0, "p90_ms": 60.0, "p95_ms": 88.0}
    latency |= {"p98_ms": 120.0, "p99_ms": 131.0, "p99_9_ms": 140.0, "max_ms": 140.0}
    latency |= {"mean_ms": 29.0, "warmup_count": 25}
    intervals = [
        {"t": t, "p50": 20 + t % 7, "p95": 80, "p99": 80, "max": 60 + 5 * (t % 17), "count": 2}
        for t in range(21, SECONDS)
        if t not in range(70, 76)
    ]
    followed = {"sensors": 16, "reads": 236, "unanswered": 9, "wrong": 0, "every_s": 1.04}
    followed |= {"longest_apart_s": 11.2, "points": 1440, "found": 1430, "stale": 7}
    followed |= {"never_found": 1, "unread": 9, "vanished": 0, "found_again": 0}
    visible = {"count": 1190, "p50_ms": 610.0, "p90_ms": 980.0, "p99_ms": 1240.0, "max_ms": 11400.0}
    followed |= {"visible": visible, "vanished_points": []}  # type: ignore[dict-item]
    _write(
        run / "queries.json",
        {
            "answers": answers,
            "latency": {**latency, "intervals": intervals},
            "followed": followed,
        },
    )
    return run


def scylla(folder: Path, *, shards: int = 2) -> Path:
    """The run that passed, on ScyllaDB: three nodes, of which the second is killed at 0:50 and back
    12 s later; the first of each node's shards has more to do than the others."""
    run = passing(folder)
    versions = {**MANIFEST["versions"], "engine": "scylla", "engine_version": "5.2.19"}  # type: ignore[dict-item]
    _change(run / "manifest.json", versions=versions)
    experiment = {**PLAN["experiment"], "capture": {"shards_every_s": 5}}  # type: ignore[dict-item]
    _change(run / "plan.json", engine="scylla", experiment=experiment)
    counted = {"count": 40_000, "p50_us": 1280, "p75_us": 1536, "p95_us": 3072, "p98_us": 5120}
    counted |= {"p99_us": 7168, "p99_9_us": None}
    idle = {**dict.fromkeys(counted, None), "count": 0}
    window = {node: {"write": counted, "read": idle} for node in NODES if node != NODES[1]}
    _write(run / "proxyhistograms/window.json", {"nodes": window})
    looks: list[dict[str, Any]] = []
    for n, node in enumerate(NODES):
        zeros = [0.0] * shards
        busy, requests, writes = list(zeros), list(zeros), list(zeros)
        since = -5
        for t in range(-5, SECONDS + 10, 5):
            look = {"t": START + t + 0.01 * n, "node": node}
            if n == 1 and 50 <= t < 62:
                looks.append({**look, "error": "http://127.0.0.2:9180/metrics: refused"})
                busy, requests, writes, since = list(zeros), list(zeros), list(zeros), t
                continue
            rate = 2500 * (0 <= t <= SECONDS) * (1 + 0.2 * math.sin(t / 7))
            for shard in range(shards):
                share = 2 / (shards + 1) if shard == 0 else 1 / (shards + 1)
                busy[shard] += 5 * (60 + rate * share * 0.35 * (1 + 0.3 * (t % 40 > 30)))
                requests[shard] += 5 * rate * share / 10
                writes[shard] += 5 * rate * share * 3
            looks.append(
                {
                    **look,
                    "shards": shards,
                    "busy_ms": [round(v) for v in busy],
                    "stolen_ms": [round(v / 20) for v in busy],
                    "requests": [round(v) for v in requests],
                    "requests_shed": [0] * shards,
                    "connections": [9 - shard % 2 for shard in range(shards)],
                    "replica_writes": [round(v) for v in writes],
                    "writes_sent": [round(3 * v) for v in requests],
                    "background_writes": [shard + t % 3 for shard in range(shards)],
                    "blocked_by_memtables": [0] * shards,
                    "blocked_by_commitlog": [max(0, t - since)] + [0] * (shards - 1),
                    "commitlog_waiting": [0] * shards,
                    "commitlog_writes": [t] * shards,
                    "commitlog_bytes": [4096 * t] * shards,
                    "coordinator_writes": round(sum(requests)),
                    "coordinator_reads": 0,
                }
            )
    _lines(run / "scylla.jsonl", looks)
    return run


def telnet(folder: Path) -> Path:
    """The run that passed, over telnet: nothing was acknowledged, and all was found."""
    run = passing(folder)
    sent = {"protocol_title": "telnet, putm", "acknowledges": False}
    _change(run / "plan.json", load={**PLAN["load"], **sent})  # type: ignore[dict-item]
    counts = {"acknowledged": 0, "unknown": TOTAL, "stored": 0, "unknown_stored": TOTAL}
    text = "unknown = stored + queued + logged as failed"
    equation = {"text": text, "left": TOTAL, "right": TOTAL, "holds": True}
    note = "the protocol acknowledges nothing: the ledger rests on read-back alone"
    _change(
        run / "ledger.json",
        **{**counts, "acknowledges": False, "unknown_missing": 0, "notes": [note]},
        equations=[equation],
    )
    for w in range(2):
        path = run / f"load/worker-{w}.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        _lines(path, [{**r, "acknowledged": 0, "unknown": r["sent"]} for r in records])
    return run


def replay(folder: Path) -> Path:
    """The run that passed, as history: a day of points in two minutes."""
    run = passing(folder)
    load = {"protocol": "rest", "replay": True, "replay_queue_points": 500_000, "warmup_s": 0}
    load |= {"sensors_per_request": 100, "metric": "SENSOR_{n}", "tags": {"status": "good"}}
    load |= {"value_type": "long", "points_per_request": 60}
    _change(run / "plan.json", load={**PLAN["load"], **load, "duration_s": 86_400})  # type: ignore[dict-item]
    rate = {"target": None, "achieved": 81_234.0}
    _change(run / "measurements.json", points_per_s=rate)
    why = "history has no planned send times: it is sent as fast as it is acknowledged"
    judged = json.loads((run / "verdict.json").read_text())
    for name in ("latency", "queue"):
        judged["parts"][name] |= {"figure": None, "outcome": "not judged", "text": why}
    _write(run / "verdict.json", judged)
    return run


def _change(path: Path, **values: Any) -> None:
    _write(path, {**json.loads(path.read_text()), **values})


def _full(folder: Path, *, killed: bool) -> Path:
    run = folder / "20261118T100000Z-laptop-local"
    _write(run / "manifest.json", MANIFEST)
    _write(run / "plan.json", PLAN)
    down = range(50, 62) if killed else range(0)
    intervals = []
    for t in range(SECONDS):
        wave = 1 + 0.3 * math.sin(t / 5) + (3 if t < 8 else 0)
        # After the restart the points held back arrive, late by up to the time KairosDB was down.
        late = max(0, 12_000 - (t - 62) * 1500) if killed and t >= 62 else 0
        if t not in down:
            base = [4.1 * wave, 14 * wave, 33 * wave, 88 * wave]
            p50, p95, p99, worst = (v + late for v in base)
            row = {"t": t, "p50": p50, "p95": p95, "p99": p99, "max": worst, "count": SENSORS}
            intervals.append(row)
    tail = {"p98_ms": 9100.0, "p99_ms": 11_200.0, "p99_9_ms": 12_400.0, "max_ms": 12_850.0}
    good = {"p98_ms": 27.1, "p99_ms": 38.25, "p99_9_ms": 71.4, "max_ms": 148.9}
    merged = {"count": 525_000, "p50_ms": 4.31, "p75_ms": 7.9, "p90_ms": 12.4, "p95_ms": 17.6}
    merged |= {"mean_ms": 5.9, "warmup_count": 75_000, "intervals": intervals}
    of_part = {"count": 525_000, "p50_ms": 4.1, "p99_ms": 37.5, "p99_9_ms": 90.1, "max_ms": 240.2}
    merged |= {
        "nodes": [{"node": name, **of_part} for name in ("kairosdb-1", "kairosdb-2")],
        "hosts": [{"host": "loader-1", **of_part}],
        "wait": {**of_part, "p99_ms": 0.2},
        "service": of_part,
    }
    _write(run / "latency/merged.json", {**merged, **(tail if killed else good)})
    for w in range(2):
        done, records = 0, []
        for t in range(1, SECONDS + 1):
            due = t * SENSORS // 2
            done = done if t in down else due
            record = {"t": START + t + w * 0.2, "worker": w, "due": due, "sent": due}
            records.append({**record, "acknowledged": done, "rejected": 0, "unknown": 0})
        _lines(run / f"load/worker-{w}.jsonl", records)
        (run / f"load/worker-{w}.outcomes.jsonl").write_text("")
        final: dict[str, Any] = {"worker": w, "scheduled": TOTAL // 2, "sent": TOTAL // 2}
        final |= {"acknowledged": TOTAL // 2, "errors": {}, "first_errors": []}
        final |= {"send_error_us": {"p50": 300, "p99": 4200 + w, "max": 9000, "count": TOTAL // 2}}
        if killed:
            final["errors"] = {"connection refused": 612}
            final["first_errors"] = ["<html>Connection refused by 127.0.0.1:8080</html>"]
        _write(run / f"load/worker-{w}.json", final)
    _captures(run)
    _queue_and_processes(run, killed=killed)
    lost = 3 if killed else 0
    stored = TOTAL - lost
    ledger: dict[str, Any] = {"scheduled": TOTAL, "not_sent": 0, "sent": TOTAL, "rejected": 0}
    ledger |= {"acknowledged": TOTAL, "unknown": 0, "stored": stored, "queued": 0, "missing": lost}
    ledger |= {"failed_logged": 0, "wrong_value": 0, "balanced": not killed, "notes": []}
    ledger["equations"] = [
        {"text": "scheduled = sent + not sent", "left": TOTAL, "right": TOTAL, "holds": True},
        {
            "text": "acknowledged = stored + queued + logged as failed",
            "left": TOTAL,
            "right": stored,
            "holds": not killed,
        },
    ]
    times = [START_MS + 49_250, START_MS + 50_250]
    ledger["gaps"] = [
        {"series": "SENSOR_12", "timestamps_ms": times, "count": 2, "kind": "missing"},
        {"series": "SENSOR_4711", "timestamps_ms": times[:1], "count": 1, "kind": "missing"},
    ][: 2 if killed else 0]
    _write(run / "ledger.json", ledger)
    _write(run / "verdict.json", _verdict(killed=killed))
    _write(
        run / "measurements.json",
        {
            "cpu_us_per_point": {"storage": 96.4, "kairosdb": 41.7, "loader": 22.3},
            "cpu_cores": {**dict.fromkeys(NODES, 0.17), "kairosdb-1": 0.21, "loader-0": 0.06},
            "bytes_per_point": {"on_disk_all_replicas": 118.0, "per_replica": 39.3},
            "machine_cpu_busy_fraction": 0.62,
            "points_per_s": {"target": 5000, "achieved": 4999.2},
            "rss_max_bytes": {**dict.fromkeys(NODES, 1_610_000_000), "kairosdb-1": 980_000_000},
            "notes": ["disk includes the commit log"],
        },
    )
    return run


def _queue_and_processes(run: Path, *, killed: bool) -> None:
    queue: list[dict[str, Any]] = []
    for t in range(0, SECONDS + 20, 2):
        if killed and 50 <= t < 62:
            queue.append({"t": START + t, "node": "kairosdb-1", "error": "connection refused"})
            continue
        depth = 40_000 - 1200 * (t - 62) if killed and 62 <= t < 94 else 120 + 60 * math.sin(t)
        record = {"t": START + t, "node": "kairosdb-1", "waiting": round(depth)}
        queue.append({**record, "since_checkpoint": round(depth) + 900})
    _lines(run / "queue.jsonl", queue)
    processes: list[dict[str, Any]] = []
    used = dict.fromkeys((*NODES, "kairosdb-1", "loader-0", "loader-1"), 0.0)
    for t in range(-4, SECONDS + 10, 2):
        for name in used:
            role = name.split("-")[0]
            share = {"storage": 0.17, "kairosdb": 0.42, "loader": 0.06}[role]
            used[name] += 2 * share * (1 + 0.2 * math.sin(t / 7)) * (0 <= t <= SECONDS)
            if killed and name == "kairosdb-1" and 50 <= t < 62:
                used[name] = 0.0
                continue
            record = {"t": START + t, "name": name, "role": role, "pid": 100, "cpu_s": used[name]}
            processes.append({**record, "rss_bytes": 1.5e9, "disk_bytes": 2.1e7})
        busy = 1.2 * (t + 4)
        machine = {"t": START + t, "name": "machine", "role": "machine", "cpu_busy_s": busy}
        processes.append({**machine, "mem_available_bytes": 9e9})
    _lines(run / "processes.jsonl", processes)
    if killed:
        died = {"t": START + 50.4, "what": "process died", "detail": "kairosdb-1: signal 9"}
        back = {"t": START + 62.1, "what": "restart seen", "detail": "kairosdb-1 answers again"}
        _lines(run / "events.jsonl", [died, back])


def _verdict(*, killed: bool) -> dict[str, Any]:
    def judged(figure: float, limit: float, unit: str, good: bool, text: str) -> dict[str, Any]:
        outcome = "pass" if good else "fail"
        return {"figure": figure, "limit": limit, "unit": unit, "outcome": outcome, "text": text}

    ok = not killed
    return {
        "verdict": "pass" if ok else "fail",
        "summary": "5,000 sensors sustained: all five parts hold."
        if ok
        else "Failed by latency and read-back: KairosDB was down for 12 s and 3 points are lost.",
        "parts": {
            "schedule": judged(
                0.99998, 0.999, "fraction of the schedule", True, "600,000 of 600,000 in time"
            ),
            "latency": judged(38.25 if ok else 11_200.0, 500, "ms", ok, "p99 of 525,000 points"),
            "queue": judged(0.0004, 0.01, "fraction of the rate", True, "growth of the rate"),
            "drain": judged(1.5, 60, "s", True, "empty 1.5 s after the load"),
            "readback": judged(0 if ok else 3, 0, "points", ok, "points not found or wrong"),
        },
        "reasons": [] if ok else ["p99 11.2 s is over 500 ms", "3 acknowledged points not found"],
    }
