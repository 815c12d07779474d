"""The run folder: what its files are called, how they are written, and how they are read.

The only thing between a load and its verdict, its report and whoever compares runs later. What the
files hold is described in results/README.md. The loaders' own files in `load/` have their names in
`loaders.record.files` and `loaders.query.query_files`.

Imports nothing of Kairoscope but its error: the run, the stacks, the verdict and the report all
use it.
"""

import contextlib
import fcntl
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from kairoscope.errors import UserError

Record = dict[str, Any]

Life = tuple[int, float]
"""A process: its pid and when it started, as a container that boots again has the same pids."""

# What the run writes before and while it loads.
MANIFEST = "manifest.json"
PLAN = "plan.json"
EXPERIMENT = "experiment.yml"
FACTS = "run.json"
EVENTS = "events.jsonl"
FAULTS = "faults.jsonl"
PROGRESS = "progress.jsonl"
QUEUE = "queue.jsonl"
PROCESSES = "processes.jsonl"
SHARDS = "scylla.jsonl"
COUNTERS = "counters.jsonl"
KILLED = "killed.json"
VISIBLE = "visible.json"
ASKED = "asked.jsonl"
PROBED = "probed.json"
PROXYHISTOGRAMS = "proxyhistograms"
CAPTURES = "proxyhistograms/captures.json"
STORE_WINDOW = "proxyhistograms/window.json"
LOAD = "load"
LOAD_SPEC = "load/spec.json"
LOAD_HOSTS = "load/hosts.json"
LATENCY = "latency"

# What it writes when it reads the points back.
FAILED_LOGS = "failed"
FAILED_POINTS = "failed.jsonl"
READBACK = "readback.json"
READBACK_GAPS = "readback-gaps.jsonl"

# What is computed from all that: the results.
LATENCY_MERGED = "latency/merged.json"
QUERIES = "queries.json"
MEASUREMENTS = "measurements.json"
BLOCKS = "blocks.json"
LEDGER = "ledger.json"
LEDGER_GAPS = "ledger-gaps.jsonl"
VERDICT = "verdict.json"
RESULTS = (LATENCY_MERGED, QUERIES, MEASUREMENTS, BLOCKS, LEDGER, LEDGER_GAPS, VERDICT)
# What earlier runs like it came to, when it ended: not a function of this folder.
BESIDE = "beside.json"
REPORT_HTML = "report.html"
REPORT_MARKDOWN = "report.md"

NOT_COUNTED = "store's own counts not captured"
"""`what` of an event: a storage node did not tell what it counted in the measured time."""

SUBFOLDERS = (LOAD, LATENCY, PROXYHISTOGRAMS)

# What the verdict is computed from, beside the documents that it cannot be computed without at all:
# manifest, plan and facts. Those are left out so that a limit in the plan may be changed by hand.
_CAPTURED = (
    *("*.jsonl", f"{LOAD}/*", f"{LATENCY}/*.hlog"),
    *(CAPTURES, STORE_WINDOW, KILLED, READBACK),
)

# A result, and what is only watched.
_NOT_CAPTURED = (LEDGER_GAPS, PROGRESS)

_NAMED_FILES = 3


def life(record: Mapping[str, Any]) -> Life:
    """Of a record of `processes.jsonl`; older ones do not say when their process started."""
    return int(record["pid"]), float(record.get("started_s", 0))


def stamp(t: float) -> str:
    """UTC time for a file name, to the second; `t` in epoch s."""
    return datetime.fromtimestamp(t, UTC).strftime("%Y%m%dT%H%M%SZ")


class JsonLines:
    """A file of one JSON object a line, safe to append to from several threads."""

    def __init__(self, path: Path) -> None:
        """Open the file, created if need be."""
        self._lock = threading.Lock()
        # No buffer: what a full disk did not take would be written at the end of this process, when
        # the file's length has been noted.
        self._file = path.open("ab", buffering=0)
        self._torn = False

    def write(self, **record: Any) -> None:
        """Append a record. OSError if the disk is full; it is not written later then, but a part of
        it may have been."""
        line = (json.dumps(record) + "\n").encode()
        with self._lock:
            if self._torn:
                line = b"\n" + line
            self._torn = True
            while line:
                line = line[self._file.write(line) :]
            self._torn = False

    def hold(self) -> None:
        """Lock the file until it is closed, at the latest by the end of this process."""
        # Where a file system has no locks nobody learns that the run goes on.
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def goes_on(folder: Path) -> bool:
    """Whether the run of a folder still goes on: it holds its progress file, and wrote no report.

    What ends it, a kill -9 included, lets go of the file.
    """
    if (folder / REPORT_HTML).exists():
        return False
    try:
        with (folder / PROGRESS).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document as people may read it, whole or not at all. OSError if it cannot be."""
    replace({path: json_text(document)})


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object a line, all of them or no file. OSError if it cannot be."""
    replace({path: lines_text(records)})


