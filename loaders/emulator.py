"""Runs workers and readers on this machine, follows their progress, collects their results."""

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaders.credentials import Credentials
from loaders.process import PARENT_VARIABLE, STOP_SIGNALS
from loaders.query import query_files
from loaders.record import files
from loaders.schedule import shard
from loaders.schedule.spec import LoadSpec

START_MARGIN_MS = 3000
"""How far ahead `start_ms` should be, so that all workers are up before the first point is due."""

WorkerResult = dict[str, Any]
"""A worker's final figures, or {"worker": i, "died": how, "last": its last progress record}."""

Records = list[dict[str, Any]]
"""The last progress record of each worker that has written one."""

_SPEC = "spec.json"
_POLL_S = 0.1
_STOP_S = 30.0  # a stopped worker needs two seconds, and some to list what it did not send
_REPORT_S = 1.0
_HANG_REPORTS = 60  # a worker writes a record a second, which is how often we report


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
        p99_ms: worst of the workers' 99th percentiles within the last second. An upper bound of
            the true one, as percentiles cannot be merged.
        elapsed_s: since the start of the schedule, negative before it; of a replay since the call.
        duration_s: length of the schedule.
        p50_ms: worst of their medians, in the same way.
        at_s: mean of the moments that the workers' figures are of, epoch s; 0 before there are any.
    """

    due: int
    sent: int
    acknowledged: int
    rejected: int
    unknown: int
    not_sent: int
    in_flight: int
    p99_ms: float
    elapsed_s: float
    duration_s: float
    p50_ms: float = 0.0
    at_s: float = 0.0


class _Process:
    """One subprocess, a worker or a reader."""

    def __init__(
        self,
        module: str,
        index: int,
        progress: Path,
        result: Path,
        keep_open: Sequence[int],
        credentials: Credentials,
    ) -> None:
        self.index = index
        self._progress_path = progress
        self._result_path = result
        outdir = progress.parent
        self._last: dict[str, Any] | None = None
        self._unchanged = 0
        package_root = str(Path(__file__).resolve().parent.parent)
        search = [package_root, os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, search)),
            PARENT_VARIABLE: str(os.getpid()),
            # numpy's linear algebra, which is not used, would start a thread that spins.
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._popen = subprocess.Popen(
            # -P: a folder named "loaders" where the user happens to be is not ours.
            [sys.executable, "-P", "-m", module, outdir / _SPEC, str(index), outdir],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            pass_fds=keep_open,
        )
        assert self._popen.stdin is not None
        # Broken: it has ended already, and its result says how.
        with contextlib.suppress(BrokenPipeError), self._popen.stdin as stdin:
            stdin.write(credentials.to_json())
        self._last_words: deque[str] = deque(maxlen=1)
        # Read all the time, as a full pipe would halt the worker.
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._popen.stderr is not None
        for line in self._popen.stderr:
            if line.strip():
                self._last_words.append(line.strip())

    def running(self) -> bool:
        return self._popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)  # does nothing if it has ended

    def progress(self) -> dict[str, Any] | None:
        """The last whole progress record, if there is one.

        A worker that has not written any for as many calls as _HANG_REPORTS is killed. Calls and
        not seconds, so that nobody is blamed for time in which all of us were suspended.
        """
        record = self._read()
        if self.running():
            self._unchanged = self._unchanged + 1 if record == self._last else 0
            self._last = record
            if self._hung:
                self.signal(signal.SIGKILL)
        return record

    @property
    def _hung(self) -> bool:
        return self._unchanged >= _HANG_REPORTS

    def _read(self) -> dict[str, Any] | None:
        path = self._progress_path
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            for line in reversed(file.read().split(b"\n")[:-1]):
                with contextlib.suppress(ValueError):
                    record: dict[str, Any] = json.loads(line)
                    return record
        return None

    def result(self) -> WorkerResult:
        """What the ended process left, or {"died": how, "last": …}."""
        status = self._popen.wait()
        self._listener.join(timeout=1)
        with contextlib.suppress(OSError, ValueError):
            result: WorkerResult = json.loads(self._result_path.read_text(encoding="utf-8"))
            return result
        if status < 0:
            try:
                how = f"signal {-status} ({signal.Signals(-status).name})"
            except ValueError:
                how = f"signal {-status}"
        else:
            how = f"exit status {status}"
        if self._hung:
            how = f"killed, as it had not reported for {_HANG_REPORTS * _REPORT_S:g} s"
        if self._last_words:
            how += f": {self._last_words[-1]}"
        return {"died": how, "last": self._read()}


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
    """Run the whole load on this machine, whatever number of loader hosts it is for.

    Args:
        spec: the load; start_ms should be about START_MARGIN_MS ahead.
        outdir: as of `run_hosts`.
        on_progress: called about once a second in the calling thread.
        stop: as of `run_hosts`, and so are errors.

    Returns:
        One result per worker, in order.
    """
    began_s = time.time()

    def report(records: Records) -> None:
        if on_progress:
            on_progress(summed(spec, records, began_s))

    return run_hosts(spec, range(spec.hosts), outdir, report, stop).workers


@dataclass(frozen=True)
class Results:
    """What became of the processes.

    Attributes:
        workers: one per worker, in order: the content of its worker-<i>.json, or
            {"worker": i, "died": "signal 9 (SIGKILL)", "last": …} for one that ended without it.
        readers_died: what each reader died of that ended without its queries-<i>.json.
    """

    workers: list[WorkerResult]
    readers_died: list[str]


def run_hosts(
    spec: LoadSpec,
    hosts: range,
    outdir: Path,
    on_records: Callable[[Records], None],
    stop: threading.Event | None = None,
    keep_open: Sequence[int] = (),
    credentials: Credentials | None = None,
) -> Results:
    """Run the workers and readers of some loader hosts on this machine and wait for their end.

    Args:
        spec: the load.
        hosts: numbers of the loader hosts whose share it is.
        outdir: folder for spec.json and the processes' files, created if need be; files of an
            earlier run in it are replaced.
        on_records: called about once a second in the calling thread, and at the end, with the
            workers' records.
        stop: set it, from another thread or a signal handler, to end the load early: workers
            then settle what is in flight and report as usual.
        keep_open: file descriptors that the processes inherit.
        credentials: for nodes that are reached over HTTPS.

    Returns:
        The results; a death does not stop the others.

    Raises:
        OSError: the folder or the spec cannot be written, or a process cannot be started.
        ValueError: there is no such host.

    No process outlives this call, whatever ends it: an exception (KeyboardInterrupt included)
    stops them and waits for them before it goes on.
    """
    outdir.mkdir(parents=True, exist_ok=True)
    (outdir / _SPEC).write_text(spec.to_json(), encoding="utf-8")
    shares = [shard.host_workers(spec.hosts, spec.workers_per_host, host) for host in hosts]
    numbers = [worker for share in shares for worker in share]
    for worker in numbers:
        files.remove_old(outdir, worker)
    for host in hosts:
        query_files.remove_old(outdir, host)
    stop = stop or threading.Event()
    given = credentials or Credentials()
    workers: list[_Process] = []
    readers: list[_Process] = []
    try:
        # Until all are known: what a Ctrl-C between left out would go on.
        with _blocked(STOP_SIGNALS):
            for worker in numbers:
                paths = files.progress_path(outdir, worker), files.result_path(outdir, worker)
                workers.append(_Process("loaders.send.worker", worker, *paths, keep_open, given))
            for host in hosts if spec.queries else ():
                paths = (
                    query_files.progress_path(outdir, host),
                    query_files.result_path(outdir, host),
                )
                readers.append(_Process("loaders.query.reader", host, *paths, keep_open, given))
        _follow(workers, readers, on_records, stop)
    finally:
        _end([*workers, *readers])
    died = [result["died"] for process in readers if "died" in (result := process.result())]
    return Results([{"worker": p.index, **p.result()} for p in workers], died)


def _follow(
    workers: list[_Process],
    readers: list[_Process],
    on_records: Callable[[Records], None],
    stop: threading.Event,
) -> None:
    """Report until all have ended or a stop was asked for."""
    next_report = time.monotonic()
    while not stop.wait(_POLL_S):
        running = any(process.running() for process in [*workers, *readers])
        if time.monotonic() >= next_report or not running:
            next_report = time.monotonic() + _REPORT_S
            on_records([record for process in workers if (record := process.progress())])
            for process in readers:
                process.progress()  # it may hang
        if not running:
            return


def summed(spec: LoadSpec, records: Iterable[dict[str, Any]], began_s: float) -> Progress:
    """The progress of all workers together.

    Args:
        spec: the load.
        records: the last progress record of each.
        began_s: when they were started, epoch seconds.
    """
    records = list(records)

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
        p99_ms=worst("p99_ms"),
        elapsed_s=time.time() - (began_s if spec.replay else spec.start_ms / 1000),
        duration_s=spec.duration_s,
        p50_ms=worst("p50_ms"),
        at_s=sum(record["t"] for record in records) / len(records) if records else 0.0,
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
