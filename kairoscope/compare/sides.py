"""Two sides, of one run each or of several: comparable or not, and a word for each metric. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kairoscope.compare import comparable, within
from kairoscope.compare.comparable import Comparability, Difference
from kairoscope.compare.runs import METRICS, Metric, Run, read
from kairoscope.errors import UserError
from kairoscope.stats import groups
from kairoscope.stats.groups import LEAST_RUNS, TOLERANCE, Compared, Interval, Word

FORMAT = 1
"""Of compare.json; raised when a reader of the old one would misread the new one."""

EXIT_STATUS: dict[str, int] = {
    "better": 0,
    "same": 0,
    "worse": 1,
    "undecided": 2,
    "not comparable": 2,
}


@dataclass(frozen=True)
class Side:
    """One side: how it is called, and its runs in the order in which they were made."""

    label: str
    runs: list[Run]

    def values(self, metric: Metric) -> list[float]:
        """The metric of all runs; [] if one of them has none: a mean of the rest is another's."""
        found = [run.figures.get(metric.name) for run in self.runs]
        return [] if None in found else [value for value in found if value is not None]


@dataclass(frozen=True)
class Row:
    """A metric of both sides.

    Attributes:
        interval: of the ratio, second by first; None if there is none.
        text: the word as it is told.
    """

    metric: Metric
    first: list[float]
    second: list[float]
    ratio: float | None
    interval: Interval | None
    word: Word
    text: str
    statistics: Compared | None = None

    def to_json(self) -> dict[str, Any]:
        """Of compare.json."""
        metric = self.metric
        return {
            "name": metric.name,
            "label": metric.label,
            "unit": metric.unit,
            "less_is_better": metric.less_is_better,
            "first": self.first,
            "second": self.second,
            "ratio": self.ratio,
            "interval": asdict(self.interval) if self.interval else None,
            "word": self.word,
            "text": self.text,
            "statistics": asdict(self.statistics) if self.statistics else None,
        }


@dataclass(frozen=True)
class Comparison:
    """What two sides come to.

    Attributes:
        left_out: runs that were not judged, and why; sentences.
        notes: what a reader should know beside; sentences.
    """

    first: Side
    second: Side
    tolerance: float
    comparability: Comparability
    rows: list[Row]
    word: str
    sentence: str
    settings: list[Difference] = field(default_factory=list)
    conditions: list[Difference] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """0 same or better, 1 worse, 2 undecided or not comparable."""
        return EXIT_STATUS[self.word]

    @property
    def singles(self) -> bool:
        """Whether it is one run a side: then all that is said is of these two runs."""
        return len(self.first.runs) == len(self.second.runs) == 1

    def to_json(self) -> dict[str, Any]:
        """The content of compare.json."""

        def side(of: Side) -> dict[str, Any]:
            runs = [
                {"run": r.name, "folder": str(r.folder), "started": r.started, "verdict": r.word}
                for r in of.runs
            ]
            return {"label": of.label, "runs": runs}

        return {
            "format": FORMAT,
            "word": self.word,
            "sentence": self.sentence,
            "first": side(self.first),
            "second": side(self.second),
            "tolerance": self.tolerance,
            "comparable": not self.comparability.why_not,
            "why_not": self.comparability.why_not,
            "on_purpose": self.comparability.on_purpose,
            "left_out": self.left_out,
            "notes": self.notes,
            "metrics": [row.to_json() for row in self.rows],
            "settings": [asdict(each) for each in self.settings],
            "conditions": [asdict(each) for each in self.conditions],
        }


def of_folders(
    first: Sequence[Path],
    second: Sequence[Path],
    *,
    labels: tuple[str, str] | None = None,
    tolerance: float = TOLERANCE,
    on_purpose: Sequence[str] = (),
) -> Comparison:
    """Compare the runs of these folders.

    Raises:
        UserError: a folder is no finished run of this version, or is there twice.
    """
    _check_twice([path.resolve() for path in first], [path.resolve() for path in second])
    a, b = ([read(path) for path in paths] for paths in (first, second))
    names = labels or _labels(a, b)
    return compare(
        Side(names[0], a),
        Side(names[1], b),
        tolerance=tolerance,
        on_purpose=on_purpose,
    )


