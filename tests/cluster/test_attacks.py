"""What any client, a full disk and a sick store can do to the queue, with real processes.

Whatever it is: what was acknowledged is stored, or is a dead letter with its reason, and those who
have done nothing notice nothing.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from attacks import MIB, Disk, now_ms, point, post
from deployment import STORAGE, Deployment, Run, request, standing, variant
from harness import SCYLLA, SERVER, STORE, wait_for

from kairoscope.deploy.operate import queue
from kairoscope.hosts import inventory

pytestmark = pytest.mark.faults

WINDOW_MS = 3000
WRITTEN_MS = 5000
STORED_MS = WINDOW_MS + WRITTEN_MS
FROZEN_S = 60
GONE_S = 12
ANSWERED_S = 10
# Restarts with torn files, each minutes; hundreds of copies are torn further below.
TEARS = 3
SEED = 20261124
LIMITS = {"p99_ms": 5000}


class Attacked(Deployment):
    """A cluster with the coalescing queue, and what attacks of it need."""

    def __init__(
        self,
        jvm: str = "quick",
        kairosdb_nodes: int = 1,
        sensors: int = 300,
        *,
        storage_nodes: int = 3,
        duration_s: int = 90,
        **kairosdb: Any,
    ) -> None:
        super().__init__()
        self.experiment = self.write(
            "attacks",
            variant(
                cluster={
                    "jvm": jvm,
                    "kairosdb_nodes": kairosdb_nodes,
                    "storage_nodes": storage_nodes,
                },
                storage=STORE,
                load={
                    "sensors": sensors,
                    "rate": 1,
                    "duration_s": duration_s,
                    "retry_for_s": 300,
                    "failover_after_s": 1,
                },
                limits=LIMITS,
            )
            | {"kairosdb": {"queue_window_ms": WINDOW_MS, **kairosdb}},
        )

    @property
    def other_url(self) -> str:
        """Of the second KairosDB."""
        return f"http://{self.net}.2:8080"

    def hosts(self) -> inventory.Inventory:
        """What is deployed."""
        return inventory.read(self.state / "inventory.yml")

    def names(self, prefix: str) -> list[str]:
        """The metrics that there are, by KairosDB's list of their names."""
        found: list[str] = request(f"{self.url}/api/v1/metricnames?prefix={prefix}")["results"]
        return found

    @contextlib.contextmanager
    def killed(self, *names: str) -> Iterator[None]:
        """Processes killed, KairosDB unless said, and not started again before the block's end."""
        pids = [self.pids()[name] for name in names or ("kairosdb-1",)]
        assert all(pids)
        os.kill(self.supervisord, signal.SIGSTOP)
        try:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            time.sleep(1)
            yield
        finally:
            os.kill(self.supervisord, signal.SIGCONT)


# --- a full disk


@contextlib.contextmanager
def own_disk(cluster: Attacked) -> Iterator[Disk]:
    """A small disk for the queue of the first KairosDB, of a cluster that is not deployed yet."""
    disk = cluster.scratch / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400m", "attacks", disk],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        cluster.remove()
        if os.environ.get("CI"):
            pytest.fail(f"no file system could be mounted: {mounted.stderr}")
        pytest.skip(f"a full disk needs root, to mount one: {mounted.stderr.strip()}")
    try:
        # Where the queue will be: a link, so that whoever removes the home does not meet a mount.
        (disk / "queue").mkdir()
        cluster.queue_folder.parent.mkdir(parents=True)
        cluster.queue_folder.symlink_to(disk / "queue")
        yield Disk(disk)
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
        cluster.remove()


ON_SMALL_DISK = {"queue_disk_free_mb": 16, "queue_disk_mb": 1024}


@pytest.fixture(scope="module", params=["quick", "full"])
def small_disk(request: pytest.FixtureRequest) -> Iterator[tuple[Attacked, Disk]]:
    """A cluster whose queue is on a disk of its own, with either of Java's compilers."""
    cluster = Attacked(str(request.param), **ON_SMALL_DISK)
    with own_disk(cluster) as disk, standing(cluster, *SERVER):
        yield cluster, disk


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Attacked, Disk]]:
    """Two KairosDBs on one store; the queue of the first is on a disk of its own."""
    cluster = Attacked(kairosdb_nodes=2, **ON_SMALL_DISK)
    with own_disk(cluster) as disk, standing(cluster, *SERVER):
        yield cluster, disk


def fill_by_rest(
    cluster: Attacked, disk: Disk, what: str, text_bytes: int = 4000
) -> dict[str, int]:
    """Post until it is refused, again and again; how many points of which metric were taken."""
    taken, refused = {}, 0
    for number in range(10_000):
        name, now = f"{what}.{number}", now_ms()
        points = [[now - i, "x" * text_bytes] for i in range(100)]
        body = {"name": name, "type": "string", "tags": {"a": "b"}, "datapoints": points}
        answer = post(cluster.url, [body])
        if answer.status == 204:
            taken[name] = len(points)
        else:
            assert answer.status == 503, answer
            assert answer.retry_after
            refused += 1
            if refused == 20:
                return taken
            time.sleep(0.1)
        if number == 20:
            disk.fill(leave=20 * MIB)
    pytest.fail("the disk is never full")


