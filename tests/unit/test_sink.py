"""The discard sink against sockets written by hand. It runs in a process of its own."""

import gzip
import itertools
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loaders.sink.process import SinkProcess
from loaders.sink.sink import points_in

pytestmark = pytest.mark.timeout(60)

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
POINT = {"name": "SENSOR_1", "timestamp": 1_700_000_000_000, "value": 123456, "tags": {"a": "b"}}
SERIES = {"name": "S", "tags": {"a": "b"}, "datapoints": [[1, 2], [2, 3], [3, 4]]}
# Words that a count by searching would take for points.
TRAP = {
    "name": "timestamp",
    "timestamp": 1,
    "value": 2,
    "tags": {"value": 'x"timestamp":1,"value"'},
}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fast() -> Iterator[SinkProcess]:
    with SinkProcess() as sink:
        yield sink


@pytest.fixture(scope="module")
def exact() -> Iterator[SinkProcess]:
    with SinkProcess(count=True) as sink:
        yield sink


@pytest.fixture(params=["fast", "exact"])
def sink(request: pytest.FixtureRequest) -> SinkProcess:
    process: SinkProcess = request.getfixturevalue(request.param)
    return process


def connect(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def post(body: bytes, *fields: str, path: str = "/api/v1/datapoints") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()


def read(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, or fewer if the other side ends."""
    got = b""
    while len(got) < size and (piece := connection.recv(size - len(got))):
        got += piece
    return got


def read_to_end(connection: socket.socket) -> bytes:
    got = b""
    while piece := connection.recv(65536):
        got += piece
    return got


def change(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {
        name: after[name] - before[name]
        for name in ("connections", "requests", "lines", "bytes", "points")
        if after[name] is not None
    }


def get(url: str) -> tuple[int, Any]:
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - our own
        text = answer.read()
        return answer.status, json.loads(text) if text else None


def test_answers_as_kairosdb_does(sink: SinkProcess) -> None:
    assert get(f"{sink.url}/api/v1/health/check") == (204, None)
    assert get(f"{sink.url}/api/v1/version")[1] == {"version": "KairosDB sink"}
    assert all(line.endswith(": OK") for line in get(f"{sink.url}/api/v1/health/status")[1])
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(f"{sink.url}/api/v1/nothing")
    assert refused.value.code == 404


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_requests_in_pieces_of_any_size(sink: SinkProcess, size: int) -> None:
    before = sink.stats()
    bodies = [as_json([POINT] * n) for n in (1, 3)]
    stream = b"".join(map(post, bodies))
    with connect(sink.url) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(stream), size):
            connection.sendall(stream[at : at + size])
        assert read(connection, 2 * len(NO_CONTENT)) == 2 * NO_CONTENT
    found = change(before, sink.stats())
    assert found.pop("points", 4) == 4
    size_of_bodies = sum(map(len, bodies))
    assert found == {"connections": 1, "requests": 2, "lines": 0, "bytes": size_of_bodies}


def test_many_pipelined_requests_are_answered_in_order(sink: SinkProcess) -> None:
    before = sink.stats()
    version = b"GET /api/v1/version HTTP/1.1\r\n\r\n"
    one = post(as_json([POINT] * 50))
    with connect(sink.url) as connection:
        connection.sendall(one * 200 + version + one)
        assert read(connection, 200 * len(NO_CONTENT)) == 200 * NO_CONTENT
        assert read(connection, 15) == b"HTTP/1.1 200 OK"
        connection.shutdown(socket.SHUT_WR)
        assert read_to_end(connection).endswith(b'{"version": "KairosDB sink"}' + NO_CONTENT)
    found = change(before, sink.stats())
    assert found["requests"] == 201
    assert found.get("points", 201 * 50) == 201 * 50


def test_a_body_larger_than_the_buffer(sink: SinkProcess) -> None:
    before = sink.stats()
    body = as_json([POINT] * 20_000)
    assert len(body) > 1_000_000
    with connect(sink.url) as connection:
        connection.sendall(post(body))
        assert read(connection, len(NO_CONTENT)) == NO_CONTENT
    found = change(before, sink.stats())
    assert found["bytes"] == len(body)
    assert found.get("points", 20_000) == 20_000


def test_gzip_counts_as_sent(sink: SinkProcess) -> None:
    before = sink.stats()
    body = gzip.compress(as_json([SERIES, POINT]))
    with connect(sink.url) as connection:
        connection.sendall(post(body, "Content-Type: application/gzip"))
        assert read(connection, len(NO_CONTENT)) == NO_CONTENT
    found = change(before, sink.stats())
    assert found["bytes"] == len(body)
    assert found.get("points", 4) == 4


def test_connection_close_ends_it_after_the_answer(sink: SinkProcess) -> None:
    with connect(sink.url) as connection:
        connection.sendall(post(as_json(POINT), "Connection: close") + post(as_json(POINT)))
        assert read_to_end(connection) == NO_CONTENT[:-2] + b"Connection: close\r\n\r\n"


@pytest.mark.parametrize("fields", ["Transfer-Encoding: chunked\r\n", ""])
def test_a_body_without_a_length_is_refused(sink: SinkProcess, fields: str) -> None:
    before = sink.stats()
    head = f"POST /api/v1/datapoints HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode()
    with connect(sink.url) as connection:
        connection.sendall(head + b"2\r\n[]\r\n0\r\n\r\n")
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 411 Length Required\r\n")
    assert b"\r\nConnection: close\r\n" in answer
    assert change(before, sink.stats())["requests"] == 0


@pytest.mark.parametrize("length", ["-1", "x", "1 2", "\u00b2"])
def test_a_bad_length_is_refused(sink: SinkProcess, length: str) -> None:
    head = f"POST /api/v1/datapoints HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
    with connect(sink.url) as connection:
        connection.sendall(head.encode("latin-1"))
        assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")


def test_continue_is_given_before_the_body(sink: SinkProcess) -> None:
    head, body = post(as_json(POINT), "Expect: 100-continue").split(b"\r\n\r\n")
    with connect(sink.url) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert read(connection, 25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read(connection, len(NO_CONTENT)) == NO_CONTENT


@pytest.mark.parametrize("body", [b"[{", b"17", b'[{"datapoints":3}]', b"[3]"])
def test_a_body_that_cannot_be_counted_is_refused(exact: SinkProcess, body: bytes) -> None:
    before = exact.stats()
    with connect(exact.url) as connection:
        connection.sendall(post(body))
        assert read(connection, 12) == b"HTTP/1.1 400"
    assert change(before, exact.stats())["points"] == 0


def test_counts_both_forms_and_is_not_misled(exact: SinkProcess) -> None:
    before = exact.stats()
    with connect(exact.url) as connection:
        for document in (POINT, [POINT, SERIES], SERIES, [TRAP], []):
            connection.sendall(post(as_json(document)))
            assert read(connection, len(NO_CONTENT)) == NO_CONTENT
    assert change(before, exact.stats())["points"] == 1 + 4 + 3 + 1


@given(
    st.lists(
        st.tuples(
            st.text(),
            st.dictionaries(st.text(), st.text()),
            st.none() | st.lists(st.tuples(st.integers(), st.integers() | st.text())),
        )
    )
)
def test_points_in_any_json(metrics: list[tuple[str, dict[str, str], list[Any] | None]]) -> None:
    document = [
        {"name": name, "tags": tags, "timestamp": 1, "value": 2}
        if points is None
        else {"name": name, "tags": tags, "datapoints": points}
        for name, tags, points in metrics
    ]
    count = sum(1 if points is None else len(points) for _, _, points in metrics)
    assert points_in(as_json(document)) == count


def test_telnet_counts_lines_and_puts(sink: SinkProcess) -> None:
    before = sink.stats()
    text = (
        b"put a 1 2 x=y\nputm a 1 2 x=y\nputs a 1 2 x=put\n"
        b"puts_not a\nput\nversions\n version\noutput 1\n\nput b 1 2 x=y\r\nversion\r\n"
    )
    with connect(sink.telnet) as connection:
        connection.sendall(text)
        assert read(connection, 14) == b"KairosDB sink\n"
    found = change(before, sink.stats())
    assert found.pop("points", 4) == 4
    assert found == {"connections": 1, "requests": 0, "lines": 10, "bytes": len(text)}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(cuts=st.lists(st.integers(1, 199), max_size=6), seed=st.integers(0, 3))
def test_telnet_cut_anywhere(exact: SinkProcess, cuts: list[int], seed: int) -> None:
    text = (b"version\nput a 1 2 x=y\n" * 10)[seed * 3 :]
    puts, asked = text.count(b"put "), text.count(b"\nversion\n") + text.startswith(b"version\n")
    before = exact.stats()
    with connect(exact.telnet) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        edges = [0, *sorted(cuts), len(text)]
        for begin, end in itertools.pairwise(edges):
            connection.sendall(text[begin:end])
        connection.shutdown(socket.SHUT_WR)
        assert read_to_end(connection) == b"KairosDB sink\n" * asked
    assert change(before, exact.stats())["points"] == puts


def test_telnet_line_without_end_is_cut_off(fast: SinkProcess) -> None:
    with connect(fast.telnet) as connection, pytest.raises(OSError):
        while True:
            connection.sendall(b"x" * 65536)


def test_version_is_a_barrier(fast: SinkProcess) -> None:
    before = fast.stats()
    with connect(fast.telnet) as connection:
        connection.sendall(b"put SENSOR_1 1700000000000 123456 status=good\n" * 20_000)
        connection.sendall(b"version\n")
        assert read(connection, 14) == b"KairosDB sink\n"
        assert change(before, fast.stats())["lines"] == 20_000


def test_a_stall_holds_back_answers_and_telnet(sink: SinkProcess) -> None:
    before = sink.stats()
    with (
        connect(sink.url) as rest,
        connect(sink.telnet) as telnet,
        connect(sink.url) as health,
    ):
        sink.stall(3600)
        with connect(sink.telnet) as late:
            telnet.sendall(b"put a 1 2 x=y\nversion\n")
            late.sendall(b"version\n")
            health.sendall(b"GET /api/v1/health/check HTTP/1.1\r\n\r\n")
            rest.sendall(post(as_json(POINT)) * 2)
            while change(before, found := sink.stats())["requests"] < 2:
                pass
            assert change(before, found)["lines"] == 0
            for connection in (rest, telnet, health, late):
                connection.setblocking(False)
                with pytest.raises(BlockingIOError):
                    connection.recv(1)
                connection.settimeout(20)
            sink.stall(0)
            assert read(rest, 2 * len(NO_CONTENT)) == 2 * NO_CONTENT
            for connection in (telnet, late):
                assert read(connection, 14) == b"KairosDB sink\n"
            assert read(health, len(NO_CONTENT)) == NO_CONTENT
    assert change(before, sink.stats())["lines"] == 1


def test_a_stall_ends_by_itself(fast: SinkProcess) -> None:
    fast.stall(0.1)
    assert get(f"{fast.url}/api/v1/health/check")[0] == 204


@pytest.mark.parametrize("query", ["", "?seconds=", "?seconds=-1", "?seconds=nan", "?seconds=1e9"])
def test_a_stall_needs_a_time(fast: SinkProcess, query: str) -> None:
    with connect(fast.url) as connection:
        connection.sendall(post(b"", path=f"/stall{query}"))
        assert read(connection, 12) == b"HTTP/1.1 400"
    assert get(f"{fast.url}/api/v1/health/check")[0] == 204


def test_stands_for_several_nodes_and_ends() -> None:
    with SinkProcess(http=(0, 0, 0), telnet=(0, 0)) as sink:
        assert len(set(sink.urls)) == 3
        assert len(set(sink.telnets)) == 2
        for url in sink.urls:
            assert get(f"{url}/api/v1/health/check")[0] == 204
        assert sink.cpu_s() > 0
        url = sink.url
    with pytest.raises(OSError, match="refused"):
        connect(url)
    port = int(url.rpartition(":")[2])
    with SinkProcess(http=[port]) as again:
        assert again.url == url
        done = subprocess.run(
            [sys.executable, "-m", "loaders.sink", "--http", str(port)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert str(port) in done.stderr
        with pytest.raises(RuntimeError, match="did not start"):
            SinkProcess(http=[port])


def test_ends_with_its_parent() -> None:
    code = (
        "import os; from loaders.sink.process import SinkProcess; "
        "print(SinkProcess().url, flush=True); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    with pytest.raises(ConnectionRefusedError):
        while True:
            connect(done.stdout.strip()).close()
