"""What a storage node says it is, against what the inventory says."""

from types import SimpleNamespace

import pytest
from cassandra import InvalidRequest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope.errors import UserError
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.stacks.kairosdb.servers import client, engine
from kairoscope.stacks.kairosdb.servers.engine import Server
from kairoscope.stacks.kairosdb.session import Session


class Node:
    """A session to one node: rows of the two tables, None where there is no such table."""

    def __init__(self, versions, local):
        self.rows = {"system.versions": versions, "system.local": local}

    def execute(self, statement):
        (row,) = (row for name, row in self.rows.items() if name in statement)
        if row is None:
            raise InvalidRequest("unconfigured table")
        return SimpleNamespace(one=lambda: SimpleNamespace(**row) if row else None)


# As a node of 5.2.19 answered (2026-11-24): what both engines have says another's version.
SCYLLA = Node(
    {"version": "5.2.19-0.20240806.abc", "build_mode": "dev", "build_id": "7f3a"},
    {"release_version": "3.0.8"},
)
CASSANDRA = Node(None, {"release_version": "5.0.9"})


def test_a_node_says_what_it_is():
    assert engine.ask(SCYLLA) == Server("scylla", "5.2.19-0.20240806.abc", "dev, build 7f3a")
    assert engine.ask(CASSANDRA) == Server("cassandra", "5.0.9")
    assert engine.ask(Node(None, {})).trouble


def test_who_is_not_what_the_inventory_says_is_named():
    found = {"storage-1": engine.ask(SCYLLA), "storage-2": Server.silent("timed out")}
    assert engine.problems(found, "scylla", "5.2.19") == []
    assert engine.problems(found, "cassandra", "5.0.9") == [
        "storage-1 is scylla 5.2.19-0.20240806.abc, the inventory says cassandra 5.0.9"
    ]
    assert len(engine.problems(found, "scylla", "5.2.1")) == 1
    assert engine.untold(found) == ["storage-2 did not tell its engine and version: timed out"]


def test_the_manifest_has_what_the_servers_said():
    one = engine.ask(SCYLLA)
    assert engine.summary({"storage-1": one, "storage-2": one}) == {
        "engine": "scylla",
        "engine_version": "5.2.19-0.20240806.abc",
        "engine_build": "dev, build 7f3a",
    }


_SERVERS = st.one_of(
    st.builds(Server, st.sampled_from(["scylla", "cassandra"]), st.sampled_from(["5.0.9", "6.2"])),
    st.just(Server.silent("no answer")),
)


@given(st.dictionaries(st.text(), _SERVERS), _SERVERS)
def test_unknown_is_never_taken_for_known(found, wanted):
    said = engine.summary(found)
    silent = [server for server in found.values() if server.trouble]
    assert (said["engine_version"] == engine.UNKNOWN) == bool(silent or not found)
    wrong = engine.problems(found, wanted.engine, wanted.version)
    alike = [server for server in found.values() if server == wanted and not server.trouble]
    assert len(wrong) + len(engine.untold(found)) + len(alike) == len(found)


class TestRun:
    def hosts(self):
        given_ = {"storage_engine": "cassandra", "cassandra_version": "5.0.9"}
        nodes = [Host(f"storage-{i}", "storage", given_) for i in (1, 2)]
        return Inventory(None, nodes, [], [])

    def talk(self, *servers):
        answers = dict(zip(("storage-1", "storage-2"), servers, strict=True))
        return SimpleNamespace(server=lambda host: answers[host.name])

    def test_another_engine_than_deployed_does_not_run(self):
        talk = self.talk(Server("cassandra", "5.0.9"), engine.ask(SCYLLA))
        with pytest.raises(UserError, match=r"storage-2 is scylla 5\.2\.19.* inventory says cass"):
            Session(None, self.hosts(), talk).check_ready()

    def test_one_that_does_not_tell_is_unknown(self):
        talk = self.talk(Server("cassandra", "5.0.9"), Server.silent("timed out"))
        session = Session(None, self.hosts(), talk)
        session.check_ready()
        assert engine.summary(session._servers)["engine"] == "unknown"
        assert session.untold()


def test_a_node_that_is_not_there_is_unknown_and_no_error():
    host = Host("storage-1", "storage", {"address": "127.0.0.1", "native_transport_port": 1})
    server = client.Client().server(host)
    assert server.version == "unknown"
    assert server.trouble
