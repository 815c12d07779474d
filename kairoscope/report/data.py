"""Reads a run folder, whatever is left of it.

A run that was interrupted, or whose cluster died, has only some of the files, and the last line of
a log may be cut. Nothing here raises for that: what is absent or unreadable goes into
`RunData.missing` with what the report cannot say without it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.report.units import epoch_s, number

Json = dict[str, Any]

GOING_ON = "going on"
"""In place of the verdict's word, of a run that has none yet."""

_KAIROSDB = "kairosdb"
"""The stack of runs from before there was a choice, and the one with storage nodes of its own."""

Lines = Callable[[Path], Iterable[Json | None]]
"""Reads a file of one JSON object a line, as `run_folder.lines` does."""

# file -> what the report cannot say without it
_EXPECTED = {
    run_folder.MANIFEST: "when, where and from which commit the run was made",
    run_folder.PLAN: "what was planned: settings, load and limits",
    run_folder.VERDICT: "whether the run passed: it was not judged",
    run_folder.LEDGER: "whether every acknowledged point is stored: nothing was read back",
    run_folder.MEASUREMENTS: "CPU per point and bytes per point",
    run_folder.LATENCY_MERGED: "client latency",
    run_folder.CAPTURES: "latency at the store, but for raw captures",
    run_folder.QUEUE: "how many points waited in the servers",
    run_folder.PROCESSES: "CPU and memory of the processes",
    run_folder.SHARDS: "how busy the store's shards were, and what each was asked",
    run_folder.QUERIES: "what became of the queries beside the load",
}


@dataclass(frozen=True)
class Missing:
    """A file that a complete run has: `why` it cannot be used and what is lost by that."""

    file: str
    why: str
    lost: str


@dataclass(frozen=True)
class Capture:
    """One `nodetool proxyhistograms` of one storage node.

    `rows` maps an operation ("Write") to its percentiles in µs; `raw` is nodetool's own text, empty
    if it was not kept; `t` is in epoch seconds.
    """

    node: str
    phase: str
    t: float
    rows: dict[str, Json]
    raw: str


@dataclass(frozen=True)
class RunData:
    """The content of a run folder as read; empty containers stand for what is not there."""

    folder: str
    manifest: Json = field(default_factory=dict)
    plan: Json = field(default_factory=dict)
    verdict: Json = field(default_factory=dict)
    ledger: Json = field(default_factory=dict)
    measurements: Json = field(default_factory=dict)
    latency: Json = field(default_factory=dict)
    captures: tuple[Capture, ...] = ()
    window: Json = field(default_factory=dict)  # the store's own counts, where it has any
    queue: tuple[Json, ...] = ()
    processes: tuple[Json, ...] = ()
    shards: tuple[Json, ...] = ()  # looks at ScyllaDB's nodes, shard by shard
    events: tuple[Json, ...] = ()
    faults: tuple[Json, ...] = ()  # what was wrong on purpose, as it happened
    workers: tuple[Json, ...] = ()
    counters: tuple[Json, ...] = ()  # another stack's own
    looks: tuple[Json, ...] = ()  # how far the run was, at each stage
    progress: tuple[tuple[Json, ...], ...] = ()
    """Interval records, a tuple per worker; where theirs are not here, those of all together."""
    spec: Json = field(default_factory=dict)  # of the load, once it was to begin
    queries: Json = field(default_factory=dict)  # of a run with reads beside the writes
    beside: Json = field(default_factory=dict)  # earlier runs like it
    probed: Json = field(default_factory=dict)  # what else was published of the system
    hosts: tuple[Json, ...] = ()  # the loader hosts, in the order of their workers
    missing: tuple[Missing, ...] = ()

    @property
    def start_s(self) -> float | None:
        """Start of the load in epoch seconds: time zero of every chart."""
        planned = epoch_s(part(self.manifest, "load").get("start_ms"))
        if planned is None and not self.replay:
            # Of a run that goes on, or was killed.
            planned = epoch_s(self.spec.get("start_ms"))
        if planned is not None:
            return planned
        # The first sample of the load is close.
        seen = [epoch_s(r.get("t")) for worker in self.progress for r in worker[:1]]
        return min((t for t in seen if t is not None), default=None)

    @property
    def going_on(self) -> bool:
        """Whether what is said of the run is said while it goes on."""
        return self.verdict.get("verdict") == GOING_ON

    @property
    def engine(self) -> str:
        """The storage engine, as the servers said; the plan only says what they should be."""
        told = part(self.manifest, "versions").get("engine")
        return str(told or self.plan.get("engine") or "")

    @property
    def load(self) -> Json:
        """What the load was planned to be, from the plan's `load` and the experiment's."""
        return {**part(self.plan, "experiment", "load"), **part(self.plan, "load")}

    @property
    def stack(self) -> str:
        """The system under test."""
        return str(self.plan.get("stack") or _KAIROSDB)

    @property
    def of_kairosdb(self) -> bool:
        """Whether that is KairosDB on its store."""
        return self.stack == _KAIROSDB

    @property
    def title(self) -> str:
        """The system as its makers write it; older plans do not say."""
        return str(self.plan.get("title") or ("KairosDB" if self.of_kairosdb else self.stack))

    @property
    def taker(self) -> str:
        """A server that takes points, in words."""
        told = self.plan.get("taker")
        return str(told or ("KairosDB node" if self.of_kairosdb else f"{self.title} server"))

    @property
    def shared(self) -> bool:
        """Whether all servers shared one machine; older plans do not say, and had these two."""
        told = self.plan.get("shared")
        return bool(self.manifest.get("target") in ("local", "lab") if told is None else told)

    @property
    def server_roles(self) -> dict[str, str]:
        """Roles of its servers' processes, as measurements.json has them, in words."""
        if self.of_kairosdb:
            return {"storage": "storage nodes", "kairosdb": "KairosDB"}
        seen = part(self.measurements, "cpu_us_per_point")
        return {role: role for role in seen if role != "loader"} or {self.stack: self.taker}

    @property
    def acknowledges(self) -> bool:
        """Whether the protocol tells that a point has arrived; of runs from before plans said so,
        as their ledger says."""
        return bool(self.load.get("acknowledges", self.ledger.get("acknowledges", True)))

    @property
    def protocol(self) -> str:
        """How points travelled, in words; "" if the plan is not there."""
        return str(self.load.get("protocol_title") or self.load.get("protocol") or "")

    @property
    def replay(self) -> bool:
        """Whether history was loaded as fast as it was acknowledged."""
        return self.load.get("replay") is True


