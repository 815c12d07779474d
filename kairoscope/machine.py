"""Where a figure comes from: the machine it was measured on, and the checkout that did it."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from kairoscope import paths


def machine() -> dict[str, Any]:
    """Cores, processor, memory (bytes), kernel and system of this machine."""
    return {
        "cpus": psutil.cpu_count(),
        "cpu_model": _cpu_model(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "os": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
    }


def git() -> dict[str, Any]:
    """The checkout's commit, and whether files differ from it; None where it is none of git's."""
    changes = _git("status", "--porcelain")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(changes) if changes is not None else None,
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=paths.CHECKOUT, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