def fill_by_telnet(cluster: Attacked, disk: Disk, what: str) -> dict[str, int]:
    """Send lines until none is taken any more; how many the queue says it took."""
    before = int(cluster.metrics()["kairosdb_queue_put_points_total"])
    tags = " ".join(f"tag{i}={'y' * 180}" for i in range(4))
    now = now_ms()
    with socket.create_connection((f"{cluster.net}.1", 4242)) as line:
        for number in range(400):
            lines = (f"putm {what} {now - number * 1000 - i} {i} {tags}\n" for i in range(1000))
            line.sendall("".join(lines).encode())
            if number == 40:
                disk.fill(leave=20 * MIB)
        line.sendall(b"version\n")
        line.settimeout(60)
        assert line.recv(100)
    taken = int(cluster.metrics()["kairosdb_queue_put_points_total"]) - before
    assert taken < 400_000
    return {what: taken}


def of_the_disk(troubles: list[str]) -> bool:
    """Whether a queue says that its disk is full: with the store away it is not well anyway."""
    return any("the disk of the queue has no room" in trouble for trouble in troubles)


@pytest.mark.parametrize("fill", [fill_by_rest, fill_by_telnet])
def test_a_full_disk_keeps_what_was_acknowledged(
    small_disk: tuple[Attacked, Disk],
    fill: Callable[[Attacked, Disk, str], dict[str, int]],
    record_property: Callable[[str, Any], None],
) -> None:
    cluster, disk = small_disk
    what = fill.__name__
    with cluster.frozen(*STORAGE):
        taken = fill(cluster, disk, what)
        wait_for("a queue that says so", lambda: of_the_disk(cluster.queue()["troubles"]), 30)
        assert cluster.health() in (500, 0)
        os.kill(cluster.pids()["kairosdb-1"], signal.SIGKILL)
        # It is started again, and waits for the store.
        time.sleep(5)
    try:
        # Not well, while the disk is full; but the store has all that waits.
        cluster.wait_until_stored()
        assert cluster.queue()["unreadable"] == 0
        found = cluster.counts(taken)
        points = sum(taken.values())
        lost = sum(count - found[metric] for metric, count in taken.items())
        record_property(
            "attacked",
            f"disk full, {what} | {points:,} | {lost:,} | 0 |",
        )
        assert points > 1000
        assert found == taken

    finally:
        disk.ballast.unlink(missing_ok=True)

    def takes() -> bool:
        return post(cluster.url, [point("after", now_ms(), 1)]).status == 204

    wait_for("points being taken again", takes, 60)
    cluster.wait_until_well()


# --- under a load that has nothing to do with it


@pytest.fixture(scope="module")
def victim() -> Iterator[Attacked]:
    with standing(Attacked(), *SERVER) as cluster:
        yield cluster


def innocent(run: Run) -> str:
    """A load that must have met nothing of what was done beside it; what it measured."""
    run.end()
    book, parts = run.json("ledger.json"), run.json("verdict.json")["parts"]
    assert book["acknowledged"] > 0
    assert book["stored"] == book["acknowledged"] == book["scheduled"], book["notes"]
    assert (book["missing"], book["wrong_value"], book["queued"], book["unexpected"]) == (0,) * 4
    for name in ("readback", "latency"):
        assert parts[name]["outcome"] == "pass", parts[name]
    given_up, p99_ms = book["failed_logged"], parts["latency"]["figure"]
    return f"{book['acknowledged']:,} | 0 | {given_up} | {p99_ms:.0f} ms"


YEARS = 365 * 86_400
NUMBERS = ("1e400", "-1e400", "9223372036854775808", "1e-400", "NaN", '"NaN"', "Infinity", '"1e5"')


@functools.cache
def _bomb() -> bytes:
    return gzip.compress(b"[" + b" " * 400_000_000 + b"]", 1)


