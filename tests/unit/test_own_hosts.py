"""Target `hosts`: an inventory of one's own, completed."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kairoscope import experiment, paths, plan
from kairoscope.cli import known
from kairoscope.deploy import inventory_vars
from kairoscope.errors import UserError
from kairoscope.hosts import inventory
from kairoscope.targets import own
from kairoscope.targets.target import Options

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
def _home(no_bundles: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(tmp_path / "secrets"))


def planned(name: str = "laptop") -> plan.Plan:
    return known.plan(experiment.load(name, experiment.Overrides()), "hosts")


def completed(made: plan.Plan, file: Path) -> dict[str, Any]:
    return inventory_vars.make(made, own.given(made, file), known.stack(made.stack), shared=False)


def test_what_the_file_says_stays_and_the_rest_is_added(tmp_path: Path) -> None:
    made = completed(planned(), given(tmp_path / "mine.yml"))
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
        own.Own().check_given(Options(tmp_path, inventory=tmp_path / "nothing.yml"))
    with pytest.raises(UserError, match="needs INVENTORY="):
        own.Own().check_given(Options(tmp_path))


def test_too_few_hosts_are_refused_when_it_is_asked_what_was_given(tmp_path: Path) -> None:
    two = {name: STORAGE[name] for name in ("storage-1", "storage-2")}
    options = Options(tmp_path, inventory=given(tmp_path / "mine.yml", storage=two))
    own.Own().check_given(options)
    with pytest.raises(UserError, match="group storage has 2 hosts"):
        own.Own().check_given(options, planned())
    watched = Options(tmp_path, inventory=options.inventory, monitoring=True)
    with pytest.raises(UserError, match="no host in the group monitoring"):
        own.Own().check_given(watched)


def test_the_sample_fits_the_experiment_that_it_names(tmp_path: Path) -> None:
    sample = paths.ANSIBLE / "inventory-sample.yml"
    assert "EXPERIMENT=single-60k" in sample.read_text()
    inventory.write(tmp_path / "inventory.yml", completed(planned("single-60k"), sample), "")
    found = inventory.read(tmp_path / "inventory.yml")
    first, second, _ = found.storage
    assert (first.address, first.vars["ansible_host"]) == ("192.0.2.11", "storage-1.example.org")
    assert (second.address, second.vars["ansible_host"]) == ("192.0.2.12", "192.0.2.12")
    assert second.vars["data_devices"] == ["/dev/nvme0n1", "/dev/nvme1n1"]
    assert first.vars["scylla_repository_key"] == "~/scylladb.gpg"
    assert found.kairosdb[0].url == "https://192.0.2.21:8080"


def test_what_the_sample_only_suggests_is_understood(tmp_path: Path) -> None:
    """Its comments are taken out, as a user does who needs what they say."""
    text = (paths.ANSIBLE / "inventory-sample.yml").read_text()
    told = re.sub(r"^( +)# (?=[a-z_]+:|  - )", r"\1", text, flags=re.MULTILINE)
    (tmp_path / "mine.yml").write_text(told)
    made = completed(planned("single-60k"), tmp_path / "mine.yml")
    inventory.write(tmp_path / "inventory.yml", made, "")
    node = inventory.read(tmp_path / "inventory.yml").kairosdb[0]
    assert "kairosdb.example.org" in node.known_as
    assert node.vars["firewall_admin_cidrs"] == ["198.51.100.0/24"]
    assert node.vars["firewall_extra"][0]["to"] == "kairosdb"
