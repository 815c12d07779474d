"""The inventory of hosts of their own (lab, AWS, one's own): what is the same wherever they are.

They run systemd, and Ansible is root there by sudo. Who makes the hosts says how they are reached
(`lab_target`, `aws.hosts`); what is deployed to them is the same.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kairoscope import paths
from kairoscope.deploy import bootstrap, bundles, preflight
from kairoscope.hosts import inventory, secrets
from kairoscope.plan import Plan
from kairoscope.stacks.kairosdb import nodetool
from kairoscope.stacks.kairosdb.scylla_server import Server

INSTALL_DIR = "/opt/kairoscope"
STATE_DIR = "/var/lib/kairoscope"

# systemd unit, user without a login, and folder of the keyspaces' data of a storage node.
_ENGINES = {
    "cassandra": {
        "unit": "cassandra",
        "run_as": "cassandra",
        "nodetool": f"{STATE_DIR}/{{name}}/bin/nodetool",
        "keyspaces_dir": f"{STATE_DIR}/{{name}}/data/data",
    },
    "scylla": {
        "unit": "scylla-server",
        "run_as": "scylla",
        "run_as_home": "/var/lib/scylla",
        "nodetool": "nodetool",
        "keyspaces_dir": "/var/lib/scylla/data",
    },
}
# The same of a ScyllaDB that is no package: what it has is in its own folder.
_OWN_SCYLLA = _ENGINES["cassandra"] | {"unit": "scylla-server", "run_as": "scylla"}


@dataclass(frozen=True)
class Machine:
    """One host: `group` is its role, `way` Ansible's variables to reach it, `more` its others."""

    name: str
    group: str
    address: str
    way: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)


def make(
    plan: Plan,
    machines: Iterable[Machine],
    *,
    cluster_name: str,
    server: Server | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The inventory in Ansible's YAML form.

    Args:
        plan: what is deployed.
        machines: the hosts.
        cluster_name: of the storage nodes.
        server: ScyllaDB of the user's, in place of the package.
        more: variables of all hosts, over the usual ones.
    """
    hosts: dict[str, dict[str, Any]] = {group: {} for group in inventory.GROUPS}
    begun = bootstrap.read(plan.target)
    for machine in machines:
        begin = {}
        if machine.group == "storage":
            begin = bootstrap.of(plan, begun, machine.name, len(hosts["storage"]))
        hosts[machine.group][machine.name] = {
            "address": machine.address,
            **machine.way,
            **_of_role(plan, machine, server),
            **begin,
            **machine.more,
        }
    return {
        "all": {
            "vars": _of_all(plan, server) | {"cluster_name": cluster_name} | more,
            "children": {group: {"hosts": hosts[group]} for group in inventory.GROUPS},
        }
    }


def _of_all(plan: Plan, server: Server | None) -> dict[str, Any]:
    kairosdb, loader = bundles.bundle("kairosdb"), bundles.bundle(bundles.LOADER)
    java = bundles.bundle(bundles.JAVA)
    state = paths.target_dir(plan.target)
    values = {
        "target": plan.target,
        "managed": True,
        "service_manager": "systemd",
        **inventory.jvm_options(plan),
        # TLS and logins between all servers; a password for KairosDB's REST interface too.
        "secured": plan.security["enabled"],
        "rest_auth": plan.security["rest_auth"],
        "secrets_dir": str(secrets.folder(plan.target)),
        "storage_engine": plan.engine,
        "install_dir": INSTALL_DIR,
        "state_dir": STATE_DIR,
        "jvm_overhead_mib": preflight.JVM_OVERHEAD_MIB,
        "scylla_overhead_mib": preflight.SCYLLA_OVERHEAD_MIB,
        "bundles_dir": str(paths.BUNDLES),
        "kairosdb_version": kairosdb.version,
        "kairosdb_bundle_dir": f"{INSTALL_DIR}/{kairosdb.folder}",
        "kairosdb_conf_dir": str(paths.KAIROSDB_CONF),
        "kairosdb_keyspace": "kairosdb",
        "java_version": java.version,
        "java_bundle_dir": f"{INSTALL_DIR}/{java.folder}",
        "java": f"{INSTALL_DIR}/{java.folder}/bin/java",
        "loader_version": loader.version,
        "python": "/usr/bin/python3",
        # Named, so that Ansible need not look for one on every host in every run.
        "ansible_python_interpreter": "/usr/bin/python3",
        "kairoscope": str(Path(sys.executable).parent / "kairoscope"),
        "plan_file": str(state / "plan.json"),
    }
    if plan.engine == "cassandra":
        cassandra = bundles.bundle("cassandra")
        values |= {
            "cassandra_version": cassandra.version,
            "cassandra_bundle_dir": f"{INSTALL_DIR}/{cassandra.folder}",
        }
    elif server:
        bundle = bundles.pack(
            "scylla", server.release, server.folder, server.parts, paths.target_dir(plan.target)
        )
        folder = Path(INSTALL_DIR, bundle.folder)
        values |= {
            "scylla_bundle": str(bundle.archive),
            "scylla_bundle_dir": str(folder),
            **inventory.own_scylla(server, folder),
        }
    else:
        values |= {
            "scylla_version": plan.experiment.storage.scylla_version,
            "scylla_rest_program": str(inventory.SCYLLA_REST_PROGRAM),
            # Each node joins the ones before it; Cassandra's have tokens given, and need not.
            "storage_serial": 1,
        }
    return values


def _nodetool_by_rest(plan: Plan, home: str) -> dict[str, str]:
    """The nodetool of a package without one of its own, which role scylla puts there."""
    release = plan.experiment.storage.scylla_version
    return {"nodetool": f"{home}/bin/nodetool"} if nodetool.has_none(plan.engine, release) else {}


def _of_role(plan: Plan, machine: Machine, server: Server | None) -> dict[str, Any]:
    """Variables that follow from a host's role."""
    home = f"{STATE_DIR}/{machine.name}"
    if machine.group == "storage":
        places = _OWN_SCYLLA if server else _ENGINES[plan.engine]
        scylla = plan.engine == "scylla"
        return {
            "home": home,
            "pki_host_dir": f"{home}/pki",
            "rack": "rack1",
            "native_transport_port": inventory.NATIVE_TRANSPORT_PORT,
            "storage_port": inventory.STORAGE_PORT,
            "jmx_port": inventory.JMX_PORT,
            **{key: text.format(name=machine.name) for key, text in places.items()},
            **({} if server else _nodetool_by_rest(plan, home)),
            **(inventory.scylla_listens(machine.address, "127.0.0.1") if scylla else {}),
        }
    if machine.group == "kairosdb":
        return {
            "home": home,
            "unit": "kairosdb",
            "run_as": "kairosdb",
            "pki_host_dir": f"{home}/pki",
            "http_port": inventory.HTTP_PORT,
            "telnet_port": inventory.TELNET_PORT,
        }
    if machine.group == "loader":
        # All of it belongs to the login, as a load is led over it.
        own = f"/home/{machine.way['ansible_user']}/kairoscope"
        if machine.way["ansible_user"] == "root":
            own = "/root/kairoscope"
        folder = bundles.bundle(bundles.LOADER).folder
        return {
            "home": f"{own}/{machine.name}",
            "loader_bundle_dir": f"{own}/{folder}",
            "loader_venv": f"{own}/{folder}/venv",
        }
    return {}
