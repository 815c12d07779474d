"""Other versions and other settings, interrupted: what goes on, what goes back."""

from typing import Any

import pytest
import yaml
from test_operate import planned
from test_replace import Site, site

from kairoscope import paths
from kairoscope.deploy import deploy
from kairoscope.deploy.operate import data, replacing, servers
from kairoscope.deploy.operate.deployed import Deployed, changing
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.operation import Operation

__all__ = ["site"]

APPLY = deploy.apply
OLD = {
    "kairosdb_bundle_dir": "/opt/kairosdb-1",
    "kairosdb_version": "1",
    "kairosdb_driver": "driver-1",
    "cassandra_bundle_dir": "/opt/cassandra-1",
    "cassandra_version": "5.0.1",
    "java_bundle_dir": "/opt/java-1",
    "java_version": "17.0.1",
    "java": "/opt/java-1/bin/java",
}
NEW = {key: text.replace("1", "2") for key, text in OLD.items()}
# Not of a bundle: of a plan, of another verb, of the loaders that this checkout leads.
THEN = {"scylla_version": "5.2.18", "kairosdb_jvm_options": ["-a"], "loader_version": "1"}
SINCE = {"scylla_version": "5.2.19", "kairosdb_jvm_options": ["-b"], "loader_version": "2"}


@pytest.fixture
def whole(site, monkeypatch):
    """The target, deployed, and with what it takes to die in a playbook."""
    looks: list[str] = []
    monkeypatch.setattr(Deployed, "refuse_unless_whole", lambda _, verb, *__: looks.append(verb))
    monkeypatch.setattr(Deployed, "build", lambda _: None)
    monkeypatch.setattr(deploy, "apply", APPLY)
    monkeypatch.setattr(deploy, "playbook", lambda *given, **more: played(site, *given, **more))
    site.looks, site.breaks, site.reached, site.has_files = looks, False, True, True
    gives(NEW | SINCE)
    finished_file("lab").touch()
    return site


def played(site: Any, target: str, _: Any, name: str, *__: Any, **given: Any) -> None:
    site.calls.append((name, given.get("limit", ""), given.get("operate_tag")))
    if site.breaks:
        raise UserError("a server does not start")


def gives(variables: dict[str, Any]) -> None:
    """Have the inventory say that of all hosts."""
    path = inventory.file("lab")
    found = yaml.safe_load(path.read_text())
    found["all"]["vars"] |= variables
    inventory.write(path, found, "")


def has() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(inventory.file("lab").read_text())["all"]["vars"]
    return found


def upgraded() -> None:
    """What an upgrade leaves that has ended: the inventory of before it."""
    gives(OLD | THEN)
    kept = paths.target_dir("lab") / "before-upgrade.yml"
    kept.write_text(inventory.file("lab").read_text())
    gives(NEW | SINCE)


def test_only_the_bundles_go_back(whole):
    """With a server of one's own an upgrade of ScyllaDB in between would go back too."""
    upgraded()
    servers.upgrade(whole.deployed, rollback=True)
    assert has() == has() | OLD | SINCE
    assert operation.unfinished("lab") is None
    with pytest.raises(UserError, match="nothing to go back to"):
        servers.upgrade(whole.deployed, rollback=True)


def test_what_a_host_has_no_more_is_told_from_a_host_that_does_not_answer(whole):
    upgraded()
    whole.has_files = False
    with pytest.raises(UserError, match=r"kairosdb-1 no longer has /opt/java-1"):
        servers.upgrade(whole.deployed, rollback=True)
    whole.reached = False
    with pytest.raises(
        UserError, match=r"Whether kairosdb-1 still has /opt/java-1 is not known: .*ssh failed"
    ):
        servers.upgrade(whole.deployed, rollback=True)
    assert operation.unfinished("lab") is None
    assert has() == has() | NEW


