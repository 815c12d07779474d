"""Files that are the only record of something: whole, or as they were before."""

import contextlib
import os
from pathlib import Path

from kairoscope.errors import UserError


def write(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file in place of the one that is there, also if the disk is full or power goes.

    `mode`: who may read it, less the umask. OSError if it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            # Else the new name may be on the disk before what it is of.
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def record(path: Path, text: str, mode: int = 0o666) -> None:
    """The same of text. UserError if it cannot be written."""
    try:
        write(path, text.encode(), mode)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}); what it was before is there still"
        ) from error
