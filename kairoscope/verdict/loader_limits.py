"""Why the loaders and not the store were the limit of a run."""

from typing import Any

from kairoscope import run_folder
from kairoscope.verdict import clocks, outcomes, waiting
from kairoscope.verdict.figures import longest_silence
from kairoscope.verdict.inputs import Inputs
from loaders.record import files
from loaders.schedule.due import Schedule

_TOLD_WITHIN_S = 2
"""A worker tells once a second how late it was."""


def sent_late(run: Inputs, schedule: Schedule) -> tuple[list[str], float]:
    """Workers that sent late, a sentence each; and how late, in s, a point was sent at most."""
    limit_ms = run.plan.experiment.limits.send_error_p99_ms
    found, latest_us = _stood_still(run, schedule), 0
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


def _stood_still(run: Inputs, schedule: Schedule) -> list[str]:
    """A worker whose own lateness is what the longest silence was too long by.

    It may have been stopped for a moment, or swapped out: too short to be late in its 99th
    percentile, and no silence of the servers.
    """
    quiet, limit_s = longest_silence(run, schedule), run.plan.experiment.limits.longest_silence_s
    if quiet is None or quiet.from_t is None or quiet.seconds <= limit_s:
        return []
    told_by = quiet.from_t + quiet.seconds + _TOLD_WITHIN_S
    late_ms = [
        said["behind_ms"]
        for said in run_folder.records(files.progress_path(run.load, quiet.worker))
        if quiet.from_t <= said["t"] <= told_by
    ]
    late_s = max(late_ms, default=0.0) / 1000
    if quiet.seconds - late_s > limit_s:
        return []
    return [
        f"loader: {_who(run, schedule, quiet.worker)} stood still: when none of its points was "
        f"acknowledged for {quiet.seconds:,.1f} s (limit {limit_s:g} s) it sent up to "
        f"{late_s:,.1f} s late by itself"
    ]


def _who(run: Inputs, schedule: Schedule, worker: int) -> str:
    host, hosts = worker // schedule.spec.workers_per_host, run.loader_names
    return f"worker {worker} on {hosts[host] if host < len(hosts) else '?'}"


def other_limits(run: Inputs, schedule: Schedule, latency: dict[str, Any]) -> list[str]:
    """Why else the loader, not the store, was the limit: a clock, or too few connections."""
    waited = waiting.invalid(latency, schedule, run.plan.experiment.limits.p99_ms)
    set_since = clocks.off(run.loader_hosts, run.plan.experiment.limits.clock_offset_ms)
    return [*set_since, *([waited] if waited else [])]
