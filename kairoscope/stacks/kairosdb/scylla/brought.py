"""A ScyllaDB server that the user has: its maker's relocatable archive, or a folder with one.

Kairoscope ships none and fetches none. The layout is that of scripts/create-relocatable-package.py
and unified/build_unified.sh at 5.2.19 and 2026.2.5 (github.com/scylladb/scylladb): programs in
libexec/, the libraries they were built with and their loader in libreloc/, versions in files.
"""

import gzip
import json
import os
import platform
import shutil
import subprocess
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from kairoscope import paths, ready, releases, whole
from kairoscope.errors import UserError
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.scylla import options
from kairoscope.stacks.kairosdb.settings.storage import compression_problem

OLDEST = (5, 2)
"""Releases before know other options, and have met nothing of ours."""

# Where the server is in a folder, beginning with the maker's own layout.
_PROGRAMS = ("libexec/scylla", "bin/scylla", "scylla")
_VERSION_FILE, _RELEASE_FILE = "SCYLLA-VERSION-FILE", "SCYLLA-RELEASE-FILE"

# Beside its libraries; see install.sh at the same tags.
_TLS_SETTINGS = "gnutls.config"

# e_machine of an ELF file, for the processors that ScyllaDB is made for.
_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
_ELF_MACHINE_AT = 18

_SAYS_VERSION_S = 60


@dataclass(frozen=True)
class Server:
    """A server that this machine can start.

    Fields:
        folder: that it is in.
        program: the server itself.
        version: as it says itself, such as 2026.1.11-0.20260801.abc.
        libraries: folder of the libraries and the loader that it brings, None if it brings none.
    """

    folder: Path
    program: Path
    version: str
    libraries: Path | None
    name: ClassVar[str] = "scylla"

    @property
    def command(self) -> list[str]:
        """What starts it, before its arguments: with its own loader, where it brings one."""
        return self.command_at(self.folder)

    def command_at(self, folder: Path) -> list[str]:
        """The same where its `parts` were copied to."""
        program, *libraries = (folder / part for part in self.parts)
        command = _command(program, libraries[0] if libraries else None)
        if self.libraries and (self.libraries / _TLS_SETTINGS).is_file():
            # As its maker's own start script does: else the host's settings of GnuTLS would hold.
            setting = f"GNUTLS_SYSTEM_PRIORITY_FILE={libraries[0] / _TLS_SETTINGS}"
            return ["/usr/bin/env", setting, *command]
        return command

    @property
    def release(self) -> str:
        """Such as 2026.1.11: what an inventory and the table of options have."""
        return ".".join(map(str, releases.number(self.version)))

    @property
    def parts(self) -> list[str]:
        """What it runs with, by name below its folder: the program, and its libraries."""
        wanted = [self.program, *([self.libraries] if self.libraries else [])]
        return [str(part.relative_to(self.folder)) for part in wanted]


def find(folder: Path) -> Server:
    """The server in a folder: unpacked from the maker's archive, installed or built.

    Raises:
        UserError: there is none, not all of it, one for other processors, or of a release that is
            not known; what is missing, and what to do.
    """
    for root in _roots(folder):
        for name in _PROGRAMS:
            program = root / name
            if program.is_file() and (machine := _machine(program)) is not None:
                return _checked(root, program, machine)
    raise UserError(
        f"{folder}: no ScyllaDB server in it: none of {', '.join(_PROGRAMS)} is a program, here or "
        "in a folder scylla below. SCYLLA= is the maker's archive, or the folder in which it was "
        "unpacked."
    )


def _roots(folder: Path) -> list[Path]:
    """Where it may be: the archive has a folder of its version, and in it one for each part."""
    below = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [folder, folder / "scylla", *(path / "scylla" for path in below)]


