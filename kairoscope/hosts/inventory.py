"""The inventory: where things run. For `local` it is made here, from the plan's counts.

Other targets bring their own (Terraform's outputs, a file of one's own, which Ansible reads). What
a deploy works with is written by `write` and is as plain as `read` needs it: variables of all hosts
and of each, no others.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kairoscope import paths
from kairoscope.deploy import bundles
from kairoscope.errors import UserError
from kairoscope.hosts import secrets
from kairoscope.hosts.java import java17
from kairoscope.stacks.kairosdb import scylla_rest

if TYPE_CHECKING:  # It takes a while to load, and roles read inventories often.
    from kairoscope.plan import Plan
    from kairoscope.stacks.kairosdb.scylla_server import Server

# Tokens for each storage node. 16 spread the load evenly enough and keep repair and bootstrap cheap
# (Cassandra's own default since 4.0).
TOKENS_PER_NODE = 16
NATIVE_TRANSPORT_PORT = 9042
STORAGE_PORT = 7000
HTTP_PORT = 8080
JMX_PORT = 7199
TELNET_PORT = 4242
# ScyllaDB's: between nodes by TLS, CQL by which a client picks the shard, metrics, REST API.
STORAGE_TLS_PORT = 7001
SHARD_AWARE_PORT = 19042
PROMETHEUS_PORT = 9180
API_PORT = 10000
GROUPS = ("storage", "kairosdb", "loader", "monitoring")


@dataclass(frozen=True)
class Host:
    """One host (or local instance) with its inventory variables."""

    name: str
    role: str
    vars: dict[str, Any]

    @property
    def address(self) -> str:
        """IP address, of a loader host only to tell it by; servers listen on theirs."""
        return str(self.vars["address"])

    @property
    def known_as(self) -> list[str]:
        """What clients may ask for: its address, and names such as a load balancer's."""
        return [self.address, *map(str, self.vars.get("certificate_names", []))]

    @property
    def home(self) -> Path:
        return Path(self.vars["home"])

    @property
    def scheme(self) -> str:
        """Of a KairosDB node's REST interface: https where the target is secured."""
        return "https" if self.vars.get("secured") else "http"

    @property
    def url(self) -> str:
        """Base URL of a KairosDB node's REST interface, as the other hosts reach it."""
        return f"{self.scheme}://{self.address}:{self.vars['http_port']}"


@dataclass(frozen=True)
class Inventory:
    """The hosts of a target, by role, in the order of their numbers."""

    path: Path
    storage: list[Host]
    kairosdb: list[Host]
    loader: list[Host]
    monitoring: list[Host] = field(default_factory=list)

    @property
    def hosts(self) -> list[Host]:
        """All hosts with servers, which run all the time: not the loader hosts."""
        return [*self.storage, *self.kairosdb]

    @property
    def all(self) -> list[Host]:
        return [*self.storage, *self.kairosdb, *self.loader, *self.monitoring]

    @property
    def managed(self) -> bool:
        """Whether they are hosts of their own, with systemd, and not processes of this machine."""
        return bool(self.storage[0].vars.get("managed"))

    def host(self, name: str) -> Host:
        """The host of that name. UserError if there is none."""
        for host in self.all:
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.all)
        raise UserError(f"{self.path} has no host {name}. It has: {known}")


