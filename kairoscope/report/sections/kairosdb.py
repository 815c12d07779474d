"""KairosDB's queue, in words."""

from kairoscope.report import units
from kairoscope.report.data import RunData, part
from kairoscope.report.units import number


def queue_note(run: RunData) -> str:
    """What order points leave KairosDB's queue in; "" for a run that does not tell."""
    settings = part(run.plan, "kairosdb")
    window_ms = number(settings.get("queue_window_ms"))
    if settings.get("queue") == "stock":
        return "Queue: KairosDB's own; points leave it in the order they came."
    if window_ms is None:
        return ""
    return (
        "Queue: coalescing; points of a series leave it together, after a window of "
        f"{units.duration(window_ms / 1000)} at most (kairosdb.queue_window_ms), in which queries "
        "do not find them. So half a window of points waits while all is well."
    )
