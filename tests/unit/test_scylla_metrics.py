"""ScyllaDB's counters by shard: reading them, following nodes, and what a report makes of them."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
import report_samples
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.hosts.inventory import Host
from kairoscope.report import data, shards
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.kairosdb.scylla import metrics
from kairoscope.stacks.kairosdb.scylla.shards import ShardLoads, url
from kairoscope.verdict import measurements

# In the form of a node of 5.2.19, two shards; the histograms' counts are of the whole node.
ANSWER = """\
scylla_commitlog_bytes_written{shard="0"} 16384
scylla_commitlog_bytes_written{shard="1"} 8192
scylla_commitlog_cycle{shard="0"} 4
scylla_commitlog_cycle{shard="1"} 2
scylla_commitlog_pending_allocations{shard="0"} 0
scylla_commitlog_pending_allocations{shard="1"} 3
scylla_commitlog_requests_blocked_memory{shard="0"} 0
scylla_commitlog_requests_blocked_memory{shard="1"} 0
scylla_database_requests_blocked_memory{shard="0"} 1
scylla_database_requests_blocked_memory{shard="1"} 0
scylla_database_total_writes{shard="0"} 700
scylla_database_total_writes{shard="1"} 500
scylla_database_total_writes_failed{shard="0"} 9
scylla_reactor_cpu_busy_ms{shard="0"} 1500
scylla_reactor_cpu_busy_ms{shard="1"} 900
scylla_reactor_cpu_steal_time_ms{shard="0"} 12
scylla_reactor_cpu_steal_time_ms{shard="1"} -3
scylla_reactor_utilization{shard="0"} 12.000000
scylla_storage_proxy_coordinator_background_writes{scheduling_group_name="main",shard="0"} 1
scylla_storage_proxy_coordinator_background_writes{scheduling_group_name="statement",shard="0"} 2
scylla_storage_proxy_coordinator_background_writes{scheduling_group_name="statement",shard="1"} 0
scylla_storage_proxy_coordinator_total_write_attempts_local_node{op_type="mutation_data",shard="0"} 40
scylla_storage_proxy_coordinator_total_write_attempts_remote_node{datacenter="a,\\"b}",shard="0"} 80
scylla_storage_proxy_coordinator_write_latency_sum{scheduling_group_name="statement"} 9
scylla_storage_proxy_coordinator_write_latency_count{scheduling_group_name="statement"} 44
scylla_storage_proxy_coordinator_write_latency_count{scheduling_group_name="gossip"} 2
scylla_storage_proxy_coordinator_write_latency_bucket{le="640.000000"} 44
scylla_transport_current_connections{shard="0"} 3
scylla_transport_current_connections{shard="1"} 2
scylla_transport_requests_served{shard="0"} 200
scylla_transport_requests_served{shard="1"} 100
scylla_transport_requests_shed{shard="0"} 0
scylla_transport_requests_shed{shard="1"} 0
"""  # noqa: E501


def test_a_look_is_by_shard():
    assert metrics.parse("# HELP x y\n" + ANSWER) == {
        "shards": 2,
        "busy_ms": [1500, 900],
        "stolen_ms": [12, -3],
        "requests": [200, 100],
        "requests_shed": [0, 0],
        "connections": [3, 2],
        "replica_writes": [700, 500],
        "writes_sent": [120, 0],
        "background_writes": [3, 0],
        "blocked_by_memtables": [1, 0],
        "blocked_by_commitlog": [0, 0],
        "commitlog_waiting": [0, 3],
        "commitlog_writes": [4, 2],
        "commitlog_bytes": [16384, 8192],
        "coordinator_writes": 46,
        "coordinator_reads": 0,
    }


def test_what_a_release_does_not_have_is_not_known():
    without = "\n".join(s for s in ANSWER.splitlines() if "steal" not in s and "attempts" not in s)
    found = metrics.parse(without)
    assert (found["stolen_ms"], found["writes_sent"]) == ([None, None], [0, 0])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("scylla_reactor_cpu_busy_ms", "scylla_reactor_busy", "cpu_busy_ms of any shard"),
        ('requests_served{shard="1"}', 'requests_seen{shard="1"}', "served of every shard"),
        ('cpu_busy_ms{shard="1"} 900', 'cpu_busy_ms{shard="1"} ', "not a sample"),
        ('cpu_busy_ms{shard="1"}', "cpu_busy_ms", "of no shard"),
        ('cpu_busy_ms{shard="1"}', 'cpu_busy_ms{shard="x"}', "of no shard"),
        ('cpu_busy_ms{shard="1"}', "cpu_busy_ms{shard=1}", "not labels"),
        ('cpu_busy_ms{shard="1"} 900', 'cpu_busy_ms{shard="1"} NaN', "not a count"),
        ('cpu_busy_ms{shard="1"} 900', 'cpu_busy_ms{shard="1"} many', "many"),
    ],
)
def test_another_answer_is_an_error(old, new, says):
    with pytest.raises(ValueError, match=says):
        metrics.parse(ANSWER.replace(old, new))


@given(
    st.dictionaries(
        st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,9}", fullmatch=True), st.text(max_size=20)
    )
)
def test_labels_are_read_as_they_are_written(labels):
    escaped = {
        k: v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for k, v in labels.items()
    }
    text = ",".join(f'{name}="{value}"' for name, value in escaped.items())
    assert metrics.labels_of(text) == escaped


class Node:
    """A server with such an answer, or another."""

    def __init__(self) -> None:
        self.answer = ANSWER
        self.asked: list[str] = []
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                node.asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(node.answer.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def host(self) -> Host:
        here = {"ansible_connection": "local", "address": "192.0.2.1"}
        port = self.server.server_port
        return Host(
            "storage-1",
            "storage",
            {**here, "prometheus_address": "127.0.0.1", "prometheus_port": port},
        )


@pytest.fixture
def node():
    node = Node()
    yield node
    node.server.shutdown()
    node.server.server_close()


def test_it_tells_of_a_node_and_ends_with_its_reader(node):
    options = {"url": url(node.host()), "every_s": 0.05}
    program = Path(metrics.__file__).read_text()
    with subprocess.Popen(
        # As text: it must need nothing of ours. No proxy is the way to the host itself.
        [sys.executable, "-I", "-u", "-c", program, json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "http_proxy": "http://127.0.0.1:1"},
    ) as probe:
        assert probe.stdout is not None
        first = json.loads(probe.stdout.readline())
        node.answer = "<html>"
        found = [json.loads(probe.stdout.readline()) for _ in range(2)]
        probe.stdout.close()
        assert probe.wait(30) == 0
        assert probe.stderr is not None
        assert probe.stderr.read() == ""
    assert first["requests"] == [200, 100]
    assert "no scylla_reactor_cpu_busy_ms" in found[-1]["error"]
    assert node.asked[0] == "/metrics?__help__=false"


def test_a_run_has_each_look_and_says_once_that_a_node_fell_silent(node, tmp_path):
    gone = Host("storage-2", "storage", {**node.host().vars, "prometheus_port": 1})
    file, events = tmp_path / "scylla.jsonl", tmp_path / "events.jsonl"
    loads = ShardLoads(
        [node.host(), gone], 0.05, JsonLines(file), JsonLines(events), lambda _: False
    )
    loads.start()
    deadline = time.monotonic() + 60
    while file.read_text().count("storage-1") < 2 or file.read_text().count("storage-2") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    loads.stop()
    looks = [json.loads(line) for line in file.read_text().splitlines()]
    assert measurements.shards_seen(looks, 0, time.time()) == {"storage-1"}
    assert {look["node"] for look in looks if "error" in look} == {"storage-2"}
    (said,) = [json.loads(line) for line in events.read_text().splitlines()]
    assert (said["what"], said["node"]) == ("shards not captured", "storage-2")
    assert "refused" in said["detail"]


def test_where_metrics_are():
    host = Host("s", "storage", {"address": "127.0.62.1"})
    assert url(host) == "http://127.0.62.1:9180/metrics"


def look(t: float, node: str = "s", **counts: int) -> dict:
    found = {"busy_ms": 0, "requests": 0, "replica_writes": 0} | counts
    return {"t": t, "node": node, "shards": 1} | {key: [value] for key, value in found.items()}


@pytest.mark.parametrize(
    ("looks", "seen"),
    [
        ([look(1), look(2)], True),
        ([look(1)], False),
        ([look(0.5), look(2)], False),
        ([look(1, requests=5), look(2, requests=4)], False),
        ([look(1), {"t": 2, "node": "s", "error": "down"}, look(3)], False),
        ([look(1), {**look(2), "shards": 2}], False),
        ([look(1, busy_ms=9), look(2, busy_ms=3), look(3, busy_ms=4)], True),
    ],
)
def test_two_looks_in_one_life_say_something(looks, seen):
    assert measurements.shards_seen(looks, 1, 3) == ({"s"} if seen else set())


@pytest.fixture
def run(tmp_path: Path) -> data.RunData:
    return data.read(report_samples.scylla(tmp_path))


def test_rates_are_of_the_time_between_looks(run):
    found = [step for step in shards.steps(run, "storage-1") if step is not None]
    looks = [found for found in run.shards if found["node"] == "storage-1"]
    assert len(found) == len(looks) - 1
    for step, (before, after) in zip(found, pairwise(looks), strict=True):
        assert step.requests[0] == pytest.approx((after["requests"][0] - before["requests"][0]) / 5)
        assert step.busy[1] == pytest.approx((after["busy_ms"][1] - before["busy_ms"][1]) / 5000)


def test_a_node_that_was_killed_has_a_hole(run):
    found = shards.steps(run, "storage-2")
    # To each of three failed looks, and to the first of the new life, nothing is known.
    assert [step is None for step in found].count(True) == 4
    assert len(shards.measured(run, "storage-2")) == len(shards.measured(run, "storage-1")) - 5
    for chart in shards.charts(run)[2:4]:
        assert [series.values.count(None) for series in chart.series] == [4, 4]


def test_counters_that_fall_are_another_life(tmp_path):
    """A node that is back before the next look has answered all of them."""
    folder = report_samples.scylla(tmp_path)
    lines = (folder / "scylla.jsonl").read_text().splitlines()
    (folder / "scylla.jsonl").write_text("\n".join(s for s in lines if "error" not in s) + "\n")
    found = shards.steps(data.read(folder), "storage-2")
    assert [step is None for step in found].count(True) == 1
    assert all(v >= 0 for step in found if step is not None for v in (*step.busy, *step.requests))


def test_the_means_of_a_node_are_computed_once_and_not_for_each_shard(run, monkeypatch):
    computed = []
    means = shards._means
    monkeypatch.setattr(
        shards, "_means", lambda found, key: computed.append(key) or means(found, key)
    )
    rows = shards.each(run).rows
    assert len(rows) == 2 * len(shards.nodes(run))
    assert len(computed) == 3 * len(shards.nodes(run))


def test_the_table_says_how_even_the_shards_were(run):
    (first, *_), (each, *_) = shards.balance(run).rows, shards.each(run).rows
    assert first[:3] == ("storage-1", "2", "21")
    assert each[:3] == ("storage-1", "0", "21")
    # The first shard gets two thirds of the requests: 4/3 of the mean.
    assert first[8] == "1.33"
    assert shards.pressure(run).rows[0][4:] == ("0", "0", "105")


def test_many_shards_are_three_lines(tmp_path):
    run = data.read(report_samples.scylla(tmp_path, shards=14))
    (load, *_) = shards.charts(run)
    assert [series.label for series in load.series] == ["lowest", "median", "highest"]
    low, middle, high = (series.values for series in load.series)
    assert all(a <= b <= c for a, b, c in zip(low, middle, high, strict=True))


@pytest.mark.parametrize(
    "damaged",
    [
        {"t": None, "node": "storage-1", "error": "x"},
        {"t": report_samples.START + 1, "node": "storage-1"},
        {"t": report_samples.START + 1, "node": "storage-1", "shards": 2, "busy_ms": [1]},
        {"t": report_samples.START + 1, "shards": 1},
        {"t": report_samples.START + 1, "node": "new", "error": "never up"},
    ],
)
def test_a_damaged_look_is_none(tmp_path, damaged):
    folder = report_samples.scylla(tmp_path)
    with (folder / "scylla.jsonl").open("a") as file:
        file.write(json.dumps(damaged) + "\n")
    run = data.read(folder)
    assert shards.balance(run).rows[0][0] == "storage-1" or damaged.get("node") == "new"
    assert shards.each(run)
    assert shards.pressure(run)
    assert len(shards.charts(run)) == 6
