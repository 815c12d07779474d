"""Draws dashboards with Grafana's own components from npm, in a headless Chromium; no Grafana.

What it takes is on the machine already, or is brought by npm: exactly what package-lock.json has.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Missing(Exception):
    """What is not there, and how to have it."""


@dataclass(frozen=True)
class Picture:
    """What came of a dashboard: `panels` as page.tsx tells it, troubles of the page beside them."""

    panels: list[dict[str, Any]]
    troubles: list[str]
    file: Path


def browser() -> str:
    """The path of the browser; Missing without one, and without Node."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if not found or not shutil.which("npm"):
        raise Missing("no Node.js with npm, or no Chromium: scripts/need panels")
    return found


def install() -> None:
    """Have the packages of package-lock.json; no script of theirs is run."""
    lock = HERE / "package-lock.json"
    stamp = MODULES / ".of-lock"
    if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
        return
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"npm ci: {done.stderr.strip().splitlines()[-1:]}")
    shutil.copy(lock, stamp)


def draw(
    folder: Path, prometheus: str, start_s: int, end_s: int, boards: Sequence[Path]
) -> dict[str, Picture]:
    """Draw each of `boards` (files) into `folder`; what came of them, by the files' names."""
    done = subprocess.run(
        ["node", "draw.mjs", folder, prometheus, str(start_s), str(end_s), *boards],
        cwd=HERE,
        env=os.environ | {"CHROMIUM": browser()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    return {name: Picture(**it, file=folder / f"{name}.png") for name, it in said.items()}


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
