"""Loads of every kind, on two KairosDB nodes and from two loader hosts."""

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from deployment import Deployment, Run, standing, variant
from harness import BIN, wait_for

from loaders.schedule.due import Schedule

NODES = {"kairosdb_nodes": 2, "loader_hosts": 2}


@pytest.fixture(scope="module")
def pair() -> Iterator[Deployment]:
    """A cluster of its own, with two of both."""
    cluster = Deployment()
    cluster.experiment = cluster.write("pair", variant(cluster=NODES))
    with standing(cluster):
        yield cluster


def run_to_the_end(pair: Deployment, name: str, *options: str, **sections: Any) -> Run:
    """Load the pair; the load must fit what is deployed."""
    what = pair.write(name, variant(cluster=NODES, **sections))
    with pair.loading(*options, what=what) as run:
        run.end()
    return run


def passed(run: Run) -> dict[str, Any]:
    """The ledger of a run that must have passed."""
    assert run.process.returncode == 0, run.output
    assert run.json("verdict.json")["verdict"] == "pass"
    book: dict[str, Any] = run.json("ledger.json")
    assert book["balanced"] is True
    assert book["rows_by_cql"] == book["scheduled"] == scheduled(run)
    return book


def scheduled(run: Run) -> int:
    return Schedule(run.spec()).points


def by_node(run: Run) -> list[int]:
    """Points sent to each KairosDB node, over all workers."""
    files = sorted((run.folder / "load").glob("worker-?.json"))
    workers = [run.json(f"load/{path.name}") for path in files]
    return [sum(column) for column in zip(*(w["sent_by_node"] for w in workers), strict=True)]


def test_telnet_is_settled_by_read_back_alone(pair: Deployment) -> None:
    run = run_to_the_end(pair, "telnet", "--protocol", "telnet-put")
    book = passed(run)
    assert book["acknowledged"] == 0
    assert book["unknown"] == book["unknown_stored"] == book["scheduled"] == 300 * 2 * 15
    assert by_node(run) == [150 * 2 * 15] * 2


def test_a_load_that_cannot_pass_need_not_be_read_back(pair: Deployment) -> None:
    run = run_to_the_end(
        pair, "hopeless", "--read-back-if-sustained", load={"duration_s": 5}, limits={"p99_ms": 1}
    )
    judged = run.json("verdict.json")
    assert (run.process.returncode, judged["verdict"]) == (2, "incomplete")
    assert "not read back, as the load cannot pass: 0 of 1,200 points" in judged["summary"]
    assert judged["parts"]["latency"]["outcome"] == "fail"
    assert run.json("ledger.json")["acknowledged"] == 300 * 2 * 5


def test_fleet_that_comes_and_goes_with_queries_beside_it(pair: Deployment) -> None:
    run = run_to_the_end(
        pair,
        "fleet",
        load={
            "metric": "fleet.temperature",
            "tags": {"sensor": "s-{n}", "site": "site-{n%7}"},
            "value_type": "double",
            "protocol": "rest-gzip",
            "points_per_request": 2,
            "duration_s": 24,
            "lifetime_s": 10,
            "ramp_s": 2,
            "warmup_s": 3,
            "jitter_ms": 100,
        },
        queries={"rate": 2, "last_s": 6, "lag_s": 8, "sensors": 5, "bucket_s": 3},
    )
    passed(run)
    spec = run.spec()
    assert len(list(Schedule(spec).series())) > 2 * spec.sensors
    hosts = run.json("load/hosts.json")
    assert [host["host"] for host in hosts] == ["loader-1", "loader-2"]
    answers = [run.json(f"load/queries-{host}.json") for host in (0, 1)]
    assert all(answer["right"] > 0 for answer in answers)
    assert sum(answer["wrong"] + answer["failed"] for answer in answers) == 0
    # Some sensors are followed, through all the series that take each other's place.
    followed = run.json("queries.json")["followed"]
    assert (followed["sensors"], followed["unanswered"], followed["vanished"]) == (16, 0, 0)
    assert followed["found"] > followed["points"] / 2
    assert 0 < followed["visible"]["count"] <= followed["found"]
    # Reads have a latency of their own; those of writes count every point once, as ever.
    assert (run.folder / "latency" / "queries-0.hlog").exists()
    merged = run.json("latency/merged.json")
    assert merged["count"] + merged["warmup_count"] == scheduled(run)


