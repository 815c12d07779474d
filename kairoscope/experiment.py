"""The experiment file: the one file a user edits, checked before anything is touched.

An experiment says *what* is run: the shape of the cluster, its tuning, the load and the limits
that make a run a pass. Where it runs is the target's business, and everything that can be
computed is left to the plan: a field that is absent here is derived there.

`load` reads a file, lays the command line over it and reports every problem at once, each as
`file:line: field: what is wrong and what is allowed`, because a person who mends one field at a
time gives up at the third.
"""

from __future__ import annotations

import difflib
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import annotated_types
import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from kairoscope import paths
from kairoscope.errors import UserError

Consistency = Literal["ONE", "LOCAL_ONE", "TWO", "THREE", "QUORUM", "LOCAL_QUORUM", "ALL"]
"""The levels at which an acknowledged write is readable data. ANY is left out on purpose: a hint
counts as written there, and nothing could be read back. One datacenter only, so no EACH_QUORUM."""

MIN_PERIOD_MS = 100
"""Shortest time between two points of a sensor. Below it the loader's own timing (milliseconds
of loop lateness) would be a visible share of what it measures."""

MIN_RETRIED_BATCH = 11
"""KairosDB gives up a batch whose write timed out once its limit is at 10 points or fewer."""

_LEGAL_NAME = re.compile(r"[A-Za-z0-9_./-]+")
_LEGAL_NAME_WORDS = "letters, digits and - _ . /"
_PLAIN_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9_]{0,17})")
_MAX_FILE_BYTES = 1 << 20
_MAX_DEPTH = 4  # load → tags → value is 3; deeper is no experiment, and aliases cannot explode
_SHOWN_CHARACTERS = 60


def _is(unit: str, text: str, *, allowed: str | None = None, **constraints: Any) -> Any:
    """Declare a field with its unit ("" for none), its reason, and, for text, what is allowed."""
    extra: dict[str, JsonValue] = {"unit": unit}
    if allowed is not None:
        extra["allowed"] = allowed
    return Field(description=text, json_schema_extra=extra, **constraints)


