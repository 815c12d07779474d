"""What a loader host tells Prometheus: strict text, all workers, and nobody who reads can harm."""

import http.client
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.metrics import FAMILIES, Endpoint, exposition

LINE = re.compile(r'([a-z_][a-z0-9_]*)\{worker="(\d+)"\} ([0-9.e+-]+)')


def record(worker: int, **figures: float) -> dict[str, float]:
    return {"worker": worker, "t": 1.0, "count": 5, **dict.fromkeys(FAMILIES, 0.0), **figures}


def parsed(text: str) -> dict[tuple[str, int], float]:
    """Every sample; AssertionError where the text format is not kept."""
    samples: dict[tuple[str, int], float] = {}
    declared = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            declared = line.split()[2]
            assert declared not in {name for name, _ in samples}, "a family stands together"
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == declared
            assert (kind == "counter") == name.endswith("_total")
        else:
            found = LINE.fullmatch(line)
            assert found, line
            assert found[1] == declared
            samples[found[1], int(found[2])] = float(found[3])
    assert text.endswith("\n")
    return samples


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=4))
def test_every_worker_s_figures_are_told_exactly(points):
    text = exposition([record(n, acknowledged=count) for n, count in enumerate(points)])
    samples = parsed(text)
    assert len(samples) == len(FAMILIES) * len(points)
    for n, count in enumerate(points):
        assert samples["kairoscope_loader_acknowledged_points_total", n] == count


def test_units_are_seconds():
    samples = parsed(exposition([record(3, behind_ms=12.5, p99_ms=1500)]))
    assert samples["kairoscope_loader_behind_seconds", 3] == 0.0125
    assert samples["kairoscope_loader_latency_p99_seconds", 3] == 1.5


def test_before_the_first_record_families_are_empty():
    assert parsed(exposition([])) == {}


def got(port: int, path: str = "/metrics") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_an_endpoint_answers_until_it_is_closed():
    newest = [record(0, sent=1)]
    endpoint = Endpoint("127.0.0.1", 0, lambda: exposition(newest))
    try:
        assert parsed(got(endpoint.port)[1])["kairoscope_loader_sent_points_total", 0] == 1
        newest[0] = record(0, sent=7)
        assert parsed(got(endpoint.port)[1])["kairoscope_loader_sent_points_total", 0] == 7
        assert got(endpoint.port, "/")[0] == 404
    finally:
        endpoint.close()
    with pytest.raises(OSError, match="refused"):
        got(endpoint.port)


def test_a_reader_that_hangs_holds_nothing_up():
    endpoint = Endpoint("127.0.0.1", 0, lambda: exposition([]))
    with socket.create_connection(("127.0.0.1", endpoint.port)) as silent:
        silent.sendall(b"GET /metrics HT")
        assert got(endpoint.port)[0] == 200
        endpoint.close()


def test_an_address_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match="in use"):
        Endpoint("127.0.0.1", other.getsockname()[1], lambda: "")
