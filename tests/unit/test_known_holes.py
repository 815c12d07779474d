"""The list of known holes, and how jars are held against it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from scripts import holes

MANIFEST = (
    "00  lib/jetty-http-9.4.31.v20200723.jar\n"
    "00  lib/jetty-server-9.4.58.v20250814.jar\n"
    "00  lib/jffi-1.2.16-native.jar\n"
    "00  lib/netty-3.10.6.Final.jar\n"
    "00  lib/guava-28.2-jre.jar\n"
    "00  agent/jolokia.jar\n"
)


def listed(*rows: dict[str, Any], manifest: str = MANIFEST) -> dict[str, Any]:
    looked = {"date": "2026-11-25", "k.sha256": hashlib.sha256(manifest.encode()).hexdigest()}
    return {"looked": looked, "holes": list(rows)}


def hole(jar: str, before: str, **more: str) -> dict[str, Any]:
    return {"id": "CVE-1", "jars": [jar], "before": before, "what": "it breaks", **more}


def found(*rows: dict[str, Any], manifest: str = MANIFEST) -> list[str]:
    return holes.problems(listed(*rows), {"k.sha256": manifest})


def test_what_the_bundles_have_is_in_the_list() -> None:
    """Of the real manifests: a jar with a hole, or a manifest that nobody looked at, fails."""
    assert holes.main() == 0


def test_a_jars_name_ends_where_its_release_begins() -> None:
    assert holes.jars(MANIFEST) == {
        "jetty-http": "9.4.31.v20200723",
        "jetty-server": "9.4.58.v20250814",
        "jffi": "1.2.16-native",
        "netty": "3.10.6.Final",
        "guava": "28.2-jre",
    }


def test_of_two_releases_the_older_counts() -> None:
    both = "00  lib/asm-9.7.jar\n00  other/asm-10.1.jar\n"
    assert holes.jars(both) == {"asm": "9.7"}


@pytest.mark.parametrize(
    ("jar", "before", "there"),
    [
        ("jetty-http", "9.4.52", True),
        ("jetty-server", "9.4.52", False),
        ("jetty-server", "9.4.58", False),
        ("guava", "32.0.0", True),
        ("guava", "28.2", False),
        ("netty", "none", True),
        ("h2", "none", False),
    ],
)
def test_a_hole_is_in_a_jar_of_an_older_release(jar: str, before: str, there: bool) -> None:
    lines = found(hole(jar, before))
    assert [line.startswith(f"CVE-1 in {jar} ") for line in lines] == [True] * there


def test_a_hole_may_be_there_with_a_reason() -> None:
    assert found(hole("netty", "none", open="not used")) == []


def test_a_reason_goes_with_its_hole() -> None:
    assert found(hole("jetty-server", "9.4.52", open="not used")) == [
        "CVE-1 is in no bundle any more: take its `open` out"
    ]


def test_other_jars_are_to_be_looked_at() -> None:
    (line,) = found(manifest=MANIFEST + "00  lib/new-1.0.jar\n")
    assert line.startswith("k.sha256 has changed since somebody looked (2026-11-25)")
