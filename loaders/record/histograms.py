"""Latency histograms: recording, the standard interval log, and merging logs of many workers.

Histograms are merged, percentiles never are: the 99th percentile of a run is that of the merged
histogram, not a mean of the workers'.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
from hdrh.codec import HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

WARMUP = "warmup"
"""Tag of the intervals of the warm-up in an interval log. All others are measured."""

LATENCY, WAIT, SERVICE = "latency", "wait", "service"
"""What a process measures, each in an interval log of its own."""

_HEADS = {
    LATENCY: "Latency in microseconds from the planned send time, one count per point",
    WAIT: "Waiting for a connection to a KairosDB node in microseconds, one count per point",
    SERVICE: "Last attempt from having a connection in microseconds, one count per point",
}

HIGHEST_US = 24 * 3600 * 1_000_000
"""Longest latency told apart: a day. Longer ones count as this."""

_SIGNIFICANT_DIGITS = 3
# What follows from that: below 2^11 each value has a bucket, above a bucket is 2^n values wide.
_WHOLE_BITS = 11
_WHOLE = 1 << _WHOLE_BITS
_NO_MINIMUM = 2**63 - 1


def new_histogram() -> HdrHistogram:
    """Return an empty histogram of microseconds, 1 µs to a day, three significant digits."""
    return HdrHistogram(1, HIGHEST_US, _SIGNIFICANT_DIGITS)


def record(histogram: HdrHistogram, value_us: int, count: int) -> None:
    """Record `count` points of the same latency; one outside the range counts as its limit."""
    histogram.record_value(min(max(value_us, 0), HIGHEST_US), count)


def node_tag(node: int) -> str:
    """Tag of the measured intervals of a KairosDB node, by its index in the specification."""
    return f"node-{node}"


class Sparse:
    """A histogram with the buckets of `new_histogram`, of those alone that something is in.

    A second of a loader fills some hundred of 28,672 buckets, and recording is on its hot path.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def record(self, value_us: int, count: int) -> None:
        """Record `count` points of one value; outside the range it counts as its limit."""
        value = min(max(value_us, 0), HIGHEST_US)
        if value >= _WHOLE:
            shift = value.bit_length() - _WHOLE_BITS
            value = (shift << (_WHOLE_BITS - 1)) + (value >> shift)
        self._counts[value] = self._counts.get(value, 0) + count

    @property
    def count(self) -> int:
        """Points in it."""
        return sum(self._counts.values())

    def percentile(self, percent: float) -> int:
        """The value in µs that so many percent of the points do not exceed; 0 if it is empty."""
        wanted = max(1, int(percent / 100 * self.count + 0.5))
        for bucket in sorted(self._counts):
            wanted -= self._counts[bucket]
            if wanted <= 0:
                return _end_of(bucket)
        return 0

    def fill(self, histogram: HdrHistogram) -> None:
        """Put all of it into an empty histogram; `wipe` takes it out again."""
        for bucket, count in self._counts.items():
            histogram.counts[bucket] = count
        histogram.total_count = self.count
        histogram.max_value = _end_of(max(self._counts))
        histogram.min_value = min(self._counts)

    def wipe(self, histogram: HdrHistogram) -> None:
        """Make the histogram empty that it was put into: a new one costs more."""
        for bucket in self._counts:
            histogram.counts[bucket] = 0
        histogram.total_count = histogram.max_value = 0
        histogram.min_value = _NO_MINIMUM


def _end_of(bucket: int) -> int:
    """The highest value of a bucket."""
    if bucket < _WHOLE:
        return bucket
    shift = (bucket >> (_WHOLE_BITS - 1)) - 1
    return ((bucket - (shift << (_WHOLE_BITS - 1))) << shift) + (1 << shift) - 1


