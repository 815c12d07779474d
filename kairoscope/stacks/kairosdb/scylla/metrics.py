"""Runs on a storage host during a load: what each shard of its ScyllaDB does, in counters.

A shard is one thread with a core, memory and data of its own, so a node can be full while most of
its cores are idle; only the node itself can say so. It does on its Prometheus endpoint, whose names
are the same from 5.2.19 to the development line of August 2026 (read in the sources named below).

Sent to the host as text and run by its own Python, so standard library only (and no parser of
Prometheus' format, of which this is the part that is needed). Prints one JSON object a line every
`every_s` seconds until its output is closed.

Argument: {"url": of the endpoint, "every_s": seconds}.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import sys
import time
import urllib.request
from typing import Any

PER_SHARD = {
    # Time that the reactor was not idle. The gauge reactor_utilization is the same as a mean of the
    # last five seconds (seastar, src/core/reactor.cc: total_busy_time, _loads): what happens
    # between two looks at that is lost, the difference of a counter is exact over any time. Idle is
    # when there is nothing to do, polling for it or asleep: unlike the CPU time of the process,
    # which polls.
    "busy_ms": ("reactor_cpu_busy_ms",),
    # Of the time that it was not asleep, what the kernel did not give it (total_steal_time): on a
    # core that it shares, a part of busy_ms. An estimate, which may go back a little.
    "stolen_ms": ("reactor_cpu_steal_time_ms",),
    # CQL requests that came in over this shard's connections, counted when each was read whole
    # (transport/server.cc). A batch is one.
    "requests": ("transport_requests_served",),
    "requests_shed": ("transport_requests_shed",),
    "connections": ("transport_current_connections",),
    # Writes that this shard did as a replica, its own tables' included: a partition of a batch each
    # (replica/database.cc).
    "replica_writes": ("database_total_writes",),
    # Writes that this shard sent to replicas as coordinator: one for each replica, and not for each
    # request (service/storage_proxy.cc, split_stats). "Remote" is left out until there is one.
    "writes_sent": (
        "storage_proxy_coordinator_total_write_attempts_local_node",
        "storage_proxy_coordinator_total_write_attempts_remote_node",
    ),
    # Answered already, and not done by all replicas yet (service/storage_proxy.cc).
    "background_writes": ("storage_proxy_coordinator_background_writes",),
    # Writes that ever waited for memory of memtables (replica/database.cc), or of the commit log's
    # buffers, and that wait for the commit log now (db/commitlog/commitlog.cc).
    "blocked_by_memtables": ("database_requests_blocked_memory",),
    "blocked_by_commitlog": ("commitlog_requests_blocked_memory",),
    "commitlog_waiting": ("commitlog_pending_allocations",),
    # What the commit log costs the disk: buffers written, each of which waits until it is there for
    # good (commitlog_use_o_dsync, the default), and their bytes (db/commitlog/commitlog.cc).
    "commitlog_writes": ("commitlog_cycle",),
    "commitlog_bytes": ("commitlog_bytes_written",),
}
"""Key of a record, and the metrics that it sums: over all labels but the shard."""

NEEDED = ("busy_ms", "requests", "connections", "replica_writes")
"""Without these a look is none. What else a release does not have is null."""

ZERO_IF_ABSENT = ("writes_sent",)
"""Not in the answer before there is one (set_skip_when_empty)."""

PER_NODE = {
    # One for each request, of all shards together: ScyllaDB adds these up itself (.aggregate).
    "coordinator_writes": "storage_proxy_coordinator_write_latency_count",
    "coordinator_reads": "storage_proxy_coordinator_read_latency_count",
}
"""The same of the whole node; not in the answer before there is one."""

PREFIX = "scylla_"

# Longer than a busy node takes to answer; one that is frozen does not for as long as it is.
_TIMEOUT_S = 10

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")
_LABEL = re.compile(r'[ \t]*([A-Za-z_][A-Za-z0-9_]*)="((?:\\.|[^"\\])*)"[ \t]*(?:,|$)')

_KEYS = {PREFIX + name: key for key, names in PER_SHARD.items() for name in names}
_KEYS |= {PREFIX + name: key for key, name in PER_NODE.items()}


def labels_of(text: str) -> dict[str, str]:
    """Labels of a sample, as they are written. ValueError if they are none."""
    found, at = {}, 0
    while at < len(text):
        label = _LABEL.match(text, at)
        if label is None:
            raise ValueError(f"not labels: {text!r}")
        found[label[1]] = label[2]
        at = label.end()
    return found


def parse(text: str) -> dict[str, Any]:
    """One look at a node, out of its metrics in Prometheus' text format.

    `shards`: how many; a list by shard of each of PER_SHARD, a number of each of PER_NODE. Counters
    are since the server's start.

    ValueError if a line of these is not in that format, or what is needed is not there.
    """
    sums: dict[str, dict[int, float]] = {key: {} for key in PER_SHARD}
    node: dict[str, float] = dict.fromkeys(PER_NODE, 0)
    for line in text.splitlines():
        key = _KEYS.get(re.split(r"[{ \t]", line, maxsplit=1)[0])
        if key is None:
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            raise ValueError(f"not a sample: {line!r}")
        value = float(sample[3])
        if not math.isfinite(value):
            raise ValueError(f"not a count: {line!r}")
        if key in node:
            node[key] += value
            continue
        shard = labels_of(sample[2] or "").get("shard", "")
        if not shard.isdigit():
            raise ValueError(f"of no shard: {line!r}")
        sums[key][int(shard)] = sums[key].get(int(shard), 0) + value
    shards = sorted(sums["busy_ms"])
    for key in NEEDED:
        if not shards or sorted(sums[key]) != shards:
            names = " and ".join(PREFIX + name for name in PER_SHARD[key])
            raise ValueError(f"no {names} of {'any' if not sums[key] else 'every'} shard")
    found: dict[str, Any] = {"shards": len(shards)}
    for key, by_shard in sums.items():
        absent = 0 if key in ZERO_IF_ABSENT else None
        found[key] = [_whole(by_shard.get(shard, absent)) for shard in shards]
    return found | {key: _whole(value) for key, value in node.items()}


def _whole(value: float | None) -> float | None:
    """Counts as people write them."""
    return int(value) if value is not None and value == int(value) else value


def look(url: str) -> dict[str, Any]:
    """A look at the node now: `t` (epoch s), and what `parse` says or the `error`."""
    # Whatever proxy the host's environment names is not the way to itself.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    t = time.time()
    try:
        # Half of the answer would be descriptions (seastar, src/core/prometheus.cc).
        with direct.open(f"{url}?__help__=false", timeout=_TIMEOUT_S) as answer:
            text = answer.read().decode()
        return {"t": t, **parse(text)}
    except (OSError, ValueError, http.client.HTTPException) as error:
        return {"t": t, "error": f"{url}: {error or type(error).__name__}"}


def main(options: dict[str, Any]) -> None:
    """Look on a fixed grid until nobody reads; a look that takes too long skips steps."""
    every_s = options["every_s"]
    start = time.monotonic()
    while True:
        print(json.dumps(look(options["url"])), flush=True)
        time.sleep(every_s - (time.monotonic() - start) % every_s)


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):
        # Nobody reads any more; the interpreter's own flush at its end would complain again.
        os._exit(0)
