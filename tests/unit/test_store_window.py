"""What the storage nodes counted in exactly the measured time: Cassandra's agent, two looks."""

import http.server
import json
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_nodetool import SIX

from kairoscope import paths
from kairoscope.hosts.inventory import Host
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.kairosdb.captures import store
from kairoscope.stacks.kairosdb.captures.store_window import (
    StartedAgain,
    StoreWindow,
    check_same_life,
    difference,
)
from kairoscope.stacks.kairosdb.servers import cassandra_counts, nodetool

ENDS = [*cassandra_counts.ends_us(), None]
BEAN = "org.apache.cassandra.metrics:name=Latency,scope={},type=ClientRequest"


def counted(**buckets: int) -> list[int]:
    counts = [0] * len(ENDS)
    for place, count in buckets.items():
        counts[int(place[1:])] = count
    return counts


class Agent:
    """Jolokia's agent of 2.6.0: answers of one that runs, 2026-11-25."""

    def __init__(self) -> None:
        self.values = {"Read": counted(), "Write": counted(b19=10, b24=90)}
        self.attributes = dict.fromkeys(cassandra_counts.ROWS.values(), 0.0)
        self.uptime_ms = 60_000
        self.asked: set[tuple[str, str]] = set()
        self.status = 200
        agent = self

        class Asked(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/jolokia"
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps([self.one(**request) for request in asked]).encode()
                # Its HTTP status is 200 whatever the answer is.
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def one(self, type: str, mbean: str, operation="", attribute=()) -> dict:
                names = attribute if isinstance(attribute, list) else [attribute or operation]
                agent.asked |= {(mbean, name) for name in names}
                if agent.status != 200:
                    return {"status": agent.status, "error": f"{operation} forbidden for MBean"}
                if mbean == "java.lang:type=Runtime":
                    assert (type, attribute) == ("read", "Uptime")
                    return {"status": 200, "value": agent.uptime_ms}
                scope = re.fullmatch(BEAN.format(r"(\w+)"), mbean)[1]
                if type == "exec":
                    assert operation == "values"
                    return {"status": 200, "value": agent.values[scope]}
                of = agent.attributes if scope == "Write" else dict.fromkeys(agent.attributes, 0)
                return {"status": 200, "value": {name: of[name] for name in attribute}}

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Asked)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def host(self, **more) -> Host:
        given_ = {
            "ansible_connection": "local",
            "storage_engine": "cassandra",
            "jolokia_address": "127.0.0.1",
            "jolokia_port": self.server.server_port,
        }
        return Host("storage-1", "storage", {**given_, **more})


@pytest.fixture
def agent():
    agent = Agent()
    yield agent
    agent.server.shutdown()
    agent.server.server_close()


def test_buckets_end_where_cassandra_s_do():
    """The first as its own comment lists them, some as nodetool of 5.0.9 has printed them."""
    ends = cassandra_counts.ends_us()
    listed = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 29, 35, 42, 50, 60, 72]
    assert ends[: len(listed)] == listed
    assert {924, 1109, 2759, 14_237, 42_510, 73_457} <= set(ends)
    assert len(ends) == 127
    assert 5.9 < ends[-1] / 1e6 / 3600 < 6


def test_cassandra_s_counts_by_its_agent(agent):
    look = json.loads(nodetool.counts(agent.host()))
    assert look["uptime_ms"] == 60_000
    assert look["write"]["counts"] == counted(b19=10, b24=90)
    assert look["write"]["ends_us"] == ENDS
    found = difference(look["read"], look["read"])
    assert (found["count"], found["p99_us"]) == (0, None)


@pytest.mark.parametrize(
    ("status", "values", "says"),
    [
        (403, None, "forbidden"),
        (200, [1, 2, 3], "3 buckets"),
        (200, None, "0 buckets"),
    ],
)
def test_an_agent_that_answers_otherwise(agent, status, values, says):
    agent.status, agent.values["Read"] = status, values
    with pytest.raises(nodetool.NodetoolError, match=says):
        nodetool.counts(agent.host())


