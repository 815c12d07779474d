"""The Java that everything runs on, and what it takes."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from kairoscope.errors import UserError

NEEDED = "17"

JVM_OVERHEAD_MIB = 550
"""What a JVM takes beside its heap: code, threads, direct buffers. A storage node with a heap of
1,024 MiB was seen to take 1,417 MiB in all (2026-11, of a run that is not kept)."""


def java17() -> str:
    """Path of a Java 17 `java`. UserError naming what was found instead."""
    java_home = os.environ.get("JAVA_HOME")
    candidates = [f"{java_home}/bin/java"] if java_home else []
    candidates += [shutil.which("java") or ""]
    candidates += [str(p) for p in sorted(Path("/usr/lib/jvm").glob("*17*/bin/java"))]
    seen = []
    for java in filter(None, candidates):
        version = _version(java)
        if version == NEEDED:
            return java
        seen.append(f"{java} is Java {version or '?'}")
    raise UserError(
        "Java 17 is needed (Cassandra 5.0 and KairosDB 1.3 run on no newer one). "
        + ("Found: " + ", ".join(seen) + ". " if seen else "No Java found. ")
        + "On Debian 12 or Ubuntu: apt-get install openjdk-17-jdk-headless; or set JAVA_HOME."
    )


def full_version(java: str) -> str:
    """Such as "17.0.15", of a `java` command that runs."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found.group(1) if found else "unknown"


def _version(java: str) -> str | None:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r'version "(\d+)', said.stderr)
    return found.group(1) if found else None


def java_home(java: str) -> Path:
    """JAVA_HOME of a `java` command, symbolic links followed."""
    return Path(java).resolve().parents[1]
