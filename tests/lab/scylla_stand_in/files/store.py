"""STAND-IN, not ScyllaDB's: the CQL port with a Cassandra behind it, which keeps what it is told.

What ScyllaDB says otherwise to whoever connects is put right here, as cql.py has it: the protocol's
version, tables of its own, options of tables, and who is let in. All else is the Cassandra's.
"""

import asyncio
import re
import struct
import time

import counted
import cql

PREPARE, INVALID = 0x09, 0x2200
_ROWS, _TEXT = 2, 0x000D
_COMPRESSED = 0x01
# Of the stores behind: whoever the node's configuration calls its administrator is this one there.
SUPERUSER = "behind", "behind"


def _rows(keyspace, table, row):
    """A result with one row of texts, by column."""
    body = struct.pack(">iii", _ROWS, 1, len(row)) + cql._text(keyspace) + cql._text(table)
    for name in row:
        body += cql._text(name) + struct.pack(">H", _TEXT)
    body += struct.pack(">i", 1)
    for value in row.values():
        body += struct.pack(">i", len(value)) + value.encode()
    return cql.RESULT, body


def _error(code, text):
    return cql.ERROR, struct.pack(">i", code) + cql._text(text)


def own_answer(statement, version):
    """What ScyllaDB answers by itself to a statement, None where the store is asked."""
    # db/virtual_tables.cc at 2026.2.5
    if re.search(r"\bsystem\.versions\b", statement):
        told = {"version": version, "build_mode": "stand-in", "build_id": ""}
        return _rows("system", "versions", told)
    # Of Cassandra 4.0 and later alone: db/system_keyspace.cc at f4a4091 (2026.4.0-dev) has peers
    # only, and this is what validation.cc says of a table that is not there.
    if re.search(r"\bsystem\.peers_v2\b", statement):
        return _error(INVALID, "unconfigured table peers_v2")
    if said := cql.refusal(statement, version):
        return _error(*said)
    return None


def as_cassandra(statement):
    """A statement with ScyllaDB's spelling of compression in Cassandra's, and without the time that
    ScyllaDB's driver asks whoever has shards for (cql3/Cql.g at 5.2.19: USING TIMEOUT)."""
    statement = re.sub(r"\s+USING\s+TIMEOUT\s+\d+(ms|s|m)\b", "", statement, flags=re.I)

    def spelled(found):
        options = dict(re.findall(r"'([^']*)'\s*:\s*'([^']*)'", found[1]))
        name = options.get("sstable_compression")
        return (
            f"compression = {{'class': '{name}'}}" if name else "compression = {'enabled': 'false'}"
        )

    return re.sub(r"\bcompression\s*=\s*\{([^}]*)\}", spelled, statement)


def unpacked(body):
    """The body of a frame that LZ4 compressed: its length, and a block of sequences
    (github.com/lz4/lz4, doc/lz4_Block_format.md). Debian's Python has no module for it."""
    (length,) = struct.unpack_from(">i", body)
    done, at = bytearray(), 4

    def length_of(first):
        """Of literals or of a match: 15 says that bytes follow, up to one that is not 255."""
        nonlocal at
        if first == 15:
            while True:
                at += 1
                first += body[at - 1]
                if body[at - 1] != 255:
                    break
        return first

    while at < len(body):
        token = body[at]
        at += 1
        literals = length_of(token >> 4)
        done += body[at : at + literals]
        at += literals
        if at >= len(body):
            break
        back = body[at] | body[at + 1] << 8
        at += 2
        for _ in range(length_of(token & 15) + 4):
            done.append(done[-back])
    assert len(done) == length
    return bytes(done)


async def _frame(reader):
    """(header's fields, body) of the next frame; raises IncompleteReadError at the end."""
    header = cql._HEADER.unpack(await reader.readexactly(cql._HEADER.size))
    return header, await reader.readexactly(header[-1])


class _Connection:
    def __init__(self, reader, writer, node, store):
        self.reader, self.writer, self.node, self.store = reader, writer, node, store
        self.shard = cql.next_shard(node)
        self.there = None
        self.back = None
        self.asked = {}  # by stream: (opcode, when)

    async def run(self):
        counted.connected(self.shard, 1)
        try:
            while True:
                (protocol, flags, stream, opcode, _), body = await _frame(self.reader)
                if protocol != cql._VERSION:
                    # transport/server.cc at f4a4091 takes 3 and 4, from whoever asks; no client of
                    # ours speaks 3.
                    text = f"Invalid or unsupported protocol version: {protocol}"
                    answer = _error(cql.PROTOCOL, text)
                else:
                    if flags & _COMPRESSED and opcode in (cql.QUERY, PREPARE, cql.AUTH_RESPONSE):
                        flags, body = flags & ~_COMPRESSED, unpacked(body)
                    answer, body = self.looked_at(opcode, body)
                if answer is None:
                    await self.to_store(flags, stream, opcode, body)
                else:
                    self.tell(stream, *answer)
                await self.writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            counted.connected(self.shard, -1)
            if self.back:
                self.back.cancel()
                self.there.close()
            self.writer.close()

    def looked_at(self, opcode, body):
        """(our answer or None, what is asked of the store)."""
        if opcode == cql.OPTIONS:
            return cql.supported(self.node, self.shard), body
        if opcode == cql.AUTH_RESPONSE:
            user = body[4:].split(b"\0")[1].decode()
            if user == self.node.administrator:
                token = "\0" + "\0".join(SUPERUSER)
                body = struct.pack(">i", len(token)) + token.encode()
        elif opcode in (cql.QUERY, PREPARE):
            (length,) = struct.unpack_from(">i", body)
            statement = body[4 : 4 + length].decode()
            if answer := own_answer(statement, self.node.version):
                return answer, body
            spelled = as_cassandra(statement).encode()
            body = struct.pack(">i", len(spelled)) + spelled + body[4 + length :]
        return None, body

    def tell(self, stream, opcode, body):
        frame = cql._HEADER.pack(cql._ANSWER | cql._VERSION, 0, stream, opcode, len(body))
        self.writer.write(frame + body)

    async def to_store(self, flags, stream, opcode, body):
        if self.there is None:
            reader, self.there = await asyncio.open_connection(*self.store)
            self.back = asyncio.create_task(self.from_store(reader))
        self.asked[stream] = opcode, time.monotonic()
        header = cql._HEADER.pack(cql._VERSION, flags, stream, opcode, len(body))
        self.there.write(header + body)
        await self.there.drain()

    async def from_store(self, reader):
        try:
            while True:
                header, body = await _frame(reader)
                if asked := self.asked.pop(header[2], None):
                    counted.answered(self.shard, asked[0], time.monotonic() - asked[1])
                self.writer.write(cql._HEADER.pack(*header) + body)
                await self.writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            self.writer.close()


async def _serve(address, port, context, node, store):
    async def one(reader, writer):
        await _Connection(reader, writer, node, store).run()

    server = await asyncio.start_server(one, address, port, ssl=context)
    async with server:
        await server.serve_forever()


def serve(address, port, context, node, store):
    """Serve the CQL port from a store, `store` its address and port, until the process ends."""
    asyncio.run(_serve(address, port, context, node, store))
