"""What a deployment is: unchanged by another deploy, usable by hand, and as planned."""

import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml
from cassandra.cluster import Session
from deployment import ALL, STORAGE, Deployment, request
from harness import changed, wait_for

from kairoscope.deploy import bundles
from kairoscope.hosts import loader
from kairoscope.stacks.kairosdb.servers import cql

KEYSPACE = "kairosdb"


def test_deploy_again_changes_nothing(cluster: Deployment) -> None:
    before = {**cluster.pids(), "supervisord": cluster.supervisord}
    recap = changed(cluster.deploy())
    assert set(recap) == {"control", *ALL, "loader-1"}
    assert set(recap.values()) == {0}, recap
    assert {**cluster.pids(), "supervisord": cluster.supervisord} == before


def test_servers_may_use_every_cpu(cluster: Deployment) -> None:
    for name, pid in {**cluster.pids(), "supervisord": cluster.supervisord}.items():
        assert os.sched_getaffinity(pid) == os.sched_getaffinity(0), name


def test_kairosdb_goes_before_the_storage_nodes(cluster: Deployment) -> None:
    nice = {name: os.getpriority(os.PRIO_PROCESS, pid) for name, pid in cluster.pids().items()}
    wanted = min(nice["kairosdb-1"] + 10, 19)
    assert [nice[name] for name in STORAGE] == [wanted] * 3


def test_verify_finds_nothing_off(cluster: Deployment) -> None:
    assert ", 0 FAIL" in cluster.well("verify")


def test_rest_by_hand(cluster: Deployment) -> None:
    now = int(time.time() * 1000)
    point = {"name": "by_hand.rest", "timestamp": now, "value": 42, "tags": {"host": "mine"}}
    request(f"{cluster.url}/api/v1/datapoints", [point])
    found = wait_for("the point in a query", lambda: cluster.query("by_hand.rest", now, now), 30)
    assert found == [[now, 42]]


def test_telnet_by_hand(cluster: Deployment) -> None:
    now = int(time.time() * 1000)
    with socket.create_connection((f"{cluster.net}.1", 4242), timeout=10) as connection:
        connection.sendall(f"put by_hand.telnet {now} 43 host=mine\n".encode())
    found = wait_for("the point in a query", lambda: cluster.query("by_hand.telnet", now, now), 30)
    assert found == [[now, 43]]


def test_schema(cluster: Deployment) -> None:
    with cluster.cql() as db:
        keyspace = db.execute(
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", [KEYSPACE]
        ).one()
        rows = db.execute(
            "SELECT table_name, flags, compaction, compression FROM system_schema.tables "
            "WHERE keyspace_name = %s",
            [KEYSPACE],
        )
        tables = {row.table_name: row for row in rows}
    assert keyspace.replication["class"].endswith(".NetworkTopologyStrategy")
    assert keyspace.replication["dc1"] == "3"
    # A table WITH COMPACT STORAGE is dense, or has not the flag compound.
    for name, table in tables.items():
        assert set(table.flags) == {"compound"}, name
    points = tables["data_points"]
    assert points.compaction["class"].endswith(".TimeWindowCompactionStrategy")
    assert points.compaction["timestamp_resolution"] == "MILLISECONDS"
    assert points.compaction["compaction_window_unit"] == "HOURS"
    assert points.compaction["compaction_window_size"] == "24"
    assert points.compression["class"].endswith(".LZ4Compressor")


def keys(db: Session, metric: str) -> list[bytes]:
    """The row keys of a metric, as KairosDB wrote them."""
    rows = db.execute(f"SELECT DISTINCT key FROM {KEYSPACE}.data_points")  # noqa: S608
    return [row.key for row in rows if row.key.startswith(metric.encode() + b"\0")]


@pytest.mark.parametrize(
    "tags",
    [
        {"status": "good"},
        {"zone": "b", "area": "a"},
        {"status": "a:b=c"},
        {"place": "Zürich"},
    ],
    ids=["one", "sorted", "escaped", "utf8"],
)
def test_row_key_is_what_kairosdb_wrote(cluster: Deployment, tags: dict[str, str]) -> None:
    now = int(time.time() * 1000)
    metric = f"row_key.{now}"
    cluster.post(metric, now, 7, **tags)
    with cluster.cql() as db:
        width = cql.row_width_ms(db, KEYSPACE)
        wanted = cql.row_key(metric, now - now % width, tags, "kairos_long")
        found = wait_for("the row in data_points", lambda: keys(db, metric), 30)
        assert found == [wanted]
        assert cql.rows_of_series(db, KEYSPACE, [(metric, tags)], [(now, now)]) == 1
        assert cql.rows_of_series(db, KEYSPACE, [(metric, tags)], [(now + 1, now + 1)]) == 0
        wanted = [(metric, tags, (now, now)), (metric, {"no": "such"}, (now, now))]
        assert list(cql.timestamps_of_series(db, KEYSPACE, wanted)) == [{now}, set()]


