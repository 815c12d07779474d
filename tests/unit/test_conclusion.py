"""From a run folder to measurements, ledger and verdict, whatever the load was."""

import json

import pytest
from run_samples import NODES, NOW_S, STORAGE, captures_of, run_of, write_latencies

from kairoscope import run_folder
from kairoscope.run import loading
from kairoscope.run_folder import JsonLines
from kairoscope.verdict import conclude
from loaders.record.histograms import LogWriter, new_histogram, record


def test_whether_a_load_can_still_pass_is_known_before_it_is_read_back(tmp_path):
    run = run_of(tmp_path)
    assert conclude.failing(tmp_path) is None
    run.drained(60.0, 5)
    run.facts.write(tmp_path)
    assert "5 points" in str(conclude.failing(tmp_path))
    run.drained()
    run.facts.write(tmp_path)
    late = {"p50": 1, "p99": 600_000, "max": 700_000, "count": 75}
    run.change("load/worker-2.json", send_error_us=late)
    assert "worker 2 on loader-2 sent late" in str(conclude.failing(tmp_path))
    run.change("load/worker-2.json", send_error_us=late | {"p99": 2000})
    run.read_back()
    assert run.judge().verdict == "pass", "looking changed nothing"


def test_a_run_in_which_all_went_well(tmp_path):
    run = run_of(tmp_path)
    run.read_back()
    judged = run.judge()
    assert (judged.verdict, judged.reasons) == ("pass", [])
    assert list(judged.parts) == ["schedule", "latency", "queue", "drain", "readback"]
    assert run.json("latency/merged.json")["count"] == 4 * 75
    assert run.json("ledger.json")["stored"] == 400
    measured = run.json("measurements.json")
    assert measured["points_per_s"] == {"target": 20, "achieved": 20}
    assert [node["points_sent"] for node in measured["kairosdb_nodes"]] == [200, 200]
    assert measured["cpu_us_per_point"]["loader"] == pytest.approx(2.0 / 400 * 1e6)
    assert not (tmp_path / "queries.json").exists()


def test_when_the_last_acknowledgement_came_is_measured(tmp_path):
    run = run_of(tmp_path)
    for worker, t in ((0, 1_790_000_020.5), (1, None), (2, 1_790_000_031.25)):
        run.change(f"load/worker-{worker}.json", arrived_t=t)
    run.judge()
    assert run.json("measurements.json")["arrived_t"] == 1_790_000_031.25


UNSEEN = "was not looked at in the last 16 s of the measured time"


@pytest.mark.parametrize(
    ("machines", "ends", "excused", "why"),
    [
        (["machine"], [], (), ""),
        (["machine"], ["machine"], (), f"the machine {UNSEEN}"),
        (["host storage-1", "host storage-2"], ["host storage-2"], (), f"storage-2 {UNSEEN}"),
        (["host storage-1", "host storage-2"], ["host storage-2"], ("storage-2",), ""),
    ],
)
def test_a_machine_that_nobody_looked_at_to_the_end(tmp_path, machines, ends, excused, why):
    """Its part of the time passed for alike, whoever had ended the look."""
    run = run_of(tmp_path, duration_s=40)
    path = tmp_path / run_folder.PROCESSES
    seen = [look for look in run_folder.records(path) if look["name"] != "machine"]
    if "machine" in ends:
        seen = [look for look in seen if look["t"] <= run.began_s + 24]
    for second in range(50):
        seen += [
            {"t": run.began_s + second, "name": name, "role": name.split()[0], "cpu_busy_s": second}
            for name in machines
            if second <= 24 or name not in ends
        ]
    run_folder.write_lines(path, seen)
    run.captured(*((node, when) for node in STORAGE for when in ("before", "during", "after")))
    run.facts.removed = list(excused)
    run.read_back()
    judged = run.judge()
    assert judged.verdict == ("incomplete" if why else "pass"), judged.reasons
    assert why in " ".join(judged.reasons)


@pytest.mark.parametrize(
    ("load", "per_s"),
    [
        ({}, 20),
        ({"ramp_s": 5}, 20),
    ],
)
def test_the_queue_is_held_against_what_was_due(tmp_path, load, per_s):
    run = run_of(tmp_path, **load)
    run.read_back()
    text = run.judge().parts["queue"].text
    assert f" at {per_s:,.0f} points/s" in text
    assert "samples in 15 s" in text


