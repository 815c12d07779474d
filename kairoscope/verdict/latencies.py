"""Latencies of a load: of all workers, by node and by loader host, and held against the ledger.

A fifth equation: the points in a worker's interval log, with those of the warm-up, are those it had
to send without the refused and the never begun, which have no latency. A percentile over a log that
lacks a second, or over all logs but that of the slowest worker, looks like any other.

A percentile over all nodes hides one slow node among many, so the worst node and the worst loader
host are held against the limit too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

from kairoscope import run_folder
from kairoscope.verdict import outcomes
from kairoscope.verdict.sustained import Part
from loaders.record import histograms
from loaders.record.histograms import SERVICE, WAIT, WARMUP, new_histogram, node_tag
from loaders.schedule.due import Schedule

PERCENTILES = (50, 75, 90, 95, 98, 99, 99.9)

# A 99th percentile of fewer requests is their maximum.
LEAST_REQUESTS = 100

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


def percentiles(histogram: HdrHistogram) -> dict[str, Any]:
    """Count in points, and percentiles, maximum and mean in ms; None where there are no points."""
    count = histogram.get_total_count()
    found: dict[str, Any] = {"count": count}
    at = histogram.get_percentile_to_value_dict(list(PERCENTILES)) if count else {}
    for p in PERCENTILES:
        name = f"p{p:g}_ms".replace(".", "_", 1) if p != int(p) else f"p{p}_ms"
        found[name] = at[p] / 1000 if count else None
    found["max_ms"] = histogram.get_max_value() / 1000 if count else None
    found["mean_ms"] = histogram.get_mean_value() / 1000 if count else None
    return found


def of_queries(schedule: Schedule, window: tuple[float, float], folder: Path) -> dict[str, Any]:
    """Percentiles in ms from the planned time, and intervals, of the readers."""
    logs = run_folder.histogram_logs(folder, "queries")
    return {
        **percentiles(histograms.merged(logs)),
        "warmup_count": histograms.merged(logs, warmup=True).get_total_count(),
        **_over_time(schedule, window, logs),
    }


def _over_time(schedule: Schedule, window: tuple[float, float], logs: list[Path]) -> dict[str, Any]:
    spec = schedule.spec
    warmup_ms = schedule.timestamp_ms(0, spec.warmup_ticks) - spec.start_ms
    intervals = histograms.intervals(logs)
    if spec.replay:
        # Logs count from the start of the history, a reader from the start of the load.
        ago = round(window[0] - spec.start_ms / 1000)
        for interval in intervals:
            interval["t"] -= ago
    return {"warmup_s": warmup_ms / 1000, "intervals": intervals}


def of_load(
    schedule: Schedule,
    window: tuple[float, float],
    folder: Path,
    nodes: Sequence[str],
    hosts: Sequence[str],
) -> dict[str, Any]:
    """The content of latency/merged.json: of all workers, with each one's side of the equation.

    `nodes`, `hosts`: names of the servers that take points and of the loader hosts, in order.
    """
    spec = schedule.spec
    said_last = outcomes.finals(folder / run_folder.LOAD, spec.workers)
    finals = {said["worker"]: said for said in said_last}
    of_host = [new_histogram() for _ in range(spec.hosts)]
    of_tag: dict[str, HdrHistogram] = {}
    workers = []
    for worker in range(spec.workers):
        number = worker // spec.workers_per_host
        host = hosts[number] if number < len(hosts) else "?"
        log = run_folder.histogram_log(folder, f"worker-{worker}")
        tags = histograms.by_tag(log) if log else {}
        for tag, histogram in tags.items():
            of_tag.setdefault(tag, new_histogram()).add(histogram)
            if tag != WARMUP:
                of_host[number].add(histogram)
        logged = sum(each.get_total_count() for each in tags.values()) if log else None
        said = finals.get(worker)
        expected = said["scheduled"] - said["untimed"] if said else None
        workers.append(OfWorker(worker, host, logged, expected))
    whole = new_histogram()
    for histogram in of_host:
        whole.add(histogram)
    warm = of_tag.get(WARMUP)
    return {
        **percentiles(whole),
        "warmup_count": warm.get_total_count() if warm else 0,
        "nodes": [
            {"node": name, **percentiles(of_tag.get(node_tag(node), new_histogram()))}
            for node, name in enumerate(nodes)
        ],
        "hosts": [
            {"host": name, **percentiles(of_host[host])}
            for host, name in enumerate(hosts[: spec.hosts])
        ],
        **{what: percentiles(_part_of(schedule, folder, what)) for what in (WAIT, SERVICE)},
        "workers": [{**asdict(each), "holds": each.holds} for each in workers],
        "problems": [each.problem for each in workers if not each.holds],
        **_over_time(schedule, window, run_folder.histogram_logs(folder, "worker")),
    }


def _part_of(schedule: Schedule, folder: Path, what: str) -> HdrHistogram:
    """Of all workers: how long points waited for a connection, or were served."""
    numbers = range(schedule.spec.workers)
    logs = [run_folder.histogram_log(folder, f"worker-{number}.{what}") for number in numbers]
    return histograms.merged(log for log in logs if log)


@dataclass(frozen=True)
class _Worst:
    """The slowest of several nodes or loader hosts, by its 99th percentile in ms, and its count."""

    name: str
    p99_ms: float
    count: int

    @classmethod
    def of(
        cls, found: Sequence[Mapping[str, Any]], kind: str, name: str, least: int
    ) -> "_Worst | None":
        """The slowest of those with `least` points; None where there is nothing to tell apart."""
        judged = [each for each in found if each["count"] >= max(least, 1)]
        if len(found) < 2 or not judged:
            return None
        worst = max(judged, key=lambda each: float(each["p99_ms"]))
        return cls(f"{kind} {worst[name]}", worst["p99_ms"], worst["count"])

    @property
    def text(self) -> str:
        return f"{self.name} {self.p99_ms:,.1f} ms over {self.count:,} points"


def latency_part(
    found: dict[str, Any],
    limit_ms: float,
    *,
    acknowledges: bool = True,
    points_per_request: int = 1,
) -> Part:
    """99th percentile from the planned send time, after the warm-up; unknown if it is not of all.

    The worst node's and the worst loader host's are held against the limit too, if they had at
    least 100 requests; the figure is theirs where the whole is within it.

    Args:
        found: as of `of_load`.
        limit_ms: highest 99th percentile.
        acknowledges: whether the protocol does.
        points_per_request: of all sensors that share one, at most.
    """
    if problems := found["problems"]:
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        text = f"not all latencies are there: {'; '.join(problems[:_NAMED])}{more}"
        return Part(None, limit_ms, "ms", "unknown", text)
    p99_ms, count = found["p99_ms"], found["count"]
    if p99_ms is None:
        return Part(None, limit_ms, "ms", "unknown", "no latency was recorded after the warm-up")
    until = "" if acknowledges else " until handed to the socket"
    text = (
        f"99th percentile {p99_ms:,.1f} ms from the planned send time{until}, over {count:,} "
        f"points after the warm-up; 99.9th {found['p99_9_ms']:,.1f} ms, longest "
        f"{found['max_ms']:,.1f} ms"
    )
    least = LEAST_REQUESTS * points_per_request
    worst = [
        _Worst.of(found["nodes"], "node", "node", least),
        _Worst.of(found["hosts"], "loader host", "host", least),
    ]
    figure = p99_ms
    for each in filter(None, worst):
        text += f"; worst {each.text}"
        if p99_ms <= limit_ms:
            figure = max(figure, each.p99_ms)
    if p99_ms <= limit_ms < figure:
        text += f": above the limit of {limit_ms:,.0f} ms, which the whole hides"
    return Part(figure, limit_ms, "ms", "pass" if figure <= limit_ms else "fail", text)
