"""What looks at servers and hosts again and again: threads of this machine, programs on hosts."""

import subprocess
import threading
import time
from collections.abc import Callable

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from kairoscope.run_folder import JsonLines

# Multiples of it, modulo 1, fill the interval evenly from the first ones on.
_GOLDEN = (5**0.5 - 1) / 2


class Periodic(threading.Thread):
    """Calls a function every `every_s` seconds on a fixed grid until stopped.

    An error of the function ends the sampler and is kept in `error`: the run is then incomplete,
    since a capture with a hole in it must not look whole.
    """

    def __init__(
        self,
        name: str,
        every_s: float,
        sample: Callable[[], object],
        after_s: float = 0,
        *,
        spread: bool = False,
    ) -> None:
        """Not started yet.

        Args:
            name: of the thread, and of what it samples.
            every_s: a step of the grid.
            sample: called from this thread only.
            after_s: when it is called first.
            spread: each step has a moment of its own within it, evenly over time, for what itself
                goes up and down with such a period: looked at on the grid it would look still, or,
                as the two clocks drift apart, slowly rising.
        """
        super().__init__(name=name, daemon=True)
        self._every_s = every_s
        self._after_s = after_s
        self._turn = _GOLDEN if spread else 0.0
        self._sample = sample
        self._stop_event = threading.Event()
        self.error: str | None = None

    def run(self) -> None:
        """Sample on the grid; a sample that takes longer than a step skips the steps it missed."""
        self._stop_event.wait(self._after_s)
        start = time.monotonic()
        while not self._stop_event.is_set():
            try:
                self._sample()
            except Exception as error:
                self.error = f"{self.name}: {type(error).__name__}: {error}"
                return
            elapsed = time.monotonic() - start
            step = elapsed // self._every_s + 1
            due = (step + step * self._turn % 1) * self._every_s
            self._stop_event.wait(due - elapsed)

    def stop(self) -> None:
        """Ask it to end and wait until it has."""
        self._stop_event.set()
        if self.is_alive():
            self.join()


class Followed:
    """Programs that run on hosts, one on each, whose lines are read here as they come.

    Stands where a `Periodic` does: `start`, `stop`, `error`.
    """

    def __init__(
        self,
        hosts: list[Host],
        what: str,
        program: Callable[[Host], list[str]],
        record: Callable[[Host, str], None],
        events: JsonLines,
        removed: Callable[[Host], bool],
    ) -> None:
        """Not started yet.

        `record` gets each line, in the thread of its host; `what` names the programs in the events.
        A host that was `removed` is followed no more.
        """
        self._hosts = hosts
        self._what = what
        self._program = program
        self._record = record
        self._events = events
        self._removed = removed
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._errors: list[str] = []

    @property
    def error(self) -> str | None:
        """On which hosts it ended early, and why; None if it did on none."""
        return "; ".join(self._errors) or None

    def start(self) -> None:
        """Start a program on every host."""
        for host in self._hosts:
            thread = threading.Thread(target=self._follow, args=(host,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End them all."""
        self._ended.set()
        for popen in list(self._running.values()):
            popen.terminate()
        for thread in self._threads:
            thread.join()

    def _follow(self, host: Host) -> None:
        try:
            self._read(host)
        except Exception as error:
            self._errors.append(f"{self._what} of {host.name}: {type(error).__name__}: {error}")

    def _read(self, host: Host) -> None:
        """Read a host's program; one that ends (the host restarts) is started again."""
        while not self._ended.is_set():
            with subprocess.Popen(
                ssh.command(host, self._program(host), sudo=True),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            ) as popen:
                self._running[host.name] = popen
                if self._ended.is_set():  # `stop` may have looked before it was there.
                    popen.terminate()
                assert popen.stdout is not None  # for the type checker
                try:
                    for line in popen.stdout:
                        self._record(host, line)
                except Exception:
                    popen.terminate()  # Or it would be waited for, and nobody reads what it says.
                    raise
            if not self._ended.wait(1):
                if self._removed(host):
                    self._events.write(t=time.time(), what="host removed", detail=host.name)
                    return
                said = f"{host.name}: not seen for a while (exit status {popen.returncode})"
                self._events.write(t=time.time(), what=f"{self._what} ended", detail=said)
