"""A whole run, what its folder holds, and that the read-back can fail."""

import contextlib
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cassandra.cluster import Session
from deployment import STORAGE, Deployment, Run, documented_families, families, variant
from harness import wait_for

from kairoscope.stacks.kairosdb.readback import queries, read_run, scan
from kairoscope.stacks.kairosdb.servers import cql
from kairoscope.verdict import ledger, outcomes, settlement, sustained
from loaders.schedule import values
from loaders.schedule.due import Schedule, Series
from loaders.schedule.spec import LoadSpec

KEYSPACE = "kairosdb"
FILES = (
    *("manifest.json", "experiment.yml", "plan.json"),
    *("load/spec.json", "queue.jsonl", "processes.jsonl", "events.jsonl", "run.json"),
    *("readback.json", "readback-gaps.jsonl", "failed.jsonl"),
    *(f"load/worker-{w}{end}" for w in (0, 1) for end in (".json", ".jsonl", ".outcomes.jsonl")),
    *("latency/worker-0.hlog", "latency/worker-1.hlog", "latency/merged.json"),
    *("proxyhistograms/captures.json", "measurements.json", "ledger.json", "verdict.json"),
    *("report.html", "report.md"),
)


@pytest.fixture(scope="module")
def run(cluster: Deployment) -> Iterator[Run]:
    """One load from start to end."""
    with cluster.loading() as run:
        run.end()
        yield run


def test_passes_in_all_five_parts(run: Run) -> None:
    assert run.process.returncode == 0, run.output
    said = run.json("verdict.json")
    assert said["verdict"] == "pass"
    assert {name: part["outcome"] for name, part in said["parts"].items()} == dict.fromkeys(
        ("schedule", "latency", "queue", "drain", "readback"), "pass"
    )
    assert "verdict: pass" in run.output
    assert str(run.folder / "report.html") in run.output


def test_folder_holds_every_file(run: Run) -> None:
    assert [name for name in FILES if not (run.folder / name).exists()] == []
    assert (run.folder.parent / "latest").resolve() == run.folder
    manifest = run.json("manifest.json")
    assert manifest["ended"] > manifest["started"]
    assert manifest["load"]["start_ms"] == run.json("load/spec.json")["start_ms"]
    assert manifest["versions"]["engine"] == "cassandra"


def test_latencies_count_every_point_once(run: Run) -> None:
    merged = run.json("latency/merged.json")
    assert merged["warmup_count"] == 300 * 2 * 3
    assert merged["count"] == 300 * 2 * 12
    assert 0 < merged["p50_ms"] <= merged["p99_ms"] <= merged["max_ms"]


def test_ledger_balances(run: Run) -> None:
    book = run.json("ledger.json")
    scheduled = 300 * 2 * 15
    assert book["balanced"] is True
    for name in ("scheduled", "sent", "acknowledged", "stored", "rows_by_cql", "rows_expected"):
        assert book[name] == scheduled, name
    for name in ("missing", "wrong_value", "unexpected", "rejected", "unknown", "not_sent"):
        assert book[name] == 0, name
    assert [equation["holds"] for equation in book["equations"]] == [True] * 4
    assert book["gaps"] == []


def test_every_storage_node_was_captured_before_during_and_after(run: Run) -> None:
    captures = run.json("proxyhistograms/captures.json")
    seen = {(capture["node"], capture["phase"]) for capture in captures}
    assert seen == {(node, phase) for node in STORAGE for phase in ("before", "during", "after")}
    for capture in captures:
        text = (run.folder / "proxyhistograms" / capture["file"]).read_text()
        assert "Write Latency" in text
        assert set(capture["rows"]["Write"]) >= {"50%", "95%", "99%", "Max"}
    # What was written came through one of them at least.
    after = [c for c in captures if c["phase"] == "after"]
    assert max(c["rows"]["Write"]["Max"] for c in after) > 0


def test_every_storage_node_counted_the_measured_time(run: Run) -> None:
    """Without decay, and so exactly: what KairosDB wrote then came through one of them each."""
    nodes = run.json("proxyhistograms/window.json")["nodes"]
    assert set(nodes) == set(STORAGE)
    load = run.json("manifest.json")["load"]
    measured_s = (load["end_ms"] - load["start_ms"]) / 1000
    measured_s -= run.json("latency/merged.json")["warmup_s"]
    for found in nodes.values():
        assert abs(found["end"] - found["begin"] - measured_s) < 5
        assert sum(found["write"]["buckets"]) == found["write"]["count"]
    written = [found["write"] for found in nodes.values() if found["write"]["count"]]
    assert written
    for each in written:
        # Buckets of µs: a write here takes neither less than 0.02 ms nor more than 10 s.
        assert 20 < each["p50_us"] <= each["p99_us"] < 10e6


