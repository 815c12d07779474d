"""A load as its loaders told it second by second (progress.jsonl), while their files are still on
their hosts: what can be said of the parts of its verdict. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kairoscope.run_folder import Record
from kairoscope.verdict import measurements, queue
from kairoscope.verdict.conditions import Machines
from kairoscope.verdict.inputs import Inputs
from loaders.schedule.spec import LoadSpec

Document = dict[str, Any]

WITHIN, OVER, NOT_YET = "within so far", "over so far", "not yet"

OUTCOMES = {"pass": WITHIN, "fail": OVER, "not judged": "not judged"}
"""What an outcome of the verdict is called before the end; any other is not yet told."""

_LEAST_S = 3.0
"""A window shorter than this has too few looks for a mean."""


@dataclass(frozen=True)
class SoFar:
    """A part of the verdict before there is one; see `verdict.sustained.Part`."""

    figure: float | None
    limit: float
    unit: str
    outcome: str
    text: str


class Seen:
    """A load by what its loaders told second by second, up to the last look at it."""

    def __init__(self, spec: LoadSpec, known: Inputs, looks: Sequence[Record]) -> None:
        """`looks`: records of the stage *load*, at least one."""
        self._spec = spec
        self._known = known
        self._limits = known.plan.experiment.limits
        self._looks = looks
        self._last = looks[-1]
        self._start = float(looks[0]["t"]) if spec.replay else spec.start_ms / 1000
        measured = self._start + (0 if spec.replay else _warmup_s(spec))
        self._now = float(self._last["t"])
        # In the warm-up, of that: it is said beside it.
        self._warm = self._now >= measured + _LEAST_S
        self._begin = measured if self._warm else self._start

    def _arrived(self, look: Record) -> int:
        return int(look["acknowledged"] if self._spec.acknowledges else look["sent"])

    def _at(self, t: float) -> Record | None:
        """The last look until then."""
        return next((look for look in reversed(self._looks) if look["t"] <= t), None)

    def schedule(self) -> SoFar:
        """Points that arrived, of those that were due longer ago than may pass.

        Newer ones are counted as if they were these: the share can only be too good.
        """
        limits, arrived = self._limits, self._arrived(self._last)
        how = "acknowledged" if self._spec.acknowledges else "handed to the socket"
        before = self._at(self._now - limits.p99_ms / 1000)
        due = 0 if before is None else int(before["due"])
        text = f"{arrived:,} of {int(self._last['due']):,} points due so far {how}"
        for key, what in (("rejected", "refused"), ("not_sent", "given up and never sent")):
            text += f", {self._last[key]:,} {what}" if self._last[key] else ""
        unit = "fraction in time"
        if self._spec.replay or not due:
            return SoFar(None, limits.in_time, unit, NOT_YET, text)
        share = min(1.0, arrived / due)
        outcome = WITHIN if share >= limits.in_time else OVER
        return SoFar(share, limits.in_time, unit, outcome, text)

    def _slowest(self) -> list[float]:
        """99th percentile in ms of each measured second that had any, of its slowest worker."""
        return [
            float(look["p99_ms"])
            for look in self._looks
            if look["t"] > self._begin and look["p99_ms"] > 0
        ]

    def latency(self) -> SoFar:
        """Whether p99 is within its limit in every second: then it is so of all together.

        Where it is not in some, only the merged histograms of all loaders tell, at the end.
        """
        limit = self._limits.p99_ms
        seconds = self._slowest()
        if self._spec.replay or not seconds:
            text = "history is not judged by it" if self._spec.replay else "nothing measured yet"
            return SoFar(None, limit, "ms", NOT_YET, text)
        over = sum(p99 > limit for p99 in seconds)
        of = "measured seconds" if self._warm else "seconds of the warm-up"
        text = f"p99 of the slowest loader process over {limit:,.0f} ms in {over} of "
        text += f"{len(seconds)} {of}, {max(seconds):,.0f} ms at most"
        outcome = NOT_YET if over or not self._warm else WITHIN
        return SoFar(max(seconds), limit, "ms", outcome, text)

    def grown(self, depths: Mapping[str, queue.Looks], processes: Sequence[Record]) -> SoFar:
        """Its growth so far, as if the load had ended with the last look at it."""
        limit = self._limits.queue_growth
        start, rate = self._step()
        end = min((looks[-1][0] for looks in depths.values() if looks), default=self._now)
        end = min(end, self._spec.end_ms / 1000)
        held_s = self._known.plan.held_s
        begin = max(self._begin, start + held_s)
        if self._spec.replay or not self._warm or end - begin < _LEAST_S:
            text = f"{waiting(depths)}; growth is told from a queue window after the warm-up on"
            return SoFar(None, limit, queue.UNIT, NOT_YET, text)
        excused = {node: queue.replaced(processes, node) for node in self._known.kairosdb}
        part = queue.queue_part(depths, queue.Asked((begin, end), rate, held_s, limit), excused)
        outcome = OUTCOMES.get(part.outcome, NOT_YET)
        return SoFar(part.figure, part.limit, part.unit, outcome, part.text)

    def _step(self) -> tuple[float, float]:
        """When the rate of now began (epoch s), and what it is, points/s."""
        start_ms = self._spec.start_ms
        period_ms = self._spec.steps[0].period_ms
        for step in self._spec.steps:
            period_ms = step.period_ms
            if start_ms + step.ticks * step.period_ms > self._now * 1000:
                break
            start_ms += step.ticks * step.period_ms
        return start_ms / 1000, self._spec.sensors * 1000 / period_ms

    def drain(self, depths: Mapping[str, queue.Looks]) -> SoFar:
        """What will have to drain."""
        return SoFar(None, self._limits.drain_s, "s", NOT_YET, waiting(depths))

    def readback(self) -> SoFar:
        """What will have to be found."""
        claimed = self._arrived(self._last)
        unit = "fraction of acknowledged"
        return SoFar(None, 1.0, unit, NOT_YET, f"{claimed:,} points to be read back")

    def latencies(self) -> Document:
        """In place of latency/merged.json: percentiles of each second, of the slowest worker."""
        intervals = [
            {"t": look["t"] - self._start - 1, "p50": look["p50_ms"], "p99": look["p99_ms"]}
            for look in self._looks
            if look["t"] > self._start + 0.5
        ]
        return {"intervals": intervals, "last": intervals[-1] if intervals else {}}

    def not_ours(self, processes: Sequence[Record]) -> list[str]:
        """Sentences on machines that others have more of than the limits allow, as in a verdict."""
        if not self._warm:
            return []
        so_far = Machines(processes, self._known.cpus, self._known.booted).within(
            self._begin, self._now
        )
        return [f"So far {said}." for said in so_far.not_ours(self._limits)]

    def measured(self, processes: Sequence[Record]) -> Document:
        """In place of measurements.json: of the measured time so far, or of the warm-up."""
        window = (self._begin, self._now)
        if self._now - self._begin < _LEAST_S:
            return {}
        before = self._at(self._begin) or self._looks[0]
        between = max(1e-3, self._now - float(before["t"]))
        due = int(self._last["due"]) - int(before["due"])
        arrived = self._arrived(self._last) - self._arrived(before)
        found = measurements.measurements(
            list(processes),
            window,
            due,
            Machines(processes, self._known.cpus, self._known.booted).within(*window),
            {"target": None, "achieved": arrived / between},
            {"before": None, "after": None, "points": None},
            self._known.plan.experiment.cluster.replication_factor,
        )
        return found | {"notes": []}


def _warmup_s(spec: LoadSpec) -> float:
    left, seconds = spec.warmup_ticks, 0.0
    for step in spec.steps:
        seconds += min(left, step.ticks) * step.period_ms / 1000
        left -= min(left, step.ticks)
    return seconds


def waiting(depths: Mapping[str, queue.Looks]) -> str:
    """Points that wait on all nodes, in words."""
    known = [looks[-1][1] for looks in depths.values() if looks]
    if not known:
        return "no node has told its depth yet"
    return f"{sum(known):,.0f} points wait now"
