"""Questions beside a load: which ones and when, how each system is asked, and what is written down
of the answers."""

import contextlib
import functools
import itertools
import json
import pickle
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from loads import load_spec

from kairoscope import experiment as experiments
from kairoscope import run_folder
from kairoscope.cli import known
from kairoscope.errors import UserError
from kairoscope.experiment import Overrides
from kairoscope.hosts.inventory import Host
from kairoscope.run import asking
from kairoscope.series import bakeoff_queries
from kairoscope.stacks import asked, questions
from kairoscope.stacks.kairosdb import asking as kairosdb_asking
from kairoscope.stacks.questions import HOUR, LAST, MEANS, Question, Request
from loaders.schedule.due import Schedule
from loaders.schedule.spec import Step

HOST = Host(
    *("x-1", "kairosdb"),
    {"address": "127.0.0.1", "http_port": 1, "listens": {"web HTTP": 8080}, "home": "/nowhere"},
)
T = 1_790_000_000_000


def schedule(sensors: int = 300, seconds: int = 10, start_ms: int = T) -> Schedule:
    return Schedule(
        load_spec(
            **{"sensors": sensors, "metric": "temp", "tags": {"sensor": "{n}", "rack": "r{n%4}"}},
            **{"steps": [Step(1000, seconds)], "warmup_ticks": 4, "start_ms": start_ms},
            **{"lifetime_ticks": 0, "ramp_ticks": 0, "points_per_request": 1, "jitter_ms": 0},
        )
    )


def question(kind: str, *sensors: int, until_ms: int = T, number: int = 0) -> Question:
    series = tuple({"sensor": str(n), "rack": f"r{n % 4}"} for n in sensors)
    span_ms = 3_600_000 if kind == HOUR else 60_000
    names = ("sensor", "rack")
    return Question(*(number, kind, "temp", "sensor", series, names, until_ms - span_ms, until_ms))


ASKED = [question(LAST, 3, 14), question(HOUR, 7), question(MEANS)]


def test_each_kind_is_asked_twice_a_second_once_the_warm_up_is_over() -> None:
    wanted = questions.of_load(schedule())
    assert [q.until_ms for q in wanted] == sorted(q.until_ms for q in wanted)
    for kind, series, span_s in ((LAST, 100, 60), (HOUR, 1, 3600), (MEANS, 0, 60)):
        mine = [q for q in wanted if q.kind == kind]
        assert [q.number for q in mine] == list(range(12))  # of 6 s
        assert T + 4000 <= mine[0].until_ms < mine[-1].until_ms < T + 10_000
        assert {b.until_ms - a.until_ms for a, b in itertools.pairwise(mine)} == {500}
        assert {q.until_ms - q.from_ms for q in mine} == {span_s * 1000}
        assert all(len({*q.texts}) == len(q.series) == series for q in mine)
    assert len({tuple(q.texts) for q in wanted if q.kind == HOUR}) > 6
    assert wanted == questions.of_load(schedule())
    assert len(next(q for q in questions.of_load(schedule(20)) if q.kind == LAST).series) == 20


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("metric: temperature", "metric: t-{n}", "one metric"),
        ("rate: 1", "rate: 1\n  lifetime_s: 30", "sensors stay"),
        ("load:", "security: {enabled: true}\nload:", "no password"),
    ],
)
def test_loads_that_they_do_not_fit_are_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = (
        "name: mine\ndescription: d\n"
        "cluster: {storage_nodes: 3, replication_factor: 3, kairosdb_nodes: 1}\n"
        "load:\n  sensors: 100\n  rate: 1\n  duration_s: 60\n  warmup_s: 10\n"
        '  metric: temperature\n  tags: {sensor: "{n}"}\n'
    )
    file = tmp_path / "mine.yml"
    file.write_text(text)
    assert asking.of_plan(known.plan(experiments.load(str(file))))
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=f"^--ask: .*{said}"):
        asking.of_plan(known.plan(experiments.load(str(file))))


def test_a_replay_is_refused() -> None:
    plan = known.plan(experiments.load("graphite-replay", Overrides()))
    with pytest.raises(UserError, match="a replay is over"):
        asking.of_plan(plan)


# In each system's words


