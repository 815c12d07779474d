"""One worker process: sends its sensors' points on schedule and accounts for each of them.

Run as `python -m loaders.worker SPEC.json WORKER_INDEX OUTDIR`.

The loop is open: a request is started when it is due, whether or not earlier ones were answered,
as sensors do not wait for each other either. Latency counts from the planned send time, so time
spent waiting for a stalled server, for a free connection or between attempts is in it, and no
stall can hide by holding up the load.

SIGTERM, SIGINT and the death of the parent process stop it: in-flight requests get two seconds,
and the final file is written.

Exit status: 0 the schedule ended or was stopped, and the final file is written; 2 bad arguments;
3 a file could not be written.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np

from loaders.clock import Clock
from loaders.delivery import Delivery
from loaders.files import FilesError, WorkerFiles
from loaders.protocol import Protocol
from loaders.recorder import Recorder
from loaders.rest import Rest
from loaders.schedule import Group, groups, planned_ms
from loaders.spec import LoadSpec
from loaders.tally import Outcome, Tally

PARENT_VARIABLE = "LOADERS_PARENT_PID"
"""Environment variable with the id of the process whose death ends the worker; if it is not set,
the process that is the parent when the worker starts."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

EXIT_USAGE = 2
EXIT_FILES = 3

_GRACE_S = 2.0
_SECOND_US = 1_000_000


