"""Every mistake in an experiment file is named by file, line and field, all at once."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from kairoscope import experiment
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, Overrides, fields, load, messages, replicas_needed
from kairoscope.experiment.schema.load import Load
from loaders.schedule import naming, protocols, spec
from loaders.schedule.values import ValueType

# Line numbers matter to the tests below.
GOOD = """\
name: mine
description: A small one.
cluster:
  storage_nodes: 3
  replication_factor: 3
  kairosdb_nodes: 2
storage: {heap_mb: 512}
kairosdb:
  batch_size: 100
load:
  sensors: 1000
  rate: 1
  duration_s: 120
  warmup_s: 15
  tags: {status: good}
limits:
  p99_ms: 250
"""
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str | bytes) -> str:
    Path("mine.yml").write_bytes(text.encode() if isinstance(text, str) else text)
    return "mine.yml"


def changed(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def errors(text: str | bytes, overrides: Overrides | None = None) -> list[str]:
    with pytest.raises(UserError) as caught:
        load(write(text), overrides)
    assert caught.value.exit_code == 2
    return str(caught.value.message).splitlines()


def test_a_good_file() -> None:
    found = load(write(GOOD))
    assert (found.load.sensors, found.load.period_ms, found.load.ticks) == (1000, 1000, 120)
    assert found.load.warmup_ticks == 15
    assert found.kairosdb.batch_size == 100
    assert found.kairosdb.ingest_threads is None, "left to the plan"
    assert found.load.metric == "SENSOR_{n}"
    assert found.source.shown == "mine.yml"
    assert found.source.where("load.sensors") == "mine.yml:11"
    assert found.source.where("load.workers") == "mine.yml:10", "absent: its section"
    with pytest.raises(ValidationError):
        found.name = "other"


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yml")), ids=lambda p: p.stem)
def test_shipped_experiments_load_by_name_and_by_path(path: Path) -> None:
    by_name = load(path.stem)
    assert by_name.name == path.stem
    assert by_name == load(str(path))


def test_the_two_sides_of_a_series_differ_in_their_queue_alone() -> None:
    ours, stock = (load(name).model_dump(mode="json") for name in ("laptop", "laptop-stock"))
    differ = {name for name in ours if ours[name] != stock[name]}
    assert differ - {"source"} == {"name", "description", "kairosdb", "reference"}
    kept, other = ours["kairosdb"], stock["kairosdb"]
    assert {name for name in kept if kept[name] != other[name]} == {"queue"}


def test_past_kairosdb_the_protocol_alone_differs() -> None:
    ours, past = (load(name).model_dump(mode="json") for name in ("laptop", "laptop-cql"))
    differ = {name for name in ours if ours[name] != past[name]}
    assert differ - {"source"} == {"name", "description", "load", "reference"}
    kept, other = ours["load"], past["load"]
    assert {name for name in kept if kept[name] != other[name]} == {"protocol"}


def test_the_laptop_has_what_the_demo_promises() -> None:
    laptop = load("laptop")
    assert (laptop.cluster.storage_nodes, laptop.cluster.replication_factor) == (3, 3)
    assert laptop.cluster.kairosdb_nodes == 1
    assert laptop.load.sensors >= 5000
    assert (laptop.load.rate, laptop.load.duration_s) == (1, 120)


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        # types and bounds
        (
            "sensors: 1000",
            "sensors: many",
            "11: load.sensors",
            "whole number from 1 to 10,000,000, got 'many'",
        ),
        ("sensors: 1000", "sensors: '1000'", "11: load.sensors", "got '1000'"),
        (
            "limits:",
            "aws: {storage_zones: 2}\nlimits:",
            "16: aws.storage_zones",
            "one of 1, 3, got 2",
        ),
        ("limits:", "aws: {storage_zones: '3'}\nlimits:", "16: aws.storage_zones", "one of 1, 3"),
        ("sensors: 1000", "sensors: 1000.0", "11: load.sensors", "got 1000.0"),
        ("sensors: 1000", "sensors: yes", "11: load.sensors", "got true"),
        ("sensors: 1000", "sensors: 0", "11: load.sensors", "from 1 to 10,000,000, got 0"),
        ("sensors: 1000", "sensors:", "11: load.sensors", "got nothing"),
        ("sensors: 1000", "sensors: [1000]", "11: load.sensors", "got a list"),
        ("sensors: 1000", "sensors: {a: 1}", "11: load.sensors", "got a mapping"),
        ("sensors: 1000", "sensors: 0100", "11: load.sensors", "plain number"),
        ("duration_s: 120", "duration_s: 2:00", "13: load.duration_s", "plain number"),
        ("sensors: 1000", f"sensors: {'9' * 5000}", "11: load.sensors", "at most 18 digits"),
        ("sensors: 1000", "sensors: 2026-99-99", "11: load.sensors", "cannot be read"),
        (
            "sensors: 1000",
            "sensors: !!python/name:os.system x",
            "11: load.sensors",
            "cannot be read",
        ),
        ("rate: 1", "rate: .inf", "12: load.rate", "a number from 0.001 to 10, got inf"),
        ("rate: 1", "rate: -1", "12: load.rate", "a number from 0.001 to 10, got -1"),
        (
            "p99_ms: 250",
            "p99_ms: 0",
            "17: limits.p99_ms",
            "a number above 0, at most 600,000, got 0",
        ),
        ("{heap_mb: 512}", "{heap_mb: 1}", "7: storage.heap_mb", "from 256 to 65,536"),
        (
            "{heap_mb: 512}",
            "{compression: LZ4}",
            "7: storage.compression",
            "did you mean 'LZ4Compressor'?",
        ),
        ("{heap_mb: 512}", "fast", "7: storage", "a mapping of fields (engine, heap_mb, "),
        ("name: mine", "name: My Own", "1: name", "lower-case letters, digits and -"),
        ("name: mine", "name: 12", "1: name", "got 12; put it in quotes"),
        ("A small one.", "''", "2: description", "a sentence"),
        (
            "batch_size: 100",
            "driver: scyla",
            "9: kairosdb.driver",
            "one of scylla, datastax, got 'scyla' (did you mean 'scylla'?)",
        ),
        (
            "batch_size: 100",
            "write_consistency: ANY",
            "9: kairosdb.write_consistency",
            "one of ONE, LOCAL_ONE",
        ),
        # what fields there are
        (
            "sensors: 1000",
            "sensors: 1\n  sensors: 2",
            "12: load.sensors",
            "given twice, first in line 11",
        ),
        ("rate: 1", "sensor_count: 5", "12: load.sensor_count", "unknown field"),
        ("rate: 1", "rat: 1", "12: load.rat", "did you mean 'rate'?"),
        (
            "rate: 1",
            "heap_mb: 1",
            "12: load.heap_mb",
            "did you mean storage.heap_mb or kairosdb.heap_mb?",
        ),
        ("limits:", "limit:", "16: limit", "did you mean 'limits'?"),
        ("rate: 1", "1: 1", "12: load", "name must be text, got 1; put it in quotes"),
        ("rate: 1", "? [a]\n  : 1", "12: load", "name must be text"),
        ("  sensors: 1000\n", "", "10: load.sensors", "is missing; it must be a whole number"),
        ("p99_ms: 250", "p99_ms: 250\nload: 1", "18: load", "given twice, first in line 10"),
        # between fields
        (
            "replication_factor: 3",
            "replication_factor: 4",
            "5: cluster.replication_factor",
            "cluster.storage_nodes is 3; lower it to ≤ 3",
        ),
        ("duration_s: 120", "duration_s: 120\n  points: 9", "14: load.points", "not both"),
        (
            "  duration_s: 120\n",
            "",
            "10: load.duration_s",
            "give either duration_s (seconds), points (points of each sensor) or steps",
        ),
        ("warmup_s: 15", "warmup_s: 120", "14: load.warmup_s", "nothing would be left to measure"),
        ("rate: 1", "rate: 0.005", "13: load.duration_s", "120 s is shorter than the 200 s"),
        (
            "rate: 1",
            "rate: 3",
            "12: load.rate",
            "whole number of ms ≥ 100. Nearby rates that work: 2.5 and 3.125",
        ),
        ("rate: 1", "rate: 0.3", "12: load.rate", "Nearby rates that work: 0.25 and 0.3125"),
        ("batch_size: 100", "batch_size: 10", "9: kairosdb.batch_size", "must be ≥ 11, got 10"),
        (
            "batch_size: 100",
            "batch_size: 50\n  queue: stock\n  min_batch_size: 51",
            "11: kairosdb.min_batch_size",
            "≤ kairosdb.batch_size (50), got 51",
        ),
        (
            "batch_size: 100",
            "min_batch_size: 51",
            "9: kairosdb.min_batch_size",
            "is a setting of the stock queue, and kairosdb.queue is coalescing: leave it out, or "
            "say queue: stock",
        ),
        (
            "batch_size: 100",
            "queue: stock\n  queue_window_ms: 5000",
            "10: kairosdb.queue_window_ms",
            "is a setting of the coalescing queue, and kairosdb.queue is stock",
        ),
        (
            "rate: 1",
            "metric: SENSOR",
            "12: load.metric",
            "neither it ('SENSOR') nor a tag's value has {n}",
        ),
        ("rate: 1", "metric: 'S_{n%9}'", "12: load.metric", "all sensors would be one series"),
        ("rate: 1", "metric: '{n}{n%17}'", "12: load.metric", "put a - between them"),
        ("rate: 1", "metric: '{n%17}0{n}'", "12: load.metric", "put a - between them"),
        ("rate: 1", "metric: '{n}_{m}'", "12: load.metric", "braces may only hold n, or n%K"),
        ("rate: 1", "metric: '{n}_{n%0}'", "12: load.metric", "braces may only hold n, or n%K"),
        ("rate: 1", "metric: '{n}_{n%08}'", "12: load.metric", "braces may only hold n, or n%K"),
        ("rate: 1", "metric: {n}", "12: load.metric", "got a mapping; put it in quotes"),
        ("rate: 1", "metric: ''", "12: load.metric", "with {n} or {n%K} in it, got ''"),
        ("rate: 1", "metric: 'S={n}'", "12: load.metric", "holds '='"),
        (
            "{status: good}",
            "{status: '{n%1.5}'}",
            "15: load.tags.status",
            "value '{n%1.5}' is not understood: braces may only hold n, or n%K",
        ),
        (
            "{status: good}",
            f"{{status: '{{n%1{'0' * 5000}}}'}}",
            "15: load.tags.status",
            "has 5,005 characters; at most 200",
        ),
        ("{status: good}", "{sensor: {n}}", "15: load.tags.sensor", "put it in quotes"),
        ("{status: good}", "{'{n}': good}", "15: load.tags.{n}", "name '{n}' holds '{'"),
        ("{status: good}", "{'': good}", "15: load.tags.", "the tag's name is empty"),
        (
            "kairosdb_nodes: 2",
            "kairosdb_nodes: 2\n  loader_hosts: 201",
            "7: cluster.loader_hosts",
            "from 1 to 200",
        ),
        ("rate: 1", "metric: '{n} é'", "12: load.metric", "holds ' '"),
        ("{status: good}", "{}", "15: load.tags", "at least one tag"),
        (
            "{status: good}",
            "{status: on}",
            "15: load.tags.status",
            "must be text, got true; put it in quotes",
        ),
        (
            "{status: good}",
            "{status: 'very good'}",
            "15: load.tags.status",
            "value 'very good' holds ' '",
        ),
        ("{status: good}", "{'a:b': good}", "15: load.tags.a:b", "name 'a:b' holds ':'"),
        ("{status: good}", "{status: ''}", "15: load.tags.status", "value is empty"),
        ("{status: good}", "good", "15: load.tags", "a mapping of at least one tag"),
        (
            "rate: 1",
            "workers: 64\n  sensors_per_request: 0",
            "13: load.sensors_per_request",
            "from 1 to 10,000, got 0",
        ),
        (
            "sensors: 1000",
            "sensors: 2\n  workers: 3",
            "12: load.workers",
            "3 loader processes for 2 sensors",
        ),
        ("{heap_mb: 512}", "{ttl_s: 60}", "7: storage.ttl_s", "must be 0 or ≥ 780 s"),
        # What the store takes, less the width of a row, which its index gets on top.
        ("{heap_mb: 512}", "{ttl_s: 630720000}", "7: storage.ttl_s", "to 628,905,600"),
        # how points travel
        (
            "rate: 1",
            "protocol: telnet",
            "12: load.protocol",
            "one of rest, rest-gzip, telnet-put, telnet-putm, line, remote-write, plaintext, "
            "pickle, measures, cql, got 'telnet' (did you mean 'telnet-put'?)",
        ),
        ("rate: 1", "pacing: even", "12: load.pacing", "one of spread, aligned, got 'even'"),
        ("rate: 1", "value_type: int", "12: load.value_type", "one of long, double, string"),
        (
            "rate: 1",
            "sensors_per_request: 1000\n  points_per_request: 101",
            "13: load.points_per_request",
            "× 101 points are 101,000 points in a request; at most 100,000",
        ),
        ("rate: 1", "points_per_request: 0", "12: load.points_per_request", "from 1 to 10,000"),
        ("rate: 1", "failover_after_s: 0", "12: load.failover_after_s", "above 0, at most 3,600"),
        # when they are due
        (
            "rate: 1",
            "jitter_ms: 1001",
            "12: load.jitter_ms",
            "must be ≤ 1,000, the ms between two points of a sensor (at the highest rate), got "
            "1,001",
        ),
        ("rate: 1", "seed: -1", "12: load.seed", "from 0 to 2,147,483,647, got -1"),
        (
            "rate: 1",
            "ramp_s: 16",
            "12: load.ramp_s",
            "≤ load.warmup_s (15), got 16: while sensors still join, the rate is below the target",
        ),
        (
            "rate: 1",
            "rate: 0.4\n  lifetime_s: 61",
            "13: load.lifetime_s",
            "multiple of the 2.5 s between two points of a sensor, got 61",
        ),
        (
            "rate: 1",
            "points_per_request: 7\n  lifetime_s: 60",
            "13: load.lifetime_s",
            "is 60 points of a sensor, which must be a multiple of load.points_per_request (7)",
        ),
        ("rate: 1", "lifetime_s: 0", "12: load.lifetime_s", "from 1 to 2,592,000, got 0"),
        ("p99_ms: 250", "clock_offset_ms: 0", "17: limits.clock_offset_ms", "above 0, at most"),
        # reads
        (
            "limits:",
            "queries: {last_s: 65}\nlimits:",
            "16: queries.last_s",
            "multiple of queries.bucket_s (10), got 65",
        ),
        ("limits:", "queries: {rate: 1001}\nlimits:", "16: queries.rate", "from 0 to 1,000"),
        (
            "limits:",
            "queries: {rate: 1, sensors: 1001}\nlimits:",
            "16: queries.sensors",
            "queries.sensors must be ≤ load.sensors (1,000), got 1,001",
        ),
        ("limits:", "queries: 5\nlimits:", "16: queries", "a mapping of fields (rate, last_s, "),
        ("rate: 1", "last_s: 5", "12: load.last_s", "did you mean queries.last_s?"),
        # replay
        ("rate: 1", "replay: 1", "12: load.replay", "must be true or false, got 1"),
        ("rate: 1", "replay: true", "14: load.warmup_s", "makes no sense with load.replay, got 15"),
    ],
)
def test_one_mistake(old: str, new: str, where: str, says: str) -> None:
    place = f"mine.yml:{where}: "
    assert [e for e in errors(changed((old, new))) if e.startswith(place) and says in e]


def test_one_mistake_is_one_line() -> None:
    for old, new in (
        ("sensors: 1000", "sensors: many"),
        ("replication_factor: 3", "replication_factor: 4"),
        ("rate: 1", "rate: 3"),
        ("sensors: 1000", "sensors: 010"),
        ("{status: good}", "{status: 1}"),
    ):
        assert len(errors(changed((old, new)))) == 1


def test_what_is_absent_altogether_is_looked_for_in_the_file() -> None:
    found = errors("name: mine\n")
    assert [line.split(": ")[:3] for line in found] == [
        ["mine.yml", "cluster", "is missing; it must be a mapping of fields (storage_nodes, "
         "replication_factor, kairosdb_nodes, loader_hosts, datacenter, shards, jvm)"],
        ["mine.yml", "description", "is missing; it must be a sentence of at most 300 characters"],
        ["mine.yml", "load", found[2].split(": ")[2]],
    ]  # fmt: skip


HOSTS = ("kairosdb_nodes: 2", "kairosdb_nodes: 2\n  loader_hosts: 3")


def test_more_loader_hosts_than_sensors() -> None:
    (line,) = errors(changed(HOSTS, ("sensors: 1000", "sensors: 2")))
    assert line.startswith("mine.yml:7: cluster.loader_hosts: 3 loader hosts for 2 sensors")


@pytest.mark.parametrize(
    ("workers", "nearest"), [(1, "3 and 6"), (4, "3 and 6"), (8, "6 and 9"), (511, "510 and 513")]
)
def test_every_loader_host_runs_as_many_workers(workers: int, nearest: str) -> None:
    text = changed(HOSTS, ("sensors: 1000", f"sensors: 1000\n  workers: {workers}"))
    assert errors(text) == [
        "mine.yml:13: load.workers: must be a multiple of cluster.loader_hosts (3), each of which "
        f"runs as many, got {workers}; the nearest are {nearest}"
    ]


def test_one_metric_with_a_tag_that_tells_sensors_apart() -> None:
    text = changed(
        ("rate: 1", "metric: temperature"),
        ("{status: good}", "{sensor: 'a-{n}', site: 'b-{n%20}'}"),
    )
    found = load(write(text)).load
    assert (found.metric, found.tags["site"]) == ("temperature", "b-{n%20}")


NAMES = st.lists(st.sampled_from(["{n}", "{n%7}", "{n%17}", "{n%20}", "1", "-", "a"]), max_size=5)


@given(NAMES.map("".join), NAMES.map("".join), st.integers(0, 5000), st.integers(0, 5000))
@example("{n}{n%17}", "x", 12, 121)
def test_patterns_that_are_let_pass_give_each_sensor_a_series(
    metric: str, tag: str, one: int, other: int
) -> None:
    data = yaml.safe_load(GOOD)
    data["load"] |= {"metric": metric, "tags": {"t": tag}}
    try:
        Experiment.model_validate(data)
    except ValidationError:
        return
    names = {(naming.expand(metric, n), naming.expand(tag, n)) for n in (one, other)}
    assert len(names) == len({one, other})


STEPS = """\
  steps:
    - {rate: 1, duration_s: 60}
    - {rate: 2.5, duration_s: 30}
    - rate: 2
      duration_s: 31
