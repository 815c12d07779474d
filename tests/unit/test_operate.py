"""Day two: what is refused, how interrupted verbs go on, what backups and evidence hold."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kairoscope import experiment, paths, plan
from kairoscope.cli import known
from kairoscope.deploy import bootstrap, deploy, inventory_vars, members, preflight
from kairoscope.deploy.deploy import Deployment
from kairoscope.deploy.operate import cluster, evidence, safety, snapshots
from kairoscope.deploy.operate.cluster import Seen
from kairoscope.errors import UserError
from kairoscope.experiment import replicas_needed
from kairoscope.hosts import inventory, operation
from kairoscope.hosts.deployed import finished_file
from kairoscope.hosts.inventory import Host, Inventory
from kairoscope.hosts.machines import Machine, Machines
from kairoscope.hosts.operation import Operation
from kairoscope.stacks.kairosdb import variables
from kairoscope.stacks.kairosdb.servers.client import NO_ANSWER, KairosDBStatus
from kairoscope.targets.lab import target
from kairoscope.targets.target import Options

HEALTHY = KairosDBStatus(True, 0, 0, False, False)
STATUS = """Datacenter: dc1
===============
Status=Up/Down
|/ State=Normal/Leaving/Joining/Moving
--  Address     Load        Tokens  Owns (effective)  Host ID                               Rack
UN  10.77.0.11  208.3 KiB   16      100.0%            0f0a3f6d-6f3c-4c8e-9f0b-0c6f6a1b2c3d  rack1
DN  10.77.0.12  ?           16      100.0%            1f0a3f6d-6f3c-4c8e-9f0b-0c6f6a1b2c3d  rack1
UN  10.77.0.1   1.5 GiB     16      100.0%            2f0a3f6d-6f3c-4c8e-9f0b-0c6f6a1b2c3d  rack1
"""


def hosts(storage: int = 3, kairosdb: int = 2) -> Inventory:
    return Inventory(
        Path("/nowhere"),
        [
            Host(f"storage-{n}", "storage", {"address": f"10.0.0.{n}"})
            for n in range(1, storage + 1)
        ],
        [
            Host(f"kairosdb-{n}", "kairosdb", {"address": f"10.0.1.{n}"})
            for n in range(1, kairosdb + 1)
        ],
        [],
    )


def seen(here: Inventory, schemas: int = 1, **rings: dict[str, str] | None) -> Seen:
    """All well, but for what single nodes (storage_2=…) see or do not see."""
    whole = {host.address: "UN" for host in here.storage}
    changed = {name.replace("_", "-"): ring for name, ring in rings.items()}
    return Seen(
        {h.name: changed.get(h.name, whole) for h in here.storage},
        schemas,
        {h.name: HEALTHY for h in here.kairosdb},
    )


def planned(replication_factor: int = 3, storage_nodes: int = 3, **cluster: Any) -> plan.Plan:
    made = known.plan(experiment.load("laptop"), "lab")
    changed = made.experiment.cluster.model_copy(
        update={
            "storage_nodes": storage_nodes,
            "replication_factor": replication_factor,
            **cluster,
        }
    )
    return made.model_copy(
        update={"experiment": made.experiment.model_copy(update={"cluster": changed})}
    )


# What is refused


def test_nothing_is_wrong_with_a_target_that_is_well():
    here = hosts()
    assert safety.whole(here, seen(here)) == []
    safety.refuse("anything", [])


@pytest.mark.parametrize(
    ("ring", "problem"),
    [
        (None, "storage-2 does not answer nodetool"),
        ({"10.0.0.1": "DN", "10.0.0.2": "UN", "10.0.0.3": "UN"}, "storage-2 sees storage-1 DN"),
        ({"10.0.0.2": "UN", "10.0.0.3": "UN"}, "storage-2 sees storage-1 not in the ring"),
        (
            {**{f"10.0.0.{n}": "UN" for n in (1, 2, 3)}, "10.0.0.9": "UJ"},
            "storage-2 sees 10.0.0.9 UJ, which is no host of ours",
        ),
    ],
)
def test_one_node_that_sees_it_otherwise_is_enough(ring, problem):
    here = hosts()
    problems = safety.not_normal(here, seen(here, storage_2=ring))
    assert problems == [problem]
    with pytest.raises(UserError, match="repair is refused, nothing was changed"):
        safety.refuse("repair", problems)


def test_the_node_that_a_verb_is_for_may_be_in_any_state():
    here = hosts()
    without = {"10.0.0.1": "UN", "10.0.0.2": "DN", "10.0.0.3": "UN"}
    view = seen(here, storage_1=without, storage_2=None, storage_3=without)
    assert safety.not_normal(here, view, but=["storage-2"]) == []
    assert safety.not_normal(here, view) != []


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (NO_ANSWER, "kairosdb-2 is not healthy"),
        (KairosDBStatus(True, 0, 0, True, False), "kairosdb-2 is in read-only mode"),
    ],
)
def test_kairosdb_must_be_well(status, problem):
    here = hosts()
    view = Seen(seen(here).rings, 1, {"kairosdb-1": HEALTHY, "kairosdb-2": status})
    assert safety.whole(here, view) == [problem]
    assert safety.whole(here, view, but=["kairosdb-2"]) == []


@pytest.mark.parametrize("schemas", [0, 2])
def test_the_schema_must_agree(schemas):
    here = hosts()
    assert len(safety.whole(here, seen(here, schemas))) == 1


@pytest.mark.parametrize(("factor", "fits"), [(1, False), (2, False), (3, True), (5, True)])
def test_a_quorum_must_be_left_while_a_node_is_down(factor, fits):
    assert (safety.one_down(planned(factor, 5)) == []) == fits


def test_a_consistency_of_all_lets_no_node_be_taken_down():
    strict = planned()
    strict = strict.model_copy(update={"kairosdb": strict.kairosdb | {"write_consistency": "ALL"}})
    assert "3 of a row's replicas must be up, and 2 would be" in safety.one_down(strict)[0]


@given(st.integers(1, 9))
def test_replicas_of_the_levels(factor):
    levels = ("LOCAL_ONE", "LOCAL_QUORUM", "ALL")
    needed = [replicas_needed(level, factor) for level in levels]
    assert needed == sorted(needed)
    assert needed[0] == 1
    assert 2 * needed[1] > factor
    assert needed[2] == factor


@pytest.mark.parametrize(
    ("racks", "nodes", "more"), [(1, 3, 0), (3, 3, 2), (3, 4, 1), (3, 5, 0), (2, 3, 0)]
)
def test_racks_of_unlike_sizes_are_told(racks, nodes, more):
    here = hosts(storage=nodes)
    for i, host in enumerate(here.storage):
        host.vars["rack"] = f"rack{i % racks}"
    told = safety.racks_uneven(here)
    assert [f"{more} more after this one" in text for text in told] == ([True] if more else [])


def test_a_node_that_its_replicas_need_stays():
    assert safety.take_away_storage(planned(), 4) == []
    assert "2 nodes would be left for 3 replicas" in safety.take_away_storage(planned(), 3)[0]


@pytest.mark.parametrize("limit", [None, "", "storage-9", "kairosdb-1"])
def test_a_verb_for_one_node_is_told_which(limit):
    with pytest.raises(UserError, match="storage-1, storage-2, storage-3"):
        safety.the_host(hosts(), limit, "storage", "replace")
    assert safety.the_host(hosts(), "storage-2", "storage", "replace").address == "10.0.0.2"


@given(st.integers(1, 9), st.integers(1, 9))
def test_nodes_come_and_go_one_at_a_time(was, wanted):
    for check, by in ((safety.one_more, 1), (safety.one_less, -1)):
        if wanted == was + by:
            check("storage", was, wanted, "the verb", "cluster.storage_nodes")
        else:
            with pytest.raises(UserError, match="one at a time"):
                check("storage", was, wanted, "the verb", "cluster.storage_nodes")


# What is seen


def test_what_nodetool_status_says_of_one_node():
    assert cluster.load_bytes(STATUS, "10.77.0.11") == int(208.3 * 1024)
    assert cluster.load_bytes(STATUS, "10.77.0.1") == int(1.5 * 2**30)
    # What is not known must not pass for nothing, as of terabytes it did.
    with pytest.raises(UserError, match=r"How much data 10\.77\.0\.12 has is not known"):
        cluster.load_bytes(STATUS, "10.77.0.12")
    assert cluster.host_id(STATUS, "10.77.0.12").startswith("1f0a3f6d")
    with pytest.raises(UserError, match=r"no node 10\.77\.0\.13"):
        cluster.host_id(STATUS, "10.77.0.13")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("0 bytes", 0),
        ("76.63 KB", int(76.63 * 2**10)),
        ("3.20 GB", int(3.2 * 2**30)),
        ("1.05 TB", int(1.05 * 2**40)),
        ("2.5 TiB", int(2.5 * 2**40)),
    ],
)
def test_the_units_of_both_engines(said, expected):
    assert (
        cluster.load_bytes(f"UN  10.77.0.11  {said}  256  ?  id  rack1", "10.77.0.11") == expected
    )


# One at a time, and to the end


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_one_change_at_a_time(home):
    with (
        operation.alone("lab"),
        pytest.raises(UserError, match="another deploy or verb"),
        operation.alone("lab"),
    ):
        pass
    with operation.alone("lab"):
        pass


# Begins a playbook, and stays in it until there is no more to read.
HOLDER = """
import sys
from kairoscope.deploy import deploy
from kairoscope.hosts import operation
with operation.alone("lab"), operation.without_load("lab", ""):
    deploy._run([sys.executable, "-c", "print('runs', flush=True); input()"])
