"""A bake-off: which steps it makes, how it goes on, and what its pages say of the runs."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from compare_samples import finished
from rich.console import Console
from run_samples import STORAGE, run_of

from kairoscope import experiment as experiments
from kairoscope import paths, run_folder
from kairoscope.cli import bakeoff as command
from kairoscope.cli import known
from kairoscope.compare import runs
from kairoscope.errors import UserError
from kairoscope.run_folder import Facts
from kairoscope.series import (
    bakeoff,
    bakeoff_figures,
    bakeoff_making,
    bakeoff_page,
    bakeoff_runs,
    driver,
)
from kairoscope.series.bakeoff import Asked, BakeOff, Entrant
from kairoscope.series.driver import Wanted

QUIET = Console(quiet=True)
ASKED = Asked(sensors=100, duration_s=60, quick=True)
OURS = Entrant("laptop", "KairosDB", "in a file", {})
OTHER = Entrant("victoriametrics", "VictoriaMetrics", "in memory", {"flush_interval_s": 1})
LIMITS = {"p99_ms": 1000}

SEARCHED = {
    "how": "found",
    "sentence": "420 sensors sustained, 480 not.",
    "lower": 420.0,
    "upper": 480.0,
    "at_least": 420.0,
    "capacity": {"median": 500.0, "low": 400.0, "high": 600.0},
}


class Target:
    """What a bake-off does with a target, and run folders as loads leave them."""

    def __init__(
        self,
        *,
        stops_at: int = 99,
        refuses: str = "",
        words: dict[int, str] | None = None,
        searches: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.did: list[str] = []
        self.searches = list(searches)  # what the first ones come to
        self.words = words or {}  # of verdicts, by number of the load
        self.stops_at, self.refuses = stops_at, refuses
        self.loads = 0

    def deploy(self, wanted: Wanted) -> None:
        self.did.append(f"deploy {Path(wanted.experiment).name}")
        if self.refuses and self.refuses in wanted.experiment:
            raise UserError("no Go here")

    def load(self, wanted: Wanted, into: Path) -> Path:
        self.loads += 1
        if self.loads == self.stops_at:
            raise KeyboardInterrupt
        name = Path(wanted.experiment).stem
        self.did.append(" ".join(("load", name, *wanted.options)))
        claimed = 1000
        kept = claimed if name != "victoriametrics-killed" else 400
        nodes = {"kairosdb": ["one"], "storage": []}
        untold = {"drain": "it does not tell"}
        more = {"nodes": nodes, "captures": {"processes": ["one"], "not_judged": untold}}
        faster = 0.1 if "victoria" in name else 1.0
        number = len(list(into.iterdir()))
        word = self.words.get(self.loads, "pass")
        run = finished(into, f"run-{number}", experiment=name, manifest=more, cpu=faster, word=word)
        if word == "error":
            Facts(incomplete=["the loader died"]).end(run)
        elif word == "killed":
            Facts().write(run)
        points = {"acknowledged": claimed, "stored": kept, "queued": 0}
        ledger = {"scheduled": 1000, "acknowledges": True, **points}
        (run / run_folder.LEDGER).write_text(json.dumps(ledger))
        if not wanted.options:
            pass
        elif wanted.options == ("--count-visible",):
            seen = {"wanted": 1000, "found": 1000, "looks": 1, "lacked_s": None, "after_due_s": 0.5}
            (run / run_folder.VISIBLE).write_text(json.dumps(seen))
        elif wanted.options == ("--ask",):
            ms = 2.5 if "victoria" in name else 40.0
            of_hour = {"kind": "hour", "latency_ms": ms, "found": 120}
            why = {"kind": "means", "why": "it takes no such query"}
            asked = [{"t": 1.0, "kind": "last", "error": "HTTP 404"}, of_hour, of_hour, why]
            (run / run_folder.ASKED).write_text("\n".join(map(json.dumps, asked)))
        else:
            after_s = max(0.375, float(wanted.options[1]))
            killed = {"after_arrived_s": after_s, "serving_s": 3.0}
            (run / run_folder.KILLED).write_text(json.dumps(killed))
        return run

    def search(self, wanted: Wanted) -> Path:
        self.did.append(" ".join(("search", Path(wanted.experiment).name, *wanted.options)))
        folder = Path(wanted.experiment).parent.parent / "series" / "search"
        folder.mkdir(exist_ok=True, parents=True)
        result = self.searches.pop(0) if self.searches else SEARCHED
        told = {"wanted": {"most": 600.0}, "result": result}
        (folder / "search.json").write_text(json.dumps(told))
        return folder

    def destroy(self) -> None:
        self.did.append("destroy")


def opened(into: Path, entrants: list[Entrant], asked: Asked = ASKED, **more: Any) -> BakeOff:
    return BakeOff.open(into, "local", entrants, asked, LIMITS, **more)


def run(
    found: BakeOff,
    entrants: list[Entrant],
    target: Target,
    asked: Asked = ASKED,
    for_s: float = 3600,
) -> int:
    made = bakeoff_making.Making(found, asked, target, QUIET, lambda: None, for_s)
    return made(entrants)


def rows_of(found: BakeOff) -> list[bakeoff_figures.Row]:
    """Of ours, without another."""
    return bakeoff_figures.rows([bakeoff_runs.read(found.folder, found.system(OURS))], 100)


def test_each_system_has_its_turn_and_is_destroyed(tmp_path: Path) -> None:
    target, entrants = Target(), [OURS, OTHER]
    asked = Asked(100, 60, quick=False)
    found = opened(tmp_path, entrants, asked)
    run(found, entrants, target, asked)
    killed = [f"--kill-after {s}" for s in (0, 5, 15)]
    searched = "--precision 20% --trial 45 --or-anew"
    assert target.did == [
        *("deploy laptop.yml", "load laptop --count-visible", "load laptop --ask"),
        "deploy laptop-killed.yml",
        *(f"load laptop-killed {how}" for how in killed),
        *("destroy", "deploy victoriametrics.yml", "load victoriametrics --count-visible"),
        *("load victoriametrics --ask", "deploy victoriametrics-killed.yml"),
        *(f"load victoriametrics-killed {how}" for how in killed),
        "deploy victoriametrics-durable.yml",
        *(f"load victoriametrics-durable {how}" for how in killed),
        # The machine was busy to 42 % under 100 sensors.
        *("destroy", f"search laptop-searched.yml {searched} --from 238"),
        *("destroy", f"search victoriametrics-searched.yml {searched} --from 238"),
        "destroy",
    ]
    assert found.document["ended"]
    again = Target()
    run(found, entrants, again, asked)
    assert again.did == []


def test_an_interrupted_one_goes_on_with_the_step_that_is_not_there(tmp_path: Path) -> None:
    entrants = [OURS, OTHER]
    found = opened(tmp_path, entrants)
    with pytest.raises(KeyboardInterrupt):
        run(found, entrants, Target(stops_at=4))
    again = opened(tmp_path, entrants)
    assert again.folder == found.folder
    assert again.document["deployed"] == "laptop"
    target = Target()
    run(again, entrants, target)
    assert target.did[:3] == [
        *("deploy laptop-killed.yml", "load laptop-killed --kill-after 5"),
        "load laptop-killed --kill-after 15",
    ]
    assert target.did.count("destroy") == 2
    assert opened(tmp_path / "other", entrants).folder != found.folder


def test_a_first_load_that_was_interrupted_comes_on_servers_that_are_new(tmp_path: Path) -> None:
    found = opened(tmp_path, [OURS])
    with pytest.raises(KeyboardInterrupt):
        run(found, [OURS], Target(stops_at=1))
    assert (found.document["deployed"], found.document["loaded"]) == ("laptop", False)
    again, target = opened(tmp_path, [OURS]), Target()
    assert run(again, [OURS], target) == 0
    assert target.did[:3] == ["destroy", "deploy laptop.yml", "load laptop --count-visible"]
    assert again.system(OURS)["unmeasured"] == []


def test_what_cannot_be_destroyed_before_a_load_is_made_again_is_no_fault_of_it(
    tmp_path: Path,
) -> None:
    found = opened(tmp_path, [OURS])

    class Stuck(Target):
        def destroy(self) -> None:
            raise UserError("could not remove the folder")

    with pytest.raises(UserError, match="could not remove the folder"):
        run(found, [OURS], Stuck(words={1: "invalid"}))
    assert found.system(OURS)["error"] is None


def test_what_cannot_be_destroyed_is_no_fault_of_the_next_system(tmp_path: Path) -> None:
    entrants = [OURS, OTHER]
    found = opened(tmp_path, entrants)

    class Stuck(Target):
        def destroy(self) -> None:
            raise UserError("could not remove the folder")

    for _ in range(2):  # as it ends, and before the next one
        with pytest.raises(UserError, match="could not remove the folder"):
            run(found, entrants, Stuck())
        assert found.document["deployed"] == "laptop"
        assert [found.system(one)["error"] for one in entrants] == [None, None]
    target = Target()
    assert run(opened(tmp_path, entrants), entrants, target) == 0
    assert target.did[:2] == ["destroy", "deploy victoriametrics.yml"]


def test_no_step_is_begun_for_which_there_is_no_time(tmp_path: Path) -> None:
    entrants = [OURS, OTHER]
    found, target = opened(tmp_path, entrants), Target()
    # One is made in any case, and then what was deployed for it is ended.
    assert run(found, entrants, target, for_s=1) == 12
    assert target.did == ["deploy laptop.yml", "load laptop --count-visible", "destroy"]
    page = bakeoff_page.write(found, entrants, OURS.name).read_text()
    assert "the same command goes on" in page
    # By what such steps took. Nothing is known of a kill yet, for which 80 s are guessed.
    found.keep(found.system(OURS) | {"took_s": {"load": 30.0, "queries": 50.0}})
    again, target = opened(tmp_path, entrants), Target()
    assert again.folder == found.folder
    assert run(again, entrants, target, for_s=60) == 11
    # On servers that are new the series of the load before are there first.
    assert target.did == ["deploy laptop.yml", "load laptop", "load laptop --ask", "destroy"]
    assert run(again, entrants, Target()) == 0
    assert again.document["ended"]


def test_what_is_killed_has_its_series_from_a_load_before_also_when_it_is_deployed_afresh(
    tmp_path: Path,
) -> None:
    entrants = [OURS, OTHER]
    found = opened(tmp_path, entrants)
    run(found, entrants, Target())
    kills = [bakeoff.kill_name(s) for s in (0, 5, 15)]
    for one in entrants:
        document = found.system(one)
        steps = {k: v for k, v in document["steps"].items() if k in ("load", "queries")}
        took_s = dict.fromkeys(kills, 10.0) | {"load": 60.0}
        found.keep(document | {"steps": steps, "took_s": took_s})
    target = Target()
    # The load is reckoned with: of the second system it and a kill would take 70 s.
    assert run(found, entrants, target, for_s=50) == 6
    own = ["deploy laptop.yml", "load laptop", "deploy laptop-killed.yml"]
    killed = [f"load laptop-killed --kill-after {s}" for s in (0, 5, 15)]
    assert target.did == [*own, *killed, "destroy"]
    (name,) = found.system(OURS)["unmeasured"]
    text = bakeoff_page.write(found, entrants, OURS.name).with_name("report.md").read_text()
    why = "not measured: for its series, as it was deployed afresh"
    assert f"| KairosDB | load | {why} | – | {name} |" in text
    # Interrupted in that load, or in the deploy before it, it is made again, and not after it.
    for stops_at, loads in ((1, 0), (2, 1)):
        with pytest.raises(KeyboardInterrupt):
            run(found, entrants, Target(stops_at=stops_at))
        assert found.document["deployed"] == "victoriametrics"
        assert len(found.system(OTHER)["unmeasured"]) == loads
    target = Target()
    assert run(found, entrants, target) == 0
    assert target.did[:2] == [
        *("deploy victoriametrics-killed.yml", "load victoriametrics-killed --kill-after 0"),
    ]


def test_after_an_error_the_first_load_comes_once_more(tmp_path: Path) -> None:
    class Fails(Target):
        def load(self, wanted: Wanted, into: Path) -> Path:
            if "5" in wanted.options:
                raise UserError("a bug of a system's")
            return super().load(wanted, into)

    found = opened(tmp_path, [OURS])
    run(found, [OURS], Fails())
    assert found.system(OURS)["error"] == "a bug of a system's"
    target = Target()
    assert run(opened(tmp_path, [OURS]), [OURS], target) == 0
    assert target.did[:4] == [
        *("deploy laptop.yml", "load laptop", "deploy laptop-killed.yml"),
        "load laptop-killed --kill-after 5",
    ]


def test_a_search_begins_at_what_all_cores_would_do(tmp_path: Path) -> None:
    finished(tmp_path, "run", experiment="laptop")
    there, nothing = {"steps": {"load": "run"}}, {"steps": {}}
    assert bakeoff_making.begin_at(tmp_path, there, ASKED) == 238
    assert bakeoff_making.begin_at(tmp_path, nothing, ASKED) == 50
    verdict = tmp_path / "run" / run_folder.VERDICT
    measured = tmp_path / "run" / run_folder.MEASUREMENTS
    told = json.loads(measured.read_text())
    # Or what its processes took, if that is more.
    measured.write_text(json.dumps(told | {"cpu_cores": {"influxdb-1": 0.9, "loader": 0.1}}))
    assert bakeoff_making.begin_at(tmp_path, there, ASKED) == 200
    measured.write_text(json.dumps(told | {"machine_cpu_busy_fraction": 0.0}))
    assert bakeoff_making.begin_at(tmp_path, there, ASKED) == 50
    measured.write_text(
        json.dumps({**told, "cpu_cores": {"a": 0.04}, "machine_cpu_busy_fraction": 0})
    )
    assert bakeoff_making.begin_at(tmp_path, there, ASKED) == 5000
    # No less than it has just passed.
    measured.write_text(json.dumps(told | {"machine_cpu_busy_fraction": 1.1}))
    assert bakeoff_making.begin_at(tmp_path, there, ASKED) == 100
    measured.write_text(json.dumps(told | {"machine_cpu_busy_fraction": None}))
    assert bakeoff_making.begin_at(tmp_path, there, ASKED) == 50
    measured.write_text(json.dumps(told))
    verdict.write_text(json.dumps({"verdict": "fail"}))
    assert bakeoff_making.begin_at(tmp_path, there, ASKED) == 50


def test_what_was_asked_for_otherwise_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(("a", "b", "c"))
    monkeypatch.setattr(run_folder, "stamp", lambda _: next(names))
    first = opened(tmp_path, [OURS])
    assert opened(tmp_path, [OURS]).folder == first.folder
    assert opened(tmp_path, [OURS], Asked(101, 60, quick=True)).folder.name == "b"
    assert opened(tmp_path, [OURS], Asked(101, 60, quick=True), anew=True).folder.name == "c"


def test_a_system_that_cannot_be_had_does_not_end_it(tmp_path: Path) -> None:
    target, entrants = Target(refuses="victoriametrics"), [OTHER, OURS]
    found = opened(tmp_path, entrants)
    run(found, entrants, target)
    assert found.system(OTHER)["error"] == "no Go here"
    kills = map(bakeoff.kill_name, (0, 5, 15))
    assert set(found.system(OURS)["steps"]) == {"load", "queries", *kills}
    assert target.did[:2] == ["deploy victoriametrics.yml", "destroy"]
    assert target.did[-1] == "destroy"
    page = bakeoff_page.write(found, entrants, OURS.name).read_text()
    assert "Not brought to its end:</b> VictoriaMetrics: no Go here" in page
    # With what was missing, the same command tries that one again, and no other.
    again, target = opened(tmp_path, entrants), Target()
    assert again.folder == found.folder
    run(again, entrants, target)
    assert again.system(OTHER)["error"] is None
    assert target.did[:2] == ["deploy victoriametrics.yml", "load victoriametrics --count-visible"]
    assert not any("laptop" in did for did in target.did)


def test_all_get_the_same_load_under_the_same_limits(tmp_path: Path) -> None:
    loads = []
    follow = []
    for entrant in command._entered(None, Asked(100, 90, quick=True))[0]:
        for file, text in bakeoff.experiments(entrant, ASKED, LIMITS).items():
            (tmp_path / file).write_text(text)
            plan = known.plan(experiments.load(str(tmp_path / file)))
            assert plan.experiment.limits.p99_ms == 1000
            if plan.load["queries"]:
                assert plan.load["queries"]["followed"]
                follow.append(file)
            if not file.endswith(("-killed.yml", "-durable.yml", "-searched.yml")):
                loads.append(yaml.safe_load(text)["load"])
    assert follow == [f"{name}-asked.yml" for name in ("laptop", "laptop-stock", "laptop-cql")]
    assert len(loads) == len(known.BAKE_OFF) + len(follow)
    protocols = {load.pop("protocol") for load in loads}
    assert len(protocols) > 1
    assert all(load == loads[0] for load in loads)


def test_the_page_says_where_others_are_better_and_what_is_not_judged(tmp_path: Path) -> None:
    entrants = [OURS, OTHER]
    found = opened(tmp_path, entrants)
    page = bakeoff_page.write(found, entrants, OURS.name)
    assert "Under way, or interrupted" in page.read_text()
    run(found, entrants, Target())
    systems = [bakeoff_runs.read(found.folder, found.system(one)) for one in entrants]
    rows = {row.label: row.cells for row in bakeoff_figures.rows(systems, 100)}
    killed = rows["survives kill -9 as the load ends"]
    assert killed["victoriametrics"].text == "3/s (40 %) after 0.4 s"
    durable = rows["… with its durable setting, 5 s after the last acknowledgement"]
    assert durable["victoriametrics"].value == 1.0
    assert durable["laptop"].value is None
    assert rows["CPU of its servers a point"]["laptop"].text == "25 µs (17 of the store)"
    assert rows["serves again after a kill"]["laptop"].value == 3.0
    seen = rows["queries find all points, after the last was due"]["laptop"]
    assert seen.text == "at most 500 ms"
    drained = rows["nothing waits any more, after the last point was due"]["laptop"]
    assert (drained.text, drained.why) == ("not judged", "it does not tell")
    assert rows["sensors sustained at most"]["laptop"].why == "no search was made"
    last, hour, means = (
        next(cells for label, cells in rows.items() if label.startswith(kind))
        for kind in ("last point of 100 sensors,", "an hour of one sensor,", "mean of all sensors")
    )
    assert (hour["laptop"].text, hour["laptop"].value) == ("40 ms, 40 ms (2, 120)", 40.0)
    assert (last["laptop"].text, last["laptop"].value) == ("not measured", None)
    assert last["laptop"].why == "1 of 1 failed: HTTP 404"
    assert means["laptop"].why == "it takes no such query"
    titles = {"laptop": "KairosDB", "victoriametrics": "VictoriaMetrics"}
    behind = bakeoff_figures.behind(list(bakeoff_figures.rows(systems, 100)), "laptop", titles)
    assert behind == [
        "an hour of one sensor, under the load: p50, p99 (answers, points in each): 40 ms, 40 ms "
        "(2, 120); VictoriaMetrics 2.5 ms, 2.5 ms (2, 120)",
        "CPU of its servers a point: 25 µs (17 of the store); "
        "VictoriaMetrics 2.5 µs (1.7 of the store)",
    ]
    html = bakeoff_page.write(found, entrants, OURS.name).read_text()
    text = (found.folder / "report.md").read_text()
    for shown in (html, text):
        assert all(text in shown for text in behind)
        assert "3/s (40 %) after 0.4 s" in shown
        assert "0.38 s after the last acknowledgement" in shown
        assert "5.00 s after the last acknowledgement" in shown
        assert "Under way" not in shown
    assert 'id="chart-survival"' in html
    assert "all: sensors sustained at most: no search was made." in text
    assert "all: mean of all sensors in each second of a minute, under the load" in text
    assert "not measured" in text
    assert "make bakeoff SENSORS=100 DURATION=60 ONLY=laptop,victoriametrics QUICK=1" in text


def test_a_search_gives_an_interval(tmp_path: Path) -> None:
    asked = Asked(100, 60, quick=False)
    found = opened(tmp_path, [OURS], asked)
    run(found, [OURS], Target(), asked)
    (row,) = (
        row
        for row in bakeoff_figures.rows([bakeoff_runs.read(found.folder, found.system(OURS))], 1)
        if row.label == "sensors sustained at most"
    )
    assert row.cells["laptop"].text == "500 (400 to 600)"
    # Also for who has only what was measured, elsewhere.
    assert found.system(OURS)["steps"]["search"] == "../series/search"
    moved = shutil.copytree(tmp_path, tmp_path.with_name("moved")) / found.folder.name
    read = bakeoff_runs.read(moved, found.system(OURS))
    assert read.searched == SEARCHED
    shutil.rmtree(tmp_path / "series")
    assert bakeoff_runs.read(moved, found.system(OURS)).searched


@pytest.mark.parametrize(
    ("how", "least", "text", "value"),
    [
        ("lost", 420.0, "points lost", None),
        ("none sustained", None, "nothing sustained", None),
        ("not judged", 420.0, "at least 420", 420.0),
        ("not judged", None, "not judged", None),
        ("all sustained", 480.0, "at least 480", 480.0),
    ],
)
def test_a_search_that_did_not_find_it_gives_no_interval(
    tmp_path: Path, how: str, least: float | None, text: str, value: float | None
) -> None:
    asked, entrants = Asked(100, 60, quick=False), [OURS]
    found = opened(tmp_path, entrants, asked)
    run(found, entrants, Target(), asked)
    upper = None if how == "all sustained" else 600.0
    ended = {"how": how, "sentence": "It is so.", "lower": least, "upper": upper}
    path = tmp_path / "series" / "search" / "search.json"
    # By all its trials together there is an interval all the same.
    path.write_text(json.dumps({"result": SEARCHED | ended | {"at_least": least}}))
    (row,) = (row for row in rows_of(found) if row.label == "sensors sustained at most")
    assert row.cells["laptop"] == bakeoff_figures.Cell(text, value, "It is so.")
    system = bakeoff_runs.read(found.folder, found.system(OURS))
    assert bakeoff_figures.throughput(system) == (
        (value, "at least") if value else (1000 / 120, "accepted")
    )


ALL = {"how": "all sustained", "sentence": "It is the end.", "lower": 600.0, "at_least": 600.0}


def test_a_search_that_ends_at_its_upper_end_is_made_from_there(tmp_path: Path) -> None:
    asked, target = Asked(100, 60, quick=False), Target(searches=[ALL])
    found = opened(tmp_path, [OURS], asked)
    # A step a call, of six; with the search there is another one.
    left = [run(found, [OURS], target, asked, for_s=1e-3) for _ in range(6)]
    assert left == [5, 4, 3, 2, 1, 1]
    (row,) = (row for row in rows_of(found) if row.label == "sensors sustained at most")
    assert row.cells["laptop"].text == "at least 600"
    assert run(found, [OURS], target, asked) == 0
    searches = [did.rpartition(" ")[2] for did in target.did if did.startswith("search")]
    assert searches == ["238", "600"]
    assert target.did[-1] == "destroy"
    document = found.system(OURS)
    assert document["below"] == [{"made": "../series/search", "sustained": 600}]
    (row,) = (row for row in rows_of(found) if row.label == "sensors sustained at most")
    assert row.cells["laptop"].text == "500 (400 to 600)"
    bakeoff_page.write(found, [OURS], "laptop")
    text = (found.folder / "report.md").read_text()
    assert "all of 600 sensors sustained: searched from there" in text
    run(found, [OURS], target, asked)
    assert len([did for did in target.did if did.startswith("search")]) == 2


def test_what_was_sustained_is_known_though_no_more_can_be_judged(tmp_path: Path) -> None:
    asked = Asked(100, 60, quick=False)
    nothing: dict[str, Any] = {"how": "not judged", "sentence": "Late."}
    nothing |= {"lower": None, "at_least": None}
    found, target = opened(tmp_path, [OURS], asked), Target(searches=[ALL, nothing])
    assert run(found, [OURS], target, asked) == 0
    (row,) = (row for row in rows_of(found) if row.label == "sensors sustained at most")
    assert row.cells["laptop"] == bakeoff_figures.Cell("at least 600", 600.0, "Late.")


def test_no_more_is_searched_than_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "search.json").write_text(json.dumps({"wanted": {"most": 9e6}, "result": ALL}))
    there = {"steps": {"search": "."}}
    assert bakeoff_making.upper_end(tmp_path, there) is None
    (tmp_path / "search.json").write_text(json.dumps({"wanted": {"most": 9e5}, "result": ALL}))
    assert bakeoff_making.upper_end(tmp_path, there) == 900_000
    (tmp_path / "search.json").write_text(json.dumps({"wanted": {"most": 9e5}, "result": None}))
    assert bakeoff_making.upper_end(tmp_path, there) is None
    assert bakeoff_making.upper_end(tmp_path, {"steps": {}}) is None


@pytest.mark.parametrize("below", [True, False])
def test_a_deployment_that_is_not_its_own_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: bool
) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    if below:  # Plans name what is below the checkout, where verbs are called, from there.
        monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
        monkeypatch.chdir(tmp_path)
    (tmp_path / "local").mkdir()
    found, other = (opened(tmp_path / name, [OURS]) for name in ("one", "other"))

    def deploy(file: str) -> str:
        made = known.plan(experiments.load(file))
        (tmp_path / "local" / "plan.json").write_text(made.to_json())
        return made.experiment_file

    found.note(deployed="laptop", loaded=True)
    for name in ("laptop.yml", "laptop-killed.yml", "laptop-searched.yml"):
        assert deploy(str(found.folder / name)).startswith("one/" if below else "/")
        command._check_free("local", found)
    assert found.document["deployed"] == "laptop"
    # The user's own of the same system, and another bake-off's.
    for file in ("laptop", "influxdb", str(other.folder / "laptop.yml")):
        deploy(file)
        with pytest.raises(UserError, match=rf"is deployed with .*{Path(file).stem}\.yml, which"):
            command._check_free("local", found)
    # By somebody who has destroyed it there is nothing to go on with, nor series.
    (tmp_path / "local" / "plan.json").unlink()
    command._check_free("local", found)
    kept = json.loads((found.folder / bakeoff.INDEX).read_text())
    assert (kept["deployed"], kept["loaded"]) == (None, False)


def test_a_new_one_that_is_refused_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    names = iter(("a", "b", "c"))
    monkeypatch.setattr(run_folder, "stamp", lambda _: next(names))
    entrant, _, _ = command._entered("influxdb", asked := Asked(100, 60, quick=True))
    monkeypatch.setattr(command, "_entered", lambda *_: (entrant, LIMITS, "laptop"))
    interrupted = opened(tmp_path / "bakeoff", entrant, asked)
    interrupted.note(deployed="influxdb", loaded=True)
    (tmp_path / "local").mkdir()
    made = known.plan(experiments.load(str(interrupted.folder / "influxdb.yml")))
    (tmp_path / "local" / "plan.json").write_text(made.to_json())
    arguments = ["--only", "influxdb", "--sensors", "100", "--duration", "60", "--quick"]
    with pytest.raises(UserError, match="First: make destroy"):
        command.bakeoff.main([*arguments, "--anew"], standalone_mode=False)
    assert opened(tmp_path / "bakeoff", entrant, asked).folder == interrupted.folder
    assert [path.name for path in (tmp_path / "bakeoff").iterdir() if path.is_dir()] == ["a"]


def test_systems_that_are_not_compared_are_refused() -> None:
    with pytest.raises(UserError, match=r"ONLY=laptop,fleet: fleet is not compared. There are: "):
        command._entered("laptop,fleet", ASKED)
    entrants, limits, ours = command._entered("questdb", Asked(100, 90, quick=True))
    assert [entrant.name for entrant in entrants] == ["questdb"]
    assert limits["p99_ms"] == 1000
    assert ours == "laptop"


def test_every_system_has_a_colour_of_its_own(tmp_path: Path) -> None:
    entrants = []
    for number in range(8):
        file = tmp_path / f"system-{number}.yml"
        file.write_text((paths.EXPERIMENTS / "influxdb.yml").read_text())
        entrants.append(Entrant(str(file), f"System {number}", "", {}))
    found = opened(tmp_path / "bakeoff", entrants)
    run(found, entrants, Target())
    systems = [bakeoff_runs.read(found.folder, found.system(one)) for one in entrants]
    chart = bakeoff_page.survival(systems, {one.name: one.title for one in entrants})
    assert chart
    assert len({line.colour for line in chart.series}) == len(entrants) >= len(known.BAKE_OFF)


def test_a_load_too_short_to_judge_a_queue_is_refused_before_anything_is_deployed() -> None:
    with pytest.raises(UserError) as refused:
        command._entered(None, Asked(5000, 45, quick=True))
    assert refused.value.message == (
        "DURATION=45: 30 s of it are measured, too short to tell whether a queue grows, so laptop, "
        "laptop-stock, graphite-1, gnocchi, questdb would end incomplete. That takes 60 s, and 4 "
        "windows of a queue that has one (laptop's is 15 s), behind a third of warm-up: "
        "DURATION=90. Or without them: ONLY=laptop-cql,influxdb,victoriametrics"
    )
    with pytest.raises(UserError, match=r"so questdb would .* takes 60 s, behind .*DURATION=90$"):
        command._entered("questdb", Asked(100, 60, quick=True))
    # Of what says is enough, and of those that have no queue, nothing is refused.
    assert len(command._entered(None, Asked(5000, 90, quick=True))[0]) == len(known.BAKE_OFF)
    assert command._entered("influxdb", Asked(100, 30, quick=True))[0]


def test_a_longer_window_of_a_queue_takes_a_longer_load() -> None:
    asked = Asked(5000, 90, quick=True)
    bakeoff.refuse_short(asked, {"laptop": 15.0, "other": 0.0}, [])
    with pytest.raises(UserError, match=r"laptop would .*laptop's is 20 s.*DURATION=120$"):
        bakeoff.refuse_short(asked, {"laptop": 20.0, "other": 0.0}, [])


@pytest.mark.parametrize(
    ("left", "found"),
    [
        ({}, None),  # refused before there was a folder
        ({"b": None}, None),  # refused by its deploy
        ({"b": {"how": "found"}}, "b"),
        ({"begun": {"how": "found"}}, "begun"),  # it went on
    ],
)
def test_a_search_without_a_result_was_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: dict[str, Any], found: str | None
) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))

    def folder(name: str, result: dict[str, str] | None) -> Path:
        made = paths.series_dir() / f"{name}-search-influxdb-local"
        made.mkdir(parents=True, exist_ok=True)
        (made / "search.json").write_text(json.dumps({"result": result}))
        return made

    folder("a-mine", {"how": "found"})  # the user's own
    folder("begun", None)
    (paths.series_dir() / "cut-off-search-influxdb-local").mkdir()

    def called(*_: Any, **how: Any) -> None:
        assert how["ends"] == (0, 1, 2)
        for name, result in left.items():
            folder(name, result)

    monkeypatch.setattr(driver.Verbs, "_call", called)
    verbs = driver.Verbs("local", QUIET)
    if found:
        assert verbs.search(Wanted("influxdb")).name == f"{found}-search-influxdb-local"
    else:
        with pytest.raises(UserError, match=r"`kairoscope search influxdb` came to no result"):
            verbs.search(Wanted("influxdb"))


def test_a_run_that_says_nothing_of_its_system_is_made_once_more(tmp_path: Path) -> None:
    # The load, the first kill, the second.
    target = Target(words={1: "invalid", 4: "error", 6: "killed", 8: "incomplete"})
    found = opened(tmp_path, [OURS])
    assert run(found, [OURS], target) == 0
    document = found.system(OURS)
    kills = [bakeoff.kill_name(s) for s in (0, 5, 15)]
    assert list(document["spoiled"]) == ["load", kills[0], kills[1]]
    assert target.did == [
        # Its figures have the creation of series, which the first try would have done.
        *("deploy laptop.yml", "load laptop --count-visible", "destroy"),
        *("deploy laptop.yml", "load laptop --count-visible"),
        *("load laptop --ask", "deploy laptop-killed.yml"),
        # Servers that are down, or about to serve again, are waited for.
        *("load laptop-killed --kill-after 0", "deploy laptop-killed.yml"),
        *("load laptop-killed --kill-after 0", "load laptop-killed --kill-after 5"),
        *("deploy laptop-killed.yml", "load laptop-killed --kill-after 5"),
        # Too short for a part of its verdict, which is not what it is for.
        *("load laptop-killed --kill-after 15", "destroy"),
    ]
    page = bakeoff_page.write(found, [OURS], OURS.name)
    text = page.with_name("report.md").read_text()
    assert f"| KairosDB | load | made once more | – | {document['spoiled']['load']} |" in text
    assert "its run is" not in text


def test_what_is_seen_when_a_run_is_judged_spoils_it_too(tmp_path: Path) -> None:
    """That a machine was not looked at any more, or a reader was ended, is in no fact of the run.

    Of verdicts that do not say it apart the facts are what there is."""
    made = run_of(tmp_path, duration_s=40)
    path = tmp_path / run_folder.PROCESSES
    early = [look for look in run_folder.records(path) if look["t"] <= made.began_s + 24]
    run_folder.write_lines(path, early)
    made.captured(*((node, when) for node in STORAGE for when in ("before", "during", "after")))
    made.read_back()
    made.judge()
    why = bakeoff.spoiled(runs.read(tmp_path))
    assert why is not None
    assert why[0] == "incomplete"
    assert why[1].startswith("the machine was not looked at in the last 16 s")
    verdict = made.json(run_folder.VERDICT)
    assert verdict.pop("incomplete") == [why[1]]
    (tmp_path / run_folder.VERDICT).write_text(json.dumps(verdict))
    assert bakeoff.spoiled(runs.read(tmp_path)) is None


def test_what_a_part_lacks_does_not_spoil_a_run(tmp_path: Path) -> None:
    made = run_of(tmp_path)  # not read back
    assert made.judge().verdict == "incomplete"
    assert bakeoff.spoiled(runs.read(tmp_path)) is None


def test_once_more_is_once_also_after_an_interruption(tmp_path: Path) -> None:
    found = opened(tmp_path, [OURS])
    with pytest.raises(KeyboardInterrupt):
        run(found, [OURS], Target(words={1: "invalid"}, stops_at=2))
    again, target = opened(tmp_path, [OURS]), Target(words={1: "invalid"})
    assert run(again, [OURS], target) == 0
    assert target.did.count("load laptop --count-visible") == 1
    assert again.system(OURS)["steps"]["load"] != again.system(OURS)["spoiled"]["load"]


@pytest.mark.parametrize(
    ("words", "marked", "why"),
    [
        ({1: "invalid", 2: "invalid"}, "accepted", "invalid: It is invalid."),
        ({1: "fail"}, "accepted", "fail: It is fail."),
        ({2: "fail"}, "an hour of one sensor", "fail: It is fail."),
        ({3: "error", 4: "error"}, "survives kill -9 as the load ends", "incomplete: the loader"),
        ({3: "error", 4: "error"}, "serves again after a kill", "incomplete: the loader"),
        ({3: "fail"}, "survives kill -9 as the load ends", ""),
    ],
)
def test_a_figure_of_a_run_to_be_doubted_is_marked(
    tmp_path: Path, words: dict[int, str], marked: str, why: str
) -> None:
    found = opened(tmp_path, [OURS])
    run(found, [OURS], Target(words=words))
    rows = bakeoff_figures.rows([bakeoff_runs.read(found.folder, found.system(OURS))], 100)
    (cell,) = (row.cells["laptop"] for row in rows if row.label.startswith(marked))
    word = why.partition(":")[0]
    assert cell.text.endswith(f", {word}") == bool(why)
    assert (f"its run is {why}" in cell.why) if why else not cell.why
    others = [row.cells["laptop"].text for row in rows if row.label == "accepted"]
    assert any(text.endswith(f", {word}") for text in others) == (marked == "accepted")


def test_a_figure_that_says_nothing_of_its_system_is_held_against_none() -> None:
    cell, titles = bakeoff_figures.Cell, {name: name.upper() for name in "abc"}
    doubted = cell("1 s, invalid", 1.0, "its run is invalid: it is so", doubted=True)

    def behind(**cells: bakeoff_figures.Cell) -> list[str]:
        return bakeoff_figures.behind([bakeoff_figures.Row("it", cells, True)], "a", titles)

    # Neither is it better, nor does it hide one that is.
    assert behind(a=cell("3 s", 3.0), b=doubted, c=cell("2 s", 2.0)) == ["it: 3 s; C 2 s"]
    assert behind(a=cell("3 s", 3.0), b=doubted, c=cell("4 s", 4.0)) == []
    # Ours is no figure, whatever it is.
    said = ["it: 1 s, invalid (its run is invalid: it is so); C 2 s"]
    assert behind(a=doubted, b=cell("4 s", 4.0), c=cell("2 s", 2.0)) == said
    assert behind(a=doubted, b=doubted) == []


@pytest.mark.parametrize(
    ("words", "label", "doubted"),
    [
        ({1: "invalid", 2: "invalid"}, "accepted", True),
        ({1: "fail"}, "accepted", False),  # of its system, which did not hold its limits
        ({3: "error", 4: "error"}, "serves again after a kill", True),
        # The load's word, and the questions' run that says nothing.
        ({1: "fail", 2: "invalid", 3: "invalid"}, "queries find all points, after the last", True),
    ],
)
def test_what_is_doubted_is_of_a_run_that_says_nothing_of_its_system(
    tmp_path: Path, words: dict[int, str], label: str, doubted: bool
) -> None:
    found = opened(tmp_path, [OURS])
    run(found, [OURS], Target(words=words))
    if "queries" in label:
        steps = found.system(OURS)["steps"]
        (found.folder / steps["load"] / run_folder.VISIBLE).unlink()
        verdict = found.folder / steps["queries"] / run_folder.VERDICT
        told = {"max_ms": 1250.0, "count": 480, "every_s": 1.02}
        verdict.write_text(json.dumps(json.loads(verdict.read_text()) | {"followed": told}))
    (cell,) = (row.cells["laptop"] for row in rows_of(found) if row.label.startswith(label))
    assert cell.value is not None
    assert cell.doubted == doubted


def test_another_one_in_between_does_not_hide_what_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter("abcd")
    monkeypatch.setattr(run_folder, "stamp", lambda _: next(names))
    whole, other = opened(tmp_path, [OURS, OTHER]), opened(tmp_path, [OTHER])
    run(other, [OTHER], Target())
    assert opened(tmp_path, [OURS, OTHER]).folder == whole.folder
    # One that has come to its end is not gone on with, nor one before it.
    run(whole, [OURS, OTHER], Target())
    assert opened(tmp_path, [OURS, OTHER]).folder.name == "c"
    # Nor one by another version, of another format, or of which the document was cut off.
    for name, text in (("format", '{"format": 1}'), ("cut", "{")):
        (tmp_path / f"z-{name}").mkdir()
        (tmp_path / f"z-{name}" / "bakeoff.json").write_text(text)
    assert opened(tmp_path, [OURS, OTHER]).folder.name == "c"
    monkeypatch.setattr(bakeoff, "__version__", "9.9")
    assert opened(tmp_path, [OURS, OTHER]).folder.name == "d"


def test_columns_of_different_days_and_code_say_so(tmp_path: Path) -> None:
    entrants = [OURS, OTHER]
    found = opened(tmp_path, entrants)
    assert "nothing was run yet" in bakeoff_page.write(found, entrants, OURS.name).read_text()
    run(found, entrants, Target())
    page = bakeoff_page.write(found, entrants, OURS.name).with_name("report.md")
    assert "system not known, 2026-11-18, Kairoscope 0.1.0, 0123456." in page.read_text()
    assert "Not all runs" not in page.read_text()
    path = found.folder / found.system(OTHER)["steps"]["load"] / run_folder.MANIFEST
    told = json.loads(path.read_text())
    told |= {"started": "2026-11-20T10:00:00+00:00", "git": {"commit": "fedcba98", "dirty": True}}
    path.write_text(json.dumps(told))
    bakeoff_page.write(found, entrants, OURS.name)
    text = page.read_text()
    assert "on several days, of several commits." in text
    assert (
        "Not all runs are of one day: KairosDB 2026-11-18; VictoriaMetrics 2026-11-18 and "
        "2026-11-20."
    ) in text
    assert (
        "Not all runs are of one version and commit: KairosDB 0.1.0, 0123456; VictoriaMetrics "
        "0.1.0, 0123456 and 0.1.0, fedcba9 with changes."
    ) in text
    assert "of one machine" not in text


def test_time_to_visible_is_that_of_followed_sensors_where_all_cannot_be_counted(
    tmp_path: Path,
) -> None:
    ours = Entrant("laptop", "KairosDB", "in a file", {}, follows=True)
    entrants, target = [ours, OTHER], Target()
    found = opened(tmp_path, entrants)
    run(found, entrants, target)
    assert "load laptop-asked --ask" in target.did
    assert "load victoriametrics --ask" in target.did
    asked = yaml.safe_load((found.folder / "laptop-asked.yml").read_text())
    loaded = yaml.safe_load((found.folder / "laptop.yml").read_text())
    assert asked.pop("queries") == {"rate": 1}
    assert asked == loaded
    label = "queries find all points, after the last was due"
    titles = {"laptop": "KairosDB", "victoriametrics": "VictoriaMetrics"}

    def shown() -> tuple[bakeoff_figures.Cell, list[str]]:
        systems = [bakeoff_runs.read(found.folder, found.system(one)) for one in entrants]
        rows = bakeoff_figures.rows(systems, 100)
        (cell,) = (row.cells["laptop"] for row in rows if row.label == label)
        return cell, [
            text for text in bakeoff_figures.behind(rows, "laptop", titles) if label in text
        ]

    steps = found.system(ours)["steps"]
    (found.folder / steps["load"] / run_folder.VISIBLE).unlink()
    why = "what its queries find cannot be counted without changing it"
    # What ours cannot show is where it is behind, too.
    assert shown() == (
        bakeoff_figures.Cell("not judged", why=why),
        [f"{label}: not judged ({why}); VictoriaMetrics at most 500 ms"],
    )
    verdict = found.folder / steps["queries"] / run_folder.VERDICT
    told = {"max_ms": 1250.0, "count": 480, "every_s": 1.02}
    verdict.write_text(json.dumps(json.loads(verdict.read_text()) | {"followed": told}))
    cell, behind = shown()
    assert cell.value == 1.25
    assert cell.text == (
        "at most 1.25 s (480 points of a few sensors, from each one's acknowledgement, asked for "
        "every 1.02 s)"
    )
    assert behind == [f"{label}: {cell.text}; VictoriaMetrics at most 500 ms"]
    # What was not run yet is neither.
    new = opened(tmp_path / "new", entrants)
    system = [bakeoff_runs.read(new.folder, new.system(one)) for one in entrants]
    assert bakeoff_figures.behind(bakeoff_figures.rows(system, 100), "laptop", titles) == []


AS_IT_ENDS = "survives kill -9 as the load ends"


@pytest.mark.parametrize(
    ("step", "label", "after"),
    [("load", "read back", ""), ("kill after 0 s", AS_IT_ENDS, " after 0.4 s")],
)
def test_what_still_waits_is_neither_kept_nor_lost(
    tmp_path: Path, step: str, label: str, after: str
) -> None:
    found = opened(tmp_path, [OURS])
    run(found, [OURS], Target())
    ledger = found.folder / found.system(OURS)["steps"][step] / run_folder.LEDGER

    def shown(**book: Any) -> bakeoff_figures.Cell:
        ledger.write_text(json.dumps(json.loads(ledger.read_text()) | book))
        (cell,) = (row.cells["laptop"] for row in rows_of(found) if row.label == label)
        return cell

    why = "300 points still waited on its servers when all were read back: whether they are kept "
    assert shown(stored=600, queued=300) == bakeoff_figures.Cell(
        f"at least 5/s (60 %; 300 points still waited){after}", 0.6, why + "is not known"
    )
    if step != "load":
        page = bakeoff_page.write(found, [OURS], OURS.name).read_text()
        assert "KairosDB at least 60 % / 100 % / 100 %" in page
    # Of none there is no share.
    for word, book in (
        ("acknowledged", {"acknowledged": 0}),
        ("sent", {"acknowledges": False, "unknown": 0, "unknown_stored": 0}),
    ):
        nothing = bakeoff_figures.Cell("not judged", why=f"no point was {word}")
        assert shown(stored=0, queued=0, **book) == nothing
    if step != "load":
        page = bakeoff_page.write(found, [OURS], OURS.name).read_text()
        assert "KairosDB – / 100 % / 100 %" in page


UNKNOWN = -1.0
"""When servers served again, of a kill whose record does not say whether they did."""


def test_a_kill_after_which_nothing_served_again_is_told(tmp_path: Path) -> None:
    found = opened(tmp_path, [OURS])
    # The kill after 5 s, and when it is made once more.
    run(found, [OURS], Target(words={4: "error", 5: "error"}))

    def shown(*seconds: float | None) -> bakeoff_figures.Cell:
        steps = found.system(OURS)["steps"]
        for after_s, serving_s in zip((0, 5, 15), seconds, strict=True):
            path = found.folder / steps[bakeoff.kill_name(after_s)] / run_folder.KILLED
            told = json.loads(path.read_text()) | {"serving_s": serving_s}
            path.write_text(json.dumps({k: v for k, v in told.items() if v != UNKNOWN}))
        label = "serves again after a kill"
        (cell,) = (row.cells["laptop"] for row in rows_of(found) if row.label == label)
        return cell

    why = "its run says: It is error."
    assert shown(3, None, 4) == bakeoff_figures.Cell("3 s to 4 s; not after 1 of 3 kills", why=why)
    why = "its run says: It is pass."
    assert shown(None, None, None) == bakeoff_figures.Cell("not after 3 of 3 kills", why=why)
    told = "3 s; not after 1 of 2 kills"
    assert shown(3, UNKNOWN, None) == bakeoff_figures.Cell(told, why=why)
    assert shown(3, UNKNOWN, 4).text == "3 s to 4 s, incomplete"
    assert shown(UNKNOWN, UNKNOWN, UNKNOWN) == bakeoff_figures.Cell("not judged", why=why)


def test_a_kill_whose_end_nobody_knows_is_made_once_more(tmp_path: Path) -> None:
    """As of a load that was ended by itself while it waited until the servers serve again."""

    class Interrupted(Target):
        def load(self, wanted: Wanted, into: Path) -> Path:
            made = super().load(wanted, into)
            if self.loads == 4:
                killed = json.loads((made / run_folder.KILLED).read_text())
                del killed["serving_s"]
                (made / run_folder.KILLED).write_text(json.dumps(killed))
            return made

    found = opened(tmp_path, [OURS])
    run(found, [OURS], Interrupted(words={4: "error"}))
    assert list(found.system(OURS)["spoiled"]) == [bakeoff.kill_name(5)]
    cells = {row.label: row.cells["laptop"] for row in rows_of(found)}
    assert cells["serves again after a kill"].text == "3 s"


class Down(Target):
    """Of which a kill leaves servers that a deploy alone brings back, if it does."""

    def __init__(self, *, comes_back: bool) -> None:
        super().__init__(words={4: "error"})  # the kill after 5 s
        self.comes_back, self.down = comes_back, False

    def deploy(self, wanted: Wanted) -> None:
        super().deploy(wanted)
        if self.down and not self.comes_back:
            raise UserError("laptop did not become healthy")
        self.down = False

    def destroy(self) -> None:
        super().destroy()
        self.down = False

    def load(self, wanted: Wanted, into: Path) -> Path:
        if self.down:
            raise UserError("`kairoscope load` left no run folder")
        made = super().load(wanted, into)
        if self.loads == 4:
            self.down = True
            killed = json.loads((made / run_folder.KILLED).read_text())
            killed["serving_s"] = None
            (made / run_folder.KILLED).write_text(json.dumps(killed))
            for name in ("stored", "queued"):
                book = json.loads((made / run_folder.LEDGER).read_text()) | {name: None}
                (made / run_folder.LEDGER).write_text(json.dumps(book))
        return made


@pytest.mark.parametrize("comes_back", [True, False])
def test_servers_that_stay_down_after_a_kill_are_a_figure_of_it(
    tmp_path: Path, comes_back: bool
) -> None:
    found = opened(tmp_path, [OURS])
    target = Down(comes_back=comes_back)
    run(found, [OURS], target)
    document = found.system(OURS)
    kills = [bakeoff.kill_name(s) for s in (0, 5, 15)]
    made = kills if comes_back else kills[:2]
    assert list(document["steps"]) == ["load", "queries", *made]
    assert document["spoiled"] == {}
    assert document["error"] == (None if comes_back else "laptop did not become healthy")
    cells = {row.label: row.cells["laptop"] for row in rows_of(found)}
    why = "its run says: It is error."
    told = f"3 s; not after 1 of {len(made)} kills"
    assert cells["serves again after a kill"] == bakeoff_figures.Cell(told, why=why)
    survived = cells["survives kill -9 5 s after the last acknowledgement"]
    assert survived == bakeoff_figures.Cell("not judged", why=why)
    if not comes_back:  # On servers that are new: what is left, and not that kill once more.
        again = Target()
        assert run(opened(tmp_path, [OURS]), [OURS], again) == 0
        killed = [step for step in again.did if "--kill-after" in step]
        assert killed == ["load laptop-killed --kill-after 15"]


def test_the_time_to_drain_is_that_of_the_verdict(tmp_path: Path) -> None:
    found = opened(tmp_path, [OURS])
    run(found, [OURS], Target())
    folder = found.folder / found.system(OURS)["steps"]["load"]
    manifest = folder / run_folder.MANIFEST
    manifest.write_text(
        json.dumps(json.loads(manifest.read_text()) | {"captures": {"processes": []}})
    )
    verdict = {"verdict": "pass", "summary": "It is.", "parts": {"drain": {"figure": 0.125}}}
    (folder / run_folder.VERDICT).write_text(json.dumps(verdict))
    label = "nothing waits any more, after the last point was due"
    (cell,) = (row.cells["laptop"] for row in rows_of(found) if row.label == label)
    assert cell == bakeoff_figures.Cell("125 ms", 0.125)


@pytest.mark.parametrize(
    ("step", "file", "label"),
    [
        ("load", run_folder.LEDGER, "accepted"),
        ("load", run_folder.VISIBLE, "queries find all points, after the last was due"),
        ("kill after 0 s", run_folder.LEDGER, AS_IT_ENDS),
        ("kill after 0 s", run_folder.KILLED, AS_IT_ENDS),
        ("search", "search.json", "sensors sustained at most"),
    ],
)
def test_a_file_that_was_cut_off_takes_its_own_figure_and_no_page(
    tmp_path: Path, step: str, file: str, label: str
) -> None:
    asked = Asked(100, 60, quick=False)
    found = opened(tmp_path, [OURS], asked)
    run(found, [OURS], Target(), asked)
    path = found.folder / found.system(OURS)["steps"][step] / file
    path.write_text(path.read_text()[:-5])
    rows = {row.label: row.cells["laptop"] for row in rows_of(found)}
    assert f"{file}: cut off, or not JSON: " in rows[label].why
    assert rows["CPU of its servers a point"].value == 25.0
    assert "cut off" in bakeoff_page.write(found, [OURS], OURS.name).read_text()


def test_questions_that_ended_early_say_why(tmp_path: Path) -> None:
    found = opened(tmp_path, [OURS])
    run(found, [OURS], Target())
    folder = found.folder / found.system(OURS)["steps"]["queries"]
    event = {"t": 1.0, "what": "questions ended early", "detail": "MemoryError"}
    (folder / run_folder.EVENTS).write_text(json.dumps(event))

    def asked(label: str) -> bakeoff_figures.Cell:
        (cell,) = (row.cells["laptop"] for row in rows_of(found) if row.label.startswith(label))
        return cell

    def why() -> str:
        return asked("last point").why

    # What was answered by then is told, and held against none: it is not of the whole load.
    hour = asked("an hour")
    assert (hour.value, hour.compared) == (40.0, None)
    assert why() == "1 of 1 failed: HTTP 404; questions ended early: MemoryError"
    # At their start, before there was any of them.
    (folder / run_folder.ASKED).unlink()
    assert why() == "questions ended early: MemoryError"


def test_time_to_visible_lies_between_two_looks(tmp_path: Path) -> None:
    found = opened(tmp_path, [OURS])
    run(found, [OURS], Target())
    path = found.folder / found.system(OURS)["steps"]["load"] / run_folder.VISIBLE
    seen = {"looks": 3, "lacked_s": 2.75, "asked_s": 5.0, "after_due_s": 7.0}
    path.write_text(json.dumps(json.loads(path.read_text()) | seen))
    label = "queries find all points, after the last was due"
    (cell,) = (row.cells["laptop"] for row in rows_of(found) if row.label == label)
    assert (cell.text, cell.value) == ("between 2.75 s and 7 s", 7.0)


def test_points_a_second_are_by_the_time_to_the_last_acknowledgement(tmp_path: Path) -> None:
    found = opened(tmp_path, [OURS])
    run(found, [OURS], Target())
    labels = ("accepted", "read back")

    def shown() -> list[str]:
        return [row.cells["laptop"].text for row in rows_of(found) if row.label in labels]

    folder = found.folder / found.system(OURS)["steps"]["load"]
    path = folder / run_folder.MEASUREMENTS
    end_s = json.loads((folder / run_folder.MANIFEST).read_text())["load"]["end_ms"] / 1000
    # The load is of 120 s; what it was not rid of until then was taken for 80 s more.
    for arrived_t, rate in ((None, "8/s"), (end_s - 0.5, "8/s"), (end_s + 80, "5/s")):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"arrived_t": arrived_t}))
        assert shown() == [f"{rate} (100 %)"] * 2


def test_throughput_is_drawn_against_what_survives(tmp_path: Path) -> None:
    entrants, asked = [OURS, OTHER], Asked(100, 60, quick=False)
    titles = {one.name: one.title for one in entrants}
    found = opened(tmp_path, entrants, asked)

    def drawn() -> bakeoff_page.Chart | None:
        systems = [bakeoff_runs.read(found.folder, found.system(one)) for one in entrants]
        return bakeoff_page.throughput(systems, titles)

    assert drawn() is None
    run(found, entrants, Target(), asked)
    # No search of it was made yet.
    other = found.system(OTHER)
    other["steps"].pop("search")
    found.keep(other)
    chart = drawn()
    assert chart
    assert chart.log
    assert chart.x == (0.0, 40.0, 100.0)
    # As planned, and by a line the durable setting.
    assert {line.label: line.values for line in chart.series} == {
        "KairosDB": (None, None, 500.0),
        "VictoriaMetrics, accepted": (None, 1000 / 120, 1000 / 120),
    }
    assert "VictoriaMetrics, accepted 8/s, 40 % and 100 %." in chart.summary
    page = bakeoff_page.write(found, entrants, OURS.name).read_text()
    assert 'id="chart-throughput"' in page


def test_what_systems_say_is_text_in_the_page_of_text_too(tmp_path: Path) -> None:
    said = "<b>No</b> | none\n# of [it](x)"
    ours = Entrant("laptop", "KairosDB", "", {}, fair=f"KairosDB: {said}")
    entrants = [ours, OTHER]
    found = opened(tmp_path, entrants)
    run(found, entrants, Target())
    manifest = found.folder / found.system(ours)["steps"]["load"] / run_folder.MANIFEST
    told = json.loads(manifest.read_text())
    told["captures"]["not_judged"] = {"latency": said}
    manifest.write_text(json.dumps(told))
    text = bakeoff_page.write(found, entrants, ours.name).with_name("report.md").read_text()
    # Where it is behind, why a figure is not there, and what makes it fair.
    assert text.count("\\<b>No\\</b> \\| none # of \\[it](x)") == 3
    assert said not in text


def test_each_stack_says_once_what_makes_it_fair(tmp_path: Path) -> None:
    entrants = command._entered(None, Asked(100, 90, quick=True))[0]
    found = opened(tmp_path, entrants)
    text = bakeoff_page.write(found, entrants, "laptop").with_name("report.md").read_text()
    for entrant in entrants:
        assert entrant.fair.startswith(entrant.title)
        assert text.count(f"- {entrant.fair}\n") == 1
    assert "A request has 100 points" in text
    assert "Series are there already when servers are killed" in text
