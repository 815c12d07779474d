"""A build tool that runs with its output in a file; and whether anything is to be built at all."""

import hashlib
import re
import subprocess
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kairoscope import live

_LOOK_EVERY_S = 0.5
_FETCHED = re.compile(r"^(?:\[INFO\] )?Downloaded from ", re.MULTILINE)  # a line of Maven's


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
    command: list[str],
    log: Path,
    stage: Callable[[], AbstractContextManager[live.Stage]],
    **options: Any,
) -> bool:
    """Run a build tool with all its output in a file; whether it succeeded.

    `stage` shows it meanwhile, with how many files it has fetched, where it says so.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with stage() as shown, log.open("w") as out:
        running = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **options
        )
        try:
            while True:
                try:
                    status = running.wait(_LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    shown(len(_FETCHED.findall(log.read_text(errors="replace"))))
        except BaseException:
            running.kill()
            running.wait()
            raise
    return status == 0


def first_errors(log: Path) -> str:
    """The first errors in a log and where it is, for the end of a message."""
    lines = [line for line in log.read_text().splitlines() if "ERROR" in line][:3]
    return "".join(f"\n{line}" for line in [*lines, f"Whole log: {log}"])
