"""From a run folder to measurements, ledger and verdict, whatever the load was."""

import json
from pathlib import Path
from typing import Any

import load_samples
import numpy as np
import pytest

from kairoscope.cli import known
from kairoscope.experiment import Experiment
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.run import run
from kairoscope.run.load_spec import build
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.kairosdb import readback
from kairoscope.verdict import conclude, ledger, outcomes
from loaders.record.histograms import LogWriter, new_histogram, record
from loaders.schedule.due import Schedule

NOW_S = 1_790_000_000
NODES = ("kairosdb-1", "kairosdb-2")
STORAGE = ("storage-1", "storage-2", "storage-3")


def state_of(
    tmp_path: Path, queries: dict[str, Any] | None = None, window_ms: int = 2000, **load: Any
):
    """A run that has been loaded, drained and not yet read back: all went well."""
    cluster = {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 2, "shards": 2}
    fields = {"sensors": 20, "rate": 1.0, "duration_s": 20, "warmup_s": 5, "workers": 4}
    document = {
        "name": "mine",
        "description": "A small one.",
        "cluster": {**cluster, "loader_hosts": 2},
        "kairosdb": {"queue_window_ms": window_ms},
        "load": fields | load,
        "queries": queries or {},
    }
    plan = known.plan(Experiment.model_validate(document), "local")
    for sub in ("load", "latency"):
        (tmp_path / sub).mkdir()
    telnet = ["127.0.0.1:4242", "127.0.0.2:4242"]
    spec = build(plan, ["http://127.0.0.1:8080", "http://127.0.0.2:8080"], telnet, NOW_S)
    schedule = Schedule(spec)
    usual = "acknowledged" if spec.acknowledges else "unknown"
    became = dict.fromkeys(load_samples.cells(schedule), usual)
    folder = tmp_path / "load"
    load_samples.write_worker_files(schedule, folder, became)
    (folder / "spec.json").write_text(spec.to_json())
    (folder / "hosts.json").write_text(json.dumps([{"host": "loader-1"}, {"host": "loader-2"}]))
    # A replay goes on now, whatever time its points are of.
    began_s = NOW_S + 1 if spec.replay else spec.start_ms / 1000
    for worker in range(spec.workers):
        change(
            folder / f"worker-{worker}.json",
            send_error_us={"p50": 1, "p99": 2000, "max": 3000, "count": 75},
            cpu_s=0.5,
            started_ms=round(began_s * 1000),
            ended_ms=round(began_s * 1000) + 20_000,
        )
        with (folder / f"worker-{worker}.hlog").open("w") as file:
            histogram = new_histogram()
            record(histogram, 20_000, 75)
            log = LogWriter(file, spec.start_ms)
            log.write(histogram, began_s - spec.start_ms / 1000, 1.0)
    queue = JsonLines(tmp_path / "queue.jsonl")
    for second in range(30):
        for node in NODES:
            queue.write(t=began_s + second, node=node, waiting=7)
    processes = JsonLines(tmp_path / "processes.jsonl")
    for second in range(30):
        for name in (*NODES, *STORAGE):
            cpu = {"role": name[:-2], "pid": 7, "cpu_s": second / 10, "rss_bytes": 1000}
            processes.write(t=began_s + second, name=name, **cpu)
    (tmp_path / "proxyhistograms").mkdir()
    captures(tmp_path, *((node, phase) for node in STORAGE for phase in ("before", "after")))
    hosts, stores = (
        [Host(name, role, {}) for name in names]
        for role, names in (("kairosdb", NODES), ("storage", STORAGE))
    )
    inventory = Inventory(tmp_path / "inventory.yml", stores, hosts, [])
    state = conclude.State(tmp_path, plan, inventory, began_s, JsonLines(tmp_path / "events.jsonl"))
    state.schedule = schedule
    state.drain_watched, state.drained_s, state.left_in_queue = True, 0.5, 0
    state.captured, state.disk_before, state.disk_after = True, 10_000, 50_000
    return state


