"""All servers killed a while after a load: what its acknowledgements were worth.

What a kill of a process takes is in its memory; the machine's page cache stays. A loss of power
takes more, and is not shown by this.
"""

import time
from collections.abc import Callable
from pathlib import Path

import psutil
from rich.console import Console

from kairoscope import live, run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import ssh, supervisor
from kairoscope.hosts.inventory import Inventory
from kairoscope.run.run import Then
from kairoscope.run.state import State
from kairoscope.stacks.stack import Session

BACK_S = 900
"""Three storage nodes that read their logs again, and KairosDB after them: on two cores that others
kept busy they were not back after 300."""

EVERY_S = 0.25
"""Between two looks whether they serve again."""


def after(after_s: float, hosts: Inventory) -> Then:
    """What kills every server so many seconds after a load. UserError on hosts of their own."""
    if hosts.managed:
        raise UserError(
            "--kill-after: is for target local. On the lab's hosts: kairoscope lab kill, and "
            "--until to end the load"
        )
    return lambda state, session, console: kill(state, session, console, after_s, time.time())


def kill(state: State, session: Session, console: Console, after_s: float, ended_s: float) -> None:
    """Kill every server `after_s` seconds after the load ended (`ended_s`, epoch s), with SIGKILL
    and all at once; return when they serve again, started by their supervisor.

    What was done is in killed.json of the run folder. UserError if they do not come back.
    """
    assert state.schedule is not None  # there was a load
    folder = Path(state.inventory.hosts[0].vars["supervisor_dir"])
    names = {name for host in state.inventory.hosts for name in host.processes}
    time.sleep(max(0.0, ended_s + after_s - time.time()))
    at = time.time()
    state.at("kill")
    # A server's children are its own: a database's, a pool of workers.
    ours = [p.pid for p in supervisor.processes(folder) or [] if p.name in names and p.pid]
    killed = _kill(ours)
    since = at - state.schedule.spec.end_ms / 1000
    record = {"t": at, "after_load_s": at - ended_s, "after_due_s": since, "servers": sorted(names)}
    run_folder.write_json(state.folder / run_folder.KILLED, record)
    told = f"{', '.join(sorted(names))} ({killed} processes) {at - ended_s:.1f} s after the load"
    state.note("killed on purpose", told)
    with live.stage(console, f"killed {told}; until they serve again"):
        back_s = _back(session, BACK_S)
    run_folder.write_json(state.folder / run_folder.KILLED, {**record, "serving_s": back_s})


def _kill(pids: list[int]) -> int:
    """Kill processes and all below them; how many they were."""
    found: list[psutil.Process] = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(found, timeout=30)
    return len(found)


def _back(
    session: Session, patience_s: float, pause: Callable[[float], None] = time.sleep
) -> float:
    """Seconds until the servers are well. UserError, with what is amiss, if they are not."""
    began = time.monotonic()
    while True:
        try:
            session.check_ready()
        except (UserError, ssh.RemoteError) as error:
            if time.monotonic() - began > patience_s:
                raise UserError(f"not back {patience_s:.0f} s after a kill: {error}") from None
            pause(EVERY_S)
        else:
            return time.monotonic() - began
