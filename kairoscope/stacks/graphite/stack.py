"""Graphite as a stack: one carbon-cache and its whisper files, by the plaintext protocol.

Not there yet: pickle, relays and several caches, graphite-web.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope import live, paths
from kairoscope.errors import UserError
from kairoscope.plan.amounts import n
from kairoscope.plan.draft import Draft
from kairoscope.stacks import fetched
from kairoscope.stacks.graphite.server import GraphiteServer
from kairoscope.stacks.single import Program, Settings, Single, Told
from loaders.schedule.spec import PLAINTEXT

VERSION = "1.1.10"
_PYTHON = (3, 11)
_REQUIREMENTS = Path(__file__).parent / "requirements.lock"
# A whisper file: its head, one archive's head, a time and a float for each point it has room for.
_HEAD_BYTES, _POINT_BYTES = 28, 12
# Twisted and a cache of some hundred thousand points.
_MEMORY_MIB = 512
# What is left to the read-back before the ring of a file goes round.
_READ_BACK_S = 600


class Graphite(Single):
    """See `kairoscope.stacks.single.Single`."""

    name = "graphite"
    title = "Graphite"
    protocols = (PLAINTEXT,)
    program = Program(name, VERSION, ("bin/carbon-cache.py",))
    listens = {"plaintext": 2003, "pickle": 2004, "cache queries": 7002}  # noqa: RUF012
    told = Told(
        acknowledgement=(
            "Graphite acknowledges nothing: what carbon has read it keeps in memory until its "
            "writer comes to the series, and that goes with a killed process."
        ),
        bytes_per_point=_POINT_BYTES,
        memory_mib=_MEMORY_MIB,
        not_judged={
            "latency": (
                "plaintext has no acknowledgement, and the time until a socket has taken the bytes "
                "says nothing of the server"
            )
        },
        whole_seconds=True,
    )
    server = GraphiteServer(VERSION)

    def own(self, draft: Draft) -> dict[str, Any]:
        """Retention, and carbon's throttles."""
        values = {
            "retention_s": draft.own(
                *("retention_s", 3_600, "s"),
                "Of the one archive, a point a second: 1s:<retention_s>s. A file has room for all "
                "of it from the start.",
                least=60,
                most=86_400 * 400,
            ),
            "max_updates_per_second": draft.own(
                *("max_updates_per_second", 0, "updates/s"),
                "MAX_UPDATES_PER_SECOND: of files; 0 for no limit. Carbon's own 500 spares a disk "
                "that seeks; points of a series wait then and are written together.",
                least=0,
                most=10_000_000,
            ),
            "max_creates_per_minute": draft.own(
                *("max_creates_per_minute", 0, "files/min"),
                "MAX_CREATES_PER_MINUTE: of files; 0 for no limit. Carbon's own 50 drops the "
                "points of a new series beyond it without a word.",
                least=0,
                most=10_000_000,
            ),
            "max_cache_points": draft.own(
                *("max_cache_points", 0, "points"),
                "MAX_CACHE_SIZE: of which carbon reads no more from its sockets; 0 for no limit.",
                least=0,
                most=2_000_000_000,
            ),
        }
        load = draft.experiment.load
        if any("/" in name for name in (load.metric, *load.tags, *load.tags.values())):
            draft.refuse("load.metric", "neither it nor a tag may have a / : they become files")
        length = sum(ms * ticks for ms, ticks in load.steps_resolved) / 1000
        if (least := int(length) + _READ_BACK_S) > values["retention_s"]:
            draft.refuse(
                "system.retention_s",
                f"must be at least {least:,} (the load's {length:g} s and {_READ_BACK_S} to read "
                f"it back), got {values['retention_s']:,}: points would be written over before "
                "they are counted",
            )
        return values

    def store(self, draft: Draft, servers: Settings, now_s: float) -> dict[str, Any]:
        """A file a series, whatever is in it; and what the throttle on new files drops."""
        series, room = draft.experiment.load.sensors, int(servers.settings["retention_s"])
        each = _HEAD_BYTES + _POINT_BYTES * room
        draft.total(
            "disk_bytes",
            series * each,
            "bytes",
            f"{n(series)} series × ({_HEAD_BYTES} + {_POINT_BYTES} × {n(room)} points) bytes",
            "Whisper's files have their full size from the start.",
        )
        draft.totals["servers_mib"] = self.told.memory_mib
        creates = int(servers.settings["max_creates_per_minute"])
        if creates and creates < series:
            draft.notices.append(
                f"system.max_creates_per_minute {n(creates)}: carbon needs "
                f"{n(-(-series // creates))} minutes for the files of {n(series)} series, and "
                "drops the points of those that have none yet without a word (droppedCreates)."
            )
        return {}

    def fetch(self, console: Console) -> None:
        """Into a virtual environment of its own, of packages that are pinned by checksum."""
        folder = self.program.folder
        done = folder / "complete"
        if done.exists() and done.read_text() == _REQUIREMENTS.read_text():
            return
        python = sys.executable if sys.version_info[:2] == _PYTHON else shutil.which("python3.11")
        if not python:
            raise UserError(
                "Graphite needs a python3.11: carbon 1.1.10 does not start on later ones"
            )
        advice = "Is there a way to PyPI?"
        paths.BUNDLES.mkdir(parents=True, exist_ok=True)
        with live.stage(console, "pip brings carbon and whisper", usual="a minute"):
            fetched.run([python, "-m", "venv", "--clear", str(folder)], paths.BUNDLES, advice)
            fetched.run(
                [
                    *(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"),
                    *("--disable-pip-version-check", "--no-deps", "--require-hashes"),
                    *("-r", str(_REQUIREMENTS)),
                ],
                paths.BUNDLES,
                advice,
                # Its setup.py would install to /opt/graphite.
                env={**os.environ, "GRAPHITE_NO_PREFIX": "True"},
            )
            done.write_text(_REQUIREMENTS.read_text())
