"""Systems in turn on one target and on the same sensors: deployed, loaded, killed, destroyed.

Each step is an ordinary run (or search) of an ordinary experiment, of which the bake-off's folder
has all: <system>.yml, and <system>.json with what its steps came to, written after each. A search
is among other searches, and its path from here is written down. So a bake-off that was interrupted,
or whose time was up, goes on with the first step that is not there. A run that says nothing of its
system is made once more. All systems are searched when all have been loaded and killed: the table
is whole before what takes longest.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kairoscope import __version__, paths, run_folder
from kairoscope.compare.runs import Run
from kairoscope.errors import UserError
from kairoscope.experiment import files

INDEX = "bakeoff.json"
FORMAT = 2
"""Of bakeoff.json; raised when a reader of the old one would misread the new one."""

LOAD, QUERIES, SEARCH, DURABLE = "load", "queries", "search", "durable "
KILLS_S = (0, 5, 15)
"""Seconds after the last acknowledgement at which all servers are killed: at once, and after what
systems that write now and then have for an interval."""
KILLED_LOAD_S, KILLED_WARMUP_S = 20, 5
"""Of a load before a kill. A kill takes what was acknowledged last, however much came before."""
SEARCHED = "20%"
"""Width of the bounds that a search ends with, of the upper one: systems differ by factors, and
each further halving takes minutes."""
SEARCH_TRIAL_S, SEARCH_WARMUP_S = 45, 15
"""Of each trial of a search: three windows of KairosDB's queue, the least that a search takes."""
METRIC, TAGS = "temperature", {"sensor": "{n}"}
"""What all can store: a metric is a table in one of them, and a path in another."""
PER_REQUEST = 100
FOLLOWED = {"rate": 1}
"""Queries beside the load that is asked, where a stack has them: with any, a few sensors are asked
for each second, and so it is known when their points could be found. For whom counting all points
would have all stored that waits."""
QUEUE_S, QUEUE_WINDOWS = 60, 4
"""What of a load must be measured so that whether a queue grows can be told: seconds, and windows
of a queue that keeps points for one. Of 30 s, which were two windows of KairosDB's, it was
undecided (results/published/2026-11-26-bakeoff.md)."""


@dataclass(frozen=True)
class Entrant:
    """A system as it is entered.

    Attributes:
        experiment: its experiment, which it is called by.
        title: as its makers write it.
        acknowledgement: what one means, a sentence.
        durable: its settings with which a kill takes less; none if there are none.
        follows: whether it can be asked for a few sensors beside a load (`queries`).
        fair: what makes its figures fair beside others', or not.
    """

    experiment: str
    title: str
    acknowledgement: str
    durable: Mapping[str, Any]
    follows: bool = False
    fair: str = ""

    @property
    def name(self) -> str:
        """Of its files."""
        return Path(self.experiment).stem


@dataclass(frozen=True)
class Asked:
    """What the command line asks for: the load that all get, and whether to search as well."""

    sensors: int
    duration_s: int
    quick: bool

    @property
    def warmup_s(self) -> int:
        """A third: all servers have just started."""
        return self.duration_s // 3

    def guessed_s(self, step: "Step") -> float:
        """How long a step may take, before one like it was made: with deploy, captures, what
        waits, and read-back."""
        if step.name == SEARCH:
            return 10 * 2 * (SEARCH_WARMUP_S + SEARCH_TRIAL_S)
        loaded_s = self.duration_s if step.name in (LOAD, QUERIES) else KILLED_LOAD_S
        return loaded_s + 60

    @property
    def measured_s(self) -> int:
        """What comes after it."""
        return self.duration_s - self.warmup_s


