"""What can be said of a run while it goes on, in the shape of what its verdict will be.

Nothing passes before its end: a part is within its limit so far, or over it, or not to be told yet.
As long as the loaders' own files are on their hosts it goes by what the run was told of them second
by second (progress.jsonl); then by the verdict's own judgement of the folder as it is.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from kairoscope import live, run_folder
from kairoscope.errors import UserError
from kairoscope.report.data import GOING_ON, RunData
from kairoscope.run_folder import Record
from kairoscope.serve.seen import NOT_YET, OUTCOMES, Document, Seen, waiting
from kairoscope.serve.tails import Tails
from kairoscope.verdict import conclude, inputs, queue
from kairoscope.verdict.inputs import Inputs

_STAGES = {
    "before": "Before the load: captures of the store",
    "backlog": "Waiting for what an earlier load left in the queues",
    "starting": "The load begins",
    "load": "Load",
    "kill": "All servers are killed; until they serve again",
    "drain": "The load has ended; the queue drains",
    "after": "After the load: captures of the store",
    "read-back": "Every point is read back",
    "judging": "Judging, and drawing the report",
}


_UNREADABLE = (UserError, OSError, LookupError, TypeError, ValueError, AttributeError)


class Standing:
    """Of one run folder; remembers what was costly to find out."""

    def __init__(self, folder: Path, tails: Tails) -> None:
        self._folder = folder
        self._tails = tails
        self._judged: tuple[object, conclude.Conclusion | None] = (None, None)

    def of(self, run: RunData) -> RunData:
        """The run as read, with what stands in for its results; `missing` is still to come."""
        verdict: Document = {
            "verdict": GOING_ON,
            "summary": told(run.looks, time.time(), run.acknowledges),
            "parts": {},
        }
        run = replace(run, missing=(), verdict=verdict)
        try:
            return self._with_parts(run, inputs.read(self._folder))
        except _UNREADABLE:
            # It is being written; or by another version, which the end of the run will tell.
            return run

    def _with_parts(self, run: RunData, known: Inputs) -> RunData:
        if known.schedule is None:
            return run
        spec = known.schedule.spec
        depths = queue.looks(self._tails.records(self._folder / run_folder.QUEUE), known.kairosdb)
        if len(run_folder.worker_results(self._folder)) == spec.workers:
            judged = self._judgement()
            if judged is not None:
                return _with_judgement(run, judged, waiting(depths))
        looks = [look for look in run.looks if look.get("stage") == "load"]
        if not looks:
            return run
        seen = Seen(spec, known, looks)
        processes = self._tails.records(self._folder / run_folder.PROCESSES)
        parts = {
            "schedule": seen.schedule(),
            "latency": seen.latency(),
            "queue": seen.grown(depths, processes),
            "drain": seen.drain(depths),
            "readback": seen.readback(),
        }
        for name, why in known.expected.not_judged.items():
            parts[name] = replace(parts[name], figure=None, outcome="not judged", text=why)
        summary = " ".join([run.verdict["summary"], *seen.not_ours(processes)])
        told_parts = {name: asdict(part) for name, part in parts.items()}
        return replace(
            run,
            verdict=run.verdict | {"summary": summary, "parts": told_parts},
            latency=seen.latencies(),
            measurements=seen.measured(processes),
        )

    def _judgement(self) -> conclude.Conclusion | None:
        """The verdict on the folder as it is; None if there can be none yet.

        Takes as long as that at the end of a run: made anew only when the run has come further.
        """
        facts, read_back = (self._folder / n for n in (run_folder.FACTS, run_folder.READBACK))
        state = (facts.stat().st_mtime_ns, read_back.exists() and read_back.stat().st_mtime_ns)
        if self._judged[0] != state:
            judged = None
            with contextlib.suppress(*_UNREADABLE):
                judged = conclude.judge(self._folder)
            self._judged = (state, judged)
        return self._judged[1]


def _with_judgement(run: RunData, judged: conclude.Conclusion, depth: str) -> RunData:
    """The run with its figures by the verdict's own arithmetic, and with its parts so far."""
    parts = {name: asdict(part) for name, part in judged.verdict.parts.items()}
    coming = {"drain": depth, "readback": "not read back yet"}
    for name, part in parts.items():
        part["outcome"] = OUTCOMES.get(part["outcome"], NOT_YET)
        if name in coming and part["outcome"] == NOT_YET:
            part["text"] = coming[name]
    documents = judged.documents
    return replace(
        run,
        verdict=run.verdict | {"parts": parts},
        latency=documents.get(run_folder.LATENCY_MERGED, {}),
        measurements=documents.get(run_folder.MEASUREMENTS, {}),
        queries=documents.get(run_folder.QUERIES, {}),
    )


def told(looks: Sequence[Record], now: float, acknowledges: bool = True) -> str:
    """In a sentence how far the run is; `now` in epoch s."""
    if not looks:
        return "The run begins."
    last = looks[-1]
    stage = str(last.get("stage"))
    since = next((look for look in reversed(looks) if look.get("stage") != stage), None)
    began = looks[0] if since is None else looks[looks.index(since) + 1]
    words = _STAGES.get(stage, stage)
    if stage == "load" and "due" in last:
        return f"{words}: {_load(last, acknowledges)}."
    said = [words]
    if isinstance(waiting := last.get("waiting"), int):
        said.append(f"{waiting:,} points wait")
    if isinstance(t := began.get("t"), int | float) and now - t >= 1:
        said.append(f"for {live.duration(now - t)} so far")
    return ", ".join(said) + "."


def _load(last: Record, acknowledges: bool) -> str:
    duration_s, elapsed_s = float(last["duration_s"]), max(0.0, float(last["elapsed_s"]))
    left_s = duration_s - elapsed_s
    left = f"{live.duration(left_s)} left of {live.duration(duration_s)}"
    if left_s <= 0:
        left = f"its {live.duration(duration_s)} are over, what is under way ends"
    arrived = last["acknowledged"] if acknowledges else last["sent"]
    how = "acknowledged" if acknowledges else "handed to the socket"
    behind = max(0, last["due"] - last["sent"])
    waiting = last.get("waiting")
    depth = "not told" if waiting is None else f"{waiting:,} points"
    return (
        f"{left}; {last['due']:,} points scheduled, {arrived:,} {how}, {behind:,} behind; "
        f"p50 {last['p50_ms']:,.0f} ms, p99 {last['p99_ms']:,.0f} ms; queue {depth}"
    )
