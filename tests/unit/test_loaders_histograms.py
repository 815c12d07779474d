"""Interval logs: written with tags, read by hdrh's own reader, merged exactly."""

import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given, settings
from hypothesis import strategies as st

from loaders.record import histograms

START_MS = 1_700_000_000_250

# One interval of a worker: is it warm-up, and (latency in µs, points) of each request.
interval = st.tuples(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, histograms.HIGHEST_US), st.integers(1, 200)), max_size=8),
)
logs = st.lists(st.lists(interval, max_size=5), min_size=1, max_size=3)


def write(folder: Path, workers: list[list[tuple[bool, list[tuple[int, int]]]]]) -> list[Path]:
    paths = []
    for index, rows in enumerate(workers):
        paths.append(folder / f"worker-{index}.hlog")
        with paths[-1].open("w") as file:
            log = histograms.LogWriter(file, START_MS)
            for second, (warmup, samples) in enumerate(rows):
                histogram = histograms.new_histogram()
                for value, count in samples:
                    histograms.record(histogram, value, count)
                tag = histograms.WARMUP if warmup else ""
                # Real intervals start a little after the whole second.
                log.write(histogram, second + 0.007 * index, 1.0, tag)
    return paths


def of(samples: list[tuple[int, int]]) -> HdrHistogram:
    histogram = histograms.new_histogram()
    for value, count in samples:
        histogram.record_value(value, count)
    return histogram


@settings(max_examples=20)
@given(logs)
def test_merged_is_the_histogram_of_all_samples(
    workers: list[list[tuple[bool, list[tuple[int, int]]]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), workers)
        for warmup in (False, True):
            expected = of([s for rows in workers for w, all_ in rows if w is warmup for s in all_])
            got = histograms.merged(paths, warmup=warmup)
            assert list(got.counts) == list(expected.counts)
            assert got.get_total_count() == expected.get_total_count()
            assert got.get_max_value() == expected.get_max_value()


@settings(max_examples=20)
@given(logs)
def test_intervals_are_merged_per_second(
    workers: list[list[tuple[bool, list[tuple[int, int]]]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = histograms.intervals(write(Path(folder), workers))
    expected = []
    for second in range(5):
        here = [rows_[second] for rows_ in workers if second < len(rows_)]
        both = of([s for _, samples in here for s in samples])
        if both.get_total_count():
            expected.append(
                {
                    "t": second,
                    "p50": both.get_value_at_percentile(50) / 1000,
                    "p95": both.get_value_at_percentile(95) / 1000,
                    "p99": both.get_value_at_percentile(99) / 1000,
                    "max": both.get_max_value() / 1000,
                    "count": both.get_total_count(),
                    "warmup_count": sum(n for w, samples in here if w for _, n in samples),
                }
            )
    assert rows == expected


def test_a_long_load_is_merged_in_the_memory_of_a_short_one(tmp_path: Path) -> None:
    """A histogram with all its buckets is 230 KB, and there were as many as seconds."""
    paths = write(tmp_path, [[(False, [(10, 1)])] * 800])
    tracemalloc.start()
    rows = histograms.intervals(paths)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row["count"] for row in rows] == [1] * 800
    # Some wait for the collector, as each refers to itself: 30 MB, and 200 MB of all of them.
    assert most < 80_000_000


def test_the_standard_reader_sees_tags_and_times(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [[(True, [(10, 3)]), (False, [(2_000_000, 5)])]])
    reader = HistogramLogReader(str(path), histograms.new_histogram())
    first, second = (reader.get_next_interval_histogram() for _ in range(2))
    assert (first.get_tag(), second.get_tag()) == ("warmup", None)
    assert second.get_start_time_stamp() == START_MS + 1000
    assert second.get_end_time_stamp() == START_MS + 2000
    assert second.get_total_count() == 5
    assert reader.get_next_interval_histogram() is None
    reader.close()


def test_longer_than_a_day_counts_as_a_day() -> None:
    histogram = histograms.new_histogram()
    histograms.record(histogram, 10**15, 7)
    assert histogram.get_total_count() == 7
    assert histogram.get_max_value() >= histograms.HIGHEST_US


def test_half_a_line_of_a_killed_worker_is_left_out(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [[(False, [(10, 3)]), (False, [(20, 5)])]])
    whole = path.read_text()
    for cut in range(whole.rindex("\n", 0, -1) + 1, len(whole) - 1):
        path.write_text(whole[:cut])
        assert histograms.merged([path]).get_total_count() == 3


def test_damage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [[(False, [(10, 3)]), (False, [(20, 5)])]])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:-2], lines[-2][:40] + "\n", lines[-1]]))
    with pytest.raises(ValueError, match=r"worker-0\.hlog"):
        histograms.merged([path])


@settings(max_examples=20)
@given(logs, st.integers(0, 3), st.integers(1, 3), st.integers(1, 4))
def test_blocks_together_are_the_merged_histogram(
    workers: list[list[tuple[bool, list[tuple[int, int]]]]], start: int, length: int, count: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), workers)
        found = histograms.blocks(paths, start, length, count)
        whole = histograms.merged(paths)
    assert found.counts.shape == (count, len(found.values_us))
    by_value = dict(zip(found.values_us.tolist(), found.counts.sum(axis=0).tolist(), strict=True))
    assert by_value == {
        whole.get_highest_equivalent_value(whole.get_value_from_index(index)): n
        for index, n in enumerate(whole.counts)
        if n
    }


def test_an_interval_is_in_the_block_of_its_second(tmp_path: Path) -> None:
    rows = [(False, [(1000, second + 1)]) for second in range(7)]
    paths = write(tmp_path, [rows, [(True, [(5000, 99)])]])
    found = histograms.blocks(paths, 1, 2, 3)
    assert found.values_us.tolist() == [1000]
    assert found.counts.tolist() == [[1 + 2 + 3], [4 + 5], [6 + 7]]
