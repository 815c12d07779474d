"""Programs that this machine's package manager or PyPI has: fetched, not installed, and so without
root."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from kairoscope import live, paths
from kairoscope.errors import UserError

_PYTHON = (3, 11)
_DONE = "complete"
# Of the C library, which goes with the system that runs it.
_OF_SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util|nsl|anl))\.so\.\d+")
_NEEDED = re.compile(r"^\s*(\S+) => (/\S+) \(", re.MULTILINE)


def debian_folder(package: str) -> Path:
    """Where a stack has what it takes of a package of Debian."""
    return paths.BUNDLES / f"{package}-debian"


def run(
    command: Sequence[str], where: Path, advice: str, env: Mapping[str, str] | None = None
) -> None:
    """Run a tool. UserError, with what it said last and the advice, if it fails."""
    try:
        done = subprocess.run(
            command, cwd=where, env=env, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise UserError(f"{command[0]} is not on this machine. {advice}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise UserError(f"{' '.join(command[:3])} failed: {said}. {advice}")


def from_debian(console: Console, package: str, program: str, into: Path) -> None:
    """Have `into` with the program of a package of Debian or Ubuntu, of the version that apt knows.

    Its libraries are in the folder `lib`, but for the C library. Who made them is checked by apt.
    UserError if it cannot be had.
    """

    def take(usr: Path, ready: Path) -> None:
        if not (found := sorted(usr.glob(f"*bin/{program}"))):
            raise UserError(
                f"The package {package} that apt brought has no program {program}, as Debian 12's "
                "has. Which release is in the list of packages?"
            )
        shutil.copy(found[0], ready / program)

    _from_debian(console, package, into, take)


def libraries_from_debian(console: Console, package: str, into: Path) -> None:
    """The same of a package of libraries alone."""
    _from_debian(console, package, into, lambda usr, ready: None)


def whole_from_debian(console: Console, package: str, into: Path) -> None:
    """The same of a package whose programs look for its other files where they are: `into/usr`."""
    _from_debian(console, package, into, lambda usr, ready: usr.rename(ready / "usr"))


def _from_debian(
    console: Console, package: str, into: Path, take: Callable[[Path, Path], object]
) -> None:
    """Have `into`, whole or as it was; `take` moves what is to stay of the package's /usr into the
    folder that becomes it."""
    if (into / _DONE).exists():
        return
    advice = f"It is the package {package} of Debian. An old list of packages: apt-get update"
    paths.BUNDLES.mkdir(parents=True, exist_ok=True)
    with (
        live.stage(console, f"apt brings {package}", usual="some seconds"),
        tempfile.TemporaryDirectory(dir=paths.BUNDLES) as made,
    ):
        here = Path(made)
        here.chmod(0o755)  # apt fetches as a user of its own where it may
        wanted, seen = [package], set[Path]()
        while wanted:
            run(["apt-get", "--quiet", "download", *wanted], here, advice)
            new = set(here.glob("*.deb")) - seen
            seen |= new
            for deb in new:
                run(["dpkg-deb", "--extract", str(deb), "root"], here, advice)
            wanted = sorted({name for deb in new for name in _libraries(deb)})
        ready = here / "ready"
        (ready / "lib").mkdir(parents=True)
        for library in (here / "root" / "usr" / "lib").rglob("*.so.*"):
            if library.exists():  # Some are links to what only an installation makes.
                shutil.copy(library, ready / "lib" / library.name)
        take(here / "root" / "usr", ready)
        _bring_libraries(ready)
        (ready / _DONE).touch()
        shutil.rmtree(into, ignore_errors=True)
        ready.rename(into)


def _bring_libraries(folder: Path) -> None:
    """Copy what this machine has of the libraries of programs in a folder, for a host that has none
    of them, to its `lib`."""
    there = folder / "lib"
    programs = [path for path in folder.rglob("*") if path.is_file() and _is_program(path)]
    # Of a script, or a static program, it says so.
    shown = _said(["ldd", *map(str, programs)], env={"LD_LIBRARY_PATH": str(there)})
    for name, path in _NEEDED.findall(shown):
        if not _OF_SYSTEM.fullmatch(name) and not (there / name).exists():
            shutil.copy(path, there / name)


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def from_pypi(
    console: Console,
    title: str,
    requirements: Path,
    into: Path,
    env: Mapping[str, str] | None = None,
) -> None:
    """Have `into`, a virtual environment with the packages of a lock file, each pinned by checksum.

    The wheels of such a file are of Python 3.11. `env`: what pip is given beside our own. UserError
    if they cannot be had.
    """
    done = into / _DONE
    if done.exists() and done.read_text() == requirements.read_text():
        return
    python = sys.executable if sys.version_info[:2] == _PYTHON else shutil.which("python3.11")
    if not python:
        raise UserError(f"{title} needs a python3.11: its packages are pinned for that one")
    advice = "Is there a way to PyPI?"
    paths.BUNDLES.mkdir(parents=True, exist_ok=True)
    with live.stage(console, f"pip brings {title}", usual="a minute"):
        fresh = [python, "-m", "venv", "--clear", str(into)]
        fetched = [
            *(str(into / "bin" / "python"), "-m", "pip", "install", "--quiet"),
            *("--disable-pip-version-check", "--no-deps", "--require-hashes"),
            *("-r", str(requirements)),
        ]
        run(fresh, paths.BUNDLES, advice)
        run(fetched, paths.BUNDLES, advice, env={**os.environ, **(env or {})})
        done.write_text(requirements.read_text())


def packages(environment: str) -> str:
    """Folder of the packages in a virtual environment of `from_pypi`."""
    return f"{environment}/lib/python{'.'.join(map(str, _PYTHON))}/site-packages"


def _libraries(deb: Path) -> list[str]:
    """Packages with libraries that one depends on and that are not installed here."""
    shown = ["dpkg-deb", "--field", str(deb), "Depends"]
    said = _said(shown)
    # Of alternatives the first, without the version that it must have.
    names = [each.partition("|")[0].split()[0] for each in said.split(",") if each.strip()]
    return [name for name in names if name.startswith("lib") and not _installed(name)]


def _installed(package: str) -> bool:
    asked = ["dpkg-query", "--show", "--showformat=${Status}", package]
    return _said(asked).endswith(" installed")


def _said(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """What a tool prints, however it ends. UserError if it is not there."""
    try:
        return subprocess.run(
            command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
        ).stdout
    except FileNotFoundError:
        raise UserError(
            f"{command[0]} is not on this machine. Every Debian and Ubuntu has it, whose packages "
            "these are"
        ) from None
