"""Graphite as a stack: carbon-caches and their whisper files, behind relays and HAProxy if wanted,
and graphite-web, which answers queries.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from kairoscope.plan import Plan
from kairoscope.plan.amounts import n
from kairoscope.plan.draft import Draft
from kairoscope.stacks import fetched
from kairoscope.stacks.graphite import topology
from kairoscope.stacks.graphite.server import GraphiteServer, own_points
from kairoscope.stacks.single import Program, Settings, Single, refuse_short, refuse_slashes
from kairoscope.stacks.told import Told
from loaders.schedule.protocols import PICKLE, PLAINTEXT

VERSION = "1.1.10"
_REQUIREMENTS = Path(__file__).parent / "requirements.lock"
# A whisper file: its head, one archive's head, a time and a float for each point it has room for.
_HEAD_BYTES, _POINT_BYTES = 28, 12
# Of a cache: Twisted and some hundred thousand points; of a relay and its queues.
_CACHE_MIB, _RELAY_MIB = 512, 128
# Of graphite-web: gunicorn's master, and a process of Django with what it read last.
_WEB_MIB, _WEB_PROCESS_MIB = 64, 192
# That graphite-web loads, also where it draws nothing.
_CAIRO = "libcairo2"
# What was published of a host with eight cores: one cache alone, and HAProxy, four relays and eight
# caches, in points/s (Walmart's, in 2020; Azure Standard_D4_v2, one metric a point).
_PUBLISHED = {1: 40_000, 8: 100_000}
_PUBLISHED_CORES = 8


class Graphite(Single):
    """See `kairoscope.stacks.single.Single`."""

    name = "graphite"
    title = "Graphite"
    protocols = (PLAINTEXT, PICKLE)
    replays = True
    python = True
    program = Program(name, VERSION, (topology.C_RELAY, "haproxy", _CAIRO))
    listens = {}  # noqa: RUF012 (`ports` has them)
    fair = (
        "Graphite is one carbon-cache here where the experiment says no more, which is a process "
        "of Python and has one core: its makers' answer to more load is more caches behind relays, "
        "which are experiments of their own. Nothing is acknowledged, so its rates are of points "
        "sent. A file of each series is as long as its retention from its first point on."
    )
    told = Told(
        acknowledgement=(
            "Graphite acknowledges nothing: what carbon has read it keeps in memory until its "
            "writer comes to the series, and that goes with a killed process."
        ),
        bytes_per_point=_POINT_BYTES,
        memory_mib=_CACHE_MIB + _WEB_MIB + _WEB_PROCESS_MIB,
        not_judged={
            "latency": (
                "its protocols have no acknowledgement, and the time until a socket has taken the "
                "bytes says nothing of the server"
            )
        },
        flows={"received": "metricsReceived", "committed": "committedPoints"},
        losses={
            "droppedCreates": (
                "carbon drops points of series that have no file yet, beyond "
                "system.max_creates_per_minute, without a word to who sent them"
            ),
            "cache.overflow": "a cache was full (system.max_cache_points)",
            "metricsDropped": "a relay's queue was full",
            "fullQueueDrops": "a relay's queue was full",
        },
        whole_seconds=True,
    )
    server = GraphiteServer(VERSION)
    # A process that is not wanted any more would hold the port of another, and files keep their
    # archive.
    fixed = ("caches", "relays", "relay_program", "resolution_s", "retention_s")

    def own(self, draft: Draft) -> dict[str, Any]:
        """Processes, retention, and carbon's throttles."""
        values = {
            **_processes(draft),
            "resolution_s": draft.own(
                *("resolution_s", 1, "s"),
                "Of the one archive: <resolution_s>s:<retention_s>s. Two points of a series within "
                "it would be one.",
                least=1,
                most=3_600,
            ),
            "retention_s": draft.own(
                *("retention_s", 3_600, "s"),
                "How far the archive goes back. A file has room for all of it from the start.",
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
        _refuse_topology(draft, values)
        refuse_slashes(draft, "they become files")
        resolution = values["resolution_s"]
        if any(ms % (1000 * resolution) for ms, _ in load.steps_resolved):
            draft.refuse(
                "system.resolution_s",
                f"two points of a sensor must be whole steps of {resolution} s apart",
            )
        if values["retention_s"] % resolution:
            draft.refuse("system.retention_s", f"must be whole steps of {resolution} s")
        refuse_short(draft, values["retention_s"], "written over")
        return values

    def store(self, draft: Draft, servers: Settings, now_s: float) -> dict[str, Any]:
        """A file a series, whatever is in it; and what the throttle on new files drops."""
        series = draft.experiment.load.sensors
        room = int(servers.settings["retention_s"]) // int(servers.settings["resolution_s"])
        each = _HEAD_BYTES + _POINT_BYTES * room
        draft.total(
            "disk_bytes",
            series * each,
            "bytes",
            f"{n(series)} series × ({_HEAD_BYTES} + {_POINT_BYTES} × {n(room)} points) bytes",
            "Whisper's files have their full size from the start.",
        )
        _shares(draft, servers.settings)
        draft.notices.append(_unseen(draft, servers.settings))
        creates = int(servers.settings["max_creates_per_minute"])
        if creates and creates < series:
            draft.notices.append(
                f"system.max_creates_per_minute {n(creates)}: carbon needs "
                f"{n(-(-series // creates))} minutes for the files of {n(series)} series, and "
                "drops the points of those that have none yet without a word (droppedCreates)."
            )
        return {}

    def ports(self, plan: Plan) -> dict[str, int]:
        """Of all its processes; first where points go."""
        return topology.listens(plan.kairosdb)

    def of_server(self, plan: Plan, name: str) -> dict[str, Any]:
        """Its processes, and what they keep."""
        parts = topology.parts(plan.kairosdb)
        return {
            "processes": {part.name: part.role for part in parts},
            "parts": [asdict(part) for part in parts],
            "resolution_s": plan.kairosdb["resolution_s"],
        }

    def fetch(self, console: Console) -> None:
        """Into a virtual environment of its own, of packages that are pinned by checksum; relay,
        balancer and what draws graphs of Debian's packages."""
        for name in (topology.C_RELAY, "haproxy"):
            fetched.from_debian(console, name, name, fetched.debian_folder(name))
        fetched.libraries_from_debian(console, _CAIRO, fetched.debian_folder(_CAIRO))
        # The setup.py of carbon and of graphite-web would install to /opt/graphite.
        env = {"GRAPHITE_NO_PREFIX": "True"}
        fetched.from_pypi(console, self.title, _REQUIREMENTS, self.program.own, env)


def _processes(draft: Draft) -> dict[str, Any]:
    """Record how many there are of which."""
    return {
        "caches": draft.own(
            *("caches", 1, "processes"),
            "carbon-cache, each a process of one core; a relay gives every series to one of them.",
            least=1,
            most=topology.MOST,
        ),
        "relays": draft.own(
            *("relays", 0, "processes"),
            "In front of the caches, by consistent hashing; several are behind HAProxy, which "
            "gives each connection to the one with the fewest.",
            least=0,
            most=topology.MOST,
        ),
        "relay_program": draft.chosen(
            *("relay_program", topology.CARBON_RELAY),
            (topology.CARBON_RELAY, topology.C_RELAY),
            "Carbon's own in Python, or carbon-c-relay of Debian, in C, which takes no pickles.",
        ),
        "web_processes": draft.own(
            *("web_processes", 1, "processes"),
            "Of graphite-web, each of one core, which answers one query at a time.",
            least=1,
            most=256,
        ),
    }


def _refuse_topology(draft: Draft, values: Mapping[str, Any]) -> None:
    if values["caches"] > 1 and not values["relays"]:
        draft.refuse("system.caches", "more than one takes a relay in front: system.relays is 0")
    of_c = values["relays"] and values["relay_program"] == topology.C_RELAY
    if of_c and draft.experiment.load.protocol == PICKLE:
        draft.refuse("load.protocol", f"{topology.C_RELAY} takes no pickles: plaintext")


def _unseen(draft: Draft, values: Mapping[str, Any]) -> str:
    """From how many points on a cache's backlog is seen."""
    caches, own = values["caches"], own_points(values["relays"])
    each = draft.points_per_s / caches
    less = (
        f" This load gives a cache {n(each)} a second, so that queue and drain see only what waits "
        "for longer than that."
        if each <= own
        else ""
    )
    return (
        f"Up to {n(own)} points in a cache, {n(own * caches)} in all, count as nothing that waits "
        "(the verdict's parts queue and drain): so many may be figures of its processes' own, "
        f"which carbon does not tell from a sensor's.{less}"
    )


def _shares(draft: Draft, values: Mapping[str, Any]) -> None:
    """Record what each process gets, beside what was published of as many."""
    caches, relays, rate = values["caches"], values["relays"], draft.points_per_s
    web = _WEB_MIB + values["web_processes"] * _WEB_PROCESS_MIB
    draft.totals["servers_mib"] = caches * _CACHE_MIB + relays * _RELAY_MIB + web
    published = _PUBLISHED.get(caches)
    beside = ""
    if published:
        beside = (
            f" Published: {n(published)} points/s on {_PUBLISHED_CORES} cores, "
            f"{n(published // caches)} a cache; this is {rate / published:.1%} of it."
        )
    draft.total(
        "points_per_s_per_cache",
        rate / caches,
        "points/s",
        f"{n(rate)} / {n(caches)} = {n(rate / caches)}",
        f"Each series has one cache.{beside}",
    )
    if relays:
        draft.total(
            "points_per_s_per_relay",
            rate / relays,
            "points/s",
            f"{n(rate)} / {n(relays)} = {n(rate / relays)}",
            "Where connections are spread evenly.",
        )
