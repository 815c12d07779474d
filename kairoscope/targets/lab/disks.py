"""What can happen to a lab host's data disk: it is full, or slow by limits of control groups."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from kairoscope.errors import UserError
from kairoscope.targets.lab import system
from kairoscope.targets.lab.system import Cgroup

_MIB = 1024 * 1024
_FILL = "lab-fills-this-disk"
_OLD = ("blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device")


def fill(folder: Path, leave_mib: int, whose: str) -> None:
    """Fill the disk that is mounted there until so many MiB are left.

    UserError if there are no more than that; it names `whose` disk it is.
    """
    free(folder)
    file = folder / _FILL
    disk = os.statvfs(folder)
    left = disk.f_bavail * disk.f_frsize
    if (wanted := left - leave_mib * _MIB) <= 0:
        raise UserError(
            f"{whose} has {left // _MIB} MiB left, which is not more than {leave_mib} MiB."
        )
    # The file system's own list of a large file's blocks takes of the last of them.
    with file.open("wb") as handle, _no_space_left():
        os.posix_fallocate(handle.fileno(), 0, wanted)


def free(folder: Path) -> None:
    """Undo that."""
    (folder / _FILL).unlink(missing_ok=True)


def limit(group: Cgroup, pids: Iterable[int], device: str, operations: int | None) -> None:
    """Let processes read and write so many times a second each; None: as often as they like.

    Args:
        group: of version 2, that all of them are in.
        pids: the same where version 1 has the limits, in which they are in no group of the lab yet.
        device: the disk, as "7:0".
        operations: what waits for them are reads that are not in memory and what is synced. What
            the kernel writes later by itself counts with version 2 alone.

    Raises:
        UserError: this machine's control groups have no limits for disks.
    """
    if (new := group.path / "io.max").exists():
        many = "max" if operations is None else operations
        new.write_text(f"{device} riops={many} wiops={many}")
        return
    old = _old_group(group.name)
    if operations is None and not old.exists():
        return
    old.mkdir(parents=True, exist_ok=True)
    for name in _OLD:
        (old / name).write_text(f"{device} {operations or 0}")
    for pid in pids if operations else ():
        with contextlib.suppress(ProcessLookupError):
            (old / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def _no_space_left() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _old_group(name: str) -> Path:
    for point, kind in system.mounts():
        if kind == "cgroup" and (point / _OLD[0]).exists():
            return point / name
    raise UserError(
        "This machine's control groups have no limits for disks: neither io of version 2, for "
        "groups below the first, nor blkio of version 1."
    )