def captures(folder: Path, *made: tuple[str, str]) -> None:
    records = [{"t": NOW_S, "node": node, "phase": phase, "rows": {}} for node, phase in made]
    (folder / "proxyhistograms" / "captures.json").write_text(json.dumps(records))


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def read_back(state: conclude.State) -> None:
    """All of it is there."""
    assert state.schedule is not None
    state.outcomes = outcomes.read(state.schedule, state.folder / "load")
    settlement = ledger.Settlement(state.schedule, state.outcomes)
    for series in state.schedule.series():
        points = np.array(load_samples.points_of(state.schedule, series), dtype=np.int64)
        settlement.add(readback.compare(state.schedule, series, points))
    state.ledger = settlement.close(0, [])
    state.ledger.rows_by_cql = state.ledger.rows_expected


def of(state: conclude.State, name: str) -> Any:
    return json.loads((state.folder / name).read_text())


def test_whether_a_load_can_still_pass_is_known_before_it_is_read_back(tmp_path):
    state = state_of(tmp_path)
    assert conclude.failing(state) is None
    state.drained_s, state.left_in_queue = None, 5
    assert "5 points" in str(conclude.failing(state))
    state.drained_s, state.left_in_queue = 0.5, 0
    late = {"p50": 1, "p99": 600_000, "max": 700_000, "count": 75}
    change(tmp_path / "load" / "worker-2.json", send_error_us=late)
    assert "worker 2 on loader-2 sent late" in str(conclude.failing(state))
    change(tmp_path / "load" / "worker-2.json", send_error_us=late | {"p99": 2000})
    read_back(state)
    assert conclude.judge(state).verdict == "pass", "looking changed nothing"


def test_a_run_in_which_all_went_well(tmp_path):
    state = state_of(tmp_path)
    read_back(state)
    judged = conclude.judge(state)
    assert (judged.verdict, judged.reasons) == ("pass", [])
    assert list(judged.parts) == ["schedule", "latency", "queue", "drain", "readback"]
    assert of(state, "latency/merged.json")["count"] == 4 * 75
    assert of(state, "ledger.json")["stored"] == 400
    measured = of(state, "measurements.json")
    assert measured["points_per_s"] == {"target": 20, "achieved": 20}
    assert [node["points_sent"] for node in measured["kairosdb_nodes"]] == [200, 200]
    assert measured["cpu_us_per_point"]["loader"] == pytest.approx(2.0 / 400 * 1e6)
    assert not (tmp_path / "queries.json").exists()


@pytest.mark.parametrize(
    ("load", "per_s"),
    [
        ({}, 20),
        # After 5 s of warm-up: 5 s at 1 point/s of each, and 10 s at 4.
        (
            {
                "rate": None,
                "duration_s": None,
                "steps": [{"rate": 1.0, "duration_s": 10}, {"rate": 4.0, "duration_s": 10}],
            },
            (5 * 20 + 10 * 80) / 15,
        ),
        ({"ramp_s": 5}, 20),
    ],
)
def test_the_queue_is_held_against_what_was_due(tmp_path, load, per_s):
    state = state_of(tmp_path, **load)
    read_back(state)
    text = conclude.judge(state).parts["queue"].text
    assert f" at {per_s:,.0f} points/s" in text
    assert "15 samples" in text or "16 samples" in text


def test_what_fills_a_window_is_no_growth(tmp_path):
    state = state_of(tmp_path, window_ms=12_000)
    read_back(state)
    (tmp_path / "queue.jsonl").unlink()
    queue = JsonLines(tmp_path / "queue.jsonl")
    for second in range(30):
        for node in NODES:
            queue.write(t=state.started + second, node=node, waiting=10 * min(second, 12))
    part = conclude.judge(state).parts["queue"]
    assert (part.outcome, part.figure) == ("pass", pytest.approx(0))
    assert "8 samples" in part.text or "9 samples" in part.text


