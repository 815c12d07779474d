"""Build the run-time bundles once, from Maven Central and PyPI, and pin every file by checksum.

A bundle is `<name>-<version>.tar` with its files and `SHA256SUMS`; the same file goes to every
target. `kairosdb-conf/bundles/<name>.sha256` holds what Maven must bring, requirements.lock what
pip must, so that a build today and a build next year are the same files or an error.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from rich.console import Console

from kairoscope import live, paths
from kairoscope.errors import UserError
from kairoscope.hosts.java import full_version, java17, java_home

# Our own plugin is built here, not fetched: its source is in the repo, so it needs no pin.
OWN = "kairoscope-kairosdb-plugin-1.jar"
NAMES = ("kairosdb", "cassandra")
POM = paths.KAIROSDB_CONF / "pom.xml"

# The loaders' wheel and the wheels it needs, for every Python that a loader host may have.
LOADER = "loader"
PYTHONS = ("3.11", "3.12", "3.13")

# A Java run-time of this machine's JDK for hosts of their own, which need no package repository
# then: what the servers and their tools use, and jcmd for whoever has to look into them.
JAVA = "java"
JAVA_MODULES = (
    "java.se",
    "jdk.attach",
    "jdk.compiler",
    "jdk.crypto.ec",
    "jdk.httpserver",
    "jdk.jcmd",
    "jdk.jfr",
    "jdk.management",
    "jdk.management.agent",
    "jdk.naming.dns",
    "jdk.naming.rmi",
    "jdk.net",
    "jdk.security.auth",
    "jdk.unsupported",
    "jdk.zipfs",
)


_LOOK_EVERY_S = 0.5
_FETCHED = re.compile(r"^(?:\[INFO\] )?Downloaded from ", re.MULTILINE)  # a line of Maven's


@dataclass(frozen=True)
class Bundle:
    """One run-time bundle: its name (`kairosdb`, `cassandra`, `loader`, `java`) and version."""

    name: str
    version: str

    @property
    def archive(self) -> Path:
        """The tar file that goes to the hosts."""
        return paths.BUNDLES / f"{self.name}-{self.version}.tar"

    @property
    def folder(self) -> str:
        """Name of the folder it is unpacked to: other content is another folder.

        So a rebuilt bundle of the same version (our own plugin or the loaders changed) reaches
        its hosts, and the path on the servers' command lines changes with it, which restarts them.
        """
        sums = self.archive.with_suffix(".sha256").read_bytes()
        return f"{self.name}-{self.version}-{hashlib.sha256(sums).hexdigest()[:8]}"

    @property
    def manifest(self) -> Path:
        """The committed checksums (`sha256sum` format) of what Maven brings."""
        return paths.KAIROSDB_CONF / "bundles" / f"{self.name}.sha256"


def property_of_pom(key: str) -> str:
    """Value of a property in kairosdb-conf/pom.xml, where the pins are."""
    namespace = {"m": "http://maven.apache.org/POM/4.0.0"}
    root = ET.parse(POM).getroot()  # noqa: S314 (our own file)
    found = root.find(f"m:properties/m:{key}", namespace)
    if found is None or not found.text:
        raise UserError(f"{POM}: no property {key}")
    return found.text


def bundle(name: str) -> Bundle:
    """The bundle of that name at its version: the pinned one, the loaders' or this Java's own."""
    if name == LOADER:
        return Bundle(name, _loaders_project()["version"])
    if name == JAVA:
        return Bundle(name, full_version(java17()))
    return Bundle(name, property_of_pom(f"{name}.version"))


def reference_conf() -> Path:
    """KairosDB's own kairosdb.conf, taken out of its jar when the bundle was built."""
    kairosdb = bundle("kairosdb")
    return paths.BUNDLES / f"{kairosdb.name}-{kairosdb.version}.reference.conf"


def _sources() -> Iterator[Path]:
    conf = paths.KAIROSDB_CONF
    yield POM
    for name in NAMES:
        yield bundle(name).manifest
        yield conf / "bundles" / name / "pom.xml"
    yield conf / "libraries" / "pom.xml"
    yield conf / "plugin" / "pom.xml"
    yield from sorted(conf.glob("plugin/src/main/**/*.*"))
    yield Path(__file__)


