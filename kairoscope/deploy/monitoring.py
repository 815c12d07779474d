"""What a target that is watched has beside its servers: programs, ports, and who is asked for what.

A target is watched where its inventory has a host in the group `monitoring`; nothing else says so.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope import live, paths
from kairoscope.deploy import bundles
from kairoscope.deploy.building.tool import alone, unchanged
from kairoscope.deploy.bundles import Packed
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, prometheus, secret_files
from kairoscope.hosts.machines import Layout, Machine
from kairoscope.stacks.stack import Scraped, Stack

NAME = "monitoring"
# As this machine's release of Debian or Ubuntu has them: the hosts need no way to a repository, and
# a laptop no root. Who made them is checked by apt, so that there is no pin of ours to keep.
PACKAGES = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")
PROGRAMS = (*PACKAGES, "promtool", "amtool")
# What goes to every host, and what only to the one that watches.
_EVERYWHERE = ("bin/prometheus-node-exporter",)
_THERE = ("bin/prometheus", "bin/promtool", "bin/prometheus-alertmanager", "bin/amtool", "share")

# Debian's Prometheus has its pages in files, and their scripts in packages of their own.
_PAGES, _PAGES_FLAG = "share/web", "--web.local-assets"

# What the monitoring host's inventory says of Grafana, which is in no registry: a package, or the
# key of its maker's repository. With neither there is none.
_GRAFANA = {"grafana_package", "grafana_repository_key"}

# Beside the stack's servers: the hosts themselves, and what the sensors see while a load runs.
_SCRAPED = (
    Scraped("node", "all", "node_exporter_address", "node_exporter_port"),
    Scraped(prometheus.LOADER, "loader", "address", "metrics_port"),
)


def folder() -> Path:
    """Where the programs are on this machine: `bin/` below it, once `fetch` was called."""
    return paths.BUNDLES / NAME


def fetch(console: Console | None = None) -> bool:
    """Have the programs, of the newest packages that apt knows; True if any was fetched.

    UserError if they are not there and cannot be fetched, or not be written.
    """
    with alone(console), _written():
        return _fetch(console)


@contextlib.contextmanager
def _written() -> Iterator[None]:
    """UserError where what is written in the block cannot be, as over files of root's."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"What watches a target could not be put into {folder()}: {error}. If another user "
            f"has made that, as with sudo: sudo chown -R {os.geteuid()} {paths.BUNDLES}"
        ) from error


def _fetch(console: Console | None) -> bool:
    stamp_file = paths.BUNDLES / f"{NAME}-built-from.txt"
    versions = _known_to_apt()
    there = all((folder() / "bin" / name).exists() for name in PROGRAMS)
    if there and (not versions or unchanged(stamp_file, versions)):
        return False
    if os.geteuid() == 0 and shutil.which("apt-get"):
        # What an old list names is gone from the mirrors.
        subprocess.run(["apt-get", "--quiet", "--quiet", "update"], check=False)
        versions = _known_to_apt()
    if not versions:
        raise UserError(
            f"Monitoring needs the packages {', '.join(PACKAGES)} of Debian or Ubuntu, and this "
            "machine's apt does not know them. First: apt-get update (Ubuntu: with universe)"
        )
    with live.stage(console, "apt brings Prometheus and its exporters", usual="some seconds"):
        _unpack(folder())
    stamp_file.write_text(versions)
    return True


def _known_to_apt() -> str:
    """Name and version of each package, a line each; "" if one of them is not known."""
    if not shutil.which("apt-cache"):
        return ""
    names = _packages()
    wanted = ("Package: ", "Version: ")
    said = _lines("apt-cache", "--no-all-versions", "show", *names)
    lines = [line for line in said if line.startswith(wanted)]
    return "\n".join(lines) if len(lines) == len(wanted) * len(names) else ""


def _packages() -> list[str]:
    """All packages that are fetched: the programs', and what Prometheus' pages are made of."""
    but = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    options = ["--recurse", *(f"--no-{kind}" for kind in but)]
    needed = _lines("apt-cache", "depends", *options, PACKAGES[0])
    return [*PACKAGES, *sorted({name for name in needed if name.startswith(("libjs-", "fonts-"))})]


def _lines(*command: str | Path) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # A program tells its options on whichever it likes.
    return (done.stdout + done.stderr).splitlines()


