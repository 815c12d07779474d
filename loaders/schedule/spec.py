"""What one load run does: the only input of a loader host, and readable as a file."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from loaders.schedule import checks, naming
from loaders.schedule.protocols import CQL, ONE_WAY, PROTOCOLS, REST, SILENT
from loaders.schedule.values import ValueType

LATER: dict[str, Any] = {"connection_per_request": False, "store": None, "path": "", "partly": ""}
"""Fields that specifications of earlier runs do not have, and what they did."""
LATER_OF_QUERIES: dict[str, Any] = {"followed": 0}
"""The same of their queries."""

SPREAD, ALIGNED = "spread", "aligned"
PACINGS = (SPREAD, ALIGNED)

# KairosDB cuts telnet lines at blanks, tags at "=", takes quotes off, and reads Latin-1.
_TELNET_NAME = re.compile(r"[!#-<>-~]+")


@dataclasses.dataclass(frozen=True)
class Step:
    """A part of the schedule at one rate: `ticks` points of each sensor, `period_ms` apart."""

    period_ms: int
    ticks: int


@dataclasses.dataclass(frozen=True)
class Queries:
    """Reads beside the writes.

    Fields:
        rate: queries a second of the whole run.
        last_s: span of time that a query asks for.
        lag_s: how old a point must be before it is expected in an answer.
        sensors: random sensors in one query for raw points.
        bucket_s: length of a bucket in queries that aggregate; divides last_s.
        followed: sensors of each loader host that are asked for again and again beside those
            (`loaders.schedule.follow`); 0 for none, as in runs of before.
    """

    rate: float
    last_s: int
    lag_s: int
    sensors: int
    bucket_s: int
    followed: int = 0


@dataclasses.dataclass(frozen=True)
class Store:
    """KairosDB's store, for a protocol that goes past KairosDB.

    Fields:
        contacts: "host:port" of its nodes.
        keyspace: KairosDB's.
        consistency: of writes, such as "QUORUM".
        ttl_s: time to live of points; 0 for ever.
        batch_points: most points in a batch.
    """

    contacts: list[str]
    keyspace: str
    consistency: str
    ttl_s: int
    batch_points: int


@dataclasses.dataclass(frozen=True)
class LoadSpec:
    """The whole load of one run: every worker gets the same spec and takes its share.

    A *tick* is the n-th point of a sensor. Fields (units in the names):
        sensors: how many send at a time; each is one series.
        steps: rates one after the other; one step for a constant rate.
        warmup_ticks: the first ticks, kept out of the measured latencies.
        ramp_ticks: within the first so many ticks groups of sensors join one after the other;
            0 for all at once.
        lifetime_ticks: a sensor sends so many points, and then a new one, which is a new series,
            takes its place; 0 for ever.
        start_ms: epoch milliseconds of tick 0.
        pacing: "spread" (each group of sensors has its own phase in the period) or "aligned" (all
            points of a tick have the same timestamp, and are due then).
        jitter_ms: a request is due up to so much after its nominal time; timestamps stay.
        seed: of the jitter and of the queries' choices.
        replay: the schedule is history, sent as fast as it is acknowledged: at most
            connections_per_node requests of a worker are under way to a node.
        replay_queue_points: most points waiting in a KairosDB node's queue while replaying;
            0 for not looking.
        nodes: base URLs of the KairosDB nodes, such as "http://127.0.0.1:8080".
        telnet: "host:port" of the same nodes; may be empty unless the protocol is one of SILENT.
        protocol: one of PROTOCOLS.
        hosts: loader hosts.
        workers_per_host: worker processes of each.
        metric: pattern of the metric name; see `loaders.schedule.naming`.
        tags: tags of every point, values are patterns; KairosDB wants at least one tag.
        value_type: "long", "double" or "string".
        sensors_per_request: most sensors that share one request.
        points_per_request: consecutive points of each of them that travel together; the request is
            due when the last of them is.
        request_timeout_s: time limit of one attempt, from having a connection to the answer.
        retry_for_s: how long a request is tried again, from its planned time.
        failover_after_s: a node that was asked and has not answered for so long, while another
            one does, is down: its sensors go to the others until it answers again.
        latency_limit_ms: an acknowledgement later than this after its point's planned time is not
            in time.
        connections_per_node: most connections of one worker to one KairosDB node.
        connection_per_request: each request has a connection of its own, which is ended behind it;
            by protocols that are one way alone.
        path: where requests by HTTP go, with their query; "" for the protocol's own.
        partly: what a refusal (4xx) says where other points of its request were taken; "" where
            none does, or the protocol knows.
        queries: reads beside the writes, or None.
        store: that is under the nodes; by CQL alone.

    Raises:
        ValueError: a value makes no sense; the message starts with the field's name.
    """

    sensors: int
    steps: list[Step]
    warmup_ticks: int
    start_ms: int
    nodes: list[str]
    metric: str
    tags: dict[str, str]
    sensors_per_request: int
    request_timeout_s: float
    retry_for_s: float
    latency_limit_ms: float
    connections_per_node: int
    ramp_ticks: int = 0
    lifetime_ticks: int = 0
    pacing: str = SPREAD
    jitter_ms: int = 0
    seed: int = 0
    replay: bool = False
    replay_queue_points: int = 0
    telnet: list[str] = dataclasses.field(default_factory=list)
    protocol: str = REST
    hosts: int = 1
    workers_per_host: int = 1
    value_type: str = ValueType.LONG.value
    points_per_request: int = 1
    failover_after_s: float = 5.0
    connection_per_request: bool = False
    path: str = ""
    partly: str = ""
    queries: Queries | None = None
    store: Store | None = None

    def __post_init__(self) -> None:
        """Refuse bad values here, so that no LoadSpec object is ever wrong."""
        for name, check in _CHECKS.items():
            problem = check(getattr(self, name))
            if problem:
                raise ValueError(f"{name}: {problem}, not {getattr(self, name)!r}")
        for problem in _contradictions(self):
            raise ValueError(problem)

    @property
    def ticks(self) -> int:
        """Points of a sensor that sends from start to end."""
        return sum(step.ticks for step in self.steps)

    @property
    def duration_ms(self) -> int:
        """Length of the schedule, warm-up included."""
        return sum(step.ticks * step.period_ms for step in self.steps)

    @property
    def duration_s(self) -> float:
        """Length of the schedule in seconds, warm-up included."""
        return self.duration_ms / 1000

    @property
    def end_ms(self) -> int:
        """Epoch milliseconds of the end of the schedule: one period after the last tick's start."""
        return self.start_ms + self.duration_ms

    @property
    def workers(self) -> int:
        """Worker processes of all hosts together."""
        return self.hosts * self.workers_per_host

    @property
    def acknowledges(self) -> bool:
        """Whether the server says that it has a point."""
        return self.protocol not in SILENT

    def cut_at(self, ms: int) -> LoadSpec:
        """The same load, ended at its first tick from `ms` (epoch) on; itself if there is none.

        Never before warm-up and ramp are over, and never within what travels together.
        """
        before, start_ms = 0, self.start_ms
        for step in self.steps:
            before += min(max(0, -(-(ms - start_ms) // step.period_ms)), step.ticks)
            start_ms += step.ticks * step.period_ms
        least = max(before, self.warmup_ticks + 1, self.ramp_ticks + 1)
        return self.cut_to(-(-least // self.points_per_request) * self.points_per_request)

    def cut_to(self, ticks: int) -> LoadSpec:
        """The same load with its first `ticks` alone; itself if it has no more."""
        steps: list[Step] = []
        for step in self.steps:
            if ticks > 0:
                steps.append(Step(step.period_ms, min(step.ticks, ticks)))
            ticks -= step.ticks
        return self if ticks >= 0 else dataclasses.replace(self, steps=steps)

    def metric_name(self, series: int) -> str:
        """Metric name of a series (0-based number), such as "SENSOR_7"."""
        return naming.expand(self.metric, series)

    def tags_of(self, series: int) -> dict[str, str]:
        """Tags of a series."""
        return {name: naming.expand(value, series) for name, value in self.tags.items()}

    def to_json(self) -> str:
        """Return the spec as a JSON object, one field a line."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> LoadSpec:
        """Read what `to_json` wrote.

        Raises:
            ValueError: not JSON, a field is missing, unknown or has a bad value; the message
                names the field.
        """
        given = json.loads(text)
        if isinstance(given, dict):
            given = LATER | given
        data = _fields("load spec", LoadSpec, given)
        if not isinstance(data["steps"], list):
            raise ValueError(f"steps: must be a list, not {data['steps']!r}")
        data["steps"] = [Step(**_fields("steps", Step, step)) for step in data["steps"]]
        if data["queries"] is not None:
            queries = data["queries"]
            if isinstance(queries, dict):
                queries = LATER_OF_QUERIES | queries
            data["queries"] = Queries(**_fields("queries", Queries, queries))
        if data["store"] is not None:
            data["store"] = Store(**_fields("store", Store, data["store"]))
        return cls(**data)


def _fields(what: str, kind: type[Any], data: Any) -> dict[str, Any]:
    """The fields of a dataclass from JSON: all of them and no other."""
    if not isinstance(data, dict):
        raise ValueError(f"{what}: must be a JSON object, not {type(data).__name__}")
    known = [field.name for field in dataclasses.fields(kind)]
    for name in data:
        if name not in known:
            raise ValueError(f"{name}: unknown field of a {kind.__name__}")
    for name in known:
        if name not in data:
            raise ValueError(f"{name}: missing from the {kind.__name__}")
    return data


def _contradictions(spec: LoadSpec) -> list[str]:
    """What is wrong between fields that are right each for itself."""
    problems = []

    def refuse(when: bool, text: str) -> None:
        if when:
            problems.append(text)

    ticks, together = spec.ticks, spec.points_per_request
    refuse(
        spec.warmup_ticks >= ticks,
        f"warmup_ticks: must be less than ticks ({ticks}), not {spec.warmup_ticks}",
    )
    refuse(
        spec.ramp_ticks >= ticks,
        f"ramp_ticks: must be less than ticks ({ticks}), not {spec.ramp_ticks}",
    )
    refuse(
        spec.end_ms >= checks.BEYOND_MS,
        f"steps: the schedule would end beyond any date ({ticks} points from {spec.start_ms})",
    )
    refuse(
        spec.lifetime_ticks % together != 0,
        f"lifetime_ticks: must be a multiple of points_per_request ({together}), not "
        f"{spec.lifetime_ticks}",
    )
    refuse(
        not naming.tells_apart([spec.metric, *spec.tags.values()]),
        'metric: the metric or a tag must have "{n}" in it, or all sensors would be one series',
    )
    refuse(
        not spec.acknowledges and len(spec.telnet) != len(spec.nodes),
        f"telnet: {spec.protocol} needs an address for each of the {len(spec.nodes)} nodes, not "
        f"{len(spec.telnet)}",
    )
    refuse(
        spec.connection_per_request and spec.protocol not in ONE_WAY,
        f"connection_per_request: {spec.protocol} keeps its connections",
    )
    refuse(
        (spec.protocol == CQL) is (spec.store is None),
        f"store: {spec.protocol} {'needs it' if spec.store is None else 'does not go there'}",
    )
    names = [spec.metric, *spec.tags, *spec.tags.values()]
    refuse(
        not spec.acknowledges and not all(map(_TELNET_NAME.fullmatch, names)),
        f"tags: over {spec.protocol} metric and tags may only have visible ASCII characters, "
        'and neither "=" nor quotes',
    )
    refuse(
        spec.replay and (spec.jitter_ms > 0 or spec.queries is not None),
        "replay: history has neither jitter nor queries beside it",
    )
    shortest_ms = min(step.period_ms for step in spec.steps)
    refuse(
        spec.jitter_ms > shortest_ms,
        f"jitter_ms: must be at most the period ({shortest_ms}), not {spec.jitter_ms}",
    )
    return problems


def _steps(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return "must be a list of at least one step"
    whole = checks.integer(1)
    for step in value:
        if not isinstance(step, Step) or whole(step.period_ms) or whole(step.ticks):
            return "must be steps of period_ms and ticks, whole numbers of at least 1"
    return ""


def _queries(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, Queries) or checks.number(0, excluded=True)(value.rate):
        return "must have a rate above 0"
    if any(checks.integer(1)(number) for number in (value.last_s, value.sensors, value.bucket_s)):
        return "must have whole numbers of at least 1 for last_s, sensors and bucket_s"
    if checks.integer(0)(value.lag_s) or value.last_s % value.bucket_s:
        return "must have a lag_s of at least 0 and a last_s that is a multiple of bucket_s"
    if checks.integer(0)(value.followed):
        return "must have a whole number of at least 0 for followed"
    return ""


def _store(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, Store) or not value.contacts or checks.addresses(value.contacts):
        return 'must have contacts such as "127.0.0.1:9042"'
    if not all(isinstance(text, str) and text for text in (value.keyspace, value.consistency)):
        return "must have a keyspace and a consistency"
    if checks.integer(0)(value.ttl_s) or checks.integer(1)(value.batch_points):
        return "must have whole numbers of at least 0 for ttl_s and 1 for batch_points"
    return ""


_CHECKS: dict[str, checks.Check] = {
    "sensors": checks.integer(1),
    "steps": _steps,
    "warmup_ticks": checks.integer(0),
    "ramp_ticks": checks.integer(0),
    "lifetime_ticks": checks.integer(0),
    "start_ms": checks.start,
    "pacing": checks.one_of(*PACINGS),
    "jitter_ms": checks.integer(0),
    "seed": checks.integer(0),
    "replay": checks.flag,
    "replay_queue_points": checks.integer(0),
    "nodes": checks.nodes,
    "telnet": checks.addresses,
    "protocol": checks.one_of(*PROTOCOLS),
    "hosts": checks.integer(1),
    "workers_per_host": checks.integer(1),
    "metric": checks.metric,
    "tags": checks.tags,
    "value_type": checks.one_of(*(kind.value for kind in ValueType)),
    "sensors_per_request": checks.integer(1),
    "points_per_request": checks.integer(1),
    "request_timeout_s": checks.number(0, excluded=True),
    "retry_for_s": checks.number(0),
    "failover_after_s": checks.number(0, excluded=True),
    "latency_limit_ms": checks.number(0, excluded=True),
    "connections_per_node": checks.integer(1),
    "connection_per_request": checks.flag,
    "path": checks.path,
    "partly": checks.text,
    "queries": _queries,
    "store": _store,
}
