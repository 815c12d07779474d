"""Published figures of other systems beside their runs."""

import re
from dataclasses import replace

import pytest
import yaml

from kairoscope import experiment as experiments
from kairoscope import paths
from kairoscope.cli import known
from kairoscope.experiment import Overrides
from kairoscope.report import data as report_data
from kairoscope.report import reference
from kairoscope.targets.target import Target

FILE = paths.REFERENCE / "gnocchi-2017.yml"
RUN = report_data.RunData(
    folder="x",
    plan={
        "stack": "gnocchi",
        "experiment": {"load": {"sensors_per_request": 1, "points_per_request": 1000}},
        "kairosdb": {"api_processes": 2},
    },
    manifest={"versions": {"gnocchi": "4.7.1"}, "target": "local"},
    measurements={
        "points_per_s": {"achieved": 123_456.0},
        "cpu_us_per_point": {"metricd": 500.0, "api": 9.0},
    },
)


def lines(run: report_data.RunData) -> dict[str, tuple[str, str, str]]:
    (found,) = reference.compare(run, paths.REFERENCE)
    assert "Julien Danjou" in found.source
    return {line.figure: (line.published, line.ours, line.comparable) for line in found.lines}


def test_what_was_derived_is_what_its_arithmetic_says() -> None:
    (entry,) = yaml.safe_load(FILE.read_text(encoding="utf-8"))["experiments"]
    for name, figure in entry["figures"].items():
        assert figure["approximate"] is True, name
        assert ("arithmetic" in figure) == (figure["status"] == "derived"), name
        if figure["status"] == "derived":
            found = re.fullmatch(r"([\d,]+) measures × ([\d.]+) requests/s", figure["arithmetic"])
            assert found is not None, name
            measures = int(found[1].replace(",", ""))
            assert figure["value"] == pytest.approx(measures * float(found[2])), name
            assert figure.get("points_per_request", measures) == measures, name


def test_a_rate_stands_beside_that_of_as_many_points_in_a_request() -> None:
    told = lines(RUN)
    published = "≈ 405,380 points/s (derived: 1,000 measures × 405.38 requests/s)"
    assert told["Accepted, 1,000 measures a request"] == (published, "123,456 points/s", "no")
    assert told["Accepted, 100 measures a request"][1:] == ("–", "no")
    assert told["Metrics created"] == ("≈ 1,473 metrics/s", "–", "no")
    assert told["Version"][1] == "4.7.1"
    assert told["Settings"][1] == "api_processes 2"
    load = {"sensors_per_request": 10, "points_per_request": 100, "replay": True}
    asked = replace(RUN, plan={**RUN.plan, "experiment": {"load": load}})
    assert lines(asked)["Accepted, 1,000 measures a request"][1:] == ("123,456 points/s", "partly")
    # Its metricd is busy after the load, too.
    assert lines(asked)["Aggregated by metricd"][1:] == ("–", "no")


def test_graphites_processes_stand_beside_theirs() -> None:
    processes = tuple({"name": f"cache-{n}", "role": "cache"} for n in "ab")
    run = replace(
        RUN,
        plan={"stack": "graphite", "experiment": {"reference": "graphite-4-2020"}},
        processes=processes,
        measurements={
            "points_per_s": {"achieved": 1_000.0},
            "cpu_cores": {"cache-a": 0.1, "cache-b": 0.2, "loader-worker-0": 0.9},
        },
    )
    (found,) = reference.compare(run, paths.REFERENCE)
    told = {line.figure: (line.published, line.ours, line.comparable) for line in found.lines}
    assert told["Points taken at most"] == ("2.4 million/min", "1,000 points/s", "no")
    assert told["CPU of a cache"] == ("20 % of a core", "20 % of a core", "no")
    assert told["CPU of a relay"] == ("above 90 % of a core", "–", "no")
    unnamed = replace(run, plan={"stack": "graphite"})
    assert len(reference.compare(unnamed, paths.REFERENCE)) == 4


def test_a_replayed_day_stands_beside_the_one_that_was_published() -> None:
    named = experiments.load("graphite-replay").reference
    looks = tuple({"counters": {"a/cache.size": n, "b/cache.size": 1}} for n in (7, 90, 0))
    run = replace(
        RUN,
        plan={
            "stack": "graphite",
            "experiment": {"reference": named, "load": {"replay": True}},
        },
        manifest={"load": {"start_ms": 1_000, "end_ms": 13_500}},
        counters=looks,
    )
    (found,) = reference.compare(run, paths.REFERENCE)
    told = {line.figure: (line.published, line.ours, line.comparable) for line in found.lines}
    assert told["Points in the cache at most"] == ("about 19 million points", "91", "no")
    assert told["Until the 24 hours were taken"] == ("about 2 hours", "12.5 s", "no")
    burst = told["Points received at first, while CPU credits lasted"]
    assert burst == ("around 5 million/min", "123,456 points/s", "no")
    live = replace(run, plan={**run.plan, "experiment": {"reference": named}}, counters=())
    (found,) = reference.compare(live, paths.REFERENCE)
    told = {line.figure: (line.published, line.ours, line.comparable) for line in found.lines}
    assert told["Until the 24 hours were taken"][1] == "–"
    assert told["Points in the cache at most"][1] == "–"


def test_what_a_core_does_is_of_its_role_alone() -> None:
    aggregated = lines(RUN)["Aggregated by metricd"]
    assert aggregated == ("roughly 700 measures/s with 1 CPU", "2,000 points/s", "partly")
    unseen = replace(RUN, measurements={})
    assert lines(unseen)["Aggregated by metricd"][1:] == ("–", "no")


def test_figures_stand_beside_runs_of_their_own_system() -> None:
    of_another = replace(RUN, plan={**RUN.plan, "stack": "other"})
    assert reference.compare(of_another, paths.REFERENCE) == ()
    titles = [each.title for each in reference.compare(report_data.RunData("x"), paths.REFERENCE)]
    assert len(titles) == 2
    assert not any("Gnocchi" in title for title in titles)


@pytest.mark.parametrize(
    ("target", "told", "shared"),
    [
        ("lab", {"shared": True}, True),
        ("aws", {"shared": False}, False),
        # As older plans are, which do not say.
        ("local", {}, True),
        ("lab", {"shared": None}, True),
        ("aws", {}, False),
    ],
)
def test_a_run_of_servers_that_share_a_machine_is_said_to_be_one(
    target: str, told: dict[str, bool], shared: bool
) -> None:
    where = ("another machine", "everything shares one machine here")
    of_other = replace(RUN, plan=RUN.plan | told, manifest={**RUN.manifest, "target": target})
    (found,) = reference.compare(of_other, paths.REFERENCE)
    assert next(line.why for line in found.lines if line.figure == "Hardware") == where[shared]
    where = ("compare the instance types", where[1])
    ours = report_data.RunData(
        "x", plan=told, manifest={"target": target, "versions": {"engine": "scylla"}}
    )
    for found in reference.compare(ours, paths.REFERENCE):
        hardware = next(line for line in found.lines if line.figure == "Hardware")
        assert (hardware.comparable, hardware.why) == (("partly", "no")[shared], where[shared])


@pytest.mark.parametrize("target", known.TARGETS, ids=lambda target: target.name)
def test_a_plan_says_whether_all_share_a_machine(target: Target) -> None:
    made = known.plan(experiments.load("laptop", Overrides()), target.name)
    assert made.shared is target.shared
