"""nodetool's answers out of ScyllaDB's REST API: forms as of a node of 5.2.19 (2026-11-24)."""

import http.server
import json
import re
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest

from kairoscope import paths
from kairoscope.cli import known
from kairoscope.deploy import inventory_vars
from kairoscope.deploy.operate import cluster
from kairoscope.deploy.verify import answers
from kairoscope.errors import UserError
from kairoscope.experiment import Experiment
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.machines import Machine, Machines
from kairoscope.stacks.kairosdb.captures.store_window import difference
from kairoscope.stacks.kairosdb.scylla import rest
from kairoscope.stacks.kairosdb.servers import nodetool

# 512 µs to 2^25 µs, four a doubling, and one without an end: 65.
OFFSETS = [(512 << i // 4) + (i % 4) * (128 << i // 4) for i in range(64)] + [33_554_432]
REPAIR = ("repair_async/kairosdb", {"primaryRange": "true"})
ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def counted(**buckets: int) -> dict:
    counts = [0] * len(OFFSETS)
    for place, count in buckets.items():
        counts[int(place[1:])] = count
    return {"buckets": counts, "bucket_offsets": OFFSETS}


def sampled(*micros: int) -> dict:
    rates = {"rates": [0, 0, 0], "mean_rate": 0, "count": len(micros)}
    hist = {"count": len(micros), "sum": sum(micros), "min": 0, "max": 0, "variance": 0, "mean": 0}
    return {"meter": rates, "hist": hist | ({"sample": micros} if micros else {})}


def pairs(**values) -> list[dict]:
    return [{"key": key, "value": value} for key, value in values.items()]


def answers_of_rest() -> dict:
    metrics = "/storage_proxy/metrics"
    ids = {a: f"5d1f8f5e-0000-4000-8000-00000000000{i}" for i, a in enumerate(ADDRESSES)}
    owners = {str(i): ADDRESSES[i % 3] for i in range(9)}
    return {
        f"{metrics}/read/moving_average_histogram": sampled(),
        f"{metrics}/write/moving_average_histogram": sampled(*range(100, 0, -1)),
        f"{metrics}/range/moving_average_histogram": sampled(7),
        f"{metrics}/cas_read/moving_average_histogram": sampled(),
        f"{metrics}/cas_write/moving_average_histogram": sampled(),
        f"{metrics}/view_write/moving_average_histogram": sampled(),
        f"{metrics}/read/estimated_histogram": counted(),
        f"{metrics}/write/estimated_histogram": counted(b0=10, b4=90),
        "/gossiper/endpoint/live/": list(ADDRESSES[:2]),
        "/gossiper/endpoint/down/": [ADDRESSES[2]],
        "/storage_service/nodes/joining": [ADDRESSES[1]],
        "/storage_service/nodes/leaving": [],
        "/storage_service/nodes/moving": [],
        "/storage_service/load_map": pairs(**{ADDRESSES[0]: 76_629.0, ADDRESSES[1]: 2048.0}),
        "/storage_service/host_id": pairs(**ids),
        "/storage_service/tokens_endpoint": pairs(**owners),
        "/storage_service/tokens": ["-5", "12"],
        "/storage_service/cluster_name": "kairoscope",
        "/storage_service/partitioner_name": "org.apache.cassandra.dht.Murmur3Partitioner",
        "/storage_service/scylla_release_version": "5.2.19-0.20240806.abc",
        "/storage_service/hostid/local": ids[ADDRESSES[0]],
        "/storage_service/gossiping": True,
        "/storage_service/native_transport": False,
        "/storage_service/load": 2048,
        "/storage_service/generation_number": 1795000000,
        "/system/uptime_ms": 61_500,
        "/storage_service/operation_mode": "NORMAL",
        "/storage_service/keyspaces": ["kairosdb", "system_auth"],
        "/storage_service/repair_async/kairosdb": "SUCCESSFUL",
        "/stream_manager/": [],
        "/compaction_manager/metrics/pending_tasks": 2,
        "/compaction_manager/compactions": [
            {"id": "i", "ks": "kairosdb", "cf": "data_points", "completed": 5, "total": 9}
            | {"task_type": "COMPACTION", "unit": "keys"}
        ],
        "/failure_detector/endpoints/": [
            {"addrs": ADDRESSES[0], "generation": 7, "version": 9, "update_time": 1}
            | {"is_alive": True}
            | {"application_state": [{"application_state": 0, "value": "NORMAL,-5", "version": 4}]}
        ],
        "/snitch/name": "org.apache.cassandra.locator.GossipingPropertyFileSnitch",
        "/snitch/datacenter": "dc1",
        "/snitch/rack": "rack1",
        "/storage_proxy/schema_versions": [{"key": "a1b2", "value": list(ADDRESSES)}],
    }


class Node:
    """A server that gives such answers, and remembers what it was told to do."""

    def __init__(self) -> None:
        self.answers = answers_of_rest()
        self.told: list[tuple[str, str, dict[str, str]]] = []
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = urllib.parse.urlsplit(self.path).path
                found = path in node.answers
                answer = node.answers[path] if found else {"message": "Not found"}
                body = json.dumps(answer() if callable(answer) else answer)
                self.send_response(200 if found else 404)
                self.end_headers()
                self.wfile.write(body.encode())

            def do_POST(self):
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                node.told.append((self.command, url.path, query))
                refused = query.get("kn") == "nowhere"
                self.send_response(400 if refused else 200)
                self.end_headers()
                if refused:
                    self.wfile.write(b'{"message": "Keyspace nowhere does not exist", "code": 400}')
                elif "repair_async" in url.path:
                    self.wfile.write(b"3")

            do_DELETE = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def host(self, version: str = "5.2.19", **more) -> Host:
        given_ = {
            "ansible_connection": "local",
            "storage_engine": "scylla",
            "api_address": "127.0.0.1",
            "api_port": self.server.server_port,
        }
        return Host("storage-1", "storage", {**given_, "scylla_version": version, **more})


@pytest.fixture
def node():
    node = Node()
    yield node
    node.server.shutdown()
    node.server.server_close()


def test_proxyhistograms_in_nodetool_s_form(node):
    text = nodetool.run(node.host(), "proxyhistograms")
    assert text.splitlines()[0] == f"proxy histograms, {rest.NOTE}"
    rows = nodetool.parse_proxyhistograms(text)
    assert list(rows) == ["Read", "Write", "Range", "CAS Read", "CAS Write", "View Write"]
    assert rows["Write"] == {
        "50%": 50.5,
        "75%": 75.75,
        "95%": 95.95,
        "98%": 98.98,
        "99%": 99.99,
        "Min": 1.0,
        "Max": 100.0,
    }
    assert set(rows["Read"].values()) == {0.0}
    assert set(rows["Range"].values()) == {7.0}


def test_the_ring_is_read_as_nodetool_s(node):
    text = nodetool.run(node.host(), "status")
    assert nodetool.ring(text) == dict(zip(ADDRESSES, ("UN", "UJ", "DN"), strict=True))
    assert cluster.host_id(text, "127.0.0.3").endswith("0002")
    assert cluster.load_bytes(text, "127.0.0.1") == pytest.approx(76_629, abs=10)
    with pytest.raises(UserError, match="is not known"):  # of the node that is down
        cluster.load_bytes(text, "127.0.0.3")
    assert rest.NOTE in text


def test_a_node_without_tokens_is_not_normal(node):
    """Seen at 5.2.19: in the first half minute of a join the API does not call the node joining."""
    node.answers["/storage_service/nodes/joining"] = []
    owners = {"1": ADDRESSES[0]}
    node.answers["/storage_service/tokens_endpoint"] = pairs(**owners)
    # The third is down and owns nothing: it has left.
    assert nodetool.ring(nodetool.run(node.host(), "status")) == {
        ADDRESSES[0]: "UN",
        ADDRESSES[1]: "UJ",
    }


def test_what_verify_and_a_backup_ask(node):
    versions = answers.schema_versions(nodetool.run(node.host(), "describecluster"))
    assert versions == {"a1b2": list(ADDRESSES)}
    assert nodetool.run(node.host(), "version").startswith("ReleaseVersion: 5.2.19-0.2024")
    assert nodetool.run(node.host(), "info", "--tokens").splitlines()[0].split() == [
        "Token",
        ":",
        "-5",
    ]


def test_flush_and_snapshot(node):
    nodetool.run(node.host(), "flush", "kairosdb")
    nodetool.run(node.host(), "snapshot", "-t", "now", "kairosdb")
    nodetool.run(node.host(), "clearsnapshot", "-t", "now", "kairosdb")
    assert node.told == [
        ("POST", "/storage_service/keyspace_flush/kairosdb", {}),
        ("POST", "/storage_service/snapshots", {"tag": "now", "sf": "false", "kn": "kairosdb"}),
        ("DELETE", "/storage_service/snapshots", {"tag": "now", "kn": "kairosdb"}),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["snapshot", "-t", "now", "nowhere"], "Keyspace nowhere does not exist"),
        (["clearsnapshot"], "-t TAG comes first"),
        (["flush"], "which keyspace"),
        (["info", "-T"], "only --tokens"),
        (["refresh", "kairosdb"], "which keyspace and table"),
        (["repair", "-pr"], "which keyspace"),
        (["repair", "-inc", "kairosdb"], "repair -inc: only -pr and -full"),
        (["tpstats"], "tpstats: is not had by ScyllaDB's REST API"),
    ],
)
def test_what_it_cannot_do_is_a_sentence(node, arguments, says):
    with pytest.raises(nodetool.NodetoolError, match=says):
        nodetool.run(node.host(), *arguments)


