"""What one client can do to KairosDB's door by its manners alone, beside a load of others.

It sends nothing that is wrong, or nothing at all; and the others notice nothing.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import socket
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from attacks import now_ms, point, post
from deployment import request, standing
from harness import SERVER, wait_for
from test_attacks import Attacked, innocent

pytestmark = pytest.mark.faults

KNOWN = 2_000
NEW_PER_S = 50
SERIES_IN_REQUEST = 500
# More than the threads of KairosDB's web server.
CONNECTIONS = 300
QUERIES = 150
# As large as a request may be when it is unpacked, and then some are more than the heap.
VALUE_BYTES = 64_000
VALUES_IN_REQUEST = 500
QUEUE_MIB = 2_048


@pytest.fixture(scope="module")
def victim() -> Iterator[Attacked]:
    made = Attacked(
        row_key_cache_size=KNOWN, queue_new_series_per_s=NEW_PER_S, queue_disk_mb=QUEUE_MIB
    )
    with standing(made, *SERVER) as cluster:
        yield cluster


def attacker(cluster: Attacked, port: int = 8080) -> socket.socket:
    """A connection from an address of its own."""
    return socket.create_connection(
        (f"{cluster.net}.1", port), timeout=30, source_address=(f"{cluster.net}.99", 0)
    )


def new_series(cluster: Attacked, answers: Counter[int]) -> None:
    """A series for each point; what is refused is not sent again."""
    for number in itertools.count():
        names = (f"made.up.{number}.{i}" for i in range(SERIES_IN_REQUEST))
        answer = post(cluster.url, [point(name, now_ms(), 1) for name in names])
        answers[answer.status] += 1
        if answer.status == 429:
            assert answer.retry_after
            assert answer.document["taken"] + answer.document["refused"] == SERIES_IN_REQUEST
            assert "its series is new" in answer.document["errors"][0]
            return


def silent(cluster: Attacked, path: str) -> Iterator[socket.socket]:
    """Requests that are begun, and never go on."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n["
    for _ in range(CONNECTIONS):
        connection = attacker(cluster)
        connection.sendall(head.encode())
        yield connection


def chatter(cluster: Attacked) -> list[socket.socket]:
    """Telnet: a line of 32 MB, and questions whose answers nobody reads."""
    endless, deaf = attacker(cluster, 4242), attacker(cluster, 4242)
    for connection, text in ((endless, b"put " + b"x" * 65_536), (deaf, b"version\n" * 8_192)):
        connection.settimeout(1)
        with contextlib.suppress(TimeoutError):
            for _ in range(500):
                connection.sendall(text)
    # Only then is it counted.
    endless.sendall(b"\n")
    return [endless, deaf]


def queries(cluster: Attacked) -> Counter[int]:
    """The answers to many queries at once, of all that the attack has made up."""

    def ask(_: int) -> int:
        try:
            request(f"{cluster.url}/api/v1/metricnames?prefix=made", timeout_s=60)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    with ThreadPoolExecutor(QUERIES) as pool:
        return Counter(pool.map(ask, range(QUERIES)))


def test_one_client_with_bad_manners_is_not_the_others_trouble(
    victim: Attacked, record_property: Callable[[str, Any], None]
) -> None:
    answers: Counter[int] = Counter()
    asked: Counter[int] = Counter()
    with contextlib.ExitStack() as held, victim.in_mid_load() as run:
        before, started = victim.metrics(), time.monotonic()
        pid = victim.pids()["kairosdb-1"]
        talk = threading.Thread(target=lambda: [held.enter_context(one) for one in chatter(victim)])
        talk.start()
        until = run.spec().end_ms / 1000 - 10
        while time.time() < until:
            new_series(victim, answers)
            for path in ("/api/v1/datapoints", "/api/v1/datapoints/query"):
                with contextlib.ExitStack() as waiting:
                    for connection in silent(victim, path):
                        waiting.enter_context(connection)
                    # Points, health and this node's figures have threads all the same.
                    assert victim.health() == 204
                    assert post(victim.url, [point("made.up.0.0", now_ms(), 1)]).status == 204
            asked += queries(victim)
        talk.join()
        figures = innocent(run)
        after, seconds = victim.metrics(), time.monotonic() - started
        assert victim.pids()["kairosdb-1"] == pid
    record_property("attacked", f"{answers} new series, {asked} queries | {figures}")

    def grown(name: str) -> float:
        return after[f"kairosdb_{name}"] - before[f"kairosdb_{name}"]

    assert answers[429] > 0
    assert set(answers) <= {204, 429}
    assert set(asked) <= {200, 503}
    assert grown("queue_new_series_total") <= KNOWN + NEW_PER_S * (seconds + 1)
    assert grown("queue_new_series_refused_points_total") > 0
    assert grown("requests_cut_total") > 0
    assert grown("telnet_errors_total") > 0


def test_a_start_takes_all_sensors_for_new_and_refuses_none(victim: Attacked) -> None:
    with victim.in_mid_load() as run:
        with victim.killed():
            pass
        run.end()
        book = run.json("ledger.json")
        assert book["stored"] == book["acknowledged"] == book["scheduled"], book["notes"]
    assert victim.metrics()["kairosdb_queue_new_series_refused_points_total"] == 0


def test_more_of_one_series_than_the_heap_has_is_stored_in_parts(victim: Attacked) -> None:
    """In a few small requests: read whole, it ended the process, and each one after it."""
    heap_mb = json.loads((victim.state / "plan.json").read_text())["kairosdb"]["heap_mb"]
    bodies = heap_mb * 2**20 // (VALUE_BYTES * VALUES_IN_REQUEST) + 2
    pid, stored = victim.pids()["kairosdb-1"], "kairosdb_queue_stored_points_total"
    before, start = victim.metrics()[stored], now_ms()
    for number in range(bodies):
        first = start - (number + 1) * VALUES_IN_REQUEST
        large = point("large", start, "", type="string") | {
            "datapoints": [[first + i, "x" * VALUE_BYTES] for i in range(VALUES_IN_REQUEST)]
        }
        del large["timestamp"], large["value"]
        packed = gzip.compress(json.dumps([large]).encode(), 1)
        assert post(victim.url, packed, Content_Type="application/gzip").status == 204
    wanted = before + bodies * VALUES_IN_REQUEST
    wait_for("all of it being stored", lambda: victim.metrics()[stored] >= wanted, 300)
    assert victim.pids()["kairosdb-1"] == pid
