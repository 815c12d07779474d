"""A changed setting restarts what it touches and nothing else; what cannot change is refused."""

import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest
from deployment import (
    ALL,
    Deployment,
    documented_families,
    families,
    free_net,
    request,
    variant,
)
from harness import changed, end, wait_for

from loaders.schedule.due import Schedule


@pytest.fixture
def other(cluster: Deployment) -> Path:
    """An experiment with other settings of KairosDB and of the table than the deployed one."""
    return cluster.write(
        "other",
        variant(storage={"compression": "ZstdCompressor"})
        | {"kairosdb": {"queue": "stock", "batch_size": 120, "min_batch_size": 30}},
    )


def test_another_shape_is_refused(cluster: Deployment) -> None:
    file = cluster.write("shape", variant(cluster={"replication_factor": 2}))
    before = cluster.pids()
    message = cluster.refused("deploy", file)
    assert "deployed with replication_factor = 3, the experiment wants 2" in message
    assert "make destroy" in message
    assert cluster.pids() == before


def test_another_net_is_refused(cluster: Deployment) -> None:
    """The nodes know each other by address: a running cluster cannot move."""
    inventory = (cluster.state / "inventory.yml").read_text()
    net = free_net()
    # Whatever comes of it, the deploy ends here: the port it would need is taken.
    with socket.socket() as taken:
        taken.bind((f"{net}.1", 8080))
        taken.listen()
        message = cluster.refused("deploy", cluster.experiment, env={"KAIROSCOPE_LOCAL_NET": net})
    assert (cluster.state / "inventory.yml").read_text() == inventory
    assert cluster.net in message
    assert "make destroy" in message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_deploy_is_not_taken_for_a_deployed_plan(
    cluster: Deployment, other: Path, number: int
) -> None:
    """What runs is still the old plan then: a load that believed the new one would lie."""
    before = cluster.pids()
    said = cluster.scratch / "deploy.txt"
    with said.open("w") as output:
        process = cluster.start("deploy", other, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_for("the playbook", lambda: "TASK [" in said.read_text())
            playbook = psutil.Process(process.pid).children(recursive=True)
            # Not to its group, as a terminal does it.
            process.send_signal(number)
            assert process.wait(60) != 0
            assert psutil.wait_procs(playbook, timeout=30)[1] == []
        finally:
            end(process)
    assert cluster.pids() == before
    assert cluster.set_settings()["kairosdb.queue_processor.batch_size"] != 120
    assert "make deploy" in cluster.refused("load", other)


def test_changed_setting_restarts_only_what_it_touches(cluster: Deployment, other: Path) -> None:
    before = cluster.pids()
    recap = changed(cluster.deploy(other))
    after = cluster.pids()
    # storage-1 stands for the schema: its table is changed, and nothing restarted for that.
    assert {name for name in ALL if recap[name]} == {"kairosdb-1", "storage-1"}
    assert after.pop("kairosdb-1") != before.pop("kairosdb-1")
    assert after == before
    settings = cluster.set_settings()
    assert settings["kairosdb.queue_processor.batch_size"] == 120
    assert settings["kairosdb.queue_processor.min_batch_size"] == 30
    with cluster.cql() as db:
        table = db.execute(
            "SELECT compression FROM system_schema.tables "
            "WHERE keyspace_name = 'kairosdb' AND table_name = 'data_points'"
        ).one()
    assert table.compression["class"].endswith(".ZstdCompressor")
    assert "First: make deploy" in cluster.refused("load", cluster.experiment)


def test_what_somebody_may_have_started_with_other_files_is_restarted(
    cluster: Deployment, other: Path
) -> None:
    """A file was changed by hand, and the deploy puts it right: who knows what runs with it."""
    before = cluster.pids()
    conf = cluster.state / "kairosdb-1" / "conf" / "kairosdb.conf"
    with conf.open("a") as file:
        file.write("# by hand\n")
    recap = changed(cluster.deploy(other))
    after = cluster.pids()
    assert "by hand" not in cluster.kairosdb_conf
    assert {name for name in ALL if recap[name]} == {"kairosdb-1"}
    assert after.pop("kairosdb-1") != before.pop("kairosdb-1")
    assert after == before


def test_stock_queue_passes_too(cluster: Deployment, other: Path) -> None:
    """With it KairosDB is as anybody has it: what the coalescing queue is compared with."""
    assert cluster.set_settings()["kairosdb.queue_processor.class"].startswith("org.kairosdb.")
    with cluster.loading(what=other) as run:
        assert run.end() == 0, run.output
    book = run.json("ledger.json")
    assert book["balanced"] is True
    points = Schedule(run.spec()).points
    assert book["stored"] == book["rows_by_cql"] == points
    for said in (cluster.metrics(), cluster.metrics()):
        assert families(said) == documented_families("stock")
        assert said["kairosdb_queue_handed_out_points_total"] >= points
        assert said["kairosdb_metrics_failures_total"] == 0
    # Asked for its metrics in KairosDB's way, the queue writes them into the store.
    assert request(f"{cluster.url}/api/v1/metricnames?prefix=kairosdb.")["results"] == []
