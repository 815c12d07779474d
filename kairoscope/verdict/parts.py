"""The five parts of a run's verdict, of its figures; and what each step of its load came to."""

from dataclasses import replace
from typing import Any

from kairoscope import run_folder
from kairoscope.verdict import (
    blocks,
    drain,
    faults,
    followed,
    latencies,
    outcomes,
    queue,
    steps,
    sustained,
    timely,
    waiting,
)
from kairoscope.verdict.figures import longest_silence
from kairoscope.verdict.inputs import Inputs
from kairoscope.verdict.ledger import Ledger
from kairoscope.verdict.outcomes import Outcomes
from loaders.schedule.due import Schedule

_REPLAYED = "history has no planned send times: it is sent as fast as it is acknowledged"


def five_parts(
    run: Inputs,
    schedule: Schedule,
    window: tuple[float, float],
    latency: dict[str, Any],
    found: Outcomes,
    book: Ledger,
    seen: dict[str, Any] | None,
) -> tuple[dict[str, sustained.Part], list[dict[str, Any]], bool]:
    """The five parts of the verdict; of a load of several rates what each step came to; and whether
    a silence that was too long is all that failed."""
    limits = run.plan.experiment.limits
    spec = schedule.spec
    due = timely.due_after_warmup(schedule)
    quiet = longest_silence(run, schedule)
    told = queue.looks(run_folder.records(run.folder / run_folder.QUEUE), run.kairosdb)
    # As it is, and as it would be but for the silence.
    arrived, calm = (
        timely.schedule_part(book, found.counts, due, silence, limits, replay=spec.replay)
        for silence in (quiet, replace(quiet, seconds=0.0) if quiet else None)
    )
    of_steps: list[dict[str, Any]] = []
    if spec.replay:
        fast = sustained.not_judged(limits.p99_ms, "ms", _REPLAYED)
        why = f"a replay fills the queue as far as {spec.replay_queue_points:,} points a node"
        if not spec.replay_queue_points:
            why = "a replay fills the queue"
        steady = sustained.not_judged(limits.queue_growth, queue.UNIT, why)
    else:
        fast = latencies.latency_part(
            latency,
            limits.p99_ms,
            acknowledges=spec.acknowledges,
            points_per_request=_points_per_request(schedule),
        )
        fast = blocks.with_precision(fast, latency)
        if fast.outcome == "fail":
            fast.text += waiting.note(latency, schedule, limits.p99_ms)
        each = steps.of(schedule)
        grown = _grown(run, schedule, each, told)
        steady = steps.worst(None, each, grown) if len(each) > 1 else grown[0]
        if len(each) > 1:
            in_time = outcomes.in_time_by_step(schedule, run.load)
            timed = steps.in_time_parts(each, in_time, limits)
            quick = steps.latency_parts(schedule, each, run.folder, limits)
            arrived, calm = (steps.worst(part, each, timed) for part in (arrived, calm))
            fast = steps.worst(fast, each, quick)
            of_steps = steps.documents(each, {"schedule": timed, "latency": quick, "queue": grown})
    wrong_answers = 0
    if spec.queries is not None:
        answers = outcomes.answers(run.load, spec.hosts)
        arrived, calm = (timely.with_queries(part, answers, limits) for part in (arrived, calm))
        wrong_answers = int(answers["wrong"]) + (seen["wrong"] if seen else 0)
    last_due = window[1] if spec.replay else spec.end_ms / 1000
    ends = [said["ended_ms"] / 1000 for said in outcomes.finals(run.load, spec.workers)]
    parts = {
        "schedule": arrived,
        "latency": fast,
        "queue": steady,
        "drain": drain.drain_part(
            run.facts.drain, told, last_due, max([last_due, *ends]), limits.drain_s
        ),
        "readback": sustained.readback_part(
            book, wrong_answers, _unseen_replicas(run), followed.in_words(seen)
        ),
    }
    # What such servers, or such a protocol, cannot tell.
    for name, why in run.expected.not_judged.items():
        parts[name] = sustained.not_judged(parts[name].limit, parts[name].unit, why)
    failed = [name for name, part in parts.items() if part.outcome == "fail"]
    return parts, of_steps, failed == ["schedule"] and calm.outcome != "fail"


def _grown(
    run: Inputs, schedule: Schedule, each: list[steps.Step], told: dict[str, queue.Looks]
) -> list[sustained.Part]:
    """The part *queue* of each step."""
    processes = list(run_folder.records(run.folder / run_folder.PROCESSES))
    carried = run.carried
    excused = {
        node: queue.replaced(processes, node) + faults.stood_still(carried, node)
        for node in run.kairosdb
    }
    limit = run.plan.experiment.limits.queue_growth
    return steps.queue_parts(
        schedule, each, run.plan.held_s, limit, lambda asked: queue.queue_part(told, asked, excused)
    )


def _unseen_replicas(run: Inputs) -> int:
    """Replicas beside the one that a read-back asked of each point; 0 if it asked a majority."""
    if run.plan.kairosdb.get("read_consistency") not in ("ONE", "LOCAL_ONE"):
        return 0
    return run.plan.experiment.cluster.replication_factor - 1


def _points_per_request(schedule: Schedule) -> int:
    """Points of the largest request."""
    workers = range(schedule.spec.workers)
    largest = max(len(group.slots) for worker in workers for group in schedule.groups(worker))
    return largest * schedule.spec.points_per_request
