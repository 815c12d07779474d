"""The local target's inventory: tokens, addresses, ports."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import experiment, paths
from kairoscope.cli import known
from kairoscope.deploy import bundles, deploy, inventory_vars, preflight
from kairoscope.errors import UserError
from kairoscope.hosts import inventory
from kairoscope.hosts.machines import Machine, Machines
from kairoscope.stacks.kairosdb import variables
from kairoscope.stacks.kairosdb.scylla import options as scylla_options
from kairoscope.stacks.kairosdb.scylla.brought import Server
from kairoscope.targets import local
from kairoscope.targets.target import Options


@given(st.integers(1, 12), st.integers(1, 64))
def test_tokens_are_distinct_in_range_and_even(nodes, per_node):
    mine = [[int(t) for t in variables.initial_tokens(n, nodes, per_node)] for n in range(nodes)]
    ring = sorted(t for tokens in mine for t in tokens)
    assert len(set(ring)) == nodes * per_node
    assert ring[0] >= -(2**63)
    assert ring[-1] < 2**63
    gaps = {b - a for a, b in pairwise(ring)}
    assert not gaps or max(gaps) - min(gaps) <= 1
    # Neighbours on the ring belong to different nodes.
    owner = {t: n for n, tokens in enumerate(mine) for t in tokens}
    assert nodes == 1 or all(owner[a] != owner[b] for a, b in pairwise(ring))


@pytest.mark.parametrize("net", ["127.0.0", "127.9.255"])
def test_loopback_nets(net, monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", net)
    assert local.local_net() == net


@pytest.mark.parametrize("net", ["10.0.0", "127.0", "127.0.0.1", "127.0.256", "x", ""])
def test_other_nets_are_refused(net, monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", net)
    with pytest.raises(UserError, match="loopback"):
        local.local_net()


def test_jmx_ports_of_the_default_net_are_the_usual_ones():
    assert [variables.jmx_port("127.0.0", n) for n in range(3)] == [7199, 7200, 7201]


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 9))
def test_jmx_ports_are_ports(second, third, node):
    assert 1024 < variables.jmx_port(f"127.{second}.{third}", node) < 32768


def write_local(plan, server=None):
    """As a deploy does."""
    options = Options(Path("x"))
    machines = known.target("local").provision(plan, options, print, lambda: None)
    made = inventory_vars.make(plan, machines, known.stack(plan.stack), server, shared=True)
    inventory.write(paths.target_dir("local") / "inventory.yml", made, machines.origin)


def storage_1():
    way = {"ansible_user": "root"}
    return Machines([Machine("storage-1", "storage", "10.77.0.11", way)], "x")


def test_local_loader_hosts_have_folders_of_their_own_and_share_what_is_installed(
    no_bundles, monkeypatch, tmp_path
):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", "127.9.8")
    monkeypatch.setattr(local, "java17", lambda: "/java")
    made = known.plan(experiment.load("laptop"), "local")
    cluster = made.experiment.cluster.model_copy(update={"loader_hosts": 3})
    made = made.model_copy(
        update={"experiment": made.experiment.model_copy(update={"cluster": cluster})}
    )
    write_local(made)
    found = inventory.load("local")
    assert [host.name for host in found.loader] == ["loader-1", "loader-2", "loader-3"]
    assert [host.address for host in found.loader] == ["127.9.8.1", "127.9.8.2", "127.9.8.3"]
    assert len({host.home for host in found.loader}) == 3
    assert {host.vars["loader_venv"] for host in found.loader} == {
        str(tmp_path / "local" / "opt" / "loader-of-hash" / "venv")
    }
    # No server runs on them for status and captures to look at.
    assert not [host for host in found.hosts if host.role == "loader"]


def scylla(target: str, **cluster):
    found = experiment.load("laptop", experiment.Overrides(engine="scylla"))
    found = found.model_copy(
        update={"cluster": found.cluster.model_copy(update={"shards": 2, **cluster})}
    )
    return known.plan(found, target)


SERVER = Server(
    Path("/srv/a b/scylla"),
    Path("/srv/a b/scylla/libexec/scylla"),
    "5.2.19-0.20240806.abc",
    Path("/srv/a b/scylla/libreloc"),
)


@pytest.fixture
def home(no_bundles, monkeypatch, tmp_path):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    monkeypatch.setattr(local, "java17", lambda: "/java")
    monkeypatch.setattr(bundles, "java17", lambda: "/java")
    monkeypatch.setattr(bundles, "full_version", lambda _: "17")


def test_local_scylla_nodes_listen_on_their_own_addresses(home, monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", "127.9.8")
    write_local(scylla("local"), SERVER)
    found = inventory.load("local")
    first = found.storage[0].vars
    assert first["storage_engine"] == "scylla"
    assert (first["scylla_from"], first["scylla_version"]) == ("folder", "5.2.19")
    # Read in place, by a command that survives a blank.
    assert first["scylla_command"] == (
        "'/srv/a b/scylla/libreloc/ld.so' --library-path '/srv/a b/scylla/libreloc' "
        "'/srv/a b/scylla/libexec/scylla'"
    )
    assert "scylla_bundle" not in first
    assert "jmx_port" not in first
    stack = known.stack("kairosdb")
    listeners = preflight.listeners(stack, found)
    for host in found.storage:
        ports = {one.port for one in listeners if one.purpose.endswith(f" of {host.name}")}
        assert ports == {9042, 19042, 7000, 9180, 10000}
        assert {one.address for one in listeners if host.name in one.purpose} == {host.address}
    # The preflight knows them before there is an inventory.
    # As they are checked before there is an inventory.
    hosts = deploy.servers_here(scylla("local"), known.target("local"), stack, Options(Path("x")))
    of_role = {role: [host for host in hosts if host.role == role] for role in inventory.GROUPS}
    planned = inventory.Inventory(Path("/nowhere"), *of_role.values())
    assert preflight.listeners(stack, planned) == listeners
    # One after another: each joins the ones before it.
    assert first["storage_serial"] == 1
    scylla_options.check("5.2.19", "cluster_name: x", first["scylla_arguments"])
    assert "--smp 2 --memory 2176M --overprovisioned" in first["scylla_arguments"]
    assert first["scylla_settings"]["developer_mode"] is True
    assert first["scylla_settings"]["ring_delay_ms"] == variables.SCYLLA_RING_DELAY_MS
    assert first["scylla_nice"] == 10


def test_hosts_of_the_lab_get_the_server_as_a_bundle(home, monkeypatch):
    monkeypatch.setattr(
        bundles,
        "pack",
        lambda name, version, folder, parts, into: bundles.Packed(
            into / f"{name}-{version}.tar", f"{name}-{version}-hash"
        ),
    )
    made = scylla("lab")
    found = inventory_vars.make(made, storage_1(), known.stack("kairosdb"), SERVER, shared=True)[
        "all"
    ]
    of_all, host = found["vars"], found["children"]["storage"]["hosts"]["storage-1"]
    assert of_all["scylla_bundle"].endswith("/lab/scylla-5.2.19.tar")
    assert of_all["scylla_bundle_dir"] == "/opt/kairoscope/scylla-5.2.19-hash"
    assert of_all["scylla_command"].endswith("/opt/kairoscope/scylla-5.2.19-hash/libexec/scylla")
    assert host["nodetool"] == "/var/lib/kairoscope/storage-1/bin/nodetool"
    assert (host["unit"], host["run_as"]) == ("scylla-server", "scylla")
    # Metrics for who may scrape them; the API, which has no authentication, for the host alone.
    assert (host["prometheus_address"], host["api_address"]) == ("10.77.0.11", "127.0.0.1")


def test_without_a_server_hosts_get_the_package(home):
    found = inventory_vars.make(
        scylla("hosts"), storage_1(), known.stack("kairosdb"), shared=False
    )["all"]
    assert "scylla_from" not in found["vars"]
    host = found["children"]["storage"]["hosts"]["storage-1"]
    assert (host["nodetool"], host["keyspaces_dir"]) == ("nodetool", "/var/lib/scylla/data")
    assert (host["prometheus_port"], host["api_port"]) == (9180, 10000)


@pytest.mark.parametrize(
    "text",
    ["", "all:", "all: {vars: {}, children: {storage: []}}", "[storage]\nstorage-1\n", "a: [b"],
)
def test_what_no_deploy_wrote_is_refused(text, tmp_path):
    path = tmp_path / "inventory.yml"
    path.write_text(text)
    with pytest.raises(UserError, match="not an inventory that a deploy wrote"):
        inventory.read(path)