def json_text(document: Any) -> Iterator[str]:
    """The text of a JSON document as people may read it."""
    yield json.dumps(document, indent=1) + "\n"


def lines_text(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The text of a file of one JSON object a line."""
    return (json.dumps(record) + "\n" for record in records)


def replace(files: Mapping[Path, Iterable[str]]) -> None:
    """Write files in place of those that are there; all of them, or none is changed.

    OSError if one cannot be written.
    """
    drafts = {path: path.with_name(f".{path.name}.part") for path in files}
    try:
        for path, parts in files.items():
            with drafts[path].open("w", encoding="utf-8") as file:
                file.writelines(parts)
        for path, draft in drafts.items():
            draft.replace(path)
    finally:
        for draft in drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """A JSON document. UserError, naming the file, if it is missing, cut off or no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: the file is missing") from None
    except ValueError as error:
        raise UserError(f"{path}: cut off, or not JSON: {error}") from error


def check(folder: Path) -> None:
    """UserError if it is no run folder."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such run folder")
    if not (folder / MANIFEST).exists():
        raise UserError(f"{folder}: not a run folder, as it has no {MANIFEST}")


def read_object(path: Path) -> Record:
    """A JSON document that is an object. UserError as of `read_json`, and if it is none."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise UserError(f"{path}: not a JSON object")
    return found


def lines(path: Path) -> Iterator[Record | None]:
    """The object of each line, None for a line that holds none, such as one that was cut off.

    Raises:
        OSError: the file is missing or cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.strip():
                yield parsed(line)


def parsed(line: str | bytes) -> Record | None:
    """The object of a line; None if it holds none."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def records(path: Path) -> Iterator[Record]:
    """The objects of a file of JSON lines; none if it is missing.

    A line that was cut off is passed over: whoever wrote it may have been killed meanwhile.
    """
    if path.exists():
        yield from (record for record in lines(path) if record is not None)


def histogram_logs(folder: Path, what: str) -> list[Path]:
    """Interval logs of latency of all workers ("worker") or readers ("queries").

    Not those of its parts, such as worker-0.wait.hlog. They are moved from `load/` to `latency/` at
    a run's end: one that was killed has them there.
    """
    return [
        log
        for place in (LATENCY, LOAD)
        for log in sorted((folder / place).glob(f"{what}-*.hlog"))
        if log.name.count(".") == 1
    ]


def histogram_log(folder: Path, name: str) -> Path | None:
    """One interval log, such as "worker-0" or "worker-0.wait"; None if there is none."""
    logs = (folder / place / f"{name}.hlog" for place in (LATENCY, LOAD))
    return next((log for log in logs if log.exists()), None)


def move_histogram_logs(folder: Path) -> None:
    """Bring the interval logs to where they are looked for. OSError if they cannot be moved."""
    for log in (folder / LOAD).glob("*.hlog"):
        log.replace(folder / LATENCY / log.name)


def worker_results(folder: Path) -> list[Path]:
    """The final figures of all workers that came to their end."""
    return _of_workers(folder, "worker-*.json")


def worker_logs(folder: Path) -> list[Path]:
    """The workers' progress logs; not those of outcomes and events."""
    return _of_workers(folder, "worker-*.jsonl")


def _of_workers(folder: Path, pattern: str) -> list[Path]:
    return sorted(p for p in (folder / LOAD).glob(pattern) if p.name.count(".") == 1)


def same_life(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two records of scylla.jsonl are of one life of the node's server.

    Its counters only grow in it. False if either look failed.
    """
    if "error" in before or "error" in after or before["shards"] != after["shards"]:
        return False
    return all(
        old <= new
        for key in ("busy_ms", "requests", "replica_writes")
        for old, new in zip(before[key], after[key], strict=True)
    )


@dataclass(frozen=True)
class Expected:
    """What a run's stack says is captured, in manifest.json: names of servers, for each capture.

    Attributes:
        proxyhistograms: that are asked for their own latencies.
        shards: whose shards are looked at.
        processes: whose processes are.
        disk: whether the data files are measured.
        counters: whose own counters are looked at.
        window: whose own counts of the measured time are taken.
        not_judged: parts of the verdict that such servers have no figure for, and why.
        losses: counters that grow where such a server throws points away, and what that is.
        flows: counters that are points/s, by what they are of.
    """

    proxyhistograms: list[str]
    shards: list[str]
    processes: list[str]
    disk: bool
    counters: list[str] = field(default_factory=list)
    not_judged: dict[str, str] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)
    flows: dict[str, str] = field(default_factory=dict)
    window: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ClockOffset:
    """How far a loader host's clock is ahead of ours (µs), and the round trip of that look.

    As in load/hosts.json.
    """

    offset_us: int
    rtt_us: int

    def exceeds(self, limit_ms: float) -> bool:
        """Whether it is more than a limit for certain; half the round trip is not known."""
        return abs(self.offset_us) - self.rtt_us / 2 > limit_ms * 1000

    def __str__(self) -> str:
        """Such as "812.4 ± 0.3 ms ahead"."""
        where = "ahead" if self.offset_us >= 0 else "behind"
        return f"{abs(self.offset_us) / 1000:,.1f} ± {self.rtt_us / 2000:,.1f} ms {where}"


@dataclass(frozen=True)
class Drain:
    """How what waited on the servers was stored once the load had ended.

    Attributes:
        left: points that waited when no more was watched, 0 once none did; None: a node did not
            tell.
        watched_until: epoch s.
    """

    left: int | None
    watched_until: float


@dataclass
class Facts:
    """What a run knows of itself beside its captures: run.json, written anew at each stage.

    Attributes:
        incomplete: why the run is incomplete whatever its figures are, the gravest first.
        drain: None: the queues were not watched to the end.
        disk_bytes: of the store "before" and "after" the load; None: not measured.
        captured: whether all captures were attempted, so that what is missing can be said.
        removed: names of nodes that were taken away meanwhile by one of our verbs.
        ended: whether the run came to its end, in whatever way; not so if it was killed.
        files: bytes of each captured file when it ended, by its name in the folder.
    """

    incomplete: list[str] = field(default_factory=list)
    drain: Drain | None = None
    disk_bytes: dict[str, int | None] = field(
        default_factory=lambda: {"before": None, "after": None}
    )
    captured: bool = False
    removed: list[str] = field(default_factory=list)
    ended: bool = False
    files: dict[str, int] = field(default_factory=dict)

    FORMAT = 2
    """Raised when a reader of the old one would misread the new one."""

    def write(self, folder: Path) -> None:
        """Write run.json. OSError if it cannot be."""
        write_json(folder / FACTS, {"format": self.FORMAT, **asdict(self)})

    def end(self, folder: Path) -> None:
        """Note that all is written that the verdict is computed from, and write run.json."""
        self.ended = True
        self.files = captured(folder)
        self.write(folder)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The facts of a run folder. UserError if it has none that this version understands."""
        path = folder / FACTS
        if not path.exists():
            raise UserError(
                f"{path}: the file is missing. It was lost, or this run was made by an older "
                "Kairoscope, which did not write down all that its verdict was computed from"
            )
        document = read_object(path)
        number = document.pop("format", None)
        if number != cls.FORMAT:
            raise UserError(
                f"{path}: its format is {number}, and this Kairoscope reads {cls.FORMAT}: the run "
                "was made by another version"
            )
        names = {each.name for each in fields(cls)}
        if set(document) != names:
            odd = ", ".join(sorted(names ^ set(document)))
            raise UserError(f"{path}: not what a run writes: {odd} missing or unknown")
        try:
            drain = document.pop("drain")
            facts = cls(**document, drain=Drain(**drain) if drain else None)
            if set(facts.disk_bytes) != {"before", "after"}:
                raise ValueError(f"disk_bytes: {facts.disk_bytes}")
        except (TypeError, ValueError) as error:
            raise UserError(f"{path}: not what a run writes: {error}") from error
        return facts

    def check_files(self, folder: Path) -> None:
        """UserError if a captured file is missing, or not as long as it was when the run ended."""
        there = captured(folder)
        amiss = [
            f"{name} is missing"
            if name not in there
            else f"{name} has {there[name]:,} bytes and had {size:,} when the run ended"
            for name, size in self.files.items()
            if there.get(name) != size
        ]
        if amiss:
            more = f", and {len(amiss) - _NAMED_FILES} more" if len(amiss) > _NAMED_FILES else ""
            raise UserError(f"{folder}: {', '.join(amiss[:_NAMED_FILES])}{more}")


def captured(folder: Path) -> dict[str, int]:
    """Bytes of each file that a verdict is computed from, by its name in the folder."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for pattern in _CAPTURED
        for path in sorted(folder.glob(pattern))
        if path.is_file() and not path.name.startswith(".") and path.name not in _NOT_CAPTURED
    }
