"""What the shards of ScyllaDB's nodes did, out of scylla.jsonl: rates between looks, shown twice.

The pictures are those of the published run of 2018, which showed ScyllaDB's own dashboards: load
per shard, and requests served per shard.
"""

from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median

from kairoscope.report import units
from kairoscope.report.charts.chart import COLOURS, MAX_LINES, Chart, Row, Series, Value
from kairoscope.report.data import Json, RunData, items, part
from kairoscope.report.load import warmup_s
from kairoscope.report.table import Table
from kairoscope.report.units import number
from kairoscope.run_folder import same_life

_NUMBERS = ("busy_ms", "requests", "replica_writes")


@dataclass(frozen=True)
class Step:
    """What one node did between two looks, one after another in one life of its server.

    Fields:
        t: the later look, in epoch s; `begin`: the earlier.
        busy: share of the time that each shard was busy.
        stolen: share of the time that the kernel gave each shard's core to others; None: not known.
        requests: CQL requests/s that came in over each shard's connections.
        writes: writes/s that each shard did as a replica.
        grown: growth of the node's counters: shed and blocked requests, requests coordinated.
    """

    begin: float
    t: float
    busy: tuple[float, ...]
    stolen: tuple[Value, ...]
    requests: tuple[float, ...]
    writes: tuple[float, ...]
    grown: dict[str, Value]


@dataclass(frozen=True)
class NodeShards:
    """One node's part of the section: `charts` are the ids of its two pictures."""

    node: str
    label: str
    charts: tuple[str, str]


def nodes(run: RunData) -> list[str]:
    """Names of the storage nodes that were looked at."""
    return sorted({str(found["node"]) for found in run.shards if "node" in found})


def steps(run: RunData, node: str) -> list[Step | None]:
    """What a node did from look to look; None where it is not known: down, or started again."""
    looks = [look for look in run.shards if look.get("node") == node and _readable(look)]
    looks.sort(key=lambda look: float(look["t"]))
    return [_step(before, after) for before, after in pairwise(looks)]


def _readable(look: Json) -> bool:
    if number(look.get("t")) is None:
        return False
    if "error" in look:
        return True
    count = look.get("shards")
    return isinstance(count, int) and all(
        len(items(look, key)) == count and all(number(v) is not None for v in items(look, key))
        for key in (*_NUMBERS, "connections")
    )


def _step(before: Json, after: Json) -> Step | None:
    length = float(after["t"]) - float(before["t"])
    if length <= 0 or not same_life(before, after):
        return None

    def per_s(key: str) -> tuple[float, ...]:
        pairs = zip(before[key], after[key], strict=True)
        return tuple((new - old) / length for old, new in pairs)

    stolen: tuple[Value, ...] = (None,) * after["shards"]
    if None not in (*items(before, "stolen_ms"), *items(after, "stolen_ms")):
        # An estimate of the server's, which may go back a little.
        stolen = tuple(max(v / 1000, 0.0) for v in per_s("stolen_ms"))
    return Step(
        begin=float(before["t"]),
        t=float(after["t"]),
        # When a look was taken is known to some ms, which must not show as more than all.
        busy=tuple(min(v / 1000, 1.0) for v in per_s("busy_ms")),
        stolen=stolen,
        requests=per_s("requests"),
        writes=per_s("replica_writes"),
        grown={key: _growth(before, after, key) for key in _GROWN},
    )


_GROWN = (
    "coordinator_writes",
    "coordinator_reads",
    "requests_shed",
    "blocked_by_memtables",
    "blocked_by_commitlog",
)


def _growth(before: Json, after: Json, key: str) -> Value:
    old, new = (_total(look.get(key)) for look in (before, after))
    return None if old is None or new is None else new - old


def _total(value: object) -> Value:
    """A node's number, or the sum of its shards'; None if it is not known."""
    if not isinstance(value, list):
        return number(value)
    known = [v for v in map(number, value) if v is not None]
    return sum(known) if len(known) == len(value) else None