def test_no_server_and_another_form_are_sentences(node):
    with pytest.raises(nodetool.NodetoolError, match="refused"):
        nodetool.run(node.host(api_port=1), "status")
    node.answers["/gossiper/endpoint/live/"] = None
    with pytest.raises(nodetool.NodetoolError, match="status, by ScyllaDB's REST API"):
        nodetool.run(node.host(), "status")


@pytest.mark.parametrize(
    ("version", "by_rest"),
    [("5.2.19", True), ("5.4.9", True), ("6.0.4", False), ("2026.1.11", False), ("", False)],
)
def test_which_releases_are_asked_so(node, version, by_rest):
    assert nodetool.by_rest(node.host(version)) == by_rest
    assert not nodetool.by_rest(node.host(version, storage_engine="cassandra"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["drain"], [("drain", {})]),
        (["decommission"], [("decommission", {})]),
        (["cleanup", "kairosdb"], [("keyspace_cleanup/kairosdb", {})]),
        (["cleanup"], [("keyspace_cleanup/kairosdb", {}), ("keyspace_cleanup/system_auth", {})]),
        (["cleanup", "kairosdb", "a", "b"], [("keyspace_cleanup/kairosdb", {"cf": "a,b"})]),
        (["refresh", "kairosdb", "a"], [("sstables/kairosdb", {"cf": "a"})]),
        (["repair", "-pr", "-full", "kairosdb"], [REPAIR]),
        (
            ["repair", "kairosdb", "a", "b"],
            [(REPAIR[0], {"primaryRange": "false", "columnFamilies": "a,b"})],
        ),
    ],
)
def test_what_the_playbooks_of_day_two_tell_a_node(node, arguments, told):
    nodetool.run(node.host(), *arguments)
    assert node.told == [("POST", f"/storage_service/{path}", dict(query)) for path, query in told]


