"""Build the run-time bundles once from Maven Central and pin every file by checksum.

A bundle is `<name>-<version>.tar` with the jars and `SHA256SUMS`; the same file goes to every
target. `kairosdb-conf/bundles/<name>.sha256` holds what Maven must bring, so that a build today and
a build next year are the same files or an error.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from kairoscope import paths
from kairoscope.errors import UserError
from kairoscope.java import java17, java_home

# Our own plugin is built here, not fetched: its source is in the repo, so it needs no pin.
OWN = "kairoscope-kairosdb-plugin-1.jar"
NAMES = ("kairosdb", "cassandra")
POM = paths.KAIROSDB_CONF / "pom.xml"


@dataclass(frozen=True)
class Bundle:
    """One run-time bundle: its name (`kairosdb`, `cassandra`) and pinned version."""

    name: str
    version: str

    @property
    def archive(self) -> Path:
        """The tar file that goes to the hosts."""
        return paths.BUNDLES / f"{self.name}-{self.version}.tar"

    @property
    def folder(self) -> str:
        """Name of the folder it is unpacked to: other content is another folder.

        So a rebuilt bundle of the same version (our own plugin changed) reaches its hosts, and
        the path on the servers' command lines changes with it, which restarts them.
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
    """The bundle of that name at its pinned version."""
    return Bundle(name, property_of_pom(f"{name}.version"))


def reference_conf() -> Path:
    """KairosDB's own kairosdb.conf, taken out of its jar when the bundle was built."""
    kairosdb = bundle("kairosdb")
    return paths.BUNDLES / f"{kairosdb.name}-{kairosdb.version}.reference.conf"


def _sources() -> Iterator[Path]:
    conf = paths.KAIROSDB_CONF
    yield POM
    yield from sorted(conf.glob("bundles/*.sha256"))
    yield from sorted(conf.glob("bundles/*/pom.xml"))
    yield conf / "plugin" / "pom.xml"
    yield from sorted(conf.glob("plugin/src/main/**/*.*"))
    yield Path(__file__)


def _stamp() -> str:
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()


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


def build(update_manifest: bool = False) -> bool:
    """Build what is not built yet; True if anything was built.

    With `update_manifest` the committed checksums are written anew instead of checked: for a change
    of version, to be looked at in the diff.
    """
    stamp_file = paths.BUNDLES / "built-from.sha256"
    built = stamp_file.read_text() if stamp_file.exists() else ""
    archives = [bundle(name).archive for name in NAMES]
    if built == _stamp() and all(a.exists() for a in archives) and not update_manifest:
        return False

    mvn = shutil.which("mvn")
    if mvn is None:
        raise UserError("Maven (mvn) is not installed. On Debian or Ubuntu: apt-get install maven")
    log = paths.BUNDLES / "maven.log"
    paths.BUNDLES.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        done = subprocess.run(
            [mvn, "-B", "-ntp", "clean", "package"],
            cwd=paths.KAIROSDB_CONF,
            # The plugin is compiled for, and with, the Java that will run it.
            env={**os.environ, "JAVA_HOME": str(java_home(java17()))},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        errors = [line for line in log.read_text().splitlines() if "ERROR" in line][:3]
        raise UserError(
            "Maven could not build the run-time bundles (is Maven Central reachable?).\n"
            + "\n".join(errors)
            + f"\nWhole log: {log}"
        )
    for name in NAMES:
        _pack(bundle(name), update_manifest)
    stamp_file.write_text(_stamp())
    return True


def _pack(item: Bundle, update_manifest: bool) -> None:
    folder = paths.KAIROSDB_CONF / "bundles" / item.name / "target" / "bundle"
    found = checksums(folder)
    fetched = {name: digest for name, digest in found.items() if not name.endswith(OWN)}
    if update_manifest:
        write_manifest(item.manifest, fetched)
    elif wrong := differences(read_manifest(item.manifest), fetched):
        raise UserError(
            f"The {item.name} bundle is not what {item.manifest} pins:\n  "
            + "\n  ".join(wrong)
            + "\nIf a version was changed on purpose: kairoscope bundles --update-manifest"
        )
    write_manifest(folder / "SHA256SUMS", found)
    shutil.copyfile(folder / "SHA256SUMS", item.archive.with_suffix(".sha256"))

    # Written beside and renamed: an interrupted build never leaves half an archive.
    partial = item.archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        for name in ["SHA256SUMS", *found]:
            tar.add(folder / name, arcname=name)
    partial.replace(item.archive)

    if item.name == "kairosdb":
        jar = folder / "lib" / f"kairosdb-{item.version}.jar"
        with zipfile.ZipFile(jar) as archive:
            reference_conf().write_bytes(archive.read("kairosdb.conf"))
