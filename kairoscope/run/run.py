"""One run: capture, load, drain, read back, judge, report. `make load` is this.

Everything goes to the run folder as it happens; whatever ends the run, the folder then says so.
"""

import contextlib
import multiprocessing
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from kairoscope import __version__, live, paths, ready, report, run_folder
from kairoscope.compare import history
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, machine, operation
from kairoscope.hosts.deployed import check_finished, deployed_plan
from kairoscope.hosts.inventory import Inventory
from kairoscope.hosts.sampling import Followed, Periodic
from kairoscope.plan import Plan
from kairoscope.run import backlog as waiting
from kairoscope.run import faults, load_spec, speed_probe, speeds, tell, warmth, watched
from kairoscope.run import fleet as loader_hosts
from kairoscope.run.samplers import HostProbes, Processes
from kairoscope.run.show import show
from kairoscope.run.state import State
from kairoscope.run_folder import JsonLines
from kairoscope.stacks.stack import Backlog, Captures, Session, Stack
from kairoscope.verdict import conclude, ledger, outcomes, settlement, sustained
from loaders.emulator import Progress as LoadProgress
from loaders.emulator import WorkerResult
from loaders.schedule.due import Schedule
from loaders.schedule.spec import LoadSpec

# Workers import numpy and aiohttp before they can send: on two busy cores that takes seconds.
START_DELAY_S = 5

NOT_READ_BACK = "not read back, as the load cannot pass"
"""Begins the reason for which such a run is incomplete."""

_SIGTERM = "SIGTERM"


Until = Callable[[Path, LoadProgress], str | None]
"""Of a run folder and how its load goes: why the load is to end now; None if it is not to."""

Beside = Callable[[State, Session], contextlib.AbstractContextManager[None]]
"""What goes on while a load does; see `asking`."""

Then = Callable[[State, Session, Console], None]
"""What is done once a load has ended, before its backlog is watched; see `killing`, `visible`."""


@dataclass(frozen=True)
class Ran:
    """A run that has ended: where it is, its verdict, whether Ctrl-C or SIGTERM interrupted it."""

    folder: Path
    verdict: str
    interrupted: bool

    @property
    def status(self) -> int:
        """The exit status of its verdict."""
        return sustained.EXIT_STATUS[self.verdict]


def load(
    plan: Plan,
    stack: Stack,
    console: Console,
    *,
    levers: faults.Levers | None = None,
    always_read_back: bool = True,
    until: Until | None = None,
    into: Path | None = None,
    on_folder: Callable[[Path], None] | None = None,
    beside: Beside | None = None,
    then: Then | None = None,
    probe: bool = False,
) -> Ran:
    """Run the plan's load on its deployed target.

    `stack` is what the plan says is deployed there; `levers`, of its target, carry out the faults
    that the experiment has; `into` is where the run folder is made, the
    runs' folder by default; `on_folder` is told where it is, once there is one.

    Without `always_read_back`, a load that cannot pass any more is incomplete: nothing is read
    back, which takes a while and changes nothing then. Once `until`, which is asked about once a
    second, says why, the schedule ends at its next tick; all else is as ever.
    `beside` is entered as the load starts and left when it has ended; then `then` is called.
    With `probe` it is measured at the end what else was published of the stack.
    """
    hosts = inventory.load(plan.target)
    _check_deployed(plan, hosts)
    into = into or paths.runs_dir()
    if problem := ready.folder_problem(into, "the runs' folder", "Make it writable."):
        raise UserError(problem)
    refusal = f"Another load runs on target {plan.target}: each would measure the other."
    with operation.hold(operation.load_lock(plan.target), refusal):
        limit_ms = plan.experiment.limits.clock_offset_ms
        with terminated_as_interrupted(), contextlib.ExitStack() as ways:
            # Before there is a run folder: a host that is not fit leaves no run.
            with live.stage(console, "servers, loader hosts, and how fast the machines are"):
                session = ways.enter_context(stack.connect(plan, hosts))
                fleet = ways.enter_context(loader_hosts.connect(hosts.loader, limit_ms))
                session.check_ready()
                state = _open(plan, hosts, session, into, levers)
            more = (always_read_back, until, on_folder, beside, then, probe)
            return _run(state, session, fleet, console, *more)


