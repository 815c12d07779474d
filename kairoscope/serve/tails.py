"""Files of JSON lines that grow: each line is read and parsed once."""

from dataclasses import dataclass, field
from pathlib import Path

from kairoscope.run_folder import Record, parsed


@dataclass
class _Read:
    """What has been read of one file: `inode` tells it from another one of its name."""

    inode: int
    offset: int = 0
    records: list[Record | None] = field(default_factory=list)


class Tails:
    """The lines of files that are asked for again and again."""

    def __init__(self) -> None:
        self._known: dict[Path, _Read] = {}

    def lines(self, path: Path) -> list[Record | None]:
        """As of `run_folder.lines`, but that a last line without its end is not there yet.

        Raises:
            OSError: the file is missing or cannot be read.
        """
        with path.open("rb") as file:
            inode = path.stat().st_ino
            known = self._known.get(path)
            # Another file, or one that was written anew.
            if known is None or known.inode != inode or known.offset > path.stat().st_size:
                known = self._known[path] = _Read(inode)
            file.seek(known.offset)
            whole, end, _ = file.read().rpartition(b"\n")
        known.offset += len(whole) + len(end)
        known.records += [parsed(line) for line in whole.split(b"\n") if line.strip()]
        return known.records

    def records(self, path: Path) -> list[Record]:
        """As of `run_folder.records`: the objects alone, none if the file cannot be read."""
        try:
            return [record for record in self.lines(path) if record is not None]
        except OSError:
            return []
