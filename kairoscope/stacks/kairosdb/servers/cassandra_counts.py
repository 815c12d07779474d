"""How long Cassandra's requests took, by Jolokia's agent in the server: HTTP, in some ms.

Beside a load a nodetool would be a JVM, of four times this program's CPU (docs/limits.md). What is
asked:

- counts since the server's start. nodetool prints percentiles alone, which decay; behind them
  Cassandra keeps a second set of buckets that does not, "to maintain precise deltas in an interval
  of its choice" (DecayingEstimatedHistogramReservoir.java): JMX's `values()`.
- what `nodetool proxyhistograms` asks for, in its form (ProxyHistograms.java; NodeProbe.java,
  getProxyMetric and metricPercentilesAsArray): attributes of the same beans.

A program too, with nothing but Python's own library: run on the storage node, where alone the agent
is reached: `python3 - URL counts` prints JSON, `python3 - URL proxyhistograms` that table.
"""

import json
import sys
import urllib.request
from typing import Any

OPERATIONS = {"read": "Read", "write": "Write"}
"""What is counted, and how Cassandra calls it."""

COLUMNS = {
    "Read": "Read",
    "Write": "Write",
    "Range": "RangeSlice",
    "CAS Read": "CASRead",
    "CAS Write": "CASWrite",
    "View Write": "ViewWrite",
}
"""nodetool's columns, and how Cassandra calls them."""

ROWS = {
    **{f"{p}%": f"{p}thPercentile" for p in (50, 75, 95, 98, 99)},
    "Min": "Min",
    "Max": "Max",
}
"""nodetool's rows, and the attributes that they are; in µs."""

NOTE = "by Jolokia's agent, not by nodetool"
"""What the table says of itself."""

BUCKETS = 127
"""With an end; one more, without, has the rest. LOW_BUCKET_COUNT there, of timers in µs."""

_TIMEOUT_S = 10


def ends_us() -> list[int]:
    """Where each bucket ends, in µs: a fifth more each time, rounded, and another number at least.

    EstimatedHistogram.newOffsets; with the timers' unit of CassandraMetricsRegistry, microseconds.
    """
    ends = [1]
    while len(ends) < BUCKETS:
        ends.append(max(int(ends[-1] * 1.2 + 0.5), ends[-1] + 1))
    return ends


def counts(url: str) -> dict[str, Any]:
    """Counts by operation, where their buckets end (the last: nowhere), and the server's uptime.

    OSError if the agent does not answer, or not with what is known of it.
    """
    beans = {name: _bean(scope) for name, scope in OPERATIONS.items()}
    uptime = {"type": "read", "mbean": "java.lang:type=Runtime", "attribute": "Uptime"}
    asked = [{"type": "exec", "mbean": bean, "operation": "values"} for bean in beans.values()]
    uptime_ms, *counted = _ask(url, [uptime, *asked])
    found: dict[str, Any] = {"uptime_ms": uptime_ms}
    for (name, bean), values in zip(beans.items(), counted, strict=True):
        if len(values or []) != BUCKETS + 1:
            raise OSError(
                f"{bean}: {len(values or [])} buckets, not the {BUCKETS + 1} of Cassandra 5.0"
            )
        found[name] = {"ends_us": [*ends_us(), None], "counts": values}
    return found


def proxyhistograms(url: str) -> str:
    """`nodetool proxyhistograms`, of the same attributes and in the same form.

    OSError if the agent does not answer, or not with what is known of it.
    """
    asked = [
        {"type": "read", "mbean": _bean(scope), "attribute": list(ROWS.values())}
        for scope in COLUMNS.values()
    ]
    told = _ask(url, asked)
    lines = [
        f"proxy histograms, {NOTE}",
        f"{'Percentile':<10}" + "".join(f"{name + ' Latency':>19}" for name in COLUMNS),
        " " * 10 + f"{'(micros)':>19}" * len(COLUMNS),
    ]
    for label, attribute in ROWS.items():
        lines.append(f"{label:<10}" + "".join(f"{float(of[attribute]):>19.2f}" for of in told))
    return "\n".join(lines) + "\n"


def _bean(scope: str) -> str:
    return f"org.apache.cassandra.metrics:name=Latency,scope={scope},type=ClientRequest"


def _ask(url: str, requests: list[dict[str, Any]]) -> list[Any]:
    """The values of several requests, asked at once. OSError if one of them has none."""
    # Whatever proxy the host's environment names is not the way to itself.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, json.dumps(requests).encode(), timeout=_TIMEOUT_S) as answer:
        found = json.load(answer)
    # One that cannot be read at all has one answer.
    for said in found if isinstance(found, list) else [found]:
        if said.get("status") != 200:
            raise OSError(f"{url}: {said.get('error', said)}")
    return [said["value"] for said in found]


if __name__ == "__main__":
    try:
        print(
            proxyhistograms(sys.argv[1])
            if sys.argv[2] == "proxyhistograms"
            else json.dumps(counts(sys.argv[1]))
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        sys.exit(f"Cassandra's latencies: {error}")
