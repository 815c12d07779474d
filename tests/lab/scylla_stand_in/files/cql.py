"""STAND-IN, not ScyllaDB's: what every release says to CQL that it refuses; all else is well.

It keeps nothing. Each answer names where ScyllaDB's own was seen: in the source of
github.com/scylladb/scylladb at the tag of a release, or on a node of 5.2.19 ("met", 2026-11-24).
"""

import itertools
import re
import struct
from collections import namedtuple

_HEADER = struct.Struct(">BBHBi")  # version, flags, stream, opcode, length
_ANSWER = 0x80
ERROR, STARTUP, READY, AUTHENTICATE, OPTIONS, SUPPORTED = 0x00, 0x01, 0x02, 0x03, 0x05, 0x06
QUERY, RESULT, AUTH_RESPONSE, AUTH_SUCCESS = 0x07, 0x08, 0x0F, 0x10
PROTOCOL, BAD_CREDENTIALS, CONFIGURATION = 0x000A, 0x0100, 0x2300
_VOID = struct.pack(">i", 1)
_VERSION = 4

# Not that of a configuration: both ways to say it are of std::runtime_error, which
# transport/server.cc (5.2.19) answers as a server error.
_SERVER_ERROR = 0x0000
_COMPRESSORS = {"LZ4", "Snappy", "Deflate", "Zstd"}
# `administrator`: who is let in; "": anybody.
Node = namedtuple("Node", "version shards administrator", defaults=[""])
_connections = itertools.count()
_WITH_DICTIONARIES = {"LZ4WithDicts", "ZstdWithDicts"}  # 2025.2.0 and later


def refusal(statement, version):
    """(code, text) of what a release says to a statement, None where it takes it."""
    found = re.search(r"\bcompression\s*=\s*\{([^}]*)\}", statement, re.I)
    if not found:
        return None
    options = dict(re.findall(r"'([^']*)'\s*:\s*'([^']*)'", found[1]))
    # cql3/statements/cf_prop_defs.cc at 5.2.19, 6.2.3, 2025.1.14, 2026.2.5; met, for class and
    # for enabled.
    if options and "sstable_compression" not in options:
        text = "Missing sub-option 'sstable_compression' for the 'compression' option."
        return CONFIGURATION, text
    # compress.cc at 5.2.19, sstables/compressor.cc at 2026.2.5. An empty name is none; met.
    for name in options.keys() - {"sstable_compression", "chunk_length_in_kb", "chunk_length_kb"}:
        if name not in ("crc_check_chance", "compression_level"):
            return CONFIGURATION, f"Unknown compression option '{name}'."
    name = options.get("sstable_compression", "").removeprefix("org.apache.cassandra.io.compress.")
    with_dictionaries = tuple(map(int, version.split(".")[:2])) >= (2025, 2)
    known = _COMPRESSORS | _WITH_DICTIONARIES if with_dictionaries else _COMPRESSORS
    if name and name.removesuffix("Compressor") not in known:
        if with_dictionaries:  # compress.cc at 2025.2.0, sstables/compressor.cc at 2026.2.5
            return _SERVER_ERROR, f"Unknown sstable_compression: {name}"
        # utils/class_registrator.hh at 5.2.19
        text = f"unable to find class 'org.apache.cassandra.io.compress.{name}'"
        return _SERVER_ERROR, text
    return None


def _text(value):
    return struct.pack(">H", len(value)) + value.encode()


def next_shard(node):
    """Of a new connection: as the kernel deals them out to a server's threads, evenly."""
    return next(_connections) % node.shards


def supported(node, shard):
    """What a node says to a connection that it supports; as make_supported of transport/server.cc
    (5.2.19), without a port for each shard, and Snappy."""
    options = {
        "CQL_VERSION": ["3.3.1"],
        "COMPRESSION": ["lz4"],
        "SCYLLA_SHARD": [str(shard)],
        "SCYLLA_NR_SHARDS": [str(node.shards)],
        "SCYLLA_SHARDING_ALGORITHM": ["biased-token-round-robin"],
        "SCYLLA_SHARDING_IGNORE_MSB": ["12"],
        "SCYLLA_PARTITIONER": ["org.apache.cassandra.dht.Murmur3Partitioner"],
    }
    said = struct.pack(">H", len(options))
    for name, values in options.items():
        said += _text(name) + struct.pack(">H", len(values))
        said += b"".join(_text(value) for value in values)
    return SUPPORTED, said


def reply(opcode, body, node, shard):
    """Opcode and body of the answer to a request, on a connection of a shard."""
    if opcode == OPTIONS:
        return supported(node, shard)
    if opcode == STARTUP and node.administrator:
        return AUTHENTICATE, _text("org.apache.cassandra.auth.PasswordAuthenticator")
    if opcode == STARTUP:
        return READY, b""
    if opcode == AUTH_RESPONSE:
        user = body[4:].split(b"\0")[1].decode()  # The password is not looked at.
        if user == node.administrator:
            return AUTH_SUCCESS, struct.pack(">i", -1)
        said = BAD_CREDENTIALS, "Username and/or password are incorrect"
    elif opcode == QUERY:
        (length,) = struct.unpack_from(">i", body)
        said = refusal(body[4 : 4 + length].decode(), node.version)
        if said is None:
            return RESULT, _VOID
    else:
        said = PROTOCOL, f"a stand-in knows no request {opcode}"
    return ERROR, struct.pack(">i", said[0]) + _text(said[1])


def serve(connection, node):
    """Answer the requests of a connection until it ends."""
    shard = next_shard(node)
    with connection.makefile("rb") as requests:
        while len(header := requests.read(_HEADER.size)) == _HEADER.size:
            _, _, stream, opcode, length = _HEADER.unpack(header)
            opcode, body = reply(opcode, requests.read(length), node, shard)
            frame = _HEADER.pack(_ANSWER | _VERSION, 0, stream, opcode, len(body))
            connection.sendall(frame + body)