def test_what_fills_a_window_is_no_growth(tmp_path):
    run = run_of(tmp_path, window_ms=5_000)
    run.read_back()
    (tmp_path / "queue.jsonl").unlink()
    queue = JsonLines(tmp_path / "queue.jsonl")
    for second in range(30):
        for node in NODES:
            queue.write(t=run.began_s + second, node=node, waiting=10 * min(second, 5))
    part = run.judge().parts["queue"]
    assert (part.outcome, part.figure) == ("pass", pytest.approx(0))


def steps_of(*lengths: tuple[float, int]) -> dict[str, object]:
    """A load of (points/s, seconds) one after the other."""
    steps = [{"rate": rate, "duration_s": length} for rate, length in lengths]
    return {"rate": None, "duration_s": None, "steps": steps}


def depths(run, per_node) -> None:
    """Replace what was seen of the queues: points of each node at a second of the load."""
    (run.folder / "queue.jsonl").unlink()
    queue = JsonLines(run.folder / "queue.jsonl")
    for second in range(-2, 90):
        for node in NODES:
            queue.write(t=run.began_s + second, node=node, waiting=per_node(second))


@pytest.mark.parametrize(
    ("rates", "grows", "outcome"),
    # A step of the rate is a step of the depth: up is no growth, and down must not hide any.
    [((1.0, 2.0), 0, "pass"), ((2.0, 1.0), 0, "pass"), ((2.0, 1.0), 3, "fail")],
)
def test_each_step_is_judged_alone(tmp_path, rates, grows, outcome):
    run = run_of(tmp_path, window_ms=5_000, **steps_of((rates[0], 30), (rates[1], 30)))
    first, second = (10 * rate * 2.5 for rate in rates)

    def waiting(s: int) -> float:
        if s < 30:
            return first * min(s, 5) / 5 + grows * max(0, s - 5)
        before = first + grows * 25
        return before + (second - before) * min(s - 30, 5) / 5 if s < 60.5 else 0

    depths(run, waiting)
    run.read_back()
    judged = run.judge()
    assert judged.parts["queue"].outcome == outcome
    said = run.json("verdict.json")["steps"]
    assert [step["rate"] for step in said] == list(rates)
    assert [step["parts"]["queue"]["outcome"] for step in said] == [outcome, "pass"]
    if grows:
        assert judged.parts["queue"].text.startswith("step 1 (2 points/s): queue grew by 6.0 ±")


def test_a_slow_step_is_not_hidden_behind_fast_ones(tmp_path):
    """A tenth of the first step's points take 30 s: less than a hundredth of all."""
    run = run_of(tmp_path, window_ms=2_000, **steps_of((1.0, 20), (8.0, 20)))
    run.limit(in_time=0.5)
    for worker in range(4):
        slow = [(20_000, 9), (30_000_000, 1)] * 7 + [(20_000, 5)]
        fast = [(20_000, 40)] * 20
        write_latencies(run, worker, *slow, *fast, first_s=5)
    run.read_back()
    judged = run.judge()
    assert judged.parts["latency"].outcome == "fail"
    assert judged.parts["latency"].text.startswith("step 1 (1 points/s): 99th percentile 30,0")
    said = [step["parts"]["latency"]["outcome"] for step in run.json("verdict.json")["steps"]]
    assert said == ["fail", "pass"]


@pytest.mark.parametrize(("late_in", "outcomes"), [(0, ["fail", "pass"]), (1, ["pass", "fail"])])
def test_a_step_answers_for_the_points_that_were_due_in_it(tmp_path, late_in, outcomes):
    """Whenever their answers came: what a slow step left was counted for the next one."""
    run = run_of(tmp_path, **steps_of((1.0, 20), (1.0, 20)))
    for worker in range(4):
        due = [75, 100]
        due[late_in] -= 25
        run.change(f"load/worker-{worker}.json", in_time_by_step=due, in_time=sum(due))
    run.limit(in_time=0.8)
    run.read_back()
    assert run.judge().parts["schedule"].outcome == "fail"
    said = [step["parts"]["schedule"] for step in run.json("verdict.json")["steps"]]
    assert [part["outcome"] for part in said] == outcomes
    assert said[late_in]["text"].startswith(("200 of 300", "300 of 400")[late_in])


