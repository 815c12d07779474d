"""A dead storage node's place is taken: also where its machine is gone, and in mid-deploy."""

import dataclasses
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console
from test_operate import HEALTHY, STATUS, hosts, planned, seen

from kairoscope import paths
from kairoscope.cli import known, operate
from kairoscope.cli.main import main
from kairoscope.deploy import bootstrap, deploy, members
from kairoscope.deploy.deploy import Deployment
from kairoscope.deploy.operate import (
    adding,
    cluster,
    data,
    nodes,
    removing,
    replacing,
    safety,
    servers,
)
from kairoscope.deploy.operate.cluster import Seen
from kairoscope.deploy.operate.deployed import Deployed, towards
from kairoscope.errors import UserError
from kairoscope.hosts import inventory, operation, ssh
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.inventory import Host
from kairoscope.hosts.machines import Machine, Machines
from kairoscope.hosts.operation import Operation
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb.given_up import removed_nodes
from kairoscope.stacks.kairosdb.servers import nodetool
from kairoscope.stacks.kairosdb.servers.client import NO_ANSWER, KairosDBStatus
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
        self.sees: dict[str, dict[str, str]] = {}  # those that see another ring
        self.silent: tuple[str, ...] = ("storage-2", "storage-4")
        self.kairosdb: KairosDBStatus = HEALTHY
        self.reached, self.dies, self.kairosdb_stays_away = False, False, False
        self.has_files = False
        self.away: list[str] = []
        self.drained: list[str] = []
        self.moves: dict[str, str] = {}
        self.plans: list[Plan] = []
        self.deployed = Deployed(
            Deployment(self, known.stack("kairosdb"), Options(paths.CHECKOUT), Console(quiet=True))
        )

    def provision(self, *_: Any) -> Any:
        raise NotImplementedError

    def destroy(self, say: Any) -> None:
        raise NotImplementedError

    def make_anew(self, host: Any, say: Any) -> None:
        self.calls.append(("anew", host.name))

    def give_back(self, host: Any, say: Any) -> None:
        self.calls.append(("back", host))

    def keep(self, host: Any, say: Any) -> None:
        self.calls.append(("keep", host.name))

    def prepare(self, plan: Any, of: Deployment, spared: Any = ()) -> list[str]:
        self.calls.append(("prepare", of.options.let_go, *of.options.without))
        self.plans.append(plan)
        if self.dies:
            raise KeyboardInterrupt
        if self.moves:
            self.has(**self.moves)
        here = inventory.load("lab").all
        return [host.name for host in here if host.name in self.away and host.role in spared]

    def apply(self, *_: Any, limit: str = "", **__: Any) -> None:
        self.calls.append(("deploy", limit) if limit else ("deploy",))
        if self.kairosdb_stays_away and limit != "storage":
            raise UserError("kairosdb-1 is not healthy: its disk")

    def playbook(self, *names: Any, limit: str = "", **_: Any) -> None:
        self.calls.append((names[2], limit))

    def confirm(self, verb: str, but: Any = ()) -> None:
        self.calls.append(("confirm", *but))

    def run(self, host: Any, program: list[str], **_: Any) -> str:
        if program[:2] == ["sh", "-euc"]:
            self.calls.append((host.name, *program))
        elif not self.reached:
            raise ssh.RemoteError(f"{host.name}: ssh failed")
        return "yes" if self.has_files else "no"

    def look(self, here: Any) -> Seen:
        rings = {
            h.name: None if h.name in self.silent else self.sees.get(h.name, self.ring)
            for h in here.storage
        }
        statuses = {host.name: self.kairosdb for host in here.kairosdb}
        return Seen(rings, 1, statuses, frozenset(self.drained))

    def has(self, **addresses: str) -> None:
        """Write its inventory."""
        given = {f"storage-{i}": a for i, a in zip((1, 2, 3), [*RING], strict=True)}
        given |= {name.replace("_", "-"): address for name, address in addresses.items()}
        of_each = {"keyspaces_dir": "/x", "unit": "cassandra"}
        storage = {name: {"address": a, **of_each} for name, a in given.items()}
        others = ("kairosdb", "loader", "monitoring")
        children = {
            "storage": {"hosts": storage},
            **{role: {"hosts": {f"{role}-1": {"address": "10.77.0.9"}}} for role in others},
        }
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
    monkeypatch.setattr(cluster, "look", site.look)
    monkeypatch.setattr(cluster, "status_of", lambda _: STATUS)
    monkeypatch.setattr(ssh, "run", site.run)
    monkeypatch.setattr(deploy, "prepare", site.prepare)
    monkeypatch.setattr(deploy, "apply", site.apply)
    monkeypatch.setattr(deploy, "playbook", site.playbook)
    monkeypatch.setattr(Deployed, "confirm", site.confirm)
    monkeypatch.setattr(cluster, "forget_joining", lambda hosts, address, _: gone(hosts, address))

    def gone(hosts: Any, address: str) -> None:
        site.calls.append(("gone", address, *(host.name for host in hosts)))

    site.has()
    return site


THE_REST = [("prepare", "storage-2"), ("deploy",), ("confirm",)]


def test_a_machine_that_is_gone_is_made_anew(site):
    finished_file("lab").touch()
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("anew", "storage-2"), *THE_REST]
    assert site.replaced == HOST_ID
    assert operation.unfinished("lab") is None


