"""What each fault of a run came to: the longest silence, and when all was as before. Pure.

*As before* is said of a second: points were acknowledged in it, the 99th percentile of their
latency is at most `LATENCY_SHARE` times the highest of the seconds before the first fault, and
the servers' queues together are at most `QUEUE_SHARE` times as deep as they were then, and a second
of the load. All is as before from the first of `HOLD_S` such seconds in a row on. Where the load
ends before, or another fault begins, it is not known to have been.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kairoscope.verdict.queue import Looks

BEFORE_S = 30
"""So long before the first fault is looked at most, without the warm-up."""
LEAST_S = 3
"""So many seconds at least: the experiment leaves 5 s, of which the first and last may be cut."""
HOLD_S = 5
"""So many seconds in a row are as before; one alone may be chance."""
LATENCY_SHARE = 1.5
"""The highest of some seconds is exceeded by chance in one of as many later ones."""
QUEUE_SHARE = 1.25
"""As the part *queue* allows at the end: a store that has paused catches up."""
_OLD_LOOK_S = 3.0
"""A node that has not told its queue for longer is not known."""
_SAID_EACH = 5
"""Faults of which the verdict has a sentence each."""

Outcome = Literal["as before", "not as before", "unknown", "not carried out"]


@dataclass(frozen=True)
class Happened:
    """A fault as it was carried out, of faults.jsonl; times in epoch s, None: it did not."""

    number: int
    text: str
    action: str
    hosts: list[str]
    planned_t: float
    begun_t: float | None = None
    undone_t: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class Seen:
    """A load as far as its faults are judged by it.

    Attributes:
        start, warm, end: epoch s; of the load, of the end of its warm-up, of its last point.
        p99_ms: of each second since the start that had an acknowledgement.
        depths: what each server told of its queue; {} where they have none.
        silences: when all workers were silent together, epoch s; None: not known of all.
        rate: points/s that are due.
    """

    start: float
    warm: float
    end: float
    p99_ms: Mapping[int, float]
    depths: Mapping[str, Looks]
    silences: Sequence[tuple[float, float]] | None
    rate: float


@dataclass(frozen=True)
class Aftermath:
    """What a fault came to.

    Attributes:
        silence_s: longest time in which points were due and none was acknowledged, from its begin
            to the next fault or the load's end; None: not known.
        recovery_s: from its being undone until all was as before; None: it was not, or not known.
    """

    happened: Happened
    silence_s: float | None
    recovery_s: float | None
    outcome: Outcome
    said: str

    def to_json(self) -> dict[str, Any]:
        """As verdict.json has it."""
        return {
            **asdict(self.happened),
            "silence_s": self.silence_s,
            "recovery_s": self.recovery_s,
            "outcome": self.outcome,
            "said": self.said,
        }


def happened(records: Iterable[Mapping[str, Any]]) -> list[Happened]:
    """The faults of faults.jsonl's records, by number."""
    found: dict[int, dict[str, Any]] = {}
    for record in records:
        number, event = int(record["fault"]), record["event"]
        one = found.setdefault(
            number,
            {
                "number": number,
                **{key: record[key] for key in ("text", "action", "hosts")},
                "planned_t": float(record["t"]),
            },
        )
        if event in ("begun", "undone"):
            one[f"{event}_t"] = float(record["t"])
        elif event == "failed":
            one["problem"] = str(record["detail"])
    return [Happened(**found[number]) for number in sorted(found)]


def aftermaths(faults: Sequence[Happened], seen: Seen) -> list[Aftermath]:
    """Each fault, held against the seconds before the first."""
    begun = sorted(fault.begun_t for fault in faults if fault.begun_t is not None)
    usual = _usual(seen, begun[0]) if begun else None
    ends = [next((t for t in begun if t > (fault.begun_t or 0)), seen.end) for fault in faults]
    return [
        _aftermath(fault, seen, usual, until) for fault, until in zip(faults, ends, strict=True)
    ]


def frozen_loaders(faults: Sequence[Happened], loaders: Sequence[str]) -> list[str]:
    """Why a run is invalid: loader hosts that stood still on purpose send what is due later."""
    return [
        f"loader: {', '.join(stood)} stood still, by fault {fault.number} ({fault.text}): what was "
        "late by that says nothing of the servers"
        for fault in faults
        if fault.action == "freeze"
        and fault.begun_t is not None
        and (stood := [host for host in fault.hosts if host in loaders])
    ]