def test_steps_of_text_from_aligned_sensors(pair: Deployment) -> None:
    load = {"value_type": "string", "pacing": "aligned", "rate": None, "duration_s": None}
    # Each is judged alone, from one window of the queue after its start.
    steps = [{"rate": 1, "duration_s": 24}, {"rate": 2, "duration_s": 18}]
    section = {k: v for k, v in (variant()["load"] | load).items() if v is not None}
    what = variant(cluster=NODES) | {"load": section | {"steps": steps}}
    with pair.loading(what=pair.write("steps", what)) as run:
        run.end()
    assert passed(run)["scheduled"] == 300 * (24 + 36)
    timestamps = Schedule(run.spec()).timestamps_ms(0, range(60))
    assert (timestamps == Schedule(run.spec()).timestamps_ms(3, range(60))).all()


def test_replay_is_acknowledged_and_stored_whole(pair: Deployment) -> None:
    run = run_to_the_end(
        pair,
        "replay",
        load={
            # The sensors of the other loads have points in that time already.
            "metric": "HISTORY_{n}",
            "replay": True,
            # Long enough for samples of the processes meanwhile, however fast it goes: 300,000
            # points were gone in less than two of the usual two seconds.
            "duration_s": 1500,
            "warmup_s": 0,
            "points_per_request": 60,
            "replay_queue_points": 10_000,
        },
        capture={"processes_every_s": 1},
    )
    book = passed(run)
    assert book["acknowledged"] == book["stored"] == 300 * 2 * 1500
    outcomes = {k: part["outcome"] for k, part in run.json("verdict.json")["parts"].items()}
    assert outcomes["latency"] == outcomes["queue"] == "not judged"
    assert outcomes["schedule"] == outcomes["readback"] == outcomes["drain"] == "pass"
    assert run.spec().end_ms <= time.time() * 1000


def supervisorctl(cluster: Deployment, *arguments: str) -> None:
    conf = cluster.state / "supervisor" / "supervisord.conf"
    subprocess.run([BIN / "supervisorctl", "-c", conf, *arguments], check=True, timeout=60)


def test_node_that_is_down_is_failed_over_from_and_back_to(pair: Deployment) -> None:
    what = pair.write(
        "failover",
        variant(cluster=NODES, load={"failover_after_s": 1.5}),
    )
    with pair.loading(*pair.until_told, what=what) as run:
        wait_for("acknowledged points", lambda: run.acknowledged() > 600)
        supervisorctl(pair, "stop", "kairosdb-2")

        def seen(kind: str) -> int:
            """How many workers say so, while they run: by what they wrote on their hosts."""
            files = pair.state.glob("loader-?/load/worker-?.events.jsonl")
            return sum(f'"event":"{kind}"' in path.read_text() for path in files)

        try:
            wait_for("both workers failing over", lambda: seen("node down") == 2, 60)
        finally:
            supervisorctl(pair, "start", "kairosdb-2")
        wait_for("both workers coming back", lambda: seen("node up") == 2, 120)
        pair.enough.touch()
        run.end()
    assert Schedule(run.spec()).points < 300 * 2 * 1800
    book = run.json("ledger.json")
    assert book["balanced"] is True
    assert book["acknowledged"] == book["stored"] == book["scheduled"]
    first, second = by_node(run)
    assert first > second > 0
    said = run.json("verdict.json")
    assert "kairosdb-2" in said["summary"]
    assert [event for event in run.events("node down") if "kairosdb-2" in event]
    assert [event for event in run.events("node up") if "kairosdb-2" in event]
