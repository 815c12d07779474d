"""Programs that this machine's package manager or PyPI has: fetched, not installed, and so without
root."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from kairoscope import live, paths
from kairoscope.errors import UserError

_PYTHON = (3, 11)


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

    Libraries that this machine does not have installed are in its folder `lib`. Who made them is
    checked by apt. UserError if it cannot be had.
    """
    if (into / program).exists():
        return
    with _unpacked(console, package, into) as usr:
        (found,) = usr.glob(f"*bin/{program}")
        shutil.copy(found, into / program)


def whole_from_debian(console: Console, package: str, into: Path) -> None:
    """The same of a package whose programs look for its other files where they are: `into/usr`."""
    if (into / "usr").exists():
        return
    with _unpacked(console, package, into) as usr:
        usr.rename(into / "usr")


@contextmanager
def _unpacked(console: Console, package: str, into: Path) -> Iterator[Path]:
    """A folder with what a package and missing libraries have in /usr; the latter are in `into`."""
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
        into.mkdir(parents=True, exist_ok=True)
        for library in (here / "root" / "usr" / "lib").rglob("*.so.*"):
            (into / "lib").mkdir(exist_ok=True)
            shutil.copy(library, into / "lib" / library.name)
        yield here / "root" / "usr"


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
    done = into / "complete"
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


def _libraries(deb: Path) -> list[str]:
    """Packages with libraries that one depends on and that are not installed here."""
    shown = ["dpkg-deb", "--field", str(deb), "Depends"]
    said = subprocess.run(shown, capture_output=True, text=True, check=False).stdout
    # Of alternatives the first, without the version that it must have.
    names = [each.partition("|")[0].split()[0] for each in said.split(",") if each.strip()]
    return [name for name in names if name.startswith("lib") and not _installed(name)]


def _installed(package: str) -> bool:
    asked = ["dpkg-query", "--show", "--showformat=${Status}", package]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.endswith(" installed")
