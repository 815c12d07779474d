"""CQL text and KairosDB's row keys; that these are its keys is checked in tests/cluster."""

import itertools
import re
import struct
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import jinja2
import pytest
from cassandra import AuthenticationFailed, InvalidRequest, OperationTimedOut
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ConfigurationException, ServerError
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import paths
from kairoscope.cli import main
from kairoscope.errors import UserError
from kairoscope.hosts import inventory
from kairoscope.hosts.secret_files import Login
from kairoscope.stacks.kairosdb.servers import client, cql, database_roles
from loaders.send.kairos_rows import row_key


def test_statements_without_comments():
    script = (
        "-- a; comment\nCREATE TABLE a (x int);\n\n-- b\nALTER TABLE a\n  WITH y = {'c': 'd'};\n"
    )
    assert cql.statements(script) == [
        "CREATE TABLE a (x int)",
        "ALTER TABLE a\n  WITH y = {'c': 'd'}",
    ]


def test_row_key_as_kairosdb_writes_it():
    key = row_key("SENSOR_7", 0x0102030405060708, {"status": "good"}, "kairos_long")
    assert key == b"SENSOR_7\0\x01\x02\x03\x04\x05\x06\x07\x08\0\x0bkairos_longstatus=good:"


def test_row_key_sorts_and_escapes_tags():
    key = row_key("m", 0, {"b": "x=y:z", "a:1": "2"}, "kairos_long")
    assert key.endswith(b"a::1=2:b=x==y=:z:")


WEEKS_3 = 1_814_400_000