class LogWriter:
    """Writes the standard interval log (format 1.2), with tags, which hdrh's own writer lacks."""

    def __init__(self, file: TextIO, start_ms: int, what: str = LATENCY) -> None:
        """Write the head; interval times are seconds since `start_ms` (epoch)."""
        self._file = file
        self._scratch = new_histogram()
        start_s = start_ms / 1000
        file.write(f"#[{_HEADS[what]}]\n")
        file.write("#[Histogram log format version 1.2]\n")
        file.write(f"#[StartTime: {start_s:.3f} (seconds since epoch)]\n")
        file.write(f"#[BaseTime: {start_s:.3f} (seconds since epoch)]\n")
        file.write(
            '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
        )

    def write_sparse(self, found: Sparse, start_s: float, length_s: float, tag: str) -> None:
        """Append one interval, as `write`."""
        if found.count:
            found.fill(self._scratch)
            self.write(self._scratch, start_s, length_s, tag)
            found.wipe(self._scratch)

    def write(
        self, histogram: HdrHistogram, start_s: float, length_s: float, tag: str = ""
    ) -> None:
        """Append one interval; an empty histogram leaves no line.

        Args:
            histogram: of microseconds.
            start_s: start of the interval in seconds since the start of the log, ≥ 0.
            length_s: length of the interval in seconds.
            tag: without commas or spaces.
        """
        if not histogram.get_total_count():
            return
        prefix = f"Tag={tag}," if tag else ""
        longest_ms = histogram.get_max_value() / 1000
        payload = histogram.encode().decode("ascii")
        self._file.write(f"{prefix}{start_s:.3f},{length_s:.3f},{longest_ms:.3f},{payload}\n")


def _read(path: Path) -> Iterator[tuple[float, HdrHistogram]]:
    """Each interval of a log: its start in seconds since the log's start, and its histogram."""
    reader = HistogramLogReader(str(path), new_histogram())
    try:
        while True:
            try:
                histogram = reader.get_next_interval_histogram()
            except (
                ValueError,
                TypeError,
                IndexError,
                zlib.error,
                HdrCookieException,
                HdrLengthException,
            ) as error:
                # A killed worker may leave half a line at the end: what came before is good.
                if not reader.input_file.read(1):
                    return
                raise ValueError(f"{path}: not a histogram log: {error}") from error
            if histogram is None:
                return
            yield histogram.get_start_time_stamp() / 1000 - reader.get_start_time_sec(), histogram
    finally:
        reader.close()


def merged(paths: Iterable[Path], warmup: bool = False) -> HdrHistogram:
    """Merge the interval logs of workers into one histogram of microseconds.

    Args:
        paths: interval logs as `LogWriter` writes them; half a line at the end is ignored.
        warmup: False for the measured intervals only, True for those of the warm-up only.

    Returns:
        The histogram; empty (total count 0) if there was no such interval.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not an interval log.
    """
    total = new_histogram()
    for path in paths:
        for _, histogram in _read(path):
            if (histogram.get_tag() == WARMUP) == warmup:
                total.add(histogram)
    return total


def from_on(paths: Iterable[Path], begins_s: Sequence[float]) -> list[HdrHistogram]:
    """The measured latencies merged over workers, one histogram for each beginning, up to the next.

    A point is where it was acknowledged or given up, to the second; what came before the first
    beginning is in the first one.

    Args:
        paths: interval logs as `LogWriter` writes them.
        begins_s: ascending, in seconds since the start of the logs.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not an interval log.
    """
    found = [new_histogram() for _ in begins_s]
    for path in paths:
        for begin_s, histogram in _read(path):
            if histogram.get_tag() != WARMUP:
                # An interval begins some milliseconds after its second.
                found[max(0, bisect.bisect_right(begins_s, begin_s + 0.5) - 1)].add(histogram)
    return found