def test_rows_are_counted_over_the_end_of_a_row(cluster: Deployment) -> None:
    with cluster.cql() as db:
        width = cql.row_width_ms(db, KEYSPACE)
        border = int(time.time() * 1000) // width * width
        metric, tags = f"border.{time.time_ns()}", {"status": "good"}
        for t in (border - 2, border - 1, border, border + 1):
            cluster.post(metric, t, t % 100, **tags)

        def rows() -> int:
            return cql.rows_of_series(db, KEYSPACE, [(metric, tags)], [(border - 1, border)])

        wait_for("both rows", lambda: rows() == 2, 30)
        wanted = [(metric, tags, (border - 1, border))]
        assert list(cql.timestamps_of_series(db, KEYSPACE, wanted)) == [{border - 1, border}]


def test_status(cluster: Deployment) -> None:
    done = cluster.status()
    assert done.returncode == 0, done.stdout + done.stderr
    for name, pid in cluster.pids().items():
        line = next(line for line in done.stdout.splitlines() if name in line)
        assert "RUNNING" in line
        assert str(pid) in line
    assert done.stdout.count("\nUN ") == 3
    assert "queue waiting" in done.stdout
    line = next(line for line in done.stdout.splitlines() if "loader-1" in line)
    assert loader.current_version() in line


def test_profile(cluster: Deployment) -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            request(f"{cluster.url}/api/v1/health/status")
            cluster.query("by_hand.profile", 1, 2)

    working = threading.Thread(target=work)
    working.start()
    try:
        said = cluster.well("profile", "kairosdb-1", "--seconds", "5")
    finally:
        done.set()
        working.join()
    assert "# kairosdb-1 (kairosdb), 5 s" in said
    assert "| http |" in said
    # Of KairosDB's own code, which a query goes through.
    assert re.search(r"^\| \w*Resource\.\w+ \| [1-9]", said, re.MULTILINE), said
    (written,) = (cluster.path / "profiles").glob("*.md")
    assert written.read_text() in said
    assert written.with_suffix(".jfr").stat().st_size > 0
    # Nothing goes on looking.
    pid = str(cluster.pids()["kairosdb-1"])
    left = subprocess.run(
        ["jcmd", pid, "JFR.check"], capture_output=True, text=True, check=True
    ).stdout
    assert "No available recordings" in left


def test_profile_of_nobody(cluster: Deployment) -> None:
    message = cluster.refused("profile", "kairosdb-9")
    assert "kairosdb-9: there is no such server. There are: kairosdb-1, storage-1" in message


def check_effective(inventory: Path, node: str = "kairosdb-1") -> tuple[str | Path, ...]:
    return ("check-effective", "--inventory", inventory, "--node", node, "-")


def test_check_effective(cluster: Deployment) -> None:
    conf, inventory = cluster.kairosdb_conf, cluster.state / "inventory.yml"
    done = cluster.cli(*check_effective(inventory), text=conf)
    assert done.returncode == 0, done.stderr
    assert "settings as planned" in done.stdout

    batch = cluster.set_settings()["kairosdb.queue_processor.batch_size"]
    other = conf.replace(f" batch_size: {int(batch)}\n", " batch_size: 1234\n")
    assert other != conf
    message = cluster.refused(*check_effective(inventory), text=other)
    assert (
        f"kairosdb.queue_processor.batch_size: planned 1234, effective {int(batch)}" in message
    ), message


def test_check_effective_of_nobody(cluster: Deployment) -> None:
    conf, inventory = cluster.kairosdb_conf, cluster.state / "inventory.yml"
    assert "no host kairosdb-9" in cluster.refused(
        *check_effective(inventory, "kairosdb-9"), text=conf
    )
    # Where nobody listens.
    content = yaml.safe_load(inventory.read_text())
    content["all"]["children"]["kairosdb"]["hosts"]["kairosdb-1"]["http_port"] = 9
    elsewhere = cluster.scratch / "elsewhere.yml"
    elsewhere.write_text(yaml.safe_dump(content))
    message = cluster.refused(*check_effective(elsewhere), text=conf)
    assert f"kairosdb-1 ({cluster.net}.1:9) is not healthy" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "kairosdb: { queue_processor.batch_sise: 50 }",
            "kairosdb.queue_processor.batch_sise: KairosDB knows no such key; did you mean "
            "kairosdb.queue_processor.batch_size?",
        ),
        (
            "kairosdb: { telnetserver.port: 4242 }\nqueue_processor.batch_size: 50",
            "queue_processor.batch_size: outside kairosdb { }",
        ),
    ],
    ids=["unknown", "outside"],
)
def test_check_conf_refuses(cluster: Deployment, text: str, said: str) -> None:
    reference = ("--reference", bundles.reference_conf())
    assert cluster.cli("check-conf", *reference, "-", text=cluster.kairosdb_conf).returncode == 0
    assert said in cluster.refused("check-conf", *reference, "-", text=text)
