"""A lab with a host that watches the others, and what its tests let happen there."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlencode

import psutil
import pytest
import yaml
from deployed_lab import EXPERIMENT, DeployedLab
from harness import but

from kairoscope import paths
from kairoscope.hosts import inventory, pki
from kairoscope.stacks.kairosdb.servers import client
from kairoscope.targets.lab import Lab

RULES = paths.DASHBOARDS / "prometheus" / "alerts.yml"
HOME = "/var/lib/kairoscope/monitoring-1"
PROMETHEUS, ALERTMANAGER = "http://127.0.0.1:9090/api/v1", "http://127.0.0.1:9093/api/v2"

# The limits that alerts know: far below what a fault makes, and above what a machine that is shared
# does to a load of 300 points/s.
LIMITS = {"p99_ms": 1000, "send_error_p99_ms": 1000}
WINDOW_MS = 3000
_MIB = 1 << 20
_DISK_MIB = 64


class WatchedLab(DeployedLab):
    """A deployed lab with monitoring."""

    def __init__(self) -> None:
        super().__init__()
        self.experiment = self.scratch / "watched.yml"
        wanted = but(EXPERIMENT, limits=LIMITS, kairosdb={"queue_window_ms": WINDOW_MS})
        self.experiment.write_text(yaml.safe_dump(wanted))

    def deploying(self, experiment: Path | None = None) -> tuple[str | Path, ...]:
        return (*super().deploying(experiment), "--monitoring")

    @property
    def there(self) -> Lab:
        """Its hosts, and their levers."""
        return Lab(self.state)

    def run(self, host: str, *command: str, text: str = "") -> str:
        """What a command on a host prints, without a command of Kairoscope around it."""
        done = subprocess.run(
            self.there.ssh(host, list(command)),
            input=text, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{host}: {shlex.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    # What the monitoring host knows

    def asked(self, url: str, **query: str | float) -> Any:
        """What Prometheus or Alertmanager answers to a GET."""
        where = f"{url}?{urlencode(query)}" if query else url
        get = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
        return json.loads(self.run("monitoring-1", "python3", "-c", get, where))

    def query(self, expression: str, **more: float) -> list[dict[str, Any]]:
        """What Prometheus finds for an expression, now or at `time` (s since 1970)."""
        answer = self.asked(f"{PROMETHEUS}/query", query=expression, **more)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def firing(self) -> set[tuple[str, str]]:
        """Name and instance of each alert that fires, by Prometheus; "" where it is of no one."""
        alerts = self.asked(f"{PROMETHEUS}/alerts")["data"]["alerts"]
        return {_who(alert) for alert in alerts if alert["state"] == "firing"}

    def told(self) -> set[tuple[str, str]]:
        """The same of Alertmanager: those that it was told of, and not that they are over."""
        return {_who(alert) for alert in self.asked(f"{ALERTMANAGER}/alerts")}

    def rules(self) -> dict[str, dict[str, Any]]:
        """The alerts as Prometheus has them, by name; `duration` is how long (s) they wait."""
        groups = self.asked(f"{PROMETHEUS}/rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return {rule["name"]: rule for rule in rules if rule["type"] == "alerting"}

    def have_rules_wait(self, at_most: str) -> None:
        """Have alerts fire sooner, until the next deploy: their expressions stay what they are."""
        content = yaml.safe_load(RULES.read_text())
        for group in content["groups"]:
            for rule in group["rules"]:
                if "for" in rule:
                    rule["for"] = at_most
        where = f"{HOME}/conf/rules/alerts.yml"
        self.run("monitoring-1", "sudo", "tee", where, text=yaml.safe_dump(content, width=1000))
        self.run("monitoring-1", "sudo", "systemctl", "kill", "-s", "HUP", "kairoscope-prometheus")

    def remember(self, series: dict[str, str], value: float, minutes: int) -> None:
        """Give Prometheus a past that the lab is too young for: one value, a minute each."""
        name = series["__name__"]
        labels = ",".join(f'{k}="{v}"' for k, v in series.items() if k != "__name__")
        now = int(time.time())
        times = range(now - minutes * 60, now - 60, 60)
        lines = [f"{name}{{{labels}}} {value} {each}" for each in times]
        text = "\n".join([f"# TYPE {name} gauge", *lines, "# EOF\n"])
        tool = inventory.read(self.state / "inventory.yml").monitoring[0]
        promtool = f"{tool.vars['monitoring_bundle_dir']}/bin/promtool"
        past = f"{HOME}/conf/past.txt"
        made = [promtool, "tsdb", "create-blocks-from", "openmetrics", past, f"{HOME}/data"]
        self.run("monitoring-1", "sudo", "tee", past, text=text)
        self.run("monitoring-1", "sudo", "-u", "prometheus", *made)

    # What is let happen

    @contextlib.contextmanager
    def stuttering(self, *hosts: str, frozen_s: float = 3, going_s: float = 1) -> Iterator[None]:
        """Hosts that stop for some seconds again and again, all at once."""
        over = threading.Event()

        def each(verb: Callable[[str], str]) -> None:
            for host in hosts:
                verb(host)

        def stutter() -> None:
            while not over.wait(going_s):
                each(self.there.freeze)
                over.wait(frozen_s)
                each(self.there.thaw)

        with ThreadPoolExecutor(1) as pool:
            stuttered = pool.submit(stutter)
            try:
                yield
            finally:
                over.set()
                stuttered.result()

    @contextlib.contextmanager
    def disk(self, host: str, where: str) -> Iterator[Path]:
        """A small disk in a host that runs; where it is seen from here."""
        image = self.scratch / "disk.img"
        with image.open("wb") as file:
            file.truncate(_DISK_MIB * _MIB)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        first = str(self.there._running.first_process(host))
        inside = ["nsenter", "--target", first, "--mount", "--"]
        loop = subprocess.run(
            ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
        ).stdout.strip()
        number = Path(loop).stat().st_rdev
        node = ["mknod", "/dev/lab-disk", "b", str(os.major(number)), str(os.minor(number))]
        try:
            for command in (
                node,
                ["mkdir", "--parents", where],
                ["mount", "/dev/lab-disk", where],
            ):
                subprocess.run([*inside, *command], check=True)
            yield Path(f"/proc/{first}/root{where}")
        finally:
            subprocess.run([*inside, "umount", where], check=False)
            subprocess.run([*inside, "rm", "-f", "/dev/lab-disk"], check=False)
            subprocess.run(["losetup", "--detach", loop], check=False)

    @contextlib.contextmanager
    def other_clock(self, host: str, off_s: int) -> Iterator[None]:
        """A host's node exporter is answered by the kernel that the clock is so far from its time
        servers'. A stand-in: the clock is not, and nobody else on the host is told so.
        """
        if not shutil.which("strace"):
            why = "no strace to change an answer of the kernel with: scripts/need strace"
            pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
        space = Path(f"/proc/{self.there._running.first_process(host)}/ns/pid")
        (exporter,) = (
            process.pid
            for process in psutil.process_iter(["name"])
            if process.info["name"].startswith("prometheus-node")
            and space.samefile(f"/proc/{process.pid}/ns/pid")
        )
        # adjtimex(2): `modes`, and `offset` in us, or in ns if the status says so: more than the
        # limit in either. What follows in the structure stays the kernel's.
        answer = struct.pack("<iiq", 0, 0, off_s * 1_000_000_000).hex()
        command = ["strace", "--follow-forks", f"--attach={exporter}", "--output=/dev/null"]
        changed = ["--trace=adjtimex", f"--inject=adjtimex:poke_exit=@arg1={answer}"]
        with subprocess.Popen([*command, *changed], stderr=subprocess.DEVNULL) as strace:
            try:
                yield
                assert strace.poll() is None, "strace ended"
            finally:
                strace.terminate()

    def certificate_for(self, host: str, days: int) -> None:
        """Issue a host's certificate anew, for so many days; a deploy brings it there."""
        (ca,) = (self.scratch / "secrets").rglob("ca.crt")
        issuer = pki._Pair.read(ca.parent / pki.ISSUER)
        _, *addresses = pki._issued_for(ca.parent / host) or [host]
        with mock.patch.object(pki, "ISSUED_FOR", timedelta(days=days)):
            pki._issue(ca.parent, issuer, host, addresses)

    def inside(self, step: str, *arguments: str) -> None:
        """Take a step of `STEPS` in a process that can reach the lab's servers."""
        command = self.there.network.inside(sys.executable, __file__, step, *arguments)
        # What pytest has by its configuration.
        environment = self.environment | {"PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def cql(self, *statements: str) -> None:
        """Have the store carry out statements, as its administrator."""
        self.inside("cql", *statements)


def _who(alert: dict[str, Any]) -> tuple[str, str]:
    return alert["labels"]["alertname"], alert["labels"].get("instance", "")


# Steps in the lab's network.


def cql(*statements: str) -> None:
    here = inventory.load("lab")
    with client.connect(here) as talk, talk.cql(here.storage) as db:
        for statement in statements:
            db.execute(statement)


def blobs(mib: str) -> None:
    """Rows of 1 MiB that cannot be packed, for the table of `merges_do_not_keep_up`."""
    here = inventory.load("lab")
    with client.connect(here) as talk, talk.cql(here.storage) as db:
        insert = db.prepare("INSERT INTO merges.late (id, value) VALUES (?, ?)")
        for number in range(int(mib)):
            db.execute(insert, (number, os.urandom(_MIB)))


def post(name: str, characters: str) -> None:
    """A point whose value is a text of so many characters."""
    here = inventory.load("lab")
    point = {
        "name": name,
        "timestamp": time.time_ns() // 1_000_000,
        "value": "x" * int(characters),
        "type": "string",
        "tags": {"test": "alerts"},
    }
    with client.connect(here) as talk:
        talk.post(here.kairosdb[0], "/api/v1/datapoints", [point])


STEPS = {"cql": cql, "blobs": blobs, "post": post}

if __name__ == "__main__":
    STEPS[sys.argv[1]](*sys.argv[2:])
