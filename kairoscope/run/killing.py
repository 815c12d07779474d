"""All servers killed a while after a load: what its acknowledgements were worth.

What a kill of a process takes is in its memory; the machine's page cache stays. A loss of power
takes more, and is not shown by this.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import psutil
from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.inventory import Inventory
from kairoscope.run.current import CurrentRun
from kairoscope.run.loading import Then
from kairoscope.stacks.stack import Session
from kairoscope.verdict import outcomes

BACK_S = 900
"""Three storage nodes that read their logs again, and KairosDB after them: on two cores that others
kept busy they were not back after 300."""

EVERY_S = 0.25
"""Between two looks whether they serve again."""

GONE_S, LOOK_S = 30.0, 0.05
"""How long what was killed may take to end: one that waits for its disk ends after that. And
between two looks."""


def after(after_s: float, hosts: Inventory) -> Then:
    """What kills every server so many seconds after a load's last acknowledgement.

    UserError on hosts of their own.
    """
    if hosts.managed:
        raise UserError(
            "--kill-after: is for target local. On the lab's hosts: kairoscope lab kill, and "
            "--until to end the load"
        )
    return lambda current, session, console: kill(current, session, console, after_s)


def kill(current: CurrentRun, session: Session, console: Console, after_s: float) -> None:
    """Kill every server, with SIGKILL and all at once; return when they serve again, started by
    their supervisor.

    It comes `after_s` seconds after the last acknowledgement, or now if that is later: the loaders
    have to end before, which takes some tenths of a second. When it came, and what was done, is in
    killed.json of the run folder. UserError if one of them was not killed, of which all would be
    there whatever its acknowledgements are worth; or if they do not come back.
    """
    assert current.schedule is not None  # there was a load
    spec, ended_s = current.schedule.spec, time.time()
    # Target local has one clock, the loaders' and ours.
    arrived_s = outcomes.last_arrived(current.folder / run_folder.LOAD, spec.workers)
    folder = Path(current.inventory.hosts[0].vars["supervisor_dir"])
    names = {name for host in current.inventory.hosts for name in host.processes}
    since_s = ended_s if arrived_s is None else arrived_s
    time.sleep(max(0.0, since_s + after_s - time.time()))
    servers = _running(folder, names)
    current.at("kill")
    at, began = time.time(), time.monotonic()
    killed = _kill(servers)
    record = {
        "t": at,
        "after_arrived_s": None if arrived_s is None else at - arrived_s,
        "after_load_s": at - ended_s,
        "after_due_s": at - spec.end_ms / 1000,
        "servers": sorted(names),
    }
    run_folder.write_json(current.folder / run_folder.KILLED, record)
    what = "acknowledgement" if spec.acknowledges else "point was sent"
    what = "loader had ended, and no point arrived" if arrived_s is None else what
    told = f"{', '.join(sorted(names))} ({killed} processes) {at - since_s:.1f} s after the last "
    current.note("killed on purpose", told + what)
    try:
        with live.stage(console, f"killed {told}{what}; until they serve again"):
            back_s = _back(session, BACK_S, began)
    except UserError:
        # Told apart from a run that was interrupted, of which nobody knows.
        run_folder.write_json(current.folder / run_folder.KILLED, {**record, "serving_s": None})
        raise
    run_folder.write_json(current.folder / run_folder.KILLED, {**record, "serving_s": back_s})


def _running(folder: Path, names: Collection[str]) -> dict[str, int]:
    """The servers' process ids, by name. UserError if one has none."""
    known = {process.name: process.pid for process in supervisor.processes(folder) or ()}
    if missing := sorted(name for name in names if not known.get(name)):
        raise UserError(
            f"{', '.join(missing)} could not be killed: supervisord says of no process of that "
            "name, or does not answer"
        )
    return {name: known[name] for name in names}


def _kill(servers: Mapping[str, int]) -> int:
    """Kill servers (process ids, by name) and all below them; how many processes they were.

    UserError if one had ended before, or is still there after GONE_S.
    """
    found: dict[psutil.Process, str] = {}
    for name, pid in servers.items():
        try:
            process = psutil.Process(pid)
            # A server's children are its own: a database's, a pool of workers.
            found |= dict.fromkeys([process, *process.children(recursive=True)], name)
        except psutil.NoSuchProcess:
            raise UserError(f"{name} ended by itself before it could be killed") from None
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    end = time.monotonic() + GONE_S
    while left := [process for process in found if _runs(process)]:
        if time.monotonic() > end:
            told = ", ".join(f"{found[process]} (process {process.pid})" for process in left)
            raise UserError(f"{told} still ran {GONE_S:.0f} s after its kill")
        time.sleep(LOOK_S)
    return len(found)


def _runs(process: psutil.Process) -> bool:
    """Not one that has ended, and that only nobody has asked for yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _back(
    session: Session,
    patience_s: float,
    began: float,
    pause: Callable[[float], None] = time.sleep,
) -> float:
    """Seconds from the kill (`began`, of the monotonic clock) until the servers are well.

    UserError, with what is amiss, if they are not.
    """
    while True:
        try:
            session.check_ready()
        except (UserError, ssh.RemoteError) as error:
            if time.monotonic() - began > patience_s:
                raise UserError(f"not back {patience_s:.0f} s after a kill: {error}") from None
            pause(EVERY_S)
        else:
            return time.monotonic() - began