@dataclass
class Poison:
    """Bad posts, one after the other, each with good points beside."""

    url: str
    good: dict[str, int] = field(default_factory=dict)
    """Points of metrics that must be there."""
    bad: set[str] = field(default_factory=set)
    posts: int = 0
    large: int = 0
    number: int = 0

    def name(self, kind: str) -> str:
        self.number += 1
        return f"attack.{kind}.{self.number}"

    def taken(self, body: bytes | list[Any], status: int, taken: int, **headers: str) -> None:
        self.posts += 1
        self.large += status == 413
        answer = post(self.url, body, **headers)
        assert answer.status == status, answer
        assert answer.document["errors"]
        assert answer.document["taken"] == taken, answer

    def times_to_live(self) -> None:
        refused = [700_000_000, -1, 2**31]
        # ScyllaDB can say a time after 2038, Cassandra as it is set up here cannot.
        late = [15 * YEARS, 629_000_000]
        for ttl in late if SCYLLA else []:
            good = self.name("good")
            assert post(self.url, [point(good, now_ms(), 1, ttl=ttl)]).status == 204
            self.good[good] = 1
        for ttl in refused if SCYLLA else refused + late:
            good, bad = self.name("good"), self.name("ttl")
            t = now_ms()
            self.taken([point(bad, t, 1, ttl=ttl), point(good, t, 1)], 400, 1)
            self.good[good] = 1
            self.bad.add(bad)

    def numbers(self) -> None:
        for number in NUMBERS:
            good, bad = self.name("good"), self.name("number")
            t = now_ms()
            body = json.dumps([point(bad, t, 12345), point(good, t, 1)]).replace("12345", number)
            self.taken(body.encode(), 400, 1)
            self.good[good] = 1
            self.bad.add(bad)

    def malformed(self) -> None:
        good = [self.name("good") for _ in range(10)]
        body = json.dumps([point(name, now_ms(), 1) for name in good]).encode()
        middle = body.index(f'"{good[5]}"'.encode())
        self.taken(body[:middle] + b"}{" + body[middle:], 400, 5)
        self.good |= dict.fromkeys(good[:5], 1)
        self.bad |= set(good[5:])

    def one_of_a_hundred(self) -> None:
        names = [self.name("good") for _ in range(100)]
        points = [point(name, now_ms(), n) for n, name in enumerate(names)]
        points[50]["ttl"] = 700_000_000
        self.taken(points, 400, 99)
        self.bad.add(names.pop(50))
        self.good |= dict.fromkeys(names, 1)

    def too_large(self) -> None:
        self.taken(b"[" + b" " * 40_000_000 + b"]", 413, 0)

    def bomb(self) -> None:
        self.taken(_bomb(), 413, 0, Content_Encoding="gzip")

    def all(self, number: int, address: str) -> None:
        """One of each kind; the large ones only now and then, as they take their time."""
        self.times_to_live()
        self.numbers()
        self.malformed()
        self.one_of_a_hundred()
        self.telnet(address)
        if number % 3 == 0:
            self.too_large()
            self.bomb()

    def check(self, cluster: Attacked) -> None:
        """What was good is there, and of what was bad not even the name."""
        assert cluster.counts(self.good) == self.good
        known = set(cluster.names("attack."))
        assert self.bad & known == set()
        assert set(self.good) <= known

    def telnet(self, address: str) -> None:
        good, bad = self.name("good"), self.name("telnet")
        t = now_ms()
        with socket.create_connection((address, 4242)) as line:
            line.sendall(
                f"put {bad} {t} 1 a=b kairos_opt.ttl=700000000\n"
                f"put {good} {t} 1 a=b\n"
                f"put {bad} {t} NaN a=b\n"
                f"putm {bad} {t} 1e400 a=b\n"
                f"putm {good} {t + 1} 2 a=b\nversion\n".encode()
            )
            line.settimeout(30)
            assert line.recv(100)
        self.good[good] = 2
        self.bad.add(bad)


def test_poisoned_posts_are_refused_and_the_good_ones_stored(
    victim: Attacked, record_property: Callable[[str, Any], None]
) -> None:
    poison = Poison(victim.url)
    before = len(victim.dead())
    with victim.in_mid_load() as run:
        until = run.spec().end_ms / 1000 - 5
        for number in itertools.count():
            if time.time() > until:
                break
            poison.all(number, f"{victim.net}.1")
            assert victim.health() == 204
            time.sleep(1)
        figures = innocent(run)
    record_property("attacked", f"{poison.posts} poisoned posts | {figures}")
    victim.wait_until_stored()
    poison.check(victim)
    assert len(victim.dead()) == before


# Cassandra says which size; of ScyllaDB each replica fails, and the coordinator tells how many.
REFUSES = r"\d failed\)" if SCYLLA else "maximum allowed size"


def test_points_that_the_store_refuses_for_good_are_dead_letters(
    victim: Attacked, record_property: Callable[[str, Any], None]
) -> None:
    """No index takes a value of 64 KiB: a text which the door takes."""
    good: list[str] = []
    bad: list[str] = []
    oldest, unhealthy = 0, 0
    before = len(victim.dead())
    with victim.in_mid_load() as run:
        victim.execute("CREATE INDEX attacks ON kairosdb.data_points (value)")
        try:
            until = run.spec().end_ms / 1000 - 10
            while time.time() < until:
                number, t = len(bad), now_ms()
                names = [f"dead.{number}.beside.{i}" for i in range(20)]
                bad.append(f"dead.{number}")
                points = [point(name, t, 1) for name in names]
                points.insert(7, point(bad[-1], t, "x" * 65_535, type="string"))
                assert post(victim.url, points).status == 204
                good += names
                # A query would have what waits stored at once: none asks for these before the end.
                oldest = max(oldest, victim.queue()["oldest_ms"])
                unhealthy += victim.health() != 204
                time.sleep(1)
            victim.wait_until_stored()
        finally:
            victim.execute("DROP INDEX kairosdb.attacks")
        figures = innocent(run)
    record_property("attacked", f"{len(bad)} points that the store refuses | {figures}")
    assert unhealthy == 0
    assert oldest <= STORED_MS
    letters = victim.dead()[before:]
    assert sorted(letter.metric for letter in letters if letter) == sorted(bad)
    assert all(letter and re.search(REFUSES, letter.reason) for letter in letters)
    assert victim.counts(good) == dict.fromkeys(good, 1)
    said = victim.well("queue", "inspect")
    assert f"{before + len(bad)} dead letters" in said
    assert re.search(REFUSES, said)
    assert "kairoscope queue inspect" in victim.status().stdout


