"""The files a process leaves: formats, one clear error when they cannot be written, and a worker's
names."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from loaders.record.histograms import LATENCY, SERVICE, WAIT, LogWriter, Sparse
from loaders.record.tally import Outcome

NODE_DOWN, NODE_UP = "node down", "node up"
"""What an event of `events_path` may be."""


def progress_path(outdir: Path, worker: int) -> Path:
    """One record a second: how far the worker is."""
    return outdir / f"worker-{worker}.jsonl"


def histogram_path(outdir: Path, worker: int) -> Path:
    """Interval log of latencies."""
    return outdir / f"worker-{worker}.hlog"


def wait_path(outdir: Path, worker: int) -> Path:
    """Interval log of the time that was spent waiting for a connection."""
    return outdir / f"worker-{worker}.wait.hlog"


def service_path(outdir: Path, worker: int) -> Path:
    """Interval log of the time from having a connection to the answer."""
    return outdir / f"worker-{worker}.service.hlog"


def outcomes_path(outdir: Path, worker: int) -> Path:
    """Every request whose outcome is not what the protocol gives when all is well."""
    return outdir / f"worker-{worker}.outcomes.jsonl"


def events_path(outdir: Path, worker: int) -> Path:
    """KairosDB nodes that went down or came back, as this worker saw it."""
    return outdir / f"worker-{worker}.events.jsonl"


def followed_path(outdir: Path, worker: int) -> Path:
    """When requests with sensors that are followed were acknowledged."""
    return outdir / f"worker-{worker}.followed.jsonl"


def result_path(outdir: Path, worker: int) -> Path:
    """The final figures; only there if the worker came to its end."""
    return outdir / f"worker-{worker}.json"


def remove_old(outdir: Path, worker: int) -> None:
    """Remove what an earlier worker of this number left, so that nobody takes it for new.

    Raises:
        OSError: a file cannot be removed.
    """
    for path in (
        progress_path,
        histogram_path,
        wait_path,
        service_path,
        outcomes_path,
        events_path,
        followed_path,
        result_path,
    ):
        path(outdir, worker).unlink(missing_ok=True)


class FilesError(Exception):
    """A file of the worker cannot be written; the message names it and the reason."""


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    # The error of a failed write does not say which file it was.
    try:
        yield
    except OSError as error:
        raise FilesError(f"cannot write {path}: {error.strerror or error}") from error


def _dumps(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


class OutputFiles:
    """Open output files of one process: a progress log, interval logs, and what else it names.

    Every method but `abandon` raises FilesError if the disk is full or a file cannot be written:
    figures that nobody can read afterwards are no figures, so the process must not go on.
    """

    def __init__(
        self,
        result: Path,
        logs: list[Path],
        hlogs: Mapping[str, Path],
        start_ms: int,
        head: str = "",
    ):
        """Create the files.

        Args:
            result: where the final figures will be; an old one is removed.
            logs: JSON lines; the first is for progress.
            hlogs: interval logs, by what is in them; they count from `start_ms` (epoch).
            head: comment lines at the beginning of the interval logs.
        """
        self._result_path = result
        self._hlog_paths = hlogs
        self._hlogs: dict[str, LogWriter] = {}
        self._open: dict[Path, TextIO] = {}
        self._progress_path = logs[0]
        try:
            with _naming(result):
                result.unlink(missing_ok=True)
            for path in (*logs, *hlogs.values()):
                with _naming(path):
                    # Line by line to the system: a killed process loses nothing that it knew.
                    self._open[path] = path.open("w", buffering=1, encoding="utf-8")
            for what, path in hlogs.items():
                with _naming(path):
                    self._open[path].write(head)
                    self._hlogs[what] = LogWriter(self._open[path], start_ms, what)
        except FilesError:
            self.abandon()
            raise

    def append(self, path: Path, record: dict[str, Any]) -> None:
        """Append a record to one of the logs."""
        with _naming(path):
            self._open[path].write(_dumps(record))

    def progress(self, record: dict[str, Any]) -> None:
        """Append a progress record."""
        self.append(self._progress_path, record)

    def interval(self, what: str, found: Sparse, start_s: float, length_s: float, tag: str) -> None:
        """Append an interval to the log of `what` (µs; times in seconds since the start)."""
        with _naming(self._hlog_paths[what]):
            self._hlogs[what].write_sparse(found, start_s, length_s, tag)

    def finish(self, result: dict[str, Any]) -> None:
        """Close the logs and write the final figures, all or nothing."""
        while self._open:
            path, file = self._open.popitem()
            with _naming(path):
                file.close()
        draft = self._result_path.with_suffix(".json.part")
        with _naming(self._result_path):
            draft.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
            draft.replace(self._result_path)

    def abandon(self) -> None:
        """Close the logs without a result, whatever state they are in."""
        while self._open:
            _, file = self._open.popitem()
            with contextlib.suppress(OSError):
                file.close()


class WorkerFiles(OutputFiles):
    """Open output files of one worker."""

    def __init__(self, outdir: Path, worker: int, start_ms: int, *, follows: bool = False) -> None:
        """Create the files; intervals count from `start_ms` (epoch). `follows`: some sensors."""
        self._outcomes_path = outcomes_path(outdir, worker)
        self._events_path = events_path(outdir, worker)
        self._followed_path = followed_path(outdir, worker)
        logs = [progress_path(outdir, worker), self._outcomes_path, self._events_path]
        super().__init__(
            result_path(outdir, worker),
            [*logs, self._followed_path] if follows else logs,
            {
                LATENCY: histogram_path(outdir, worker),
                WAIT: wait_path(outdir, worker),
                SERVICE: service_path(outdir, worker),
            },
            start_ms,
        )

    def outcome(self, group: int, ticks: range, outcome: Outcome, reason: str, points: int) -> None:
        """Append what became of consecutive ticks of a group; `points` are all of them."""
        self.append(
            self._outcomes_path,
            {
                "group": group,
                "tick": ticks.start,
                "ticks": len(ticks),
                "outcome": outcome.value,
                "reason": reason,
                "points": points,
            },
        )

    def event(self, record: dict[str, Any]) -> None:
        """Append an event."""
        self.append(self._events_path, record)

    def followed(self, group: int, ticks: range, at_us: int) -> None:
        """Append when (epoch µs) consecutive ticks of a group were acknowledged."""
        self.append(
            self._followed_path,
            {"t": at_us / 1e6, "group": group, "tick": ticks.start, "ticks": len(ticks)},
        )
