"""Whether what waited on the servers was stored after the load: the verdict's part *drain*. Pure.

The clock starts when the last point was due, whatever the loaders still have to do then: a point
that is sent again for a minute is stored a minute later.
"""

from collections.abc import Mapping

from kairoscope.run_folder import Drain
from kairoscope.verdict.queue import Looks
from kairoscope.verdict.sustained import Part


def empty_at(told: Mapping[str, Looks], ended: float) -> float | None:
    """When every node was first seen empty after the loaders' end (epoch s); None: not seen."""
    firsts = [
        next((t for t, waiting in looks if t >= ended and waiting == 0), None)
        for looks in told.values()
    ]
    seen = [t for t in firsts if t is not None]
    return max(seen) if seen and len(seen) == len(firsts) else None


def drain_part(
    drain: Drain | None, told: Mapping[str, Looks], due: float, ended: float, limit_s: float
) -> Part:
    """Time until the servers' queues were empty after the last point was due.

    Args:
        drain: how the run watched them; None: not to the end.
        told: looks at each node.
        due: when the last point was due, epoch s.
        ended: when the last loader had ended, epoch s.
        limit_s: of that time.
    """
    if drain is None:
        text = "the queue was not watched to its end after the load"
        return Part(None, limit_s, "s", "unknown", text)
    watched_s = drain.watched_until - due
    if drain.left == 0:
        at = empty_at(told, ended) or drain.watched_until
        seconds = max(0.0, at - due)
        text = f"queue empty {seconds:.1f} s after the last point was due"
        if ended - due > 1:
            text += f", and the last loader had ended {ended - due:.1f} s after it"
        return Part(seconds, limit_s, "s", "pass" if seconds <= limit_s else "fail", text)
    if watched_s < limit_s:
        text = f"the queue was watched for {watched_s:.0f} s alone, and was not empty then"
        return Part(None, limit_s, "s", "unknown", text)
    after = f"{watched_s:.0f} s after the last point was due"
    if drain.left is None:
        text = f"not every node told how much waits on it {after}"
    else:
        text = f"{drain.left:,} points still waited {after}"
    return Part(None, limit_s, "s", "fail", text)
