"""The jars of KairosDB and Cassandra, which Maven brings and `kairosdb-conf/bundles/` pins, with
our own plugin."""

import inspect
import os
import shutil
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

from kairoscope import live, paths
from kairoscope.deploy import bundles
from kairoscope.deploy.building.tool import first_errors, logged, stamp_of, unchanged
from kairoscope.deploy.bundles import NAMES, POM, Bundle, bundle, reference_conf, write_archive
from kairoscope.deploy.checksums import checksums, differences, read_manifest, write_manifest
from kairoscope.errors import UserError
from kairoscope.hosts.java import java17, java_home

# Our own plugin is built here, not fetched: its source is in the repo, so it needs no pin.
OWN = "kairoscope-kairosdb-plugin-1.jar"


def _sources() -> Iterator[Path]:
    conf = paths.KAIROSDB_CONF
    yield POM
    for name in NAMES:
        yield bundle(name).manifest
        yield conf / "bundles" / name / "pom.xml"
    yield conf / "libraries" / "pom.xml"
    yield conf / "plugin" / "pom.xml"
    yield from sorted(conf.glob("plugin/src/main/**/*.*"))
    yield from (Path(__file__), Path(bundles.__file__), Path(inspect.getfile(checksums)))


def build_jars(update_manifest: bool, console: Console | None) -> bool:
    """Build both bundles if one is not built yet; see `run_time.build`."""
    stamp_file = paths.BUNDLES / "built-from.sha256"
    stamp = stamp_of(_sources())
    archives = [bundle(name).archive for name in NAMES]
    if unchanged(stamp_file, stamp) and all(a.exists() for a in archives) and not update_manifest:
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
    done = logged(
        log,
        partial(
            live.stage,
            console,
            "Maven brings the servers' jars and builds KairosDB's plugin",
            unit="files fetched",
            usual="half a minute, or one to four minutes where nothing is cached",
        ),
        # Not -ntp: its lines on what it fetches are how we know how far it is.
        [mvn, "-B", "-f", str(POM), "-Dmaven.test.skip", "clean", "package"],
        # The plugin is compiled for, and with, the Java that will run it.
        env={**os.environ, "JAVA_HOME": str(java_home(java17()))},
    )
    if not done:
        raise UserError(
            "Maven could not build the run-time bundles (is Maven Central reachable?)."
            + first_errors(log)
        )


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
    write_archive(item, folder, found)

    if item.name == "kairosdb":
        jar = folder / "lib" / f"kairosdb-{item.version}.jar"
        with zipfile.ZipFile(jar) as archive:
            reference_conf().write_bytes(archive.read("kairosdb.conf"))
