"""Why the loaders and not the store were the limit of a run."""

from typing import Any

from kairoscope import run_folder
from kairoscope.verdict import clocks, outcomes, waiting
from kairoscope.verdict.inputs import Inputs
from loaders.record import files
from loaders.schedule.due import Schedule


def sent_late(run: Inputs, schedule: Schedule) -> tuple[list[str], float]:
    """Workers that sent late, a sentence each; and how late, in s, a point was sent at most."""
    limit_ms = run.plan.experiment.limits.send_error_p99_ms
    found, latest_us = [], 0
    for said in outcomes.finals(run.load, schedule.spec.workers):
        error_ms = said["send_error_us"]["p99"] / 1000
        latest_us = max(latest_us, said["send_error_us"]["max"])
        if error_ms > limit_ms:
            found.append(
                f"loader: {_who(run, schedule, said['worker'])} sent late, 99th percentile "
                f"{error_ms:,.0f} ms (limit {limit_ms:,.0f} ms) over "
                f"{said['send_error_us']['count']:,} points"
            )
    return found, latest_us / 1e6


def stood_still(run: Inputs, schedule: Schedule) -> list[str]:
    """Workers whose own lateness is what their silences were too long by, a sentence each.

    They may have been stopped for a moment, or swapped out: too short to be late in their 99th
    percentile, and no silence of the servers. None, if of any silence that was too long that is not
    known: it has to be most of it, as a worker is a little late now and then whatever the servers
    do; and what is left of it has to be within the limit.
    """
    limit_s = run.plan.experiment.limits.longest_silence_s
    found = []
    for said in outcomes.finals(run.load, schedule.spec.workers):
        told = list(run_folder.records(files.progress_path(run.load, said["worker"])))
        silences = [
            (last - first, _late_within(told, first, last))
            for first, last in _spans(said["silence"])
            if last - first > limit_s
        ]
        if any(late_s <= long_s / 2 or long_s - late_s > limit_s for long_s, late_s in silences):
            return []
        if silences:
            long_s, late_s = max(silences)
            found.append(
                f"loader: {_who(run, schedule, said['worker'])} stood still: none of its points "
                f"was acknowledged for {long_s:,.1f} s (limit {limit_s:g} s), and for "
                f"{late_s:,.1f} s of these it was late by itself"
            )
    return found


def _spans(silence: dict[str, Any]) -> list[tuple[float, float]]:
    """The silences of a worker, over all its points and those of each node, epoch s."""
    found = []
    for line in (silence, *silence["by_node"]):
        if line["from_t"] is not None:
            found.append((line["from_t"], line["from_t"] + line["longest_s"]))
        found += [(first, last) for first, last in line["long"]]
    return found


def _late_within(told: list[dict[str, Any]], first: float, last: float) -> float:
    """How long of a span (epoch s) a worker was late by itself at least, in s.

    It tells once a second how late what it began was at most, or what it has not begun. What is
    told later counts as far as it was in the span for certain: the servers' answers, when they come
    all at once, make a worker late as well.
    """
    late = 0.0
    for said in told:
        since = max(said["t"] - said["behind_ms"] / 1000, first)
        late = max(late, min(said["t"], last) - since)
    return late


def _who(run: Inputs, schedule: Schedule, worker: int) -> str:
    host, hosts = worker // schedule.spec.workers_per_host, run.loader_names
    return f"worker {worker} on {hosts[host] if host < len(hosts) else '?'}"


def other_limits(run: Inputs, schedule: Schedule, latency: dict[str, Any]) -> list[str]:
    """Why else the loader, not the store, was the limit: a clock, or too few connections."""
    waited = waiting.invalid(latency, schedule, run.plan.experiment.limits.p99_ms)
    set_since = clocks.off(run.loader_hosts, run.plan.experiment.limits.clock_offset_ms)
    return [*set_since, *([waited] if waited else [])]