def measured(run: RunData, node: str) -> list[Step]:
    """The known steps of the measured time: after the warm-up, to the end of the load."""
    start = run.start_s
    end = units.epoch_s(part(run.manifest, "load").get("end_ms"))
    begin = None if start is None else start + (warmup_s(run) or 0.0)
    found = [
        step
        for step in steps(run, node)
        if step is not None
        and (begin is None or step.begin >= begin)
        and (end is None or step.t <= end)
    ]
    # A node that came back with other cores is told of as it is now.
    return [step for step in found if len(step.busy) == len(found[-1].busy)]


def by_node(run: RunData) -> tuple[NodeShards, ...]:
    """The section, node by node."""
    found = []
    for place, node in enumerate(nodes(run)):
        looks = [look for look in run.shards if look.get("node") == node]
        failed = sum("error" in look for look in looks)
        broken = sum(step is None for step in steps(run, node))
        label = f"{len(looks)} looks"
        if failed:
            label += f", {failed} of them without an answer"
        if broken:
            label += f"; {broken} times it is not known what was done between two, shown as a hole"
        found.append(NodeShards(node, label + ".", _chart_ids(place)))
    return tuple(found)


def _chart_ids(place: int) -> tuple[str, str]:
    # By number: a node's name comes from a file, and an id goes into the page as it is.
    return f"shard-load-{place + 1}", f"shard-requests-{place + 1}"


def balance(run: RunData) -> Table:
    """Each node in the measured time: how busy its shards were, and how evenly."""
    rows = []
    for node in nodes(run):
        found = measured(run, node)
        busy, requests = (_means(found, key) for key in ("busy", "requests"))
        peak = max((v for step in found for v in step.busy), default=None)
        rows.append(
            (
                node,
                units.count(len(busy) or None),
                f"{len(found):,}",
                _percent(mean(busy) if busy else None),
                _percent(peak),
                _uneven(busy),
                _rate(sum(requests) if requests else None),
                _rate(mean(requests) if requests else None),
                _uneven(requests),
            )
        )
    head = (
        *("node", "shards", "samples", "load, mean", "highest of a shard"),
        *("load, busiest ÷ mean", "requests/s", "per shard", "requests, busiest ÷ mean"),
    )
    return Table(head, tuple(rows), numeric=tuple(range(1, len(head))))


def each(run: RunData) -> Table:
    """Each shard in the measured time."""
    rows = []
    for node in nodes(run):
        found = measured(run, node)
        last = _last_look(run, node)
        # Once for all shards: in a day there are thousands of steps.
        served, written = (_means(found, key) for key in ("requests", "writes"))
        for shard, busy in enumerate(_means(found, "busy")):
            stolen = [step.stolen[shard] for step in found]
            known = [v for v in stolen if v is not None]
            rows.append(
                (
                    node,
                    str(shard),
                    f"{len(found):,}",
                    _percent(busy),
                    _percent(max(step.busy[shard] for step in found)),
                    _percent(mean(known) if known else None),
                    _rate(served[shard]),
                    _rate(max(step.requests[shard] for step in found)),
                    _rate(written[shard]),
                    units.count(last["connections"][shard] if last else None),
                )
            )
    head = (
        *("node", "shard", "samples", "load, mean", "load, highest", "its core taken away"),
        *("requests/s, mean", "requests/s, highest", "replica writes/s", "connections"),
    )
    return Table(head, tuple(rows), numeric=tuple(range(1, len(head))))


def pressure(run: RunData) -> Table:
    """What each node coordinated in the measured time, and what had to wait or was refused."""
    rows = []
    for node in nodes(run):
        found = measured(run, node)
        length = sum(step.t - step.begin for step in found)
        grown = {key: _sum([step.grown[key] for step in found]) for key in _GROWN}

        def per_s(key: str, grown: dict[str, Value] = grown, length: float = length) -> str:
            count = grown[key]
            return _rate(None if count is None or not length else count / length)

        waiting = [_total(look.get("background_writes")) for look in _answers(run, node)]
        most = max((v for v in waiting if v is not None), default=None)
        rows.append(
            (
                node,
                per_s("coordinator_writes"),
                per_s("coordinator_reads"),
                units.count(most),
                *(units.count(grown[key]) for key in _GROWN[2:]),
            )
        )
    head = (
        *("node", "writes/s coordinated", "reads/s coordinated", "most background writes"),
        *("requests shed", "writes that waited for memory", "for the commit log"),
    )
    return Table(head, tuple(rows), numeric=tuple(range(1, len(head))))