@dataclass(frozen=True)
class Step:
    """One step of a system: a run, killed or not, or a search; of which of its experiments."""

    name: str
    file: str
    options: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What such steps have in common of all systems, with whatever settings."""
        return self.name.removeprefix(DURABLE)


def spoiled(run: Run) -> tuple[str, str] | None:
    """Why a run says nothing of its system: invalid or incomplete, and the reason; None if it does.

    Not what a part of the verdict lacks: a load before a kill is too short for some of them.
    """
    invalid = run.verdict.get("invalid") or [run.verdict["summary"]] * (run.word == "invalid")
    # Older verdicts did not say it apart, and what was seen only when it was judged not at all.
    incomplete = run.verdict.get("incomplete", run.facts.incomplete)
    if incomplete:
        return "incomplete", str(incomplete[0])
    return ("invalid", str(invalid[0])) if invalid else None


def refuse_short(asked: Asked, windows_s: Mapping[str, float], others: Sequence[str]) -> None:
    """UserError if the load is so short that systems would be incomplete for their queue.

    `windows_s`: of those that are judged by one how long it keeps points on purpose, 0 if it does
    not, by their experiments; `others` are judged by none.
    """
    wanted = {name: max(QUEUE_S, QUEUE_WINDOWS * s) for name, s in windows_s.items()}
    short = [name for name, least_s in wanted.items() if asked.measured_s < least_s]
    if not short:
        return
    kept = ", ".join(f"{name}'s is {windows_s[name]:g} s" for name in short if windows_s[name])
    # The warm-up is a third.
    enough = math.ceil(max(wanted.values()) * 3 / 2)
    leave = f". Or without them: ONLY={','.join(others)}" if others else ""
    raise UserError(
        f"DURATION={asked.duration_s}: {asked.measured_s} s of it are measured, too short to tell "
        f"whether a queue grows, so {', '.join(short)} would end incomplete. That takes {QUEUE_S} s"
        f"{f', and {QUEUE_WINDOWS} windows of a queue that has one ({kept})' if kept else ''}, "
        f"behind a third of warm-up: DURATION={enough}{leave}"
    )


def kill_name(after_s: int) -> str:
    """Of the step that kills so many seconds after a load."""
    return f"kill after {after_s} s"


def steps(entrant: Entrant, asked: Asked) -> list[Step]:
    """All of a system's, those on one set of settings side by side; the search deploys others."""
    killed, durable = (f"{entrant.name}-{what}.yml" for what in ("killed", "durable"))
    kills = [(kill_name(after_s), ("--kill-after", str(after_s))) for after_s in KILLS_S]
    own = f"{entrant.name}.yml"
    # The same load twice: answering takes CPU, and what it takes is no point's.
    asked_for = f"{entrant.name}-asked.yml" if entrant.follows else own
    found = [Step(LOAD, own, ("--count-visible",)), Step(QUERIES, asked_for, ("--ask",))]
    found += [Step(name, killed, options) for name, options in kills]
    if entrant.durable:
        found += [Step(DURABLE + name, durable, options) for name, options in kills]
    if not asked.quick:
        trial = ("--trial", str(SEARCH_TRIAL_S))
        # Days may lie between two calls, and a commit, which the page tells.
        options = ("--precision", SEARCHED, *trial, "--or-anew")
        found.append(Step(SEARCH, f"{entrant.name}-searched.yml", options))
    return found


def experiments(entrant: Entrant, asked: Asked, limits: Mapping[str, Any]) -> dict[str, str]:
    """The experiments that a system is measured by, by their files' names: its own, under the same
    loads and the same limits as all."""
    text, shown = files.read(entrant.experiment)
    document = yaml.safe_load(text)
    document.pop("reference", None)
    document |= {
        "name": entrant.name,
        "description": f"{shown} under the load of a bake-off.",
        "load": {
            "sensors": asked.sensors,
            "rate": 1,
            "duration_s": asked.duration_s,
            "warmup_s": asked.warmup_s,
            "protocol": document["load"].get("protocol", "rest"),
            "metric": METRIC,
            "tags": TAGS,
            "sensors_per_request": PER_REQUEST,
        },
        "limits": dict(limits),
    }
    short = {"duration_s": KILLED_LOAD_S, "warmup_s": KILLED_WARMUP_S}
    killed = {**document, "load": {**document["load"], **short}}
    trial = {"duration_s": SEARCH_WARMUP_S + SEARCH_TRIAL_S, "warmup_s": SEARCH_WARMUP_S}
    found = {
        f"{entrant.name}.yml": document,
        f"{entrant.name}-killed.yml": killed,
        f"{entrant.name}-searched.yml": {**document, "load": {**document["load"], **trial}},
    }
    if entrant.follows:
        found[f"{entrant.name}-asked.yml"] = {**document, "queries": FOLLOWED}
    if entrant.durable:
        system = {**document.get("system", {}), **entrant.durable}
        found[f"{entrant.name}-durable.yml"] = {**killed, "system": system}
    return {name: str(yaml.safe_dump(one, sort_keys=False)) for name, one in found.items()}