class Worker:
    """The open loop of one worker. Must be created inside a running event loop."""

    def __init__(
        self, spec: LoadSpec, index: int, outdir: Path, protocol: Protocol | None = None
    ) -> None:
        """Prepare everything; nothing is sent before `run`.

        Args:
            spec: the load of all workers.
            index: which worker this is, 0-based.
            outdir: existing folder for its files.
            protocol: how to send; KairosDB's REST API if not given.

        Raises:
            FilesError: a file cannot be created.
            ValueError: there is no such worker.
        """
        self._spec = spec
        self._index = index
        self._groups = groups(spec, index)
        self._phases_ms = np.array([group.phase_ms for group in self._groups], dtype=np.int64)
        self._sizes = np.array([len(group.sensors) for group in self._groups], dtype=np.int64)
        self._scheduled = int(self._sizes.sum()) * spec.ticks
        self._in_time_us = spec.end_ms * 1000 + int(spec.latency_limit_ms * 1000)

        self._clock = Clock()
        self._tally = Tally()
        self._files = WorkerFiles(outdir, index, spec.start_ms)
        self._recorder = Recorder(spec, self._clock.now_us())
        self._protocol = protocol or Rest(spec, self._groups)
        self._delivery = Delivery(spec, self._protocol, self._clock, self._tally)
        self._parent = int(os.environ.get(PARENT_VARIABLE, os.getppid()))

        self._next = 0  # requests taken from the schedule so far, in order of their planned times
        self._requests: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None

    def stop(self) -> None:
        """Start no more requests, and give those in flight two seconds. May be called again."""
        self._stopping.set()

    async def run(self) -> dict[str, Any]:
        """Run the schedule to its end or to `stop`, write all files, return the final figures.

        Raises:
            FilesError: a file could not be written; the load was stopped at once.
        """
        started_ms = self._clock.now_us() // 1000
        cpu_start_s = time.process_time()
        # What exists by now stays: the collector need not walk through it in mid-run.
        gc.freeze()
        sender = self._watched(self._start_requests())
        reporter = self._watched(self._report_every_second())
        try:
            await self._until_stop(sender)
            while self._requests and not self._stopping.is_set():
                await self._until_stop(*self._requests)
            stopped_early = self._stopping.is_set()
            sender.cancel()
            if self._requests and not self._failure:
                await asyncio.wait(self._requests, timeout=_GRACE_S)
        finally:
            # Cancelled requests settle themselves, as stopped.
            rest = [sender, reporter, *self._requests]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await self._protocol.close()
        try:
            if self._failure:
                raise self._failure
            self._give_up_unstarted()
            self._report()
            result = self._result(started_ms, time.process_time() - cpu_start_s, stopped_early)
            self._files.finish(result)
        except BaseException:
            self._files.abandon()
            raise
        return result

    def _watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run in the background; if it fails, the worker stops."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._failure = self._failure or error
            self._stopping.set()

    async def _until_stop(self, *work: asyncio.Task[None]) -> None:
        """Wait until all of `work` is done or a stop was asked for."""
        # asyncio.wait leaves what it waits for alone when it is cancelled; gather would not.
        done: asyncio.Task[object] = asyncio.create_task(asyncio.wait(work))
        stop: asyncio.Task[object] = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({done, stop}, return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        stop.cancel()

    async def _start_requests(self) -> None:
        """Start every request at its planned time; if that is past, at once."""
        count = len(self._groups)
        for number in range(count * self._spec.ticks):
            planned_us = self._planned_us(number)
            # When late, this still yields once: answers must be read while catching up.
            await asyncio.sleep(max(0, planned_us - self._clock.now_us()) / 1e6)
            tick, index = divmod(number, count)
            group = self._groups[index]
            self._next = number + 1
            self._tally.taken += len(group.sensors)
            self._requests.add(self._watched(self._request(group, tick, planned_us)))

    def _planned_us(self, number: int) -> int:
        """Planned send time (epoch µs) of the worker's request of this number."""
        tick, index = divmod(number, len(self._groups))
        return planned_ms(self._spec, self._groups[index], tick) * 1000

    async def _request(self, group: Group, tick: int, planned_us: int) -> None:
        points = len(group.sensors)
        self._recorder.started(tick, max(0, self._clock.now_us() - planned_us), points)
        outcome, reason = await self._delivery.deliver(group, tick, planned_us)
        now_us = self._clock.now_us()
        self._tally.settled[outcome] += points
        acknowledged = outcome is Outcome.ACKNOWLEDGED
        if acknowledged and now_us <= self._in_time_us:
            self._tally.in_time += points
        if outcome is not Outcome.REJECTED:
            # A refusal is no acknowledgement, and a quick one must not look like a fast one.
            self._recorder.ended(tick, now_us - planned_us, points, acknowledged=acknowledged)
        if not acknowledged:
            self._files.outcome(group.index, range(tick, tick + 1), outcome, reason, points)

    def _give_up_unstarted(self) -> None:
        """After a stop, list the rest of the schedule as not sent."""
        ticks = self._spec.ticks
        count = len(self._groups)
        for group in self._groups:
            first = -(-(self._next - group.index) // count)  # ticks of the group started so far
            points = len(group.sensors)
            left = points * (ticks - first)
            self._tally.taken += left
            self._tally.settled[Outcome.NOT_SENT] += left
            self._files.outcome(
                group.index, range(first, ticks), Outcome.NOT_SENT, "stopped", points
            )

    async def _report_every_second(self) -> None:
        start_us = self._spec.start_ms * 1000
        while True:
            # On whole seconds of the schedule, so that the intervals of all workers coincide.
            now_us = self._clock.now_us()
            next_us = start_us + ((now_us - start_us) // _SECOND_US + 1) * _SECOND_US
            await asyncio.sleep((next_us - now_us) / 1e6)
            self._report()
            if os.getppid() != self._parent:
                self.stop()

    def _report(self) -> None:
        now_us = self._clock.now_us()
        backlog_us = 0
        if self._next < len(self._groups) * self._spec.ticks and not self._stopping.is_set():
            backlog_us = now_us - self._planned_us(self._next)
        self._files.progress(
            {
                "t": round(now_us / 1e6, 3),
                "worker": self._index,
                "due": self._due(now_us),
                **self._tally.counters(),
                "in_flight": self._tally.in_flight,
                **self._recorder.flush(self._files, now_us, backlog_us),
            }
        )

    def _due(self, now_us: int) -> int:
        """Points whose planned time has come."""
        since_ms = now_us // 1000 - self._spec.start_ms
        ticks = (since_ms - self._phases_ms) // self._spec.period_ms + 1
        return int((np.clip(ticks, 0, self._spec.ticks) * self._sizes).sum())

    def _result(self, started_ms: int, cpu_s: float, stopped_early: bool) -> dict[str, Any]:
        tally = self._tally
        return {
            "worker": self._index,
            "scheduled": self._scheduled,
            **tally.counters(),
            "acknowledged_in_time": tally.in_time,
            "retries": tally.retries,
            "errors": dict(tally.errors),
            "first_errors": tally.first_errors,
            "send_error_us": self._recorder.send_error_us(),
            "cpu_s": round(cpu_s, 3),
            "max_rss_bytes": _max_rss_bytes(),
            "stopped_early": stopped_early,
            "started_ms": started_ms,
            "ended_ms": self._clock.now_us() // 1000,
        }


def _max_rss_bytes() -> int:
    # On Linux getrusage's figure of a fresh process is that of the process that started it, if
    # that was larger; the kernel's high-water mark of the address space is our own.
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def _run(spec: LoadSpec, index: int, outdir: Path) -> None:
    worker = Worker(spec, index, outdir)
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, worker.stop)
    # Whoever starts a worker may block the signals until here, so that none is lost, or met with
    # a traceback, while Python starts.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        await worker.run()
    finally:
        # A second signal must not spoil the exit status now that all is written.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def main(arguments: list[str]) -> int:
    """Run a worker from command line arguments SPEC.json WORKER_INDEX OUTDIR.

    Returns:
        The exit status; anything but 0 comes with a line on stderr.
    """
    try:
        spec_path, index_text, outdir = arguments
        index = int(index_text)
    except ValueError:
        print("usage: python -m loaders.worker SPEC.json WORKER_INDEX OUTDIR", file=sys.stderr)
        return EXIT_USAGE
    try:
        spec = LoadSpec.from_json(Path(spec_path).read_text(encoding="utf-8"))
        groups(spec, index)
    except (OSError, ValueError) as error:
        print(f"worker {index}: {spec_path}: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        asyncio.run(_run(spec, index, Path(outdir)))
    except FilesError as error:
        print(f"worker {index}: {error}", file=sys.stderr)
        return EXIT_FILES
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
