"""Nodes come and go under a running load, on the deployment of test_deployed_hosts."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from deployed_lab import DeployedLab, status_of
from harness import SCYLLA, STORE, changed, end, wait_for

pytestmark = [pytest.mark.day_two, pytest.mark.timeout(1500)]


def test_a_dead_node_is_replaced_under_load(lab):
    with lab.loading() as load:
        kill_storage_2(lab)
        lab.operate("replace", "--limit", "storage-2")
        load.lost_nothing()
    assert status_of(lab, "storage-2").count("\nUN ") == 3


def kill_storage_2(lab: DeployedLab) -> None:
    """And wait until the others know."""
    lab.well("lab", "kill", "storage-2")
    # Two blanks are Cassandra's, one is ScyllaDB's.
    down = re.compile(r"^DN +10\.77\.0\.12 ", re.M)
    wait_for("storage-2 seen down", lambda: bool(down.search(status_of(lab, "storage-1"))))


def test_one_is_replaced_while_a_kairosdb_host_is_down_too(lab):
    """Both had to be mended by hand before: a deploy waited for one, the verb for the other."""
    kill_storage_2(lab)
    lab.well("lab", "kill", "kairosdb-2")
    said = lab.operate("replace", "--limit", "storage-2")
    assert "replace: kairosdb-2 is not healthy" in said
    assert status_of(lab, "storage-2").count("\nUN ") == 3
    assert set(changed(lab.deploy()).values()) == {0}
    lab.wait_until_well()


@pytest.mark.timeout(2400)
def test_one_that_dies_in_the_middle_of_a_verb_is_replaced_and_the_verb_ends(lab):
    four = lab.write_nodes(storage_nodes=4)
    with lab.loading() as load:
        # One that joins waits for half a minute before it asks the others for data.
        joins = re.compile(r"^UJ +10\.77\.0\.14 ", re.M)
        with interrupted(lab, "add-storage", four):
            wait_for("storage-4 joining", lambda: joins.search(status_of(lab, "storage-1")), 600)
            kill_storage_2(lab)
        said = lab.refuses("rolling-restart")
        assert "`add-storage` was interrupted" in said and "operate replace --limit" in said
        said = lab.operate("replace", "--limit", "storage-2")
        assert "storage-4: its server is stopped, it has not joined" in said
        assert "`add-storage` is unfinished still" in said
        assert status_of(lab, "storage-1").count("\nUN ") == 3
        lab.operate("add-storage", four)
        load.lost_nothing()
    assert status_of(lab, "storage-4").count("\nUN ") == 4
    assert set(changed(lab.deploy(four)).values()) == {0}
    lab.operate("decommission", lab.experiment, "--limit", "storage-4")


@pytest.mark.timeout(2400)
def test_one_that_dies_in_the_middle_of_a_deploy_is_replaced_and_the_deploy_ends(lab):
    """Every other verb waits for the deploy's end, and it for the node."""
    more = {"memory_mb": 576} if SCYLLA else {"heap_mb": 400}
    warmer = lab.write("warmer", storage=STORE | more)
    finished = lab.state / "deployed"
    output = lab.scratch / "interrupted.txt"
    with lab.loading() as load:
        with output.open("w") as file:
            deploying = lab.start("deploy", *lab.deploying(warmer), stdout=file, stderr=file)
        try:
            wait_for("a deploy under way", lambda: not finished.exists(), 300)
            kill_storage_2(lab)
            assert deploying.wait(900) != 0, output.read_text()[-3000:]
        finally:
            end(deploying)
        assert "First: make deploy" in lab.refuses("rolling-restart")
        lab.operate("replace", "--limit", "storage-2")
        load.lost_nothing()
    assert status_of(lab, "storage-2").count("\nUN ") == 3
    assert set(changed(lab.deploy(warmer)).values()) == {0}
    lab.deploy()


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
    verb = "decommission", lab.experiment, "--limit", "storage-4"
    tool = "/var/lib/kairoscope/storage-4/bin/nodetool"
    with lab.loading(four) as load:
        with interrupted(lab, *verb):
            wait_for(
                "storage-4 leaving",
                lambda: re.search(r"^UL +10\.77\.0\.14 ", status_of(lab, "storage-1"), re.M),
                600,
            )
        # What is under way in the server goes on; its host reboots before anybody has looked.
        wait_for(
            "storage-4 having left",
            lambda: "Mode: DECOMMISSIONED" in lab.on("storage-4", "sudo", tool, "netstats"),
            600,
        )
        lab.well("lab", "kill", "storage-4")
        lab.well("lab", "start", "storage-4")
        lab.operate(*verb)
        load.lost_nothing()
    assert status_of(lab, "storage-1").count("\nUN ") == 3
    assert set(changed(lab.deploy()).values()) == {0}


def test_a_kairosdb_node_comes_and_goes(lab):
    three = lab.write_nodes(kairosdb_nodes=3)
    with lab.loading() as load:
        lab.operate("add-kairosdb", three)
        load.lost_nothing()
    with lab.loading(three) as load:
        verb = "remove-kairosdb", lab.experiment, "--limit", "kairosdb-3"
        note = lab.state / "operation.json"
        with interrupted(lab, *verb):
            wait_for("a node that is drained", lambda: "kairoscope_drain" in tables(lab), 600)
        # With what waits there still: it is started for it, and drained.
        lab.on("kairosdb-3", "sudo", "systemctl", "stop", "kairosdb")
        with interrupted(lab, *verb):
            wait_for("a node that is empty", lambda: '"memory": "empty"' in text_of(note), 600)
        assert "`remove-kairosdb --limit kairosdb-3` was interrupted" in lab.refuses(
            "rolling-restart"
        )
        lab.operate(*verb)
        load.lost_nothing()
    with lab.loading() as load:
        load.lost_nothing()


def tables(lab: DeployedLab) -> str:
    """What keeps senders from kairosdb-3."""
    return lab.on("kairosdb-3", "sudo", "nft", "list", "tables")


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


@contextlib.contextmanager
def interrupted(lab: DeployedLab, verb: str, *arguments: str | Path) -> Iterator[None]:
    """A verb that is under way in the block, and interrupted (Ctrl-C) at its end."""
    output = lab.scratch / "interrupted.txt"
    with output.open("w") as file:
        process = lab.start(
            "operate", verb, *arguments, "--target", "lab", stdout=file, stderr=file
        )
    try:
        yield
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 2, output.read_text()[-3000:]
    finally:
        end(process)
