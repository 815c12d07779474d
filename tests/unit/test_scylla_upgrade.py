"""Another release of ScyllaDB: which steps there are, and when one may go back."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from test_operate import planned
from test_replace import site

from kairoscope import paths, plan
from kairoscope.deploy.operate import scylla_upgrade
from kairoscope.deploy.operate.deployed import Deployed, towards
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation
from kairoscope.hosts.deployed import finished_file
from kairoscope.stacks.kairosdb.servers import client

__all__ = ["site"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2026.1.10", "2026.1.11"),
        ("2026.1.11", "2026.2.5"),
        ("2025.1.14", "2025.4.10"),
        ("2025.1.14", "2026.1.11"),
        ("6.2.3", "2025.1.14"),
        ("5.2.19", "5.4.9"),
    ],
)
def test_a_step_that_scylladb_has_tested(old, new):
    assert scylla_upgrade.step_problems(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("2026.1.11", "2026.1.11", "have ScyllaDB 2026.1.11 already"),
        ("2026.1.11", "2026.1.10", "is older: it does not read"),
        ("2026.1.11", "2025.4.10", "is older: it does not read"),
        ("2025.1.14", "2025.3.8", "From 2025.1 it goes to 2025.2 or 2025.4 or 2026.1"),
        ("6.2.3", "2026.1.11", "From 6.2 it goes to 2025.1 "),
        ("2025.4.10", "2026.2.5", "From 2025.4 it goes to 2026.1 "),
        # A person has to switch something on afterwards.
        ("5.4.9", "6.0.4", "There is no verb for it"),
    ],
)
def test_any_other_step_is_refused(old, new, why):
    (problem,) = scylla_upgrade.step_problems(old, new)
    assert why in problem


def test_a_line_that_is_not_known_is_refused():
    with pytest.raises(UserError, match="which options it knows is not recorded"):
        scylla_upgrade.step_problems("2026.2.5", "2026.3.1")


def test_the_release_alone_is_changed():
    old = planned()
    newer = old.model_copy(update={"storage": {**old.storage, "scylla_version": "2026.2.5"}})
    assert scylla_upgrade.other_changes(old, newer) == []
    other = newer.model_copy(update={"kairosdb": {**old.kairosdb, "batch_size": 17}})
    assert scylla_upgrade.other_changes(old, other) == [
        "the experiment also changes kairosdb.batch_size: first the release alone"
    ]
    more = scylla_upgrade.other_changes(old, planned(storage_nodes=4))
    assert "cluster.storage_nodes" in more[0]


def test_back_only_while_a_node_has_the_release_before():
    new, old = "2026.2.5-0.20260801.abc", "2026.1.11-0.20260401.abc"
    nodes = {"storage-1": new, "storage-2": "", "storage-3": old}
    assert scylla_upgrade.back_problems(nodes, "2026.1.11") == []
    # One that does not tell may be the last one, that was started with the new release.
    (problem,) = scylla_upgrade.back_problems(nodes | {"storage-3": new}, "2026.1.11")
    assert "storage-2: does not tell" in problem


def of_release(release: str, **cluster: Any) -> plan.Plan:
    made = planned(**cluster)
    storage = made.experiment.storage.model_copy(update={"scylla_version": release})
    experiment = made.experiment.model_copy(update={"storage": storage})
    stated = made.storage | {"scylla_version": release}
    return made.model_copy(update={"experiment": experiment, "storage": stated})


def test_an_interrupted_one_goes_on_or_back_with_the_nodes_that_it_began_with(site, monkeypatch):
    """A plan's release is another one on the way back; by other nodes hosts would come or go."""
    monkeypatch.setattr(Deployed, "refuse_unless_whole", lambda *_: None)
    monkeypatch.setattr(Deployed, "build", lambda _: None)
    said = SimpleNamespace(trouble="", version="2026.1.10-0.20260401.abc")
    talk = SimpleNamespace(server=lambda _: said)
    monkeypatch.setattr(client, "connect", lambda *_: contextlib.nullcontext(talk))
    path = inventory.file("lab")
    given = yaml.safe_load(path.read_text())
    given["all"]["vars"]["scylla_version"] = "2026.1.10"
    inventory.write(path, given, "")
    (path.parent / "plan.json").write_text(of_release("2026.1.10").to_json())
    finished_file("lab").touch()
    site.dies = True
    newer = of_release("2026.1.11")
    with pytest.raises(KeyboardInterrupt):
        scylla_upgrade.upgrade(site.deployed, newer, None, None)
    noted = operation.unfinished("lab")
    assert noted.shape == towards(newer, "x", release=False).shape
    site.dies, site.calls = False, []
    with pytest.raises(UserError, match="was begun for storage_nodes 3, not 4"):
        scylla_upgrade.upgrade(site.deployed, of_release("2026.1.11", storage_nodes=4), None, None)
    assert site.calls == []
    scylla_upgrade.upgrade(site.deployed, of_release("2026.1.10"), None, None)
    assert site.calls == [("prepare", None), ("deploy",), ("confirm",)]


def tasks(name: str) -> list[str]:
    """Names of a file's tasks, in their order, those of blocks too."""
    path = paths.ANSIBLE / "roles" / "scylla" / "tasks" / name

    def flat(found: list[dict[str, Any]]) -> list[str]:
        return [name for t in found for name in (flat(t["block"]) if "block" in t else [t["name"]])]

    return flat(yaml.safe_load(path.read_text()))


def test_a_node_is_taken_down_after_all_that_can_be_refused():
    """The repository, its signature and the packages are there before the node is drained."""
    found = tasks("package/upgrade.yml")
    wanted = ["Every node is up and normal before one is taken down", "Fetch", "Drain", "Stop"]
    assert [name for name in found if name in wanted] == wanted
    assert found[-2:] == ["Install", "Hold them"]
