"""What a run came to: from the files of its folder to measurements, ledger and verdict.

A function of the folder alone: judged again, elsewhere and later, it says the same. Works from
whatever there is, so that a run that was interrupted gets a verdict as well.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.verdict import (
    blocks,
    clocks,
    completeness,
    conditions,
    drain,
    faults,
    followed,
    idle,
    inputs,
    latencies,
    ledger,
    measurements,
    outcomes,
    queue,
    remarks,
    settlement,
    steps,
    sustained,
    timely,
    waiting,
)
from kairoscope.verdict.inputs import Inputs
from kairoscope.verdict.ledger import Ledger
from kairoscope.verdict.outcomes import Outcomes
from kairoscope.verdict.settlement import Gap, ReadBack
from kairoscope.verdict.usage import Usage
from loaders.record import files
from loaders.schedule.due import Schedule

_REPLAYED = "history has no planned send times: it is sent as fast as it is acknowledged"
_KILLED = "the run did not come to its end: it was killed, or still goes on"


@dataclass
class Conclusion:
    """A verdict, and what it comes with.

    Attributes:
        times: when the load went on; see `_times`.
        documents: of the run folder, by their name in it.
        gaps: of the ledger.
    """

    folder: Path
    verdict: sustained.Verdict
    times: dict[str, Any] | None = None
    documents: dict[str, Any] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)

    def write(self) -> None:
        """Put the results in the folder, in place of those of an earlier verdict.

        OSError if one cannot be written; those of the earlier verdict stay then.
        """
        files = {
            self.folder / name: run_folder.json_text(document)
            for name, document in self.documents.items()
        }
        if self.gaps:
            gaps = (gap.whole() for gap in self.gaps)
            files[self.folder / run_folder.LEDGER_GAPS] = run_folder.lines_text(gaps)
        # The last: who finds it finds what it rests on.
        verdict = self.verdict.to_json()
        files[self.folder / run_folder.VERDICT] = run_folder.json_text(verdict)
        run_folder.replace(files)
        for name in run_folder.RESULTS:
            if self.folder / name not in files:
                (self.folder / name).unlink(missing_ok=True)


def again(folder: Path) -> Conclusion:
    """Judge a run folder of whatever origin, and put the results in the place of the old ones.

    Raises:
        UserError: it cannot be judged, or not be written. Results that are there stay then.
    """
    try:
        conclusion = judge(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be judged, as it cannot be read: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{folder}: cannot be judged, as a file in it is not what a run writes: {error!r}"
        ) from error
    try:
        conclusion.write()
    except OSError as error:
        raise UserError(f"The results could not be written to {folder}: {error}") from error
    return conclusion


def failing(folder: Path) -> str | None:
    """Why a load that has ended cannot pass, whatever is read back; None if it still can."""
    run = inputs.read(folder)
    schedule = run.schedule
    if schedule is None:
        return None
    window = measured_window(schedule, run.load)
    found = outcomes.read(schedule, run.load)
    book = ledger.not_read_back(ledger.open_ledger(found), "not yet")
    latency = _latency(run, schedule, window)
    latency |= blocks.precision(schedule, blocks.latencies(schedule, window, folder))
    late, _ = _sent_late(run, schedule)
    if limits := [*late, *_loader_limits(run, schedule, latency)]:
        return limits[0]
    seen = followed.of_run(schedule, run.load)
    parts, _ = _parts(run, schedule, window, latency, found, book, seen)
    failed = [part.text for part in parts.values() if part.outcome == "fail"]
    return failed[0] if failed else None


def judge(folder: Path) -> Conclusion:
    """The verdict from what is in the run folder, with what it rests on; nothing is written.

    Raises:
        UserError: it is no run folder, or what a verdict needs of it is missing or cut off.
    """
    run = inputs.read(folder)
    incomplete = [*([] if run.facts.ended else [_KILLED]), *run.facts.incomplete]
    schedule = run.schedule
    if schedule is not None:
        incomplete += _stopped(run, schedule)
    if schedule is None:
        reasons = incomplete or ["the load never started"]
        return Conclusion(folder, sustained.judge({}, [], reasons))
    window = measured_window(schedule, run.load)
    latency = _latency(run, schedule, window)
    by_block = blocks.latencies(schedule, window, folder)
    latency |= blocks.precision(schedule, by_block)
    found = outcomes.read(schedule, run.load)
    why = incomplete[0] if incomplete else "no read-back"
    book = settled(run, schedule, found) or ledger.not_read_back(ledger.open_ledger(found), why)
    sampled = list(run_folder.records(run.folder / run_folder.PROCESSES))
    machines = conditions.Machines(sampled, run.cpus, run.booted)
    condition = machines.within(*window)
    measured = _measurements(run, schedule, window, latency, found, book, sampled, condition)
    captured = blocks.Captured(
        Usage(sampled),
        machines,
        list(run_folder.records(folder / run_folder.QUEUE)),
        run.load,
        len(run.kairosdb),
    )
    documents = {
        run_folder.LATENCY_MERGED: latency,
        run_folder.LEDGER: book.to_json(),
        run_folder.MEASUREMENTS: measured,
        run_folder.BLOCKS: blocks.document(schedule, by_block, run.plan.held_s, folder, captured),
    }
    asked_for, seen = list[str](), followed.of_run(schedule, run.load)
    if schedule.spec.queries is not None:
        documents[run_folder.QUERIES] = _queries(run, schedule, window, seen)
        asked_for = remarks.of_queries(documents[run_folder.QUERIES]["answers"])
    if run.facts.captured:
        incomplete += _not_captured(run, schedule, window, measured)
    parts, of_steps = _parts(run, schedule, window, latency, found, book, seen)
    # What is lost is lost, whoever ended the server.
    if parts["readback"].outcome != "fail":
        incomplete += _only_server_ended(run, schedule, window)
    limits = run.plan.experiment.limits
    late, latest_s = _sent_late(run, schedule)
    others = [*_loader_limits(run, schedule, latency), *condition.not_ours(limits)]
    carried = _carried(run)
    others += faults.frozen_loaders(carried, _loader_hosts(run))
    judged = sustained.judge(parts, [*late, *others], incomplete)
    # A step's queue is of its own time, and no search has steps.
    if late and not others and not of_steps:
        judged.despite = sustained.despite_lateness(parts, latest_s, window[1] - window[0])
    judged.steps = of_steps
    judged.followed = followed.summary(seen) if seen else {}
    came_to = (
        faults.judge(carried, _under_faults(run, schedule, window, latency)) if carried else []
    )
    judged.faults = [each.to_json() for each in came_to]
    judged.happened += [
        *faults.remarks(came_to),
        *remarks.of_points(book),
        *remarks.of_losses(
            run_folder.records(run.folder / run_folder.COUNTERS), run.expected.losses
        ),
        *asked_for,
        *_disturbances(run, schedule),
        *_on_the_machines(run, schedule, window, sampled, condition),
    ]
    return Conclusion(folder, judged, _times(schedule, window), documents, book.gaps)


def _carried(run: Inputs) -> list[faults.Happened]:
    return faults.happened(run_folder.records(run.folder / run_folder.FAULTS))


def _under_faults(
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


def _load_start(schedule: Schedule, window: tuple[float, float]) -> float:
    """When the first point was sent, epoch s."""
    return window[0] if schedule.spec.replay else schedule.spec.start_ms / 1000


def _times(schedule: Schedule, window: tuple[float, float]) -> dict[str, Any] | None:
    """When the load went on (epoch ms), and for a replay which time its points are of.

    None if that is not known.
    """
    spec = schedule.spec
    planned = {"start_ms": spec.start_ms, "end_ms": spec.end_ms}
    if not spec.replay:
        return planned
    start, end = window
    if not end:
        return None
    return {"start_ms": round(start * 1000), "end_ms": round(end * 1000), "history": planned}


def settled(run: Inputs, schedule: Schedule, found: Outcomes) -> Ledger | None:
    """The ledger of what the folder says was read back; None if nothing was."""
    read_back = ReadBack.read(schedule, run.folder)
    if read_back is None:
        return None
    left = run.facts.drain.left if run.facts.drain else None
    return ledger.balance(found, read_back, left, settlement.failed_points(run.folder))


def _not_captured(
    run: Inputs, schedule: Schedule, window: tuple[float, float], measured: dict[str, Any]
) -> list[str]:
    """What of the store and its processes is not known though it should be; see `completeness`."""
    spec = schedule.spec
    load_s = window[1] - window[0] if spec.replay else spec.duration_s
    disk = dict(run.facts.disk_bytes)
    capture, expected = run.plan.experiment.capture, run.expected
    removed = set(run.facts.removed)
    # What was down or stood still on purpose could not be asked, or has forgotten.
    carried = _carried(run)
    disturbed = removed.union(*(fault.hosts for fault in carried))
    if removed & set(run.storage) or not expected.disk:
        # Of a node taken away its data went to the others, and its folder with it.
        disk = dict.fromkeys(disk, 0)

    def there(names: list[str], without: set[str] = disturbed) -> list[str]:
        return [name for name in names if name not in without]

    long_enough = window[1] - window[0] > 2 * capture.shards_every_s + completeness.GRACE_S
    wanted = completeness.Wanted(
        there(expected.proxyhistograms),
        there(expected.processes, removed),
        completeness.phases(load_s, capture.proxyhistograms_every_s),
        # A window too short for two looks has none due.
        there(expected.shards) if long_enough else (),
        there(expected.counters) if long_enough else (),
        # A replay has no time that was known before, to look at its begin.
        there(expected.window) if not spec.replay else (),
    )
    captures = run.folder / run_folder.CAPTURES
    counted = run.folder / run_folder.STORE_WINDOW
    return completeness.missing(
        wanted,
        run_folder.read_json(captures) if captures.exists() else [],
        run_folder.records(run.folder / run_folder.EVENTS),
        measured["cpu_cores"],
        measurements.shards_seen(run_folder.records(run.folder / run_folder.SHARDS), *window),
        disk,
        measurements.looked_twice(run_folder.records(run.folder / run_folder.COUNTERS), *window),
        run_folder.read_object(counted).get("nodes", {}) if counted.exists() else (),
    )


def _parts(
    run: Inputs,
    schedule: Schedule,
    window: tuple[float, float],
    latency: dict[str, Any],
    found: Outcomes,
    book: Ledger,
    seen: dict[str, Any] | None,
) -> tuple[dict[str, sustained.Part], list[dict[str, Any]]]:
    """The five parts of the verdict, and of a load of several rates what each step came to."""
    limits = run.plan.experiment.limits
    spec = schedule.spec
    due = timely.due_after_warmup(schedule)
    quiet = _silence(run, schedule)
    told = queue.looks(run_folder.records(run.folder / run_folder.QUEUE), run.kairosdb)
    arrived = timely.schedule_part(book, found.counts, due, quiet, limits, replay=spec.replay)
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
            timed = steps.timely_parts(schedule, each, run.folder, limits)
            arrived = steps.worst(arrived, each, [in_time for in_time, _ in timed])
            fast = steps.worst(fast, each, [quick for _, quick in timed])
            names = ("schedule", "latency", "queue")
            lists = ([in_time for in_time, _ in timed], [quick for _, quick in timed], grown)
            of_steps = steps.documents(each, dict(zip(names, lists, strict=True)))
    wrong_answers = 0
    if spec.queries is not None:
        answers = outcomes.answers(run.load, spec.hosts)
        arrived = timely.with_queries(arrived, answers, limits)
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
    return parts, of_steps


def _grown(
    run: Inputs, schedule: Schedule, each: list[steps.Step], told: dict[str, queue.Looks]
) -> list[sustained.Part]:
    """The part *queue* of each step."""
    processes = list(run_folder.records(run.folder / run_folder.PROCESSES))
    carried = _carried(run)
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


def _on_the_machines(
    run: Inputs,
    schedule: Schedule,
    window: tuple[float, float],
    sampled: list[dict[str, Any]],
    condition: conditions.Conditions,
) -> list[str]:
    """Sentences on clocks that were set, storage nodes that stood still, what others did, and in
    what state the load found the servers."""
    limits, start = run.plan.experiment.limits, _load_start(schedule, window)
    return [
        *clocks.moved(_hosts(run), limits.clock_offset_ms),
        *idle.remarks(sampled, start, window[1]),
        *condition.named(limits),
        *conditions.speed_changed(run.conditions),
        *conditions.at_start(run.conditions, start),
    ]


def _disturbances(run: Inputs, schedule: Schedule) -> list[str]:
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


def _only_server_ended(run: Inputs, schedule: Schedule, window: tuple[float, float]) -> list[str]:
    """Of a system that is one server: that it ended in mid-load by itself, or by another hand.

    Its figures are of its start as well as of the load then. What was planned, and a kill behind
    the load, are what such a run is about (docs/systems.md).
    """
    if run.storage:
        return []
    planned = {host for fault in _carried(run) for host in fault.hosts}
    if planned & set(run.kairosdb):
        return []
    killed = run.folder / run_folder.KILLED
    end = min(window[1], run_folder.read_object(killed)["t"] if killed.exists() else window[1])
    ended = {
        e["detail"].split(":")[0]
        for e in run_folder.records(run.folder / run_folder.EVENTS)
        if e["what"] in ("process ended", "process started again")
        and _load_start(schedule, window) <= e["t"] < end
    }
    if not ended:
        return []
    return [
        f"{', '.join(sorted(ended))} ended while it took the load, and nobody had planned it: the "
        "figures are of its start as well"
    ]


def _hosts(run: Inputs) -> list[dict[str, Any]]:
    """What is known of the loader hosts, in order."""
    path = run.folder / run_folder.LOAD_HOSTS
    return list(run_folder.read_json(path)) if path.exists() else []


def _loader_hosts(run: Inputs) -> list[str]:
    """Names of the loader hosts, in order."""
    return [host["host"] for host in _hosts(run)]


def _stopped(run: Inputs, schedule: Schedule) -> list[str]:
    """Workers that somebody ended before their schedule did: what they lack is not the store's."""
    early = [s for s in outcomes.finals(run.load, schedule.spec.workers) if s["stopped_early"]]
    if not early:
        return []
    which = ", ".join(str(said["worker"]) for said in early)
    left = sum(said["not_sent"] for said in early)
    return [
        f"loader worker{'s' * (len(early) > 1)} {which} stopped before the end of the schedule: "
        f"{left:,} points not sent"
    ]


