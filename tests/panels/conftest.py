"""A Prometheus with made-up figures, and what draws."""

import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator

import drawing
import made_up
import pytest
from harness import end, wait_for

from kairoscope.deploy import monitoring


@pytest.fixture(scope="session")
def packages() -> None:
    """Grafana's components, and a browser."""
    drawing.ready()


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Debian's Prometheus with what `made_up` makes up."""
    programs = monitoring.folder() / "bin"
    if not (programs / "promtool").exists():
        drawing.missing("no Prometheus: .venv/bin/kairoscope bundles --with-monitoring")
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "figures.txt").write_text(made_up.text())
    making = ["tsdb", "create-blocks-from", "openmetrics", "figures.txt", "data"]
    subprocess.run([programs / "promtool", *making], cwd=folder, capture_output=True, check=True)
    (folder / "prometheus.yml").write_text("{}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = {
        "config.file": "prometheus.yml",
        "storage.tsdb.path": "data",
        # Figures of a fixed day, which must not be too old to keep.
        "storage.tsdb.retention.time": "100y",
        "web.listen-address": address,
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [programs / "prometheus", *(f"--{name}={value}" for name, value in options.items())],
            cwd=folder,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        seen = (folder / "log").read_text
        wait_for("Prometheus", lambda: _answers(address) or process.poll(), seen=seen)
        assert process.returncode is None, seen()
        yield f"http://{address}"
    finally:
        end(process)
        shutil.rmtree(folder / "data")


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=10):
            return True
    except OSError:
        return False