class _Section(BaseModel):
    """Strict ("5" is not 5), closed (an unknown field is an error) and unchangeable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Cluster(_Section):
    """The shape: how many of what."""

    storage_nodes: int = _is(
        "nodes", "How many nodes store the data; three is the least that RF 3 needs.", ge=1, le=200
    )
    replication_factor: int = _is(
        "replicas",
        "Copies of every point, each on another storage node; 3 survives the loss of one node "
        "with a quorum left.",
        ge=1,
        le=20,
    )
    kairosdb_nodes: int = _is(
        "nodes",
        "How many KairosDB processes take the sensors' points; sensors are split evenly over them.",
        ge=1,
        le=200,
    )
    datacenter: str = _is(
        "",
        "Name of the one datacenter: NetworkTopologyStrategy and KairosDB's local_dc_name use it.",
        allowed="letters, digits, - and _, at most 48",
        default="dc1",
        pattern=r"^[A-Za-z0-9_-]{1,48}$",
    )
    shards: int = _is(
        "shards",
        "CPU shards of one ScyllaDB node (its threads less those kept for interrupts: 30 of 32 "
        "on an i3.8xlarge). Cassandra has no shards; there it is the threads a node may count on.",
        default=2,
        ge=1,
        le=256,
    )


class Storage(_Section):
    """How the store keeps the data."""

    heap_mb: int = _is(
        "MiB",
        "Java heap of one Cassandra node; 1 GiB lets three of them share a laptop. ScyllaDB has "
        "no heap and ignores it.",
        default=1024,
        ge=256,
        le=65536,
    )
    compression: Literal[
        "LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "none"
    ] = _is(
        "",
        "How data files are compressed; LZ4 is the default of both engines and nearly free.",
        default="LZ4Compressor",
    )
    ttl_s: int = _is(
        "s",
        "Age at which a point disappears; 0 keeps it for ever. Must outlast the run and its "
        "read-back, or expired points would look lost.",
        default=0,
        ge=0,
        le=630_720_000,
    )
    compaction_window_hours: int = _is(
        "h",
        "Span of one TWCS window: data of one window ends in one file. A day keeps the files few "
        "for retentions of weeks.",
        default=24,
        ge=1,
        le=8760,
    )
    batch_size_fail_kib: int | None = _is(
        "KiB",
        "Size from which the store refuses a batch. Derived from KairosDB's batch if absent.",
        default=None,
        ge=1,
        le=1_048_576,
    )


class KairosDB(_Section):
    """How KairosDB writes and reads. What is absent is derived by the plan."""

    driver: Literal["scylla", "datastax"] = _is(
        "",
        "CQL driver in KairosDB's class path; ScyllaDB's is a drop-in that sends each request to "
        "the shard that owns the row, and works with Cassandra too.",
        default="scylla",
    )
    write_consistency: Consistency = _is(
        "",
        "Replicas that must have a point before KairosDB's write counts; ONE as in 2018, the "
        "others follow in the background.",
        default="ONE",
    )
    read_consistency: Consistency = _is(
        "", "Replicas that a query must hear from; ONE is KairosDB's default.", default="ONE"
    )
    heap_mb: int | None = _is("MiB", "Java heap of one KairosDB node.", default=None, ge=256)
    connections_per_host: int | None = _is(
        "connections", "Connections to each storage node.", default=None, ge=1, le=1024
    )
    max_requests_per_connection: int | None = _is(
        "requests", "Requests in flight on one connection.", default=None, ge=1, le=32768
    )
    ingest_threads: int | None = _is(
        "threads", "Batches written at the same time.", default=None, ge=1, le=1024
    )
    batch_size: int | None = _is(
        "points",
        "Points taken from the queue at a time. A CQL batch holds 65,535 statements at most, and "
        "a new series needs two in the index batch.",
        default=None,
        ge=1,
        le=30_000,
    )
    min_batch_size: int | None = _is(
        "points", "Fewer waiting points than this are waited for.", default=None, ge=1, le=30_000
    )
    min_batch_wait_ms: int | None = _is(
        "ms", "How long they are waited for.", default=None, ge=1, le=60_000
    )
    row_key_cache_size: int | None = _is(
        "entries", "Row keys known to be indexed already.", default=None, ge=1, le=100_000_000
    )
    string_cache_size: int | None = _is(
        "entries", "Metric names known to be indexed already.", default=None, ge=1, le=100_000_000
    )
    memory_queue_size: int | None = _is(
        "points",
        "Points kept in memory beside the queue file.",
        default=None,
        ge=100,
        le=100_000_000,
    )
    checkpoint_s: int | None = _is(
        "s", "Seconds between two checkpoints of the queue file.", default=None, ge=1, le=3600
    )


class Load(_Section):
    """What the emulated sensors send, and how."""

    sensors: int = _is(
        "sensors", "Emulated devices; each is one series of its own.", ge=1, le=10_000_000
    )
    rate: float = _is(
        "points/s",
        "Points a second of each sensor; 1 as in 2018. 1000 / rate must be a whole number of "
        f"milliseconds, at least {MIN_PERIOD_MS}.",
        default=1.0,
        ge=0.001,
        le=1000 / MIN_PERIOD_MS,
    )
    duration_s: int | None = _is(
        "s", "Length of the load with its warm-up. This or points.", default=None, ge=1, le=2592000
    )
    points: int | None = _is(
        "points", "Points of each sensor. This or duration_s.", default=None, ge=1, le=10_000_000
    )
    warmup_s: int = _is(
        "s",
        "Start of the load that is sent and accounted for but left out of latency figures: Java "
        "compiles its hot paths and every series is indexed for the first time.",
        default=15,
        ge=0,
        le=86_400,
    )
    workers: int | None = _is(
        "processes",
        "Loader processes. Derived from points/s if absent.",
        default=None,
        ge=1,
        le=512,
    )
    sensors_per_request: int = _is(
        "sensors",
        "Sensors whose points travel in one REST request. The 2018 loaders sent one by one, which "
        "measures HTTP rather than the store; 100 points are about 10 kB of JSON.",
        default=100,
        ge=1,
        le=10_000,
    )
    metric: str = _is(
        "",
        "Metric name of sensor n; {n} is its number.",
        allowed=f"text with {{n}} in it once, otherwise {_LEGAL_NAME_WORDS}",
        default="SENSOR_{n}",
        min_length=3,
        max_length=200,
    )
    tags: dict[str, str] = _is(
        "",
        "Tags of every point; KairosDB refuses a point without any.",
        allowed="a mapping of at least one tag name to its value, both text",
        default_factory=lambda: {"status": "good"},
    )
    request_timeout_s: float = _is(
        "s",
        "How long one attempt waits for its answer; well above the latency limit, so that a slow "
        "answer is measured and not cut off.",
        default=10.0,
        gt=0,
        le=600,
    )
    retry_for_s: float = _is(
        "s",
        "How long after its planned time a request is still retried; a restarted KairosDB node is "
        "back well within a minute.",
        default=60.0,
        ge=0,
        le=3600,
    )
    connections_per_node: int = _is(
        "connections",
        "HTTP connections of one worker to one KairosDB node; requests beyond them wait, and the "
        "wait counts as latency.",
        default=8,
        ge=1,
        le=1024,
    )

    @property
    def period_ms(self) -> int:
        """Whole milliseconds between two points of a sensor."""
        period = _whole_period_ms(self.rate)
        assert period is not None, "checked when the experiment was made"  # noqa: S101
        return period

    @property
    def ticks(self) -> int:
        """Points of each sensor, those of the warm-up included; whole periods only."""
        return _ticks(self.duration_s, self.points, self.period_ms)

    @property
    def warmup_ticks(self) -> int:
        """The first points of each sensor that do not count for latency."""
        return math.ceil(self.warmup_s * 1000 / self.period_ms)


class Limits(_Section):
    """What makes a run a pass."""

    achieved: float = _is(
        "share",
        "Least share of the scheduled points that is acknowledged in time; 0.999 forgives a blip "
        "of a tenth of a second in two minutes.",
        default=0.999,
        gt=0,
        le=1,
    )
    p99_ms: float = _is(
        "ms",
        "Highest 99th percentile from a point's planned send time to its acknowledgement.",
        default=500.0,
        gt=0,
        le=600_000,
    )
    drain_s: float = _is(
        "s",
        "Longest time in which KairosDB's queue may empty once the load has ended.",
        default=60.0,
        ge=0,
        le=86_400,
    )
    queue_growth: float = _is(
        "share",
        "Highest growth of KairosDB's queue, as a share of points/s: a hundredth is within what "
        "sampling a moving queue can see.",
        default=0.01,
        ge=0,
        le=1,
    )
    send_error_p99_ms: float = _is(
        "ms",
        "Highest 99th percentile of the loader's own lateness; above it the run measures the "
        "loader and is invalid.",
        default=100.0,
        gt=0,
        le=60_000,
    )


class Capture(_Section):
    """How often the run is looked at."""

    proxyhistograms_every_s: int = _is(
        "s",
        "Between two nodetool proxyhistograms of each storage node. Cassandra's forget within "
        "minutes (half-life 60 s), and each call starts a Java process.",
        default=20,
        ge=1,
        le=3600,
    )
    processes_every_s: int = _is(
        "s", "Between two samples of CPU, memory and disk.", default=2, ge=1, le=3600
    )


class Assume(_Section):
    """Inputs of the plan's arithmetic that nobody can know before measuring."""

    write_latency_ms: float = _is(
        "ms",
        "One batch to one storage node, seen from KairosDB; the published 95th and 99th "
        "percentiles are single-digit milliseconds.",
        default=5.0,
        gt=0,
        le=60_000,
    )
    bytes_per_point_on_wire: int = _is(
        "bytes",
        "One point in a CQL batch: row key of some 50 bytes, column, value, TTL, timestamp and "
        "statement id.",
        default=120,
        ge=1,
        le=100_000,
    )
    bytes_per_point_on_disk: float = _is(
        "bytes",
        "One point in the files of one replica; 12 GB for 120M points at RF 3 (2018) are 33.",
        default=35.0,
        gt=0,
        le=100_000,
    )
    bytes_per_point_in_queue: int = _is(
        "bytes",
        "One point in KairosDB's queue file: metric name, tags, timestamp, value.",
        default=100,
        ge=1,
        le=100_000,
    )
    commitlog_mib_per_node: int = _is(
        "MiB",
        "Commit log of one storage node when full; the storage role bounds it at this.",
        default=1024,
        ge=0,
        le=1_048_576,
    )
    cpu_us_per_replica: float = _is(
        "µs",
        "CPU of the embedded engine to write one copy of a point; 121 to 159 µs measured for "
        "three copies.",
        default=50.0,
        gt=0,
        le=1_000_000,
    )
    cpu_us_kairosdb: float = _is(
        "µs",
        "CPU of KairosDB for one point; 13 to 20 µs measured.",
        default=17.0,
        gt=0,
        le=1_000_000,
    )


