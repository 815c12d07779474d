"""What queries saw of the points of followed sensors, as the report has it."""

from kairoscope.report import units
from kairoscope.report.data import Json, RunData, items, part
from kairoscope.report.table import Table, Text
from kairoscope.report.units import number

_COUNTS = (
    ("points", "acknowledged, or found by a query"),
    ("found", "found by a query while the load went on"),
    (
        "stale",
        "missed by a query that was asked after their acknowledgement, which promises no query",
    ),
    ("never_found", "asked for after their acknowledgement and never found: see the ledger"),
    ("unread", "not asked for any more after their acknowledgement"),
    ("vanished", "found, and missed by a later query"),
    ("found_again", "of those in the last answer again"),
)
_TIMES = (("p50", "p50_ms"), ("p90", "p90_ms"), ("p99", "p99_ms"), ("max", "max_ms"))


def counts(run: RunData) -> Table:
    """Points by what became of them; nothing if none was followed."""
    found = _of(run)
    rows = [(units.count(found[key]), what) for key, what in _COUNTS if key in found]
    return Table(("points", "of followed sensors"), tuple(rows), numeric=(0,))


def times(run: RunData) -> Table:
    """Time to visible by percentile, with the number of points behind it."""
    visible = part(_of(run), "visible")
    if not number(visible.get("count")):
        return Table((), ())
    rows = [
        (name, units.milliseconds(visible.get(key)), units.count(visible["count"]))
        for name, key in _TIMES
    ]
    head = ("percentile", "time to visible, at most", "points measured")
    return Table(head, tuple(rows), numeric=(1, 2))


def notes(run: RunData) -> Text:
    """How it was looked at."""
    found = _of(run)
    if not found:
        return ()
    said = [
        f"{units.count(found.get('sensors'))} sensors were asked for "
        f"{units.count(found.get('reads'))} times, "
        f"{units.duration(found.get('every_s'))} apart, at most "
        f"{units.duration(found.get('longest_apart_s'))}: a time to visible is known to that (of a "
        "point that waits in one node's queue to that node's turns), and counts from the "
        "acknowledgement to the end of the first answer with the point."
    ]
    if unanswered := number(found.get("unanswered")):
        said.append(f"{units.count(unanswered)} reads had no answer, which says nothing.")
    if wrong := number(found.get("wrong")):
        said.append(f"{units.count(wrong)} answers had wrong values.")
    return tuple(said)


def vanished(run: RunData) -> Table:
    """The first points that were found and then missed."""
    rows = [
        (
            str(point.get("series")),
            *(
                units.clock(point.get(key), millis=True).removesuffix(" UTC")
                for key in ("timestamp_ms", "acknowledged_t", "found_t", "missed_t")
            ),
            "yes" if point.get("found_again") else "no",
        )
        for point in items(_of(run), "vanished_points")
        if isinstance(point, dict)
    ]
    head = ("vanished", "its time (UTC)", "acknowledged", "found", "missed", "found again")
    return Table(head, tuple(rows))


def _of(run: RunData) -> Json:
    return part(run.queries, "followed")
