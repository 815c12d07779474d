"""The Java run-time of hosts of their own, linked from this machine's JDK."""

import shutil
from functools import partial

from rich.console import Console

from kairoscope import live, paths
from kairoscope.deploy.building.tool import logged, unchanged
from kairoscope.deploy.bundles import JAVA, bundle, write_archive
from kairoscope.deploy.checksums import checksums
from kairoscope.errors import UserError
from kairoscope.hosts.java import java17, java_home

# What the servers and their tools use, and jcmd for whoever has to look into them.
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


def build_java(console: Console | None) -> bool:
    """Link the Java run-time from this machine's JDK, whose checksums are then the manifest."""
    item = bundle(JAVA)
    stamp_file = paths.BUNDLES / "java-built-from.sha256"
    stamp = f"{item.version} {' '.join(JAVA_MODULES)}"
    if unchanged(stamp_file, stamp) and item.archive.exists():
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
    if not logged(log, shown, [str(jlink), *options, *modules, "--output", str(folder)]):
        raise UserError(f"jlink could not make the Java run-time; its output: {log}")
    with live.stage(console, "packing the Java run-time"):
        write_archive(item, folder, checksums(folder))
    shutil.rmtree(folder)
    stamp_file.write_text(stamp)
    return True