def stood_still(faults: Sequence[Happened], host: str) -> list[tuple[float, float]]:
    """When a host stood still on purpose, epoch s: it took nothing then, and could not be asked."""
    return [
        (fault.begun_t, math.inf if fault.undone_t is None else fault.undone_t)
        for fault in faults
        if fault.action == "freeze" and host in fault.hosts and fault.begun_t is not None
    ]


def remarks(after: Sequence[Aftermath]) -> list[str]:
    """A sentence on each, for the verdict; of many, one on all, and on each that went wrong."""
    if len(after) <= _SAID_EACH:
        return [_remark(each) for each in after]
    before = sum(each.outcome == "as before" for each in after)
    known = [(each.silence_s, each.happened) for each in after if each.silence_s is not None]
    longest, of = max(known, key=lambda one: one[0], default=(None, None))
    quiet = "silence not known" if longest is None else f"longest silence {longest:,.1f} s"
    if longest and of:
        quiet += f" (fault {of.number}, {of.text})"
    return [
        f"{len(after)} faults, each of them in the report: after {before} latency and queue were "
        f"as before when the next one began, or the load ended; {quiet}",
        *(_remark(each) for each in after if each.happened.undone_t is None),
    ]


def _remark(one: Aftermath) -> str:
    return f"Fault {one.happened.number}, {one.happened.text}: {one.said}"


@dataclass(frozen=True)
class _Usual:
    """The highest of the seconds before the first fault; `depth` None: there are no queues."""

    p99_ms: float
    depth: float | None


def _usual(seen: Seen, first: float) -> _Usual | None:
    """None: too few seconds are known."""
    begin = max(seen.warm, first - BEFORE_S)
    seconds = range(math.ceil(begin - seen.start), math.floor(first - seen.start))
    latencies = [seen.p99_ms[second] for second in seconds if second in seen.p99_ms]
    depths = [depth for second in seconds if (depth := _depth(seen, second)) is not None]
    if len(latencies) < LEAST_S or (seen.depths and len(depths) < LEAST_S):
        return None
    return _Usual(max(latencies), max(depths) if seen.depths else None)


def _depth(seen: Seen, second: int) -> float | None:
    """Points that waited on all nodes at the end of a second; None: one did not tell."""
    until = seen.start + second + 1
    total = 0.0
    for looks in seen.depths.values():
        last = next((look for look in reversed(looks) if look[0] < until), None)
        if last is None or until - last[0] > _OLD_LOOK_S:
            return None
        total += last[1]
    return total


def _as_before(seen: Seen, usual: _Usual, second: int) -> bool:
    p99 = seen.p99_ms.get(second)
    if p99 is None or p99 > usual.p99_ms * LATENCY_SHARE:
        return False
    if usual.depth is None:
        return True
    depth = _depth(seen, second)
    return depth is not None and depth <= usual.depth * QUEUE_SHARE + seen.rate


def _aftermath(fault: Happened, seen: Seen, usual: _Usual | None, until: float) -> Aftermath:
    if fault.begun_t is None or fault.problem.startswith("was not carried out"):
        return Aftermath(fault, None, None, "not carried out", fault.problem or "it never began")
    silence = _silence(seen, fault.begun_t, until)
    quiet = "silence not known" if silence is None else f"longest silence {silence:,.1f} s"
    if fault.undone_t is None:
        why = fault.problem or "it was not undone"
        return Aftermath(fault, silence, None, "not as before", f"{quiet}; {why}")
    lasted = f"undone after {fault.undone_t - fault.begun_t:,.1f} s"
    if usual is None:
        why = f"what is usual is not known, as fewer than {LEAST_S} s before it are"
        return Aftermath(fault, silence, None, "unknown", f"{lasted}; {quiet}; {why}")
    recovery = _recovery(seen, usual, fault.undone_t, until)
    if recovery is None:
        end = "the load's end" if until == seen.end else "the next fault"
        said = f"{lasted}; {quiet}; latency and queue were not as before until {end}"
        return Aftermath(fault, silence, None, "not as before", said)
    said = f"{lasted}; {quiet}; latency and queue as before {recovery:,.0f} s later"
    return Aftermath(fault, silence, recovery, "as before", said)


def _silence(seen: Seen, begin: float, until: float) -> float | None:
    if seen.silences is None:
        return None
    within = (min(last, until) - max(first, begin) for first, last in seen.silences)
    return max([0.0, *within])


def _recovery(seen: Seen, usual: _Usual, undone: float, until: float) -> float | None:
    first = math.floor(undone - seen.start)
    held = 0
    for second in range(first, math.floor(until - seen.start)):
        held = held + 1 if _as_before(seen, usual, second) else 0
        if held == HOLD_S:
            return max(0.0, seen.start + second - HOLD_S + 1 - undone)
    return None
