"""Read a whole run back: every point from the store, a sample of the series through KairosDB too.

The store alone does not show that a query finds a point. So KairosDB's query API is asked for a
sample of the series, and for every one that the store does not show to be whole and indexed; what
it answers is then what counts.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kairoscope.hosts.secret_files import Access
from kairoscope.stacks.kairosdb.readback import queries
from kairoscope.stacks.kairosdb.readback.scan import Scanned
from kairoscope.verdict.settlement import SeriesResult
from loaders.schedule.due import Int64s, Schedule, Series
from loaders.schedule.values import seeds, splitmix64

# Of the series, at least and at most so many. What could hide points of some series and not of
# others is their worker, the node that took them, and their metric: one of each is always there.
SAMPLE_SHARE = 0.05
SAMPLE_LEAST = 200
SAMPLE_MOST = 2_000


@dataclass(frozen=True)
class Extent:
    """Which way each part of a run was read back.

    Attributes:
        series: of the run; all were read from the store.
        sampled: of them, those that were chosen to be asked for through KairosDB too.
        asked: those beside the sample that the store did not show to be whole and indexed.
        unindexed: of `asked`, those that lack an entry in KairosDB's index.
        consistency: of the scan, and of KairosDB's reads.
        passes: how often the query API was asked for some series.
    """

    series: int
    sampled: int
    asked: int
    unindexed: int
    consistency: str
    passes: int

    @property
    def text(self) -> str:
        """In words, for the ledger."""
        said = (
            f"read back: every point of {self.series:,} series from the store (a scan by CQL at "
            f"{self.consistency}, timestamp and value compared), which counted the rows too; "
            f"{self.sampled:,} series also through KairosDB's query API, chosen by the load's seed "
            "from all workers, KairosDB nodes and metrics"
        )
        if self.asked:
            said += f", and {self.asked:,} that the scan did not show whole"
            said += f" ({self.unindexed:,} without an index entry)" if self.unindexed else ""
            said += ", whose rows were counted again"
        return said


def hashes(schedule: Schedule, numbers: Int64s) -> Int64s:
    """An order of series by chance, the same for a run whenever it is asked: int64, positive."""
    spec = schedule.spec
    own = seeds(np.array([spec.seed & (2**62 - 1), spec.start_ms]))
    mixed = splitmix64(seeds(numbers) ^ own[0] ^ splitmix64(own[1:]))
    found: Int64s = (mixed >> np.uint64(1)).astype(np.int64)
    return found


def sample(schedule: Schedule) -> set[int]:
    """Numbers of the series to ask KairosDB for: by chance, and one of every kind.

    A kind is a worker, the KairosDB node that takes its points, and the metric where several
    series share one.
    """
    spec = schedule.spec
    kinds: dict[tuple[int, int, str], tuple[int, int]] = {}
    shared = "{n}" not in spec.metric
    every: list[Int64s] = []
    for worker in range(spec.workers):
        for group in schedule.groups(worker):
            for life in schedule.lives(group):
                numbers = schedule.numbers(group, life.start)
                order = hashes(schedule, numbers)
                every.append(np.stack([order, numbers]))
                for place, number in zip(order.tolist(), numbers.tolist(), strict=True):
                    metric = spec.metric_name(number) if shared else ""
                    kind = (worker, group.node, metric)
                    kinds[kind] = min(kinds.get(kind, (place, number)), (place, number))
    order, numbers = np.concatenate(every, axis=1)
    wanted = min(SAMPLE_MOST, max(SAMPLE_LEAST, round(len(numbers) * SAMPLE_SHARE)))
    first = numbers[np.argsort(order)[:wanted]]
    return {*first.tolist(), *(number for _, number in kinds.values())}


@dataclass(frozen=True)
class ThroughKairosDB:
    """How KairosDB's query API is reached: see `queries.read_all`."""

    nodes: list[str]
    access: Access | None = None


def read_run(
    schedule: Schedule,
    scanned: Scanned,
    incomplete: Callable[[SeriesResult], bool],
    on_result: Callable[[SeriesResult], None],
    api: ThroughKairosDB,
    consistency: str,
    on_asked: Callable[[int, int], None] = lambda done, total: None,
    settle_s: tuple[float, ...] = queries.SETTLE_S,
    on_last: Callable[[], object] = lambda: None,
) -> tuple[Extent, list[Series]]:
    """Give `on_result` every series of the run once: as the store has it, or KairosDB.

    Args:
        schedule: of the run.
        scanned: what the store has of it.
        incomplete: whether points that must be there are not; see `ledger.Settlement`.
        on_result: gets each series once.
        api: where KairosDB is asked.
        consistency: of the scan, for the words.
        on_asked: called with how many series KairosDB has answered for, of how many.
        settle_s, on_last: see `queries.read_all`.

    Returns:
        Which way it went, and the series whose rows the scan did not count for sure.

    Raises:
        UserError: no KairosDB node answers.
    """
    chosen = sample(schedule)
    doubtful = scanned.unindexed | scanned.foreign
    ask: list[Series] = []
    recount: list[Series] = []
    total = 0
    for series in schedule.series():
        total += 1
        result = scanned.result(schedule, series)
        odd = series.number in doubtful or bool(result.unexpected) or incomplete(result)
        if odd:
            recount.append(series)
        if odd or series.number in chosen:
            ask.append(series)
        else:
            on_result(result)
    done = 0

    def answered(result: SeriesResult) -> None:
        nonlocal done
        done += 1
        on_asked(done, len(ask))
        on_result(result)

    passes = asyncio.run(
        queries.read_all(
            schedule,
            incomplete,
            answered,
            settle_s,
            api.nodes,
            api.access,
            series=ask,
            seen=scanned.others,
            on_last=on_last,
        )
    )
    sampled = len(chosen)
    beside = sum(series.number not in chosen for series in recount)
    extent = Extent(total, sampled, beside, len(scanned.unindexed), consistency, passes)
    return extent, recount


def rows(scanned: Scanned, recount: list[Series], again: Callable[[list[Series]], int]) -> int:
    """Rows of the run: as the scan counted them, but those of `recount` counted by `again`."""
    counted = int(scanned.rows.sum()) - sum(int(scanned.rows[s.number]) for s in recount)
    return counted + (again(recount) if recount else 0)