def test_a_late_worker_is_named_with_its_host(tmp_path):
    state = state_of(tmp_path)
    read_back(state)
    error = {"p50": 1, "p99": 900_000, "max": 900_000, "count": 75}
    change(tmp_path / "load" / "worker-3.json", send_error_us=error)
    judged = conclude.judge(state)
    assert judged.verdict == "invalid"
    (reason,) = judged.reasons
    assert "worker 3 on loader-2 sent late, 99th percentile 900 ms" in reason
    assert "over 75 points" in reason


def test_a_node_that_was_down_is_told(tmp_path):
    state = state_of(tmp_path)
    read_back(state)
    for worker in range(3):
        line = {"t": NOW_S + 7 + worker / 10, "event": "node down", "node": 1, "detail": "silent"}
        (tmp_path / "load" / f"worker-{worker}.events.jsonl").write_text(json.dumps(line))
    state.events.write(t=NOW_S + 6, what="process ended", detail="kairosdb-2: pid 1 → none")
    judged = conclude.judge(state)
    assert judged.verdict == "pass"
    assert judged.summary.endswith(
        "nothing was lost. During the run ended: kairosdb-2. Loaders failed over from: kairosdb-2."
    )
    last = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert (last["t"], last["what"]) == (NOW_S + 7, "node down")
    assert last["detail"] == "kairosdb-2: silent (seen by 3 of 4 workers)"


def test_a_run_without_its_captures_is_incomplete(tmp_path):
    """As the first on ScyllaDB: nodetool failed each time, and no storage process was found."""
    state = state_of(tmp_path)
    read_back(state)
    captures(tmp_path)
    for node in STORAGE:
        for phase in ("before", "after"):
            detail = f"{node}: no such file: nodetool"
            state.events.write(
                t=NOW_S, what="capture failed", detail=detail, node=node, phase=phase
            )
    log = tmp_path / "processes.jsonl"
    kept = [line for line in log.read_text().splitlines() if "storage" not in line]
    log.write_text("\n".join(kept) + "\n")
    state.disk_before = state.disk_after = None
    state.events.write(t=NOW_S, what="disk not measured", detail="storage-1: no such folder")
    judged = conclude.judge(state)
    assert judged.verdict == "incomplete"
    assert {part.outcome for part in judged.parts.values()} == {"pass"}
    assert judged.reasons == [
        "nodetool proxyhistograms of storage-1, storage-2, storage-3 not captured before and "
        "after the load: storage-1: no such file: nodetool",
        "no process of storage-1, storage-2, storage-3 was seen while the load was measured: CPU "
        "and memory are not known",
        "bytes per point are not known, as the store was not measured before and after the load: "
        "storage-1: no such folder",
    ]


@pytest.mark.parametrize(
    ("engine", "duration_s"), [("scylla", 60), ("scylla", 20), ("cassandra", 60)]
)
def test_shards_that_were_not_looked_at_make_a_run_incomplete(tmp_path, engine, duration_s):
    """Where there are any, and the load is long enough for two looks."""
    state = state_of(tmp_path, duration_s=duration_s)
    state.plan = state.plan.model_copy(update={"engine": engine})
    read_back(state)
    looks = JsonLines(tmp_path / "scylla.jsonl")
    counts = {"shards": 1, "busy_ms": [1], "requests": [1], "replica_writes": [1]}
    for second in (10, 15):
        looks.write(t=state.schedule.spec.start_ms / 1000 + second, node="storage-1", **counts)
        looks.write(t=NOW_S + second, node="storage-2", error="refused")
    said = [reason for reason in conclude.judge(state).reasons if "shards" in reason]
    due = engine == "scylla" and duration_s == 60
    assert said == due * [
        "load and requests of the shards of storage-2, storage-3 not captured while the load was "
        "measured: no two looks are recorded"
    ]


def test_a_storage_node_that_was_taken_away_is_not_missed(tmp_path):
    state = state_of(tmp_path)
    read_back(state)
    captures(tmp_path, *((node, phase) for node in STORAGE[:2] for phase in ("before", "after")))
    state.disk_after = None
    assert conclude.judge(state).verdict == "incomplete"
    state.incomplete.clear()
    state.removed = {"storage-3"}
    assert conclude.judge(state).verdict == "pass"