def test_what_cannot_be_had_made_is_refused_before_anything_is_marked(site, monkeypatch):
    def refuse(options: Options, plan: Any = None) -> None:
        raise UserError("account.tfvars: missing")

    monkeypatch.setattr(site, "check_given", refuse)
    with pytest.raises(UserError, match="missing"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == []
    assert site.replaced is None
    assert operation.unfinished("lab") is None


def test_one_with_blank_disks_too_as_nothing_sets_it_up_again(site):
    site.reached = True
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("anew", "storage-2"), *THE_REST]


def test_one_that_was_provisioned_anew_is_taken_as_it_is(site):
    site.has(storage_2="10.77.0.99")
    site.reached = True
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == THE_REST
    assert site.replaced == HOST_ID


@pytest.mark.parametrize(("reached", "has_files"), [(False, False), (True, True)])
def test_unless_it_has_run_or_nobody_knows_that_it_has_not(site, reached, has_files):
    """Half in by an earlier attempt, say: no ring has it, so that nothing is lost with it."""
    site.has(storage_2="10.77.0.99")
    site.reached, site.has_files = reached, has_files
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("anew", "storage-2"), *THE_REST]


def test_a_deploy_that_cannot_go_on_is_no_hindrance(site):
    """It cannot as long as the node is dead, and ends with the replacement."""
    assert not finished_file("lab").exists()
    replacing.replace(site.deployed, "storage-2")
    assert ("deploy",) in site.calls
    # A backup of what is left is refused for what is wrong, not for the deploy.
    with pytest.raises(UserError, match="storage-1 sees storage-2 DN"):
        data.backup(site.deployed, None)


def test_an_interrupted_one_makes_no_second_machine(site):
    site.dies = True
    with pytest.raises(KeyboardInterrupt):
        replacing.replace(site.deployed, "storage-2")
    assert operation.unfinished("lab").memory == HOST_ID
    site.dies, site.calls = False, []
    site.has(storage_2="10.77.0.99")  # as the provision wrote it, with what it kept of before
    bootstrap.set_replaces("lab", "storage-2", HOST_ID)
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == THE_REST


def interrupted(site: Site) -> None:
    """A replacement ends in the middle, before anything was carried out that it has marked."""
    site.dies = True
    with pytest.raises(KeyboardInterrupt):
        replacing.replace(site.deployed, "storage-2")
    site.dies, site.calls = False, []


@pytest.mark.parametrize("noted", ["10.77.0.12", "10.77.0.99"])
def test_one_that_comes_back_before_its_machine_has_gone_stays(site, noted):
    """A healthy replica would end, and its instance be marked for whatever is applied next."""
    interrupted(site)
    # An inventory may have been written by then, with another address than the ring has.
    site.has(storage_2=noted)
    site.ring = dict.fromkeys(RING, "UN")
    with pytest.raises(UserError, match="sees storage-2 UN; only one that is down"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("keep", "storage-2")]
    assert site.replaced is None
    # Nothing is left to be gone on with.
    assert operation.unfinished("lab") is None


def test_nor_does_it_go_on_where_another_one_is_down_by_then(site):
    interrupted(site)
    site.ring["10.77.0.1"] = "DN"
    with pytest.raises(UserError, match="storage-3: down as well"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("keep", "storage-2")]
    assert operation.unfinished("lab").verb == "replace"
    # Marked once more, once the other one is up again.
    site.ring, site.calls = dict(RING), []
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("anew", "storage-2"), *THE_REST]


@pytest.mark.parametrize(
    ("sees", "silent"),
    [
        ({"storage-1": dict.fromkeys(RING, "UN")}, ()),
        ({}, ("storage-1", "storage-3")),
    ],
    ids=["of-two-minds", "nobody-answers"],
)
def test_one_that_is_not_known_to_be_up_keeps_its_replacement(site, sees, silent):
    """It may be dead after all, and what was marked and noted is then gone on with."""
    interrupted(site)
    site.sees, site.silent = sees, (*site.silent, *silent)
    with pytest.raises(UserError, match="refused, nothing was changed"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("keep", "storage-2")]
    assert operation.unfinished("lab").verb == "replace"


def test_what_it_leaves_out_is_noted_as_it_was_seen_last(site):
    """The replacement of yet another node goes by that note."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.has(storage_4="10.77.0.14")
    interrupted(site)
    assert operation.unfinished("lab").memory == f"{HOST_ID} storage-4"
    # Its server was not reached, so as to be stopped, and it has joined since.
    site.ring["10.77.0.14"], site.silent = "UN", ("storage-2",)
    interrupted(site)
    assert operation.unfinished("lab").memory == HOST_ID


def test_what_cannot_be_kept_is_said_beside_the_refusal(site, monkeypatch):
    def fail(host: Host, say: Any) -> None:
        raise UserError("no credentials")

    interrupted(site)
    site.ring = dict.fromkeys(RING, "UN")
    monkeypatch.setattr(site, "keep", fail)
    with pytest.raises(UserError, match=r"(?s)only one that is down.*no credentials"):
        replacing.replace(site.deployed, "storage-2")
    assert operation.unfinished("lab").verb == "replace"


def test_one_whose_machine_has_gone_is_gone_on_with_whatever_the_ring_says(site, monkeypatch):
    """It may be half in, or in by the dead one's address, which looks like the one of before."""

    def break_off(*_: Any, **__: Any) -> None:
        raise UserError("the deploy playbook failed")

    with monkeypatch.context() as broken:
        broken.setattr(deploy, "apply", break_off)
        with pytest.raises(UserError, match="playbook failed"):
            replacing.replace(site.deployed, "storage-2")
    site.ring, site.calls = dict.fromkeys(RING, "UN"), []
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == THE_REST