def test_a_step_of_a_run_that_did_not_count_it_is_not_known(tmp_path):
    run = run_of(tmp_path, **steps_of((1.0, 20), (2.0, 20)))
    path = tmp_path / "load" / "worker-1.json"
    said = json.loads(path.read_text())
    del said["in_time_by_step"]
    path.write_text(json.dumps(said))
    run.read_back()
    part = run.judge().parts["schedule"]
    assert part.outcome == "unknown"
    assert part.text.startswith("step 1 (1 points/s): how many of its points were in time is not")


SILENT_UNTIL_S = 17.5


def silent(run, worker, silent_s, *late, node=None):
    """A worker had no acknowledgement (of one node) for so long, of a limit of 6 s, and told then
    and when, in s of the load, how many ms late it was by itself."""
    name = f"load/worker-{worker}.json"
    silence = run.json(name)["silence"]
    from_t = run.began_s + SILENT_UNTIL_S - silent_s
    line = silence if node is None else silence["by_node"][node]
    line |= {"longest_s": silent_s, "from_t": from_t}
    line["long"] = [[from_t, run.began_s + SILENT_UNTIL_S]]
    run.change(name, silence=silence)
    progress = JsonLines(run.folder / "load" / f"worker-{worker}.jsonl")
    for t, behind_ms in ((1.0, 3), *late, (19.9, 5)):
        progress.write(t=run.began_s + t, behind_ms=behind_ms)
    assert run.state.plan.experiment.limits.longest_silence_s == 6


@pytest.mark.parametrize(
    ("silent_s", "late", "verdict"),
    [
        # Paused: it tells as soon as it goes on, or in the second after.
        (7.0, [(17.4, 6800)], "invalid"),
        (7.0, [(17.4, 0), (17.9, 6900)], "invalid"),
        # Starved of CPU: it tells so all along.
        (7.0, [(11.5 + s, 900 + 1000 * s) for s in range(6)], "invalid"),
        # A little late, as a worker is now and then, just beyond the limit.
        (6.2, [(14.0, 250)], "fail"),
        (7.0, [(14.0, 3400)], "fail"),
        # Before it, and when the servers' answers came all at once.
        (7.0, [(3.0, 6900)], "fail"),
        (7.0, [(10.6, 6900)], "fail"),
        (7.0, [(18.4, 1100)], "fail"),
        (7.0, [(18.4, 4000)], "fail"),
        # By less than it is too long.
        (15.0, [(17.4, 2000)], "fail"),
        (15.0, [(17.4, 8000)], "fail"),
    ],
)
def test_a_silence_of_the_loaders_own_is_not_the_servers(tmp_path, silent_s, late, verdict):
    """A pause of a few seconds in a long load is not late in its 99th percentile."""
    run = run_of(tmp_path)
    silent(run, 2, silent_s, *late)
    run.read_back()
    judged = run.judge()
    assert judged.verdict == verdict, judged.reasons
    if verdict == "invalid":
        assert judged.reasons[0].startswith(
            "loader: worker 2 on loader-2 stood still: none of its points was acknowledged for "
            "7.0 s (limit 6 s), and for "
        )
    else:
        assert judged.invalid == []


@pytest.mark.parametrize("what", ["in time", "queries", "drain", "lost"])
def test_a_loader_that_stood_still_excuses_nothing_else(tmp_path, what):
    """A load past what the servers carry was judged again and again, and never failed."""
    run = run_of(tmp_path, queries={"rate": 1.0, "last_s": 10, "bucket_s": 5})
    kind = {"sent": 5, "not_sent": 0, "right": 5, "late": 0, "wrong": 0, "failed": 0}
    if what == "queries":
        kind |= {"right": 0, "failed": 5}
    final = {**kind, "kinds": {"raw": kind}, "points_checked": 500, "points_late": 0}
    final |= {"errors": {}, "first_errors": [], "stopped_early": False}
    for host in range(2):
        (tmp_path / "load" / f"queries-{host}.json").write_text(json.dumps(final))
    silent(run, 2, 7.0, (17.4, 6800))
    if what == "in time":
        run.change("load/worker-1.json", in_time=15, in_time_by_step=[15])
    elif what == "drain":
        run.drained(90, left=5)
    run.read_back(lost={0: 1} if what == "lost" else None)
    judged = run.judge()
    assert (judged.verdict, judged.invalid) == ("fail", []), judged.reasons
    assert "stood still" not in str(conclude.failing(tmp_path)) or what == "lost"