def initial_tokens(node: int, nodes: int, per_node: int = TOKENS_PER_NODE) -> list[str]:
    """Tokens of one node of a fresh cluster: the ring cut evenly, dealt to the nodes in turn.

    Neighbouring ranges belong to different nodes, so that each node's share, and that of its
    replicas, is even. `node` counts from 0.
    """
    total = nodes * per_node
    return [str(-(2**63) + (2**64 * (k * nodes + node)) // total) for k in range(per_node)]


def local_net() -> str:
    """First three octets of the local target's addresses (`KAIROSCOPE_LOCAL_NET`)."""
    net = os.environ.get("KAIROSCOPE_LOCAL_NET", "127.0.0")
    octets = net.split(".")
    if not (re.fullmatch(r"127\.\d{1,3}\.\d{1,3}", net) and all(int(o) <= 255 for o in octets)):
        raise UserError(
            f"KAIROSCOPE_LOCAL_NET={net}: give the first three octets of a loopback network, "
            "e.g. 127.0.7"
        )
    return net


def jmx_port(net: str, node: int) -> int:
    """JMX port of local storage node `node` (from 0): on 127.0.0.1, whatever its own address."""
    _, second, third = (int(octet) for octet in net.split("."))
    if (second, third) == (0, 0):
        return JMX_PORT + node
    return 20000 + (second * 256 + third) * 10 % 12000 + node


def jvm_options(plan: Plan, *more: str) -> dict[str, list[str]]:
    """Variables of the Java servers: the experiment's choice of compilers, and `more` options."""
    quick = plan.setting("cluster.jvm").value == "quick"
    options = [*(["-XX:TieredStopAtLevel=1"] if quick else []), *more]
    return {"cassandra_jvm_options": options, "kairosdb_jvm_options": options}


# Cassandra looks at the clock every 2 ms for what needs no exact time, such as which message is too
# old: half of an idle node's CPU. Its timeouts are seconds, so every 20 ms does.
ROUGH_CLOCK = "-Dcassandra.approximate_time_precision_ms=20"


SCYLLA_REST_PROGRAM = Path(scylla_rest.__file__)
"""What stands in for nodetool where a release of ScyllaDB has none."""

# Connections of one ScyllaDB shard that can be waited for at once, each in a slot of the kernel's
# asynchronous I/O (fs.aio-max-nr), of which a machine has 65,536 unless told otherwise. With
# ScyllaDB's own 50,000 (main.cc) one node would take nearly all of them.
SCYLLA_CONNECTIONS = 1_000


_SCYLLA_SETTINGS = {"developer_mode": True}

# Ten rounds of gossip; ScyllaDB's own 30,000 twice for each node were most of a deploy's time.
SCYLLA_RING_DELAY_MS = 10_000


def of_shared_cores(plan: Plan) -> dict[str, Any]:
    """Variables where several servers share few cores: no work for handing work around."""
    if plan.engine == "scylla":
        return jvm_options(plan, "-XX:+UseSerialGC") | _scylla_of_shared_cores(plan)
    options = jvm_options(plan, "-XX:+UseSerialGC")
    return {
        **options,
        "cassandra_jvm_options": [*options["cassandra_jvm_options"], ROUGH_CLOCK],
        "cassandra_stage_threads": 4,
    }


def _scylla_of_shared_cores(plan: Plan) -> dict[str, Any]:
    """ScyllaDB takes a whole, tuned host unless told otherwise."""
    arguments = [
        *("--smp", plan.storage["shards"], "--memory", f"{plan.storage['memory_mb']}M"),
        # It neither polls nor stays on its core when there is nothing to do.
        "--overprovisioned",
        *("--max-networking-io-control-blocks", SCYLLA_CONNECTIONS),
        *("--log-to-syslog", 0, "--log-to-stdout", 1, "--default-log-level", "info"),
    ]
    return {
        "scylla_arguments": " ".join(map(str, arguments)),
        "scylla_settings": _SCYLLA_SETTINGS,
    }


def own_scylla(server: Server, folder: Path) -> dict[str, Any]:
    """Variables of a ScyllaDB server of the user's, whose files are in a folder."""
    return {
        "scylla_from": "folder",
        "scylla_version": server.release,
        "scylla_command": shlex.join(server.command_at(folder)),
        "scylla_rest_program": str(SCYLLA_REST_PROGRAM),
        # Each node joins the ones before it; Cassandra's have tokens given, and need not.
        "storage_serial": 1,
    }


def local(plan: Plan, server: Server | None = None) -> dict[str, Any]:
    """The inventory of the `local` target: processes on loopback addresses, no root.

    `server`: where the plan stores in ScyllaDB.
    """
    net = local_net()
    state = paths.target_dir("local")
    nodes = plan.experiment.cluster.storage_nodes
    kairosdb = bundles.bundle("kairosdb")
    loader = bundles.bundle(bundles.LOADER)
    storage_hosts = {
        f"storage-{i + 1}": {
            "address": f"{net}.{i + 1}",
            "native_transport_port": NATIVE_TRANSPORT_PORT,
            "storage_port": STORAGE_PORT,
            "rack": "rack1",
            "pki_host_dir": str(state / f"storage-{i + 1}" / "pki"),
            "home": str(state / f"storage-{i + 1}"),
            "nodetool": str(state / f"storage-{i + 1}" / "bin" / "nodetool"),
            "keyspaces_dir": str(state / f"storage-{i + 1}" / "data" / "data"),
            **_local_engine_of(plan, net, i),
        }
        for i in range(nodes)
    }
    kairosdb_hosts = {
        f"kairosdb-{i + 1}": {
            "address": f"{net}.{i + 1}",
            "http_port": HTTP_PORT,
            "telnet_port": TELNET_PORT,
            "pki_host_dir": str(state / f"kairosdb-{i + 1}" / "pki"),
            "home": str(state / f"kairosdb-{i + 1}"),
        }
        for i in range(plan.experiment.cluster.kairosdb_nodes)
    }
    loader_hosts = {
        f"loader-{i + 1}": {"address": f"{net}.{i + 1}", "home": str(state / f"loader-{i + 1}")}
        for i in range(plan.experiment.cluster.loader_hosts)
    }
    return {
        "all": {
            "vars": {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "target": "local",
                "managed": False,
                "secrets_dir": str(secrets.folder("local")),
                "secured": plan.security["enabled"],
                "rest_auth": plan.security["rest_auth"],
                "cluster_name": f"kairoscope {net}",
                "storage_engine": plan.engine,
                "service_manager": "supervisor",
                **of_shared_cores(plan),
                # Flush and compaction of all nodes at once would take KairosDB's CPU; what they
                # delay waits in its queue.
                f"{plan.engine}_nice": 10,
                **_local_engine(state, server),
                "supervisor_dir": str(state / "supervisor"),
                "supervisor_bin": str(Path(sys.executable).parent),
                "supervisorctl": [
                    str(Path(sys.executable).parent / "supervisorctl"),
                    "-c",
                    str(state / "supervisor" / "supervisord.conf"),
                ],
                "bundles_dir": str(paths.BUNDLES),
                "kairosdb_version": kairosdb.version,
                "kairosdb_bundle_dir": str(state / "opt" / kairosdb.folder),
                "kairosdb_conf_dir": str(paths.KAIROSDB_CONF),
                "kairosdb_keyspace": "kairosdb",
                "kairoscope": str(Path(sys.executable).parent / "kairoscope"),
                "loader_version": loader.version,
                "loader_bundle_dir": str(state / "opt" / loader.folder),
                "loader_venv": str(state / "opt" / loader.folder / "venv"),
                "java": java17(),
                "python": sys.executable,
                "plan_file": str(state / "plan.json"),
            },
            "children": {
                "supervisor_host": {"hosts": {"control": {}}},
                "storage": {"hosts": storage_hosts},
                "kairosdb": {"hosts": kairosdb_hosts},
                "loader": {"hosts": loader_hosts},
            },
        }
    }


def _local_engine(state: Path, server: Server | None) -> dict[str, Any]:
    """What the engine has for all nodes; ScyllaDB's is read where the user has it."""
    if server:
        found = own_scylla(server, server.folder)
        # Only here, where all join before there is data, and no node is ever added: the two waits
        # of a join, for what others write to be sent to it as well, are for nothing.
        found["scylla_settings"] = {**_SCYLLA_SETTINGS, "ring_delay_ms": SCYLLA_RING_DELAY_MS}
        return found
    cassandra = bundles.bundle("cassandra")
    return {
        "cassandra_version": cassandra.version,
        "cassandra_bundle_dir": str(state / "opt" / cassandra.folder),
    }


def _local_engine_of(plan: Plan, net: str, node: int) -> dict[str, Any]:
    """What the engine has for one node, by its number from 0."""
    if plan.engine == "scylla":
        return scylla_listens(f"{net}.{node + 1}", f"{net}.{node + 1}")
    return {
        "jmx_port": jmx_port(net, node),
        "initial_tokens": initial_tokens(node, plan.experiment.cluster.storage_nodes),
    }


def scylla_listens(metrics: str, api: str) -> dict[str, Any]:
    """Where a ScyllaDB node has its metrics for Prometheus, and its REST API.

    The API has no authentication: an address that nobody else reaches.
    """
    return {
        "prometheus_address": metrics,
        "prometheus_port": PROMETHEUS_PORT,
        "api_address": api,
        "api_port": API_PORT,
    }


def write_local(plan: Plan, server: Server | None = None) -> Path:
    """Write the local target's inventory beside its plan; returns its path."""
    path = paths.target_dir("local") / "inventory.yml"
    write(path, local(plan, server), "from the plan")
    return path


def write(path: Path, data: dict[str, Any], origin: str) -> None:
    """Write an inventory, which says where it comes from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"# Made by `kairoscope deploy` {origin}; changes are overwritten.\n"
    path.write_text(text + yaml.safe_dump(data, sort_keys=False))


def load(target: str) -> Inventory:
    """Read the deployed target's inventory. UserError if there is none."""
    path = paths.target_dir(target) / "inventory.yml"
    if not path.exists():
        raise UserError(f"Target {target} is not deployed (no {path}). First: make deploy")
    return read(path)


def read(path: Path) -> Inventory:
    """Read an inventory that `write` wrote, as Ansible understands it. UserError if it is none."""
    try:
        everything = yaml.load(path.read_text(), yaml.CSafeLoader)["all"]
        groups = everything["children"]
        return Inventory(
            path,
            *(
                [
                    Host(name, group, {**everything["vars"], **(of_host or {})})
                    for name, of_host in groups.get(group, {}).get("hosts", {}).items()
                ]
                for group in GROUPS
            ),
        )
    except (OSError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: not an inventory that a deploy wrote: {error!r}") from error


def read_own(path: Path) -> Inventory:
    """Read an inventory of any kind, by Ansible. UserError if it is none."""
    tool = Path(sys.executable).parent / "ansible-inventory"
    done = subprocess.run(
        [str(tool), "-i", str(path), "--list"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise UserError(f"{path}: not a readable inventory:\n{done.stderr}")
    listing = json.loads(done.stdout)
    hostvars = listing["_meta"]["hostvars"]

    def hosts(group: str) -> list[Host]:
        names = listing.get(group, {}).get("hosts", [])
        return [Host(name, group, hostvars[name]) for name in names]

    return Inventory(path, *(hosts(group) for group in GROUPS))
