"""The figures of a run, of the files that it has: latency, queries, ledger, measurements."""

from typing import Any

from kairoscope.verdict import (
    conditions,
    latencies,
    ledger,
    measurements,
    outcomes,
    settlement,
    timely,
)
from kairoscope.verdict.inputs import Inputs
from kairoscope.verdict.ledger import Ledger
from kairoscope.verdict.outcomes import Outcomes
from kairoscope.verdict.settlement import ReadBack
from loaders.schedule.due import Schedule


def settled(run: Inputs, schedule: Schedule, found: Outcomes) -> Ledger | None:
    """The ledger of what the folder says was read back; None if nothing was."""
    read_back = ReadBack.read(schedule, run.folder)
    if read_back is None:
        return None
    left = run.facts.drain.left if run.facts.drain else None
    return ledger.balance(found, read_back, left, settlement.failed_points(run.folder))


def longest_silence(run: Inputs, schedule: Schedule) -> timely.Silence | None:
    """The longest silence of the load; a replay has none, as nothing is due at a time."""
    if schedule.spec.replay:
        return None
    return timely.silence(outcomes.finals(run.load, schedule.spec.workers), run.kairosdb)


def merged_latency(run: Inputs, schedule: Schedule, window: tuple[float, float]) -> dict[str, Any]:
    """The content of latency/merged.json."""
    return latencies.of_load(schedule, window, run.folder, run.kairosdb, run.loader_names)


def queries_document(
    run: Inputs, schedule: Schedule, window: tuple[float, float], seen: dict[str, Any] | None
) -> dict[str, Any]:
    """What became of the queries beside the load and how long they took; and of what was
    followed."""
    return {
        "answers": outcomes.answers(run.load, schedule.spec.hosts),
        "latency": latencies.of_queries(schedule, window, run.folder),
        **({"followed": seen} if seen else {}),
    }


def measure(
    run: Inputs,
    schedule: Schedule,
    window: tuple[float, float],
    latency: dict[str, Any],
    found: Outcomes,
    book: Ledger,
    sampled: list[dict[str, Any]],
    condition: conditions.Conditions,
) -> dict[str, Any]:
    """The content of measurements.json."""
    spec = schedule.spec
    workers = outcomes.finals(run.load, spec.workers)
    length = window[1] - window[0]
    quiet = longest_silence(run, schedule)
    if not spec.replay:
        due = timely.due_after_warmup(schedule)
        rate: dict[str, float | None] = {
            "target": due / length,
            "achieved": found.counts.in_time / length,
        }
    else:
        arrived = found.counts.acknowledged if spec.acknowledges else found.counts.sent
        rate = {"target": None, "achieved": arrived / length if length else None}
    return {
        **measurements.measurements(
            sampled,
            window,
            latency["count"],
            condition,
            rate,
            {**run.facts.disk_bytes, "points": book.rows_expected},
            run.plan.experiment.cluster.replication_factor,
            (sum(w["cpu_s"] for w in workers), sum(w["sent"] for w in workers)),
        ),
        "arrived_t": outcomes.last_arrived(run.load, spec.workers),
        "longest_silence": quiet.to_json() if quiet else None,
        "kairosdb_nodes": measurements.node_balance(run.kairosdb, schedule, found),
    }
