"""A dead storage node's place is taken: also where its machine is gone, and in mid-deploy."""

from typing import Any

import pytest
from rich.console import Console
from test_operate import HEALTHY, STATUS, hosts, planned, seen

from kairoscope import paths
from kairoscope.cli import known
from kairoscope.deploy import bootstrap, deploy
from kairoscope.deploy.deploy import Deployment
from kairoscope.deploy.operate import data, nodes, safety, state
from kairoscope.deploy.operate.deployed import Deployed
from kairoscope.deploy.operate.state import Seen
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, ssh
from kairoscope.hosts.deployed import finished_file
from kairoscope.targets.target import Options, Target

HOST_ID = "1f0a3f6d-6f3c-4c8e-9f0b-0c6f6a1b2c3d"  # of 10.77.0.12 in STATUS
RING = {"10.77.0.11": "UN", "10.77.0.12": "DN", "10.77.0.1": "UN"}


def test_a_node_is_known_by_its_address_or_by_the_one_that_is_nobodys():
    here, own = hosts(), hosts().storage[1]
    dead = {"10.0.0.1": "UN", "10.0.0.2": "DN", "10.0.0.3": "UN"}
    assert safety.address_in_ring(here, seen(here, storage_1=dead), own) == "10.0.0.2"
    # Its machine was made anew, with another address.
    moved = {"10.0.0.1": "UN", "10.9.9.9": "DN", "10.0.0.3": "UN"}
    told = seen(here, storage_1=moved, storage_2=None, storage_3=moved)
    assert safety.address_in_ring(here, told, own) == "10.9.9.9"
    assert safety.not_normal(here, told, ["storage-2"], ["10.9.9.9"]) == []
    (problem, _) = safety.not_normal(here, told, ["storage-2"])
    assert problem == "storage-1 sees 10.9.9.9 DN, which is no host of ours"
    # Of two it may be either.
    more = moved | {"10.9.9.8": "DN"}
    told = seen(here, storage_1=more, storage_2=None, storage_3=more)
    assert safety.address_in_ring(here, told, own) == "10.0.0.2"


class Site(Target):
    """A target that makes hosts anew; what is called, in order, and what its hosts answer."""

    name, makes_anew = "lab", True

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.ring = dict(RING)
        self.reached, self.dies = False, False
        self.deployed = Deployed(
            Deployment(self, known.stack("kairosdb"), Options(paths.CHECKOUT), Console(quiet=True))
        )

    def provision(self, *_: Any) -> Any:
        raise NotImplementedError

    def destroy(self, say: Any) -> None:
        raise NotImplementedError

    def make_anew(self, host: Any, say: Any) -> None:
        self.calls.append(("anew", host.name))

    def prepare(self, plan: Any, of: Deployment) -> None:
        self.calls.append(("prepare", of.options.let_go))
        if self.dies:
            raise KeyboardInterrupt

    def run(self, host: Any, program: list[str], **_: Any) -> str:
        if not self.reached:
            raise ssh.RemoteError(f"{host.name}: ssh failed")
        return ""

    def look(self, here: Any) -> Seen:
        rings = {h.name: None if h.name == "storage-2" else self.ring for h in here.storage}
        return Seen(rings, 1, {host.name: HEALTHY for host in here.kairosdb})

    def has(self, **addresses: str) -> None:
        """Write its inventory."""
        given = {f"storage-{i}": a for i, a in zip((1, 2, 3), [*RING], strict=True)}
        given |= {name.replace("_", "-"): address for name, address in addresses.items()}
        storage = {name: {"address": a, "keyspaces_dir": "/x"} for name, a in given.items()}
        children = {"storage": {"hosts": storage}, "kairosdb": {"hosts": {"kairosdb-1": {}}}}
        of_all = {"storage_engine": "scylla", "managed": True}
        folder = paths.target_dir("lab")
        inventory.write(
            folder / "inventory.yml", {"all": {"vars": of_all, "children": children}}, ""
        )
        (folder / "plan.json").write_text(planned().to_json())

    @property
    def replaced(self) -> str | None:
        """What the inventory says of storage-2."""
        found: str | None = inventory.load("lab").host("storage-2").vars.get(bootstrap.REPLACES)
        return found


@pytest.fixture
def site(monkeypatch, tmp_path):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    site = Site()
    monkeypatch.setattr(state, "look", site.look)
    monkeypatch.setattr(state, "status_of", lambda _: STATUS)
    monkeypatch.setattr(ssh, "run", site.run)
    monkeypatch.setattr(deploy, "prepare", site.prepare)
    monkeypatch.setattr(deploy, "apply", lambda *_, **__: site.calls.append(("deploy",)))
    monkeypatch.setattr(Deployed, "confirm", lambda *_: site.calls.append(("confirm",)))
    site.has()
    return site


THE_REST = [("prepare", "storage-2"), ("deploy",), ("confirm",)]


def test_a_machine_that_is_gone_is_made_anew(site):
    finished_file("lab").touch()
    nodes.replace(site.deployed, "storage-2")
    assert site.calls == [("anew", "storage-2"), *THE_REST]
    assert site.replaced == HOST_ID
    assert operation.unfinished("lab") is None


def test_what_cannot_be_had_made_is_refused_before_anything_is_marked(site, monkeypatch):
    def refuse(options: Options) -> None:
        raise UserError("account.tfvars: missing")

    monkeypatch.setattr(site, "check_given", refuse)
    with pytest.raises(UserError, match="missing"):
        nodes.replace(site.deployed, "storage-2")
    assert site.calls == []
    assert site.replaced is None
    assert operation.unfinished("lab") is None


def test_one_with_blank_disks_too_as_nothing_sets_it_up_again(site):
    site.reached = True
    nodes.replace(site.deployed, "storage-2")
    assert site.calls == [("anew", "storage-2"), *THE_REST]


def test_one_that_was_provisioned_anew_is_taken_as_it_is(site):
    site.has(storage_2="10.77.0.99")
    site.reached = True
    nodes.replace(site.deployed, "storage-2")
    assert site.calls == THE_REST
    assert site.replaced == HOST_ID


def test_a_deploy_that_cannot_go_on_is_no_hindrance(site):
    """It cannot as long as the node is dead, and ends with the replacement."""
    assert not finished_file("lab").exists()
    nodes.replace(site.deployed, "storage-2")
    assert ("deploy",) in site.calls
    # A backup of what is left is refused for what is wrong, not for the deploy.
    with pytest.raises(UserError, match="storage-1 sees storage-2 DN"):
        data.backup(site.deployed, None)


def test_an_interrupted_one_makes_no_second_machine(site):
    site.dies = True
    with pytest.raises(KeyboardInterrupt):
        nodes.replace(site.deployed, "storage-2")
    assert operation.unfinished("lab").memory == HOST_ID
    site.dies, site.calls = False, []
    site.has(storage_2="10.77.0.99")  # as the provision wrote it, with what it kept of before
    bootstrap.set_replaces("lab", "storage-2", HOST_ID)
    nodes.replace(site.deployed, "storage-2")
    assert site.calls == THE_REST


def test_one_that_is_alive_is_not_replaced(site):
    site.ring = dict.fromkeys(RING, "UN")
    with pytest.raises(UserError, match="sees storage-2 UN; only one that is down"):
        nodes.replace(site.deployed, "storage-2")
    assert site.calls == []
