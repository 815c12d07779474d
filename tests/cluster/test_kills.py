"""Servers killed and frozen under load, again and again: no acknowledged point may be missing.

With the coalescing queue that is asserted; with KairosDB's own the same is done and reported, as
what there is to be compared with. Rows of results/published/ are in the summary of the tests. On
ScyllaDB with SCYLLA=<archive or folder> in the environment.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from deployment import STORAGE, Deployment, Run, request, standing, variant
from harness import SERVER, STORE, wait_for

pytestmark = pytest.mark.faults

KILLS = 50
STORAGE_KILLS = 6
PAUSES, PAUSE_S = 2, 60
SEED = 20261122


@pytest.fixture(scope="module", params=["coalescing", "stock"])
def queue(request: pytest.FixtureRequest) -> str:
    """Which queue KairosDB has."""
    return str(request.param)


@contextlib.contextmanager
def cluster_with(**kairosdb: Any) -> Iterator[Deployment]:
    """A cluster of its own with these settings."""
    cluster = Deployment()
    cluster.experiment = cluster.write(
        "kills",
        variant(storage=STORE, load={"rate": 1, "duration_s": 300, "retry_for_s": 300})
        | {"kairosdb": kairosdb},
    )
    with standing(cluster, *SERVER):
        yield cluster


COALESCING: dict[str, Any] = {"queue": "coalescing", "queue_window_ms": 3000}


@pytest.fixture(scope="module")
def victim(queue: str) -> Iterator[Deployment]:
    """One with that queue."""
    with cluster_with(**(COALESCING if queue == "coalescing" else {"queue": queue})) as cluster:
        yield cluster


def well(cluster: Deployment) -> bool:
    try:
        request(f"{cluster.url}/api/v1/health/check", timeout_s=2)
    except OSError:
        return False
    return True


def loading(run: Run, margin_s: float = 10) -> bool:
    """Whether the load goes on for a while yet."""
    return run.process.poll() is None and time.time() < run.spec().end_ms / 1000 - margin_s


def kill(cluster: Deployment, name: str) -> int:
    """Kill a server as the kernel does when memory is short; 0 if it does not run just now."""
    pid = cluster.pids()[name]
    if pid:
        os.kill(pid, signal.SIGKILL)
    return int(pid > 0)


def kill_kairosdb(cluster: Deployment, run: Run, rng: random.Random) -> int:
    """Kill it at random moments, from when it answers again; how often."""
    kills = 0
    while loading(run):
        # A third of them in the start, with what is on its disk under way to the store.
        time.sleep(rng.uniform(0, 5))
        kills += kill(cluster, "kairosdb-1")
        wait_for("KairosDB", lambda: well(cluster) or run.process.poll() is not None, 120)
    return kills


def kill_storage(cluster: Deployment, run: Run, rng: random.Random) -> int:
    """Kill storage nodes one after the other, each once all are back; how often."""
    kills = 0
    while loading(run):
        # One node at a time may be without what it had: time for hints to be delivered.
        time.sleep(rng.uniform(5, 15))
        kills += kill(cluster, rng.choice(STORAGE))
        cluster.wait_until_well()
    return kills


def freeze_storage(cluster: Deployment, run: Run, rng: random.Random) -> int:
    """Stop all storage nodes for a while; how often."""
    pauses = 0
    while loading(run, margin_s=PAUSE_S + 30):
        time.sleep(rng.uniform(0, 10))
        pids = [cluster.pids()[name] for name in STORAGE]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(PAUSE_S)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        pauses += 1
        cluster.wait_until_well()
    return pauses


TROUBLES: dict[str, tuple[str, int, Callable[[Deployment, Run, random.Random], int]]] = {
    "kairosdb-killed": ("KairosDB killed {} times", KILLS, kill_kairosdb),
    "storage-killed": ("a storage node killed {} times", STORAGE_KILLS, kill_storage),
    "storage-frozen": (
        f"all storage nodes frozen {{}} times for {PAUSE_S} s",
        PAUSES,
        freeze_storage,
    ),
}


def test_with_one_replica_to_say_so_none_is_missing_either(
    record_property: Callable[[str, Any], None],
) -> None:
    """A node that is killed has what it acknowledged alone in its memory only: the queue keeps that
    and writes it again."""
    with cluster_with(**COALESCING, write_consistency="ONE") as victim:
        suffer(victim, "coalescing, ONE", "storage-killed", record_property)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_acknowledged_point_is_missing(
    victim: Deployment,
    queue: str,
    trouble: str,
    record_property: Callable[[str, Any], None],
) -> None:
    suffer(victim, queue, trouble, record_property)


def suffer(
    victim: Deployment, queue: str, trouble: str, record_property: Callable[[str, Any], None]
) -> None:
    """Loads with a trouble, and what became of their points."""
    text, wanted, happen = TROUBLES[trouble]
    rng = random.Random(SEED)
    happened, books = 0, []
    while happened < wanted:
        # A few minutes of load each: however slow the machine is, one ends before too long.
        with victim.loading() as run:
            wait_for("acknowledged points", lambda run=run: run.acknowledged() > 600)
            happened += happen(victim, run, rng)
            run.end(timeout_s=900)
        # Not the verdict: what was captured and how late points were is a matter of the trouble.
        readback = run.json("verdict.json")["parts"]["readback"]
        assert readback["outcome"] in ("pass", "fail"), run.output
        books.append(run.json("ledger.json"))

    def total(name: str) -> int:
        return sum(book[name] for book in books)

    lost = total("missing") + total("wrong_value") + total("queued")
    record_property(
        "killed",
        f"{queue} | {text.format(happened)} | {total('acknowledged'):,} | {lost:,} | "
        f"{total('failed_logged'):,}",
    )
    assert total("acknowledged") > 0
    assert total("unexpected") == 0
    if queue != "stock":
        assert (lost, total("failed_logged")) == (0, 0)
        assert total("stored") == total("acknowledged")
