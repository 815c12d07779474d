"""Makes the steps of a bake-off, for as long as there is time."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from kairoscope import run_folder
from kairoscope.compare import runs
from kairoscope.errors import UserError
from kairoscope.series import bakeoff_runs, record
from kairoscope.series.bakeoff import LOAD, SEARCH, Asked, BakeOff, Entrant, Step, spoiled, steps
from kairoscope.series.bounds import RUNG
from kairoscope.series.driver import Wanted
from kairoscope.series.trials import HIGHEST


class Driver(Protocol):
    """What is done with the target; see `kairoscope.series.driver.Verbs`."""

    def deploy(self, wanted: Wanted) -> None:
        """Bring it to the experiment."""

    def load(self, wanted: Wanted, into: Path) -> Path:
        """Run the load; the run folder, which is in `into`."""

    def search(self, wanted: Wanted) -> Path:
        """Search for what it sustains; the search's folder."""

    def destroy(self) -> None:
        """End all of it."""


class Making:
    """Makes the steps of a bake-off that are left, for so long."""

    def __init__(
        self,
        bakeoff: BakeOff,
        asked: Asked,
        driver: Driver,
        console: Console,
        made: Callable[[], object],
        for_s: float,
    ) -> None:
        """`made` is called after each step; `for_s`: seconds that this call may take."""
        self._bakeoff, self._asked, self._driver = bakeoff, asked, driver
        self._console, self._made = console, made
        self._until = time.monotonic() + for_s
        self._steps = 0
        self._file = ""  # the experiment that was deployed last, by this call
        self._took_s: dict[str, float] = {}

    def __call__(self, entrants: Sequence[Entrant]) -> int:
        """Make them; how many are left because the time would not have been enough.

        A system of which a step fails is left with the reason, and the next one has its turn.

        Raises:
            KeyboardInterrupt: by the user; the step that was going on is made again next time.
            UserError: a system could not be destroyed; the same command tries it again.
        """
        for entrant in entrants:
            self._remember(self._bakeoff.system(entrant))
        for searched in (False, True):
            for number, entrant in enumerate(entrants, 1):
                here = [step for step in self._left(entrant) if (step.name == SEARCH) == searched]
                if not here:
                    continue
                place = f"system {number} of {len(entrants)}"
                self._console.print(f"\n[bold]{place}[/]: {entrant.name}")
                if not self._turn(entrant, here):
                    return sum(len(self._left(one)) for one in entrants)
        self._bakeoff.note(ended=time.time())
        self._made()
        return 0

    def _left(self, entrant: Entrant) -> list[Step]:
        document = self._bakeoff.system(entrant)
        if document["error"]:
            return []
        return [s for s in steps(entrant, self._asked) if not self._done(document, s)]

    def _done(self, document: Mapping[str, Any], step: Step) -> bool:
        """Whether a step was made; a search is until one ended below its upper end."""
        made = step.name in document["steps"]
        return made and (step.name != SEARCH or upper_end(self._bakeoff.folder, document) is None)

    def _turn(self, entrant: Entrant, left: Sequence[Step]) -> bool:
        """Make a system's steps, and destroy it; whether the time was enough.

        UserError if what is deployed cannot be destroyed, before it or after it: that is no fault
        of this system's, and nothing can be measured beside it.
        """
        if self._bakeoff.document["deployed"] not in (None, entrant.name):
            self._destroy()
        document, enough = self._bakeoff.system(entrant), True
        ahead = list(left)
        while ahead and (enough := self._enough(ahead[0])):
            if ahead[0].name == LOAD and self._bakeoff.document["deployed"]:
                # Series that an earlier try has left would not be created in the measured one.
                self._destroy()
            try:
                self._bakeoff.note(deployed=entrant.name)
                if self._lacks_series(ahead[0]):
                    self._bring_series(entrant, document)
                self._make(entrant, document, ahead[0])
            except UserError as error:
                self._console.print(f"{entrant.name}: {error.message}", markup=False)
                document["error"] = error.message
                self._bakeoff.keep(document)
                self._made()
                break
            if self._done(document, ahead[0]):
                ahead.pop(0)
        if self._bakeoff.document["deployed"]:
            self._destroy()
        return enough

    def _destroy(self) -> None:
        self._driver.destroy()
        self._file = ""
        self._bakeoff.gone()

    def _lacks_series(self, step: Step) -> bool:
        """Whether nothing was loaded into what is deployed: a step behind the first load would ask
        for series that are new, or kill what keeps them, which those of other systems are not."""
        return step.name not in (LOAD, SEARCH) and not self._bakeoff.document.get("loaded")

    def _bring_series(self, entrant: Entrant, document: dict[str, Any]) -> None:
        """Have the first load once more, for what it leaves in the store alone."""
        self._console.print(f"\n[bold]{entrant.name}: {LOAD}[/], not measured: for its series")
        made = self._load(Wanted(str(self._bakeoff.folder / f"{entrant.name}.yml")))
        document["unmeasured"] = [*document.get("unmeasured", []), made.name]
        self._bakeoff.keep(document)

    def _load(self, wanted: Wanted) -> Path:
        """Run a load on the settings of its own experiment; the run folder."""
        if wanted.experiment != self._file:
            self._driver.deploy(Wanted(wanted.experiment))
            self._file = wanted.experiment
        made = self._driver.load(wanted, self._bakeoff.folder)
        self._bakeoff.note(loaded=True)
        return made

    def _make(self, entrant: Entrant, document: dict[str, Any], step: Step) -> None:
        """Make one step.

        It is left where its run says nothing of the system, and was the first one. That nothing
        served again after a kill is said of the system.
        """
        self._console.print(f"\n[bold]{entrant.name}: {step.name}[/]")
        began = time.monotonic()
        folder = self._bakeoff.folder
        wanted = Wanted(str(folder / step.file), step.options)
        if step.name == SEARCH:
            end = upper_end(folder, document)
            begin = ("--from", str(end or begin_at(folder, document, self._asked)))
            made = self._driver.search(Wanted(wanted.experiment, step.options + begin))
            if end:
                below = {"made": document["steps"][step.name], "sustained": end}
                document["below"] = [*document.get("below", []), below]
            # Among the searches: what is moved together still finds it.
            document["steps"][step.name] = os.path.relpath(made, folder)
        else:
            made = self._load(wanted)
            if why := self._spoiled(made):
                # Its servers may be down, or about to serve again: a deploy waits for them.
                self._file = ""
            if why and step.name not in document["spoiled"] and not _stayed_down(made):
                self._console.print(f"{why}: once more", markup=False)
                document["spoiled"][step.name] = made.name
            else:
                document["steps"][step.name] = made.name
        document.setdefault("took_s", {})[step.name] = round(time.monotonic() - began, 1)
        self._steps += 1
        self._remember(document)
        self._bakeoff.keep(document)
        self._made()

    def _spoiled(self, folder: Path) -> str:
        try:
            found = spoiled(runs.read(folder))
        except UserError as error:
            return error.message
        return ": ".join(found) if found else ""

    def _remember(self, document: Mapping[str, Any]) -> None:
        for name, took_s in document.get("took_s", {}).items():
            kind = Step(name, "").kind
            self._took_s[kind] = max(took_s, self._took_s.get(kind, 0))

    def _enough(self, step: Step) -> bool:
        """Whether there is time for a step, by what the longest of its kind took. One is made in
        any case: else a time that is too short for one would never come to an end."""
        due = [step, Step(LOAD, "")] if self._lacks_series(step) else [step]
        usual_s = sum(self._took_s.get(s.kind, self._asked.guessed_s(s)) for s in due)
        return not self._steps or time.monotonic() + usual_s <= self._until


