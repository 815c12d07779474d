"""Builds the stand-in for ScyllaDB's packages, and a signed package repository with them.

What it is for and what it does not show: README.md. Needs dpkg-deb and gpg.
"""

import functools
import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

FILES = Path(__file__).parent / "files"
# The form of ScyllaDB's package versions: release, build with date and commit, package.
BUILD = "0.20260101.0123456789ab-1"
MAINTAINER = "Kairoscope's tests <nobody@example.com>"
SUITE = "stable"

# Packages of ScyllaDB by name, with those that they need at the same version.
PACKAGES = {
    "scylla": ("scylla-server", "scylla-kernel-conf"),
    "scylla-server": ("scylla-conf",),
    "scylla-conf": (),
    "scylla-kernel-conf": (),
}
# What ScyllaDB's image has beside them (packer/scylla_install_image in scylla-machine-image).
OF_IMAGE = {"scylla-server-dbg": ("scylla-server",), "scylla-machine-image": ()}


def package_version(release: str) -> str:
    """Version of the packages of a release, as apt shows it."""
    return f"{release}-{BUILD}"


@dataclass(frozen=True)
class Repository:
    """A folder that is a package repository, and the key that signs it."""

    folder: Path
    key: Path


def build(folder: Path, releases: list[str]) -> Repository:
    """Make a signed repository with the stand-ins of these releases."""
    pool = folder / "repository" / "pool"
    pool.mkdir(parents=True)
    for release in releases:
        for name in PACKAGES | OF_IMAGE:
            _package(name, release, pool)
    key = folder / "key.gpg"
    _index(pool.parent, key)
    return Repository(pool.parent, key)


def probe(folder: Path) -> str:
    """Make a signed repository with two versions of a package of the system's; its newer version
    asks for a reboot, as a kernel's does. The package's name."""
    name, pool = "kairoscope-probe", folder / "pool"
    pool.mkdir(parents=True)
    for version in ("1", "2"):
        with tempfile.TemporaryDirectory(dir=pool) as parent:
            root = Path(parent) / name
            _put(
                root / "DEBIAN/control",
                f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
                f"Maintainer: {MAINTAINER}\nDescription: nothing, for tests of upgrades\n",
            )
            if version == "2":
                _put(root / "DEBIAN/postinst", "#!/bin/sh\ntouch /run/reboot-required\n", 0o755)
            subprocess.run(
                ["dpkg-deb", "--root-owner-group", "-Znone", "--build", root, pool],
                check=True,
                stdout=subprocess.DEVNULL,
            )
    _index(folder, folder / "key.gpg")
    return name


