"""The run beside the last runs like it."""

from kairoscope.report import units
from kairoscope.report.data import RunData, part
from kairoscope.report.table import Table
from kairoscope.report.units import number


def table(run: RunData) -> Table:
    """This run's figures beside those of the last runs like it; empty if there were none."""
    rows = []
    for entry in map(part, part(run.beside, "figures").values()):
        unit = str(entry.get("unit") or "")
        figure, median, least, most = (
            units.quantity(entry.get(key), unit) for key in ("figure", "median", "least", "most")
        )
        values = [number(entry.get(key)) for key in ("figure", "least", "most")]
        outside = ""
        if None not in values:
            mine, low, high = (v or 0.0 for v in values)
            outside = "lower than all" if mine < low else "higher than all" if mine > high else ""
        rows.append((str(entry.get("label")), figure, median, f"{least} to {most}", outside))
    head = ("", "this run", "median", "least to most", "")
    return Table(head, tuple(rows), numeric=(1, 2, 3)) if rows else Table((), ())


def note(run: RunData) -> str:
    """Which runs those are."""
    count, passed = number(run.beside.get("runs")), number(run.beside.get("passed"))
    return (
        f"The last {units.count(count)} judged runs of this experiment, asked for in the same way "
        f"on the same machine, {units.count(passed)} of which passed. With so many, one run in "
        f"{units.count((count or 0) / 2 + 0.5)} is outside all of them by chance, for each figure."
    )
