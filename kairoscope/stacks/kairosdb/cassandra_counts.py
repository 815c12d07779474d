"""How many of Cassandra's reads and writes took how long, counted since the server's start.

nodetool prints percentiles alone, which decay. Behind them Cassandra keeps a second set of buckets
that does not, "to maintain precise deltas in an interval of its choice"
(DecayingEstimatedHistogramReservoir.java): JMX's `values()`. Jolokia's agent in the server gives
it by HTTP, in some ms; a nodetool would be a JVM of seconds, just when the measured time begins.

A program too, with nothing but Python's own library: run on the storage node, where alone the agent
is reached: `python3 - URL`, prints JSON.
"""

import json
import sys
import urllib.request

OPERATIONS = {"read": "Read", "write": "Write"}
"""What is counted, and how Cassandra calls it."""

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


def counts(url: str) -> dict[str, dict[str, list[int | None]]]:
    """Counts by operation, and where their buckets end (the last: nowhere).

    OSError if the agent does not answer, or not with what is known of it.
    """
    found: dict[str, dict[str, list[int | None]]] = {}
    # Whatever proxy the host's environment names is not the way to itself.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for name, scope in OPERATIONS.items():
        bean = f"org.apache.cassandra.metrics:name=Latency,scope={scope},type=ClientRequest"
        with direct.open(f"{url}/exec/{bean}/values", timeout=_TIMEOUT_S) as answer:
            said = json.load(answer)
        if said.get("status") != 200:
            raise OSError(f"{url}: {said.get('error', said)}")
        values = said["value"] or []
        if len(values) != BUCKETS + 1:
            raise OSError(f"{bean}: {len(values)} buckets, not the {BUCKETS + 1} of Cassandra 5.0")
        found[name] = {"ends_us": [*ends_us(), None], "counts": values}
    return found


if __name__ == "__main__":
    try:
        print(json.dumps(counts(sys.argv[1])))
    except (OSError, ValueError, LookupError) as error:
        sys.exit(f"Cassandra's counts: {error}")
