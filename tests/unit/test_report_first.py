"""The first screen of the report: figures to quote, what was not ours, the topology, the folds."""

import json
from pathlib import Path
from typing import Any

import pytest
import report_samples
from hypothesis import given
from hypothesis import strategies as st
from test_report_pages import Page, change, in_order, report

from kairoscope.report import first, topology
from kairoscope.report.data import RunData, read

EVIL = '</title></svg><script>alert(1)</script>"'


def nodes(run: Path, **named: list[str]) -> None:
    change(run / "manifest.json", nodes=named)


def machines(run: Path, *found: dict[str, Any]) -> None:
    change(run / "measurements.json", conditions={"machines": list(found)})


def folds(page: Page) -> dict[str, bool]:
    """The sections that can be folded, and whether they are open."""
    return {
        str(a["id"]): "open" in a
        for tag, a in page.elements
        if tag == "details" and a.get("class") == "section"
    }


def test_five_parts_with_figure_and_limit_come_first(tmp_path: Path) -> None:
    page, _, markdown = report(report_samples.failing(tmp_path))
    rows = (
        "Schedule all that was due arrives, and in time ✓ pass 99.998 % 99.9 %",
        "Latency p99 from the planned send time ✗ fail 11.2 s 500 ms",
        "Queue KairosDB's queue does not grow ✓ pass 0.04 % 1 %",
        "Drain the queue empties after the load ✓ pass 1.5 s 1 min",
        "Read-back every acknowledged point is read back ✗ fail 3 points 0 points",
    )
    last = ("Asked for, not sustained", "Not ours, on the machines", "Topology", "What each part")
    assert in_order(page.text, "✗ FAIL", *rows, *last, "Target and achieved")
    assert in_order(markdown, "# FAIL", "| Read-back", "Asked for, not sustained", "## Target")


def test_what_a_part_says_is_no_second_time_among_the_reasons(tmp_path: Path) -> None:
    run = report_samples.failing(tmp_path)
    change(run / "verdict.json", reasons=["latency: p99 of 525,000 points", "another one"])
    found = first.verdict(read(run))
    assert found.apart == ("another one",)
    assert report(run)[0].text.count("p99 of 525,000 points") == 1


