"""Faults of an experiment: what goes wrong on purpose while the load goes on, on what, and when."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict

from kairoscope.experiment import timing
from kairoscope.experiment.problems import Problem, got
from kairoscope.experiment.schema.section import Section, described

ACTIONS: dict[str, str] = {
    "kill": "its processes end at once, as when the kernel or the power ends them",
    "freeze": "its processes stand still where they are, their connections open and unanswered",
    "restart": "it is ended in good order and started again",
    "partition": "no packet passes between it and the other hosts of the deployment",
    "loss": "a share of its packets is lost, each way, by chance",
    "delay": "its packets arrive later, each way",
    "fill-disk": "the disk of its data is filled until nothing is left",
    "clock": "its server starts again with a wrong clock, which is set right while it runs",
    "slow-disk": "the disk of its data does a few operations a second",
    "expire-certificate": "its server starts again with a certificate whose time is over",
}
"""Every action that some target has a lever for, and what it does to its host."""

LASTING = tuple(action for action in ACTIONS if action not in ("kill", "restart"))
"""Those that need to be told how long."""

OF_SERVERS: dict[str, str] = {
    "restart": "a loader host has no server that would be started again; kill shows what its end "
    "does",
    "fill-disk": "a loader host has no disk of data; a run ends itself where a disk is nearly full",
    "clock": "a loader host has no server that would start again; its clock is looked at before "
    "and after each load",
    "slow-disk": "a loader host has no disk of data",
    "expire-certificate": "a loader host has no certificate",
}
"""Those that cannot happen to a loader host, and why."""

GROUPS = ("storage", "kairosdb", "loader")
"""Groups of hosts; a fault on one is on all of its hosts at the same time."""

BEFORE_S = 5
"""Between the warm-up and the first fault at least: what latency and queue are while all is well
has to be seen before it can be said when they are so again."""

MOST_DELAY_S = 10
"""Of packets; later than that they are as good as lost."""

TIME = r"^\d{1,6}(\.\d{1,3})?(s|m)$"
TIME_WORDS = "a time with its unit such as 30s or 1.5m"
SHIFT = TIME.replace("^", "^[+-]?")
SHIFT_WORDS = "a time with its unit such as 5s, or -5s for one that is behind"
_HOST_WORDS = "a host such as storage-2, or storage, kairosdb or loader for all of them at once"


def seconds(text: str) -> float:
    """A time as written in a file ("30s", "1.5m", "-5s") in seconds. ValueError if it is none."""
    if not re.fullmatch(SHIFT, text):
        raise ValueError(text)
    return float(text[:-1]) * (60 if text.endswith("m") else 1)


def _on(action: str) -> Any:
    text = ACTIONS[action]
    return described(
        "",
        f"The host of which {text}."
        if action in ("partition", "loss", "delay", "fill-disk", "slow-disk")
        else f"The host that this happens to: {text}.",
        allowed=_HOST_WORDS,
        absent="another action",
        alias=action,
        default=None,
        pattern=r"^[a-z][a-z0-9]*(-[0-9]{1,4})?$",
    )


class Fault(Section):
    """One fault: exactly one action, on a host, at a time."""

    model_config = ConfigDict(serialize_by_alias=True)

    at: str = described(
        "",
        "When it begins, since the start of the load; at least 5 s after the warm-up, so that it "
        "is known what latency and queue are while all is well.",
        allowed=TIME_WORDS,
        pattern=TIME,
    )
    for_: str | None = described(
        "",
        "How long it lasts before it is undone. Of kill: how long the host stays down.",
        allowed=TIME_WORDS,
        absent="of kill 0s: started again at once; restart takes none, the others need it",
        alias="for",
        default=None,
        pattern=TIME,
    )
    kill: str | None = _on("kill")
    freeze: str | None = _on("freeze")
    restart: str | None = _on("restart")
    partition: str | None = _on("partition")
    loss: str | None = _on("loss")
    delay: str | None = _on("delay")
    fill_disk: str | None = _on("fill-disk")
    clock: str | None = _on("clock")
    slow_disk: str | None = _on("slow-disk")
    expire_certificate: str | None = _on("expire-certificate")
    percent: float | None = described(
        "%",
        "Of loss: how many of a hundred packets are lost, each way.",
        absent="nothing; loss needs it",
        default=None,
        gt=0,
        le=100,
    )

    by: str | None = described(
        "",
        "Of clock: by how much it is ahead of what it should be. Of delay: how much later packets "
        "arrive, each way.",
        allowed=SHIFT_WORDS,
        absent="nothing; clock and delay need it",
        default=None,
        pattern=SHIFT,
    )

    @property
    def action(self) -> str:
        """The one action that it has."""
        return next(action for action in ACTIONS if getattr(self, _field(action)) is not None)

    @property
    def on(self) -> str:
        """The host or group that it happens to."""
        return str(getattr(self, _field(self.action)))

    @property
    def at_s(self) -> float:
        """When it begins, in s since the start of the load."""
        return seconds(self.at)

    @property
    def for_s(self) -> float:
        """How long it lasts before it is undone, in s."""
        return seconds(self.for_) if self.for_ is not None else 0.0

    @property
    def by_s(self) -> float:
        """By how much a clock is ahead, in s, behind if negative; or packets are late."""
        return seconds(self.by) if self.by is not None else 0.0

    @property
    def text(self) -> str:
        """In a few words: "kill storage-2", "loss storage-2 5 %", "clock storage-2 by -5s"."""
        percent = f" {self.percent:g} %" if self.percent else ""
        return f"{self.action} {self.on}" + percent + (f" by {self.by}" if self.by else "")


def _field(action: str) -> str:
    return action.replace("-", "_")


def hosts_of(on: str, names: Sequence[str]) -> list[str]:
    """The hosts among `names` that a fault is on: those of a group, or the one; [] if none is."""
    return [name for name in names if name == on or name.rpartition("-")[0] == on]


def check(values: Mapping[str, Any]) -> Iterator[Problem]:
    """What must hold between the fields of a fault, and between faults and the load."""
    given: list[Mapping[str, Any]] = values["faults"]
    if not given:
        return
    if values["load.replay"]:
        yield Problem(
            ("faults", "load.replay"),
            "a replay has no schedule in which a fault could have a time; drop one of the two",
        )
        return
    whole = True
    for number, fault in enumerate(given, 1):
        problems = list(_one(f"faults[{number}]", fault))
        whole &= not problems
        yield from problems
    if whole:
        yield from _within_load(given, values)
        yield from _overlaps(given)


def _actions(fault: Mapping[str, Any]) -> list[str]:
    return [action for action in ACTIONS if fault.get(action) is not None]


def _one(name: str, fault: Mapping[str, Any]) -> Iterator[Problem]:
    actions = _actions(fault)
    if len(actions) != 1:
        found = " and ".join(actions) or "none"
        yield Problem(
            (name,),
            f"needs exactly one action of {', '.join(ACTIONS)}, as kill: storage-2; has {found}",
        )
        return
    (action,) = actions
    lasts = fault.get("for")
    if action in LASTING and (lasts is None or seconds(lasts) == 0):
        yield Problem(
            (f"{name}.for", name),
            f"{action} needs it: how long it lasts, {TIME_WORDS}",
        )
    if action == "restart" and lasts is not None:
        yield Problem(
            (f"{name}.for",),
            f"restart takes none, got {got(lasts)}: it lasts until the host is back; to keep one "
            "down, take kill",
        )
    if action in OF_SERVERS and fault[action].partition("-")[0] == "loader":
        yield Problem((f"{name}.{action}",), OF_SERVERS[action])
    yield from _amounts(name, action, fault)


def _amounts(name: str, action: str, fault: Mapping[str, Any]) -> Iterator[Problem]:
    """Each amount is of some actions, which need it, and of no other."""
    for key, of in (
        ("percent", {"loss": "how many of a hundred packets are lost"}),
        ("by", {"clock": f"by how much it is ahead, {SHIFT_WORDS}", "delay": TIME_WORDS}),
    ):
        given = fault.get(key)
        if given is None and action in of:
            yield Problem((f"{name}.{key}", name), f"{action} needs it: {of[action]}")
        elif given is not None and action not in of:
            yield Problem((f"{name}.{key}",), f"is of {' and '.join(of)}, and this is {action}")
    if fault.get("by") is not None:
        by_s = seconds(fault["by"])
        if action == "clock" and by_s == 0:
            yield Problem((f"{name}.by",), f"must not be 0, got {got(fault['by'])}")
        if action == "delay" and not 0 < by_s <= MOST_DELAY_S:
            yield Problem(
                (f"{name}.by",),
                f"must be above 0s and at most {MOST_DELAY_S}s of delay, got {got(fault['by'])}",
            )


def _span(fault: Mapping[str, Any]) -> tuple[float, float]:
    begin = seconds(fault["at"])
    return begin, begin + seconds(fault.get("for") or "0s")


def _within_load(
    given: Sequence[Mapping[str, Any]], values: Mapping[str, Any]
) -> Iterator[Problem]:
    rate, steps = values["load.rate"], values["load.steps"]
    lengths = (values["load.duration_s"], values["load.points"], steps)
    rates = [step["rate"] for step in steps] if steps else [rate or timing.DEFAULT_RATE]
    alone = sum(length is not None for length in lengths) == 1
    if not alone or (steps and rate) or any(timing.whole_period_ms(r) is None for r in rates):
        return  # Another check refuses it.
    pairs = [(step["rate"], step["duration_s"]) for step in steps] if steps else None
    length = timing.length_ms(timing.resolve(rate, *lengths[:2], pairs)) / 1000
    warmup = timing.warmup_s(values["load.warmup_s"], replay=False)
    for number, fault in enumerate(given, 1):
        begin, end = _span(fault)
        name = f"faults[{number}]"
        if begin < warmup + BEFORE_S:
            yield Problem(
                (f"{name}.at", "load.warmup_s"),
                f"must be ≥ {warmup + BEFORE_S:g}s, got {fault['at']}: the warm-up (load.warmup_s "
                f"{warmup:g} s) and {BEFORE_S} s, so that it is known what is usual",
            )
        if begin >= length:
            yield Problem(
                (f"{name}.at", "load.duration_s"),
                f"is {fault['at']}, after the load's end ({length:g} s)",
            )
        elif end > length:
            yield Problem(
                (f"{name}.for", name, "load.duration_s"),
                f"it would be undone {end:g} s after the load's start, and the load ends after "
                f"{length:g} s; what comes back after it would not be seen",
            )


def _overlaps(given: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Two faults of one host at a time, and two partitions: undoing one would undo the other."""
    for (first, one), (second, other) in itertools.combinations(enumerate(given, 1), 2):
        spans = sorted((_span(one), _span(other)))
        if spans[1][0] > spans[0][1]:
            continue
        (action,), (another,) = _actions(one), _actions(other)
        on, too = one[action], other[another]
        same = on == too or on in hosts_of(too, [on]) or too in hosts_of(on, [too])
        if same or action == another == "partition":
            what = "two faults of one host" if same else "two partitions"
            yield Problem(
                (f"faults[{second}].at",),
                f"{another} {too} begins while faults[{first}] ({action} {on}) lasts: {what} must "
                "not overlap, as undoing one would undo the other",
            )
