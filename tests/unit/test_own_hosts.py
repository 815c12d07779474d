"""Target `hosts`: an inventory of one's own, completed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kairoscope import experiment, plan
from kairoscope.cli import known
from kairoscope.deploy import inventory_vars
from kairoscope.errors import UserError
from kairoscope.hosts import inventory
from kairoscope.targets import own

STORAGE = {f"storage-{i}": {"address": f"192.0.2.{i}", "rack": f"rack{i}"} for i in (1, 2, 3)}


def given(path: Path, **groups: Any) -> Path:
    hosts = {
        "storage": STORAGE,
        "kairosdb": {"kairosdb-1": {"address": "192.0.2.21"}},
        "loader": {"loader-1": {"ansible_host": "loader.example.org"}},
        **groups,
    }
    children = {name: {"hosts": found} for name, found in hosts.items()}
    everyone = {"ansible_user": "admin", "firewall_admin_cidrs": ["198.51.100.0/24"]}
    path.write_text(yaml.safe_dump({"all": {"vars": everyone, "children": children}}))
    return path


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "secrets"))


def planned() -> plan.Plan:
    return known.plan(experiment.load("laptop", experiment.Overrides()), "hosts")


def test_what_the_file_says_stays_and_the_rest_is_added(tmp_path: Path) -> None:
    plan_ = planned()
    machines = own.given(plan_, given(tmp_path / "mine.yml"))
    made = inventory_vars.make(plan_, machines, known.stack(plan_.stack))
    inventory.write(tmp_path / "inventory.yml", made, "for a test")
    found = inventory.read(tmp_path / "inventory.yml")
    assert found == inventory.read_own(tmp_path / "inventory.yml")  # As Ansible sees it.
    assert found.managed
    second = found.storage[1].vars
    assert second["rack"] == "rack2"
    assert second["ansible_host"] == second["address"] == "192.0.2.2"
    assert second["ansible_user"] == "admin"
    assert second["firewall_admin_cidrs"] == ["198.51.100.0/24"]
    assert second["storage_engine"] == "scylla"
    assert found.kairosdb[0].url == "https://192.0.2.21:8080"
    # No address given: that by which it is reached.
    assert found.loader[0].address == "loader.example.org"
    assert found.loader[0].vars["home"].startswith("/home/admin/")


def test_a_file_that_does_not_fit_the_experiment(tmp_path: Path) -> None:
    two = {name: STORAGE[name] for name in ("storage-1", "storage-2")}
    with pytest.raises(UserError, match="group storage has 2 hosts, the experiment wants 3"):
        own.given(planned(), given(tmp_path / "mine.yml", storage=two))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        own.given(planned(), tmp_path / "nothing.yml")
