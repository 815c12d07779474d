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
    conditions,
    faults,
    followed,
    inputs,
    ledger,
    outcomes,
    remarks,
    sustained,
)
from kairoscope.verdict.disturbed import disturbances, on_the_machines, under_faults
from kairoscope.verdict.figures import measure, merged_latency, queries_document, settled
from kairoscope.verdict.incomplete import (
    machines_unseen,
    not_captured,
    only_server_ended,
    stopped_readers,
    stopped_workers,
)
from kairoscope.verdict.loader_limits import other_limits, sent_late, stood_still
from kairoscope.verdict.parts import five_parts
from kairoscope.verdict.settlement import Gap
from kairoscope.verdict.times import measured_window, times_of_load
from kairoscope.verdict.usage import Usage

ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What judging raises of a folder with what no run writes; of a run's own, a bug of ours."""

_KILLED = "the run did not come to its end: it was killed, or still goes on"


@dataclass
class Conclusion:
    """A verdict, and what it comes with.

    Attributes:
        times: when the load went on; see `times_of_load`.
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
    except ODD as error:
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
    latency = merged_latency(run, schedule, window)
    latency |= blocks.precision(schedule, blocks.latencies(schedule, window, folder))
    late, _ = sent_late(run, schedule)
    if limits := [*late, *other_limits(run, schedule, latency)]:
        return limits[0]
    seen = followed.of_run(schedule, run.load)
    parts, _, by_silence = five_parts(run, schedule, window, latency, found, book, seen)
    if by_silence and (still := stood_still(run, schedule)):
        return still[0]
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
        incomplete += [*stopped_workers(run, schedule), *stopped_readers(run, schedule)]
    if schedule is None:
        reasons = incomplete or ["the load never started"]
        return Conclusion(folder, sustained.verdict_of({}, [], reasons))
    window = measured_window(schedule, run.load)
    latency = merged_latency(run, schedule, window)
    by_block = blocks.latencies(schedule, window, folder)
    latency |= blocks.precision(schedule, by_block)
    found = outcomes.read(schedule, run.load)
    why = incomplete[0] if incomplete else "no read-back"
    book = settled(run, schedule, found) or ledger.not_read_back(ledger.open_ledger(found), why)
    sampled = list(run_folder.records(run.folder / run_folder.PROCESSES))
    machines = conditions.Machines(sampled, run.cpus, run.booted)
    condition = machines.within(*window)
    measured = measure(run, schedule, window, latency, found, book, sampled, condition)
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
        documents[run_folder.QUERIES] = queries_document(run, schedule, window, seen)
        asked_for = remarks.of_queries(documents[run_folder.QUERIES]["answers"])
    if run.facts.captured:
        incomplete += not_captured(run, schedule, window, measured)
        incomplete += machines_unseen(run, window, sampled)
    parts, of_steps, by_silence = five_parts(run, schedule, window, latency, found, book, seen)
    # What is lost is lost, whoever ended the server.
    if parts["readback"].outcome != "fail":
        incomplete += only_server_ended(run, schedule, window)
    limits = run.plan.experiment.limits
    late, latest_s = sent_late(run, schedule)
    # Where something else failed a loader that stood still is no reason for that.
    still = stood_still(run, schedule) if by_silence else []
    others = [*still, *other_limits(run, schedule, latency), *condition.not_ours(limits)]
    carried = run.carried
    others += faults.frozen_loaders(carried, run.loader_names)
    judged = sustained.verdict_of(parts, [*late, *others], incomplete)
    # A step's queue is of its own time, and no search has steps.
    if late and not others and not of_steps:
        judged.despite = sustained.despite_lateness(parts, latest_s, window[1] - window[0])
    judged.steps = of_steps
    judged.followed = followed.summary(seen) if seen else {}
    after = (
        faults.aftermaths(carried, under_faults(run, schedule, window, latency)) if carried else []
    )
    judged.faults = [each.to_json() for each in after]
    judged.happened += [
        *faults.remarks(after),
        *remarks.of_points(book),
        *remarks.of_losses(
            run_folder.records(run.folder / run_folder.COUNTERS), run.expected.losses
        ),
        *asked_for,
        *disturbances(run, schedule),
        *on_the_machines(run, schedule, window, sampled, condition),
    ]
    return Conclusion(folder, judged, times_of_load(schedule, window), documents, book.gaps)
