"""What a failed part of the verdict means, and what to look at next: for the screen and the report.

By the part's key in verdict.json.
"""

from typing import NamedTuple


class Advice(NamedTuple):
    """Of a part that failed: what that means, and what to look at next."""

    means: str
    look: str


ADVICE = {
    "schedule": Advice(
        "more points than the limit allows were not taken when they were due: this load is more "
        "than the servers take, some were away for a while, or the run was cut short",
        "in the report, throughput and the CPU of each process: which of them has none left? Then "
        "events.jsonl for servers that ended, and KairosDB's log for what it refused",
    ),
    "latency": Advice(
        "of a hundred points one waited longer than the limit for its acknowledgement, from the "
        "time at which it was due",
        "in the report, client latency over time: peaks at regular times are Java's collector or "
        "a capture, a steady rise is a server with too much to do; then its CPU",
    ),
    "queue": Advice(
        "KairosDB takes points faster than the store does: it would fill its disk if the load went "
        "on, however well the sensors are served meanwhile",
        "in the report, queue depth over time, the CPU of the storage nodes, and proxyhistograms "
        "for how long a write takes there",
    ),
    "drain": Advice(
        "points that were acknowledged still waited in KairosDB after the load; they are on its "
        "disk, and not in the store",
        "whether all storage nodes and KairosDB are up (make status), and KairosDB's log for "
        "writes that the store refuses; the queue depth over time in the report",
    ),
    "readback": Advice(
        "points that were acknowledged are not in the store as they were sent, or no query finds "
        "them, or one found them and a later one did not",
        "ledger.json for which equation does not hold, ledger-gaps.jsonl for which series and "
        "times, queries.json for what vanished, and events.jsonl for what ended then",
    ),
}
