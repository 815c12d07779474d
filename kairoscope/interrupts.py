"""What ends a command as Ctrl-C does, and how it goes on when nobody reads it any more."""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""SIGHUP: a terminal that was closed, or a connection to it that broke."""


@contextlib.contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Within the block they do what Ctrl-C does; one that is ignored, as by nohup, stays so.

    Ctrl-C and they are as before after it, whatever was made of them meanwhile.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *SIGNALS)}
    for number in SIGNALS:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore() -> None:
    """From now on none of them, nor Ctrl-C, ends this process, nor what it starts."""
    for number in (signal.SIGINT, *SIGNALS):
        signal.signal(number, signal.SIG_IGN)


def name(interrupt: KeyboardInterrupt) -> str:
    """What it came of: "SIGTERM", "SIGHUP" or "Ctrl-C"."""
    return next((each.name for each in SIGNALS if each.name in interrupt.args), "Ctrl-C")


def _interrupt(number: int, _: object) -> None:
    let_go_of_deaf()
    raise KeyboardInterrupt(signal.Signals(number).name)


def let_go_of_deaf() -> None:
    """Say no more to a terminal that was closed, or a pipe that nobody reads: each line would be an
    error (EIO, EPIPE), and end what is still to be done."""
    deaf = select.poll()
    for descriptor in (sys.__stdout__, sys.__stderr__):
        if descriptor:
            deaf.register(descriptor, 0)
    for number, _ in deaf.poll(0):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
