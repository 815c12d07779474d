"""The loaders' wheel and the wheels that it needs, which requirements.lock pins."""

import hashlib
import importlib.util
import inspect
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from importlib import metadata
from pathlib import Path

from rich.console import Console

from kairoscope import live, paths
from kairoscope.deploy import bundles
from kairoscope.deploy.building.tool import first_errors, logged, stamp_of, unchanged
from kairoscope.deploy.bundles import LOADER, bundle, loaders_project, write_archive
from kairoscope.deploy.checksums import checksums
from kairoscope.errors import UserError

# Every Python that a loader host may have.
PYTHONS = ("3.11", "3.12", "3.13")


def build_loader(console: Console | None) -> bool:
    """Build the loader bundle: wheels/*.whl, requirements.lock, which pins all of them, and pip.

    Our own wheel is built here, the others are fetched, and pip takes none that requirements.lock
    does not pin. pip.zip is this machine's own pip: Debian's Python comes without one.
    """
    item = bundle(LOADER)
    # The control machine is a loader host of the local target, whatever Python it has.
    own = "{}.{}".format(*sys.version_info)
    pythons = sorted({*PYTHONS, own})
    stamp_file = paths.BUNDLES / "loader-built-from.sha256"
    sources = [paths.LOADERS / "pyproject.toml", *sorted(paths.LOADERS.rglob("*.py"))]
    made_by = (Path(__file__), Path(bundles.__file__), Path(inspect.getfile(checksums)))
    stamp = stamp_of([paths.LOCK, *sources, *made_by]) + " ".join(pythons)
    if unchanged(stamp_file, stamp) and item.archive.exists():
        return False

    folder = paths.BUNDLES / LOADER
    wheels = folder / "wheels"
    needed = locked(loaders_project()["dependencies"], paths.LOCK.read_text(), _requires)
    _fetch_wheels(needed, pythons, wheels, console)
    wheel = _build_wheel(sources, wheels, console)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    own_line = f"loaders=={item.version} --hash=sha256:{digest}\n"
    (folder / "requirements.lock").write_text(needed + own_line)
    _pack_pip(folder / "pip.zip")
    (folder / "SHA256SUMS").unlink(missing_ok=True)
    write_archive(item, folder, checksums(folder))
    stamp_file.write_text(stamp)
    return True


def _pack_pip(archive: Path) -> None:
    """Pack this Python's pip into a zip file that Python can run it from."""
    spec = importlib.util.find_spec("pip")
    if spec is None or spec.origin is None:
        raise UserError(f"{sys.executable} has no pip. First: make setup")
    root = Path(spec.origin).parent
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                packed.write(path, path.relative_to(root.parent))


def locked(names: Iterable[str], lock: str, requires: Callable[[str], list[str]]) -> str:
    """The part of a lock file that some packages need, they themselves included.

    Args:
        names: distribution names.
        lock: text of a requirements file with hashes, of one resolution for one platform.
        requires: the requirements that a distribution of that name states (PEP 508).

    Raises:
        UserError: the lock has no entry for one of `names`.
    """
    entries: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if start := re.match(r"([A-Za-z0-9._-]+)==", line):
            name = _normal(start[1])
            entries[name] = ""
        if name and not line.lstrip().startswith("#"):
            entries[name] += line

    todo = [_normal(n) for n in names]
    if missing := [n for n in todo if n not in entries]:
        raise UserError(
            f"{paths.LOCK}: nothing for {', '.join(missing)}. "
            "Write it anew with the command at its top."
        )
    chosen: set[str] = set()
    while todo:
        if (current := todo.pop()) in chosen:
            continue
        chosen.add(current)
        for requirement in requires(current):
            stated = re.match(r"[A-Za-z0-9._-]+", requirement)
            # What the lock does not have, its resolution found to be for other Pythons only.
            if stated and "extra ==" not in requirement and _normal(stated[0]) in entries:
                todo.append(_normal(stated[0]))
    return "".join(entries[n] for n in sorted(chosen))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requires(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        raise UserError(f"The Python package {name} is not installed. First: make setup") from None


def _fetch_wheels(needed: str, pythons: list[str], wheels: Path, console: Console | None) -> None:
    """Download what a requirements file pins, for every Python; nothing if it is there already."""
    stamp_file = paths.BUNDLES / "loader-wheels.lock"
    stamp = f"# {' '.join(pythons)}\n{needed}"
    if unchanged(stamp_file, stamp) and wheels.is_dir():
        return
    stamp_file.unlink(missing_ok=True)
    shutil.rmtree(wheels.parent, ignore_errors=True)
    wheels.mkdir(parents=True)
    requirements = wheels.parent / "requirements.lock"
    requirements.write_text(needed)
    options = ["--require-hashes", "--no-deps", "--only-binary=:all:", "-r", str(requirements)]
    # Into a folder each: most wheels are for all of them, and two pips would write one file.
    fetched = {python: wheels.parent / f"for-{python}" for python in pythons}
    log = paths.BUNDLES / "pip.log"
    what = f"pip brings the loaders' wheels for Python {', '.join(pythons)}"
    if not logged(
        log,
        partial(live.stage, console, what, usual="some ten seconds"),
        *(
            _pip("download", *options, "--python-version", python, "-d", folder)
            for python, folder in fetched.items()
        ),
    ):
        raise UserError(
            "pip could not fetch the loader bundle's wheels (is PyPI reachable?)."
            + first_errors(log)
        )
    for folder in fetched.values():
        for wheel in folder.iterdir():
            wheel.replace(wheels / wheel.name)
        folder.rmdir()
    stamp_file.write_text(stamp)


def _build_wheel(sources: list[Path], wheels: Path, console: Console | None) -> Path:
    """Build the loaders' wheel, the same bytes from the same sources; returns its path."""
    for old in wheels.glob("loaders-*.whl"):
        old.unlink()
    log = paths.BUNDLES / "pip.log"
    with tempfile.TemporaryDirectory() as folder:
        # Elsewhere, as setuptools leaves its traces beside what it builds.
        for source in sources:
            copy = Path(folder, source.relative_to(paths.LOADERS))
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, copy)
        done = logged(
            log,
            partial(live.stage, console, "building the loaders' wheel", usual="some seconds"),
            _pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", wheels, folder),
            # The archive's time of every file; any that is the same each time.
            env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
        )
    if not done:
        raise UserError("The loaders' wheel could not be built." + first_errors(log))
    (wheel,) = wheels.glob("loaders-*.whl")
    return wheel


def _pip(verb: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "pip", verb, "--disable-pip-version-check", *map(str, arguments)]
