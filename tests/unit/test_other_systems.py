"""Stacks of one server: their settings, what they speak, what they read back; and that all of each
is in its own folder."""

import asyncio
import contextlib
import io
import json
import re
import socket
import sqlite3
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import load_samples
import numpy as np
import pytest
from loads import STORE, load_spec
from rich.console import Console
from run_samples import NODES, run_of

from kairoscope import experiment as experiments
from kairoscope import paths, report, run_folder
from kairoscope.cli import known
from kairoscope.cli.options import enter_kairosdb
from kairoscope.deploy import deploy, preflight
from kairoscope.errors import UserError
from kairoscope.experiment import Overrides
from kairoscope.hosts import inventory, ssh
from kairoscope.hosts.forwards import Ways
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.plan import Plan
from kairoscope.report import data as report_data
from kairoscope.report import first, reference
from kairoscope.report import topology as drawing
from kairoscope.report.charts import points as charts_of_points
from kairoscope.report.sections import target
from kairoscope.run import load_spec as load_specs
from kairoscope.run.show import show
from kairoscope.run_folder import JsonLines
from kairoscope.stacks import asked, compared, single_session
from kairoscope.stacks.graphite import cache, files, topology, whisper
from kairoscope.stacks.influxdb import server as influxdb_server
from kairoscope.stacks.questdb import server as questdb_server
from kairoscope.stacks.told import Told
from kairoscope.stacks.victoriametrics import server as victoriametrics_server
from kairoscope.targets.lab.target import hosts as lab_hosts
from kairoscope.targets.local import local_net
from kairoscope.targets.target import Options
from kairoscope.verdict import completeness, measurements, remarks, settlement
from loaders.schedule import spec as specs
from loaders.schedule.due import Schedule
from loaders.schedule.protocols import CQL, ONE_WAY, PROTOCOLS, SILENT, TRAITS
from loaders.schedule.spec import Step
from loaders.schedule.values import ValueType, values
from loaders.send import worker
from loaders.send.encode import Encoder, line_text, measures_text, path_of, plaintext_text
from loaders.send.line import Line
from loaders.send.pickled import PickleEncoder
from loaders.send.protocol import Answer, Batch
from loaders.send.remote_write import RemoteWrite, RemoteWriteEncoder
from loaders.send.worker import Worker

EXPERIMENTS = {
    "gnocchi": "gnocchi",
    "graphite": "graphite-1",
    "influxdb": "influxdb",
    "questdb": "questdb",
    "victoriametrics": "victoriametrics",
}
OTHERS = [stack for stack in known.STACKS if stack.name != "kairosdb"]
MORE = {"graphite": "carbon|whisper"}
"""Whatever else a system's parts are called."""
# What deploys, loads, judges and reports; not the pages on it, nor the tests.
CODE = ("kairoscope", "loaders", "ansible", "scripts", "bench", "dashboards", "terraform")


def plan(name: str, **scaled: Any) -> Plan:
    return known.plan(experiments.load(name, Overrides(**scaled)), "local")


def altered(tmp_path: Path, name: str, old: str, new: str) -> str:
    text = (paths.EXPERIMENTS / f"{name}.yml").read_text()
    assert old in text
    file = tmp_path / "mine.yml"
    file.write_text(text.replace(old, new))
    return str(file)


@pytest.mark.parametrize("stack", OTHERS, ids=lambda stack: stack.name)
def test_no_other_file_knows_its_name(stack: Any) -> None:
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *CODE],
        cwd=paths.CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    # Its folder and its role, the registration, and how points travel to it.
    own = (f"kairoscope/stacks/{stack.name}/", f"ansible/roles/{stack.name}/")
    own += ("kairoscope/cli/known.py", "loaders/send/", "loaders/schedule/protocols.py")
    others = [name for name in found if not name.startswith(own) and not name.endswith(".md")]
    assert len(others) > 100
    assert len(others) < len(found)
    names = re.compile(rf"\b({stack.name}|{stack.title}|{MORE.get(stack.name, stack.name)})", re.I)
    for file in others:
        text = (paths.CHECKOUT / file).read_text(errors="replace")
        assert not names.search(text), f"{file} knows {stack.name}: {names.search(text)}"


def test_no_other_stack_knows_kairosdbs() -> None:
    """Of the others the test above says it; what all share is no stack's."""
    folder = paths.CHECKOUT / "kairoscope" / "stacks"
    others = [path for path in folder.rglob("*.py") if folder / "kairosdb" not in path.parents]
    assert len(others) > 10
    for path in others:
        assert "stacks.kairosdb" not in path.read_text(), path


def test_every_stack_has_an_experiment_and_its_role() -> None:
    assert sorted(EXPERIMENTS) == sorted(stack.name for stack in OTHERS)
    for name in EXPERIMENTS:
        assert (paths.ANSIBLE / "roles" / name / "tasks" / "main.yml").exists()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_it_takes_of_a_machine_is_memory_and_ports(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kairoscope.targets.local.java17", lambda: "/java")
    made, stack = plan(EXPERIMENTS[name]), known.stack(name)
    needs = stack.needs(made)
    said = preflight.memory_problem(made, needs.memory, 0)
    assert said
    assert f"({made.totals['servers_mib']:,} of the servers + " in said
    assert said.endswith("0 MiB available. End other programs.")
    assert preflight.memory_problem(made, needs.memory, 10**6) is None
    # What was not measured is not refused.
    assert preflight.cpu_problem(made, needs.cpu, 0) is None
    assert preflight.check_aio(needs) is None
    (host,) = deploy.servers_here(made, known.target("local"), stack, Options(Path("x")))[:1]
    assert host.vars["preflight_memory_mib"] == made.totals["servers_mib"]
    there = preflight.listeners(stack, Inventory(Path("x"), [], [host], []))
    assert {one.port for one in there} == set(host.vars["listens"].values())
    assert {one.address for one in there} == {host.address}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_plan_says_what_an_acknowledgement_is_and_what_is_not_judged(name: str) -> None:
    made = plan(EXPERIMENTS[name])
    stack: Any = known.stack(name)
    assert made.roles == {"kairosdb": name}
    assert (made.title, made.taker) == (stack.title, f"{stack.title} server")
    assert stack.told.acknowledgement in made.notices
    for part, why in stack.told.not_judged.items():
        assert f"The verdict's part {part} is not judged: {why}." in made.notices
    assert made.totals["disk_bytes"] > 0
    assert {s.name for s in made.settings if s.name.startswith("system.")} == {
        f"system.{key}" for key in made.kairosdb
    }
    shown = {setting.name for setting in made.settings}
    assert not [each for each in shown if each.startswith(("assume.", "queries.", "security."))]
    assert "capture.processes_every_s" in shown
    assert "capture.proxyhistograms_every_s" not in shown


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("influxdb", "protocol: line", "protocol: rest", "influxdb does not speak rest; it speaks"),
        ("graphite-1", "protocol: plaintext", "protocol: line", "graphite does not speak line"),
        ("influxdb", "load:", "system: {wal: 1}\nload:", "InfluxDB has no such setting here"),
        ("influxdb", "load:", "storage: {heap_mb: 512}\nload:", "is KairosDB's, and the stack is"),
        ("influxdb", "kairosdb_nodes: 1", "kairosdb_nodes: 2", "is one server here: 1, not 2"),
        ("influxdb", "load:", "security: {enabled: true}\nload:", "neither TLS nor a password"),
        ("influxdb", "load:", "queries: {rate: 1}\nload:", "asked of KairosDB alone"),
        ("influxdb", "rate: 1", "value_type: string\n  rate: 1", "stores numbers here"),
        ("questdb", "metric: temperature", "metric: t-{n}", "a metric is a table in QuestDB"),
        ("graphite-1", "rate: 1", "rate: 2", "Graphite keeps whole seconds"),
        ("graphite-1", "duration_s: 120", "duration_s: 3600", "must be at least 4,200"),
        ("graphite-1", "metric: temp", "metric: a/temp", "they become files"),
        ("gnocchi", "metric: temp", "metric: a/temp", "Gnocchi takes none"),
        ("gnocchi", "rate: 1", "rate: 2", "Gnocchi keeps whole seconds"),
        ("gnocchi", "duration_s: 120", "duration_s: 3600", "must be at least 4,200"),
        ("gnocchi", "load:", "system: {incoming_log: yes}\nload:", "must be one of none, everysec"),
        ("graphite-1", "load:", "system: {caches: 2}\nload:", "takes a relay in front"),
        ("graphite-1", "load:", "system: {resolution_s: 7}\nload:", "whole steps of 7 s"),
        ("graphite-replay", "replay_queue_points: 0", "seed: 1", "asks for KairosDB's queue: 0"),
        ("influxdb", "warmup_s: 10", "replay: true", "history is not loaded into InfluxDB here"),
        ("graphite-4", "protocol: plaintext", "protocol: pickle", "takes no pickles"),
        ("graphite-4", "carbon-c-relay}", "other}", "must be one of carbon-relay, carbon-c-relay"),
        (
            *("graphite-1", "load:", "system: {retention_s: 10}\nload:"),
            "must be a whole number from 60 to 34,560,000, got 10",
        ),
    ],
)
def test_what_a_stack_does_not_have_is_refused_in_the_plan(
    tmp_path: Path, name: str, old: str, new: str, said: str
) -> None:
    with pytest.raises(UserError) as error:
        plan(altered(tmp_path, name, old, new))
    assert said in error.value.message


