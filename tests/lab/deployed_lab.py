"""A deployed lab of its own through the real CLI, and loads on it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import SERVER, SMALL, STORE, HostsCli, but, running_load, wait_for
from hdrh.log import HistogramLogReader

from kairoscope import run_folder
from kairoscope.stacks.kairosdb.settings.ports import NATIVE_TRANSPORT_PORT
from kairoscope.targets.lab import Lab, system
from loaders.record.histograms import new_histogram

# How the reasons begin for which a run is incomplete although it went to its end.
NOT_MEASURED = (
    "nodetool proxyhistograms of",
    "no process of",
    "bytes per point",
    "queue: only",
    "load and requests of the shards of",
    "what storage-",
)

# And within them: of a machine that another one takes the place of.
NOT_SEEN = " was not looked at in the last "

# Far beyond what the slowest machine's verb takes: each load is told when to end.
LONGEST_S = 2 * 3600

EXPERIMENT = but(
    SMALL, name="lab-test", cluster={"kairosdb_nodes": 2, "loader_hosts": 1}, storage=STORE
)


class DeployedLab(HostsCli):
    """A KAIROSCOPE_HOME with a lab in it."""

    base = EXPERIMENT

    def __init__(self) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="ks-lab-"))
        self.home = self.scratch / "home"
        self.state = self.home / "lab"
        self.experiment = self.write("lab")
        # The load that runs, and when a verb was carried out under it.
        self.load: Load | None = None
        # Rows of docs/operations.md: what each verb did to the load.
        self.effects: list[str] = []

    def write_nodes(self, **cluster: int) -> Path:
        """The experiment with other counts of nodes."""
        return self.write("-".join(f"{k}{v}" for k, v in cluster.items()), cluster=cluster)

    def well(self, *arguments: str | Path, timeout_s: float | None = None) -> str:
        start = time.time()
        said = super().well(*arguments, timeout_s=timeout_s)
        if self.load and arguments[0] in ("operate", "rotate"):
            words = [*arguments[:2], *(a for a in arguments if a == "--rollback")]
            self.load.verbs.append((" ".join(map(str, words)), start, time.time()))
        return said

    def operate(self, verb: str, *arguments: str | Path) -> str:
        """Run a verb, which must end well; what it printed."""
        return self.well("operate", verb, *arguments, "--target", "lab")

    def refuses(self, verb: str, *arguments: str | Path) -> str:
        """Run a verb that must be refused; the one message."""
        return self.refused("operate", verb, *arguments, "--target", "lab")

    def deploy(self, experiment: Path | None = None) -> str:
        return self.well("deploy", *self.deploying(experiment))

    def deploying(self, experiment: Path | None = None) -> tuple[str | Path, ...]:
        """What `deploy` is told, with the server where one was given."""
        return (experiment or self.experiment, "--target", "lab", *SERVER)

    def on(self, host: str, *command: str) -> str:
        """What a command on a host prints."""
        return self.well("lab", "exec", host, *command)

    def wait_until_well(self) -> None:
        """Everything listens, and then `status` finds all well, which takes it seconds to say."""
        wait_for("servers that listen", self.all_listen, 300)
        wait_for("`kairoscope status` finding all well", self.all_is_well, 300)

    def all_is_well(self) -> bool:
        return self.cli("status", "--target", "lab").returncode == 0

    def all_listen(self) -> bool:
        """Whether all servers that are deployed have opened their ports."""
        there = Lab(self.state)
        ports = {"storage": NATIVE_TRANSPORT_PORT, "kairosdb": 8080}
        for state in there.hosts():
            if port := ports.get(state.host.name.partition("-")[0]):
                look = ["ss", "-Hltn", f"sport = :{port}"]
                done = subprocess.run(
                    there.ssh(state.host.name, look, "-o", "ConnectTimeout=5"),
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                )  # fmt: skip
                if not done.stdout.strip():
                    return False
        return True

    @contextlib.contextmanager
    def loading(self, experiment: Path | None = None) -> Iterator[Load]:
        """A load of which points have been acknowledged, and which goes on until it is told to
        end; nothing of it outlives the block."""
        enough, output = self.scratch / "enough", self.scratch / "load.txt"
        enough.unlink(missing_ok=True)
        options = ("--target", "lab", "--duration", str(LONGEST_S), "--until", enough)
        arguments = (experiment or self.experiment, *options)
        with running_load(self, self.home / "runs", output, *arguments) as (process, folder):
            self.load = Load(process, output, folder, enough)
            try:
                wait_for("acked points", lambda: re.search(r"acked [1-9]", output.read_text()))
                yield self.load
            finally:
                self.effects += self.load.effects
                self.load = None

    def remove(self) -> None:
        self.cli("destroy", "--target", "lab")
        shutil.rmtree(self.scratch, ignore_errors=True)


class Load:
    """A `kairoscope load` under way or ended."""

    def __init__(
        self, process: subprocess.Popen[str], output: Path, folder: Path, enough: Path
    ) -> None:
        self.process = process
        self.folder = folder
        self._enough = enough
        self.verbs: list[tuple[str, float, float]] = []
        self.effects: list[str] = []
        self._output = output

    def lost_nothing(self, timeout_s: float = 900) -> None:
        """End it: the ledger must balance, with every acknowledged point read back."""
        assert self.process.poll() is None, self._output.read_text()[-3000:]
        self._enough.touch()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the load hangs\n{self._output.read_text()[-3000:]}")
        verdict = json.loads((self.folder / "verdict.json").read_text())
        # Not the whole verdict: latencies are those of a machine that may be shared, and servers
        # that are stopped and started meanwhile cannot be measured all the time.
        incomplete = verdict["reasons"] if verdict["verdict"] == "incomplete" else []
        assert all(
            reason.startswith(NOT_MEASURED) or NOT_SEEN in reason for reason in incomplete
        ), verdict
        assert verdict["parts"]["readback"]["outcome"] == "pass", verdict
        ledger = json.loads((self.folder / "ledger.json").read_text())
        assert ledger["balanced"], ledger
        assert ledger["missing"] == ledger["queued"] == ledger["wrong_value"] == 0, ledger
        for verb, began, ended in self.verbs:
            self.effects.append(self._effect(verb, began, ended, ledger))

    def _effect(self, verb: str, start: float, end: float, ledger: dict[str, Any]) -> str:
        """A row of docs/operations.md; the tests' summary shows it."""
        during = new_histogram()
        for log in run_folder.histogram_logs(self.folder, "worker"):
            reader = HistogramLogReader(str(log), new_histogram())
            while reader.add_next_interval_histogram(during, start, end, absolute=True):
                pass
            reader.close()
        span = json.loads((self.folder / "manifest.json").read_text())["load"]
        ran = min(end, span["end_ms"] / 1000) - max(start, span["start_ms"] / 1000)
        assert ran > 0, f"{verb} was not carried out under the load"
        return (
            f"| `{verb}` | {ran:.0f} of {end - start:.0f} s | {ledger['acknowledged']:,} | "
            f"{ledger['missing']:,} | "
            f"{during.get_value_at_percentile(99) / 1000:,.0f} ms of "
            f"{during.get_total_count():,} |"
        )