def _run(
    state: State,
    session: Session,
    fleet: loader_hosts.Fleet,
    console: Console,
    always_read_back: bool,
    until: Until | None,
    on_folder: Callable[[Path], None] | None,
    beside: Beside | None,
    then: Then | None,
    probe: bool,
) -> Ran:
    try:
        console.print(f"run folder: {state.folder}", soft_wrap=True)
        if on_folder:
            on_folder(state.folder)
        watched.look(state, console, loaded=False)
        _measured_load(state, session, fleet, console, until, beside, then)
        watched.look(state, console, loaded=True)
        if not always_read_back and (why := conclude.failing(state.folder)):
            state.facts.incomplete.append(f"{NOT_READ_BACK}: {why}")
        else:
            _settle(state, session, console)
        if probe:
            _probe(state, session, console)
    except KeyboardInterrupt as interrupt:
        state.interrupted = True
        how = _SIGTERM if _SIGTERM in interrupt.args else "Ctrl-C"
        state.facts.incomplete.insert(0, f"interrupted by the user ({how})")
        state.note("interrupted", how)
    except (UserError, OSError) as error:
        message = error.message if isinstance(error, UserError) else str(error)
        state.facts.incomplete.insert(0, message)
        state.note("error", message)
    except Exception as error:  # a bug of ours; what was captured must not be lost
        state.facts.incomplete.insert(0, f"unexpected error in Kairoscope: {error!r}")
        state.note("unexpected error", traceback.format_exc())
    return Ran(state.folder, _finish(state, console), state.interrupted)


def until_there(plan: Plan, file: Path) -> Until:
    """An `until` that waits for a file. UserError if that would end the load at once or never."""
    if plan.load["replay"]:
        raise UserError("--until: a replay is history, which has its end already.")
    if file.exists():
        raise UserError(f"--until: {file} is there already, so that the load would end at once.")
    if not file.parent.is_dir():
        raise UserError(f"--until: there is no folder {file.parent} in which it could appear.")
    return lambda *_: f"{file} is there" if file.exists() else None


def _check_deployed(plan: Plan, hosts: Inventory) -> None:
    deployed = deployed_plan(plan.target)
    check_finished(plan.target)
    for part in ("kairosdb", "storage"):
        was, wanted = getattr(deployed, part), getattr(plan, part)
        other = [k for k in wanted if was.get(k) != wanted[k]]
        if other:
            details = ", ".join(f"{k} is {was.get(k)}, wanted {wanted[k]}" for k in other[:4])
            whose = plan.roles.get(part, part)
            raise UserError(
                f"Target {plan.target} is deployed with other {whose} settings ({details}). "
                f"First: make deploy with the same EXPERIMENT=, SENSORS=, RATE=, DURATION=, ENGINE="
            )
    if len(hosts.loader) != plan.load["hosts"]:
        raise UserError(
            f"Target {plan.target} has {len(hosts.loader)} loader hosts, the plan wants "
            f"{plan.load['hosts']}. First: make deploy with the same EXPERIMENT="
        )


def _open(
    plan: Plan, hosts: Inventory, session: Session, into: Path, levers: faults.Levers | None
) -> State:
    """Create the run folder with what is known before anything is sent."""
    now = time.time()
    folder = into / f"{run_folder.stamp(now)}-{plan.experiment.name}-{plan.target}"
    # What takes time comes before the folder, so that Ctrl-C leaves none, or one with a verdict.
    manifest = _manifest(plan, folder.name, now, hosts, session)
    for sub in run_folder.SUBFOLDERS:
        (folder / sub).mkdir(parents=True)
    (folder / run_folder.PLAN).write_text(plan.to_json())
    (folder / run_folder.EXPERIMENT).write_text(
        yaml.safe_dump(plan.experiment.model_dump(mode="json"), sort_keys=False)
    )
    run_folder.write_json(folder / run_folder.MANIFEST, manifest)
    state = State(folder, plan, hosts, now, JsonLines(folder / run_folder.EVENTS), levers)
    session.begin(folder, now, state.events)
    state.facts.incomplete += session.untold()
    state.save()
    latest, partial = into / "latest", into / ".latest"
    partial.unlink(missing_ok=True)
    partial.symlink_to(folder.name)
    partial.replace(latest)
    return state


