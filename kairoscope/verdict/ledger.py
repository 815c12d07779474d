"""The ledger: every scheduled point accounted for, or named.

    scheduled    = sent + not sent
    sent         = acknowledged + rejected + unknown
    acknowledged = stored + queued + logged as failed
    rows by CQL  = points read back

The third is where a store loses data; the fourth shows data that is stored but that no query finds
(KairosDB does not wait for its index writes), and the other way round. A protocol that acknowledges
nothing leaves all that it sent unknown: the third line is then that of the unknown points, and the
ledger rests on read-back alone.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kairoscope.stacks.kairosdb import dead_letters, failed_logs
from kairoscope.stacks.kairosdb.readback import Bools, SeriesResult
from kairoscope.verdict.outcomes import ACKNOWLEDGED, NOT_SENT, REJECTED, UNKNOWN, Outcomes
from loaders.schedule.due import Int64s, Schedule, Series
from loaders.schedule.spec import LoadSpec

# A gap names its first timestamps; all of them are in ledger-gaps.jsonl.
NAMED_TIMESTAMPS = 20
NAMED_SERIES = 200

# Of the reasons why points were given up, those that most were given up for.
NAMED_REASONS = 5
# KairosDB's own queue logs the points of a batch, and not why it gave it up.
REASON_OF_FAILED_LOG = "given up by KairosDB's own queue (failed.log)"
# KairosDB's host may have another clock than this machine; runs are minutes apart.
CLOCK_SLACK_MS = 60_000

MISSING, MISSING_UNACKNOWLEDGED = "missing", "missing (unacknowledged)"
WRONG_VALUE = "wrong value"


class FailedPoint(NamedTuple):
    """A point that KairosDB says it gave up: its series by `label`, and why."""

    series: str
    timestamp_ms: int
    reason: str


class Reason(NamedTuple):
    """Why points were given up, and how many."""

    reason: str
    points: int


@dataclass
class AtAll:
    """What became of the points that were missing, by a read of every replica.

    Attributes:
        read_at: consistency at which they were missing.
        looked_for: how many were looked for: those that the ledger's gaps name.
        repaired: on some replica, and read back after the read at ALL, which repairs.
        not_found: on some replica, and still not found by a query.
        lost: on no replica.
        problem: why the replicas could not be asked; the three counts are None then.
    """

    read_at: str
    looked_for: int
    repaired: int | None = None
    not_found: int | None = None
    lost: int | None = None
    problem: str = ""

    @property
    def text(self) -> str:
        """In words, for after "n missing"."""
        if self.problem:
            return f"not looked for at ALL: {self.problem}"
        words = (
            (
                self.repaired,
                "not on enough replicas: found at ALL, and repaired by that read, since a second "
                f"read at {self.read_at} finds them",
            ),
            (
                self.not_found,
                f"found at ALL, and not by a second read at {self.read_at}: no repair of the "
                "points has them found, their index may be missing",
            ),
            (self.lost, "on no replica: lost"),
        )
        return "; ".join(f"{count:,} {how}" for count, how in words if count)


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


@dataclass(slots=True)
class Gap:
    """Points of one series that are not as they should be.

    Attributes:
        series: its name, and its tags where they tell it from others.
        kind: missing, missing (unacknowledged) or wrong value.
        source: the series itself.
        ticks: which points, as ranges of ticks in order. Whole ranges, because a store that was
            down lacks thousands of points of each series.
    """

    series: str
    kind: str
    schedule: Schedule
    source: Series
    ticks: list[range]

    @property
    def count(self) -> int:
        """How many points."""
        return sum(map(len, self.ticks))

    @property
    def timestamps_ms(self) -> list[int]:
        """Timestamps of all of them."""
        return [t for ticks in self.ticks for t in self._times(ticks).tolist()]

    def _times(self, ticks: range) -> Int64s:
        return self.schedule.timestamps_ms(self.source.rank, ticks)

    def named(self) -> dict[str, Any]:
        """What ledger.json says of it."""
        first: list[int] = []
        for ticks in self.ticks:
            first += self._times(ticks[: NAMED_TIMESTAMPS - len(first)]).tolist()
        return {
            "series": self.series,
            "kind": self.kind,
            "count": self.count,
            "timestamps_ms": first,
        }

    def whole(self) -> dict[str, Any]:
        """What ledger-gaps.jsonl says of it: spans of consecutive points of the series."""
        spans = [
            {
                "first_ms": self.schedule.timestamp_ms(self.source.rank, ticks[0]),
                "last_ms": self.schedule.timestamp_ms(self.source.rank, ticks[-1]),
                "count": len(ticks),
            }
            for ticks in self.ticks
        ]
        return {"series": self.series, "kind": self.kind, "count": self.count, "spans": spans}

    def without(self, timestamps_ms: set[int]) -> "Gap":
        """The gap less some of its points."""
        ticks = np.concatenate([np.arange(r.start, r.stop) for r in self.ticks])
        stay = [t not in timestamps_ms for t in self.timestamps_ms]
        return Gap(self.series, self.kind, self.schedule, self.source, _ranges(ticks[stay]))


@dataclass
class Ledger:
    """All counts in data points, but `series`, of those read back.

    None is "not looked at" (an interrupted run), never zero.
    """

    scheduled: int
    not_sent: int
    sent: int
    acknowledged: int
    rejected: int
    unknown: int
    acknowledges: bool = True
    series: int | None = None
    stored: int | None = None
    queued: int | None = None
    failed_logged: int | None = None
    missing: int | None = None
    wrong_value: int | None = None
    unknown_stored: int | None = None
    unknown_missing: int | None = None
    rejected_stored: int | None = None
    not_sent_stored: int | None = None
    unexpected: int | None = None
    rows_by_cql: int | None = None
    rows_expected: int | None = None
    at_all: AtAll | None = None
    """What every replica has of the missing ones; None if none are, or it was not asked."""
    failed_reasons: list[Reason] = field(default_factory=list)
    """Why those that are logged as failed were given up, the most frequent reasons first."""
    gaps: list[Gap] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def claimed(self) -> int:
        """Points that must be in the store: acknowledged, or sent where nothing is acknowledged."""
        return self.acknowledged if self.acknowledges else self.unknown

    @property
    def claimed_stored(self) -> int | None:
        """Those of them that came back with the right value."""
        return self.stored if self.acknowledges else self.unknown_stored

    @property
    def claimed_missing(self) -> int | None:
        """Those of them that did not come back."""
        return self.missing if self.acknowledges else self.unknown_missing

    @property
    def lacking(self) -> list[Gap]:
        """The gaps of points that must be in the store and did not come back."""
        return [gap for gap in self.gaps if gap.kind in (MISSING, MISSING_UNACKNOWLEDGED)]

    @property
    def equations(self) -> list[Equation]:
        """The four lines of the ledger."""
        accounted = None
        if self.claimed_stored is not None:
            accounted = self.claimed_stored + (self.queued or 0) + (self.failed_logged or 0)
        claimed = "acknowledged" if self.acknowledges else "unknown"
        return [
            Equation("scheduled = sent + not sent", self.scheduled, self.sent + self.not_sent),
            Equation(
                "sent = acknowledged + rejected + unknown",
                self.sent,
                self.acknowledged + self.rejected + self.unknown,
            ),
            Equation(f"{claimed} = stored + queued + logged as failed", self.claimed, accounted),
            Equation("rows by CQL = points read back", self.rows_by_cql, self.rows_expected),
        ]

    @property
    def balanced(self) -> bool:
        """Every equation holds, and nothing came back that should not."""
        clean = not self.wrong_value and not self.unexpected and not self.not_sent_stored
        return clean and all(e.holds for e in self.equations)

    def to_json(self) -> dict[str, Any]:
        """The content of ledger.json."""
        document = {k: v for k, v in vars(self).items() if k not in ("gaps", "notes")}
        document["at_all"] = asdict(self.at_all) if self.at_all else None
        document["failed_reasons"] = [reason._asdict() for reason in self.failed_reasons]
        document["balanced"] = self.balanced
        document["equations"] = [{**asdict(e), "holds": e.holds} for e in self.equations]
        document["gaps"] = [gap.named() for gap in self.gaps[:NAMED_SERIES]]
        document["gap_series"] = len(self.gaps)
        document["notes"] = self.notes
        return document


def open_ledger(outcomes: Outcomes) -> Ledger:
    """The loaders' side of the ledger, before anything was read back."""
    c = outcomes.counts
    ledger = Ledger(
        c.scheduled,
        c.not_sent,
        c.sent,
        c.acknowledged,
        c.rejected,
        c.unknown,
        outcomes.acknowledges,
    )
    if not outcomes.acknowledges:
        ledger.notes.append(
            "telnet acknowledges nothing: every point sent is unknown, and the ledger rests on "
            "read-back alone"
        )
    for worker, counts in outcomes.died.items():
        what, known = "acknowledged", counts.acknowledged
        if not outcomes.acknowledges:
            what, known = "sent", counts.sent
        ledger.notes.append(
            f"worker {worker} died: {known:,} of its {counts.scheduled:,} points were {what} when "
            "it was last heard of; the rest counts as unknown or not sent"
        )
    return ledger


