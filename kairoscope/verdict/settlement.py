"""What came back of each series, held against what the loaders say of it: counts and gaps.

The run settles series by series while it reads them back, and writes what it found to the run
folder: `readback.json` and `readback-gaps.jsonl`. The ledger balances that, then and whenever the
run is judged again.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.verdict.outcomes import ACKNOWLEDGED, NOT_SENT, REJECTED, UNKNOWN, Outcomes
from loaders.schedule.due import Int64s, Schedule, Series
from loaders.schedule.spec import LoadSpec

# A gap names its first timestamps; all of them are in ledger-gaps.jsonl.
NAMED_TIMESTAMPS = 20

MISSING, MISSING_UNACKNOWLEDGED = "missing", "missing (unacknowledged)"
WRONG_VALUE = "wrong value"

Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class SeriesResult:
    """What came back for one series.

    `present` and `right` are bool[len(series.ticks)]: a point with the scheduled timestamp came
    back; and its value is that of the value function. `unexpected` counts points at no scheduled
    timestamp, and points with tags that the series does not have.
    """

    series: Series
    present: Bools
    right: Bools
    unexpected: int


class FailedPoint(NamedTuple):
    """A point that a server says it gave up: its series by `label`, and why."""

    series: str
    timestamp_ms: int
    reason: str


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

    def to_json(self) -> dict[str, Any]:
        """What readback-gaps.jsonl says of it: ticks of the schedule, first and after the last."""
        source = self.source
        return {
            "series": self.series,
            "kind": self.kind,
            "count": self.count,
            "number": source.number,
            "worker": source.worker,
            "group": source.group,
            "rank": source.rank,
            "series_ticks": [source.ticks.start, source.ticks.stop],
            "ticks": [[ticks.start, ticks.stop] for ticks in self.ticks],
        }

    @classmethod
    def from_json(cls, schedule: Schedule, record: dict[str, Any]) -> Self:
        """What `to_json` wrote. LookupError, TypeError or ValueError if it did not."""
        source = Series(
            record["number"],
            record["worker"],
            record["group"],
            record["rank"],
            range(*record["series_ticks"]),
        )
        ticks = [range(first, end) for first, end in record["ticks"]]
        return cls(record["series"], record["kind"], schedule, source, ticks)


def label(spec: LoadSpec, metric: str, tags: dict[str, str]) -> str:
    """Name of a series: its metric, with those tags that tell it from others of that metric."""
    telling = [k for k, pattern in spec.tags.items() if "{n" in pattern]
    if "{n}" in spec.metric or not telling:
        return metric
    return f"{metric}{{{', '.join(f'{k}={tags.get(k)}' for k in telling)}}}"


def _ranges(ticks: Int64s) -> list[range]:
    """Ascending ticks as ranges of consecutive ones."""
    if not len(ticks):
        return []
    cuts = np.flatnonzero(np.diff(ticks) != 1) + 1
    return [range(int(p[0]), int(p[-1]) + 1) for p in np.split(ticks, cuts)]


@dataclass
class ReadBack:
    """What reading a run back found: the facts that its ledger is balanced from.

    Attributes:
        passes: how often series of which points were missing were asked for.
        counts: points (but `series`) by what became of them; see `Settlement`.
        found_of_died: per worker that died, points of unknown outcome that came back right.
        gaps: points that came back wrong, then those that must be there and did not come back.
        rows_by_cql: rows counted in the store; None: not counted.
        at_all: what every replica has of the missing ones; None if none are, or it was not asked.
        notes: what else the ledger should say of how it was read.
        waiting: points that waited on the servers when what is missing was about to be asked for
            the last time; None: they did not tell, or it was not looked at.
    """

    passes: int
    counts: dict[str, int]
    found_of_died: dict[int, int] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    rows_by_cql: int | None = None
    at_all: AtAll | None = None
    notes: list[str] = field(default_factory=list)
    waiting: int | None = None

    def write_gaps(self, folder: Path) -> None:
        """Write readback-gaps.jsonl, which does not change any more. Before `write`."""
        run_folder.write_lines(
            folder / run_folder.READBACK_GAPS, (gap.to_json() for gap in self.gaps)
        )

    def write(self, folder: Path) -> None:
        """Write readback.json, as far as it is known by now."""
        document = {
            **{k: v for k, v in vars(self).items() if k != "gaps"},
            "gap_series": len(self.gaps),
            "at_all": asdict(self.at_all) if self.at_all else None,
        }
        run_folder.write_json(folder / run_folder.READBACK, document)

    @classmethod
    def read(cls, schedule: Schedule, folder: Path) -> Self | None:
        """What a run folder says was read back; None if it was not.

        UserError if the files are missing in part, cut off, or not of such a load.
        """
        path, gaps = folder / run_folder.READBACK, folder / run_folder.READBACK_GAPS
        if not path.exists():
            return None
        document = run_folder.read_object(path)
        try:
            expected, at_all = document.pop("gap_series"), document.pop("at_all")
            died = {int(worker): n for worker, n in document.pop("found_of_died").items()}
            found = cls(
                **document,
                found_of_died=died,
                at_all=AtAll(**at_all) if at_all else None,
                gaps=[Gap.from_json(schedule, record) for record in run_folder.records(gaps)],
            )
            counted = set(found.counts) == set(COUNTS)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise UserError(f"{path}: not what a read-back writes: {error!r}") from error
        if not counted or len(found.gaps) != expected:
            raise UserError(f"{path}: does not fit {gaps.name}, or is of another version")
        return found


_RIGHT = {"stored": ACKNOWLEDGED, "rejected": REJECTED, "unknown": UNKNOWN, "not_sent": NOT_SENT}
COUNTS = ("series", "present", "unexpected", "wrong_value", "unknown_absent", *_RIGHT)
"""Keys of `ReadBack.counts`: `series` that were read back, and points. `present` came back at their
time, `wrong_value` of them with another value. `stored`, `rejected`, `unknown` and `not_sent` came
back right, and are acknowledged, rejected and so on by what the loaders say; `unknown_absent` are
unknown and did not come back. `unexpected` came back at times, or with tags, never scheduled."""


class Settlement:
    """Holds what is read back against the loaders' outcomes, a series at a time.

    It keeps counts and gaps only: a run may have hundreds of millions of points.
    """

    def __init__(self, schedule: Schedule, outcomes: Outcomes) -> None:
        """Of a load's schedule, and what the loaders say of its points."""
        self._schedule = schedule
        self._outcomes = outcomes
        self._claimed = ACKNOWLEDGED if outcomes.acknowledges else UNKNOWN
        self._counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
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
        counts = self._counts
        wrong = result.present & ~result.right
        counts["series"] += 1
        counts["present"] += int(result.present.sum())
        counts["unexpected"] += result.unexpected
        counts["wrong_value"] += int(wrong.sum())
        for name, code in _RIGHT.items():
            counts[name] += int(((codes == code) & result.right).sum())
        if wrong.any():
            self._wrong.append(self._gap(series, WRONG_VALUE, wrong))
        if series.worker in self._outcomes.died:
            found = int(((codes == UNKNOWN) & result.right).sum())
            self._found_of_died[series.worker] += found
            return
        counts["unknown_absent"] += int(((codes == UNKNOWN) & ~result.present).sum())
        absent = (codes == self._claimed) & ~result.present
        if absent.any():
            kind = MISSING if self._outcomes.acknowledges else MISSING_UNACKNOWLEDGED
            self._missing.append(self._gap(series, kind, absent))

    def _gap(self, series: Series, kind: str, points: Bools) -> Gap:
        spec = self._schedule.spec
        name = label(spec, spec.metric_name(series.number), spec.tags_of(series.number))
        ticks = np.flatnonzero(points) + series.ticks.start
        return Gap(name, kind, self._schedule, series, _ranges(ticks))

    def found(self, passes: int = 1) -> ReadBack:
        """The facts, once every series was added."""
        gaps = [*self._wrong, *self._missing]
        return ReadBack(passes, dict(self._counts), dict(self._found_of_died), gaps)


def failed_points(folder: Path) -> Iterator[FailedPoint]:
    """The run's points that servers gave up, of failed.jsonl. UserError if a line is cut off."""
    path = folder / run_folder.FAILED_POINTS
    if not path.exists():
        return
    for record in run_folder.lines(path):
        try:
            yield FailedPoint(**(record or {}))
        except TypeError as error:
            raise UserError(f"{path}: a line is cut off, or not of such a file") from error
