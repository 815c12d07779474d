"""The HTTP connection: whatever a server does, an answer is the one to the request, or an error."""

import asyncio
import contextlib
import itertools
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.send.connection import Address, BrokenAnswerError, HttpConnection, Response

pytestmark = pytest.mark.timeout(30)

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
BAD = b'HTTP/1.1 400 Bad Request\r\nContent-Length: 18\r\n\r\n{"errors":\n["no"]}'
CHUNKED = (
    b"HTTP/1.1 500 Server Error\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'b\r\n{"errors":[\r\n5\r\n"no"]\r\n1\r\n}\r\n0\r\n\r\n'
)
UNTIL_CLOSE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n<h1>Bad\nGateway</h1>"

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def say(*pieces: bytes) -> Act:
    """Answer in pieces that arrive one after the other."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.005)

    return act


def then_close(act: Act) -> Act:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await act(reader, writer)
        writer.close()

    return closing


def then_reset(act: Act) -> Act:
    async def resetting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await act(reader, writer)
        # Without lingering, closing is a reset.
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    return resetting


async def hang(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


class Server:
    """Does the next of its acts for each request, on whatever connection."""

    def __init__(self, *acts: Act) -> None:
        self.acts = list(acts)
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed = asyncio.Event()
        self.port = 0

    @property
    def address(self) -> Address:
        return Address.of(f"http://127.0.0.1:{self.port}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                if b"Content-Length: 2" in request:
                    request += await reader.readexactly(2)
                self.requests.append(request)
                await self.acts.pop(0)(reader, writer)
        self.closed.set()
        writer.close()


@contextlib.asynccontextmanager
async def serving(*acts: Act) -> AsyncIterator[Server]:
    server = Server(*acts)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(server.serve(reader, writer)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def unusable(connection: HttpConnection) -> None:
    """Wait until the connection says so."""
    while connection.usable:
        await asyncio.sleep(0.005)


# Answers as they should be


async def test_one_request_after_the_other() -> None:
    async with serving(say(NO_CONTENT), say(BAD), say(CHUNKED), say(NO_CONTENT)) as server:
        connection = await HttpConnection.connect(server.address)
        answers = [await connection.exchange(REQUEST, 5) for _ in range(4)]
        assert connection.usable
        connection.abort()
        await server.closed.wait()
        assert not connection.usable
    assert answers == [
        Response(204, ""),
        Response(400, '{"errors": ["no"]}'),
        Response(500, '{"errors":["no"]}'),
        Response(204, ""),
    ]
    assert server.requests == [REQUEST] * 4
    assert server.connections == 1


class Wire(asyncio.Transport):
    """A transport that goes nowhere, to hand a connection its bytes in any pieces."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.connection = connection
        self.aborted = False

    def write(self, data: Any) -> None:
        """Thrown away."""

    def abort(self) -> None:
        if not self.aborted:
            self.aborted = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


async def exchange_in_pieces(pieces: list[bytes], *, closing: bool) -> tuple[Response, bool]:
    connection = HttpConnection()
    connection.connection_made(Wire(connection))
    asked = asyncio.create_task(connection.exchange(REQUEST, 5))
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
        await asyncio.sleep(0)
    if closing:
        connection.connection_lost(None)
    response = await asked
    usable = connection.usable
    connection.abort()
    await asyncio.sleep(0)
    return response, usable


@given(
    st.sampled_from([NO_CONTENT, BAD, CHUNKED, UNTIL_CLOSE]),
    st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nA: b\r\n\r\n"]),
    st.data(),
)
def test_pieces_make_no_difference(answer: bytes, before: bytes, data: st.DataObject) -> None:
    whole = before + answer
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1))))
    edges = [0, *cuts, len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(edges)]
    closing = answer is UNTIL_CLOSE
    response, usable = asyncio.run(exchange_in_pieces(pieces, closing=closing))
    assert (
        response
        == {
            NO_CONTENT: Response(204, ""),
            BAD: Response(400, '{"errors": ["no"]}'),
            CHUNKED: Response(500, '{"errors":["no"]}'),
            UNTIL_CLOSE: Response(502, "<h1>Bad Gateway</h1>"),
        }[answer]
    )
    assert usable == (not closing)