"""


def stepped(steps: str = STEPS, *changes: tuple[str, str]) -> str:
    """GOOD with steps (from line 12) in the place of rate and duration."""
    return changed(("  rate: 1\n  duration_s: 120\n", steps), *changes)


def test_steps() -> None:
    found = load(write(stepped())).load
    assert found.steps_resolved == [(1000, 60), (400, 75), (500, 62)]
    assert (found.ticks, found.period_ms, found.shortest_period_ms) == (197, 1000, 400)
    assert found.warmup_ticks == 15


def test_a_warmup_and_ramp_that_reach_into_a_later_step() -> None:
    text = stepped(STEPS, ("warmup_s: 15", "warmup_s: 70\n  ramp_s: 61"))
    found = load(write(text)).load
    assert found.warmup_ticks == 60 + 25
    assert found.ramp_ticks == 60 + 3, "the third point of that step is due after 0.8 s"


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ("  steps: []\n", "12: load.steps: must be a list of 1 to 100 steps such as {rate: 2,"),
        ("  steps: 5\n", "12: load.steps: must be a list of 1 to 100 steps"),
        (
            "  steps:\n    - {rate: 1, duration_s: 60}\n    - 2\n",
            "14: load.steps[2]: must be a mapping of fields (rate, duration_s), got 2",
        ),
        (
            "  steps:\n    - {rate: 1, duration_s: 60}\n    - rate: 2\n",
            "14: load.steps[2].duration_s: is missing; it must be a whole number from 1 to",
        ),
        (
            "  steps:\n    - rate: 1\n      duration_s: 1.5\n",
            "14: load.steps[1].duration_s: must be a whole number from 1 to 2,592,000, got 1.5",
        ),
        (
            "  steps:\n    - {rate: 1, duration_s: 60, duration: 60}\n",
            "13: load.steps[1].duration: unknown field; did you mean 'duration_s'?",
        ),
        (
            "  steps:\n    - {rate: 1, duration_s: 60, rate: 2}\n",
            "13: load.steps[1].rate: is given twice, first in line 13",
        ),
        (
            "  steps:\n    - {rate: 1, duration_s: 60}\n    - {rate: 3, duration_s: 60}\n",
            "14: load.steps[2].rate: 3 points/s is a point every 333.333 ms; it must be a whole",
        ),
        (
            "  steps:\n    - {rate: 1, duration_s: 60}\n    - {rate: 0.5, duration_s: 1}\n",
            "14: load.steps[2].duration_s: 1 s is shorter than the 2 s between two points",
        ),
        (
            "  steps: [{rate: 1, duration_s: 10}, {rate: 2, duration_s: 5}]\n",
            "13: load.warmup_s: the warm-up (load.warmup_s 15 s) must be shorter than the run (15 ",
        ),
        (STEPS + "  lifetime_s: 30\n", "17: load.lifetime_s: needs one rate"),
        (STEPS + "  jitter_ms: 401\n", "17: load.jitter_ms: load.jitter_ms must be ≤ 400"),
        (
            STEPS + "  points_per_request: 80\n",
            "13: load.steps[1].duration_s: no request of 80 points of each sensor (load.points_per_"
            "request) would be due in what is measured of this step, which has 45: it could not be "
            "judged. Lower points_per_request to at most that",
        ),
        (STEPS + "  rate: 1\n", "17: load.rate: cannot be combined with load.steps"),
        (STEPS + "  points: 9\n", "17: load.points: cannot be combined with load.steps"),
    ],
)
def test_bad_steps_are_one_line_each(steps: str, line: str) -> None:
    (found,) = errors(stepped(steps))
    assert found.startswith(f"mine.yml:{line}")


def test_steps_of_one_rate_may_have_a_lifetime() -> None:
    steps = "  steps: [{rate: 2, duration_s: 60}, {rate: 2, duration_s: 30}]\n  lifetime_s: 30\n"
    assert load(write(stepped(steps))).load.lifetime_ticks == 60


def test_steps_and_arguments_exclude_each_other() -> None:
    assert errors(stepped(), Overrides(rate="2", duration_s="60")) == [
        f"{argument}: cannot be combined with load.steps, in which each step has a rate and a "
        "duration of its own; drop this or load.steps"
        for argument in ("DURATION=60: load.duration_s", "RATE=2: load.rate")
    ]


REPLAY = ("warmup_s: 15", "replay: true")


def test_replay_has_no_warmup_unless_it_is_asked_for() -> None:
    text = changed(REPLAY, ("duration_s: 120", "duration_s: 86400"))
    found = load(write(text)).load
    assert (found.warmup_s, found.warmup_ticks, found.ticks) == (None, 0, 86_400)
    assert load(write(changed(("warmup_s: 15", "replay: true\n  warmup_s: 0")))).load.replay


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("jitter_ms: 5", "12: load.jitter_ms: makes no sense with load.replay, got 5"),
        ("ramp_s: 5", "12: load.ramp_s: makes no sense with load.replay, got 5"),
        ("pacing: aligned", "12: load.pacing: makes no sense with load.replay, got aligned"),
        ("protocol: telnet-putm", "12: load.protocol: telnet-putm acknowledges nothing"),
    ],
)
def test_what_replay_refuses(given: str, where: str) -> None:
    (line,) = errors(changed(REPLAY, ("rate: 1", given)))
    assert line.startswith(f"mine.yml:{where}")


def test_replay_refuses_queries() -> None:
    (line,) = errors(changed(REPLAY, ("limits:", "queries: {rate: 2}\nlimits:")))
    assert line.startswith("mine.yml:16: queries.rate: makes no sense with load.replay, got 2")


def test_queries_that_are_off_may_ask_for_more_sensors_than_there_are() -> None:
    assert load(write(changed(("sensors: 1000", "sensors: 3")))).queries.sensors == 10


def test_consistency_up_to_the_copies() -> None:
    text = changed(("batch_size: 100", "write_consistency: THREE\n  read_consistency: TWO"))
    assert load(write(text)).kairosdb.write_consistency == "THREE"


def test_consistency_beyond_the_copies() -> None:
    text = changed(
        ("replication_factor: 3", "replication_factor: 2"),
        ("batch_size: 100", "write_consistency: THREE"),
    )
    assert errors(text) == [
        "mine.yml:9: kairosdb.write_consistency: THREE needs 3 replicas, but "
        "cluster.replication_factor is 2: every request would fail"
    ]


def test_patience_shorter_than_the_latency_limit() -> None:
    (line,) = errors(changed(("  p99_ms: 250", "  p99_ms: 90000")))
    assert "load.retry_for_s" in line
    assert "given up after 60 s" in line


def test_all_mistakes_at_once_in_the_order_of_the_file() -> None:
    found = errors(
        changed(
            ("replication_factor: 3", "replication_factor: 4"),
            ("sensors: 1000", "sensors: many"),
            ("rate: 1", "rate: 7"),
            ("p99_ms: 250", "p99ms: 250"),
            ("name: mine\n", "name: [a]\n"),
        )
    )
    assert [line.split(": ")[:2] for line in found] == [
        ["mine.yml:1", "name"],
        ["mine.yml:5", "cluster.replication_factor"],
        ["mine.yml:11", "load.sensors"],
        ["mine.yml:12", "load.rate"],
        ["mine.yml:17", "limits.p99ms"],
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "mine.yml: is empty"),
        ("# nothing\n\n", "mine.yml: is empty"),
        ("- a\n- b\n", "mine.yml:1: must be a mapping"),
        ("\n\njust text\n", "mine.yml:3: must be a mapping"),
        ("name: a\nload: [1,\n", "mine.yml:3: is not YAML"),
        ("name: a\nload: b: c\n", "mine.yml:2: is not YAML"),
        ("name: a\n\tload: 1\n", "mine.yml:2: is not YAML"),
        ("name: a\n---\nname: b\n", "mine.yml:2: is not YAML"),
        ("name: *a\n", "mine.yml:1: is not YAML"),
        (b"name: a\ndescription: caf\xe9\n", "mine.yml:2: is not UTF-8 (byte 0xe9)"),
        (b"name: a\ndescription: \x00\n", "mine.yml:2: holds a character"),
        ("name: &a {name: *a}\n", "nested too deeply"),
        ("[" * 2000, "nested too deeply"),
        (b"#" * (2 << 20), "has 2,097,152 bytes"),
    ],
)
def test_no_experiment_at_all(text: str | bytes, says: str) -> None:
    assert any(says in line for line in errors(text))


def test_a_byte_order_mark_and_an_empty_section_are_fine() -> None:
    text = "\ufeff" + GOOD.replace("  p99_ms: 250\n", "  # p99_ms: 250\n")
    assert load(write(text)).limits.p99_ms == 500


def test_a_missing_file_and_a_folder() -> None:
    with pytest.raises(UserError, match=r"nope/x\.yml: no such file.*laptop"):
        load("nope/x.yml")
    Path("folder.yml").mkdir()
    with pytest.raises(UserError, match=r"folder\.yml: is a folder"):
        load("folder.yml")


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UserError) as caught:
        load("laptp")
    assert "Did you mean 'laptop'?" in caught.value.message
    assert all(name in caught.value.message for name in experiment.available())


def test_own_experiments_folder_comes_first() -> None:
    Path("experiments").mkdir()
    Path("experiments/laptop.yml").write_text(GOOD)
    Path("experiments/other.yml").write_text(GOOD)
    assert load("laptop").name == "mine"
    assert load("other").source.shown == "experiments/other.yml"


def test_the_command_line_scales() -> None:
    found = load(write(GOOD), Overrides(sensors="20000", rate="2", duration_s="60"))
    assert (found.load.sensors, found.load.period_ms, found.load.ticks) == (20000, 500, 120)
    assert dict(found.source.command_line) == {
        "load.sensors": "SENSORS=20000",
        "load.rate": "RATE=2",
        "load.duration_s": "DURATION=60",
    }
    assert found.source.replaced["load.sensors"] == "1000"
    same = load(write(GOOD), Overrides(sensors=20000, rate=2.0, duration_s=60))
    assert same.load == found.load


def test_the_command_line_chooses_the_protocol() -> None:
    found = load(
        write(changed(("rate: 1", "protocol: rest-gzip"))), Overrides(protocol="telnet-put")
    )
    assert found.load.protocol == "telnet-put"
    assert found.source.command_line["load.protocol"] == "PROTOCOL=telnet-put"
    assert found.source.replaced["load.protocol"] == "rest-gzip"


def test_an_argument_that_a_replay_refuses() -> None:
    (line,) = errors(changed(REPLAY), Overrides(protocol="telnet-put"))
    assert line.startswith("PROTOCOL=telnet-put: load.protocol: telnet-put acknowledges nothing")


def test_empty_arguments_leave_the_file_alone() -> None:
    empty = Overrides(sensors="", rate="", duration_s="", protocol="")
    assert load(write(GOOD), empty) == load("mine.yml")


def test_duration_replaces_points() -> None:
    text = changed(("duration_s: 120", "points: 2000"))
    found = load(write(text), Overrides(duration_s="60"))
    assert (found.load.points, found.load.duration_s, found.load.ticks) == (None, 60, 60)
    assert found.source.replaced["load.duration_s"] == "points: 2000"


def test_the_command_line_mends_a_bad_value_of_the_file() -> None:
    text = changed(("sensors: 1000", "sensors: 0"))
    assert load(write(text), Overrides(sensors="5")).load.sensors == 5


@pytest.mark.parametrize(
    ("overrides", "starts"),
    [
        (Overrides(sensors="many"), "SENSORS=many: load.sensors: must be a whole number"),
        (Overrides(sensors="1e4"), "SENSORS=1e4: load.sensors: must be a whole number"),
        (Overrides(sensors="0"), "SENSORS=0: load.sensors: must be a whole number from 1"),
        (Overrides(rate="fast"), "RATE=fast: load.rate: must be a number from 0.001"),
        (Overrides(rate="3"), "RATE=3: load.rate: 3 points/s is a point every 333.333 ms"),
        (Overrides(duration_s="1.5"), "DURATION=1.5: load.duration_s: must be a whole number"),
        (Overrides(duration_s="15"), "DURATION=15: load.duration_s: the warm-up (load.warmup_s 15"),
        (Overrides(rate="0.01"), "RATE=0.01: load.rate: the warm-up"),
        (Overrides(protocol="udp"), "PROTOCOL=udp: load.protocol: must be one of rest, rest-gzip,"),
    ],
)
def test_a_bad_argument_is_refused_by_its_name(overrides: Overrides, starts: str) -> None:
    text = changed(("duration_s: 120", "duration_s: 150"))
    assert any(line.startswith(starts) for line in errors(text, overrides))


def test_bad_arguments_come_together_and_before_the_file() -> None:
    found = errors(changed(("name: mine", "name: 5")), Overrides(sensors="x", rate="y"))
    assert [line.split(": ")[0] for line in found] == ["SENSORS=x", "RATE=y", "mine.yml:1"]


@pytest.mark.parametrize("rate", [0.33333, 0.142857, 10, 0.001, 3.125])
def test_rates_with_a_whole_period(rate: float) -> None:
    text = changed(("rate: 1\n", f"rate: {rate}\n"), ("duration_s: 120", "points: 100000"))
    found = load(write(text))
    assert found.load.period_ms == round(1000 / rate)


def test_the_checks_hold_without_a_file_too() -> None:
    data = load(write(GOOD)).model_dump()
    data["cluster"]["replication_factor"] = 9
    with pytest.raises(ValidationError, match=r"cluster\.replication_factor: 9 copies"):
        Experiment.model_validate(data)


def test_an_experiment_survives_its_own_dump() -> None:
    found = load(write(stepped(STEPS, ("limits:", "queries: {rate: 2}\nlimits:"))))
    for again in (
        Experiment.model_validate(found.model_dump()),
        Experiment.model_validate_json(found.model_dump_json(exclude_none=True)),
    ):
        assert again.model_dump() == found.model_dump()


def test_the_loader_knows_every_choice() -> None:
    fields = Load.model_fields
    assert get_args(fields["protocol"].annotation) == protocols.PROTOCOLS
    assert get_args(fields["pacing"].annotation) == spec.PACINGS
    assert set(get_args(fields["value_type"].annotation)) == {kind.value for kind in ValueType}


def test_every_field_has_its_unit_and_reason() -> None:
    for name, model in fields.sections().items():
        for key, info in model.model_fields.items():
            if (name, key) not in {("", section) for section in fields.sections()}:
                assert info.description, f"{name}.{key}"
                assert isinstance(info.json_schema_extra, dict), f"{name}.{key} has no unit"


def test_fields_are_told_with_unit_default_bounds_and_reason() -> None:
    text = fields.described("storage")
    assert text.startswith("storage: how the store keeps the data.\n")
    assert "\n  heap_mb [MiB]: 1024\n      Java heap of one Cassandra node" in text
    assert "\n      Allowed: a whole number from 256 to 65,536.\n" in text
    assert "\n  memory_mb [MiB]: derived by the plan\n" in text
    assert "Allowed: one of periodic, batch." in text


def test_each_section_is_told_once_with_all_its_fields() -> None:
    text = fields.described()
    told = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    names = [part.partition(":")[0] for part in told]
    assert names == ["experiment", *list(fields.sections())[1:]]
    for part, (_, model) in zip(told, fields.sections().items(), strict=True):
        keys = [key for key in messages.named(model) if key not in fields.sections()]
        assert re.findall(r"^  ([\w-]+)(?: \[.*\])?: ", part, re.MULTILINE) == keys
    assert max(map(len, text.split("\n"))) <= 110


def test_no_such_section() -> None:
    with pytest.raises(UserError, match=r"No section loads. There are: cluster, storage"):
        fields.described("loads")


def test_the_readme_names_every_section() -> None:
    readme = (EXPERIMENTS / "README.md").read_text()
    named = re.findall(r"^\| `([a-z]+)` \| ", readme.partition("## Fields")[2], re.MULTILINE)
    assert set(named) == set(fields.sections()) - {"", "load.steps"}


@pytest.mark.parametrize(
    ("level", "copies", "needed"),
    [("ONE", 3, 1), ("QUORUM", 3, 2), ("LOCAL_QUORUM", 2, 2), ("QUORUM", 1, 1), ("ALL", 5, 5)],
)
def test_replicas_needed(level: str, copies: int, needed: int) -> None:
    assert replicas_needed(level, copies) == needed


def test_the_readme_shows_experiments_that_load() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (EXPERIMENTS / "README.md").read_text(), re.DOTALL)
    whole, *parts = map(yaml.safe_load, blocks)
    assert parts
    for part in ({}, *parts):
        Experiment.model_validate(whole | part)