def _manifest(
    plan: Plan, run: str, now: float, hosts: Inventory, session: Session
) -> dict[str, Any]:
    return {
        "run": run,
        "experiment": plan.experiment.name,
        "target": plan.target,
        "started": datetime.fromtimestamp(now, UTC).isoformat(),
        "ended": None,
        "command": " ".join(sys.argv),
        "git": machine.git(),
        "machine": machine.machine(),
        "booted": machine.booted(),
        "hosts": machine.hosts(hosts) if hosts.managed else [],
        "nodes": {
            role: [host.name for host in getattr(hosts, role)] for role in ("kairosdb", "storage")
        },
        "captures": asdict(session.expected()),
        "versions": {
            "kairoscope": __version__,
            **session.versions(),
            "python": platform.python_version(),
        },
        "conditions": {
            **warmth.conditions(hosts, plan.target, paths.runs_dir(), session.waiting_now()),
            "speed": {
                "work": speed_probe.WORK,
                "before": speeds.of_machines(hosts),
                "after": {},
            },
        },
        "load": None,
    }


def _schedule(state: State, session: Session) -> Schedule:
    """The load, which starts START_DELAY_S from now, or for a replay ends now."""
    delay_s = 0 if state.plan.load["replay"] else START_DELAY_S
    nodes, telnet = session.endpoints()
    begin_s = time.time() + delay_s
    return Schedule(load_spec.build(state.plan, nodes, telnet, begin_s, session.store()))


def _measured_load(
    state: State,
    session: Session,
    fleet: loader_hosts.Fleet,
    console: Console,
    until: Until | None,
    beside: Beside | None,
    then: Then | None,
) -> None:
    """Capture before, load with all samplers running, watch the backlog drain, capture after."""
    captures = session.captures()
    state.at("before")
    with live.stage(console, "before the load: captures of the store, flush"):
        failed = captures.before()
        state.facts.disk_bytes["before"] = captures.stored_bytes()
    if failed:
        # Now, and not only when the load has gone on for long.
        console.print(
            f"not captured: {', '.join(failed)}; the run will be incomplete (Ctrl-C ends it)"
        )

    def low_disk(message: str) -> None:
        if not state.stop.is_set():
            state.facts.incomplete.append(message)
            state.note("low disk", message)
            state.stop.set()

    backlog = session.backlog()
    samplers: list[Periodic | Followed] = [
        *(backlog.samplers if backlog else []),
        _processes(state, session, low_disk),
        *captures.samplers,
    ]
    for sampler in samplers:
        sampler.start()
    try:
        if backlog:
            waiting.wait(state, console, backlog)
        state.at("starting")
        schedule = _schedule(state, session)
        if schedule.spec.replay:
            session.refuse_old_history(schedule)
        state.schedule = schedule
        begin = end = time.time()
        if not schedule.spec.replay:
            begin, end = conclude.measured_window(schedule, state.folder / run_folder.LOAD)
        captures.start(begin - time.time(), end - time.time(), START_DELAY_S)
        going_on = beside(state, session) if beside else contextlib.nullcontext()
        with faults.under(state, schedule.spec.start_ms / 1000), going_on:
            _emulate(
                state,
                session,
                fleet,
                console,
                backlog,
                until,
                lambda spec: _end_at(spec, state, captures),
            )
        captures.loaded()
        if then:
            then(state, session, console)
        if backlog:
            _watch_drain(state, console, backlog)
    finally:
        for sampler in samplers:
            sampler.stop()
        ended = [*(sampler.error for sampler in samplers if sampler.error), *captures.stop()]
        state.facts.incomplete += [f"a capture ended early: {why}" for why in ended]
    _after(state, session, fleet, captures, console)


