"""The ledger: every scheduled point accounted for, or named.

    scheduled    = sent + not sent
    sent         = acknowledged + rejected + unknown
    acknowledged = stored + queued + logged as failed
    rows by CQL  = points read back

The third is where a store loses data; the fourth shows data that is stored but that no query finds
(KairosDB does not wait for its index writes), and the other way round.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kairoscope.outcomes import ACKNOWLEDGED, NOT_SENT, REJECTED, UNKNOWN, Outcomes
from kairoscope.readback import ReadBack, SensorResult
from loaders import schedule
from loaders.spec import LoadSpec

# A gap names its first timestamps; all of them are in ledger-gaps.jsonl.
NAMED_TIMESTAMPS = 20
NAMED_SERIES = 200


@dataclass
class Equation:
    """One line of the ledger: `holds` if both sides are known and equal."""

    text: str
    left: int | None
    right: int | None

    @property
    def holds(self) -> bool:
        """Both sides are known and equal."""
        return self.left is not None and self.left == self.right


@dataclass
class Gap:
    """Points of one series that are not as they should be: `kind` is missing or wrong value."""

    series: str
    kind: str
    timestamps_ms: list[int]


@dataclass
class Ledger:
    """All counts in data points; None is "not looked at" (an interrupted run), never zero."""

    scheduled: int
    not_sent: int
    sent: int
    acknowledged: int
    rejected: int
    unknown: int
    stored: int | None = None
    queued: int | None = None
    failed_logged: int | None = None
    missing: int | None = None
    wrong_value: int | None = None
    unknown_stored: int | None = None
    rejected_stored: int | None = None
    not_sent_stored: int | None = None
    unexpected: int | None = None
    rows_by_cql: int | None = None
    rows_expected: int | None = None
    gaps: list[Gap] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def equations(self) -> list[Equation]:
        """The four lines of the ledger."""
        accounted = None
        if self.stored is not None:
            accounted = self.stored + (self.queued or 0) + (self.failed_logged or 0)
        return [
            Equation("scheduled = sent + not sent", self.scheduled, self.sent + self.not_sent),
            Equation(
                "sent = acknowledged + rejected + unknown",
                self.sent,
                self.acknowledged + self.rejected + self.unknown,
            ),
            Equation(
                "acknowledged = stored + queued + logged as failed", self.acknowledged, accounted
            ),
            Equation("rows by CQL = points read back", self.rows_by_cql, self.rows_expected),
        ]

    @property
    def balanced(self) -> bool:
        """Every equation holds, and nothing came back that should not."""
        clean = not self.wrong_value and not self.unexpected and not self.not_sent_stored
        return clean and all(e.holds for e in self.equations)

    def to_json(self) -> dict[str, Any]:
        """The content of ledger.json."""
        document = {k: v for k, v in asdict(self).items() if k not in ("gaps", "notes")}
        document["balanced"] = self.balanced
        document["equations"] = [{**asdict(e), "holds": e.holds} for e in self.equations]
        document["gaps"] = [
            {
                "series": g.series,
                "kind": g.kind,
                "count": len(g.timestamps_ms),
                "timestamps_ms": g.timestamps_ms[:NAMED_TIMESTAMPS],
            }
            for g in self.gaps[:NAMED_SERIES]
        ]
        document["gap_series"] = len(self.gaps)
        document["notes"] = self.notes
        return document


def open_ledger(outcomes: Outcomes) -> Ledger:
    """The loaders' side of the ledger, before anything was read back."""
    c = outcomes.counts
    ledger = Ledger(c.scheduled, c.not_sent, c.sent, c.acknowledged, c.rejected, c.unknown)
    for worker, counts in outcomes.died.items():
        ledger.notes.append(
            f"worker {worker} died: {counts.acknowledged:,} of its {counts.scheduled:,} points "
            "were acknowledged when it was last heard of; the rest counts as unknown or not sent"
        )
    return ledger


def failed_points(paths: Iterable[Path]) -> Iterator[tuple[str, int]]:
    """(metric, timestamp in ms) of the points that KairosDB gave up, from its failed.log files.

    Points of earlier runs are among them; no two runs have a timestamp in common.
    """
    for path in paths:
        with path.open() as file:
            for line in file:
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    continue
                yield record["name"], int(record["timestamp"])


