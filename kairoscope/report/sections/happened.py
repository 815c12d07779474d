"""What happened in the run: events, faults on purpose, errors that loaders counted."""

from kairoscope.report import units
from kairoscope.report.data import RunData, items, part
from kairoscope.report.table import Table, Text
from kairoscope.report.units import NONE, number


def events(run: RunData) -> Table:
    """What happened, with the time since the start of the load."""
    start = run.start_s
    rows = []
    # Some are written when the load has ended: what workers saw.
    for event in sorted(run.events, key=lambda event: units.epoch_s(event.get("t")) or 0.0):
        t = units.epoch_s(event.get("t"))
        since = NONE if t is None or start is None else units.offset(t - start)
        rows.append(
            (since, units.clock(t), units.plain(event.get("what")), str(event.get("detail") or ""))
        )
    return Table(("min:s into the load", "time", "what", "detail"), tuple(rows), numeric=(0,))


def faults(run: RunData) -> Table:
    """What was wrong on purpose, when, and what each fault came to."""
    start = run.start_s or 0.0
    rows = []
    for fault in items(run.verdict, "faults"):
        begun, undone = (units.epoch_s(fault.get(key)) for key in ("begun_t", "undone_t"))
        since = NONE if begun is None else units.offset(begun - start)
        lasted = NONE if begun is None or undone is None else units.duration(undone - begun)
        rows.append(
            (
                str(fault.get("text")),
                since,
                lasted,
                units.duration(fault.get("silence_s")),
                units.duration(fault.get("recovery_s")),
                str(fault.get("said")),
            )
        )
    head = ("fault", "min:s into the load", "lasted", "longest silence", "as before after", "said")
    return Table(head, tuple(rows), numeric=(1, 2, 3, 4))


def loader_errors(run: RunData) -> tuple[Table, Text]:
    """Errors that the loaders counted, by kind, and the first few in the server's words."""
    kinds: dict[str, float] = {}
    for worker in run.workers:
        for kind, n in part(worker, "errors").items():
            kinds[kind] = kinds.get(kind, 0) + (number(n) or 0)
    words = dict.fromkeys(str(text) for w in run.workers for text in items(w, "first_errors"))
    rows = tuple((kind, units.count(n)) for kind, n in sorted(kinds.items()))
    return Table(("error", "count"), rows, numeric=(1,)), tuple(words)[:5]
