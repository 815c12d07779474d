"""Points that a query does not find, looked for on every replica.

A read at QUORUM asks two of three replicas. Storage nodes that were killed together may both lack
what the third has: a repair brings that back, and a further fault before it loses it. A read at ALL
tells it from what is lost, and is such a repair itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from kairoscope.verdict.settlement import AtAll, Gap, SeriesResult
from loaders.schedule.due import Series

Wanted = tuple[str, dict[str, str], tuple[int, int]]
"""A series by metric and tags, and between which times (epoch ms, both included) to look."""


def look(
    gaps: list[Gap],
    read_at: str,
    on_replicas: Callable[[Iterator[Wanted]], Iterable[set[int]]],
    read_again: Callable[[list[Series], Callable[[SeriesResult], None]], None],
) -> AtAll:
    """Tell the points of `gaps` that are on some replica from those that are on none.

    `on_replicas` gives the timestamps that any replica has of each series, in order, by a read that
    asks all of them; `read_again` reads series back by KairosDB at `read_at`. Only series with gaps
    are asked for. Errors of either are in the result's `problem`, and no count is given then.
    """
    found = AtAll(read_at, sum(gap.count for gap in gaps))
    try:
        held = _held(gaps, on_replicas)
        some = [gap.source for gap in gaps if held[gap.source]]
        back: dict[Series, set[int]] = {series: set() for series in some}

        def add(result: SeriesResult) -> None:
            schedule, series = gaps[0].schedule, result.series
            times = schedule.timestamps_ms(series.rank, series.ticks)
            back[series] = held[series] & set(times[result.right].tolist())

        if some:
            read_again(some, add)
    except Exception as error:  # a store in trouble; that it was not asked is what there is to say
        found.problem = str(error) or repr(error)
        return found
    on_some = sum(map(len, held.values()))
    found.repaired = sum(map(len, back.values()))
    found.not_found = on_some - found.repaired
    found.lost = found.looked_for - on_some
    return found


def _held(
    gaps: list[Gap], on_replicas: Callable[[Iterator[Wanted]], Iterable[set[int]]]
) -> Mapping[Series, set[int]]:
    """The missing timestamps of each series that some replica has."""

    def wanted() -> Iterator[Wanted]:
        for gap in gaps:
            spec, number = gap.schedule.spec, gap.source.number
            times = gap.timestamps_ms
            yield spec.metric_name(number), spec.tags_of(number), (times[0], times[-1])

    there = zip(gaps, on_replicas(wanted()), strict=True)
    return {gap.source: times & set(gap.timestamps_ms) for gap, times in there}