def test_kairosdb_refuses_settings_of_other_stacks(tmp_path: Path) -> None:
    file = altered(tmp_path, "laptop", "load:", "system: {retention_s: 10}\nload:")
    with pytest.raises(UserError, match="is for other stacks"):
        plan(file)


def test_questdb_takes_as_many_connections_as_loaders_may_open() -> None:
    made = plan("questdb", sensors=117_152)
    of_loaders = made.load["workers"] * made.load["connections_per_node"]
    assert 256 < of_loaders < made.kairosdb["connections"]


def test_other_targets_are_refused() -> None:
    wanted = experiments.load("questdb", Overrides())
    with pytest.raises(UserError, match=r"of this machine .*, not to hosts"):
        known.plan(wanted, "hosts")


def test_a_wrong_clock_that_a_server_would_not_see_is_refused(tmp_path: Path) -> None:
    fault = "faults: [{at: 40s, clock: influxdb-1, by: 5s, for: 9s}]\nload:"
    wanted = experiments.load(altered(tmp_path, "influxdb", "load:", fault), Overrides())
    with pytest.raises(UserError, match="asks the kernel itself, as Go's programs do"):
        known.plan(wanted, "lab")


def test_on_hosts_of_the_lab_there_is_a_host_for_a_server_and_none_for_a_store() -> None:
    made = known.plan(experiments.load("influxdb", Overrides()), "lab")
    # It has no TLS: what is in front of it is the firewall.
    assert made.security["enabled"] is False
    there = {role: [host.name for host in hosts] for role, hosts in lab_hosts(made).items()}
    assert there == {"kairosdb": ["influxdb-1"], "loader": ["loader-1"], "monitoring": []}
    of_kairosdb = lab_hosts(known.plan(experiments.load("laptop", Overrides()), "lab"))
    assert [host.name for host in of_kairosdb["storage"]] == [f"storage-{i}" for i in (1, 2, 3)]


def test_the_throttle_that_drops_in_silence_is_named() -> None:
    notices = plan("graphite-creates").notices
    assert any("needs 20 minutes for the files of 1,000 series" in n for n in notices)
    looks = [
        {"node": "g-1", "counters": {"a/droppedCreates": 0, "a/creates": 9}},
        {"node": "g-1", "error": "refused"},
        {"node": "g-1", "counters": {"a/droppedCreates": 900.0, "b/droppedCreates": 7.0}},
        {"node": "g-1", "counters": {"a/droppedCreates": 5.0}},
    ]
    assert remarks.of_losses(looks, {"droppedCreates": "it drops"}) == [
        "g-1 counts a/droppedCreates (up to 900 in a look): it drops",
        "g-1 counts b/droppedCreates (up to 7 in a look): it drops",
    ]
    assert not remarks.of_losses(looks, {})


def test_one_cache_has_carbons_own_ports() -> None:
    alone = {"caches": 1, "relays": 0, "relay_program": topology.CARBON_RELAY}
    assert topology.listens(alone) == {
        **{"plaintext": 2003, "pickle": 2004, "cache-a cache queries": 7002},
        "web HTTP": 8080,
    }
    web, cache_a = topology.parts(alone)
    assert (cache_a.name, cache_a.role, cache_a.instance) == ("cache-a", "cache", "a")
    assert (web.name, web.role, web.program) == ("web", "web", "graphite-web")


@pytest.mark.parametrize(
    ("name", "roles", "entry"),
    [
        ("graphite-4", {"web": 1, "cache": 4, "relay": 1}, ["plaintext"]),
        ("graphite-ha", {"web": 1, "cache": 8, "relay": 4, "balancer": 1}, ["plaintext", "pickle"]),
    ],
)
def test_what_is_behind_a_relay_has_ports_of_its_own(
    name: str, roles: dict[str, int], entry: list[str]
) -> None:
    made = plan(name)
    parts = topology.parts(made.kairosdb)
    assert Counter(part.role for part in parts) == roles
    listens = topology.listens(made.kairosdb)
    assert list(listens)[: len(entry)] == entry
    assert len(set(listens.values())) == len(listens)
    assert {port for part in parts for port in part.ports.values()} == set(listens.values())
    # In front of all others, and started last.
    assert list(parts[-1].ports) == entry
    shares = {s.name: s for s in made.settings}
    of_cache = shares["totals.points_per_s_per_cache"]
    assert of_cache.value == made.totals["points_per_s"] / roles["cache"]
    assert shares["totals.points_per_s_per_relay"].value == 1000 * (1 + (name == "graphite-4"))
    if name == "graphite-ha":
        assert "Published: 100,000 points/s on 8 cores, 12,500 a cache" in of_cache.reason


@pytest.mark.parametrize(
    ("name", "sensors", "said"),
    [
        ("graphite-1", 1000, r"Up to 40 points in a cache, 40 in all, .* from a sensor's\.$"),
        ("graphite-4", 2000, r"Up to 80 points in a cache, 320 in all, .* from a sensor's\.$"),
        ("graphite-ha", 4000, r"Up to 200 points in a cache, 1,600 in all, .*a sensor's\.$"),
        ("graphite-ha", 1600, r"This load gives a cache 200 a second, so that queue and drain"),
    ],
)
def test_a_plan_says_from_how_many_points_on_a_backlog_is_seen(
    name: str, sensors: int, said: str
) -> None:
    assert any(re.search(said, notice) for notice in plan(name, sensors=sensors).notices)


