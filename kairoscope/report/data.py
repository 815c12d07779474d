"""Reads a run folder, whatever is left of it.

A run that was interrupted, or whose cluster died, has only some of the files, and the last line of
a log may be cut. Nothing here raises for that: what is absent or unreadable goes into
`RunData.missing` with what the report cannot say without it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kairoscope.report.units import epoch_s, number

Json = dict[str, Any]

# file -> what the report cannot say without it
_EXPECTED = {
    "manifest.json": "when, where and from which commit the run was made",
    "plan.json": "what was planned: settings, load and limits",
    "verdict.json": "whether the run passed: it was not judged",
    "ledger.json": "whether every acknowledged point is stored: nothing was read back",
    "measurements.json": "CPU per point and bytes per point",
    "latency/merged.json": "client latency",
    "proxyhistograms/captures.json": "latency at the store, but for raw captures",
    "queue.jsonl": "KairosDB's queue depth over time",
    "processes.jsonl": "CPU and memory of the processes",
    "scylla.jsonl": "how busy the store's shards were, and what each was asked",
    "queries.json": "what became of the queries beside the load",
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
    workers: tuple[Json, ...] = ()
    progress: tuple[tuple[Json, ...], ...] = ()  # one tuple of interval records per worker
    queries: Json = field(default_factory=dict)  # of a run with reads beside the writes
    hosts: tuple[Json, ...] = ()  # the loader hosts, in the order of their workers
    missing: tuple[Missing, ...] = ()

    @property
    def start_s(self) -> float | None:
        """Start of the load in epoch seconds: time zero of every chart."""
        planned = epoch_s(part(self.manifest, "load").get("start_ms"))
        if planned is not None:
            return planned
        # An interrupted run may not have written it back; the first sample of the load is close.
        seen = [epoch_s(r.get("t")) for worker in self.progress for r in worker[:1]]
        return min((t for t in seen if t is not None), default=None)

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
    def acknowledges(self) -> bool:
        """Whether the protocol tells that a point has arrived; telnet does not."""
        return not str(self.load.get("protocol", "")).startswith("telnet")

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


def read(run_dir: Path) -> RunData:
    """Everything the report needs from `run_dir`; never raises for what is absent or damaged."""
    missing: list[Missing] = []

    def lost(file: str, why: str) -> None:
        missing.append(Missing(file, why, _EXPECTED.get(file, "part of its content")))

    def tree(file: str) -> Any:
        try:
            return json.loads((run_dir / file).read_text(encoding="utf-8"))
        except FileNotFoundError:
            lost(file, "not there")
        except (OSError, ValueError) as error:
            lost(file, f"unreadable ({error})")
        return None

    def lines(file: str) -> tuple[Json, ...]:
        try:
            text = (run_dir / file).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            if file in _EXPECTED:
                lost(file, "not there")
            return ()
        except OSError as error:
            lost(file, f"unreadable ({error})")
            return ()
        good, bad = _json_lines(text)
        if bad:
            missing.append(Missing(file, f"{bad} unreadable line(s)", "what those lines said"))
        return good

    def objects(file: str) -> Json:
        value = tree(file)
        if value is not None and not isinstance(value, dict):
            lost(file, "unreadable (not a JSON object)")
        return value if isinstance(value, dict) else {}

    load = run_dir / "load"
    finals = sorted(p.name for p in load.glob("worker-*.json") if p.name.count(".") == 1)
    logs = sorted(p.name for p in load.glob("worker-*.jsonl") if p.name.count(".") == 1)
    plan, window = objects("plan.json"), "proxyhistograms/window.json"
    on_scylla = plan.get("engine") == "scylla" or (run_dir / "scylla.jsonl").exists()
    with_queries = bool(part(plan, "load", "queries")) or (run_dir / "queries.json").exists()
    hosts = tree("load/hosts.json") if (load / "hosts.json").exists() else []
    data = RunData(
        folder=run_dir.name,
        manifest=objects("manifest.json"),
        plan=plan,
        verdict=objects("verdict.json"),
        ledger=objects("ledger.json"),
        measurements=objects("measurements.json"),
        latency=objects("latency/merged.json"),
        captures=_captures(run_dir, tree("proxyhistograms/captures.json")),
        window=objects(window) if (run_dir / window).exists() else {},
        queue=lines("queue.jsonl"),
        processes=lines("processes.jsonl"),
        shards=lines("scylla.jsonl") if on_scylla else (),
        events=lines("events.jsonl"),
        workers=tuple(objects(f"load/{name}") for name in finals),
        progress=tuple(lines(f"load/{name}") for name in logs),
        queries=objects("queries.json") if with_queries else {},
        hosts=tuple(map(part, hosts)) if isinstance(hosts, list) else (),
    )
    if not finals:
        missing.append(Missing("load/worker-*.json", "not there", "what the loaders counted"))
    for log in logs:
        if log.removesuffix("l") not in finals:
            missing.append(
                Missing(
                    f"load/{log.removesuffix('l')}",
                    "not there: this loader process did not end by itself",
                    "its final counts",
                )
            )
    return RunData(**{**vars(data), "missing": tuple(missing)})


def _json_lines(text: str) -> tuple[tuple[Json, ...], int]:
    """The objects of a JSONL text and how many of its lines are none."""
    good: list[Json] = []
    bad = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if isinstance(value, dict):
            good.append(value)
        else:
            bad += 1
    return tuple(good), bad


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
        for base in (run_dir, run_dir / "proxyhistograms"):
            path = (base / str(entry.get("file", ""))).resolve()
            # Only files of this run: the path comes from a file that may have been passed on.
            if path.is_relative_to(run_dir.resolve()) and path.is_file():
                raw = path.read_text(encoding="utf-8", errors="replace")
                break
        yield Capture(str(entry.get("node", "?")), str(entry.get("phase", "?")), t, rows, raw)


def _raw_files(run_dir: Path) -> Iterator[Capture]:
    """Files named `<node>/<phase>-<YYYYmmddTHHMMSSZ>.txt`."""
    for path in (run_dir / "proxyhistograms").glob("*/*.txt"):
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
