"""nodetool's answers out of ScyllaDB's REST API: forms as of a node of 5.2.19 (2026-11-24)."""

import http.server
import json
import re
import threading
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import paths
from kairoscope.capture import nodetool, scylla_rest
from kairoscope.capture.samplers import JsonLines, StoreWindow
from kairoscope.inventory import Host
from kairoscope.operate import state
from kairoscope.verify import judge

# 512 µs to 2^25 µs, four a doubling, and one without an end: 65.
OFFSETS = [(512 << i // 4) + (i % 4) * (128 << i // 4) for i in range(64)] + [33_554_432]
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


def answers() -> dict:
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
        "/snitch/name": "org.apache.cassandra.locator.GossipingPropertyFileSnitch",
        "/snitch/datacenter": "dc1",
        "/snitch/rack": "rack1",
        "/storage_proxy/schema_versions": [{"key": "a1b2", "value": list(ADDRESSES)}],
    }


class Node:
    """A server that gives such answers, and remembers what it was told to do."""

    def __init__(self) -> None:
        self.answers = answers()
        self.told: list[tuple[str, str, dict[str, str]]] = []
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = urllib.parse.urlsplit(self.path).path
                found = path in node.answers
                body = json.dumps(node.answers[path] if found else {"message": "Not found"})
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
    assert text.splitlines()[0] == f"proxy histograms, {scylla_rest.NOTE}"
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
    assert judge.ring(text) == dict(zip(ADDRESSES, ("UN", "UJ", "DN"), strict=True))
    assert state.host_id(text, "127.0.0.3").endswith("0002")
    assert state.load_bytes(text, "127.0.0.1") == pytest.approx(76_629, abs=10)
    assert state.load_bytes(text, "127.0.0.3") is None, "the node that is down does not tell"
    assert scylla_rest.NOTE in text


def test_a_node_without_tokens_is_not_normal(node):
    """Seen at 5.2.19: in the first half minute of a join the API does not call the node joining."""
    node.answers["/storage_service/nodes/joining"] = []
    owners = {"1": ADDRESSES[0]}
    node.answers["/storage_service/tokens_endpoint"] = pairs(**owners)
    # The third is down and owns nothing: it has left.
    assert judge.ring(nodetool.run(node.host(), "status")) == {
        ADDRESSES[0]: "UN",
        ADDRESSES[1]: "UJ",
    }


def test_what_verify_and_a_backup_ask(node):
    versions = judge.schema_versions(nodetool.run(node.host(), "describecluster"))
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
        (["info"], "only info --tokens"),
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


def test_what_the_playbooks_call_is_had():
    """It is the nodetool of a node whose release has none; `import` is Cassandra's alone."""
    text = "".join(
        file.read_text()
        for part in ("playbooks", "roles")
        for file in sorted((paths.ANSIBLE / part).rglob("*.yml"))
        if "cassandra" not in file.parts and file.name != "cassandra.yml"
    )
    called = set(re.findall(r"nodetool }}\"?,? \"?([a-z]+)", text))
    assert called >= {"status", "drain", "repair", "snapshot"}
    assert called <= set(scylla_rest.VERBS), called - set(scylla_rest.VERBS)


def test_what_changes_a_node_ends_with_its_end(node):
    node.answers["/storage_service/operation_mode"] = "LEAVING"
    node.answers["/storage_service/keyspaces"] = ["kairosdb", "system_auth"]
    host = node.host()
    assert "Mode: LEAVING" in nodetool.run(host, "netstats")
    for arguments in (["drain"], ["decommission"], ["cleanup"], ["cleanup", "kairosdb"]):
        nodetool.run(host, *arguments)
    nodetool.run(host, "refresh", "kairosdb", "data_points")
    service = "/storage_service"
    assert [(path, query) for _, path, query in node.told] == [
        (f"{service}/drain", {}),
        (f"{service}/decommission", {}),
        (f"{service}/keyspace_cleanup/kairosdb", {}),
        (f"{service}/keyspace_cleanup/system_auth", {}),
        (f"{service}/keyspace_cleanup/kairosdb", {}),
        (f"{service}/sstables/kairosdb", {"cf": "data_points"}),
    ]


@pytest.mark.parametrize("end", ["SUCCESSFUL", "FAILED"])
def test_a_repair_is_waited_for(node, monkeypatch, end):
    states = iter(["RUNNING", "RUNNING", end])
    path = "/storage_service/repair_async/system_auth"
    api = scylla_rest.Api(node.url)
    asked: list[dict] = []

    def get(_self, wanted, **query):
        asked.append({"path": wanted, **query})
        return next(states)

    monkeypatch.setattr(scylla_rest.Api, "get", get)
    monkeypatch.setattr(scylla_rest.time, "sleep", lambda _: None)
    monkeypatch.setattr(
        scylla_rest.Api, "ask", lambda _self, *call, **query: asked.append(query) or 7
    )
    if end == "SUCCESSFUL":
        assert "Repair 7 of system_auth: SUCCESSFUL" in scylla_rest.repair(
            api, "-pr", "-full", "system_auth"
        )
    else:
        with pytest.raises(OSError, match="FAILED"):
            scylla_rest.repair(api, "-pr", "system_auth")
    assert asked == [{"primaryRange": "true"}, *3 * [{"path": path, "id": "7"}]]
    with pytest.raises(OSError, match="only repair"):
        scylla_rest.repair(api, "-seq", "system_auth")


def test_a_window_is_the_difference_of_two_looks(node):
    before = json.loads(nodetool.rest(node.host("2026.1.11"), "counters"))
    node.answers["/storage_proxy/metrics/write/estimated_histogram"] = counted(b0=10, b4=189, b8=1)
    after = json.loads(nodetool.rest(node.host("2026.1.11"), "counters"))
    found = scylla_rest.window(before["write"], after["write"])
    assert (found["count"], found["p50_us"], found["p99_us"]) == (100, 1280, 1280)
    assert found["p99.9_us".replace(".", "_")] == OFFSETS[9]
    none = scylla_rest.window(before["read"], after["read"])
    assert (none["count"], none["p99_us"]) == (0, None)
    with pytest.raises(ValueError, match="started again"):
        scylla_rest.window(after["write"], before["write"])


COUNTS = st.lists(st.integers(0, 10**6), min_size=65, max_size=65)


@given(COUNTS, COUNTS, st.sampled_from([50, 75, 95, 98, 99]))
def test_a_percentile_is_what_so_many_were_faster_than(old, grown, p):
    """Whatever was counted before: of the window alone, and never too low."""
    new = [a + b for a, b in zip(old, grown, strict=True)]
    before, after = ({"buckets": c, "bucket_offsets": OFFSETS} for c in (old, new))
    found = scylla_rest.window(before, after)
    assert found["buckets"] == grown
    end = found[f"p{p}_us"]
    if end is None:
        assert not sum(grown) or sum(grown[:-1]) < p / 100 * sum(grown)
    else:
        below = OFFSETS.index(end)
        assert sum(grown[:below]) >= p / 100 * sum(grown)
        assert sum(grown[: below - 1]) < p / 100 * sum(grown)


def counted_window(node, tmp_path, *hosts: Host, restarted: bool = False) -> tuple[dict, list]:
    """Two looks, between which a node counts on (or begins anew)."""
    path = tmp_path / "window.json"
    events = tmp_path / "events.jsonl"
    window = StoreWindow(list(hosts), path, JsonLines(events))
    window._look(0)
    grown = counted() if restarted else counted(b0=10, b4=100)
    node.answers["/storage_proxy/metrics/write/estimated_histogram"] = grown
    window._look(1)
    window.stop()
    said = [json.loads(line)["detail"] for line in events.read_text().splitlines()]
    return json.loads(path.read_text())["nodes"], said


def test_the_store_s_own_counts_of_the_measured_time(node, tmp_path):
    nodes, said = counted_window(node, tmp_path, node.host("2026.1.11"))
    assert (nodes["storage-1"]["write"]["count"], said) == (10, [])
    assert nodes["storage-1"]["begin"] <= nodes["storage-1"]["end"]


@pytest.mark.parametrize("restarted", [True, False])
def test_counts_that_are_not_of_one_life_are_not_given(node, tmp_path, restarted):
    silent = node.host(api_port=1)
    host = node.host() if restarted else silent
    nodes, said = counted_window(node, tmp_path, host, restarted=restarted)
    assert nodes == {}
    assert ("started again" if restarted else "a look is missing") in said[-1]


def test_looks_that_are_not_due_are_not_taken(node, tmp_path):
    window = StoreWindow(
        [node.host()], tmp_path / "window.json", JsonLines(tmp_path / "events.jsonl")
    )
    window.start(3600, 7200)
    window.stop()
    assert json.loads((tmp_path / "window.json").read_text()) == {"nodes": {}}
