"""A build tool that runs with its output in a file; whether anything is to be built at all; and
that one command at a time builds."""

import fcntl
import hashlib
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope import live, paths

_LOOK_EVERY_S = 0.5
_FETCHED = re.compile(r"^(?:\[INFO\] )?Downloaded from ", re.MULTILINE)  # a line of Maven's


@contextmanager
def alone(console: Console | None) -> Iterator[None]:
    """Nobody else builds a bundle meanwhile; waits for who does.

    Two terminals of a new clone would remove under each other what they have fetched.
    """
    try:
        paths.BUNDLES.mkdir(parents=True, exist_ok=True)
        file = (paths.BUNDLES / "lock").open("w")
    except OSError:
        # Whoever cannot write there builds nothing: all is there, or the first file says so.
        yield
        return
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with live.stage(console, "waiting for another command, which builds the bundles"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stamp_of(sources: Iterable[Path]) -> str:
    """What tells files from others that something was built from."""
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def unchanged(stamp_file: Path, stamp: str) -> bool:
    """Whether that is of what the last build was made from."""
    return stamp_file.exists() and stamp_file.read_text() == stamp


def logged(
    log: Path,
    stage: Callable[[], AbstractContextManager[live.Stage]],
    *commands: list[str],
    **options: Any,
) -> bool:
    """Run build tools side by side with all their output in a file; whether each succeeded.

    `stage` shows it meanwhile, with how many files they have fetched, where they say so.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    running: list[subprocess.Popen[bytes]] = []
    with stage() as shown, log.open("w") as out:
        try:
            for command in commands:
                running.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        **options,
                    )
                )
            for one in running:
                while not _ended(one):
                    shown(len(_FETCHED.findall(log.read_text(errors="replace"))))
        except BaseException:
            for one in running:
                one.kill()
                one.wait()
            raise
    return all(one.returncode == 0 for one in running)


def _ended(running: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; waits a moment for that."""
    try:
        running.wait(_LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def first_errors(log: Path) -> str:
    """The first errors in a log and where it is, for the end of a message."""
    lines = [line for line in log.read_text().splitlines() if "ERROR" in line][:3]
    return "".join(f"\n{line}" for line in [*lines, f"Whole log: {log}"])
