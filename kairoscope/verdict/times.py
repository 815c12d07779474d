"""When a load went on, and which time of it is measured."""

from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.verdict import outcomes
from loaders.record import files
from loaders.schedule.due import Schedule


def load_start(schedule: Schedule, window: tuple[float, float]) -> float:
    """When the first point was sent, epoch s."""
    return window[0] if schedule.spec.replay else schedule.spec.start_ms / 1000


def times_of_load(schedule: Schedule, window: tuple[float, float]) -> dict[str, Any] | None:
    """When the load went on (epoch ms), and for a replay which time its points are of.

    None if that is not known.
    """
    spec = schedule.spec
    planned = {"start_ms": spec.start_ms, "end_ms": spec.end_ms}
    if not spec.replay:
        return planned
    start, end = window
    if not end:
        return None
    return {"start_ms": round(start * 1000), "end_ms": round(end * 1000), "history": planned}


def measured_window(schedule: Schedule, folder: Path) -> tuple[float, float]:
    """Epoch seconds of the measured part of the load: after the warm-up, to the last point; of a
    replay all of it. `folder` has the workers' files."""
    spec = schedule.spec
    if not spec.replay:
        return schedule.timestamp_ms(0, spec.warmup_ticks) / 1000, spec.end_ms / 1000
    seen: list[float] = []
    for worker in range(spec.workers):
        said = list(run_folder.records(files.progress_path(folder, worker)))
        seen += [record["t"] for record in (said[:1] + said[-1:])]
    for final in outcomes.finals(folder, spec.workers):
        seen += [final["started_ms"] / 1000, final["ended_ms"] / 1000]
    return min(seen, default=0.0), max(seen, default=0.0)