def test_what_waits_in_a_cache_is_what_its_processes_own_figures_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = plan("graphite-ha")
    graphite: Any = known.stack("graphite")
    parts = graphite.of_server(made, "graphite-1")
    host = Host("graphite-1", "kairosdb", {"address": "127.0.0.1", **parts})
    told = {f"cache-{letter}/cache.size": 200.0 for letter in "abcdefgh"}
    monkeypatch.setattr(graphite.server, "_told", lambda *_: told)
    assert graphite.server.waiting(host) == 0
    told |= {"cache-b/cache.size": 201.0, "cache-h/cache.size": 500.0}
    assert graphite.server.waiting(host) == 701
    del told["cache-a/cache.size"]
    assert graphite.server.waiting(host) is None


def test_agents_join_one_after_the_other() -> None:
    made = plan("graphite-agents")
    schedule = Schedule(load_specs.build(made, ["http://127.0.0.1:1"], ["127.0.0.1:1"], 2e9))
    groups = [group for worker in (0, 1) for group in schedule.groups(worker)]
    assert [len(group.slots) for group in groups] == [1_000] * 10
    assert sorted(group.first_tick for group in groups) == list(range(10))
    assert schedule.spec.steps == [Step(10_000, 22)]
    assert schedule.spec.connection_per_request


# Protocols


def test_every_protocol_is_sent_by_its_own_class() -> None:
    kinds = {}
    for protocol in PROTOCOLS:
        store = STORE if protocol == CQL else None
        spec = load_spec(protocol=protocol, telnet=["127.0.0.1:1"], store=store)
        if protocol != CQL:  # its driver connects
            kinds[protocol] = type(worker._protocol(Schedule(spec), [], None)).__name__
    assert kinds == {
        **{"rest": "Rest", "rest-gzip": "Rest", "telnet-put": "Telnet", "telnet-putm": "Telnet"},
        **{"line": "Line", "remote-write": "RemoteWrite", "measures": "Measures"},
        **{"plaintext": "Carbon", "pickle": "Carbon"},
    }


def lines(kind: str, text: Any, **changes: Any) -> tuple[Schedule, list[str]]:
    spec = load_spec(
        **{"sensors": 3, "metric": "temp", "tags": {"sensor": "{n}", "a": "b"}, "ramp_ticks": 0},
        **{
            "value_type": kind,
            "points_per_request": 2,
            "steps": [Step(1000, 4)],
            "warmup_ticks": 0,
            "lifetime_ticks": 0,
        }
        | changes,
    )
    schedule = Schedule(spec)
    said: list[str] = []
    for group in schedule.groups(0):
        said += bytes(Encoder(schedule, group, text).encode(2, 2)).decode().splitlines()
    return schedule, said


@pytest.mark.parametrize(("kind", "suffix"), [("long", "i"), ("double", "")])
def test_lines_of_the_line_protocol(kind: str, suffix: str) -> None:
    schedule, said = lines(kind, line_text)
    wanted = []
    for one in schedule.series():
        if one.worker == 0:
            for tick in (2, 3):
                ms = schedule.timestamp_ms(one.rank, tick)
                value = ValueType(kind).text(int(values(one.number, [ms])[0]))
                wanted.append(f"temp,a=b,sensor={one.number} value={value}{suffix} {ms}")
    assert wanted
    assert sorted(said) == sorted(wanted)


def test_text_is_quoted_in_the_line_protocol() -> None:
    _, said = lines("string", line_text)
    assert said
    assert all(re.fullmatch(r'temp,a=b,sensor=\d value="v\d{6}" \d{13}', line) for line in said)


def test_lines_of_plaintext_have_seconds() -> None:
    schedule, said = lines("long", plaintext_text)
    wanted = []
    for one in schedule.series():
        if one.worker == 0:
            for tick in (2, 3):
                ms = schedule.timestamp_ms(one.rank, tick)
                value = int(values(one.number, [ms])[0])
                at = f"{ms // 1000}.{ms % 1000:03d}"
                wanted.append(f"temp.a.b.sensor.{one.number} {value} {at}")
    assert wanted
    assert sorted(said) == sorted(wanted)


@pytest.mark.parametrize("kind", ["long", "double"])
def test_measures_are_metrics_of_one_resource(kind: str) -> None:
    schedule, said = lines(kind, measures_text)
    wanted: dict[str, list[Any]] = {}
    for one in schedule.series():
        if one.worker == 0:
            for tick in (2, 3):
                ms = schedule.timestamp_ms(one.rank, tick)
                value = float(ValueType(kind).text(int(values(one.number, [ms])[0])))
                point = {"timestamp": ms / 1000, "value": value}
                wanted.setdefault(f"temp.a.b.sensor.{one.number}", []).append(point)
    found: dict[str, list[Any]] = {}
    for body in map(json.loads, said):
        assert list(body) == ["kairoscope"]
        found |= body["kairoscope"]
    assert wanted
    assert found == wanted


