"""The runs of a bake-off's system, as its document names them. Pure, of the run folders."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.compare import runs
from kairoscope.compare.runs import Run
from kairoscope.errors import UserError
from kairoscope.series import record
from kairoscope.series.bakeoff import SEARCH


@dataclass(frozen=True)
class Killed:
    """What a kill left: points claimed (acknowledged, or sent where nothing is), and those that
    came back; seconds of the load; from the last acknowledgement to the kill (None: not told), and
    from there until servers served again (None: they did not)."""

    claimed: int
    stored: int
    seconds: float
    after_s: float | None
    serving_s: float | None

    @property
    def share(self) -> float:
        """Of the claimed points that came back."""
        return self.stored / self.claimed if self.claimed else 0.0


@dataclass(frozen=True)
class System:
    """A system's document with its runs, by step, and the document of its search; `odd` are runs
    that cannot be read."""

    document: Mapping[str, Any]
    runs: dict[str, Run]
    ledgers: dict[str, dict[str, Any]]
    killed: dict[str, Killed]
    search: Mapping[str, Any]
    odd: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of its experiment."""
        return str(self.document["name"])

    @property
    def searched(self) -> Mapping[str, Any] | None:
        """What its search came to."""
        result: Mapping[str, Any] | None = self.search.get("result")
        return result


def read(folder: Path, document: Mapping[str, Any]) -> System:
    """A system's runs of a bake-off's folder."""
    found = System(document, {}, {}, {}, _search(folder, document))
    for step, name in document["steps"].items():
        if step == SEARCH:
            continue
        try:
            run = runs.read(folder / name)
        except UserError as error:
            found.odd[step] = error.message
            continue
        found.runs[step] = run
        if (run.folder / run_folder.LEDGER).exists():
            found.ledgers[step] = run_folder.read_object(run.folder / run_folder.LEDGER)
        if killed := _killed(run, found.ledgers.get(step)):
            found.killed[step] = killed
    return found


def _search(folder: Path, document: Mapping[str, Any]) -> Mapping[str, Any]:
    made = document["steps"].get(SEARCH)
    if not made or not (folder / made / record.FILE).exists():
        return {}
    return run_folder.read_object(folder / made / record.FILE)


def claimed(ledger: Mapping[str, Any] | None) -> tuple[int, int | None]:
    """Points that must be in the store, and those that came back right; None if it is not known."""
    if not ledger:
        return 0, None
    if ledger["acknowledges"]:
        return int(ledger["acknowledged"]), ledger["stored"]
    return int(ledger["unknown"]), ledger["unknown_stored"]


def seconds(run: Run) -> float:
    """Of the whole load, warm-up included: to the last acknowledgement, which may come long after
    the last point was due, as what a server does not take is sent again."""
    start_s, end_s = (run.manifest["load"][key] / 1000 for key in ("start_ms", "end_ms"))
    return float(max(end_s, run.measurements.get("arrived_t") or 0.0) - start_s)


def _killed(run: Run, ledger: Mapping[str, Any] | None) -> Killed | None:
    path = run.folder / run_folder.KILLED
    points, stored = claimed(ledger)
    if not path.exists() or stored is None or not run.manifest.get("load"):
        return None
    told = run_folder.read_object(path)
    after_s, serving_s = told.get("after_arrived_s"), told.get("serving_s")
    return Killed(points, stored, seconds(run), after_s, serving_s)