def test_a_loader_that_stood_still_excuses_no_silence_of_another(tmp_path):
    """Nor one of a node that it had itself at another time."""
    for name, worker, node in (("workers", 1, None), ("nodes", 2, 1)):
        run = run_of(tmp_path / name)
        silent(run, 2, 7.0, (17.4, 6800))
        silence = run.json(f"load/worker-{worker}.json")["silence"]
        line = silence if node is None else silence["by_node"][node]
        line["long"] = [*line["long"], [run.began_s + 5, run.began_s + 11.5]]
        run.change(f"load/worker-{worker}.json", silence=silence)
        run.read_back()
        judged = run.judge()
        assert (judged.verdict, judged.invalid) == ("fail", []), name


def test_a_search_is_told_that_the_loader_stood_still(tmp_path):
    """Before anything is read back, which such a run is not worth."""
    run = run_of(tmp_path)
    silent(run, 2, 7.0, (17.4, 6800))
    run.end()
    assert str(conclude.failing(tmp_path)).startswith("loader: worker 2 on loader-2 stood still")


def test_a_drain_counts_from_the_last_point(tmp_path):
    """The loader had to send again for 40 s: the queue was empty soon after that."""
    run = run_of(tmp_path)
    depths(run, lambda second: 7 if second < 62 else 0)
    for worker in range(4):
        ended_ms = run.schedule.spec.end_ms + 40_000
        run.change(f"load/worker-{worker}.json", ended_ms=ended_ms)
    run.drained(42.4)
    run.read_back()
    part = run.judge().parts["drain"]
    assert part.figure == pytest.approx(42)
    assert "the last loader had ended 40.0 s after it" in part.text
    run.limit(drain_s=41)
    assert run.judge().parts["drain"].outcome == "fail"


def test_a_queue_that_was_not_seen_is_unknown(tmp_path):
    run = run_of(tmp_path)
    lines = (tmp_path / "queue.jsonl").read_text().splitlines()
    silent = [f'"t": {run.began_s + second}, "node": "{NODES[1]}"' for second in range(8, 16)]
    kept = [line for line in lines if not any(each in line for each in silent)]
    assert len(kept) == len(lines) - 8
    (tmp_path / "queue.jsonl").write_text("\n".join(kept) + "\n")
    run.read_back()
    judged = run.judge()
    assert (judged.verdict, judged.parts["queue"].outcome) == ("incomplete", "unknown")
    assert "kairosdb-2 did not tell its depth for 9 s, from 2 s on" in judged.summary


def test_a_late_worker_is_named_with_its_host(tmp_path):
    run = run_of(tmp_path)
    run.read_back()
    error = {"p50": 1, "p99": 900_000, "max": 900_000, "count": 75}
    run.change("load/worker-3.json", send_error_us=error)
    judged = run.judge()
    assert judged.verdict == "invalid"
    (reason,) = judged.reasons
    assert "worker 3 on loader-2 sent late, 99th percentile 900 ms" in reason
    assert "over 75 points" in reason
    assert judged.despite == []
    depths = tmp_path / "queue.jsonl"
    looks = [json.loads(line) for line in depths.read_text().splitlines()]
    for look in looks:
        look["waiting"] = round(100 * (look["t"] - looks[0]["t"]))
    depths.write_text("".join(json.dumps(look) + "\n" for look in looks))
    judged = run.judge()
    assert (judged.verdict, judged.despite) == ("invalid", ["queue"]), judged.summary
    assert "despite" in judged.to_json()


def without(path):
    path.unlink()


def cut_in_mid_line(path):
    path.write_text(path.read_text()[:-20])


def without_its_last_interval(path):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize("damage", [without, cut_in_mid_line, without_its_last_interval])
def test_a_slow_worker_whose_latencies_are_not_all_there_is_no_pass(tmp_path, damage):
    """One of four answers after 9 s; the other three logs alone say 20 ms."""
    run = run_of(tmp_path)
    run.read_back()
    write_latencies(run, 3, (20_000, 70), (9_000_000, 5))
    assert run.judge().parts["latency"].outcome == "fail"
    damage(tmp_path / "latency" / "worker-3.hlog")
    run.facts.ended = False
    judged = run.judge()
    part = judged.parts["latency"]
    assert (judged.verdict, part.outcome, part.figure) == ("incomplete", "unknown", None)
    assert "of worker 3 on loader-2" in part.text
    whole = [each["holds"] for each in run.json("latency/merged.json")["workers"]]
    assert whole == [True, True, True, False]