def _machine(program: Path) -> str | None:
    """The processors that a program is for; None if it is not an ELF file (a script, a folder)."""
    with program.open("rb") as file:
        head = file.read(_ELF_MACHINE_AT + 2)
    if len(head) < _ELF_MACHINE_AT + 2 or not head.startswith(b"\x7fELF"):
        return None
    code = int.from_bytes(head[_ELF_MACHINE_AT:], "little")
    return _MACHINES.get(code, f"machine {code:#x}")


def _checked(root: Path, program: Path, machine: str) -> Server:
    if machine != (here := platform.machine()):
        raise UserError(
            f"{program} is for {machine}, this machine is {here}. Get the archive for {here}: "
            f"{ready.SCYLLA_PAGE}"
        )
    libraries = root / "libreloc"
    brings = libraries.is_dir() or (root / _VERSION_FILE).exists()
    if brings and (missing := [p for p in (libraries / "ld.so",) if not p.is_file()]):
        raise UserError(
            f"{root}: unpacked in part: {', '.join(str(p) for p in missing)} is missing. Unpack "
            "the archive anew, or give it itself as SCYLLA="
        )
    if not os.access(program, os.X_OK):
        raise UserError(f"{program} cannot be run by this user. As its owner: chmod +x {program}")
    own = libraries if brings else None
    version = _says_version(program, own)
    recorded = "-".join(
        path.read_text().strip()
        for path in (root / _VERSION_FILE, root / _RELEASE_FILE)
        if path.is_file()
    )
    if recorded and not releases.same_release(version, recorded.partition("-")[0]):
        raise UserError(
            f"{root}: parts of two releases: the server says {version}, {_VERSION_FILE} "
            f"{recorded}. Unpack one archive into an empty folder."
        )
    number = releases.number(version)
    if number < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UserError(f"{program} is ScyllaDB {version}; {oldest} is the oldest that is known.")
    options.release(".".join(map(str, number)))
    return Server(root, program, version, own)


def _command(program: Path, libraries: Path | None) -> list[str]:
    if libraries is None:
        return [str(program)]
    return [str(libraries / "ld.so"), "--library-path", str(libraries), str(program)]