async def test_a_body_may_end_with_the_connection() -> None:
    async with serving(then_close(say(UNTIL_CLOSE[:-4], UNTIL_CLOSE[-4:]))) as server:
        connection = await HttpConnection.connect(server.address)
        assert await connection.exchange(REQUEST, 5) == Response(502, "<h1>Bad Gateway</h1>")
        assert not connection.usable


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 204 No Content\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\nconnection: Close\r\ncontent-length: 2\r\n\r\nno",
    ],
)
async def test_the_last_answer_of_a_connection(answer: bytes) -> None:
    async with serving(say(answer)) as server:
        connection = await HttpConnection.connect(server.address)
        assert (await connection.exchange(REQUEST, 5)).status in (204, 400)
        assert not connection.usable
        await server.closed.wait()


async def test_an_excerpt_is_one_short_line() -> None:
    body = b"a\r\n\tb \xff\xfe " + "é".encode() * 5000
    answer = b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with serving(say(answer), say(NO_CONTENT)) as server:
        connection = await HttpConnection.connect(server.address)
        response = await connection.exchange(REQUEST, 5)
        assert response.excerpt.startswith("a b \ufffd\ufffd éé")
        assert len(response.excerpt) < 300
        # Nothing of it is left for the next one.
        assert await connection.exchange(REQUEST, 5) == Response(204, "")
        connection.abort()


# Answers as they should not be


@pytest.mark.parametrize("cut", [1, 10, 20, len(BAD) - 1])
@pytest.mark.parametrize("end", [then_close, then_reset])
async def test_half_an_answer(cut: int, end: Callable[[Act], Act]) -> None:
    async with serving(end(say(BAD[:cut]))) as server:
        connection = await HttpConnection.connect(server.address)
        with pytest.raises(BrokenAnswerError, match="in the middle of an answer"):
            await connection.exchange(REQUEST, 5)
        assert not connection.usable


async def test_half_a_chunked_answer() -> None:
    async with serving(then_close(say(CHUNKED[:-5]))) as server:
        connection = await HttpConnection.connect(server.address)
        with pytest.raises(BrokenAnswerError, match="in the middle of an answer"):
            await connection.exchange(REQUEST, 5)


async def test_a_body_until_close_that_is_cut_is_no_answer() -> None:
    async with serving(then_reset(say(UNTIL_CLOSE))) as server:
        connection = await HttpConnection.connect(server.address)
        with pytest.raises(ConnectionResetError):
            await connection.exchange(REQUEST, 5)


@pytest.mark.parametrize("end", [then_close, then_reset])
async def test_no_answer_at_all(end: Callable[[Act], Act]) -> None:
    async with serving(end(say())) as server:
        connection = await HttpConnection.connect(server.address)
        with pytest.raises(ConnectionResetError):
            await connection.exchange(REQUEST, 5)
        assert not connection.usable
        with pytest.raises(ConnectionResetError):
            await connection.exchange(REQUEST, 5)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"unknown command: POST.  Try `help'.\n",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
async def test_something_else_than_http(answer: bytes) -> None:
    async with serving(say(answer)) as server:
        connection = await HttpConnection.connect(server.address)
        with pytest.raises(BrokenAnswerError, match="not HTTP"):
            await connection.exchange(REQUEST, 5)
        assert not connection.usable
        await server.closed.wait()


@pytest.mark.parametrize("more", [NO_CONTENT, NO_CONTENT[:5], BAD, b"x"])
async def test_more_than_was_asked_for(more: bytes) -> None:
    """An answer too many, whole or not, must not be taken for the next request's."""
    for act in (say(NO_CONTENT + more), say(NO_CONTENT, more)):
        async with serving(act) as server:
            connection = await HttpConnection.connect(server.address)
            assert await connection.exchange(REQUEST, 5) == Response(204, "")
            await unusable(connection)
            await server.closed.wait()


