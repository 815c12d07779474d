"""The firewall's table, and the rules that are rendered of it."""

import ipaddress
import re
from dataclasses import dataclass, field

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template
from hypothesis import given, settings
from hypothesis import strategies as st

from kairoscope import paths

ROLE = paths.ANSIBLE / "roles" / "firewall"
FACTS = yaml.safe_load((ROLE / "vars" / "main.yml").read_text())
TABLE = FACTS["firewall_allowed"]
GROUPS = ("storage", "kairosdb", "loader", "monitoring")
PORTS = {
    "cql": 9042,
    "cql_tls": 9142,
    "cql_shard_aware": 19042,
    "cql_shard_aware_tls": 19142,
    "storage": 7000,
    "storage_tls": 7001,
    "storage_metrics": 9180,
    "scylla_api": 10000,
    "node_exporter": 9100,
    "loader_metrics": 9105,
    "kairosdb_http": 8080,
    "kairosdb_telnet": 4242,
}
STRANGER = "192.0.2.1"

init_plugin_loader()  # Ansible's own filters


def trusted(value):
    """Templates of our own files, as Ansible's loader marks them."""
    if isinstance(value, dict):
        return {key: trusted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [trusted(inner) for inner in value]
    return trust_as_template(value) if isinstance(value, str) else value


@dataclass
class Rules:
    """The accepting rules of a rendered file: (sources or None for anyone, ports)."""

    text: str
    accepted: list[tuple[list, set[int]]] = field(default_factory=list)

    def __post_init__(self):
        for line in self.text.splitlines():
            found = re.fullmatch(
                r"\s*(?:ip6? saddr \{ (.+?) \} )?tcp dport (?:\{ (.+?) \}|(\d+)) accept "
                r'comment "[^"]+"',
                line,
            )
            if found:
                cidrs = found[1] or "0.0.0.0/0, ::/0"
                nets = [ipaddress.ip_network(cidr) for cidr in cidrs.split(", ")]
                self.accepted.append((nets, {int(p) for p in (found[2] or found[3]).split(", ")}))
            else:
                assert "dport" not in line or "546" in line, line

    def let_in(self, source: str) -> set[int]:
        """The TCP ports that a source reaches."""
        address = ipaddress.ip_address(source)
        return {
            port
            for nets, ports in self.accepted
            for port in ports
            if any(address in net for net in nets)
        }


def rendered(groups: dict[str, list[str]], host: str, **more) -> Rules:
    """The rules of a host in an inventory {group: [host, …]}; host n has address 10.0.0.n."""
    source = (ROLE / "templates" / "firewall.nft.j2").read_text()
    return Rules(templar(groups, host, **more).template(trust_as_template(source)))


def templar(groups: dict[str, list[str]], host: str, **more) -> Templar:
    """Ansible's templates with the role's variables as a host has them."""
    names = sorted({name for members in groups.values() for name in members})
    hostvars = {name: {"address": address(groups, name)} for name in names}
    hostvars[host] |= more
    variables = {
        "inventory_hostname": host,
        "ansible_managed": "made by Ansible",
        "groups": {**groups, "all": names},
        "hostvars": hostvars,
        "group_names": [group for group, members in groups.items() if host in members],
        "storage_engine": "scylla",
        "secured": True,
        "plan": {"experiment": {"load": {"protocol": "rest"}}},
        **trusted(FACTS),
        **trusted(yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())),
        **more,
    }
    return Templar(DataLoader(), variables=variables)


def address(groups, name) -> str:
    names = sorted({name for members in groups.values() for name in members})
    return f"10.0.0.{names.index(name) + 1}"


def one_of_each() -> dict[str, list[str]]:
    return {group: [f"{group}-1", f"{group}-2"] for group in GROUPS}