def _package(name: str, release: str, pool: Path) -> None:
    with tempfile.TemporaryDirectory(dir=pool) as parent:
        root = Path(parent) / name
        control = root / "DEBIAN"
        control.mkdir(parents=True, mode=0o755)
        version = package_version(release)
        needs = [f"{other} (= {version})" for other in (PACKAGES | OF_IMAGE)[name]]
        control.joinpath("control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nSection: database\n"
            f"Maintainer: {MAINTAINER}\n"
            + (f"Depends: {', '.join(needs)}\n" if needs else "")
            + "Description: STAND-IN for tests, NOT ScyllaDB\n"
            " Same paths, units and commands; stores nothing by itself.\n"
        )
        if name == "scylla-server":
            _server(root, version)
        elif name == "scylla-conf":
            _put(root / "etc/scylla/scylla.yaml", f"# STAND-IN {release}: not configured\n")
            _put(root / "etc/scylla/cassandra-rackdc.properties", "# STAND-IN\n")
        _conffiles(root)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Znone", "--build", root, pool],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def _server(root: Path, version: str) -> None:
    for source, target in {
        "scylla": "usr/bin/scylla",
        "nodetool": "usr/bin/nodetool",
        "scylla_setup": "opt/scylladb/scripts/scylla_setup",
        "postinst": "DEBIAN/postinst",
    }.items():
        _put(root / target, (FILES / source).read_text(), 0o755)
    for source, target in {
        "common.py": "opt/scylladb/stand-in/common.py",
        "counted.py": "opt/scylladb/stand-in/counted.py",
        "cql.py": "opt/scylladb/stand-in/cql.py",
        "store.py": "opt/scylladb/stand-in/store.py",
        "scylla-server.service": "usr/lib/systemd/system/scylla-server.service",
        "scylla-server.default": "etc/default/scylla-server",
    }.items():
        _put(root / target, (FILES / source).read_text())
    _put(root / "opt/scylladb/SCYLLA-VERSION-FILE", version.rpartition("-")[0] + "\n")
    _put(root / "usr/lib/systemd/system/scylla-server.slice", "[Slice]\n")
    # As ScyllaDB's package for Debian has it.
    dropin = root / "etc/systemd/system/scylla-server.service.d/sysconfdir.conf"
    _put(
        dropin,
        "[Service]\nEnvironmentFile=\nEnvironmentFile=/etc/default/scylla-server\n"
        "EnvironmentFile=/etc/scylla.d/*.conf\n",
    )
    for piece in ("cpuset", "dev-mode", "io", "memory"):
        _put(root / f"etc/scylla.d/{piece}.conf", f"# {version}: written by scylla_setup\n")
    (root / "usr/sbin").mkdir()
    (root / "usr/sbin/scylla_setup").symlink_to("/opt/scylladb/scripts/scylla_setup")
    for name in ("data", "commitlog", "hints", "view_hints", "coredump"):
        (root / "var/lib/scylla" / name).mkdir(parents=True)
    (root / "var/log/scylla-stand-in").mkdir(parents=True)


def _conffiles(root: Path) -> None:
    """Files that an administrator's changes stay in, as dpkg has it: all in /etc, which is what
    debhelper makes of ScyllaDB's (dist/debian/debian/rules there, and dh_installdeb)."""
    names = sorted(path.relative_to(root) for path in root.glob("etc/**/*") if path.is_file())
    if names:
        _put(root / "DEBIAN/conffiles", "".join(f"/{name}\n" for name in names))


def _put(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _index(repository: Path, key: Path) -> None:
    """Write what apt reads: Packages for each architecture, Release, and its signature."""
    stanzas = []
    for package in sorted(repository.glob("pool/*.deb")):
        control = subprocess.run(
            ["dpkg-deb", "--field", package], check=True, capture_output=True, text=True
        ).stdout
        content = package.read_bytes()
        stanzas.append(
            f"{control}Filename: pool/{package.name}\nSize: {len(content)}\n"
            f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
        )
    packages = "\n".join(stanzas).encode()
    release = repository / "dists" / SUITE
    lines = [f"Suite: {SUITE}", "Components: main", "Architectures: amd64 arm64", "SHA256:"]
    for architecture in ("amd64", "arm64"):
        place = f"main/binary-{architecture}"
        (release / place).mkdir(parents=True)
        for name, content in {
            "Packages": packages,
            "Packages.gz": gzip.compress(packages),
        }.items():
            (release / place / name).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            lines.append(f" {digest} {len(content)} {place}/{name}")
    (release / "Release").write_text("\n".join(lines) + "\n")
    _sign(release / "Release", key)


def _sign(release: Path, key: Path) -> None:
    """Sign with a key that is made for it and thrown away; its public half goes to `key`."""
    with tempfile.TemporaryDirectory(prefix="ks-gpg-") as home:
        gpg = functools.partial(
            subprocess.run,
            check=True,
            capture_output=True,
            env={"PATH": os.environ["PATH"], "GNUPGHOME": home},
        )
        words = ["gpg", "--batch", "--pinentry-mode", "loopback", "--passphrase", ""]
        try:
            gpg([*words, "--quick-generate-key", "stand-in", "rsa2048", "sign", "never"])
            gpg([*words, "--clearsign", "--output", release.with_name("InRelease"), release])
            gpg([*words, "--output", key, "--export", "stand-in"])
        finally:
            gpg(["gpgconf", "--kill", "all"])
    shutil.copymode(release, key)
