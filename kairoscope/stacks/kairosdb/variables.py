"""Inventory variables of KairosDB and its store: ports, folders, options of the servers."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kairoscope import paths
from kairoscope.hosts.machines import Layout, Machine
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb import needs
from kairoscope.stacks.kairosdb.scylla.brought import Server
from kairoscope.stacks.kairosdb.servers import nodetool
from kairoscope.stacks.kairosdb.settings import ports

# Tokens for each storage node. 16 spread the load evenly enough and keep repair and bootstrap cheap
# (Cassandra's own default since 4.0).
TOKENS_PER_NODE = 16

# systemd unit, and user without a login, of a storage node.
_UNITS = {
    "cassandra": {"unit": "cassandra", "run_as": "cassandra"},
    "scylla": {"unit": "scylla-server", "run_as": "scylla"},
}
# Where ScyllaDB's package has things; other servers have all of theirs in a folder of their own.
_PACKAGE = {
    "run_as_home": "/var/lib/scylla",
    "nodetool": "nodetool",
    "keyspaces_dir": "/var/lib/scylla/data",
}

# Cassandra looks at the clock every 2 ms for what needs no exact time, such as which message is too
# old: half of an idle node's CPU. Its timeouts are seconds, so every 20 ms does.
ROUGH_CLOCK = "-Dcassandra.approximate_time_precision_ms=20"

# What delays flush and compaction of all nodes at once waits in KairosDB's queue; without, they
# take its CPU.
_NICE = 10

_SCYLLA_SETTINGS = {"developer_mode": True}

# Ten rounds of gossip; ScyllaDB's own 30,000 twice for each node were most of a deploy's time.
SCYLLA_RING_DELAY_MS = 10_000


def initial_tokens(node: int, nodes: int, per_node: int = TOKENS_PER_NODE) -> list[str]:
    """Tokens of one node of a fresh cluster: the ring cut evenly, dealt to the nodes in turn.

    Neighbouring ranges belong to different nodes, so that each node's share, and that of its
    replicas, is even. `node` counts from 0.
    """
    total = nodes * per_node
    return [str(-(2**63) + (2**64 * (k * nodes + node)) // total) for k in range(per_node)]


def fresh_tokens(plan: Plan, node: int) -> list[str]:
    """Tokens that a node of a fresh cluster is given; none where it takes them itself."""
    if plan.engine != "cassandra":
        return []
    return initial_tokens(node, plan.experiment.cluster.storage_nodes)


def of_all(
    plan: Plan, layout: Layout, shared: bool, folders: Mapping[str, str], brought: Server | None
) -> dict[str, Any]:
    """Variables of all hosts.

    Args:
        plan: what is deployed.
        layout: of the machines.
        shared: whether all servers share the cores of one machine.
        folders: where each run-time bundle lies there, by its name, and the user's server's.
        brought: ScyllaDB of the user's, in place of the package.
    """
    options: dict[str, Any] = jvm_options(plan, *(["-XX:+UseSerialGC"] if shared else []))
    values: dict[str, Any] = {
        "storage_engine": plan.engine,
        "kairosdb_bundle_dir": folders["kairosdb"],
        "kairosdb_conf_dir": str(paths.KAIROSDB_CONF),
        "kairosdb_keyspace": "kairosdb",
        "kairosdb_driver": driver(str(plan.kairosdb["driver"])),
        **options,
    }
    if not layout.managed:
        values[f"{plan.engine}_nice"] = _NICE
    if plan.engine == "cassandra":
        values["cassandra_bundle_dir"] = folders["cassandra"]
        if shared:
            values["cassandra_jvm_options"] = [*options["cassandra_jvm_options"], ROUGH_CLOCK]
            values["cassandra_stage_threads"] = 4
        return values
    # Each node joins the ones before it; Cassandra's have tokens given, and need not.
    values |= {"storage_serial": 1, "scylla_rest_program": str(nodetool.REST_PROGRAM)}
    if shared:
        values |= scylla_of_shared_cores(plan, grows=layout.managed)
    if brought is None:
        return values | {"scylla_version": plan.experiment.storage.scylla_version}
    folder = Path(folders["scylla"])
    return values | {
        "scylla_from": "folder",
        "scylla_version": brought.release,
        "scylla_command": shlex.join(brought.command_at(folder)),
    }


def driver(kind: str) -> str:
    """Name and version of KairosDB's driver of a kind, such as scylla-driver-core-3.10.2-scylla-1.

    By what its bundle holds, which is pinned.
    """
    pinned = (paths.KAIROSDB_CONF / "bundles" / "kairosdb.sha256").read_text().split()
    return next(Path(name).stem for name in pinned if name.startswith(f"driver-{kind}/"))


def jvm_options(plan: Plan, *more: str) -> dict[str, Any]:
    """Variables of the Java servers: the experiment's choice of compilers, and `more` options."""
    quick = plan.setting("cluster.jvm").value == "quick"
    options = [*(["-XX:TieredStopAtLevel=1"] if quick else []), *more]
    return {"cassandra_jvm_options": options, "kairosdb_jvm_options": options}