def security_groups() -> set[tuple[str, str, str, str]]:
    """(to, from, port, why) of what Terraform lets in; load balancer and endpoints too."""
    text = (paths.TERRAFORM / "modules" / "security" / "main.tf").read_text()
    table = text[text.index("allowed = concat(") : text.index("between = {")]

    def pairs(to, sources, ports, why):
        return {(to, source, port, why) for source in sources for port in ports}

    def listed(inner):
        return re.findall(r'"([a-z_]+)"', inner)

    rows = re.findall(
        r'\{ to = "(\w+)", from = \[(.*?)\], ports = \[(.*?)\], why = "(.*?)" \}', table
    )
    return set().union(*(pairs(to, listed(f), listed(p), why) for to, f, p, why in rows))


def test_the_table_is_that_of_the_security_groups():
    """Between hosts; bastion, endpoints and load balancer are AWS's own."""
    cloud = {row for row in security_groups() if row[0] in GROUPS and row[1] in GROUPS}
    ours = {
        (row["to"], source, port, row["why"])
        for row in TABLE
        for source in row["from"]
        for port in row["ports"]
    }
    assert ours == cloud
    assert len(cloud) > 10


def test_the_ports_are_those_of_terraform():
    block = re.search(r"ports = \{(.*?)\}", (paths.TERRAFORM / "main.tf").read_text(), re.S)
    assert block
    assert {k: int(v) for k, v in re.findall(r"(\w+)\s*= (\d+)", block[1])} == PORTS
    assert FACTS["firewall_ports"] == PORTS


def test_of_another_system_points_and_metrics_are_let_in():
    groups = one_of_each()
    ports = {"points_port": 2004, "http_port": 2003, "prometheus_port": 9003}
    rules = rendered(groups, groups["kairosdb"][0], storage_engine="other", **ports)
    assert 2004 in rules.let_in(address(groups, groups["loader"][0]))
    assert 9003 in rules.let_in(address(groups, groups["monitoring"][0]))
    assert 9003 not in rules.let_in(address(groups, groups["loader"][0]))
    assert rules.let_in(STRANGER) == {22}


@pytest.mark.parametrize("host", GROUPS)
@pytest.mark.parametrize("source", GROUPS)
def test_each_group_reaches_what_the_table_says(source, host):
    groups = one_of_each()
    expected = {
        PORTS[port]
        for row in TABLE
        if row["to"] == host and source in row["from"]
        for port in row["ports"]
    } - {PORTS["kairosdb_telnet"]}
    rules = rendered(groups, f"{host}-1")
    assert rules.let_in(address(groups, f"{source}-2")) == expected | {22}
    assert rules.let_in(STRANGER) == {22}


@settings(max_examples=20)
@given(
    st.dictionaries(
        st.sampled_from(GROUPS),
        st.lists(st.sampled_from("abcdef"), min_size=1, unique=True),
        min_size=1,
    ),
    st.data(),
)
def test_whatever_the_inventory_only_its_hosts_get_in(groups, data):
    """A host may be in several groups, and a group may have no host."""
    host = data.draw(st.sampled_from(sorted({h for members in groups.values() for h in members})))
    rules = rendered(groups, host)
    for name in {h for members in groups.values() for h in members}:
        expected = {
            PORTS[port]
            for row in TABLE
            if host in groups.get(row["to"], [])
            and any(name in groups.get(source, []) for source in row["from"])
            for port in row["ports"]
        } - {PORTS["kairosdb_telnet"]}
        assert rules.let_in(address(groups, name)) == expected | {22}
    assert rules.let_in(STRANGER) == {22}


def test_ports_of_scylla_are_open_for_scylla_only():
    groups = one_of_each()
    rules = rendered(groups, "storage-1", storage_engine="cassandra")
    assert rules.let_in(address(groups, "kairosdb-1")) == {22, 9042}
    assert rules.let_in(address(groups, "storage-2")) == {22, 7000}
    assert rules.let_in(address(groups, "monitoring-1")) == {22, 9180, 9100}


@pytest.mark.parametrize(
    ("secured", "protocol", "is_open"),
    [(True, "rest", False), (True, "telnet-putm", True), (False, "rest-gzip", True)],
)
def test_telnet_is_open_where_it_runs(secured, protocol, is_open):
    groups = one_of_each()
    plan = {"experiment": {"load": {"protocol": protocol}}}
    rules = rendered(groups, "kairosdb-1", secured=secured, plan=plan)
    assert (4242 in rules.let_in(address(groups, "loader-1"))) == is_open


