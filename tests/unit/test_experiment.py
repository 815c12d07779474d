"""Every mistake in an experiment file is named by file, line and field, all at once."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from kairoscope import experiment
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment, Overrides, load, model, replicas_needed

pytestmark = pytest.mark.unit

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
        ("{heap_mb: 512}", "fast", "7: storage", "a mapping of fields (heap_mb, "),
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
            "give either duration_s (seconds) or points",
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
            "batch_size: 50\n  min_batch_size: 51",
            "10: kairosdb.min_batch_size",
            "≤ kairosdb.batch_size (50), got 51",
        ),
        ("rate: 1", "metric: SENSOR", "12: load.metric", "exactly once, got 'SENSOR'"),
        ("rate: 1", "metric: '{n}_{n}'", "12: load.metric", "exactly once"),
        ("rate: 1", "metric: 'S={n}'", "12: load.metric", "holds '='"),
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
         "replication_factor, kairosdb_nodes, datacenter, shards)"],
        ["mine.yml", "description", "is missing; it must be a sentence of at most 300 characters"],
        ["mine.yml", "load", found[2].split(": ")[2]],
    ]  # fmt: skip


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


def test_empty_arguments_leave_the_file_alone() -> None:
    assert load(write(GOOD), Overrides(sensors="", rate="", duration_s="")) == load("mine.yml")


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


def test_every_field_has_its_reason() -> None:
    for name in Experiment.model_fields:
        section = model.section(name)
        fields = section.model_fields if section else {name: Experiment.model_fields[name]}
        for key, info in fields.items():
            assert info.description, f"{name}.{key}"
            assert isinstance(info.json_schema_extra, dict), f"{name}.{key} has no unit"


@pytest.mark.parametrize(
    ("level", "copies", "needed"),
    [("ONE", 3, 1), ("QUORUM", 3, 2), ("LOCAL_QUORUM", 2, 2), ("QUORUM", 1, 1), ("ALL", 5, 5)],
)
def test_replicas_needed(level: str, copies: int, needed: int) -> None:
    assert replicas_needed(level, copies) == needed
