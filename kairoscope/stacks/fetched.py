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

    Who made it is checked by apt. UserError if it cannot be had.
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
        run(["apt-get", "--quiet", "download", package], here, advice)
        (deb,) = here.glob("*.deb")
        run(["dpkg-deb", "--extract", str(deb), "root"], here, advice)
        into.mkdir(parents=True, exist_ok=True)
        shutil.copy(here / "root" / "usr" / "bin" / program, into / program)
