"""What the layers that run the real CLI share: calling it, waiting, ending, a small experiment."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
import yaml

BIN = Path(sys.executable).parent

# A ScyllaDB server of the user's, an archive or a folder: then the store of what the kind `scylla`
# of the long layer deploys. The store is Cassandra without it.
SCYLLA = os.environ.get("SCYLLA", "")
STORE: dict[str, Any] = {"engine": "scylla", "memory_mb": 512} if SCYLLA else {}
# Of a deploy.
SERVER = ("--scylla", str(Path(SCYLLA).absolute())) if SCYLLA else ()

# Small, and generous: the machine may be shared, and no test may hang on its speed.
SMALL: dict[str, Any] = {
    "name": "small-test",
    "description": "A small load for the project's own tests.",
    "cluster": {"storage_nodes": 3, "replication_factor": 3, "kairosdb_nodes": 1},
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
        # Other tests run beside it, and are others.
        "foreign_cpu": 1,
        "steal": 1,
    },
    "capture": {"proxyhistograms_every_s": 30, "processes_every_s": 1},
    "assume": {"commitlog_mib_per_node": 128},
}

T = TypeVar("T")


def but(experiment: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """An experiment with some fields of its sections replaced, or a field that is no section."""
    return experiment | {
        name: experiment.get(name, {}) | given if isinstance(given, dict) else given
        for name, given in sections.items()
    }


def wait_for(
    what: str,
    probe: Callable[[], T | None],
    timeout_s: float = 300,
    seen: Callable[[], str] = lambda: "",
) -> T:
    """What `probe` returns as soon as that is true; fails the test after `timeout_s`.

    `seen`: what to show then.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if found := probe():
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s:.0f} s in vain for: {what}\n{seen()}")
        time.sleep(0.3)


def end(process: subprocess.Popen[str]) -> None:
    """End whatever is left of a command: its group, and what has a group of its own (Terraform)."""
    family = [process.pid]
    if process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            family += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        # Gently first: Ansible's workers are in groups of their own, and it ends them itself.
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(20)
    if process.poll() is None:
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def changed(recap: str) -> dict[str, int]:
    """What a playbook's recap says was changed, by host; fails if it says nothing, or failures."""
    found = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=0\s+failed=0", recap, re.M)
    assert found, recap[-3000:]
    return {host: int(count) for host, count in found}


class Cli:
    """Where `kairoscope` is called: in which environment, from which folder."""

    PATIENCE_S = 900.0
    cwd: Path | None = None
    through: Sequence[str] = ()
    """What stands before each command: a way into a network of its own."""

    @property
    def environment(self) -> dict[str, str]:
        """All variables of the command."""
        raise NotImplementedError

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start the CLI in a process group of its own, as a terminal would."""
        return subprocess.Popen(
            [*self.through, BIN / "kairoscope", *arguments],
            env=self.environment | options.pop("env", {}),
            cwd=self.cwd,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            text=True,
            start_new_session=True,
            **options,
        )

    def cli(
        self,
        *arguments: str | Path,
        timeout_s: float | None = None,
        text: str | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the CLI to its end; a test that has to wait longer than `timeout_s` fails."""
        limit_s = timeout_s or self.PATIENCE_S
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if text is not None:
            pipes["stdin"] = subprocess.PIPE
        process = self.start(*arguments, env=env or {}, **pipes)
        try:
            out, err = process.communicate(text, timeout=limit_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"kairoscope {arguments} hangs: not done after {limit_s:.0f} s")
        finally:
            end(process)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def well(self, *arguments: str | Path, timeout_s: float | None = None) -> str:
        """Run the CLI, which must end with status 0; what it printed."""
        done = self.cli(*arguments, timeout_s=timeout_s)
        assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
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


class HostsCli(Cli):
    """A KAIROSCOPE_HOME in a scratch folder, for a deployment on hosts."""

    scratch: Path
    home: Path
    base: dict[str, Any]
    """The experiment that the others are made of."""

    def write(self, name: str, **sections: Any) -> Path:
        """The experiment with some fields of its sections replaced."""
        path = self.scratch / f"{name}.yml"
        path.write_text(yaml.safe_dump(but(self.base, **sections)))
        return path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KAIROSCOPE_HOME": str(self.home),
            "KAIROSCOPE_SECRETS": str(self.scratch / "secrets"),
            "COLUMNS": "200",
        }

    def survives_faults(self, what: Path, target: str) -> None:
        """A load with faults: each happens and is undone, and every acknowledged point is read."""
        done = self.cli("load", what, "--target", target, "--no-serve", timeout_s=1200)
        run = (self.home / "runs" / "latest").resolve()
        told = json.loads((run / "verdict.json").read_text())["faults"]
        given = yaml.safe_load(what.read_text())["faults"]
        assert [fault["problem"] for fault in told] == [""] * len(given), done.stdout[-3000:]
        assert all(fault["undone_t"] for fault in told), told
        ledger = json.loads((run / "ledger.json").read_text())
        assert ledger["acknowledged"] == ledger["stored"] > 0, ledger


def have_bundles(*options: str) -> None:
    """Build what a deploy needs where there is a way to it: not in a network of its own.

    `options`: of `kairoscope bundles`.
    """
    subprocess.run([BIN / "kairoscope", "bundles", *options], check=True)


@contextlib.contextmanager
def running_load(
    cli: Cli, runs: Path, output: Path, *arguments: str | Path
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start `kairoscope load`, yield it and its run folder; nothing of it outlives the block.

    `runs`: where run folders are made; `output`: for what it prints.
    """
    before = (runs / "latest").resolve()
    with output.open("w") as file:
        process = cli.start("load", *arguments, stdout=file, stderr=subprocess.STDOUT)

    def folder() -> Path | None:
        if process.poll() is not None:
            pytest.fail(f"the load ended at once: {output.read_text()}")
        latest = runs / "latest"
        return latest.resolve() if latest.exists() and latest.resolve() != before else None

    try:
        yield process, wait_for("the run folder", folder)
    finally:
        end(process)
