"""A deployment of its own, on a loopback net and in a home of its own, through the real CLI."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
import yaml
from cassandra import ConsistencyLevel
from cassandra.cluster import Session

from kairoscope import cql, experiment, inventory, plan, preflight, supervisor

BIN = Path(sys.executable).parent
STORAGE = ("storage-1", "storage-2", "storage-3")
ALL = (*STORAGE, "kairosdb-1")

# Small, and generous: the machine may be shared, and no test may hang on its speed.
EXPERIMENT: dict[str, Any] = {
    "name": "cluster-test",
    "description": "A small load for the project's own tests.",
    "cluster": {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1},
    "storage": {"heap_mb": 512},
    "load": {
        "sensors": 300,
        "rate": 2,
        "duration_s": 15,
        "warmup_s": 3,
        "sensors_per_request": 50,
        "retry_for_s": 90,
    },
    "limits": {
        "p99_ms": 60_000,
        "send_error_p99_ms": 60_000,
        "queue_growth": 1,
        "drain_s": 120,
    },
    "capture": {"proxyhistograms_every_s": 8, "processes_every_s": 1},
    "assume": {"commitlog_mib_per_node": 128},
}

T = TypeVar("T")


def wait_for(what: str, probe: Callable[[], T | None], timeout_s: float = 120) -> T:
    """What `probe` returns as soon as that is true; fails the test after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        if found := probe():
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s:.0f} s in vain for: {what}")
        time.sleep(0.2)


def variant(**sections: Any) -> dict[str, Any]:
    """EXPERIMENT with some fields of its sections replaced."""
    return EXPERIMENT | {name: EXPERIMENT.get(name, {}) | given for name, given in sections.items()}


def request(url: str, document: Any = None, timeout_s: float = 10) -> Any:
    """GET, or POST a document as JSON; the answer's document, None if it has none."""
    data = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(url, data=data, timeout=timeout_s) as answer:  # noqa: S310 (ours)
        body = answer.read()
    return json.loads(body) if body else None


def free_net() -> str:
    """A loopback net on which nobody listens at any address that a deployment would use."""
    made = plan.make(experiment.Experiment.model_validate(EXPERIMENT))
    for _ in range(50):
        net = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KAIROSCOPE_LOCAL_NET", net)
            groups = inventory.local(made)["all"]["children"]
        hosts = {
            role: [inventory.Host(name, role, v) for name, v in groups[role]["hosts"].items()]
            for role in ("storage", "kairosdb")
        }
        wanted = preflight.listeners(
            inventory.Inventory(Path("/nowhere"), hosts["storage"], hosts["kairosdb"], [])
        )
        if not preflight.taken(wanted, Path("/nowhere")):
            return net
    pytest.fail("no free loopback net found")