def test_latencies_by_node_by_loader_host_and_by_what_they_were(tmp_path):
    run = run_of(tmp_path, sensors_per_request=1)
    run.read_back()
    write_latencies(run, 3, (20_000, 70), (90_000, 5))
    text = run.judge().parts["latency"].text
    assert "worst loader host loader-2 90." in text
    found = run.json("latency/merged.json")
    assert [(each["node"], each["count"]) for each in found["nodes"]] == [
        ("kairosdb-1", 3 * 37 + 35 + 2),
        ("kairosdb-2", 3 * 38 + 35 + 3),
    ]
    assert [(each["host"], each["count"]) for each in found["hosts"]] == [
        ("loader-1", 150),
        ("loader-2", 150),
    ]
    assert found["count"] == 300
    assert (found["wait"]["count"], found["wait"]["max_ms"]) == (300, 0)
    assert found["service"]["count"] == 300


def test_requests_that_wait_for_a_connection_make_a_run_invalid(tmp_path):
    run = run_of(tmp_path, connections_per_node=1, sensors=200, sensors_per_request=1)
    run.read_back()
    for worker in range(4):
        write_latencies(run, worker, (8_000_000, 75))
        hlog = tmp_path / "load" / f"worker-{worker}.wait.hlog"
        hlog.write_bytes((tmp_path / "load" / f"worker-{worker}.hlog").read_bytes())
    run.limit(in_time=0.001)
    judged = run.judge()
    assert judged.verdict == "invalid"
    assert "points waited for a connection, 99th percentile 8,0" in judged.reasons[0]
    assert judged.parts["latency"].outcome == "fail"


def test_refused_points_have_no_latency_and_are_not_missed(tmp_path):
    run = run_of(tmp_path)
    run.read_back()
    final = run.json("load/worker-1.json")
    run.change("load/worker-1.json", untimed=5)
    assert "has 100 of 95 points" in run.judge().parts["latency"].text
    run.change("load/worker-1.json", untimed=final["untimed"])
    assert run.judge().parts["latency"].outcome == "pass"


def test_a_worker_that_somebody_stopped_makes_the_run_incomplete(tmp_path):
    run = run_of(tmp_path)
    run.read_back()
    run.change("load/worker-2.json", stopped_early=True)
    judged = run.judge()
    assert judged.verdict == "incomplete"
    assert judged.reasons == [
        "loader worker 2 stopped before the end of the schedule: 0 points not sent"
    ]


def test_the_longest_silence_is_measured_and_limited(tmp_path):
    run = run_of(tmp_path)
    run.read_back()
    quiet = run.json("load/worker-1.json")["silence"]
    long = {"longest_s": 7.5, "from_t": NOW_S + 9.0, "long": []}
    silence = quiet | {"by_node": [quiet["by_node"][0], long]}
    run.change("load/worker-1.json", silence=silence)
    judged = run.judge()
    assert judged.verdict == "fail"
    assert "longest silence 7.5 s (worker 1, node kairosdb-2)" in judged.reasons[0]
    found = run.json("measurements.json")["longest_silence"]
    assert (found["seconds"], found["from_t"], found["node"]) == (7.5, NOW_S + 9.0, "kairosdb-2")
    run.limit(longest_silence_s=8.0)
    assert run.judge().verdict == "pass"


def test_a_node_that_was_down_is_told(tmp_path):
    run = run_of(tmp_path)
    run.read_back()
    for worker in range(3):
        line = {"t": NOW_S + 7 + worker / 10, "event": "node down", "node": 1, "detail": "silent"}
        (tmp_path / "load" / f"worker-{worker}.events.jsonl").write_text(json.dumps(line))
    run.event("process ended", "kairosdb-2: pid 1 → none")
    judged = run.judge()
    assert judged.verdict == "pass"
    assert judged.summary.endswith(
        "no acknowledged point was lost. During the run ended: kairosdb-2. "
        "Loaders failed over from: kairosdb-2."
    )
    last = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert (last["t"], last["what"]) == (NOW_S + 7, "node down")
    assert last["detail"] == "kairosdb-2: silent (seen by 3 of 4 workers)"