def _silence(run: Inputs, schedule: Schedule) -> timely.Silence | None:
    """The longest silence of the load; a replay has none, as nothing is due at a time."""
    if schedule.spec.replay:
        return None
    return timely.silence(outcomes.finals(run.load, schedule.spec.workers), run.kairosdb)


def _latency(run: Inputs, schedule: Schedule, window: tuple[float, float]) -> dict[str, Any]:
    """The content of latency/merged.json."""
    return latencies.of_load(schedule, window, run.folder, run.kairosdb, _loader_hosts(run))


def _points_per_request(schedule: Schedule) -> int:
    """Points of the largest request."""
    workers = range(schedule.spec.workers)
    largest = max(len(group.slots) for worker in workers for group in schedule.groups(worker))
    return largest * schedule.spec.points_per_request


def _sent_late(run: Inputs, schedule: Schedule) -> tuple[list[str], float]:
    """Workers that sent late, a sentence each; and how late, in s, a point was sent at most."""
    limit_ms = run.plan.experiment.limits.send_error_p99_ms
    hosts = _loader_hosts(run)
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


def _loader_limits(run: Inputs, schedule: Schedule, latency: dict[str, Any]) -> list[str]:
    """Why else the loader, not the store, was the limit: a clock, or too few connections."""
    waited = waiting.invalid(latency, schedule, run.plan.experiment.limits.p99_ms)
    set_since = clocks.off(_hosts(run), run.plan.experiment.limits.clock_offset_ms)
    return [*set_since, *([waited] if waited else [])]


