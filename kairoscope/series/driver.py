"""One deployment that many loads run on, by the same verbs that a person has.

Each verb is a process of its own: a run that is interrupted then ends as it always does, and what
one run leaves in memory does not reach the next.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rich.console import Console

from kairoscope import experiment as experiments
from kairoscope import interrupts, live, paths, run_folder
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, supervisor
from kairoscope.hosts.inventory import Inventory
from kairoscope.series import record

_RESTART_S = 300
"""Of each process, one after the other: supervisord waits for its end as long as its program says,
240 s at most (in ansible/roles, `service_stop_seconds`), and then kills it."""


@dataclass(frozen=True)
class Wanted:
    """An experiment as it is to be run: its name or file, and options that scale it."""

    experiment: str
    options: tuple[str, ...] = field(default=())


class Driver(Protocol):
    """What a series does with a deployment."""

    def prepare(self, wanted: Wanted) -> None:
        """Bring the target to the experiment, with KairosDB as it is after a start."""

    def load(self, wanted: Wanted, into: Path) -> Path:
        """Run the load; the run folder, which is in `into`."""


class Verbs:
    """A target of this installation.

    Attributes:
        empty: takes away what earlier runs of an experiment left in the store; None to leave it.
        hosts: options of a deploy that say where hosts come from, and whose server is stored on,
            with absolute paths.
    """

    def __init__(
        self,
        target: str,
        console: Console,
        empty: Callable[[Wanted], None] | None = None,
        hosts: Sequence[str] = (),
    ) -> None:
        self._target = target
        self._console = console
        self._empty = empty
        self._hosts = hosts

    def prepare(self, wanted: Wanted) -> None:
        """Deploy, with KairosDB restarted: a deploy that changes nothing would leave it warm.

        UserError if a verb fails.
        """
        try:
            before = inventory.load(self._target)
        except UserError:
            before = None  # Nothing is deployed: what will be has just started.
        if before is not None and not before.managed:
            restart(before)
        self._call("deploy", wanted.experiment, *wanted.options, *self._hosts, quiet=True)
        if before is not None and before.managed:
            for host in inventory.load(self._target).kairosdb:
                self._call("operate", "rolling-restart", "--limit", host.name, quiet=True)
        if self._empty is not None:
            self._empty(wanted)

    def load(self, wanted: Wanted, into: Path) -> Path:
        """Run the load; UserError if it left no run folder."""
        before = set(into.iterdir())
        self._call("load", wanted.experiment, *wanted.options, "--into", str(into), ends=(0, 1, 2))
        made = [path for path in into.iterdir() if path.is_dir() and not path.is_symlink()]
        new = [path for path in made if path not in before]
        if len(new) != 1:
            raise UserError(f"`kairoscope load {wanted.experiment}` left no run folder in {into}")
        return new[0]

    def deploy(self, wanted: Wanted) -> None:
        """Bring the target to the experiment, and no more. UserError if it fails."""
        self._call("deploy", wanted.experiment, *wanted.options, *self._hosts)

    def search(self, wanted: Wanted) -> Path:
        """Search for what it sustains; the search's folder. UserError if it came to no result.

        Its exit status does not tell that: what cannot be known and what was refused are both 2.
        """
        name = experiments.load(wanted.experiment).name
        before = self._searched(name)
        self._call("search", wanted.experiment, *wanted.options, ends=(0, 1, 2))
        new = self._searched(name) - before
        if len(new) != 1:
            raise UserError(
                f"`kairoscope search {wanted.experiment}` came to no result, and said why. The "
                "same command tries it again, and goes on after the trials that it made"
            )
        return new.pop()

    def _searched(self, name: str) -> set[Path]:
        """Searches of an experiment that came to a result: not one that is about to go on."""
        found = set()
        for folder in paths.series_dir().glob(f"*-search-{name}-{self._target}"):
            with contextlib.suppress(UserError, OSError):
                if run_folder.read_object(folder / record.FILE).get("result"):
                    found.add(folder)
        return found

    def destroy(self) -> None:
        """End all of the target. UserError if it fails."""
        self._call("destroy")

    def _call(self, *arguments: str, ends: Sequence[int] = (0,), quiet: bool = False) -> None:
        """Run a verb; what it says goes to the console, or with `quiet` into a failure's text."""
        program = Path(sys.executable).parent / "kairoscope"
        command: list[str | Path] = [program, *arguments, "--target", self._target]
        # What is quiet says at least that it goes on.
        shown = self._console if quiet else None
        with live.stage(shown, " ".join(arguments[:2])):
            status, said = run_verb(command, paths.CHECKOUT, os.environ, quiet=quiet)
        if status not in ends:
            text = f": {said[-1500:]}" if said else ""
            raise UserError(f"`kairoscope {arguments[0]}` ended with {status}{text}")