@dataclass(frozen=True)
class Source:
    """Where an experiment's values came from, for messages and for the plan's origins."""

    shown: str = "(no file)"
    """The file as a message names it: relative to the working directory where it is below it."""
    path: Path | None = None
    """The file itself; None for an experiment made in code."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line (from 1) of each field that the file gives, by its dotted name."""
    command_line: Mapping[str, str] = field(default_factory=dict)
    """Fields that the command line gave, with the argument as typed ("SENSORS=20000")."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """What the file had said in place of those ("5000", "points: 2000"), where it said anything."""

    def where(self, name: str) -> str:
        """The place to look at for a field: its command line argument, its line or the file."""
        if name in self.command_line:
            return self.command_line[name]
        line = self.lines.get(name)
        if line is None:
            # A field that is absent belongs to its section, and an absent section to the file.
            line = self.lines.get(name.partition(".")[0]) if "." in name else None
        return self.shown if line is None else f"{self.shown}:{line}"


class Experiment(_Section):
    """One experiment: what to deploy, how to load it, and what counts as sustained."""

    name: str = _is(
        "",
        "Names the run folders.",
        allowed="lower-case letters, digits and -, at most 40, beginning with a letter or digit",
        pattern=r"^[a-z0-9][a-z0-9-]{0,39}$",
    )
    description: str = _is(
        "",
        "One sentence for the report's head.",
        allowed="a sentence of at most 300 characters",
        min_length=1,
        max_length=300,
    )
    cluster: Cluster
    storage: Storage = Field(default_factory=Storage)
    kairosdb: KairosDB = Field(default_factory=KairosDB)
    load: Load
    limits: Limits = Field(default_factory=Limits)
    capture: Capture = Field(default_factory=Capture)
    assume: Assume = Field(default_factory=Assume)
    reference: str | None = _is(
        "",
        "Id of the published figures that the report puts beside this run's.",
        allowed="the id of published figures in results/reference/",
        default=None,
        pattern=r"^[a-z0-9][a-z0-9-]{0,39}$",
    )

    _source: Source = PrivateAttr(default_factory=Source)

    @property
    def source(self) -> Source:
        """Where the values came from."""
        return self._source

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = _cross_check(_flat_fields(self.model_dump(), set()))
        if problems:
            raise ValueError("; ".join(f"{p.fields[0]}: {p.text}" for p in problems))
        return self


@dataclass(frozen=True)
class Overrides:
    """What the command line may scale: SENSORS=, RATE= and DURATION= (seconds).

    Text is taken as typed, so that a bad value can be refused by its Makefile name. None and ""
    leave the experiment's value.
    """

    sensors: int | str | None = None
    rate: float | str | None = None
    duration_s: int | str | None = None


_OVERRIDES = {"sensors": "SENSORS", "rate": "RATE", "duration_s": "DURATION"}


# ---------------------------------------------------------------- reading a file


def load(path_or_name: str, overrides: Overrides | None = None) -> Experiment:
    """Read, scale and check an experiment.

    `path_or_name` is a path (it has a `/` or ends in .yml or .yaml) or the name of a file in
    `experiments/`. Raises UserError with one line for each problem.
    """
    path = _find(path_or_name)
    shown = _shown(path)
    data, lines, problems = _read(path, shown)

    command_line, replaced = _apply(overrides or Overrides(), data)
    source = Source(shown, path.resolve(), lines, command_line, replaced)

    experiment: Experiment | None = None
    invalid = {name for problem in problems for name in problem.fields}
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        for details in error.errors():
            if not details["loc"]:
                continue  # the cross checks, which run below on all that is valid
            problem = _explain(details["loc"], details["type"], details["input"])
            if not isinstance(details["input"], _Unreadable):  # else reported while reading
                problems.append(problem)
            invalid.update(problem.fields)
        problems += _cross_check(_flat_fields(data, invalid))

    if problems or experiment is None:
        raise UserError(_report(problems, source))
    experiment._source = source
    return experiment


def available() -> list[str]:
    """Names of the experiments in `experiments/`, sorted."""
    return sorted({p.stem for folder in _folders() for p in folder.glob("*.yml")})


def _folders() -> list[Path]:
    """`experiments/` of the working directory, then that of the checkout this file is in."""
    folders = [Path.cwd() / "experiments", paths.EXPERIMENTS]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _find(path_or_name: str) -> Path:
    if "/" in path_or_name or path_or_name.endswith((".yml", ".yaml")):
        return Path(path_or_name)
    names = available()
    if path_or_name in names:
        return next(p for f in _folders() if (p := f / f"{path_or_name}.yml").is_file())
    if not path_or_name:
        guess = ""
    else:
        close = difflib.get_close_matches(path_or_name, names, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(names) if names else "none; there is no experiments/ folder here"
    raise UserError(
        f"there is no experiment {path_or_name!r}.{guess} Available: {listed}. "
        "A file of your own is given by its path, for instance ./mine.yml."
    )


def _shown(path: Path) -> str:
    with suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd().resolve()))
    return str(path)


def _text(path: Path, shown: str) -> str:
    """The file's text, or a UserError that says why there is none."""
    try:
        if path.is_dir():
            raise UserError(f"{shown}: is a folder; an experiment is a .yml file")
        size = path.stat().st_size
        if size > _MAX_FILE_BYTES:
            raise UserError(
                f"{shown}: has {size:,} bytes; an experiment has at most {_MAX_FILE_BYTES:,}"
            )
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{shown}: no such file. Experiments by name: {', '.join(available()) or 'none'}"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{shown}: cannot be read: {reason}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{shown}:{line}: is not UTF-8 (byte 0x{raw[error.start]:02x}); save it as UTF-8"
        ) from None