def status_of(lab: DeployedLab, host: str) -> str:
    """The ring as a storage host sees it."""
    tool = f"/var/lib/kairoscope/{host}/bin/nodetool"
    return lab.on(host, "sudo", tool, "status")


def as_root(lab: Lab, host: str, script: str, *given: str, text: bytes = b"") -> str:
    """What a script that root runs on a host prints.

    Args:
        given: $1 and on of the script.
        text: what it can read.
    """
    done = subprocess.run(
        lab.ssh(host, ["sudo", "sh", "-euc", script, "sh", *given]),
        input=text,
        capture_output=True,
        check=False,
    )
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, f"{host}: {script}\n{said}"
    return done.stdout.decode()


def left(lab: Lab) -> dict[str, list[str]]:
    """What this machine has of a lab."""
    processes = []
    inside = lab.network.path.stat().st_ino if lab.network.exists() else None
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                about = [(folder / name).read_text() for name in ("cmdline", "cgroup")]
                namespace = (folder / "ns" / "net").stat().st_ino
            except OSError:
                continue
            named = any(lab.id in text or str(lab.folder) in text for text in about)
            if named or namespace == inside:
                processes.append(about[0].replace("\0", " "))
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
    places = [point for point, kind in system.mounts() if kind.startswith("cgroup")]
    places += [Path("/run"), Path("/run/netns"), Path("/run/systemd/nspawn/propagate")]
    return {
        "processes": processes,
        "mounts": [line for line in mounts if lab.id in line or str(lab.folder) in line],
        "loops": [line for line in loops.splitlines() if str(lab.folder) in line],
        "named": [str(path) for place in places for path in place.glob(f"*{lab.id}*")],
        "folder": [str(lab.folder)] if lab.folder.exists() else [],
    }
