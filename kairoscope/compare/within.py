"""What one run of each side can show: a difference of these two runs, by blocks of their time.

Not of the systems: how much the same system differs from run to run is not in it.
"""

from dataclasses import dataclass
from typing import Any

from kairoscope import run_folder
from kairoscope.compare.runs import Run, at, cpu
from kairoscope.errors import UserError
from kairoscope.stats import blocks, percentiles
from kairoscope.stats.groups import Interval
from kairoscope.stats.percentiles import Counts
from loaders.record import histograms

PERCENTILES = {"p50_ms": 50.0, "p99_ms": 99.0, "p99_9_ms": 99.9}
_CPU = {"storage_us": "storage", "kairosdb_us": "kairosdb", "loader_us": "loader"}
_BLOCK_S = 5.0


@dataclass(frozen=True)
class Blocks:
    """A run by blocks of its measured time.

    Attributes:
        latency: counts of latencies in µs; None if there is no log of them.
        cpu: µs of CPU a point in each block, by role.
    """

    latency: Counts | None
    cpu: dict[str, list[float]]


def read(run: Run) -> Blocks:
    """The blocks of a run, from its interval logs and blocks.json."""
    try:
        said: Any = run_folder.read_object(run.folder / run_folder.BLOCKS)
    except UserError:
        said = {}
    rows = said.get("blocks") or []
    length = float(said.get("block_s") or _BLOCK_S)
    start = float(run.latency.get("warmup_s") or 0.0)
    load = at(run.manifest, "load") or {}
    measured = (load.get("end_ms", 0) - load.get("start_ms", 0)) / 1000 - start
    logs = run_folder.histogram_logs(run.folder, "worker")
    latency = None
    if logs and measured >= length:
        found = histograms.blocks(logs, start, length, int(measured // length))
        latency = Counts(found.values_us, found.counts)
    spent = {
        role: [v for row in rows if isinstance(v := cpu(row, role), int | float)]
        for role in _CPU.values()
    }
    return Blocks(latency, spent)


def ratios(first: Blocks, second: Blocks) -> dict[str, Interval]:
    """The ratio, second by first, of each metric that blocks can show, with its interval."""
    found: dict[str, Interval] = {}
    if first.latency is not None and second.latency is not None:
        for name, p in PERCENTILES.items():
            of = percentiles.ratio(second.latency, first.latency, p)
            if of is not None:
                found[name] = Interval(of.figure, of.low, of.high, of.confidence)
    for name, role in _CPU.items():
        of_means = blocks.ratio_of_means(first.cpu[role], second.cpu[role])
        if of_means is not None:
            found[name] = of_means
    return found


def bands(found: Blocks, wanted: tuple[float, ...]) -> dict[float, tuple[float, float]]:
    """Between what each percentile lies, in ms; {} with too few blocks."""
    if found.latency is None:
        return {}
    intervals = percentiles.intervals(found.latency, wanted)
    return {p: (each.low / 1000, each.high / 1000) for p, each in intervals.items()}