AWAY = "ALTER TABLE kairosdb.data_points RENAME column1 TO attacked"
BACK = "ALTER TABLE kairosdb.data_points RENAME attacked TO column1"


def test_a_table_that_is_gone_for_a_while_makes_all_wait(
    victim: Attacked, record_property: Callable[[str, Any], None]
) -> None:
    attacks = {
        # No column of that name: no point can be written.
        "data_points": (AWAY, BACK),
        "string_index": (
            "DROP TABLE kairosdb.string_index",
            "CREATE TABLE kairosdb.string_index "
            "(key blob, column1 text, value blob, PRIMARY KEY ((key), column1))",
        ),
    }
    before = len(victim.dead())
    names = []
    with victim.in_mid_load() as run:
        for table, (away, back) in attacks.items():
            victim.execute(away)
            try:
                names.append(f"gone.{table}")
                assert post(victim.url, [point(names[-1], now_ms(), 1)]).status == 204
                wait_for("an unhealthy node", lambda: victim.health() == 500, 20)
                since = time.monotonic()
                while time.monotonic() < since + GONE_S:
                    assert victim.health() == 500
                    said = victim.queue()
                    assert not said["healthy"]
                    assert table in " ".join(said["troubles"])
                    time.sleep(1)
                assert "not in the store" not in victim.status().stdout
            finally:
                victim.execute(back)
            wait_for("a healthy node", lambda: victim.health() == 204, 30)
        figures = innocent(run)
    record_property("attacked", f"data_points and string_index away for {GONE_S} s | {figures}")
    assert len(victim.dead()) == before
    assert victim.counts(names) == dict.fromkeys(names, 1)
    known = request(f"{victim.url}/api/v1/metricnames?prefix=gone.")["results"]
    assert "gone.string_index" in known


BUSY_SENSORS = 10_000
BUSY_WINDOW_MS = 15_000
"""As the plan's own, of some thousand sensors and more."""


@pytest.fixture
def busy() -> Iterator[Attacked]:
    with standing(
        Attacked(sensors=BUSY_SENSORS, queue_window_ms=BUSY_WINDOW_MS), *SERVER
    ) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("who", "stored_ms"), [("victim", STORED_MS), ("busy", BUSY_WINDOW_MS + WRITTEN_MS)]
)
def test_a_frozen_storage_node_costs_nothing(
    who: str,
    stored_ms: int,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, Any], None],
) -> None:
    victim: Attacked = request.getfixturevalue(who)
    answers: list[float] = []
    failures: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            since = time.monotonic()
            try:
                if (status := victim.health()) != 204:
                    failures.append(f"health check: {status}")
                victim.query("nothing", 1, 2)
                answers.append(time.monotonic() - since)
            except OSError as error:
                failures.append(str(error))
            time.sleep(1)

    with victim.in_mid_load() as run:
        before, since = victim.metrics(), time.monotonic()
        asker = threading.Thread(target=ask)
        with victim.frozen("storage-2"):
            asker.start()
            time.sleep(FROZEN_S)
        # What waited then is stored by now, or is too late.
        time.sleep(stored_ms / 1000)
        stop.set()
        asker.join()
        after, took_s = victim.metrics(), time.monotonic() - since
        figures = innocent(run)
    stored_after = "kairosdb_queue_stored_after_seconds"
    put, stored, in_time, total = (
        after[series] - before[series]
        for series in (
            "kairosdb_queue_put_points_total",
            "kairosdb_queue_stored_points_total",
            f'{stored_after}_bucket{{le="{stored_ms / 1000:g}"}}',
            f"{stored_after}_count",
        )
    )
    record_property("attacked", f"one of three storage nodes frozen for {FROZEN_S} s | {figures}")
    assert failures == []
    assert max(answers) < ANSWERED_S
    # What is not stored yet has no time to count: no more of it than came in just now.
    assert put - stored <= put * (stored_ms / 1000) / took_s
    assert total - in_time <= total / 100, f"{total - in_time:,.0f} of {total:,.0f} were late"


QUORUM_GONE_S = 60
GONE_NOTICED_S = 35
"""Until the nodes that are left say at once that there is no quorum, have no write wait, and what
waited for that is stored. ScyllaDB's take 20 s (failure_detector_timeout_in_ms): on 5.2.19 without
optimisation it was 22 to 26 s."""