def by_tag(path: Path) -> dict[str, HdrHistogram]:
    """One interval log, merged for each tag; half a line at the end is ignored.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not an interval log.
    """
    found: dict[str, HdrHistogram] = {}
    for _, histogram in _read(path):
        tag = histogram.get_tag() or ""
        if tag not in found:
            found[tag] = new_histogram()
        found[tag].add(histogram)
    return found


def count(path: Path) -> int:
    """Points in an interval log, those of the warm-up included; raises as `by_tag`."""
    return sum(histogram.get_total_count() for histogram in by_tag(path).values())


def intervals(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Latency over time, merged over workers per second, warm-up included.

    Args:
        paths: interval logs as `LogWriter` writes them, each in order of time.

    Returns:
        Ascending by "t": {"t": whole seconds since the start of the schedule, "p50", "p95",
        "p99", "max": milliseconds, "count": points, "warmup_count": how many of them belong to
        the warm-up}. Points are in the second in which they were acknowledged or given up;
        a second without any has no entry.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not an interval log.
    """
    # All logs in step, as each is in order of time: the histograms of all seconds of a long load
    # would take gigabytes.
    in_step = heapq.merge(*map(_by_second, paths), key=lambda each: each[0])
    rows = []
    for second, found in itertools.groupby(in_step, key=lambda each: each[0]):
        histogram, warmup = new_histogram(), 0
        for _, interval in found:
            histogram.add(interval)
            if interval.get_tag() == WARMUP:
                warmup += interval.get_total_count()
        at = histogram.get_percentile_to_value_dict([50, 95, 99])
        rows.append(
            {
                "t": second,
                "p50": at[50] / 1000,
                "p95": at[95] / 1000,
                "p99": at[99] / 1000,
                "max": histogram.get_max_value() / 1000,
                "count": histogram.get_total_count(),
                "warmup_count": warmup,
            }
        )
    return rows


def _by_second(path: Path) -> Iterator[tuple[int, HdrHistogram]]:
    """Each interval of a log with the whole second of the schedule that it began in."""
    return ((round(start_s), histogram) for start_s, histogram in _read(path))


@dataclass(frozen=True)
class Blocks:
    """Latencies by block of time, sparse: of the buckets that any block has a count in.

    Attributes:
        values_us: int64[values], ascending: the end of each bucket in µs, as percentiles have it.
        counts: int64[blocks, values], in points; a block without any is a row of zeros.
    """

    values_us: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


def blocks(paths: Iterable[Path], start_s: float, length_s: float, blocks: int) -> Blocks:
    """The measured latencies (not the warm-up's) merged over workers by block of time.

    A point is in the block in which it was acknowledged or given up, to the second: an interval of
    a log is in the block that has its start. What was measured before the first block counts in it,
    and what came after the last one in that: all blocks together are `merged`.

    Args:
        paths: interval logs as `LogWriter` writes them.
        start_s: start of the first block, in seconds since the start of the logs.
        length_s: length of a block in seconds, 1 at least.
        blocks: how many, 1 at least.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not an interval log.
    """
    found: list[Counter[int]] = [Counter() for _ in range(blocks)]
    for path in paths:
        for begin_s, histogram in _read(path):
            if histogram.get_tag() == WARMUP:
                continue
            # An interval begins some milliseconds after its second.
            block = min(max(int((begin_s - start_s + 0.5) // length_s), 0), blocks - 1)
            filled = np.frombuffer(histogram.counts, dtype=np.uint64)
            for index in np.flatnonzero(filled):
                found[block][int(index)] += int(filled[index])
    indices = sorted(set().union(*found))
    scale = new_histogram()
    values = [
        scale.get_highest_equivalent_value(scale.get_value_from_index(index)) for index in indices
    ]
    column = {index: number for number, index in enumerate(indices)}
    counts = np.zeros((blocks, len(indices)), dtype=np.int64)
    for number, each in enumerate(found):
        for bucket, points in each.items():
            counts[number, column[bucket]] = points
    return Blocks(np.array(values, dtype=np.int64), counts)
