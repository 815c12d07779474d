"""The runs of `kairoscope faults`: what faults.json holds, and the cells that are left."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment
from kairoscope.series import faults
from kairoscope.series.driver import Driver, Wanted
from kairoscope.series.faults import Came, Cell

FILE = "faults.json"
FORMAT = 1
"""Raised when a reader of the old one would misread the new one."""


@dataclass
class Record:
    """What faults.json holds.

    Attributes:
        experiment: its name; what is run is in a file of each cell beside faults.json.
        asked: of the command line, which has to be the same to go on.
        cells: all that there would be, with the reason where one cannot be had.
        done: what those came to that were run, by their names.
        about: machine, commit and versions, of the first run.
        abouts: the same of each, by its cell: between two calls they may have changed.
    """

    experiment: str
    target: str
    asked: dict[str, Any]
    cells: list[Cell]
    done: dict[str, Came] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    abouts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def left(self) -> list[Cell]:
        """Cells that can be had and were not run."""
        return [cell for cell in self.cells if not cell.why and cell.name not in self.done]

    @property
    def exit_status(self) -> int:
        """See `faults.exit_status`."""
        had = [cell.name for cell in self.cells if not cell.why]
        return faults.exit_status(
            [self.done[name].word if name in self.done else None for name in had]
        )

    def write(self, folder: Path) -> None:
        """Write faults.json. OSError if it cannot be."""
        document = {"format": FORMAT, **asdict(self), "done": faults.to_json(self.done)}
        run_folder.write_json(folder / FILE, document)

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """What is in a folder. UserError if it holds none that this version understands."""
        document = run_folder.read_object(folder / FILE)
        if document.pop("format", None) != FORMAT:
            raise UserError(f"{folder / FILE}: made by another version of Kairoscope")
        try:
            document["cells"] = [Cell(**cell) for cell in document["cells"]]
            document["done"] = faults.from_json(document["done"])
            return cls(**document)
        except (LookupError, TypeError) as error:
            raise UserError(f"{folder / FILE}: not what it holds: {error!r}") from error


def start(
    record: Record, folder: Path, experiment: Experiment, sequence: Mapping[str, Any] | None
) -> None:
    """Make the folder, with an experiment for each cell. UserError if that cannot be.

    `sequence`: the document of the one cell faults.RANDOM.
    """
    try:
        folder.mkdir(parents=True)
        for cell in record.cells:
            if not cell.why:
                document = sequence or faults.of_cell(experiment, cell)
                text = yaml.safe_dump(dict(document), sort_keys=False)
                _file(folder, cell).write_text(f"# {cell.name}, by kairoscope faults\n{text}")
        record.write(folder)
    except OSError as error:
        raise UserError(f"The folder {folder} could not be made: {error}") from error


def _file(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.slug}.yml"


def run(
    record: Record,
    folder: Path,
    driver: Driver,
    console: Console,
    written: Callable[[Record, Path], None],
) -> None:
    """Run the cells that are left, faults.json growing.

    `written` is called after each, to write pages.

    Raises:
        KeyboardInterrupt: by the user; the cell that was going on is run again next time.
        UserError: the target could not be brought to the experiment, or a load left no run.
    """
    left = record.left()
    runs = len(record.done) + len(left)
    for number, cell in enumerate(left, len(record.done) + 1):
        wanted = Wanted(str(_file(folder, cell)))
        console.print(f"\n[bold]{cell.name}[/] ({number} of {runs})")
        if cell is left[0]:
            driver.prepare(wanted)
        began = time.time()
        try:
            made = driver.load(wanted, folder)
        except UserError:
            # What the fault before left: a deploy starts what is down.
            driver.prepare(wanted)
            made = driver.load(wanted, folder)
        verdict = run_folder.read_object(made / run_folder.VERDICT)
        path = made / run_folder.LEDGER
        book = run_folder.read_object(path) if path.exists() else {}
        record.done[cell.name] = faults.came(made.name, cell, verdict, book)
        record.abouts[cell.name] = _about(made, began)
        record.about = record.about or record.abouts[cell.name]
        record.write(folder)
        written(record, folder)
        console.print(f"{cell.name}: {record.done[cell.name].word}")


def _about(made: Path, began: float) -> dict[str, Any]:
    manifest = run_folder.read_object(made / run_folder.MANIFEST)
    return {
        "began": run_folder.stamp(began),
        "git": manifest.get("git"),
        "machine": manifest.get("machine"),
        "versions": manifest.get("versions"),
    }
