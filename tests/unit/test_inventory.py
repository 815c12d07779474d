"""The local target's inventory: tokens, addresses, ports."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kairoscope import bundles, experiment, inventory, plan
from kairoscope.errors import UserError


@given(st.integers(1, 12), st.integers(1, 64))
def test_tokens_are_distinct_in_range_and_even(nodes, per_node):
    mine = [[int(t) for t in inventory.initial_tokens(n, nodes, per_node)] for n in range(nodes)]
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
    assert inventory.local_net() == net


@pytest.mark.parametrize("net", ["10.0.0", "127.0", "127.0.0.1", "127.0.256", "x", ""])
def test_other_nets_are_refused(net, monkeypatch):
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", net)
    with pytest.raises(UserError, match="loopback"):
        inventory.local_net()


def test_jmx_ports_of_the_default_net_are_the_usual_ones():
    assert [inventory.jmx_port("127.0.0", n) for n in range(3)] == [7199, 7200, 7201]


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 9))
def test_jmx_ports_are_ports(second, third, node):
    assert 1024 < inventory.jmx_port(f"127.{second}.{third}", node) < 32768


def test_local_loader_hosts_have_folders_of_their_own_and_share_what_is_installed(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("KAIROSCOPE_HOME", str(tmp_path))
    monkeypatch.setenv("KAIROSCOPE_LOCAL_NET", "127.9.8")
    monkeypatch.setattr(inventory, "java17", lambda: "/java")
    monkeypatch.setattr(bundles.Bundle, "folder", property(lambda self: f"{self.name}-of-hash"))
    made = plan.make(experiment.load("laptop"), "local")
    cluster = made.experiment.cluster.model_copy(update={"loader_hosts": 3})
    made = made.model_copy(
        update={"experiment": made.experiment.model_copy(update={"cluster": cluster})}
    )
    inventory.write_local(made)
    found = inventory.load("local")
    assert [host.name for host in found.loader] == ["loader-1", "loader-2", "loader-3"]
    assert [host.address for host in found.loader] == ["127.9.8.1", "127.9.8.2", "127.9.8.3"]
    assert len({host.home for host in found.loader}) == 3
    assert {host.vars["loader_venv"] for host in found.loader} == {
        str(tmp_path / "local" / "opt" / "loader-of-hash" / "venv")
    }
    # No server runs on them for status and captures to look at.
    assert not [host for host in found.hosts if host.role == "loader"]


@pytest.mark.parametrize(
    "text",
    ["", "all:", "all: {vars: {}, children: {storage: []}}", "[storage]\nstorage-1\n", "a: [b"],
)
def test_what_no_deploy_wrote_is_refused(text, tmp_path):
    path = tmp_path / "inventory.yml"
    path.write_text(text)
    with pytest.raises(UserError, match="not an inventory that a deploy wrote"):
        inventory.read(path)