def _after(
    state: State,
    session: Session,
    fleet: loader_hosts.Fleet,
    captures: Captures,
    console: Console,
) -> None:
    """Capture what is to be seen once nothing waits any more."""
    state.at("after")
    _look_again(state, fleet)
    with live.stage(console, "after the load: captures of the store, flush"):
        captures.after()
        state.facts.disk_bytes["after"] = captures.stored_bytes()
    state.facts.removed = [host.name for host in state.inventory.hosts if session.removed(host)]
    state.facts.captured = True
    state.save()


def _look_again(state: State, fleet: loader_hosts.Fleet) -> None:
    """Note what may have changed under the load: clocks, and how fast the machines are."""
    fleet.look_at_clocks_again(state.folder / run_folder.LOAD)
    path = state.folder / run_folder.MANIFEST
    manifest = run_folder.read_object(path)
    manifest["conditions"]["speed"]["after"] = speeds.of_machines(state.inventory)
    run_folder.write_json(path, manifest)


def _end_at(shorter: LoadSpec, state: State, captures: Captures) -> None:
    """The load ends earlier than planned: all that is judged later goes by its shorter schedule."""
    assert state.schedule is not None  # set by _measured_load
    detail = f"after {shorter.ticks} of {state.schedule.spec.ticks} ticks, as was asked for"
    state.note("load ends early", detail)
    state.schedule = Schedule(shorter)
    captures.end_at(shorter.end_ms / 1000 - time.time())


def _processes(
    state: State, session: Session, low_disk: Callable[[str], None]
) -> Periodic | HostProbes:
    """What samples the processes: those of this machine, or those of the hosts."""
    every_s = state.plan.experiment.capture.processes_every_s
    file, events = JsonLines(state.folder / run_folder.PROCESSES), state.events
    if state.inventory.managed:
        return HostProbes(
            state.inventory.all,
            every_s,
            file,
            events,
            low_disk,
            session.removed,
            faults.filled(state),
        )
    hosts = state.inventory.hosts
    supervisor_dir = Path(hosts[0].vars["supervisor_dir"])
    processes = Processes(hosts, supervisor_dir, file, events, low_disk)
    return Periodic("processes", every_s, processes.sample)