def test_a_repair_is_waited_for(node, monkeypatch):
    monkeypatch.setattr(rest, "_AGAIN_S", 0)
    states = iter(["RUNNING", "RUNNING", "SUCCESSFUL"])
    node.answers["/storage_service/repair_async/kairosdb"] = lambda: next(states)
    assert "Repair 3 of kairosdb finished" in rest.repair(rest.Api(node.url), "kairosdb")
    assert next(states, None) is None


def test_a_repair_that_failed_is_an_error(node):
    node.answers["/storage_service/repair_async/kairosdb"] = "FAILED"
    with pytest.raises(nodetool.NodetoolError, match="repair 3 of kairosdb ended as FAILED"):
        nodetool.run(node.host(), "repair", "-pr", "kairosdb")


def test_what_a_node_is_doing(node):
    said = nodetool.run(node.host(), "netstats")
    # The words that the playbook of decommission waits for.
    assert said.splitlines()[:2] == ["Mode: NORMAL", "Not sending any streams."]
    summary = {"cf_id": "c", "files": 3, "total_size": 700}
    session = {"peer": ADDRESSES[1], "state": "PREPARING", "sending_summaries": [summary] * 2}
    stream = {"plan_id": "p1", "description": "Unbootstrap", "sessions": [session]}
    node.answers["/stream_manager/"] = [stream]
    node.answers["/storage_service/operation_mode"] = "LEAVING"
    assert nodetool.run(node.host(), "netstats").splitlines()[:4] == [
        "Mode: LEAVING",
        "Unbootstrap p1",
        "    /127.0.0.2: PREPARING",
        "        sending 6 files, 1400 bytes total",
    ]


