"""The benches of KairosDB's queues: what they make of run folders, and the search; no cluster."""

import contextlib
import dataclasses
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import harness, queue
from bench.harness import Bench, BenchError, Limit, Round
from kairoscope.cli import known
from kairoscope.experiment import Experiment
from kairoscope.series.search import Outcome
from kairoscope.stacks.kairosdb.captures.threads import Threads, names


class Looked(Threads):
    """Servers of which every group of threads used a tenth of a second."""

    def between(self, start_s: float, end_s: float) -> dict[tuple[str, str], float]:
        assert (start_s, end_s) == (1050.0, 1100.0)
        roles = self._roles.values()
        return {(role, group): 0.1 for role in roles for group in names(role)}


def run_folder(
    folder: Path, *, waiting: tuple[int, int] = (0, 0), late: int = 0, **ledger: int
) -> queue.Run:
    """A run of 100 s at 1,000 points/s, after 50 s of warm-up; the queue's depth at both ends."""
    documents: dict[str, Any] = {
        "verdict.json": {"verdict": "pass", "summary": "all hold"},
        "ledger.json": {"missing": 0, "wrong_value": 0} | ledger,
        "latency/merged.json": {"count": 50_000, "warmup_s": 50, "p99_ms": 12.5},
        "manifest.json": {"load": {"start_ms": 1_000_000, "end_ms": 1_100_000}},
        "measurements.json": {
            "cpu_us_per_point": {"storage": 40.0, "kairosdb": 10.0, "loader": 2.0},
            "cpu_cores": {"storage-1": 0.5, "kairosdb-1": 0.25},
        },
        "queries.json": {"answers": {"points_checked": 200, "points_late": late}},
        "plan.json": {"experiment": {"queries": {"rate": 0.5}}},
    }
    for name, document in documents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    # Before the warm-up ends, at its end, at the load's end, and after it.
    depths = [(1010, 9), (1050, waiting[0]), (1060, 5), (1099, waiting[1]), (1150, 0)]
    lines = [json.dumps({"t": t, "node": "kairosdb-1", "waiting": d}) for t, d in depths]
    (folder / "queue.jsonl").write_text("\n".join([*lines, '{"t": 1070, "error": "x"}', '{"t']))
    return queue.Run(folder, Looked({1: "storage", 2: "kairosdb"}))


def test_a_store_that_got_less_than_was_taken_is_charged_for_what_it_got(tmp_path: Path) -> None:
    found = run_folder(tmp_path, waiting=(1_000, 26_000)).round()
    assert found.cost == pytest.approx(40.0 * 50_000 / 25_000)
    assert found.figures["kairosdb_us_per_point"] == 10.0
    assert found.figures["stored_per_s"] == 25_000 / 50
    # Of a server that has been running for long: without its compilers' 2 µs.
    assert found.figures["kairosdb_compiler_us_per_point"] == pytest.approx(2.0)
    assert found.figures["kairosdb_compiled_us_per_point"] == pytest.approx(8.0)
    assert found.figures["sustained"] == 1.0
    assert found.figures["cores"] == 0.75
    # Each by the points that it got.
    assert found.figures["storage_mutations_us_per_point"] == pytest.approx(0.1e6 / 25_000)
    assert found.figures["kairosdb_http_us_per_point"] == pytest.approx(0.1e6 / 50_000)


def test_points_that_queries_did_not_find_are_told(tmp_path: Path) -> None:
    assert run_folder(tmp_path, late=3).round().figures["points_late_share"] == 0.015