def test_an_interrupted_way_back_goes_on_and_its_advice_is_it(whole):
    upgraded()
    whole.breaks = True
    with pytest.raises(UserError, match="does not start"):
        servers.upgrade(whole.deployed, rollback=True)
    for other in (whole_deploy, lambda of: servers.rolling_config(of, planned())):
        with pytest.raises(UserError, match="Run it again: kairoscope operate upgrade --rollback "):
            other(whole.deployed)
    whole.breaks = False
    servers.upgrade(whole.deployed, rollback=True)
    assert has() == has() | OLD
    assert operation.unfinished("lab") is None
    assert finished_file("lab").exists()
    whole_deploy(whole.deployed)


def whole_deploy(of: Deployed) -> None:
    """As much of a deploy as may be refused."""
    operation.check_none_unfinished(of.name)


def test_a_deploy_that_the_new_bundles_keep_from_its_end_is_no_hindrance(whole):
    upgraded()
    finished_file("lab").unlink()
    with pytest.raises(UserError, match="did not finish"), changing(whole.deployed):
        pass
    servers.upgrade(whole.deployed, rollback=True)
    assert has() == has() | OLD


def test_either_way_goes_on_with_the_other(whole):
    whole.breaks = True
    gives(OLD)
    with pytest.raises(UserError, match="does not start"):
        servers.upgrade(whole.deployed, rollback=False)
    begun = operation.unfinished("lab")
    assert begun is not None and begun.memory.startswith("before-upgrade-")
    gives(NEW)
    with pytest.raises(UserError, match="does not start"):
        servers.upgrade(whole.deployed, rollback=True)
    assert operation.unfinished("lab") == Operation(
        "upgrade", memory=begun.memory, way="--rollback"
    )
    assert has() == has() | OLD
    whole.breaks, whole.calls = False, []
    servers.upgrade(whole.deployed, rollback=False)
    assert ("upgrade", "", begun.memory) in whole.calls
    assert whole.looks == ["upgrade"]
    assert operation.unfinished("lab") is None


def test_forward_again_where_no_snapshot_is_known_takes_none(whole):
    """Of nodes that are down none can be taken."""
    upgraded()
    whole.breaks = True
    with pytest.raises(UserError, match="does not start"):
        servers.upgrade(whole.deployed, rollback=True)
    whole.breaks, whole.calls = False, []
    servers.upgrade(whole.deployed, rollback=False)
    assert ("upgrade", "", None) in whole.calls
    # And back again: what was noted is of before the first.
    servers.upgrade(whole.deployed, rollback=True)
    assert has() == has() | OLD


def test_a_node_that_dies_on_the_way_back_is_replaced_and_then_it_is_forward(whole):
    upgraded()
    whole.breaks = True
    with pytest.raises(UserError, match="does not start"):
        servers.upgrade(whole.deployed, rollback=True)
    whole.breaks, whole.reached = False, False
    replacing.replace(whole.deployed, "storage-2")
    assert operation.unfinished("lab") == Operation("upgrade", way="--rollback")
    with pytest.raises(
        UserError, match=r"storage-2 came, left or was replaced.*without --rollback"
    ):
        servers.upgrade(whole.deployed, rollback=True)
    servers.upgrade(whole.deployed, rollback=False)
    assert operation.unfinished("lab") is None


def test_other_settings_go_on_where_they_were_interrupted(whole):
    whole.breaks = True
    with pytest.raises(UserError, match="does not start"):
        servers.rolling_config(whole.deployed, planned())
    with pytest.raises(UserError, match="Run it again: kairoscope operate rolling-config "):
        whole_deploy(whole.deployed)
    # What is not of their nodes' data may be done meanwhile.
    whole.breaks = False
    data.clear_snapshots(whole.deployed)
    servers.rolling_config(whole.deployed, planned())
    assert whole.looks == ["rolling-config"]
    assert operation.unfinished("lab") is None
    assert finished_file("lab").exists()


def test_a_note_has_nothing_in_it_that_it_does_not_need(site: Site):
    operation.begin("lab", Operation("add-storage", memory="storage-1"))
    operation.begin("lab", Operation("replace", "storage-2"))
    assert "way" not in (paths.target_dir("lab") / "operation.json").read_text()