@pytest.mark.parametrize("kind", ["long", "double"])
def test_a_pickle_has_the_points(kind: str) -> None:
    import pickle  # noqa: PLC0415

    spec = load_spec(
        **{"sensors": 2_500, "metric": "temp", "tags": {"sensor": "{n}"}, "ramp_ticks": 0},
        **{"protocol": "pickle", "nodes": ["http://127.0.0.1:1"], "telnet": ["127.0.0.1:1"]},
        **{"value_type": kind, "points_per_request": 2, "sensors_per_request": 2_500},
        **{"workers_per_host": 1, "steps": [Step(1000, 4)], "warmup_ticks": 0, "lifetime_ticks": 0},
    )
    schedule = Schedule(spec)
    (group,) = schedule.groups(0)
    encoder = PickleEncoder(schedule, group)
    encoder.encode(0, 2)
    said, found = bytes(encoder.encode(2, 2)), []
    while said:
        (length,) = struct.unpack("!L", said[:4])
        assert length < 2**20
        found += pickle.loads(said[4 : 4 + length])  # noqa: S301 (ours)
        said = said[4 + length :]
    scale = 1000 if kind == "double" else 1
    wanted = []
    for one in schedule.series():
        for tick in (2, 3):
            ms = schedule.timestamp_ms(one.rank, tick)
            value = int(values(one.number, [ms])[0])
            wanted.append((f"temp.sensor.{one.number}", (ms / 1000, value / scale)))
    assert found == wanted


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and content of each field of a protobuf message, by its wire format (protobuf.dev,
    "Encoding"): varints, eight bytes, and what has a length."""
    at = 0

    def number() -> int:
        nonlocal at
        found = shift = 0
        while True:
            byte = message[at]
            at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    while at < len(message):
        field, kind = divmod(number(), 8)
        if kind == 0:
            yield field, number()
            continue
        length = 8 if kind == 1 else number()
        assert kind in (1, 2)
        content = message[at : at + length]
        assert len(content) == length
        at += length
        yield field, struct.unpack("<d", content)[0] if kind == 1 else content


@pytest.mark.parametrize("kind", ["long", "double"])
@pytest.mark.parametrize("per_request", [1, 3])
def test_a_remote_write_has_the_points(kind: str, per_request: int) -> None:
    spec = load_spec(
        **{"sensors": 300, "metric": "temp", "tags": {"zone": "z-{n%7}", "Sensor": "ü{n}"}},
        **{"protocol": "remote-write", "value_type": kind, "points_per_request": per_request},
        **{"sensors_per_request": 300, "workers_per_host": 1, "steps": [Step(1000, 6)]},
        **{"warmup_ticks": 0, "lifetime_ticks": 0, "ramp_ticks": 0},
    )
    schedule = Schedule(spec)
    (group,) = schedule.groups(0)
    encoder = RemoteWriteEncoder(schedule, group)
    encoder.encode(0, per_request)
    found = []
    for field, series in fields(bytes(encoder.encode(3, per_request))):
        assert field == 1
        labels = [dict(fields(label)) for one, label in fields(series) if one == 1]
        samples = [dict(fields(sample)) for one, sample in fields(series) if one == 2]
        names = [label[1].decode() for label in labels]
        assert names == sorted(names) == ["Sensor", "__name__", "zone"]
        tags = {label[1].decode(): label[2].decode() for label in labels}
        found.append((tags, [(sample[2], sample[1]) for sample in samples]))
    scale = 1000 if kind == "double" else 1
    wanted = []
    for one in schedule.series():
        times = [schedule.timestamp_ms(one.rank, tick) for tick in range(3, 3 + per_request)]
        points = [(ms, int(values(one.number, [ms])[0]) / scale) for ms in times]
        tags = {"__name__": "temp", "zone": f"z-{one.number % 7}", "Sensor": f"ü{one.number}"}
        wanted.append((tags, points))
    assert found == wanted


def test_the_report_knows_which_protocols_acknowledge_nothing() -> None:
    for protocol in PROTOCOLS:
        store = STORE if protocol == CQL else None
        told = load_spec(protocol=protocol, telnet=["127.0.0.1:1"], store=store).acknowledges
        assert told == (protocol not in SILENT)
        load = {"protocol": protocol, "protocol_title": TRAITS[protocol].title}
        run = report_data.RunData("x", plan={"load": {**load, "acknowledges": told}})
        assert run.acknowledges == told
        shown = dict(target.sending(run).rows)["Protocol"]
        assert shown == TRAITS[protocol].title + ("" if told else " (acknowledges nothing)")
    # Of runs from before plans said so.
    old = report_data.RunData("x", plan={"load": {"protocol": "pickle"}})
    assert old.protocol == "pickle"
    assert not replace(old, ledger={"acknowledges": False}).acknowledges
    assert old.acknowledges


class Answering:
    """A server that reads a request and gives one answer, to each connection."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.heads: list[str] = []

    async def __aenter__(self) -> "Answering":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head.splitlines()[0])
        if length := re.search(r"Content-Length: (\d+)", head):
            await reader.readexactly(int(length.group(1)))
        writer.write(self.answer.encode())
        writer.close()


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        ("204 No Content", "", Answer.ACKNOWLEDGED),
        ("200 OK", "", Answer.FAILED),
        ("400 Bad Request", '{"error":"unable to parse"}', Answer.REJECTED),
        ("400 Bad Request", '{"error":"partial write: x dropped=1"}', Answer.PARTLY),
        ("404 Not Found", "partial", Answer.REJECTED),
        ("503 Service Unavailable", "", Answer.FAILED),
    ],
)
async def test_what_an_answer_to_lines_means(status: str, body: str, answer: Answer) -> None:
    said = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    if status.startswith("204"):
        said = f"HTTP/1.1 {status}\r\n\r\n"
    async with Answering(said) as server:
        told = {"partly": known.stack("influxdb").partly}
        spec = load_spec(nodes=[server.url], protocol="line", workers_per_host=1, **told)
        schedule = Schedule(spec)
        groups = schedule.groups(0)
        line = Line(schedule, groups)
        reply = await line.send(0, Batch(groups[0], groups[0].first_tick, 1), lambda: None)
        assert reply.answer is answer
        await line.probe(0)
        assert server.heads == [
            "POST /write?db=kairoscope&precision=ms HTTP/1.1",
            "GET /ping HTTP/1.1",
        ]
        assert await line.close() == ""


@pytest.mark.parametrize("kind", [Line, RemoteWrite])
@pytest.mark.parametrize(("words", "answer"), [("part", Answer.PARTLY), ("", Answer.REJECTED)])
async def test_what_a_refusal_of_some_says_is_the_systems(
    kind: Any, words: str, answer: Answer
) -> None:
    said = "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\npart"
    async with Answering(said) as server:
        spec = load_spec(nodes=[server.url], workers_per_host=1, partly=words)
        schedule = Schedule(spec)
        groups = schedule.groups(0)
        sender = kind(schedule, groups)
        reply = await sender.send(0, Batch(groups[0], groups[0].first_tick, 1), lambda: None)
        assert reply.answer is answer
        await sender.close()


def test_the_words_of_a_stack_are_in_the_loaders_specification() -> None:
    for name, words in (("influxdb", "partial write"), ("questdb", "")):
        made = plan(name)
        assert load_specs.build(made, ["http://127.0.0.1:1"], [], 1.8e9).partly == words


@pytest.mark.parametrize("reads", [True, False])
async def test_plaintext_is_read_to_its_end_or_that_is_said(tmp_path: Path, reads: bool) -> None:
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reads:
            got.append(await reader.read())
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    spec = load_spec(
        **{"nodes": ["http://127.0.0.1:9"], "telnet": [address], "protocol": "plaintext"},
        **{"sensors": 3, "hosts": 1, "workers_per_host": 1, "request_timeout_s": 1.0},
        **{"steps": [Step(20, 2)], "warmup_ticks": 0, "start_ms": _soon_ms()},
    )
    result = await Worker(spec, 0, tmp_path).run()
    server.close()
    points = Schedule(spec).points
    assert (result["unknown"], result["acknowledged"]) == (points, 0)
    if reads:
        assert b"".join(got).count(b"\n") == points
        assert result["errors"] == {}
    else:
        assert "did not confirm the end" in str(result["first_errors"])


@pytest.mark.parametrize("protocol", ONE_WAY)
async def test_a_request_may_have_a_connection_of_its_own(tmp_path: Path, protocol: str) -> None:
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    spec = load_spec(
        **{"nodes": ["http://127.0.0.1:9"], "telnet": [address], "protocol": protocol},
        **{"sensors": 4, "sensors_per_request": 2, "hosts": 1, "workers_per_host": 1},
        **{"steps": [Step(20, 3)], "warmup_ticks": 0, "start_ms": _soon_ms()},
        **{"connection_per_request": True, "lifetime_ticks": 0, "ramp_ticks": 0},
    )
    result = await Worker(spec, 0, tmp_path).run()
    server.close()
    assert (result["unknown"], result["errors"]) == (12, {})
    assert len(got) == 6
    assert len(set(map(len, got))) == 1


def test_others_keep_their_connections(tmp_path: Path) -> None:
    file = altered(tmp_path, "influxdb", "rate: 1", "rate: 1\n  connection_per_request: true")
    with pytest.raises(UserError, match="connections by line are kept"):
        plan(file)
    old = json.loads(load_spec().to_json())
    del old["connection_per_request"]
    assert specs.LoadSpec.from_json(json.dumps(old)) == load_spec()


def _soon_ms() -> int:
    import time  # noqa: PLC0415

    return int(time.time() * 1000) + 100


# What comes back


def test_numbers_are_those_of_one_value_at_a_time() -> None:
    told = np.array([123456.0, 123.456, 0.5, -1, np.nan, np.inf, 1e9, 999999.0])
    for kind in (ValueType.LONG, ValueType.DOUBLE):
        wanted = [kind.number(value) for value in told.tolist()]
        assert compared.numbers(kind, told).tolist() == wanted