def put(name: str) -> list[Request]:
    stack: Any = known.stack(name)
    return list(stack.server.requests(HOST, ASKED))


def test_in_influxdbs_words() -> None:
    last, hour, means = put("influxdb")
    assert {r.url for r in (last, hour, means)} == {"http://127.0.0.1:1/query"}
    minute = "time >= 1789999940000ms AND time < 1790000000000ms"
    assert last.given == {"db": "kairoscope", "epoch": "ms", "q": last.given["q"]}
    assert last.given["q"].replace(minute, "IT") == (
        'SELECT last(value) FROM "temp" WHERE ("sensor" = \'3\' OR "sensor" = \'14\') AND IT '
        'GROUP BY "sensor"'
    )
    assert hour.given and hour.given["q"] == (
        'SELECT value FROM "temp" WHERE "sensor" = \'7\' AND time >= 1789996400000ms AND time < '
        "1790000000000ms"
    )
    assert means.given and means.given["q"].replace(minute, "IT") == (
        'SELECT mean(value) FROM "temp" WHERE IT GROUP BY time(1s) fill(none)'
    )
    one = {"name": "temp", "columns": ["time", "last"], "values": [[T, 5]]}
    assert last.found(json.dumps({"results": [{"series": [one, one]}]}).encode()) == 2
    assert hour.found(b'{"results":[{"statement_id":0}]}') == 0
    with pytest.raises(ValueError, match="no such database"):
        hour.found(b'{"results":[{"error":"no such database"}]}')


def test_in_questdbs_words() -> None:
    last, hour, means = put("questdb")
    minute = "timestamp >= 1789999940000000 AND timestamp < 1790000000000000"
    given = [request.given["query"] for request in (last, hour, means) if request.given]
    assert [query.replace(minute, "IT") for query in given] == [
        "SELECT \"sensor\", timestamp, value FROM 'temp' WHERE \"sensor\" IN ('3', '14') AND IT "
        'LATEST ON timestamp PARTITION BY "sensor"',
        "SELECT timestamp, value FROM 'temp' WHERE \"sensor\" IN ('7') AND timestamp >= "
        "1789996400000000 AND timestamp < 1790000000000000",
        "SELECT timestamp, avg(value) FROM 'temp' WHERE IT SAMPLE BY 1s",
    ]
    assert last.found(b'{"dataset":[["3","t",1],["14","t",2]]}') == 2
    with pytest.raises(LookupError):
        last.found(b'{"error":"table does not exist"}')


def test_in_victoriametrics_words() -> None:
    last, hour, means = put("victoriametrics")
    some = '{__name__=~"temp|temp_value",sensor=~"3|14"}'
    one = some.replace("3|14", "7")
    assert last.given == {
        **{"query": f"last_over_time({some}[60s])", "time": "1790000000.000"},
        "latency_offset": "1ms",
    }
    assert hour.given and hour.given["query"] == f"{one}[3600s]"
    assert means.url.endswith("/api/v1/query_range")
    assert means.given == {
        **{"query": 'avg({__name__=~"temp|temp_value"})', "step": "1s"},
        **{"start": "1789999941.000", "end": "1790000000.000", "latency_offset": "1ms"},
    }
    rows = [{"metric": {}, "value": [1, "2"]}, {"metric": {}, "value": [1, "3"]}]
    assert last.found(json.dumps({"data": {"result": rows}}).encode()) == 2
    several = [{"metric": {}, "values": [[1, "2"], [2, "3"]]}]
    assert hour.found(json.dumps({"data": {"result": several}}).encode()) == 2
    assert means.found(b'{"data":{"result":[]}}') == 0


