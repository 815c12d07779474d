"""`make verify`: what answers mean, what a stranger sees, and that no trouble hides the rest."""

import http.server
import json
import shutil
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from test_firewall import GROUPS, PORTS, address, one_of_each, rendered

from kairoscope import experiment, paths, plan
from kairoscope.cli import known
from kairoscope.deploy import verify
from kairoscope.deploy.verify import (
    answers,
    checks,
    kairosdb,
    machines,
    probe,
    servers,
    store,
    wire,
)
from kairoscope.deploy.verify.check import Check
from kairoscope.deploy.verify.context import Context, on_host
from kairoscope.deploy.verify.finding import Finding, Outcome, passed
from kairoscope.errors import UserError
from kairoscope.hosts import pki
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.stacks.kairosdb.servers import engine, nodetool
from kairoscope.stacks.kairosdb.servers.client import Client

ANYWHERE = "0.0.0.0"  # noqa: S104

RING = """\
Datacenter: dc1
===============
Status=Up/Down
|/ State=Normal/Leaving/Joining/Moving
--  Address    Load        Tokens  Owns (effective)  Host ID                               Rack
UN  10.0.0.1   105.69 KiB  16      100.0%            5b4bbf44-24c9-41a5-a0c7-39f19a6eb32a  rack1
DN  10.0.0.2   ?           16      100.0%            6a8ee3a1-9c31-4f05-a0f4-5f1e2ab4dc11  rack1
UJ  10.0.0.3   70.2 KiB    16      ?                 0fdc3c4a-14a8-4a19-8b3c-8cb1a9d1c2f4  rack1

Note: Non-system keyspaces don't have the same replication settings, effective ownership
information is meaningless
"""

DESCRIPTION = """\
Cluster Information:
\tName: kairoscope
\tSnitch: org.apache.cassandra.locator.GossipingPropertyFileSnitch
\tDynamicEndPointSnitch: enabled
\tPartitioner: org.apache.cassandra.dht.Murmur3Partitioner
\tSchema versions:
\t\t54e17321-3f2e-37ca-9b08-d91ba7bdd369: [10.0.0.1, 10.0.0.2]

{more}Stats for all nodes:
\tLive: 2
Database versions:
\t5.0.9: [10.0.0.1:7000, 10.0.0.2:7000]
"""


def planned() -> plan.Plan:
    return known.plan(experiment.load("laptop"), "local")


WATCHING = {"monitoring_address": "127.0.0.1", "prometheus_web_port": 1, "scraped": []}


def host(name: str, role: str = "kairosdb", **more) -> Host:
    variables = {
        "address": "127.0.0.1",
        "ansible_connection": "local",
        "storage_engine": "cassandra",
        "kairosdb_keyspace": "kairosdb",
        "kairosdb_version": "1.3.0-1",
        "cassandra_version": "5.0.9",
        "loader_venv": "/nowhere",
        "native_transport_port": 1,
        "http_port": 1,
        "nodetool": "/nowhere/nodetool",
        "home": "/nowhere",
        **more,
    }
    return Host(name, role, variables)


