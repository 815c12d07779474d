"""The run folder: its files, their writers and readers."""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class JsonLines:
    """A file of one JSON object a line, safe to append to from several threads."""

    def __init__(self, path: Path) -> None:
        """Create the file."""
        self._lock = threading.Lock()
        self._file = path.open("a")

    def write(self, **record: Any) -> None:
        """Append a record and flush it. OSError if the disk is full."""
        with self._lock:
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()


def stamp(t: float) -> str:
    """UTC time for a file name, to the second."""
    return datetime.fromtimestamp(t, UTC).strftime("%Y%m%dT%H%M%SZ")
