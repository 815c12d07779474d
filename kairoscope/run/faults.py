"""The faults of an experiment, carried out while its load goes on; each in a thread of its own.

What happens and when is in faults.jsonl as it happens. However the load ends, what was begun is
undone before the run goes on; what could not be done or undone makes the run incomplete.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kairoscope import run_folder
from kairoscope.errors import UserError
from kairoscope.experiment.faults import Fault, hosts_of
from kairoscope.hosts.inventory import Host
from kairoscope.run.current import CurrentRun
from kairoscope.run.uninterrupted import uninterrupted
from kairoscope.run_folder import JsonLines

UNDO_TRIES = 3
"""Ctrl-C at a terminal reaches the programs that are undoing a fault, too."""
_BETWEEN_TRIES_S = 1.0


class Levers(Protocol):
    """What of a target is asked; see `kairoscope.targets.target.Target`."""

    def begin(self, fault: Fault, hosts: Sequence[Host]) -> None:
        """Let it happen; UserError if it could not."""

    def undo(self, action: str, hosts: Sequence[Host]) -> None:
        """Have it as before; UserError if it could not."""


class _Carried(threading.Thread):
    """One fault: waits for its time, lets it happen, waits, undoes it."""

    def __init__(
        self,
        number: int,
        fault: Fault,
        hosts: Sequence[Host],
        start_s: float,
        levers: Levers,
        over: threading.Event,
        file: JsonLines,
        failed: Callable[[str], None],
    ) -> None:
        super().__init__(name=f"fault {number}")  # No daemon: what was begun has to be undone.
        self._number = number
        self._fault = fault
        self._hosts = hosts
        self._at_s = start_s + fault.at_s
        self._levers = levers
        self._over = over
        self._file = file
        self._failed = failed
        self.write("planned", t=self._at_s)

    def write(self, event: str, detail: str = "", t: float | None = None) -> None:
        """Add to faults.jsonl; `t` in epoch s, now by default."""
        self._file.write(
            t=time.time() if t is None else t,
            fault=self._number,
            event=event,
            action=self._fault.action,
            hosts=[host.name for host in self._hosts],
            text=self._fault.text,
            detail=detail,
        )

    def run(self) -> None:
        """Carry the fault out at its time, undo it once its own is over, and note both."""
        try:
            self._run()
        except OSError as error:  # The disk of the run folder is full.
            self._failed(f"fault {self._number} ({self._fault.text}): {error}")

    def _run(self) -> None:
        if self._over.wait(max(0.0, self._at_s - time.time())):
            self._say_failed("was not carried out: the load ended before")
            return
        action, hosts = self._fault.action, self._hosts
        self.write("begun")
        problem = _tried(lambda: self._levers.begin(self._fault, hosts))
        if problem:
            self._say_failed(f"was not carried out: {problem}")
        else:
            self._over.wait(self._fault.for_s)
        for left in reversed(range(UNDO_TRIES)):
            still = _tried(lambda: self._levers.undo(action, hosts))
            if not still:
                self.write("undone")
                return
            if not left:
                self._say_failed(f"could not be undone: {still}")
            time.sleep(_BETWEEN_TRIES_S)

    def _say_failed(self, how: str) -> None:
        self._failed(f"fault {self._number} ({self._fault.text}) {how}")
        # Without room for it what was begun has to be undone all the same.
        with contextlib.suppress(OSError):
            self.write("failed", how)


def _tried(act: Callable[[], None]) -> str:
    """Why something could not be done; "" if it was."""
    try:
        act()
    except UserError as error:
        return error.message
    except Exception as error:  # A fault must not end the run that it is to be seen in.
        return f"{type(error).__name__}: {error}"
    return ""


@contextlib.contextmanager
def under(current: CurrentRun, start_s: float) -> Iterator[None]:
    """Within the block, the faults of the run's experiment happen at their times.

    Those that last at its end are undone then, and it waits for that. `start_s`: of the load, epoch
    s. Nothing, and no file, where the experiment has none.
    """
    planned = current.plan.experiment.faults
    if not planned:
        yield
        return
    assert current.levers is not None  # the plan refuses faults where a target has no levers
    over, file = threading.Event(), JsonLines(current.folder / run_folder.FAULTS)
    carried = [
        _Carried(
            number,
            fault,
            _hosts(current, fault),
            start_s,
            current.levers,
            over,
            file,
            current.facts.incomplete.append,
        )
        for number, fault in enumerate(planned, 1)
    ]

    def end() -> None:
        over.set()
        for each in carried:
            if each.is_alive():
                each.join()

    try:
        for each in carried:
            each.start()
        yield
    finally:
        uninterrupted(end)


def filled(current: CurrentRun) -> set[str]:
    """The hosts whose disk is filled on purpose in this run, which does not end for that."""
    faults = (fault for fault in current.plan.experiment.faults if fault.action == "fill-disk")
    return {host.name for fault in faults for host in _hosts(current, fault)}


def _hosts(current: CurrentRun, fault: Fault) -> list[Host]:
    names = hosts_of(fault.on, [host.name for host in current.inventory.all])
    return [current.inventory.host(name) for name in names]