@given(
    st.integers(10**12, 2 * 10**12),
    st.lists(st.integers(1, 2 * WEEKS_3), min_size=1, max_size=4),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_each_time_is_looked_at_once(start, lengths, at):
    """Spans that follow each other, over any number of rows: no time is left out, or twice."""
    ends = list(itertools.accumulate(lengths, initial=start))
    spans = [(a, b - 1) for a, b in itertools.pairwise(ends)]
    looked_at = [
        (row + struct.unpack(">i", begin)[0], row + struct.unpack(">i", end)[0])
        for row, begin, end in cql.row_slices(spans, WEEKS_3)
    ]
    assert all(a // WEEKS_3 == b // WEEKS_3 for a, b in looked_at)
    times = [start, ends[-1] - 1, *(int(start + share * (ends[-1] - start - 1)) for share in at)]
    for t in times:
        assert sum(a <= t <= b for a, b in looked_at) == 1
    assert sum(b - a + 1 for a, b in looked_at) == ends[-1] - start


def test_the_loader_package_stands_alone():
    """It ships to loader hosts without the rest."""
    files = list(paths.LOADERS.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        assert not re.search(r"^\s*(import|from) kairoscope", path.read_text(), re.MULTILINE), path


def test_nodes_keep_their_addresses_and_are_reached_elsewhere():
    """So the ring's tokens still name the node that has a row."""
    factory = cql._EndPoints(9042, {("10.0.0.1", 9042): ("127.0.0.1", 40001)})
    one, other = factory.of(("10.0.0.1", 9042)), factory.of(("10.0.0.2", 9042))
    assert (one.address, one.port, one.resolve()) == ("10.0.0.1", 9042, ("127.0.0.1", 40001))
    assert other.resolve() == ("10.0.0.2", 9042)
    # The driver must take a node of the ring for the contact point that it is.
    assert one == factory.of(("10.0.0.1", 9042))
    assert one != other


def schema(engine: str, compressor: str) -> str:
    """The schema as the role renders it."""
    text = (paths.KAIROSDB_CONF / "schema" / "schema.cql.j2").read_text()
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True)  # noqa: S701
    storage = {
        "datacenter": "dc1",
        "replication_factor": 3,
        "compression": compressor,
        "compaction_window_hours": 24,
    }
    return environment.from_string(text).render(
        storage_engine=engine, kairosdb_keyspace="kairosdb", plan={"storage": storage}
    )


@pytest.mark.parametrize(
    ("engine", "compressor", "option"),
    [
        ("cassandra", "LZ4Compressor", "{'class': 'LZ4Compressor'}"),
        ("cassandra", "none", "{'enabled': 'false'}"),
        ("scylla", "ZstdWithDictsCompressor", "{'sstable_compression': 'ZstdWithDictsCompressor'}"),
        ("scylla", "none", "{'sstable_compression': ''}"),
    ],
)
def test_compression_is_spelt_as_the_engine_spells_it(engine, compressor, option):
    """ScyllaDB refuses Cassandra's spelling, in every release from 5.2 on."""
    said = [s for s in cql.statements(schema(engine, compressor)) if "compression" in s]
    assert len(said) == 2, "the table as made, and as altered"
    assert all(f"WITH compression = {option}\n  AND compaction" in s for s in said)


class Store:
    """A session whose node answers a statement with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.coordinator_host = "127.0.0.2:9042"
        self.asked: list[str] = []

    def execute(self, *_):
        return []

    def execute_async(self, statement):
        self.asked.append(statement)
        return self

    def result(self):
        raise self.error


@pytest.mark.parametrize(
    ("error", "said", "todo"),
    [
        (
            ConfigurationException(0x2300, "Missing sub-option 'sstable_compression'", None),
            "127.0.0.2:9042 refuses the statement\n  CREATE TABLE a (x int)\n"
            "and says: Missing sub-option 'sstable_compression'\n",
            "storage settings",
        ),
        (ServerError(0, "Unknown sstable_compression: x", None), "and says: Unknown", "settings"),
        (InvalidRequest("unconfigured table"), "and says: unconfigured table", "settings"),
        (OperationTimedOut({}, None), "did not carry out the statement", "make status"),
    ],
)
def test_what_a_store_refuses_is_a_sentence(error, said, todo):
    store = Store(error)
    with pytest.raises(cql.StatementError) as caught:
        cql.apply_schema(store, "kairosdb", "CREATE TABLE a\n  (x int);\nCREATE TABLE b (x int);")
    assert said in caught.value.message
    assert todo in caught.value.message
    assert store.asked == ["CREATE TABLE a\n  (x int)"], "nothing after it"


def test_a_refused_schema_ends_the_command_with_status_1(monkeypatch, tmp_path):
    store = Store(ConfigurationException(0x2300, "no such option", None))

    class Talk:
        @contextmanager
        def cql(self, _):
            yield store

    hosts = SimpleNamespace(storage=["storage-1"], host=lambda name: name)
    monkeypatch.setattr(client, "connect", lambda *_: nullcontext(Talk()))
    monkeypatch.setattr(inventory, "read", lambda _: hosts)
    file = tmp_path / "inventory.yml"
    file.touch()
    command = ["schema", "--inventory", str(file), "--node", "storage-1", "--keyspace", "k"]
    done = CliRunner().invoke(main.main, command, input="CREATE TABLE a (x int);")
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit), "a sentence, not a traceback"
    assert "no such option" in done.output


REFUSED = "Provided username kairosdb and/or password are incorrect"
UNREAD = "Unable to perform authentication: Cannot achieve consistency level LOCAL_QUORUM"


def refusing(monkeypatch: pytest.MonkeyPatch, *said: str) -> None:
    """Nodes that say this when somebody logs in."""
    causes = {
        n: AuthenticationFailed(f"Failed to authenticate: {one}") for n, one in enumerate(said)
    }

    def connect() -> None:
        raise NoHostAvailable("nobody", causes)

    made = SimpleNamespace(connect=connect, shutdown=lambda: None)
    monkeypatch.setattr(cql, "_cluster", lambda *_: made)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ([REFUSED], cql.LoginError),
        (["kairosdb is not permitted to log in"], cql.LoginError),
        ([UNREAD], cql.UndecidedLoginError),
        (["Operation timed out for system_auth.roles"], cql.UndecidedLoginError),
        ([UNREAD, REFUSED], cql.LoginError),
    ],
)
def test_roles_that_cannot_be_read_are_no_refusal(monkeypatch, said, kind):
    refusing(monkeypatch, *said)
    with pytest.raises(kind), cql.session(["10.0.0.1"], 9042):
        raise AssertionError


@pytest.mark.parametrize(("said", "advice"), [(REFUSED, "make destroy"), (UNREAD, "make status")])
def test_nobody_is_told_to_destroy_what_only_cannot_be_read_now(monkeypatch, said, advice):
    refusing(monkeypatch, said)
    monkeypatch.setattr(database_roles, "_FRESH_S", -1)
    login = Login("kairoscope", "x")
    access = SimpleNamespace(admin=login, kairosdb=login, retired=[], folder="/secrets")
    database = database_roles.Database(["10.0.0.1"], 9042, access)
    with pytest.raises(UserError, match=advice):
        database_roles._working_login(database)


class Asked:
    """A session of a store that has `system_auth` so replicated, with these tables in it."""

    def __init__(self, copies: dict[str, str] | None, *tables: str) -> None:
        self.of = {
            "system_schema.keyspaces": [SimpleNamespace(replication=copies)] if copies else [],
            "system_schema.tables": [SimpleNamespace(table_name=name) for name in tables],
        }

    def execute(self, statement: str, values: list[str]) -> SimpleNamespace:
        assert values == ["system_auth"]
        (rows,) = (rows for name, rows in self.of.items() if f"FROM {name} " in statement)
        return SimpleNamespace(one=lambda: next(iter(rows), None))


@pytest.mark.parametrize(
    ("session", "found"),
    [
        # Cassandra, and ScyllaDB up to 5.4.
        (Asked({"class": "Network", "dc1": "3"}, "roles"), {"class": "Network", "dc1": "3"}),
        # ScyllaDB 6.2.3, as met: of one copy, and nothing in it.
        (Asked({"class": "Simple", "replication_factor": "1"}), None),
        (Asked(None), None),
    ],
)
def test_roles_that_are_on_every_node_have_no_replication(session, found):
    assert database_roles.replication_of_roles(session) == found