class Home:
    """A KAIROSCOPE_HOME with a loopback net: where the CLI is called, and what it left there."""

    def __init__(self, net: str | None = None, name: str = "home") -> None:
        self.net = net or free_net()
        # Short: the path of a Unix socket has 107 bytes at most.
        self.scratch = Path(tempfile.mkdtemp(prefix="ks-"))
        self.path = self.scratch / name
        self.state = self.path / "local"
        self.experiment = self.write("experiment", EXPERIMENT)
        self.deployed = self.experiment

    def write(self, name: str, content: dict[str, Any] | str) -> Path:
        """An experiment file beside the home."""
        path = self.scratch / f"{name}.yml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KAIROSCOPE_HOME": str(self.path),
            "KAIROSCOPE_LOCAL_NET": self.net,
            "COLUMNS": "200",
        }

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start the CLI in a process group of its own, as a terminal would."""
        return subprocess.Popen(
            [BIN / "kairoscope", *arguments],
            env=self.environment | options.pop("env", {}),
            stdin=options.pop("stdin", subprocess.DEVNULL),
            text=True,
            start_new_session=True,
            **options,
        )

    def cli(
        self,
        *arguments: str | Path,
        timeout_s: float = 120,
        text: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the CLI to its end; a test that has to wait longer than `timeout_s` fails."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if text is not None:
            pipes["stdin"] = subprocess.PIPE
        process = self.start(*arguments, env=env or {}, **pipes)
        try:
            out, err = process.communicate(text, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"kairoscope {arguments[0]} hangs: not done after {timeout_s:.0f} s")
        finally:
            end_group(process)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def deploy(self, what: Path | None = None) -> str:
        """Deploy, which must work; the playbook's output."""
        self.deployed = what or self.experiment
        done = self.cli("deploy", self.deployed, timeout_s=420)
        assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr}"
        return done.stdout

    def refused(
        self, *arguments: str | Path, text: str | None = None, env: dict[str, str] | None = None
    ) -> str:
        """Run what must be refused with exit status 2; the one message."""
        done = self.cli(*arguments, text=text, env=env)
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stderr.startswith("Error: "), done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr.removeprefix("Error: ")

    def remove(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


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


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file that somebody may still write to."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


class Run:
    """A `kairoscope load` under way or ended: its process, its run folder, its loader hosts."""

    def __init__(
        self, process: subprocess.Popen[str], output: Path, folder: Path, state: Path
    ) -> None:
        self.process = process
        self.folder = folder
        self._output = output
        self._state = state
        self._began = time.time()

    @property
    def output(self) -> str:
        """What it printed, stdout and stderr."""
        return self._output.read_text()

    def end(self, timeout_s: float = 300) -> int:
        """Wait for its end; the exit status."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the load hangs: not done after {timeout_s:.0f} s\n{self.output[-3000:]}")

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal does it: to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def lines(self, name: str) -> list[dict[str, Any]]:
        return whole_lines(self.folder / name)

    def events(self, what: str) -> list[str]:
        return [event["detail"] for event in self.lines("events.jsonl") if event["what"] == what]

    def acknowledged(self) -> int:
        """Points that the workers have had acknowledged by now, as they wrote on their hosts."""
        files = self._state.glob("loader-?/load/worker-?.jsonl")
        last = [record for path in files for record in whole_lines(path)[-1:]]
        return sum(record["acknowledged"] for record in last if record["t"] > self._began)

    def workers(self) -> list[psutil.Process]:
        """Its live loader workers, in order."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or []
            if "loaders.worker" in command and command[-1].startswith(f"{self._state}/"):
                found.append((command[command.index("loaders.worker") + 2], process))
        return [process for _, process in sorted(found, key=lambda pair: pair[0])]


class Deployment(Home):
    """The one deployed cluster of the session."""

    @property
    def url(self) -> str:
        return f"http://{self.net}.1:8080"

    @property
    def supervisord(self) -> int:
        return int((self.state / "supervisor" / "supervisord.pid").read_text())

    @property
    def kairosdb_conf(self) -> str:
        return (self.state / "kairosdb-1" / "conf" / "kairosdb.conf").read_text()

    def pids(self) -> dict[str, int]:
        """The pid of each supervised process, 0 for one that does not run."""
        found = supervisor.processes(self.state / "supervisor")
        assert found is not None, "supervisord does not run"
        return {process.name: process.pid for process in found}

    def status(self) -> subprocess.CompletedProcess[str]:
        return self.cli("status")

    def wait_until_well(self, timeout_s: float = 240) -> None:
        """All processes run, the ring is 3 × UN and KairosDB is healthy, says `status`."""

        def well() -> bool:
            return self.status().returncode == 0

        wait_for("`kairoscope status` finding all well", well, timeout_s)

    def set_settings(self) -> dict[str, Any]:
        """The settings that KairosDB says it runs with."""
        settings: dict[str, Any] = request(f"{self.url}/api/v1/kairoscope/settings")["settings"]
        return settings

    @contextlib.contextmanager
    def cql(self, consistency: int = ConsistencyLevel.ALL) -> Iterator[Session]:
        """A session that sees, and reaches, every replica."""
        hosts = [f"{self.net}.{n}" for n in (1, 2, 3)]
        with cql.session(hosts, inventory.NATIVE_TRANSPORT_PORT, consistency) as session:
            yield session

    def post(self, metric: str, t: int, value: int, **tags: str) -> None:
        point = {"name": metric, "timestamp": t, "value": value, "tags": tags}
        request(f"{self.url}/api/v1/datapoints", [point])

    def query(self, metric: str, start: int, end: int) -> list[list[int]]:
        """[timestamp in ms, value] of a metric's points from `start` to `end`."""
        asked = {"start_absolute": start, "end_absolute": end, "metrics": [{"name": metric}]}
        answer = request(f"{self.url}/api/v1/datapoints/query", asked)
        return [pair for result in answer["queries"][0]["results"] for pair in result["values"]]

    @contextlib.contextmanager
    def loading(self, *options: str, what: Path | None = None) -> Iterator[Run]:
        """Start a load, yield it once it has its run folder; nothing of it outlives the block."""
        latest = self.path / "runs" / "latest"
        before = latest.resolve()
        output = self.scratch / "load.txt"
        with output.open("w") as file:
            process = self.start(
                "load", what or self.experiment, *options, stdout=file, stderr=subprocess.STDOUT
            )
        try:

            def run_folder() -> Path | None:
                if process.poll() is not None:
                    pytest.fail(f"the load ended at once: {output.read_text()}")
                return latest.resolve() if latest.exists() and latest.resolve() != before else None

            folder = wait_for("the run folder", run_folder)
            yield Run(process, output, folder, self.state)
        finally:
            end_group(process)

    @contextlib.contextmanager
    def in_mid_load(self, *options: str) -> Iterator[Run]:
        """A load of which points have been acknowledged, and most are still to come."""
        with self.loading(*options) as run:
            wait_for("acknowledged points", lambda: run.acknowledged() > 600)
            yield run


def changed(recap: str) -> dict[str, int]:
    """What a playbook's recap says was changed, by host; fails if it says nothing."""
    found = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=0\s+failed=0", recap, re.M)
    assert found, recap[-3000:]
    return {host: int(count) for host, count in found}