@pytest.fixture
def four() -> Iterator[Attacked]:
    """Of four storage nodes two are in half of the ranges together."""
    with standing(Attacked(storage_nodes=4, duration_s=180), *SERVER) as cluster:
        yield cluster


def test_ranges_without_a_quorum_keep_no_others_waiting(
    four: Attacked, record_property: Callable[[str, Any], None]
) -> None:
    with four.in_mid_load() as run:
        with four.killed("storage-3", "storage-4"):
            time.sleep(GONE_NOTICED_S)
            before = four.metrics()
            time.sleep(QUORUM_GONE_S - GONE_NOTICED_S)
            after = four.metrics()
        figures = innocent(run)
    four.wait_until_stored()
    grown = {series: after[series] - before.get(series, 0) for series in after}
    put, stored = (grown[f"kairosdb_queue_{what}_points_total"] for what in ("put", "stored"))
    stored_after = "kairosdb_queue_stored_after_seconds"
    in_time = grown[f'{stored_after}_bucket{{le="{STORED_MS / 1000:g}"}}']
    total = grown[f"{stored_after}_count"]
    record_property("attacked", f"two of four storage nodes gone for {QUORUM_GONE_S} s | {figures}")
    # Of the four sets of three nodes two have both; they need not have half of the ring.
    assert 0.2 * put < stored < 0.9 * put
    assert after["kairosdb_queue_parked_points"] > 0
    assert total - in_time <= total / 20, f"{total - in_time:,.0f} of {total:,.0f} were late"
    assert four.metrics()["kairosdb_queue_parked_points"] == 0


# --- a store that is too slow

SLOW_S = 60
RUNS_S, STANDS_S = 0.25, 4.75
"""So long in turn: a write takes longer than Cassandra waits (2 s), and is carried out."""


def test_a_store_that_answers_too_late_is_not_buried(
    busy: Attacked, record_property: Callable[[str, Any], None]
) -> None:
    """All its nodes run for a twentieth of the time, with 10,000 points/s to be stored: what waits
    is stored once they run again, and no sender has noticed."""

    def figure(name: str) -> float:
        series = busy.metrics()
        return sum(
            series[key] for key in series if key.partition("{")[0] == f"kairosdb_queue_{name}"
        )

    with busy.in_mid_load() as run:
        stored, lates = figure("stored_points_total"), figure("node_lates_total")
        end = time.monotonic() + SLOW_S
        while time.monotonic() < end:
            with busy.frozen(*STORAGE):
                time.sleep(STANDS_S)
            time.sleep(RUNS_S)
        stored = figure("stored_points_total") - stored
        lates = figure("node_lates_total") - lates
        figures = innocent(run)
    what = f"all storage nodes stood for 95 % of {SLOW_S} s; {stored:,.0f} points stored meanwhile"
    record_property("attacked", f"{what}, {lates:.0f} times asked for less | {figures}")
    assert lates > 0
    # Buried, it would be next to nothing; 6,800 to 28,600 were seen in its 3 s.
    assert stored > BUSY_SENSORS / 5


# --- rollups

ROLLUPS = """
kairosdb.service.rollups: "org.kairosdb.rollup.RollUpModule"
kairosdb.rollups.server_assignment.check_update_delay_millseconds: 500
kairosdb.host_service_manager.check_delay_time_millseconds: 1000
"""
"""Off in KairosDB and in our configuration: an operator turns them on (limits.md)."""
ROLLED_S = 30


@pytest.fixture
def rolling(victim: Attacked) -> Iterator[Attacked]:
    """A KairosDB that has rollups; as it was afterwards."""
    conf = victim.state / "kairosdb-1" / "conf" / "kairosdb.conf"
    before = conf.read_text()

    def start_again_with(text: str) -> None:
        conf.write_text(text)
        was = victim.pids()["kairosdb-1"]
        os.kill(was, signal.SIGTERM)
        wait_for("another process", lambda: victim.pids()["kairosdb-1"] not in (was, 0), 60)
        victim.wait_until_well()

    start_again_with(before + ROLLUPS)
    try:
        yield victim
    finally:
        start_again_with(before)


