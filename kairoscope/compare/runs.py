"""A finished run as a comparison sees it: its documents, and a figure of each metric."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.run_folder import Facts, Record

JUDGED = ("pass", "fail")


@dataclass(frozen=True)
class Run:
    """The documents of a run folder that a comparison needs."""

    folder: Path
    manifest: Record
    plan: Record
    facts: Facts
    verdict: Record
    latency: Record
    measurements: Record

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def word(self) -> str:
        """Of the verdict."""
        return str(self.verdict.get("verdict", "?"))

    @property
    def judged(self) -> bool:
        """Whether the verdict is about the store: neither invalid nor incomplete."""
        return self.word in JUDGED

    @property
    def started(self) -> str:
        """When, as ISO 8601 in UTC, which sorts as time does."""
        return str(self.manifest.get("started") or "")

    @cached_property
    def figures(self) -> dict[str, float]:
        """Each metric that was measured, by its name."""
        found = {metric.name: metric.read(self) for metric in METRICS}
        return {name: figure for name, figure in found.items() if figure is not None}


def read(folder: Path) -> Run:
    """A finished run.

    Raises:
        UserError: it is no run folder, of another version, not at its end, or was not judged.
    """
    run_folder.check(folder)
    facts = Facts.read(folder)
    if not facts.ended:
        raise UserError(
            f"{folder}: the run still goes on, or was killed: wait for its end, or leave it out"
        )
    if not (folder / run_folder.VERDICT).exists():
        raise UserError(f"{folder}: the run was not judged. First: kairoscope judge {folder}")

    def document(name: str) -> Record:
        return run_folder.read_object(folder / name) if (folder / name).exists() else {}

    return Run(
        folder.resolve(),
        run_folder.read_object(folder / run_folder.MANIFEST),
        run_folder.read_object(folder / run_folder.PLAN),
        facts,
        run_folder.read_object(folder / run_folder.VERDICT),
        document(run_folder.LATENCY_MERGED),
        document(run_folder.MEASUREMENTS),
    )


@dataclass(frozen=True)
class Metric:
    """A figure that runs are compared by.

    Attributes:
        step: what the figure is measured in steps of: less than one is taken for one.
    """

    name: str
    label: str
    unit: str
    step: float
    get: Callable[[Run], Any]
    less_is_better: bool = True

    def read(self, run: Run) -> float | None:
        """The figure of a run, above zero; None if it was not measured."""
        value = self.get(run)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return max(float(value), self.step) if math.isfinite(value) else None


def _latency(percentile: str) -> Callable[[Run], Any]:
    return lambda run: run.latency.get(percentile) if run.latency.get("count") else None


def _cpu(role: str) -> Callable[[Run], Any]:
    return lambda run: cpu(run.measurements, role)


def cpu(of: Any, role: str) -> Any:
    """CPU a point of a role, in µs, from measurements or a block of them; `kairosdb` is of all that
    takes points, which other stacks have under names of their own."""
    found = at(of, "cpu_us_per_point") or {}
    if role == "kairosdb" and role not in found:
        others = [found[name] for name in found if name not in ("storage", "loader")]
        return sum(others) if others and None not in others else None
    return found.get(role)


def _drain(run: Run) -> Any:
    return at(run.verdict, "parts", "drain", "figure")


def at(tree: Any, *keys: str) -> Any:
    """What is below the keys; None if a step is not there."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


METRICS: Sequence[Metric] = (
    Metric("p50_ms", "client latency, median", "ms", 1e-3, _latency("p50_ms")),
    Metric("p99_ms", "client latency, p99", "ms", 1e-3, _latency("p99_ms")),
    Metric("p99_9_ms", "client latency, p99.9", "ms", 1e-3, _latency("p99_9_ms")),
    Metric("storage_us", "CPU of the store a point", "µs", 1e-3, _cpu("storage")),
    Metric("kairosdb_us", "CPU of what takes the points, a point", "µs", 1e-3, _cpu("kairosdb")),
    Metric("loader_us", "CPU of the loaders a point", "µs", 1e-3, _cpu("loader")),
    Metric(
        "bytes_per_point",
        "disk a point, all copies",
        "bytes",
        1e-2,
        lambda run: at(run.measurements, "bytes_per_point", "on_disk_all_replicas"),
    ),
    Metric(
        "achieved_per_s",
        "points acknowledged in time",
        "points/s",
        1e-3,
        lambda run: at(run.measurements, "points_per_s", "achieved"),
        less_is_better=False,
    ),
    Metric("drain_s", "drain after the load", "s", 0.5, _drain),
)
"""All that is compared, in the order of the table. How many they are decides how sure one must be
of each (Holm), so it is one list, whatever was measured."""


def metric(name: str) -> Metric:
    """The metric of that name. UserError, with the names that there are, if there is none."""
    for known in METRICS:
        if known.name == name:
            return known
    raise UserError(
        f"metric {name}: there is none of that name. There are: "
        + ", ".join(known.name for known in METRICS)
    )
