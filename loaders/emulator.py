"""Runs all workers of one loader host, follows their progress and collects their results."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaders import files
from loaders.spec import LoadSpec
from loaders.worker import PARENT_VARIABLE, STOP_SIGNALS

START_MARGIN_MS = 3000
"""How far ahead `start_ms` should be, so that all workers are up before the first point is due."""

WorkerResult = dict[str, Any]
"""A worker's final figures, or {"worker": i, "died": how, "last": its last progress record}."""

_POLL_S = 0.1
_STOP_S = 30.0  # a stopped worker needs two seconds, and some to list what it did not send
_HANG_S = 60.0  # beyond the latest moment at which a worker can have work left


@dataclass(frozen=True)
class Progress:
    """All workers together; points are cumulative.

    Attributes:
        due: points whose planned time has come.
        sent: points that may have reached a server.
        acknowledged: points that were acknowledged.
        rejected: points that were refused.
        unknown: points given up that may have been stored.
        not_sent: points given up that cannot have reached a server.
        in_flight: points under way, those waiting for a connection included.
        behind_ms: worst lateness of a worker's loop within the last second.
        p99_ms: worst of the workers' 99th percentiles within the last second. An upper bound of
            the true one, as percentiles cannot be merged.
        elapsed_s: since the start of the schedule; negative before it.
        duration_s: length of the schedule.
    """

    due: int
    sent: int
    acknowledged: int
    rejected: int
    unknown: int
    not_sent: int
    in_flight: int
    behind_ms: float
    p99_ms: float
    elapsed_s: float
    duration_s: float


class _Process:
    """One worker subprocess."""

    def __init__(self, spec_path: Path, index: int, outdir: Path) -> None:
        self.index = index
        self._outdir = outdir
        package_root = str(Path(__file__).resolve().parent.parent)
        search = [package_root, os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, search)),
            PARENT_VARIABLE: str(os.getpid()),
        }
        with _blocked(STOP_SIGNALS):
            self._popen = subprocess.Popen(
                # -P: a folder named "loaders" where the user happens to be is not ours.
                [sys.executable, "-P", "-m", "loaders.worker", spec_path, str(index), outdir],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=environment,
            )
        self._last_words: deque[str] = deque(maxlen=1)
        # Read all the time, as a full pipe would halt the worker.
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._popen.stderr is not None  # noqa: S101 - for the type checker
        for line in self._popen.stderr:
            if line.strip():
                self._last_words.append(line.strip())

    def running(self) -> bool:
        return self._popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)  # does nothing if it has ended

    def progress(self) -> dict[str, Any] | None:
        """The last whole progress record, if there is one."""
        path = files.progress_path(self._outdir, self.index)
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            for line in reversed(file.read().split(b"\n")[:-1]):
                with contextlib.suppress(ValueError):
                    record: dict[str, Any] = json.loads(line)
                    return record
        return None

    def result(self) -> WorkerResult:
        """What the ended worker left."""
        status = self._popen.wait()
        self._listener.join(timeout=1)
        with contextlib.suppress(OSError, ValueError):
            text = files.result_path(self._outdir, self.index).read_text(encoding="utf-8")
            result: WorkerResult = json.loads(text)
            return result
        if status < 0:
            try:
                how = f"signal {-status} ({signal.Signals(-status).name})"
            except ValueError:
                how = f"signal {-status}"
        else:
            how = f"exit status {status}"
        if self._last_words:
            how += f": {self._last_words[-1]}"
        return {"worker": self.index, "died": how, "last": self.progress()}


@contextlib.contextmanager
def _blocked(signals: tuple[signal.Signals, ...]) -> Iterator[None]:
    """Block signals in this thread and in processes it starts, which unblock them when ready."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(
    spec: LoadSpec,
    outdir: Path,
    on_progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> list[WorkerResult]:
    """Run the whole load on this machine and wait for its end.

    Args:
        spec: the load; start_ms should be about START_MARGIN_MS ahead.
        outdir: folder for spec.json and the workers' files, created if need be; files of an
            earlier run in it are replaced.
        on_progress: called about once a second in the calling thread.
        stop: set it, from another thread or a signal handler, to end the load early: workers
            then settle what is in flight and report as usual.

    Returns:
        One result per worker, in order: the content of its worker-<i>.json, or
        {"worker": i, "died": "signal 9 (SIGKILL)", "last": …} for one that ended without it.
        A death does not stop the other workers.

    Raises:
        OSError: the folder or the spec cannot be written, or a process cannot be started.

    No worker outlives this call, whatever ends it: an exception (KeyboardInterrupt included)
    stops them and waits for them before it goes on.
    """
    outdir.mkdir(parents=True, exist_ok=True)
    spec_path = outdir / "spec.json"
    spec_path.write_text(spec.to_json(), encoding="utf-8")
    for index in range(spec.workers):
        files.remove_old(outdir, index)
    stop = stop or threading.Event()
    processes: list[_Process] = []
    try:
        for index in range(spec.workers):
            processes.append(_Process(spec_path, index, outdir))
        _follow(spec, processes, on_progress, stop)
    finally:
        _end(processes)
    return [process.result() for process in processes]


def _follow(
    spec: LoadSpec,
    processes: list[_Process],
    on_progress: Callable[[Progress], None] | None,
    stop: threading.Event,
) -> None:
    """Report until all workers have ended, a stop was asked for, or one hangs."""
    patience_s = max(spec.retry_for_s, spec.request_timeout_s) + spec.request_timeout_s
    start_in_s = max(0.0, spec.start_ms / 1000 - time.time())
    hung_at = time.monotonic() + start_in_s + spec.duration_s + patience_s + _HANG_S
    next_report = time.monotonic()
    while not stop.wait(_POLL_S) and time.monotonic() < hung_at:
        running = any(process.running() for process in processes)
        if on_progress and (time.monotonic() >= next_report or not running):
            next_report += 1
            on_progress(_progress(spec, processes))
        if not running:
            return


def _progress(spec: LoadSpec, processes: list[_Process]) -> Progress:
    records = [record for process in processes if (record := process.progress())]

    def total(name: str) -> int:
        return sum(record[name] for record in records)

    def worst(name: str) -> float:
        return max((record[name] for record in records), default=0.0)

    return Progress(
        due=total("due"),
        sent=total("sent"),
        acknowledged=total("acknowledged"),
        rejected=total("rejected"),
        unknown=total("unknown"),
        not_sent=total("not_sent"),
        in_flight=total("in_flight"),
        behind_ms=worst("behind_ms"),
        p99_ms=worst("p99_ms"),
        elapsed_s=time.time() - spec.start_ms / 1000,
        duration_s=spec.duration_s,
    )


def _end(processes: list[_Process]) -> None:
    """Stop what still runs, gently first; another Ctrl-C waits until that is done."""
    interrupt: KeyboardInterrupt | None = None
    for process in processes:
        process.signal(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_S
    while any(process.running() for process in processes) and time.monotonic() < deadline:
        try:
            time.sleep(_POLL_S)
        except KeyboardInterrupt as error:
            interrupt = error
    for process in processes:
        process.signal(signal.SIGKILL)
    if interrupt:
        raise interrupt
