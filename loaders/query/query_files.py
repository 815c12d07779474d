"""The files that the queries of a loader host leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loaders.record.files import OutputFiles
from loaders.record.histograms import LATENCY


def progress_path(outdir: Path, host: int) -> Path:
    """One record a second: how far the queries of a loader host are."""
    return outdir / f"queries-{host}.jsonl"


def histogram_path(outdir: Path, host: int) -> Path:
    """Interval log of latencies, one count for each query."""
    return outdir / f"queries-{host}.hlog"


def answers_path(outdir: Path, host: int) -> Path:
    """Every answer that was not right."""
    return outdir / f"queries-{host}.answers.jsonl"


def followed_path(outdir: Path, host: int) -> Path:
    """Every read of the sensors that are followed, and what it did not find."""
    return outdir / f"queries-{host}.followed.jsonl"


def result_path(outdir: Path, host: int) -> Path:
    """The final figures; only there if the reader came to its end."""
    return outdir / f"queries-{host}.json"


def remove_old(outdir: Path, host: int) -> None:
    """Remove what an earlier reader of this host left, so that nobody takes it for new.

    Raises:
        OSError: a file cannot be removed.
    """
    for path in (progress_path, histogram_path, answers_path, followed_path, result_path):
        path(outdir, host).unlink(missing_ok=True)


class QueryFiles(OutputFiles):
    """Open output files of one reader."""

    def __init__(self, outdir: Path, host: int, start_ms: int) -> None:
        """Create the files; intervals count from `start_ms` (epoch)."""
        self._answers_path = answers_path(outdir, host)
        self._followed_path = followed_path(outdir, host)
        super().__init__(
            result_path(outdir, host),
            [progress_path(outdir, host), self._answers_path, self._followed_path],
            {LATENCY: histogram_path(outdir, host)},
            start_ms,
            "#[Queries: here each point is a query]\n",
        )

    def answer(self, record: dict[str, Any]) -> None:
        """Append an answer that was not right."""
        self.append(self._answers_path, record)

    def followed(self, record: dict[str, Any]) -> None:
        """Append a read of what is followed."""
        self.append(self._followed_path, record)
