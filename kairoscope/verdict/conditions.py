"""What went on on the machines beside the run, in its measured time. Pure: out of processes.jsonl.

Foreign is what the machine was busy with, less what was ours and less the kernel's own (interrupts
and threads), which works for all. Stolen is what a hypervisor gave to others; it is not busy.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kairoscope.experiment.schema.limits import Limits
from kairoscope.verdict.usage import Curve

NAMED = 0.25
"""From this share of a limit on it is said, whatever the verdict."""

OTHER_SPEED = 1.5
"""From this ratio on a machine was not as fast after a load as before it. On a shared virtual
machine ten looks around five loads within 15 minutes had 0.92 to 1.72 ms; the two around one load
differed by 7 to 23 %, once by 54 % (2026-11-25): less than a half is what such a machine does by
itself. What mattered was a factor of two."""

SAME_START_S = 2
"""Two looks at when one kernel started differ by less: it is reckoned from a clock that is set."""

WARM_AFTER_S = 300
"""Java compiles while it runs: the embedded cluster's first minutes cost half as much again."""

_COUNTERS = ("cpu_busy_s", "cpu_kernel_s", "cpu_ours_s", "cpu_steal_s")


@dataclass(frozen=True)
class Used:
    """Of one machine with `cpus` cores, means over the window.

    Attributes:
        busy_share: of all cores, without what was stolen.
        steal_share: of all cores.
        foreign_cores: cores' worth; None where it is not known what was ours.
    """

    name: str
    cpus: int
    busy_share: float
    steal_share: float
    foreign_cores: float | None

    @property
    def foreign_share(self) -> float:
        """Of all cores; 0 where it is not known."""
        return (self.foreign_cores or 0.0) / self.cpus


@dataclass(frozen=True)
class Conditions:
    """Of all machines of a run in a window."""

    machines: list[Used]

    @property
    def busy_share(self) -> float | None:
        """On average of the machines; None if none was seen."""
        shares = [machine.busy_share for machine in self.machines]
        return sum(shares) / len(shares) if shares else None

    @property
    def steal_share(self) -> float | None:
        """Of the machine that most was stolen from."""
        return max((machine.steal_share for machine in self.machines), default=None)

    @property
    def foreign_cores(self) -> float | None:
        """Of all machines of which it is known."""
        known = [m.foreign_cores for m in self.machines if m.foreign_cores is not None]
        return sum(known) if known else None

    def not_ours(self, limits: Limits) -> list[str]:
        """Why the run measured what others did as well: sentences on machines past a limit."""
        found = [
            f"the machine was not ours: {_foreign(m)} (limit {limits.foreign_cpu:.0%})"
            for m in self.machines
            if m.foreign_share > limits.foreign_cpu
        ]
        found += [
            f"the machine was not ours: {_stolen(m)} (limit {limits.steal:.0%})"
            for m in self.machines
            if m.steal_share > limits.steal
        ]
        return found

    def named(self, limits: Limits) -> list[str]:
        """What of that is worth a sentence though it is within the limits."""
        found = [
            _foreign(m)
            for m in self.machines
            if NAMED * limits.foreign_cpu < m.foreign_share <= limits.foreign_cpu
        ]
        found += [
            _stolen(m)
            for m in self.machines
            if NAMED * limits.steal < m.steal_share <= limits.steal
        ]
        return [sentence[0].upper() + sentence[1:] for sentence in found]

    def to_json(self) -> dict[str, Any]:
        """For measurements.json."""
        return {
            "machines": [asdict(machine) for machine in self.machines],
            "steal_share": self.steal_share,
            "foreign_cores": self.foreign_cores,
        }


def at_start(found: Mapping[str, Any], start: float) -> list[str]:
    """What of the servers' state when the run began is worth a sentence.

    `found`: the manifest's `conditions`; `start`: of the load, epoch s. Cold is less than
    `WARM_AFTER_S` after the youngest server's start.
    """
    said = []
    starts = [s["started"] for s in found.get("servers", ()) if s["started"] is not None]
    if starts and (age := start - max(starts)) < WARM_AFTER_S:
        points = found.get("points_since")
        since = f" and have taken {points:,} points of earlier loads" if points else ""
        said.append(f"The servers were cold: they ran for {max(age, 0):,.0f} s{since}")
    waited = sum(each["waiting"] or 0 for each in found.get("queue", ()))
    if waited:
        then = _then(found.get("backlog"))
        said.append(f"{waited:,} points waited in the queues already when the run began{then}")
    return said


