"""The faults of an experiment on an embedded cluster: they happen, are undone, and lose nothing."""

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from deployment import STORAGE, Deployment, standing, variant
from harness import SERVER, STORE, wait_for

pytestmark = pytest.mark.faults

LOAD = {"duration_s": 80, "warmup_s": 5, "rate": 1}


@pytest.fixture(scope="module")
def victim() -> Iterator[Deployment]:
    """A cluster of its own."""
    cluster = Deployment()
    cluster.experiment = cluster.write("victim", variant(storage=STORE, load=LOAD))
    with standing(cluster, *SERVER):
        yield cluster


def with_faults(cluster: Deployment, *given: dict[str, str]) -> Path:
    return cluster.write("faulty", variant(storage=STORE, load=LOAD) | {"faults": list(given)})


def stands(cluster: Deployment, name: str) -> bool:
    return psutil.Process(cluster.pids()[name]).status() == psutil.STATUS_STOPPED


def test_each_happens_is_undone_and_loses_nothing(victim: Deployment) -> None:
    what = with_faults(
        victim,
        {"at": "15s", "kill": "storage-2", "for": "6s"},
        {"at": "35s", "freeze": "kairosdb-1", "for": "6s"},
        {"at": "50s", "restart": "storage-1"},
    )
    before = victim.pids()
    with victim.loading(what=what) as run:
        wait_for("a frozen KairosDB", lambda: stands(victim, "kairosdb-1"), 400)
        run.end(timeout_s=900)
    told = run.json("verdict.json")["faults"]
    assert [fault["problem"] for fault in told] == [""] * 3, run.output
    for fault, lasted_s in zip(told, (6, 6, 0), strict=True):
        assert fault["undone_t"] - fault["begun_t"] >= lasted_s
    # With one KairosDB node nothing is acknowledged while it stands still.
    assert told[1]["silence_s"] > 3
    ledger = run.json("ledger.json")
    assert ledger["acknowledged"] == ledger["stored"] > 0
    assert run.json("verdict.json")["parts"]["readback"]["outcome"] == "pass"
    victim.wait_until_well()
    after = victim.pids()
    assert {name for name in before if before[name] != after[name]} == {"storage-1", "storage-2"}


def test_ctrl_c_undoes_what_is_in_force(victim: Deployment) -> None:
    what = with_faults(victim, {"at": "12s", "freeze": "storage", "for": "60s"})
    with victim.loading(what=what) as run:
        wait_for("frozen nodes", lambda: all(stands(victim, name) for name in STORAGE), 400)
        run.interrupt()
        assert run.end() == 2
    assert not any(stands(victim, name) for name in STORAGE)
    assert [line["event"] for line in run.lines("faults.jsonl")] == ["planned", "begun", "undone"]
    assert run.json("verdict.json")["verdict"] == "incomplete"
    victim.wait_until_well()


def test_a_part_of_the_matrix(victim: Deployment) -> None:
    base = victim.write("base", variant(storage=STORE, load=LOAD))
    only = ("no fault", "freeze loader-1", "kill storage-2")
    done = victim.cli(
        "faults", base, *(word for each in only for word in ("--only", each)), timeout_s=1800
    )
    (folder,) = (victim.path / "faults").iterdir()
    record = json.loads((folder / "faults.json").read_text())
    assert list(record["done"]) == ["no fault", "kill storage-2", "freeze loader-1"], done.stderr
    assert {came["lost"] for came in record["done"].values()} == {0}
    assert record["done"]["freeze loader-1"]["verdict"] in ("invalid", "incomplete")
    assert yaml.safe_load((folder / "kill-storage-2.yml").read_text())["faults"]
    assert "kill storage-2" in (folder / "faults.md").read_text()