def test_proxyhistograms_by_the_agent_as_nodetool_prints_them(agent):
    """Cassandra 5.0.9's own, of a node whose writes took what the agent says here."""
    agent.attributes = {
        **{"50thPercentile": 1597.0, "75thPercentile": 2759.0, "95thPercentile": 8239.0},
        **{"98thPercentile": 14237.0, "99thPercentile": 20501.0, "Min": 258.0, "Max": 35425.0},
    }
    printed = nodetool.proxyhistograms_beside(agent.host())
    rows = nodetool.parse_proxyhistograms(printed)
    assert rows["Write"] == {
        **{"50%": 1597.0, "75%": 2759.0, "95%": 8239.0, "98%": 14237.0, "99%": 20501.0},
        **{"Min": 258.0, "Max": 35425.0},
    }
    assert rows["Read"] == dict.fromkeys(rows["Write"], 0.0)
    head, *lines = printed.splitlines()
    assert head == f"proxy histograms, {cassandra_counts.NOTE}"
    assert lines[0] == SIX.splitlines()[1]
    assert lines[-3] == f"Min       {0:19.2f}{258:19.2f}" + 4 * f"{0:19.2f}"


def test_an_agent_that_is_not_allowed_to_say_so(agent):
    agent.status = 403
    with pytest.raises(nodetool.NodetoolError, match="forbidden"):
        nodetool.proxyhistograms_beside(agent.host())


def test_all_that_is_asked_of_the_agent_is_allowed_and_nothing_else(agent):
    nodetool.counts(agent.host())
    nodetool.proxyhistograms_beside(agent.host())
    policy = (paths.ANSIBLE / "roles/cassandra/templates/jolokia-access.xml.j2").read_text()
    allowed = {
        (bean, name)
        for bean, rest in re.findall(r"<name>(.*?)</name>(.*?)</mbean>", policy, re.DOTALL)
        for name in re.findall(r"<(?:operation|attribute mode=\"read\")>(.*?)<", rest)
    }
    latencies = "org.apache.cassandra.metrics:type=ClientRequest,*"
    assert allowed == {
        (latencies if "type=ClientRequest" in bean else bean, name) for bean, name in agent.asked
    }


def test_beside_a_load_no_nodetool_is_started(agent, tmp_path):
    """The one there would fail."""
    histograms = store.ProxyHistograms(
        [agent.host(nodetool="/bin/false")],
        tmp_path / "captures",
        JsonLines(tmp_path / "events.jsonl"),
        lambda host: None,
    )
    assert histograms.capture("during") == []
    assert histograms.capture("after") == ["storage-1"]
    listed = json.loads((tmp_path / "captures" / "captures.json").read_text())
    assert [capture["phase"] for capture in listed] == ["during"]


def test_a_node_that_was_started_again_is_captured_at_the_next_look(agent, tmp_path):
    """Cassandra has no figures of rows that nobody has asked it for since its start."""
    agent.status = 404
    histograms = store.ProxyHistograms(
        [agent.host()],
        tmp_path / "captures",
        JsonLines(tmp_path / "events.jsonl"),
        lambda host: setattr(agent, "status", 200),
    )
    assert histograms.capture("during") == ["storage-1"]
    assert histograms.capture("during") == []


def test_no_agent(agent):
    with pytest.raises(nodetool.NodetoolError, match="refused"):
        nodetool.counts(agent.host(jolokia_port=1))


COUNTS = st.lists(st.integers(0, 10**6), min_size=len(ENDS), max_size=len(ENDS))


