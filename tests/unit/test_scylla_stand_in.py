"""The stand-in for ScyllaDB refuses what every real release refuses."""

import importlib.util
import json
import socket
import struct
import sys
import threading

import pytest
from cassandra.protocol_features import ProtocolFeatures
from hypothesis import given
from hypothesis import strategies as st
from test_cql import schema

from kairoscope import paths
from kairoscope.deploy.verify import wire
from kairoscope.stacks.kairosdb.scylla import metrics, rest
from kairoscope.stacks.kairosdb.servers import cql, nodetool

_FILE = paths.CHECKOUT / "tests" / "lab" / "scylla_stand_in" / "files" / "cql.py"
_SPEC = importlib.util.spec_from_file_location("stand_in_cql", _FILE)
stand_in = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(stand_in)
with pytest.MonkeyPatch.context() as patch:
    # As its programs on a host find each other.
    patch.setitem(sys.modules, "cql", stand_in)
    _COUNTED = importlib.util.spec_from_file_location("counted", _FILE.with_name("counted.py"))
    counted = importlib.util.module_from_spec(_COUNTED)
    _COUNTED.loader.exec_module(counted)
    patch.setitem(sys.modules, "counted", counted)
    _STORE = importlib.util.spec_from_file_location("stand_in_store", _FILE.with_name("store.py"))
    store = importlib.util.module_from_spec(_STORE)
    _STORE.loader.exec_module(store)

RELEASES = ["5.2.19", "6.2.3", "2025.1.14", "2026.2.5-0.20260801.abc"]


def refused(engine: str, compressor: str, release: str) -> list[tuple[int, str]]:
    said = [
        stand_in.refusal(statement, release)
        for statement in cql.statements(schema(engine, compressor))
    ]
    return [refusal for refusal in said if refusal]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "compressor",
    ["LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "none"],
)
def test_our_schema_is_taken_and_cassandra_s_is_not(release, compressor):
    assert refused("scylla", compressor, release) == []
    code, text = refused("cassandra", compressor, release)[0]
    assert (code, text) == (
        0x2300,
        "Missing sub-option 'sstable_compression' for the 'compression' option.",
    )


def test_a_compressor_of_later_releases():
    for name in ("LZ4WithDictsCompressor", "ZstdWithDictsCompressor"):
        assert "unable to find class" in refused("scylla", name, "2025.1.14")[0][1]
        assert refused("scylla", name, "2025.2.0") == []
    assert "Unknown sstable_compression: LZO" in refused("scylla", "LZO", "2026.2.5")[0][1]


def _frame(opcode: int, body: bytes) -> bytes:
    return struct.pack(">BBHBi", 4, 0, 7, opcode, len(body)) + body


def _query(text: str) -> bytes:
    return _frame(7, struct.pack(">i", len(text)) + text.encode() + struct.pack(">HB", 6, 0))


@pytest.mark.parametrize("administrator", ["", "admin"])
def test_over_a_connection(administrator):
    """Frame by frame, as a client sends them."""
    ours, theirs = socket.socketpair()
    node = stand_in.Node("6.2.3", 2, administrator)
    serving = threading.Thread(target=stand_in.serve, args=(theirs, node))
    serving.start()
    with theirs, ours:
        with ours.makefile("rb") as answers:

            def ask(frame: bytes) -> tuple[int, bytes]:
                ours.sendall(frame)
                version, _, stream, opcode, length = struct.unpack(">BBHBi", answers.read(9))
                assert (version, stream) == (0x84, 7)
                return opcode, answers.read(length)

            assert ask(_frame(5, b""))[0] == stand_in.SUPPORTED
            begun = ask(_frame(1, struct.pack(">H", 0)))[0]
            assert begun == (stand_in.AUTHENTICATE if administrator else stand_in.READY)
            if administrator:
                for user, well in (("cassandra", False), ("admin", True)):
                    token = f"\0{user}\0secret".encode()
                    opcode, _ = ask(_frame(15, struct.pack(">i", len(token)) + token))
                    assert (opcode == stand_in.AUTH_SUCCESS) == well
            assert ask(_query("CREATE TABLE t (a int PRIMARY KEY)"))[0] == stand_in.RESULT
            opcode, body = ask(_query("ALTER TABLE t WITH compression = {'enabled': 'false'}"))
            assert (opcode, struct.unpack_from(">i", body)[0]) == (stand_in.ERROR, 0x2300)
        ours.shutdown(socket.SHUT_WR)
        serving.join()


