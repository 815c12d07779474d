"""Programs that this machine's package manager has: fetched, not installed, and so without root."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from kairoscope import live, paths
from kairoscope.errors import UserError


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
        (found,) = (here / "root" / "usr").glob(f"*bin/{program}")
        shutil.copy(found, into / program)


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