def test_ports_are_those_of_the_inventory():
    groups = one_of_each()
    rules = rendered(groups, "storage-1", native_transport_port=9999, storage_port=7777)
    assert 9999 in rules.let_in(address(groups, "kairosdb-1"))
    assert {7777, 7001, 22} == rules.let_in(address(groups, "storage-2"))


def test_ssh_from_admin_cidrs_only_where_given():
    rules = rendered(
        one_of_each(),
        "loader-1",
        firewall_admin_cidrs=["198.51.100.0/24", "2001:db8::/48"],
        firewall_ssh_port=2222,
    )
    assert rules.let_in(STRANGER) == set()
    assert rules.let_in("198.51.100.7") == {2222}
    assert rules.let_in("2001:db8::1") == {2222}


def test_others_are_let_in_where_asked_for():
    groups = one_of_each()
    balancer = {
        "to": "kairosdb",
        "cidrs": ["172.16.0.0/28", "2001:db8::5"],
        "ports": ["kairosdb_http"],
        "why": "Load balancer",
    }
    rules = rendered(groups, "kairosdb-1", firewall_extra=[balancer])
    assert rules.let_in("172.16.0.15") == {22, 8080}
    assert rules.let_in("172.16.0.16") == {22}
    assert rules.let_in("2001:db8::5") == {22, 8080}
    assert rendered(groups, "storage-1", firewall_extra=[balancer]).let_in("172.16.0.15") == {22}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            {"cidrs": ["balancer.example"]},
            {"cidrs": ["10.1.0.0/24", "10.1.0.1", "fe80::1", "::/0"]},
        ),
        ({"cidrs": ["10.1.0.0/24; accept"]}, {"cidrs": []}),
        ({"ports": ["http"]}, {"ports": ["cql", "kairosdb_http"]}),
        ({"why": 'x" accept'}, {"why": "Sensors of our own (plant 2)"}),
        ({"why": "x\naccept"}, {"why": "Load balancer"}),
    ],
)
def test_what_nft_would_take_for_something_else_is_refused(wrong, right):
    tasks = yaml.safe_load((ROLE / "tasks" / "main.yml").read_text())
    conditions = tasks[0]["ansible.builtin.assert"]["that"]

    def accepted(change) -> bool:
        row = {"to": "kairosdb", "cidrs": ["10.1.0.0/24"], "ports": ["cql"], "why": "x", **change}
        there = templar(one_of_each(), "kairosdb-1", firewall_extra=[row])
        return all(there.template(trust_as_template(f"{{{{ {c} }}}}")) for c in conditions)

    assert accepted({})
    assert accepted(right)
    assert not accepted(wrong)


def test_a_host_without_nftables_is_given_it_before_the_first_use():
    tasks = yaml.safe_load((ROLE / "tasks" / "main.yml").read_text())
    (given,) = [task for task in tasks if "nftables" in str(task.get("block"))]
    assert given["when"] == "not firewall_nft.stat.exists"
    (install,) = given["block"]
    assert install["ansible.builtin.apt"]["name"] == "nftables"
    # An image's lists of packages may be old, or none.
    assert install["ansible.builtin.apt"]["update_cache"]
    (failure,) = given["rescue"]
    assert "nat = true" in failure["ansible.builtin.fail"]["msg"]
    used = [i for i, task in enumerate(tasks) if "/usr/sbin/nft --check" in str(task)]
    assert tasks.index(given) < min(used)


def test_everything_else_is_dropped():
    text = rendered(one_of_each(), "storage-1").text
    assert "policy drop;" in text
    # No rule accepts without saying what: state, loopback, ICMP, a lease, or a port.
    for line in text.splitlines():
        if line.strip().endswith("accept") or " accept " in line:
            assert re.search(r"ct state|iifname|icmp|udp sport 547|tcp dport", line), line
