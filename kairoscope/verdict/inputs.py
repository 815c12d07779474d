"""What a run folder has for its verdict, read and checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.plan import Plan
from kairoscope.run_folder import Expected, Facts
from kairoscope.verdict import faults
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec


@dataclass(frozen=True)
class Inputs:
    """The documents of a run folder; files that grow with the run are read where they are needed.

    Attributes:
        kairosdb, storage: names of the nodes, in order.
        expected: what should have been captured.
        cpus: cores of the machine that the run was made on.
        booted: when that started, epoch s; None in older runs.
        conditions: in what state the load found the servers, {} where that was not looked at.
        schedule: of the load; None if it never started.
    """

    folder: Path
    plan: Plan
    facts: Facts
    kairosdb: list[str]
    storage: list[str]
    expected: Expected
    cpus: int
    booted: float | None
    conditions: dict[str, Any]
    schedule: Schedule | None

    @property
    def load(self) -> Path:
        """Where the loaders' files are."""
        return self.folder / run_folder.LOAD

    @property
    def loader_hosts(self) -> list[dict[str, Any]]:
        """What is known of the loader hosts, in order."""
        path = self.folder / run_folder.LOAD_HOSTS
        return list(run_folder.read_json(path)) if path.exists() else []

    @property
    def loader_names(self) -> list[str]:
        """Names of the loader hosts, in order."""
        return [host["host"] for host in self.loader_hosts]

    @property
    def carried(self) -> list[faults.Happened]:
        """The faults that were carried out."""
        return faults.happened(run_folder.records(self.folder / run_folder.FAULTS))


def read(folder: Path) -> Inputs:
    """What the run folder has for a verdict.

    Raises:
        UserError: it is no run folder, or what a verdict needs is missing, cut off, or of another
            version. Of a run that was killed only what it got to is needed.
    """
    manifest_path = folder / run_folder.MANIFEST
    run_folder.check(folder)
    manifest = run_folder.read_object(manifest_path)
    facts = Facts.read(folder)
    plan = _plan(folder / run_folder.PLAN)
    facts.check_files(folder)
    kairosdb, storage, expected, cpus = _machines(manifest, manifest_path)
    conditions = manifest.get("conditions", {})
    schedule = _schedule(folder)
    booted = manifest.get("booted")
    return Inputs(
        folder, plan, facts, kairosdb, storage, expected, cpus, booted, conditions, schedule
    )


def _plan(path: Path) -> Plan:
    try:
        return Plan.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: the file is missing") from None
    except UserError as error:
        raise UserError(f"{path.parent}: {error.message}") from error


def _machines(manifest: dict[str, Any], path: Path) -> tuple[list[str], list[str], Expected, int]:
    """Names of the KairosDB and storage nodes, what is captured of them, this machine's cores."""
    try:
        nodes = manifest["nodes"]
        return (
            list(map(str, nodes["kairosdb"])),
            list(map(str, nodes["storage"])),
            Expected(**manifest["captures"]),
            int(manifest["machine"]["cpus"] or 1),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: does not say which nodes there were and how many cores ({error!r}): the run "
            "was made by another version"
        ) from error


def _schedule(folder: Path) -> Schedule | None:
    path = folder / run_folder.LOAD_SPEC
    try:
        return Schedule(LoadSpec.from_json(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: not a load's specification: {error}") from error