class BakeOff:
    """A bake-off's folder: what was asked for, and each system's document."""

    def __init__(self, folder: Path, document: dict[str, Any]) -> None:
        """One that is there, as its document says."""
        self.folder = folder
        self.document = document

    @classmethod
    def open(
        cls,
        into: Path,
        target: str,
        entrants: Sequence[Entrant],
        asked: Asked,
        limits: Mapping[str, Any],
        *,
        anew: bool = False,
        check: Callable[["BakeOff | None"], object] = lambda _: None,
    ) -> "BakeOff":
        """The newest one of the same, by this version, if it did not come to its end or a system
        failed in it, which is tried again; or a new one. OSError if it cannot be written.

        `check` is called with the one that goes on, None if a new one begins, before anything is
        written: one that was refused and is empty would hide the one that was interrupted.
        """
        wanted = {
            "target": target,
            "systems": [entrant.name for entrant in entrants],
            "load": {"sensors": asked.sensors, "duration_s": asked.duration_s},
            "quick": asked.quick,
            "limits": dict(limits),
            "version": __version__,
        }
        found = None if anew else cls._newest(into, wanted)
        if found:
            failed = [each for each in map(found.system, entrants) if each["error"]]
            if failed or found.document["ended"] is None:
                check(found)
                for each in failed:
                    found.keep(each | {"error": None})
                found.note(ended=None)
                return found
        check(None)
        folder = into / run_folder.stamp(time.time())
        folder.mkdir(parents=True)
        for entrant in entrants:
            for name, text in experiments(entrant, asked, limits).items():
                (folder / name).write_text(text)
        document = {"format": FORMAT, "wanted": wanted}
        document |= {"deployed": None, "loaded": False, "ended": None}
        run_folder.write_json(folder / INDEX, document)
        return cls(folder, document)

    @classmethod
    def _newest(cls, into: Path, wanted: Mapping[str, Any]) -> "BakeOff | None":
        """The newest one of the same; others may have been made since."""
        for path in sorted(into.glob(f"*/{INDEX}"), reverse=True):
            try:
                document = run_folder.read_object(path)
            except (UserError, OSError):
                continue
            if document.get("format") == FORMAT and document["wanted"] == wanted:
                return cls(path.parent, document)
        return None

    def system(self, entrant: Entrant) -> dict[str, Any]:
        """What is known of a system: its steps' folders, those of runs that were made once more,
        those of loads of which nothing is measured, and what went wrong."""
        path = self.folder / f"{entrant.name}.json"
        if path.exists():
            return run_folder.read_object(path)
        return {
            "name": entrant.name,
            "title": entrant.title,
            "acknowledgement": entrant.acknowledgement,
            "durable": dict(entrant.durable),
            "fair": entrant.fair,
            "steps": {},
            "spoiled": {},
            "unmeasured": [],
            "below": [],
            "error": None,
        }

    def keep(self, document: Mapping[str, Any]) -> None:
        """Write a system's document. OSError if it cannot be."""
        run_folder.write_json(self.folder / f"{document['name']}.json", dict(document))

    def owns(self, experiment_file: str) -> bool:
        """Whether a deployment's experiment, by its plan, is one of this folder's. The same system
        of somebody else's is of another file."""
        # Plans name it from where they are made: of a bake-off's that is the checkout.
        return (paths.CHECKOUT / experiment_file).resolve().parent == self.folder.resolve()

    def gone(self) -> None:
        """Write down that nothing of it is deployed any more. OSError if it cannot be."""
        self.note(deployed=None, loaded=False)

    def note(self, **more: Any) -> None:
        """Write down how far it is. OSError if it cannot be."""
        self.document |= more
        run_folder.write_json(self.folder / INDEX, self.document)