class TestJudging:
    def test_a_ring_with_nodes_that_are_not_normal(self):
        found = nodetool.ring(RING)
        assert found == {"10.0.0.1": "UN", "10.0.0.2": "DN", "10.0.0.3": "UJ"}
        assert nodetool.ring_problems(found, ["10.0.0.1", "10.0.0.2", "10.0.0.4"]) == [
            "10.0.0.2 DN",
            "10.0.0.3 UJ",
            "10.0.0.4 missing",
            "10.0.0.3 not in the inventory",
        ]

    @given(st.sets(st.ip_addresses(v=4).map(str)), st.sets(st.ip_addresses(v=4).map(str)))
    def test_only_a_ring_of_just_the_wanted_nodes_is_well(self, seen, wanted):
        problems = nodetool.ring_problems(dict.fromkeys(seen, "UN"), wanted)
        assert (problems == []) == (seen == wanted)

    def test_no_ring_at_all_is_not_well(self):
        assert nodetool.ring_problems(nodetool.ring(""), ["10.0.0.1"]) == ["10.0.0.1 missing"]

    @pytest.mark.parametrize(
        ("more", "nodes", "well"),
        [
            ("", 2, True),
            ("", 3, False),  # a node that was forgotten
            ("\t\tUNREACHABLE: [10.0.0.3]\n\n", 3, False),
            ("\t\t4b9d1a30-0000-37ca-9b08-d91ba7bdd369: [10.0.0.3]\n\n", 3, False),
        ],
    )
    def test_schema_versions(self, more, nodes, well):
        versions = answers.schema_versions(DESCRIPTION.format(more=more))
        assert answers.schema_well(versions, nodes) == well

    def test_a_description_without_schema_versions_is_not_well(self):
        assert not answers.schema_well(answers.schema_versions("Cluster Information:\n"), 1)

    @pytest.mark.parametrize(
        ("replication", "well"),
        [
            ({"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "dc1": "3"}, True),
            ({"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "dc1": "1"}, False),
            ({"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "dc2": "3"}, False),
            ({"class": "NetworkTopologyStrategy", "dc1": "3", "dc2": "3"}, False),
            ({"class": "SimpleStrategy", "replication_factor": "3"}, False),
        ],
    )
    def test_copies(self, replication, well):
        assert (answers.replicas(replication) == answers.replication(planned())) == well

    def test_planned_settings_are_the_keys_that_are_rendered(self):
        template = (paths.KAIROSDB_CONF / "templates" / "kairosdb.conf.j2").read_text()
        for key in answers.planned_settings(planned()):
            assert f"{key.rpartition('.')[2]}: " in template, key

    def test_secrets_are_not_asked_for(self):
        kept = answers.without_secrets(
            {"a.auth.password": 1, "a.Credentials_sha256": 2, "a.port": 3}
        )
        assert kept == {"a.port": 3}

    def test_disks(self):
        assert answers.disk_well(10, 100)
        assert not answers.disk_well(9, 100)

    def test_certificates(self):
        day = 86_400.0
        shown = wire.Certificate(40 * day, frozenset({"kairosdb-1", "10.0.0.1"}))
        node = host("kairosdb-1", address="10.0.0.1")
        assert answers.certificate_problems(shown, node, 0) == []
        assert answers.certificate_problems(shown, node, 11 * day) == ["29 days left"]
        assert answers.certificate_problems(shown, node, 41 * day) == ["-1 days left"]
        other = host("kairosdb-2", address="10.0.0.1")
        assert answers.certificate_problems(shown, other, 0) == ["not for kairosdb-2"]

    def test_ports(self):
        problems = answers.port_problems({8080, 10000}, {8080, 9042, 9100}, {8080, 9042})
        assert problems == ["10000 is open", "9042 is not reached"]
        listeners = [[ANYWHERE, 1], ["::", 2], ["10.0.0.1", 3], ["10.9.9.9", 4]]
        assert answers.listening_ports(listeners, "10.0.0.1") == {1, 2, 3}

    @pytest.mark.parametrize(
        ("how", "answer", "refused"),
        [
            (probe.CLOSED, b"", True),
            (probe.REFUSED, b"", True),
            (probe.OPEN, b"\x15\x03\x03\x00\x02\x02P", True),  # a TLS alert
            (probe.OPEN, b"HTTP/1.1 400 Bad Request\r\n", True),
            (probe.OPEN, b"HTTP/1.1 401 Unauthorized\r\n", False),  # a password would go plain
            (probe.OPEN, b"HTTP/1.1 200 OK\r\n", False),
            (probe.OPEN, b"", False),
        ],
    )
    def test_plain_http(self, how, answer, refused):
        assert answers.http_refused(how, answer) == refused


@pytest.mark.parametrize("engine", ["cassandra", "scylla"])
def test_the_wanted_ports_are_those_that_the_firewall_is_rendered_with(engine):
    groups, table = one_of_each(), answers.Firewall.read()
    extra = [{"to": "storage", "cidrs": ["10.0.0.0/30"], "ports": ["scylla_api"], "why": "x"}]
    more = {"storage_engine": engine, "native_transport_port": 9999, "firewall_extra": extra}

    def of(name: str) -> Host:
        own = {"address": address(groups, name), "http_port": 8080, **more}
        return host(name, name.rpartition("-")[0], **own)

    for target in (f"{group}-1" for group in GROUPS):
        rules = rendered(groups, target, **more)
        for source in (f"{group}-2" for group in GROUPS):
            wanted = table.lets_in(of(source), of(target), telnet=False) | {22}
            assert wanted == rules.let_in(address(groups, source)), (source, target)
    assert table.known(of("kairosdb-1")) == {*PORTS.values(), 9999} - {9042}


class TestProbe:
    def test_listeners_are_those_of_the_kernel(self):
        with (
            socket.create_server(("127.0.0.1", 0)) as inside,
            socket.create_server((ANYWHERE, 0)) as outside,
            socket.create_server(("::", 0), family=socket.AF_INET6) as outside6,
        ):
            found = probe.listening()
            assert [ANYWHERE, outside.getsockname()[1]] in found
            assert ["::", outside6.getsockname()[1]] in found
            assert inside.getsockname()[1] not in [port for _, port in found]

    def test_addresses_of_listeners(self, tmp_path):
        line = "{}: {}:{} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 0 0 1"
        (tmp_path / "tcp").write_text(
            "  sl  local_address …\n"
            + line.format(0, "0B004D0A", "2352", "0A")
            + "\n"
            + line.format(1, "0B004D0A", "2353", "01")  # a connection
        )
        mapped = "0000000000000000FFFF00000B004D0A"
        (tmp_path / "tcp6").write_text("…\n" + line.format(0, mapped, "1F90", "0A"))
        assert probe.listening(str(tmp_path)) == [["10.77.0.11", 8080], ["10.77.0.11", 9042]]

    def test_open_and_refused(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            assert probe.connect_all([["127.0.0.1", port]]) == [probe.OPEN]
        assert probe.connect_all([["127.0.0.1", port]]) == [probe.REFUSED]

    def test_it_runs_as_text_on_a_host(self):
        here = host("here")
        with socket.create_server(("127.0.0.1", 0)) as server:
            endpoint = ["127.0.0.1", server.getsockname()[1]]
            assert on_host(here, "connect_all", [endpoint]) == [probe.OPEN]
        facts = on_host(here, "facts", ["/", "/nowhere"], [], "/nowhere")
        assert list(facts["disks"]) == ["/"]
        free, total = facts["disks"]["/"]
        assert 0 <= free <= total == shutil.disk_usage("/").total
        assert facts["firewall"] is False


# A storage node and a KairosDB node, as far as they are asked here.


@pytest.mark.parametrize(
    ("answer", "how"),
    # The first as ScyllaDB 5.2.19 answered a plain request on its ports for TLS.
    [(b"\x15\x03\x03\x00\x02\x02\n", probe.CLOSED), (b"\x84\x00\x00\x00\x06", probe.OPEN)],
)
def test_an_alert_of_tls_lets_nobody_in(answer, how):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def once():
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        threading.Thread(target=once, daemon=True).start()
        assert probe.say(*server.getsockname(), wire.CQL_OPTIONS)[0] == how


class Node(socketserver.BaseRequestHandler):
    """A storage node: answers OPTIONS, asks for a login, knows one."""

    def handle(self):
        try:
            sock = self.server.wrap(self.request)
            received = b""
            while more := sock.recv(1000):
                received += more
                if len(received) >= 9 + (length := int.from_bytes(received[5:9])):
                    assert len(received) == 9 + length
                    sock.sendall(self.answer(received[4], received[9:]))
                    received = b""
        except OSError:
            pass

    def answer(self, opcode, body):
        def frame(opcode, body=b""):
            return struct.pack(">BBHBi", 0x84, 0, 0, opcode, len(body)) + body

        def error(code, text):
            return frame(0x00, struct.pack(">iH", code, len(text)) + text)

        if opcode == 0x05:  # OPTIONS
            return frame(0x06, b"\0\0")
        if opcode == 0x01:  # STARTUP
            assert body == b"\0\1\0\x0bCQL_VERSION\0\x053.0.0"
            if self.server.login is None:
                return frame(0x02)
            return error(0x1001, b"busy") if self.server.busy else frame(0x03, b"\0\1a")
        assert opcode == 0x0F  # AUTH_RESPONSE
        _, user, password = body[4:].split(b"\0")
        if (user.decode(), password.decode()) == self.server.login:
            return frame(0x10, b"\xff\xff\xff\xff")
        return error(0x0100, b"wrong")


class NodeServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    login = ("admin", "secret")
    busy = False

    def __init__(self, context):
        super().__init__(("127.0.0.1", 0), Node)
        self.context = context

    def wrap(self, sock):
        return self.context.wrap_socket(sock, server_side=True) if self.context else sock


@contextmanager
def served(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A CA with certificates of a node and of this machine."""
    folder = tmp_path_factory.mktemp("pki")
    pki.create(folder, "test")
    pki.issue(folder, {"storage-1": ["127.0.0.1"]})
    return folder


def server_side(folder: Path, *, ask: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "storage-1" / "node.crt", folder / "storage-1" / "node.key")
    if ask:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.crt")
    return context


@pytest.fixture
def ours(certified) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(certified / "ca.crt")
    own = certified / pki.CONTROL
    context.load_cert_chain(own / "node.crt", own / "node.key")
    return context


@pytest.fixture
def hasty(monkeypatch):
    """Where a server that is content is waited for, not so long."""
    monkeypatch.setattr(probe, "REFUSE_S", 0.5)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_node_that_asks_for_a_certificate_lets_in_only_us(certified, ours, version):
    context = server_side(certified, ask=True)
    context.minimum_version = context.maximum_version = version
    with served(NodeServer(context)) as (address, port):
        how, answer = probe.say(address, port, wire.CQL_OPTIONS, ours)
        assert (how, answer[4]) == (probe.OPEN, 0x06)
        stranger = probe.anonymous()
        assert probe.say(address, port, wire.CQL_OPTIONS, stranger) == (probe.CLOSED, b"")
        assert probe.say(address, port, wire.CQL_OPTIONS)[0] != probe.SILENT
        hexed = wire.INTERNODE_PLAIN.hex()
        assert probe.say_all([[address, port, hexed, True]]) == [probe.CLOSED]


def test_a_node_that_asks_for_none_is_told_apart(certified, hasty):
    with served(NodeServer(server_side(certified, ask=False))) as (address, port):
        assert probe.say(address, port, wire.CQL_OPTIONS, probe.anonymous())[0] == probe.OPEN
        # Content, but it has nothing to say to that.
        request = [address, port, b"\4".hex(), True]
        assert probe.say_all([request]) == [probe.OPEN]
    with served(NodeServer(None)) as (address, port):
        assert probe.say(address, port, wire.CQL_OPTIONS)[0] == probe.OPEN
        assert probe.say_all([[address, port, b"\4".hex(), False]]) == [probe.OPEN]


def test_a_login_is_refused_granted_or_not_asked_for(certified, ours):
    server = NodeServer(server_side(certified, ask=True))
    with served(server) as endpoint:
        assert wire.cql_login(endpoint, ours, "admin", "secret") == wire.LET_IN
        assert wire.cql_login(endpoint, ours, "cassandra", "cassandra") == wire.LOGIN_REFUSED
        server.busy = True
        assert wire.cql_login(endpoint, ours, "admin", "secret") == "busy"
        server.login = None
        assert wire.cql_login(endpoint, ours, "cassandra", "cassandra") == wire.NO_LOGIN
    with pytest.raises(OSError, match="refused"):
        wire.cql_login(endpoint, ours, "admin", "secret")


def test_the_certificate_that_is_shown(certified, ours):
    with served(NodeServer(server_side(certified, ask=True))) as endpoint:
        shown = wire.certificate(endpoint, ours)
    assert shown.names == {"storage-1", "127.0.0.1"}
    assert abs(shown.expires - time.time() - pki.ISSUED_FOR.total_seconds()) < 3600


def test_the_certificate_of_another_ca_is_none(certified, ours, tmp_path):
    pki.create(tmp_path, "other")
    pki.issue(tmp_path, {"storage-1": ["127.0.0.1"]})
    with (
        served(NodeServer(server_side(tmp_path, ask=False))) as endpoint,
        pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        wire.certificate(endpoint, ours)


class KairosDB(http.server.BaseHTTPRequestHandler):
    """Stores points and gives them back, or a node of it that forgets."""

    def do_POST(self):
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/v1/datapoints":
            if self.server.refuses:
                return self.reply(500, {})
            for metric in document:
                key = (metric["name"], metric["tags"]["node"])
                self.server.store.setdefault(key, []).extend(metric["datapoints"])
            return self.reply(204, None)
        (metric,) = document["metrics"]
        points = self.server.store.get((metric["name"], metric["tags"]["node"][0]), [])
        within = [
            p for p in points if document["start_absolute"] <= p[0] <= document["end_absolute"]
        ]
        return self.reply(200, {"queries": [{"results": [{"values": within}]}]})

    def reply(self, status, document):
        self.send_response(status)
        self.end_headers()
        if document is not None:
            self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_):
        pass


def kairosdb_server(store: dict, *, refuses: bool = False) -> http.server.ThreadingHTTPServer:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), KairosDB)
    server.store, server.refuses = store, refuses
    return server


def context_of(*nodes: Host) -> Context:
    storage = host("storage-1", "storage")
    hosts = Inventory(Path("inventory.yml"), [storage], list(nodes), [])
    names = {node.name for node in hosts.all}
    return Context("test", hosts, planned(), names, Client())


def read_back(*servers) -> list[Finding]:
    nodes = [
        host(f"kairosdb-{i + 1}", http_port=s.server_address[1]) for i, s in enumerate(servers)
    ]
    return Check("read back", kairosdb.read_back).findings(context_of(*nodes))


def test_a_full_disk_of_the_data_is_seen(monkeypatch):
    """It may be one of its own, as ScyllaDB's is, and the others empty."""

    def told(node: Host, verb: str, folders: list[str], *_) -> dict[str, dict[str, list[int]]]:
        return {"disks": {folder: [1 if folder == "/data" else 50, 100] for folder in folders}}

    monkeypatch.setattr("kairoscope.deploy.verify.context.on_host", told)
    context = context_of()
    context.hosts.storage[0].vars["keyspaces_dir"] = "/data"
    (found,) = Check("disk space", machines.disks).findings(context)
    assert (found.outcome, found.found) == (Outcome.FAIL, "/nowhere 50%, / 50%, /data 1%")


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (engine.Server("scylla", "2026.1.11-0.20260801.abc"), Outcome.OK),
        # What nodetool and system.local say of every ScyllaDB.
        (engine.Server("scylla", "3.0.8"), Outcome.FAIL),
        (engine.Server("scylla", "2026.1.1-0.20260801.abc"), Outcome.FAIL),
        (engine.Server("cassandra", "2026.1.11"), Outcome.FAIL),
        (engine.Server.silent("no route"), Outcome.FAIL),
    ],
)
def test_a_storage_node_is_the_release_that_was_deployed(said, state, monkeypatch):
    monkeypatch.setattr(Client, "server", lambda *_: said, raising=False)
    monkeypatch.setattr(servers, "current_version", lambda: "1")
    context = context_of(host("kairosdb-1", kairosdb_version="1.3.0-1"))
    context.hosts.storage[0].vars.update(storage_engine="scylla", scylla_version="2026.1.11")
    found = Check("versions", servers.versions).findings(context)
    (of_store,) = [each for each in found if each.where == "storage-1"]
    assert (of_store.outcome, of_store.wanted) == (state, "scylla 2026.1.11")


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"SCYLLA_NR_SHARDS": ["30"]}, Outcome.OK),
        ({"SCYLLA_NR_SHARDS": ["32"]}, Outcome.FAIL),
        ({"COMPRESSION": ["lz4"]}, Outcome.FAIL),
    ],
)
def test_a_storage_node_has_the_shards_of_the_plan(told, state, monkeypatch):
    monkeypatch.setattr(wire, "cql_supported", lambda *_: told)
    context = context_of()
    context.plan.storage["shards"] = 30
    context.hosts.storage[0].vars.update(storage_engine="scylla", native_transport_port=1)
    check = Check("shards", store.shards, sharded=True)
    (found,) = check.findings(context)
    assert (found.outcome, found.wanted) == (state, "30, as planned")
    context.hosts.storage[0].vars["storage_engine"] = "cassandra"
    (found,) = check.findings(context)
    assert (found.outcome, found.found) == (Outcome.NOT_CHECKED, "Cassandra has no shards")


def test_a_point_is_read_back_through_every_node():
    store: dict = {}
    one, two = kairosdb_server(store), kairosdb_server(store)
    with served(one), served(two):
        found = read_back(one, two)
    assert [(f.where, f.wanted) for f in found] == [
        ("kairosdb-1", "the point of kairosdb-1"),
        ("kairosdb-2", "the point of kairosdb-1"),
        ("kairosdb-1", "the point of kairosdb-2"),
        ("kairosdb-2", "the point of kairosdb-2"),
    ]
    assert passed(found)
    values = [value for points in store.values() for _, value in points]
    assert len(set(values)) == 2


def test_a_node_of_another_store_and_one_that_takes_nothing_are_seen(monkeypatch):
    monkeypatch.setattr(kairosdb, "READ_BACK_S", 0.1)
    one, other, full = kairosdb_server({}), kairosdb_server({}), kairosdb_server({}, refuses=True)
    with served(one), served(other), served(full):
        found = read_back(one, other, full)
    off = [(f.where, f.found, f.wanted) for f in found if f.outcome is Outcome.FAIL]
    assert off[0] == ("kairosdb-3", "HTTP Error 500: Internal Server Error", "a point written")
    assert off[1:] == [
        ("kairosdb-2", "nothing", "the point of kairosdb-1"),
        ("kairosdb-3", "nothing", "the point of kairosdb-1"),
        ("kairosdb-1", "nothing", "the point of kairosdb-2"),
        ("kairosdb-3", "nothing", "the point of kairosdb-2"),
    ]


class TestGoingOn:
    def test_a_check_that_does_not_apply_says_why(self):
        for check, why in (
            (Check("x", lambda *_: [], managed=True), "no hosts of their own"),
            (Check("x", lambda *_: [], secured=True), "not secured"),
        ):
            (found,) = check.findings(context_of())
            assert found.outcome is Outcome.NOT_CHECKED
            assert why in found.found

    @pytest.mark.parametrize(
        ("trouble", "said"),
        [
            (UserError("do this"), "do this"),
            (OSError("away"), "away"),
            (KeyError("x"), "error in Kairoscope: KeyError('x')"),
        ],
    )
    def test_trouble_is_a_finding(self, trouble, said):
        def broken(*_):
            yield Finding.of("x", "a", "b", "b", True)
            raise trouble

        (found,) = Check("x", broken).findings(context_of())
        assert (found.found, found.outcome) == (said, Outcome.FAIL)

    def test_nothing_found_is_no_success(self):
        (found,) = Check("x", lambda *_: []).findings(context_of())
        assert found.outcome is Outcome.FAIL
        assert not passed([])
        assert not passed([Finding.skipped("x", "why")])

    def test_a_target_of_which_nothing_runs_fails_in_every_check(self, monkeypatch, tmp_path):
        monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
        hosts = Inventory(
            tmp_path / "inventory.yml",
            [host("storage-1", "storage")],
            [host("kairosdb-1")],
            [host("loader-1", "loader")],
            [host("monitoring-1", "monitoring", **WATCHING)],
        )
        made: list[int] = []
        found = verify.verify("local", hosts, planned(), made.append)
        assert made == [number + 1 for number in range(len(checks.CHECKS))]
        assert [f.where for f in found if f.check == "reached"] == [
            "storage-1",
            "kairosdb-1",
            "loader-1",
            "monitoring-1",
        ]
        by_check: dict[str, set[Outcome]] = {}
        for one in found:
            by_check.setdefault(one.check, set()).add(one.outcome)
        for check in checks.CHECKS:
            apart = check.managed or check.secured or check.sharded or check.name == "disk space"
            wanted = by_check[check.name]
            assert apart or wanted == {Outcome.FAIL}, check.name
            assert "error in Kairoscope" not in str(found)
        assert not passed(found)

    def test_hosts_that_do_not_answer_are_named_and_left_alone(self, monkeypatch, tmp_path):
        monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
        (tmp_path / "ssh").write_text("#!/bin/sh\necho 'No route to host' >&2\nexit 255\n")
        (tmp_path / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        away = host("storage-1", "storage", ansible_connection="ssh", managed=True)
        hosts = Inventory(tmp_path / "inventory.yml", [away], [host("kairosdb-1")], [])
        found = verify.verify("hosts", hosts, planned())
        assert found[0].where == "storage-1"
        assert "ssh failed: No route to host" in found[0].found
        assert not [f for f in found[1:] if f.where == "storage-1"]
        (ring,) = [f for f in found if f.check == "ring"]
        assert (ring.found, ring.outcome) == ("no host reached", Outcome.FAIL)


def test_the_table_shows_what_was_found_and_the_status_follows_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(verify.inventory, "load", lambda target: None)
    monkeypatch.setattr(verify.deployed, "deployed_plan", lambda target: None)
    found = [
        Finding.of("ring", "storage-1", "10.0.0.2 [DN]", "3 UN", False),
        Finding.of("clock", "storage-1", "0 ms", "within 20 ms", True),
        Finding.skipped("ports", "no hosts"),
    ]
    monkeypatch.setattr(verify, "verify", lambda *_: found)
    assert not verify.show("local", Console(file=sys.stdout, width=120))
    said = capsys.readouterr().out
    assert said.startswith("looking at target local …\n")
    assert "10.0.0.2 [DN]" in said
    assert "1 ok, 1 FAIL, 1 checks not made" in said
    found.pop(0)
    assert verify.show("local", Console(file=sys.stdout, width=120))