def _check_twice(first: Sequence[Path], second: Sequence[Path]) -> None:
    if not first or not second:
        raise UserError(
            "compare: there must be a run on either side: kairoscope compare RUN… --with RUN…"
        )
    for path in first:
        if path in second:
            raise UserError(f"{path}: the same run is on both sides; a run is like itself")
    for paths in (first, second):
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise UserError(f"{twice[0]}: the same run is there twice on one side; once is enough")


def _labels(first: Sequence[Run], second: Sequence[Run]) -> tuple[str, str]:
    """What the sides are called: by their experiments where those differ."""
    a, b = (str(runs[0].manifest.get("experiment") or "?") for runs in (first, second))
    return (a, b) if a != b else (f"A ({a})", f"B ({b})")


def compare(
    first: Side,
    second: Side,
    *,
    tolerance: float = TOLERANCE,
    on_purpose: Sequence[str] = (),
) -> Comparison:
    """Compare two sides."""
    first, second, left_out = _judged(first, second)
    fit = comparable.comparable(first.runs, second.runs, on_purpose)
    if first.runs and second.runs:
        rows = _rows(first, second, tolerance)
        settings = comparable.settings(first.runs[0], second.runs[0])
        conditions = comparable.conditions(first.runs[0], second.runs[0])
    else:
        rows, settings, conditions = [], [], []
    word, sentence = _overall(first, second, rows, fit)
    if fit.why_not:
        rows = [replace(row, word="undecided", text="not comparable") for row in rows]
    return Comparison(
        first=first,
        second=second,
        tolerance=tolerance,
        comparability=fit,
        rows=rows,
        word=word,
        sentence=sentence,
        settings=settings,
        conditions=conditions,
        left_out=left_out,
        notes=[*fit.beside, *_notes(first, second)],
    )


def _judged(first: Side, second: Side) -> tuple[Side, Side, list[str]]:
    """The sides without the runs that say nothing of the store, and sentences on those."""
    left_out = [
        f"{run.name} is left out, as it is {run.word}: {run.verdict.get('summary') or ''}"
        for run in (*first.runs, *second.runs)
        if not run.judged
    ]
    a, b = (Side(side.label, [run for run in side.runs if run.judged]) for side in (first, second))
    return a, b, left_out


def _rows(first: Side, second: Side, tolerance: float) -> list[Row]:
    if len(first.runs) == len(second.runs) == 1:
        blocks = within.read(first.runs[0]), within.read(second.runs[0])
        return [_single(metric, first, second, within.ratios(*blocks)) for metric in METRICS]
    values = {metric.name: (first.values(metric), second.values(metric)) for metric in METRICS}
    judged = groups.compare(
        [groups.Metric(m.name, *values[m.name], m.less_is_better) for m in METRICS],
        tolerance=tolerance,
    )
    return [
        Row(metric, *values[metric.name], each.ratio, each.interval, each.word, each.text, each)
        for metric, each in zip(METRICS, judged, strict=True)
    ]


def _single(metric: Metric, first: Side, second: Side, found: dict[str, Interval]) -> Row:
    """A row of two single runs: whether these differ is all that can be said."""
    a, b = first.values(metric), second.values(metric)
    interval = found.get(metric.name) if a and b else None
    ratio = interval.ratio if interval else b[0] / a[0] if a and b else None
    if ratio is None:
        text = "not measured on both sides"
    elif interval is None:
        text = "no interval within one run"
    elif interval.low <= 1 <= interval.high:
        text = "no difference seen"
    else:
        text = "these two runs differ"
    return Row(metric, a, b, ratio, interval, "undecided", text)


