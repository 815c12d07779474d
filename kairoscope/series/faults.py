"""`kairoscope faults`: one fault after the other on one deployment, each in a run of its own.

What a cell is, what cannot be had and why, what a run came to, and a random sequence that a seed
plays again: pure. `fault_runs` makes the runs.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kairoscope.experiment import Experiment
from kairoscope.experiment.faults import ACTIONS, BEFORE_S, LASTING, OF_SERVERS, hosts_of
from kairoscope.verdict import ledger

Document = dict[str, Any]
Lacks = Callable[[str, str], str]
"""Why a target that has the lever cannot do an action to a host or group; "" if it can."""
Word = Literal["held", "lost", "not as before", "invalid", "incomplete", "passed wrongly"]

AFTER_S = 5
"""Of usual load between the least that an experiment asks for and the fault."""
LASTS_S = 10
"""As long as a reboot of a host of the lab, and twice load.failover_after_s."""
STARTS_S = 45
"""Longer is the load in which all storage nodes start again at the same time: on the lab they share
the cores, take half a minute instead of ten seconds, and find what came meanwhile in the queue.
Twice, where they do it with the wrong certificate and with their own: in two matrices of three the
load was over 15 s after that (2026-11-27)."""
RESTS_S = 90
"""Of a host between two faults at random, where the first has its server started: twice, of a
certificate, with the cores shared; undoing the one would else go on while the other lasts."""
_START_ALL = ("kill", "restart")
_START = ("fill-disk", "clock", "expire-certificate")
"""Begun or undone once a server has started, so that one alone takes longer, too."""
BY = {"clock": "5s", "delay": "0.05s"}
"""More than is called drift of a clock; a tenth of a second there and back, as over an ocean."""
LOSS_PERCENT = 20
"""As bad as a network is that is still called one; 5 % TCP hides nearly."""

RANDOM = "random"
"""The one cell of a sequence at random."""
CONTROL = "no fault"
"""What the others are held against: the same load, and nothing happens to it."""


@dataclass(frozen=True)
class Cell:
    """An action on a host or group; `why` it cannot be had, "" if it can."""

    action: str
    on: str
    why: str = ""

    @property
    def name(self) -> str:
        """As file names and messages have it."""
        return f"{self.action} {self.on}".strip()

    @property
    def slug(self) -> str:
        """For the name of its experiment."""
        return self.name.replace(" ", "-")


@dataclass(frozen=True)
class Came:
    """What a cell's run came to.

    Attributes:
        run: name of its folder.
        verdict: of the run, whether the load was sustained.
        acknowledged, lost: points; None: nothing was read back.
        silence_s, recovery_s: of its fault; None: not known, or it was not as before.
        said: what the fault came to, or why the run is incomplete.
    """

    run: str
    word: Word
    verdict: str
    acknowledged: int | None
    lost: int | None
    silence_s: float | None
    recovery_s: float | None
    said: str


def matrix(
    experiment: Experiment, levers: Sequence[str], names: Sequence[str], lacks: Lacks
) -> list[Cell]:
    """All cells: each action on one host of each kind and on all storage nodes at once.

    Args:
        experiment: that each is done to.
        levers, lacks: of the target.
        names: of its hosts.
    """
    hosts = [on for on in (_one("storage", names), _one("kairosdb", names)) if on]
    ons = [*hosts, "loader-1", *(["storage"] if hosts_of("storage", names) else [])]
    cells = [Cell(CONTROL, "")]
    for action in ACTIONS:
        for on in ons:
            why = "" if action in levers else "this target has no lever for it"
            if not why and on.startswith("loader"):
                why = OF_SERVERS.get(action, "")
            why = why or lacks(action, on)
            cells.append(Cell(action, on, why))
    return cells


def _one(kind: str, names: Sequence[str]) -> str:
    """A host of a kind: the second, as the first of the store's is the seed of the others."""
    found = hosts_of(kind, names)
    return found[1] if kind == "storage" and len(found) > 1 else found[0] if found else ""


