"""One run: capture, load, drain, read back, judge, report. `make load` is this.

Everything goes to the run folder as it happens; whatever ends the run, the folder then says so.
"""

import contextlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from kairoscope import interrupts, live, paths, ready
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation
from kairoscope.plan import Plan
from kairoscope.run import faults, samplers, watched
from kairoscope.run import fleet as loader_hosts
from kairoscope.run.current import CurrentRun
from kairoscope.run.finishing import finish
from kairoscope.run.loading import Beside, Then, Until, measured_load
from kairoscope.run.opening import check_deployed, open_folder
from kairoscope.run.settling import probe_published, settle
from kairoscope.stacks.stack import Session, Stack
from kairoscope.verdict import conclude, sustained

NOT_READ_BACK = "not read back, as the load cannot pass"
"""Begins the reason for which such a run is incomplete."""


@dataclass(frozen=True)
class Ran:
    """A run that has ended: where it is, its verdict, whether Ctrl-C or a signal interrupted it."""

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
    check_deployed(plan, hosts)
    into = into or paths.runs_dir()
    if problem := ready.folder_problem(into, "the runs' folder", "Make it writable."):
        raise UserError(problem)
    # It would end the load at once.
    if problem := samplers.room_problem(into, samplers.FOLDER_FREE_BYTES):
        needed = f"a run needs {samplers.FOLDER_FREE_BYTES / 1e6:.0f} MB to be written down"
        raise UserError(f"The runs' folder: {problem}, and {needed}. Make room.")
    refusal = f"Another load runs on target {plan.target}: each would measure the other."
    with operation.hold(operation.load_lock(plan.target), refusal):
        limit_ms = plan.experiment.limits.clock_offset_ms
        with interrupts.as_ctrl_c(), contextlib.ExitStack() as ways:
            # Before there is a run folder: a host that is not fit leaves no run.
            with live.stage(console, "servers, loader hosts, and how fast the machines are"):
                session = ways.enter_context(stack.connect(plan, hosts))
                fleet = ways.enter_context(loader_hosts.connect(hosts.loader, limit_ms))
                session.check_ready()
                current = open_folder(plan, hosts, session, into, levers)
            more = (always_read_back, until, on_folder, beside, then, probe)
            return _run(current, session, fleet, console, *more)


def _run(
    current: CurrentRun,
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
        console.print(f"run folder: {current.folder}", soft_wrap=True)
        if on_folder:
            on_folder(current.folder)
        watched.look(current, console, loaded=False)
        measured_load(current, session, fleet, console, until, beside, then)
        watched.look(current, console, loaded=True)
        if not always_read_back and (why := conclude.failing(current.folder)):
            current.facts.incomplete.append(f"{NOT_READ_BACK}: {why}")
        else:
            settle(current, session, console)
        if probe:
            probe_published(current, session, console)
    except KeyboardInterrupt as interrupt:
        current.interrupted = True
        how = interrupts.name(interrupt)
        _cut_short(current, f"interrupted by the user ({how})", "interrupted", how)
    except (UserError, OSError) as error:
        message = error.message if isinstance(error, UserError) else str(error)
        _cut_short(current, message, "error", message)
    except Exception as error:  # a bug of ours; what was captured must not be lost
        why = f"unexpected error in Kairoscope: {error!r}"
        _cut_short(current, why, "unexpected error", traceback.format_exc())
    return Ran(current.folder, finish(current, console), current.interrupted)


def _cut_short(current: CurrentRun, why: str, event: str, detail: str) -> None:
    """Have it said why the run ends before its time."""
    current.facts.incomplete.insert(0, why)
    # Its disk may be full: the run has to come to its verdict all the same.
    with contextlib.suppress(OSError):
        current.note(event, detail)


def until_there(plan: Plan, file: Path) -> Until:
    """An `until` that waits for a file. UserError if that would end the load at once or never."""
    if plan.load["replay"]:
        raise UserError("--until: a replay is history, which has its end already.")
    if file.exists():
        raise UserError(f"--until: {file} is there already, so that the load would end at once.")
    if not file.parent.is_dir():
        raise UserError(f"--until: there is no folder {file.parent} in which it could appear.")
    return lambda *_: f"{file} is there" if file.exists() else None
