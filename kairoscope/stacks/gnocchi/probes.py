"""What was published of Gnocchi: metrics made, shown and deleted, measures read, and measures taken
by how many there are in a request, each as fast as its API answers a few clients; and how long it
takes until metricd has aggregated what was accepted, of which nothing was published.
"""

import http.client
import itertools
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kairoscope.hosts.inventory import Host
from kairoscope.stacks import asked
from kairoscope.stacks.stack import Probe

CLIENTS = 8
"""As many as the API has threads by default; the published ones had 48 and more."""
METRICS = 500
"""Made, shown and deleted: seconds each on two cores."""
BATCHES = (1, 10, 100, 500, 1_000, 2_000, 3_000, 4_000, 5_000)
"""Measures of one metric in a request, as they were published; those of a load are one of these."""
BATCH_S = 5.0
"""For so long each, some hundred requests of the largest ones."""
_BATCHED = 4 * CLIENTS
"""Metrics that they go to, in turn."""
_READ = 300
_WATCHED = 20
"""Metrics that are given a measure each, and looked at until all of them have it."""
_LOOK_S, _PATIENCE_S, _TIMEOUT_S = 0.05, 60, 60
_DONE = (200, 201, 202, 204)

# Method, path below the API's base, and what is sent as JSON.
_Call = tuple[str, str, Any]


def measure(host: Host, metrics: Mapping[str, str]) -> dict[str, Probe]:
    """All figures by name; `metrics` are the ids of the load's by name, which are read. What is
    made is deleted again. OSError or ValueError if Gnocchi does not answer, or not well."""
    names = [{"name": f"probe-{number}"} for number in range(METRICS)]
    found = {}
    seconds, said = _all(host, [("POST", "/v1/metric", name) for name in names])
    made = [str(json.loads(body)["id"]) for body in said]
    found["created"] = _rate(METRICS, seconds, "metrics")
    seconds, _ = _all(host, [("GET", f"/v1/metric/{id}", None) for id in made])
    found["shown"] = _rate(METRICS, seconds, "metrics")
    read = [("GET", f"/v1/metric/{id}/measures?aggregation=last", None) for id in metrics.values()]
    seconds, said = _all(host, read[:_READ])
    found["read"] = _rate(sum(len(json.loads(body)) for body in said), seconds, "points")
    found["aggregated_after"] = _delay(host, made[:_WATCHED])
    seconds, _ = _all(host, [("DELETE", f"/v1/metric/{id}", None) for id in made])
    found["deleted"] = _rate(METRICS, seconds, "metrics")
    # Last: metricd is at what they have brought.
    return found | _batches(host)


def _rate(count: int, seconds: float, unit: str) -> Probe:
    how = f"{count:,} {unit} by {CLIENTS} clients, as fast as it answers"
    return Probe(count / seconds, f"{unit}/s", how)


def _batches(host: Host) -> dict[str, Probe]:
    """Measures accepted (202: in Redis), by how many are in a request. With its metric goes what is
    not aggregated of it."""
    names = [{"name": f"probe-batch-{number}"} for number in range(_BATCHED)]
    _, said = _all(host, [("POST", "/v1/metric", name) for name in names])
    made = [str(json.loads(body)["id"]) for body in said]
    found = {}
    for size in BATCHES:
        seconds, requests = _accepted(host, made, size)
        how = (
            f"{requests:,} requests of {size:,} measures of one metric each in {seconds:.1f} s by "
            f"{CLIENTS} clients: {requests / seconds:,.1f} requests/s"
        )
        found[f"accepted_{size}"] = Probe(size * requests / seconds, "points/s", how)
    _all(host, [("DELETE", f"/v1/metric/{id}", None) for id in made])
    return found


def _accepted(host: Host, ids: Sequence[str], size: int) -> tuple[float, int]:
    """Seconds until the last answer, and how many requests of so many measures were answered."""
    now = int(time.time())
    body = json.dumps([{"timestamp": now - back, "value": 1} for back in range(size)])
    until = time.monotonic() + BATCH_S

    def client(mine: Sequence[str]) -> int:
        connection, done = _connection(host), 0
        for id in itertools.cycle(mine):
            _answer(connection, "POST", f"/v1/metric/{id}/measures", body)
            done += 1
            if time.monotonic() >= until:
                break
        connection.close()
        return done

    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        done = sum(pool.map(client, [ids[first::CLIENTS] for first in range(CLIENTS)]))
    return time.monotonic() - began, done


def _delay(host: Host, ids: Sequence[str]) -> Probe:
    """How long until metrics have the measure that they were given, all in one request."""
    measures = [{"timestamp": int(time.time()), "value": 1}]
    sent = dict.fromkeys(ids, measures)
    _all(host, [("POST", "/v1/batch/metrics/measures", sent)])
    accepted = time.monotonic()
    after: dict[str, float] = {}
    wanted = {"operations": ["metric", *([id, "last"] for id in ids)]}
    while len(after) < len(ids):
        _, (body,) = _all(host, [("POST", "/v1/aggregates", wanted)])
        now_s = time.monotonic() - accepted
        for id, of in json.loads(body)["measures"].items():
            if of["last"]:
                after.setdefault(id, now_s)
        if now_s > _PATIENCE_S:
            raise ValueError(f"{len(ids) - len(after)} measures were not aggregated in {now_s:g} s")
        time.sleep(_LOOK_S)
    longest = max(after.values())
    how = f"median of {len(ids)} metrics, the longest {longest:.2f} s, when nothing else waited"
    return Probe(statistics.median(after.values()), "s", how)


def _all(host: Host, calls: Sequence[_Call]) -> tuple[float, list[bytes]]:
    """Seconds from the first of these calls to the last's end, and what was answered."""

    def client(mine: Sequence[_Call]) -> list[bytes]:
        connection, answers = _connection(host), []
        for method, path, document in mine:
            body = None if document is None else json.dumps(document)
            answers.append(_answer(connection, method, path, body))
        connection.close()
        return answers

    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        said = list(pool.map(client, [calls[first::CLIENTS] for first in range(CLIENTS)]))
    return time.monotonic() - began, [body for part in said for body in part]


def _connection(host: Host) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(host.address, int(host.vars["http_port"]), timeout=_TIMEOUT_S)


def _answer(
    connection: http.client.HTTPConnection, method: str, path: str, body: str | None
) -> bytes:
    """OSError, with what it says, for one that is no success."""
    with asked.whole():
        connection.request(method, path, body, {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            said = answer.read()
    if answer.status not in _DONE:
        text = said[:300].decode(errors="replace")
        raise OSError(f"{method} {path}: HTTP {answer.status}: {text}")
    return said