def _stayed_down(run: Path) -> bool:
    """Whether nothing served again after a run's kill: a figure, whatever else the run lacks."""
    killed = run / run_folder.KILLED
    return killed.exists() and bakeoff_runs.stayed_down(run_folder.read_object(killed))


def upper_end(folder: Path, document: Mapping[str, Any]) -> int | None:
    """Sensors that a system's last search ended at, as it sustained all that was tried; None of a
    search that ended otherwise, if there is none, and where no more can be asked for."""
    try:
        found = run_folder.read_object(folder / document["steps"][SEARCH] / record.FILE)
        most, how = round(found["wanted"]["most"]), found["result"]["how"]
    except (OSError, UserError, LookupError, TypeError):
        return None
    return most if how == "all sustained" and most < HIGHEST["sensors"] / RUNG else None


def begin_at(folder: Path, document: Mapping[str, Any], asked: Asked) -> int:
    """Sensors that a system's search begins with: as many as would take all cores, by proportion;
    half of what it was loaded with if it did not pass that, or if that is not known.

    That is less than what it sustains: servers that have run for longer, and requests that are more
    at a time, take less CPU a point. One store sustained 3.0 times as many, another 16 times and
    more (results/published/2026-11-29-bakeoff.md).
    """
    run = folder / str(document["steps"].get(LOAD))
    try:
        passed = run_folder.read_object(run / run_folder.VERDICT)["verdict"] == "pass"
        measured = run_folder.read_object(run / run_folder.MEASUREMENTS)
        cpus = run_folder.read_object(run / run_folder.MANIFEST)["machine"]["cpus"]
        # Of many short turns the kernel's count of all cores misses most, and not its processes'.
        ours = sum(measured.get("cpu_cores", {}).values()) / cpus
        busy = max(float(measured["machine_cpu_busy_fraction"]), float(ours))
    except (OSError, UserError, LookupError, TypeError):
        passed, busy = False, 0.0
    if not passed or not busy:
        return max(2, asked.sensors // 2)
    return round(asked.sensors / min(1.0, busy))
