"""What became of the queries beside the load, and how long they took."""

from kairoscope.report import units
from kairoscope.report.data import RunData, items, part
from kairoscope.report.sections.client import percentiles
from kairoscope.report.table import Table, Text
from kairoscope.report.units import number


def answers(run: RunData) -> Table:
    """What became of the queries beside the load, by kind; nothing if there were none."""
    answers = part(run.queries, "answers")
    if not answers:
        return Table((), ())
    by_kind = [(_KINDS.get(kind, kind), part(c)) for kind, c in part(answers, "kinds").items()]
    rows = [
        (name, *(units.count(counts.get(key)) for key in _ANSWERS))
        for name, counts in [*by_kind, ("all", answers)]
    ]
    head = ("queries", *(key.replace("_", " ") for key in _ANSWERS))
    return Table(head, tuple(rows), numeric=tuple(range(1, len(head))))


_ANSWERS = ("sent", "right", "late", "wrong", "failed", "not_sent")
_KINDS = {"raw": "points of some sensors", "aggregated": "count and sum in buckets", "tags": "tags"}


def notes(run: RunData) -> Text:
    """Sentences on the points that queries looked at, and on what went wrong."""
    answers = part(run.queries, "answers")
    notes = []
    if checked := number(answers.get("points_checked")):
        late = number(answers.get("points_late"))
        lag = number(part(run.load, "queries").get("lag_s"))
        aged = "" if lag is None else f" {units.duration(lag)} after their time"
        notes.append(
            f"{units.count(checked)} points were due in the answers{aged}; "
            f"{units.count(late)} were not yet"
            f"{'' if late is None else f' ({100 * late / checked:.2g} %)'}."
        )
    errors = part(answers, "errors")
    if errors:
        kinds = ", ".join(f"{kind} {units.count(n)}" for kind, n in sorted(errors.items()))
        notes.append(f"Failures by kind: {kinds}.")
    if without := items(answers, "hosts_without_final_counts"):
        notes.append(
            f"{len(without)} loader host(s) left no final counts: theirs are those last heard of."
        )
    return tuple(notes)


def latency(run: RunData) -> Table:
    """Latency of the queries beside the load, with the number of queries behind each percentile."""
    return percentiles(part(run.queries, "latency"), "queries")
