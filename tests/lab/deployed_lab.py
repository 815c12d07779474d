"""A deployed lab of its own through the real CLI, and loads on it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from hdrh.log import HistogramLogReader

from loaders.histograms import new_histogram

BIN = Path(sys.executable).parent
# Small, and generous: the machine may be shared, and no test may hang on its speed.
EXPERIMENT: dict[str, Any] = {
    "name": "lab-test",
    "description": "A small load for the project's own tests.",
    "cluster": {
        "storage_nodes": 3,
        "replication_factor": 3,
        "kairosdb_nodes": 2,
        "loader_hosts": 1,
    },
    "storage": {"heap_mb": 512},
    "load": {
        "sensors": 300,
        "rate": 1,
        "duration_s": 30,
        "warmup_s": 5,
        "sensors_per_request": 50,
        "retry_for_s": 120,
    },
    "limits": {
        "p99_ms": 120_000,
        "send_error_p99_ms": 60_000,
        "queue_growth": 1,
        "drain_s": 240,
    },
    "capture": {"proxyhistograms_every_s": 30, "processes_every_s": 1},
    "assume": {"commitlog_mib_per_node": 128},
}

T = TypeVar("T")


def wait_for(what: str, probe: Callable[[], T | None], timeout_s: float = 240) -> T:
    """What `probe` returns as soon as that is true; fails the test after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        if found := probe():
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s:.0f} s in vain for: {what}")
        time.sleep(0.5)


def changed(recap: str) -> dict[str, int]:
    """What a playbook's recap says was changed, by host; fails if it says nothing."""
    found = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=0\s+failed=0", recap, re.M)
    assert found, recap[-3000:]
    return {host: int(count) for host, count in found}


class DeployedLab:
    """A KAIROSCOPE_HOME with a lab in it."""

    def __init__(self) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="ks-lab-"))
        self.home = self.scratch / "home"
        self.state = self.home / "lab"
        self.experiment = self.write()
        # The load that runs, and when a verb was carried out under it.
        self.load: Load | None = None

    def write(self, **cluster: int) -> Path:
        """The experiment, with other counts of nodes."""
        content = EXPERIMENT | {"cluster": EXPERIMENT["cluster"] | cluster}
        path = self.scratch / f"{'-'.join(f'{k}{v}' for k, v in cluster.items()) or 'lab'}.yml"
        path.write_text(yaml.safe_dump(content))
        return path

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start the CLI in a process group of its own, as a terminal would."""
        return subprocess.Popen(
            [BIN / "kairoscope", *arguments],
            env={
                **os.environ,
                "KAIROSCOPE_HOME": str(self.home),
                "KAIROSCOPE_SECRETS": str(self.scratch / "secrets"),
                "COLUMNS": "200",
            },
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            **options,
        )

    def cli(
        self, *arguments: str | Path, timeout_s: float = 900
    ) -> subprocess.CompletedProcess[str]:
        """Run the CLI to its end; a test that has to wait longer than `timeout_s` fails."""
        process = self.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"kairoscope {arguments} hangs: not done after {timeout_s:.0f} s")
        finally:
            end_group(process)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def well(self, *arguments: str | Path, timeout_s: float = 900) -> str:
        """Run the CLI, which must end well; what it printed."""
        start = time.time()
        done = self.cli(*arguments, timeout_s=timeout_s)
        if self.load and arguments[0] in ("operate", "rotate"):
            self.load.verbs.append((" ".join(map(str, arguments[:2])), start, time.time()))
        assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr}"
        return done.stdout

    def operate(self, verb: str, *arguments: str | Path) -> str:
        """Run a verb, which must end well; what it printed."""
        return self.well("operate", verb, *arguments, "--target", "lab")

    def refused(self, verb: str, *arguments: str | Path) -> str:
        """Run a verb that must be refused; the one message."""
        done = self.cli("operate", verb, *arguments, "--target", "lab")
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stderr.startswith("Error: "), done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def deploy(self, experiment: Path | None = None) -> str:
        return self.well("deploy", experiment or self.experiment, "--target", "lab")

    def on(self, host: str, *command: str) -> str:
        """What a command on a host prints."""
        return self.well("lab", "exec", host, *command)

    def all_is_well(self) -> bool:
        return self.cli("status", "--target", "lab").returncode == 0

    def wait_until_well(self) -> None:
        wait_for("`kairoscope status` finding all well", self.all_is_well, 300)

    @contextlib.contextmanager
    def loading(self, duration_s: int, experiment: Path | None = None) -> Iterator[Load]:
        """A load of which points have been acknowledged; nothing of it outlives the block."""
        latest = self.home / "runs" / "latest"
        before = latest.resolve()
        output = self.scratch / "load.txt"
        with output.open("w") as file:
            process = self.start(
                "load",
                experiment or self.experiment,
                *("--target", "lab", "--duration", str(duration_s)),
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            folder = wait_for(
                "the run folder",
                lambda: (
                    latest.resolve() if latest.exists() and latest.resolve() != before else None
                ),
            )
            self.load = Load(process, output, folder)
            wait_for("acknowledged points", lambda: "acknowledged" in output.read_text())
            yield self.load
        finally:
            self.load = None
            end_group(process)

    def remove(self) -> None:
        self.cli("destroy", "--target", "lab")
        shutil.rmtree(self.scratch, ignore_errors=True)


class Load:
    """A `kairoscope load` under way or ended."""

    def __init__(self, process: subprocess.Popen[str], output: Path, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.verbs: list[tuple[str, float, float]] = []
        self._output = output

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def lost_nothing(self, timeout_s: float = 900) -> None:
        """Wait for its end: the ledger must balance, with every acknowledged point read back."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the load hangs\n{self._output.read_text()[-3000:]}")
        verdict = json.loads((self.folder / "verdict.json").read_text())
        # Not the whole verdict: latencies are those of a machine that may be shared.
        assert verdict["verdict"] != "incomplete", verdict
        assert verdict["parts"]["readback"]["outcome"] == "pass", verdict
        ledger = json.loads((self.folder / "ledger.json").read_text())
        assert ledger["balanced"], ledger
        assert ledger["missing"] == ledger["queued"] == ledger["wrong_value"] == 0, ledger
        for verb, start, end in self.verbs:
            self._tell_effect(verb, start, end, ledger["acknowledged"])

    def _tell_effect(self, verb: str, start: float, end: float, acknowledged: int) -> None:
        """Print a row of docs/operations.md (`make test ONLY=long ARGS=-rP` shows it)."""
        during = new_histogram()
        for log in (self.folder / "latency").glob("worker-*.hlog"):
            reader = HistogramLogReader(str(log), new_histogram())
            while reader.add_next_interval_histogram(during, start, end, absolute=True):
                pass
            reader.close()
        span = json.loads((self.folder / "manifest.json").read_text())["load"]
        ran = min(end, span["end_ms"] / 1000) - max(start, span["start_ms"] / 1000)
        print(
            f"| `{verb}` | {ran:.0f} of {end - start:.0f} s | {acknowledged:,} | 0 | "
            f"{during.get_value_at_percentile(99) / 1000:,.0f} ms of "
            f"{during.get_total_count():,} |"
        )


def end_group(process: subprocess.Popen[str]) -> None:
    """End whatever is left of a command and of its process group."""
    if process.poll() is None:
        # Gently first: Ansible's workers are in groups of their own, and it ends them itself.
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
