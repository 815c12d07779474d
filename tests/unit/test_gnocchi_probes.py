"""What else was published of Gnocchi: measured on a stand-in of its REST, and shown beside."""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kairoscope import paths
from kairoscope.hosts.inventory import Host
from kairoscope.report import data as report_data
from kairoscope.report import reference
from kairoscope.stacks.gnocchi import probes
from kairoscope.stacks.gnocchi.server import GnocchiServer


class StandIn:
    """Metrics that it made, and what it was asked; it aggregates at the third look."""

    def __init__(self) -> None:
        self.metrics: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.broken = ""
        self.batches: Counter[int] = Counter()
        self.lock = threading.Lock()

    def answer(self, method: str, path: str, document: Any) -> tuple[int, Any]:
        kind = f"{method} {re.sub(r'[0-9]+', 'ID', path.partition('?')[0])}"
        self.asked[kind] += 1
        if kind == self.broken:
            return 503, "no Redis"
        if kind == "POST /vID/metric":
            self.metrics.add(id := str(len(self.metrics)))
            return 201, {"id": id}
        if kind == "POST /vID/aggregates":
            ids = [id for id, _ in document["operations"][1:]]
            points = [["now", 1.0, 1.0]] if self.asked[kind] > 2 else []
            return 200, {"measures": {id: {"last": points} for id in ids}}
        if kind == "POST /vID/metric/ID/measures":
            assert path.split("/")[3] in self.metrics
            assert len({each["timestamp"] for each in document}) == len(document)
            self.batches[len(document)] += 1
        if kind == "GET /vID/metric/ID/measures":
            return 200, [["t", 1.0, 5.0]] * 7
        if kind == "DELETE /vID/metric/ID":
            self.metrics.discard(path.rpartition("/")[2])
            return 204, None
        return (202, None) if method == "POST" else (200, {"id": path})


@pytest.fixture
def there() -> Iterator[tuple[StandIn, Host]]:
    one = StandIn()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers["Content-Length"] or 0)
            given = self.rfile.read(length)
            with one.lock:
                status, said = one.answer(self.command, self.path, json.loads(given or "null"))
            body = b"" if said is None else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = handle_one

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        given = {"address": "127.0.0.1", "http_port": http.server_address[1], "home": "/nowhere"}
        try:
            yield one, Host("gnocchi-1", "kairosdb", given)
        finally:
            http.shutdown()


def test_each_is_done_to_as_many_as_it_says_and_nothing_is_left(
    there: tuple[StandIn, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, host = there
    monkeypatch.setattr(probes, "METRICS", 30)
    monkeypatch.setattr(probes, "BATCH_S", 0.0)
    found = probes.measure(host, {f"temp.sensor.{n}": str(1000 + n) for n in range(400)})
    assert one.asked == {
        **{"POST /vID/metric": 30, "GET /vID/metric/ID": 30, "DELETE /vID/metric/ID": 30},
        "GET /vID/metric/ID/measures": 300,
        **{"POST /vID/batch/metrics/measures": 1, "POST /vID/aggregates": 3},
        "POST /vID/metric/ID/measures": len(probes.BATCHES) * 8,
    } | {"POST /vID/metric": 30 + 32, "DELETE /vID/metric/ID": 30 + 32}
    # Eight clients each, of measures of different seconds.
    assert one.batches == dict.fromkeys(probes.BATCHES, 8)
    assert one.metrics == set()
    assert {name: probe.unit for name, probe in found.items()} == {
        **{"created": "metrics/s", "shown": "metrics/s", "deleted": "metrics/s"},
        **{"read": "points/s", "aggregated_after": "s"},
        **{f"accepted_{size}": "points/s" for size in probes.BATCHES},
    }
    assert all(probe.value > 0 for probe in found.values())
    assert found["read"].how.startswith("2,100 points by 8 clients")
    assert found["created"].how.startswith("30 metrics by 8 clients")
    told = re.fullmatch(
        r"8 requests of 5,000 measures of one metric each in [\d.]+ s by 8 clients: ([\d.,]+) "
        r"requests/s",
        found["accepted_5000"].how,
    )
    assert told
    per_s = float(told[1].replace(",", ""))
    assert found["accepted_5000"].value == pytest.approx(5_000 * per_s, rel=0.1)


def test_what_is_not_done_is_no_figure(there: tuple[StandIn, Host]) -> None:
    one, host = there
    one.broken = "POST /vID/metric"
    with pytest.raises(OSError, match='POST /v1/metric: HTTP 503: "no Redis"'):
        probes.measure(host, {})


def test_a_gnocchi_that_is_behind_is_not_probed(
    there: tuple[StandIn, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, host = there
    monkeypatch.setattr(GnocchiServer, "waiting", lambda *_: 1234)
    with pytest.raises(ValueError, match="1,234 bundles are not aggregated yet"):
        GnocchiServer().probe(host)
    assert not one.asked


def test_it_stands_beside_what_was_published() -> None:
    probed = {
        "created": {"value": 514.4, "unit": "metrics/s", "how": "500 metrics by 8 clients"},
        "accepted_5000": {"value": 628_123.4, "unit": "points/s", "how": "630 requests"},
        "aggregated_after": {"value": 1.23456, "unit": "s", "how": "median of 20 metrics"},
    }
    run = report_data.RunData("x", plan={"stack": "gnocchi"}, probed=probed)
    (found,) = reference.compare(run, paths.REFERENCE)
    told = {line.figure: line for line in found.lines}
    created = told["Metrics created"]
    assert (created.published, created.ours) == ("≈ 1,473 metrics/s", "514 metrics/s")
    assert (created.comparable, created.why) == ("partly", "ours: 500 metrics by 8 clients")
    assert (told["Metrics shown"].ours, told["Metrics shown"].comparable) == ("–", "no")
    after = told["Aggregated after"]
    assert (after.published, after.ours, after.comparable) == ("–", "1.23 s", "no")
    assert after.why == "not published; ours: median of 20 metrics"
    most = told["Accepted, 5,000 measures a request"]
    assert most.published.startswith("≈ 927,050 points/s (derived: ")
    assert most.ours == "628,123 points/s"
    assert (most.comparable, most.why) == ("partly", "ours: 630 requests")
    assert told["Accepted, 10 measures a request"].why.startswith("this load has")
    # Once each.
    assert len(told) == len(found.lines)