def test_the_figures_that_somebody_would_quote(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    merged = json.loads((run / "latency/merged.json").read_text())
    sure = {"p50_ms": [4.1, 4.6], "p99_ms": [30.0, 1250.0]}
    change(run / "latency/merged.json", **{**merged, "requests": 5250, "sure": sure})
    table = first.quoted(read(run), first.verdict(read(run)))
    assert table.rows == (
        (
            "Sustained",
            "5,000 sensors",
            "4,999 of 5,000 points/s acknowledged in time; load of 2 min",
        ),
        ("Acknowledged / lost", "600,000 / 0 points", "of 600,000 scheduled"),
        (
            "Latency p50 / p99",
            "4.31 ms / 38.2 ms",
            "from the planned time; p50 4.1 ms to 4.6 ms; p99 30 ms to 1.25 s (95 %); "
            "525,000 points in 5,250 requests",
        ),
        (
            "CPU a point, servers",
            "138 µs",
            "storage nodes 96.4 µs, KairosDB 41.7 µs, loaders 22.3 µs",
        ),
        (
            "Deepest queue",
            "180 points",
            "waiting in KairosDB; empty 1.5 s after the last point was due",
        ),
    )


def test_what_was_not_stored_stands_beside_what_was_acknowledged(tmp_path: Path) -> None:
    run = report_samples.failing(tmp_path)
    change(run / "ledger.json", rejected=7, queued=2, unknown=0)
    row = first.quoted(read(run), first.verdict(read(run))).rows[1]
    assert row[1:] == (
        "600,000 / 3 points",
        "of 600,000 scheduled; 2 still in the queue; 7 refused",
    )
    (run / "ledger.json").unlink()
    row = first.quoted(read(run), first.verdict(read(run))).rows[1]
    assert row[1] == "600,000 / – points"
    assert "not known: not read back" in row[2]


def test_over_telnet_nothing_is_quoted_as_acknowledged(tmp_path: Path) -> None:
    run = read(report_samples.telnet(tmp_path))
    rows = first.quoted(run, first.verdict(run)).rows
    assert rows[1][:2] == ("Sent / not found", "600,000 / 0 points")
    assert rows[2][2].startswith("from the planned time until handed to the socket; ")
    assert not any("cknowledged" in cell for row in rows for cell in row)


def test_only_a_pass_is_called_sustained(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    for word in ("fail", "invalid", "incomplete"):
        change(run / "verdict.json", verdict=word)
        assert first.quoted(read(run), first.verdict(read(run))).rows[0][0].startswith("Asked for")


def test_what_was_not_ours(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    limits = {"foreign_cpu": 0.2, "steal": 0.1}
    plan = json.loads((run / "plan.json").read_text())
    change(run / "plan.json", experiment={**plan["experiment"], "limits": limits})
    assert not first.not_ours(read(run))
    one = {"name": "machine", "cpus": 2, "busy_share": 0.9, "steal_share": 0.004}
    machines(run, {**one, "foreign_cores": 0.5})
    found = first.not_ours(read(run))
    assert found.head[1] == "CPU of others (limit 20\N{NO-BREAK SPACE}%)"
    assert found.rows == (("machine", "25 %, 0.50 of 2 cores", "0.4 %", "90 %"),)
    # What is not known is not nothing.
    machines(run, {**one, "foreign_cores": None})
    assert first.not_ours(read(run)).rows[0][1] == "not known"
    machines(run, *({**one, "name": f"m{n}", "foreign_cores": n / 50} for n in range(38)))
    rows = first.not_ours(read(run)).rows
    assert [row[0] for row in rows] == ["m37", "m36", "m35", "m34", "34 more, with less"]
    page, _, markdown = report(run)
    for text in (page.text, markdown):
        assert "34 more, with less" in text


@pytest.mark.parametrize("damage", [7, "x", [7], [{"cpus": 0}], [{"cpus": "two"}]])
def test_damaged_conditions_are_not_known(tmp_path: Path, damage: Any) -> None:
    run = report_samples.passing(tmp_path)
    change(run / "measurements.json", conditions={"machines": damage})
    assert "What others did on the machines is not known" in report(run)[0].text


@pytest.mark.parametrize(("count", "boxes"), [(1, 1), (3, 3), (5, 5), (6, 1), (30, 1)])
def test_the_topology_of_few_nodes_and_of_many(tmp_path: Path, count: int, boxes: int) -> None:
    run = report_samples.fleet(tmp_path)
    nodes(run, storage=[f"storage-{n + 1}" for n in range(count)], kairosdb=["kairosdb-1"])
    page, _, _ = report(run)
    found = topology.of(read(run))
    *_, storage = found.tiers
    assert storage.title == f"{count} storage node{'' if count == 1 else 's'}"
    assert storage.detail == "Apache Cassandra 5.0.9, replication factor 3"
    assert len(storage.boxes) == boxes
    if count > boxes:
        assert storage.boxes[0].label == f"{count} × storage-1 … storage-{count}"
    assert storage.title in page.text
    assert [tier.title for tier in found.tiers[:2]] == ["2 loader hosts", "1 KairosDB node"]


def test_the_topology_says_how_they_talk(tmp_path: Path) -> None:
    run = report_samples.fleet(tmp_path)
    settings = {"queue": "coalescing", "write_consistency": "QUORUM", "read_consistency": "ONE"}
    change(run / "plan.json", kairosdb=settings)
    found = topology.of(read(run))
    assert [arrow.label for arrow in found.arrows] == ["REST with gzip", "CQL, W QUORUM, R ONE"]
    assert "KairosDB 1.3.0-1, coalescing queue" in found.summary


def test_nodes_that_share_a_domain_are_told_apart() -> None:
    names = [f"ip-10-0-1-{n}.eu-west-1.compute.internal" for n in range(1, 31)]
    (tier,) = topology.of(RunData("run", manifest={"nodes": {"storage": names}})).tiers[2:]
    assert tier.boxes[0].label == "30 × ip-10-0-1-1 … ip-10-0-1-30"
    addresses = RunData("run", manifest={"nodes": {"storage": ["10.0.0.1", "10.0.0.2"]}})
    assert [box.label for box in topology.of(addresses).tiers[2].boxes] == ["10.0.0.1", "10.0.0.2"]


@given(st.lists(st.text(max_size=80), max_size=40))
def test_boxes_stay_within_the_picture_and_apart(names: list[str]) -> None:
    found = topology.of(RunData("run", manifest={"nodes": {"storage": names}}))
    boxes = found.tiers[2].boxes
    assert boxes
    end = 0.0
    for box in boxes:
        assert box.x >= end - 1e-9
        assert len(box.label) <= max(1, box.width / 6)
        end = box.x + box.width
    assert end <= found.width + 1e-9


def test_names_in_the_topology_are_escaped(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    nodes(run, storage=[EVIL], kairosdb=[EVIL, "kairosdb-2"])
    versions = {**json.loads((run / "manifest.json").read_text())["versions"], "kairosdb": EVIL}
    change(run / "manifest.json", versions=versions)
    page, html, _ = report(run)
    assert "<script>alert" not in html
    assert EVIL in page.text


def test_all_is_folded_where_nothing_failed(tmp_path: Path) -> None:
    found = folds(report(report_samples.passing(tmp_path))[0])
    assert {"parts", "target", "ledger", "client", "kairosdb", "run"} <= set(found)
    assert not any(found.values())


def test_what_tells_of_a_failed_part_is_open(tmp_path: Path) -> None:
    found = folds(report(report_samples.failing(tmp_path))[0])
    assert {name for name, is_open in found.items() if is_open} == {"parts", "client", "ledger"}


def test_what_tells_of_an_invalid_run_is_open(tmp_path: Path) -> None:
    run = report_samples.passing(tmp_path)
    change(run / "verdict.json", verdict="invalid", summary="loader: it sent late")
    found = folds(report(run)[0])
    assert {name for name, is_open in found.items() if is_open} == {"parts", "target"}


def test_wrong_answers_of_queries_are_open(tmp_path: Path) -> None:
    run = report_samples.fleet(tmp_path)
    queries = json.loads((run / "queries.json").read_text())
    change(run / "queries.json", answers={**queries["answers"], "wrong": 1})
    assert folds(report(run)[0])["queries"]


def test_links_lead_to_sections_that_are_there(tmp_path: Path) -> None:
    for run in (report_samples.scylla(tmp_path / "a"), report_samples.fleet(tmp_path / "b")):
        page, _, _ = report(run)
        there = {a.get("id") for _, a in page.elements}
        links = [str(a["href"])[1:] for tag, a in page.elements if tag == "a"]
        assert links
        assert set(links) <= there


def test_an_interrupted_run_has_its_topology_as_planned(tmp_path: Path) -> None:
    page, _, _ = report(report_samples.interrupted(tmp_path))
    for text in ("… INCOMPLETE", "3 storage nodes", "number not known", "not known: not read back"):
        assert text in page.text