def _unpack(into: Path) -> None:
    """Download the packages and take the programs out of them. UserError if that fails."""
    paths.BUNDLES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=paths.BUNDLES) as made:
        here = Path(made)
        here.chmod(0o755)  # apt fetches as a user of its own where it may
        _call(["apt-get", "--quiet", "download", *_packages()], here)
        for package in here.glob("*.deb"):
            _call(["dpkg-deb", "--extract", str(package), "root"], here)
        found = here / "found" / "bin"
        found.mkdir(parents=True)
        for name in PROGRAMS:
            shutil.copy(here / "root" / "usr" / "bin" / name, found / name)
        # Links lead to the scripts' packages; moment-timezone's `data`, 220 MB, is in its script.
        shared = here / "root" / "usr" / "share" / "prometheus"
        but = shutil.ignore_patterns("data")
        with contextlib.suppress(shutil.Error):  # A link that leads nowhere; all others are copied.
            shutil.copytree(shared, found.parent / "share", ignore=but)
        if not any(_PAGES_FLAG in line for line in _lines(found / "prometheus", "--help")):
            # Another release, whose pages are in it, or nowhere.
            shutil.rmtree(found.parent / _PAGES, ignore_errors=True)
        if into.exists():
            shutil.rmtree(into)
        found.parent.rename(into)


def _call(command: list[str], where: Path) -> None:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise UserError(
            f"{' '.join(command[:3])} failed: {'; '.join(said) or done.stderr.strip()}. Is there a "
            "way to the package repository? An old list of packages: apt-get update"
        )


def packed(name: str, parts: Iterable[str]) -> Packed:
    """Some of what `fetch` has brought, as a bundle for hosts. UserError if it is not there, or the
    bundle cannot be written."""
    if not folder().exists():
        raise UserError(
            f"{folder()} is not there. First: .venv/bin/kairoscope bundles --with-monitoring"
        )
    with _written():
        return bundles.pack(name, "1", folder(), parts, paths.BUNDLES)


def certificate_metrics(secrets_dir: Path, node: str) -> str:
    """When the certificate of a host (if it has one) and the CA end, in Prometheus' text format."""
    name = "kairoscope_certificate_end_timestamp_seconds"
    ends = secret_files.ends(secrets_dir)
    return "\n".join(
        [
            f"# HELP {name} When a certificate ends, s since 1970.",
            f"# TYPE {name} gauge",
            *(f'{name}{{of="{of}"}} {ends[of]:.0f}' for of in ("CA", node) if of in ends),
        ]
    )


def of_all(layout: Layout, stack: Stack) -> dict[str, Any]:
    """Inventory variables of all hosts of a target that is watched."""
    exporter, watching = packed("node-exporter", _EVERYWHERE), packed(NAME, _THERE)
    return {
        "node_exporter_bundle": str(exporter.archive),
        "node_exporter_bundle_dir": str(layout.install_dir / exporter.folder),
        "monitoring_bundle": str(watching.archive),
        "monitoring_bundle_dir": str(layout.install_dir / watching.folder),
        "monitoring_pages_option": f"{_PAGES_FLAG}={layout.install_dir / watching.folder / _PAGES}"
        if (folder() / _PAGES).is_dir()
        else "",
        "dashboards_dir": str(paths.DASHBOARDS),
        "scraped": [asdict(job) for job in (*stack.scraped, *_SCRAPED)],
    }


def of_machine(machine: Machine, layout: Layout) -> dict[str, Any]:
    """Inventory variables of one host of a target that is watched."""
    watches = machine.group == "monitoring"
    found: dict[str, Any] = {}
    # Where the servers are processes of one machine, its figures are told once.
    if layout.managed or watches:
        found |= {
            "node_exporter_address": machine.address,
            "node_exporter_port": inventory.NODE_EXPORTER_PORT,
            "node_exporter_home": layout.home("node-exporter"),
        }
    if machine.group == "loader":
        # Listened on while a load runs: loaders/metrics.py.
        found |= {"metrics_port": inventory.LOADER_METRICS_PORT}
    if watches:
        found |= {
            "home": layout.home(machine.name),
            # Neither has a login: for who is on the host, by an SSH tunnel from elsewhere.
            "monitoring_address": "127.0.0.1" if layout.managed else machine.address,
            "prometheus_web_port": inventory.PROMETHEUS_WEB_PORT,
        }
    if watches and layout.managed:
        found |= {
            "unit": "kairoscope-prometheus",
            "run_as": "prometheus",
            # Debian's wants its templates in /usr/share, where only root can put them (no option
            # says otherwise); and who sits before a laptop is told by `kairoscope status`.
            "alertmanager_port": inventory.ALERTMANAGER_PORT,
        }
        if _GRAFANA & machine.more.keys():
            found["grafana_port"] = inventory.GRAFANA_PORT
    return found
