"""Which way a run is read back: the store for all, KairosDB for a sample and for what is odd."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import load_samples
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kairoscope.stacks.compared import compare
from kairoscope.stacks.kairosdb.readback import queries, read_run, row_names, scan
from kairoscope.stacks.kairosdb.readback.queries import SeriesResult
from loaders.schedule.due import Schedule, Series


def whole(schedule: Schedule) -> scan.Scanned:
    """A store that has all."""
    count = row_names.Names(schedule).count
    found = scan.Scanned(np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64))
    for series in schedule.series():
        found.whole[series.number] = True
        found.rows[series.number] = len(series.ticks)
    return found


def lose(schedule: Schedule, found: scan.Scanned, series: Series) -> None:
    """Take the first point of a series away."""
    points = np.array(load_samples.points_of(schedule, series)[1:], dtype=np.int64).reshape(-1, 2)
    found.whole[series.number] = False
    found.rows[series.number] = len(points)
    found.others[series.number] = compare(schedule, series, points)


class KairosDB:
    """In place of `queries.read_all`: says that all is there but the first point of some."""

    def __init__(self, lacking: Iterable[int] = ()) -> None:
        self.asked: list[int] = []
        self.lacking = set(lacking)

    async def read_all(
        self,
        schedule: Schedule,
        *args: Any,
        series: list[Series],
        seen: dict[int, SeriesResult],
        on_last: Any,
    ) -> int:
        assert all(not found.right.all() or found.unexpected for found in seen.values())
        on_result: Callable[[SeriesResult], None] = args[1]
        for one in series:
            self.asked.append(one.number)
            points = load_samples.points_of(schedule, one)[int(one.number in self.lacking) :]
            got = np.array(points, dtype=np.int64).reshape(-1, 2)
            on_result(compare(schedule, one, got))
        return 1


def read(
    monkeypatch: pytest.MonkeyPatch, schedule: Schedule, found: scan.Scanned, api: KairosDB
) -> tuple[dict[int, SeriesResult], read_run.Extent, list[int]]:
    monkeypatch.setattr(queries, "read_all", api.read_all)
    results: dict[int, SeriesResult] = {}

    def keep(result: SeriesResult) -> None:
        assert result.series.number not in results
        results[result.series.number] = result

    extent, recount = read_run.read_run(
        schedule,
        found,
        lambda result: not result.right.all(),
        keep,
        read_run.ThroughKairosDB([]),
        "QUORUM",
    )
    return results, extent, [series.number for series in recount]


def test_kairosdb_is_asked_for_a_sample_where_the_store_has_all(monkeypatch):
    schedule = Schedule(load_samples.spec_of(sensors=1000))
    api = KairosDB()
    results, extent, recount = read(monkeypatch, schedule, whole(schedule), api)
    assert len(results) == 1000
    assert all(r.right.all() for r in results.values())
    assert len(api.asked) == extent.sampled == read_run.SAMPLE_LEAST
    assert (extent.asked, recount) == (0, [])
    assert "every point of 1,000 series from the store" in extent.text


def test_what_the_store_does_not_show_whole_is_asked_for_and_counted_again(monkeypatch):
    schedule = Schedule(load_samples.spec_of(sensors=1000))
    found = whole(schedule)
    chosen = read_run.sample(schedule)
    others = [s for s in schedule.series() if s.number not in chosen]
    lose(schedule, found, others[0])
    found.unindexed.add(others[1].number)
    found.foreign.add(others[2].number)
    api = KairosDB(lacking=[others[1].number])
    results, extent, recount = read(monkeypatch, schedule, found, api)
    odd = {s.number for s in others[:3]}
    assert set(api.asked) == chosen | odd
    assert set(recount) == odd
    assert (extent.asked, extent.unindexed) == (3, 1)
    # What a query does not find counts as missing, though the store has it.
    assert results[others[1].number].present.tolist() == [False, True, True]
    assert results[others[0].number].right.all()
    numbers = [s for s in schedule.series() if s.number in odd]
    assert read_run.rows(found, numbers, lambda some: 3 * len(some)) == 3000


def test_a_sample_that_a_query_does_not_find_is_missing_and_the_rows_are_not(monkeypatch):
    schedule = Schedule(load_samples.spec_of(sensors=100))
    found = whole(schedule)
    number = min(read_run.sample(schedule))
    results, _, recount = read(monkeypatch, schedule, found, KairosDB(lacking=[number]))
    assert not results[number].present[0]
    present = sum(int(r.present.sum()) for r in results.values())
    assert read_run.rows(found, [], lambda _: 0) == present + 1
    assert recount == []


@settings(max_examples=30)
@given(load_samples.specs())
def test_the_sample_has_one_of_every_kind(spec):
    schedule = Schedule(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_run, "SAMPLE_LEAST", 0)
        patch.setattr(read_run, "SAMPLE_MOST", 0)
        chosen = read_run.sample(schedule)
    nodes = {(w, g.index): g.node for w in range(spec.workers) for g in schedule.groups(w)}
    kinds = {}
    for s in schedule.series():
        metric = "" if "{n}" in spec.metric else spec.metric_name(s.number)
        kinds.setdefault((s.worker, nodes[s.worker, s.group], metric), set()).add(s.number)
    assert all(chosen & numbers for numbers in kinds.values())
    assert len(chosen) == len(kinds)


@settings(max_examples=5)
@given(st.integers(0, 2**31))
def test_another_seed_or_another_run_has_another_sample(seed):
    spec = load_samples.spec_of(sensors=5000, seed=seed)
    first = read_run.sample(Schedule(spec))
    assert first == read_run.sample(Schedule(spec))
    assert len(first) == 250
    for change in ({"seed": seed + 1}, {"start_ms": spec.start_ms + 1000}):
        other = read_run.sample(Schedule(dataclasses.replace(spec, **change)))
        assert len(first & other) < 100