def _stamp(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _same(stamp_file: Path, stamp: str) -> bool:
    return stamp_file.exists() and stamp_file.read_text() == stamp


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, by its path relative to it, sorted."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def read_manifest(path: Path) -> dict[str, str]:
    """Parse `sha256sum` lines into {file: checksum}."""
    pairs = (line.split(maxsplit=1) for line in path.read_text().splitlines() if line.strip())
    return {name: digest for digest, name in pairs}


def write_manifest(path: Path, sums: dict[str, str]) -> None:
    """Write {file: checksum} in the format that `sha256sum --check` reads."""
    path.write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def differences(wanted: dict[str, str], found: dict[str, str]) -> list[str]:
    """What differs between two manifests, one line each; empty when they agree."""
    lines = [f"missing: {name}" for name in wanted if name not in found]
    lines += [f"not in the manifest: {name}" for name in found if name not in wanted]
    lines += [
        f"other content: {name}" for name in wanted if name in found and wanted[name] != found[name]
    ]
    return lines


def build(
    update_manifest: bool = False,
    *,
    with_java: bool = False,
    jars: bool = True,
    console: Console | None = None,
) -> bool:
    """Build what is not built yet; True if anything was built.

    `with_java` for targets with hosts of their own: the Java run-time too. Without `jars` those of
    KairosDB and Cassandra are left out, for a stack that runs neither.

    With `update_manifest` the committed checksums are written anew instead of checked: for a change
    of version, to be looked at in the diff. `console`: where it says how far it is.

    Raises:
        UserError: something that is needed cannot be fetched, or is not what is pinned.
    """
    built_jars = jars and _build_jars(update_manifest, console)
    built_java = with_java and _build_java(console)
    return _build_loader(console) or built_jars or built_java


def _build_jars(update_manifest: bool, console: Console | None) -> bool:
    stamp_file = paths.BUNDLES / "built-from.sha256"
    stamp = _stamp(_sources())
    archives = [bundle(name).archive for name in NAMES]
    if _same(stamp_file, stamp) and all(a.exists() for a in archives) and not update_manifest:
        return False

    _maven(console)
    with live.stage(console, "checking and packing the jars"):
        for name in NAMES:
            _pack(bundle(name), update_manifest)
    stamp_file.write_text(stamp)
    return True


def _maven(console: Console | None) -> None:
    """Build all bundles' jars. UserError if they cannot be."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise UserError("Maven (mvn) is not installed. On Debian or Ubuntu: apt-get install maven")
    log = paths.BUNDLES / "maven.log"
    done = _logged(
        # Not -ntp: its lines on what it fetches are how we know how far it is.
        [mvn, "-B", "-f", str(POM), "-Dmaven.test.skip", "clean", "package"],
        log,
        partial(
            live.stage,
            console,
            "Maven brings the servers' jars and builds KairosDB's plugin",
            unit="files fetched",
            usual="half a minute, or one to four minutes where nothing is cached",
        ),
        # The plugin is compiled for, and with, the Java that will run it.
        env={**os.environ, "JAVA_HOME": str(java_home(java17()))},
    )
    if not done:
        raise UserError(
            "Maven could not build the run-time bundles (is Maven Central reachable?)."
            + _errors(log)
        )


def _logged(
    command: list[str],
    log: Path,
    stage: Callable[[], AbstractContextManager[live.Stage]],
    **options: Any,
) -> bool:
    """Run a build tool with all its output in a file; whether it succeeded.

    `stage` shows it meanwhile, with how many files it has fetched, where it says so.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with stage() as shown, log.open("w") as out:
        running = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **options
        )
        try:
            while True:
                try:
                    status = running.wait(_LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    shown(len(_FETCHED.findall(log.read_text(errors="replace"))))
        except BaseException:
            running.kill()
            running.wait()
            raise
    return status == 0


def _errors(log: Path) -> str:
    """The first errors in a log and where it is, for the end of a message."""
    lines = [line for line in log.read_text().splitlines() if "ERROR" in line][:3]
    return "".join(f"\n{line}" for line in [*lines, f"Whole log: {log}"])


def _target(item: Bundle) -> Path:
    """Where Maven leaves a bundle's files."""
    return paths.KAIROSDB_CONF / "bundles" / item.name / "target" / "bundle"


def _check_pinned(item: Bundle, fetched: dict[str, str], update_manifest: bool) -> None:
    """UserError if what Maven brought is not what is pinned; or pin it."""
    if update_manifest:
        write_manifest(item.manifest, fetched)
    elif wrong := differences(read_manifest(item.manifest), fetched):
        raise UserError(
            f"The {item.name} bundle is not what {item.manifest} pins:\n  "
            + "\n  ".join(wrong)
            + "\nIf a version was changed on purpose: kairoscope bundles --update-manifest"
        )


def _pack(item: Bundle, update_manifest: bool) -> None:
    folder = _target(item)
    found = checksums(folder)
    fetched = {name: digest for name, digest in found.items() if not name.endswith(OWN)}
    _check_pinned(item, fetched, update_manifest)
    _archive(item, folder, found)

    if item.name == "kairosdb":
        jar = folder / "lib" / f"kairosdb-{item.version}.jar"
        with zipfile.ZipFile(jar) as archive:
            reference_conf().write_bytes(archive.read("kairosdb.conf"))


def _archive(item: Bundle, folder: Path, found: dict[str, str]) -> None:
    """Write a bundle's tar of the files `found` in a folder, and their checksums beside it."""
    write_manifest(folder / "SHA256SUMS", found)
    shutil.copyfile(folder / "SHA256SUMS", item.archive.with_suffix(".sha256"))

    # Written beside and renamed: an interrupted build never leaves half an archive.
    partial = item.archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        for name in ["SHA256SUMS", *found]:
            tar.add(folder / name, arcname=name)
    partial.replace(item.archive)


@dataclass(frozen=True)
class Packed:
    """A bundle of files that somebody brought: its tar, and the name of the folder on hosts."""

    archive: Path
    folder: str


def pack(name: str, version: str, folder: Path, parts: Iterable[str], into: Path) -> Packed:
    """A bundle of some files and folders below a folder, which is only read.

    Made anew below `into` only if the files are others than before.
    """
    sums = {}
    for part in parts:
        whole = folder / part
        for found in sorted(whole.rglob("*")) if whole.is_dir() else [whole]:
            if found.is_file():
                with found.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                sums[str(found.relative_to(folder))] = digest
    archive = into / f"{name}-{version}.tar"
    manifest = archive.with_suffix(".sha256")
    if not (archive.exists() and manifest.exists() and read_manifest(manifest) == sums):
        write_manifest(manifest, sums)
        partial = archive.with_suffix(".partial")
        # Links are followed: what they lead to may not be on the hosts.
        with tarfile.open(partial, "w", dereference=True) as tar:
            tar.add(manifest, arcname="SHA256SUMS")
            for path in sums:
                tar.add(folder / path, arcname=path)
        partial.replace(archive)
    content = hashlib.sha256(manifest.read_bytes()).hexdigest()
    return Packed(archive, f"{name}-{version}-{content[:8]}")


def _build_java(console: Console | None) -> bool:
    """Link the Java run-time from this machine's JDK, whose checksums are then the manifest."""
    item = bundle(JAVA)
    stamp_file = paths.BUNDLES / "java-built-from.sha256"
    stamp = f"{item.version} {' '.join(JAVA_MODULES)}"
    if _same(stamp_file, stamp) and item.archive.exists():
        return False
    home = java_home(java17())
    jlink = home / "bin" / "jlink"
    if not jlink.exists():
        raise UserError(
            f"{jlink} is not there: {home} is a run-time without the tools of a JDK, and hosts of "
            "their own need one made of them. On Debian or Ubuntu: apt-get install "
            "openjdk-17-jdk-headless"
        )
    folder = paths.BUNDLES / JAVA
    shutil.rmtree(folder, ignore_errors=True)
    log = paths.BUNDLES / "jlink.log"
    options = ["--no-man-pages", "--no-header-files", "--strip-java-debug-attributes"]
    modules = ["--add-modules", ",".join(JAVA_MODULES)]
    shown = partial(live.stage, console, "jlink makes the Java run-time", usual="half a minute")
    if not _logged([str(jlink), *options, *modules, "--output", str(folder)], log, shown):
        raise UserError(f"jlink could not make the Java run-time; its output: {log}")
    with live.stage(console, "packing the Java run-time"):
        _archive(item, folder, checksums(folder))
    shutil.rmtree(folder)
    stamp_file.write_text(stamp)
    return True


def _loaders_project() -> dict[str, Any]:
    """The [project] table of loaders/pyproject.toml."""
    data = tomllib.loads((paths.LOADERS / "pyproject.toml").read_text())
    project: dict[str, Any] = data["project"]
    return project


def _build_loader(console: Console | None) -> bool:
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
    stamp = _stamp([paths.LOCK, *sources, Path(__file__)]) + " ".join(pythons)
    if _same(stamp_file, stamp) and item.archive.exists():
        return False

    folder = paths.BUNDLES / LOADER
    wheels = folder / "wheels"
    needed = locked(_loaders_project()["dependencies"], paths.LOCK.read_text(), _requires)
    _fetch_wheels(needed, pythons, wheels, console)
    wheel = _build_wheel(sources, wheels, console)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    own_line = f"loaders=={item.version} --hash=sha256:{digest}\n"
    (folder / "requirements.lock").write_text(needed + own_line)
    _pack_pip(folder / "pip.zip")
    (folder / "SHA256SUMS").unlink(missing_ok=True)
    _archive(item, folder, checksums(folder))
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
    if _same(stamp_file, stamp) and wheels.is_dir():
        return
    stamp_file.unlink(missing_ok=True)
    shutil.rmtree(wheels.parent, ignore_errors=True)
    wheels.mkdir(parents=True)
    requirements = wheels.parent / "requirements.lock"
    requirements.write_text(needed)
    log = paths.BUNDLES / "pip.log"
    for python in pythons:
        options = ["--no-deps", "--only-binary=:all:", "--python-version", python]
        if not _logged(
            _pip("download", "--require-hashes", *options, "-r", requirements, "-d", wheels),
            log,
            partial(
                live.stage,
                console,
                f"pip brings the loaders' wheels for Python {python}",
                usual="some ten seconds",
            ),
        ):
            raise UserError(
                f"pip could not fetch the loader bundle's wheels for Python {python} (is PyPI "
                "reachable?)." + _errors(log)
            )
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
        done = _logged(
            _pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", wheels, folder),
            log,
            partial(live.stage, console, "building the loaders' wheel", usual="some seconds"),
            # The archive's time of every file; any that is the same each time.
            env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
        )
    if not done:
        raise UserError("The loaders' wheel could not be built." + _errors(log))
    (wheel,) = wheels.glob("loaders-*.whl")
    return wheel


def _pip(verb: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "pip", verb, "--disable-pip-version-check", *map(str, arguments)]