"""


def test_who_is_killed_leaves_the_lock_to_its_playbook(home):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin and holder.stdout
        assert holder.stdout.readline() == b"runs\n"
        holder.kill()
        holder.wait()
        for lock in (operation.alone("lab"), operation.without_load("lab", "")):
            with pytest.raises(UserError, match="Wait for its end"), lock:
                pass
        holder.stdin.close()
        holder.stdout.read()  # It ends.
    for _ in range(1000):
        try:
            with operation.alone("lab"), operation.without_load("lab", ""):
                return
        except UserError:
            time.sleep(0.02)
    pytest.fail("it is held still")


def test_what_a_playbook_leaves_running_holds_no_lock(home, tmp_path):
    """As the servers of target local, or ssh that stays for the next connection."""
    left = tmp_path / "left"
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": [{"ansible.builtin.shell": f"setsid sleep 600 > /dev/null & echo $! > {left}"}],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    with operation.alone("lab"):
        status = deploy._run(
            [
                str(Path(sys.executable).with_name("ansible-playbook")),
                *("-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")),
            ],
            cwd=paths.ANSIBLE,
            env=os.environ | {"ANSIBLE_CONFIG": str(paths.ANSIBLE / "ansible.cfg")},
        )
    assert status == 0
    pid = int(left.read_text())
    try:
        open_there = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    finally:
        os.kill(pid, signal.SIGKILL)
    assert not [name for name in open_there if name.endswith(".lock")]


def test_a_lock_that_a_playbook_has_had_is_free_at_its_end(home):
    """Even if something of it is slow to end."""
    with operation.alone("lab"):
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=operation.held()
        )
    with operation.alone("lab"):
        pass
    child.communicate(b"\n")
    assert operation.held() == ()


def test_a_change_that_comes_to_nothing_leaves_nothing(home):
    with pytest.raises(UserError, match="no"), operation.alone("lab"):
        raise UserError("no")
    assert not home.exists()


def test_a_load_keeps_out_what_it_would_notice(home):
    (home / "lab").mkdir(parents=True)
    with (
        operation.without_load("lab", "it is running"),
        pytest.raises(UserError, match="A load runs on target lab: why"),
        operation.without_load("lab", "why"),
    ):
        pass


def test_nothing_is_destroyed_beneath_a_load_or_a_verb(home, monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_SECRETS", str(home.parent / "secrets"))
    (home / "local").mkdir(parents=True)

    def refused(held, why):
        with held, pytest.raises(UserError, match=why):
            deploy.destroy(known.target("local"), Console(quiet=True), input)
        assert (home / "local").is_dir()

    refused(operation.hold(operation.load_lock("local"), "mine"), "A load runs on target local")
    refused(operation.alone("local"), "being changed")
    deploy.destroy(known.target("local"), Console(quiet=True), input)
    assert not (home / "local").exists()


def test_an_interrupted_verb_is_gone_on_with_before_the_next(home):
    (home / "lab").mkdir(parents=True)
    mine = Operation("replace", "storage-2")
    assert operation.check_none_unfinished("lab", mine) is None
    operation.begin("lab", Operation("replace", "storage-2", "10.0.0.2"))
    assert operation.check_none_unfinished("lab", mine) == Operation(
        "replace", "storage-2", "10.0.0.2"
    )
    for other in (None, Operation("replace", "storage-1"), Operation("upgrade")):
        with pytest.raises(UserError, match="replace --limit storage-2` was interrupted"):
            operation.check_none_unfinished("lab", other)
    operation.end("lab")
    assert operation.check_none_unfinished("lab") is None


def test_what_another_came_in_over_is_unfinished_again_after_it(home):
    (home / "lab").mkdir(parents=True)
    older = Operation("add-storage", memory="storage-1 storage-2")
    operation.begin("lab", older)
    assert operation.check_none_unfinished("lab", Operation("replace"), ["add-storage"]) is None
    with pytest.raises(UserError, match="`add-storage` was interrupted"):
        operation.check_none_unfinished("lab", Operation("replace"), ["upgrade"])
    operation.begin("lab", Operation("replace", "storage-2"))
    # It notes more as it goes on.
    operation.begin("lab", Operation("replace", "storage-2", "10.0.0.2"))
    assert operation.unfinished("lab") == Operation("replace", "storage-2", "10.0.0.2", older)
    operation.end("lab")
    assert operation.unfinished("lab") == older
    operation.end("lab")
    assert operation.unfinished("lab") is None


def test_a_note_of_before_there_was_such_a_thing_is_read(home):
    (home / "lab").mkdir(parents=True)
    noted = '{"verb": "upgrade", "host": "", "memory": "tag"}'
    (home / "lab" / "operation.json").write_text(noted)
    assert operation.unfinished("lab") == Operation("upgrade", memory="tag")


def test_a_playbook_on_some_hosts_finishes_no_deploy(home, monkeypatch):
    told: list[list[str]] = []
    monkeypatch.setattr(deploy, "_run", lambda arguments, **_: told.append(arguments) or 0)
    write_inventory(planned())
    deploy.apply(planned(), known.stack("kairosdb"), "deploy")
    assert finished_file("lab").exists()
    assert list(members.read("lab")) == ["storage-1", "storage-2", "storage-3"]
    assert "--limit" not in told[0]
    deploy.apply(planned(), known.stack("kairosdb"), "deploy", limit="storage-2")
    assert not finished_file("lab").exists()
    assert told[1][told[1].index("--limit") + 1] == "storage-2"


def test_hosts_that_are_left_out_are_not_in_the_inventory(home, monkeypatch):
    made = [Machine(f"storage-{i}", "storage", f"10.0.0.{i}", {}) for i in (1, 2, 3)]
    where = known.target("lab")
    monkeypatch.setattr(where, "provision", lambda *_: Machines(made, "x"))
    found: list[str] = []
    monkeypatch.setattr(
        inventory_vars, "make", lambda _, m, *__, **___: found.extend(x.name for x in m.machines)
    )
    monkeypatch.setattr(inventory, "write", lambda *_: None)
    monkeypatch.setattr(preflight, "check_aio", lambda *_: None)
    options = Options(paths.CHECKOUT, without=("storage-2",))
    of = Deployment(where, known.stack("kairosdb"), options, Console(quiet=True))
    deploy._machines(planned(), of, None)
    assert found == ["storage-1", "storage-3"]


def test_kairosdb_nodes_whose_hosts_could_not_be_had_are_given_up(home):
    """Who wants them is noted before they are asked for, and who has them once they are there."""
    write_inventory(planned())
    data = yaml.safe_load(inventory.file("lab").read_text())
    found = {f"kairosdb-{i}": {"address": f"10.77.0.{20 + i}"} for i in (1, 2)}
    data["all"]["children"]["kairosdb"] = {"hosts": found}
    inventory.write(inventory.file("lab"), data, "for a test")
    (home / "lab" / "plan.json").write_text(planned(kairosdb_nodes=6).to_json())
    where, stack = known.target("lab"), known.stack("kairosdb")
    for nodes in (2, 4, 6, 7):
        deploy.check_shape(planned(kairosdb_nodes=nodes), where, stack)
    with pytest.raises(UserError, match="kairosdb_nodes = 6, the experiment wants 1"):
        deploy.check_shape(planned(kairosdb_nodes=1), where, stack)


def test_a_broken_note_is_told(home):
    (home / "lab").mkdir(parents=True)
    (home / "lab" / "operation.json").write_text("{")
    with pytest.raises(UserError, match=r"operation\.json is not whole"):
        operation.unfinished("lab")


# Tokens of nodes that come and go


def write_inventory(made: plan.Plan) -> dict[str, dict[str, Any]]:
    """What a deploy would note of the storage nodes for a plan; by name."""
    begun = bootstrap.read("lab")
    names = [host.name for host in target.hosts(made)["storage"]]
    found = {
        name: bootstrap.of(begun, name, variables.fresh_tokens(made, i))
        for i, name in enumerate(names)
    }
    folder = paths.target_dir("lab")
    at = {name: {"address": f"10.77.0.{11 + i}"} | found[name] for i, name in enumerate(names)}
    data = {"all": {"vars": {}, "children": {"storage": {"hosts": at}}}}
    inventory.write(folder / "inventory.yml", data, "for a test")
    (folder / "plan.json").write_text(made.to_json())
    return found


def test_a_node_that_comes_leaves_the_tokens_of_the_others_alone(home):
    three = write_inventory(planned(storage_nodes=3))
    assert [len(host["initial_tokens"]) for host in three.values()] == [16, 16, 16]
    four = write_inventory(planned(storage_nodes=4))
    assert {name: four[name] for name in three} == three
    assert four["storage-4"] == {"initial_tokens": []}
    assert write_inventory(planned(storage_nodes=3)) == three


def test_nodes_of_another_shape_that_never_started_begin_afresh(home):
    write_inventory(planned(storage_nodes=3))
    (home / "lab" / "plan.json").unlink()
    assert all(
        host["initial_tokens"] for host in write_inventory(planned(storage_nodes=4)).values()
    )


def test_a_replacement_is_remembered(home):
    three = write_inventory(planned())
    bootstrap.set_replaces("lab", "storage-2", "10.77.0.12")
    again = write_inventory(planned())
    assert again["storage-2"] == {"initial_tokens": [], "replaces": "10.77.0.12"}
    assert again["storage-1"] == three["storage-1"]
    bootstrap.set_replaces("lab", "storage-2", None)
    assert write_inventory(planned())["storage-2"] == {"initial_tokens": []}


# Backups

NODES = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=4, unique=True).map(
            lambda tokens: [str(t) for t in tokens]
        ),
        min_size=n,
        max_size=n,
        unique_by=lambda tokens: tuple(sorted(tokens)),
    )
)


def ring(
    tokens: dict[str, list[str]], copies: int | None = 1, racks: str | None = None
) -> snapshots.Ring:
    """One whose nodes are in the racks of these letters, or all in one."""
    names = racks or "a" * len(tokens)
    return snapshots.Ring(
        tokens, {n: r for n, r in zip(tokens, names, strict=True) if r != "?"}, copies
    )


@given(NODES, st.randoms(use_true_random=False))
def test_nodes_with_the_same_tokens_are_found_whatever_their_names(found, random):
    backup = {f"old-{n}": tokens for n, tokens in enumerate(found)}
    order = list(range(len(found)))
    random.shuffle(order)
    cluster = {f"new-{i}": random.sample(found[n], len(found[n])) for i, n in enumerate(order)}
    copies = random.randint(1, 4)
    placed = snapshots.place(ring(backup, copies), ring(cluster, copies))
    assert placed.same_rows
    assert placed.sets == {f"new-{i}": [f"old-{n}"] for i, n in enumerate(order)}


@given(NODES, NODES)
def test_otherwise_every_node_takes_in_everything(found, others):
    backup = {f"old-{n}": tokens for n, tokens in enumerate(found)}
    cluster = {f"new-{n}": tokens for n, tokens in enumerate(others)}
    placed = snapshots.place(ring(backup), ring(cluster))
    if not placed.same_rows:
        assert set(placed.sets) == set(cluster)
        assert all(sets == sorted(backup) for sets in placed.sets.values())
    # Whatever the topology, no node's files are left out.
    assert {node for sets in placed.sets.values() for node in sets} == set(backup)


FOUR = {f"storage-{n}": [str(n), str(100 + n)] for n in range(4)}


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        (ring(FOUR, 2), ring(FOUR, 2), True),
        (ring(FOUR, 1), ring(FOUR, 3), False),
        (ring(FOUR, 3), ring(FOUR, 1), False),
        (ring(FOUR, None), ring(FOUR, 2), False),
        (ring(FOUR, 2, "abab"), ring(FOUR, 2, "abab"), True),
        (ring(FOUR, 2, "abab"), ring(FOUR, 2, "yzyz"), True),
        (ring(FOUR, 2, "abab"), ring(FOUR, 2, "aabb"), False),
        (ring(FOUR, 2, "abab"), ring(FOUR, 2, "aaaa"), False),
        (ring(FOUR, 2, "aaaa"), ring(FOUR, 2, "abab"), False),
        (ring(FOUR, 2, "abca"), ring(FOUR, 2, "abcb"), False),
        # Backups from before the racks were told.
        (ring(FOUR, 2, "????"), ring(FOUR, 2), False),
        (ring(FOUR, 2, "aaa?"), ring(FOUR, 2), False),
        # Every node has every row.
        (ring(FOUR, 4, "????"), ring(FOUR, 4, "abab"), True),
    ],
)
def test_a_twin_has_the_same_rows_by_more_than_its_tokens(was, now, same):
    placed = snapshots.place(was, now)
    assert placed.same_rows == same
    assert placed.sets == {name: [name] if same else [*FOUR] for name in FOUR}


def test_what_a_manifest_says_of_the_ring():
    nodes = {"a": {"tokens": ["1"], "rack": "x", "files": {}}, "b": {"tokens": ["2"], "files": {}}}
    told = snapshots.ring_of({"nodes": nodes, "replication_factor": 2})
    assert told == snapshots.Ring({"a": ["1"], "b": ["2"]}, {"a": "x"}, 2)
    assert snapshots.ring_of({"nodes": nodes}).copies is None


@pytest.mark.parametrize(
    "name",
    [
        "./spec-0123456789abcdef0123456789abcdef/nb-1-big-Data.db",
        "./../etc-0123456789abcdef0123456789abcdef/snapshots/tag/x",
        "./spec-0123456789abcdef0123456789abcdef/snapshots/tag/../../x",
        "/spec-0123456789abcdef0123456789abcdef/snapshots/tag/x",
        "./spec-0123456789abcdef0123456789abcdef/snapshots/other/x",
    ],
)
def test_what_is_no_file_of_the_snapshot_is_refused(name):
    with pytest.raises(UserError, match="no such file"):
        snapshots.snapshot_file(name, "tag")


def here_as_host(top: Path) -> Host:
    """This machine as a storage host with its tables below `top`."""
    given = {
        "ansible_connection": "local",
        "keyspaces_dir": str(top),
        "kairosdb_keyspace": "kairosdb",
    }
    return Host("storage-1", "storage", given)


def make_snapshot(top: Path) -> dict[str, bytes]:
    files = {
        "data_points/nb-1-big-Data.db": b"\0\1" * 700_000,
        "data_points/nb-1-big-TOC.txt": b"Data.db\n",
        "data_points/manifest.json": b"{}",
        "spec/schema.cql": b"CREATE TABLE",
    }
    for name, content in files.items():
        table, _, file = name.partition("/")
        path = top / "kairosdb" / f"{table}-{'a' * 32}" / "snapshots" / "tag" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return files


def test_a_snapshot_goes_there_and_back(tmp_path):
    host = here_as_host(tmp_path / "tables")
    files = make_snapshot(tmp_path / "tables")
    backup = tmp_path / "backup"
    found = snapshots.fetch(host, "tag", backup / "storage-1")
    assert {name: about["bytes"] for name, about in found.items()} == {
        name: len(content) for name, content in files.items()
    }
    with pytest.raises(UserError, match="no whole backup"):
        snapshots.read(backup)
    snapshots.write(backup, {"tag": "tag"}, {"storage-1": {"tokens": ["1"]}})
    assert snapshots.size(snapshots.read(backup), ["storage-1"]) == sum(map(len, files.values()))

    to = tmp_path / "new" / "restore"
    assert snapshots.send(host, backup / "storage-1", str(to)) == ["data_points"]
    sent = {str(p.relative_to(to)): p.read_bytes() for p in to.rglob("*") if p.is_file()}
    assert sent == {name: files[name] for name in files if "nb-1" in name}


def test_a_damaged_backup_is_not_taken_in(tmp_path):
    host = here_as_host(tmp_path / "tables")
    make_snapshot(tmp_path / "tables")
    backup = tmp_path / "backup"
    snapshots.fetch(host, "tag", backup / "storage-1")
    snapshots.write(backup, {}, {"storage-1": {"tokens": ["1"]}})
    (backup / "storage-1" / "data_points" / "nb-1-big-TOC.txt").write_bytes(b"Data.DB\n")
    with pytest.raises(UserError, match=r"TOC[.]txt is not what"):
        snapshots.send(host, backup / "storage-1", str(tmp_path / "to"))


def test_a_snapshot_that_is_not_there_is_told(tmp_path):
    (tmp_path / "tables" / "kairosdb").mkdir(parents=True)
    for top in ("tables", "gone"):
        with pytest.raises(UserError, match="storage-1"):
            snapshots.fetch(here_as_host(tmp_path / top), "none", tmp_path / "backup")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}'])
def test_what_is_no_backup_is_told(text, tmp_path):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(UserError):
        snapshots.read(tmp_path)


# Evidence


def archive_of(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    path = folder / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, content in files.items():
            member = tarfile.TarInfo(f"evidence/{file}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_no_secret_gets_into_the_archive(tmp_path):
    key = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519"], capture_output=True, check=True
    ).stdout
    log = b"login kairoscope hunter2hunter2 ok\nAuthorization: Basic " + b"QUJDREVGRw==\n" + key
    hashed = b"hash: $6$salt.salt$" + b"x" * 60
    to = tmp_path / "evidence.tar.gz"
    files = {"inventory.yml": b"password: hunter2hunter2\n", "plan.json": b"{}"}
    host = archive_of(tmp_path, "storage-1", {"files/etc/x.yaml": hashed, "journal.txt": log})
    evidence.pack(to, [host], files, [b"hunter2hunter2"])
    assert to.stat().st_mode & 0o077 == 0
    with tarfile.open(to) as archive:
        found = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    assert sorted(found) == [
        "evidence/inventory.yml",
        "evidence/plan.json",
        "evidence/storage-1/files/etc/x.yaml",
        "evidence/storage-1/journal.txt",
    ]
    everything = b"\n".join(found.values())
    for secret in (b"hunter2", b"QUJDREVGRw", b"PRIVATE KEY", key.splitlines()[1], b"$6$"):
        assert secret not in everything
    assert found["evidence/storage-1/journal.txt"].startswith(b"login kairoscope (removed) ok")


SECRET = st.lists(st.sampled_from(b"AB12-_"), min_size=8, max_size=20).map(bytes)


@given(st.binary(max_size=60), st.binary(max_size=60), SECRET)
def test_a_secret_is_found_wherever_it_stands(before, after, secret):
    assert secret not in evidence.redact(before + secret + after, [secret])
