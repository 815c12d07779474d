"""What one load run does: the only input of a worker, and readable as a file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

# Timestamps travel through JSON, where integers are exact up to here only.
_MAX_JSON_INTEGER = 2**53


@dataclasses.dataclass(frozen=True)
class LoadSpec:
    """The whole load of one run: every worker gets the same spec and takes its share.

    Fields (units in the names):
        sensors: number of sensors, one series each; sensor i has the metric name
            `metric` with "{n}" replaced by i.
        period_ms: time between two points of one sensor.
        ticks: points per sensor, warm-up included.
        warmup_ticks: the first ticks, kept out of the measured latencies.
        start_ms: epoch milliseconds of tick 0.
        nodes: base URLs of the KairosDB nodes, such as "http://127.0.0.1:8080".
        workers: number of worker processes.
        metric: pattern of the metric name, with "{n}" in it.
        tags: tags of every point; KairosDB wants at least one.
        sensors_per_request: most sensors that share one request.
        request_timeout_s: time limit of one attempt, from having a connection to the answer.
        retry_for_s: how long a request is tried again, from its planned time.
        latency_limit_ms: an acknowledgement later than the end of the schedule plus this
            is not in time.
        connections_per_node: most connections of one worker to one KairosDB node.

    Raises:
        ValueError: a value makes no sense; the message starts with the field's name.
    """

    sensors: int
    period_ms: int
    ticks: int
    warmup_ticks: int
    start_ms: int
    nodes: list[str]
    workers: int
    metric: str
    tags: dict[str, str]
    sensors_per_request: int
    request_timeout_s: float
    retry_for_s: float
    latency_limit_ms: float
    connections_per_node: int

    def __post_init__(self) -> None:
        """Refuse bad values here, so that no LoadSpec object is ever wrong."""
        for name, check in _CHECKS.items():
            problem = check(getattr(self, name))
            if problem:
                raise ValueError(f"{name}: {problem}, not {getattr(self, name)!r}")
        if self.warmup_ticks >= self.ticks:
            raise ValueError(
                f"warmup_ticks: must be less than ticks ({self.ticks}), not {self.warmup_ticks}"
            )
        if self.end_ms >= _MAX_JSON_INTEGER:
            raise ValueError(
                f"ticks: the schedule would end beyond any date ({self.ticks} × {self.period_ms} ms"
                f" from {self.start_ms})"
            )

    @property
    def end_ms(self) -> int:
        """Epoch milliseconds of the end of the schedule: one period after the last tick's start."""
        return self.start_ms + self.ticks * self.period_ms

    @property
    def duration_s(self) -> float:
        """Length of the schedule in seconds, warm-up included."""
        return self.ticks * self.period_ms / 1000

    @property
    def points(self) -> int:
        """Data points of the whole schedule, over all sensors and workers."""
        return self.sensors * self.ticks

    def metric_name(self, sensor: int) -> str:
        """Metric name of a sensor (0-based), such as "SENSOR_7"."""
        return self.metric.replace("{n}", str(sensor))

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
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError(f"load spec: must be a JSON object, not {type(data).__name__}")
        known = [field.name for field in dataclasses.fields(cls)]
        for name in data:
            if name not in known:
                raise ValueError(f"{name}: unknown field of a load spec")
        for name in known:
            if name not in data:
                raise ValueError(f"{name}: missing from the load spec")
        return cls(**data)


# A check returns what is wrong with a value, or "".
_Check = Callable[[Any], str]


def _integer(at_least: int) -> _Check:
    def check(value: Any) -> str:
        # bool is an int in Python, but "sensors: true" is a mistake.
        good = isinstance(value, int) and not isinstance(value, bool)
        if good and at_least <= value < _MAX_JSON_INTEGER:
            return ""
        return f"must be a whole number of at least {at_least}"

    return check


def _number(at_least: float, *, excluded: bool = False) -> _Check:
    def check(value: Any) -> str:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if good and math.isfinite(value) and (value > at_least if excluded else value >= at_least):
            return ""
        return f"must be a number {'above' if excluded else 'of at least'} {at_least:g}"

    return check


def _nodes(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return "must be a list of at least one base URL"
    problem = next(filter(None, map(_node, value)), "")
    if not problem and len(set(value)) != len(value):
        return "must name each KairosDB node once"
    return problem


def _node(url: Any) -> str:
    example = 'must be base URLs such as "http://127.0.0.1:8080"'
    if not isinstance(url, str):
        return example
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # reading the port checks it
    except ValueError as error:
        return f"{example} ({error})"
    bare = parts.path in ("", "/") and not parts.query and not parts.fragment
    return "" if parts.scheme in ("http", "https") and host and bare else example


def _metric(value: Any) -> str:
    if isinstance(value, str) and "{n}" in value:
        return ""
    return 'must be a name with "{n}" for the number of the sensor'


def _tags(value: Any) -> str:
    texts = isinstance(value, dict) and all(
        isinstance(text, str) and text for item in value.items() for text in item
    )
    return "" if texts and value else "must be at least one tag, names and values not empty"


_CHECKS: dict[str, _Check] = {
    "sensors": _integer(1),
    "period_ms": _integer(1),
    "ticks": _integer(1),
    "warmup_ticks": _integer(0),
    "start_ms": _integer(0),
    "nodes": _nodes,
    "workers": _integer(1),
    "metric": _metric,
    "tags": _tags,
    "sensors_per_request": _integer(1),
    "request_timeout_s": _number(0, excluded=True),
    "retry_for_s": _number(0),
    "latency_limit_ms": _number(0, excluded=True),
    "connections_per_node": _integer(1),
}
