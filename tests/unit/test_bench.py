"""The bench harness on given figures, and the loader's benches at a size of seconds."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import bench
from bench import harness, load, published_way
from bench.harness import RATIO, Bench, BenchError, Limit, Round, alone
from kairoscope.errors import UserError
from loaders.sink.process import SinkProcess

pytestmark = pytest.mark.timeout(60)

Results = dict[str, Any]


def rounds(*costs: float) -> list[Round]:
    return [Round(cost, {"points_per_s": 1000 / cost}) for cost in costs]


def taking(made: list[Round]) -> Callable[[], Round]:
    left = iter(made)
    return lambda: next(left)


def example(name: str = "example", *limits: Limit) -> Bench:
    return Bench(
        name=name,
        what="an example",
        unit="µs",
        sides=lambda: alone(taking(rounds(2.0, 1.0, 5.0)), taking(rounds(8.0, 10.0, 10.0))),
        baseline_what="another",
        limits=limits,
        rounds=3,
    )


@pytest.fixture
def console() -> Iterator[Console]:
    with Path("/dev/null").open("w") as nowhere:
        yield Console(file=nowhere, width=200, record=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    return tmp_path


def test_a_ratio_has_its_interval_between_rounds(console: Console) -> None:
    result = harness.measure(example(), console)
    assert result["ours"] == {"median": 2.0, "min": 1.0, "max": 5.0}
    assert {k: result["baseline"][k] for k in ("median", "min", "max", "what")} == {
        "median": 10.0,
        "min": 8.0,
        "max": 10.0,
        "what": "another",
    }
    ratio = result["ratio"]
    assert ratio["ratio"] == pytest.approx((800 / 10) ** (1 / 3))
    assert 0 < ratio["low"] < ratio["ratio"] < ratio["high"]
    assert result["figures"] == {"points_per_s": {"median": 500.0, "min": 200.0, "max": 1000.0}}
    of_figure = result["ratios"]["points_per_s_ratio"]
    assert of_figure["ratio"] == pytest.approx(1 / ratio["ratio"])


def test_one_round_of_two_searches_has_their_intervals() -> None:
    ours, theirs = Round(2.0, {}, interval=(1.0, 4.0)), Round(8.0, {}, interval=(6.0, 9.0))
    found = harness.ratio_of_costs([ours], [theirs])
    assert found["ratio"] == pytest.approx(4)
    assert (found["low"], found["high"], found["confidence"]) == (1.5, 9.0, 0.8)
    assert harness.ratio_of_costs([ours, ours], [theirs, theirs])["low"] is None


def measured_in_turns(console: Console, *names: str, **more: Any) -> dict[str, Any]:
    """A bench of these sides, whose cost is how many measurements there were before."""
    count = iter(range(1, 100))

    def side(name: str) -> Callable[[], Round]:
        return lambda: Round(next(count), {}, f"runs/{name}")

    sides = contextlib.nullcontext({name: side(name) for name in names})
    return harness.measure(Bench("x", "x", "s", lambda: sides, "x", rounds=2, **more), console)


def test_sides_take_turns_in_an_order_that_turns_round(console: Console) -> None:
    found = measured_in_turns(console, "ours", "baseline")
    assert [value["side"] for value in found["values"]] == ["ours", "baseline", "baseline", "ours"]
    assert [value["round"] for value in found["values"]] == [1, 1, 2, 2]
    # Two rounds have no interval.
    assert found["ratio"]["low"] is None


def test_every_value_is_kept_and_the_first_round_does_not_count(console: Console) -> None:
    found = measured_in_turns(
        console, "ours", "baseline", "third", others={"third": "another"}, thrown_away=1
    )
    kept = [(value["round"], value["side"], value["cost"]) for value in found["values"]]
    assert kept[:4] == [(0, "ours", 1), (0, "baseline", 2), (0, "third", 3), (1, "third", 4)]
    assert {value["run"] for value in found["values"]} == {
        "runs/ours",
        "runs/baseline",
        "runs/third",
    }
    assert all(datetime.fromisoformat(value["began"]).tzinfo for value in found["values"])
    assert (found["rounds"], found["ours"]) == (2, {"median": 6.5, "min": 6, "max": 7})
    assert found["others"]["third"]["median"] == 6.5


@pytest.mark.parametrize(
    ("limit", "holds"),
    [
        (Limit("x", "points_per_s", at_most=500), True),
        (Limit("x", "points_per_s", at_least=501), False),
        # Of a ratio the end of its interval is judged: 4.3 (1.4 to 13).
        (Limit("x", RATIO, at_least=0.5), True),
        (Limit("x", RATIO, at_least=4.0), False),
        (Limit("x", RATIO, at_most=4.5), False),
    ],
)
def test_limits(console: Console, limit: Limit, holds: bool) -> None:
    result = harness.measure(example("example", limit), console)
    (judged,) = result["limits"]
    figure = result["ratio"]["ratio"] if limit.figure == RATIO else 500.0
    bound = limit.at_most if limit.at_least is None else limit.at_least
    assert judged == {"what": "x", "figure": figure, "limit": bound, "holds": holds}


def test_results_file(console: Console, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "BENCHES", (example("one", Limit("fine", RATIO, at_least=0.1)),))
    bench.run(None, console)
    result: Results = json.loads((home / "bench" / "one.json").read_text())
    assert {"name", "unit", "rounds", "ours", "baseline", "ratio", "machine", "versions"} < set(
        result
    )
    assert (result["name"], result["unit"], result["rounds"]) == ("one", "µs", 3)
    assert set(result["machine"]) == {"cpu_model", "cpus", "memory_bytes", "kernel", "os"}
    assert set(result["versions"]) == {"python", "numpy", "kairoscope", "commit", "dirty"}
    assert datetime.fromisoformat(result["date"]).tzinfo
    printed = console.export_text()
    assert "round 3 of 3: ours 5, baseline 10 µs, ratio 2" in printed
    assert "limit: fine" in printed
    assert "does not hold" not in printed


def test_what_fails_does_not_keep_the_others_from_being_run(
    console: Console, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Round:
        raise BenchError("no points came")

    failing = Bench("failing", "x", "s", lambda: alone(broken, broken), "x")
    missed = example("missed", Limit("too much to ask", RATIO, at_least=100))
    monkeypatch.setattr(bench, "BENCHES", (failing, missed, example("good")))
    with pytest.raises(SystemExit) as ended:
        bench.run("", console)
    assert ended.value.code == 1
    assert sorted(path.name for path in (home / "bench").iterdir()) == ["good.json", "missed.json"]
    assert not json.loads((home / "bench" / "missed.json").read_text())["limits"][0]["holds"]
    printed = console.export_text()
    assert "does not hold" in printed
    assert "failing was not measured: no points came" in printed
    assert "missed: too much to ask: 4.3" in printed.split("not as it should be")[1]


def test_only_one_bench(console: Console, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "BENCHES", (example("one"), example("two")))
    bench.run("two", console)
    assert [path.name for path in (home / "bench").iterdir()] == ["two.json"]
    with pytest.raises(UserError, match=r"ONLY=three: .* one, two"):
        bench.run("three", console)


def test_what_needs_more_than_a_machine_runs_by_its_name_alone(
    console: Console, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "BENCHES", (example("one"),))
    monkeypatch.setattr(bench, "ASKED_FOR", (example("two"),))
    bench.run(None, console)
    assert [path.name for path in (home / "bench").iterdir()] == ["one.json"]
    bench.run("two", console)
    assert (home / "bench" / "two.json").exists()


@pytest.mark.parametrize(
    ("number", "text"),
    [(86_400_000_000, "86,400,000,000"), (99.96, "100"), (5.0, "5"), (0.000123456, "0.000123")],
)
def test_numbers_as_text(number: float, text: str) -> None:
    assert harness.number_text(number) == text


def test_published_way_sends_what_it_says() -> None:
    with SinkProcess(count=True) as sink:
        done = subprocess.run(
            [sys.executable, "-m", "bench.published_way", sink.telnet, "30000"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).resolve().parents[2],
        )
        found = json.loads(done.stdout)
        counters = sink.stats()
    assert found["points"] == 2 * published_way.SENSORS == counters["points"] == counters["lines"]
    assert counters["connections"] == 1
    assert found["cpu_s"] > 0
    assert found["wall_s"] > 0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_SENSORS_2018", 5_000)
    monkeypatch.setattr(load, "_TICKS", 10)
    monkeypatch.setattr(load, "_BASELINE_POINTS", 1)


def limited_figures(name: str) -> set[str]:
    (found,) = (each for each in load.BENCHES if each.name == name)
    return {limit.figure for limit in found.limits} - {RATIO}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["rest", "telnet", "published_way"])
def test_a_small_round(name: str) -> None:
    found = getattr(load, name)()
    assert found.cost > 0
    assert all(figure > 0 for figure in found.figures.values())
    if name != "published_way":
        assert limited_figures(name) <= set(found.figures)


@pytest.mark.usefixtures("small")
def test_a_round_that_lost_points_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = SinkProcess.stats

    def one_missing(sink: SinkProcess) -> dict[str, Any]:
        found = stats(sink)
        return found | {"lines": found["lines"] - 1, "requests": found["requests"] - 1}

    monkeypatch.setattr(SinkProcess, "stats", one_missing)
    for measured in (load.rest, load.telnet, load.published_way):
        with pytest.raises(BenchError, match="points that reached the sink"):
            measured()


def test_a_million_sensors_for_a_day_are_planned_exactly() -> None:
    with SinkProcess(http=(0, 0, 0)) as sink:
        spec = load._paced(
            sink, sensors=1_000_000, sensors_per_request=1_000, seconds=10, warmup_s=2
        )
    planned = load._plan_of_a_day(spec)
    assert planned["day_points"] == 1_000_000 * 86_400
    # Two workers and three nodes share the sensors, so at most one request of each is not full.
    assert 1_000 <= planned["day_requests"] / 86_400 <= 1_006
    found = load._Found(1, 1, 4.0, 20.0, 300_000_000, 10_000, 30_000, 0.5)
    assert load._punctuality(spec, found) == {
        "send_error_p99_ms": 10,
        "send_error_max_ms": 30,
        "loader_cores": 0.4,
        "loader_rss_mb": 300,
        "stolen_cpu_s": 0.5,
    }
    assert limited_figures("pacing") <= set(load._punctuality(spec, found))
