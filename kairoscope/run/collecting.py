"""The files that a load left on a loader host, and how they come here."""

import dataclasses
import json
import re
import shutil
import subprocess
import tarfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host
from loaders.host import LOCK
from loaders.query import query_files
from loaders.record import files

STOP_S = 60.0
"""As long as an agent has to end; it gives its workers half of it."""
_COLLECT_S = 600.0
_BACK_S = 60.0  # a host that reboots
_AGAIN_S = 2.0
_STILL_LOCKED = 77  # exit status of a collection that would have read what is still written
_HOST_ERRORS = (OSError, EOFError, tarfile.TarError, zlib.error)


@dataclasses.dataclass(frozen=True)
class Left:
    """What a load left on a host.

    Fields:
        outdir: the folder there.
        index: of the host, and of its reader.
        workers: those that it had.
        records: what each told last.
    """

    host: Host
    outdir: str
    index: int
    workers: range
    records: dict[int, dict[str, Any]]

    def collect(self, folder: Path, say: Callable[[str], None], end: Callable[[], None]) -> str:
        """Bring the files here, when the last process has ended; why not, or "".

        A host that ssh does not reach may be on its way back: for a while it is asked again, which
        `say` is told. Of one that gives nothing there is what its workers told last. `end` is
        called for workers of this machine that do not end.
        """
        deadline = time.monotonic() + _BACK_S
        told = False
        while True:
            problem, unreached = self._collect(folder, end)
            if not unreached or time.monotonic() > deadline:
                break
            if not told:
                told = True
                say(f"{self.host.name} does not answer; its files are asked for, {_BACK_S:g} s")
            time.sleep(_AGAIN_S)
        for worker in self.workers if problem else ():
            path = files.progress_path(folder, worker)
            if worker in self.records and not path.exists():
                path.write_text(json.dumps(self.records[worker]) + "\n")
        return problem

    def _collect(self, folder: Path, end: Callable[[], None]) -> tuple[str, bool]:
        """Try to; why not, or "", and whether ssh did not reach it."""
        # Nothing is read that is still written: the lock is free when the last worker has ended.
        lock = ["flock", "--wait", f"{STOP_S:.0f}", "--conflict-exit-code", str(_STILL_LOCKED)]
        tar = ["tar", "-C", self.outdir, "-cz", "."]
        popen = subprocess.Popen(
            ssh.command(self.host, [*lock, f"{self.outdir}/{LOCK}", *tar]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        watchdog = threading.Timer(_COLLECT_S, popen.kill)
        watchdog.start()
        problem = ""
        try:
            self._unpack(popen, folder)
        except _HOST_ERRORS as error:
            problem = str(error) or type(error).__name__
        finally:
            watchdog.cancel()
            if problem:
                popen.kill()
            _, errors = popen.communicate()
        if popen.returncode == _STILL_LOCKED:
            problem = "its workers did not end"
            if ssh.is_local(self.host):
                end()
        if popen.returncode != 0 or problem:
            said = errors.decode(errors="replace").strip().splitlines()
            # Without them a process counts as dead: its other files may be cut off.
            for worker in self.workers:
                files.result_path(folder, worker).unlink(missing_ok=True)
            query_files.result_path(folder, self.index).unlink(missing_ok=True)
            unreached = not ssh.is_local(self.host) and popen.returncode == ssh.SSH_FAILED
            return f"its files could not be collected: {(said or [problem])[-1]}", unreached
        return "", False

    def _unpack(self, popen: subprocess.Popen[bytes], folder: Path) -> None:
        """Write the files of its own processes from a tar stream, whatever else is in it."""
        own = {"worker": self.workers, "queries": (self.index,)}
        with tarfile.open(fileobj=popen.stdout, mode="r|gz") as tar:
            for member in tar:
                name = re.fullmatch(r"\./((worker|queries)-(\d+)\.[a-z.]+)", member.name)
                if member.isfile() and name and int(name[3]) in own[name[2]]:
                    content = tar.extractfile(member)
                    assert content is not None
                    with (folder / name[1]).open("wb") as file:
                        shutil.copyfileobj(content, file)
