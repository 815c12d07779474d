"""Two of three storage nodes killed at the same moment: what both forget, and who has it again.

The commit log's period is 10 s, as both engines are shipped with. ScyllaDB keeps so much in its
process. A killed Cassandra leaves it in a mapped file, so its segments are compressed here: then it
keeps them in the process as well. With the coalescing queue all must be there again; with the stock
queue, what is not is recorded. On ScyllaDB with SCYLLA=<archive or folder> in the environment.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from deployment import STORAGE, Deployment, Run, standing, variant
from harness import SCYLLA, SERVER, STORE, wait_for

from kairoscope.stacks.kairosdb.servers import cql
from kairoscope.stacks.kairosdb.settings import ports
from loaders.schedule.due import Schedule

pytestmark = pytest.mark.faults

KEYSPACE = "kairosdb"
PERIOD_MS, WINDOW_MS = 10_000, 3_000
# A kill right after a sync shows nothing: so old is the last one of both nodes. ScyllaDB writes
# whenever a buffer is full, so there it is what it is.
UNSYNCED_S = 5
# What was taken so long before the kill was stored: a window, and a batch's way.
STORED_MS = {"coalescing": WINDOW_MS + 1_000, "stock": 1_000}
CRASHES = 3
VICTIMS = STORAGE[1:]


@pytest.fixture(scope="module", params=["coalescing", "stock"])
def queue(request: pytest.FixtureRequest) -> str:
    """Which queue KairosDB has."""
    return str(request.param)


@pytest.fixture(scope="module")
def forgetful(queue: str) -> Iterator[Deployment]:
    """A cluster of its own with that queue, whose killed storage nodes forget what they must."""
    settings: dict[str, Any] = {"queue": queue}
    if queue == "coalescing":
        settings["queue_window_ms"] = WINDOW_MS
    storage = STORE | {"commitlog_sync_period_ms": PERIOD_MS}
    cluster = Deployment()
    cluster.experiment = cluster.write(
        "killed-together",
        variant(storage=storage, load={"rate": 2, "duration_s": 100, "retry_for_s": 300})
        | {"kairosdb": settings},
    )
    with standing(cluster, *SERVER):
        if not SCYLLA:
            compress_commit_logs(cluster)
        yield cluster


def compress_commit_logs(cluster: Deployment) -> None:
    """Restart the storage nodes with it, all at once: there is nothing in them yet."""
    for name in STORAGE:
        with (cluster.state / name / "conf" / "cassandra.yaml").open("a") as file:
            file.write("\ncommitlog_compression:\n  - class_name: LZ4Compressor\n")
    end_and_wait(cluster, STORAGE, signal.SIGTERM)
    cluster.wait_until_well()


def unsynced_s(cluster: Deployment) -> float:
    """How long ago the commit log of either victim was written, the later of both."""
    folders = [cluster.state / name / "data" / "commitlog" for name in VICTIMS]
    last = [file.stat().st_mtime for folder in folders for file in folder.glob("*.log")]
    return time.time() - max(last)


def end_and_wait(cluster: Deployment, names: tuple[str, ...], how: signal.Signals) -> None:
    """Send a signal to storage nodes at once; wait until supervisord has them back and they answer.

    Not by `status`: it asks a node that goes on, which takes a while to notice.
    """
    pids = [cluster.pids()[name] for name in names]
    for pid in pids:
        os.kill(pid, how)
    # A process that was killed has its port for as long as its memory takes to be given back.
    wait_for("their end", lambda: not any(map(psutil.pid_exists, pids)))
    for name in names:
        wait_for(f"CQL of {name}", lambda name=name: answers(cluster, name))


def address_of(cluster: Deployment, name: str) -> str:
    return f"{cluster.net}.{name.rpartition('-')[2]}"


def answers(cluster: Deployment, name: str) -> bool:
    """Whether a storage node takes CQL connections."""
    try:
        address = (address_of(cluster, name), ports.NATIVE_TRANSPORT_PORT)
        with socket.create_connection(address, timeout=2):
            return True
    except OSError:
        return False


def on_neither(cluster: Deployment, run: Run, until_ms: int) -> int:
    """Points due before a time that none of the victims says it has, asked one by one.

    At least so many: a coordinator may ask another node than itself. Right after their start the
    two seemed to have all, and later lacked a thousand.
    """
    schedule = Schedule(run.spec())
    spec = schedule.spec
    series = list(schedule.series())
    wanted = [
        (spec.metric_name(s.number), spec.tags_of(s.number), (spec.start_ms, until_ms))
        for s in series
    ]
    due = [
        {t for t in schedule.timestamps_ms(s.rank, s.ticks).tolist() if t <= until_ms}
        for s in series
    ]
    for name in VICTIMS:
        address = address_of(cluster, name)
        # At LOCAL_ONE, which repairs nothing.
        with cql.one_node(address, ports.NATIVE_TRANSPORT_PORT) as db:
            kind = f"kairos_{spec.value_type}"
            held = list(cql.timestamps_of_series(db, KEYSPACE, wanted, kind))
        due = [left - there for left, there in zip(due, held, strict=True)]
    return sum(map(len, due))


def test_what_two_nodes_forget_is_there_again(
    forgetful: Deployment, queue: str, record_property: Callable[[str, Any], None]
) -> None:
    after, books = [], []
    for _ in range(CRASHES):
        with forgetful.loading() as run:
            wait_for("acknowledged points", lambda run=run: run.acknowledged() > 600 * 25)
            if not SCYLLA:
                wait_for("unsynced writes", lambda: unsynced_s(forgetful) >= UNSYNCED_S)
            stored_ms = int(time.time() * 1000) - STORED_MS[queue]
            end_and_wait(forgetful, VICTIMS, signal.SIGKILL)
            run.end(timeout_s=900)
        # Not the verdict: latency and captures are a matter of the crash.
        readback = run.json("verdict.json")["parts"]["readback"]
        assert readback["outcome"] in ("pass", "fail"), run.output
        books.append(run.json("ledger.json"))
        after.append(on_neither(forgetful, run, stored_ms))

    def total(name: str) -> int:
        return sum(book[name] for book in books)

    def of_missing(name: str) -> int:
        return sum((book["at_all"] or {}).get(name) or 0 for book in books)

    engine = "scylla" if SCYLLA else "cassandra"
    record_property(
        "killed together",
        f"{engine} | {queue} | {CRASHES} | {total('acknowledged'):,} | "
        f"{total('missing'):,} | {of_missing('repaired'):,} | {of_missing('not_found'):,} | "
        f"{of_missing('lost'):,} | {sum(after):,}",
    )
    assert total("acknowledged") > 0
    assert total("unexpected") + total("wrong_value") == 0
    if queue == "coalescing":
        assert sum(after) == 0
        assert (total("missing"), total("queued"), total("failed_logged")) == (0, 0, 0)
        assert total("stored") == total("acknowledged")
