"""The run-time bundles: what each is called, of which version, and how it is packed.

A bundle is `<name>-<version>.tar` with its files and `SHA256SUMS`; the same file goes to every
target. `building/` makes them.
"""

import hashlib
import shutil
import tarfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from kairoscope import paths
from kairoscope.deploy.checksums import read_manifest, write_manifest
from kairoscope.errors import UserError
from kairoscope.hosts.java import full_version, java17

NAMES = ("kairosdb", "cassandra")
POM = paths.KAIROSDB_CONF / "pom.xml"

# The loaders' wheel and the wheels it needs.
LOADER = "loader"

# A Java run-time of this machine's JDK for hosts of their own, which need no package repository
# then.
JAVA = "java"


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
        return Bundle(name, loaders_project()["version"])
    if name == JAVA:
        return Bundle(name, full_version(java17()))
    return Bundle(name, property_of_pom(f"{name}.version"))


def reference_conf() -> Path:
    """KairosDB's own kairosdb.conf, taken out of its jar when the bundle was built."""
    kairosdb = bundle("kairosdb")
    return paths.BUNDLES / f"{kairosdb.name}-{kairosdb.version}.reference.conf"


def write_archive(item: Bundle, folder: Path, found: dict[str, str]) -> None:
    """Write a bundle's tar of the files `found` in a folder, and their checksums beside it."""
    write_manifest(folder / "SHA256SUMS", found)
    shutil.copyfile(folder / "SHA256SUMS", item.archive.with_suffix(".sha256"))

    # Written beside and renamed: an interrupted build never leaves half an archive.
    partial = item.archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        for name in ["SHA256SUMS", *found]:
            tar.add(folder / name, arcname=name, filter=_for_hosts)
    partial.replace(item.archive)


def _for_hosts(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file as root's, that all may read: whoever built it is somebody else on a host, who could
    change it there, and had a umask of their own."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


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
            tar.add(manifest, arcname="SHA256SUMS", filter=_for_hosts)
            for path in sums:
                tar.add(folder / path, arcname=path, filter=_for_hosts)
        partial.replace(archive)
    content = hashlib.sha256(manifest.read_bytes()).hexdigest()
    return Packed(archive, f"{name}-{version}-{content[:8]}")


def loaders_project() -> dict[str, Any]:
    """The [project] table of loaders/pyproject.toml."""
    data = tomllib.loads((paths.LOADERS / "pyproject.toml").read_text())
    project: dict[str, Any] = data["project"]
    return project
