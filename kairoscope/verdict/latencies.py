"""Latencies of a load: merged over workers, and held against the ledger.

A fifth equation: the points in a worker's interval log, with those of the warm-up, are those it had
to send without the refused and the never begun, which have no latency. A percentile over a log that
lacks a second, or over all logs but that of the slowest worker, looks like any other.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.verdict import outcomes
from kairoscope.verdict.sustained import Part
from loaders.record import histograms
from loaders.schedule.due import Schedule

PERCENTILES = (50, 75, 90, 95, 98, 99, 99.9)

_NAMED = 3


@dataclass(frozen=True)
class OfWorker:
    """One worker's side of the equation, in points.

    Attributes:
        host: name of its loader host.
        logged: in its interval log, warm-up included; None: there is no log.
        expected: that must be; None: it left no final counts.
    """

    worker: int
    host: str
    logged: int | None
    expected: int | None

    @property
    def holds(self) -> bool:
        """All its latencies are there, and no other."""
        return self.logged is not None and self.logged == self.expected

    @property
    def problem(self) -> str:
        """What is amiss, in words; "" if nothing is."""
        who = f"worker {self.worker} on {self.host}"
        if self.holds:
            return ""
        if self.expected is None:
            return f"{who} left no final counts to hold its latencies against"
        if self.logged is None:
            return f"the interval log of {who} is missing, with {self.expected:,} points"
        return f"the interval log of {who} has {self.logged:,} of {self.expected:,} points"


def of_workers(schedule: Schedule, folder: Path, hosts: Sequence[str]) -> list[OfWorker]:
    """The equation of each worker of a run folder; `hosts`: names of the loader hosts."""
    spec = schedule.spec
    finals = {
        said["worker"]: said for said in outcomes.finals(folder / run_folder.LOAD, spec.workers)
    }
    found = []
    for worker in range(spec.workers):
        host = worker // spec.workers_per_host
        said = finals.get(worker)
        log = run_folder.histogram_log(folder, f"worker-{worker}")
        found.append(
            OfWorker(
                worker,
                hosts[host] if host < len(hosts) else "?",
                histograms.count(log) if log else None,
                said["scheduled"] - said["untimed"] if said else None,
            )
        )
    return found


def document(
    schedule: Schedule, window: tuple[float, float], folder: Path, what: str
) -> dict[str, Any]:
    """Percentiles in ms from the planned time, and intervals, of all `<what>-<i>.hlog` merged."""
    logs = run_folder.histogram_logs(folder, what)
    whole = histograms.merged(logs)
    count = whole.get_total_count()
    found: dict[str, Any] = {"count": count}
    for p in PERCENTILES:
        name = f"p{p:g}_ms".replace(".", "_", 1) if p != int(p) else f"p{p}_ms"
        found[name] = whole.get_value_at_percentile(p) / 1000 if count else None
    found["max_ms"] = whole.get_max_value() / 1000 if count else None
    found["mean_ms"] = whole.get_mean_value() / 1000 if count else None
    found["warmup_count"] = histograms.merged(logs, warmup=True).get_total_count()
    spec = schedule.spec
    warmup_ms = schedule.timestamp_ms(0, spec.warmup_ticks) - spec.start_ms
    found["warmup_s"] = warmup_ms / 1000
    found["intervals"] = histograms.intervals(logs)
    if spec.replay:
        # Logs count from the start of the history, a reader from the start of the load.
        ago = round(window[0] - spec.start_ms / 1000)
        for interval in found["intervals"]:
            interval["t"] -= ago
    return found


def of_load(
    schedule: Schedule, window: tuple[float, float], folder: Path, hosts: Sequence[str]
) -> dict[str, Any]:
    """The content of latency/merged.json: of the workers, with each one's side of the equation."""
    workers = of_workers(schedule, folder, hosts)
    return {
        **document(schedule, window, folder, "worker"),
        "workers": [{**asdict(each), "holds": each.holds} for each in workers],
        "problems": [each.problem for each in workers if not each.holds],
    }


def latency_part(found: dict[str, Any], limit_ms: float, *, acknowledges: bool = True) -> Part:
    """99th percentile from the planned send time, after the warm-up; unknown if it is not of all.

    `found`: as of `of_load`.
    """
    if problems := found["problems"]:
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        text = f"not all latencies are there: {'; '.join(problems[:_NAMED])}{more}"
        return Part(None, limit_ms, "ms", "unknown", text)
    p99_ms, count = found["p99_ms"], found["count"]
    if p99_ms is None:
        return Part(None, limit_ms, "ms", "unknown", "no latency was recorded after the warm-up")
    until = "" if acknowledges else " until handed to the socket"
    return Part(
        p99_ms,
        limit_ms,
        "ms",
        "pass" if p99_ms <= limit_ms else "fail",
        f"99th percentile {p99_ms:,.1f} ms from the planned send time{until}, over {count:,} "
        f"points after the warm-up; 99.9th {found['p99_9_ms']:,.1f} ms, longest "
        f"{found['max_ms']:,.1f} ms",
    )