def test_only_a_run_without_queries_has_no_figure_of_them(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    (tmp_path / "queries.json").unlink()
    with pytest.raises(BenchError, match=r"left no queries\.json"):
        run.round()
    (tmp_path / "plan.json").write_text('{"experiment": {"queries": {"rate": 0}}}')
    assert "points_late_share" not in run.round().figures


def test_a_store_that_kept_up_is_charged_for_all(tmp_path: Path) -> None:
    assert run_folder(tmp_path).round().cost == 40.0


@pytest.mark.parametrize("lost", [{"missing": 1}, {"wrong_value": 1}])
def test_a_run_that_lost_points_does_not_count(tmp_path: Path, lost: dict[str, int]) -> None:
    with pytest.raises(BenchError, match="acknowledged points are missing"):
        run_folder(tmp_path, **lost).round()


def test_a_run_without_figures_does_not_count(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"left no ledger\.json"):
        queue.Run(tmp_path, Looked({})).round()


@pytest.mark.parametrize(
    "kairosdb", [queue.PUBLISHED_2018, queue.STOCK, queue.COALESCING, queue.LONGEST]
)
def test_all_sides_are_experiments_that_can_be_planned(kairosdb: dict[str, Any]) -> None:
    load = queue.EXPERIMENT["load"] | {"sensors": queue.SENSORS}
    document = queue.EXPERIMENT | {"load": load, "kairosdb": kairosdb}
    plan = known.plan(Experiment.model_validate(document), "local")
    assert kairosdb.items() <= plan.kairosdb.items()


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The experiments that a bench deploys, in a cluster of which nothing runs."""
    experiments: list[dict[str, Any]] = []

    class Deployed(queue.Cluster):
        def run(
            self,
            kairosdb: dict[str, Any],
            sensors: int,
            *options: str,
            load: Any = None,
            queries: Any = None,
        ) -> Any:
            file = self.deploy(kairosdb, sensors, load, queries)
            experiments.append(yaml.safe_load(file.read_text()))
            return run_folder(tmp_path)

        def _call(self, *arguments: str | Path, ends: tuple[int, ...] = (0,)) -> None:
            assert arguments[0] == "deploy"

    @contextlib.contextmanager
    def temporary(_: Path) -> Iterator[queue.Cluster]:
        yield Deployed(tmp_path, tmp_path)

    monkeypatch.setattr(queue, "temporary_cluster", temporary)
    monkeypatch.setattr(queue, "runs_of", lambda _: tmp_path)
    return experiments


def test_what_a_point_costs_is_measured_on_a_warm_server(deployed: list[dict[str, Any]]) -> None:
    """All sides alike, and for as long as a trial of a search."""
    with queue.costs() as sides:
        for side in sides.values():
            side()
    loads = [experiment["load"] for experiment in deployed]
    assert len(loads) == 4
    measured = queue.EXPERIMENT["load"]["duration_s"] - queue.EXPERIMENT["load"]["warmup_s"]
    for load in loads:
        assert load["warmup_s"] >= 75 and load["duration_s"] - load["warmup_s"] == measured
        assert load["sensors"] == queue.SENSORS


def test_queries_are_left_out_where_the_aim_was_set_without(
    deployed: list[dict[str, Any]],
) -> None:
    with queue.sixties() as sides:
        for side in (sides[harness.BASELINE], sides[harness.OURS]):
            side()
    assert {experiment["load"]["sensors"] for experiment in deployed} == {60_000}
    rates = [experiment["queries"] for experiment in deployed]
    assert rates == [queue.EXPERIMENT["queries"], queue.EXPERIMENT["queries"] | {"rate": 0}]


def test_each_checkout_deploys_and_loads_its_own_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what another was set up for is not guessed."""
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(queue.OTHER, str(tmp_path))
    with pytest.raises(BenchError, match=rf"{tmp_path}: no checkout that was set up"):
        queue.checkouts().__enter__()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "kairoscope").touch()
    called: list[tuple[str, str]] = []

    def started(command: list[str | Path], checkout: Path, *_: Any, **__: Any) -> Any:
        assert command[0] == checkout / ".venv" / "bin" / "kairoscope"
        called.append((str(checkout), str(command[1])))
        raise OSError("as far as this test goes")

    monkeypatch.setattr(queue.driver, "run_verb", started)
    # What `destroy` could not end keeps its folder.
    monkeypatch.setattr(queue.tempfile, "tempdir", str(tmp_path))
    with queue.checkouts() as sides:
        for side in (sides[harness.OURS], sides[harness.BASELINE]):
            with pytest.raises(OSError, match="as far"):
                side()
    here = str(queue.paths.CHECKOUT)
    assert called == [(at, verb) for at in (here, str(tmp_path)) for verb in ("deploy", "destroy")]


