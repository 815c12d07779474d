"""What must hold between the fields of an experiment, or needs more words than a bound."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from kairoscope.experiment import faults, timing
from kairoscope.experiment.problems import Problem, got
from kairoscope.experiment.schema.kairosdb import replicas_needed
from kairoscope.experiment.schema.load import LEGAL_NAME_WORDS, MAX_NAME
from loaders.schedule import naming
from loaders.schedule.protocols import ONE_WAY, SILENT

MIN_RETRIED_BATCH = 11
"""KairosDB gives up a batch whose write timed out once its limit is at 10 points or fewer."""
QUEUE_SETTINGS = {
    "stock": ("min_batch_size", "min_batch_wait_ms", "ingest_threads", "memory_queue_size"),
    "coalescing": (
        *("queue_window_ms", "queue_memory_mb", "queue_batch_kib", "queue_in_flight"),
        *("queue_disk_mb", "queue_disk_free_mb", "queue_keep_s", "queue_sync_ms"),
        "queue_new_series_per_s",
    ),
}
"""Fields of the section kairosdb that one of the two queues knows and the other does not."""
READ_BACK_S = 600
"""A generous time for reading every point back."""
MAX_REQUEST_POINTS = 100_000
"""Points of one request; about 10 MB of JSON, which KairosDB takes apart in memory."""

Values = Mapping[str, Any]
"""Fields by their dotted names, without those that are invalid already."""

_LEGAL_NAME = re.compile(r"[A-Za-z0-9_./-]+")


def check(values: Values) -> list[Problem]:
    """The problems that only show between fields, or that need more words than a bound."""
    problems: list[Problem] = []
    for cross_check in _CHECKS:
        with suppress(KeyError):  # a field that it needs is invalid and reported already
            problems += list(cross_check(values))
    return problems


def _check_replicas(values: Values) -> Iterator[Problem]:
    copies, nodes = values["cluster.replication_factor"], values["cluster.storage_nodes"]
    if copies > nodes:
        yield Problem(
            ("cluster.replication_factor", "cluster.storage_nodes"),
            f"{copies} copies need {copies} storage nodes, but cluster.storage_nodes is {nodes}; "
            f"lower it to ≤ {nodes} or add storage nodes",
        )


def _check_consistency(values: Values) -> Iterator[Problem]:
    copies = values["cluster.replication_factor"]
    for name in ("kairosdb.write_consistency", "kairosdb.read_consistency"):
        level = values.get(name)
        if level is not None and (needed := replicas_needed(level, copies)) > copies:
            yield Problem(
                (name,),
                f"{level} needs {needed} replicas, but "
                f"cluster.replication_factor is {copies}: every request would fail",
            )


def _check_length(values: Values) -> Iterator[Problem]:
    duration, points = values["load.duration_s"], values["load.points"]
    if values["load.steps"] is not None:
        for name in ("load.rate", "load.duration_s", "load.points"):
            if values[name] is not None:
                yield Problem(
                    (name, "load.steps"),
                    "cannot be combined with load.steps, in which each step has a rate and a "
                    "duration of its own; drop this or load.steps",
                )
    elif duration is None and points is None:
        yield Problem(
            ("load.duration_s",),
            "is missing; give either duration_s (seconds), points (points of each sensor) or "
            "steps (rates one after the other)",
        )
    elif duration is not None and points is not None:
        yield Problem(("load.points", "load.duration_s"), "give points or duration_s, not both")


def _check_period(values: Values) -> Iterator[Problem]:
    for name, rate in _rates(values):
        if timing.whole_period_ms(rate) is None:
            lower, higher = timing.nearby_rates(rate)
            yield Problem(
                (name,),
                f"{rate:.15g} points/s is a point every {1000 / rate:,.6g} ms; it must be a whole "
                f"number of ms ≥ {timing.MIN_PERIOD_MS}. Nearby rates that work: {lower:.15g} and "
                f"{higher:.15g}",
            )


def _rates(values: Values) -> Iterator[tuple[str, float]]:
    """Every rate of the load, with the name of its field."""
    steps, rate = values["load.steps"], values["load.rate"]
    if steps is None:
        yield "load.rate", timing.DEFAULT_RATE if rate is None else rate
    else:
        for number, step in enumerate(steps, 1):
            yield f"load.steps[{number}].rate", step["rate"]


def _resolved(values: Values) -> timing.Steps | None:
    """Periods and ticks of the load; None where another check refuses what they come from."""
    rate, steps = values["load.rate"], values["load.steps"]
    lengths = (values["load.duration_s"], values["load.points"], steps)
    if sum(length is not None for length in lengths) != 1 or (steps and rate is not None):
        return None
    if any(timing.whole_period_ms(each) is None for _, each in _rates(values)):
        return None
    given = [(step["rate"], step["duration_s"]) for step in steps] if steps else None
    found = timing.resolve(rate, *lengths[:2], given)
    return found if all(ticks > 0 for _, ticks in found) else None


def _check_durations(values: Values) -> Iterator[Problem]:
    steps, duration = values["load.steps"], values["load.duration_s"]
    names: list[tuple[str, ...]] = [("load.duration_s", "load.rate")]
    seconds = [duration]
    if steps is not None:
        names = [(f"load.steps[{number}].duration_s",) for number in range(1, len(steps) + 1)]
        seconds = [step["duration_s"] for step in steps]
    for fields, length, (_, rate) in zip(names, seconds, _rates(values), strict=True):
        period = timing.whole_period_ms(rate)
        if length is not None and period is not None and length * 1000 < period:
            yield Problem(
                fields,
                f"{length} s is shorter than the {period / 1000:g} s between two points of a "
                "sensor",
            )


def _check_warmup(values: Values) -> Iterator[Problem]:
    steps = _resolved(values)
    if steps is None:
        return
    warmup = timing.warmup_s(values["load.warmup_s"], values["load.replay"])
    if timing.ticks_within(steps, warmup) >= sum(ticks for _, ticks in steps):
        yield Problem(
            ("load.warmup_s", "load.duration_s", "load.rate", "load.points", "load.steps"),
            f"the warm-up (load.warmup_s {warmup} s) must be shorter than the run "
            f"({timing.length_ms(steps) / 1000:g} s with it): nothing would be left to measure",
        )


def _check_ramp(values: Values) -> Iterator[Problem]:
    ramp, replay = values["load.ramp_s"], values["load.replay"]
    warmup = timing.warmup_s(values["load.warmup_s"], replay)
    if ramp > warmup and not replay:
        yield Problem(
            ("load.ramp_s", "load.warmup_s"),
            f"must be ≤ load.warmup_s ({warmup}), got {ramp}: while sensors still join, the rate "
            "is below the target, and that must not be measured. Lower ramp_s or raise warmup_s",
        )


def _check_jitter(values: Values) -> Iterator[Problem]:
    jitter, steps = values["load.jitter_ms"], _resolved(values)
    if steps is not None and jitter > (shortest := min(period for period, _ in steps)):
        yield Problem(
            ("load.jitter_ms", "load.rate"),
            f"load.jitter_ms must be ≤ {shortest:,}, the ms between two points of a sensor (at "
            f"the highest rate), got {jitter:,}",
        )


def _check_lifetime(values: Values) -> Iterator[Problem]:
    lifetime, steps = values["load.lifetime_s"], _resolved(values)
    together = values["load.points_per_request"]
    if lifetime is None or steps is None:
        return
    periods = {period for period, _ in steps}
    period = min(periods)
    if len(periods) > 1:
        yield Problem(
            ("load.lifetime_s", "load.steps"),
            "needs one rate: a sensor's lifetime is a number of points, which load.steps of "
            "several rates would stretch; drop lifetime_s, or give the steps one rate",
        )
    elif lifetime * 1000 % period:
        yield Problem(
            ("load.lifetime_s", "load.rate"),
            f"load.lifetime_s must be a multiple of the {period / 1000:g} s between two points of "
            f"a sensor, got {lifetime}",
        )
    elif lifetime * 1000 // period % together:
        yield Problem(
            ("load.lifetime_s", "load.points_per_request", "load.rate"),
            f"load.lifetime_s {lifetime} is {lifetime * 1000 // period:,} points of a sensor, "
            f"which must be a multiple of load.points_per_request ({together:,}): a request "
            "cannot hold points of a sensor and of its successor",
        )


def _check_request_size(values: Values) -> Iterator[Problem]:
    sensors, points = values["load.sensors_per_request"], values["load.points_per_request"]
    if sensors * points > MAX_REQUEST_POINTS:
        yield Problem(
            ("load.points_per_request", "load.sensors_per_request"),
            f"{sensors:,} sensors (load.sensors_per_request) × {points:,} points are "
            f"{sensors * points:,} points in a request; at most {MAX_REQUEST_POINTS:,}",
        )


def _check_requests_of_steps(values: Values) -> Iterator[Problem]:
    """Each step is judged by the requests that are due in it, after the warm-up."""
    steps, together, replay = (
        _resolved(values),
        values["load.points_per_request"],
        values["load.replay"],
    )
    if values["load.steps"] is None or steps is None or replay:
        return
    warm = timing.ticks_within(steps, timing.warmup_s(values["load.warmup_s"], replay))
    end, last = 0, sum(ticks for _, ticks in steps)
    for number, (_, ticks) in enumerate(steps, 1):
        begin, end = max(end, warm), end + ticks
        # What is left over at the end of the load is a request, too.
        if begin < end != last and begin // together == end // together:
            yield Problem(
                (f"load.steps[{number}].duration_s", "load.points_per_request"),
                f"no request of {together:,} points of each sensor (load.points_per_request) would "
                f"be due in what is measured of this step, which has {end - begin:,}: it could not "
                "be judged. Lower points_per_request to at most that, or make the step longer",
            )


def _check_connections(values: Values) -> Iterator[Problem]:
    protocol = values["load.protocol"]
    if values["load.connection_per_request"] and protocol not in ONE_WAY:
        yield Problem(
            ("load.connection_per_request", "load.protocol"),
            f"is of {' and '.join(ONE_WAY)}: connections by {protocol} are kept",
        )


def _check_replay(values: Values) -> Iterator[Problem]:
    if not values["load.replay"]:
        return
    for name, harmless, why in (
        ("load.warmup_s", (None, 0), "it has no planned send times whose latencies count"),
        ("load.ramp_s", (0,), "it is sent as fast as it is acknowledged, not on a schedule"),
        ("load.jitter_ms", (0,), "it is sent as fast as it is acknowledged, not on a schedule"),
        ("load.pacing", ("spread",), "it is sent as fast as it is acknowledged, not on a schedule"),
        ("queries.rate", (0,), "there is no now whose last minute could be asked for"),
    ):
        value = values.get(name, harmless[0])
        if value not in harmless:
            yield Problem(
                (name, "load.replay"),
                f"makes no sense with load.replay, got {value}: replay is history, and {why}; "
                "drop one of the two",
            )
    protocol = values.get("load.protocol", "rest")
    # Who is one way reads no more from a socket than it has room for, and KairosDB all.
    if protocol in SILENT and protocol not in ONE_WAY:
        yield Problem(
            ("load.protocol", "load.replay"),
            f"{protocol} acknowledges nothing, and load.replay goes on with what is acknowledged; "
            "take one that does",
        )


def _check_queries(values: Values) -> Iterator[Problem]:
    span, bucket = values["queries.last_s"], values["queries.bucket_s"]
    if span % bucket:
        yield Problem(
            ("queries.last_s", "queries.bucket_s"),
            f"must be a multiple of queries.bucket_s ({bucket}), got {span}",
        )
    asked, sensors = values["queries.sensors"], values["load.sensors"]
    if values["queries.rate"] > 0 and asked > sensors:
        yield Problem(
            ("queries.sensors", "load.sensors"),
            f"queries.sensors must be ≤ load.sensors ({sensors:,}), got {asked:,}",
        )


def _check_queue(values: Values) -> Iterator[Problem]:
    queue = values["kairosdb.queue"]
    for other, keys in QUEUE_SETTINGS.items():
        for key in keys:
            name = f"kairosdb.{key}"
            if other != queue and values[name] is not None:
                yield Problem(
                    (name, "kairosdb.queue"),
                    f"is a setting of the {other} queue, and kairosdb.queue is {queue}: leave it "
                    f"out, or say queue: {other}",
                )


def _check_batches(values: Values) -> Iterator[Problem]:
    batch = values["kairosdb.batch_size"]
    if batch is None:
        return
    if batch < MIN_RETRIED_BATCH:
        yield Problem(
            ("kairosdb.batch_size",),
            f"must be ≥ {MIN_RETRIED_BATCH}, got {batch}: after a write timeout KairosDB does not "
            "retry a batch of 10 points or fewer, it logs and drops it",
        )
    least = values["kairosdb.min_batch_size"]
    if least is not None and least > batch:
        yield Problem(
            ("kairosdb.min_batch_size",),
            f"must be ≤ kairosdb.batch_size ({batch}), got {least}: KairosDB would wait before "
            "every batch",
        )


def _check_metric(values: Values) -> Iterator[Problem]:
    metric = values["load.metric"]
    if text := _bad_pattern(metric):
        yield Problem(("load.metric",), f"{got(metric)} {text}")


def _check_series(values: Values) -> Iterator[Problem]:
    metric, tags = values["load.metric"], values["load.tags"]
    if not naming.tells_apart([metric, *tags.values()]):
        yield Problem(
            ("load.metric", "load.tags"),
            f"neither it ({got(metric)}) nor a tag's value has {{n}}, the sensor's number, in it: "
            "all sensors would be one series",
        )


def _check_tags(values: Values) -> Iterator[Problem]:
    tags = values["load.tags"]
    if not tags:
        yield Problem(
            ("load.tags",),
            "needs at least one tag, for instance {status: good}: KairosDB "
            "refuses a point without any",
        )
    for key, value in tags.items():
        name = f"load.tags.{key}"
        if not key:
            yield Problem((name,), "the tag's name is empty")
        elif not _LEGAL_NAME.fullmatch(key) or len(key) > MAX_NAME:
            yield Problem((name,), f"the tag's name {got(key)} {_illegal(key)}")
        if not value:
            yield Problem((name,), "the tag's value is empty")
        elif text := _bad_pattern(value):
            yield Problem((name,), f"the tag's value {got(value)} {text}")


def _bad_pattern(pattern: str) -> str:
    """What is wrong with a metric's or tag value's text and its places, or ""."""
    if len(pattern) > MAX_NAME:  # before anything else: a modulus may have any number of digits
        return f"has {len(pattern):,} characters; at most {MAX_NAME}"
    if text := naming.problem(pattern):
        return f"is not understood: {text}"
    expanded = naming.expand(pattern, 0)
    if not _LEGAL_NAME.fullmatch(expanded):
        return _illegal(expanded, "besides {n} and {n%K} allowed are")
    if naming.touching(pattern):
        return (
            "has nothing but digits between two places, so that different sensors may get the "
            "same text ({n}{n%17} is 1212 for 12 and for 121); put a - between them"
        )
    return ""


def _check_workers(values: Values) -> Iterator[Problem]:
    workers, sensors = values["load.workers"], values["load.sensors"]
    hosts = values["cluster.loader_hosts"]
    if hosts > sensors:
        yield Problem(
            ("cluster.loader_hosts", "load.sensors"),
            f"{hosts} loader hosts for {sensors} sensors leave some without any; "
            "cluster.loader_hosts must be ≤ load.sensors",
        )
    if workers is None:
        return
    if workers > sensors:
        yield Problem(
            ("load.workers", "load.sensors"),
            f"{workers} loader processes for {sensors} sensors leave some without any; "
            "load.workers must be ≤ load.sensors",
        )
    if workers % hosts:
        lower = workers // hosts * hosts
        nearby = f"{lower} and {lower + hosts}" if lower else f"{hosts} and {2 * hosts}"
        yield Problem(
            ("load.workers", "cluster.loader_hosts"),
            f"must be a multiple of cluster.loader_hosts ({hosts}), each of which runs as many, "
            f"got {workers}; the nearest are {nearby}",
        )


def _check_patience(values: Values) -> Iterator[Problem]:
    patience, limit_ms = values["load.retry_for_s"], values["limits.p99_ms"]
    if patience * 1000 < limit_ms:
        yield Problem(
            ("load.retry_for_s", "limits.p99_ms"),
            f"a request is given up after {patience:g} s (load.retry_for_s), before the latency "
            f"limit of {limit_ms:g} ms: it would count as a quick one",
        )


def _check_ttl(values: Values) -> Iterator[Problem]:
    ttl, drain, steps = values["storage.ttl_s"], values["limits.drain_s"], _resolved(values)
    if ttl == 0 or steps is None:
        return
    run = timing.length_ms(steps) / 1000
    least = math.ceil(run + drain + READ_BACK_S)
    if ttl < least:
        yield Problem(
            ("storage.ttl_s", "load.duration_s"),
            f"storage.ttl_s must be 0 or ≥ {least:,} s (run {run:g} + drain {drain:g} + "
            f"{READ_BACK_S} to read back), got {ttl:,}: points would expire before they are "
            "counted",
        )


def _illegal(text: str, allowed: str = "allowed are") -> str:
    """Why KairosDB would not take a text as a name."""
    if len(text) > MAX_NAME:
        return f"has {len(text):,} characters; at most {MAX_NAME}"
    first = next(c for c in text if not _LEGAL_NAME.fullmatch(c))
    return f"holds {first!r}; {allowed} {LEGAL_NAME_WORDS}"


_CHECKS = (
    _check_replicas,
    _check_consistency,
    _check_length,
    _check_period,
    _check_durations,
    _check_warmup,
    _check_ramp,
    _check_jitter,
    _check_lifetime,
    _check_request_size,
    _check_requests_of_steps,
    _check_connections,
    _check_replay,
    _check_queries,
    _check_queue,
    _check_batches,
    _check_metric,
    _check_series,
    _check_tags,
    _check_workers,
    _check_patience,
    _check_ttl,
    faults.check,
)