def test_a_run_without_its_captures_is_incomplete(tmp_path):
    """As the first on ScyllaDB: nodetool failed each time, and no storage process was found."""
    run = run_of(tmp_path)
    run.read_back()
    run.captured()
    for node in STORAGE:
        for phase in ("before", "after"):
            detail = f"{node}: no such file: nodetool"
            run.event("capture failed", detail, node=node, phase=phase)
    log = tmp_path / "processes.jsonl"
    kept = [line for line in log.read_text().splitlines() if "storage" not in line]
    log.write_text("\n".join(kept) + "\n")
    run.facts.disk_bytes = {"before": None, "after": None}
    run.event("disk not measured", "storage-1: no such folder")
    judged = run.judge()
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
    run = run_of(tmp_path, duration_s=duration_s)
    run.change(run_folder.MANIFEST, captures=captures_of(engine))
    run.read_back()
    looks = JsonLines(tmp_path / "scylla.jsonl")
    counts = {"shards": 1, "busy_ms": [1], "requests": [1], "replica_writes": [1]}
    for second in (10, 15):
        looks.write(t=run.schedule.spec.start_ms / 1000 + second, node="storage-1", **counts)
        looks.write(t=NOW_S + second, node="storage-2", error="refused")
    said = [reason for reason in run.judge().reasons if "shards" in reason]
    due = engine == "scylla" and duration_s == 60
    assert said == due * [
        "load and requests of the shards of storage-2, storage-3 not captured while the load was "
        "measured: no two looks are recorded"
    ]


def test_a_storage_node_that_was_taken_away_is_not_missed(tmp_path):
    run = run_of(tmp_path)
    run.read_back()
    run.captured(*((node, phase) for node in STORAGE[:2] for phase in ("before", "after")))
    run.facts.disk_bytes["after"] = None
    assert run.judge().verdict == "incomplete"
    run.facts.removed = ["storage-3"]
    assert run.judge().verdict == "pass"


def test_an_interrupted_run_gets_a_verdict(tmp_path):
    run = run_of(tmp_path)
    (tmp_path / "load" / "worker-2.json").unlink()
    run.facts.incomplete.append("interrupted by the user (Ctrl-C)")
    judged = run.judge()
    assert judged.verdict == "incomplete"
    assert judged.reasons[0] == "interrupted by the user (Ctrl-C)"
    assert run.json("ledger.json")["stored"] is None


def test_nothing_was_sent(tmp_path):
    run = run_of(tmp_path)
    (tmp_path / run_folder.LOAD_SPEC).unlink()
    assert run.judge().reasons == ["the load never started"]
    assert conclude.judge(tmp_path).times is None


def test_over_telnet_the_verdict_rests_on_read_back(tmp_path):
    run = run_of(tmp_path, protocol="telnet-put")
    run.read_back()
    judged = run.judge()
    assert judged.verdict == "pass"
    assert "handed to the socket" in judged.parts["schedule"].text
    assert "400 of 400 sent points read back" in judged.parts["readback"].text


def test_a_replay_has_no_counts_of_a_time_that_nobody_knew_before(tmp_path):
    for replay, missed in ((True, False), (False, True)):
        how = {"warmup_s": 0, "duration_s": 3600} if replay else {}
        run = run_of(tmp_path / str(replay), replay=replay, **how)
        captures = run.json("manifest.json")["captures"]
        run.change("manifest.json", captures=captures | {"window": ["a"]})
        run.read_back()
        said = " ".join(run.judge().reasons)
        assert ("what a counted while the load was measured" in said) is missed


@pytest.mark.parametrize(
    ("failed_s", "killed_s", "missed"),
    [
        ((20.3, 45.0), None, True),
        # Asked as the load ends, and killed before it answered; noted again at the end.
        ((20.3, 45.0), 20.2, False),
        # Of the first look it is no matter that there was a kill later.
        ((5.1, 45.0), 20.2, True),
        # It was asked long before, and was silent.
        ((20.3, 45.0), 25.0, True),
    ],
)
def test_what_a_kill_took_before_it_was_asked_makes_no_run_incomplete(
    tmp_path, failed_s, killed_s, missed
):
    run = run_of(tmp_path)
    captures = run.json("manifest.json")["captures"]
    run.change("manifest.json", captures=captures | {"window": list(STORAGE)})
    counted = {"nodes": {name: {} for name in STORAGE[1:]}}
    run_folder.write_json(tmp_path / run_folder.STORE_WINDOW, counted)
    what = "store's own counts not captured"
    for s in failed_s:
        run.state.events.write(
            t=run.began_s + s, what=what, detail="refused", node=STORAGE[0], started_again=False
        )
    if killed_s is not None:
        run_folder.write_json(tmp_path / run_folder.KILLED, {"t": run.began_s + killed_s})
    run.read_back()
    said = " ".join(run.judge().reasons)
    assert (f"what {STORAGE[0]} counted while the load was measured" in said) is missed, said


