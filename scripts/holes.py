"""Hold the jars in the bundles against the list of known holes, kairosdb-conf/bundles/holes.yml.

No network: it sees what the list has. docs/security.md says what that is worth.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import Any

import yaml

BUNDLES = Path(__file__).parents[1] / "kairosdb-conf" / "bundles"
NO_RELEASE = "none"
# netty-handler-4.1.140.Final.jar, jetty-http-9.4.58.v20250814.jar, jffi-1.2.16-native.jar
_JAR = re.compile(r"(?P<name>.+?)-(?P<release>\d[^-]*(?:-.*)?)\.jar")

Jars = dict[str, str]
"""Release of each jar, by its name without one."""


def numbers(release: str) -> tuple[int, ...]:
    """What of a release can be compared: 9.4.58.v20250814 is (9, 4, 58)."""
    return tuple(int(part) for part in re.match(r"[\d.]+", release)[0].strip(".").split("."))  # type: ignore[index]


def jars(manifest: str) -> Jars:
    """The jars of a manifest (`sha256sum` lines). Of two releases of one name the older."""
    found: Jars = {}
    for line in manifest.splitlines():
        match = _JAR.fullmatch(Path(line.split(maxsplit=1)[1]).name)
        if match:
            name, release = match["name"], match["release"]
            if name not in found or numbers(release) < numbers(found[name]):
                found[name] = release
    return found


def has(hole: dict[str, Any], found: Jars) -> list[str]:
    """The jars in which a hole is, as `name release`."""
    return [
        f"{name} {found[name]}"
        for name in hole["jars"]
        if name in found
        and (hole["before"] == NO_RELEASE or numbers(found[name]) < numbers(str(hole["before"])))
    ]


def problems(listed: dict[str, Any], manifests: dict[str, str]) -> list[str]:
    """What is not as it should be, a line each.

    Holes without a reason, reasons without a hole, manifests that have changed since the last look.

    Args:
        listed: holes.yml.
        manifests: text of each manifest by its file's name.
    """
    wrong = []
    for file, text in manifests.items():
        sum_now = hashlib.sha256(text.encode()).hexdigest()
        if listed["looked"].get(file) != sum_now:
            wrong.append(
                f"{file} has changed since somebody looked ({listed['looked']['date']}): look for "
                f"holes of what is new in it, then write the date and {sum_now}"
            )
    bundles = [jars(text) for text in manifests.values()]
    for hole in listed["holes"]:
        where = [jar for found in bundles for jar in has(hole, found)]
        if where and not hole.get("open"):
            wrong.append(
                f"{hole['id']} in {', '.join(where)}: {hole['what']}; "
                f"first release without it: {hole['before']}"
            )
        elif hole.get("open") and not where:
            wrong.append(f"{hole['id']} is in no bundle any more: take its `open` out")
    return wrong


def main() -> int:
    """Print what is wrong, and the holes that are known and open; 1 if anything is wrong."""
    listed = yaml.safe_load((BUNDLES / "holes.yml").read_text())
    wrong = problems(
        listed, {path.name: path.read_text() for path in sorted(BUNDLES.glob("*.sha256"))}
    )
    for line in wrong:
        print(f"error: kairosdb-conf/bundles/holes.yml: {line}", file=sys.stderr)
    left = sum(bool(hole.get("open")) for hole in listed["holes"])
    print(
        f"holes: {len(listed['holes'])} known of the bundles' jars ({listed['looked']['date']}), "
        f"{left} of them there and with a reason"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
