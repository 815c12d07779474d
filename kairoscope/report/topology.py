"""The topology of a run as a picture: loader hosts, KairosDB nodes, storage nodes, one tier each.

Laid out for a telephone's width, tier below tier, in units that are pixels there. A template draws
it, and escapes what comes from files.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kairoscope.report import units
from kairoscope.report.data import RunData, items, part
from kairoscope.report.units import number

WIDTH = 360
MOST = 5
"""Boxes of a tier; more are drawn as a group with its number."""

_TIER, _ARROW, _BOX, _GAP = 64, 34, 26, 6
_WIDEST = 130
_LETTER = 0.6  # mean width of a character, of the font's size
_SMALL, _LARGE = 11.5, 13

_ENGINES = {"cassandra": "Apache Cassandra", "scylla": "ScyllaDB"}


@dataclass(frozen=True)
class Box:
    """A node, or with `group` several; `label` is `name` cut to what fits."""

    x: float
    width: float
    label: str
    name: str
    group: bool


@dataclass(frozen=True)
class Tier:
    """All nodes of a role: what they are, in two lines, and the boxes below; `y` is its top."""

    y: float
    title: str
    detail: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Arrow:
    """From a tier to the next one: how they talk."""

    y: float
    label: str


@dataclass(frozen=True)
class Topology:
    """The picture; `summary` is for who cannot see it."""

    height: float
    tiers: tuple[Tier, ...]
    arrows: tuple[Arrow, ...]
    summary: str
    width: float = WIDTH
    box: float = _BOX
    arrow: float = _ARROW


def of(run: RunData) -> Topology:
    """The topology as the servers and loaders told it; what they did not, as it was planned."""
    cluster = part(run.plan, "experiment", "cluster")
    kairosdb, loaders = _kairosdb(run), _loaders(run)
    storage = _named(run, "storage", cluster.get("storage_nodes"))
    told = [
        (_counted(loaders, "loader host"), _load(run), loaders),
        (_counted(kairosdb, run.taker), _queue(run), kairosdb),
    ]
    if run.of_kairosdb:
        told.append((_counted(storage, "storage node"), _engine(run), storage))
    step = _TIER + _ARROW
    tiers = tuple(
        Tier(n * step, _cut(title, WIDTH, _LARGE), _cut(detail, WIDTH, _SMALL), _boxes(names))
        for n, (title, detail, names) in enumerate(told)
    )
    labels = [run.protocol, *([_consistency(run)] if run.of_kairosdb else [])]
    arrows = tuple(
        Arrow(n * step + _TIER, _cut(label, WIDTH / 2 - 12, _SMALL))
        for n, label in enumerate(labels)
    )
    sentences = (f"{title}: {detail}" if detail else title for title, detail, _ in told)
    return Topology(
        height=len(told) * step - _ARROW + 2,
        tiers=tiers,
        arrows=arrows,
        summary="; ".join([*sentences, *filter(None, labels)]),
    )


def _named(run: RunData, role: str, planned: object) -> list[str]:
    """Names of the nodes of a role; numbers as planned where nobody noted names."""
    names = [str(name) for name in items(part(run.manifest, "nodes"), role)]
    count = number(planned)
    return names or [f"{role} {n + 1}" for n in range(int(count) if count else 0)]


def _kairosdb(run: RunData) -> list[str]:
    seen = [part(node) for node in items(run.measurements, "kairosdb_nodes")]
    planned = part(run.plan, "experiment", "cluster").get("kairosdb_nodes")
    return _named(run, "kairosdb", len(seen) or planned)


def _loaders(run: RunData) -> list[str]:
    names = [str(host.get("host", "?")) for host in run.hosts]
    planned = number(run.load.get("hosts"))
    return names or [f"loader {n + 1}" for n in range(int(planned) if planned else 0)]


def _counted(names: Sequence[str], what: str) -> str:
    if not names:
        return f"{what}s"
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'}"


def _load(run: RunData) -> str:
    workers, sensors = (number(run.load.get(key)) for key in ("workers", "sensors"))
    told = []
    if sensors:
        told.append(f"{units.count(sensors)} sensors")
    if workers:
        told.append(f"{units.count(workers)} worker process{'' if workers == 1 else 'es'}")
    return ", ".join(told)


def _queue(run: RunData) -> str:
    if not run.of_kairosdb:
        said = part(run.manifest, "versions").get(run.stack)
        return f"version {said}" if said else ""
    version = part(run.manifest, "versions").get("kairosdb")
    queue = part(run.plan, "kairosdb").get("queue")
    told = (f"KairosDB {version}" if version else "", f"{queue} queue" if queue else "")
    return ", ".join(filter(None, told))


def _engine(run: RunData) -> str:
    version = part(run.manifest, "versions").get("engine_version")
    factor = number(part(run.plan, "experiment", "cluster").get("replication_factor"))
    name = f"{_ENGINES.get(run.engine, run.engine)} {version or ''}".strip()
    return ", ".join(filter(None, [name, f"replication factor {factor:g}" if factor else ""]))


def _consistency(run: RunData) -> str:
    settings = part(run.plan, "kairosdb")
    write, read = (settings.get(f"{what}_consistency") for what in ("write", "read"))
    if write == read:
        return f"CQL, {write}" if write else "CQL"
    return f"CQL, W {write or '?'}, R {read or '?'}"


def _boxes(names: Sequence[str]) -> tuple[Box, ...]:
    """A box a node, side by side in the middle; of more than `MOST` one group."""
    labels = _without_domain(names) or ["number not known"]
    count = len(labels)
    if count > MOST:
        wide = 2 * _WIDEST
        label = f"{count:,} × {labels[0]} … {labels[-1]}"
        label = _cut(label, wide - 8, _SMALL)
        return (Box((WIDTH - wide) / 2, wide, label, ", ".join(names), group=True),)
    width = min(_WIDEST, (WIDTH - (count - 1) * _GAP) / count)
    left = (WIDTH - count * width - (count - 1) * _GAP) / 2
    return tuple(
        Box(left + n * (width + _GAP), width, _cut(label, width - 4, _SMALL), name, group=False)
        for n, (label, name) in enumerate(zip(labels, names or labels, strict=True))
    )


def _without_domain(names: Sequence[str]) -> list[str]:
    """Names without the domain that all of several share."""
    domains = {name.partition(".")[2] for name in names}
    if len(names) < 2 or len(domains) > 1:
        return list(names)
    short = [name.partition(".")[0] for name in names]
    # Of addresses the first part says nothing.
    return short if len(set(short)) == len(names) else list(names)


def _cut(text: str, width: float, size: float) -> str:
    """The text, or as much of its beginning and end as is surely not wider."""
    most = int(width / (size * _LETTER))
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"
