"""What is computed from, and how sure it is: of published pages, or of a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kairoscope import paths, run_folder
from kairoscope.errors import UserError

FILE = paths.CHECKOUT / "results" / "published" / "figures.json"


@dataclass(frozen=True)
class Figure:
    """A value, what it may be as well, and where it is from."""

    value: float
    least: float
    most: float
    sure: str


@dataclass(frozen=True)
class Figures:
    """CPU in µs of a thread, bytes on the disk of one replica.

    Attributes:
        cpu_us_per_copy: of the store, to write one copy of a point.
        bytes_per_copy: of one copy, once merged.
        cpu_us_kairosdb: of KairosDB, for one point.
    """

    engine: str
    cpu_us_per_copy: Figure
    bytes_per_copy: Figure
    cpu_us_kairosdb: Figure


def published(engine: str) -> Figures:
    """Of the published pages. UserError for an engine that none of them is of."""
    document = run_folder.read_object(FILE)
    if engine not in document["engines"]:
        raise UserError(f"--engine {engine}: {' or '.join(sorted(document['engines']))}")
    of_engine = document["engines"][engine]
    return Figures(
        engine,
        Figure(**of_engine["cpu_us_per_copy"]),
        Figure(**of_engine["bytes_per_copy"]),
        Figure(**document["kairosdb"]["cpu_us_per_point"]),
    )


def of_run(folder: Path) -> Figures:
    """Of a run's measurements, for what it measured; the rest as published. UserError if it is no
    run folder, or no CPU was measured in it."""
    measured = run_folder.read_object(folder / run_folder.MEASUREMENTS)
    plan = run_folder.read_object(folder / run_folder.PLAN)
    try:
        engine, copies = str(plan["engine"]), int(plan["storage"]["replication_factor"])
        cpu: dict[str, Any] = measured["cpu_us_per_point"]
        store, kairosdb = cpu["storage"], cpu["kairosdb"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder}: its measurements have no CPU a point ({error!r})") from None
    if not store or not kairosdb:
        raise UserError(f"{folder}: no CPU a point was measured there: take another run")
    known = published(engine)
    sure = f"measured, one run: {folder.name}"

    def one(value: float) -> Figure:
        return Figure(value, value, value, sure)

    on_disk = (measured.get("bytes_per_point") or {}).get("per_replica")
    return Figures(
        engine,
        one(store / copies),
        one(on_disk) if on_disk else known.bytes_per_copy,
        one(kairosdb),
    )
