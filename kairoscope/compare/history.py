"""results/history.jsonl: a line for each run, written at its end, and what runs like it came to."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kairoscope import run_folder
from kairoscope.compare import comparable
from kairoscope.compare.runs import JUDGED, METRICS, Run, at, read
from kairoscope.run_folder import Record

NAME = "history.jsonl"
LIKE_IT = 20
"""Earlier runs that a run is put beside, the latest."""


def line(run: Run) -> Record:
    """What is kept of a run."""
    git = at(run.manifest, "git") or {}
    return {
        "run": run.name,
        "folder": str(run.folder),
        "started": run.started,
        "experiment": run.manifest.get("experiment"),
        "target": run.manifest.get("target"),
        "like": like(run),
        "commit": git.get("commit"),
        "dirty": git.get("dirty"),
        "warmth": comparable.warmth(run),
        "verdict": run.word,
        "figures": run.figures,
    }


def like(run: Run) -> str:
    """A key that is equal for runs of one experiment as it was asked for, on one machine.

    What the plan derived is left out: that is what a newer Kairoscope may do better or worse.
    """
    asked = dict(at(run.plan, "experiment") or {})
    asked.pop("description", None)
    if not asked.get("faults"):  # As plans have it that were made before there could be any.
        asked.pop("faults", None)
    if "queries" in asked:
        asked["queries"] = comparable.queries(run)
    facets = comparable.MACHINE.facets(run)
    whole = [asked, run.plan.get("engine"), run.plan.get("stack"), facets]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:12]


def remember(folder: Path, history: Path) -> None:
    """Put a finished run beside earlier ones like it (beside.json), and add its line.

    Raises:
        UserError, OSError: the run cannot be read, or one of the files not be written.
    """
    new = line(read(folder))
    run_folder.write_json(folder / run_folder.BESIDE, beside(new, run_folder.records(history)))
    run_folder.JsonLines(history).write(**new)


def beside(new: Record, earlier: Iterable[Record]) -> Record:
    """The figures of a run beside those of the last judged ones like it."""
    runs = [
        known
        for known in earlier
        if known.get("like") == new["like"]
        and known.get("run") != new["run"]
        and known.get("verdict") in JUDGED
        and isinstance(known.get("figures"), dict)
    ][-LIKE_IT:]
    figures = {}
    for metric in METRICS:
        values = figures_of(runs, metric.name)
        mine = new["figures"].get(metric.name)
        if values and mine is not None:
            figures[metric.name] = {
                "label": metric.label,
                "unit": metric.unit,
                "figure": mine,
                "median": float(np.median(values)),
                "least": min(values),
                "most": max(values),
                "runs": len(values),
            }
    return {
        "runs": len(runs),
        "passed": sum(known["verdict"] == "pass" for known in runs),
        "figures": figures,
    }


def figures_of(lines: Sequence[Record], name: str) -> list[float]:
    """A metric of all lines that have it."""
    found: list[Any] = [known["figures"].get(name) for known in lines]
    return [float(v) for v in found if isinstance(v, int | float) and v > 0]