@pytest.mark.parametrize("pattern", ["SENSOR_{n}", "rack-{n%40}.{n}", "plain.text"])
def test_a_pattern_finds_its_names_and_no_others(pattern: str) -> None:
    from loaders.schedule import naming  # noqa: PLC0415

    found = re.compile(compared.pattern(pattern))
    assert all(found.fullmatch(naming.expand(pattern, number)) for number in (0, 7, 12345))
    assert not found.fullmatch("plainXtext")
    assert not found.fullmatch("SENSOR_x")


def whisper_file(points: dict[int, float], room: int = 10, step: int = 1) -> bytes:
    head = struct.pack("!2LfL", 1, room, 0.0, 1) + struct.pack("!3L", 28, step, room)
    ring = [(0, 0.0)] * room
    for t, value in points.items():
        ring[t // step % room] = (t - t % step, value)
    return head + b"".join(struct.pack("!Ld", t, value) for t, value in ring)


def test_a_whisper_file_is_read_as_it_lies_there() -> None:
    times, found = whisper.finest(whisper_file({1007: 7.5, 1012: 12.0, 1009: 9.0}))
    assert (times.tolist(), found.tolist()) == ([1007, 1009, 1012], [7.5, 9.0, 12.0])
    for bad in (b"", b"x" * 20, whisper_file({1: 1.0})[:40]):
        with pytest.raises(ValueError, match=r"whisper|buffer"):
            whisper.finest(bad)


@pytest.fixture(params=["here", "over ssh"])
def graphite_host(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Host:
    """A host with files of whisper: this machine, or one that programs are run on."""
    way = {"ansible_connection": "local"} if request.param == "here" else {}
    monkeypatch.setattr(ssh, "command", lambda host, program, sudo: program)
    return Host("x-1", "kairosdb", {"home": str(tmp_path), "address": "127.0.0.1", **way})


def whisper_path(host: Host, path: str) -> Path:
    file = (host.home / "data" / "whisper").joinpath(*path.split(".")).with_suffix(".wsp")
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def test_what_graphites_processes_tell_of_themselves_is_of_the_last_seconds(
    graphite_host: Host,
) -> None:
    now = int(time.time())
    for path, points in {
        "carbon.agents.x-a.creates": {now - 5: 3.0, now - 2: 4.0},
        "carbon.agents.x-a.errors": {now - 50: 9.0},
        "carbon.relays.x-a.destinations.one.drops": {now - 1: 5.0},
        "carbon.relays.x-a.destinations.two.drops": {now - 1: 6.0},
    }.items():
        whisper_path(graphite_host, path).write_bytes(whisper_file(points, room=60))
    whisper_path(graphite_host, "carbon.agents.x-a.torn").write_bytes(b"x" * 20)
    own = ("creates", "errors", "torn", "none")
    wanted = {name: f"carbon/agents/x-a/{name}.wsp" for name in own}
    wanted["drops"] = "carbon/relays/x-a/destinations/*/drops.wsp"
    found = files.newest_points(graphite_host, wanted, 10)
    assert {name: sorted(points) for name, points in found.items()} == {
        "creates": [(now - 2, 4.0)],
        **{"errors": [], "torn": [], "none": []},
        "drops": [(now - 1, 5.0), (now - 1, 6.0)],
    }
    whisper_path(graphite_host, "temp.sensor.1").write_bytes(b"")
    files.remove(graphite_host)
    left = [path.name for path in (graphite_host.home / "data" / "whisper").iterdir()]
    assert left == ["carbon"]
    assert list(files.every(graphite_host)) == []
    assert files.name_of(graphite_host) == socket.gethostname()


def test_an_answer_of_carbons_runs_no_code() -> None:
    import io  # noqa: PLC0415
    import pickle  # noqa: PLC0415

    harmless = pickle.dumps({"datapointsByMetric": {"a": [(1.0, 2.0)]}}, protocol=2)
    assert cache._Plain(io.BytesIO(harmless)).load() == {"datapointsByMetric": {"a": [(1.0, 2.0)]}}
    with pytest.raises(pickle.UnpicklingError, match="names"):
        cache._Plain(io.BytesIO(pickle.dumps(Path("/"), protocol=2))).load()


def test_samples_of_a_page_of_metrics() -> None:
    page = 'a_total{x="y z"} 3\nb 4\n# a_total is\na_total_more 5 1790000000\nbad\n'
    assert asked.samples(page, ["a_total"]) == {'a_total{x="y z"}': 3, "a_total_more": 5}


def test_what_a_victoriametrics_selector_asks_for() -> None:
    spec = load_spec(metric="temp.{n%3}", tags={"sensor": "s-{n}"})
    assert victoriametrics_server.selector(spec) == (
        r'{__name__=~"temp\\.[0-9]+_value",db="kairoscope",sensor=~"s\\-[0-9]+"}'
    )


def host() -> Host:
    return Host("x-1", "kairosdb", {"address": "127.0.0.1", "http_port": 1, "home": "/nowhere"})


def small() -> Schedule:
    return Schedule(
        load_spec(
            **{
                "sensors": 3,
                "metric": "temp",
                "tags": {"sensor": "{n}"},
                "steps": [Step(1000, 4)],
                "warmup_ticks": 0,
            },
            **{"lifetime_ticks": 0, "ramp_ticks": 0, "points_per_request": 1},
        )
    )


def points_of(schedule: Schedule) -> Iterator[tuple[Any, list[int], list[int]]]:
    for one in schedule.series():
        times = schedule.timestamps_ms(one.rank, one.ticks)
        yield one, times.tolist(), values(one.number, times).tolist()


def test_what_influxdb_answers_becomes_points(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = small()
    chunks = []
    for one, times, found in points_of(schedule):
        series = {
            **{"name": "temp", "tags": {"sensor": str(one.number)}, "columns": ["time", "value"]},
            "values": [list(pair) for pair in zip(times, found, strict=True)],
        }
        chunks.append(json.dumps({"results": [{"statement_id": 0, "series": [series]}]}))
    other = {
        "name": "temp",
        "tags": {"other": "1"},
        "columns": ["time", "value"],
        "values": [[1, 2]],
    }
    chunks.append(json.dumps({"results": [{"series": [other]}]}))
    given: list[Any] = []

    def get(url: str, wanted: Any = None, timeout_s: float = 0) -> bytes:
        given.append(wanted)
        return "\n".join(chunks).encode()

    monkeypatch.setattr(asked, "get", get)
    read = list(influxdb_server.InfluxDBServer().read(host(), schedule))
    assert {one.number: got.tolist() for one, got in read} == {
        one.number: [list(pair) for pair in zip(times, found, strict=True)]
        for one, times, found in points_of(schedule)
    }
    assert "FROM /^temp$/ WHERE time >= " in given[0]["q"]
    chunks[:] = ['{"results":[{"error":"no such thing"}]}']
    with pytest.raises(ValueError, match="no such thing"):
        influxdb_server.InfluxDBServer().trouble(host())


def test_what_questdb_answers_becomes_points(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = small()
    given: list[str] = []

    def get(url: str, wanted: Any = None, timeout_s: float = 0) -> bytes:
        query = wanted["query"]
        given.append(query)
        if url.endswith("/exp"):
            rows = ['"sensor","ms","value"', '"99",1700000000000,1', '"",1700000000000,']
            for one, times, found in points_of(schedule):
                rows += [f'"{one.number}",{t},{v}' for t, v in zip(times, found, strict=True)]
            return "\r\n".join(rows).encode()
        there = [["temp"], ["other"]] if "table_name" in query else [[schedule.points]]
        return json.dumps({"dataset": there}).encode()

    monkeypatch.setattr(asked, "get", get)
    questdb: Any = known.stack("questdb")
    read = {one.number: got.tolist() for one, got in questdb.server.read(host(), schedule)}
    assert read == {
        one.number: [list(pair) for pair in zip(times, found, strict=True)]
        for one, times, found in points_of(schedule)
    }
    assert questdb.server.count(host(), schedule) == schedule.points
    assert any("FROM 'temp' WHERE timestamp >= 1700000000000000 AND" in query for query in given)


@pytest.mark.parametrize(
    ("rows", "transactions", "waits"),
    [
        ([12, 30], [(7, 7), (9, 8)], 42),
        # A kill in mid-load: what waited before is on the disk, and in no count of rows.
        ([0, None], [(9, 4), (3, 3)], 5),
        # It took off what it had not counted.
        ([-55_163, 3], [(5, 5), (4, 4)], 3),
        ([-7, None], [(5, 5), (6, 4)], 2),
        ([], [], 0),
    ],
)
def test_what_waits_in_questdb_is_known_after_a_kill_too(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[int | None],
    transactions: list[tuple[int, int]],
    waits: int,
) -> None:
    """By SQLite, as far as both speak the same SQL."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE tables (wal_pending_row_count)")
    base.executemany("INSERT INTO tables VALUES (?)", [(row,) for row in rows])
    base.execute("CREATE TABLE wal_tables (sequencerTxn, writerTxn, suspended, name)")
    base.executemany("INSERT INTO wal_tables VALUES (?, ?, 0, 'temp')", transactions)

    def get(_: str, wanted: Any, timeout_s: float = 0) -> bytes:
        found = base.execute(wanted["query"].replace("()", "")).fetchall()
        return json.dumps({"dataset": found}).encode()

    monkeypatch.setattr(asked, "get", get)
    monkeypatch.setattr(questdb_server, "_SETTLE_S", 0)
    server: Any = known.stack("questdb").server
    assert server.waiting(host()) == waits
    server.settle(host())
    base.execute("INSERT INTO wal_tables VALUES (5, 4, 1, 'humidity')")
    with pytest.raises(ValueError, match="suspended tables: humidity"):
        server.settle(host())


def test_what_gnocchi_answers_becomes_points(monkeypatch: pytest.MonkeyPatch) -> None:
    made = small()
    spec = replace(made.spec, start_ms=1_790_000_000_000, protocol="measures")
    schedule = Schedule(spec)
    held: dict[str, list[tuple[int, float]]] = {"id-of-another": [(1_790_000_001, 5.0)]}
    wanted, names = {}, {"temp.other.1": "id-of-another"}
    for one, times, found in points_of(schedule):
        name, wanted[one.number] = f"temp.sensor.{one.number}", list(zip(times, found, strict=True))
        names[name] = f"id-{one.number}"
        # Of an earlier run, too, within the same second.
        held[names[name]] = [(1_789_999_999, 1.0)] + [(t // 1000, v) for t, v in wanted[one.number]]
    names["temp.sensor.99"], held["id-99"] = "id-99", []  # made, and nothing aggregated
    asked_for: list[Any] = []

    def get(url: str, given: Any = None, timeout_s: float = 0) -> bytes:
        assert url.endswith("/v1/resource/generic/kairoscope")
        return json.dumps({"metrics": names}).encode()

    def send(method: str, url: str, document: Any = None) -> bytes:
        asked_for.append((method, url.partition("/v1/")[2]))
        verb, *references = document["operations"]
        assert verb == "metric"
        measures: dict[str, Any] = {}
        for id, how in references:
            points = [(t, v if how == "last" else 1.0) for t, v in held[id]]
            texts = [(np.datetime64(t, "s").item().isoformat() + "+00:00", v) for t, v in points]
            measures[id] = {how: [[text, 1.0, v] for text, v in texts]}
        return json.dumps({"measures": measures}).encode()

    monkeypatch.setattr(asked, "get", get)
    monkeypatch.setattr(asked, "send", send)
    gnocchi: Any = known.stack("gnocchi")
    read = {one.number: got.tolist() for one, got in gnocchi.server.read(host(), schedule)}
    assert read == {number: [list(pair) for pair in of] for number, of in wanted.items()}
    # As it counts: what it has of the time it was asked for.
    assert gnocchi.server.count(host(), schedule) == schedule.points + 3
    assert set(asked_for) == {("POST", "aggregates?start=1790000000&stop=1790000004")}


def three_a_second() -> Schedule:
    return Schedule(
        load_spec(
            **{
                "sensors": 3,
                "metric": "temp",
                "tags": {"sensor": "{n}"},
                "steps": [Step(1000, 4)],
                "warmup_ticks": 0,
            },
            **{"start_ms": 1_790_000_000_000, "protocol": "plaintext"},
            **{"lifetime_ticks": 0, "ramp_ticks": 0, "points_per_request": 1},
            telnet=["127.0.0.1:1"],
            nodes=["http://127.0.0.1:1"],
        )
    )


def test_what_graphite_has_in_its_files_becomes_points(graphite_host: Host) -> None:
    schedule = three_a_second()
    graphite: Any = known.stack("graphite")
    wanted = {}
    for one, times, found in points_of(schedule):
        file = whisper_path(graphite_host, path_of("temp", {"sensor": str(one.number)}))
        # Of an earlier run, too.
        wanted[one.number] = [list(pair) for pair in zip(times, found, strict=True)]
        held = {1_789_999_995: 5.0} | {t // 1000: float(v) for t, v in wanted[one.number]}
        file.write_bytes(whisper_file(held))
    read = {one.number: got.tolist() for one, got in graphite.server.read(graphite_host, schedule)}
    assert read == wanted
    assert graphite.server.count(graphite_host, schedule) == schedule.points
    whisper_path(graphite_host, "temp.sensor.1").unlink()
    left = graphite.server.read(graphite_host, schedule)
    assert sorted(one.number for one, _ in left) == [0, 2]


@pytest.mark.parametrize(
    "damaged",
    [
        lambda whole: b"",
        lambda whole: whole[:28],
        lambda whole: b"\0" * 28 + whole[28:],
        lambda whole: whole[:-13],
    ],
)
def test_a_file_that_a_kill_cut_short_takes_its_own_series_alone(
    graphite_host: Host, monkeypatch: pytest.MonkeyPatch, damaged: Any
) -> None:
    monkeypatch.setattr(single_session, "PAUSE_S", 0)
    schedule, graphite = three_a_second(), cast(Any, known.stack("graphite"))
    monkeypatch.setattr(graphite.server, "settle", lambda _: None)
    monkeypatch.setattr(graphite.server, "waiting", lambda _: 0)
    for one, times, found in points_of(schedule):
        whole = whisper_file({t // 1000: float(v) for t, v in zip(times, found, strict=True)})
        file = whisper_path(graphite_host, path_of("temp", {"sensor": str(one.number)}))
        file.write_bytes(damaged(whole) if one.number == 1 else whole)
    results: list[Any] = []
    there = replace(graphite_host, vars={**graphite_host.vars, "http_port": 1})
    told = Told(acknowledgement="", bytes_per_point=1, memory_mib=1)
    session = single_session.Session("g", graphite.server, there, told, Ways(), "plaintext")
    way = session.read_back(
        schedule, lambda got: not got.right.all(), results.append, Console(quiet=True)
    )
    assert [got.present.sum() for got in results] == [4, 0, 4]
    assert way.rows() == 8
    assert "1 series could not be read and are missing, as the file of temp" in way.note


def test_points_of_a_coarse_archive_have_their_own_times_again(graphite_host: Host) -> None:
    made = plan("graphite-replay", sensors=20)
    assert made.totals["disk_bytes"] == 20 * (28 + 12 * 1_500)
    spec = load_specs.build(made, ["http://127.0.0.1:1"], ["127.0.0.1:1"], 1.8e9)
    schedule = Schedule(replace(spec, steps=[Step(60_000, 5)], points_per_request=1))
    graphite: Any = known.stack("graphite")
    wanted = {}
    for one, times, found in points_of(schedule):
        file = whisper_path(graphite_host, path_of("history", {"sensor": str(one.number)}))
        wanted[one.number] = [list(pair) for pair in zip(times, found, strict=True)]
        held = {t // 1000: float(v) for t, v in wanted[one.number]}
        file.write_bytes(whisper_file(held, step=60))
    assert {t % 60_000 for points in wanted.values() for t, _ in points} != {0}
    read = {one.number: got.tolist() for one, got in graphite.server.read(graphite_host, schedule)}
    assert read == wanted
    assert graphite.server.count(graphite_host, schedule) == schedule.points


class Slow:
    """A server that has all points only when it is asked again."""

    def __init__(self) -> None:
        self.asked = 0
        self.waits = 900

    def settle(self, _: Host) -> None:
        self.asked += 1
        self.waits -= 100

    def waiting(self, _: Host) -> int:
        return self.waits

    def read(self, _: Host, schedule: Schedule) -> Iterator[tuple[Any, Any]]:
        for one, times, found in points_of(schedule):
            if self.asked > 1 or one.number:
                yield one, np.stack([np.array(times), np.array(found)], axis=1)
        self.waits -= 100  # stored, too late to be read by this pass

    def count(self, _: Host, schedule: Schedule) -> int:
        return schedule.points


def test_what_is_only_late_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_session, "PAUSE_S", 0)
    schedule = small()
    slow: Any = Slow()
    results: list[Any] = []
    told = Told(acknowledgement="", bytes_per_point=1, memory_mib=1)
    session = single_session.Session("slow", slow, host(), told, Ways(), "line")
    way = session.read_back(
        schedule, lambda got: not got.right.all(), results.append, Console(quiet=True)
    )
    assert (way.passes, way.rows()) == (2, schedule.points)
    assert way.waiting == 600  # as the second pass began to read
    assert len(results) == 3
    assert all(got.present.all() and got.right.all() for got in results)


def test_files_that_vanish_while_a_store_is_measured_count_nothing(
    graphite_host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As du says it, which ends with 1 then: these systems rename and delete by themselves."""
    folder = tmp_path / "store"
    server: Any = SimpleNamespace(settle=lambda _: None, data=lambda _: folder)
    events = JsonLines(tmp_path / "events.jsonl")
    captures = single_session.Captures(server, graphite_host, tmp_path, events)
    assert captures.stored_bytes() is None
    folder.mkdir()
    (folder / "file").write_bytes(b"x" * 100_000)
    measured = captures.stored_bytes()
    assert measured is not None
    assert measured >= 100_000
    gone = f"du: cannot access '{folder}/part': No such file or directory"
    denied = f"du: cannot read directory '{folder}/part': Permission denied"
    du = tmp_path / "du"
    for said, found in ((gone, 4096), (f"{gone}\n{gone}", 4096), (f"{gone}\n{denied}", None)):
        du.write_text(f'#!/bin/sh\necho "{said}" >&2\nprintf "4096\\t$3\\n"\nexit 1\n')
        du.chmod(0o755)
        with monkeypatch.context() as there:
            there.setenv("PATH", str(tmp_path), prepend=":")
            assert captures.stored_bytes() == found
    told = [json.loads(line)["detail"] for line in (tmp_path / "events.jsonl").open()]
    assert [text.partition(": ")[2].rpartition(": ")[2] for text in told] == [
        "No such file or directory",
        "Permission denied",
    ]


def test_nothing_waits_only_where_a_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_session, "LOOK_S", 0)
    told = [7, None, 0, 5]
    server: Any = SimpleNamespace(waiting=lambda _: told.pop(0))
    single_session.wait_for_nothing(server, host(), 60)
    assert told == [5]
    server = SimpleNamespace(waiting=lambda _: None)
    single_session.wait_for_nothing(server, host(), 0.01)


def test_points_are_visible_when_queries_find_them() -> None:
    counts: Any = SimpleNamespace(count=lambda *_: 12)
    told = Told(acknowledgement="", bytes_per_point=1, memory_mib=1)
    for server, seen in (
        (counts, 12),
        (SimpleNamespace(count=lambda *_: 12, found=lambda *_: 7), 7),
    ):
        session = single_session.Session("x", server, host(), told, Ways(), "line")
        assert session.visible(small()) == seen


def test_what_graphite_web_finds_of_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    said = [
        {
            "target": f"temp.sensor.{name}",
            "datapoints": [[1.0, 1_699_999_980], [2.0, 1_700_000_040]],
        }
        for name in ("1", "2", "other")
    ]

    def get(url: str, wanted: Any = None, timeout_s: float = 0) -> bytes:
        given.append((url, wanted))
        return json.dumps(said).encode()

    monkeypatch.setattr(asked, "get", get)
    graphite: Any = known.stack("graphite")
    there = Host("g", "kairosdb", {**host().vars, "listens": {"web HTTP": 81}, "resolution_s": 60})
    assert graphite.server.found(there, small()) == 4
    url, wanted = given[0]
    assert url == "http://127.0.0.1:81/render"
    # From the step on that the first point is in, which graphite-web leaves out.
    assert (wanted["from"], wanted["until"]) == ("1699999979", "1700000003")
    assert wanted["target"] == "temp.sensor.*"
    said[0] = {"target": "temp.sensor.1"}
    with pytest.raises(ValueError, match="unknown form: KeyError: 'datapoints'"):
        graphite.server.found(there, small())


def test_counters_that_were_not_captured_are_missed() -> None:
    looks = [
        {"t": 10.0, "node": "a", "counters": {}},
        {"t": 12.0, "node": "a", "error": "refused"},
        {"t": 13.0, "node": "b", "counters": {}},
        {"t": 14.0, "node": "b", "counters": {}},
        {"t": 99.0, "node": "a", "counters": {}},
    ]
    seen = measurements.looked_twice(looks, 9, 20)
    assert seen == {"b"}
    wanted = completeness.Wanted([], [], [], (), ["a", "b"])
    disk = {"before": 1, "after": 1}
    said = completeness.missing(wanted, [], [], [], [], disk, seen)
    assert [text.partition(" not captured")[0] for text in said] == ["the counters of a"]


# What is said of it


def test_the_report_has_no_storage_tier_where_there_is_none() -> None:
    run = report_data.RunData(
        folder="x",
        plan={"stack": "other"},
        manifest={
            "versions": {"other": "7.1"},
            "nodes": {"kairosdb": ["other-1"], "storage": []},
        },
        measurements={"cpu_us_per_point": {"other": 3.0, "loader": 9.0}},
        verdict={"verdict": "pass", "parts": {}},
    )
    assert reference.compare(run, paths.REFERENCE) == ()
    named = replace(run, plan={"stack": "other", "experiment": {"reference": "single-60k"}})
    assert len(reference.compare(named, paths.REFERENCE)) == 1
    drawn = drawing.of(run)
    assert [(tier.title, tier.detail) for tier in drawn.tiers][1:] == [
        ("1 other server", "version 7.1")
    ]
    assert len(drawn.arrows) == 1
    rows = {row[0]: row[1:] for row in first.quoted(run, first.verdict(run)).rows}
    assert rows["CPU a point, servers"] == ("3 µs", "loaders 9 µs")
    two = replace(run, measurements={"cpu_us_per_point": {"relay": 1.0, "cache": 2.0}})
    rows = {row[0]: row[1:] for row in first.quoted(two, first.verdict(two)).rows}
    beside = "relay 1 µs, cache 2 µs, loaders –"
    assert rows["CPU a point, servers"] == ("3 µs", beside)
    questions = {part.key: part.question for part in first.verdict(run).parts}
    assert questions["queue"] == "what waits in the server does not grow"


def test_a_run_that_failed_is_not_told_of_kairosdb(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    settings = {"queue": None, "batch_size": 1}
    of_other = {"stack": "influxdb", "title": "InfluxDB", "taker": "InfluxDB server"}
    run.change("plan.json", **of_other, settings=[], notices=[], kairosdb=settings)
    queue = JsonLines(run.folder / "queue.jsonl")
    for second in range(30):
        for node in NODES:
            queue.write(t=run.began_s + second + 0.1, node=node, waiting=900 * second)
    quiet = run.json("load/worker-1.json")["silence"]
    long = {"longest_s": 7.5, "from_t": run.began_s}
    run.change("load/worker-1.json", silence=quiet | {"by_node": [long, quiet["by_node"][1]]})
    run.drained(after_s=60, left=None)
    series = next(iter(run.schedule.series()))
    (t, _), *_ = load_samples.points_of(run.schedule, series)
    name = run.schedule.spec.metric_name(series.number)
    run.read_back({series.number: 5}, [settlement.FailedPoint(name, t, "no room")])
    judged = run.judge()
    failed = [name for name, part in judged.parts.items() if part.outcome == "fail"]
    assert failed == ["schedule", "queue", "drain", "readback"]
    assert "not every node told how much waits on it" in judged.parts["drain"].text
    assert "1 given up by the servers (1 × no room)" in judged.parts["readback"].text
    screen = Console(file=io.StringIO(), width=200)
    show(judged, screen)
    _, markdown = report.write(run.folder, paths.REFERENCE)
    page = markdown.with_suffix(".html").read_text()
    assert "InfluxDB queue depth" in page
    assert re.findall(".{30}KairosDB.{30}", page) == []
    told = [screen.file.getvalue(), markdown.read_text()]  # type: ignore[attr-defined]
    told += [(run.folder / name).read_text() for name in ("verdict.json", "ledger.json")]
    for text in told:
        assert "KairosDB" not in text


@pytest.mark.parametrize(
    ("after_s", "planned", "word"),
    [(12, None, "incomplete"), (12, "fault", "pass"), (12, "kill", "pass"), (1000, None, "pass")],
)
def test_the_only_server_that_ends_in_mid_load_makes_a_run_incomplete(
    after_s: float, planned: str | None, word: str, tmp_path: Path
) -> None:
    """But not by a fault that was planned, nor behind the load (`--kill-after`)."""
    run = run_of(tmp_path)
    run.read_back()
    captures = asdict(run_folder.Expected([], [], [*NODES], disk=True))
    run.change("manifest.json", nodes={"kairosdb": NODES, "storage": []}, captures=captures)
    t = run.began_s + after_s
    for what in ("process ended", "process started again"):
        # A process of the server, by its own name.
        run.state.events.write(t=t, what=what, detail="cache-a: pid 7")
    if planned == "kill":
        run_folder.write_json(tmp_path / run_folder.KILLED, {"t": t - 0.1})
    if planned == "fault":
        told = {"fault": 1, "action": "kill", "hosts": [NODES[0]], "text": "kill", "detail": ""}
        for event, at in (("planned", t), ("begun", t), ("undone", t + 0.5)):
            JsonLines(tmp_path / run_folder.FAULTS).write(t=at, event=event, **told)
    judged = run.judge()
    assert judged.verdict == word, judged.reasons
    assert any("cache-a" in text for text in judged.happened)


def test_what_came_in_and_what_was_written_is_one_picture() -> None:
    flows = {"received": "in", "committed": "out"}
    looks = [
        {
            "t": 100.0 + 2 * n,
            "node": "x",
            "counters": {"a/in": 50, "b/in": 30, "a/out": n, "b/c": 9},
        }
        for n in range(4)
    ]
    looks[2] = {"t": 104.0, "node": "x", "error": "refused"}
    run = report_data.RunData(
        folder="x", manifest={"captures": {"flows": flows}}, counters=tuple(looks)
    )
    chart = charts_of_points.flows(run)
    assert chart is not None
    assert {line.label: line.values for line in chart.series} == {
        "received": (80.0, 80.0, None, 80.0),
        "committed": (0.0, 1.0, None, 3.0),
    }
    assert charts_of_points.flows(replace(run, manifest={})) is None


def test_files_that_such_servers_have_none_of_are_not_missing(tmp_path: Path) -> None:
    manifest = {"captures": {"proxyhistograms": [], "not_judged": {"drain": "why"}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    missing = {each.file for each in report_data.read(tmp_path).missing}
    assert "plan.json" in missing
    assert not missing & {"queue.jsonl", "proxyhistograms/captures.json"}
    (tmp_path / "manifest.json").write_text(json.dumps({"captures": {"proxyhistograms": ["a"]}}))
    missing = {each.file for each in report_data.read(tmp_path).missing}
    assert {"queue.jsonl", "proxyhistograms/captures.json"} <= missing


def test_verbs_that_know_kairosdb_alone_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    (tmp_path / "local").mkdir()
    made = plan("influxdb")
    (tmp_path / "local" / "plan.json").write_text(made.to_json())
    hosts = {"kairosdb": {"hosts": {"influxdb-1": {"address": f"{local_net()}.1"}}}}
    inventory.write(
        tmp_path / "local" / "inventory.yml", {"all": {"vars": {}, "children": hosts}}, "here"
    )
    with pytest.raises(UserError, match="deployed with influxdb, and this verb looks after Kairos"):
        enter_kairosdb("local")
    with pytest.raises(
        UserError, match=r"deployed with influxdb, the experiment's stack is kairosd"
    ):
        deploy.check_shape(plan("laptop"), known.target("local"), known.stack("kairosdb"))


@pytest.mark.parametrize(
    ("there", "wanted", "said"),
    [
        ("graphite-ha", "graphite-1", "system.caches = 8, .* and the experiment wants 1"),
        ("graphite-1", "graphite-replay", "system.resolution_s = 1, .* the experiment wants 60"),
        ("gnocchi", "gnocchi-batch", r"system.retention_s = 3600, .*wants 6000. First: make dest"),
        ("graphite-1", "graphite-creates", ""),
        ("influxdb", "influxdb", ""),
        ("laptop", "laptop", ""),
    ],
)
def test_what_is_there_from_the_first_deploy_on_is_not_changed_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, wanted: str, said: str
) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "plan.json").write_text(plan(there).to_json())
    monkeypatch.setattr(type(known.target("local")), "check_same", lambda _: None)
    new = plan(wanted)
    refused = pytest.raises(UserError, match=said) if said else contextlib.nullcontext()
    with refused:
        deploy.check_shape(new, known.target("local"), known.stack(new.stack))


@pytest.mark.parametrize("stack", OTHERS, ids=lambda stack: stack.name)
def test_what_is_fixed_is_a_setting(stack: Any) -> None:
    assert set(stack.fixed) <= set(plan(EXPERIMENTS[stack.name]).kairosdb)