def label(spec: LoadSpec, metric: str, tags: dict[str, str]) -> str:
    """Name of a series: its metric, with those tags that tell it from others of that metric."""
    telling = [k for k, pattern in spec.tags.items() if "{n" in pattern]
    if "{n}" in spec.metric or not telling:
        return metric
    return f"{metric}{{{', '.join(f'{k}={tags.get(k)}' for k in telling)}}}"


def failed_points(spec: LoadSpec, paths: Iterable[Path], since_ms: int) -> Iterator[FailedPoint]:
    """This run's points that KairosDB gave up: of failed.log files and of dead letters.

    The files have those of earlier runs and of others too. A point is of this run if its time is,
    and if, where the file says when KairosDB took it, that was not before the run began
    (`since_ms`): a replay may be of a time that another one was of.
    """
    for path in paths:
        dead = failed_logs.is_dead_letters(path)
        # What was torn is cut here and there: it must not keep the others from being read.
        with path.open(errors="replace") as file:
            for line in file:
                found = _dead_letter(spec, line, since_ms) if dead else _failed_line(spec, line)
                if found and spec.start_ms <= found.timestamp_ms < spec.end_ms:
                    yield found


def _failed_line(spec: LoadSpec, line: str) -> FailedPoint | None:
    try:
        record = json.loads(line)
        name, timestamp = record["name"], int(record["timestamp"])
        return FailedPoint(
            label(spec, name, record.get("tags", {})), timestamp, REASON_OF_FAILED_LOG
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _dead_letter(spec: LoadSpec, line: str, since_ms: int) -> FailedPoint | None:
    letter = dead_letters.parse(line)
    if letter is None or letter.taken_at < since_ms - CLOCK_SLACK_MS:
        return None
    return FailedPoint(label(spec, letter.metric, letter.tags), letter.time, letter.reason)


def _ranges(ticks: Int64s) -> list[range]:
    """Ascending ticks as ranges of consecutive ones."""
    if not len(ticks):
        return []
    cuts = np.flatnonzero(np.diff(ticks) != 1) + 1
    return [range(int(p[0]), int(p[-1]) + 1) for p in np.split(ticks, cuts)]


class Settlement:
    """Balances the loaders' outcomes against what is read back, a series at a time.

    It keeps counts and gaps only: a run may have hundreds of millions of points.
    """

    def __init__(self, schedule: Schedule, outcomes: Outcomes) -> None:
        """Nothing is read back yet."""
        self._schedule = schedule
        self._outcomes = outcomes
        self._claimed = ACKNOWLEDGED if outcomes.acknowledges else UNKNOWN
        self._tally: Counter[str] = Counter()
        self._found_of_died: Counter[int] = Counter()
        self._wrong: list[Gap] = []
        self._missing: list[Gap] = []

    def incomplete(self, result: SeriesResult) -> bool:
        """Whether points that must be in the store did not all come back right."""
        if result.right.all():
            return False
        claimed = self._outcomes.of_series(result.series) == self._claimed
        return bool((claimed & ~result.right).any())

    def add(self, result: SeriesResult) -> None:
        """Count what came back for a series; each series once."""
        series = result.series
        codes = self._outcomes.of_series(series)
        died = series.worker in self._outcomes.died
        tally = self._tally
        tally["series"] += 1
        wrong = result.present & ~result.right
        tally["present"] += int(result.present.sum())
        tally["unexpected"] += result.unexpected
        tally["wrong"] += int(wrong.sum())
        for name, code in (
            ("stored", ACKNOWLEDGED),
            ("rejected", REJECTED),
            ("unknown", UNKNOWN),
            ("not_sent", NOT_SENT),
        ):
            tally[name] += int(((codes == code) & result.right).sum())
        if wrong.any():
            self._wrong.append(self._gap(series, WRONG_VALUE, wrong))
        if died:
            found = int(((codes == UNKNOWN) & result.right).sum())
            self._found_of_died[series.worker] += found
            return
        tally["unknown absent"] += int(((codes == UNKNOWN) & ~result.present).sum())
        absent = (codes == self._claimed) & ~result.present
        if absent.any():
            kind = MISSING if self._outcomes.acknowledges else MISSING_UNACKNOWLEDGED
            self._missing.append(self._gap(series, kind, absent))

    def _gap(self, series: Series, kind: str, points: Bools) -> Gap:
        spec = self._schedule.spec
        name = label(spec, spec.metric_name(series.number), spec.tags_of(series.number))
        ticks = np.flatnonzero(points) + series.ticks.start
        return Gap(name, kind, self._schedule, series, _ranges(ticks))

    def close(
        self, queued_points: int | None, failed: Iterable[FailedPoint], passes: int = 1
    ) -> Ledger:
        """The ledger, once every series was added.

        `queued_points`: what still waits in KairosDB's queues (None: it does not tell, taken as 0).
        `failed`: points that KairosDB says it gave up; see `failed_points`. A point that must be
        there and did not come back is logged as failed if KairosDB says so, else queued as far as
        the queues hold as many, else missing.
        """
        ledger = open_ledger(self._outcomes)
        tally = self._tally
        missing, given_up = self._without(failed)
        lost = self._of_died(ledger)
        not_back = sum(gap.count for gap in missing) + lost
        ledger.queued = min(not_back, queued_points or 0)
        ledger.failed_logged = given_up.total()
        ledger.failed_reasons = [Reason(*most) for most in given_up.most_common(NAMED_REASONS)]
        ledger.series = tally["series"]
        ledger.stored = tally["stored"]
        ledger.wrong_value = tally["wrong"]
        ledger.unknown_stored = tally["unknown"]
        if self._outcomes.acknowledges:
            ledger.missing = not_back - ledger.queued
            ledger.unknown_missing = tally["unknown absent"]
        else:
            ledger.missing = 0
            ledger.unknown_missing = not_back - ledger.queued
        ledger.rejected_stored = tally["rejected"]
        ledger.not_sent_stored = tally["not_sent"]
        ledger.unexpected = tally["unexpected"]
        ledger.rows_expected = tally["present"] + tally["unexpected"]
        ledger.gaps = [*self._wrong, *missing]
        if missing and ledger.queued:
            ledger.notes.append(
                f"{ledger.queued:,} points wait in KairosDB's queue: which of the points that did "
                "not come back they are cannot be told from outside, so all are named"
            )
        if given_up:
            ledger.notes.append(
                f"{given_up.total():,} points were given up by KairosDB: {reasons(ledger)}"
            )
        if passes > 1:
            ledger.notes.append(f"read-back took {passes} passes until nothing more turned up")
        return ledger

    def _without(self, failed: Iterable[FailedPoint]) -> tuple[list[Gap], Counter[str]]:
        """The missing points that KairosDB does not say it gave up, and how many it does, by why.

        A point that was given up more than once is one.
        """
        by_series: dict[str, dict[int, str]] = {gap.series: {} for gap in self._missing}
        for series, timestamp, reason in failed:
            if series in by_series:
                by_series[series].setdefault(timestamp, reason)
        left: list[Gap] = []
        given_up: Counter[str] = Counter()
        for gap in self._missing:
            rest, why = gap, by_series[gap.series]
            if why:
                given_up.update(why[t] for t in gap.timestamps_ms if t in why)
                rest = gap.without(set(why))
            if rest.ticks:
                left.append(rest)
        return left, given_up

    def _of_died(self, ledger: Ledger) -> int:
        """Settle the workers that died; returns how many points of theirs are lost.

        They did not say which points were acknowledged (over telnet: sent), only how many: as many
        of those found are taken for them, the rest was of unknown outcome and stored.
        """
        lost = 0
        for worker, counts in self._outcomes.died.items():
            found = self._found_of_died[worker]
            claimed = counts.acknowledged if self._outcomes.acknowledges else counts.unknown
            stored = min(found, claimed)
            if self._outcomes.acknowledges:
                self._tally["stored"] += stored
                self._tally["unknown"] -= stored
                self._tally["unknown absent"] += max(0, counts.unknown - (found - stored))
            else:
                # What was sent after its last words is found without being known as sent.
                self._tally["unknown"] -= found - stored
            if claimed > stored:
                lost += claimed - stored
                what = "acknowledged" if self._outcomes.acknowledges else "sent"
                ledger.notes.append(
                    f"worker {worker} died: {claimed - stored:,} of its {what} points missing"
                )
        return lost


def reasons(ledger: Ledger) -> str:
    """Why points are logged as failed, on one line; "" if none are."""
    named = [f"{count:,} × {reason}" for reason, count in ledger.failed_reasons]
    others = (ledger.failed_logged or 0) - sum(count for _, count in ledger.failed_reasons)
    return "; ".join([*named, *([f"{others:,} for other reasons"] if others else [])])


def write(ledger: Ledger, folder: Path) -> None:
    """Write ledger.json and, if there are gaps, all of them to ledger-gaps.jsonl."""
    (folder / "ledger.json").write_text(json.dumps(ledger.to_json(), indent=1) + "\n")
    if ledger.gaps:
        with (folder / "ledger-gaps.jsonl").open("w") as file:
            for gap in ledger.gaps:
                file.write(json.dumps(gap.whole()) + "\n")


def not_read_back(ledger: Ledger, why: str) -> Ledger:
    """The ledger of a run whose points could not be read back: says so instead of guessing."""
    ledger.notes.append(
        f"{why}: what became of {ledger.acknowledged:,} acknowledged and {ledger.unknown:,} "
        "unknown points was not looked at"
    )
    return ledger
