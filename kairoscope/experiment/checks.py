"""What must hold between the fields of an experiment, or needs more words than a bound."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from kairoscope.experiment.problems import Problem
from kairoscope.experiment.schema import LEGAL_NAME_WORDS, replicas_needed
from kairoscope.experiment.timing import MIN_PERIOD_MS, nearby_rates, ticks, whole_period_ms

MIN_RETRIED_BATCH = 11
"""KairosDB gives up a batch whose write timed out once its limit is at 10 points or fewer."""
READ_BACK_S = 600
"""A generous time for reading every point back."""

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
    if duration is None and points is None:
        yield Problem(
            ("load.duration_s",),
            "is missing; give either duration_s (seconds) or points (points of each sensor)",
        )
    elif duration is not None and points is not None:
        yield Problem(("load.points", "load.duration_s"), "give points or duration_s, not both")


def _check_period(values: Values) -> Iterator[Problem]:
    rate = values["load.rate"]
    if whole_period_ms(rate) is None:
        lower, higher = nearby_rates(rate)
        yield Problem(
            ("load.rate",),
            f"{rate:.15g} points/s is a point every {1000 / rate:,.6g} ms; it must be a whole "
            f"number of ms ≥ {MIN_PERIOD_MS}. Nearby rates that work: {lower:.15g} and "
            f"{higher:.15g}",
        )


def _length(values: Values) -> tuple[int, int] | None:
    """Ticks of the load and their period in ms; None where another check refuses what they are
    computed from."""
    period = whole_period_ms(values["load.rate"])
    duration, points = values["load.duration_s"], values["load.points"]
    if period is None or (duration is None) == (points is None):
        return None
    return ticks(duration, points, period), period


def _check_warmup(values: Values) -> Iterator[Problem]:
    warmup, length = values["load.warmup_s"], _length(values)
    if length is None:
        return
    count, period = length
    if count < 1:
        yield Problem(
            ("load.duration_s", "load.rate"),
            f"{values['load.duration_s']} s is shorter than the {period / 1000:g} s between two "
            "points of a sensor",
        )
    elif math.ceil(warmup * 1000 / period) >= count:
        yield Problem(
            ("load.warmup_s", "load.duration_s", "load.rate", "load.points"),
            f"the warm-up (load.warmup_s {warmup} s) must be shorter than the run "
            f"({count * period / 1000:g} s with it): nothing would be left to measure",
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
    if metric.count("{n}") != 1:
        yield Problem(
            ("load.metric",),
            f"must have {{n}}, the sensor's number, in it exactly once, got {metric!r}",
        )
        return
    rest = metric.replace("{n}", "")
    if rest and not _LEGAL_NAME.fullmatch(rest):
        yield Problem(
            ("load.metric",),
            f"{metric!r} holds {_illegal(rest)}; besides {{n}} allowed are {LEGAL_NAME_WORDS}",
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
        for what, text in (("name", key), ("value", value)):
            if not text:
                yield Problem((f"load.tags.{key}",), f"the tag's {what} is empty")
            elif not _LEGAL_NAME.fullmatch(text):
                yield Problem(
                    (f"load.tags.{key}",),
                    f"the tag's {what} {text!r} holds {_illegal(text)}; allowed are "
                    f"{LEGAL_NAME_WORDS}",
                )


def _check_workers(values: Values) -> Iterator[Problem]:
    workers, sensors = values["load.workers"], values["load.sensors"]
    if workers is not None and workers > sensors:
        yield Problem(
            ("load.workers", "load.sensors"),
            f"{workers} loader processes for {sensors} sensors leave some without any; "
            "load.workers must be ≤ load.sensors",
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
    ttl, drain, length = values["storage.ttl_s"], values["limits.drain_s"], _length(values)
    if ttl == 0 or length is None:
        return
    run = math.prod(length) / 1000
    least = math.ceil(run + drain + READ_BACK_S)
    if ttl < least:
        yield Problem(
            ("storage.ttl_s", "load.duration_s"),
            f"must be 0 or ≥ {least:,} s (run {run:g} + drain {drain:g} + {READ_BACK_S} to read "
            f"back), got {ttl:,}: points would expire before they are counted",
        )


def _illegal(text: str) -> str:
    """The first character of a text that a name may not have, quoted."""
    return repr(next(c for c in text if not _LEGAL_NAME.fullmatch(c)))


_CHECKS = (
    _check_replicas,
    _check_consistency,
    _check_length,
    _check_period,
    _check_warmup,
    _check_batches,
    _check_metric,
    _check_tags,
    _check_workers,
    _check_patience,
    _check_ttl,
)
