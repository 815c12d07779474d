"""Where a figure comes from: the machine it was measured on, and the checkout that did it."""

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from kairoscope import paths
from kairoscope.hosts import ssh
from kairoscope.hosts.inventory import Host, Inventory

# Runs on a host, with what its own Python has.
_ABOUT = """
import json, os, platform
lines = [line.partition(":") for line in open("/proc/cpuinfo")]
cpu = [value.strip() for name, _, value in lines if name.strip() == "model name"]
print(json.dumps({
    "cpus": os.cpu_count(),
    "cpu_model": cpu[0] if cpu else platform.processor(),
    "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    "kernel": platform.release(),
    "os": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
}))
"""


def this_machine() -> dict[str, Any]:
    """Cores, processor, memory (bytes), kernel and system of this machine."""
    return {
        "cpus": psutil.cpu_count(),
        "cpu_model": _cpu_model(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "os": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
    }


def booted() -> float:
    """When this machine's kernel started, epoch s: apart, as a machine is the same after it."""
    return psutil.boot_time()


# Of a machine that a target makes: what it is of. No two runs need have it in common.
_MADE_OF = ("image", "instance_id")


def hosts(inventory: Inventory) -> list[dict[str, Any]]:
    """The same of every host of a target, with its name and, on aws, its image and instance; where
    it cannot be asked, only these."""

    def about(host: Host) -> dict[str, Any]:
        known = {"name": host.name, "role": host.role}
        known |= {key: host.vars[key] for key in _MADE_OF if key in host.vars}
        try:
            said = ssh.run(host, ["python3", "-c", _ABOUT])
        except ssh.RemoteError as error:
            return {**known, "error": str(error)}
        return {**known, **json.loads(said)}

    return ssh.on_all(inventory.all, about)


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