def test_an_interrupted_run_gets_a_verdict(tmp_path):
    state = state_of(tmp_path)
    (tmp_path / "load" / "worker-2.json").unlink()
    state.incomplete.append("interrupted by the user (Ctrl-C)")
    judged = conclude.judge(state)
    assert judged.verdict == "incomplete"
    assert judged.reasons[0] == "interrupted by the user (Ctrl-C)"
    assert of(state, "ledger.json")["stored"] is None


def test_nothing_was_sent(tmp_path):
    state = state_of(tmp_path)
    state.schedule = None
    assert conclude.judge(state).reasons == ["the load never started"]
    assert conclude.times(state) is None


def test_over_telnet_the_verdict_rests_on_read_back(tmp_path):
    state = state_of(tmp_path, protocol="telnet-put")
    read_back(state)
    judged = conclude.judge(state)
    assert judged.verdict == "pass"
    assert "handed to the socket" in judged.parts["schedule"].text
    assert "400 of 400 sent points read back" in judged.parts["readback"].text


def test_a_replay_is_judged_by_what_arrived(tmp_path):
    state = state_of(tmp_path, replay=True, warmup_s=0, duration_s=3600)
    read_back(state)
    judged = conclude.judge(state)
    assert judged.verdict == "pass"
    outcomes_of = {name: part.outcome for name, part in judged.parts.items()}
    assert (outcomes_of["latency"], outcomes_of["queue"]) == ("not judged", "not judged")
    times = conclude.times(state)
    assert times == {
        "start_ms": (NOW_S + 1) * 1000,
        "end_ms": (NOW_S + 21) * 1000,
        "history": {"start_ms": (NOW_S - 3600) * 1000, "end_ms": NOW_S * 1000},
    }
    assert [i["t"] for i in of(state, "latency/merged.json")["intervals"]] == [0]
    rate = of(state, "measurements.json")["points_per_s"]
    assert rate == {"target": None, "achieved": 20 * 3600 / 20}


def test_wrong_answers_to_queries_fail_and_late_ones_do_not(tmp_path):
    state = state_of(tmp_path, queries={"rate": 1.0, "last_s": 10, "bucket_s": 5})
    read_back(state)
    kind = {"sent": 5, "not_sent": 0, "right": 3, "late": 2, "wrong": 0, "failed": 0}
    final = {**kind, "kinds": {"raw": kind}, "points_checked": 50, "points_late": 4}
    final |= {"errors": {}, "first_errors": []}
    for host in range(2):
        (tmp_path / "load" / f"queries-{host}.json").write_text(json.dumps(final))
        with (tmp_path / "load" / f"queries-{host}.hlog").open("w") as file:
            histogram = new_histogram()
            record(histogram, 250_000, 5)
            LogWriter(file, NOW_S * 1000).write(histogram, 7.0, 1.0)
    assert conclude.judge(state).verdict == "pass"
    written = of(state, "queries.json")
    assert (written["answers"]["late"], written["latency"]["count"]) == (4, 10)
    assert written["latency"]["p99_ms"] == pytest.approx(250, rel=0.01)
    # Reads do not get into the latency of the writes.
    assert of(state, "latency/merged.json")["count"] == 4 * 75

    change(tmp_path / "load" / "queries-1.json", wrong=1, right=2)
    judged = conclude.judge(state)
    assert judged.verdict == "fail"
    assert judged.reasons == [
        "readback: 400 of 400 acknowledged points read back; 1 query gave wrong values"
    ]


def test_a_host_that_died_is_one_reason():
    lost = "loader host loader-2: silent for 30 s"
    results = [
        {"worker": 0, "sent": 5},
        {"worker": 1, "died": "signal 9 (SIGKILL) on loader-1"},
        {"worker": 2, "died": lost, "last": None},
        {"worker": 3, "died": lost, "last": None},
    ]
    assert run._died(results) == [
        f"{lost}; with it went workers 2, 3",
        "loader worker 1 died: signal 9 (SIGKILL) on loader-1",
    ]
