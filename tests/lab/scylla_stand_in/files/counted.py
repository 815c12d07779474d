"""STAND-IN, not ScyllaDB's: what a node with a store behind counts of its requests, in the forms
and by the names of ScyllaDB's. What is no request of a client's is 0."""

import collections
import threading
import time

BATCH = 0x0D
# A bucket is told by where it begins, and the first also has all below: 512 µs, in quarters of a
# doubling, to 33.5 s (approx_exponential_histogram in utils/estimated_histogram.hh, met at 5.2.19).
OFFSETS = [2**n + 2**n * quarter // 4 for n in range(9, 25) for quarter in range(4)] + [2**25]
_lock = threading.Lock()
_shards = collections.Counter()
_open = collections.Counter()
_counts = {"read": [0] * len(OFFSETS), "write": [0] * len(OFFSETS)}
# What a shard keeps (utils/histogram.hh).
_samples = {name: collections.deque(maxlen=1024) for name in _counts}


def connected(shard, by):
    """A connection more (by 1) or less (-1)."""
    with _lock:
        _open[shard] += by


def answered(shard, opcode, seconds):
    """A request that took so long. What is no batch counts as read, as all that KairosDB stores
    comes in batches."""
    us = seconds * 1e6
    name = "write" if opcode == BATCH else "read"
    with _lock:
        _shards[shard] += 1
        _counts[name][max(sum(offset <= us for offset in OFFSETS) - 1, 0)] += 1
        _samples[name].append(round(us))


def histogram(name, kind):
    """GET /storage_proxy/metrics/{name}/{kind} (api/storage_proxy.cc, 2026.1.11)."""
    with _lock:
        if kind == "estimated_histogram":
            counts = _counts.get(name, [0] * len(OFFSETS))
            return {"bucket_offsets": OFFSETS, "buckets": list(counts)}
        return {"hist": {"sample": list(_samples.get(name, []))}}


def metrics(version, shards):
    """What Prometheus is told: the release (main.cc at f4a4091), and per shard what a run looks at,
    where it is in ScyllaDB's source: kairoscope/stacks/kairosdb/scylla/metrics.py."""
    lines = [f'scylla_scylladb_current_version{{version="{version}"}} 0']
    with _lock:
        of_shards = {
            "reactor_cpu_busy_ms": lambda shard: int(time.process_time() * 1000 / shards),
            "transport_requests_served": lambda shard: _shards[shard],
            "transport_current_connections": lambda shard: _open[shard],
            "database_total_writes": lambda shard: sum(_counts["write"]) // shards,
        }
        for name in (
            *("reactor_cpu_steal_time_ms", "transport_requests_shed"),
            *("storage_proxy_coordinator_background_writes", "database_requests_blocked_memory"),
            *("commitlog_requests_blocked_memory", "commitlog_pending_allocations"),
            *("commitlog_cycle", "commitlog_bytes_written"),
        ):
            of_shards[name] = lambda shard: 0
        for name, value in of_shards.items():
            lines += [f'scylla_{name}{{shard="{s}"}} {value(s)}' for s in range(shards)]
        for name, counts in _counts.items():
            lines.append(f"scylla_storage_proxy_coordinator_{name}_latency_count {sum(counts)}")
    return "\n".join(lines) + "\n"
