"""KairosDB's plugin: its own tests, in Java."""

import os
import shutil
import subprocess

import pytest

from kairoscope import paths

POM = paths.KAIROSDB_CONF / "pom.xml"


def test_own_tests() -> None:
    if not shutil.which("mvn"):
        if os.environ.get("CI"):
            pytest.fail("mvn is not installed")
        pytest.skip("mvn is not installed; first: make setup")
    # What the tests print themselves is in kairosdb-conf/plugin/target/surefire-reports/.
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", POM, "-pl", "plugin", "test",
         "-Dmaven.test.redirectTestOutputToFile=true"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
