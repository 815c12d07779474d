"""A deployment of its own, on a loopback net and in a home of its own, through the real CLI."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
import yaml
from cassandra import ConsistencyLevel
from cassandra.cluster import Session
from harness import SMALL, Cli, but, running_load, wait_for

from kairoscope import experiment, paths, run_folder
from kairoscope.cli import known
from kairoscope.deploy import inventory_vars, preflight
from kairoscope.hosts import inventory, supervisor
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.given_up import dead_letters
from kairoscope.stacks.kairosdb.servers import cql
from kairoscope.stacks.kairosdb.settings import ports
from kairoscope.targets.target import Options
from loaders.schedule.spec import LoadSpec

STORAGE = ("storage-1", "storage-2", "storage-3")
ALL = (*STORAGE, "kairosdb-1")
EXPERIMENT = but(
    SMALL,
    name="cluster-test",
    # Long enough for several points of a series, short enough for a load of seconds.
    kairosdb={"queue_window_ms": 3000},
    load={"rate": 2, "duration_s": 15, "warmup_s": 3},
    capture={"proxyhistograms_every_s": 8},
)


def variant(**sections: Any) -> dict[str, Any]:
    """EXPERIMENT with some fields of its sections replaced."""
    return but(EXPERIMENT, **sections)


def request(url: str, document: Any = None, timeout_s: float = 10) -> Any:
    """GET, or POST a document as JSON; the answer's document, None if it has none."""
    data = None if document is None else json.dumps(document).encode()
    with urllib.request.urlopen(url, data=data, timeout=timeout_s) as answer:  # noqa: S310 (ours)
        body = answer.read()
    return json.loads(body) if body else None


def families(metrics: dict[str, float]) -> set[str]:
    """The names of the families of metrics."""
    return {re.sub(r"(_bucket|_count|_sum)?({.*})?$", "", series) for series in metrics}