def part(tree: Any, *keys: str) -> Json:
    """The object below `keys`, or an empty one if any step is absent or no object."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree if isinstance(tree, dict) else {}


def items(tree: Any, key: str) -> list[Any]:
    """The list below `key`, or an empty one."""
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, list) else []


def known(*values: Any) -> Any:
    """The first of these that is known."""
    return next((v for v in values if v is not None), None)


class _Reader:
    """Reads the files of a run folder; `missing` has those that were not there, or not whole."""

    def __init__(self, run_dir: Path, read_lines: Lines) -> None:
        self.missing: list[Missing] = []
        self._run_dir = run_dir
        self._read_lines = read_lines

    def there(self, file: str) -> bool:
        return (self._run_dir / file).exists()

    def tree(self, file: str) -> Any:
        if not self.there(file):
            self._lost(file, "not there")
            return None
        try:
            return run_folder.read_json(self._run_dir / file)
        except (OSError, UserError) as error:
            self._lost(file, f"unreadable ({error})")
        return None

    def object(self, file: str) -> Json:
        value = self.tree(file)
        if value is not None and not isinstance(value, dict):
            self._lost(file, "unreadable (not a JSON object)")
        return value if isinstance(value, dict) else {}

    def object_if_there(self, file: str) -> Json:
        return self.object(file) if self.there(file) else {}

    def lines(self, file: str) -> tuple[Json, ...]:
        try:
            said = list(self._read_lines(self._run_dir / file))
        except FileNotFoundError:
            if file in _EXPECTED:
                self._lost(file, "not there")
            return ()
        except OSError as error:
            self._lost(file, f"unreadable ({error})")
            return ()
        if bad := said.count(None):
            self.missing.append(Missing(file, f"{bad} unreadable line(s)", "what those lines said"))
        return tuple(record for record in said if record is not None)

    def _lost(self, file: str, why: str) -> None:
        self.missing.append(Missing(file, why, _EXPECTED.get(file, "part of its content")))


def read(run_dir: Path, read_lines: Lines = run_folder.lines) -> RunData:
    """Everything the report needs from `run_dir`; never raises for what is absent or damaged.

    `read_lines`: for who reads a folder again and again while it fills.
    """
    files = _Reader(run_dir, read_lines)
    finals = [path.name for path in run_folder.worker_results(run_dir)]
    logs = [path.name for path in run_folder.worker_logs(run_dir)]
    plan = files.object(run_folder.PLAN)
    on_scylla = plan.get("engine") == "scylla" or files.there(run_folder.SHARDS)
    with_queries = bool(part(plan, "load", "queries")) or files.there(run_folder.QUERIES)
    hosts = files.tree(run_folder.LOAD_HOSTS) if files.there(run_folder.LOAD_HOSTS) else []
    looks = files.lines(run_folder.PROGRESS)
    under_load = tuple(look for look in looks if look.get("stage") == "load")
    data = RunData(
        folder=run_dir.name,
        manifest=files.object(run_folder.MANIFEST),
        plan=plan,
        verdict=files.object(run_folder.VERDICT),
        ledger=files.object(run_folder.LEDGER),
        measurements=files.object(run_folder.MEASUREMENTS),
        latency=files.object(run_folder.LATENCY_MERGED),
        captures=_captures(run_dir, files.tree(run_folder.CAPTURES)),
        window=files.object_if_there(run_folder.STORE_WINDOW),
        queue=files.lines(run_folder.QUEUE),
        processes=files.lines(run_folder.PROCESSES),
        shards=files.lines(run_folder.SHARDS) if on_scylla else (),
        events=files.lines(run_folder.EVENTS),
        faults=files.lines(run_folder.FAULTS) if files.there(run_folder.FAULTS) else (),
        counters=files.lines(run_folder.COUNTERS) if files.there(run_folder.COUNTERS) else (),
        workers=tuple(files.object(f"{run_folder.LOAD}/{name}") for name in finals),
        looks=looks,
        progress=tuple(files.lines(f"{run_folder.LOAD}/{name}") for name in logs)
        or ((under_load,) if under_load else ()),
        spec=files.object_if_there(run_folder.LOAD_SPEC),
        queries=files.object(run_folder.QUERIES) if with_queries else {},
        beside=files.object_if_there(run_folder.BESIDE),
        probed=files.object_if_there(run_folder.PROBED),
        hosts=tuple(map(part, hosts)) if isinstance(hosts, list) else (),
    )
    never = _never(part(data.manifest, "captures"))
    missing = [
        each for each in (*files.missing, *_unfinished(finals, logs)) if each.file not in never
    ]
    return RunData(**{**vars(data), "missing": tuple(missing)})


def _unfinished(finals: list[str], logs: list[str]) -> Iterator[Missing]:
    """What loader processes did not leave behind that began, by the files of those that did."""
    if not finals:
        yield Missing(f"{run_folder.LOAD}/worker-*.json", "not there", "what the loaders counted")
    for final in (log.removesuffix("l") for log in logs):
        if final not in finals:
            yield Missing(
                f"{run_folder.LOAD}/{final}",
                "not there: this loader process did not end by itself",
                "its final counts",
            )


def _never(captures: Json) -> set[str]:
    """Files that such servers have none of, by what the manifest says is captured of them."""
    never = set()
    if captures.get("proxyhistograms") == []:
        never.add(run_folder.CAPTURES)
    if "drain" in part(captures, "not_judged"):
        never.add(run_folder.QUEUE)
    return never


def _captures(run_dir: Path, listed: Any) -> tuple[Capture, ...]:
    """The captures of captures.json or, where that was never written, the raw files alone."""
    return tuple(
        sorted(
            _listed(run_dir, listed) if isinstance(listed, list) else _raw_files(run_dir),
            key=lambda capture: (capture.node, capture.t),
        )
    )


def _listed(run_dir: Path, listed: list[Any]) -> Iterator[Capture]:
    for entry in listed:
        t = epoch_s(part(entry).get("t"))
        if t is None:
            continue
        rows = {name: row for name, row in part(entry, "rows").items() if isinstance(row, dict)}
        raw = ""
        for base in (run_dir, run_dir / run_folder.PROXYHISTOGRAMS):
            path = (base / str(entry.get("file", ""))).resolve()
            # Only files of this run: the path comes from a file that may have been passed on.
            if path.is_relative_to(run_dir.resolve()) and path.is_file():
                raw = path.read_text(encoding="utf-8", errors="replace")
                break
        yield Capture(str(entry.get("node", "?")), str(entry.get("phase", "?")), t, rows, raw)


def _raw_files(run_dir: Path) -> Iterator[Capture]:
    """Files named `<node>/<phase>-<YYYYmmddTHHMMSSZ>.txt`."""
    for path in (run_dir / run_folder.PROXYHISTOGRAMS).glob("*/*.txt"):
        phase, _, stamp = path.stem.rpartition("-")
        t = epoch_s(stamp)
        if t is not None:
            raw = path.read_text(encoding="utf-8", errors="replace")
            yield Capture(path.parent.name, phase, t, {}, raw)


Samples = dict[str, list[tuple[float, float | None]]]


def samples(records: tuple[Json, ...], value: str) -> Samples:
    """(epoch s, value) in order of time, per `node` or `name` of the records.

    A record with an `error` in place of the value gives None, which breaks the line of a chart.
    """
    found: Samples = {}
    for record in records:
        t, v = epoch_s(record.get("t")), number(record.get(value))
        name = record.get("name", record.get("node"))
        if t is not None and name is not None and (v is not None or "error" in record):
            found.setdefault(str(name), []).append((t, v))
    return {key: sorted(pairs, key=lambda pair: pair[0]) for key, pairs in sorted(found.items())}
