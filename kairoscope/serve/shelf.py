"""Which run folders there are, and the address of each.

Only what is listed here is served. So nothing that stands in an address becomes a path.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kairoscope import paths, run_folder
from kairoscope.errors import UserError

Places = Callable[[], Iterable[Path]]
"""Folders in which run folders lie."""


def everywhere() -> list[Path]:
    """The runs' folder, and those of all series."""
    series = paths.series_dir()
    return [paths.runs_dir(), *(sorted(series.iterdir()) if series.is_dir() else ())]


@dataclass(frozen=True)
class Shown:
    """A run on the list: its address, what it was, and its verdict's word."""

    address: str
    run: str
    started: str
    experiment: str
    target: str
    word: str
    summary: str


class Shelf:
    """The run folders of some places."""

    def __init__(self, places: Places) -> None:
        """`places` is asked each time: a series may have begun."""
        self._places = places

    def folders(self) -> dict[str, Path]:
        """Run folders by their address, the newest first."""
        found = [
            (f"/{place.name}/{folder.name}", folder)
            for place in self._places()
            if place.is_dir()
            for folder in place.iterdir()
            # A link may lead anywhere, and `latest` leads to what is here already.
            if not folder.is_symlink() and (folder / run_folder.MANIFEST).is_file()
        ]
        return dict(sorted(found, key=lambda each: each[1].name, reverse=True))

    def shown(self) -> list[Shown]:
        """All runs, the newest first."""
        return [_shown(address, folder) for address, folder in self.folders().items()]


def address(folder: Path) -> str:
    """The address of a run folder."""
    return f"/{folder.parent.name}/{folder.name}"


def leads_out(folder: Path) -> bool:
    """Whether a file of a run folder lies elsewhere: a run makes no such links."""
    return any(path.is_symlink() for path in folder.rglob("*"))


def _shown(address: str, folder: Path) -> Shown:
    manifest, verdict = _object(folder / run_folder.MANIFEST), _object(folder / run_folder.VERDICT)
    going_on = run_folder.goes_on(folder)

    def told(document: run_folder.Record, key: str) -> str:
        return str(document.get(key) or "")

    return Shown(
        address,
        folder.name,
        told(manifest, "started")[:19].replace("T", " "),
        told(manifest, "experiment"),
        told(manifest, "target"),
        "going on" if going_on else told(verdict, "verdict") or "not judged",
        "" if going_on else told(verdict, "summary"),
    )


def _object(path: Path) -> run_folder.Record:
    try:
        return run_folder.read_object(path)
    except (OSError, UserError):
        return {}