def documented_families(queue: str) -> set[str]:
    """Those that docs/metrics.md has for a KairosDB with this queue: coalescing or stock."""
    table = (paths.CHECKOUT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\|([^|]*)\|", table, re.M)
    return {name for name, only in rows if only.strip() in ("", queue)}


def listens(address: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection((address, port), 2).close()
    except OSError:
        return False
    return True


def free_net() -> str:
    """A loopback net on which nobody listens at any address that a deployment would use."""
    made = known.plan(experiment.Experiment.model_validate(EXPERIMENT))
    for _ in range(50):
        net = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KAIROSCOPE_LOCAL_NET", net)
            machines = known.target("local").provision(
                made, Options(Path("x")), print, lambda: None
            )
            stack = known.stack(made.stack)
            groups = inventory_vars.make(made, machines, stack, shared=True)["all"]["children"]
        hosts = {
            role: [inventory.Host(name, role, v) for name, v in groups[role]["hosts"].items()]
            for role in ("storage", "kairosdb")
        }
        wanted = preflight.listeners(
            stack, inventory.Inventory(Path("/nowhere"), hosts["storage"], hosts["kairosdb"], [])
        )
        if not preflight.taken(wanted, Path("/nowhere")):
            return net
    pytest.fail("no free loopback net found")


class Home(Cli):
    """A KAIROSCOPE_HOME with a loopback net: where the CLI is called, and what it left there."""

    PATIENCE_S = 120.0
    # Of each deploy.
    options: tuple[str, ...] = ()

    def __init__(self, net: str | None = None, name: str = "home") -> None:
        self.net = net or free_net()
        # Short: the path of a Unix socket has 107 bytes at most.
        self.scratch = Path(tempfile.mkdtemp(prefix="ks-"))
        self.path = self.scratch / name
        self.state = self.path / "local"
        self.experiment = self.write("experiment", EXPERIMENT)
        self.deployed = self.experiment
        # Once it is there, a load ends that was started with `until_told`.
        self.enough = self.scratch / "enough"

    @property
    def until_told(self) -> tuple[str, ...]:
        """Options of a load that goes on until `enough` is there."""
        return ("--duration", "1800", "--until", str(self.enough))

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

    def deploy(self, what: Path | None = None) -> str:
        """Deploy, which must work; the playbook's output."""
        self.deployed = what or self.experiment
        return self.well("deploy", self.deployed, *self.options, timeout_s=420)

    def remove(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)

    @property
    def prometheus(self) -> str:
        return f"http://{self.net}.1:9090"

    def watched(self, query: str) -> Any:
        """What Prometheus answers at /api/v1/<query>."""
        return request(f"{self.prometheus}/api/v1/{query}")["data"]


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file that somebody may still write to."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


class Run:
    """A `kairoscope load` under way or ended: its process, its run folder, its loader hosts."""

    def __init__(
        self, process: subprocess.Popen[str], output: Path, folder: Path, home: Home
    ) -> None:
        self.process = process
        self.folder = folder
        self._output = output
        self._home = home
        self._state = home.state
        self._began = time.time()

    @property
    def output(self) -> str:
        """What it printed, stdout and stderr."""
        return self._output.read_text()

    def end(self, timeout_s: float = 300) -> int:
        """Wait for its end; the exit status. Judged again, its folder must say the same."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the load hangs: not done after {timeout_s:.0f} s\n{self.output[-3000:]}")
        if (self.folder / run_folder.VERDICT).exists():
            self._judged_again(status)
        return status

    def _judged_again(self, status: int) -> None:
        def content() -> dict[str, bytes]:
            there = (self.folder / name for name in run_folder.RESULTS)
            return {path.name: path.read_bytes() for path in there if path.exists()}

        before = content()
        done = self._home.cli("judge", self.folder)
        assert done.returncode == status, done.stderr
        assert content() == before
        assert done.stdout.strip() in self.output

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

    def spec(self) -> LoadSpec:
        """What its loaders were told; it must have begun."""
        return LoadSpec.from_json((self.folder / "load" / "spec.json").read_text())

    def workers(self) -> list[psutil.Process]:
        """Its live loader workers, in order."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or []
            if "loaders.send.worker" in command and command[-1].startswith(f"{self._state}/"):
                found.append((command[command.index("loaders.send.worker") + 2], process))
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
        """All processes run, the ring is 3 × UN and KairosDB is healthy, says `status`.

        It is asked once they listen, as it takes seconds, of Java's above all.
        """

        def well() -> bool:
            return self.status().returncode == 0

        wait_for("servers that listen", self.all_listen, timeout_s)
        wait_for("`kairoscope status` finding all well", well, timeout_s)

    def all_listen(self) -> bool:
        """Whether every server that is deployed runs and takes connections of clients."""
        hosts = inventory.read(self.state / "inventory.yml")
        ports = [(host.address, host.vars["native_transport_port"]) for host in hosts.storage]
        ports += [(host.address, host.vars["http_port"]) for host in hosts.kairosdb]
        return all(self.pids().values()) and all(listens(*port) for port in ports)

    def set_settings(self) -> dict[str, Any]:
        """The settings that KairosDB says it runs with."""
        settings: dict[str, Any] = request(f"{self.url}/api/v1/kairoscope/settings")["settings"]
        return settings

    @contextlib.contextmanager
    def cql(self, consistency: int = ConsistencyLevel.ALL) -> Iterator[Session]:
        """A session that sees, and reaches, every replica."""
        hosts = [f"{self.net}.{n}" for n in (1, 2, 3)]
        with cql.session(hosts, ports.NATIVE_TRANSPORT_PORT, consistency) as session:
            yield session

    def post(self, metric: str, t: int, value: int, **tags: str) -> None:
        point = {"name": metric, "timestamp": t, "value": value, "tags": tags}
        request(f"{self.url}/api/v1/datapoints", [point])

    def query(self, metric: str, start: int, end: int) -> list[list[int]]:
        """[timestamp in ms, value] of a metric's points from `start` to `end`."""
        asked = {"start_absolute": start, "end_absolute": end, "metrics": [{"name": metric}]}
        answer = request(f"{self.url}/api/v1/datapoints/query", asked)
        return [pair for result in answer["queries"][0]["results"] for pair in result["values"]]

    @property
    def queue_folder(self) -> Path:
        return self.state / "kairosdb-1" / "queue"

    def queue(self) -> dict[str, Any]:
        """What KairosDB says of its queue."""
        said: dict[str, Any] = request(f"{self.url}/api/v1/kairoscope/queue")
        return said

    def metrics(self) -> dict[str, float]:
        """KairosDB's metrics as Prometheus reads them: series and value."""
        url = f"{self.url}/api/v1/kairoscope/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 (ours)
            text = answer.read().decode()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {series: float(value) for series, value in lines}

    def count(self, metric: str, url: str | None = None) -> int:
        """Points of a metric that a query finds, at the first KairosDB or another one."""
        return self.counts([metric], url)[metric]

    def counts(self, metrics: Iterable[str], url: str | None = None) -> dict[str, int]:
        """The same of many metrics."""
        found: dict[str, int] = {}
        years = {"name": "count", "sampling": {"value": 20, "unit": "years"}}
        names = list(metrics)
        for some in (names[i : i + 50] for i in range(0, len(names), 50)):
            asked = {
                "start_absolute": 1,
                "metrics": [{"name": metric, "aggregators": [years]} for metric in some],
            }
            answer = request(f"{url or self.url}/api/v1/datapoints/query", asked, timeout_s=60)
            for metric, one in zip(some, answer["queries"], strict=True):
                values = (value for result in one["results"] for value in result["values"])
                found[metric] = sum(count for _, count in values)
        return found

    def health(self, timeout_s: float = 10) -> int:
        """The status of KairosDB's health check; 0 for no answer."""
        try:
            request(f"{self.url}/api/v1/health/check", timeout_s=timeout_s)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0
        return 204

    def dead(self) -> list[dead_letters.Letter | None]:
        file = self.queue_folder / dead_letters.FILE
        return list(dead_letters.read(file.read_text().splitlines())) if file.exists() else []

    def wait_until_stored(self, timeout_s: float = 240) -> None:
        """Until nothing waits any more."""

        def empty() -> bool:
            with contextlib.suppress(OSError):
                return bool(self.queue()["waiting"] == 0)
            return False

        wait_for("an empty queue", empty, timeout_s)

    @contextlib.contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        """Processes that stand still."""
        pids = [self.pids()[name] for name in names]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def execute(self, *statements: str) -> None:
        with self.cql() as db:
            for statement in statements:
                db.execute(statement)

    @contextlib.contextmanager
    def loading(self, *options: str, what: Path | None = None) -> Iterator[Run]:
        """Start a load, yield it once it has its run folder; nothing of it outlives the block."""
        self.enough.unlink(missing_ok=True)
        output = self.scratch / "load.txt"
        arguments: tuple[str | Path, ...] = (what or self.experiment, *options)
        with running_load(self, self.path / "runs", output, *arguments) as (process, folder):
            yield Run(process, output, folder, self)

    @contextlib.contextmanager
    def in_mid_load(self, *options: str) -> Iterator[Run]:
        """A load of which points have been acknowledged, and most are still to come."""
        with self.loading(*options) as run:
            wait_for("acknowledged points", lambda: run.acknowledged() > 600)
            yield run


D = TypeVar("D", bound=Home)


@contextlib.contextmanager
def standing(cluster: D, *options: str | Path, timeout_s: float = 600) -> Iterator[D]:
    """`cluster.experiment` deployed for as long as the block, and destroyed whatever happens.

    After a block that ended well no process, no port and no folder or secret of it may be left.
    """
    try:
        cluster.deployed = cluster.experiment
        cluster.well("deploy", cluster.experiment, *cluster.options, *options, timeout_s=timeout_s)
        deployed = Plan.from_json((cluster.state / "plan.json").read_text())
        there = inventory.read(cluster.state / "inventory.yml")
        listeners = preflight.listeners(known.stack(deployed.stack), there)
        yield cluster
        cluster.cli("destroy", timeout_s=300)
        assert supervisor.owned(cluster.state) == []
        assert preflight.taken(listeners, cluster.state) == []
        assert not cluster.state.exists()
        # Of those that keep them there.
        assert list((cluster.scratch / "secrets").glob("*")) == []
    finally:
        # Also where the CLI itself is what failed: the next test must find a clean machine.
        supervisor.end_all(cluster.state, patience_s=30)
        cluster.remove()