def incomplete(outcomes: Outcomes, result: SensorResult) -> bool:
    """Whether a sensor's acknowledged points did not all come back right."""
    acknowledged = outcomes.of_sensor(result.sensor) == ACKNOWLEDGED
    return bool((acknowledged & ~result.right).any())


def settle(
    spec: LoadSpec,
    outcomes: Outcomes,
    back: ReadBack,
    queued_points: int | None,
    failed: Iterable[tuple[str, int]],
) -> Ledger:
    """Balance the loaders' outcomes against what was read back.

    `queued_points`: what still waits in KairosDB's queues (None: it does not tell, taken as 0).
    An acknowledged point that did not come back is logged as failed if KairosDB says so, else
    queued as far as the queues hold as many, else missing.
    """
    ledger = open_ledger(outcomes)
    given_up = set(failed)
    tally: Counter[str] = Counter()
    found_of_died: Counter[int] = Counter()
    missing: list[Gap] = []
    for result in back.sensors:
        codes = outcomes.of_sensor(result.sensor)
        series = spec.metric_name(result.sensor)
        times = schedule.timestamps_ms(spec, result.sensor)
        acknowledged = codes == ACKNOWLEDGED
        wrong = acknowledged & result.present & ~result.right
        absent = times[acknowledged & ~result.present]
        tally["stored"] += int((acknowledged & result.right).sum())
        tally["wrong"] += int(wrong.sum())
        tally["present"] += int(result.present.sum())
        tally["unexpected"] += result.unexpected
        for name, code in (("rejected", REJECTED), ("unknown", UNKNOWN), ("not_sent", NOT_SENT)):
            tally[name] += int(((codes == code) & result.present).sum())
        if outcomes.worker_of(result.sensor) in outcomes.died:
            found = int(((codes == UNKNOWN) & result.right).sum())
            found_of_died[outcomes.worker_of(result.sensor)] += found
        if wrong.any():
            ledger.gaps.append(Gap(series, "wrong value", times[wrong].tolist()))
        left = [t for t in absent.tolist() if (series, t) not in given_up]
        tally["failed"] += len(absent) - len(left)
        if left:
            missing.append(Gap(series, "missing", left))

    # A worker that died did not say which points were acknowledged, only how many: as many of those
    # found are taken as acknowledged and stored, the rest as unknown and stored.
    for worker, counts in outcomes.died.items():
        stored = min(found_of_died[worker], counts.acknowledged)
        tally["stored"] += stored
        tally["unknown"] -= stored
        lost = counts.acknowledged - stored
        if lost:
            tally["lost"] += lost
            ledger.notes.append(
                f"worker {worker} died: {lost:,} of its acknowledged points missing"
            )

    not_back = sum(len(g.timestamps_ms) for g in missing) + tally["lost"]
    ledger.stored = tally["stored"]
    ledger.failed_logged = tally["failed"]
    ledger.queued = min(not_back, queued_points or 0)
    ledger.missing = not_back - ledger.queued
    ledger.wrong_value = tally["wrong"]
    ledger.unknown_stored = tally["unknown"]
    ledger.rejected_stored = tally["rejected"]
    ledger.not_sent_stored = tally["not_sent"]
    ledger.unexpected = tally["unexpected"]
    ledger.rows_expected = tally["present"] + tally["unexpected"]
    ledger.gaps += missing
    if missing and ledger.queued:
        ledger.notes.append(
            f"{ledger.queued:,} points wait in KairosDB's queue: which of the points that did not "
            "come back they are cannot be told from outside, so all are named"
        )
    if back.passes > 1:
        ledger.notes.append(f"read-back took {back.passes} passes until nothing more turned up")
    return ledger


def write(ledger: Ledger, folder: Path) -> None:
    """Write ledger.json and, if there are gaps, all of them to ledger-gaps.jsonl."""
    (folder / "ledger.json").write_text(json.dumps(ledger.to_json(), indent=1) + "\n")
    if ledger.gaps:
        with (folder / "ledger-gaps.jsonl").open("w") as file:
            for gap in ledger.gaps:
                file.write(json.dumps(asdict(gap)) + "\n")


def not_read_back(ledger: Ledger, why: str) -> Ledger:
    """The ledger of a run whose points could not be read back: says so instead of guessing."""
    ledger.notes.append(
        f"{why}: what became of {ledger.acknowledged:,} acknowledged and {ledger.unknown:,} "
        "unknown points was not looked at"
    )
    return ledger
