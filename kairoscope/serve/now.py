"""What is being deployed on a target and then loaded: one address for both, from the start on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import steps
from kairoscope.live import duration
from kairoscope.serve.shelf import Shelf

ADDRESS = "/now"
DONE, FAILED, GOING_ON, NOT_YET = "done", "failed", "going on", "not yet"


@dataclass(frozen=True)
class Row:
    """A stage of a deploy in words: how far it is, how long it took, now and the time before."""

    name: str
    word: str
    took: str
    usual: str
    task: str


@dataclass(frozen=True)
class Deploying:
    """A deploy in words. `word`: going on, done or failed."""

    target: str
    word: str
    summary: str
    rows: tuple[Row, ...]


class Now:
    """What happens on a target from now on."""

    def __init__(self, target: str, shelf: Shelf) -> None:
        """Runs that are on the shelf already are of before."""
        self.target = target
        self._shelf = shelf
        self._since = time.time()
        self._before = set(shelf.folders())
        self._run: str | None = None

    def run(self) -> str | None:
        """The address of the first run on that target since then; None before there is one."""
        if self._run is None:
            for address, folder in reversed(self._shelf.folders().items()):
                if address not in self._before and _target(folder) == self.target:
                    self._run = address
                    break
        return self._run

    def deploying(self) -> Deploying:
        """How far the deploy is."""
        found = steps.read(self.target)
        if found is None or found.began < self._since:
            return Deploying(self.target, GOING_ON, "It is looked at what can refuse.", ())
        return _told(self.target, found, time.time())


def _told(target: str, found: steps.Steps, now: float) -> Deploying:
    rows = []
    for stage in found.stages:
        word = GOING_ON if stage.took_s is None else DONE
        if found.end not in (None, steps.DONE) and stage is found.stages[-1]:
            word = FAILED
        took = duration(now - stage.began if stage.took_s is None else stage.took_s)
        task = stage.task if word != DONE else ""
        rows.append(Row(stage.name, word, took, _usual(found, stage.name), task))
    rows += [Row(name, NOT_YET, "", _usual(found, name), "") for name in found.to_come]
    return Deploying(target, *_summary(found, now), tuple(rows))


def _usual(found: steps.Steps, name: str) -> str:
    return duration(found.usual_s[name]) if name in found.usual_s else ""


def _summary(found: steps.Steps, now: float) -> tuple[str, str]:
    if found.end == steps.DONE:
        return DONE, "All servers stand; the load begins."
    if found.end is not None:
        return FAILED, f"{found.end} The terminal says more."
    left = found.left_s(now)
    about = (
        "" if left is None else f", about {duration(left)} left if it takes as long as last time"
    )
    return GOING_ON, f"Being deployed for {duration(now - found.began)}{about}."


def _target(folder: Path) -> str | None:
    try:
        return str(run_folder.read_object(folder / run_folder.MANIFEST).get("target"))
    except (OSError, UserError):
        return None
