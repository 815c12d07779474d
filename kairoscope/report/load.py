"""The load of a run, as far as several sections and charts speak of it: how long it was, its
warm-up, what latency counts from and to, and how many points came how far."""

from kairoscope.report.data import RunData, known, part
from kairoscope.report.units import number

LONGEST_S = 1e7  # no run lasts as long as this, 115 days; what is more is epoch time


def latency_from(run: RunData) -> str:
    """What client latency counts from."""
    return "the start of the request" if run.replay else "the planned send time"


def latency_to(run: RunData) -> str:
    """What client latency counts to."""
    return "the acknowledgement" if run.acknowledges else "the hand-over to the socket"


def latency_limit_ms(run: RunData) -> float | None:
    """The limit that p99 is judged by, in ms; None if it is not."""
    if part(run.verdict, "parts", "latency").get("outcome") == "not judged":
        return None
    judged = number(part(run.verdict, "parts", "latency").get("limit"))
    planned = number(part(run.plan, "experiment", "limits").get("p99_ms"))
    return judged if judged is not None else planned


def warmup_s(run: RunData) -> float | None:
    """Length of the warm-up in seconds; its points do not count in the percentiles.

    None for a replay, whose warm-up is a part of the history and not of the time it takes.
    """
    if run.replay:
        return None
    planned = number(run.load.get("warmup_s"))
    if planned is not None:
        return planned
    ticks, period = (number(run.load.get(key)) for key in ("warmup_ticks", "period_ms"))
    return None if ticks is None or period is None else ticks * period / 1000


def counted(run: RunData, key: str) -> float | None:
    """A count from the ledger; without one, the sum of what the loader processes last said."""
    settled = number(run.ledger.get(key))
    if settled is not None:
        return settled
    finals = [v for w in run.workers if (v := number(w.get(key))) is not None]
    if finals and len(finals) == len(run.progress or run.workers):
        return sum(finals)
    running = "due" if key == "scheduled" else key
    last = [
        v for lines in run.progress if lines if (v := number(lines[-1].get(running))) is not None
    ]
    return sum(last) if last else None


def duration(run: RunData) -> float | None:
    """Of the load, in seconds: as it was, if it was ended before its time, else as planned."""
    was = part(run.manifest, "load")
    start, end = number(was.get("start_ms")), number(was.get("end_ms"))
    if start is not None and end is not None and not run.replay:
        return (end - start) / 1000
    return planned_duration(run)


def planned_duration(run: RunData) -> float | None:
    """Of the load, in seconds; of a replay the time that the history covers."""
    load = run.load
    direct = number(load.get("duration_s"))
    if direct is not None:
        return direct
    points, rate = number(known(load.get("points"), load.get("ticks"))), number(load.get("rate"))
    return points / rate if points is not None and rate else None