def test_in_gnocchis_words(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = {"temp.rack.r3.sensor.3": "id-3"}
    said = json.dumps({"metrics": ids}).encode()
    monkeypatch.setattr(asked, "get", lambda *_, **__: said)
    last, hour, means = put("gnocchi")
    minute = {"start": "1789999940", "stop": "1790000000"}
    # The others have sent nothing yet.
    assert (last.given, last.document) == (minute, {"operations": ["metric", ["id-3", "last"]]})
    of_all = "http://127.0.0.1:1/v1/resource/generic/kairoscope/metric"
    assert hour.url == f"{of_all}/temp.rack.r3.sensor.7/measures"
    assert hour.document is None
    assert means.document == {
        "operations": ["aggregate", "mean", ["metric", "temp.rack.*.sensor.*", "last"]],
        **{"resource_type": "generic", "search": {"=": {"id": "kairoscope"}}},
    }
    found = {"id-3": {"last": [["2026", 1.0, 5.0]]}, "id-4": {"last": []}}
    assert last.found(json.dumps({"measures": found}).encode()) == 1
    assert hour.found(b"[[1, 1.0, 2.0], [2, 1.0, 3.0]]") == 2
    assert means.found(b'{"measures":{"aggregated":[[1,1.0,2.0]]}}') == 1


def test_in_graphites_words() -> None:
    last, hour, means = put("graphite")
    assert {request.url for request in (last, hour, means)} == {"http://127.0.0.1:8080/render"}
    minute = {"from": "1789999940", "until": "1790000000"}
    how = {"format": "json", "noNullPoints": "true"}
    paths = "temp.rack.r3.sensor.3,temp.rack.r2.sensor.14"
    assert last.given == {"target": f"group({paths})", **minute, **how}
    hours = {"from": "1789996400", "until": "1790000000"}
    assert hour.given == {"target": "temp.rack.r3.sensor.7", **hours, **how}
    assert means.given == {"target": "averageSeries(temp.rack.*.sensor.*)", **minute, **how}
    said = json.dumps([{"target": "a", "datapoints": [[1.0, 1], [2.0, 2]]}]).encode()
    assert (last.found(said), hour.found(said), means.found(said)) == (1, 2, 2)
    with pytest.raises((ValueError, LookupError, TypeError)):
        hour.found(b"{}[")


def test_in_kairosdbs_words() -> None:
    both = ["http://a", "http://b"]
    last, hour, means = kairosdb_asking.requests(both, ASKED)
    minute = {"start_absolute": T - 60_000, "end_absolute": T - 1}
    (metric,) = last.document["metrics"]
    assert last.document == {**minute, "metrics": [metric]}
    assert metric == {
        **{"name": "temp", "tags": {"sensor": ["3", "14"]}, "order": "desc", "limit": 1},
        "group_by": [{"name": "tag", "tags": ["sensor"]}],
    }
    assert hour.document["metrics"] == [{"name": "temp", "tags": {"sensor": ["7"]}}]
    (metric,) = means.document["metrics"]
    assert metric["aggregators"][0]["name"] == "avg"
    assert "tags" not in metric
    results = [{"values": [[1, 2], [2, 3]]}, {"values": []}]
    body = json.dumps({"queries": [{"results": results}]}).encode()
    assert (last.found(body), hour.found(body)) == (1, 2)
    nodes = [question(MEANS, number=number) for number in range(3)]
    assert [r.url[:8] for r in kairosdb_asking.requests(both, nodes)] == [*both, both[0]]


def test_how_they_are_put_goes_to_another_process() -> None:
    for stack in known.STACKS:
        if stack.name != "kairosdb":
            single: Any = stack
            host = pickle.loads(pickle.dumps((single.server, HOST)))[1]  # noqa: S301
            assert host == HOST


# What is written down


@contextlib.contextmanager
def serving(answers: dict[str, tuple[float, int, bytes]]) -> Iterator[str]:
    """A server that answers a path after so many seconds, with a status and a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pause_s, status, body = answers[self.path.partition("?")[0]]
            time.sleep(pause_s)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}"
        finally:
            http.shutdown()


async def answers_of(
    url: str, paths: list[str], apart_ms: int, found: Any = len
) -> list[dict[str, Any]]:
    first_ms = round(time.time() * 1000) + 200
    mine: list[tuple[Question, Request | str]] = [
        (question(LAST, 1, until_ms=first_ms + place * apart_ms), Request(url + path, found))
        for place, path in enumerate(paths)
    ]
    lines: list[str] = []
    async with aiohttp.ClientSession() as http:
        await asking._in_turn(http, mine, lines.append)
    return [json.loads(line) for line in lines]


async def test_latency_counts_from_when_it_was_due_and_what_is_due_meanwhile_is_left_out() -> None:
    with serving({"/slow": (0.3, 200, b"12345")}) as url:
        first, second = await answers_of(url, ["/slow", "/slow"], 100)
    assert first["latency_ms"] >= 300
    assert (first["found"], first["bytes"], first["kind"]) == (5, 5, "last")
    assert second == {"t": pytest.approx(first["t"] + 0.1), "kind": "last", "left_out": True}


async def test_what_is_no_answer_is_an_error() -> None:
    def none(_: bytes) -> int:
        raise LookupError("measures")

    with serving({"/bad": (0, 500, b"it is\nfull"), "/odd": (0, 200, b"{}")}) as url:
        (bad,) = await answers_of(url, ["/bad"], 1)
        (odd,) = await answers_of(url, ["/odd"], 1, none)
    (gone,) = await answers_of("http://127.0.0.1:9", ["/"], 1)
    assert bad["error"] == "HTTP 500: it is full"
    assert odd["error"] == "not an answer: measures"
    assert gone["error"].startswith("ClientConnectorError: ")
    assert not any("latency_ms" in record for record in (bad, odd, gone))


def test_it_is_asked_from_a_process_of_its_own(tmp_path: Path) -> None:
    notes: list[tuple[str, ...]] = []
    # It ended a while ago: all are due.
    started_ms = int(time.time() * 1000) - 60_000
    load = schedule(20, 5, start_ms=started_ms)
    state: Any = SimpleNamespace(
        schedule=load, folder=tmp_path, note=lambda *said: notes.append(said)
    )
    # Whoever has only a reason for each.
    session: Any = SimpleNamespace(asks=lambda: functools.partial(map, str))
    with asking._under(state, session):
        pass
    assert notes == []
    written = list(run_folder.records(tmp_path / run_folder.ASKED))
    assert [record["kind"] for record in written] == [LAST, HOUR, MEANS]
    assert all(record["why"].startswith("Question(") for record in written)
    # What it died of is an event of the run.
    session.asks = lambda: len
    with asking._under(state, session):
        pass
    assert [what for what, _ in notes] == ["questions ended early"]
    assert re.match(r"\w+Error: ", notes[0][1])


# What it came to


def record(latency_ms: float, found: int = 100, kind: str = LAST) -> dict[str, Any]:
    return {"t": 0.0, "kind": kind, "latency_ms": latency_ms, "found": found, "bytes": 1}


def test_percentiles_with_how_many_answers_and_what_is_in_them() -> None:
    records = [record(float(ms)) for ms in range(100, 0, -1)] + [record(1, 9, kind=HOUR)]
    assert bakeoff_queries.figure(records, LAST) == ("50 ms, 99 ms (100, 100)", 50.0, "")
    records = [record(2, 31, HOUR), record(4, 90, HOUR), record(3, 60, HOUR)]
    assert bakeoff_queries.figure(records, HOUR) == ("3 ms, 4 ms (3, 31 to 90)", 3.0, "")


def test_what_failed_took_longer_than_any_answer() -> None:
    failed = {"t": 0.0, "kind": LAST, "error": "HTTP 500: full"}
    left_out = {"t": 0.0, "kind": LAST, "left_out": True}
    records = [record(5.0), failed, record(1.0), left_out, record(7.0, 0)]
    text, value, why = bakeoff_queries.figure(records, LAST)
    assert (text, value) == ("5 ms, failed (2, 100)", 5.0)
    assert why == (
        "2 of 4 failed: HTTP 500: full; 1 of 5 were due before the last answer came, and left out"
    )
    text, value, _ = bakeoff_queries.figure([record(5.0), failed, failed], LAST)
    assert (text, value) == ("failed, failed (1, 100)", None)


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([{"kind": MEANS, "why": "nobody answers it"}], "nobody answers it"),
        ([record(3.0, 0, MEANS)], "1 of 1 failed: nothing was found"),
        ([], "nothing was asked"),
        ([record(3.0)], "nothing was asked"),
    ],
)
def test_without_an_answer_it_is_not_measured_and_says_why(
    records: list[dict[str, Any]], why: str
) -> None:
    assert bakeoff_queries.figure(records, MEANS) == ("not measured", None, why)
