"""Why the loaders and not the store were the limit of a run."""

from typing import Any

from kairoscope.verdict import clocks, outcomes, waiting
from kairoscope.verdict.inputs import Inputs
from loaders.schedule.due import Schedule


def sent_late(run: Inputs, schedule: Schedule) -> tuple[list[str], float]:
    """Workers that sent late, a sentence each; and how late, in s, a point was sent at most."""
    limit_ms = run.plan.experiment.limits.send_error_p99_ms
    hosts = run.loader_names
    found, latest_us = [], 0
    for said in outcomes.finals(run.load, schedule.spec.workers):
        error_ms = said["send_error_us"]["p99"] / 1000
        latest_us = max(latest_us, said["send_error_us"]["max"])
        if error_ms > limit_ms:
            host = hosts[said["host"]] if said["host"] < len(hosts) else "?"
            found.append(
                f"loader: worker {said['worker']} on {host} sent late, 99th percentile "
                f"{error_ms:,.0f} ms (limit {limit_ms:,.0f} ms) over "
                f"{said['send_error_us']['count']:,} points"
            )
    return found, latest_us / 1e6


def other_limits(run: Inputs, schedule: Schedule, latency: dict[str, Any]) -> list[str]:
    """Why else the loader, not the store, was the limit: a clock, or too few connections."""
    waited = waiting.invalid(latency, schedule, run.plan.experiment.limits.p99_ms)
    set_since = clocks.off(run.loader_hosts, run.plan.experiment.limits.clock_offset_ms)
    return [*set_since, *([waited] if waited else [])]
