"""What a run works with while it goes on; what it comes to is in its folder alone."""

import contextlib
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kairoscope import run_folder
from kairoscope.hosts.inventory import Inventory
from kairoscope.plan import Plan
from kairoscope.run_folder import Facts, JsonLines
from kairoscope.verdict import outcomes
from loaders.schedule.due import Schedule

if TYPE_CHECKING:
    from kairoscope.run.faults import Levers


@dataclass
class CurrentRun:
    """A run under way."""

    folder: Path
    plan: Plan
    inventory: Inventory
    started: float  # epoch s
    events: JsonLines
    levers: "Levers | None" = None
    facts: Facts = field(default_factory=Facts)
    stop: threading.Event = field(default_factory=threading.Event)
    schedule: Schedule | None = None
    interrupted: bool = False

    def __post_init__(self) -> None:
        """Hold the progress file, which says for as long as this is there that the run goes on."""
        self._progress = JsonLines(self.folder / run_folder.PROGRESS)
        self._progress.hold()

    def at(self, stage: str, t: float | None = None, **figures: Any) -> None:
        """Tell who watches the run how far it is; `t` in epoch s, now by default."""
        # Nothing is judged by it: a run must not end because of it.
        with contextlib.suppress(OSError):
            self._progress.write(t=time.time() if t is None else t, stage=stage, **figures)

    def note(self, what: str, detail: str) -> None:
        """Add an event of now. OSError if the disk is full."""
        self.events.write(t=time.time(), what=what, detail=detail)

    def save(self) -> None:
        """Put the facts into the folder, as far as they are known. OSError if the disk is full."""
        self.facts.write(self.folder)

    def end(self) -> None:
        """Leave a folder that has all that its verdict is computed from, in its place.

        Once, when nothing writes to it any more. OSError if the disk is full.
        """
        run_folder.move_histogram_logs(self.folder)
        if self.schedule is not None:
            workers = self.schedule.spec.workers
            for seen in outcomes.node_events(workers, self.folder / run_folder.LOAD):
                name = self.inventory.kairosdb[seen.node].name
                by = f"seen by {len(seen.workers)} of {workers} workers"
                detail = f"{name}: {seen.detail} ({by})"
                self.events.write(t=seen.t, what=seen.event, detail=detail)
        self.facts.end(self.folder)