def run_verb(
    command: Sequence[str | Path], checkout: Path, env: Mapping[str, str], *, quiet: bool
) -> tuple[int, str]:
    """Run a verb of a checkout to its end: its exit status, and with `quiet` what it said.

    Ctrl-C is passed on, and its end awaited: another verb is refused beside it. KeyboardInterrupt
    then, whatever it came to, as a verb that was interrupted is no failure of its own.
    """
    # From before it starts: one that comes as it does would leave it behind.
    with _interrupts_passed_on() as to:
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            # Passed on once: a terminal would send a second one by itself.
            start_new_session=True,
        )
        to(process)
        said, _ = process.communicate()
    return process.returncode, (said or "").strip()


def restart(deployed: Inventory) -> None:
    """Restart what takes points on this machine; the deploy that follows waits until it is healthy.

    UserError if one of its processes cannot be.
    """
    for host in deployed.kairosdb:
        folder = Path(host.vars["supervisor_dir"])
        known = {process.name for process in supervisor.processes(folder) or ()}
        # What is not there yet, after a deploy that was interrupted, the next one starts.
        names = [name for name in host.processes if name in known]
        if not names:
            continue
        _restart(host.name, folder, names)


def _restart(of: str, folder: Path, names: Sequence[str]) -> None:
    """Have supervisord restart some processes of a host, one after the other."""
    command = [
        *(sys.executable, "-m", "supervisor.supervisorctl"),
        *("-c", str(folder / "supervisord.conf"), "restart", *names),
    ]
    patience_s = _RESTART_S * len(names)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience_s,
        )
    except subprocess.TimeoutExpired:
        status, said = 1, f"{', '.join(names)} had not ended after {patience_s} s"
    else:
        status = done.returncode
        said = "; ".join((done.stdout + done.stderr).split("\n")).strip("; ")
    if status != 0:
        raise UserError(f"{of} could not be restarted: {said}. First: make deploy")


@contextlib.contextmanager
def _interrupts_passed_on() -> Iterator[Callable[[subprocess.Popen[str]], None]]:
    """Within the block Ctrl-C, and what does the same, reach the verb that is named by a call of
    what is given, also one that came before; after the block they interrupt us too. One that is
    ignored, as by nohup, stays so, of the verb as well."""
    got: list[int] = []
    verb: list[subprocess.Popen[str]] = []
    unsent = [True]  # Taken out by whoever sends, as a signal comes between any two lines.

    def send() -> None:
        if verb and got and unsent:
            with contextlib.suppress(IndexError):
                unsent.pop()
                verb[0].send_signal(got[0])

    def pass_on(number: int, _: object) -> None:
        interrupts.let_go_of_deaf()
        got.append(number)
        send()

    def to(process: subprocess.Popen[str]) -> None:
        verb.append(process)
        send()

    before = {
        number: signal.signal(number, pass_on)
        for number in (signal.SIGINT, *interrupts.SIGNALS)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if got:
        raise KeyboardInterrupt