def _overall(first: Side, second: Side, rows: Sequence[Row], fit: Comparability) -> tuple[str, str]:
    """The word for the whole, and the sentence that goes with it."""
    if fit.why_not:
        return "not comparable", f"Not comparable: {fit.why_not[0]}."
    passed = [sum(run.word == "pass" for run in side.runs) for side in (first, second)]
    totals = [len(side.runs) for side in (first, second)]
    said = {
        word: [row for row in rows if row.word == word and row.ratio is not None]
        for word in ("better", "worse", "same", "undecided")
    }
    if min(totals) < LEAST_RUNS:
        return "undecided", _few(first, second, rows, min(totals))
    sustained = ""
    if passed[0] / totals[0] != passed[1] / totals[1]:
        sustained = (
            f"; sustained: {passed[0]} of {totals[0]} runs of {first.label}, "
            f"{passed[1]} of {totals[1]} of {second.label}"
        )
    worse = "; ".join(_told(row) for row in said["worse"])
    better = "; ".join(_told(row) for row in said["better"])
    # Labels have commas of their own.
    open_ = "; ".join(row.metric.label for row in said["undecided"])
    also = f". Undecided: {open_}" if open_ else ""
    beside = f"{second.label} beside {first.label}"
    if passed[0] == totals[0] and not passed[1]:
        word, text = "worse", f"{beside} is worse: none of its runs was sustained"
        sustained = ""
    elif worse:
        word = "worse"
        text = f"{beside} is worse: {worse}" + (f"; better: {better}" if better else "")
    elif sustained and passed[1] / totals[1] < passed[0] / totals[0]:
        word, text = "undecided", f"{beside} is undecided: fewer of its runs were sustained"
    elif better:
        word, text = "better", f"{beside} is better: {better}"
    elif said["undecided"] or not said["same"]:
        word, text = "undecided", f"{beside} is undecided"
    else:
        word, text = "same", f"{beside} is the same: {said['same'][0].text} in every metric"
    return word, f"{text}{sustained}{also}."


def _few(first: Side, second: Side, rows: Sequence[Row], runs: int) -> str:
    if len(first.runs) == len(second.runs) == 1:
        differ = [row for row in rows if row.interval and row.text.startswith("these two")]
        text = "; ".join(_told(row) for row in differ)
        what = f"These two runs differ: {text}" if differ else "These two runs do not differ"
        return (
            f"{what}. That is of these runs only: whether {first.label} and {second.label} differ "
            f"takes {LEAST_RUNS} runs a side."
        )
    more = LEAST_RUNS - runs
    return f"Undecided: {more} more run{'s' * (more > 1)} a side, for the spread between runs."


def _told(row: Row) -> str:
    """A metric with its ratio, as it is quoted."""
    return f"{row.metric.label} {quoted(row.ratio, row.interval)}"


def quoted(ratio: float | None, interval: Interval | None) -> str:
    """A ratio and its interval: × 0.24 (0.21 to 0.27)."""
    if ratio is None:
        return "–"
    text = f"× {short(ratio)}"
    return f"{text} ({short(interval.low)} to {short(interval.high)})" if interval else text


def short(value: float) -> str:
    """Three digits that count."""
    if not math.isfinite(value):
        return "∞"
    decimals = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{min(decimals, 6)}f}"


def _notes(first: Side, second: Side) -> list[str]:
    notes = []
    several = len(first.runs) > 1 or len(second.runs) > 1
    times = [sorted(run.started for run in side.runs) for side in (first, second)]
    if several and all(times):
        (a, b) = times
        if a[-1] < b[0] or b[-1] < a[0]:
            notes.append(
                "All runs of one side were made before those of the other: a machine that changed "
                "meanwhile shows as a difference. `kairoscope ab` takes turns."
            )
    for side in (first, second):
        failed = [run for run in side.runs if run.word == "fail"]
        if failed:
            notes.append(
                f"{len(failed)} of {len(side.runs)} runs of {side.label} failed, the first by: "
                f"{str(failed[0].verdict.get('summary') or '').rstrip('.')}. Costs and latencies "
                "of a load that is not sustained are not those of a balance."
            )
    return [*notes, *(note for side in (first, second) if (note := _commits(side)))]


def _commits(side: Side) -> str:
    """What is to be said of a side that is not of one commit; "" if it is."""
    found = Counter(comparable.commit(run.manifest) or "not known" for run in side.runs)
    if len(found) < 2:
        return ""
    named = ", ".join(f"{commit} ({n} run{'s' * (n > 1)})" for commit, n in found.items())
    return (
        f"The runs of {side.label} are of several commits: {named}. What differs between these is "
        "in its spread."
    )
