"""The section `load`: what the emulated sensors send, and how."""

from typing import Literal

from kairoscope.experiment import timing
from kairoscope.experiment.schema.section import Section, described

LEGAL_NAME_WORDS = "letters, digits and - _ . /"
"""What KairosDB takes in metric names and tags."""
MAX_NAME = 200
"""Most characters of a metric's or tag's pattern; a row key repeats them for every series."""


class Step(Section):
    """One of several rates: how fast, and for how long."""

    rate: float = described(
        "points/s",
        "Points a second of each sensor, as load.rate.",
        ge=0.001,
        le=1000 / timing.MIN_PERIOD_MS,
    )
    duration_s: int = described("s", "Length of the step.", ge=1, le=2_592_000)


class Load(Section):
    """What the emulated sensors send, and how."""

    sensors: int = described(
        "sensors",
        "Emulated devices that send at a time; each is one series of its own.",
        ge=1,
        le=10_000_000,
    )
    rate: float | None = described(
        "points/s",
        "Points a second of each sensor; 1 as in 2018. 1000 / rate must be a whole number of "
        f"milliseconds, at least {timing.MIN_PERIOD_MS}.",
        absent=f"{timing.DEFAULT_RATE:g}, or `steps`",
        default=None,
        ge=0.001,
        le=1000 / timing.MIN_PERIOD_MS,
    )
    duration_s: int | None = described(
        "s",
        "Length of the load with its warm-up. This, points or steps.",
        absent="one of the three",
        default=None,
        ge=1,
        le=2_592_000,
    )
    points: int | None = described(
        "points",
        "Points of each sensor. This, duration_s or steps.",
        absent="one of the three",
        default=None,
        ge=1,
        le=10_000_000,
    )
    steps: list[Step] | None = described(
        "",
        "Rates one after the other, each {rate: …, duration_s: …}, in place of rate and "
        "duration_s: where it stops to be sustained is seen in one run. What is planned for is the "
        "highest rate.",
        allowed="a list of 1 to 100 steps such as {rate: 2, duration_s: 60}",
        absent="one of the three",
        default=None,
        min_length=1,
        max_length=100,
    )
    warmup_s: int | None = described(
        "s",
        "Start of the load that is sent and accounted for but left out of latency figures: Java "
        "compiles its hot paths and every series is indexed for the first time.",
        absent=f"{timing.DEFAULT_WARMUP_S}; 0 with `replay`",
        default=None,
        ge=0,
        le=86_400,
    )
    ramp_s: int = described(
        "s",
        "Start of the load in which the sensors join one group after the other, evenly; 0 for all "
        "at once. At most warmup_s, so that what is measured is at the full rate.",
        default=0,
        ge=0,
        le=86_400,
    )
    lifetime_s: int | None = described(
        "s",
        "Churn: a sensor sends for so long, then a new one, which is a new series, takes its "
        "place. A whole number of the periods between two points.",
        absent="for ever",
        default=None,
        ge=1,
        le=2_592_000,
    )
    pacing: Literal["spread", "aligned"] = described(
        "",
        "spread: each group of sensors has its own moment in the period, as devices that know "
        "nothing of each other. aligned: all send at the same moment with the same timestamp, as "
        "in 2018.",
        default="spread",
    )
    jitter_ms: int = described(
        "ms",
        "Each request is due up to so much after its moment, at random; timestamps stay. At most "
        "the (shortest) period.",
        default=0,
        ge=0,
        le=1_000_000,
    )
    seed: int = described(
        "",
        "Of everything random: the jitter, and what queries ask for. The same seed makes the same "
        "choices.",
        default=0,
        ge=0,
        le=2**31 - 1,
    )
    replay: bool = described(
        "",
        "The schedule is history that ends now, loaded as fast as KairosDB acknowledges it: to "
        "fill a store, not to judge latency.",
        default=False,
    )
    replay_queue_points: int = described(
        "points",
        "Replay pauses while a KairosDB node's queue holds more; about a page of its queue file. 0 "
        "for not looking.",
        default=500_000,
        ge=0,
        le=1_000_000_000,
    )
    protocol: Literal[
        "rest",
        "rest-gzip",
        "telnet-put",
        "telnet-putm",
        "line",
        "remote-write",
        "plaintext",
        "pickle",
        "measures",
        "cql",
    ] = described(
        "",
        "How points travel. KairosDB's REST acknowledges them (204); its telnet, as in 2018, does "
        "not; cql goes past KairosDB into its store, which acknowledges. Of other stacks "
        "(docs/systems.md): line and remote-write by HTTP, which acknowledge (204), plaintext and "
        "pickle, which do not, measures by REST, which does (202).",
        default="rest",
    )
    connection_per_request: bool = described(
        "",
        "A connection for each request, which is ended behind it, as agents have it that send what "
        "they gathered every few seconds. By plaintext and pickle alone; others keep theirs.",
        default=False,
    )
    workers: int | None = described(
        "processes",
        "Loader processes of all loader hosts together, a multiple of cluster.loader_hosts. "
        "Derived from points/s if absent.",
        default=None,
        ge=1,
        le=512,
    )
    sensors_per_request: int = described(
        "sensors",
        "Sensors whose points travel in one request. The 2018 loaders sent one by one, which "
        "measures HTTP rather than the store; 100 points are about 10 kB of JSON.",
        default=100,
        ge=1,
        le=10_000,
    )
    points_per_request: int = described(
        "points",
        "Consecutive points of each of them that travel together, as from devices that buffer; a "
        "request is due when its last point is.",
        default=1,
        ge=1,
        le=10_000,
    )
    metric: str = described(
        "",
        "Metric name of series n. {n} is its number, {n%K} the number modulo K, which gives K "
        "different names.",
        allowed=f"text of at most {MAX_NAME} {LEGAL_NAME_WORDS}, with {{n}} or {{n%K}} in it",
        default="SENSOR_{n}",
        min_length=1,
        max_length=MAX_NAME,
    )
    tags: dict[str, str] = described(
        "",
        "Tags of every point; KairosDB refuses a point without any. Values may hold {n} and {n%K} "
        "as metric does; the metric or a tag must have {n}, so that every sensor is a series of "
        "its own.",
        allowed="a mapping of at least one tag name to its value, both text",
        default_factory=lambda: {"status": "good"},
    )
    value_type: Literal["long", "double", "string"] = described(
        "", "Type of the values as KairosDB stores them.", default="long"
    )
    request_timeout_s: float = described(
        "s",
        "How long one attempt waits for its answer; well above the latency limit, so that a slow "
        "answer is measured and not cut off.",
        default=10.0,
        gt=0,
        le=600,
    )
    retry_for_s: float = described(
        "s",
        "How long after its planned time a request is still retried; a restarted KairosDB node is "
        "back well within a minute.",
        default=60.0,
        ge=0,
        le=3600,
    )
    failover_after_s: float = described(
        "s",
        "A KairosDB node that has not answered a worker at all for so long is down for it: its "
        "sensors go to the others until it answers a probe again.",
        default=5.0,
        gt=0,
        le=3600,
    )
    connections_per_node: int | None = described(
        "connections",
        "Connections of one worker to one KairosDB node at most, opened as they are needed; "
        "requests beyond them wait, which counts as latency and is measured for itself. Telnet has "
        "one connection to a node: there, requests whose lines are not all with the kernel.",
        default=None,
        ge=1,
        le=2000,
    )

    @property
    def steps_resolved(self) -> timing.Steps:
        """(period in ms, ticks) of each step; one where the rate is constant."""
        steps = [(step.rate, step.duration_s) for step in self.steps] if self.steps else None
        return timing.resolve(self.rate, self.duration_s, self.points, steps)

    @property
    def period_ms(self) -> int:
        """Whole milliseconds between two points of a sensor, in the first step."""
        return self.steps_resolved[0][0]

    @property
    def shortest_period_ms(self) -> int:
        """The same in the step with the highest rate."""
        return min(period for period, _ in self.steps_resolved)

    @property
    def ticks(self) -> int:
        """Points of each sensor, those of the warm-up included; whole periods only."""
        return sum(ticks for _, ticks in self.steps_resolved)

    @property
    def warmup_resolved_s(self) -> int:
        """Seconds of warm-up, given or not."""
        return timing.warmup_s(self.warmup_s, self.replay)

    @property
    def warmup_ticks(self) -> int:
        """The first points of each sensor that do not count for latency."""
        return timing.ticks_within(self.steps_resolved, self.warmup_resolved_s)

    @property
    def ramp_ticks(self) -> int:
        """The first points within which the sensors join; never more than the warm-up's."""
        return timing.ticks_within(self.steps_resolved, self.ramp_s)

    @property
    def lifetime_ticks(self) -> int:
        """Points of a sensor after which a new one takes its place; 0 for never."""
        return (self.lifetime_s or 0) * 1000 // self.period_ms
