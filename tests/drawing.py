"""Draws dashboards with Grafana's own components from npm, in a headless Chromium; no Grafana.

The page, and what draws it, are in tests/panels; this is for the tests of every layer, and by hand:

    .venv/bin/python tests/drawing.py <address of a Prometheus> <from, s> <to, s> <folder>
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
from boards import KAIROSDBS
from PIL import Image

FOLDER = Path(__file__).resolve().parent / "panels"
MODULES = FOLDER / "node_modules"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Picture:
    """What came of a dashboard: `panels` as page.tsx tells it, troubles of the page beside them."""

    panels: list[dict[str, Any]]
    troubles: list[str]
    file: Path


def ready() -> None:
    """Have what draws: a browser is there, npm brings the rest; without, the test is skipped."""
    if not _browser() or not shutil.which("npm"):
        missing("no Node.js with npm, or no Chromium: scripts/need panels")
    lock = FOLDER / "package-lock.json"
    stamp = MODULES / ".of-lock"
    if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
        return
    # Exactly what the lock has, and no script of theirs is run.
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    if done.returncode:
        missing(f"npm ci in tests/panels: {done.stderr[-300:]}")
    shutil.copy(lock, stamp)


def missing(why: str) -> NoReturn:
    """Skip the test, as something is not there; in CI everything must be."""
    pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)


def _browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def draw(
    folder: Path, prometheus: str, start_s: int, end_s: int, boards: Sequence[Path]
) -> dict[str, Picture]:
    """Draw each of `boards` (files) into `folder`; what came of them, by the files' names."""
    done = subprocess.run(
        ["node", "draw.mjs", folder, prometheus, str(start_s), str(end_s), *boards],
        cwd=FOLDER,
        env=os.environ | {"CHROMIUM": str(_browser())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    drawn = {
        name: Picture(**it, file=folder / f"{name}.png")
        for name, it in json.loads(done.stdout).items()
    }
    for picture in drawn.values():
        # Lines and words have few colours: a third of the size.
        colours = Image.open(picture.file).convert("RGB").quantize(128, kmeans=1)
        colours.save(picture.file, optimize=True)
    return drawn


def wrong(panel: dict[str, Any]) -> list[str]:
    """What is wrong with a panel as it was drawn, each with its title; nothing if it is well."""
    found = []
    if error := panel.get("error"):
        found.append(error)
    elif not panel["series"] or not all(panel["series"]):
        found.append(f"no data: series of each query {panel['series']}")
    else:
        if len(panel["legend"]) != sum(panel["series"]):
            found.append(f"a legend of {len(panel['legend'])} for {sum(panel['series'])} series")
        found += [f"legend {name!r}" for name in panel["legend"] if not _reads_well(name)]
        if not panel["coloured"]:
            found.append("nothing is drawn")
    return [f"{panel['title']}: {what}" for what in found]


def _reads_well(legend: str) -> bool:
    """Words with a blank between them: a label that a series has not leaves a gap."""
    return bool(legend) and " ".join(legend.split()) == legend and "{" not in legend


def main() -> None:
    """Draw ours, and say what is wrong."""
    prometheus, start_s, end_s, folder = sys.argv[1:]
    ready()
    files = sorted(KAIROSDBS)
    drawn = draw(Path(folder).resolve(), prometheus, int(start_s), int(end_s), files)
    for picture in drawn.values():
        found = [what for panel in picture.panels for what in wrong(panel)]
        print("\n  ".join([str(picture.file), *picture.troubles, *found]))


if __name__ == "__main__":
    main()
