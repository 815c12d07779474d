"""One worker process: sends its sensors' points on schedule and accounts for each of them.

Run as `python -m loaders.send.worker SPEC.json WORKER_INDEX OUTDIR`.

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
import resource
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from loaders import process
from loaders.credentials import Credentials
from loaders.record.files import NODE_DOWN, WorkerFiles
from loaders.record.recorder import Recorder
from loaders.record.silence import Silences
from loaders.record.tally import Outcome, Tally
from loaders.schedule import cut, follow, shard
from loaders.schedule.clock import Clock
from loaders.schedule.due import Group, Request, Schedule
from loaders.schedule.protocols import CQL, LINE, MEASURES, ONE_WAY, REMOTE_WRITE
from loaders.schedule.spec import LoadSpec
from loaders.send.carbon import Carbon
from loaders.send.delivery import Delivery
from loaders.send.failover import Event, Failover
from loaders.send.line import Line
from loaders.send.measures import Measures
from loaders.send.protocol import Batch, Protocol
from loaders.send.remote_write import RemoteWrite
from loaders.send.rest import Rest
from loaders.send.telnet import Telnet
from loaders.send.throttle import Throttle

_GRACE_S = 2.0
# Requests of many groups are due every millisecond or less. Waking for each would cost more than
# sending it; what is due within one sleep is sent together, and is late by less than this.
_SHORTEST_SLEEP_US = 4_000
# After so long a sleep looks whether the schedule was cut.
_LONGEST_SLEEP_US = 1_000_000
_AT_ONCE = 8
# Open files beside the connections: its own, probes, what Python has.
_OTHER_FILES = 64


class Worker:
    """The open loop of one worker. Must be created inside a running event loop."""

    def __init__(
        self,
        spec: LoadSpec,
        index: int,
        outdir: Path,
        protocol: Protocol | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """Prepare everything; nothing is sent before `run`.

        Args:
            spec: the load of all workers.
            index: which worker this is, 0-based.
            outdir: existing folder for its files.
            protocol: how to send; what the spec says if not given.
            credentials: for nodes that are reached over HTTPS.

        Raises:
            FilesError: a file cannot be created.
            ValueError: there is no such worker.
        """
        self._spec = spec
        self._index = index
        self._schedule = Schedule(spec)
        self._groups = self._schedule.groups(index)
        self._scheduled = sum(map(self._schedule.points_of, self._groups))
        self._limit_us = int(spec.latency_limit_ms * 1000)
        self._outdir = outdir

        self._clock = Clock()
        warm_ms = self._schedule.timestamp_ms(0, spec.warmup_ticks)
        self._tally = Tally(silences=Silences(warm_ms * 1000))
        places = set(follow.places(spec, index // spec.workers_per_host))
        self._followed = {g.index for g in self._groups if not places.isdisjoint(g.slots.tolist())}
        self._files = WorkerFiles(outdir, index, spec.start_ms, follows=bool(self._followed))
        self._recorder = Recorder(spec, self._clock.now_us())
        self._protocol = protocol or _protocol(self._schedule, self._groups, credentials)
        self._failover = Failover(
            len(spec.nodes),
            spec.failover_after_s,
            self._clock,
            self._protocol.probe,
            self._failover_event,
            self._protocol.healthy,
        )
        self._delivery = Delivery(spec, self._protocol, self._failover, self._clock, self._tally)
        self._failovers = 0

        self._due_us: int | None = None  # of the request that is to be started next
        self._begun = [group.first_tick for group in self._groups]  # the next tick of each group
        self._requests: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        # Without a pace only what is under way bounds a replay.
        self._room = asyncio.Semaphore(spec.connections_per_node * len(spec.nodes))
        most_points = spec.replay_queue_points if spec.replay else 0
        self._throttle = Throttle(spec.nodes, most_points, credentials)

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
        sender = self._watched(self._replay() if self._spec.replay else self._pace())
        helpers = [
            self._watched(
                process.every_second(self._clock, self._spec.start_ms, self._report, self.stop)
            ),
            self._watched(self._failover.watch()),
            self._watched(self._throttle.watch()),
        ]
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
            rest = [sender, *helpers, *self._requests]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            if problem := await self._protocol.close():
                self._tally.error("close", problem)
        try:
            if self._failure:
                raise self._failure
            self._look_for_cut()
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
        if not task.cancelled() and (error := task.exception()):
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
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

    def _look_for_cut(self) -> None:
        """End the schedule earlier, if somebody wants that by now.

        Raises:
            TooLateError: what is beyond that end has begun.
        """
        ticks = cut.read(self._outdir)
        if ticks is None or ticks >= self._spec.ticks:
            return
        if (begun := max(self._begun, default=0)) > ticks:
            raise cut.TooLateError(f"told at tick {begun} to end before tick {ticks}")
        # The groups and what is sent before that are the same.
        self._spec = self._spec.cut_to(ticks)
        self._schedule = Schedule(self._spec)
        self._scheduled = sum(map(self._schedule.points_of, self._groups))

    async def _pace(self) -> None:
        """Start every request at its planned time; if that is past, at once."""
        late = 0
        for request in self._schedule.requests(self._index):
            if self._is_cut_off(request):
                # With jitter others before the end may still be due.
                if request.planned_us >= (self._spec.end_ms + self._spec.jitter_ms) * 1000:
                    break
                continue
            self._due_us = request.planned_us
            wait_us = request.planned_us - self._clock.now_us()
            while wait_us > _LONGEST_SLEEP_US and not self._is_cut_off(request):
                await asyncio.sleep(_LONGEST_SLEEP_US / 1e6)
                wait_us = request.planned_us - self._clock.now_us()
            if self._is_cut_off(request):
                continue
            if wait_us > 0:
                late = 0
                await asyncio.sleep(max(wait_us, _SHORTEST_SLEEP_US) / 1e6)
            else:
                late += 1
                if late % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # answers must be read while catching up
            if not self._is_cut_off(request):
                self._start(request, request.planned_us)
        self._due_us = None

    def _is_cut_off(self, request: Request) -> bool:
        """Whether the schedule ends before it by now."""
        return request.first >= self._spec.ticks

    async def _replay(self) -> None:
        """Start every request as soon as there is room."""
        for request in self._schedule.requests(self._index):
            await self._throttle.open.wait()
            await self._room.acquire()
            self._start(request, self._clock.now_us())

    def _start(self, request: Request, planned_us: int) -> None:
        self._due_us = None
        self._begun[request.group] = request.first + request.ticks
        batch = Batch(self._groups[request.group], request.first, request.ticks)
        self._tally.taken += batch.points
        self._requests.add(asyncio.create_task(self._request(batch, planned_us)))

    async def _request(self, batch: Batch, planned_us: int) -> None:
        try:
            await self._settle(batch, planned_us)
        except Exception as error:
            self._fail(error)
        finally:
            if self._spec.replay:
                self._room.release()
            # A callback of the task's would cost another round of the loop.
            if task := asyncio.current_task():
                self._requests.discard(task)

    async def _settle(self, batch: Batch, planned_us: int) -> None:
        """Bring a request to its outcome, and account for it."""
        points = batch.points
        self._recorder.started(batch.last, max(0, self._clock.now_us() - planned_us), points)
        ending = await self._delivery.deliver(batch, planned_us)
        latency_us = ending.at_us - planned_us
        self._tally.settled[ending.outcome] += points
        arrived, measured = ending.arrived, batch.last >= self._spec.warmup_ticks
        if arrived:
            self._tally.arrived_us = ending.at_us
        if arrived and measured and latency_us <= self._limit_us:
            self._tally.in_time_by_step[self._schedule.step_of(batch.last)] += points
        if not arrived and ending.refused:
            # No acknowledgement, and a quick one must not look like a fast one.
            self._tally.untimed += points
        else:
            self._recorder.ended(batch.last, latency_us, points, done=arrived, node=ending.node)
            self._recorder.parts(batch.last, ending.wait_us, ending.service_us, points)
        ticks = range(batch.first, batch.first + batch.count)
        if batch.group.index in self._followed and ending.outcome is Outcome.ACKNOWLEDGED:
            self._files.followed(batch.group.index, ticks, ending.at_us)
        if not arrived:
            self._files.outcome(batch.group.index, ticks, ending.outcome, ending.reason, points)

    def _give_up_unstarted(self) -> None:
        """After a stop, list the rest of the schedule as not sent."""
        for group, begun in zip(self._groups, self._begun, strict=True):
            left = range(begun, self._spec.ticks)
            if left:
                points = len(group.slots) * len(left)
                self._tally.taken += points
                self._tally.settled[Outcome.NOT_SENT] += points
                self._tally.untimed += points
                self._files.outcome(group.index, left, Outcome.NOT_SENT, "stopped", points)

    def _failover_event(self, event: Event) -> None:
        if event.event == NODE_DOWN:
            self._failovers += 1
            self._delivery.node_went_down(event.node)
        self._files.event(
            {
                "t": round(event.t_us / 1e6, 3),
                "event": event.event,
                "node": event.node,
                "detail": event.detail,
            }
        )

    def _report(self) -> None:
        self._look_for_cut()
        now_us = self._clock.now_us()
        overdue_us = now_us - self._due_us if self._due_us and not self._stopping.is_set() else 0
        due = self._tally.taken
        if not self._spec.replay:
            due = max(due, self._schedule.due(self._index, now_us // 1000))
        self._files.progress(
            {
                "t": round(now_us / 1e6, 3),
                "worker": self._index,
                "due": due,
                **self._tally.counters(),
                "in_flight": self._tally.in_flight,
                **self._recorder.flush(self._files, now_us, overdue_us),
            }
        )

    def _result(self, started_ms: int, cpu_s: float, stopped_early: bool) -> dict[str, Any]:
        tally = self._tally
        nodes = range(len(self._spec.nodes))
        return {
            "worker": self._index,
            "host": self._index // self._spec.workers_per_host,
            "scheduled": self._scheduled,
            **tally.counters(),
            "in_time_by_step": [
                tally.in_time_by_step[step] for step in range(len(self._spec.steps))
            ],
            "untimed": tally.untimed,
            "sent_by_node": [tally.sent_by_node[node] for node in nodes],
            "acknowledged_by_node": [tally.acknowledged_by_node[node] for node in nodes],
            "failovers": self._failovers,
            "retries": tally.retries,
            "errors": dict(tally.errors),
            "first_errors": tally.first_errors,
            "silence": tally.silences.to_json(len(nodes), self._clock.now_us()),
            "send_error_us": self._recorder.send_error_us(),
            "cpu_s": round(cpu_s, 3),
            "max_rss_bytes": _max_rss_bytes(),
            "stopped_early": stopped_early,
            "started_ms": started_ms,
            "ended_ms": self._clock.now_us() // 1000,
            "arrived_t": None if tally.arrived_us is None else tally.arrived_us / 1e6,
        }


def _protocol(schedule: Schedule, groups: list[Group], credentials: Credentials | None) -> Protocol:
    if schedule.spec.protocol in ONE_WAY:
        return Carbon(schedule, groups)
    if not schedule.spec.acknowledges:
        return Telnet(schedule, groups)
    if schedule.spec.protocol == CQL:
        from loaders.send.cql import Cql  # noqa: PLC0415 - a driver that takes its time to load

        return Cql(schedule, groups)
    kinds = {LINE: Line, MEASURES: Measures, REMOTE_WRITE: RemoteWrite}
    kind = kinds.get(schedule.spec.protocol, Rest)
    return kind(schedule, groups, credentials)


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


def _check(spec: LoadSpec, index: int) -> None:
    shard.worker_range(spec.sensors, spec.workers, index)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OTHER_FILES + spec.connections_per_node * len(spec.nodes)
    if most != resource.RLIM_INFINITY and most < needed:
        raise ValueError(
            f"connections_per_node: {spec.connections_per_node:,} to each of {len(spec.nodes):,} "
            f"KairosDB nodes need {needed:,} open files, and this process may have {most:,} "
            "(ulimit -Hn)"
        )
    # What a shell gives, often 1,024, is less than it allows.
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(arguments: list[str]) -> int:
    """Run a worker from command line arguments; see `loaders.process.main`."""

    def make(spec: LoadSpec, index: int, outdir: Path, credentials: Credentials) -> Worker:
        return Worker(spec, index, outdir, credentials=credentials)

    return process.main("worker", arguments, _check, make)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