def test_a_rollup_leaves_out_nothing_that_waits(
    rolling: Attacked, record_property: Callable[[str, Any], None]
) -> None:
    """One each second, of seconds that are over: none of their points is in the store by itself,
    as the window is longer, and a bucket that is past is not computed again."""
    second = {"value": 1, "unit": "seconds"}
    # At the second's begin, also where it is computed again.
    aligned = {"align_sampling": True, "align_start_time": True}
    aggregator = {"name": "sum", "sampling": second, **aligned}
    asked = {
        "name": "each second",
        "execution_interval": second,
        "rollups": [
            {
                "save_as": "rolled.up",
                "query": {
                    "start_relative": {"value": 1, "unit": "hours"},
                    "metrics": [{"name": "rolled", "aggregators": [aggregator]}],
                },
            }
        ],
    }
    assert WINDOW_MS > 1000
    request(f"{rolling.url}/api/v1/rollups", asked)
    sent: dict[int, int] = {}
    now = now_ms()

    def rolled() -> dict[int, int]:
        return dict(rolling.query("rolled.up", now, now_ms() + 60_000))

    def send() -> None:
        # Of a moment ahead: there before its second is over, on a busy machine too.
        t = now_ms() + 500
        assert post(rolling.url, [point("rolled", t, 1)]).status == 204
        second_of = t // 1000 * 1000
        sent[second_of] = sent.get(second_of, 0) + 1
        time.sleep(0.05)

    def a_first_one() -> bool:
        send()
        return bool(rolled())

    wait_for("the first rollup", a_first_one, 120)
    first = max(rolled())
    until = time.monotonic() + ROLLED_S
    while time.monotonic() < until:
        send()
    last = max(sent)
    wait_for("a rollup of the last second", lambda: max(rolled()) >= last, 60)
    time.sleep(3)
    of_these = {t: count for t, count in sent.items() if first < t <= last}
    found = {t: count for t, count in rolled().items() if t in of_these}
    record_property(
        "attacked",
        f"a rollup each second for {ROLLED_S} s | {sum(sent.values()):,} "
        f"| {sum(of_these.values()) - sum(found.values())} left out | 0 | ",
    )
    assert found == of_these


# --- an operator


