"""Gnocchi 4 as a stack: its API under uWSGI, metricd, an index in PostgreSQL, Redis for what comes
in, and files for what is aggregated of it."""

from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope.plan import Plan
from kairoscope.plan.amounts import n
from kairoscope.plan.draft import Draft
from kairoscope.stacks import fetched
from kairoscope.stacks.gnocchi.server import GnocchiServer
from kairoscope.stacks.single import Program, Settings, Single, refuse_short, refuse_slashes
from kairoscope.stacks.told import Told
from loaders.schedule.protocols import MEASURES
from loaders.send.encode import RESOURCE

VERSION = "4.7.1"
_REQUIREMENTS = Path(__file__).parent / "requirements.lock"
_INDEX, _REDIS = "postgresql-15", "redis-tools"
_REDIS_SERVER, _REDIS_PROGRAM = "redis-server", "redis-check-rdb"
# Its processes, and the role of each.
_PARTS = ("postgresql", "redis", "api", "metricd")
# Resident: uWSGI's master and router; a process of its Python, of the API or of metricd; metricd's
# master, reporter and janitor; PostgreSQL with its connections, and Redis.
_ROUTER_MIB, _PYTHON_MIB, _METRICD_MIB, _STORES_MIB = 32, 128, 256, 256
# Of a series: sixteen folders, named after the metric, one for each aggregate, and a file in each
# and beside them, of a block each at least.
_SERIES_BYTES = 24 * 4096
# Of an aggregate of a point, compressed; there are two.
_POINT_BYTES = 10


class Gnocchi(Single):
    """See `kairoscope.stacks.single.Single`."""

    name = "gnocchi"
    title = "Gnocchi"
    protocols = (MEASURES,)
    replays = True
    python = True
    program = Program(name, VERSION, (_INDEX, _REDIS))
    listens = {"REST": 8041, "postgresql": 5432, "redis": 6379}  # noqa: RUF012
    fair = (
        "Gnocchi keeps no point as it came, but two aggregates of each second (last, count), and "
        "writes a metric's files anew each time it comes to it: loads of many metrics with few "
        "points each are its worst. One API, one metricd, PostgreSQL and Redis share the cores."
    )
    told = Told(
        acknowledgement=(
            "Gnocchi acknowledges (202) what is in Redis and not aggregated yet: no query finds "
            "it before metricd comes to it. With system.incoming_log everysec it survives a killed "
            "process, with always a loss of power as well; with none, Redis' default, what waits "
            "goes with the process. A point older than system.back_window_s is acknowledged as "
            "well, and thrown away."
        ),
        bytes_per_point=2 * _POINT_BYTES,
        memory_mib=_ROUTER_MIB + _METRICD_MIB + _STORES_MIB,
        whole_seconds=True,
        more=(
            "What waits is told in bundles: what a request had of one series is one, whatever its "
            "points are (load.points_per_request).",
        ),
    )
    server = GnocchiServer()
    durable = {"incoming_log": "everysec"}  # noqa: RUF012
    # What waits is in as many sacks, and metrics keep the archive policy that they were made with.
    fixed = ("sacks", "retention_s", "back_window_s")

    def own(self, draft: Draft) -> dict[str, Any]:
        """Processes, the archive policy, and whether what waits is logged."""
        refuse_slashes(draft, "Gnocchi takes none")
        values = {
            **_processes(draft),
            "incoming_log": draft.chosen(
                *("incoming_log", "none"),
                ("none", "everysec", "always"),
                "Redis' appendonly file and how often it is forced to the disk. none is its "
                "makers' default, with which a killed Redis has lost what was not aggregated.",
            ),
            "retention_s": draft.own(
                *("retention_s", 3_600, "s"),
                "Of the archive policy: so many points of a granularity of 1 s, of each series the "
                "last and the count. Older ones disappear.",
                least=60,
                most=86_400 * 400,
            ),
            "back_window_s": draft.own(
                *("back_window_s", 60, "s"),
                "back_window: how far behind the newest point of a series another may come. Its "
                "makers' 0 discards what is a second late, as requests that are tried again are.",
                least=0,
                most=86_400,
            ),
        }
        refuse_short(draft, values["retention_s"], "gone")
        return values

    def store(self, draft: Draft, servers: Settings, now_s: float) -> dict[str, Any]:
        """Folders and files of each series, and its points; memory by processes."""
        series, each = draft.experiment.load.sensors, self.told.bytes_per_point
        draft.total(
            "disk_bytes",
            round(series * _SERIES_BYTES + draft.points * each),
            "bytes",
            f"{n(series)} series × {n(_SERIES_BYTES)} + {n(draft.points)} points × {n(each)} bytes",
            "A series has folders and files of its own, of a block each at least.",
        )
        python = int(servers.settings["api_processes"]) + int(servers.settings["metricd_workers"])
        draft.totals["servers_mib"] = self.told.memory_mib + python * _PYTHON_MIB
        window, retry = servers.settings["back_window_s"], draft.experiment.load.retry_for_s
        if window < retry:
            draft.notices.append(
                f"system.back_window_s {n(window)} is less than load.retry_for_s {n(retry)}: what "
                "is tried again for longer is acknowledged and thrown away if newer points of its "
                "series were aggregated meanwhile."
            )
        return {}

    def of_server(self, plan: Plan, name: str) -> dict[str, Any]:
        """Its processes, and the resource that loaders write to."""
        return {"processes": {part: part for part in _PARTS}, "gnocchi_resource": RESOURCE}

    def fetch(self, console: Console) -> None:
        """Its Python into a virtual environment of its own, pinned by checksum; PostgreSQL and
        Redis of Debian's packages."""
        fetched.whole_from_debian(console, _INDEX, fetched.debian_folder(_INDEX))
        redis = fetched.debian_folder(_REDIS)
        fetched.from_debian(console, _REDIS, _REDIS_PROGRAM, redis)
        # One program, which is the server under this name; Debian has it in its own package.
        server = redis / _REDIS_SERVER
        if not server.exists():
            server.symlink_to(_REDIS_PROGRAM)
        fetched.from_pypi(console, self.title, _REQUIREMENTS, self.program.own)


def _processes(draft: Draft) -> dict[str, Any]:
    """Record how many there are of which."""
    return {
        "api_processes": draft.own(
            *("api_processes", 2, "processes"),
            "Of uWSGI, each of one core. Published figures had 64.",
            least=1,
            most=256,
        ),
        "api_threads": draft.own(
            *("api_threads", 4, "threads"),
            "Of each of them, which share its core and wait for Redis and the index side by side. "
            "Published figures had 16.",
            least=1,
            most=256,
        ),
        "metricd_workers": draft.own(
            *("metricd_workers", 1, "processes"),
            "That aggregate, each of one core.",
            least=1,
            most=256,
        ),
        "metricd_delay_s": draft.own(
            *("metricd_delay_s", 5, "s"),
            "metric_processing_delay: after which a metricd looks for what it was not told of. Its "
            "makers' 60 would have the last points of a load wait so long.",
            least=1,
            most=3_600,
        ),
        "sacks": draft.own(
            *("sacks", 16, "sacks"),
            "What waits is in so many parts, of which a metricd takes one at a time: several for "
            "each.",
            least=1,
            most=65_535,
        ),
    }
