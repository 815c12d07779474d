"""Nodes come and go under a running load, on the deployment of test_deployed_hosts."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from deployed_lab import DeployedLab
from harness import changed, end, wait_for

pytestmark = [pytest.mark.day_two, pytest.mark.timeout(1500)]


def status_of(lab: DeployedLab, host: str) -> str:
    """The ring as a storage host sees it."""
    tool = f"/var/lib/kairoscope/{host}/bin/nodetool"
    return lab.on(host, "sudo", tool, "status")


def test_a_dead_node_is_replaced_under_load(lab):
    with lab.loading() as load:
        lab.well("lab", "kill", "storage-2")
        # Two blanks are Cassandra's, one is ScyllaDB's.
        down = re.compile(r"^DN +10\.77\.0\.12 ", re.M)
        wait_for("storage-2 seen down", lambda: bool(down.search(status_of(lab, "storage-1"))))
        lab.operate("replace", "--limit", "storage-2")
        load.lost_nothing()
    assert status_of(lab, "storage-2").count("\nUN ") == 3


def test_a_storage_node_comes_and_goes_under_load(lab):
    four = lab.write_nodes(storage_nodes=4)
    with lab.loading() as load:
        lab.operate("add-storage", four)
        load.lost_nothing()
    assert status_of(lab, "storage-4").count("\nUN ") == 4
    assert set(changed(lab.deploy(four)).values()) == {0}
    assert "is the last, storage-4" in lab.refuses(
        "decommission", lab.experiment, "--limit", "storage-1"
    )
    with lab.loading(four) as load:
        lab.operate("decommission", lab.experiment, "--limit", "storage-4")
        load.lost_nothing()
    assert status_of(lab, "storage-1").count("\nUN ") == 3
    assert set(changed(lab.deploy()).values()) == {0}


def test_a_kairosdb_node_comes_and_goes(lab):
    three = lab.write_nodes(kairosdb_nodes=3)
    with lab.loading() as load:
        lab.operate("add-kairosdb", three)
        load.lost_nothing()
    with lab.loading(three) as load:
        interrupt_once_empty(lab, "remove-kairosdb", lab.experiment, "--limit", "kairosdb-3")
        assert "`remove-kairosdb --limit kairosdb-3` was interrupted" in lab.refuses(
            "rolling-restart"
        )
        lab.operate("remove-kairosdb", lab.experiment, "--limit", "kairosdb-3")
        load.lost_nothing()
    with lab.loading() as load:
        load.lost_nothing()


def interrupt_once_empty(lab: DeployedLab, verb: str, *arguments: str | Path) -> None:
    """Ctrl-C when what leaves has nothing on it any more."""
    note = lab.state / "operation.json"

    def empty() -> bool:
        return note.exists() and json.loads(note.read_text())["memory"] == "empty"

    output = lab.scratch / "interrupted.txt"
    with output.open("w") as file:
        process = lab.start(
            "operate", verb, *arguments, "--target", "lab", stdout=file, stderr=file
        )
    try:
        wait_for("a node that is empty", empty, 600)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 2, output.read_text()[-3000:]
    finally:
        end(process)