def _emulate(
    state: State,
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
    assert state.schedule is not None  # set by _measured_load
    spec = state.schedule.spec
    rates = ", then ".join(f"{1000 / step.period_ms:g}" for step in spec.steps)
    pace = ", as fast as it is acknowledged" if spec.replay else ""
    console.print(
        f"load: {spec.sensors:,} sensors × {rates} point/s for {spec.duration_s:,.0f} s{pace}, "
        f"from {spec.workers} workers on {spec.hosts} loader host{'s' * (spec.hosts > 1)}"
    )
    points = state.schedule.points
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
                state.at("load", seen.pop("at_s"), waiting=in_queues, **seen)
            now_at = now
            figures = tell.figures(spec, points, now, in_queues)
            # A replay has no clock to be measured by, only how much of it is done.
            arrived = now.acknowledged if spec.acknowledges else now.sent
            bar.update(task, completed=arrived if spec.replay else now.due, figures=figures)
            if not console.is_terminal and (told := lines.due(now)):
                console.print(f"  {tell.figures(spec, points, told, in_queues)}")

        def ends() -> bool:
            nonlocal why
            why = until(state.folder, now_at) if until and now_at else None
            return why is not None

        def shorten(shorter: LoadSpec) -> None:
            nonlocal points
            on_cut(shorter)
            points = Schedule(shorter).points
            bar.update(task, total=points)
            console.print(f"  {why}: the load ends after {shorter.duration_s:,.0f} s")

        results = fleet.run(
            spec,
            state.folder / run_folder.LOAD,
            show,
            state.stop,
            credentials=session.credentials,
            until=ends if until else None,
            on_cut=shorten,
            say=lambda text: console.print(f"  {text}"),
        )
    state.facts.incomplete += [*_died(results), *fleet.readers_died]
    state.save()


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


def _watch_drain(state: State, console: Console, backlog: Backlog) -> None:
    """Wait until no point waits on the servers, up to the limit."""
    limit_s = state.plan.experiment.limits.drain_s
    with live.stage(console, "drain: points that wait", None, "points") as shown:
        loaded = time.time()
        start = time.monotonic()
        while True:
            left = backlog.total(since=loaded)
            shown(left or 0)
            state.at("drain", waiting=left)
            if left == 0 or time.monotonic() - start >= limit_s:
                state.facts.drain = run_folder.Drain(left, time.time())
                state.save()
                return
            backlog.nudge()
            time.sleep(0.5)


def _settle(state: State, session: Session, console: Console) -> None:
    """Read every point back and write down what was found, for the ledger."""
    assert state.schedule is not None  # set by _measured_load
    state.at("read-back")
    schedule = state.schedule
    found = outcomes.read(schedule, state.folder / run_folder.LOAD)
    settling = settlement.Settlement(schedule, found)
    way = session.read_back(schedule, settling.incomplete, settling.add, console)
    run_folder.write_lines(
        state.folder / run_folder.FAILED_POINTS,
        (point._asdict() for point in session.given_up(schedule.spec)),
    )
    read_back = settling.found(way.passes)
    read_back.notes.append(way.note)
    read_back.write_gaps(state.folder)
    read_back.write(state.folder)
    try:
        read_back.rows_by_cql = way.rows()
    except Exception as error:
        read_back.notes.append(f"rows could not be counted in the store: {error}")
        state.note("row count failed", str(error))
    read_back.write(state.folder)
    left = state.facts.drain.left if state.facts.drain else None
    book = ledger.balance(found, read_back, left, settlement.failed_points(state.folder))
    # After the count: a read at ALL brings rows to replicas that lack them.
    if gaps := book.lacking:
        with live.stage(console, f"look for missing points of {len(gaps):,} series at ALL"):
            read_back.at_all = session.look_on_all_replicas(gaps)
        read_back.write(state.folder)


def _probe(state: State, session: Session, console: Console) -> None:
    """Write down what else was published of such a system, as it is here."""
    try:
        with live.stage(console, "what else was published of it"):
            found = session.probe()
    except (OSError, ValueError) as error:
        state.note("not probed", str(error))
        return
    if found:
        document = {name: asdict(probe) for name, probe in found.items()}
        run_folder.write_json(state.folder / run_folder.PROBED, document)


def _finish(state: State, console: Console) -> str:
    """Judge what there is, write it, and tell where it is; the verdict."""
    # A second Ctrl-C now would lose what the first one left; this takes seconds.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    state.at("judging")
    try:
        with live.stage(console, "judging, and drawing the report", usual="some seconds"):
            state.end()
            conclusion = conclude.judge(state.folder)
            conclusion.write()
            manifest = run_folder.read_object(state.folder / run_folder.MANIFEST)
            manifest["ended"] = datetime.now(UTC).isoformat()
            manifest["load"] = conclusion.times
            run_folder.write_json(state.folder / run_folder.MANIFEST, manifest)
            _remember(state)
            html = _draw(state.folder)
    except OSError as error:
        raise UserError(
            f"The run's results could not be written to {state.folder}: {error}. What was captured "
            "before stays there; the run is incomplete."
        ) from error
    show(conclusion.verdict, console)
    told = html or f"what draws it was killed; kairoscope report {state.folder} draws it"
    console.print(f"report: {told}", soft_wrap=True)
    return conclusion.verdict.verdict


def _draw(folder: Path) -> Path | None:
    """Write the report, in a process of its own; its page, None if that process was killed.

    Charts take a library and memory that a load has no use for, nor a search, of which the next
    trial comes. OSError if it cannot be written.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        try:
            html, _ = alone.submit(report.write, folder, paths.REFERENCE).result()
        except BrokenProcessPool:
            return None
    return html


def _remember(state: State) -> None:
    """Add the run to the history; a history that cannot be written does not end the run."""
    try:
        history.remember(state.folder, paths.results_dir() / history.NAME)
    except (UserError, OSError) as error:
        state.note("not in the history", str(error))


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Within the block a SIGTERM does what Ctrl-C does: the run is judged as far as it got.

    Both are as before after it, though a run that is being judged ignores them.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt(_SIGTERM)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