def test_one_that_is_alive_is_not_replaced(site):
    site.ring = dict.fromkeys(RING, "UN")
    with pytest.raises(UserError, match="sees storage-2 UN; only one that is down"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == []


def test_one_that_was_drained_is_not_dead(site):
    """Others see it down, and all its data is on its machine, which would go."""
    site.drained = ["storage-2"]
    with pytest.raises(UserError, match=r"storage-2 runs, and is down for having been drained"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == []


def test_of_two_that_are_dead_neither_is_replaced_and_the_way_out_is_named(site):
    """Of three copies one is left: it may lack what the other two had acknowledged."""
    finished_file("lab").touch()
    site.ring["10.77.0.1"] = "DN"
    with pytest.raises(UserError, match=r"storage-3: down as well.*restore a backup"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == []


# Of a target whose hosts others make


class Own(Site):
    """Target `hosts`, with an inventory that has storage-2 at another address."""

    makes_anew = False

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def provision(self, *_: Any) -> Machines:
        return Machines([Machine("storage-2", "storage", "10.77.0.99", {})], "x")

    def run(self, host: Any, program: list[str], **_: Any) -> str:
        self.asked.append(host.address)
        return super().run(host, program)


def test_the_machine_of_the_inventory_that_is_given_takes_the_place(site, monkeypatch):
    """What is noted of before has the dead one's address, and a deploy refuses another."""
    own = Own()
    monkeypatch.setattr(cluster, "look", own.look)
    monkeypatch.setattr(ssh, "run", own.run)
    may = r"storage-2 at 10\.77\.0\.99 may have a node's data \(storage-2: ssh failed\) in /x"
    with pytest.raises(UserError, match=may):
        replacing.replace(own.deployed, "storage-2")
    own.reached = own.has_files = True
    with pytest.raises(UserError, match=r"storage-2 at 10\.77\.0\.99 has a node's data in /x"):
        replacing.replace(own.deployed, "storage-2")
    assert site.calls == []
    own.has_files = False
    replacing.replace(own.deployed, "storage-2")
    assert set(own.asked) == {"10.77.0.99"}
    assert site.calls == THE_REST
    assert site.replaced == HOST_ID


# In the middle of another verb

THERE = "storage-1 storage-2 storage-3"
FOUR = {"storage_nodes": 4}
THAT_NODE = [
    ("firewall", "storage:!storage-2"),
    ("deploy", "storage-2"),
    ("confirm", "kairosdb-1"),
]


@pytest.mark.parametrize(
    "verb", ["add-kairosdb", "remove-kairosdb", "rolling-config", "upgrade", "upgrade-scylla"]
)
def test_it_comes_in_over_a_verb_that_the_dead_node_keeps_from_its_end(site, verb):
    older = Operation(verb, memory="5.2.18 5.2.19 before-upgrade-1")
    operation.begin("lab", older)
    # One that was being added, or restarted.
    site.kairosdb = NO_ANSWER
    site.dies = True
    with pytest.raises(KeyboardInterrupt):
        replacing.replace(site.deployed, "storage-2")
    held = operation.unfinished("lab")
    assert held == Operation("replace", "storage-2", HOST_ID, over=older)
    with pytest.raises(UserError, match="`replace --limit storage-2` was interrupted"):
        operation.check_none_unfinished("lab", Operation(verb))
    site.dies, site.calls = False, []
    replacing.replace(site.deployed, "storage-2")
    # That node alone: the others may have another version, which is the verb's to bring.
    assert site.calls == [("prepare", "storage-2"), *THAT_NODE]
    assert operation.check_none_unfinished("lab", Operation(verb)) == older


def test_the_replacement_of_another_node_does_not_keep_it_out(site):
    """That one has its place, and waits in its deploy until all are up, which this one is not."""
    first = Operation("replace", "storage-3", "some-id")
    operation.begin("lab", first)
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("anew", "storage-2"), ("prepare", "storage-2"), *THAT_NODE]
    assert operation.unfinished("lab") == first
    # What that one left out stays out: it has not joined.
    site.calls = []
    operation.end("lab")
    operation.begin("lab", Operation("replace", "storage-3", "some-id storage-4"))
    first = operation.unfinished("lab")
    replacing.replace(site.deployed, "storage-2")
    assert ("prepare", "storage-2", "storage-4") in site.calls
    # Where the other has not got its place yet, two are dead.
    site.ring["10.77.0.1"] = "DN"
    with pytest.raises(UserError, match="storage-3: down as well"):
        replacing.replace(site.deployed, "storage-2")
    assert operation.unfinished("lab") == first


def test_one_that_is_alive_is_not_replaced_in_the_middle_of_a_verb_either(site):
    operation.begin("lab", Operation("upgrade"))
    site.ring = dict.fromkeys(RING, "UN")
    with pytest.raises(UserError, match="only one that is down"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == []
    assert operation.unfinished("lab") == Operation("upgrade")


@pytest.mark.parametrize("others_see", [{}, {"10.77.0.14": "UJ"}])
def test_a_node_that_has_not_joined_stands_aside(site, others_see):
    """Two that join at once do not know of each other; it may stream from the dead one."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.has(storage_4="10.77.0.14")
    site.ring |= others_see
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [
        ("storage-4", "sh", "-euc", nodes._STAND_ASIDE, "sh", "cassandra"),
        ("gone", "10.77.0.14", "storage-1", "storage-3"),
        ("anew", "storage-2"),
        ("prepare", "storage-2", "storage-4"),
        *THAT_NODE,
    ]
    assert operation.unfinished("lab") == Operation("add-storage", memory=THERE)
    with pytest.raises(UserError, match=r"in no ring.*Go on with `add-storage`"):
        replacing.replace(site.deployed, "storage-4")


def test_one_that_has_joined_is_a_node_like_the_others(site):
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.has(storage_4="10.77.0.14")
    site.ring |= {"10.77.0.14": "UN"}
    with pytest.raises(UserError, match="storage-4 does not answer nodetool"):
        replacing.replace(site.deployed, "storage-2")
    assert site.calls == []


def test_one_that_has_left_already_is_not_asked(site):
    site.has(storage_4="10.77.0.14")
    operation.begin("lab", Operation("decommission", "storage-4", "empty"))
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("anew", "storage-2"), ("prepare", "storage-2", "storage-4"), *THAT_NODE]


def test_a_restore_is_not_come_in_over(site):
    operation.begin("lab", Operation("restore", memory="/a"))
    with pytest.raises(UserError, match="`restore` was interrupted"):
        replacing.replace(site.deployed, "storage-2")


def test_other_verbs_are_told_of_the_way_out(site):
    operation.begin("lab", Operation("upgrade"))
    for verb in (data.clear_snapshots, lambda of: data.repair(of, None)):
        with pytest.raises(UserError, match=r"storage node has died.* operate replace --limit"):
            verb(site.deployed)
    # Refused for what is wrong, not for the upgrade.
    with pytest.raises(UserError, match="storage-1 sees storage-2 DN"):
        data.backup(site.deployed, None)


def test_what_was_before_an_upgrade_was_of_another_machine(site):
    before = paths.target_dir("lab") / "before-upgrade.yml"
    before.write_text((paths.target_dir("lab") / "inventory.yml").read_text())
    operation.begin("lab", Operation("upgrade", memory="before-upgrade-1"))
    site.has(storage_2="10.77.0.99")
    with pytest.raises(UserError, match="storage-2 came, left or was replaced"):
        servers.upgrade(site.deployed, rollback=True)
    assert before.exists()


# In a deploy that never finished, and beside hosts that hang


def test_kairosdb_need_not_stand_yet(site):
    site.kairosdb = NO_ANSWER
    replacing.replace(site.deployed, "storage-2")
    assert ("deploy",) in site.calls


STORAGE_FIRST = [("deploy", "storage"), ("confirm", "kairosdb-1")]


def test_nor_where_all_is_deployed(site):
    """Both gone: a deploy would be refused for the storage node, which is the first to come back.
    What makes the hosts (Terraform) makes that of KairosDB in the same step."""
    finished_file("lab").touch()
    site.kairosdb = NO_ANSWER
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [
        ("anew", "storage-2"),
        ("prepare", "storage-2"),
        *STORAGE_FIRST,
        ("deploy",),
        ("confirm",),
    ]


def test_a_kairosdb_host_that_is_not_reached_is_left_for_a_deploy(site):
    """A machine of one's own that is gone, or an instance that hangs."""
    finished_file("lab").touch()
    site.kairosdb, site.away = NO_ANSWER, ["kairosdb-1"]
    replacing.replace(site.deployed, "storage-2")
    rest = [("deploy", "all:!kairosdb-1"), ("confirm", "kairosdb-1")]
    assert site.calls == [("anew", "storage-2"), ("prepare", "storage-2"), *STORAGE_FIRST, *rest]
    assert operation.unfinished("lab") is None


def test_a_kairosdb_node_that_cannot_be_well_keeps_no_replacement_from_its_end(site):
    """As with a disk in trouble: the next storage node that dies must be replaced, too."""
    finished_file("lab").touch()
    site.kairosdb, site.kairosdb_stays_away = NO_ANSWER, True
    with pytest.raises(UserError) as error:
        replacing.replace(site.deployed, "storage-2")
    said = error.value.message
    assert said.startswith("storage-2 is replaced, and all storage nodes are well")
    assert "its disk" in said and said.endswith("make deploy TARGET=lab")
    assert operation.unfinished("lab") is None


def test_what_is_not_well_is_said(site, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(Deployed, "say", lambda _, text: said.append(text))
    site.kairosdb = NO_ANSWER
    replacing.replace(site.deployed, "storage-2")
    assert any(text.startswith("replace: kairosdb-1 is not healthy") for text in said)


def test_where_no_node_has_stood_the_way_out_is_named(site):
    site.ring = None
    with pytest.raises(UserError, match="there is no data: make destroy TARGET=lab"):
        replacing.replace(site.deployed, "storage-2")
    finished_file("lab").touch()
    with pytest.raises(UserError) as error:
        replacing.replace(site.deployed, "storage-2")
    assert "destroy" not in error.value.message


def test_hosts_that_nothing_is_stored_on_are_done_without(site):
    site.away = ["loader-1", "monitoring-1"]
    replacing.replace(site.deployed, "storage-2")
    # KairosDB is restarted and told of the new node.
    assert ("deploy", "all:!loader-1:!monitoring-1") in site.calls


def test_an_addition_is_gone_on_with_where_its_machine_is_gone(site):
    """Terraform is to make it once more, and the guard to let it."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.has(storage_4="10.77.0.14")
    adding.add_storage(site.deployed, planned(storage_nodes=4))
    assert site.calls == [("prepare", "storage-4"), ("deploy",), ("confirm",)]


def test_one_that_is_made_once_more_at_another_address_is_forgotten_at_the_first(site):
    """Cassandra goes on showing it as joining, and lets nobody else join."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.has(storage_4="10.77.0.14")
    site.ring["10.77.0.14"] = "DJ"
    site.moves = {"storage_4": "10.77.0.98"}
    adding.add_storage(site.deployed, planned(storage_nodes=4))
    gone = ("gone", "10.77.0.14", "storage-1", "storage-2", "storage-3")
    assert site.calls == [("prepare", "storage-4"), gone, ("deploy",), ("confirm",)]


@pytest.mark.parametrize("state", ["DN", "DL", "UM"])
def test_one_that_has_joined_is_not_made_once_more_by_an_addition(site, state):
    """It would be empty beside the dead one: Terraform's guard, or a deploy's, refuses it."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.has(storage_4="10.77.0.14")
    site.ring["10.77.0.14"] = state
    adding.add_storage(site.deployed, planned(storage_nodes=4))
    assert site.calls[0] == ("prepare", None)
    assert members.read("lab")["storage-4"] == "10.77.0.14"


def test_one_of_which_nobody_knows_whether_it_has_joined_is_not_let_go(site):
    """As where no node is reached: it may have its share of the data, which the others gave up."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.has(storage_4="10.77.0.14")
    site.ring = None
    site.moves = {"storage_4": "10.77.0.98"}
    adding.add_storage(site.deployed, planned(storage_nodes=4))
    # Nor is it forgotten at the address that it had.
    assert site.calls == [("prepare", None), ("deploy",), ("confirm",)]
    assert "storage-4" not in members.read("lab")


@pytest.mark.parametrize(
    ("verb", "limit", "was", "other"),
    [
        (adding.add_storage, (), FOUR, {}),
        (adding.add_storage, (), FOUR, FOUR | {"kairosdb_nodes": 1}),
        (
            adding.add_storage,
            (),
            {"storage_nodes": 4},
            {"storage_nodes": 4, "replication_factor": 2},
        ),
        (adding.add_storage, (), FOUR, FOUR | {"datacenter": "x"}),
        (removing.decommission, ("storage-4",), {}, FOUR),
        (adding.add_kairosdb, (), {"kairosdb_nodes": 2}, {"kairosdb_nodes": 1}),
        (removing.remove_kairosdb, ("kairosdb-1",), {"kairosdb_nodes": 1}, {"kairosdb_nodes": 2}),
    ],
)
def test_what_was_begun_goes_on_to_the_plan_that_it_began_with(
    site, monkeypatch, verb, limit, was, other
):
    """By another one hosts would end that it has brought, or come back that it has emptied."""
    monkeypatch.setattr(removed_nodes, "keep", lambda *_: [])
    site.reached = True
    nodes_ = {"storage_nodes": 3, "kairosdb_nodes": 2}
    wanted, another = planned(**nodes_ | was), planned(**nodes_ | other)
    noted = towards(wanted, verb.__name__.replace("_", "-"), *limit)
    memory = THERE if verb is adding.add_storage else "empty" if limit else ""
    operation.begin("lab", dataclasses.replace(noted, memory=memory))
    site.has(storage_4="10.77.0.14")
    with pytest.raises(UserError, match=r"was begun for .*: kairoscope operate .*lab .*/laptop"):
        verb(site.deployed, another, *limit)
    assert site.calls == []
    verb(site.deployed, wanted, *limit)
    assert site.calls[-2:] == [("deploy",), ("confirm",)]


def test_an_upgrade_of_scylladb_looks_at_its_release_by_itself():
    """It may go back to the one before, and to no other nodes."""
    plan = planned()
    plan = plan.model_copy(update={"storage": plan.storage | {"scylla_version": "5.4.9"}})
    assert towards(plan, "x").shape["scylla_version"] == "5.4.9"
    assert "scylla_version" not in towards(plan, "x", release=False).shape


@pytest.mark.parametrize(
    ("verb", "limit", "field", "was", "memories"),
    [
        (adding.add_storage, (), "storage_nodes", 3, [THERE]),
        (adding.add_kairosdb, (), "kairosdb_nodes", 1, [""]),
        (removing.decommission, ("storage-4",), "storage_nodes", 4, ["", "empty"]),
        (removing.remove_kairosdb, ("kairosdb-1",), "kairosdb_nodes", 2, ["", "empty"]),
    ],
)
def test_a_verb_notes_which_plan_it_goes_to(site, monkeypatch, verb, limit, field, was, memories):
    """At each of its steps: what is noted without a plan goes on with any."""
    monkeypatch.setattr(Deployed, "refuse_unless_whole", lambda *_: None)
    monkeypatch.setattr(Deployed, "build", lambda _: None)
    monkeypatch.setattr(removing, "_no_room_for", lambda *_: [])
    monkeypatch.setattr(cluster, "is_gone", lambda *_: False)
    monkeypatch.setattr(cluster, "wait_until_gone", lambda *_: None)
    monkeypatch.setattr(removed_nodes, "keep", lambda *_: [])
    finished_file("lab").touch()
    site.reached = site.dies = True
    if limit == ("storage-4",):
        site.has(storage_4="10.77.0.14")
    counts = {"storage_nodes": 3, "kairosdb_nodes": 1}
    before = planned(**counts | {field: was})
    plan = planned(**counts | {field: was + (-1 if limit else 1)})
    (paths.target_dir("lab") / "plan.json").write_text(before.to_json())

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for memory, playbook in zip(memories, (die, site.playbook), strict=False):
        # Of two steps the first is a playbook; each verb ends in `prepare` otherwise.
        monkeypatch.setattr(deploy, "playbook", playbook)
        with pytest.raises(KeyboardInterrupt):
            verb(site.deployed, plan, *limit)
        noted = operation.unfinished("lab")
        shape = towards(plan, "x").shape
        assert (noted.memory, noted.shape) == (memory, shape)
        with pytest.raises(UserError, match=f"{field} {shape[field]}, not {was}"):
            verb(site.deployed, before, *limit)


def test_one_that_has_joined_and_was_made_once_more_can_be_replaced(site):
    """By the address that the ring has it at, as any other; not "go on", which does not end."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.has(storage_4="10.77.0.98")
    site.ring |= {"10.77.0.12": "UN", "10.77.0.14": "DN"}
    here = inventory.load("lab")
    views = dict.fromkeys(("storage-1", "storage-2", "storage-3"), site.ring)
    seen_now = Seen({**views, "storage-4": None}, 1, {})
    assert replacing._outside(Operation("add-storage", memory=THERE), here, seen_now) == []
    assert safety.address_in_ring(here, seen_now, here.host("storage-4")) == "10.77.0.14"


def test_hosts_that_could_not_be_had_are_not_asked_for_with_a_dead_node_s(site, monkeypatch):
    """One quota fails them all, and the noted plan has them. Nothing is deployed to them."""
    said: list[str] = []
    monkeypatch.setattr(Deployed, "say", lambda _, text: said.append(text))
    added = planned(storage_nodes=4, kairosdb_nodes=3, loader_hosts=2)
    (paths.target_dir("lab") / "plan.json").write_text(added.to_json())
    operation.begin("lab", Operation("add-storage", memory=THERE))
    replacing.replace(site.deployed, "storage-2")
    unmade = ("storage-4", "kairosdb-2", "kairosdb-3", "loader-2")
    assert site.calls == [("anew", "storage-2"), ("prepare", "storage-2", *unmade), *THAT_NODE]
    assert any(f"goes on without {', '.join(unmade)}, which could not" in text for text in said)
    (given,) = site.plans
    has = given.experiment.cluster
    assert (has.storage_nodes, has.kairosdb_nodes, has.loader_hosts) == (3, 1, 1)


def test_of_hosts_of_one_s_own_the_plan_is_what_the_inventory_has_to_fit(site, monkeypatch):
    """They have names of their own, so that nobody can say which of them are missing."""
    own = Own()
    own.reached = True
    monkeypatch.setattr(cluster, "look", own.look)
    monkeypatch.setattr(ssh, "run", own.run)
    (paths.target_dir("lab") / "plan.json").write_text(planned(kairosdb_nodes=3).to_json())
    replacing.replace(own.deployed, "storage-2")
    assert site.calls == THE_REST
    assert site.plans[0].experiment.cluster.kairosdb_nodes == 3


def test_one_that_is_there_and_left_out_is_not_among_them(site):
    """It has not joined, but its host is made; Terraform would end it."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    held = Operation("replace", "storage-2", f"{HOST_ID} storage-4", step="made")
    operation.begin("lab", held)
    (paths.target_dir("lab") / "plan.json").write_text(planned(storage_nodes=4).to_json())
    bootstrap.set_replaces("lab", "storage-2", HOST_ID)
    replacing.replace(site.deployed, "storage-2")
    assert site.calls == [("prepare", "storage-2", "storage-4"), *THAT_NODE]
    assert site.plans[0].experiment.cluster.storage_nodes == 4


def begun(role: str) -> None:
    """An addition was begun that did not come to its end."""
    field = f"{role}_nodes"
    noted = towards(planned(**{"kairosdb_nodes": 1, field: 4 if role == "storage" else 2}), "x")
    memory = THERE if role == "storage" else ""
    operation.begin("lab", dataclasses.replace(noted, verb=f"add-{role}", memory=memory))


@pytest.mark.parametrize("role", ["storage", "kairosdb"])
def test_the_option_gives_up_and_begins_no_addition(site, monkeypatch, role):
    monkeypatch.setattr(operate, "_to_be", lambda *_: site.deployed)
    finished_file("lab").touch()
    line = ["operate", f"add-{role}", "laptop", "--target", "lab", "--give-up"]
    done = CliRunner().invoke(main, line)
    assert f"there is no unfinished add-{role} to be given up" in done.output
    assert (done.exit_code, site.calls) == (2, [])


@pytest.mark.parametrize("role", ["storage", "kairosdb"])
def test_an_addition_whose_host_could_not_be_had_is_given_up(site, role):
    site.ring = dict.fromkeys(RING, "UN")
    site.silent = ()
    before, name = planned(kairosdb_nodes=1), f"{role}-{4 if role == 'storage' else 2}"
    with pytest.raises(UserError, match=f"no unfinished add-{role}"):
        finished_file("lab").touch()
        adding.give_up(site.deployed, before, role)
    begun(role)
    for other in ({"loader_hosts": 2}, {f"{role}_nodes": 5}):
        with pytest.raises(UserError, match=r"--give-up needs the experiment from before it"):
            adding.give_up(site.deployed, planned(**{"kairosdb_nodes": 1} | other), role)
    assert site.calls == []
    adding.give_up(site.deployed, before, role)
    assert site.calls == [("back", name), ("prepare", name), ("deploy",), ("confirm",)]
    assert site.plans == [before]
    assert operation.unfinished("lab") is None


def test_so_is_one_of_a_storage_node_that_has_not_joined(site):
    begun("storage")
    site.ring = dict.fromkeys(RING, "UN") | {"10.77.0.14": "UJ"}
    site.silent = ("storage-4",)
    site.has(storage_4="10.77.0.14")
    before = planned(kairosdb_nodes=1)
    site.dies = True
    with pytest.raises(KeyboardInterrupt):
        adding.give_up(site.deployed, before, "storage")
    assert site.calls == [
        ("storage-4", "sh", "-euc", nodes._STAND_ASIDE, "sh", "cassandra"),
        ("gone", "10.77.0.14", "storage-1", "storage-2", "storage-3"),
        ("back", "storage-4"),
        ("prepare", "storage-4"),
    ]
    assert str(operation.unfinished("lab")) == "add-storage --give-up"
    # A load that ran meanwhile misses nothing of it.
    assert removed_nodes.since("lab", Host("storage-4", "storage", {}), 0)
    # It may go on after all.
    with pytest.raises(KeyboardInterrupt):
        adding.add_storage(site.deployed, planned(kairosdb_nodes=1, storage_nodes=4))
    assert str(operation.unfinished("lab")) == "add-storage"
    site.dies, site.calls = False, []
    adding.add_storage(site.deployed, planned(kairosdb_nodes=1, storage_nodes=4))
    assert site.calls == [("prepare", "storage-4"), ("deploy",), ("confirm",)]


def test_and_one_of_a_kairosdb_host_may_go_on_after_all(site):
    begun("kairosdb")
    site.dies = True
    with pytest.raises(KeyboardInterrupt):
        adding.give_up(site.deployed, planned(kairosdb_nodes=1), "kairosdb")
    assert str(operation.unfinished("lab")) == "add-kairosdb --give-up"
    with pytest.raises(KeyboardInterrupt):
        adding.add_kairosdb(site.deployed, planned(kairosdb_nodes=2))
    assert str(operation.unfinished("lab")) == "add-kairosdb"


def test_what_a_deploy_would_refuse_is_refused_before_an_addition_is_given_up(site, monkeypatch):
    """As an inventory that has still the host which goes."""
    begun("storage")
    site.ring, site.silent = dict.fromkeys(RING, "UN"), ()
    before = planned(kairosdb_nodes=1)

    def check(options: Options, plan: Plan | None = None) -> None:
        if plan is not None:
            raise UserError(f"not for {plan.experiment.cluster.storage_nodes}")

    monkeypatch.setattr(site, "check_given", check)
    with pytest.raises(UserError, match="not for 3"):
        adding.give_up(site.deployed, before, "storage")
    assert site.calls == []
    assert str(operation.unfinished("lab")) == "add-storage"


def test_an_addition_that_noted_no_plan_is_given_up_by_the_nodes_that_were_there(site):
    """It was begun before a plan was noted."""
    operation.begin("lab", Operation("add-storage", memory=THERE))
    site.ring, site.silent = dict.fromkeys(RING, "UN"), ()
    for nodes_ in (2, 4):
        with pytest.raises(UserError, match=f"with storage_nodes 3; this one has {nodes_}"):
            adding.give_up(site.deployed, planned(storage_nodes=nodes_), "storage")
    assert site.calls == []
    adding.give_up(site.deployed, planned(), "storage")
    assert operation.unfinished("lab") is None


def test_no_member_is_given_back_for_having_the_next_number_as_its_name(site):
    """Hosts of one's own are called as one likes; here there is a gap."""
    begun("storage")
    noted = operation.unfinished("lab")
    operation.begin("lab", dataclasses.replace(noted, memory="storage-1 storage-2 storage-4"))
    data_ = yaml.safe_load(inventory.file("lab").read_text())
    hosts_ = data_["all"]["children"]["storage"]["hosts"]
    hosts_["storage-4"] = hosts_.pop("storage-3")
    inventory.write(inventory.file("lab"), data_, "")
    site.ring, site.silent = dict.fromkeys(RING, "UN"), ()
    adding.give_up(site.deployed, planned(kairosdb_nodes=1), "storage")
    assert site.calls == [("prepare", None), ("deploy",), ("confirm",)]


@pytest.mark.parametrize(
    ("ring", "problem"),
    [
        ({"10.77.0.14": "UN"}, "storage-4 has joined"),
        ({"10.77.0.14": "DN"}, "storage-4 has joined"),
        ({"10.77.0.12": "DN"}, "storage-1 sees storage-2 DN"),
    ],
)
def test_one_that_has_joined_or_may_have_is_not_given_up(site, ring, problem):
    begun("storage")
    site.ring, site.silent = dict.fromkeys(RING, "UN") | ring, ("storage-4",)
    site.has(storage_4="10.77.0.14")
    with pytest.raises(UserError, match=problem):
        adding.give_up(site.deployed, planned(kairosdb_nodes=1), "storage")
    assert site.calls == []


def test_nor_is_a_kairosdb_host_that_is_there(site):
    """Points may wait on it."""
    begun("kairosdb")
    data_ = yaml.safe_load(inventory.file("lab").read_text())
    data_["all"]["children"]["kairosdb"]["hosts"]["kairosdb-2"] = {"address": "10.77.0.8"}
    inventory.write(inventory.file("lab"), data_, "")
    with pytest.raises(UserError, match="Points may wait"):
        adding.give_up(site.deployed, planned(kairosdb_nodes=1), "kairosdb")
    assert site.calls == []


LEAVING = Operation("remove-kairosdb", "kairosdb-1")


def test_a_kairosdb_host_that_dies_while_it_leaves_is_had_back_to_store_its_queue(
    site, monkeypatch
):
    monkeypatch.setattr(removed_nodes, "keep", lambda *_: [])
    operation.begin("lab", LEAVING)
    removing.remove_kairosdb(site.deployed, planned(kairosdb_nodes=1), "kairosdb-1")
    assert site.calls == [
        ("prepare", None),
        ("firewall", "storage"),
        ("deploy", "kairosdb-1"),
        ("remove-kairosdb", ""),
        ("back", "kairosdb-1"),
        ("prepare", "kairosdb-1"),
        ("deploy",),
        ("confirm",),
    ]
    # One that is there goes on leaving.
    site.reached, site.calls = True, []
    operation.begin("lab", LEAVING)
    removing.remove_kairosdb(site.deployed, planned(kairosdb_nodes=1), "kairosdb-1")
    assert site.calls[0] == ("remove-kairosdb", "")


def test_where_nothing_makes_it_the_way_out_is_named(site, monkeypatch):
    own = Own()
    monkeypatch.setattr(ssh, "run", own.run)
    operation.begin("lab", LEAVING)
    with pytest.raises(UserError, match=r"remove .*operation\.json, make deploy TARGET=lab"):
        removing.remove_kairosdb(own.deployed, planned(kairosdb_nodes=1), "kairosdb-1")
    assert site.calls == []


@pytest.mark.parametrize("engine", ["cassandra", "scylla"])
def test_one_that_was_joining_is_forgotten(engine, monkeypatch):
    """Cassandra has to be told so, once it has seen that it is down."""
    hosts = [Host(f"storage-{i}", "storage", {"storage_engine": engine}) for i in (1, 3)]
    sees = dict.fromkeys(("storage-1", "storage-3"), "UJ")
    told = []

    def run(host, verb, *arguments, **_):
        if verb == "status":
            state = sees[host.name]
            sees[host.name] = "DJ" if engine == "cassandra" or state == "UJ" else ""
            return f"{state} 10.77.0.14 1 KiB 16 ? x rack1\nUN 10.77.0.11 1 KiB 16 ? x rack1\n"
        assert set(sees.values()) == {"DJ"}
        told.append((host.name, verb, *arguments))
        sees.update(dict.fromkeys(sees, ""))
        return ""

    monkeypatch.setattr(nodetool, "run", run)
    monkeypatch.setattr(cluster.time, "sleep", lambda _: None)
    cluster.forget_joining(hosts, "10.77.0.14", 5)
    assert told == ([("storage-1", "assassinate", "10.77.0.14")] if engine == "cassandra" else [])


def test_one_that_could_not_be_ended_is_not(monkeypatch):
    host = Host("storage-1", "storage", {"storage_engine": "cassandra"})
    monkeypatch.setattr(nodetool, "run", lambda *_, **__: "UJ 10.77.0.14 1 KiB 16 ? x rack1\n")
    monkeypatch.setattr(cluster.time, "sleep", lambda _: None)
    with pytest.raises(UserError, match=r"10\.77\.0\.14 is still up after 0 s"):
        cluster.forget_joining([host], "10.77.0.14", 0.05)


def test_nor_is_one_that_joins_in_its_last_moment(monkeypatch):
    """Assassinated it would take its share of the data along."""
    host = Host("storage-1", "storage", {"storage_engine": "cassandra"})
    monkeypatch.setattr(nodetool, "run", lambda *_, **__: "DN 10.77.0.14 1 KiB 16 ? x rack1\n")
    with pytest.raises(UserError, match="has joined meanwhile"):
        cluster.forget_joining([host], "10.77.0.14", 5)
