"""How far a deploy is: a file that it writes while it goes on, and that the live page reads.

A line for each stage as it begins, for each of Ansible's tasks (ansible/plugins/callback/narrate.py
writes these two), and one for the end. The file of the deploy before stays beside it, if that went
well: how long each stage took then is what is known of how long it will take.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kairoscope import paths

DONE = "done"
"""How a deploy ended that ended well."""


@dataclass(frozen=True)
class Stage:
    """A stage that has begun: when (s since 1970), how long it took (s; None while it goes on),
    and the task that it came to."""

    name: str
    began: float
    took_s: float | None = None
    task: str = ""


@dataclass(frozen=True)
class Steps:
    """How far a deploy is."""

    began: float
    stages: tuple[Stage, ...] = ()
    to_come: tuple[str, ...] = ()
    end: str | None = None
    """DONE, or why it ended otherwise; None while it goes on."""
    usual_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each stage took in the deploy before, by name."""

    def left_s(self, now: float) -> float | None:
        """Seconds until the end if all takes as long as the time before; None if that is not known
        of every stage that is not over."""
        open_ = [(s.name, now - s.began) for s in self.stages if s.took_s is None]
        open_ += [(name, 0.0) for name in self.to_come]
        if any(name not in self.usual_s for name, _ in open_):
            return None
        return sum(max(0.0, self.usual_s[name] - spent) for name, spent in open_)


def file(target: str) -> Path:
    """Where the steps of the newest deploy of a target are."""
    return paths.home() / f"deploy-{target}.jsonl"


def forget(target: str) -> None:
    """Leave nothing of a deploy that was refused before anything was there."""
    file(target).unlink(missing_ok=True)


class Told:
    """What a deploy says of itself. Made by `told`."""

    def __init__(self, path: Path) -> None:
        """`path`: what it is written to."""
        self.path = path

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._line(stage=name)

    def _line(self, **what: str) -> None:
        # What cannot be told is no reason not to deploy.
        with contextlib.suppress(OSError), self.path.open("a") as lines:
            lines.write(json.dumps({"t": round(time.time(), 3), **what}) + "\n")


@contextlib.contextmanager
def told(target: str) -> Iterator[Told]:
    """A deploy of a target, which the block is; how it ends is told too."""
    path = file(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    if (before := read(target)) is not None and before.end == DONE:
        path.replace(_of_before(path))
    path.write_text("")
    told = Told(path)
    try:
        yield told
    except BaseException as error:
        if path.exists():
            told._line(end=_why(error))
        raise
    told._line(end=DONE)


def _why(error: BaseException) -> str:
    """How a deploy ended, as a sentence."""
    if isinstance(error, KeyboardInterrupt):
        return "It was told to end."
    why = str(error) or type(error).__name__
    return why if why.endswith((".", "!", "?")) else f"{why}."


def read(target: str) -> Steps | None:
    """How far the newest deploy of a target is; None if none is known."""
    path = file(target)
    found = _read(path)
    if found is None:
        return None
    before = _read(_of_before(path))
    usual = {s.name: s.took_s for s in before.stages if s.took_s is not None} if before else {}
    return Steps(found.began, found.stages, found.to_come, found.end, usual)


def _of_before(path: Path) -> Path:
    return path.with_name(f"{path.stem}.before.jsonl")


def _read(path: Path) -> Steps | None:
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        return _steps(lines) if lines else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _steps(lines: list[dict[str, Any]]) -> Steps:
    stages: list[Stage] = []
    to_come: list[str] = []
    end = None
    for line in lines:
        t = float(line["t"])
        if "stage" in line or "end" in line:
            stages[-1:] = [Stage(s.name, s.began, t - s.began, s.task) for s in stages[-1:]]
        if "to_come" in line:
            to_come += [str(name) for name in line["to_come"]]
        if "stage" in line:
            stages.append(Stage(str(line["stage"]), t))
            if stages[-1].name in to_come:
                del to_come[: to_come.index(stages[-1].name) + 1]
        if "task" in line and stages:
            now = stages[-1]
            stages[-1] = Stage(now.name, now.began, None, str(line["task"]))
        end = str(line["end"]) if "end" in line else None
    return Steps(float(lines[0]["t"]), tuple(stages), tuple(to_come), end)
