"""STAND-IN, not ScyllaDB: configuration, knobs, and a log of calls, for its programs."""

import re
import time
from pathlib import Path

SYSCONFIG = Path("/etc/default/scylla-server")
CONFIGURATION = Path("/etc/scylla/scylla.yaml")
PIECES = Path("/etc/scylla.d")
DATA = Path("/var/lib/scylla")
IO_PROPERTIES = PIECES / "io_properties.yaml"
# A line `name=value` each: what shall go wrong on this host. Absent: nothing.
KNOBS = Path("/etc/scylla-stand-in.conf")
LOG = Path("/var/log/scylla-stand-in/calls")


def knob(name: str) -> str:
    """The value of a knob, "" where it is not set."""
    lines = KNOBS.read_text().splitlines() if KNOBS.exists() else []
    return dict(line.split("=", 1) for line in lines if "=" in line).get(name, "")


def note(call: str) -> None:
    """Add a line to the log of calls, for tests of what was done, how often, and in which order."""
    with LOG.open("a") as log:
        log.write(f"{time.time():.3f} {call}\n")


def shell_file(path: Path) -> dict[str, str]:
    """Settings of a file that systemd reads as environment."""
    found = re.findall(r'(?m)^([A-Z_]+)=(?:"([^"]*)"|(\S*))$', path.read_text())
    return {name: quoted or plain for name, quoted, plain in found}


def configuration() -> dict[str, str]:
    """Plain options of scylla.yaml by name, those of a map by `map.name`; no YAML beyond that."""
    options: dict[str, str] = {}
    group = ""
    for line in CONFIGURATION.read_text().splitlines():
        found = re.match(r"( *)(?:- )?([a-z_0-9]+): *(.*)$", line)
        if not found or line.lstrip().startswith("#"):
            continue
        indent, name, value = found.groups()
        if not indent:
            group = name
        key = name if not indent else f"{group}.{name}"
        options[key] = value.strip().strip('"')
    return options
