"""The page beside a load: in a process of its own, with the lowest priority, since it must take
nothing from what is measured. It ends with the process that started it, however that ends."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from kairoscope.serve import now, shelf, web

_END_S = 10.0
"""More than the process takes to end: it waits until whoever watches has seen the report."""


class Beside:
    """What listens from the start, and is served once there is something to see."""

    def __init__(self, listening: socket.socket | None, console: Console) -> None:
        """Made by `page`; without a socket nothing is served."""
        self._listening = listening
        self._console = console
        self._process: subprocess.Popen[bytes] | None = None

    def show(self, folder: Path) -> None:
        """Serve the folder that this run folder lies in, and say where; nothing more if it is
        served already. Never raises."""
        self._serve(shelf.address(folder), folder.parent)

    def show_target(self, target: str, runs: Path) -> None:
        """Serve what is deployed on a target and then loaded, and say where. Never raises.

        `runs`: the folder in which the load's run folder will be.
        """
        self._serve(now.ADDRESS, runs, target)

    def _serve(self, address: str, folder: Path, *of: str) -> None:
        if self._listening is None or self._process is not None:
            return
        fd = self._listening.fileno()
        try:
            self._process = subprocess.Popen(
                # -P: a folder named "kairoscope" where the user happens to be is not ours.
                [sys.executable, "-P", "-m", "kairoscope.serve", str(fd), folder, *of],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[fd],
                # Ctrl-C is for the run; this one sees it end.
                start_new_session=True,
            )
        except OSError as error:
            _not_served(self._console, error)
            return
        where = web.url(self._listening, address)
        self._listening.close()
        self._console.print(f"live, in a browser on this machine: {where}", soft_wrap=True)

    def end(self) -> None:
        """End it, once whoever watches has seen the end of the run."""
        if self._listening is not None:
            self._listening.close()
        if self._process is None:
            return
        assert self._process.stdin is not None
        if self._process.poll() is not None:
            self._console.print("the live page had ended before the run did")
        self._process.stdin.close()
        # Ctrl-C: nobody waits for a page then.
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.wait(_END_S)
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def page(port: int | None, console: Console) -> Iterator[Beside]:
    """What serves the page of a load within the block.

    A page that cannot be served is said in a line, and the load goes on without.

    Raises:
        UserError: `port` was asked for and cannot be had.
    """
    listening: socket.socket | None = None
    try:
        listening = web.listen(port)
    except OSError as error:
        _not_served(console, error)
    beside = Beside(listening, console)
    try:
        yield beside
    finally:
        beside.end()


def _not_served(console: Console, error: OSError) -> None:
    console.print(f"no live page, the load goes on without: {error}", soft_wrap=True)
