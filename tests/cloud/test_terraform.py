"""Terraform's own tests of terraform/, in which a mock takes the provider's place.

`make lint` formats and validates it.
"""

import re
import subprocess
from pathlib import Path

from aws_cloud import environment
from harness import BIN


def run(folder: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "kairoscope", "terraform", f"-chdir={folder}", *arguments, "-no-color"],
        env=environment("http://127.0.0.1:1", home),
        capture_output=True,
        text=True,
        check=False,
    )


def test_own_tests(terraform: Path, tmp_path: Path) -> None:
    done = run(terraform, tmp_path, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Success! [1-9]\d* passed, 0 failed", done.stdout)
