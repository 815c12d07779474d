"""What the questions beside a bake-off's load came to. Pure, of asked.jsonl."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kairoscope.report import units
from kairoscope.stacks.questions import ENDED_EARLY, HOUR, LAST, MEANS, SENSORS

NOT_MEASURED = "not measured"


def labels(sensors: int) -> list[tuple[str, str]]:
    """Each kind, and what its row is called, of a load of so many sensors."""
    asked = "under the load: p50, p99 (answers"
    return [
        (LAST, f"last point of {min(SENSORS, sensors)} sensors, {asked}, sensors in each)"),
        (HOUR, f"an hour of one sensor, {asked}, points in each)"),
        (MEANS, f"mean of all sensors in each second of a minute, {asked}, seconds in each)"),
    ]


def ended_early(events: Iterable[Mapping[str, Any]]) -> str:
    """Why a run's questions did not come to their end, by its events; "" if they did."""
    return next((str(event["detail"]) for event in events if event["what"] == ENDED_EARLY), "")


def figure(
    records: Iterable[Mapping[str, Any]], kind: str, ended: str = ""
) -> tuple[str, float | None, str]:
    """The text of a kind's cell, its median (ms), and why there is none or what is to be said.

    What failed or found nothing took longer than any answer. `ended`: why questions ended early.
    """
    mine = [record for record in records if record["kind"] == kind]
    if why := next((str(record["why"]) for record in mine if "why" in record), ""):
        return NOT_MEASURED, None, why
    asked = [record for record in mine if not record.get("left_out")]
    answers = [record for record in asked if record.get("found")]
    notes = []
    if failed := len(asked) - len(answers):
        errors = (str(record["error"]) for record in asked if "error" in record)
        notes.append(f"{failed} of {len(asked)} failed: {next(errors, 'nothing was found')}")
    if left_out := len(mine) - len(asked):
        notes.append(
            f"{left_out} of {len(mine)} were due before the last answer came, and left out"
        )
    if ended:
        notes.append(f"{ENDED_EARLY}: {ended}")
    said = "; ".join(notes)
    if not answers:
        return NOT_MEASURED, None, said or "nothing was asked"
    took = sorted(float(record["latency_ms"]) for record in answers)
    p50, p99 = (_rank(took, len(asked), share) for share in (0.5, 0.99))
    each = sorted(int(record["found"]) for record in answers)
    found = units.count(each[0])
    if each[-1] > each[0]:
        found += f" to {units.count(each[-1])}"
    shown = ", ".join("failed" if ms is None else units.milliseconds(ms) for ms in (p50, p99))
    return f"{shown} ({units.count(len(answers))}, {found})", p50, said


def _rank(took: Sequence[float], of: int, share: float) -> float | None:
    """The nearest-rank percentile where all beyond `took` are longer; None if it is one of them."""
    place = math.ceil(share * of) - 1
    return took[place] if place < len(took) else None