def test_queue_and_processes_were_sampled(run: Run) -> None:
    depths = [record for record in run.lines("queue.jsonl") if "waiting" in record]
    assert len(depths) >= 10
    assert depths[-1]["waiting"] == 0
    names = {record["name"] for record in run.lines("processes.jsonl")}
    assert names == {*STORAGE, "kairosdb-1", "loader-worker-0", "loader-worker-1", "machine"}
    measured = run.json("measurements.json")
    assert set(measured["cpu_us_per_point"]) == {"storage", "kairosdb", "loader"}
    assert all(cost > 0 for cost in measured["cpu_us_per_point"].values())
    assert measured["bytes_per_point"]["per_replica"] > 0


def test_metrics_have_the_whole_run_whoever_reads_them(cluster: Deployment, run: Run) -> None:
    points = Schedule(run.spec()).points
    for said in (cluster.metrics(), cluster.metrics()):
        assert families(said) == documented_families("coalescing")
        for series in (
            "kairosdb_queue_put_points_total",
            "kairosdb_queue_stored_points_total",
            'kairosdb_ingest_points_total{protocol="rest",code="204"}',
            'kairosdb_write_batch_rows_sum{table="data_points"}',
        ):
            assert said[series] >= points, series
        assert said["kairosdb_query_request_duration_seconds_count"] > 0
        assert said['kairosdb_store_connected_nodes{connection="write_cluster"}'] == 3
        assert said["kairosdb_metrics_failures_total"] == 0


def test_report_needs_no_network(run: Run) -> None:
    html = (run.folder / "report.html").read_text()
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)\s*=", html)
    assert "pass" in (run.folder / "report.md").read_text()


def timestamp_ms(schedule: Schedule, sensor: int, tick: int) -> int:
    return schedule.timestamp_ms(int(schedule.rank_of[sensor]), tick)


def settled(cluster: Deployment, run: Run, schedule: Schedule) -> ledger.Ledger:
    """Read the run back once more, in the way of a load."""
    spec = schedule.spec
    found = outcomes.read(schedule, run.folder / "load")
    book = settlement.Settlement(schedule, found)
    with cluster.cql() as db:
        scanned = scan.read(schedule, KEYSPACE, db)
    extent, recount = read_run.read_run(
        schedule,
        scanned,
        book.incomplete,
        book.add,
        read_run.ThroughKairosDB(spec.nodes),
        "QUORUM",
        settle_s=(0.5,),
    )

    def count(some: list[Series]) -> int:
        series = [(spec.metric_name(s.number), spec.tags_of(s.number)) for s in some]
        with cluster.cql() as db:
            return cql.rows_of_series(db, KEYSPACE, series, queries.spans(schedule))

    read_back = book.found(extent.passes)
    read_back.rows_by_cql = read_run.rows(scanned, recount, count)
    return ledger.balance(found, read_back, 0, [])


@contextlib.contextmanager
def hidden_from_queries(db: Session, metric: str, spec: LoadSpec, width: int) -> Iterator[None]:
    """Within the block the metric's points are there, and KairosDB's index has nothing of them.

    They are put back, as KairosDB knows that it has written them, and would not again.
    """
    table = f"{KEYSPACE}.row_keys"
    where = "WHERE metric = %s AND table_name = 'data_points' AND row_time = %s"
    times = {t - t % width for t in (spec.start_ms, spec.end_ms - 1)}
    select = f"SELECT JSON * FROM {table} {where}"  # noqa: S608
    kept = [row[0] for t in times for row in db.execute(select, [metric, t])]
    assert kept
    # In ms, as KairosDB's own: by one in µs, as CQL has it, all that it wrote later would be gone.
    for t in times:
        delete = f"DELETE FROM {table} USING TIMESTAMP {_now_ms()} {where}"  # noqa: S608
        db.execute(delete, [metric, t])
    try:
        yield
    finally:
        for row in kept:
            db.execute(f"INSERT INTO {table} JSON %s USING TIMESTAMP {_now_ms() + 1}", [row])


def _now_ms() -> int:
    return round(time.time() * 1000)


