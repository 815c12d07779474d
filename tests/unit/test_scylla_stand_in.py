"""The stand-in for ScyllaDB refuses what every real release refuses."""

import importlib.util
import socket
import struct
import threading

import pytest
from test_cql import schema

from kairoscope import paths
from kairoscope.stacks.kairosdb import cql

_FILE = paths.CHECKOUT / "tests" / "lab" / "scylla_stand_in" / "files" / "cql.py"
_SPEC = importlib.util.spec_from_file_location("stand_in_cql", _FILE)
stand_in = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(stand_in)

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
    serving = threading.Thread(target=stand_in.serve, args=(theirs, "6.2.3", administrator))
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