def test_a_replay_is_judged_by_what_arrived(tmp_path):
    run = run_of(tmp_path, replay=True, warmup_s=0, duration_s=3600)
    run.read_back()
    judged = run.judge()
    assert judged.verdict == "pass"
    outcomes_of = {name: part.outcome for name, part in judged.parts.items()}
    assert (outcomes_of["latency"], outcomes_of["queue"]) == ("not judged", "not judged")
    times = conclude.judge(tmp_path).times
    assert times == {
        "start_ms": (NOW_S + 1) * 1000,
        "end_ms": (NOW_S + 21) * 1000,
        "history": {"start_ms": (NOW_S - 3600) * 1000, "end_ms": NOW_S * 1000},
    }
    assert [i["t"] for i in run.json("latency/merged.json")["intervals"]] == [0]
    rate = run.json("measurements.json")["points_per_s"]
    assert rate == {"target": None, "achieved": 20 * 3600 / 20}


def test_wrong_answers_to_queries_fail_and_late_ones_above_their_limit(tmp_path):
    run = run_of(tmp_path, queries={"rate": 1.0, "last_s": 10, "bucket_s": 5})
    run.read_back()
    kind = {"sent": 5, "not_sent": 0, "right": 3, "late": 2, "wrong": 0, "failed": 0}
    final = {**kind, "kinds": {"raw": kind}, "points_checked": 500, "points_late": 4}
    final |= {"errors": {}, "first_errors": [], "stopped_early": False}
    for host in range(2):
        (tmp_path / "load" / f"queries-{host}.json").write_text(json.dumps(final))
        with (tmp_path / "load" / f"queries-{host}.hlog").open("w") as file:
            histogram = new_histogram()
            record(histogram, 250_000, 5)
            LogWriter(file, NOW_S * 1000).write(histogram, 7.0, 1.0)
    assert run.judge().verdict == "pass"
    written = run.json("queries.json")
    assert (written["answers"]["late"], written["latency"]["count"]) == (4, 10)
    assert written["latency"]["p99_ms"] == pytest.approx(250, rel=0.01)
    # Reads do not get into the latency of the writes.
    assert run.json("latency/merged.json")["count"] == 4 * 75

    run.change("load/queries-1.json", stopped_early=True)
    judged = run.judge()
    assert (judged.verdict, judged.reasons) == (
        "incomplete",
        ["the reader of loader-2 stopped before the end of the schedule"],
    )

    run.change("load/queries-1.json", points_late=7, stopped_early=False)
    judged = run.judge()
    assert (judged.verdict, judged.parts["schedule"].figure) == ("fail", 0.011)
    assert (
        "; 11 of 1,000 points that queries asked for were not found (1.1%, limit 1.0%)"
        in judged.parts["schedule"].text
    )
    assert "not found" in str(conclude.failing(tmp_path))

    run.change("load/queries-1.json", wrong=1, right=2, points_late=4)
    judged = run.judge()
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
    assert loading._died(results) == [
        f"{lost}; with it went workers 2, 3",
        "loader worker 1 died: signal 9 (SIGKILL) on loader-1",
    ]


@pytest.mark.parametrize(("level", "said"), [("ONE", True), ("QUORUM", False)])
def test_a_read_back_at_one_says_what_it_cannot_know(tmp_path, level, said):
    run = run_of(tmp_path)
    plan = run.json(run_folder.PLAN)
    for setting in plan["settings"] if isinstance(plan.get("settings"), list) else []:
        if setting["name"] == "kairosdb.read_consistency":
            setting["value"] = level
    plan["kairosdb"] = plan.get("kairosdb", {}) | {"read_consistency": level}
    (tmp_path / run_folder.PLAN).write_text(json.dumps(plan))
    run.read_back()
    text = run.judge().parts["readback"].text
    assert ("whether the 2 others have it is not known" in text) is said