def test_read_back_finds_what_is_lost_and_what_is_wrong(cluster: Deployment, run: Run) -> None:
    schedule = Schedule(run.spec())
    spec = schedule.spec
    lost, spoilt, hidden = 7, 210, 33
    gone = [timestamp_ms(schedule, lost, tick) for tick in (3, 4, 20)]
    wrong = timestamp_ms(schedule, spoilt, 9)
    with cluster.cql() as db:
        width = cql.row_width_ms(db, KEYSPACE)
        delete = db.prepare(
            f"DELETE FROM {KEYSPACE}.data_points WHERE key = ? AND column1 = ?"  # noqa: S608
        )
        for t in gone:
            row = t - t % width
            key = cql.row_key(spec.metric_name(lost), row, spec.tags, "kairos_long")
            db.execute(delete, [key, struct.pack(">i", t - row)])
        # KairosDB's cells have the time of writing in ms: a later one replaces an earlier.
        true = int(values.values(np.array([spoilt]), np.array([wrong]))[0])
        cluster.post(spec.metric_name(spoilt), wrong, true + 1, **spec.tags)
        wait_for(
            "the wrong value in a query",
            lambda: cluster.query(spec.metric_name(spoilt), wrong, wrong) == [[wrong, true + 1]],
            30,
        )
        book = settled(cluster, run, schedule)
        assert (book.missing, book.wrong_value) == (3, 1)
        assert book.stored == schedule.points - 4
        assert book.rows_by_cql == book.rows_expected == schedule.points - 3
        assert not book.balanced

    with cluster.cql() as db, hidden_from_queries(db, spec.metric_name(hidden), spec, width):
        book = settled(cluster, run, schedule)
    assert (book.missing, book.wrong_value) == (3 + spec.ticks, 1)
    assert book.rows_by_cql == schedule.points - 3
    assert book.rows_expected == schedule.points - 3 - spec.ticks
    found = {gap["series"]: gap for gap in book.to_json()["gaps"]}
    assert found[spec.metric_name(lost)]["timestamps_ms"] == gone
    assert found[spec.metric_name(lost)]["kind"] == "missing"
    assert found[spec.metric_name(spoilt)]["timestamps_ms"] == [wrong]
    assert found[spec.metric_name(spoilt)]["kind"] == "wrong value"
    assert found[spec.metric_name(hidden)]["count"] == spec.ticks
    part = sustained.readback_part(book)
    assert part.outcome == "fail"
    assert f"{3 + spec.ticks} missing, 1 with a wrong value" in part.text


def test_point_at_a_time_never_scheduled_is_noticed(cluster: Deployment, run: Run) -> None:
    schedule = Schedule(run.spec())
    spec = schedule.spec
    t = timestamp_ms(schedule, 5, 2) + 1
    cluster.post(spec.metric_name(5), t, 1, **spec.tags)
    wait_for("it in a query", lambda: cluster.query(spec.metric_name(5), t, t), 30)
    book = settled(cluster, run, schedule)
    assert book.unexpected == 1
    assert not book.balanced


def test_load_of_another_plan_than_the_deployed_is_refused(cluster: Deployment) -> None:
    runs = sorted((cluster.path / "runs").iterdir())
    message = cluster.refused("load", cluster.experiment, "--sensors", "100000")
    assert "deployed with other kairosdb settings" in message
    assert "queue_memory_mb" in message
    assert "make deploy" in message
    assert sorted((cluster.path / "runs").iterdir()) == runs


def test_report_again_and_of_nothing(cluster: Deployment, run: Run) -> None:
    (run.folder / "report.html").unlink()
    done = cluster.cli("report", run.folder)
    assert done.returncode == 0, done.stderr
    assert (run.folder / "report.html").exists()
    assert "No run folder" in cluster.refused("report", cluster.scratch / "nothing")


def test_run_folder_is_below_the_home(cluster: Deployment, run: Run) -> None:
    assert run.folder.parent == Path(cluster.path, "runs").resolve()
    assert run.folder.name.endswith("-cluster-test-local")
    assert time.time() * 1000 > run.json("manifest.json")["load"]["end_ms"]


def test_past_kairosdb_its_queries_find_what_the_store_acknowledged(cluster: Deployment) -> None:
    what = cluster.write("past", variant(load={"metric": "PAST_{n}"}))
    with cluster.loading("--protocol", "cql", what=what) as past:
        past.end()
    assert past.process.returncode == 0, past.output
    said = past.json("verdict.json")
    outcomes = {name: part["outcome"] for name, part in said["parts"].items()}
    assert outcomes == dict.fromkeys(("schedule", "latency", "readback"), "pass") | dict.fromkeys(
        ("queue", "drain"), "not judged"
    )
    book = past.json("ledger.json")
    assert book["acknowledged"] == book["stored"] == book["rows_by_cql"] == book["scheduled"]
    spec = past.spec()
    found = cluster.query(spec.metric_name(7), spec.start_ms, spec.end_ms)
    assert len(found) == spec.ticks