def chosen(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """Those that an action, a host or both ("kill storage-2") name; all if nothing is named."""
    return [c for c in cells if not only or {c.action, c.on, c.name} & set(only)]


def of_cell(experiment: Experiment, cell: Cell) -> Document:
    """The document of the experiment with the cell's fault, and no other."""
    at = experiment.load.warmup_resolved_s + BEFORE_S + AFTER_S
    fault: Document = {"at": f"{at}s", cell.action: cell.on}
    if cell.action in LASTING or cell.action == "kill":
        fault["for"] = f"{LASTS_S}s"
    if cell.action == "loss":
        fault["percent"] = float(LOSS_PERCENT)
    if cell.action in BY:
        fault["by"] = BY[cell.action]
    document = _with(experiment, cell.slug, [] if cell.action == CONTROL else [fault])
    if starts := _starts(cell):
        usual_s = experiment.load.ticks * experiment.load.period_ms // 1000
        document["load"] = _length(document["load"], usual_s + starts * STARTS_S)
    return document


def _starts(cell: Cell) -> int:
    """How often a cell has to wait for servers that start."""
    if cell.on == "storage" and cell.action == "expire-certificate":
        return 2
    return cell.action in _START or (cell.on == "storage" and cell.action in _START_ALL)


def least_s(experiment: Experiment) -> int:
    """How long a load is at least in which a fault happens and all can be as before after it."""
    return int(experiment.load.warmup_resolved_s) + BEFORE_S + AFTER_S + 3 * LASTS_S


def _with(experiment: Experiment, slug: str, given: Sequence[Document]) -> Document:
    document = experiment.model_dump(mode="json", exclude_unset=True)
    return document | {"name": f"faults-{slug}"[:40], "faults": list(given)}


def sequence(
    experiment: Experiment,
    levers: Sequence[str],
    names: Sequence[str],
    lacks: Lacks,
    minutes: float,
    seed: int,
) -> Document:
    """The experiment, as long as that, with faults one after the other; of a seed always the same.

    On servers alone: of a loader that stands still nothing can be said. A host may be hit while
    another one is still on its way back, but not while it is so itself.
    """
    rng = random.Random(seed)  # noqa: S311 - to be played again, not to be secret
    groups = [on for on in ("storage", "kairosdb") if hosts_of(on, names)]
    ons = [*(name for on in groups for name in hosts_of(on, names)), *groups[:1]]
    may = [(a, on) for a in sorted(set(levers) & set(ACTIONS)) for on in ons if not lacks(a, on)]
    length = round(minutes * 60)
    free = dict.fromkeys(names, 0)
    at, given = experiment.load.warmup_resolved_s + BEFORE_S + AFTER_S, list[Document]()
    while at + RESTS_S <= length:
        now = [(a, on) for a, on in may if all(free[h] <= at for h in hosts_of(on, names))]
        if not now:
            at += 1
            continue
        action, on = rng.choice(now)
        lasts = rng.randint(1, 2 * LASTS_S) if action != "restart" else 0
        gap = rng.randint(LASTS_S, 3 * LASTS_S)
        if at + lasts + RESTS_S > length:
            break
        fault: Document = {"at": f"{at}s", action: on}
        if lasts:
            fault["for"] = f"{lasts}s"
        if action == "loss":
            fault["percent"] = float(rng.choice((1, 5, LOSS_PERCENT)))
        if action in BY:
            sign = rng.choice(("", "-")) if action == "clock" else ""
            fault["by"] = f"{sign}{BY[action]}"
        given.append(fault)
        starts = action in (*_START_ALL, *_START)
        free |= dict.fromkeys(hosts_of(on, names), at + lasts + (RESTS_S if starts else 0))
        at += lasts + gap
    document = _with(experiment, f"random-{seed}", given)
    return document | {"load": _length(document["load"], length)}


def _length(load: Document, duration_s: int) -> Document:
    return {k: v for k, v in load.items() if k not in ("points", "steps")} | {
        "duration_s": duration_s
    }


def came(run: str, cell: Cell, verdict: Mapping[str, Any], book: Mapping[str, Any]) -> Came:
    """What a run came to, of its verdict.json and ledger.json ({} if there is none)."""
    known = book.get("missing") is not None
    lost = ledger.lost(book) if known else None
    told = list(verdict.get("faults", []))
    acknowledged = book.get("acknowledged") if book.get("acknowledges") else None
    word, why = _word(cell, verdict, acknowledged, lost, told)
    silences = [fault["silence_s"] for fault in told]
    recoveries = [fault["recovery_s"] for fault in told]
    return Came(
        run,
        word,
        str(verdict["verdict"]),
        book.get("acknowledged"),
        lost,
        None if None in silences or not silences else max(silences),
        None if None in recoveries or not recoveries else max(recoveries),
        why or "; ".join(f"{fault['text']}: {fault['said']}" for fault in told),
    )


# Verdicts that a run cannot have whose loader that happened to. What one that is cut off cannot
# send is not taken for longer than any pass allows, whoever is to blame.
_OF_LOADERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "kill": (("pass", "fail"), "stood still"),
    "freeze": (("pass", "fail"), "stood still"),
    "partition": (("pass",), "was cut off"),
}


