"""InfluxDB 1.6 as a stack: Debian's package, by its line protocol or remote write."""

from typing import Any

from rich.console import Console

from kairoscope.plan.draft import Draft
from kairoscope.stacks import fetched
from kairoscope.stacks.influxdb.server import InfluxDBServer
from kairoscope.stacks.single import Program, Single
from kairoscope.stacks.stack import Scraped
from kairoscope.stacks.told import Told
from loaders.schedule.protocols import LINE, REMOTE_WRITE
from loaders.send.line import DATABASE

_BINARY = "influxd"
_NOTHING_WAITS = (
    "it tells no such figure, and needs none: an acknowledged point is in its write-ahead log, and "
    "queries find it"
)
# Its snapshot size and what Go takes beside, for some ten thousand series.
_MEMORY_MIB = 512


class InfluxDB(Single):
    """See `kairoscope.stacks.single.Single`."""

    name = "influxdb"
    title = "InfluxDB"
    protocols = (LINE, REMOTE_WRITE)
    write_paths = {REMOTE_WRITE: f"/api/v1/prom/write?db={DATABASE}"}  # noqa: RUF012
    # Of a request of which some points were dropped (tsdb/store.go: PartialWriteError).
    partly = "partial write"
    # Of Debian 12; what runs says its version itself.
    program = Program(name, "1.6")
    listens = {"HTTP": 8086, "backup": 8088}  # noqa: RUF012
    fair = (
        "InfluxDB is the old release that Debian has: of its makers' later ones, which store in "
        "other ways, nothing is measured here. Its log is forced to the disk with each request, "
        "its makers' default, which is more than a killed process asks for."
    )
    told = Told(
        acknowledgement=(
            "InfluxDB acknowledges (204) what is in its write-ahead log: it survives a killed "
            "process, and with system.wal_fsync_delay_ms 0 a loss of power as well."
        ),
        bytes_per_point=60,  # in the log, before it is compacted
        memory_mib=_MEMORY_MIB,
        not_judged={"queue": _NOTHING_WAITS, "drain": _NOTHING_WAITS},
    )
    server = InfluxDBServer()
    scraped = (Scraped(name, "kairosdb", "address", "http_port"),)

    def own(self, draft: Draft) -> dict[str, Any]:
        """The log, and when its cache goes to a data file."""
        return {
            "wal_fsync_delay_ms": draft.own(
                *("wal_fsync_delay_ms", 0, "ms"),
                "wal-fsync-delay: how long a write waits for others before the log is forced to "
                "the disk. 0, its makers' default, forces each.",
                least=0,
                most=10_000,
            ),
            "cache_snapshot_mib": draft.own(
                *("cache_snapshot_mib", 25, "MiB"),
                "cache-snapshot-memory-size: of the cache from which it is written to a data file. "
                "Its makers' default.",
                least=1,
                most=4_096,
            ),
        }

    def fetch(self, console: Console) -> None:
        """Of Debian's package."""
        fetched.from_debian(console, "influxdb", _BINARY, self.program.own)