def _says_version(program: Path, libraries: Path | None) -> str:
    try:
        done = subprocess.run(
            [*_command(program, libraries), "--version"],
            capture_output=True,
            text=True,
            timeout=_SAYS_VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{program} does not start here: {error}") from error
    said = done.stdout.strip()
    if done.returncode != 0 or not releases.number(said):
        why = (done.stderr or done.stdout).strip().splitlines()
        raise UserError(
            f"{program} does not say its version (exit status {done.returncode}): "
            f"{why[0] if why else 'nothing'}"
        )
    return said.splitlines()[0]


def unpack(archive: Path, into: Path) -> Path:
    """The folder of an unpacked archive below `into`; unpacked once for each content of the file.

    Whole or not at all: what was interrupted is begun anew. Of the archive's parts the server
    alone, which is what is run.

    Raises:
        UserError: it is no such archive, or not all of it.
    """
    stat = archive.stat()
    folder = into / f"{archive.name.removesuffix('.tar.gz')}-{stat.st_size}-{stat.st_mtime_ns}"
    if folder.exists():
        return folder
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in filter(_taken, tar):
                # Ours, whoever packed it.
                member.uid, member.gid, member.uname, member.gname = (
                    os.getuid(),
                    os.getgid(),
                    "",
                    "",
                )
                tar.extract(member, partial)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UserError(
            f"{archive} cannot be unpacked: {error or type(error).__name__}. Is it whole? Compare "
            f"its size with what its maker says, and fetch it again: {ready.SCYLLA_PAGE}"
        ) from error
    except UserError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UserError(f"{archive} is not unpacked: {error.message}") from error
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UserError(f"{archive} could not be unpacked into {into}: {error}") from error
    partial.rename(folder)
    return folder


def _taken(member: tarfile.TarInfo) -> bool:
    """Whether a member is of the server: the archive's folder scylla, less what it runs without.

    UserError for one that would land, or points, outside. (Debian 12's Python, 3.11.2, has no
    filters of its own for this.)
    """
    path = PurePosixPath(member.name)
    if member.issym():
        target = path.parent / member.linkname
    else:
        target = PurePosixPath(member.linkname) if member.islnk() else path
    if path.is_absolute() or target.is_absolute() or _leaves(path) or _leaves(target):
        raise UserError(f"the archive's {member.name} would be outside of its own folder")
    if "scylla" not in path.parts[:2] or not (
        member.isfile() or member.isdir() or member.issym() or member.islnk()
    ):
        return False
    place = path.parts.index("scylla")
    return "node_exporter" not in path.parts[place : place + 2]


def _leaves(path: PurePosixPath) -> bool:
    """Whether a relative path goes above where it begins."""
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def given(where: Path | None, target: str, into: Path) -> Server:
    """The server that SCYLLA= is; UserError with what to get where there is none, or is not one."""
    if where is None:
        raise UserError(ready.scylla_to_get(target))
    if not where.exists():
        raise UserError(f"SCYLLA={where}: there is no such file or folder.")
    if where.is_dir():
        return find(where)
    unpacked = unpack(where, into)
    try:
        return find(unpacked)
    except UserError:
        shutil.rmtree(unpacked)
        raise


def _record(target: str) -> Path:
    return paths.target_dir(target) / "scylla-server.json"


def remember(target: str, server: Server) -> None:
    """Note which server a target is deployed with, for deploys that do not say."""
    said = {"folder": str(server.folder), "version": server.version}
    whole.record(_record(target), json.dumps(said, indent=2) + "\n")


def _remembered(target: str) -> tuple[Path, str] | None:
    """Folder and version of the server that a target was deployed with; None if of none."""
    try:
        said = json.loads(_record(target).read_text())
        return Path(said["folder"]), str(said["version"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{_record(target)} is not whole ({error!r}); remove it") from None


def of(target: str, where: Path | None) -> Server:
    """The server to deploy a target of this machine with: SCYLLA=, or else the one that it has.

    Raises:
        UserError: there is none; it cannot be taken; or it is of another release than the one that
            runs, which would open its data and could not give it back.
    """
    was = _remembered(target)
    if was is None:
        return given(where, target, paths.target_dir(target) / "opt")
    folder, version = was
    if where is not None:
        found = given(where, target, paths.target_dir(target) / "opt")
    else:
        try:
            found = find(folder)
        except UserError as error:
            raise UserError(
                f"The ScyllaDB server of target {target} cannot be had any more: {error.message}\n"
                f"Give one of {version} by SCYLLA=."
            ) from error
    if not releases.same_release(found.version, ".".join(map(str, releases.number(version)))):
        raise UserError(
            f"Target {target} is deployed with ScyllaDB {version}, {found.program} is "
            f"{found.version}. Give one of the same release by SCYLLA=, or first: "
            f"make destroy TARGET={target}"
        )
    return found


def for_plan(plan: Plan, shared: bool, where: Path | None) -> Server | None:
    """The user's own server that a plan is deployed with; None where it takes none.

    `shared`: whether the target's servers all are on this machine, where packages are not used.

    UserError where there is none, or it is not what the plan wants.
    """
    if plan.engine != "scylla" or not shared:
        if where is not None:
            raise UserError(
                f"SCYLLA={where} is for ENGINE=scylla on targets of this machine (local, lab); "
                f"this is {plan.engine} on target {plan.target}. Leave it out, or change the two."
            )
        return None
    server = of(plan.target, where)
    wanted = plan.storage.get("scylla_version")
    if wanted is not None and not releases.same_release(server.version, wanted):
        raise UserError(
            f"The experiment wants ScyllaDB {wanted} (storage.scylla_version), {server.program} is "
            f"{server.version}. Leave the field out, or give a server of that release by SCYLLA=."
        )
    problem = compression_problem(plan.engine, plan.storage["compression"], server.release)
    if problem:
        raise UserError(f"storage.compression: {problem}")
    return server