def _then(backlog: Mapping[str, Any] | None) -> str:
    """How a sentence on what waited before the load goes on, if the load was held back for it."""
    if backlog is None:
        return ""
    limit, left, seconds = backlog["limit"], backlog["left"], backlog["waited_s"]
    if left is None:
        return "; how many did when the load began is not known"
    if left > limit:
        return (
            f"; {left:,} still did when the load began after {seconds:,.0f} s, more than a "
            f"window's ({limit:,})"
        )
    return f"; the load was held back for {seconds:,.0f} s, until at most {limit:,} did"


def speed_changed(found: Mapping[str, Any]) -> list[str]:
    """Sentences on machines that were not as fast after the load as before it.

    `found`: the manifest's `conditions`.
    """
    speed = found.get("speed", {})
    said = []
    for name, before in speed.get("before", {}).items():
        after = speed["after"].get(name)
        if not before or not after:
            continue
        ratio = after / before
        if max(ratio, 1 / ratio) > OTHER_SPEED:
            how = "slower" if ratio > 1 else "faster"
            said.append(
                f"{name} was {how} after the load than before it: the same work took "
                f"{after * 1000:,.2f} ms of CPU, before {before * 1000:,.2f} ms"
            )
    return [sentence[0].upper() + sentence[1:] for sentence in said]


def _foreign(machine: Used) -> str:
    assert machine.foreign_cores is not None  # else its share is 0, and there is nothing to say
    return (
        f"processes of others used {machine.foreign_cores:.2f} of the {machine.cpus} cores of "
        f"{machine.name} ({machine.foreign_share:.0%}) while the load was measured"
    )


def _stolen(machine: Used) -> str:
    return (
        f"{machine.steal_share:.0%} of the cores of {machine.name} were stolen by its hypervisor "
        "while the load was measured"
    )


class Machines:
    """The counters of all machines of a run, to be asked for any window."""

    def __init__(
        self, samples: Iterable[dict[str, Any]], cpus: int, booted: float | None = None
    ) -> None:
        """`cpus` and `booted` (epoch s) are of the machine that the run was made on; `cpus` are
        also those of a record that does not say."""
        looks: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for sample in samples:
            if sample["role"] in ("machine", "host"):
                looks[sample["name"]].append(sample)
        self._cpus = {name: found[0].get("cpus", cpus) for name, found in looks.items()}
        self._curves = {
            name: {
                counter: Curve(
                    np.array([look["t"] for look in found], dtype=float),
                    _steady([look[counter] for look in found]),
                )
                for counter in _COUNTERS
                if all(counter in look for look in found)
            }
            for name, found in looks.items()
            if len(found) > 1
        }
        # What is ours is told host by host: on hosts that are containers of this machine, as the
        # lab's are, it is not known. Whose kernel started when this one's did is one of them.
        self._shared = {
            name
            for name, found in looks.items()
            if booted is not None and abs(found[0].get("booted", math.inf) - booted) < SAME_START_S
        }

    def within(self, start: float, end: float) -> Conditions:
        """What was between `start` and `end` (epoch s), of the machines that were seen then."""
        return Conditions(
            [
                used
                for name, curves in self._curves.items()
                if (used := self._used(name, curves, start, end))
            ]
        )

    def _used(self, name: str, curves: dict[str, Curve], start: float, end: float) -> Used | None:
        looks = curves["cpu_busy_s"].t
        start, end = max(start, float(looks[0])), min(end, float(looks[-1]))
        if end <= start:
            return None
        cores = {what: curve.between(start, end) / (end - start) for what, curve in curves.items()}
        foreign = None
        if "cpu_ours_s" in cores and name not in self._shared:
            # Time by ticks and time by switches differ a little: nobody used less than nothing.
            foreign = max(0.0, cores["cpu_busy_s"] - cores["cpu_kernel_s"] - cores["cpu_ours_s"])
        cpus = self._cpus[name]
        steal = cores.get("cpu_steal_s", 0.0)
        return Used(name, cpus, cores["cpu_busy_s"] / cpus, steal / cpus, foreign)


def _steady(values: list[float]) -> Any:
    """A counter that begins anew (the host restarted, its probe too) goes on from where it was.

    One that falls a little is a sum over processes of which one has ended: it stays where it was.
    """
    found = np.array(values, dtype=float)
    if not len(found):
        return found
    steps = np.diff(found, prepend=found[0])
    before = found - steps
    steps = np.where(steps >= 0, steps, np.where(found < before / 2, found, 0))
    return found[0] + np.cumsum(steps)
