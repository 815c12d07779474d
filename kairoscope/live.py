"""What takes longer than a few seconds says how far it is: a live line, or a line now and then."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

LINE_EVERY_S = 5.0
"""Without a terminal, where nothing can be written over: a line so often, in s."""

_BAR_WIDTH = 12
_REFRESH_S = 0.5
# Before so many seconds, and so much of the work, a rate says little about the rest.
_LEAST_S = 2.0
_LEAST_SHARE = 0.02

T = TypeVar("T")


def duration(seconds: float) -> str:
    """Seconds as a person says them: 45 s, 3:20 min."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 100 else f"{whole // 60}:{whole % 60:02d} min"


def time_left(done: int, total: int | None, elapsed_s: float) -> float | None:
    """Seconds until all is done at the pace so far; None if that tells nothing yet."""
    if not total or elapsed_s < _LEAST_S or done < total * _LEAST_SHARE:
        return None
    return max(0.0, (total - done) * elapsed_s / done)


class Stage:
    """One stage of the work, and how far it is. Made by `stage`."""

    def __init__(self, what: str, total: int | None, unit: str, usual: str) -> None:
        """`usual`: how long it usually takes, in words, for a stage that cannot tell."""
        self.what, self.unit, self.usual = what, unit, usual
        self.done, self.total = 0, total
        self._began = time.monotonic()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Say how much is done, and of how much if that was not known before."""
        self.done = done
        self.total = total if total is not None else self.total

    def text(self, elapsed_s: float) -> str:
        """How far it is, after so many seconds."""
        said = []
        if self.total is not None or self.done:
            of = "" if self.total is None else f" of {self.total:,}"
            said.append(f"{self.done:,}{of} {self.unit}".rstrip())
        said.append(duration(elapsed_s))
        left = time_left(self.done, self.total, elapsed_s)
        if left is not None:
            said.append(f"about {duration(left)} left")
        elif self.usual:
            said.append(self.usual)
        return ", ".join(said)

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began


@contextmanager
def stage(
    console: Console | None, what: str, total: int | None = None, unit: str = "", usual: str = ""
) -> Iterator[Stage]:
    """Show a stage from its begin to its end, and then what it took; nothing without a console.

    Args:
        console: where to.
        what: a few words that name it.
        total: how much there is to do, if that is known.
        unit: of `total`.
        usual: how long it usually takes, in words, where no pace tells.
    """
    shown = Stage(what, total, unit, usual)
    if console is None:
        yield shown
        return
    ended = threading.Event()
    console.print(f"{what} …")
    line = _live_line if console.is_terminal else _lines
    teller = threading.Thread(target=line, args=(console, shown, ended), daemon=True)
    teller.start()
    try:
        yield shown
    finally:
        ended.set()
        teller.join()
    if shown.elapsed_s >= 1:
        console.print(f"  {what}: done in {duration(shown.elapsed_s)}")


def counted(items: Iterable[T], report: Callable[[int], None]) -> Iterator[T]:
    """The items, each of them reported once it was taken."""
    for number, item in enumerate(items, 1):
        yield item
        report(number)


def _lines(console: Console, shown: Stage, ended: threading.Event) -> None:
    while not ended.wait(LINE_EVERY_S):
        console.print(f"  {shown.what}: {shown.text(shown.elapsed_s)}")


def _live_line(console: Console, shown: Stage, ended: threading.Event) -> None:
    with bar(console) as progress:
        task = progress.add_task("", total=shown.total, figures="")
        while True:
            figures = shown.text(shown.elapsed_s)
            progress.update(task, completed=shown.done, total=shown.total, figures=figures)
            if ended.wait(_REFRESH_S):
                return


def bar(console: Console) -> Progress:
    """A live bar with a free text of `figures`; nothing where there is no terminal.

    Gone when it ends, and never wider than the terminal: a line that is folded cannot be written
    over.
    """
    return Progress(
        BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.fields[figures]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
