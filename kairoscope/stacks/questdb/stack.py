"""QuestDB as a stack: its jar of Maven Central, by the line protocol over HTTP."""

import hashlib
from typing import Any

from rich.console import Console

from kairoscope import live
from kairoscope.errors import UserError
from kairoscope.plan import Plan
from kairoscope.plan.draft import Draft
from kairoscope.plan.load import CONNECTIONS_MAX
from kairoscope.stacks import fetched
from kairoscope.stacks.questdb.server import QuestDBServer
from kairoscope.stacks.single import Program, Single
from kairoscope.stacks.stack import Scraped
from kairoscope.stacks.told import Told
from loaders.schedule.protocols import LINE

VERSION = "9.3.4"
_JAR = f"questdb-{VERSION}.jar"
_SHA256 = "939bc53ab22f93dbaa6545143a6e7c536d4904c07b7f2d381e8eef10436be062"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
# Each connection takes some: 512 MiB were full with 2,064 of them, and the server hung
# (results/published/2026-11-29-bakeoff.md).
_HEAP_MIB = 1024
# Outside of the heap: columns are mapped, writers have buffers of their own, each connection one.
_BESIDE_MIB = 1024
_CONNECTIONS_BESIDE = 64


class QuestDB(Single):
    """See `kairoscope.stacks.single.Single`."""

    name = "questdb"
    title = "QuestDB"
    protocols = (LINE,)
    java = True
    program = Program(name, VERSION)
    listens = {"HTTP": 9000, "metrics": 9003}  # noqa: RUF012
    fair = (
        f"QuestDB has a heap of {_HEAP_MIB} MiB here. Each request is a commit of its own in its "
        "log, which is then applied to the table: many small ones are dear, and with larger ones a "
        "point costs less than the figures here say."
    )
    told = Told(
        acknowledgement=(
            "QuestDB acknowledges (204) what is in its write-ahead log: it survives a killed "
            "process, and with system.sync_commits 1 a loss of power as well. Queries find it once "
            "the log is applied; the part queue is of what is not."
        ),
        bytes_per_point=100,  # in the log and in the table, of few columns
        memory_mib=_HEAP_MIB + _BESIDE_MIB,
        more=(
            "A request that is sent again, as its answer was lost, is stored twice: its tables are "
            "made without DEDUP.",
        ),
    )
    server = QuestDBServer()
    scraped = (Scraped(name, "kairosdb", "address", "prometheus_port"),)

    def of_server(self, plan: Plan, name: str) -> dict[str, Any]:
        """Where it tells its figures: not where points go."""
        return {**super().of_server(plan, name), "prometheus_port": self.listens["metrics"]}

    def own(self, draft: Draft) -> dict[str, Any]:
        """Heap, threads, and whether a commit is forced to the disk."""
        if "{n}" in draft.experiment.load.metric:
            draft.refuse(
                "load.metric", "a metric is a table in QuestDB: give the sensor's number to a tag"
            )
        return {
            "heap_mib": draft.own(
                *("heap_mib", _HEAP_MIB, "MiB"),
                "-Xmx: most of what it holds is outside of it. 2,064 connections filled 512 MiB.",
                least=128,
                most=65_536,
            ),
            "threads": draft.own(
                *("threads", 2, "threads"),
                "shared.worker.count: all that it does is done by these. Its makers take one a "
                "core.",
                least=1,
                most=256,
            ),
            "connections": draft.own(
                *("connections", CONNECTIONS_MAX + _CONNECTIONS_BESIDE, "connections"),
                "http.net.connection.limit: as many as loaders may open, and some for questions. "
                "With its makers' 256 it refuses whoever comes anew, also who asks what waits, "
                "once more requests than that are under way. Each has a buffer of 1 MiB.",
                least=64,
                most=65_536,
            ),
            "sync_commits": draft.own(
                *("sync_commits", 0, ""),
                "cairo.commit.mode: 1 for sync, each commit on the disk before it is acknowledged; "
                "0 for nosync, its makers' default.",
                least=0,
                most=1,
            ),
        }

    def fetch(self, console: Console) -> None:
        """By Maven; the jar is checked."""
        jar = self.program.own / _JAR
        if not jar.exists():
            self.program.own.mkdir(parents=True, exist_ok=True)
            with live.stage(console, "Maven brings QuestDB", usual="some seconds"):
                fetched.run(
                    [
                        *("mvn", "-B", "-q", _COPY, f"-Dartifact=org.questdb:questdb:{VERSION}"),
                        f"-DoutputDirectory={self.program.own}",
                    ],
                    self.program.own,
                    "Is there a way to Maven Central?",
                )
        if hashlib.sha256(jar.read_bytes()).hexdigest() != _SHA256:
            raise UserError(f"{jar} is not the one that is pinned. Remove it, and try again")
