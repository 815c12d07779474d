"""The history: a line a run, what earlier runs came to beside the report, and where it changed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from compare_samples import MACHINE, finished

from kairoscope import report, run_folder
from kairoscope.cli.main import main
from kairoscope.compare import comparable, history, runs, trend
from kairoscope.run_folder import records

COSTLY = 1.3


def remembered(folder: Path, name: str, at: int = 0, **more: Any) -> dict[str, Any]:
    """The line of a run that has just ended."""
    run = finished(folder / "runs", name, at=at, **more)
    history.remember(run, folder / history.NAME)
    return list(records(folder / history.NAME))[-1]


def test_a_run_leaves_a_line(tmp_path: Path) -> None:
    line = remembered(tmp_path, "one")
    assert (line["run"], line["experiment"], line["verdict"]) == ("one", "laptop", "pass")
    assert line["figures"]["storage_us"] == 17.0
    assert line["figures"]["drain_s"] == 14.5
    assert line["commit"] == "0123456789abcdef"
    remembered(tmp_path, "two", at=1)
    assert [each["run"] for each in records(tmp_path / history.NAME)] == ["one", "two"]


def test_runs_are_alike_by_what_was_asked_for_and_the_machine(tmp_path: Path) -> None:
    one = remembered(tmp_path, "one")
    derived = remembered(tmp_path, "derived", kairosdb={"batch_size": 50})
    machine = remembered(tmp_path, "machine", manifest={"machine": MACHINE | {"cpus": 4}})
    other = remembered(tmp_path, "other", experiment="fleet")
    # What the plan derives is what a newer Kairoscope may do otherwise: a change, not another kind.
    assert one["like"] == derived["like"]
    assert len({one["like"], machine["like"], other["like"]}) == 3


def test_a_run_with_faults_is_another_kind_and_one_without_is_not(tmp_path: Path) -> None:
    like, load = [], []
    for name, faults in (("old", None), ("none", []), ("one", [{"at": "9s", "kill": "a"}])):
        path = finished(tmp_path, name) / run_folder.PLAN
        plan = json.loads(path.read_text())
        plan["experiment"] |= {} if faults is None else {"faults": faults}
        path.write_text(json.dumps(plan))
        run = runs.read(path.parent)
        like.append(history.like(run))
        load.append(comparable.FACTORS[0].facets(run))
    assert like[0] == like[1] != like[2]
    assert load[0] == load[1] != load[2]


@pytest.mark.parametrize("rate", [0.0, 2.0])
def test_a_run_that_follows_sensors_is_another_kind_if_it_has_queries(
    tmp_path: Path, rate: float
) -> None:
    like, load = [], []
    for name, followed in (("old", {}), ("new", {"followed": 8})):
        path = finished(tmp_path, name) / run_folder.PLAN
        plan = json.loads(path.read_text())
        plan["experiment"]["queries"] = {"rate": rate, "last_s": 60} | followed
        path.write_text(json.dumps(plan))
        run = runs.read(path.parent)
        like.append(history.like(run))
        load.append(comparable.FACTORS[0].facets(run))
    assert (like[0] == like[1], load[0] == load[1]) == ((True, True) if not rate else (False,) * 2)


def test_a_run_is_put_beside_the_last_twenty_like_it(tmp_path: Path) -> None:
    for i in range(22):
        remembered(tmp_path, f"run-{i:02d}", at=i, cpu=1 + i / 100)
    remembered(tmp_path, "not-judged", at=22, cpu=99, word="invalid")
    remembered(tmp_path, "other", at=23, cpu=99, experiment="fleet")
    remembered(tmp_path, "slow", at=24, cpu=COSTLY)
    found = json.loads((tmp_path / "runs" / "slow" / run_folder.BESIDE).read_text())
    assert (found["runs"], found["passed"]) == (20, 20)
    cost = found["figures"]["storage_us"]
    assert (cost["least"], cost["most"]) == pytest.approx((17 * 1.02, 17 * 1.21))
    html, markdown = report.write(tmp_path / "runs" / "slow", tmp_path)
    for text in (html.read_text(), markdown.read_text()):
        assert "Beside the last 20 like it" in text
        assert "higher than all" in text
    assert "lower than all" not in markdown.read_text()


def test_the_first_run_has_nothing_beside_it(tmp_path: Path) -> None:
    remembered(tmp_path, "one")
    html, _ = report.write(tmp_path / "runs" / "one", tmp_path)
    assert "like it" not in html.read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    return tmp_path


def lines(home: Path, costs: list[float], **more: Any) -> None:
    """A history of runs that cost so much, without their folders."""
    with (home / history.NAME).open("a") as file:
        for i, cost in enumerate(costs):
            line = {
                "run": f"run-{i:02d}",
                "started": f"2026-11-{1 + i // 24:02d}T{i % 24:02d}:00:00+00:00",
                "experiment": "laptop",
                "like": "a",
                "commit": f"{i:040d}",
                "verdict": "pass",
                "figures": {"storage_us": cost},
            } | more
            file.write(json.dumps(line) + "\n")


def call(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["trend", *arguments])


@pytest.mark.parametrize(("runs_before", "method"), [(12, "jumpavg"), (20, "Otava")])
def test_trend_says_from_which_run_on(home: Path, runs_before: int, method: str) -> None:
    rng = np.random.default_rng(5)
    costs = np.exp(rng.normal(0, 0.02, 2 * runs_before)) * 17
    costs[runs_before:] *= COSTLY
    lines(home, costs.tolist())
    lines(home, [99.0] * 3, like="b", started="2026-10-01")
    lines(home, [99.0] * 2, verdict="invalid")
    done = call("laptop", "--metric", "storage_us")
    assert done.exit_code == 0
    assert f"worse from run-{runs_before:02d}" in done.output
    assert method in done.output
    assert "3 were of another load or machine" in done.output
    assert "2 were invalid or incomplete" in done.output


def test_more_of_what_should_be_more_is_better() -> None:
    rows = [
        {"run": str(i), "figures": {"achieved_per_s": 1.0 + (i >= 6)}, "verdict": "pass"}
        for i in range(12)
    ]
    found = trend.trends(trend.History("x", rows, 0, 0), (runs.metric("achieved_per_s"),))
    assert found[0].text.startswith("better from 6 ")


def test_few_runs_are_too_few(home: Path) -> None:
    lines(home, [17.0] * 7)
    assert "too few runs (7 of 8)" in call("laptop").output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("laptop",), "no run of it in the history. First: make load"),
        (("laptop", "--metric", "speed"), "There are: p50_ms, p99_ms"),
    ],
)
def test_bad_input_is_a_sentence(home: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = call(*arguments)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert sentence in done.output


def test_a_damaged_line_is_passed_over(home: Path) -> None:
    lines(home, [17.0] * 8)
    with (home / history.NAME).open("a") as file:
        file.write('{"run": "cut o')
    assert "no change" in call("laptop").output
