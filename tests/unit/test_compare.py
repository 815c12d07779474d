"""Two sides of finished runs: comparable or not, the word, the page, and the command."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from compare_samples import MACHINE, START_MS, finished, several

from kairoscope import run_folder
from kairoscope.cli.main import main
from kairoscope.compare import comparable, page, sides, within
from kairoscope.compare.runs import METRICS, read
from kairoscope.errors import UserError

STOCK = {"queue": "stock", "queue_window_ms": None}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def words(found: sides.Comparison) -> dict[str, str]:
    return {row.metric.name: row.word for row in found.rows}


# --- the word ------------------------------------------------------------------------------------


def test_six_runs_of_the_same_are_the_same_or_undecided(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    found = sides.of_folders(several(tmp_path, "a", rng), several(tmp_path, "b", rng, odd=1))
    assert set(words(found).values()) <= {"same", "undecided"}
    assert (found.word, found.exit_status) in {("same", 0), ("undecided", 2)}
    assert not found.notes


def test_a_cheaper_side_is_better_with_its_ratio(tmp_path: Path, rng: np.random.Generator) -> None:
    stock = several(tmp_path, "a", rng, cpu=4.3, kairosdb=STOCK, experiment="stock")
    found = sides.of_folders(
        stock, several(tmp_path, "b", rng, odd=1, experiment="ours"), on_purpose=["freshness"]
    )
    assert (found.word, found.exit_status) == ("better", 0)
    assert re.search(r"CPU of the store a point × 0\.2\d+ \(0\.2\d+ to 0\.2\d+\)", found.sentence)
    assert found.comparability.on_purpose[0].startswith("how long a point may wait")
    row = next(row for row in found.rows if row.metric.name == "storage_us")
    assert row.interval and row.interval.low < 1 / 4.3 < row.interval.high


def test_a_slower_side_is_worse_even_where_it_is_cheaper(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    found = sides.of_folders(
        several(tmp_path, "a", rng), several(tmp_path, "b", rng, odd=1, cpu=0.5, latency=2)
    )
    assert (found.word, found.exit_status) == ("worse", 1)
    assert "better: CPU of the store" in found.sentence


def test_more_is_better_of_what_was_achieved() -> None:
    assert [m.name for m in METRICS if not m.less_is_better] == ["achieved_per_s"]


def test_a_side_that_is_never_sustained_is_worse_whatever_it_costs(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    first = several(tmp_path, "a", rng, runs=3)
    found = sides.of_folders(
        first, several(tmp_path, "b", rng, runs=3, word="fail", odd=1, cpu=0.2)
    )
    assert found.word == "worse"
    assert "none of its runs was sustained" in found.sentence
    assert "3 of 3 runs of B (laptop) failed" in found.notes[0]
    back = sides.of_folders(several(tmp_path, "c", rng, runs=3, word="fail", latency=9), first)
    assert back.word == "better"
    assert "sustained: 0 of 3" in back.sentence


def test_two_runs_a_side_say_how_many_more(tmp_path: Path, rng: np.random.Generator) -> None:
    found = sides.of_folders(
        several(tmp_path, "a", rng, runs=2), several(tmp_path, "b", rng, runs=3, latency=9)
    )
    assert found.sentence == "Undecided: 1 more run a side, for the spread between runs."
    assert found.exit_status == 2


@pytest.mark.parametrize(("latency", "differ"), [(1.0, False), (3.0, True)])
def test_of_one_run_a_side_only_these_two_are_spoken_of(
    tmp_path: Path, rng: np.random.Generator, latency: float, differ: bool
) -> None:
    found = sides.of_folders(
        [finished(tmp_path, "a", logs=rng)], [finished(tmp_path, "b", logs=rng, latency=latency)]
    )
    assert found.exit_status == 2
    assert "That is of these runs only" in found.sentence
    median = next(row for row in found.rows if row.metric.name == "p50_ms")
    assert ("differ" in median.text and "these two" in median.text) == differ
    assert median.interval and median.interval.low < latency < median.interval.high


def test_runs_of_one_side_before_the_other_are_told(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    first = several(tmp_path, "a", rng, runs=3)
    later = [finished(tmp_path, f"b-{i}", at=100 + i) for i in range(3)]
    assert "before those of the other" in sides.of_folders(first, later).notes[0]


def test_runs_that_were_not_judged_are_left_out_and_named(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    first = [*several(tmp_path, "a", rng, runs=3), finished(tmp_path, "late", word="invalid")]
    second = several(tmp_path, "b", rng, runs=4, odd=1)
    found = sides.of_folders(first, second)
    assert len(found.first.runs) == 3
    assert found.left_out == ["late is left out, as it is invalid: It is invalid."]
    none = sides.of_folders([finished(tmp_path, "cut", word="incomplete")], second)
    assert none.word == "not comparable"
    assert "no run of the first side was judged" in none.sentence
    assert page.html(none)


# --- comparable or not ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "other"),
    [
        ("load", {"load": {"sensors": 12_000}}),
        ("cluster", {"load": {"workers": 4}}),
        ("consistency", {"kairosdb": {"write_consistency": "ONE"}}),
        ("durability", {"kairosdb": {"queue_sync_ms": 5}}),
        ("freshness", {"kairosdb": {"queue_window_ms": 30_000}}),
        ("engine", {"manifest": {"versions": {"engine": "scylla"}}}),
        ("machine", {"manifest": {"machine": MACHINE | {"cpus": 4}}}),
        ("warmth", {"manifest": {"conditions": {"servers": [{"started": START_MS / 1000 - 60}]}}}),
    ],
)
def test_what_decides_a_figure_by_itself_is_refused_unless_it_is_meant(
    tmp_path: Path, factor: str, other: dict[str, Any]
) -> None:
    one, two = finished(tmp_path, "a"), finished(tmp_path, "b", **other)
    found = sides.of_folders([one], [two])
    assert (found.word, found.exit_status) == ("not comparable", 2)
    assert f"--factor {factor}" in found.sentence
    assert {row.text for row in found.rows} == {"not comparable"}
    meant = sides.of_folders([one], [two], on_purpose=[factor])
    assert meant.word == "undecided"
    assert len(meant.comparability.on_purpose) == 1


def test_warm_and_cold_are_by_the_youngest_server(tmp_path: Path) -> None:
    def run(name: str, *ages_s: float | None) -> str | None:
        started = [None if age is None else START_MS / 1000 - age for age in ages_s]
        servers = [{"started": t} for t in started]
        return comparable.warmth(
            read(finished(tmp_path, name, manifest={"conditions": {"servers": servers}}))
        )

    assert run("young", 9000, 30) == "cold"
    assert run("old", 9000, 600) == "warm"
    assert run("unknown", 9000, None) is None
    assert run("none") is None


def test_a_side_is_of_one_kind(tmp_path: Path) -> None:
    mixed = [
        finished(tmp_path, "a"),
        finished(tmp_path, "b", kairosdb={"write_consistency": "ONE"}),
    ]
    found = sides.of_folders(mixed, [finished(tmp_path, "c")], on_purpose=["consistency"])
    assert found.word == "not comparable"
    assert "not of one kind" in found.sentence


def test_settings_and_conditions_that_differ_are_listed(tmp_path: Path) -> None:
    one = read(finished(tmp_path, "a"))
    other = finished(tmp_path, "b", kairosdb={"batch_size": 50}, manifest={"git": {"commit": "f0"}})
    two = read(other)
    (setting,) = comparable.settings(one, two)
    assert (setting.what, setting.first, setting.second) == ("kairosdb.batch_size", "1,000", "50")
    assert [each.what for each in comparable.conditions(one, two)] == ["commit"]


def test_commits_of_a_side_are_named_where_they_differ(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    first, second = (several(tmp_path, label, rng, odd=odd) for odd, label in enumerate("ab"))
    assert not any("commit" in note for note in sides.of_folders(first, second).notes)
    for run, git in ((second[1], {"commit": "f" * 40, "dirty": True}), (second[4], {})):
        path = run / run_folder.MANIFEST
        path.write_text(json.dumps(json.loads(path.read_text()) | {"git": git}))
    notes = sides.of_folders(first, second, labels=("stock", "ours")).notes
    assert notes[-1] == (
        "The runs of ours are of several commits: 0123456789ab (4 runs), ffffffffffff, changed (1 "
        "run), not known (1 run). What differs between these is in its spread."
    )


def test_the_same_metric_is_compared_or_none(tmp_path: Path, rng: np.random.Generator) -> None:
    first, second = several(tmp_path, "a", rng, runs=3), several(tmp_path, "b", rng, runs=3)
    path = second[1] / run_folder.MEASUREMENTS
    measured = json.loads(path.read_text())
    measured["cpu_us_per_point"]["storage"] = None
    path.write_text(json.dumps(measured))
    row = next(
        row for row in sides.of_folders(first, second).rows if row.metric.name == "storage_us"
    )
    assert row.text == "undecided (not measured on both sides)"


# --- the command ---------------------------------------------------------------------------------


def call(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    return tmp_path


def test_command(home: Path, rng: np.random.Generator) -> None:
    runs = home / "runs"
    first, second = several(runs, "a", rng, runs=3), several(runs, "b", rng, runs=3, latency=2)
    # By path and by name; all that follows --with is of the other side.
    done = call(*first, "--with", "b-0", second[1], "b-2", "--into", home / "out")
    assert done.exit_code == 1, done.output
    document = json.loads((home / "out" / "compare.json").read_text())
    assert (document["format"], document["word"]) == (1, "worse")
    assert [run["run"] for run in document["second"]["runs"]] == ["b-0", "b-1", "b-2"]
    p99 = next(m for m in document["metrics"] if m["name"] == "p99_ms")
    assert len(p99["first"]) == 3
    assert p99["interval"]["low"] < 2 < p99["interval"]["high"]
    html = (home / "out" / "compare.html").read_text()
    assert "chart-compared-percentiles" in html
    assert '"bands":[{' in html
    assert done.output.count("worse") > 3
    assert done.output.endswith("exit status 1: the comparison's word is worse\n")


def bad_input(folder: Path) -> dict[str, tuple[list[object], str]]:
    good, other = finished(folder, "good"), finished(folder, "other")
    going, old, unjudged = (finished(folder, name) for name in ("going", "old", "unjudged"))
    facts = json.loads((going / run_folder.FACTS).read_text())
    (going / run_folder.FACTS).write_text(json.dumps(facts | {"ended": False}))
    (old / run_folder.FACTS).write_text(json.dumps(facts | {"format": 0}))
    (unjudged / run_folder.VERDICT).unlink()
    return {
        "nothing": ([], "there must be a run on either side"),
        "one side": ([good], "there must be a run on either side"),
        "no folder": ([good, "--with", folder / "nowhere"], "there is no such run folder"),
        "no run": ([good, "--with", folder], "not a run folder"),
        "going on": ([good, "--with", going], "still goes on, or was killed"),
        "other version": ([good, "--with", old], "made by another version"),
        "not judged": ([good, "--with", unjudged], "was not judged"),
        "both sides": ([good, "--with", folder / "x" / ".." / "good"], "on both sides"),
        "twice": ([good, good, "--with", other], "twice on one side"),
        "tolerance": ([good, "--with", other, "--tolerance", "many"], "not a share"),
        "factor": ([good, "--with", other, "--factor", "moon"], "There are: load, cluster"),
    }


@pytest.mark.parametrize("case", [
    "nothing", "one side", "no folder", "no run", "going on", "other version", "not judged",
    "both sides", "twice", "tolerance", "factor",
])  # fmt: skip
def test_bad_input_is_a_sentence(home: Path, case: str) -> None:
    arguments, sentence = bad_input(home)[case]
    done = call(*arguments)
    assert done.exit_code == 2
    assert sentence in done.output
    assert done.output.count("\n") == 1


def test_damaged_documents_are_a_sentence(home: Path) -> None:
    one, two = finished(home, "one"), finished(home, "two")
    (two / run_folder.PLAN).write_text('{"format"')
    with pytest.raises(UserError, match=r"plan\.json: cut off"):
        sides.of_folders([one], [two])


# --- the machine's speed -------------------------------------------------------------------------


def at_speed(*seconds: float | None) -> dict[str, Any]:
    """What a manifest has of the speed of one machine before its load and after it."""
    looks = dict(zip(("before", "after"), ({"machine": each} for each in seconds), strict=True))
    return {"conditions": {"speed": {"work": "the same", **looks}}}


@pytest.mark.parametrize(
    ("slower", "told", "refused"), [(1.05, False, False), (1.15, True, False), (2.0, False, True)]
)
def test_sides_on_a_machine_of_another_speed_are_told_or_not_comparable(
    tmp_path: Path, rng: np.random.Generator, slower: float, told: bool, refused: bool
) -> None:
    first = several(tmp_path, "a", rng, runs=3, manifest=at_speed(0.001, 0.0012))
    second = several(
        tmp_path, "b", rng, runs=3, odd=1, manifest=at_speed(0.0018 * slower, 0.001 * slower)
    )
    found = sides.of_folders(first, second)
    assert (
        "The machine's speed: machine took 1.00 ms and 1.15 ms" in " ".join(found.notes)
    ) == told
    assert (found.word == "not comparable") == refused
    if refused:
        assert "2.00 ms of CPU for the same work" in found.sentence
        assert "--factor machine" in found.sentence
        meant = sides.of_folders(first, second, on_purpose=["machine"])
        assert meant.word != "not comparable"
        assert "the machine's speed" in meant.comparability.on_purpose[0]


def test_one_run_on_a_busy_machine_does_not_make_its_side_slow(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    first = several(tmp_path, "a", rng, runs=3, manifest=at_speed(0.001, 0.001))
    second = several(tmp_path, "b", rng, runs=2, odd=1, manifest=at_speed(0.001, None))
    second.append(finished(tmp_path, "b-2", at=10, manifest=at_speed(0.003, 0.003)))
    assert sides.of_folders(first, second).word != "not comparable"


def test_a_speed_that_is_not_known_or_of_other_work_is_not_compared(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    first = several(tmp_path, "a", rng, runs=3, manifest=at_speed(0.001, 0.001))
    other = at_speed(0.004, 0.004)
    other["conditions"]["speed"]["work"] = "another"
    for i, manifest in enumerate((at_speed(None, None), {}, other)):
        second = several(tmp_path, f"b{i}", rng, runs=3, odd=1, manifest=manifest)
        assert sides.of_folders(first, second).word != "not comparable"


def test_the_blocks_of_a_run_have_each_roles_cpu(tmp_path):
    """What one run of each side is compared by; a block without a figure is left out."""
    rows = [{"cpu_us_per_point": {"storage": us, "graphite": 2.5}} for us in (4.0, None, 6.0)]
    (tmp_path / "blocks.json").write_text(json.dumps({"block_s": 15.0, "blocks": rows}))
    found = within.read(SimpleNamespace(folder=tmp_path, latency={}, manifest={}))
    assert found.cpu == {"storage": [4.0, 6.0], "kairosdb": [2.5] * 3, "loader": []}
