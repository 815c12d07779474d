"""The ledger: every scheduled point accounted for, or named.

    scheduled    = sent + not sent
    sent         = acknowledged + rejected + unknown
    acknowledged = stored + queued + logged as failed
    rows counted = points read back

The third is where a store loses data; the fourth shows data that is stored but that no query finds
(KairosDB does not wait for its index writes), and the other way round. A protocol that acknowledges
nothing leaves all that it sent unknown: the third line is then that of the unknown points, and the
ledger rests on read-back alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from kairoscope.verdict.outcomes import Outcomes
from kairoscope.verdict.settlement import (
    MISSING,
    MISSING_UNACKNOWLEDGED,
    WRONG_VALUE,
    AtAll,
    FailedPoint,
    Gap,
    ReadBack,
)

NAMED_SERIES = 200

# Of the reasons why points were given up, those that most were given up for.
NAMED_REASONS = 5


class Reason(NamedTuple):
    """Why points were given up, and how many."""

    reason: str
    points: int


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
            Equation("rows counted = points read back", self.rows_by_cql, self.rows_expected),
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
        document["gap_count"] = len(self.gaps)
        # One that lacks points and has wrong ones too has two gaps.
        document["gap_series"] = len({gap.source for gap in self.gaps})
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
            "the protocol acknowledges nothing: every point sent is unknown, and the ledger rests "
            "on read-back alone"
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


def balance(
    outcomes: Outcomes,
    found: ReadBack,
    queued_points: int | None,
    failed: Iterable[FailedPoint],
) -> Ledger:
    """The ledger of a run that was read back.

    `queued_points`: what still waited on the servers when that was no longer watched (None: they
    do not tell, taken as 0); of it what was stored before all was read back does not wait any more.
    `failed`: points that the servers say they gave up. A point that must be there and did not come
    back is logged as failed if they say so, else queued, up to as many as wait, else missing.
    """
    ledger = open_ledger(outcomes)
    counts = Counter(found.counts)
    wrong = [gap for gap in found.gaps if gap.kind == WRONG_VALUE]
    missing, given_up = _without([g for g in found.gaps if g.kind != WRONG_VALUE], failed)
    lost = _settle_died(counts, outcomes, found.found_of_died, ledger.notes)
    not_back = sum(gap.count for gap in missing) + lost
    waiting = queued_points or 0
    if found.waiting is not None:
        waiting = min(waiting, found.waiting)
    ledger.queued = min(not_back, waiting)
    ledger.failed_logged = given_up.total()
    ledger.failed_reasons = [Reason(*most) for most in given_up.most_common(NAMED_REASONS)]
    ledger.series = counts["series"]
    ledger.stored = counts["stored"]
    ledger.wrong_value = counts["wrong_value"]
    ledger.unknown_stored = counts["unknown"]
    if outcomes.acknowledges:
        ledger.missing = not_back - ledger.queued
        ledger.unknown_missing = counts["unknown_absent"]
    else:
        ledger.missing = 0
        ledger.unknown_missing = not_back - ledger.queued
    ledger.rejected_stored = counts["rejected"]
    ledger.not_sent_stored = counts["not_sent"]
    ledger.unexpected = counts["unexpected"]
    ledger.rows_expected = counts["present"] + counts["unexpected"]
    ledger.rows_by_cql = found.rows_by_cql
    ledger.at_all = found.at_all
    ledger.gaps = [*wrong, *missing]
    if missing and ledger.queued:
        ledger.notes.append(
            f"{ledger.queued:,} points still wait on the servers: which of the points that "
            "did not come back they are cannot be told from outside, so all are named"
        )
    if given_up:
        ledger.notes.append(
            f"{given_up.total():,} points were given up by the servers: {reasons(ledger)}"
        )
    if found.passes > 1:
        ledger.notes.append(f"read-back took {found.passes} passes until nothing more turned up")
    ledger.notes += found.notes
    return ledger


def _without(missing: list[Gap], failed: Iterable[FailedPoint]) -> tuple[list[Gap], Counter[str]]:
    """The missing points that no server says it gave up, and how many others, by why.

    A point that was given up more than once is one.
    """
    by_series: dict[str, dict[int, str]] = {gap.series: {} for gap in missing}
    for series, timestamp, reason in failed:
        if series in by_series:
            by_series[series].setdefault(timestamp, reason)
    left: list[Gap] = []
    given_up: Counter[str] = Counter()
    for gap in missing:
        rest, why = gap, by_series[gap.series]
        if why:
            given_up.update(why[t] for t in gap.timestamps_ms if t in why)
            rest = gap.without(set(why))
        if rest.ticks:
            left.append(rest)
    return left, given_up


def _settle_died(
    counts: Counter[str], outcomes: Outcomes, found_of_died: dict[int, int], notes: list[str]
) -> int:
    """Settle the workers that died, in `counts` and `notes`; how many points of theirs are lost.

    They did not say which points were acknowledged (over telnet: sent), only how many: as many
    of those found are taken for them, the rest was of unknown outcome and stored.
    """
    lost = 0
    for worker, of_worker in outcomes.died.items():
        found = found_of_died.get(worker, 0)
        claimed = of_worker.acknowledged if outcomes.acknowledges else of_worker.unknown
        stored = min(found, claimed)
        if outcomes.acknowledges:
            counts["stored"] += stored
            counts["unknown"] -= stored
            counts["unknown_absent"] += max(0, of_worker.unknown - (found - stored))
        else:
            # What was sent after its last words is found without being known as sent.
            counts["unknown"] -= found - stored
        if claimed > stored:
            lost += claimed - stored
            what = "acknowledged" if outcomes.acknowledges else "sent"
            notes.append(f"worker {worker} died: {claimed - stored:,} of its {what} points missing")
    return lost


def reasons(ledger: Ledger) -> str:
    """Why points are logged as failed, on one line; "" if none are."""
    named = [f"{count:,} × {reason}" for reason, count in ledger.failed_reasons]
    others = (ledger.failed_logged or 0) - sum(count for _, count in ledger.failed_reasons)
    return "; ".join([*named, *([f"{others:,} for other reasons"] if others else [])])


def not_read_back(ledger: Ledger, why: str) -> Ledger:
    """The ledger of a run whose points could not be read back: says so instead of guessing."""
    ledger.notes.append(
        f"{why}: what became of {ledger.acknowledged:,} acknowledged and {ledger.unknown:,} "
        "unknown points was not looked at"
    )
    return ledger


def lost(document: Mapping[str, Any]) -> int:
    """Points of a ledger.json that must be in the store and are neither there nor in a queue; those
    with a wrong value, and those that the servers gave up, are among them. 0 if nobody looked."""
    claimed, stored = "unknown", "unknown_stored"
    if document.get("acknowledges"):
        claimed, stored = "acknowledged", "stored"
    if document.get(stored) is None:
        return 0
    gone: int = document[claimed] - document[stored] - (document["queued"] or 0)
    return max(0, gone)
