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
        "events.jsonl for servers that ended, and the log of those that take points for what they "
        "refused",
    ),
    "latency": Advice(
        "of a hundred points one waited longer than the limit for its acknowledgement, from the "
        "time at which it was due",
        "in the report, client latency over time: peaks at regular times are a garbage collector "
        "or a capture, a steady rise is a server with too much to do; then its CPU",
    ),
    "queue": Advice(
        "points are taken faster than they are stored: what waits would fill the servers' disks if "
        "the load went on, however well the sensors are served meanwhile",
        "in the report, queue depth over time, the CPU of the processes that store, and, of "
        "storage nodes, proxyhistograms for how long a write takes there",
    ),
    "drain": Advice(
        "points that were acknowledged still waited after the load; they are where the server "
        "that took them keeps what waits, and not in the store",
        "whether all servers are up (make status), and the log of those that take points for "
        "writes that the store refuses; the queue depth over time in the report",
    ),
    "readback": Advice(
        "points that were acknowledged are not in the store as they were sent, or no query finds "
        "them, or one found them and a later one did not",
        "ledger.json for which equation does not hold, ledger-gaps.jsonl for which series and "
        "times, queries.json for what vanished, and events.jsonl for what ended then",
    ),
}