async def test_more_before_the_answer_was_taken() -> None:
    """Bytes that come when the answer is there, and whoever waits has not run yet."""
    connection = HttpConnection()
    connection.connection_made(Wire(connection))
    asked = asyncio.create_task(connection.exchange(REQUEST, 5))
    await asyncio.sleep(0)
    connection.data_received(NO_CONTENT)
    connection.data_received(BAD[:30])
    assert await asked == Response(204, "")
    assert not connection.usable


async def test_bytes_while_idle() -> None:
    async with serving(say(NO_CONTENT)) as server:
        connection = await HttpConnection.connect(server.address)
        assert (await connection.exchange(REQUEST, 5)).status == 204
        assert connection.usable
        connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert not connection.usable
        await server.closed.wait()


async def test_closed_while_idle() -> None:
    async with serving(then_close(say(NO_CONTENT))) as server:
        connection = await HttpConnection.connect(server.address)
        assert (await connection.exchange(REQUEST, 5)).status == 204
        await unusable(connection)
        with pytest.raises(OSError, match="closed by the server"):
            await connection.exchange(REQUEST, 5)


# Waiting too long


async def test_a_late_answer_is_not_the_next_ones() -> None:
    release = asyncio.Event()

    async def late(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(BAD)
        await writer.drain()

    async with serving(late) as server:
        connection = await HttpConnection.connect(server.address)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await connection.exchange(REQUEST, 0.1)
        assert time.monotonic() - began >= 0.1
        assert not connection.usable
        release.set()
        await server.closed.wait()
        with pytest.raises(OSError, match=r"."):
            await connection.exchange(REQUEST, 5)
        assert len(server.requests) == 1


async def test_each_request_has_the_whole_time() -> None:
    """One alarm serves many requests: it must not ring for an earlier one."""
    async with serving(say(NO_CONTENT), hang) as server:
        connection = await HttpConnection.connect(server.address)
        assert (await connection.exchange(REQUEST, 0.3)).status == 204
        await asyncio.sleep(0.2)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await connection.exchange(REQUEST, 0.3)
        assert time.monotonic() - began >= 0.3


async def test_being_idle_is_no_timeout() -> None:
    async with serving(say(NO_CONTENT), say(BAD)) as server:
        connection = await HttpConnection.connect(server.address)
        assert (await connection.exchange(REQUEST, 0.1)).status == 204
        await asyncio.sleep(0.3)
        assert connection.usable
        assert (await connection.exchange(REQUEST, 5)).status == 400
        connection.abort()


async def test_who_no_longer_waits_cuts_the_connection() -> None:
    async with serving(hang) as server:
        connection = await HttpConnection.connect(server.address)
        asked = asyncio.create_task(connection.exchange(REQUEST, 60))
        while not server.requests:
            await asyncio.sleep(0.005)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert not connection.usable


# GET


async def test_get() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nversion"
    async with serving(say(answer)) as server:
        assert await HttpConnection.get(server.address, "/a/b", 5) == Response(200, "version")
        await server.closed.wait()
        host = f"127.0.0.1:{server.port}".encode()
        assert server.requests == [b"GET /a/b HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"]


async def test_get_without_an_answer() -> None:
    async with serving(hang, then_close(say(BAD[:9]))) as server:
        with pytest.raises(TimeoutError):
            await HttpConnection.get(server.address, "/", 0.1)
        with pytest.raises(BrokenAnswerError):
            await HttpConnection.get(server.address, "/", 5)
        address = server.address
    with pytest.raises(ConnectionRefusedError):
        await HttpConnection.get(address, "/", 5)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a", Address("a", 80, False, "Host: a\r\n")),
        ("https://a/", Address("a", 443, True, "Host: a\r\n")),
        ("http://10.0.0.1:8080/", Address("10.0.0.1", 8080, False, "Host: 10.0.0.1:8080\r\n")),
        ("http://[::1]:8080", Address("::1", 8080, False, "Host: [::1]:8080\r\n")),
    ],
)
def test_addresses(url: str, address: Address) -> None:
    assert Address.of(url) == address
