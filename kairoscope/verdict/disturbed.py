"""What disturbed a run: faults on purpose, processes that ended, others on the machines."""

from typing import Any

from kairoscope import run_folder
from kairoscope.verdict import clocks, conditions, faults, idle, outcomes, queue, timely
from kairoscope.verdict.inputs import Inputs
from kairoscope.verdict.times import load_start
from loaders.record import files
from loaders.schedule.due import Schedule


def under_faults(
    run: Inputs, schedule: Schedule, window: tuple[float, float], latency: dict[str, Any]
) -> faults.Seen:
    """The load as far as its faults are judged by it."""
    finals = outcomes.finals(run.load, schedule.spec.workers)
    spans = [said["silence"]["long"] for said in finals if said["scheduled"]]
    depths = queue.looks(run_folder.records(run.folder / run_folder.QUEUE), run.kairosdb)
    return faults.Seen(
        schedule.spec.start_ms / 1000,
        *window,
        {int(second["t"]): float(second["p99"]) for second in latency["intervals"]},
        {} if "queue" in run.expected.not_judged else depths,
        timely.together(spans) if len(finals) == schedule.spec.workers else None,
        timely.due_after_warmup(schedule) / (window[1] - window[0]),
    )


def on_the_machines(
    run: Inputs,
    schedule: Schedule,
    window: tuple[float, float],
    sampled: list[dict[str, Any]],
    condition: conditions.Conditions,
) -> list[str]:
    """Sentences on clocks that were set, storage nodes that stood still, what others did, and in
    what state the load found the servers."""
    limits, start = run.plan.experiment.limits, load_start(schedule, window)
    return [
        *clocks.moved(run.loader_hosts, limits.clock_offset_ms),
        *idle.remarks(sampled, start, window[1]),
        *condition.named(limits),
        *conditions.speed_changed(run.conditions),
        *conditions.at_start(run.conditions, start),
    ]


def disturbances(run: Inputs, schedule: Schedule) -> list[str]:
    """Sentences on processes that ended (and were started again) while the run went on, and on
    servers that workers took for down.

    Whatever the word: nobody should take a run with a crash in it for an undisturbed one.
    """
    sentences = []
    ended = {
        e["detail"].split(":")[0]
        for e in run_folder.records(run.folder / run_folder.EVENTS)
        if e["what"] in ("process ended", "process started again")
    }
    if ended:
        sentences.append(f"During the run ended: {', '.join(sorted(ended))}")
    down = {
        run.kairosdb[event.node]
        for event in outcomes.node_events(schedule.spec.workers, run.load)
        if event.event == files.NODE_DOWN
    }
    if down:
        sentences.append(f"Loaders failed over from: {', '.join(sorted(down))}")
    return sentences
