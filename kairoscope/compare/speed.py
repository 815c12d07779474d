"""How fast the machines of finished runs were, and whether two sides' differ. Pure.

CPU a point and latency follow the machine's speed: of two equal systems they differ as much as it.
"""

from collections.abc import Sequence
from statistics import median

from kairoscope.compare.runs import Run, at

TOLD = 1.1
"""From this ratio on it is worth a sentence. It changes no word: see `conditions.OTHER_SPEED`."""


def of(run: Run) -> dict[str, float]:
    """CPU seconds for the same work of each machine, the better of the looks before and after."""
    found: dict[str, float] = {}
    for when in ("before", "after"):
        for name, seconds in (at(run.manifest, "conditions", "speed", when) or {}).items():
            if isinstance(seconds, int | float) and seconds > 0:
                found[name] = min(seconds, found.get(name, seconds))
    return found


def apart(first: Sequence[Run], second: Sequence[Run]) -> tuple[float, str] | None:
    """Of the machine whose speed differs most between the sides: ratio (above 1) and sentence.

    By the medians over a side's runs. None if none differs by `TOLD`, or it is not known.
    """
    works = {at(run.manifest, "conditions", "speed", "work") for run in (*first, *second)}
    if len(works) > 1:  # Seconds of other work, or of none.
        return None
    looks = [[of(run) for run in runs] for runs in (first, second)]
    names = set.intersection(*(set(look) for side in looks for look in side))
    found = []
    for name in sorted(names):
        one, other = (median(look[name] for look in side) for side in looks)
        found.append((max(one / other, other / one), name, one, other))
    ratio, name, one, other = max(found, default=(1.0, "", 0.0, 0.0))
    if ratio <= TOLD:
        return None
    return ratio, (
        f"the machine's speed: {name} took {one * 1000:,.2f} ms and {other * 1000:,.2f} ms of CPU "
        "for the same work, so that CPU and latency compare machines as well"
    )