@given(COUNTS, COUNTS, st.sampled_from([50, 75, 95, 98, 99]))
def test_a_percentile_is_what_so_many_were_no_slower_than(old, grown, p):
    """Whatever was counted before: of the window alone, and never too low."""
    new = [a + b for a, b in zip(old, grown, strict=True)]
    found = difference(*({"counts": c, "ends_us": ENDS} for c in (old, new)))
    assert found["buckets"] == grown
    end = found[f"p{p}_us"]
    if end is None:
        assert not sum(grown) or sum(grown[:-1]) < p / 100 * sum(grown)
    else:
        place = ENDS.index(end)
        assert sum(grown[: place + 1]) >= p / 100 * sum(grown)
        assert sum(grown[:place]) < p / 100 * sum(grown)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ({"counts": [2], "ends_us": [1]}, {"counts": [1], "ends_us": [1]}, "started again"),
        ({"counts": [2], "ends_us": [1]}, {"counts": [2], "ends_us": [2]}, "others than before"),
        ({"counts": [2, 3], "ends_us": [1]}, {"counts": [2], "ends_us": [1]}, "others than"),
    ],
)
def test_looks_that_have_no_difference(before, after, says):
    with pytest.raises(ValueError, match=says):
        difference(before, after)


def window(agent, tmp_path, host: Host, *, restarted: bool = False, up_again_ms=None):
    """Two looks, between which a node counts on (or begins anew): its counts, and events."""
    path, events = tmp_path / "window.json", tmp_path / "events.jsonl"
    looks = StoreWindow([host], path, JsonLines(events))
    looks.start(3600, 7200)
    looks._look(0)
    agent.values["Write"] = counted() if restarted else counted(b19=20, b24=90)
    agent.uptime_ms = agent.uptime_ms if up_again_ms is None else up_again_ms
    looks._look(1)
    looks.stop()
    said = [json.loads(line)["detail"] for line in events.read_text().splitlines()]
    return json.loads(path.read_text())["nodes"], said


def test_what_is_counted_in_the_measured_time(agent, tmp_path):
    nodes, said = window(agent, tmp_path, agent.host())
    found = nodes["storage-1"]
    assert (found["write"]["count"], found["write"]["p99_9_us"], said) == (10, 72, [])
    assert found["begin"] <= found["end"]


@given(up_s=st.integers(1, 10**6), apart_s=st.integers(1, 10**5), data=st.data())
def test_a_server_that_was_started_again_is_known_by_its_uptime(up_s, apart_s, data):
    late_ms = data.draw(st.integers(-100, 400))  # of one answer, beside the other
    before = {"uptime_ms": up_s * 1000}
    check_same_life(before, {"uptime_ms": (up_s + apart_s) * 1000 + late_ms}, apart_s)
    again_ms = data.draw(st.integers(0, apart_s * 1000)) + late_ms
    with pytest.raises(StartedAgain):
        check_same_life(before, {"uptime_ms": again_ms}, apart_s)


def test_counts_of_a_server_that_was_started_again_are_not_given_if_they_are_higher(
    agent, tmp_path
):
    nodes, said = window(agent, tmp_path, agent.host(), up_again_ms=0)
    assert nodes == {}
    assert said == ["storage-1: the server was started again meanwhile"]


@pytest.mark.parametrize("restarted", [True, False])
def test_counts_that_are_not_of_one_life_are_not_given(agent, tmp_path, restarted):
    host = agent.host() if restarted else agent.host(jolokia_port=1)
    nodes, said = window(agent, tmp_path, host, restarted=restarted)
    assert nodes == {}
    assert ("started again" if restarted else "a look is missing") in said[-1]


def test_looks_that_are_not_due_are_not_taken(agent, tmp_path):
    looks = StoreWindow(
        [agent.host()], tmp_path / "window.json", JsonLines(tmp_path / "events.jsonl")
    )
    looks.start(3600, 7200)
    looks.stop()
    assert json.loads((tmp_path / "window.json").read_text()) == {"nodes": {}}


def test_a_load_without_a_measured_time_lacks_no_counts(agent, tmp_path):
    events = JsonLines(tmp_path / "events.jsonl")
    StoreWindow([agent.host()], tmp_path / "window.json", events).stop()
    assert not (tmp_path / "window.json").exists()
    assert (tmp_path / "events.jsonl").read_text() == ""
