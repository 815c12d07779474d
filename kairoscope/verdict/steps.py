"""A load of several rates, each judged alone. Pure arithmetic of the run folder's files.

Over all steps together a figure says nothing: a step of the rate is a step of the queue's depth,
and a percentile hides a slow step behind many fast ones. So each has its own queue (from one window
after its start), its own latencies and its own share in time, and the worst counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.experiment.schema.limits import Limits
from kairoscope.verdict.queue import UNIT, Asked
from kairoscope.verdict.sustained import Outcome, Part
from loaders.record import histograms
from loaders.schedule.due import Schedule

# The gravest first.
_GRAVITY = ("fail", "unknown", "undecided", "pass", "not judged")


@dataclass(frozen=True)
class Step:
    """One rate of a load, as far as it is measured.

    Attributes:
        number: from 1.
        rate: points/s of each sensor.
        window: epoch s, without the warm-up.
        due: points due in it.
    """

    number: int
    rate: float
    window: tuple[float, float]
    due: int

    @property
    def name(self) -> str:
        """For sentences."""
        return f"step {self.number} ({self.rate:g} points/s)"


def of(schedule: Schedule) -> list[Step]:
    """The steps of a load; those that are warm-up alone are left out."""
    spec = schedule.spec
    warm_ms = schedule.timestamp_ms(0, spec.warmup_ticks)
    found = []
    start_ms = spec.start_ms
    for number, step in enumerate(spec.steps, 1):
        end_ms = start_ms + step.ticks * step.period_ms
        begin_ms = max(start_ms, warm_ms)
        if begin_ms < end_ms:
            due = sum(
                schedule.due(worker, end_ms - 1) - schedule.due(worker, begin_ms - 1)
                for worker in range(spec.workers)
            )
            window = (begin_ms / 1000, end_ms / 1000)
            found.append(Step(number, 1000 / step.period_ms, window, due))
        start_ms = end_ms
    return found


def asked(step: Step, start_s: float, queue_window_s: float, limit: float) -> Asked:
    """Of what growth of the queue is asked in a step.

    The queue takes a window to have as much as the step's rate fills it with; `start_s`: of the
    step or load, warm-up included.
    """
    begin, end = step.window
    rate = step.due / (end - begin)
    return Asked((min(max(begin, start_s + queue_window_s), end), end), rate, queue_window_s, limit)


def starts(schedule: Schedule, steps: Sequence[Step]) -> list[float]:
    """When each step began, warm-up included; epoch s."""
    spec = schedule.spec
    all_starts = [spec.start_ms]
    for step in spec.steps:
        all_starts.append(all_starts[-1] + step.ticks * step.period_ms)
    return [all_starts[step.number - 1] / 1000 for step in steps]


def queue_parts(
    schedule: Schedule,
    steps: Sequence[Step],
    queue_window_s: float,
    limit: float,
    part: Callable[[Asked], Part],
) -> list[Part]:
    """The part *queue* of each step; `part` makes it of what is asked."""
    found = []
    for step, start in zip(steps, starts(schedule, steps), strict=True):
        what = asked(step, start, queue_window_s, limit)
        if what.length_s <= 0:
            text = (
                f"undecided: the step is not longer than the queue's window of {queue_window_s:g} s"
            )
            found.append(Part(None, limit, UNIT, "undecided", text))
        else:
            found.append(part(what))
    return found


def in_time_parts(
    steps: Sequence[Step], in_time: Sequence[int] | None, limits: Limits
) -> list[Part]:
    """Share in time of each step: of the points that were due in it, whenever they arrived.

    `in_time`: of each step of the load; see `outcomes.in_time_by_step`.
    """
    unit = "fraction in time"
    if in_time is None:
        text = (
            "how many of its points were in time is not known, as a worker left no such count (it "
            "died, or this run was made by an older Kairoscope)"
        )
        return [Part(None, limits.in_time, unit, "unknown", text) for _ in steps]
    found = []
    for step in steps:
        count = in_time[step.number - 1]
        share = count / step.due
        text = f"{count:,} of {step.due:,} points within {limits.p99_ms:,.0f} ms"
        outcome: Outcome = "pass" if share >= limits.in_time else "fail"
        found.append(Part(share, limits.in_time, unit, outcome, text))
    return found


def latency_parts(
    schedule: Schedule, steps: Sequence[Step], folder: Path, limits: Limits
) -> list[Part]:
    """99th percentile of each step.

    By the second in which a point was acknowledged or given up: what a step leaves undone for long
    is late in the next one.
    """
    logs = run_folder.histogram_logs(folder, "worker")
    begins = [step.window[0] - schedule.spec.start_ms / 1000 for step in steps]
    found = []
    for histogram in histograms.from_on(logs, begins):
        count = histogram.get_total_count()
        p99_ms = histogram.get_value_at_percentile(99) / 1000 if count else None
        found.append(
            Part(
                p99_ms,
                limits.p99_ms,
                "ms",
                "unknown" if p99_ms is None else "pass" if p99_ms <= limits.p99_ms else "fail",
                f"99th percentile {p99_ms:,.1f} ms over {count:,} points"
                if count
                else "no latency",
            )
        )
    return found


def worst(whole: Part | None, steps: Sequence[Step], parts: Sequence[Part]) -> Part:
    """The gravest of the steps' parts, with the step's name; that of the whole load unless one is
    graver, where there is one."""
    named = [
        replace(part, text=f"{step.name}: {part.text}")
        for step, part in zip(steps, parts, strict=True)
    ]
    candidates = [*([whole] if whole else []), *named]
    return min(candidates, key=lambda part: _GRAVITY.index(part.outcome))


def documents(steps: Sequence[Step], parts: Mapping[str, Sequence[Part]]) -> list[dict[str, Any]]:
    """What verdict.json says of each step."""
    return [
        {
            "step": step.number,
            "rate": step.rate,
            "from_t": step.window[0],
            "until_t": step.window[1],
            "parts": {name: asdict(of_steps[i]) for name, of_steps in parts.items()},
        }
        for i, step in enumerate(steps)
    ]