def test_an_operator_takes_points_out_of_a_queue(victim: Attacked) -> None:
    """Of a KairosDB that runs: what waits is brought here, and some of it dropped and kept."""
    waiting, kept = victim.scratch / "waiting.jsonl", victim.scratch / "kept.jsonl"
    output = victim.scratch / "dropping.txt"
    victim.wait_until_stored()
    # The store takes none of them, whenever they come.
    victim.execute(AWAY)
    try:
        for i in range(30):
            points = [point("operator.drop", now_ms() + i, i)]
            points += [point("operator.keep", now_ms() + i, i)] if i < 20 else []
            assert post(victim.url, points).status == 204
        victim.well("queue", "export", waiting)
        names = [json.loads(line)["name"] for line in waiting.read_text().splitlines()]
        assert (names.count("operator.drop"), names.count("operator.keep")) == (30, 20)
        # The file is KairosDB's, which has it open.
        host = victim.hosts().kairosdb[0]
        tool = queue.command(host, "drop", "--metric", "operator.drop")
        done = subprocess.run(tool, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "in use by another process" in done.stderr + done.stdout
        dropping = ["queue", "drop", "--metric", "operator.drop", "--to", kept]
        with output.open("w") as file:
            process = victim.start(*dropping, stdout=file, stderr=file)
        wait_for("KairosDB starting", lambda: "starting KairosDB" in output.read_text(), 120)
    finally:
        victim.execute(BACK)
    assert process.wait(300) == 0, output.read_text()
    assert "dropped 30 points of operator.drop" in output.read_text()
    victim.wait_until_stored()
    assert victim.counts(["operator.drop", "operator.keep"]) == {
        "operator.drop": 0,
        "operator.keep": 20,
    }
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert post(victim.url, lines).status == 204
    victim.wait_until_stored()
    assert victim.count("operator.drop") == 30


# --- acknowledgements that survive a loss of power

SYNCED_POSTS = 20


def test_an_acknowledgement_waits_for_the_disk(
    record_property: Callable[[str, Any], None],
) -> None:
    """Of data, index and head, which are on the disk before the answer: by what the kernel is asked
    for. That a disk keeps its word when the power goes is not shown."""
    if not shutil.which("strace"):
        why = "no strace to see what the kernel is asked for: scripts/need strace"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    with standing(Attacked(queue_sync_ms=5), *SERVER) as synced:
        _each_is_on_the_disk(synced)
        with synced.in_mid_load() as run:
            for _ in range(3):
                time.sleep(10)
                os.kill(synced.pids()["kairosdb-1"], signal.SIGKILL)
                wait_for("a healthy node", lambda: synced.health() == 204, 60)
            run.end()
        book = run.json("ledger.json")
    points, given_up = book["acknowledged"], book["failed_logged"]
    lost = book["missing"] + book["wrong_value"] + book["queued"]
    record_property(
        "killed",
        f"synced | KairosDB killed 3 times | {points:,} | {lost:,} | {given_up:,}",
    )
    assert points > 0
    assert book["stored"] == points == book["scheduled"], book["notes"]
    assert lost == 0


def _each_is_on_the_disk(synced: Attacked) -> None:
    said = synced.scratch / "asked.txt"
    command = ["strace", "--follow-forks", "--trace=msync", f"--output={said}"]
    attach = f"--attach={synced.pids()['kairosdb-1']}"
    with subprocess.Popen([*command, attach], stderr=subprocess.DEVNULL) as strace:
        try:
            wait_for("strace", said.exists, 30)
            time.sleep(2)
            for i in range(SYNCED_POSTS):
                before = said.read_text().count("MS_SYNC")
                assert post(synced.url, [point("synced", now_ms() + i, i)]).status == 204
                assert said.read_text().count("MS_SYNC") >= before + 3
                # Nobody waits for the disk now, so that the next one is its own.
                time.sleep(0.1)
        finally:
            strace.terminate()
    assert synced.count("synced") == SYNCED_POSTS


# --- torn files


TORN_BYTES = 100_000


def tear(folder: Path, rng: random.Random) -> None:
    """Some of what a disk had not written, or wrote wrong, at the end of what is used of its pages:
    zeros in data and index, and then the page of data cut off."""
    places = []
    for kind, most in (("data", TORN_BYTES), ("index", TORN_BYTES // 4)):
        written = {
            int(page.stem.removeprefix("page-")): (page, used)
            for page in (folder / "kairos_queue" / kind).glob("page-*.dat")
            # The next page is there before it is needed.
            if (used := len(page.read_bytes().rstrip(b"\0")))
        }
        page, used = written[max(written)]
        places.append((page, used, min(used, most)))
    for page, used, most in places:
        with page.open("r+b") as torn:
            for _ in range(3):
                torn.seek(used - rng.randint(most // 2, most))
                torn.write(bytes(rng.randint(1, 4096)))
    page, used, most = places[0]
    os.truncate(page, used - rng.randint(0, most // 4))


@pytest.mark.parametrize("number", range(TEARS))
def test_torn_files_give_back_what_is_whole(
    victim: Attacked, number: int, record_property: Callable[[str, Any], None]
) -> None:
    rng = random.Random(SEED + number)
    victim.wait_until_stored()
    names = [f"torn.{number}.{i}" for i in range(50)]
    posted = 0
    with victim.frozen(*STORAGE):
        for i in range(40):
            body = [point(name, now_ms() + i, i) for name in names]
            assert post(victim.url, body).status == 204
            posted += len(body)
        before = len(victim.dead())
        with victim.killed():
            original = victim.queue_folder.with_name("queue.original")
            victim.queue_folder.rename(original)
            shutil.copytree(original, victim.queue_folder)
            tear(victim.queue_folder, rng)
    victim.wait_until_well()
    victim.wait_until_stored()
    found = sum(victim.counts(names).values())
    unreadable = victim.queue()["unreadable"]
    record_property(
        "attacked",
        f"files torn in three places; {unreadable:,} points unreadable | "
        f"{posted:,} | {posted - found:,} | 0 |",
    )
    assert 0 < found < posted
    # What was torn may have been stored before; what is not there is said.
    assert posted - found <= unreadable
    assert len(victim.dead()) == before
    after = f"torn.{number}.after"
    assert post(victim.url, [point(after, now_ms(), 1)]).status == 204
    victim.wait_until_stored()
    assert victim.count(after) == 1
    shutil.rmtree(original)


# --- all of it at once, and two nodes


COPIES_OF_ONE = 15
COPIES_AT_LEAST = 200


def snapshot(folder: Path, to: Path) -> None:
    """Copy a queue's files, without the room ahead."""
    for kind in ("meta_data", "index", "data"):
        (to / "kairos_queue" / kind).mkdir(parents=True)
        for page in (folder / "kairos_queue" / kind).glob("page-*.dat"):
            with contextlib.suppress(FileNotFoundError):
                used = page.read_bytes().rstrip(b"\0")
                # What is used may end in zeros.
                (to / "kairos_queue" / kind / page.name).write_bytes(used + bytes(64))


def noted(folder: Path) -> int:
    """Records from the noted tail to the noted head of a queue's files.

    A process can stand still between a record and the note of it: that record nobody has
    acknowledged yet, and where it is torn there is no trace of it.
    """
    head, tail = struct.unpack(
        ">qq", (folder / "kairos_queue" / "meta_data" / "page-0.dat").read_bytes()[:16]
    )
    return int(head - tail)


@dataclass
class Torn:
    """Torn copies of a queue's files, and what KairosDB's plugin makes of them."""

    folder: Path
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))
    whole: list[Path] = field(default_factory=list)
    torn: dict[Path, Path] = field(default_factory=dict)
    """Of each, what it was before."""

    def take(self, cluster: Attacked) -> None:
        """Copy it as it is now, and each copy once more with other places torn.

        KairosDB stands still meanwhile, as if it were killed. In a copy of files that it writes to,
        there are records of after the head that was copied; where the last of these are torn,
        nobody can tell that they ever were.
        """
        original = self.folder / f"{len(self.whole)}"
        with cluster.frozen("kairosdb-1"):
            snapshot(cluster.queue_folder, original)
        self.whole.append(original)
        self._tear(original, COPIES_OF_ONE)

    def fill(self) -> None:
        """Tear those that were copied until there are enough: a busy machine copies few."""
        for original in itertools.cycle(self.whole):
            if len(self.torn) >= COPIES_AT_LEAST:
                break
            self._tear(original, 1)

    def _tear(self, original: Path, copies: int) -> None:
        for _ in range(copies):
            copy = self.folder / f"torn-{len(self.torn)}"
            snapshot(original, copy)
            tear(copy, self.rng)
            self.torn[copy] = original

    def read(self, cluster: Attacked) -> Iterator[tuple[Path, dict[str, Any], set[str]]]:
        """Of each folder, the whole ones first, what `inspect` says of it, and its points."""
        host = cluster.hosts().kairosdb[0]
        jars = f"{host.vars['kairosdb_bundle_dir']}/lib/*"
        each = Path(__file__).with_name("EachQueue.java")
        java = [host.vars["java"], *queue.JAVA_OPTIONS, "-cp", jars]
        command = [*java, each, *self.whole, *self.torn]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            lines = (line.rstrip("\n") for line in process.stdout)
            next(lines)
            for folder in (*self.whole, *self.torn):
                inspected = json.loads(next(lines))
                points = set(itertools.takewhile(lambda line: not line.startswith("# "), lines))
                yield folder, inspected, points
        assert process.returncode == 0

    def check(self, cluster: Attacked) -> int:
        """Nothing comes out that was not in, and what does not is told; how many did not."""
        before: dict[Path, set[str]] = {}
        unnoted: dict[Path, int] = {}
        lost = 0
        for folder, inspected, points in self.read(cluster):
            if folder not in self.torn:
                before[folder] = points
                unnoted[folder] = inspected["since_checkpoint"] - noted(folder)
                # Only one is written at a time.
                assert 0 <= unnoted[folder] <= 1, folder
                continue
            original = before[self.torn[folder]]
            assert points <= original, folder
            told = inspected["unreadable"] + unnoted[self.torn[folder]]
            assert len(original - points) <= told, folder
            lost += len(original - points)
        return lost


def test_all_of_it_at_once(
    pair: tuple[Attacked, Disk], record_property: Callable[[str, Any], None]
) -> None:
    """Against one of two nodes: poisoned posts, bodies that are too large, a disk that is full;
    and its files copied and torn. Its sensors go to the other node while it takes nothing."""
    cluster, disk = pair
    poison = Poison(cluster.url)
    torn = Torn(cluster.scratch / "copies")
    taken: dict[str, int] = {}
    before = len(cluster.dead())
    with cluster.in_mid_load() as run:
        until = run.spec().end_ms / 1000 - 10
        half = (time.time() + until) / 2
        for number in itertools.count():
            if time.time() > until:
                break
            poison.all(number, f"{cluster.net}.1")
            if len(torn.torn) < COPIES_AT_LEAST:
                torn.take(cluster)
            if not taken and time.time() > half:
                with cluster.frozen(*STORAGE):
                    taken = fill_by_rest(cluster, disk, "full", text_bytes=20_000)
                    assert of_the_disk(cluster.queue()["troubles"])
                    assert cluster.health() in (500, 0)
                disk.ballast.unlink()
                wait_for("a healthy node", lambda: cluster.health() == 204, 60)
            # What is posted is asked for afterwards, metric by metric.
            time.sleep(1)
        figures = innocent(run)
    cluster.wait_until_stored()
    points = sum(taken.values())
    assert points > 1000
    assert cluster.counts(taken) == taken
    poison.check(cluster)
    assert len(cluster.dead()) == before
    assert cluster.queue()["unreadable"] == 0
    torn.fill()
    lost = torn.check(cluster)
    assert lost > len(torn.torn), "the tears were none"
    record_property(
        "attacked",
        f"of two nodes one: {poison.posts:,} poisoned posts, {poison.large} of them too large, "
        f"{points:,} points until its disk was full, {len(torn.torn)} torn copies of its files "
        f"| {figures}",
    )


def test_a_delete_on_one_node_and_the_points_of_the_other(pair: tuple[Attacked, Disk]) -> None:
    cluster, _ = pair
    name, t = "deleted", now_ms()

    def delete() -> None:
        url = f"{cluster.other_url}/api/v1/metric/{name}"
        asked = urllib.request.Request(url, method="DELETE")  # noqa: S310 (ours)
        urllib.request.urlopen(asked, timeout=60).close()  # noqa: S310

    def found() -> list[int]:
        return [cluster.count(name, url) for url in (cluster.url, cluster.other_url)]

    assert post(cluster.url, [point(name, t, 1)]).status == 204
    cluster.wait_until_stored()
    assert found() == [1, 1]
    # This one waits on the first node, of which the second knows nothing.
    assert post(cluster.url, [point(name, t + 1, 2)]).status == 204
    delete()
    cluster.wait_until_stored()
    assert found() == [0, 0]
    assert name not in cluster.names(name)
    # And the first node has the row in its cache, as if the index had it still.
    assert post(cluster.url, [point(name, t + 2, 3)]).status == 204
    cluster.wait_until_stored()
    wait_for("the points after the delete", lambda: found() == [1, 1], 60)
    assert cluster.query(name, t, t + 1000) == [[t + 2, 3]]