def _queries(
    run: Inputs, schedule: Schedule, window: tuple[float, float], seen: dict[str, Any] | None
) -> dict[str, Any]:
    """What became of the queries beside the load and how long they took; and of what was
    followed."""
    return {
        "answers": outcomes.answers(run.load, schedule.spec.hosts),
        "latency": latencies.of_queries(schedule, window, run.folder),
        **({"followed": seen} if seen else {}),
    }


def measured_window(schedule: Schedule, folder: Path) -> tuple[float, float]:
    """Epoch seconds of the measured part of the load: after the warm-up, to the last point; of a
    replay all of it. `folder` has the workers' files."""
    spec = schedule.spec
    if not spec.replay:
        return schedule.timestamp_ms(0, spec.warmup_ticks) / 1000, spec.end_ms / 1000
    seen: list[float] = []
    for worker in range(spec.workers):
        said = list(run_folder.records(files.progress_path(folder, worker)))
        seen += [record["t"] for record in (said[:1] + said[-1:])]
    for final in outcomes.finals(folder, spec.workers):
        seen += [final["started_ms"] / 1000, final["ended_ms"] / 1000]
    return min(seen, default=0.0), max(seen, default=0.0)


def _measurements(
    run: Inputs,
    schedule: Schedule,
    window: tuple[float, float],
    latency: dict[str, Any],
    found: Outcomes,
    book: Ledger,
    sampled: list[dict[str, Any]],
    condition: conditions.Conditions,
) -> dict[str, Any]:
    spec = schedule.spec
    workers = outcomes.finals(run.load, spec.workers)
    length = window[1] - window[0]
    quiet = _silence(run, schedule)
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
        "longest_silence": quiet.to_json() if quiet else None,
        "kairosdb_nodes": measurements.node_balance(run.kairosdb, schedule, found),
    }