def _answers(run: RunData, node: str) -> list[Json]:
    return [
        look
        for look in run.shards
        if look.get("node") == node and "error" not in look and _readable(look)
    ]


def _last_look(run: RunData, node: str) -> Json | None:
    end = units.epoch_s(part(run.manifest, "load").get("end_ms"))
    looks = [look for look in _answers(run, node) if end is None or float(look["t"]) <= end]
    return looks[-1] if looks else None


def _means(found: list[Step], key: str) -> list[float]:
    """Each shard's mean over some steps, longer ones counting more; empty if there is none."""
    total = sum(step.t - step.begin for step in found)
    return [
        sum(getattr(step, key)[shard] * (step.t - step.begin) for step in found) / total
        for shard in range(len(found[-1].busy) if found else 0)
    ]


def _sum(values: list[Value]) -> Value:
    known = [v for v in values if v is not None]
    return sum(known) if known and len(known) == len(values) else None


def _percent(share: Value) -> str:
    return units.NONE if share is None else f"{100 * share:.1f} %"


def _rate(value: Value) -> str:
    return units.NONE if value is None else units.significant(value)


def _uneven(values: list[float]) -> str:
    """The busiest of some, as a multiple of their mean: 1 is even."""
    middle = mean(values) if values else 0
    return f"{max(values) / middle:.2f}" if middle else units.NONE


def charts(run: RunData) -> list[Chart]:
    """Two pictures for each node: load per shard, and requests served per shard."""
    found = []
    for place, node in enumerate(nodes(run)):
        of_node = steps(run, node)
        known = [step for step in of_node if step is not None]
        if not known:
            continue
        ids = _chart_ids(place)
        load = _lines(run, node, "busy", 100)
        served = _lines(run, node, "requests", 1)
        peak = max(v for step in known for v in step.busy)
        most = max(v for step in known for v in step.requests)
        count = len(known[-1].busy)
        shards = f"{count} shard{'s' * (count > 1)}"
        found += [
            _chart(
                ids[0],
                f"Load per shard, {node}",
                f"Share of the time that the reactors of {shards} were busy; "
                f"the highest is {_percent(peak)}.",
                "%",
                *load,
            ),
            _chart(
                ids[1],
                f"Requests served per shard, {node}",
                f"CQL requests that came in over the connections of {shards}; "
                f"the most is {_rate(most)}/s.",
                "requests/s",
                *served,
            ),
        ]
    return found


def _chart(
    name: str, title: str, summary: str, unit: str, x: tuple[float, ...], lines: list[Series]
) -> Chart:
    return Chart(
        id=name,
        title=title,
        summary=summary,
        x=x,
        x_label="since the start of the load (min:s)",
        y_label=unit,
        series=tuple(lines),
    )


def _lines(
    run: RunData, node: str, key: str, factor: float
) -> tuple[tuple[float, ...], list[Series]]:
    """A line for each shard; of more than can be told apart the lowest, the median, the highest."""
    looks = sorted(
        float(look["t"]) for look in run.shards if look.get("node") == node and _readable(look)
    )
    start = looks[0] if run.start_s is None else run.start_s
    by_end = {step.t: getattr(step, key) for step in steps(run, node) if step is not None}
    x = tuple(round(t - start, 3) for t in looks[1:])
    rows: list[tuple[float, ...] | None] = [by_end.get(t) for t in looks[1:]]
    shards = max(len(row) for row in rows if row is not None)
    values: dict[str, Row] = {}
    if shards > MAX_LINES:
        for name, of in (("lowest", min), ("median", median), ("highest", max)):
            values[name] = [None if row is None else factor * of(row) for row in rows]
    else:
        for shard in range(shards):
            values[f"shard {shard}"] = [
                None if row is None or shard >= len(row) else factor * row[shard] for row in rows
            ]
    return x, [
        Series(name, tuple(line), COLOURS[place])
        for place, (name, line) in enumerate(values.items())
    ]