def test_it_tells_its_shards():
    """In ScyllaDB's words, all of them: its driver, which is ours, makes a connection to each shard
    of whoever tells how many there are."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    stand_in.serve(connection, stand_in.Node("2026.1.11", 30))

        serving = threading.Thread(target=serve)
        serving.start()
        one, other = (wire.cql_supported(listening.getsockname(), None) for _ in range(2))
        serving.join()
    assert one["SCYLLA_NR_SHARDS"] == other["SCYLLA_NR_SHARDS"] == ["30"]
    shards = []
    for told in (one, other):
        shard, sharding = ProtocolFeatures.parse_sharding_info(told)
        assert sharding.shards_count == 30
        shards.append(shard)
    assert len(set(shards)) == 2


@given(st.binary(max_size=60))
def test_an_answer_that_is_none_is_said_to_be(noise):
    def answer() -> None:
        with theirs:
            theirs.recv(9)
            theirs.sendall(struct.pack(">BBHBi", 0x84, 0, 0, 6, len(noise)) + noise)

    ours, theirs = socket.socketpair()
    answering = threading.Thread(target=answer)
    answering.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_connection", lambda *_, **__: ours)
        try:
            told = wire.cql_supported(("", 0), None)
        except OSError as error:
            assert "no whole answer" in str(error)
        else:
            assert all(isinstance(values, list) for values in told.values())
    answering.join()


def test_a_store_behind_is_asked_in_its_own_words():
    create = "CREATE TABLE k.t (a int PRIMARY KEY) WITH compression = {}"
    for theirs, its in (
        ("{'sstable_compression': 'LZ4Compressor'}", "{'class': 'LZ4Compressor'}"),
        ("{'sstable_compression': ''}", "{'enabled': 'false'}"),
    ):
        assert store.own_answer(create.format(theirs), "2026.1.11") is None
        assert store.as_cassandra(create.format(theirs)) == create.format(its)
    timed = "SELECT * FROM system.local WHERE key='local' USING TIMEOUT 2000ms"
    assert store.as_cassandra(timed) == "SELECT * FROM system.local WHERE key='local'"
    opcode, body = store.own_answer(create.format("{'class': 'LZ4Compressor'}"), "2026.1.11")
    assert opcode == stand_in.ERROR
    assert b"sstable_compression" in body
    assert store.own_answer("SELECT * FROM system.peers_v2", "2026.1.11")[0] == stand_in.ERROR
    opcode, body = store.own_answer("SELECT version FROM system.versions", "2026.1.11")
    assert opcode == stand_in.RESULT
    assert b"2026.1.11" in body


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=600), st.integers(1, 500), st.integers(4, 700))
    ),
    st.binary(max_size=600),
)
def test_a_frame_that_was_compressed_is_read(sequences, last):
    """Sequences of LZ4's block format: literals, and a copy of what came some bytes before."""

    def length(count):
        more = count - 15
        return b"" if more < 0 else b"\xff" * (more // 255) + bytes([more % 255])

    packed, plain = bytearray(), bytearray()
    for literals, far, copied in sequences:
        plain += literals
        back = min(far, len(plain))
        packed.append(min(len(literals), 15) << 4 | min(copied - 4, 15))
        packed += length(len(literals)) + literals + struct.pack("<H", back) + length(copied - 4)
        for _ in range(copied):
            plain.append(plain[-back])
    plain += last
    packed.append(min(len(last), 15) << 4)
    packed += length(len(last)) + last
    assert store.unpacked(struct.pack(">i", len(plain)) + packed) == plain


def test_what_it_counts_is_read_as_a_run_reads_it():
    """By what reads a real node's (test_scylla_metrics, test_scylla_rest)."""
    counted.connected(0, 1)
    counted.answered(0, counted.BATCH, 0.0007)
    counted.answered(1, counted.BATCH, 0.1)
    counted.answered(1, 0x07, 0.0001)
    look = metrics.parse(counted.metrics("2026.1.11", 2))
    assert look["shards"] == 2
    assert look["requests"] == [1, 2]
    assert look["connections"] == [1, 0]
    assert (look["coordinator_writes"], look["coordinator_reads"]) == (2, 1)

    class Api:
        def get(self, path: str) -> object:
            return counted.histogram(*path.split("/")[-2:])

    counts = json.loads(rest.counters(Api()))
    assert len(counts["write"]["counts"]) == len(counts["write"]["ends_us"]) == 65
    assert (sum(counts["write"]["counts"]), sum(counts["read"]["counts"])) == (2, 1)
    assert counts["read"]["counts"][0] == 1
    shown = nodetool.parse_proxyhistograms(rest.proxyhistograms(Api()))
    assert shown["Write"]["Max"] == 100_000