def scylla_of_shared_cores(plan: Plan, *, grows: bool) -> dict[str, Any]:
    """ScyllaDB takes a whole, tuned host unless told otherwise.

    `grows`: whether nodes may join when there is data, which others write to them meanwhile.
    """
    arguments = [
        *("--smp", plan.storage["shards"], "--memory", f"{plan.storage['memory_mb']}M"),
        # It neither polls nor stays on its core when there is nothing to do.
        "--overprovisioned",
        *("--max-networking-io-control-blocks", needs.SCYLLA_CONNECTIONS),
        *("--log-to-syslog", 0, "--log-to-stdout", 1, "--default-log-level", "info"),
    ]
    # Where all join before there is data, the two waits of a join, for what others write to be sent
    # to it as well, are for nothing.
    waits = {} if grows else {"ring_delay_ms": SCYLLA_RING_DELAY_MS}
    return {
        "scylla_arguments": " ".join(map(str, arguments)),
        "scylla_settings": _SCYLLA_SETTINGS | waits,
    }


def of_machine(
    plan: Plan, machine: Machine, layout: Layout, brought: Server | None
) -> dict[str, Any]:
    """Variables of a host that follow from its role; {} if it has no servers of the stack."""
    home = layout.home(machine.name)
    takes = needs.memory_mib(plan, machine.group)
    memory: dict[str, Any] = {}
    if takes is not None:
        setting = needs.memory_setting(plan, machine.group)
        memory = {"preflight_memory_mib": takes, "preflight_memory_setting": setting}
    if machine.group == "storage":
        places = {"nodetool": f"{home}/bin/nodetool", "keyspaces_dir": f"{home}/data/data"}
        if plan.engine == "scylla" and brought is None:
            places = _PACKAGE | _nodetool_by_rest(plan, home)
        return {
            "home": home,
            "pki_host_dir": f"{home}/pki",
            "rack": "rack1",
            "native_transport_port": ports.NATIVE_TRANSPORT_PORT,
            "storage_port": ports.STORAGE_PORT,
            # ScyllaDB has its metrics there itself, Cassandra by an agent where it is watched.
            "prometheus_address": machine.address,
            "prometheus_port": ports.PROMETHEUS_PORT,
            **places,
            **(_UNITS[plan.engine] if layout.managed else {}),
            **_listens(plan, machine, layout),
            **memory,
        }
    if machine.group == "kairosdb":
        return {
            "home": home,
            "pki_host_dir": f"{home}/pki",
            "http_port": ports.HTTP_PORT,
            "telnet_port": ports.TELNET_PORT,
            **({"unit": "kairosdb", "run_as": "kairosdb"} if layout.managed else {}),
            **memory,
        }
    return {}


def _listens(plan: Plan, machine: Machine, layout: Layout) -> dict[str, Any]:
    """Where an engine's node listens for who looks after it."""
    # None of it has authentication: an address that nobody else reaches.
    own = "127.0.0.1" if layout.managed else machine.address
    if plan.engine == "scylla":
        return scylla_listens(machine.address, own)
    agent = {"jolokia_address": own, "jolokia_port": ports.JOLOKIA_PORT}
    if layout.managed:
        return {"jmx_port": ports.JMX_PORT, **agent}
    net, _, number = machine.address.rpartition(".")
    return {"jmx_port": jmx_port(net, int(number) - 1), **agent}


def jmx_port(net: str, node: int) -> int:
    """JMX port of local storage node `node` (from 0): on 127.0.0.1, whatever its own address.

    `net`: first three octets of the addresses, 127.x.y.
    """
    _, second, third = (int(octet) for octet in net.split("."))
    if (second, third) == (0, 0):
        return ports.JMX_PORT + node
    return 20000 + (second * 256 + third) * 10 % 12000 + node


def scylla_listens(metrics: str, api: str) -> dict[str, Any]:
    """Where a ScyllaDB node has its metrics for Prometheus, and its REST API: addresses."""
    return {
        "prometheus_address": metrics,
        "prometheus_port": ports.PROMETHEUS_PORT,
        "api_address": api,
        "api_port": ports.API_PORT,
    }


def _nodetool_by_rest(plan: Plan, home: str) -> dict[str, str]:
    """The nodetool of a package without one of its own, which role scylla puts there."""
    release = plan.experiment.storage.scylla_version
    return {"nodetool": f"{home}/bin/nodetool"} if nodetool.has_none(plan.engine, release) else {}
