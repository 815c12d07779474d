"""Trouble in mid-run: the run ends, its folder says what happened, the cluster is back."""

import contextlib
import os
import signal
import time

import pytest
from deployment import Deployment, Run, request, variant, whole_lines
from harness import wait_for


def accounts_for_every_point(run: Run) -> None:
    """The loaders' side balances, and every acknowledged point is found, or named as a gap."""
    book = run.json("ledger.json")
    assert book["scheduled"] == book["sent"] + book["not_sent"]
    assert book["sent"] == book["acknowledged"] + book["rejected"] + book["unknown"]
    found = book["stored"] + book["queued"] + book["failed_logged"]
    assert book["acknowledged"] == found + book["missing"] + book["wrong_value"]
    named = sum(gap["count"] for gap in book["gaps"])
    assert named >= book["missing"] + book["wrong_value"]
    assert book["unexpected"] == 0


def says_incomplete(run: Run, why: str) -> None:
    said = run.json("verdict.json")
    assert said["verdict"] == "incomplete"
    assert why in said["reasons"][0]
    assert "verdict: incomplete" in run.output
    assert why in run.output
    assert "Traceback" not in run.output
    assert (run.folder / "report.html").exists()
    report = (run.folder / "report.md").read_text()
    assert "INCOMPLETE" in report
    assert why in report


def test_interrupt_in_mid_load(cluster: Deployment) -> None:
    with cluster.in_mid_load() as run:
        run.interrupt()
        time.sleep(1)
        # People press it again when nothing seems to happen.
        with contextlib.suppress(ProcessLookupError):
            run.interrupt()
        assert run.end(timeout_s=60) == 2
        assert run.workers() == []
        says_incomplete(run, "interrupted by the user")
        book = run.json("ledger.json")
        assert book["balanced"] is False
        assert book["stored"] is None
        assert book["acknowledged"] > 0
        assert book["not_sent"] > 0
        assert any("was not looked at" in note for note in book["notes"])
        assert run.events("interrupted")
    assert cluster.status().returncode == 0


@pytest.mark.faults
def test_terminated_before_the_first_point(cluster: Deployment) -> None:
    """A SIGTERM to the command alone does what Ctrl-C does."""
    with cluster.loading() as run:
        os.kill(run.process.pid, signal.SIGTERM)
        assert run.end(timeout_s=60) == 2
        assert run.workers() == []
        says_incomplete(run, "interrupted by the user (SIGTERM)")
    assert cluster.status().returncode == 0


@pytest.mark.faults
def test_load_killed_leaves_no_worker(cluster: Deployment) -> None:
    with cluster.in_mid_load() as run:
        assert len(run.workers()) == 2
        os.kill(run.process.pid, signal.SIGKILL)
        wait_for("the end of the workers", lambda: not run.workers(), 60)
        judged = cluster.cli("judge", run.folder)
        assert judged.returncode == 2, judged.stderr
        assert "verdict: incomplete  the run did not come to its end" in judged.stdout


def test_kairosdb_killed(cluster: Deployment) -> None:
    before = cluster.pids()
    with cluster.in_mid_load(*cluster.until_told) as run:
        os.kill(before["kairosdb-1"], signal.SIGKILL)
        # To its end: a queue that nobody could ask would make the verdict incomplete.
        wait_for("another KairosDB", lambda: cluster.pids()["kairosdb-1"] != before["kairosdb-1"])
        cluster.wait_until_well()
        cluster.enough.touch()
        assert run.end() in (0, 1)
        assert run.json("verdict.json")["verdict"] in ("pass", "fail")
        accounts_for_every_point(run)
        # What was acknowledged is in KairosDB's file queue, which outlives the process.
        assert run.json("ledger.json")["missing"] == 0
        assert run.json("ledger.json")["wrong_value"] == 0
        assert any("kairosdb-1" in detail for detail in run.events("process started again"))
    cluster.wait_until_well()
    after = cluster.pids()
    assert after.pop("kairosdb-1") != before.pop("kairosdb-1")
    assert after == before


@pytest.mark.faults
def test_storage_node_killed(cluster: Deployment) -> None:
    before = cluster.pids()
    with cluster.in_mid_load(*cluster.until_told) as run:
        # Behind the warm-up's end, where each node is asked what it has counted.
        wait_for("points of the measured part", lambda: run.acknowledged() > 3000)
        os.kill(before["storage-2"], signal.SIGKILL)
        # A node of which nothing was captured under the load would make the verdict incomplete.
        captures = run.folder / "proxyhistograms" / "storage-2"
        wait_for("another storage-2", lambda: cluster.pids()["storage-2"] != before["storage-2"])
        cluster.wait_until_well()
        wait_for("a capture of it", lambda: any(captures.glob("during-*")))
        cluster.enough.touch()
        assert run.end() in (0, 1), run.output
        assert run.json("verdict.json")["verdict"] in ("pass", "fail")
        accounts_for_every_point(run)
        # Two other replicas have them.
        assert run.json("ledger.json")["missing"] == 0
        assert any("storage-2" in detail for detail in run.events("process started again"))
    cluster.wait_until_well()
    after = cluster.pids()
    assert after.pop("storage-2") != before.pop("storage-2")
    assert after == before


@pytest.mark.faults
def test_points_that_are_deleted_in_mid_load_have_vanished(cluster: Deployment) -> None:
    queries = {"rate": 1, "last_s": 6, "bucket_s": 3}
    what = cluster.write("vanish", variant(queries=queries, load={"duration_s": 30}))
    reads = cluster.state / "loader-1" / "load" / "queries-0.followed.jsonl"

    def found() -> bool:
        """Whether a read has found the first five points of the first followed series."""
        series = [each["series"][0] for each in whole_lines(reads) if each.get("series")]
        return any(min(each["absent"], default=each["ticks"][1:])[0] >= 5 for each in series)

    with cluster.loading(what=what) as run:
        wait_for("acknowledged points", lambda: run.acknowledged() > 0)
        wait_for("points that a read has found", found, 60)
        spec = run.spec()
        # Four points, half a second apart.
        span = {"start_absolute": spec.start_ms, "end_absolute": spec.start_ms + 1999}
        deleted = {**span, "metrics": [{"name": spec.metric_name(0)}]}
        request(f"{cluster.url}/api/v1/datapoints/delete", deleted)
        assert run.end() in (1, 2), run.output
    seen = run.json("queries.json")["followed"]
    assert (seen["vanished"], seen["found_again"]) == (4, 0)
    assert {point["series"] for point in seen["vanished_points"]} == {spec.metric_name(0)}
    part = run.json("verdict.json")["parts"]["readback"]
    assert part["outcome"] == "fail"
    assert "4 points that queries had found were not in a later answer (0 of them" in part["text"]
    assert run.json("ledger.json")["missing"] == 4


def test_worker_killed(cluster: Deployment) -> None:
    with cluster.in_mid_load("--duration", "8") as run:
        run.workers()[1].kill()
        assert run.end() == 2
        says_incomplete(run, "loader worker 1 died: signal 9 (SIGKILL)")
        accounts_for_every_point(run)
        notes = " ".join(run.json("ledger.json")["notes"])
        assert "worker 1 died" in notes
    assert cluster.status().returncode == 0
