"""The load without the store: can this machine's loaders carry the experiment, to the point?

The sensors send to `loaders.sink`, which counts what reaches it and throws it away. So a loader
that falls behind shows here, before a run that it would make invalid; and the points that the
workers say they sent are held against those that came.
"""

import contextlib
import dataclasses
import tempfile
import threading
import time
from pathlib import Path

from rich.console import Console

from kairoscope.errors import UserError
from kairoscope.plan import Plan
from kairoscope.run import load_spec
from loaders import emulator
from loaders.schedule.due import Schedule
from loaders.schedule.protocols import CQL
from loaders.schedule.spec import LoadSpec
from loaders.sink.process import SinkProcess

# Workers make their first requests before the first one is due.
_START_DELAY_S = 5


def rehearse(plan: Plan, console: Console) -> bool:
    """Run the plan's load against the sink; True if every point arrived and in time.

    All workers run on this machine, those of other loader hosts too; queries are left out.
    """
    nodes = plan.experiment.cluster.kairosdb_nodes
    if plan.load["protocol"] == CQL:
        raise UserError("There is no sink for cql: a rehearsal is of protocols over HTTP or lines")
    with SinkProcess(count=True, http=(0,) * nodes, telnet=(0,) * nodes) as sink:
        start_s = time.time() + _START_DELAY_S
        spec = load_spec.build(plan, sink.urls, sink.telnets, start_s)
        spec = dataclasses.replace(spec, queries=None, replay_queue_points=0)
        console.print(
            f"{plan.experiment.name} over {spec.protocol} to {nodes} sink nodes: "
            f"{spec.sensors:,} sensors, {Schedule(spec).points:,} points, "
            f"{spec.duration_s:,.0f} s, {spec.workers} workers"
        )
        results = _load(spec, console)
        arrived = sink.stats()
    return _tell(plan, spec, results, arrived["points"], console)


def _load(spec: LoadSpec, console: Console) -> list[emulator.WorkerResult]:
    last_line = -10.0

    def show(now: emulator.Progress) -> None:
        nonlocal last_line
        if now.elapsed_s - last_line >= 10:
            last_line = now.elapsed_s
            console.print(
                f"  {now.elapsed_s:4.0f} s  due {now.due:,}  sent {now.sent:,}  "
                f"behind {max(0, now.due - now.sent):,}"
            )

    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="kairoscope-rehearsal-") as folder:
        return emulator.run(spec, Path(folder), show, stop)


def _tell(
    plan: Plan,
    spec: LoadSpec,
    results: list[emulator.WorkerResult],
    arrived: int,
    console: Console,
) -> bool:
    died = [r for r in results if "died" in r]
    if died:
        raise UserError("; ".join(f"worker {r['worker']} died: {r['died']}" for r in died))

    def total(name: str) -> int:
        return sum(r[name] for r in results)

    scheduled, sent, not_sent = total("scheduled"), total("sent"), total("not_sent")
    confirmed = total("acknowledged") if spec.acknowledges else total("unknown")
    word = "acknowledged" if spec.acknowledges else "handed over"
    # A point that is sent again arrives again.
    exact = scheduled == Schedule(spec).points == sent == confirmed and not not_sent
    exact = exact and (arrived == scheduled or (bool(total("retries")) and arrived > scheduled))
    worst_ms = max(r["send_error_us"]["p99"] for r in results) / 1000
    limit_ms = plan.experiment.limits.send_error_p99_ms
    in_time = spec.replay or worst_ms <= limit_ms
    cores = sum(r["cpu_s"] for r in results) / max(
        (r["ended_ms"] - r["started_ms"]) / 1000 for r in results
    )
    console.print(
        f"scheduled {scheduled:,}, sent {sent:,}, {word} {confirmed:,}, not sent {not_sent:,}, "
        f"arrived at the sink {arrived:,}: {'exact' if exact else 'NOT EXACT'}"
    )
    by_node = [sum(r["sent_by_node"][n] for r in results) for n in range(len(spec.nodes))]
    console.print("by node: " + ", ".join(f"{points:,}" for points in by_node))
    count = sum(r["send_error_us"]["count"] for r in results)
    console.print(
        f"send error: p99 of the worst worker {worst_ms:,.1f} ms (limit {limit_ms:,.0f} ms), "
        f"{count:,} points: {'in time' if in_time else 'LATE'}"
    )
    rss = total("max_rss_bytes") / 2**20
    console.print(f"workers: {cores:.2f} cores, {rss:,.0f} MiB")
    with contextlib.suppress(StopIteration):
        console.print("first error: " + next(r["first_errors"][0] for r in results if r["errors"]))
    return exact and in_time