def _word(
    cell: Cell,
    verdict: Mapping[str, Any],
    acknowledged: int | None,
    lost: int | None,
    told: Sequence[Mapping[str, Any]],
) -> tuple[Word, str]:
    part = verdict.get("parts", {}).get("readback", {})
    if not lost and acknowledged == 0:
        return "incomplete", "nothing is known to have been acknowledged"
    if lost or part.get("outcome") == "fail":
        return "lost", str(part.get("text"))
    wrong, why = (
        _OF_LOADERS.get(cell.action, ((), "")) if cell.on.startswith("loader") else ((), "")
    )
    if verdict["verdict"] in wrong:
        return "passed wrongly", f"the verdict is {verdict['verdict']} though the loader {why}"
    whole = cell.action != RANDOM or verdict["verdict"] != "incomplete"
    if lost is None or not whole or any(f["outcome"] == "not carried out" for f in told):
        return "incomplete", str((verdict.get("reasons") or ["nothing was read back"])[0])
    if "fail" in wrong:
        return "held", ""
    return _as_before(cell, verdict, told)


def _as_before(
    cell: Cell, verdict: Mapping[str, Any], told: Sequence[Mapping[str, Any]]
) -> tuple[Word, str]:
    """Of a load of which all points are known, on servers that can be judged."""
    said = str(verdict.get("summary") or verdict["verdict"])
    if verdict["verdict"] == "invalid" and not cell.on.startswith("loader"):
        # Late by themselves, the loaders saw nothing of what the servers did meanwhile.
        return "invalid", said
    if cell.action == CONTROL:
        return ("not as before", said) if verdict["verdict"] == "fail" else ("held", "")
    # One after the other at random: each begins before all is as before, and the last one tells.
    counted = told[-1:] if cell.action == RANDOM else told
    if any(fault["outcome"] != "as before" for fault in counted):
        return "not as before", ""
    return "held", ""


def exit_status(words: Sequence[Word | None]) -> int:
    """0 all held, 1 a point was lost or a verdict was wrong, 2 anything else, or not at its end."""
    if any(word in ("lost", "passed wrongly") for word in words):
        return 1
    return 0 if words and all(word == "held" for word in words) else 2


def to_json(done: Mapping[str, Came]) -> Document:
    """As faults.json has it."""
    return {name: asdict(each) for name, each in done.items()}


def from_json(document: Mapping[str, Any]) -> dict[str, Came]:
    """What `to_json` gave. TypeError for anything else."""
    return {name: Came(**each) for name, each in document.items()}


def columns(cells: Sequence[Cell]) -> Iterator[str]:
    """What was done something to, in order."""
    yield from dict.fromkeys(cell.on for cell in cells if cell.on)