def _read(path: Path, shown: str) -> tuple[dict[str, Any], dict[str, int], list[_Problem]]:
    """The file as plain data, the line of every field, and the problems of its form."""
    text = _text(path, shown)
    try:
        loader = yaml.SafeLoader(text)
        walk = _Walk(loader)
        data = walk.mapping(_top_mapping(loader, shown), "", 1)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(
            f"{shown}:{line}: holds a character that YAML does not allow ({text[error.position]!r})"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        # The parser's context ("while parsing …") names where the construct began.
        context = f" ({error.context})" if error.context else ""
        raise UserError(f"{shown}:{line}: is not YAML: {error.problem}{context}") from None
    except RecursionError:
        raise UserError(f"{shown}: is nested too deeply to be an experiment") from None
    for name, value in data.items():
        # A section whose every line is commented out is an empty one.
        if value is None and _section(name) is not None:
            data[name] = {}
    return data, walk.lines, walk.problems


def _top_mapping(loader: yaml.SafeLoader, shown: str) -> yaml.MappingNode:
    node = loader.get_single_node()
    if node is None:
        raise UserError(f"{shown}: is empty; see experiments/laptop.yml for what belongs here")
    if not isinstance(node, yaml.MappingNode):
        got = "a list" if isinstance(node, yaml.SequenceNode) else _got(node.value)
        raise UserError(
            f"{shown}:{node.start_mark.line + 1}: must be a mapping "
            f"(name: …, cluster: …, load: …), got {got}"
        )
    return node


class _Walk:
    """YAML nodes to plain data, remembering lines and what yaml would let pass."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self.lines: dict[str, int] = {}
        self.problems: list[_Problem] = []

    def mapping(self, node: yaml.MappingNode, prefix: str, depth: int) -> dict[str, Any]:
        """The fields of one mapping; a key given twice or that is no text is a problem."""
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.endswith(":str"):
                shown = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a list"
                self.problems.append(
                    _Problem(
                        (prefix.rstrip(".") or "(top level)",),
                        f"a field's name must be text, got {shown}; put it in quotes",
                        line,
                    )
                )
                continue
            key = str(key_node.value)
            name = prefix + key
            if key in result:
                self.problems.append(
                    _Problem((name,), f"is given twice, first in line {self.lines[name]}", line)
                )
                continue
            self.lines[name] = line
            result[key] = self._value(value_node, name, depth)
        return result

    def _value(self, node: yaml.Node, name: str, depth: int) -> Any:
        if isinstance(node, yaml.ScalarNode):
            if node.tag == "tag:yaml.org,2002:int" and not _PLAIN_INTEGER.fullmatch(node.value):
                # YAML reads 010 as 8 and 2:00 as 120; nobody who writes that in here means it.
                text = f"write it as a plain number of at most 18 digits, got {_got(node.value)}"
                self.problems.append(_Problem((name,), text))
                return _UNREADABLE
            try:
                return self._loader.construct_object(node)
            except yaml.MarkedYAMLError as error:
                self.problems.append(_Problem((name,), f"cannot be read: {error.problem}"))
            except ValueError as error:  # a date such as 2026-99-99
                self.problems.append(_Problem((name,), f"cannot be read: {error}"))
            return _UNREADABLE
        if depth >= _MAX_DEPTH:
            self.problems.append(_Problem((name,), "is nested too deeply to be an experiment"))
            return _UNREADABLE
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, f"{name}.", depth + 1)
        return [self._value(item, name, depth + 1) for item in node.value]


class _Unreadable:
    """Stands where a value has been reported already."""


_UNREADABLE = _Unreadable()


def _apply(overrides: Overrides, data: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Lay the command line over the file's data; returns Source.command_line and .replaced."""
    command_line: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for name, variable in _OVERRIDES.items():
        given = getattr(overrides, name)
        if given is None or given == "":
            continue
        section = data.setdefault("load", {})
        if not isinstance(section, dict):
            break  # the schema says what is wrong with it
        command_line[f"load.{name}"] = f"{variable}={given}"
        if name in section:
            replaced[f"load.{name}"] = str(section[name])
        section[name] = _as_number(given)
        if name == "duration_s" and "points" in section:
            replaced["load.duration_s"] = f"points: {section.pop('points')}"
    return command_line, replaced


def _as_number(given: float | str) -> float | str:
    """A number where the text is one, otherwise the text for the schema to refuse."""
    if isinstance(given, str):
        text = given.strip()
        if re.fullmatch(r"[+-]?\d{1,18}", text):
            return int(text)
        if re.fullmatch(r"[+-]?(\d{1,18}\.\d*|\.\d+)", text):
            return float(text)
    return given


# ---------------------------------------------------------------- explaining what is wrong


@dataclass(frozen=True)
class _Problem:
    fields: tuple[str, ...]
    """Dotted names it concerns. The message is put where the user can mend it: at the first of
    them that the command line gave, otherwise at the first."""
    text: str
    line: int | None = None


def _report(problems: Iterable[_Problem], source: Source) -> str:
    """One line a problem, in the order of the file, those of the command line first."""
    rows = []
    for problem in problems:
        name = next((n for n in problem.fields if n in source.command_line), problem.fields[0])
        where = source.where(name) if problem.line is None else f"{source.shown}:{problem.line}"
        line = problem.line or source.lines.get(name) or source.lines.get(name.partition(".")[0], 0)
        rows.append(
            (0 if name in source.command_line else 1, line, f"{where}: {name}: {problem.text}")
        )
    return "\n".join(dict.fromkeys(text for _, _, text in sorted(rows)))


def _explain(loc: tuple[int | str, ...], kind: str, value: Any) -> _Problem:
    """One pydantic error as a sentence that says what is allowed."""
    names = [str(part) for part in loc]
    dotted = ".".join(names[:3])
    if kind == "extra_forbidden":
        return _Problem((dotted,), _unknown(names))
    top = Experiment.model_fields[names[0]]
    section = _section(names[0])
    if len(names) == 1 and section is not None:
        fields = ", ".join(section.model_fields)
        allowed = f"a mapping of fields ({fields})"
        if kind == "missing":
            return _Problem((dotted,), f"is missing; it must be {allowed}")
        return _Problem((dotted,), f"must be {allowed}, got {_got(value)}")
    info = top if section is None else section.model_fields[names[1]]
    if len(names) > 2 and isinstance(value, dict | list):  # noqa: PLR2004  (load.tags.x)
        return _Problem((dotted,), f"must be text, got {_got(value)}")
    allowed = "text" if len(names) > 2 else _allowed(info)  # noqa: PLR2004
    if kind == "missing":
        return _Problem((dotted,), f"is missing; it must be {allowed}")
    hint = ""
    if isinstance(value, str):
        choices = _choices(info)
        close = [c for c in choices if value and c.lower().startswith(value.lower())]
        close = close or difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
    elif isinstance(value, bool | int | float) and (len(names) > 2 or _is_text(info)):  # noqa: PLR2004
        hint = "; put it in quotes"
    return _Problem((dotted,), f"must be {allowed}, got {_got(value)}{hint}")


def _unknown(names: list[str]) -> str:
    """What to say about a field nobody knows: a near name here, or its place elsewhere."""
    last = names[-1]
    parent: type[BaseModel] | None = Experiment if len(names) == 1 else _section(names[0])
    known = list(parent.model_fields) if parent else []
    close = difflib.get_close_matches(last, known, n=1, cutoff=0.6)
    if close:
        return f"unknown field; did you mean {close[0]!r}?"
    elsewhere = [
        f"{name}.{last}"
        for name in Experiment.model_fields
        if (section := _section(name)) is not None and last in section.model_fields
    ]
    if elsewhere:
        return f"unknown field here; did you mean {' or '.join(elsewhere)}?"
    return f"unknown field; allowed: {', '.join(known)}"


def _section(name: str) -> type[BaseModel] | None:
    """The model of a section ("load"), None for a plain field ("name")."""
    info = Experiment.model_fields.get(name)
    annotation = info.annotation if info else None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


def _plain(info: FieldInfo) -> Any:
    """A field's type without its `| None`."""
    annotation = info.annotation
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return next(a for a in typing.get_args(annotation) if a is not type(None))
    return annotation


def _is_text(info: FieldInfo) -> bool:
    return _plain(info) is str


def _choices(info: FieldInfo) -> list[str]:
    plain = _plain(info)
    return list(typing.get_args(plain)) if typing.get_origin(plain) is Literal else []


def _allowed(info: FieldInfo) -> str:
    """What a field takes, in words, from its type and bounds."""
    extra = info.json_schema_extra
    if isinstance(extra, dict) and isinstance(extra.get("allowed"), str):
        return str(extra["allowed"])
    choices = _choices(info)
    if choices:
        return f"one of {', '.join(choices)}"
    noun = {int: "a whole number", float: "a number"}.get(_plain(info), "text")
    low = high = ""
    above = False
    for bound in info.metadata:
        if isinstance(bound, annotated_types.Ge):
            low = _number(bound.ge)
        elif isinstance(bound, annotated_types.Gt):
            low, above = _number(bound.gt), True
        elif isinstance(bound, annotated_types.Le):
            high = _number(bound.le)
    if low and high:
        return f"{noun} above {low}, at most {high}" if above else f"{noun} from {low} to {high}"
    if low:
        return f"{noun} {'>' if above else '≥'} {low}"
    return noun


def _number(value: Any) -> str:
    """1234567 as 1,234,567; 0.5 as 0.5; 60.0 as 60."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.15g}"


def _got(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str | float) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


# ---------------------------------------------------------------- checks across fields


def _flat_fields(data: Mapping[str, Any], invalid: set[str]) -> dict[str, Any]:
    """Every valid field by its dotted name: given or default. Invalid ones are left out, so that
    a check which needs one is skipped instead of adding a second message to the first."""
    flat: dict[str, Any] = {}
    for name in Experiment.model_fields:
        section = _section(name)
        if section is None or name in invalid:
            continue
        given = data.get(name, {})
        for key, info in section.model_fields.items():
            dotted = f"{name}.{key}"
            if dotted in invalid or any(i.startswith(f"{dotted}.") for i in invalid):
                continue
            if key in given:
                flat[dotted] = given[key]
            elif not info.is_required():
                flat[dotted] = info.get_default(call_default_factory=True)
    return flat


def _cross_check(values: Mapping[str, Any]) -> list[_Problem]:
    """The problems that only show between fields, or that need more words than a bound."""
    problems: list[_Problem] = []
    for check in _CHECKS:
        with suppress(KeyError):  # a field that it needs is invalid and reported already
            problems += list(check(values))
    return problems


def _check_replicas(values: Mapping[str, Any]) -> Iterator[_Problem]:
    copies, nodes = values["cluster.replication_factor"], values["cluster.storage_nodes"]
    if copies > nodes:
        yield _Problem(
            ("cluster.replication_factor", "cluster.storage_nodes"),
            f"{copies} copies need {copies} storage nodes, but cluster.storage_nodes is {nodes}; "
            f"lower it to ≤ {nodes} or add storage nodes",
        )


def _check_consistency(values: Mapping[str, Any]) -> Iterator[_Problem]:
    copies = values["cluster.replication_factor"]
    for name in ("kairosdb.write_consistency", "kairosdb.read_consistency"):
        level = values.get(name)
        if level is not None and replicas_needed(level, copies) > copies:
            yield _Problem(
                (name,),
                f"{level} needs {replicas_needed(level, copies)} replicas, but "
                f"cluster.replication_factor is {copies}: every request would fail",
            )


def _check_length(values: Mapping[str, Any]) -> Iterator[_Problem]:
    duration, points = values["load.duration_s"], values["load.points"]
    if duration is None and points is None:
        yield _Problem(
            ("load.duration_s",),
            "is missing; give either duration_s (seconds) or points (points of each sensor)",
        )
    elif duration is not None and points is not None:
        yield _Problem(("load.points", "load.duration_s"), "give points or duration_s, not both")


def _check_period(values: Mapping[str, Any]) -> Iterator[_Problem]:
    rate = values["load.rate"]
    if _whole_period_ms(rate) is None:
        lower, higher = _nearby_rates(rate)
        yield _Problem(
            ("load.rate",),
            f"{_number(rate)} points/s is a point every {1000 / rate:,.6g} ms; it must be a whole "
            f"number of ms ≥ {MIN_PERIOD_MS}. Nearby rates that work: {_number(lower)} and "
            f"{_number(higher)}",
        )


def _check_warmup(values: Mapping[str, Any]) -> Iterator[_Problem]:
    rate, warmup = values["load.rate"], values["load.warmup_s"]
    duration, points = values["load.duration_s"], values["load.points"]
    period = _whole_period_ms(rate)
    if period is None or (duration is None) == (points is None):
        return
    ticks = _ticks(duration, points, period)
    if ticks < 1:
        yield _Problem(
            ("load.duration_s", "load.rate"),
            f"{duration} s is shorter than the {period / 1000:g} s between two points of a sensor",
        )
    elif math.ceil(warmup * 1000 / period) >= ticks:
        yield _Problem(
            ("load.warmup_s", "load.duration_s", "load.rate", "load.points"),
            f"the warm-up (load.warmup_s {warmup} s) must be shorter than the run "
            f"({ticks * period / 1000:g} s with it): nothing would be left to measure",
        )


def _check_batches(values: Mapping[str, Any]) -> Iterator[_Problem]:
    batch = values["kairosdb.batch_size"]
    if batch is None:
        return
    if batch < MIN_RETRIED_BATCH:
        yield _Problem(
            ("kairosdb.batch_size",),
            f"must be ≥ {MIN_RETRIED_BATCH}, got {batch}: after a write timeout KairosDB does not "
            "retry a batch of 10 points or fewer, it logs and drops it",
        )
    least = values["kairosdb.min_batch_size"]
    if least is not None and least > batch:
        yield _Problem(
            ("kairosdb.min_batch_size",),
            f"must be ≤ kairosdb.batch_size ({batch}), got {least}: KairosDB would wait before "
            "every batch",
        )


def _check_metric(values: Mapping[str, Any]) -> Iterator[_Problem]:
    metric = values["load.metric"]
    if metric.count("{n}") != 1:
        yield _Problem(
            ("load.metric",),
            f"must have {{n}}, the sensor's number, in it exactly once, got {metric!r}",
        )
        return
    rest = metric.replace("{n}", "")
    if rest and not _LEGAL_NAME.fullmatch(rest):
        yield _Problem(
            ("load.metric",),
            f"{metric!r} holds {_illegal(rest)}; besides {{n}} allowed are {_LEGAL_NAME_WORDS}",
        )


def _check_tags(values: Mapping[str, Any]) -> Iterator[_Problem]:
    tags = values["load.tags"]
    if not tags:
        yield _Problem(
            ("load.tags",),
            "needs at least one tag, for instance {status: good}: KairosDB "
            "refuses a point without any",
        )
    for key, value in tags.items():
        for what, text in (("name", key), ("value", value)):
            if not text:
                yield _Problem((f"load.tags.{key}",), f"the tag's {what} is empty")
            elif not _LEGAL_NAME.fullmatch(text):
                yield _Problem(
                    (f"load.tags.{key}",),
                    f"the tag's {what} {text!r} holds {_illegal(text)}; allowed are "
                    f"{_LEGAL_NAME_WORDS}",
                )


def _check_workers(values: Mapping[str, Any]) -> Iterator[_Problem]:
    workers, sensors = values["load.workers"], values["load.sensors"]
    if workers is not None and workers > sensors:
        yield _Problem(
            ("load.workers", "load.sensors"),
            f"{workers} loader processes for {sensors} sensors leave some without any; "
            "load.workers must be ≤ load.sensors",
        )


def _check_ttl(values: Mapping[str, Any]) -> Iterator[_Problem]:
    ttl, drain = values["storage.ttl_s"], values["limits.drain_s"]
    period = _whole_period_ms(values["load.rate"])
    duration, points = values["load.duration_s"], values["load.points"]
    if ttl == 0 or period is None or (duration is None) == (points is None):
        return
    run = _ticks(duration, points, period) * period / 1000
    least = math.ceil(run + drain + _READ_BACK_S)
    if ttl < least:
        yield _Problem(
            ("storage.ttl_s", "load.duration_s"),
            f"must be 0 or ≥ {least:,} s (run {run:g} + drain {drain:g} + {_READ_BACK_S} to read "
            f"back), got {ttl:,}: points would expire before they are counted",
        )


_READ_BACK_S = 600  # a generous time for reading every point back
_Check = Callable[[Mapping[str, Any]], Iterator[_Problem]]
_CHECKS: tuple[_Check, ...] = (
    _check_replicas,
    _check_consistency,
    _check_length,
    _check_period,
    _check_warmup,
    _check_batches,
    _check_metric,
    _check_tags,
    _check_workers,
    _check_ttl,
)


def replicas_needed(level: str, replication_factor: int) -> int:
    """Replicas that must answer at a consistency level, in one datacenter."""
    fixed = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3, "ALL": replication_factor}
    return fixed.get(level, replication_factor // 2 + 1)


def _illegal(text: str) -> str:
    """The first character of a text that a name may not have, quoted."""
    return repr(next(c for c in text if not _LEGAL_NAME.fullmatch(c)))


def _whole_period_ms(rate: float) -> int | None:
    """1000 / rate if that is a whole number of ms ≥ MIN_PERIOD_MS, else None.

    A rate written with five digits (0.33333) stands for its period (3000 ms).
    """
    exact = 1000 / rate
    period = round(exact)
    return period if period >= MIN_PERIOD_MS and abs(exact - period) <= 1e-5 * exact else None


def _nearby_rates(rate: float) -> tuple[float, float]:
    """The next rates below and above that are short decimals with a whole period."""
    step = 4 if rate < 1 else 3  # decimals of a rate that a person would type
    scale = 10**step
    whole = [r for r in range(1, 10 * scale + 1) if 1000 * scale % r == 0]
    rates = [r / scale for r in whole if 1000 * scale // r >= MIN_PERIOD_MS]
    lower = max((r for r in rates if r < rate), default=rates[0])
    higher = min((r for r in rates if r > rate), default=rates[-1])
    return lower, higher


def _ticks(duration_s: int | None, points: int | None, period_ms: int) -> int:
    if points is not None:
        return points
    assert duration_s is not None, "checked before"  # noqa: S101
    return duration_s * 1000 // period_ms