def test_what_evidence_collects(node):
    said = nodetool.run(node.host(), "info")
    assert "Native Transport active: false" in said
    assert "Uptime (seconds)       : 61" in said
    assert nodetool.run(node.host(), "compactionstats").splitlines()[:2] == [
        "pending tasks: 2",
        "- COMPACTION kairosdb.data_points: 5 of 9 keys",
    ]
    assert "  0:4:NORMAL,-5" in nodetool.run(node.host(), "gossipinfo")


def test_playbooks_call_nothing_that_there_is_not():
    """What they run as `nodetool`, but for what only Cassandra's role does."""
    verb = re.compile(r"""\{\{ (?:nodetool|hostvars\[item\]\.nodetool) \}\}"?,? ([a-z]+)""")
    called = {
        found[1]
        for path in (paths.ANSIBLE).rglob("*.yml")
        if "cassandra" not in str(path)
        for found in verb.finditer(path.read_text())
    }
    assert called >= {"status", "drain", "repair", "decommission", "netstats", "cleanup", "refresh"}
    assert called <= set(rest.VERBS)


@pytest.mark.parametrize(
    ("version", "own"), [("5.2.19", False), ("6.2.3", True), ("2026.1.11", True)]
)
@pytest.mark.usefixtures("no_bundles")
def test_hosts_have_a_nodetool_by_rest_where_the_release_has_none(version, own):
    document = {"name": "mine", "description": "A small one."}
    nodes = {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1}
    document |= {"cluster": {**nodes, "shards": 2}}
    document |= {"load": {"sensors": 20, "rate": 1.0, "duration_s": 20}}
    document |= {"storage": {"engine": "scylla", "scylla_version": version}}
    plan = known.plan(Experiment.model_validate(document), "lab")
    machines = Machines([Machine("storage-1", "storage", "192.0.2.1", {})], "c")
    made = inventory_vars.make(plan, machines, known.stack(plan.stack), shared=False)["all"]
    (of_host,) = made["children"]["storage"]["hosts"].values()
    assert of_host["nodetool"] == ("nodetool" if own else f"{of_host['home']}/bin/nodetool")
    program = Path(made["vars"]["scylla_rest_program"])
    done = subprocess.run(
        [sys.executable, "-I", program, "--api", "http://127.0.0.1:1", "drain"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "drain, by ScyllaDB's REST API, not by nodetool: http://127.0.0.1:1" in done.stderr


def test_what_is_counted_is_told_by_where_its_buckets_end(node):
    looks = json.loads(nodetool.counts(node.host("2026.1.11")))
    assert looks["uptime_ms"] == 61_500
    found = looks["write"]
    assert found["counts"][:6] == [10, 0, 0, 0, 90, 0]
    assert found["ends_us"] == [*OFFSETS[1:], None]
    silent = difference(looks["read"], looks["read"])
    assert (silent["count"], silent["p99_us"]) == (0, None)