# Its deploy takes a while to end once it is interrupted, and `destroy` is refused before that.
DEPLOYS = """#!/bin/sh
case $1 in
deploy)
  trap 'sleep 0.3; touch "$KAIROSCOPE_HOME/over"; exit 130' INT
  kill -INT "$PPID"
  while :; do sleep 0.05; done ;;
destroy)
  [ -e "$KAIROSCOPE_HOME/over" ] || { echo "a deploy holds the lock" >&2; exit 2; } ;;
esac
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[None]:
    mine = signal.signal(signal.SIGINT, signal.default_int_handler)
    path = tmp_path / ".venv" / "bin" / "kairoscope"
    path.parent.mkdir(parents=True)
    path.write_text(DEPLOYS)
    path.chmod(0o755)
    yield
    signal.signal(signal.SIGINT, mine)


@pytest.mark.usefixtures("program")
def test_a_bench_that_is_interrupted_while_it_deploys_leaves_no_servers(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        queue.temporary_cluster(tmp_path, tmp_path) as cluster,
    ):
        cluster.deploy({}, 10)
    assert not cluster.home.exists()


@pytest.mark.usefixtures("program")
def test_servers_that_could_not_be_ended_can_be_found_again(tmp_path: Path) -> None:
    with (
        pytest.raises(BenchError, match=r"holds the lock. Its servers .* make destroy") as said,
        queue.temporary_cluster(tmp_path, tmp_path) as cluster,
    ):
        pass
    assert str(cluster.home) in str(said.value)
    (cluster.home / "over").touch()
    cluster.destroy()
    shutil.rmtree(cluster.home)


class Machine:
    """A cluster that sustains so many sensors."""

    def __init__(self, limit: int, folder: Path) -> None:
        self.limit, self.folder, self.tried = limit, folder, list[int]()

    def run(self, _: dict[str, Any], sensors: int, *options: str) -> Any:
        assert options in ((), ("--read-back-if-sustained",))
        self.tried.append(sensors)
        good = sensors <= self.limit
        folder = self.folder / f"run-{len(self.tried)}"
        read = good or not options
        said = Outcome(folder.name, "pass" if good else "fail", good, "", read_back=read)

        class Found(queue.Run):
            @property
            def outcome(self) -> Outcome:
                return said

        run_folder(folder)
        return Found(folder, Looked({1: "storage", 2: "kairosdb"}))


@pytest.fixture
def machine(tmp_path: Path) -> Any:
    return Machine(10_000, tmp_path)


@pytest.mark.parametrize("begin", [3_000, 9_000, 12_000, 40_000])
def test_the_search_ends_between_what_is_sustained_and_what_is_not(
    machine: Any, begin: int
) -> None:
    search = queue.Search(machine, {}, begin)
    found = search()
    lower, upper = found.figures["sensors"], found.figures["not_sustained"]
    assert lower <= 10_000 < upper <= lower / (1 - queue.PRECISION) + 100
    assert found.cost == pytest.approx(1e6 / lower)
    assert found.figures["interval_low"] < 10_000 < found.figures["interval_high"]
    assert found.interval == tuple(1e6 / found.figures[f"interval_{e}"] for e in ("high", "low"))
    assert found.run == str(machine.folder / found.run.rpartition("/")[2])
    # The next round goes on from there, on the search's grid, which is as fine as the precision.
    machine.tried.clear()
    search()
    assert lower * (1 - queue.PRECISION) - 100 <= machine.tried[0] <= lower


def test_a_search_gives_up(machine: Any) -> None:
    machine.limit = 0
    with pytest.raises(BenchError, match="Nothing that was tried is sustained"):
        queue.Search(machine, {}, 2_000)()
    assert len(machine.tried) < 30


def value(side: str, number: int, cost: float, us: float) -> harness.Value:
    return harness.Value(number, side, "2026-11-25T08:00:00+00:00", Round(cost, {"us": us}))


def test_a_figure_of_both_sides_and_another_side_can_be_limited() -> None:
    bench = Bench(
        "x", "x", "s", contextlib.nullcontext, "x", others={"third": "x"},
        limits=(
            Limit("not more", "us_ratio", at_least=1),
            Limit("beside another", "third.ratio", at_least=8),
        ),
    )  # fmt: skip
    made = [
        value(side, number, cost, us)
        for number in (1, 2, 3)
        for side, cost, us in (("ours", 1, 2), ("baseline", 4, 3), ("third", 9, 1))
    ]
    result = harness.results(bench, made)
    assert result["ratios"]["us_ratio"]["ratio"] == pytest.approx(1.5)
    assert [limit["figure"] for limit in result["limits"]] == pytest.approx([1.5, 9.0])
    assert all(limit["holds"] for limit in result["limits"])


def test_ours_beside_the_planned_stock_queue_is_told_first() -> None:
    """Not beside the settings of 2018, which were never tuned for this machine (issue 24, A5)."""
    (bench,) = (bench for bench in queue.BENCHES if bench.name == "coalescing")
    assert "our plan derives" in bench.baseline_what
    assert set(bench.others) == {"longest", "published_2018"}
    assert bench.thrown_away == 1
    made = [
        value(side, number, cost, 1)
        for number in (1, 2, 3)
        for side, cost in (("ours", 1), ("baseline", 2), ("longest", 1), ("published_2018", 4))
    ]
    found = harness.results(dataclasses.replace(bench, limits=()), made)
    first = harness.table(found).columns[0]
    assert "our plan derives" in next(iter(first.cells))
    assert found["ratio"]["ratio"] == pytest.approx(2)
    assert found["others"]["published_2018"]["ratio"]["ratio"] == pytest.approx(4)


def test_all_sides_have_one_scale_of_age_and_one_limit_of_the_drain() -> None:
    load = queue.EXPERIMENT["load"] | {"sensors": queue.SENSORS}
    plans = [
        known.plan(
            Experiment.model_validate(queue.EXPERIMENT | {"load": load, "kairosdb": kairosdb})
        )
        for kairosdb in (queue.COALESCING, queue.STOCK, queue.LONGEST, queue.PUBLISHED_2018)
    ]
    assert {plan.load["queries"]["lag_s"] for plan in plans} == {35}
    assert len({plan.experiment.limits.drain_s for plan in plans}) == 1
    # As the plan tunes it: nothing of 2018 is in it.
    assert plans[1].kairosdb["batch_size"] != queue.PUBLISHED_2018["batch_size"]
