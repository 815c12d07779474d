"""Run folders made up for tests of comparisons: what those read of a finished run."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope import run_folder
from kairoscope.run_folder import Drain, Facts
from loaders.record.histograms import LogWriter, new_histogram, record

START_MS = 1_795_000_000_000
SECONDS, WARMUP = 120, 15
MACHINE = {"cpus": 2, "cpu_model": "Example CPU", "memory_bytes": 24_000_000_000}


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def finished(
    folder: Path,
    name: str,
    *,
    at: int = 0,
    experiment: str = "laptop",
    word: str = "pass",
    latency: float = 1.0,
    cpu: float = 1.0,
    kairosdb: dict[str, Any] | None = None,
    load: dict[str, Any] | None = None,
    manifest: dict[str, Any] | None = None,
    logs: np.random.Generator | None = None,
) -> Path:
    """A run that began `at` minutes after the first one; `latency` and `cpu` multiply figures.

    With `logs` there are interval logs too, whose latencies are drawn by it.
    """
    run = folder / name
    for sub in run_folder.SUBFOLDERS:
        (run / sub).mkdir(parents=True)
    settings = {
        "queue": "coalescing",
        "queue_window_ms": 15_000,
        "queue_sync_ms": 0,
        "write_consistency": "QUORUM",
        "read_consistency": "QUORUM",
        "batch_size": 1000,
    }
    asked = {"sensors": 24_000, "rate": 1.0, "duration_s": SECONDS, "warmup_s": WARMUP}
    plan = {
        "engine": "cassandra",
        "target": "local",
        "experiment": {
            "name": experiment,
            "cluster": {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1},
            "limits": {"p99_ms": 1000},
            "load": asked,
        },
        "kairosdb": settings | (kairosdb or {}),
        "storage": {"heap_mb": 1024, "commitlog_sync": "periodic"},
        "load": asked | {"workers": 2} | (load or {}),
    }
    _write(run / run_folder.PLAN, plan)
    _write(run / run_folder.EXPERIMENT, plan["experiment"])
    about = {
        "run": name,
        "experiment": experiment,
        "target": "local",
        "started": f"2026-11-18T{10 + at // 60:02d}:{at % 60:02d}:00+00:00",
        "machine": MACHINE,
        "git": {"commit": "0123456789abcdef", "dirty": False},
        "versions": {"kairoscope": "0.1.0", "engine": "cassandra", "kairosdb": "1.3.0-1"},
        "load": {"start_ms": START_MS, "end_ms": START_MS + SECONDS * 1000},
    }
    _write(run / run_folder.MANIFEST, about | (manifest or {}))
    _write(
        run / run_folder.VERDICT,
        {"verdict": word, "summary": f"It is {word}.", "parts": {"drain": {"figure": 14.5}}},
    )
    points = 24_000 * (SECONDS - WARMUP)
    shape = (4, 6, 9, 14, 30, 55, 120)
    keys = ("p50_ms", "p75_ms", "p90_ms", "p95_ms", "p98_ms", "p99_ms", "p99_9_ms")
    merged = {key: value * latency for key, value in zip(keys, shape, strict=True)}
    merged |= {"count": points, "warmup_s": WARMUP, "max_ms": 300 * latency}
    _write(run / run_folder.LATENCY_MERGED, merged)
    measured = {
        "cpu_us_per_point": {"storage": 17 * cpu, "kairosdb": 8 * cpu, "loader": 2.0},
        "bytes_per_point": {"on_disk_all_replicas": 30.0},
        "points_per_s": {"target": 24_000.0, "achieved": 24_000.0},
        "machine_cpu_busy_fraction": 0.42,
    }
    _write(run / run_folder.MEASUREMENTS, measured)
    if logs is not None:
        _logs(run, logs, latency)
    Facts(drain=Drain(0, 1_790_000_000), captured=True).end(run)
    return run


def _logs(run: Path, rng: np.random.Generator, latency: float) -> None:
    with (run / run_folder.LATENCY / "worker-0.hlog").open("w") as file:
        log = LogWriter(file, START_MS)
        for second in range(SECONDS):
            histogram = new_histogram()
            pause = 50_000 * (rng.random() < 0.1)
            for value in rng.lognormal(8.3, 0.5, 20) * latency + pause:
                record(histogram, round(value), 100)
            log.write(histogram, second, 1.0, "warmup" if second < WARMUP else "")


def several(
    folder: Path, label: str, rng: np.random.Generator, runs: int = 6, spread: float = 0.03,
    odd: int = 0, **more: Any,
) -> list[Path]:  # fmt: skip
    """Runs of a side, `spread` apart, taking turns with those of another side (`odd`)."""
    latency, cpu = more.pop("latency", 1.0), more.pop("cpu", 1.0)
    return [
        finished(
            folder,
            f"{label}-{i}",
            at=4 * i + 2 * odd,
            latency=latency * float(np.exp(rng.normal(0, spread))),
            cpu=cpu * float(np.exp(rng.normal(0, spread))),
            **more,
        )
        for i in range(runs)
    ]
