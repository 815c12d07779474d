"""Whether what was scheduled arrived, and in time: the verdict's part *schedule*.

In time is within the latency limit of a point's own planned time: what a loader sends later, to
catch up after an outage, is late. A share forgives an outage by the length of the run, so the
longest silence has a limit of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kairoscope.experiment.schema.limits import Limits
from kairoscope.verdict.ledger import Ledger
from kairoscope.verdict.outcomes import Counts
from kairoscope.verdict.sustained import Part
from loaders.schedule.due import Schedule

_UNIT = "fraction of the schedule"


@dataclass(frozen=True)
class Silence:
    """The longest time in which points were due and none was acknowledged (telnet: handed over).

    Attributes:
        seconds: of one worker, over all its points or those of one node, whichever is longer; after
            the warm-up.
        from_t: when it began, epoch s.
        worker: whose it was.
        node: name of the server; None: the worker had no acknowledgement from any.
        of_all_s: the longest that all workers had at the same time; those under a quarter of a
            second count as 0.
        by_node: the longest of each node in s, in order.
    """

    seconds: float
    from_t: float | None
    worker: int
    node: str | None
    of_all_s: float
    by_node: list[float]

    def to_json(self) -> dict[str, Any]:
        """As measurements.json has it."""
        return asdict(self)

    @property
    def text(self) -> str:
        """In a few words."""
        where = f"node {self.node}" if self.node else "all nodes"
        return f"longest silence {self.seconds:,.1f} s (worker {self.worker}, {where})"


def silence(finals: Sequence[dict[str, Any]], nodes: Sequence[str]) -> Silence | None:
    """The longest silence, of the workers' final figures; None if there are none."""
    found = [
        (float(line["longest_s"]), line["from_t"], int(said["worker"]), name)
        for said in finals
        for name, line in (
            (None, said["silence"]),
            *zip(nodes, said["silence"]["by_node"], strict=True),
        )
    ]
    if not found:
        return None
    # Of equals that of all nodes, which comes first.
    seconds, from_t, worker, node = max(found, key=lambda each: each[0])
    common = together([said["silence"]["long"] for said in finals if said["scheduled"]])
    of_all_s = max((last - first for first, last in common), default=0.0)
    by_node = [
        max(float(said["silence"]["by_node"][index]["longest_s"]) for said in finals)
        for index in range(len(nodes))
    ]
    return Silence(seconds, from_t, worker, node, of_all_s, by_node)


def together(spans: Sequence[Sequence[Sequence[float]]]) -> list[tuple[float, float]]:
    """When, epoch s, all workers were silent at the same time, of each one's long silences."""
    edges = sorted(
        (edge, change)
        for of_worker in spans
        for first, last in of_worker
        for edge, change in ((first, 1), (last, -1))
    )
    found, silent, since = [], 0, 0.0
    for edge, change in edges:
        if silent == len(spans) and edge > since:
            found.append((since, edge))
        silent += change
        since = edge
    return found


def due_after_warmup(schedule: Schedule) -> int:
    """Points of the requests that count as measured: the last of their points is after the warm-up.

    As workers count those in time, request by request.
    """
    spec = schedule.spec
    together = spec.points_per_request
    due = 0
    for worker in range(spec.workers):
        for group in schedule.groups(worker):
            first = group.first_tick
            warm = max(0, spec.warmup_ticks - first) // together * together
            due += len(group.slots) * (spec.ticks - first - warm)
    return due


def schedule_part(
    book: Ledger,
    counts: Counts,
    due: int,
    quiet: Silence | None,
    limits: Limits,
    *,
    replay: bool = False,
) -> Part:
    """Points that arrived, those that did so in time, and the longest silence; each has a limit.

    The figure is that of the first that does not hold, else the share in time.

    Args:
        book, counts: of the whole load.
        due: points after the warm-up.
        quiet: None: not known.
        limits: of the experiment.
        replay: history has no time to be in: there it is the share that arrived at all.
    """
    arrived = book.acknowledged if book.acknowledges else book.sent
    what = "acknowledged" if book.acknowledges else "handed to the socket"
    share = arrived / book.scheduled
    text = f"{arrived:,} of {book.scheduled:,} scheduled points {what}"
    text += "" if book.acknowledges else " (the protocol acknowledges nothing)"
    whole = share >= limits.achieved
    if replay:
        text += ", in whatever time"
        return Part(share, limits.achieved, _UNIT, "pass" if whole else "fail", text)
    in_time = counts.in_time / due
    text = (
        f"{counts.in_time:,} of {due:,} points after the warm-up {what} within "
        f"{limits.p99_ms:,.0f} ms of their planned time; of all, {text}"
    )
    if not whole:
        return Part(share, limits.achieved, _UNIT, "fail", f"{text}{_silent(quiet)}")
    if in_time < limits.in_time:
        return Part(in_time, limits.in_time, "fraction in time", "fail", f"{text}{_silent(quiet)}")
    if quiet is None:
        text += "; no worker said how long none was acknowledged"
        return Part(None, limits.longest_silence_s, "s", "unknown", text)
    text += _silent(quiet)
    if quiet.seconds > limits.longest_silence_s:
        text += f", limit {limits.longest_silence_s:g} s"
        return Part(quiet.seconds, limits.longest_silence_s, "s", "fail", text)
    return Part(in_time, limits.in_time, "fraction in time", "pass", text)


def with_queries(part: Part, answers: Mapping[str, Any], limits: Limits) -> Part:
    """The part, of a load with queries beside it: what was to be asked is in the schedule as well.

    What does not hold is in the text; the figure is that of the first that does not. Queries that
    the readers never sent are theirs and no server's.

    Args:
        part: of the points.
        answers: see `outcomes.answers`.
        limits: of the experiment.
    """
    looked_at = (
        (answers["failed"], answers["sent"], limits.queries_failed, "queries failed"),
        (
            answers["points_late"],
            answers["points_checked"],
            limits.points_late,
            "points that queries asked for were not found",
        ),
    )
    for count, total, limit, what in looked_at:
        if not total or count / total <= limit:
            continue
        text = (
            f"{part.text}; {count:,} of {total:,} {what} ({count / total:.1%}, limit {limit:.1%})"
        )
        if part.outcome == "fail":
            part = replace(part, text=text)
        else:
            part = Part(count / total, limit, f"fraction of {what.split()[0]}", "fail", text)
    return part


def _silent(quiet: Silence | None) -> str:
    return f"; {quiet.text}" if quiet else ""
