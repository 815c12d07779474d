"""What the loader's processes share: how they are started and stopped, and how they end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loaders.credentials import Credentials
from loaders.record.files import FilesError
from loaders.schedule.clock import Clock
from loaders.schedule.spec import LoadSpec

PARENT_VARIABLE = "LOADERS_PARENT_PID"
"""Environment variable with the id of the process whose death ends this one; if it is not set,
the process that is the parent at the start."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

EXIT_USAGE = 2
EXIT_FILES = 3


_SECOND_US = 1_000_000


async def every_second(
    clock: Clock, start_ms: int, report: Callable[[], None], stop: Callable[[], None]
) -> None:
    """Report until cancelled; stop once the process has lost its parent.

    On whole seconds of the schedule (`start_ms`, epoch), so that the intervals of all processes
    coincide.
    """
    parent = int(os.environ.get(PARENT_VARIABLE, os.getppid()))
    start_us = start_ms * 1000
    while True:
        now_us = clock.now_us()
        next_us = start_us + ((now_us - start_us) // _SECOND_US + 1) * _SECOND_US
        await asyncio.sleep((next_us - now_us) / 1e6)
        report()
        if os.getppid() != parent:
            stop()


class Loop(typing.Protocol):
    """What a process does."""

    async def run(self) -> dict[str, Any]:
        """Until its end; raises FilesError if a file could not be written."""

    def stop(self) -> None:
        """End soon, in good order. May be called again."""


async def _run(loop: Loop) -> None:
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, loop.stop)
    # Whoever starts a process may block the signals until here, so that none is lost, or met with
    # a traceback, while Python starts.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        await loop.run()
    finally:
        # A second signal must not spoil the exit status now that all is written.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def main(
    name: str,
    arguments: list[str],
    check: Callable[[LoadSpec, int], None],
    make: Callable[[LoadSpec, int, Path, Credentials], Loop],
) -> int:
    """Run a process from command line arguments SPEC.json NUMBER OUTDIR.

    Where the nodes are reached over HTTPS, `loaders.credentials` are read from stdin to its end.

    Args:
        name: "worker" or "reader".
        arguments: of the command line.
        check: raises ValueError if the spec has no process of that number.
        make: what the process does; called inside a running event loop.

    Returns:
        The exit status; anything but 0 comes with a line on stderr.
    """
    try:
        spec_path, number_text, outdir = arguments
        number = int(number_text)
    except ValueError:
        print(f"usage: python -m loaders.{name} SPEC.json NUMBER OUTDIR", file=sys.stderr)
        return EXIT_USAGE
    try:
        spec = LoadSpec.from_json(Path(spec_path).read_text(encoding="utf-8"))
        check(spec, number)
    except (OSError, ValueError) as error:
        print(f"{name} {number}: {spec_path}: {error}", file=sys.stderr)
        return EXIT_USAGE
    credentials = Credentials()
    try:
        if any(node.startswith("https:") for node in spec.nodes):
            credentials = Credentials.from_json(sys.stdin.read())
            _ = credentials.tls  # a bad CA shows here, and not with every connection
    except ValueError as error:
        print(f"{name} {number}: {error}", file=sys.stderr)
        return EXIT_USAGE

    async def run() -> None:
        await _run(make(spec, number, Path(outdir), credentials))

    try:
        asyncio.run(run())
    except FilesError as error:
        print(f"{name} {number}: {error}", file=sys.stderr)
        return EXIT_FILES
    return 0
