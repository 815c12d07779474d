"""How many operations a second a lab host's processes have of a disk: limits of control groups."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from kairoscope.errors import UserError
from kairoscope.targets.lab import system
from kairoscope.targets.lab.system import Cgroup

_OLD = ("blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device")


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


def _old_group(name: str) -> Path:
    for point, kind in system.mounts():
        if kind == "cgroup" and (point / _OLD[0]).exists():
            return point / name
    raise UserError(
        "This machine's control groups have no limits for disks: neither io of version 2, for "
        "groups below the first, nor blkio of version 1."
    )
