"""The load of a run with all that is captured around it, until no point waits any more."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.hosts.sampling import Followed, Periodic
from kairoscope.run import backlog as waiting
from kairoscope.run import faults, load_spec, speeds, tell
from kairoscope.run import fleet as loader_hosts
from kairoscope.run.current import CurrentRun
from kairoscope.run.samplers import FOLDER_FREE_BYTES, HostProbes, Processes, room_problem
from kairoscope.run.uninterrupted import uninterrupted
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.stack import Backlog, Captures, Session
from kairoscope.verdict import times
from loaders.emulator import Progress as LoadProgress
from loaders.emulator import WorkerResult
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec

# Workers import numpy and aiohttp before they can send: on two busy cores that takes seconds.
START_DELAY_S = 5

_ROOM_EVERY_S = 2.0

Until = Callable[[Path, LoadProgress], str | None]
"""Of a run folder and how its load goes: why the load is to end now; None if it is not to."""

Beside = Callable[[CurrentRun, Session], contextlib.AbstractContextManager[None]]
"""What goes on while a load does; see `asking`."""

Then = Callable[[CurrentRun, Session, Console], None]
"""What is done once a load has ended, before its backlog is watched; see `killing`, `visible`."""


def _schedule(current: CurrentRun, session: Session) -> Schedule:
    """The load, which starts START_DELAY_S from now, or for a replay ends now."""
    delay_s = 0 if current.plan.load["replay"] else START_DELAY_S
    nodes, telnet = session.endpoints()
    begin_s = time.time() + delay_s
    return Schedule(load_spec.build(current.plan, nodes, telnet, begin_s, session.store()))


def measured_load(
    current: CurrentRun,
    session: Session,
    fleet: loader_hosts.Fleet,
    console: Console,
    until: Until | None,
    beside: Beside | None,
    then: Then | None,
) -> None:
    """Capture before, load with all samplers running, watch the backlog drain, capture after."""
    captures = session.captures()
    current.at("before")
    with live.stage(console, "before the load: captures of the store, flush"):
        failed = captures.before()
        current.facts.disk_bytes["before"] = captures.stored_bytes()
    if failed:
        # Now, and not only when the load has gone on for long.
        console.print(
            f"not captured: {', '.join(failed)}; the run will be incomplete (Ctrl-C ends it)"
        )

    def low_disk(message: str) -> None:
        if not current.stop.is_set():
            # First, as the note needs room itself.
            current.stop.set()
            current.facts.incomplete.append(message)
            current.note("low disk", message)

    def look_for_room() -> None:
        if problem := room_problem(current.folder, FOLDER_FREE_BYTES):
            low_disk(problem)

    backlog = session.backlog()
    samplers: list[Periodic | Followed] = [
        *(backlog.samplers if backlog else []),
        _processes(current, session, low_disk),
        # It may be on another disk than the servers, and on another machine.
        Periodic("run folder", _ROOM_EVERY_S, look_for_room),
        *captures.samplers,
    ]
    try:
        for sampler in samplers:
            sampler.start()
        if backlog:
            waiting.wait(current, console, backlog)
        current.at("starting")
        schedule = _schedule(current, session)
        if schedule.spec.replay:
            session.refuse_old_history(schedule)
        current.schedule = schedule
        begin = end = time.time()
        if not schedule.spec.replay:
            begin, end = times.measured_window(schedule, current.folder / run_folder.LOAD)
        captures.start(begin - time.time(), end - time.time(), START_DELAY_S)
        going_on = beside(current, session) if beside else contextlib.nullcontext()
        with faults.under(current, schedule.spec.start_ms / 1000), going_on:
            _emulate(
                current,
                session,
                fleet,
                console,
                backlog,
                until,
                lambda spec: _end_at(spec, current, captures),
            )
        captures.loaded()
        if then:
            then(current, session, console)
        if backlog:
            _watch_drain(current, console, backlog)
    finally:
        # What still wrote while the run is judged would be another file than was judged.
        uninterrupted(lambda: _stop(current, samplers, captures))
    _after(current, session, fleet, captures, console)


def _stop(current: CurrentRun, samplers: Sequence[Periodic | Followed], captures: Captures) -> None:
    """End all that looks, and note what had ended before."""
    for sampler in samplers:
        sampler.stop()
    ended = [sampler.error for sampler in samplers if sampler.error]
    try:
        ended += captures.stop()
    except OSError as error:
        # Raised, it would be in the place of what ends the load: Ctrl-C, or a disk that is full.
        ended.append(str(error))
    current.facts.incomplete += [f"a capture ended early: {why}" for why in ended]


def _after(
    current: CurrentRun,
    session: Session,
    fleet: loader_hosts.Fleet,
    captures: Captures,
    console: Console,
) -> None:
    """Capture what is to be seen once nothing waits any more."""
    current.at("after")
    _look_again(current, fleet)
    with live.stage(console, "after the load: captures of the store, flush"):
        captures.after()
        current.facts.disk_bytes["after"] = captures.stored_bytes()
    current.facts.removed = [host.name for host in current.inventory.hosts if session.removed(host)]
    current.facts.captured = True
    current.save()


def _look_again(current: CurrentRun, fleet: loader_hosts.Fleet) -> None:
    """Note what may have changed under the load: clocks, and how fast the machines are."""
    fleet.look_at_clocks_again(current.folder / run_folder.LOAD)
    path = current.folder / run_folder.MANIFEST
    manifest = run_folder.read_object(path)
    manifest["conditions"]["speed"]["after"] = speeds.of_machines(current.inventory)
    run_folder.write_json(path, manifest)


def _end_at(shorter: LoadSpec, current: CurrentRun, captures: Captures) -> None:
    """The load ends earlier than planned: all that is judged later goes by its shorter schedule."""
    assert current.schedule is not None  # set by measured_load
    detail = f"after {shorter.ticks} of {current.schedule.spec.ticks} ticks, as was asked for"
    current.note("load ends early", detail)
    current.schedule = Schedule(shorter)
    captures.end_at(shorter.end_ms / 1000 - time.time())


def _processes(
    current: CurrentRun, session: Session, low_disk: Callable[[str], None]
) -> Periodic | HostProbes:
    """What samples the processes: those of this machine, or those of the hosts."""
    every_s = current.plan.experiment.capture.processes_every_s
    file, events = JsonLines(current.folder / run_folder.PROCESSES), current.events
    if current.inventory.managed:
        return HostProbes(
            current.inventory.all,
            every_s,
            file,
            events,
            low_disk,
            session.removed,
            faults.filled(current),
        )
    hosts = current.inventory.hosts
    supervisor_dir = Path(hosts[0].vars["supervisor_dir"])
    processes = Processes(hosts, supervisor_dir, file, events, low_disk)
    return Periodic("processes", every_s, processes.sample)


def _emulate(
    current: CurrentRun,
    session: Session,
    fleet: loader_hosts.Fleet,
    console: Console,
    backlog: Backlog | None,
    until: Until | None,
    on_cut: Callable[[LoadSpec], None],
) -> None:
    """Run the sensors to the end of their schedule, with a live line.

    `on_cut` is told where it ends if `until` is there before.
    """
    assert current.schedule is not None  # set by measured_load
    spec = current.schedule.spec
    rates = ", then ".join(f"{1000 / step.period_ms:g}" for step in spec.steps)
    pace = ", as fast as it is acknowledged" if spec.replay else ""
    console.print(
        f"load: {spec.sensors:,} sensors × {rates} point/s for {spec.duration_s:,.0f} s{pace}, "
        f"from {spec.workers} workers on {spec.hosts} loader host{'s' * (spec.hosts > 1)}"
    )
    points = current.schedule.points
    with live.bar(console) as bar:
        task = bar.add_task("load", total=points, figures="starting")
        lines = tell.Lines()

        now_at: LoadProgress | None = None
        why: str | None = None

        def show(now: LoadProgress) -> None:
            nonlocal now_at
            in_queues = backlog.total() if backlog else None
            # Figures that are of the same moment as the last ones were told then.
            if now.at_s != (now_at.at_s if now_at else 0):
                seen = asdict(now)
                current.at("load", seen.pop("at_s"), waiting=in_queues, **seen)
            now_at = now
            figures = tell.figures(spec, points, now, in_queues)
            # A replay has no clock to be measured by, only how much of it is done.
            arrived = now.acknowledged if spec.acknowledges else now.sent
            bar.update(task, completed=arrived if spec.replay else now.due, figures=figures)
            if not console.is_terminal and (told := lines.due(now)):
                console.print(f"  {tell.figures(spec, points, told, in_queues)}")

        def ends() -> bool:
            nonlocal why
            why = until(current.folder, now_at) if until and now_at else None
            return why is not None

        def shorten(shorter: LoadSpec) -> None:
            nonlocal points
            on_cut(shorter)
            points = Schedule(shorter).points
            bar.update(task, total=points)
            console.print(f"  {why}: the load ends after {shorter.duration_s:,.0f} s")

        results = fleet.run(
            spec,
            current.folder / run_folder.LOAD,
            show,
            current.stop,
            credentials=session.credentials,
            until=ends if until else None,
            on_cut=shorten,
            say=lambda text: console.print(f"  {text}"),
        )
    current.facts.incomplete += [*_died(results), *fleet.readers_died]
    current.save()


def _died(results: list[WorkerResult]) -> list[str]:
    """What loader hosts and workers died of: a host takes all its workers with it."""
    of_host: dict[str, list[int]] = {}
    reasons = []
    for result in results:
        how = str(result.get("died", ""))
        if how.startswith("loader host "):
            of_host.setdefault(how, []).append(result["worker"])
        elif how:
            reasons.append(f"loader worker {result['worker']} died: {how}")
    hosts = []
    for how, workers in of_host.items():
        which = ", ".join(map(str, workers))
        hosts.append(f"{how}; with it went worker{'s' * (len(workers) > 1)} {which}")
    return [*hosts, *reasons]


def _watch_drain(current: CurrentRun, console: Console, backlog: Backlog) -> None:
    """Wait until no point waits on the servers, up to the limit."""
    limit_s = current.plan.experiment.limits.drain_s
    with live.stage(console, "drain: points that wait", None, "points") as shown:
        loaded = time.time()
        start = time.monotonic()
        while True:
            left = backlog.total(since=loaded)
            shown(left or 0)
            current.at("drain", waiting=left)
            if left == 0 or time.monotonic() - start >= limit_s:
                current.facts.drain = run_folder.Drain(left, time.time())
                current.save()
                return
            backlog.nudge()
            time.sleep(0.5)
